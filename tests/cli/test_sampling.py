# SPDX-License-Identifier: MIT
"""A file's own sampling defaults: used where nothing was given, and shown; what is given wins, be it llama.cpp's
default."""
import os, struct, subprocess, sys, tempfile

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
MODEL = os.path.join(SOURCE, "models", "abacus-1m-f16.gguf")
env = {k: v for k, v in os.environ.items() if not k.startswith("LUTRA_ARG_")}
failures = 0


def check(good, what, done=None):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what, "\n", (done.stdout + done.stderr)[-800:] if done else "")


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def with_keys(path, **keys):
    """The model with more keys before its own: as many bytes as keep the tensors aligned."""
    data = open(MODEL, "rb").read()
    more = b"".join(text("general.sampling." + k) + struct.pack("<If", 6, v) for k, v in keys.items())
    fill = -(len(more) + 8 + 4 + 4 + 8) % 32
    more += text("fill") + struct.pack("<I", 8) + text("x" * fill)
    n_kv = struct.unpack_from("<Q", data, 16)[0]
    with open(path, "wb") as f:
        f.write(data[:16] + struct.pack("<Q", n_kv + len(keys) + 1) + more + data[24:])


def run(path, seed, *args, **more):
    return subprocess.run([LUTRA, "run", "-m", path, "-st", "-no-cnv", "-n", "24", "-p", "Sam has 4", "-s", str(seed),
                           *args],
                          env={**env, **more}, capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=120)


with tempfile.TemporaryDirectory() as folder:
    greedy = os.path.join(folder, "greedy.gguf")
    with_keys(greedy, temp=0.0)
    seeds = range(1, 6)
    outs = [run(greedy, s) for s in seeds]
    check(all(o.returncode == 0 for o in outs) and len({o.stdout for o in outs}) == 1, "the file's temperature 0",
          outs[0])
    check(len({run(MODEL, s).stdout for s in seeds}) > 1, "without the key seeds matter")
    for args, more in ((("--temp", "0.8"), {}), (("--temp", "3"), {}), ((), {"LUTRA_ARG_TEMP": "0.8"})):
        check(len({run(greedy, s, *args, **more).stdout for s in seeds}) > 1, f"what is given wins: {args} {more}")
    check(run(greedy, 7, "--temp", "0.8").stdout == run(MODEL, 7).stdout, "given as the default is the default")
    check("general.sampling.temp' is a default" in run(greedy, 1, "-v").stderr, "-v names the key")
    shown = subprocess.run([LUTRA, "inspect", greedy], env=env, capture_output=True, text=True)
    check("general.sampling.temp" in shown.stdout, "inspect shows it", shown)
print("all checks passed" if not failures else f"{failures} failed")
sys.exit(failures > 0)
