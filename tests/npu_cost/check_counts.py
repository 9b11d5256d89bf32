"""Compares fresh counts of one shape and of cheap ones of others, or with LUTRA_TEST_LONG=1 of all, with the recorded
ones.

usage: check_counts.py COUNTER RECORD      exit status 77 (skipped) where the counter cannot run or the compiler differs

A row that differs by more than 0.5 % means that a kernel changed and the record did not: bench/npu/README.md says how
to record again.
"""
import json
import os
import subprocess
import sys

counter, record = sys.argv[1:]
run = subprocess.run([counter] + ([] if os.environ.get("LUTRA_TEST_LONG") == "1" else ["--small"]), capture_output=True,
                     text=True)
if run.returncode == 77:
    print("skipped:", run.stderr.strip())
    sys.exit(77)
if run.returncode:
    sys.exit(f"{counter}: exit {run.returncode}\n{run.stderr[-2000:]}")
fresh, known = json.loads(run.stdout), json.load(open(record))
if fresh["compiler"].split(".")[0] != known["compiler"].split(".")[0]:
    print(f"skipped: recorded with {known['compiler']}, here is {fresh['compiler']}")
    sys.exit(77)


def key(row):
    return row["kernel"], row["kind"], row["m"], row["k"], row["n"]


old = {key(r): r for r in known["rows"]}
compared, errors = 0, []
for row in fresh["rows"]:
    before = old.get(key(row))
    if not before:
        errors.append(f"{key(row)}: not recorded")
        continue
    compared += 1
    ratio = row["packets"] / before["packets"]
    if abs(ratio - 1) > 0.005:
        errors.append(f"{key(row)}: {before['packets']} packets recorded, {row['packets']} counted")
    for field in ("gathers", "scatters", "dma_bytes", "tile_pairs"):
        if row[field] != before[field]:
            errors.append(f"{key(row)}: {field} {before[field]} recorded, {row[field]} now")
for kernel in ("dequant", "gemv", "gemm", "lookup", "tables", "masks", "vlut32", "softmax", "attention",
               "attention step", "head", "rope"):
    if kernel not in [r["kernel"] for r in fresh["rows"]]:
        errors.append(f"no row of {kernel} was counted")
print("\n".join(errors) or f"{compared} rows as recorded")
sys.exit(bool(errors))
