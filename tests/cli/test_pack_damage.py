# SPDX-License-Identifier: MIT
"""Packed copies with 1 to 50 flipped bytes anywhere: every one is noticed, and none changes a reply.  A good file is
compared once."""
import os
import random
import shutil
import subprocess
import sys
import tempfile

LUTRA = os.environ["LUTRA"]
MODEL = os.environ["LUTRA_SOURCE"] + "/models/abacus-1m-f16.gguf"
FILES = 60
failures = []


def fail(text):
    failures.append(text)
    print("FAILED:", text)


def run(model, *options):
    done = subprocess.run([LUTRA, "run", "-m", model, "-st", "--temp", "0", "-n", "12", "-t", "1", "--no-progress",
                           "--no-perf", "-p", "Sam has 42 cards. How many are twice as many?", *options],
                          capture_output=True, text=True, timeout=120)
    if done.returncode:
        fail(f"exit code {done.returncode}: {done.stderr[-300:]}")
    return done.stdout, [line for line in done.stderr.splitlines() if line.startswith("warning: ")]


def flip(path, n, draw):
    with open(path, "r+b") as f:
        size = f.seek(0, 2)
        for at in draw.sample(range(size), n):
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1 << draw.randrange(8)]))


with tempfile.TemporaryDirectory() as folder:
    model = shutil.copy2(MODEL, os.path.join(folder, "m.gguf"))
    packed = model + ".lutra-packed"
    plain, _ = run(model)
    subprocess.run([LUTRA, "pack", "-q", model], check=True)
    good = shutil.copy2(packed, os.path.join(folder, "good"))
    text, warnings = run(model)
    if text != plain or warnings:
        fail(f"a good file: {warnings}")
    if not os.path.exists(packed + ".checked"):
        fail("that it is good is not remembered")
    before = os.stat(packed + ".checked").st_ino
    run(model)
    if os.stat(packed + ".checked").st_ino != before:
        fail("a file that is known is compared again")
    draw = random.Random(7)
    for i in range(FILES):
        n = 1 if i < 20 else draw.randint(1, 50)
        shutil.copy2(good, packed)
        flip(packed, n, draw)
        text, warnings = run(model)
        if text != plain or not warnings:
            fail(f"file {i}, {n} bytes: warnings {warnings}, {'another text' if text != plain else 'the same text'}")
    # In place, in a file that was compared, with its time of modification put back.
    shutil.copy2(good, packed)
    run(model)
    was = os.stat(packed)
    with open(packed, "r+b") as f:
        f.seek(was.st_size // 2)
        byte = f.read(1)[0]
        f.seek(was.st_size // 2)
        f.write(bytes([byte ^ 255]))
    os.utime(packed, ns=(was.st_atime_ns, was.st_mtime_ns))
    text, warnings = run(model)
    if text != plain or not warnings:
        fail(f"a compared file, changed in place: {warnings}")
    text, warnings = run(model)
    if text != plain or not warnings:
        fail(f"a damaged file, the second time: {warnings}")
    # A folder that cannot be written to: compared at every start.
    shutil.copy2(good, packed)
    os.remove(packed + ".checked") if os.path.exists(packed + ".checked") else None
    os.mkdir(packed + ".checked")
    text, warnings = run(model)
    if text != plain or warnings:
        fail(f"nothing can be remembered: {warnings}")
    flip(packed, 50, draw)
    text, warnings = run(model)
    if text != plain or not warnings:
        fail(f"nothing can be remembered, and damage: {warnings}")
print("all checks passed" if not failures else f"{len(failures)} checks failed")
sys.exit(bool(failures))
