"""Compares fresh counts with the recorded ones: the rows that are counted fastest and the smallest of every kernel and
kind, or with LUTRA_TEST_LONG=1 all of them.  Which rows there are is always compared whole.

usage: check_counts.py COUNTER RECORD      exit status 77 (skipped) where the counter cannot run or the compiler differs

A row whose packets differ by more than 0.5 %, or whose other figures differ at all, means that a kernel changed and the
record did not: bench/npu/README.md says how to record again.  Products by lookup and by masks have upper limits, too,
which recording again does not move, and which the record is held against, too.
"""
import json
import os
import subprocess
import sys

FEW_PACKETS = 12_000
# One row of 1536x8960, packets per 256 weights: 2 % above what was recorded in November 2026 (docs/NPU.md).
LIMITS = {"lookup": {"Q1_0 planes": 1.20, "TQ2_0 planes": 2.16, "Q2_0 planes": 2.49, "2 bit g64 asym": 2.65,
                     "3 bit g128 asym": 3.25, "4 bit g128 asym": 4.44, "4 bit g64 asym": 4.98, "Q4_0 planes": 7.17,
                     "Q4_1 planes": 7.50, "W2 planes": 2.56, "W3 planes": 3.61, "W4 planes": 4.86,
                     "W4 planes, g128": 4.37},
          "masks": {"Q1_0 planes": 1.84, "TQ2_0 planes": 1.87, "Q2_0 planes": 1.95, "2 bit g64 asym": 2.26,
                    "4 bit g128 asym": 2.46, "4 bit g64 asym": 2.45},
          "vlut32": {"Q1_0 planes": 0.75, "TQ2_0 planes": 1.39, "Q2_0 planes": 1.40, "2 bit g64 asym": 1.63,
                     "3 bit g128 asym": 1.96, "4 bit g128 asym": 2.72, "4 bit g64 asym": 2.82}}
limit = {f"{kernel}|{kind}|1|1536|8960": most * 1536 * 8960 / 256
         for kernel, kinds in LIMITS.items() for kind, most in kinds.items()}

counter, record = sys.argv[1:]


def told(*args, names=()):
    run = subprocess.run([counter, *args], capture_output=True, text=True, input="".join(n + "\n" for n in names))
    if run.returncode == 77:
        print("skipped:", run.stderr.strip())
        sys.exit(77)
    if run.returncode:
        sys.exit(f"{counter}: exit {run.returncode}\n{run.stderr[-2000:]}")
    return run.stdout


def name_of(row):
    return "|".join(str(row[field]) for field in ("kernel", "kind", "m", "k", "n"))


known = json.load(open(record))
old = {name_of(r): r for r in known["rows"]}
listed = told("--list").split("\n")[:-1]
errors = [f"{name}: recorded, and counted by nobody" for name in old if name not in listed]
errors += [f"{name}: not recorded" for name in listed if name not in old]
errors += [f"{name}: has a limit, and is not recorded" for name in limit if name not in old]
errors += [f"{name}: {old[name]['packets']} packets recorded, at most {most:.0f} allowed"
           for name, most in limit.items() if name in old and old[name]["packets"] > most]
errors += [f"{name}: counted twice" for name in set(listed) if listed.count(name) > 1]
if errors:
    sys.exit("\n".join(errors))

chosen = sorted(old, key=lambda name: old[name]["packets"])
if os.environ.get("LUTRA_TEST_LONG") != "1":
    smallest = {(old[name]["kernel"], old[name]["kind"]): name for name in reversed(chosen)}
    chosen = [name for name in chosen if old[name]["packets"] <= FEW_PACKETS or name in smallest.values()]
fresh = json.loads(told("--only", names=chosen))
if fresh["compiler"].split(".")[0] != known["compiler"].split(".")[0]:
    print(f"skipped: recorded with {known['compiler']}, here is {fresh['compiler']}")
    sys.exit(77)

for row in fresh["rows"]:
    before = old[name_of(row)]
    if row["packets"] > limit.get(name_of(row), row["packets"]):
        errors.append(f"{name_of(row)}: {row['packets']} packets counted, at most {limit[name_of(row)]:.0f} allowed")
    for field in ("packets", "alone"):
        if abs(row.get(field, 0) - before.get(field, 0)) > 0.005 * before["packets"]:
            errors.append(f"{name_of(row)}: {field} {before.get(field)} recorded, {row.get(field)} counted")
    for field in ("gathers", "scatters", "dma_bytes", "tile_pairs", "bound"):
        if field in before and row.get(field) != before[field]:
            errors.append(f"{name_of(row)}: {field} {before[field]} recorded, {row.get(field)} now")
counted = {name_of(row) for row in fresh["rows"]}
errors += [f"{name}: asked for and not counted" for name in chosen if name not in counted]
print("\n".join(errors) or f"{len(counted)} of {len(old)} rows as recorded")
sys.exit(bool(errors))
