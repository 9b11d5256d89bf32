# SPDX-License-Identifier: MIT
"""Which tests a change asks for first: those of the changed rooms, then of the rooms above them.

usage: changed.py BUILD_FOLDER [BASE]

BUILD_FOLDER is configured.  Changed is what differs from BASE (default: where this branch left origin/main or main;
the last commit where that is here), and files that git does not know.  Prints three lines: targets to build, the
tests as a regular expression for ctest, and how many were left out because BUDGET_S of tests were chosen already.
How long a test takes is what ctest recorded in BUILD_FOLDER.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

BUDGET_S = 150  # of processor time, times the processors; the rest of four minutes is for building
UNKNOWN_S = 2
RELATED = {"cpu": ("checkkern", "arm/"), "npu": ("npu/",), "weights": ("hf/",), "engine": ("golden/",)}


def layers(root):
    """{room: rooms it may include}, in the file's order."""
    rows = (line.split("#")[0].split() for line in (root / "src/LAYERS").read_text().splitlines())
    return {row[1]: set(row[2:]) for row in rows if row}


def above(rooms, allowed):
    """The rooms that include one of `rooms`, themselves or through others."""
    found = set(rooms)
    for room, below in allowed.items():  # a line names rooms of lines above it
        if below & found:
            found.add(room)
    return found - set(rooms)


def prefixes(paths, allowed):
    """[beginnings of test names], the nearest to the change first."""
    changed, tested, folders = set(), set(), set()
    for path in paths:
        top, _, rest = path.partition("/")
        part = rest.split("/")[0]
        if top == "src" and part in allowed:
            changed.add(part)
        elif top == "include":
            changed |= {room for room, below in allowed.items() if "include" in below}
        elif path.startswith("tests/unit/"):
            tested.add(path.split("/")[2])
        elif top == "tests" and "/" in rest:
            folders.add(part + "/")
        elif top == "apps":
            folders.add("cli/")
        elif top in ("src", "cmake", "tests", "CMakeLists.txt", "CMakePresets.json"):
            changed |= set(allowed)
    related = [name for room in sorted(changed) for name in RELATED.get(room, ())]
    higher = [room for room in allowed if room in above(changed, allowed)]
    order = ["style/", *sorted(folders), *(f"unit/{room}/" for room in [*sorted(changed | tested), *higher]), *related]
    return order + ["golden/", "cli/"] * bool(changed & set(allowed))


def choose(tests, order, cost, budget):
    """(chosen names, number left out)"""
    chosen, left_out = [], 0
    for prefix in dict.fromkeys(order):
        for name in sorted((t for t in tests if t.startswith(prefix) and t not in chosen), key=lambda t: cost.get(t, UNKNOWN_S)):
            budget -= cost.get(name, UNKNOWN_S)
            if budget >= 0 or prefix == "style/":
                chosen.append(name)
            else:
                left_out += 1
    return chosen, left_out


def git(root, *args):
    run = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True)
    return run.stdout.split("\n")[:-1] if run.returncode == 0 else []


def changed_paths(root, base):
    head = git(root, "rev-parse", "HEAD")
    base = base or next((b[0] for b in (git(root, "merge-base", "HEAD", r) for r in ("origin/main", "main")) if b), None)
    dirty = git(root, "status", "--porcelain", "--untracked-files=all")
    if [base] == head and not dirty:
        base = "HEAD~1"
    return git(root, "diff", "--name-only", base or "HEAD") + [line[3:] for line in dirty if line.startswith("??")]


def recorded(build):
    """{test: seconds}; ctest's file has `name runs seconds` lines, then the names that failed."""
    path = build / "Testing/Temporary/CTestCostData.txt"
    rows = (line.split() for line in path.read_text().splitlines()) if path.is_file() else []
    return {row[0]: float(row[2]) for row in rows if len(row) == 3}


def main(build, base=None):
    root = Path(__file__).resolve().parents[1]
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    commands = {t["name"]: t.get("command", [""]) for t in json.loads(shown.stdout)["tests"]}
    order = prefixes(changed_paths(root, base), layers(root))
    chosen, left_out = choose(commands, order, recorded(Path(build)), BUDGET_S * (os.cpu_count() or 1))
    programs = {os.path.basename(commands[n][0]) for n in chosen if n.startswith("unit/") and build in commands[n][0]}
    rooms = {"lutra_" + room for room in layers(root)}  # whose libraries style/globals reads
    own = all(re.match("unit/|style/", name) for name in chosen)
    print(" ".join(sorted(programs | rooms)) if own else "all")
    print("^(" + "|".join(map(re.escape, chosen)) + ")$")
    print(left_out)


if __name__ == "__main__":
    main(*sys.argv[1:])
