# SPDX-License-Identifier: MIT
"""llama.cpp's documented command lines: each works, is accepted with one line, or is refused by name."""
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
COMMANDS = {"llama-cli": "run", "llama-completion": "run", "llama-bench": "bench", "llama-batched-bench": "bench",
            "llama-quantize": "quantize", "llama-imatrix": "imatrix", "llama-tokenize": "tokenize",
            "llama-server": "serve"}


def arguments(words, folder):
    # The smallest, which takes half the time; its heads of 16 hold no block of a quantized cache or of an imatrix.
    needs_more = words[0] == "llama-quantize" or any(w.startswith(("-ct", "--cache-type")) for w in words)
    model = SOURCE + f"/models/abacus-{'1m' if needs_more else 'xs'}-f16.gguf"
    with open(folder + "/text", "w") as f:
        f.write("some text")
    name = b"blk.0.attn_q.weight"  # the only entry of an imatrix in llama.cpp's first format
    with open(folder + "/imatrix.dat", "wb") as f:
        f.write(struct.pack(f"<ii{len(name)}sii128f", 1, len(name), name, 1, 128, *[1] * 128))
    values = {"MODEL": model, "F16": model, "FILE": folder + "/text", "OUT": folder + "/out.gguf",
              "IMATRIX": folder + "/imatrix.dat"}
    tool, rest = words[0], [values.get(w, w) for w in words[1:]]
    command = COMMANDS.get(tool, tool)
    if command == "quantize" and "OUT" not in words:  # its name is made of IN's
        rest = [shutil.copy(model, folder + "/in-f16.gguf") if w == model else w for w in rest]
    if rest in (["--version"], ["--help"]):
        return rest
    if command == "run" and "-n" not in rest:
        rest += ["-n", "2"]  # what is said of the options does not depend on it
    return [command] + rest


def run(command, **settings):
    """To the end; a server to the line that says that it serves."""
    if command[1] != "serve":
        return subprocess.run(command, capture_output=True, timeout=100, **settings)
    program, said = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings), []
    for line in program.stderr:
        said.append(line)
        if "serving" in line:
            program.send_signal(signal.SIGTERM)
    return subprocess.CompletedProcess(command, program.wait(timeout=100), program.stdout.read(), "".join(said))


def verdict(words, folder):
    r = run([LUTRA, *arguments(words, folder)], stdin=subprocess.DEVNULL, text=True, cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": folder, "HF_ENDPOINT": "http://127.0.0.1:9"})  # nobody answers
    if "without libmicrohttpd" in r.stderr:
        return None
    said = [line for line in r.stderr.splitlines() if "without effect" in line]
    if "did you mean" in r.stderr:
        return "misleading: " + r.stderr
    if r.returncode == 0:
        return "note" if len(said) == 1 else "works" if not said else "more than one line"
    lines = r.stderr.splitlines()
    first = next((line for line in lines if "-hf " in line), lines[0] if lines else "")
    return f"code {r.returncode}: {first}"


def unknown_options():
    """Those of the help texts that run neither takes nor names a reason for, or takes for another."""
    lines = open(SOURCE + "/tests/cli/llama_options.txt").read().splitlines()
    names = [name for line in lines if not line.startswith("#") for name in line.split()]
    wrong = []
    for name in names:
        r = subprocess.run([LUTRA, "run", "-m", "/no/such/model", name], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=100)
        if "unknown option" in r.stderr or "did you mean" in r.stderr:
            wrong.append(name)
    print(f"{len(names)} options, {len(wrong)} unknown: {' '.join(wrong)}")
    return wrong if len(names) > 300 else ["too few names"]


def main():
    n_wrong = n_lines = 0
    for line in open(SOURCE + "/tests/cli/llama_command_lines.txt"):
        expected, *words = line.split()
        if expected.startswith("#"):
            continue
        n_lines += 1
        with tempfile.TemporaryDirectory() as folder:
            seen = verdict(words, folder)
        if seen is None:
            continue
        by_name = seen.startswith("code") and f": {expected}" in seen.replace("llama-", "")
        if seen != expected and not by_name:
            n_wrong += 1
            print(f"FAILED: {' '.join(words)}\n  expected {expected}, saw {seen}")
    print(f"{n_lines} command lines, {n_wrong} wrong")
    return n_wrong > 0 or n_lines < 144 or unknown_options() != []


sys.exit(main())
