# SPDX-License-Identifier: MIT
"""Every long command ends after SIGINT or SIGTERM with code 130, and at once after a second one; a file half written
goes."""
import os
import signal
import subprocess
import sys
import tempfile
import time

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
MODEL = SOURCE + "/models/abacus-1m-f16.gguf"
failures = []


def commands(folder):
    """Name, arguments, and a file whose appearance shows that the command is at work."""
    endless = ["-m", MODEL, "--ignore-eos", "-n", "-1", "-c", "65536", "-p", "Sam has 42 cards."]
    yield "run", ["run", "-st", *endless], None
    yield "text", ["run", "-no-cnv", "-st", *endless], None
    yield "prompt", ["run", "-m", MODEL], None  # waits at the prompt: its input stays open
    yield "search", ["run", "-st", *endless, "--vote", "4"], None
    yield "bench", ["bench", "-m", MODEL, "-p", "512", "-n", "4096", "-r", "1000"], None
    yield "eval", ["eval", "-m", MODEL, "-f", SOURCE + "/models/abacus-test.jsonl", "--n", "64"], None
    out = os.path.join(folder, "new.gguf")
    yield "make-model", ["make-model", "-o", out, "--shape", "qwen2.5-0.5b", "--type", "Q8_0"], out


def began(program, out, folder):
    end = time.monotonic() + 60
    while out and time.monotonic() < end and program.poll() is None and not os.listdir(folder):
        time.sleep(0.01)
    time.sleep(0 if out else 0.4)


def check(name, arguments, number, times, out, folder):
    program = subprocess.Popen([LUTRA, *arguments], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    began(program, out, folder)
    ended = program.poll()
    for _ in range(times):
        program.send_signal(number)
        time.sleep(0.02)
    try:
        program.wait(timeout=60)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
    err = program.stderr.read().decode(errors="replace")
    program.stdin.close()
    if ended is not None or program.returncode != 130:
        failures.append(name)
        print(f"FAILED: {name}, {times} x {signal.Signals(number).name}: {program.returncode}, {err[-300:]!r}")
    left = os.listdir(folder)
    if times == 1 and left:
        failures.append(name)
        print(f"FAILED: {name}, {signal.Signals(number).name}: {left} stay")
    for f in left:
        os.unlink(os.path.join(folder, f))


for number in (signal.SIGINT, signal.SIGTERM):
    for times in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            for name, arguments, out in commands(folder):
                check(name, arguments, number, times, out, folder)
print("all checks passed" if not failures else f"{len(failures)} checks failed")
sys.exit(bool(failures))
