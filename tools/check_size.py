"""Checks the length of rooms, and of files and functions in src, include, apps, examples, tests and bench.

usage: check_size.py [ROOT]

Ceilings (exit status 1): 800 lines for a .c, 250 for a .h (400 for an *_impl.h or *_tmpl.h, which may hold code), 120 for a
function, 200 for a kernel. Worth another look (printed, status 0): 600 lines for a .c, 60 for a function.
A room of src has at most so many lines of C and headers as ROOMS says: one that grows beyond is two rooms, or says
more than it needs; raise a number in a commit that says why.
A function is what stands between a `{` and a `}` in the first column, as .clang-format lays it out.
"""
import re
import sys
from pathlib import Path

FOLDERS = ("src", "include", "apps", "examples", "tests", "bench")
KERNELS = ("src/cpu/", "src/npu/")
ROOMS = {
    "base": 2800, "chat": 1000, "check": 1200, "cpu": 17700, "decode": 10200, "devices": 600, "draft": 1200, "embed": 500,
    "engine": 5000, "files": 1800, "gpu": 3100, "kv": 2300, "make": 2300, "model": 3600, "npu": 14400, "ops": 2900, "phone": 1250,
    "quant": 2800, "quantize": 6000, "rag": 5000, "sched": 4000, "search": 5900, "sidecar": 400, "sim": 4420,
    "text": 12900, "weights": 6200,
}
NAME = re.compile(r"([A-Za-z_]\w*)\(")


def functions(lines):
    """Yields (line number, name, length) of each function body."""
    start = None
    for n, line in enumerate(lines, 1):
        if line == "{":
            start = n
        elif line == "}" and start:
            head = n_head = start - 1
            while n_head > 1 and lines[n_head - 2].strip() and not lines[n_head - 2].startswith(("}", "#", "/", " *")):
                n_head -= 1
            m = NAME.search(" ".join(lines[n_head - 1:head]))
            yield start, m.group(1) if m else "?", n - start + 1
            start = None


def ceilings(path):
    if path.suffix == ".c":
        return 800, 600
    limit = 400 if path.stem.endswith(("_impl", "_tmpl")) else 250
    return limit, limit


def check_rooms(root):
    """What is wrong with the rooms' lengths."""
    for room in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        n = sum(len(path.read_text(errors="replace").splitlines()) for path in room.rglob("*.[ch]"))
        if room.name not in ROOMS:
            yield f"src/{room.name}: no limit in ROOMS of tools/check_size.py"
        elif n > ROOMS[room.name]:
            yield f"src/{room.name}: {n} lines, at most {ROOMS[room.name]}"


def check(root):
    errors, notes = list(check_rooms(root)), []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            name = path.relative_to(root).as_posix()
            lines = path.read_text(errors="replace").splitlines()
            limit, soft = ceilings(path)
            if len(lines) > limit:
                errors.append(f"{name}: {len(lines)} lines, at most {limit}")
            elif len(lines) > soft:
                notes.append(f"{name}: {len(lines)} lines, above {soft} it is worth another look")
            limit = 200 if name.startswith(KERNELS) else 120
            for n, function, length in functions(lines):
                if length > limit:
                    errors.append(f"{name}:{n}: {function} has {length} lines, at most {limit}")
                elif length > 60:
                    notes.append(f"{name}:{n}: {function} has {length} lines, above 60 it is worth another look")
    return errors, notes


if __name__ == "__main__":
    bad, look = check(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join([f"note: {x}" for x in look] + bad) or "no room, file or function is too long")
    sys.exit(bool(bad))
