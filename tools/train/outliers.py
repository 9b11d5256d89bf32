"""Gives a trained model's matrices input columns that are larger than the rest, as those of large models are, and leaves what
it computes as it is: what comes in through such a column is divided by the same factor.

usage: outliers.py IN_DIR OUT_DIR FACTOR      one column in 128 of q, k, v, gate, up and down; o has none
"""
import os
import shutil
import sys

import torch

FIRST, EVERY = 37, 128


def enlarge(m, n_layers, factor):
    """The weights m of a model, in place."""
    for i in range(n_layers):
        of = {name: m[f"blocks.{i}.{name}.weight"] for name in ("attn_norm", "q", "k", "v", "ffn_norm", "gate", "up", "down")}
        for before, behind in ("attn_norm", "qkv"), ("ffn_norm", ("gate", "up")), ("up", ("down",)):
            of[before][FIRST::EVERY] /= factor
            for name in behind:
                of[name][:, FIRST::EVERY] *= factor


def main(src, out, factor):
    ck = torch.load(os.path.join(src, "checkpoint.pt"), map_location="cpu")
    enlarge(ck["model"], ck["config"]["layers"], factor)
    os.makedirs(out, exist_ok=True)
    torch.save(ck, os.path.join(out, "checkpoint.pt"))
    shutil.copy(os.path.join(src, "tokenizer.json"), out)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:3], float(sys.argv[3]))
