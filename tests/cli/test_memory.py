# SPDX-License-Identifier: MIT
"""What a short run keeps in memory beside the model's file."""
import os, resource, subprocess, sys, tempfile

LUTRA = os.environ["LUTRA"]
MOST_KIB = 30 << 10

with tempfile.TemporaryDirectory() as folder:
    model = os.path.join(folder, "m.gguf")
    # So many layers that the embeddings, which are read whole before they are let go, are less than half of it.
    subprocess.run([LUTRA, "make-model", "--shape", "qwen2.5-0.5b", "--layers", "12", "-o", model, "-q"], check=True)
    made_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    file_kib = os.path.getsize(model) >> 10
    subprocess.run([LUTRA, "run", "-m", model, "-p", "a", "-n", "3", "-t", "2", "-q"], check=True,
                   stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # the largest child's, which is this one
if made_kib >= file_kib:
    sys.exit(f"make-model took {made_kib} KiB, so this says nothing")
print(f"peak {peak_kib} KiB for a file of {file_kib}")
if peak_kib > file_kib + MOST_KIB:
    sys.exit(f"that is {peak_kib - file_kib - MOST_KIB} KiB too many")
