#!/usr/bin/env python3
"""Samples/s of PyTorch on the CPU for the networks that Starling also has: identical layers, optimizer and batch.

usage: torch_speed.py mlp|lenet BATCH THREADS STEPS
Prints one number, samples/s at the median step. Synthetic data; lenet in channels-last memory order, which is faster there.
"""
import statistics
import sys
import time

import torch
from torch import nn

model, batch, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(threads)
torch.manual_seed(1)
images, labels = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
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
else:
    sys.exit(f"unknown model {model}: mlp or lenet")
criterion = nn.CrossEntropyLoss()
seconds = []
for step in range(3 + steps):
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    criterion(network(images), labels).backward()
    optimizer.step()
    if step >= 3:
        seconds.append(time.perf_counter() - start)
print(f"{batch / statistics.median(seconds):.1f}")
