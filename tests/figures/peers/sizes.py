#!/usr/bin/env python3
"""Networks of sizes and settings that no list of Starling's has, with random weights, written by transformers and torchvision. For each:
Starling's logits beside theirs; the same bits after a way there and back; and, against PyTorch in double precision, the gradient of
every weight in a first step of SGD and the losses of ten steps. BERT's masks are computed here again, from their definition.
Prints the largest difference beside its bound.

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
BATCHES, ROUNDINGS, NOISE = 40, 6, 4  # pictures are drawn at most so often, until rounding in so many ways leaves the losses alike
EPS = 2.0**-24  # rounding of single precision
# Bounds. A gradient's error is at most GRADIENTS of its norm, WHOLE of the norm of all (keys' biases in attention have
# a gradient of rounding errors alone), and the rounding of the weight before and after the step, from whose difference
# it is told.
GRADIENTS, WHOLE = 2e-5, 1e-6
# A loss's is LOSSES of the largest, and DRIFTS times what rounding the weights alone does to doubles: rounding of
# activations adds to it.
LOSSES, DRIFTS = 1e-5, 10
missed = 0


def verdict(what, worst, bound):
    global missed
    right = worst <= bound
    missed += not right
    print(f"{what:96} target {bound:9.2e} value {worst:9.2e} {'met' if right else 'MISSED'}", flush=True)


def spread(model):
    """No weight at its first value, and no two alike: biases, normalisations and tokens that begin as zeros, too."""
    for p in model.parameters():
        if p.ndim == 1 or float(p.detach().max()) == float(p.detach().min()):
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


def masked(tokens, vocabulary, step):
    """What BERT reads and is to restore in a step: random words of Philox4x32-10 (runtime/numbers/philox.h), a block for each token."""
    published = vocabulary > 999
    mask, first = (103, 999) if published else (vocabulary - 1, 0)
    last = mask if mask == vocabulary - 1 else vocabulary
    operation = 2166136261
    for byte in b"tokens":
        operation = (operation ^ byte) * 16777619 % 2**32
    c = [np.arange(tokens.size, dtype=np.uint64), *(np.full(tokens.size, x, np.uint64) for x in (0, step, operation))]
    k, low = [1, 0], np.uint64(2**32 - 1)  # the key is the seed
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [q >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]), q & low, p >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]), p & low]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    ids = tokens.ravel().astype(np.int64)
    chosen = (ids >= first) & (ids < last) & (ids != mask) & (c[0] < 644245094)
    other = first + (c[2] * np.uint64(last - first) >> np.uint64(32)).astype(np.int64)
    read = np.where(~chosen | (c[1] >= 3865470566), ids, np.where(c[1] < 3435973836, mask, other))
    targets = np.where(chosen, ids, -100)  # which cross_entropy ignores
    return torch.tensor(read.reshape(tokens.shape)), torch.tensor(targets.reshape(tokens.shape))


def steps_of(model, batch, steps, rate, rounded=0):
    """The losses of steps of SGD, and the gradients of the last. rounded: weights are stored in single precision; above 1, the
    modules' outputs are also changed by a few units of their last place, in another way for each number."""
    noise = torch.Generator().manual_seed(rounded)

    def change(module, inputs, output):
        if not torch.is_tensor(output) or not output.is_floating_point():
            return None
        return output * (1 + NOISE * EPS * (2 * torch.rand(output.shape, generator=noise, dtype=torch.float64) - 1))

    for module in model.modules() if rounded > 1 else ():
        if not list(module.children()):
            module.register_forward_hook(change)
    dtype = next(model.parameters()).dtype
    model.train()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=rate), []
    for step in range(1, steps + 1):
        inputs, targets = batch(step)
        out = model(inputs.to(dtype) if inputs.is_floating_point() else inputs)
        out = getattr(out, "logits", out)
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for p in model.parameters() if rounded else ():
            p.data = p.data.float().double()
        losses.append(float(loss.detach()))
    return losses, [p.grad for p in model.parameters()]


def train(name, path, to, out, steps, rate, options):
    """The losses of Starling's steps, and the weights after them."""
    starling("train", name, "--init", path, "--out", "run", "--steps", str(steps), "--batch", str(BATCH), "--leaves", "1", "--shards", "1",
             "--optimizer", "sgd", "--momentum", "0", "--decay", "0", "--clip", "0", "--dropout", "0", "--learning-rate", str(rate), "--seed", "1",
             "--rate-schedule", "constant", "--warmup", "0", "--log-every", "1", "--eval-every", "1000000", "--val-fraction", "0", "--quiet", "--force", *options)
    losses = [line["loss"] for line in map(json.loads, open("run/metrics.jsonl")) if "loss" in line and line.get("split", "train") == "train"][:steps]
    if len(losses) != steps:
        raise SystemExit(f"{path}: {len(losses)} losses in metrics.jsonl")
    subprocess.run(["rm", "-rf", out], check=True)
    starling("convert", "run/checkpoints/" + sorted(os.listdir("run/checkpoints"))[-1], "--to", to, "--out", out)
    data = facts("run/model.safetensors")["data"]
    subprocess.run(["rm", "-rf", "run"], check=True)
    return losses, load_file(out + "/model.safetensors" if to == "hf" else out), data


def trained(name, path, back, to, model, batch, options, rate, original, last):
    """A first step, and ten, on the one batch, in both; PyTorch's in double precision. Where PyTorch's own single precision leaves a
    bound, or rounded doubles do, a rectifier's input or a tie of maxpool is within rounding of its kink, and the batch shows nothing:
    false, unless it is the last that is tried."""
    before = load_file(original)  # its names may be older than those of the modules
    names = [next(n for n, t in before.items() if t.shape == p.shape and torch.equal(t, p)) for p in model.parameters()]
    for m in model.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
        if isinstance(m, torch.nn.Embedding):
            m.padding_idx = None  # a full window has no padding: token 0 is trained like any other
    _, after, data = train(name, path, to, back + "-first", 1, 1, options)
    following = (lambda step: batch(step, data))
    _, wanted = steps_of(copy.deepcopy(model).double(), following, 1, 1)
    _, floats = steps_of(copy.deepcopy(model), following, 1, 1)
    rounded = [steps_of(copy.deepcopy(model).double(), following, 1, 1, k)[1] for k in range(2, ROUNDINGS + 1)]
    whole, worst, theirs, noisy = sum(float(g.norm()) ** 2 for g in wanted if g is not None) ** 0.5, 0.0, 0.0, 0.0
    for i, (n, g, f) in enumerate(zip(names, wanted, floats)):
        if g is None:  # a weight that the network does not use
            continue
        bound = GRADIENTS * float(g.norm()) + WHOLE * whole + EPS * float(after[n].norm() + before[n].norm())
        worst = max(worst, float((before[n].double() - after[n].double() - g).norm()) / bound)
        theirs = max(theirs, float((f.double() - g).norm()) / bound)
        noisy = max(noisy, *(float((one[i] - g).norm()) / bound for one in rounded))
    if max(theirs, noisy) > 1 and not last:
        return False
    losses, _, data = train(name, path, to, back + "-ten", STEPS, rate, options)
    doubles, _ = steps_of(copy.deepcopy(model).double(), following, STEPS, rate)
    # Through batch normalisation and rectifiers rounding grows from step to step: the same doubles, with each weight
    # rounded to single precision after each step, show how much.
    rounded = [steps_of(copy.deepcopy(model).double(), following, STEPS, rate, k)[0] for k in range(1, ROUNDINGS + 1)]
    drift = max(abs(a - b) for one in rounded for a, b in zip(one, doubles))
    if drift > LOSSES * max(doubles) and not last:
        return False
    floats, _ = steps_of(copy.deepcopy(model), following, STEPS, rate)
    single, bound = max(abs(a - b) for a, b in zip(floats, doubles)), LOSSES * max(doubles) + DRIFTS * drift
    if single > bound and not last:
        return False
    verdict(f"{path}: gradients of {len(names)} weights, in bounds (PyTorch {theirs:.1e})", worst, 1)
    verdict(f"{path}: ten losses (PyTorch {single:.1e}, rounded doubles {drift:.1e})", max(abs(a - b) for a, b in zip(losses, doubles)), bound)
    return True


def check(path, to, model, samples, inputs, length, name, batch, options, sizes=(), redraw=None, unused=()):
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
    differing = [k for k in a if not k.endswith("num_batches_tracked") and k not in unused and (k not in b or not torch.equal(a[k], b[k]))]
    verdict(f"{path}: tensors that come back otherwise, of {len(a)}", len(differing), 0)
    for left in reversed(range(BATCHES if redraw else 1)):
        if trained(name, path + ".sl" if sizes else path, back, to, model, batch, options, RATE / 10 if "resnet" in name else RATE, file, not left):
            return
        print(f"{path}: a batch that rounding moves over a kink; another one", flush=True)
        redraw()


def text(path, model, vocabulary, length, name, mlm, unused=()):
    # The order of windows is Starling's own; masks depend on it, so that BERT's windows are all the same.
    tokens = random.integers(999 if mlm and vocabulary > 999 else 0, vocabulary, BATCH * length + 1).astype(np.int32)
    if mlm:
        tokens = np.tile(tokens[:length], BATCH)
    rows = np.stack([tokens[i * length : i * length + length] for i in range(BATCH)])
    os.makedirs(path + "-data", exist_ok=True)
    write_tokens(path + "-data/train.bin", tokens)

    def batch(step, data):
        if mlm:
            return masked(rows, vocabulary, step)
        following = np.stack([tokens[i * length + 1 : i * length + length + 1] for i in range(BATCH)])
        return torch.tensor(rows).long(), torch.tensor(following).long()

    check(path, "hf", spread(model), rows, torch.tensor(rows).long(), length, name, batch, ["--data", path + "-data", "--length", str(length)], unused=unused)


def write_tokens(name, tokens):
    """A token file (docs/reference/formats.md)."""
    with open(name, "wb") as f:
        header = np.zeros(256, "<i4")
        header[:3] = 20240520, 1, len(tokens)
        f.write(header.tobytes() + tokens.astype("<u2").tobytes())


def images(path, to, model, height, width, classes, mean, deviation, name, *sizes, trains_on=None):
    """trains_on: height and width of the pictures to train on: convolutions take any, and small ones have fewer kinks."""
    samples = random.integers(0, 256, (BATCH, height, width, 3)).astype(np.uint8)
    x = np.empty((BATCH, *(trains_on or (height, width)), 3), np.uint8)
    labels = random.integers(0, classes, BATCH).astype(np.uint8)
    labels[0] = classes - 1
    folder = path + "-data"
    os.makedirs(folder, exist_ok=True)
    write_idx(folder + "/train-labels-idx1-ubyte", labels)
    with open(folder + "/labels.txt", "w") as f:
        f.write("".join(f"class {k}\n" for k in range(classes)))

    def draw():
        x[:] = random.integers(0, 256, x.shape)
        write_idx(folder + "/train-images-idx4-ubyte", x)

    draw()

    def batch(step, data):  # training normalises in its own way
        return normalised(x, data["mean"], data["deviation"]), torch.tensor(labels).long()

    check(path, to, spread(model), samples, normalised(samples, mean, deviation), 0, name, batch, ["--data", folder], sizes, draw)


def gpt2_72():
    text("gpt2-72", transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=101, n_positions=37, n_embd=72, n_layer=2, n_head=3)), 101, 31, "gpt2", False)


def gpt2_inner():
    text("gpt2-inner", transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=59, n_positions=50, n_embd=40, n_layer=3, n_head=5, n_inner=100)), 59, 29, "gpt2", False)


def bert_384():
    text("bert-384", transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=1501, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1000)), 1501, 21, "bert-base", True)


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
    images("resnet-basic", "torchvision", ResNet(BasicBlock, [1, 2, 1, 3], num_classes=5), 224, 224, 5, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225], "resnet18", trains_on=(33, 29))


def resnet_bottleneck():
    from torchvision.models.resnet import Bottleneck, ResNet
    images("resnet-bottleneck", "torchvision", ResNet(Bottleneck, [1, 1, 2, 1], num_classes=6), 224, 224, 6, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225], "resnet50", trains_on=(33, 29))


def resnet_hf():
    config = transformers.ResNetConfig(embedding_size=24, hidden_sizes=[24, 48, 96, 192], depths=[1, 2, 1, 1], layer_type="basic", num_labels=4)
    images("resnet-hf", "hf", transformers.ResNetForImageClassification(config), 224, 224, 4, [0.5], [0.5], "resnet18", trains_on=(33, 29))


def gpt2_untied():
    config = transformers.GPT2Config(vocab_size=67, n_positions=41, n_embd=45, n_layer=2, n_head=5, n_inner=77, activation_function="gelu", layer_norm_epsilon=1e-4, tie_word_embeddings=False)
    text("gpt2-untied", transformers.GPT2LMHeadModel(config), 67, 27, "gpt2", False)


def gpt2_linear():
    config = transformers.GPT2Config(vocab_size=53, n_positions=33, n_embd=33, n_layer=2, n_head=3, n_inner=50, activation_function="linear")
    text("gpt2-linear", transformers.GPT2LMHeadModel(config), 53, 25, "gpt2", False)


def bert_untied():
    config = transformers.BertConfig(vocab_size=103, hidden_size=42, num_hidden_layers=2, num_attention_heads=7, intermediate_size=61, max_position_embeddings=39, hidden_act="gelu_new", layer_norm_eps=1e-7, tie_word_embeddings=False)
    # The decoder has a bias of its own; cls.predictions.bias has no use and no gradient.
    text("bert-untied", transformers.BertForMaskedLM(config), 103, 31, "bert-base", True, unused=("cls.predictions.bias",))


def vit_unbiased():
    config = transformers.ViTConfig(image_size=(35, 31), patch_size=6, hidden_size=51, num_hidden_layers=2, num_attention_heads=3, intermediate_size=90, num_labels=6, qkv_bias=False, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6)
    images("vit-unbiased", "hf", transformers.ViTForImageClassification(config), 35, 31, 6, [0.5], [0.5], "vit-b16")


def deit_unbiased():
    config = transformers.DeiTConfig(image_size=(31, 37), patch_size=7, hidden_size=45, num_hidden_layers=2, num_attention_heads=5, intermediate_size=71, num_labels=5, qkv_bias=False, hidden_act="linear")
    images("deit-unbiased", "hf", transformers.DeiTForImageClassification(config), 31, 37, 5, [0.5], [0.5], "vit-b16")


def resnet_first():
    config = transformers.ResNetConfig(embedding_size=18, hidden_sizes=[18, 30, 50], depths=[1, 2, 1], layer_type="basic", num_labels=5, downsample_in_first_stage=True)
    images("resnet-first", "hf", transformers.ResNetForImageClassification(config), 224, 224, 5, [0.5], [0.5], "resnet18", trains_on=(49, 45))


def resnet_early():
    config = transformers.ResNetConfig(embedding_size=14, hidden_sizes=[36, 60, 100], depths=[1, 2, 1], layer_type="bottleneck", num_labels=6, downsample_in_bottleneck=True)
    images("resnet-early", "hf", transformers.ResNetForImageClassification(config), 224, 224, 6, [0.5], [0.5], "resnet50", trains_on=(49, 45))


def resnet_gelu():
    config = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[20, 36], depths=[2, 1], layer_type="bottleneck", num_labels=4, hidden_act="gelu", downsample_in_first_stage=True, downsample_in_bottleneck=True)
    images("resnet-gelu", "hf", transformers.ResNetForImageClassification(config), 224, 224, 4, [0.5], [0.5], "resnet50", trains_on=(49, 45))


ALL = (
    "gpt2_72", "gpt2_inner", "bert_384", "bert_36", "vit_33x29", "deit_33x29", "vit_torchvision", "resnet_basic", "resnet_bottleneck", "resnet_hf",
    "gpt2_untied", "gpt2_linear", "bert_untied", "vit_unbiased", "deit_unbiased", "resnet_first", "resnet_early", "resnet_gelu",
)  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for name in sys.argv[3:] or ALL:
        try:
            globals()[name]()
        except (SystemExit, Exception) as error:  # the others are tried all the same
            missed += 1
            print(f"{name}: {error}", flush=True)
sys.exit(missed > 0)
