"""Reads a GGUF file that export.py wrote back into a training folder.

usage: import_gguf.py model.gguf OUT_DIR

For training on from a bundled model; F16 is what the file has, and neither the optimiser's state nor a verifier's head
comes back.
"""
import os
import struct
import sys

import numpy as np
import torch

import bpe
from export import ARRAY, NAMES, STRING

SCALAR = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        (v,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return v

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            elem, n = self.take("I"), self.take("Q")
            return [self.value(elem) for _ in range(n)]
        return self.take(SCALAR[kind])


def read(path):
    """(keys, {name: f32 array}) of a GGUF file with F32 and F16 tensors only."""
    with open(path, "rb") as f:
        r = Reader(f.read())
    if r.take("4s") != b"GGUF" or r.take("I") != 3:
        sys.exit(f"{path} is no GGUF file of version 3")
    n_tensor, n_key = r.take("Q"), r.take("Q")
    keys = {r.text(): r.value(r.take("I")) for _ in range(n_key)}
    info = [(r.text(), [r.take("Q") for _ in range(r.take("I"))], r.take("I"), r.take("Q")) for _ in range(n_tensor)]
    base = (r.at + 31) // 32 * 32
    flat = lambda shape, kind, at: np.frombuffer(r.data, {0: "<f4", 1: "<f2"}[kind], int(np.prod(shape)), base + at)
    return keys, {name: flat(shape, kind, at).astype(np.float32).reshape(shape[::-1]) for name, shape, kind, at in info}


def our_name(name):
    """A tensor's name in model.py; None for a verifier's head."""
    if name.startswith("blk."):
        _, layer, part, what = name.split(".")
        return f"blocks.{layer}.{NAMES[part]}.{what}"
    return {"token_embd.weight": "embed.weight", "output_norm.weight": "norm.weight"}.get(name)


def main(path, out):
    keys, tensors = read(path)
    of = lambda name: keys["qwen2." + name]
    config = dict(d=of("embedding_length"), layers=of("block_count"), heads=of("attention.head_count"),
                  kv=of("attention.head_count_kv"), ff=of("feed_forward_length"), theta=of("rope.freq_base"),
                  vocab=len(keys["tokenizer.ggml.tokens"]))
    weights = {our_name(n): torch.from_numpy(t) for n, t in tensors.items() if our_name(n)}
    os.makedirs(out, exist_ok=True)
    torch.save(dict(model=weights, config=config, tokens=0), os.path.join(out, "checkpoint.pt"))
    merges = [m.split(" ") for m in keys["tokenizer.ggml.merges"]]
    bpe.Tokenizer(keys["tokenizer.ggml.tokens"], merges).save(os.path.join(out, "tokenizer.json"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
