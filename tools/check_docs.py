# SPDX-License-Identifier: MIT
"""Checks that what a page names is there.

usage: check_docs.py [ROOT]

In every *.md but templates (*.in.md): functions `lutra_x()` (of include/ and src/), options `--x` (of `lutra`, or of the repository's own
scripts where the line is not a command of lutra), source files, paths below the repository's folders, and targets of
links.  Names with upper-case words stand for the reader's own; names of other projects are listed below.  Exit status 1 and one line per
violation.
"""
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

SKIP = ("build", ".git")
SPAN = re.compile(r"^```[^\n]*\n(.*?)^```|^    (\S[^\n]*)|``(.+?)``|`([^`]+)`", re.M | re.S)
FUNCTION = re.compile(r"\blutra_[a-z0-9_]*[a-z0-9]\b(?![*./])")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)")
PATH = re.compile(r"(?<![\w./~$*-])(?<!> )[\w*][\w.*-]*(?:/[\w.*-]+)*/?")
SOURCE = (".c", ".h", ".py", ".sh", ".md", ".cmake")
# Options and files of other programs that pages name.
OTHER_OPTIONS = {"--build", "--install", "--component", "--prefix", "--cflags", "--libs", "--static", "--preset",
                 "--target", "--test-dir", "--tool"}
OTHER_FILES = {"stdint.h", "x.c", "check.py", "report.md"}  # also those that a page tells its reader to make


def sources(root, *patterns):
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and path.relative_to(root).parts[0] not in SKIP:
                yield path


def text_of(root, *patterns):
    return "\n".join(path.read_text(errors="replace") for path in sources(root, *patterns))


class Names:
    def __init__(self, root):
        self.root = root
        self.files = [p.relative_to(root).as_posix() for p in sources(root, "**/*")]
        self.bases = {f.rsplit("/")[-1] for f in self.files}
        self.top = {f.split("/")[0] for f in self.files if "/" in f}
        self.functions = set(FUNCTION.findall(text_of(root, "include/**/*.h", "src/**/*.[ch]", "bench/**/*.c",
                                              "**/CMakeLists.txt", "cmake/*")))
        tables = re.findall(r'\{\s*"(-[^"]*)"', text_of(root, "apps/**/*.c"))
        self.options = {o for said in tables for o in said.split()}
        scripts = [p.read_text(errors="replace") for top in ("tools", "bench", "scripts", "tests")
                   for p in sources(root, top + "/**/*") if p.suffix not in (".md", ".gguf", ".bin")]
        self.script_options = OTHER_OPTIONS | {o for text in scripts for o in OPTION.findall(text)}

    def has_option(self, name, line):
        return name in self.options or not re.match(r"(\$ )?lutra ", line) and name in self.script_options

    def has_file(self, name, page):
        name = name.rstrip("/")
        if "*" in name:
            return any(fnmatch("/" + f, "*/" + name) for f in self.files)
        return (name in OTHER_FILES or name in self.bases or any((b / name).exists() for b in (self.root, page.parent, self.root / "src"))
                or any(f.endswith("/" + name) for f in self.files))

    def is_file(self, name):
        """Whether a word of a page is meant as a file of the repository."""
        first = name.split("/")[0]
        if re.search(r"[A-Z]{3,}", name.rsplit(".", 1)[0]) and not name.endswith(".md"):
            return False
        return "/" in name and first in self.top or name.endswith(SOURCE)


def check_page(names, page):
    text, where = page.read_text(), page.relative_to(names.root)
    for link in LINK.findall(text):
        if not (page.parent / link).exists():
            yield f"{where}: no such file: {link}"
    for span in (next(g for g in m.groups() if g) for m in SPAN.finditer(text) if any(m.groups())):
        for line in span.split("\n"):
            for name in FUNCTION.findall(line):
                if name not in names.functions:
                    yield f"{where}: no such function: {name}"
            for name in OPTION.findall(line):
                if not names.has_option(name, line.strip()):
                    yield f"{where}: no such option: {name}"
            for name in PATH.findall(line):
                if names.is_file(name) and not names.has_file(name, page):
                    yield f"{where}: no such file: {name}"


def main(root):
    names, pages = Names(root), [p for p in sources(root, "**/*.md") if not p.name.endswith(".in.md")]
    errors = [e for page in pages for e in check_page(names, page)]
    print("\n".join(dict.fromkeys(errors)) or f"{len(pages)} pages name what there is")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
