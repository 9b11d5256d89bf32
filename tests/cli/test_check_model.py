# SPDX-License-Identifier: MIT
"""lutra check: planted faults are named, clean files pass."""
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import gguf_poke

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
failures = []


def run(*args):
    return subprocess.run([LUTRA, "check", *args], capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL)


def fail(what, r):
    failures.append(what)
    print(f"FAILED: {what}: exit code {r.returncode}, stdout {r.stdout[-600:]!r}, stderr {r.stderr[-400:]!r}")


def clean(path, *options):
    r = run(path, *options)
    if r.returncode != 0 or "nothing wrong was found" not in r.stdout:
        fail(f"clean {path}", r)


def named(what, path, part, *words, options=()):
    r = run(path, "--json", *options)
    said = json.loads(r.stdout)
    lines = [f["what"] for f in said["found"] if f["part"] == part]
    if r.returncode != 1 or said["ok"] or not any(all(w in line for w in words) for line in lines):
        fail(what, r)


with tempfile.TemporaryDirectory() as folder:
    def make(shape, kind):
        path = f"{folder}/{shape}-{kind}.gguf"
        subprocess.run([LUTRA, "make-model", "-o", path, "--shape", shape, "--type", kind, "-q"], check=True)
        return path

    def changed(source, change):
        with open(source, "rb") as f:
            data = bytearray(f.read())
        change(data, gguf_poke.tensors(data))
        with open(folder + "/bad.gguf", "wb") as f:
            f.write(data)
        return folder + "/bad.gguf"

    for name in ("abacus-1m-f16.gguf", "abacus-xs-f16.gguf", "reader-f16.gguf", "abacus-b158", "abacus-w2"):
        clean(f"{SOURCE}/models/{name}")
    for shape, kind in (("tiny-qwen2", "Q4_0"), ("tiny-gemma2", "Q4_K"), ("tiny-qwen35", "IQ4_XS"), ("tiny-lfm2", "Q6_K"),
                        ("tiny-gpt-oss", "MXFP4"), ("tiny-gemma4", "Q8_0"), ("tiny-starcoder2", "BF16"),
                        ("tiny-command-r", "Q2_K"), ("tiny-olmo2", "F32"), ("tiny-qwen3moe", "Q5_1")):
        clean(make(shape, kind), "--quick")

    q4, f16 = make("tiny-qwen2", "Q4_0"), f"{SOURCE}/models/abacus-3m-f16.gguf"
    down, norm = "blk.1.ffn_down.weight", "blk.0.attn_norm.weight"

    def scale(data, at):  # the highest bit of the exponent of a block's scale
        data[at + 18 * 40 + 1] ^= 0x40

    def hole(data, first, n_bytes):
        page = (first + 4095) // 4096 * 4096
        assert page + 4096 < first + n_bytes
        data[page:page + 4096] = bytes(4096)

    for value in (math.nan, math.inf):
        gguf_poke.poke(f16, folder + "/bad.gguf", norm, value)
        named(f"{value} in a norm", folder + "/bad.gguf", "file", norm, "no numbers", "element 7")
        gguf_poke.poke(f16, folder + "/bad.gguf", down, value)
        named(f"{value} in a matrix", folder + "/bad.gguf", "file", down, "1 values are no numbers", "row 0, column 7")
    gguf_poke.poke(f16, folder + "/bad.gguf", down, 60000)
    named("a huge half", folder + "/bad.gguf", "file", down, "absurd")
    gguf_poke.poke(f16, folder + "/bad.gguf", norm, 1e30)
    named("a huge norm", folder + "/bad.gguf", "file", norm, "absurd")
    named("a scale", changed(q4, lambda d, t: scale(d, t[down][1])), "file", down)
    halves = changed(f16, lambda d, t: hole(d, t[down][1], math.prod(t[down][2]) * 2))
    named("a hole in halves", halves, "file", down, "hole")
    blocks = changed(q4, lambda d, t: hole(d, t[down][1], math.prod(t[down][2]) // 32 * 18))
    named("a hole in blocks", blocks, "file", down, "hole")

    def zeros(data, at, n):
        data[at:at + n] = bytes(n)

    matrix = changed(q4, lambda d, t: zeros(d, t[down][1], math.prod(t[down][2]) // 32 * 18))
    named("a matrix of zeros", matrix, "file", down, "all zeros")
    vector = changed(q4, lambda d, t: zeros(d, t[norm][1], 4 * t[norm][2][0]))
    named("a norm of zeros", vector, "file", norm, "all zeros")
    # zero rows are none: as unused tokens have them
    emb = "token_embd.weight"
    row_bytes = 18 * 8  # 256 columns
    clean(changed(q4, lambda d, t: zeros(d, t[emb][1] + 300 * row_bytes, 50 * row_bytes)), "--quick")

    # a name that says its sum, as in a cache
    blob = folder + "/sha256-" + "0" * 64
    shutil.copy(q4, blob)
    named("a sum", blob, "file", "SHA-256")
    import hashlib
    right = folder + "/" + hashlib.sha256(open(q4, "rb").read()).hexdigest()
    os.rename(blob, right)
    r = run(right)
    if r.returncode != 0 or "have the SHA-256 of their names" not in r.stdout:
        fail("a right sum", r)

    r = run(changed(q4, lambda d, t: d.__delitem__(slice(-5000, None))))
    if r.returncode != 1 or "bad.gguf" not in r.stderr:
        fail("a cut file", r)
    r = run(folder + "/none.gguf")
    if r.returncode == 0:
        fail("no file", r)

sys.exit(1 if failures else print("all checks passed"))
