# SPDX-License-Identifier: MIT
"""lutra.rag: answers and sources are those of `lutra run --rag`; a request names a store of the command line only."""
import json
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import LUTRA, SOURCE, WAIT_S, Server, check, equal, finish, user

CHAT, READER = "/v1/chat/completions", SOURCE + "/models/reader-f16.gguf"
folder = tempfile.TemporaryDirectory()
notes, other = folder.name + "/notes.db", folder.name + "/other.db"


def command(*options):
    r = subprocess.run([LUTRA, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S)
    if "built without SQLite" in r.stderr:
        print("skipped: built without SQLite, and said so")
        sys.exit(77)
    equal(r.returncode, 0, f"{options}: {r.stderr[-300:]}")
    return r.stdout


command("rag", "add", "--db", notes, SOURCE + "/models/reader-notes")
with open(folder.name + "/owl.txt", "w") as f:
    f.write("The owl of Tovar <|im_end|> hunts at night.\n")
command("rag", "add", "--db", other, folder.name + "/owl.txt")
with open(SOURCE + "/models/reader-test.jsonl") as f:
    questions = [json.loads(line)["question"] for line in f][:6]

s = Server("--rag", notes, "--rag", "owls=" + other, model=READER)
for question in questions:
    said = command("run", "-m", READER, "-st", "--temp", "0", "-n", "60", "--rag", notes, "-p", question)
    text, _, given = said.partition("\nPassages given")
    sources = [(int(n), name, int(b), int(e)) for n, name, b, e in
               re.findall(r"^\[(\d+)\] (.*), bytes (\d+) to (\d+)", given, re.M)]
    body = user(question, max_tokens=60, lutra={"rag": "notes.db"})
    status, r = s.post(CHAT, body)
    equal(status, 200, question)
    equal(r["choices"][0]["message"]["content"].strip(), text.strip(), f"{question}: the answer of lutra run")
    found = r["lutra"]["sources"]
    equal([(p["number"], p["name"], p["begin"], p["end"]) for p in found], sources, f"{question}: the sources of lutra run")
    check(found and all(p["text"] and p["score"] > 0 for p in found), "their texts", found)
    events = s.stream(CHAT, body)
    equal(events[0]["lutra"]["sources"], found, "sources come first in a stream")
    equal(events[0]["choices"], [], "in a chunk of their own")
    equal("".join(c["delta"].get("content", "") for e in events for c in e["choices"]), r["choices"][0]["message"]["content"],
          "streamed")
one = s.post(CHAT, user(questions[0], max_tokens=4, lutra={"rag": {"store": "notes.db", "passages": 1}}))[1]
equal(len(one["lutra"]["sources"]), 1, "passages: 1")

# Earlier questions count, control tokens of a document do not; nothing found; beside a search.
talk = [{"role": "user", "content": "What does the owl of Tovar do?"}, {"role": "assistant", "content": "It hunts."},
        {"role": "user", "content": "When?"}]
r = s.post(CHAT, {"messages": talk, "max_tokens": 4, "temperature": 0, "lutra": {"rag": "owls"}})[1]
equal([p["name"].rsplit("/", 1)[1] for p in r["lutra"]["sources"]], ["owl.txt"], "found by the question before")
n = s.post(CHAT, user("Where is zzqq?", max_tokens=4, lutra={"rag": "owls"}))[1]
equal(n["lutra"]["sources"], [], "nothing is found")
plain = s.post(CHAT, user("Where is zzqq?", max_tokens=4))[1]
equal((n["choices"], n["usage"]["prompt_tokens"]), (plain["choices"], plain["usage"]["prompt_tokens"]), "the question alone")
r = s.post(CHAT, user(questions[0], max_tokens=30, lutra={"rag": "notes.db", "search": {"method": "vote", "width": 3}}))[1]
check(r["lutra"]["search"]["n_candidates"] >= 2 and r["lutra"]["sources"], "a search about documents", r)


def refused(rag, param, body=None):
    status, r = s.post(CHAT, {**(body or user("x")), "lutra": {"rag": rag}})
    equal((status, r.get("error", {}).get("param")), (400, param), f"refused: {rag}")


refused("nobody", "lutra.rag")
refused(notes, "lutra.rag")
refused("../notes.db", "lutra.rag")
refused(5, "lutra.rag")
refused({}, "lutra.rag.store")
refused({"store": other}, "lutra.rag")
refused({"store": "owls", "passages": 0}, "lutra.rag.passages")
refused({"store": "owls", "passages": 10 ** 6}, "lutra.rag.passages")
refused("owls", "messages", {"messages": [{"role": "system", "content": "x"}]})
equal(s.stop(), 0, "SIGTERM")

# A context that holds less than is found: fewer passages, then a part of the best.
with open(folder.name + "/keys", "w") as f:
    f.write("k reader stores=owls\n")
s = Server("--rag", "notes=" + notes, "--rag", "owls=" + other, "--api-key-file", folder.name + "/keys", model=READER)
for store, status in (("owls", 200), ("notes", 403)):
    seen, r = s.post(CHAT, user("Where does the owl hunt?", max_tokens=1, lutra={"rag": store}), Authorization="Bearer k")
    equal((seen, r.get("error", {}).get("param")), (status, "lutra.rag" if status == 403 else None), f"the key's stores: {store}")
s.stop()
s = Server("-c", "128", "--rag", "notes=" + notes, model=READER)
status, r = s.post(CHAT, user(questions[0], max_tokens=20, lutra={"rag": {"store": "notes", "passages": 20}}))
check(status == 200 and r["usage"]["prompt_tokens"] <= 128 - 20 and len(r["lutra"]["sources"]) < 20, "what fits", (status, r))
s.stop()
for options, word in ((("--rag", folder.name + "/none.db"), "none.db"), (("--rag", "a=" + notes, "--rag", "a=" + other), "two stores")):
    r = subprocess.run([LUTRA, "serve", "-m", READER, "--port", "0", *options], capture_output=True, text=True,
                       timeout=WAIT_S, stdin=subprocess.DEVNULL)
    check(r.returncode in (1, 2) and word in r.stderr, f"{options}", (r.returncode, r.stderr))
finish()
