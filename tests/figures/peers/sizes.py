#!/usr/bin/env python3
"""Ten networks of sizes that no list of Starling's has, with random weights, written by transformers and torchvision. For each:
Starling's logits beside theirs, and the same bits after a way there and back. For those whose batches can be told in advance (all but
BERT, whose masks are random): ten steps of SGD on one batch in both libraries; the ten losses, and the change of every weight, which
is the sum of ten gradients. Prints the largest difference beside its bound.

usage: sizes.py STARLING LOGITS [NAME...]
"""
import copy
import json
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
torch.set_num_threads(2)
STARLING, LOGITS = (os.path.abspath(p) for p in sys.argv[1:3])
random = np.random.default_rng(0)
STEPS, BATCH, RATE = 10, 4, 0.02
BOUND = 2e-3  # of the changes of weights, relative
missed = 0


def verdict(what, worst, bound):
    global missed
    right = worst <= bound
    missed += not right
    print(f"{what:58} target {bound:9.2e} value {worst:9.2e} {'met' if right else 'MISSED'}", flush=True)


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


def starling(*arguments):
    result = subprocess.run([STARLING, *arguments], capture_output=True, text=True)
    if result.returncode:
        print(result.stdout, result.stderr, file=sys.stderr)
        raise SystemExit(f"starling {' '.join(arguments)}: exit code {result.returncode}")


def write_idx(name, array):
    with open(name, "wb") as f:
        f.write(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes())


def normalised(x, mean, deviation):
    shape = (1, -1, 1, 1)
    y = torch.tensor(x).permute(0, 3, 1, 2) / 255
    return (y - torch.tensor(mean).reshape(shape)) / torch.tensor(deviation).reshape(shape)


def facts(path):
    """The description of the model that Starling writes into its files."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    return json.loads(header["__metadata__"]["starling"])


def write(path, to, model):
    """Writes the model as its library does, and returns the file."""
    if to == "hf":
        model.save_pretrained(path)
        return path + "/model.safetensors"
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, path)
    return path


def steps_of(model, inputs, targets, rate):
    """The losses of STEPS steps of SGD."""
    dtype = next(model.parameters()).dtype
    if inputs.is_floating_point():
        inputs = inputs.to(dtype)
    model.train()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=rate), []
    for _ in range(STEPS):
        out = model(inputs)
        out = getattr(out, "logits", out)
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def trained(name, path, back, to, model, inputs, targets, options, rate, original):
    """Ten steps of SGD on the one batch, in both; PyTorch's in double precision."""
    starling("train", name, "--init", path, "--out", "run", "--steps", str(STEPS), "--batch", str(BATCH), "--leaves", "1", "--shards", "1",
             "--optimizer", "sgd", "--momentum", "0", "--decay", "0", "--clip", "0", "--dropout", "0", "--learning-rate", str(rate),
             "--rate-schedule", "constant", "--warmup", "0", "--log-every", "1", "--eval-every", "1000000", "--val-fraction", "0", "--quiet", "--force", *options)
    ours = [line["loss"] for line in map(json.loads, open("run/metrics.jsonl")) if "loss" in line and line.get("split", "train") == "train"][:STEPS]
    if len(ours) != STEPS:
        raise SystemExit(f"{path}: {len(ours)} losses in metrics.jsonl")
    newest = "run/checkpoints/" + sorted(os.listdir("run/checkpoints"))[-1]
    starling("convert", newest, "--to", to, "--out", back + "-trained")
    if not torch.is_tensor(inputs):  # images, which training normalises in its own way
        data = facts("run/model.safetensors")["data"]
        inputs = normalised(inputs, data["mean"], data["deviation"])
    for m in model.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
    # Through batch normalisation and rectifiers, rounding grows from step to step, in PyTorch's floats as in ours: the bound is what
    # PyTorch's floats differ from its doubles, three times, where that is more than the fixed one.
    floats, theirs_float = copy.deepcopy(model), []
    theirs = steps_of(model.double(), inputs, targets, rate)
    theirs_float = steps_of(floats, inputs, targets, rate)
    off = max(abs(a - b) for a, b in zip(theirs_float, theirs))
    verdict(f"{path}: ten losses", max(abs(a - b) for a, b in zip(ours, theirs)), max(1e-4 * max(theirs), 3 * off))
    before, after = load_file(original), load_file(back + "-trained/model.safetensors" if to == "hf" else back + "-trained")
    rounding = STEPS * 1.2e-7 / BOUND  # each step rounds the weight; a key's bias in attention has a gradient of rounding errors only
    wanted, in_floats, worst, allowed, compared = load_file(write(back + "-wanted", to, model)), load_file(write(back + "-floats", to, floats)), 0.0, BOUND, 0
    for k, w in wanted.items():
        if not w.is_floating_point() or "running" in k or torch.equal(w, before[k].double()):
            continue
        change = w.double() - before[k].double()
        scale = change.norm() + rounding * before[k].double().norm()
        worst = max(worst, float((after[k].double() - w.double()).norm() / scale))
        allowed = max(allowed, 3 * float((in_floats[k].double() - w.double()).norm() / scale))
        compared += 1
    verdict(f"{path}: changes of {compared} weights, relative", worst if compared else np.inf, allowed)
    subprocess.run(["rm", "-rf", "run"], check=True)


def check(path, to, model, samples, inputs, length, name, targets, options, sizes=()):
    file = write(path, to, model)
    with torch.no_grad():
        expected = model(inputs)
        expected = getattr(expected, "logits", expected).numpy().ravel()
    samples.tofile("samples")
    starling("convert", path, "--to", "starling", "--out", path + ".sl", *sizes)
    subprocess.run([LOGITS, path + ".sl" if sizes else path, "samples", "logits"] + ([str(length)] if length else []), check=True, stdout=subprocess.DEVNULL)
    got = np.fromfile("logits", np.float32)
    verdict(f"{path}: logits", float(abs(got - expected).max()) if got.shape == expected.shape else np.inf, 1e-4 * float(abs(expected).max()))
    back = path + "-back"
    starling("convert", path + ".sl", "--to", to, "--out", back)
    a, b = load_file(file), load_file(back + "/model.safetensors" if to == "hf" else back)
    differing = [k for k in a if not k.endswith("num_batches_tracked") and (k not in b or not torch.equal(a[k], b[k]))]
    verdict(f"{path}: tensors that come back otherwise, of {len(a)}", len(differing), 0)
    if targets is not None:
        raw = samples if samples.ndim == 4 else inputs
        trained(name, path + ".sl" if sizes else path, back, to, model, raw, targets, options, RATE / 10 if "resnet" in name else RATE, file)


def text(path, model, vocabulary, length, name, masked):
    tokens = random.integers(0, vocabulary, BATCH * length + 1).astype(np.int32)
    rows = np.stack([tokens[i * length : i * length + length] for i in range(BATCH)])
    following = np.stack([tokens[i * length + 1 : i * length + length + 1] for i in range(BATCH)])
    os.makedirs(path + "-data", exist_ok=True)
    options = ["--data", path + "-data", "--length", str(length)]
    if not masked:
        write_tokens(path + "-data/train.bin", tokens)
    check(path, "hf", spread(model), rows, torch.tensor(rows).long(), length, name, None if masked else torch.tensor(following).long(), options)


def write_tokens(name, tokens):
    """A token file (docs/reference/formats.md)."""
    with open(name, "wb") as f:
        header = np.zeros(256, "<i4")
        header[:3] = 20240520, 1, len(tokens)
        f.write(header.tobytes() + tokens.astype("<u2").tobytes())


def images(path, to, model, height, width, classes, mean, deviation, name, *sizes):
    x = random.integers(0, 256, (BATCH, height, width, 3)).astype(np.uint8)
    labels = random.integers(0, classes, BATCH).astype(np.uint8)
    labels[0] = classes - 1
    folder = path + "-data"
    os.makedirs(folder, exist_ok=True)
    write_idx(folder + "/train-images-idx4-ubyte", x)
    write_idx(folder + "/train-labels-idx1-ubyte", labels)
    with open(folder + "/labels.txt", "w") as f:
        f.write("".join(f"class {k}\n" for k in range(classes)))
    check(path, to, spread(model), x, normalised(x, mean, deviation), 0, name, torch.tensor(labels).long(), ["--data", folder], sizes)


def gpt2_72():
    text("gpt2-72", transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=101, n_positions=37, n_embd=72, n_layer=2, n_head=3)), 101, 31, "gpt2", False)


def gpt2_inner():
    text("gpt2-inner", transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=59, n_positions=50, n_embd=40, n_layer=3, n_head=5, n_inner=100)), 59, 29, "gpt2", False)


def bert_384():
    text("bert-384", transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=1001, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1000)), 1001, 21, "bert-base", True)


def bert_36():
    text("bert-36", transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=101, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50, max_position_embeddings=37)), 101, 33, "bert-base", True)


def vit_33x29():
    images("vit-33x29", "hf", transformers.ViTForImageClassification(transformers.ViTConfig(image_size=(33, 29), patch_size=4, hidden_size=72, num_hidden_layers=2, num_attention_heads=3, intermediate_size=100, num_labels=7)), 33, 29, 7, [0.5], [0.5], "vit-b16")


def deit_33x29():
    images("deit-33x29", "hf", transformers.DeiTForImageClassification(transformers.DeiTConfig(image_size=(33, 29), patch_size=5, hidden_size=40, num_hidden_layers=3, num_attention_heads=5, intermediate_size=90, num_labels=5)), 33, 29, 5, [0.5], [0.5], "vit-b16")


def vit_torchvision():
    model = torchvision.models.VisionTransformer(image_size=36, patch_size=6, num_layers=2, num_heads=3, hidden_dim=48, mlp_dim=70, num_classes=9)
    torch.nn.init.normal_(model.heads.head.weight, std=0.1)
    images("vit-torchvision", "torchvision", model, 36, 36, 9, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225], "vit-b16", "--size", "heads=3")


def resnet_basic():
    from torchvision.models.resnet import BasicBlock, ResNet
    images("resnet-basic", "torchvision", ResNet(BasicBlock, [1, 2, 1, 3], num_classes=5), 224, 224, 5, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225], "resnet18")


def resnet_bottleneck():
    from torchvision.models.resnet import Bottleneck, ResNet
    images("resnet-bottleneck", "torchvision", ResNet(Bottleneck, [1, 1, 2, 1], num_classes=6), 224, 224, 6, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225], "resnet50")


def resnet_hf():
    config = transformers.ResNetConfig(embedding_size=24, hidden_sizes=[24, 48, 96, 192], depths=[1, 2, 1, 1], layer_type="basic", num_labels=4)
    images("resnet-hf", "hf", transformers.ResNetForImageClassification(config), 224, 224, 4, [0.5], [0.5], "resnet18")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for name in sys.argv[3:] or ("gpt2_72", "gpt2_inner", "bert_384", "bert_36", "vit_33x29", "deit_33x29", "vit_torchvision", "resnet_basic", "resnet_bottleneck", "resnet_hf"):
        try:
            globals()[name]()
        except (SystemExit, Exception) as error:  # the others are tried all the same
            missed += 1
            print(f"{name}: {error}", flush=True)
sys.exit(missed > 0)
