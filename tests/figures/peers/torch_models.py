"""The networks that Starling has, as a PyTorch user would write them: identical layers, for the comparisons in this folder."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads, causal=True, gelu="tanh", eps=1e-5, post_norm=False):
        super().__init__()
        self.heads, self.causal, self.gelu, self.post_norm = heads, causal, gelu, post_norm
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            score = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
            if self.causal:
                score = score.masked_fill(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1), float("-inf"))
            y = score.softmax(3) @ v
        return self.proj(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        if self.post_norm:
            x = self.ln_1(x + self.attention(x))
            return self.ln_2(x + self.out(F.gelu(self.fc(x), approximate=self.gelu)))
        x = x + self.attention(self.ln_1(x))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate=self.gelu))


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


class BERT(nn.Module):
    """BertForMaskedLM of one token type: logits at every position, as Starling computes them."""

    def __init__(self, vocabulary, width, layers, heads, positions):
        super().__init__()
        self.wte, self.wpe, self.token_type = nn.Embedding(vocabulary, width), nn.Embedding(positions, width), nn.Embedding(2, width)
        self.ln_e, self.ln_f = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.blocks = nn.Sequential(*(Block(width, heads, False, "none", 1e-12, True) for _ in range(layers)))
        self.dense, self.bias = nn.Linear(width, width), nn.Parameter(torch.zeros(vocabulary))
        for table in (self.wte, self.wpe, self.token_type):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens):
        x = self.blocks(self.ln_e(self.wte(tokens) + self.wpe.weight[:tokens.shape[1]] + self.token_type.weight[0]))
        x = self.ln_f(F.gelu(self.dense(x)))
        return F.linear(x, self.wte.weight, self.bias).flatten(0, 1)


class ViT(nn.Module):
    def __init__(self, width, layers, heads, patch, side, classes):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.cls, self.wpe = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, False, "none", 1e-12) for _ in range(layers)))
        self.ln_f, self.head = nn.LayerNorm(width, eps=1e-12), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = self.blocks(torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.wpe)
        return self.head(self.ln_f(x[:, 0]))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                                        nn.BatchNorm2d(4 * width)) if stride > 1 or inputs != 4 * width else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


def resnet50():
    layers, inputs = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def vit_b16():
    return ViT(768, 12, 12, 16, 224, 1000)


def mlp():
    sizes = (784, 1024, 1024, 10)
    layers = [nn.Flatten()]
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def gpt2_nano():
    return GPT(256, 384, 6, 6, 256)


def gpt2():
    return GPT(50257, 768, 12, 12, 1024)


def bert_base():
    return BERT(30522, 768, 12, 12, 512)
