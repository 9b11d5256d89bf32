# SPDX-License-Identifier: MIT
"""Every command `lutra ...` in a code block of README.md, docs/ and the man pages runs as it stands, on small files of the names it
uses.

A page's commands run in one folder, in their order.
"""
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
SHORTER = {"run": ["-n", "4", "-c", "256"], "bench": ["-p", "8", "-n", "2", "-r", "1", "--no-peaks"],
           "eval": ["--limit", "1"], "serve": ["--port", "0", "-c", "256"]}
PLACEHOLDER = {"CMD": "true", "...": "How are owls counted?", "qwen2.5-1.5b": "tiny-qwen2"}  # a smaller shape


def commands(text):
    """Lines of fenced and of indented blocks, and what stands in a sentence where its models are in the repository."""
    text = re.sub(r" *\\\n\s*", " ", text)
    blocks = "\n".join(re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S))
    lines = re.findall(r"^(?:\$ |.*\| )?(lutra .*)", blocks, re.M) + re.findall(r"^    (lutra .*)", text, re.M)
    lines += [c.replace("\n", " ") for c in re.findall(r"`(lutra [^`]*)`", text) if " models/" in c]
    return [re.split(r" {3,}(?=\S)", line)[0] for line in lines]  # what follows three spaces explains


def prepare(folder):
    models = SOURCE + "/models/"
    for name, source in (("model.gguf", "abacus-1m-f16.gguf"), ("small.gguf", "abacus-xs-f16.gguf"),
                         ("in.gguf", "abacus-1m-f16.gguf"), ("judge.gguf", "abacus-xs-prm-token-f16.gguf")):
        shutil.copy(models + source, os.path.join(folder, name))
    with open(models + "abacus-test.jsonl") as f, open(folder + "/problems.jsonl", "w") as out:
        out.writelines(line for _, line in zip(range(2), f))
    os.mkdir(folder + "/notes")
    for name in ("/notes/owl.md", "/manual.html"):
        with open(folder + name, "w") as f:
            f.write("Owls are counted at night.")
    with open(SOURCE + "/docs/TOUR.md") as f, open(folder + "/text.txt", "w") as out:
        out.write(f.read(2000))  # two chunks and a half
    with open(folder + "/keys", "w") as f:
        f.write("a-long-random-word editor\n")
    os.symlink(SOURCE + "/models", folder + "/models")


def run(command, **settings):
    """To the end; a server to the line that says that it serves."""
    if command[1] != "serve":
        return subprocess.run(command, capture_output=True, timeout=300, **settings)
    program, said = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings), []
    for line in program.stderr:
        said.append(line)
        if "serving" in line:
            program.send_signal(signal.SIGTERM)
    return subprocess.CompletedProcess(command, program.wait(timeout=300), program.stdout.read(), "".join(said))


def man_pages():
    """The examples of all man pages as the text of a page."""
    names = re.findall(r"^  (\S+)  +\S", subprocess.run([LUTRA, "--help"], capture_output=True, text=True).stdout, re.M)
    out = []
    for name in (n for n in names if not n.startswith("-")):
        page = subprocess.run([LUTRA, "--man", name], capture_output=True, text=True, check=True).stdout
        examples = re.findall(r"^\.B (lutra .*)", page.split(".SH EXAMPLES\n")[1].split(".SH ")[0], re.M)
        assert examples, name
        out += [e.replace("\\-", "-").replace("\\e", "\\") for e in examples]
    return "```\n" + "\n".join(out) + "\n```\n"


def wrong(path, text=None):
    """[commands, failures] of a page."""
    n = n_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        text = text or open(path).read()
        for program in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
            with open(folder + "/check.py", "w") as f:
                f.write(program)
        for line in commands(text):
            if line.startswith("lutra pull ") or " -hf " in line:
                continue  # needs a hub: test_models.py has one
            words = [PLACEHOLDER.get(w, w).replace("~/", folder + "/") for w in shlex.split(line)[1:]]
            r = run([LUTRA, *words, *SHORTER.get(words[0], [])], cwd=folder, stdin=subprocess.DEVNULL, text=True,
                    env={**os.environ, "HOME": folder})
            n += 1
            if r.returncode == 1 and ("without SQLite" in r.stderr or "without libmicrohttpd" in r.stderr):
                continue
            if r.returncode == 3 and "--check" in words and "-n" not in words:
                continue  # of four tokens no checker thinks well
            if r.returncode != 0:
                n_wrong += 1
                print(f"FAILED: {os.path.basename(path)}: {line}\n  code {r.returncode}: {r.stderr[-300:]}")
    print(f"{n:3} commands, {n_wrong} wrong: {os.path.basename(path)}")
    return n, n_wrong


def main():
    found = [wrong(path) for path in [SOURCE + "/README.md", *sorted(glob.glob(SOURCE + "/docs/*.md"))]]
    found.append(wrong("man pages", man_pages()))
    return sum(w for _, w in found) > 0 or sum(n for n, _ in found) < 20


sys.exit(main())
