"""Checks what every source file must say and what none may.

usage: check_text.py [ROOT]

All C sources: the SPDX line first, no line over 120 columns, no tabs, no trailing blanks, no `#if 0`, no reminders to
do things later.  src/: nothing that prints, exits or aborts; threads by thread_start alone (base/thread.h: signals are
the application's).  Rooms: a README.md whose first line is the room's sentence, and the same sentence in the map of
CONTRIBUTING.md.  Exit status 1 and one line per violation.
"""
import re
import sys
from pathlib import Path

FOLDERS = ("src", "include", "apps", "examples", "tests", "bench")
COLUMNS = 120
SPDX = "/* SPDX-License-Identifier: MIT"
NEVER = [(re.compile(r"\t"), "a tab"), (re.compile(r"\s$"), "a blank at the end"),
         (re.compile(r"^\s*#\s*if\s+0\b"), "#if 0"), (re.compile(r"\b(TODO|FIXME|XXX)\b"), "a reminder")]
LIBRARY = re.compile(r"\b(printf|vprintf|puts|putchar|perror|exit|_exit|quick_exit|abort|assert)\s*\("
                     r"|\bf(printf|puts|write)\s*\([^;]*\bstd(out|err)\b")
THREAD, STARTS_THREADS = re.compile(r"\b(pthread|thrd)_create\b"), "src/base/thread.c"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(\\.|[^\"\\\n])*\"", re.S)


def blank(m):
    return "\n" * m.group(0).count("\n")


def check_source(root, path):
    name, text = path.relative_to(root).as_posix(), path.read_text(errors="replace")
    if not text.startswith(SPDX):
        yield f"{name}:1: the first line is not {SPDX}"
    for n, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS:
            yield f"{name}:{n}: {len(line)} columns; at most {COLUMNS}"
        for pattern, what in NEVER:
            if pattern.search(line):
                yield f"{name}:{n}: {what}"
    if name.startswith("src/"):
        for n, line in enumerate(COMMENT.sub(blank, text).split("\n"), 1):
            if LIBRARY.search(line):
                yield f"{name}:{n}: the library never prints, exits or aborts"
            if THREAD.search(line) and name != STARTS_THREADS:
                yield f"{name}:{n}: threads of the library are started by thread_start"


def check_readmes(root):
    front = root / "CONTRIBUTING.md"
    rows = front.read_text().splitlines() if front.is_file() else None
    for line in (root / "src" / "LAYERS").read_text().splitlines():
        if not line[:1].isdigit():
            continue
        room = line.split()[1]
        readme = root / "src" / room / "README.md"
        if not (root / "src" / room).is_dir():
            continue
        sentence = readme.read_text().split("\n")[0].strip() if readme.is_file() else ""
        if not sentence or sentence.startswith("#") or not sentence.endswith("."):
            yield f"src/{room}/README.md: the first line must be the room's sentence"
        elif rows is not None and not any(f"`src/{room}/`" in r and sentence.rstrip(".") in r for r in rows):
            yield f"CONTRIBUTING.md: the map needs the row | `src/{room}/` | {sentence.rstrip('.')} |"


def check(root):
    errors = [e for folder in FOLDERS for path in sorted((root / folder).rglob("*.[ch]"))
              for e in check_source(root, path)]
    return errors + list(check_readmes(root))


if __name__ == "__main__":
    found = check(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found) or "every source file reads as it should")
    sys.exit(bool(found))
