# SPDX-License-Identifier: MIT
"""Finds work that a commit takes away without a word, as a careless merge does.

usage: check_lost.py [ROOT] [A..B]     default: every commit since the one that added this file

For each commit: test functions, test files, LUTRA_API functions and options of the program that stood in its parent
more often than they stand in it (a move is no loss) must be named in its message.  Where a whole test file goes, its
name is enough.  A name that stands as often again at B is forgiven, and so is one that a later commit of the range
names in a line `Removes: NAME ...`, as published messages cannot be changed.  A merge may lack what one side took
away, not what both have or one side added.  Subjects of commits that no remote branch has yet keep to 100 characters.

Exit status 1 and one line per violation; 77 where there is no history to read.
"""
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

SELF = "tools/check_lost.py"
COLUMNS = 100
# kind, files, names in them
KINDS = [("test", re.compile(r"tests/.*\.c$"), re.compile(r"\b(?:cmocka_unit_test\w*|TEST)\s*\(\s*([a-z]\w*)")),
         ("test", re.compile(r"tests/.*\.py$"), re.compile(r"^\s*def (test_\w+)", re.M)),
         ("function", re.compile(r"include/.*\.h$"), re.compile(r"^LUTRA_API\b[^(;]*?\b(lutra_\w+)\s*\(", re.M)),
         ("option", re.compile(r"apps/.*(?<!/foreign)\.c$"), re.compile(r"\{\s*\"(-[^\"]+)\","))]
TEST_FILE = re.compile(r"tests/(?:.*/)?(test_\w+\.\w+)$")


class Repository:
    def __init__(self, root):
        self.root, self.seen, self.trees, self.diffs = root, {}, {}, {}
        self.blobs = subprocess.Popen(["git", "-C", root, "cat-file", "--batch"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE)

    def git(self, *args):
        return subprocess.run(["git", "-C", self.root, *args], check=True, capture_output=True, text=True,
                              errors="replace").stdout

    def names(self, path, blob):
        """Counter of (kind, name) in a file; `blob` is its hash, of zeros where there is no such file."""
        if (path, blob) not in self.seen:
            self.seen[path, blob] = self.read(path, blob)
        return self.seen[path, blob]

    def read(self, path, blob):
        found = Counter()
        patterns = [(kind, names) for kind, files, names in KINDS if files.match(path)]
        if not blob.strip("0"):
            return found
        if m := TEST_FILE.match(path):
            found["test file", m[1]] = 1
        if patterns:
            self.blobs.stdin.write(blob.encode() + b"\n")
            self.blobs.stdin.flush()
            size = int(self.blobs.stdout.readline().split()[2])
            text = self.blobs.stdout.read(size + 1).decode(errors="replace")
            for kind, names in patterns:
                for said in names.findall(text):
                    found.update((kind, name) for name in (said.split() if kind == "option" else [said]))
        return found

    def compare(self, pairs):
        """Reads the differences from a to b of each pair (a, b), all by one process."""
        out = subprocess.run(["git", "-C", self.root, "diff-tree", "--stdin", "--always", "-r", "-z", "--no-renames"],
                             input="".join(f"{b} {a}\n" for a, b in pairs), check=True, capture_output=True, text=True,
                             errors="replace").stdout
        rest, fields = iter(pairs), iter(out.split("\0")[:-1])
        for field in fields:
            if field.startswith(":"):
                files.append((field, next(fields)))
            else:
                files = self.diffs[next(rest)] = []

    def lost(self, a, b):
        """{(kind, name): file} of names that stand in b less often than in a."""
        before, after, where = Counter(), Counter(), {}
        if (a, b) not in self.diffs:
            self.compare([(a, b)])
        for meta, path in self.diffs[a, b]:
            old, new = meta.split()[2:4]
            before += self.names(path, old)
            after += self.names(path, new)
            where.update(dict.fromkeys(self.names(path, old), path))
        return {key: where[key] for key in before - after}

    def count(self, commit, key):
        """How often a name stands in a tree."""
        if commit not in self.trees:
            entries = (line.split(None, 3) for line in self.git("ls-tree", "-r", "-z", commit).split("\0") if line)
            self.trees[commit] = sum((self.names(path, blob) for _, _, blob, path in entries), Counter())
        return self.trees[commit][key]


def lost_by(repo, commit, parents):
    """[(kind, name, file, parent)]"""
    base = repo.git("merge-base", *parents[:2]).strip() if len(parents) > 1 else None
    out = []
    for parent in parents:
        taken = [repo.lost(base, other) for other in parents if other != parent]  # what one side took away may be gone
        out += [(*key, path, parent) for key, path in repo.lost(parent, commit).items()
                if not any(key in t for t in taken)]
    return out


def named(message, name):
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", message) is not None


def check(repo, commits, head):
    """Lines of violations; commits: (hash, parents, message), the newest first."""
    confessed = ""
    repo.compare([(parent, commit) for commit, parents, _ in commits for parent in parents])
    for commit, parents, message in commits:
        lost = lost_by(repo, commit, parents)
        whole = {name for kind, name, _, _ in lost if kind == "test file" and named(message, name)}
        for kind, name, path, parent in lost:
            if Path(path).name in whole or named(message, name) or named(confessed, name):
                continue
            if repo.count(head, (kind, name)) < repo.count(parent, (kind, name)):
                yield f"{commit[:10]} takes away the {kind} {name} ({path}) and its message does not name it"
        confessed += "\n".join(re.findall(r"^Removes:.*$", message, re.M))


def history(repo, args):
    """[(hash, parents, message)] of the range, the newest first."""
    rows = repo.git("log", "-z", "--format=%H%n%P%n%B", *args).split("\0")
    return [(h, p.split(), m) for h, p, m in (row.split("\n", 2) for row in rows if row)]


def whole_history(root):
    """Why there is no history to read, or None."""
    if not shutil.which("git"):
        return "no git"
    run = subprocess.run(["git", "-C", root, "rev-parse", "--show-prefix", "--is-shallow-repository"],
                         capture_output=True, text=True)
    if run.returncode or not run.stdout.startswith("\n"):
        return "not a git repository"
    return "a shallow clone" if run.stdout.split()[-1] == "true" else None


def main(args):
    span = args.pop() if args and ".." in args[-1].strip("./") else None
    root = args[0] if args else "."
    why = whole_history(root)
    if why:
        print(f"skipped: {why}: no history to look for lost work in")
        return 77
    repo = Repository(root)
    if not span:
        added = repo.git("log", "--diff-filter=A", "--format=%H", "--", SELF).split()
        if not added:
            print(f"skipped: no commit has {SELF} yet")
            return 77
        span = f"{added[-1]}..HEAD"
    commits = history(repo, [span])
    errors = list(check(repo, commits, span.split("..")[-1] or "HEAD"))
    for commit, parents, message in history(repo, [span, "--not", "--remotes"]):
        subject = message.split("\n")[0]
        if len(parents) < 2 and len(subject) > COLUMNS:
            errors.append(f"{commit[:10]}: a subject of {len(subject)} characters; at most {COLUMNS}: {subject}")
    print("\n".join(errors) or f"{len(commits)} commits, nothing lost without a word")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
