#!/usr/bin/env python3
"""Samples/s of PyTorch for the networks that Starling also has: identical layers, optimizer and batch.

usage: torch_speed.py MODEL BATCH THREADS STEPS [--length T] [--compile] [--device cpu|cuda] [--bf16]
MODEL: mlp, lenet, gpt2-nano, gpt2, bert-base, vit-b16 or resnet50. Prints samples/s at the median step, and the peak memory of the process in MB.
--bf16: forward pass under autocast. Synthetic data; networks of convolutions in channels-last memory order, which is faster there.
"""
import argparse
import resource
import statistics
import time

import torch
from torch import nn

import torch_models

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("batch", type=int)
parser.add_argument("threads", type=int)
parser.add_argument("steps", type=int)
parser.add_argument("--length", type=int, default=0)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--device", default="cpu")  # cuda: in fp32, no TF32
parser.add_argument("--bf16", action="store_true")
a = parser.parse_args()
torch.set_num_threads(a.threads)
torch.manual_seed(1)

# model: (network, optimizer, vocabulary and length of tokens or 0, bound of the gradients' norm)
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
ADAMW = {"lr": 6e-4, "betas": (0.9, 0.95), "weight_decay": 0.1}
MODELS = {
    "mlp": (torch_models.mlp, {"lr": 1e-3, "weight_decay": 0.01}, 0, 0, 0),
    "lenet": (torch_models.lenet, SGD, 0, 0, 0),
    "gpt2-nano": (torch_models.gpt2_nano, ADAMW, 256, 256, 1),
    "gpt2": (torch_models.gpt2, ADAMW, 50257, 64, 1),
    "bert-base": (torch_models.bert_base, {"lr": 1e-4, "eps": 1e-6, "weight_decay": 0.01}, 30522, 128, 1),
    "vit-b16": (torch_models.vit_b16, {"lr": 3e-4, "weight_decay": 0.1}, 0, 0, 1),
    "resnet50": (torch_models.resnet50, SGD, 0, 0, 0),
}
make, options, vocabulary, length, clip = MODELS[a.model]
network = make()
if vocabulary:
    length = a.length or length
    inputs, labels = torch.randint(vocabulary, (a.batch, length)), torch.randint(vocabulary, (a.batch * length,))
    if a.model == "bert-base":  # of the tokens, 15% are to be restored
        labels[torch.rand(a.batch * length) > 0.15] = -100
else:
    size, classes = ((3, 224, 224), 1000) if a.model in ("vit-b16", "resnet50") else ((1, 28, 28), 10)
    inputs, labels = torch.randn(a.batch, *size), torch.randint(classes, (a.batch,))
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
network, inputs, labels = network.to(a.device), inputs.to(a.device), labels.to(a.device)
if "momentum" in options:
    network, inputs = (x.to(memory_format=torch.channels_last) for x in (network, inputs))
    optimizer = torch.optim.SGD(network.parameters(), **options)
else:
    optimizer = torch.optim.AdamW(network.parameters(), **options)
forward = torch.compile(network) if a.compile else network
criterion = nn.CrossEntropyLoss()
seconds = []
for step in range(3 + a.steps):
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(a.device, torch.bfloat16, enabled=a.bf16):
        loss = criterion(forward(inputs).float(), labels)
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()
    if a.device == "cuda":
        torch.cuda.synchronize()
    if step >= 3:
        seconds.append(time.perf_counter() - start)
print(f"{a.batch / statistics.median(seconds):.2f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
