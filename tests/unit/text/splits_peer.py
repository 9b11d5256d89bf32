#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks llama.cpp for the sums of splits_golden.h.

    LUTRA_LLAMA_TOKENIZE=".../llama-tokenize" splits_peer.py TEXT_TEST_SPLITS            compares them with Lutra's
    LUTRA_LLAMA_TOKENIZE=".../llama-tokenize" splits_peer.py TEXT_TEST_SPLITS --record   writes splits_golden.h

The strings and the vocabulary are those of test_splits.c; a control token between the strings keeps them apart.
Exit code 77 means skipped, with the reason printed.
"""
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = """/* SPDX-License-Identifier: MIT
 *
 * What llama.cpp (build 11669) makes of the strings of test_splits.c; for tekken, gpt-4o, llama4, kanana2,
 * minimax-m2, tiny_aya, cohere2moe and superbpe what Hugging Face's tokenizers make of them: llama.cpp reads their
 * patterns without marks, and digits as ASCII's.
 */
/* clang-format off */
"""
SEPARATOR = "<|sep|>"
FINER = ("tekken", "gpt-4o", "llama4", "kanana2", "minimax-m2", "tiny_aya", "cohere2moe", "superbpe")  # checked by tests/hf/compare_tokenizers.mjs


def alphabet():
    """GPT-2's printable spelling of each byte."""
    own = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    rest = [b for b in range(256) if b not in own]
    return [chr(b) if b in own else chr(256 + rest.index(b)) for b in range(256)]


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def write_vocabulary(path, pre):
    spelt = alphabet()
    pairs = [i * 40503 % 65536 for i in range(65536)]
    tokens = spelt + [spelt[p >> 8] + spelt[p & 255] for p in pairs] + [SEPARATOR]
    merges = [spelt[p >> 8] + " " + spelt[p & 255] for p in pairs]
    types = [1] * (len(tokens) - 1) + [3]

    def strings(key, values):
        return string(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(string, values))

    keys = [string(key) + struct.pack("<I", 8) + string(value) for key, value in
            (("general.architecture", "llama"), ("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", pre))]
    keys += [strings("tokenizer.ggml.tokens", tokens), strings("tokenizer.ggml.merges", merges)]
    keys += [string("tokenizer.ggml.token_type") + struct.pack(f"<IIQ{len(types)}i", 9, 5, len(types), *types)]
    keys += [string("tokenizer.ggml.add_bos_token") + struct.pack("<I?", 7, False)]
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys))
    return len(tokens) - 1


def sum_of(ids, separator):
    """FNV-1a of the ids, -1 after each string."""
    total = 0xcbf29ce484222325
    for i in ids + [separator]:
        for byte in (0xFFFFFFFF if i == separator else i).to_bytes(4, "little"):
            total = (total ^ byte) * 0x100000001b3 & 0xFFFFFFFFFFFFFFFF
    return total


def ask(peer, folder, text, pre):
    model = os.path.join(folder, "pairs.gguf")
    separator = write_vocabulary(model, pre)
    out = subprocess.run(peer + ["-m", model, "-f", text, "--ids", "--no-escape"], check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, cwd=folder).stdout
    return sum_of(json.loads(out), separator)


def main():
    peer = shlex.split(os.environ.get("LUTRA_LLAMA_TOKENIZE", ""))
    if not peer:
        print("skipped: LUTRA_LLAMA_TOKENIZE does not name llama-tokenize")
        sys.exit(77)
    strings = subprocess.run([sys.argv[1], "--strings"], check=True, stdout=subprocess.PIPE).stdout
    golden = os.path.join(HERE, "splits_golden.h")
    with open(golden, encoding="utf-8") as f:
        recorded = re.findall(r'\{"([^"]+)", (\w+)\}', f.read())
    lines, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "strings.txt")
        with open(text, "wb") as f:
            f.write(SEPARATOR.encode().join(strings[:-1].split(b"\0")))
        for pre, ours in recorded:
            if pre in FINER:
                lines.append(f'{{"{pre}", {ours}}},\n')
                continue
            theirs = ask(peer, folder, text, pre)
            lines.append(f'{{"{pre}", 0x{theirs:016x}}},\n')
            wrong += theirs != int(ours, 16)
            print(pre, "same" if theirs == int(ours, 16) else f"differs: 0x{theirs:016x}", flush=True)
    if sys.argv[2:] == ["--record"]:
        with open(golden, "w", encoding="utf-8") as f:
            f.write(HEAD + "".join(lines))
    sys.exit(1 if wrong else 0)


main()
