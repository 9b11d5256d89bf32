# SPDX-License-Identifier: MIT
"""Weights that are no numbers: whatever makes a score of such logits ends with an error that names the position and the
weight, and writes no figure."""
import os
import subprocess
import sys
import tempfile

import gguf_poke

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
MODEL = SOURCE + "/models/abacus-3m-f16.gguf"
failures = []


def check(what, args, *wanted):
    run = subprocess.run([LUTRA, *args], capture_output=True, text=True, timeout=300)
    lost = [w for w in wanted if w not in run.stderr]
    if run.returncode != 1 or run.stdout or lost:
        failures.append(what)
        print(f"FAILED: {what}: exit code {run.returncode}, stdout {run.stdout[-200:]!r}, stderr {run.stderr[-400:]!r}")


with tempfile.TemporaryDirectory() as folder:
    def path(name, text=None):
        at = os.path.join(folder, name)
        if text:
            with open(at, "w") as f:
                f.write(text)
        return at

    story = path("story.txt", "Sam has 42 cards. Then the number of cards doubles. How many cards are there? " * 12)
    hella = path("hella.txt", "Sam has 42 cards and\n1\na red hat\nno cards\n7 cards\na dog\n" * 4)
    mc = path("mc.jsonl", '{"question": "2 + 2?", "choices": ["3", "4", "5"], "answer": 1}\n' * 3)
    for tensor, value in (("blk.1.ffn_down.weight", "nan"), ("blk.0.attn_v.weight", "inf"),
                          ("output_norm.weight", "nan"), ("token_embd.weight", "-inf")):
        bad = path("bad.gguf")
        gguf_poke.poke(MODEL, bad, tensor, float(value))
        named = f"the tensor '{tensor}' holds NaN or infinity"
        if tensor == "token_embd.weight":
            gguf_poke.poke(MODEL, bad, tensor, float(value), 70000)
        text = ["perplexity", "-m", bad, "-f", story, "-c", "32", "--chunks", "2"]
        check(f"{tensor} {value}: perplexity", text, "at position ", named)
        check(f"{tensor} {value}: a base of log-probabilities", [*text, "--kl-divergence-base", path("kl")], named)
        if os.listdir(folder) != sorted(os.listdir(folder)) and os.path.exists(path("kl")):
            failures.append("a base of NaN was written")
        check(f"{tensor} {value}: HellaSwag", ["perplexity", "-m", bad, "-f", hella, "--hellaswag"], "at position ", named)
        check(f"{tensor} {value}: multiple choice", ["eval", "-m", bad, "-f", mc], "at position ", named)
    good = ["perplexity", "-m", MODEL, "-f", story, "-c", "32", "--chunks", "2", "--kl-divergence-base", path("kl")]
    subprocess.run([LUTRA, *good], check=True, capture_output=True)
    gguf_poke.poke(MODEL, bad, "blk.1.ffn_down.weight", float("nan"))
    check("divergence", ["perplexity", "-m", bad, "--kl-divergence", "--kl-divergence-base", path("kl")], "at position ")
    with open(path("kl"), "r+b") as f: # the first row's scale, behind ids of at least two chunks
        head = f.read(20)
        n_ctx, _, n_chunk = (int.from_bytes(head[8 + 4 * i:12 + 4 * i], "little") for i in range(3))
        f.seek(20 + 4 * n_ctx * n_chunk)
        f.write(b"\x00\x00\xc0\x7f")
    check("a base with NaN", ["perplexity", "-m", MODEL, "--kl-divergence", "--kl-divergence-base", path("kl")],
          "a log-probability is not a number")
    run = ["run", "-m", SOURCE + "/models/abacus-xs-f16.gguf", "-st", "-n", "40", "-p", "Sam has 4 cards.", "-q",
           "--best-of", "3"]
    for name, tensor in (("abacus-xs-prm", "cls.output.weight"), ("abacus-xs-prm", "blk.1.ffn_down.weight"),
                         ("abacus-xs-prm-token", "blk.1.ffn_down.weight")):
        gguf_poke.poke(f"{SOURCE}/models/{name}-f16.gguf", bad, tensor, float("nan"))
        check(f"a verifier, {name} {tensor}", [*run, "--prm", bad], "not a number")
    gguf_poke.poke(SOURCE + "/models/abacus-xs-long-f16.gguf", bad, "blk.1.ffn_down.weight", float("nan"))
    check("a verifier by likelihood", [*run, "--prm", bad, "--prm-kind", "likelihood"], "at position ")
print("all checks passed" if not failures else f"{len(failures)} checks failed")
sys.exit(bool(failures))
