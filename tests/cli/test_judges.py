# SPDX-License-Identifier: MIT
"""Folders of the classes that judges are published as open as verifiers.  Heads that mean the same, as one class, as two
and behind a dense layer with a ReLU, as a folder and as a GGUF file, give the same rewards; <extra_0> is the mark of
...ForProcessRewardModel; a head of three classes is refused."""
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
D = 256
failures = []


def fail(text):
    failures.append(text)
    print("FAILED:", text)


def write_tensors(path, tensors):
    head, at = {}, 0
    for name, (shape, values) in tensors.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * len(values)]}
        at += 4 * len(values)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            f.write(struct.pack(f"<{len(values)}f", *values))


def make(folder, name, architecture, head, mark=False):
    at = os.path.join(folder, name)
    os.mkdir(at)
    os.symlink(f"{BASE}/tokenizer_config.json", f"{at}/tokenizer_config.json")
    with open(f"{BASE}/tokenizer.json") as f:
        tokenizer = json.load(f)
    for token in tokenizer["added_tokens"]:
        if mark and token["content"] == "<|im_start|>":
            token["content"] = "<extra_0>"  # as Qwen2.5-Math-PRM has it in the place of <|quad_end|>
    with open(f"{at}/tokenizer.json", "w") as f:
        json.dump(tokenizer, f)
    os.symlink(BASE + "/model.safetensors", at + "/model-1.safetensors")
    with open(BASE + "/config.json") as f:
        config = json.load(f)
    config["architectures"] = [architecture]
    with open(at + "/config.json", "w") as f:
        json.dump(config, f)
    write_tensors(at + "/model-2.safetensors", head)
    with open(BASE + "/model.safetensors", "rb") as f:
        names = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    shards = {n: "model-1.safetensors" for n in names if n != "__metadata__"}
    shards.update({n: "model-2.safetensors" for n in head})
    with open(at + "/model.safetensors.index.json", "w") as f:
        json.dump({"weight_map": shards}, f)
    return at


def run(judge, *more):
    return subprocess.run([LUTRA, "run", "-m", BASE, "-st", "-s", "4", "-n", "60", "--best-of", "4", "--prm", judge, "-p",
                           "Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have?", *more],
                          capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL)


def rewards(judge, *more):
    done = run(judge, *more)
    if done.returncode:
        fail(f"{os.path.basename(judge)}: {done.stderr[-300:]}")
    return [float(x) for x in re.findall(r" reward ([0-9.]+)", done.stderr)]


def same(what, got, want, within=.0015):
    if len(got) != len(want) or any(abs(a - b) > within for a, b in zip(got, want)):
        fail(f"{what}: {got} instead of {want}")


with tempfile.TemporaryDirectory() as folder:
    draw = random.Random(3)
    w = [draw.gauss(0, .05) for _ in range(D)]
    other = [draw.gauss(0, .05) for _ in range(D)]
    unit = [float(i == k) for i in range(D) for k in range(D)]
    one = make(folder, "one", "Qwen2ForSequenceClassification", {"score.weight": ([1, D], w)})
    pair = other + [a + b for a, b in zip(other, w)]
    two = make(folder, "two", "Qwen2ForTokenClassification",
               {"score.weight": ([2, D], pair), "score.bias": ([2], [1.5, 1.5])})
    # A ReLU lets pass all of a state that the first bias lifts above 0; the last bias takes the lift back.
    lift = 64.0

    def dense(name, architecture, lift, **more):
        return make(folder, name, architecture, {
            "score.0.weight": ([D, D], unit), "score.0.bias": ([D], [lift] * D), "score.2.weight": ([2, D], [0.0] * D + w),
            "score.2.bias": ([2], [0.0, -lift * sum(w)])}, **more)

    want, at_marks = rewards(one), rewards(one, "--verifier-mark", "<|im_start|>")
    if len(want) < 4 or len(set(want)) < 2 or want == at_marks:
        fail(f"rewards: {want}, at marks {at_marks}")
    steps = dense("steps", "Qwen2ForProcessRewardModel", lift, mark=True)
    same("two classes", rewards(two), want)
    same("a dense layer", rewards(dense("dense", "Qwen2ForRewardModel", lift)), want)
    same("a judge of steps", rewards(steps), at_marks)
    if rewards(dense("cut", "Qwen2ForRewardModel", 0.0)) == want:
        fail("the ReLU of the dense layer cuts nothing")
    for kind in ("F16", "Q8_0"):
        file = f"{folder}/{kind}.gguf"
        done = subprocess.run([LUTRA, "quantize", "--allow-requantize", steps, file, kind], capture_output=True, text=True,
                              timeout=200)
        if done.returncode:
            fail(f"quantize {kind}: {done.stderr[-300:]}")
        same(f"a file of {kind}", rewards(file), at_marks, .02 if kind == "F16" else .05)
    unmarked = run(dense("unmarked", "Qwen2ForProcessRewardModel", lift))
    if unmarked.returncode != 1 or "<extra_0>" not in unmarked.stderr:
        fail(f"a mark that is no token: {unmarked.returncode} {unmarked.stderr[-200:]}")
    three = run(make(folder, "three", "Qwen2ForSequenceClassification", {"score.weight": ([3, D], w + w + w)}))
    if three.returncode != 1 or "cls.output.weight" not in three.stderr:
        fail(f"three classes: {three.returncode} {three.stderr[-200:]}")
print("all checks passed" if not failures else f"{len(failures)} checks failed")
sys.exit(bool(failures))
