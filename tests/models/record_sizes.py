#!/usr/bin/env python3
"""Records small networks of odd sizes as transformers and torchvision write them, for tests/tools/files/published.c: random weights in
single precision; and, computed from them in double precision: logits (rounded), the gradients of a first training step, and the losses of ten
steps of SGD with momentum 0.9. Of a gradient are recorded its sum of squares and its product with a fixed vector.

The weights of all networks come from one stream of random numbers: new ones go to the end.

usage: record_sizes.py FOLDER   (tests/models/sizes; needs torch, torchvision, transformers, safetensors)
"""
import math
import os
import shutil
import sys

import numpy as np
import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file

transformers.logging.set_verbosity_error()
torch.manual_seed(2)
BATCH, STEPS = 4, 10


def words(n, stream):
    """Words 0 to n - 1 of a stream, the same as word() in published.c."""
    with np.errstate(over="ignore"):
        h = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(stream * 40503 + 1)
        h ^= h >> np.uint32(15)
        h *= np.uint32(2246822519)
        h ^= h >> np.uint32(13)
        h *= np.uint32(3266489917)
        return h ^ h >> np.uint32(16)


def spread(model):
    """Weights for which each head, position and bias counts."""
    tables = ("wte", "wpe", "token", "embeddings.", "pos_embedding")
    for name, p in model.named_parameters():
        inputs = p.shape[0] if ".c_" in name else p[0].numel()  # Conv1D holds the transpose
        if p.ndim == 1:
            torch.nn.init.normal_(p, mean=float(p.data.mean()), std=0.1)
        elif any(t in name for t in tables) and "projection" not in name:
            torch.nn.init.normal_(p, std=0.3)
        else:
            torch.nn.init.normal_(p, std=math.sqrt((2 if p.ndim == 4 else 1) / inputs))
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            torch.nn.init.normal_(buffer, std=0.1)
        if name.endswith("running_var"):
            torch.nn.init.uniform_(buffer, 0.5, 2)
    for m in model.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
    return model.eval()


def logits_of(model, inputs):
    out = model(inputs)
    return getattr(out, "logits", out)


def record(name, library, model, samples, inputs, labels, rate):
    path = os.path.join(sys.argv[1], name)
    shutil.rmtree(path, ignore_errors=True)
    if library == "hf":
        model.save_pretrained(path)
        if os.path.exists(path + "/generation_config.json"):
            os.remove(path + "/generation_config.json")
    else:
        os.makedirs(path)
        save_file({k: v.contiguous() for k, v in model.state_dict().items()}, path + "/model.safetensors")
    saved = load_file(path + "/model.safetensors")  # whose names may be older than those of the modules
    names = {k: next(n for n, t in saved.items() if t.shape == p.shape and torch.equal(t, p)) for k, p in model.named_parameters()}
    model = model.double()
    if inputs.is_floating_point():
        inputs = inputs.double()
    recorded = {"samples": samples.contiguous(), "labels": labels.to(torch.int32), "rate": torch.tensor([rate], dtype=torch.float64)}
    with torch.no_grad():
        recorded["logits"] = logits_of(model, inputs).float().contiguous()
    model.train()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9), []
    for step in range(STEPS):
        out = logits_of(model, inputs)
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), labels.reshape(-1).long())
        optimizer.zero_grad()
        loss.backward()
        for key, p in model.named_parameters() if step == 0 else ():
            if p.grad is None:  # not used
                continue
            g = p.grad.numpy().ravel()
            fixed = (words(g.size, 1) >> np.uint32(8)) * 2.0**-23 - 1
            recorded["gradient." + names[key]] = torch.tensor([float(g @ g), float(g @ fixed)], dtype=torch.float64)
        optimizer.step()
        losses.append(float(loss.detach()))
    recorded["losses"] = torch.tensor(losses, dtype=torch.float64)
    save_file(recorded, path + ".safetensors")
    print(name, sum(p.numel() for p in model.parameters()), [f"{x:.4f}" for x in losses])


# Token 0 is BERT's padding, whose embedding PyTorch does not train.
def text(name, model, vocabulary, length):
    windows = torch.randint(1, vocabulary, (BATCH, length + 1))
    record(name, "hf", spread(model), windows.to(torch.int32), windows[:, :-1], windows[:, 1:].contiguous(), 0.01)


def images(name, library, model, height, width, classes, mean, deviation, rate):
    x = torch.randint(0, 256, (BATCH, height, width, 3))
    shape = (1, -1, 1, 1)
    inputs = (x.permute(0, 3, 1, 2) / 255 - torch.tensor(mean).reshape(shape)) / torch.tensor(deviation).reshape(shape)
    record(name, library, spread(model), x.to(torch.uint8), inputs, torch.randint(0, classes, (BATCH,)), rate)


class Narrow(torchvision.models.ResNet):
    """A ResNet whose blocks have a 24th of the channels: 2, 5, 10 and 21."""

    def _make_layer(self, block, planes, *arguments, **named):
        return super()._make_layer(block, planes // 24, *arguments, **named)


def narrow(block, blocks, classes, channels):
    model = Narrow(block, blocks)
    model.fc = torch.nn.Linear(channels, classes)
    return model


HALF, IMAGENET = ([0.5], [0.5]), ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
text("gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
    vocab_size=101, n_positions=37, n_embd=72, n_layer=1, n_head=3, n_inner=50, bos_token_id=0, eos_token_id=0)), 101, 31)
text("bert", transformers.BertForMaskedLM(transformers.BertConfig(
    vocab_size=101, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50, max_position_embeddings=37)), 101, 33)
images("vit", "hf", transformers.ViTForImageClassification(transformers.ViTConfig(
    image_size=(33, 29), patch_size=4, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=38, num_labels=7)), 33, 29, 7, *HALF, 0.01)
images("deit", "hf", transformers.DeiTForImageClassification(transformers.DeiTConfig(
    image_size=(33, 29), patch_size=5, hidden_size=20, num_hidden_layers=2, num_attention_heads=5, intermediate_size=46, num_labels=5)), 33, 29, 5, *HALF, 0.01)
images("vit-torchvision", "torchvision", torchvision.models.VisionTransformer(
    image_size=30, patch_size=6, num_layers=1, num_heads=3, hidden_dim=24, mlp_dim=34, num_classes=9), 30, 30, 9, *IMAGENET, 0.01)
images("resnet-torchvision", "torchvision", narrow(
    torchvision.models.resnet.BasicBlock, [1, 2, 1, 1], 5, 21), 33, 29, 5, *IMAGENET, 0.001)
images("bottleneck-torchvision", "torchvision", narrow(
    torchvision.models.resnet.Bottleneck, [1, 1, 2, 1], 6, 84), 33, 29, 6, *IMAGENET, 0.001)
images("resnet", "hf", transformers.ResNetForImageClassification(transformers.ResNetConfig(
    embedding_size=6, hidden_sizes=[6, 10, 14], depths=[1, 2, 1], layer_type="basic", num_labels=4)), 33, 29, 4, *HALF, 0.001)

# Settings beside sizes: untied heads, no biases, other activations, other strides.
text("gpt2-untied", transformers.GPT2LMHeadModel(transformers.GPT2Config(
    vocab_size=61, n_positions=29, n_embd=30, n_layer=2, n_head=3, activation_function="gelu", layer_norm_epsilon=1e-3, tie_word_embeddings=False,
    bos_token_id=0, eos_token_id=0)), 61, 23)
text("bert-untied", transformers.BertForMaskedLM(transformers.BertConfig(
    vocab_size=59, hidden_size=28, num_hidden_layers=2, num_attention_heads=2, intermediate_size=42, max_position_embeddings=31, hidden_act="gelu_new",
    layer_norm_eps=1e-5, tie_word_embeddings=False)), 59, 25)
images("vit-unbiased", "hf", transformers.ViTForImageClassification(transformers.ViTConfig(
    image_size=(29, 33), patch_size=7, hidden_size=21, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, num_labels=6, qkv_bias=False,
    hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6)), 29, 33, 6, *HALF, 0.01)
images("deit-unbiased", "hf", transformers.DeiTForImageClassification(transformers.DeiTConfig(
    image_size=(33, 29), patch_size=6, hidden_size=18, num_hidden_layers=2, num_attention_heads=3, intermediate_size=31, num_labels=5, qkv_bias=False,
    hidden_act="linear")), 33, 29, 5, *HALF, 0.01)
images("resnet-first", "hf", transformers.ResNetForImageClassification(transformers.ResNetConfig(
    embedding_size=6, hidden_sizes=[7, 10], depths=[1, 2], layer_type="basic", num_labels=4, downsample_in_first_stage=True, hidden_act="gelu")), 49, 45, 4, *HALF, 0.001)
images("resnet-early", "hf", transformers.ResNetForImageClassification(transformers.ResNetConfig(
    embedding_size=6, hidden_sizes=[12, 20], depths=[2, 1], layer_type="bottleneck", num_labels=5, downsample_in_first_stage=True,
    downsample_in_bottleneck=True)), 49, 45, 5, *HALF, 0.001)
images("resnet-linear", "hf", transformers.ResNetForImageClassification(transformers.ResNetConfig(
    embedding_size=5, hidden_sizes=[5, 9], depths=[1, 1], layer_type="basic", num_labels=3, downsample_in_bottleneck=True, hidden_act="linear")), 33, 29, 3, *HALF, 0.001)
