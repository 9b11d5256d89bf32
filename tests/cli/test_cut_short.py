# SPDX-License-Identifier: MIT
"""Packed weights, used where they are mapped, are cut short during `lutra run`: it names the file and ends with code
1."""
import os
import shutil
import subprocess
import sys
import tempfile

LUTRA = os.environ["LUTRA"]
MODEL = os.environ["LUTRA_SOURCE"] + "/models/abacus-1m-f16.gguf"
failures = []


def cut_while_running(model, cut, *options):
    """The first reply is read whole, then the file is cut; the second question touches what is gone."""
    program = subprocess.Popen([LUTRA, "run", "-i", "-m", model, "-n", "4", "--temp", "0", *options],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.stdin.write(b"Sam has 42 cards.\n")
    program.stdin.flush()
    first = os.read(program.stdout.fileno(), 4096)
    os.truncate(cut, 4096)
    _, err = program.communicate(b"And how many has Tom?\n", timeout=60)
    want = f"lutra: {cut}: the file was cut short while it was in use\n".encode()
    if not first or program.returncode != 1 or want not in err:
        failures.append(cut)
        print(f"FAILED: {cut}: exit code {program.returncode}, stdout {first!r}, stderr {err!r}")


with tempfile.TemporaryDirectory() as folder:
    folder = os.path.realpath(folder)
    for name, threads in (("plain.gguf", "1"), ("a name with spaces.gguf", "2")):
        model = shutil.copy(MODEL, os.path.join(folder, name))
        subprocess.run([LUTRA, "pack", "-q", model], check=True)
        cut_while_running(model, model + ".lutra-packed", "-t", threads)  # computes from the mapped copy
print("all checks passed" if not failures else f"{len(failures)} checks failed")
sys.exit(bool(failures))
