# SPDX-License-Identifier: MIT
"""Draft models whose vocabulary is padded to another size than the target's: the same text, padding is never drafted, and
drafts are right as often as those of a model without padding.  A draft model of another vocabulary is refused."""
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
BASE = SOURCE + "/models/abacus-w2"
D, N_VOCAB = 256, 1024
failures = []


def fail(text):
    failures.append(text)
    print("FAILED:", text)


def read(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        return json.loads(f.read(n)), f.read()


def padded(folder, name, n_more, deviation, rename=None):
    """The base model with n_more ids behind its vocabulary, whose embeddings are random."""
    at = os.path.join(folder, name)
    os.mkdir(at)
    with open(BASE + "/config.json") as f:
        config = json.load(f)
    config["vocab_size"] = N_VOCAB + n_more
    with open(at + "/config.json", "w") as f:
        json.dump(config, f)
    with open(BASE + "/tokenizer.json") as f:
        text = f.read()
    with open(at + "/tokenizer.json", "w") as f:
        f.write(text.replace(*rename) if rename else text)
    os.symlink(BASE + "/tokenizer_config.json", at + "/tokenizer_config.json")
    head, data = read(BASE + "/model.safetensors")
    draw = random.Random(1)
    more = struct.pack(f"<{n_more * D}e", *[draw.gauss(0, deviation) for _ in range(n_more * D)])
    out, at_byte, parts = {}, 0, []
    for tensor, t in head.items():
        if tensor == "__metadata__":
            continue
        part = data[t["data_offsets"][0]:t["data_offsets"][1]]
        if tensor == "model.embed_tokens.weight":
            t["shape"] = [N_VOCAB + n_more, D]
            part += more
        out[tensor] = dict(t, data_offsets=[at_byte, at_byte + len(part)])
        at_byte += len(part)
        parts.append(part)
    text = json.dumps(out).encode()
    with open(at + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    return at


def run(model, *more):
    return subprocess.run([LUTRA, "run", "-m", model, "-st", "-v", "-s", "4", "-n", "60", "-p",
                           "Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have?", *more],
                          capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL)


def drafted(model, draft, want, *p_min):
    done = run(model, "-md", draft, *p_min)
    counts = re.search(r"drafts: +(\d+) drafted, (\d+) accepted", done.stderr)
    if done.returncode or done.stdout != want or not counts:
        fail(f"{os.path.basename(draft)}: {done.returncode}, {done.stdout[-200:]!r}, {done.stderr[-300:]}")
        return 0
    return int(counts[2]) / max(1, int(counts[1]))


with tempfile.TemporaryDirectory() as folder:
    longer = padded(folder, "longer", 128, .5)  # of so large embeddings the padding would nearly always be best
    quiet = padded(folder, "quiet", 64, 1e-4)
    want = run(BASE).stdout
    if len(want) < 20 or run(quiet).stdout != want:
        fail(f"the model itself: {want!r}")
    for model, draft in ((BASE, BASE), (BASE, longer), (quiet, longer), (quiet, BASE)):
        for p_min in ((), ("--draft-p-min", "0.5")):  # padding does not lower the estimates either
            share = drafted(model, draft, want, *p_min)
            if share < .9:
                fail(f"{os.path.basename(model)} with {os.path.basename(draft)} {p_min}: {share:.2f} of drafts are right")
    other = padded(folder, "other", 128, .5, ("<|im_start|>", "<|im_begin|>"))
    done = run(BASE, "-md", other)
    if done.returncode != 1 or "token 1022" not in done.stderr:
        fail(f"another vocabulary: {done.returncode} {done.stderr[-200:]}")
print("all checks passed" if not failures else f"{len(failures)} checks failed")
sys.exit(bool(failures))
