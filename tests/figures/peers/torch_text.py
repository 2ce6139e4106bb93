#!/usr/bin/env python3
"""Validation loss of gpt2-nano trained by PyTorch on a text, byte by byte: same sizes, initialisation, optimizer, schedule, batches'
size and split as `starling train gpt2-nano --data TEXT`; only the random numbers differ.

usage: torch_text.py TEXT STEPS THREADS RATE [SEED]
Prints steps, seconds of training, and the loss (nats a byte) over all windows of the last tenth of the text.
"""
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import torch_models

text, steps, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
BATCH, LENGTH, RATE = 8, 256, float(sys.argv[4])
torch.set_num_threads(threads)
torch.manual_seed(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
with open(text, "rb") as file:
    data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
border = len(data) - len(data) // 10


def windows(part):
    n = (len(part) - 1) // LENGTH
    return torch.stack([part[i * LENGTH:i * LENGTH + LENGTH + 1] for i in range(n)])


training, validation = windows(data[:border]), windows(data[border:])
network = torch_models.gpt2_nano()
for name, p in network.named_parameters():
    if p.ndim > 1:
        nn.init.normal_(p, std=0.02 / math.sqrt(12) if name.endswith(("proj.weight", "out.weight")) else 0.02)
    elif "ln_" not in name:
        nn.init.zeros_(p)
groups = [{"params": [p for p in network.parameters() if p.ndim > 1], "weight_decay": 0.1},
          {"params": [p for p in network.parameters() if p.ndim == 1], "weight_decay": 0}]
optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95))
warmup = int(0.05 * steps)
start = time.perf_counter()
order = iter(())
for step in range(1, steps + 1):
    rows = []
    while len(rows) < BATCH:
        row = next(order, None)
        if row is None:
            order = iter(torch.randperm(len(training)).tolist())
        else:
            rows.append(row)
    done = (step - 1 - warmup) / (steps - warmup)
    for group in optimizer.param_groups:
        group["lr"] = RATE * (step / warmup if step <= warmup else 0.5 * (1 + math.cos(math.pi * done)))
    batch = training[rows]
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(network(batch[:, :-1]), batch[:, 1:].flatten()).backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1)
    optimizer.step()
seconds = time.perf_counter() - start
with torch.no_grad():
    total = sum(float(F.cross_entropy(network(b[:, :-1]), b[:, 1:].flatten(), reduction="sum")) for b in validation.split(8))
print(f"{steps} {seconds:.1f} {total / (len(validation) * LENGTH):.4f}")
