#!/usr/bin/env python3
"""Samples/s of PyTorch on the CPU for the networks that Starling also has: identical layers, optimizer and batch.

usage: torch_speed.py mlp|lenet|gpt2-nano|gpt2 BATCH THREADS STEPS [LENGTH]
Prints one number, samples/s at the median step. Synthetic data; lenet in channels-last memory order, which is faster there.
"""
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

model, batch, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(threads)
torch.manual_seed(1)
length = int(sys.argv[5]) if len(sys.argv) > 5 else 0


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            score = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            y = score.masked_fill(future, float("-inf")).softmax(3) @ v
        return self.proj(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary, width, layers, heads, positions):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight).flatten(0, 1)


images, labels = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
clip = 0
if model == "mlp":
    sizes = (784, 1024, 1024, 10)
    layers = [nn.Flatten()]
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
elif model == "lenet":
    network = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))
    network = network.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
elif model in ("gpt2-nano", "gpt2"):
    vocabulary = 256 if model == "gpt2-nano" else 50257
    length = length or (256 if model == "gpt2-nano" else 64)
    network = GPT(256, 384, 6, 6, 256) if model == "gpt2-nano" else GPT(50257, 768, 12, 12, 1024)
    images = torch.randint(vocabulary, (batch, length))
    labels = torch.randint(vocabulary, (batch * length,))
    optimizer = torch.optim.AdamW(network.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    clip = 1
else:
    sys.exit(f"unknown model {model}: mlp, lenet, gpt2-nano or gpt2")
criterion = nn.CrossEntropyLoss()
seconds = []
for step in range(3 + steps):
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    criterion(network(images), labels).backward()
    if clip:
        nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()
    if step >= 3:
        seconds.append(time.perf_counter() - start)
print(f"{batch / statistics.median(seconds):.1f}")
