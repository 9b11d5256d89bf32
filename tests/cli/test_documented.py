# SPDX-License-Identifier: MIT
"""Every command `lutra ...` in a code block of README.md and docs/ runs as it stands, on small files of the names it uses."""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
SHORTER = {"run": ["-n", "4", "-c", "256"], "bench": ["-p", "8", "-n", "2", "-r", "1", "--no-peaks"], "eval": ["--n", "2"]}
OPTION = {"CMD": "true"}  # placeholders


def commands():
    for path in [SOURCE + "/README.md", *sorted(glob.glob(SOURCE + "/docs/*.md"))]:
        text = re.sub(r"\\\n\s*", " ", open(path).read())
        for block in re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S):
            for line in block.splitlines():
                if line.startswith("lutra "):  # what follows three spaces explains
                    yield os.path.basename(path), re.split(r" {3,}(?=\S)", line)[0]


def prepare(folder):
    models = SOURCE + "/models/"
    for name, source in (("model.gguf", "abacus-1m-f16.gguf"), ("in.gguf", "abacus-1m-f16.gguf"),
                         ("judge.gguf", "abacus-xs-prm-token-f16.gguf")):
        shutil.copy(models + source, os.path.join(folder, name))
    with open(models + "abacus-test.jsonl") as f, open(folder + "/problems.jsonl", "w") as out:
        out.writelines(line for _, line in zip(range(2), f))
    os.mkdir(folder + "/notes")
    with open(folder + "/notes/owl.md", "w") as f:
        f.write("Owls are counted at night.")
    with open(SOURCE + "/docs/TOUR.md") as f, open(folder + "/text.txt", "w") as out:
        out.write(f.read())
    os.symlink(SOURCE + "/models", folder + "/models")


def main():
    n = n_wrong = 0
    for name, line in commands():
        words = [OPTION.get(w, w) for w in shlex.split(line)[1:]]
        missing = [w for w in words if w.endswith((".gguf", ".jsonl")) and w.startswith("countdown")]
        elided = any(w.endswith(",...") for w in words)
        if missing or elided:  # the tests of Countdown's models run theirs
            continue
        with tempfile.TemporaryDirectory() as folder:
            prepare(folder)
            r = subprocess.run([LUTRA, *words, *SHORTER.get(words[0], [])], cwd=folder, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=300)
        n += 1
        if r.returncode != 0:
            n_wrong += 1
            print(f"FAILED: {name}: {line}\n  code {r.returncode}: {r.stderr[-300:]}")
    print(f"{n} commands, {n_wrong} wrong")
    return n_wrong > 0 or n < 8


sys.exit(main())
