"""Plants the bugs of a list one at a time in a copy of the sources, and runs the test that must catch each.

usage: planted.py SOURCE_ROOT LIST [COPY [PATTERN]]
       planted.py --check SOURCE_ROOT    whether the texts of all lists stand in the sources once; plants nothing
    LIST     tests/*/planted.json
    COPY     a folder that is kept for the next run
    PATTERN  only bugs whose text, file or test it is found in

A bug: `file` and `old` text, which must stand there once, `new` text, the `test` of ctest, `word`, a pattern that the
test's output must match for the bug to count as named, and `class`, without which it is its file's folder.  All must be
caught and four of five named; both are counted by class, too.  Where the system has it, all runs at a niceness of 10.
"""
import collections
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMED, LIMIT_S = 0.8, 120  # a bug may make a program wait forever


def target(test):
    """What is built for a test of ctest; None: it reads sources alone."""
    if test in ("npu/silicon/order", "npu/standins"):
        return None
    own = {"npu/silicon/qemu": "npu_silicon", "hf/packed": "lutra_cli",
           "hf/combinations": "lutra_cli hf_count_sorted"}
    return own.get(test, test.removeprefix("unit/").replace("/", "_"))


def run(command, **more):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


class Copy:
    def __init__(self, source, folder):
        self.folder, self.build = folder, folder / "build/release"
        for name in ("CMakeLists.txt", "CMakePresets.json", "apps", "bench", "cmake", "docs", "examples", "include",
                     "models", "profiles", "scripts", "src", "tests", "tools", "LICENSE", "README.md"):
            below = sorted((source / name).rglob("*")) if (source / name).is_dir() else [source / name]
            for path in (path for path in below if path.is_file()):
                to = folder / path.relative_to(source)
                to.parent.mkdir(parents=True, exist_ok=True)
                if not to.exists() or not filecmp.cmp(path, to, shallow=False):
                    shutil.copy(path, to)
        made = run(["cmake", "--preset", "release"], cwd=folder)
        if made.returncode:
            sys.exit(made.stdout[-2000:])

    def test(self, name):
        """Exit status and output; a build that fails is none of a test's business."""
        to_build = target(name)
        made = run(["cmake", "--build", self.build, "-j2", "--target", *to_build.split()]) if to_build else None
        if made and made.returncode:
            sys.exit(f"{name} is not built: {made.stdout[-2000:]}")
        told = run(["timeout", str(LIMIT_S), "ctest", "--test-dir", self.build, "-R", f"^{name}$",
                    "-V", "--no-tests=error"])  # a limit of the test's own would be the longer one
        return told.returncode, told.stdout


def stale(root, bugs):
    """Those whose text does not stand once in their file, a line each."""
    texts = {name: (root / name).read_text() if (root / name).is_file() else "" for name in {b["file"] for b in bugs}}
    found = [(bug, texts[bug["file"]].count(bug["old"])) for bug in bugs]
    return [f"{bug['file']}: `{bug['old']}` ({bug['bug']}) stands there {n} times" for bug, n in found if n != 1]


def check(root):
    lists = {path: json.loads(path.read_text()) for path in sorted(root.glob("tests/*/planted.json"))}
    bad = [f"{path.relative_to(root)}: {line}" for path, bugs in lists.items() for line in stale(root, bugs)]
    print("\n".join(bad + [f"{sum(map(len, lists.values()))} bugs in {len(lists)} lists, {len(bad)} stale"]))
    return bool(bad) or not lists


def main(argv):
    if argv[0] == "--check":
        return check(Path(argv[1]))
    if hasattr(os, "nice"):
        os.nice(10)
    bugs = json.loads(Path(argv[1]).read_text())
    if bad := stale(Path(argv[0]), bugs):
        sys.exit("\n".join(bad))
    if len(argv) > 3:
        bugs = [bug for bug in bugs if any(re.search(argv[3], bug[key]) for key in ("bug", "file", "test"))]
    with tempfile.TemporaryDirectory() as temporary:
        copy = Copy(Path(argv[0]), Path(argv[2] if len(argv) > 2 else temporary))
        for name in sorted({bug["test"] for bug in bugs}):
            status, told = copy.test(name)
            if status or "Skipped" in told:
                print(f"{'skipped: ' if not status else ''}{name} without a bug: {told[-2000:]}")
                return 1 if status else 77
        caught, named, of = (collections.Counter() for _ in range(3))
        for bug in bugs:
            path, begin = copy.folder / bug["file"], time.monotonic()
            text = path.read_text()
            path.write_text(text.replace(bug["old"], bug["new"]))
            status, told = copy.test(bug["test"])
            path.write_text(text)
            bad = re.sub(r"^.*\[ +(RUN|OK) +\].*\n", "", told, flags=re.M)  # cmocka names the others, too
            is_named = bool(status and re.search(bug["word"], bad))
            kind = bug.get("class") or os.path.dirname(bug["file"])
            of[kind] += 1
            caught[kind] += bool(status)
            named[kind] += is_named
            verdict = "named" if is_named else "caught" if status else "SLIPPED"
            print(f"{verdict:8} {time.monotonic() - begin:4.0f} s  {bug['bug']}", flush=True)
            if os.environ.get("PLANTED_SHOW") and not is_named:
                print(told[-1500:], flush=True)
    for kind in sorted(of):
        print(f"  {kind}: {caught[kind]} of {of[kind]} caught, {named[kind]} named")
    print(f"{caught.total()} of {len(bugs)} caught, {named.total()} named")
    return caught.total() < len(bugs) or named.total() < NAMED * len(bugs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
