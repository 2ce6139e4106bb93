#!/usr/bin/env python3
"""Networks of random weights written by transformers and torchvision and read by Starling, and converted back; Starling's own, after
a few steps of training, read there. Prints the largest difference of logits beside the largest logit; fails above 1e-4 of it, or
where a tensor that went both ways has other bits.

usage: interchange.py STARLING LOGITS [NAME...]
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file

transformers.logging.set_verbosity_error()
torch.manual_seed(0)
STARLING, LOGITS = (os.path.abspath(p) for p in sys.argv[1:3])
random = np.random.default_rng(0)
LENGTH = 21
missed = 0


def spread(model):
    """No weight at its first value: biases and normalisations, too."""
    for p in model.parameters():
        if p.ndim == 1:
            torch.nn.init.normal_(p, mean=float(p.data.mean()), std=0.1)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            torch.nn.init.normal_(buffer, std=0.1)
        if name.endswith("running_var"):
            torch.nn.init.uniform_(buffer, 0.5, 2)
    return model.eval()


def text(vocabulary):
    t = random.integers(0, vocabulary, (2, LENGTH)).astype(np.int32)
    return t, torch.tensor(t).long()


def images(size, channels, mean, deviation):
    x = random.integers(0, 256, (2, size, size, channels)).astype(np.uint8)
    shape = (1, -1, 1, 1)
    y = torch.tensor(x).permute(0, 3, 1, 2) / 255
    return x, (y - torch.tensor(mean).reshape(shape)) / torch.tensor(deviation).reshape(shape)


def starling(*arguments):
    subprocess.run([STARLING, *arguments], check=True, stdout=subprocess.DEVNULL)


def logits(path, samples, length=0):
    samples.tofile("samples")
    subprocess.run([LOGITS, path, "samples", "logits"] + ([str(length)] if length else []), check=True, stdout=subprocess.DEVNULL)
    return np.fromfile("logits", np.float32)


def compare(name, got, expected):
    global missed
    expected = expected.numpy().ravel()
    worst, largest = float(abs(got - expected).max()), float(abs(expected).max())
    right = got.shape == expected.shape and worst <= 1e-4 * largest
    missed += not right
    print(f"{name:44} {worst:9.2e} of {largest:.3g}  {'ok' if right else 'MISSED'}", flush=True)


def same_bits(name, a, b):
    global missed
    a, b = load_file(a), load_file(b)
    right = a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a if not k.endswith("num_batches_tracked"))
    missed += not right
    print(f"{name:44} {len(a)} tensors  {'same bits' if right else 'MISSED'}", flush=True)


def transformer(name, model, samples, inputs, length):
    """transformers -> Starling -> transformers."""
    with torch.no_grad():
        expected = model(inputs).logits
    model.save_pretrained(name)
    compare(f"{name}: written by transformers", logits(name, samples, length), expected)
    model.half().save_pretrained(name + "-half", max_shard_size="100MB")
    with torch.no_grad():
        compare(f"{name}: F16, with an index", logits(name + "-half", samples, length), model.float()(inputs).logits)
    starling("convert", name, "--to", "starling", "--out", name + ".sl")
    starling("convert", name + ".sl", "--to", "hf", "--out", name + "-back")
    same_bits(f"{name}: there and back", name + "/model.safetensors", name + "-back/model.safetensors")


def trained(name, kind, samples, inputs, length, *options):
    """Starling -> transformers."""
    starling("train", name, "--steps", "3", "--out", name + "-run", "--quiet", *options)
    starling("convert", name + "-run", "--to", "hf", "--out", name)
    model, loading = kind.from_pretrained(name, output_loading_info=True)
    assert not any(loading.values()), loading
    with torch.no_grad():
        compare(f"{name}: trained by Starling", logits(name + "-run", samples, length), model.eval()(inputs).logits)


def gpt2():
    samples, inputs = text(50257)
    transformer("gpt2", spread(transformers.GPT2LMHeadModel(transformers.GPT2Config())), samples, inputs, LENGTH)
    samples, inputs = text(256)
    trained("gpt2-nano", transformers.GPT2LMHeadModel, samples, inputs, LENGTH, "--data", "text.txt", "--length", "32", "--batch", "4")


def bert():
    samples, inputs = text(30522)
    transformer("bert-base", spread(transformers.BertForMaskedLM(transformers.BertConfig())), samples, inputs, LENGTH)
    samples, inputs = text(257)
    trained("bert-nano", transformers.BertForMaskedLM, samples, inputs, LENGTH, "--data", "text.txt", "--length", "32", "--batch", "4")


def vit():
    samples, inputs = images(224, 3, [0.5], [0.5])
    model = spread(transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=17)))
    transformer("vit-b16", model, samples, inputs, 0)


def resnet():
    for name in ("resnet18", "resnet50"):
        model = spread(getattr(torchvision.models, name)(num_classes=13))
        save_file({k: v.contiguous() for k, v in model.state_dict().items()}, name)
        samples, inputs = images(224, 3, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        with torch.no_grad():
            expected = model(inputs)
        compare(f"{name}: written by torchvision", logits(name, samples), expected)
        starling("convert", name, "--to", "starling", "--out", name + ".sl")
        starling("convert", name + ".sl", "--to", "torchvision", "--out", name + "-back")
        same_bits(f"{name}: there and back", name, name + "-back")
        model.load_state_dict(load_file(name + "-back"))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("text.txt", "w") as f:
        f.write("".join(chr(32 + (i * i * 7 + i) % 90) for i in range(20000)))
    for name in sys.argv[3:] or ("gpt2", "bert", "vit", "resnet"):
        globals()[name]()
sys.exit(missed > 0)
