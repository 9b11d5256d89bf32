"""Checks the layout of all C sources with clang-format 14, whose output .clang-format is written for.

usage: check_format.py [ROOT]

`clang-format -i FILE` repairs.  Exit status 77 (skipped) where there is no version 14.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

FOLDERS = ("src", "include", "apps", "examples", "tests", "bench")
VERSION = "14"


def find_tool():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path and re.search(rf"version {VERSION}\.", subprocess.run([path, "--version"], capture_output=True,
                                                                      text=True).stdout):
            return path
    return None


def main(root):
    tool = find_tool()
    if not tool:
        print(f"skipped: there is no clang-format {VERSION} here")
        return 77
    files = [str(p) for f in FOLDERS for p in sorted((root / f).rglob("*.[ch]"))]
    run = subprocess.run([tool, "--dry-run", "-Werror", "--style=file", *files], capture_output=True, text=True)
    bad = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", run.stderr, re.M)))
    print("\n".join(f"{b}: not as clang-format lays it out" for b in bad)
          or f"{len(files)} files are laid out as they should be")
    return bool(run.returncode)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
