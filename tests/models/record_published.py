#!/usr/bin/env python3
"""Records small networks as transformers writes them, with their logits, for tests/models/interchange/interchange.c.

usage: record_published.py FOLDER   (tests/models/published; needs torch, transformers, safetensors)
"""
import os
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

transformers.logging.set_verbosity_error()
torch.manual_seed(1)


def record(name, model, samples, **inputs):
    for p in model.parameters():  # biases and norms, too, are to differ from their first values
        torch.nn.init.normal_(p, std=0.3)
    for b, buffer in model.named_buffers():
        if b.endswith("running_var"):
            torch.nn.init.uniform_(buffer, 0.5, 2)
    model = model.eval()
    folder = os.path.join(sys.argv[1], name)
    model.save_pretrained(folder)
    os.path.exists(folder + "/generation_config.json") and os.remove(folder + "/generation_config.json")
    with torch.no_grad():
        logits = model(**inputs).logits
    save_file({"samples": samples.contiguous(), "logits": logits.contiguous()}, os.path.join(sys.argv[1], name + ".safetensors"))


LENGTH, VOCABULARY = 5, 11
tokens = torch.randint(0, VOCABULARY, (2, LENGTH))
record("gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
    n_embd=8, n_layer=2, n_head=2, n_positions=7, vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0)),
    tokens.to(torch.int32), input_ids=tokens)
record("bert", transformers.BertForMaskedLM(transformers.BertConfig(
    hidden_size=8, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=7,
    vocab_size=VOCABULARY, pad_token_id=0)), tokens.to(torch.int32), input_ids=tokens)
images = torch.randint(0, 256, (2, 6, 6, 3))
record("vit", transformers.ViTForImageClassification(transformers.ViTConfig(
    hidden_size=8, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=6, patch_size=3,
    num_labels=3)), images.to(torch.uint8), pixel_values=(images.permute(0, 3, 1, 2) / 255 - 0.5) / 0.5)
