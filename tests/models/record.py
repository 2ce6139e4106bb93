#!/usr/bin/env python3
"""Records what PyTorch makes of the models in double precision: ten training losses, and of the first step's logits and of each of its
gradients the sum of squares and the product with a fixed vector of pseudo-random numbers. Also how far autocast in bf16 and in fp16 is
from them in the first step. Its output is tests/models/recorded.h; the tests need no PyTorch.

usage: record.py > recorded.h
"""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)
BATCH = 12


def words(n, stream):
    """n 32-bit words, the same as word() in network.c."""
    with np.errstate(over="ignore"):
        h = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(stream) * np.uint32(40503) + np.uint32(1)
        h ^= h >> np.uint32(15)
        h *= np.uint32(2246822519)
        h ^= h >> np.uint32(13)
        h *= np.uint32(3266489917)
        h ^= h >> np.uint32(16)
    return h


def norm(stream, n):
    """The weight of a normalisation: about 1."""
    return 1 + tensor(stream, n)


def tensor(stream, *shape):
    """Uniform in [-a, a), a = 1 / sqrt(elements of a row), exact in float32."""
    n = int(np.prod(shape))
    a = np.float32(1 / np.sqrt(n / shape[0])) if len(shape) > 1 else np.float32(0.05)
    u = (words(n, stream) >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)
    return torch.tensor((u * a).astype(np.float64).reshape(shape))


def against(stream, x):
    """Sum of squares of x, and its product with a fixed vector."""
    u = (words(x.numel(), stream) >> np.uint32(8)).astype(np.float64) * 2.0**-23 - 1
    x = x.detach().reshape(-1)
    return float((x ** 2).sum()), float((x * torch.tensor(u)).sum())


def mlp():
    p = [tensor(0, 1024, 784), tensor(1, 1024), tensor(2, 1024, 1024), tensor(3, 1024), tensor(4, 10, 1024), tensor(5, 10)]

    def forward(x):
        x = x.reshape(BATCH, 784)
        x = F.relu(F.linear(x, p[0], p[1]))
        x = F.relu(F.linear(x, p[2], p[3]))
        return F.linear(x, p[4], p[5])
    return p, forward


def lenet():
    p = [tensor(0, 32, 3, 3, 1), tensor(1, 32), tensor(2, 64, 3, 3, 32), tensor(3, 64), tensor(4, 128, 3136), tensor(5, 128),
         tensor(6, 10, 128), tensor(7, 10)]

    def forward(x):
        x = F.max_pool2d(F.relu(F.conv2d(x, p[0].permute(0, 3, 1, 2), p[1], padding=1)), 2)
        x = F.max_pool2d(F.relu(F.conv2d(x, p[2].permute(0, 3, 1, 2), p[3], padding=1)), 2)
        x = x.permute(0, 2, 3, 1).reshape(BATCH, 3136)
        return F.linear(F.relu(F.linear(x, p[4], p[5])), p[6], p[7])
    return p, forward


LAYERS, HEADS, WIDTH, LENGTH, VOCABULARY, POSITIONS = 2, 2, 32, 13, 37, 16


def gpt():
    p = [tensor(0, VOCABULARY, WIDTH), tensor(1, POSITIONS, WIDTH)]
    for _ in range(LAYERS):
        for kind, *shape in (("norm", WIDTH), ("", 3 * WIDTH, WIDTH), ("", WIDTH, WIDTH), ("norm", WIDTH), ("", 4 * WIDTH, WIDTH),
                             ("", WIDTH, 4 * WIDTH)):
            p.append(norm(len(p), *shape) if kind else tensor(len(p), *shape))
            p.append(tensor(len(p), shape[0]))
    p.append(norm(len(p), WIDTH))
    p.append(tensor(len(p), WIDTH))

    def forward(tokens):
        x = p[0][tokens] + p[1][:LENGTH]
        for block in range(LAYERS):
            w = p[2 + 12 * block:14 + 12 * block]
            y = F.linear(F.layer_norm(x, (WIDTH,), w[0], w[1]), w[2], w[3])
            q, k, v = (t.reshape(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for t in y.split(WIDTH, 2))
            score = q @ k.transpose(2, 3) / np.sqrt(WIDTH / HEADS)
            score = score.masked_fill(torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1), -np.inf)
            y = (score.softmax(3) @ v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
            x = x + F.linear(y, w[4], w[5])
            y = F.linear(F.layer_norm(x, (WIDTH,), w[6], w[7]), w[8], w[9])
            y = 0.5 * y * (1 + torch.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y ** 3)))
            x = x + F.linear(y, w[10], w[11])
        return F.linear(F.layer_norm(x, (WIDTH,), p[-2], p[-1]), p[0])
    return p, forward


def resnet(bottleneck):
    """Stem of 8 channels, two stages of two blocks each; batch normalisation over all samples."""
    p = []

    def bn(channels):
        p.append(norm(len(p), channels))
        p.append(tensor(len(p), channels))
        return p[-2], p[-1]

    def conv_bn(inputs, outputs, kernel):
        p.append(tensor(len(p), outputs, kernel, kernel, inputs))
        return [p[-1], *bn(outputs)]
    stem, blocks, inputs = conv_bn(3, 8, 7), [], 8
    for width, stride in ((8, 1), (8, 1), (16, 2), (16, 1)):
        kernels, outputs = ((1, 3, 1), 4 * width) if bottleneck else ((3, 3), width)
        channels = [inputs] + [width] * (len(kernels) - 1) + [outputs]
        main = [conv_bn(channels[i], channels[i + 1], kernels[i]) for i in range(len(kernels) - 1)]
        p.append(tensor(len(p), channels[-1], kernels[-1], kernels[-1], channels[-2]))
        last, down = p[-1], None
        if stride > 1 or inputs != outputs:
            down = conv_bn(inputs, outputs, 1)
        main.append([last, *bn(outputs)])
        blocks.append((main, down, stride))
        inputs = outputs
    p.append(tensor(len(p), 10, inputs))
    p.append(tensor(len(p), 10))
    fc = p[-2:]

    def apply(x, layer, stride=1):
        weight, gamma, beta = layer
        x = F.conv2d(x, weight.permute(0, 3, 1, 2), stride=stride, padding=weight.shape[1] // 2)
        return F.batch_norm(x, None, None, gamma, beta, training=True)

    def forward(x):
        x = F.max_pool2d(F.relu(apply(x, stem, 2)), 3, 2, 1)
        for main, down, stride in blocks:
            y = x
            for i, layer in enumerate(main):
                y = apply(y, layer, stride if i == (1 if bottleneck else 0) else 1)
                if i < len(main) - 1:
                    y = F.relu(y)
            x = F.relu(y + (apply(x, down, stride) if down else x))
        return F.linear(x.mean((2, 3)), *fc)
    return p, forward


def vit():
    width, heads, layers, patch, tokens = 30, 2, 2, 4, 10
    p = [tensor(0, width, patch, patch, 3), tensor(1, width), tensor(2, width), tensor(3, tokens, width)]
    for _ in range(layers):
        for kind, *shape in (("norm", width), ("", 3 * width, width), ("", width, width), ("norm", width), ("", 4 * width, width),
                             ("", width, 4 * width)):
            p.append(norm(len(p), *shape) if kind else tensor(len(p), *shape))
            p.append(tensor(len(p), shape[0]))
    p.append(norm(len(p), width))
    p.append(tensor(len(p), width))
    p.append(tensor(len(p), 10, width))
    p.append(tensor(len(p), 10))

    def forward(x):
        x = F.conv2d(x, p[0].permute(0, 3, 1, 2), p[1], stride=patch).flatten(2).transpose(1, 2)
        x = torch.cat((p[2].expand(BATCH, 1, width), x), 1) + p[3]
        for block in range(layers):
            w = p[4 + 12 * block:16 + 12 * block]
            y = F.linear(F.layer_norm(x, (width,), w[0], w[1], 1e-12), w[2], w[3])
            q, k, v = (t.reshape(BATCH, tokens, heads, -1).transpose(1, 2) for t in y.split(width, 2))
            y = ((q @ k.transpose(2, 3) / np.sqrt(width / heads)).softmax(3) @ v).transpose(1, 2).reshape(BATCH, tokens, width)
            x = x + F.linear(y, w[4], w[5])
            y = F.linear(F.layer_norm(x, (width,), w[6], w[7], 1e-12), w[8], w[9])
            x = x + F.linear(F.gelu(y), w[10], w[11])
        return F.linear(F.layer_norm(x[:, 0], (width,), p[-4], p[-3], 1e-12), p[-2], p[-1])
    return p, forward


def bert():
    """Every token sees the first lengths[b] of its window; those behind give zeros. Token type 1, a decoder tied to the embedding."""
    p = [tensor(0, VOCABULARY, WIDTH), tensor(1, POSITIONS, WIDTH), tensor(2, 2, WIDTH), norm(3, WIDTH), tensor(4, WIDTH)]
    for _ in range(LAYERS):
        for kind, *shape in (("", 3 * WIDTH, WIDTH), ("", WIDTH, WIDTH), ("norm", WIDTH), ("", 4 * WIDTH, WIDTH),
                             ("", WIDTH, 4 * WIDTH), ("norm", WIDTH)):
            p.append(norm(len(p), *shape) if kind else tensor(len(p), *shape))
            p.append(tensor(len(p), shape[0]))
    p += [tensor(len(p), WIDTH, WIDTH), tensor(len(p) + 1, WIDTH)]
    p += [norm(len(p), WIDTH), tensor(len(p) + 1, WIDTH)]
    p.append(tensor(len(p), VOCABULARY))
    inside = torch.arange(LENGTH) < lengths[:, None]

    def forward(tokens):
        x = F.layer_norm(p[0][tokens] + p[1][:LENGTH] + p[2][1], (WIDTH,), p[3], p[4], 1e-12)
        for block in range(LAYERS):
            w = p[5 + 12 * block:17 + 12 * block]
            q, k, v = (t.reshape(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for t in F.linear(x, w[0], w[1]).split(WIDTH, 2))
            score = (q @ k.transpose(2, 3) / np.sqrt(WIDTH / HEADS)).masked_fill(~inside[:, None, None, :], -np.inf)
            y = (score.softmax(3) @ v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH) * inside[:, :, None]
            x = F.layer_norm(x + F.linear(y, w[2], w[3]), (WIDTH,), w[4], w[5], 1e-12)
            y = F.linear(F.gelu(F.linear(x, w[6], w[7])), w[8], w[9])
            x = F.layer_norm(x + y, (WIDTH,), w[10], w[11], 1e-12)
        x = F.layer_norm(F.gelu(F.linear(x, p[-5], p[-4])), (WIDTH,), p[-3], p[-2], 1e-12)
        return F.linear(x, p[0], p[-1])
    return p, forward


def loss_of(name, y):
    if name in ("gpt", "bert"):
        targets = windows[:, 1:] if name == "gpt" else torch.where(counts[:, None], windows[:, 1:], -1)
        return F.cross_entropy(y.reshape(-1, VOCABULARY), targets.reshape(-1), ignore_index=-1)
    return F.cross_entropy(y, labels)


def autocast_errors(name, make, dtype, x, losses, gradients):
    """Relative errors of the first step in a type of 16 bits: of the loss; and, root mean square over the gradients, of the sum of squares
    and of the product, relative to the gradient's norm."""
    parameters, forward = make()
    for p in parameters:
        p.data = p.data.float()
        p.requires_grad_(True)
    with torch.autocast("cpu", dtype=dtype):
        loss = loss_of(name, forward(x.float() if x.is_floating_point() else x).float())
    scale = 256 if dtype == torch.float16 else 1
    (loss * scale).backward()
    errors = []
    for k, (p, (squares, product)) in enumerate(zip(parameters, gradients)):
        a, b = against(300 + k, p.grad.double() / scale)
        errors.append((a / squares - 1, (b - product) / np.sqrt(squares)))
    return [abs(float(loss) / losses[0] - 1), *np.sqrt(np.mean(np.square(errors), 0))]


images = torch.tensor((words(BATCH * 784, 100) & 255).astype(np.float64).reshape(BATCH, 1, 28, 28))
images = (images / 255 - 0.5) / 0.25
coloured = torch.tensor((words(BATCH * 15 * 13 * 3, 107) & 255).astype(np.float64).reshape(BATCH, 15, 13, 3)).permute(0, 3, 1, 2)
coloured = (coloured / 255 - 0.5) / 0.25
labels = torch.tensor((words(BATCH, 101) % 10).astype(np.int64))
lengths = torch.tensor((words(BATCH, 103) % LENGTH + 1).astype(np.int64))
counts = labels % 5 > 0  # of bert, the others' targets are ignored
windows = torch.tensor((words(BATCH * (LENGTH + 1), 102) % VOCABULARY).astype(np.int64).reshape(BATCH, LENGTH + 1))
print("/* What record.py printed: PyTorch, double precision. */")
for name, make in (("mlp", mlp), ("lenet", lenet), ("gpt", gpt), ("bert", bert), ("basic", lambda: resnet(False)),
                   ("bottleneck", lambda: resnet(True)), ("vit", vit)):
    parameters, forward = make()
    for p in parameters:
        p.requires_grad_(True)
    matrices, vectors = [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim == 1]
    if name not in ("lenet", "basic", "bottleneck"):
        optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0}], lr=1e-3)
    else:
        optimizer = torch.optim.SGD([{"params": matrices, "weight_decay": 1e-4}, {"params": vectors, "weight_decay": 0}], lr=0.01,
                                    momentum=0.9)
    losses, logits, gradients = [], [], []
    for step in range(10):
        optimizer.zero_grad()
        x = windows[:, :-1] if name in ("gpt", "bert") else images if name in ("mlp", "lenet") else coloured
        y = forward(x)
        loss = loss_of(name, y)
        loss.backward()
        if step == 0:
            logits = against(200, y)
            gradients = [against(300 + k, p.grad) for k, p in enumerate(parameters)]
        optimizer.step()
        losses.append(float(loss.detach()))
    print(f"static const double {name}_losses[] = {{{', '.join(f'{x:.12g}' for x in losses)}}};")
    print(f"static const double {name}_logits[2] = {{{', '.join(f'{x:.12g}' for x in logits)}}};")
    print(f"static const double {name}_gradients[][2] = {{{', '.join(f'{{{a:.9g}, {b:.9g}}}' for a, b in gradients)}}};")
    errors = [autocast_errors(name, make, dtype, x, losses, gradients) for dtype in (torch.bfloat16, torch.float16)]
    print(f"static const double {name}_autocast[2][3] = {{{', '.join('{' + ', '.join(f'{x:.3g}' for x in e) + '}' for e in errors)}}};")
