# SPDX-License-Identifier: MIT
"""`lutra rag add` killed at random times, and two at once: every document that was committed is there, and the index
fits.

50 kills with LUTRA_TEST_LONG=1, else 10."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

LUTRA = os.environ["LUTRA"]
KILLS = 50 if os.environ.get("LUTRA_TEST_LONG") else 10
FILES = 60


def rag(db, *words, ok=True):
    r = subprocess.run([LUTRA, "rag", "--db", db, *words], capture_output=True, text=True, timeout=300)
    if "built without SQLite" in r.stderr:
        print("skipped: built without SQLite")
        sys.exit(77)
    if ok and r.returncode:
        sys.exit(f"rag {words}: {r.returncode}: {r.stderr}")
    return r.stdout


def names(db):
    return {json.loads(line)["name"] for line in rag(db, "list", "--json").splitlines()}


def write_files(folder, rng, version):
    os.makedirs(folder, exist_ok=True)
    for i in range(FILES):
        with open(f"{folder}/{i}.txt", "w") as f:
            words = " ".join(f"w{rng.randrange(3000)}" for _ in range(rng.randrange(20, 3000)))
            f.write(f"document{i} version{version}\n{words}\n")


def expect_whole(db, n_versions):
    """Each document is all of one version."""
    rag(db, "stats", "--check")
    for name in names(db):
        found = json.loads(rag(db, "search", "--json", "-n", "1", "document" + os.path.basename(name)[:-4]))
        version = int(found["text"].split("version")[1].split()[0])
        if found["name"] != name or not 0 <= version < n_versions:
            sys.exit(f"{name}: not what was added: {found}")


def kill_at_random_times(tmp, rng):
    db, folder = tmp + "/k.db", tmp + "/k"
    write_files(folder, rng, 0)
    start = time.monotonic()
    rag(tmp + "/time.db", "add", folder)
    whole = time.monotonic() - start
    before, n_killed, version = set(), 0, 0
    while n_killed < KILLS and version < 20 * KILLS:
        version += 1
        write_files(folder, rng, version)
        p = subprocess.Popen([LUTRA, "rag", "--db", db, "add", "-q", folder], stderr=subprocess.PIPE)
        time.sleep(rng.random() * whole)
        p.send_signal(signal.SIGKILL)
        n_killed += p.wait() == -signal.SIGKILL
        if os.path.exists(db):
            now = names(db)
            if before - now:
                sys.exit(f"kill {n_killed}: lost {before - now}")
            before = now
            rag(db, "stats", "--check")
    rag(db, "add", folder)
    if len(names(db)) != FILES:
        sys.exit(f"{len(names(db))} documents instead of {FILES}")
    expect_whole(db, version + 1)
    print(f"{n_killed} of {version} killed in the middle")


def two_writers(tmp, rng):
    db = tmp + "/two.db"
    for name in "ab":
        write_files(f"{tmp}/{name}", rng, 0)
    both = [subprocess.Popen([LUTRA, "rag", "--db", db, "add", f"{tmp}/{name}"], stdout=subprocess.PIPE, text=True)
            for name in "ab"]
    for p in both:
        out = p.communicate(timeout=300)[0]
        if p.returncode or not out.startswith(f"{FILES} added"):
            sys.exit(f"a writer beside another: {p.returncode}: {out}")
    if len(names(db)) != 2 * FILES:
        sys.exit("two writers: documents are lost")
    rag(db, "stats", "--check")


with tempfile.TemporaryDirectory() as tmp:
    tmp = os.path.realpath(tmp)
    rng = random.Random(14)
    kill_at_random_times(tmp, rng)
    two_writers(tmp, rng)
