# SPDX-License-Identifier: MIT
"""Eight clients of every kind at once, many of which hang up: no error, no row left, the next is served.  A program built
for ThreadSanitizer runs it, too: LUTRA=build/tsan/lutra LUTRA_SOURCE=. LUTRA_TEST_LONG=1 python3 tests/server/test_cancels.py"""
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import LUTRA, QUESTION, SOURCE, WAIT_S, Server, check, equal, finish, user

CLIENTS, SECONDS = 8, 60 if os.environ.get("LUTRA_TEST_LONG") else 0  # at least so long, and ROUNDS requests each
ROUNDS = 12
folder = tempfile.TemporaryDirectory()
with open(folder.name + "/keys", "w") as f:
    f.write("".join(f"key{k} name{k}\n" for k in range(CLIENTS)))
store = ["--rag", "notes=" + folder.name + "/notes.db"]
done = subprocess.run([LUTRA, "rag", "add", "--db", folder.name + "/notes.db", SOURCE + "/models/reader-notes"],
                      capture_output=True, text=True, timeout=WAIT_S)
if done.returncode:
    check("built without SQLite" in done.stderr, "documents", done.stderr)
    store = []
s = Server("-np", "6", "-c", "1024", "--pooling", "mean", "--api-key-file", folder.name + "/keys", "--check", "countdown",
           "--spec-type", "auto", "-m", SOURCE + "/models/reader-f16.gguf", *store)
said = []
threading.Thread(target=lambda: said.extend(s.program.stderr), daemon=True).start()
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 9}}, "required": ["n", "s"]}
NAMES = ["abacus-1m-f16", "reader-f16"]


def bodies(r):
    chat = user(QUESTION + str(r.randrange(9)), max_tokens=r.choice([1, 30, 300]), stream=r.random() < 0.7, model=r.choice(NAMES))
    kinds = [
        ("/v1/chat/completions", {**chat, "n": 2, "ignore_eos": True, "temperature": 1}),
        ("/v1/chat/completions", {**chat, "logprobs": True, "top_logprobs": 5}),
        ("/v1/chat/completions", {**chat, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}),
        ("/v1/chat/completions", {**chat, "lutra": {"search": {"method": r.choice(["vote", "beam"]), "width": 3}, "events": True}}),
        ("/v1/chat/completions", {**chat, "lutra": {"search": {"method": "best", "width": 2, "check": "countdown"}}}),
        ("/v1/completions", {"prompt": "Sam has", "echo": True, "logprobs": 2, "max_tokens": 20, "stream": True}),
        ("/v1/completions", {"prompt": [[r.randrange(60) for _ in range(200)] for _ in range(3)], "max_tokens": 4}),
        ("/completion", {"prompt": QUESTION, "n_predict": 20, "stream": True, "return_progress": True}),
        ("/api/chat", {"messages": chat["messages"], "model": r.choice(NAMES), "options": {"num_predict": 20}}),
        ("/v1/messages", {"messages": chat["messages"], "model": r.choice(NAMES), "max_tokens": 20}),
        ("/v1/embeddings", {"input": [QUESTION * r.randrange(1, 9)] * r.randrange(1, 5), "model": r.choice(NAMES)}),
        ("/tokenize", {"content": QUESTION}),
    ]
    if store:
        kinds += [("/v1/chat/completions", {**chat, "model": "reader-f16", "lutra": {"rag": "notes"}})] * 2
    return r.choice(kinds)


def client(k, counts):
    r, end, n = random.Random(k), time.monotonic() + SECONDS, 0
    while n < ROUNDS or time.monotonic() < end:
        n += 1
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=5 * WAIT_S)
        head = {"Authorization": f"Bearer key{k}"}
        try:
            if r.random() < 0.1:
                c.request("GET", r.choice(["/metrics", "/slots", "/v1/models", "/props"]), headers=head)
                check(c.getresponse().read(), "an answer")
                continue
            path, body = bodies(r)
            c.request("POST", path, json.dumps(body), head)
            how = r.random()
            if how < 0.25:  # hangs up before anything comes
                time.sleep(r.random() * 0.05)
                counts["gone"] += 1
                continue
            answer = c.getresponse()
            check(answer.status in (200, 429, 503), f"{path}: {json.dumps(body)[:200]}", answer.status)
            if how < 0.5:  # in the middle
                answer.read(r.randrange(1, 3000))
                counts["cut"] += 1
                continue
            text = answer.read()
            check(text and b"internal_error" not in text, path, text[-300:])
            counts["whole"] += 1
        except (http.client.HTTPException, socket.timeout, ConnectionError) as e:
            check(False, f"client {k}", repr(e))
        finally:
            c.close()


counts = [dict.fromkeys(("gone", "cut", "whole"), 0) for _ in range(CLIENTS)]
threads = [threading.Thread(target=client, args=(k, counts[k])) for k in range(CLIENTS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
key = {"Authorization": "Bearer key0"}


def metric(name):
    text = s.ask("GET", "/metrics", headers=key)[2]
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


end = time.monotonic() + WAIT_S
while metric("llamacpp:requests_processing") and time.monotonic() < end:
    time.sleep(0.05)
equal(metric("llamacpp:requests_processing"), 0, "nothing runs")
status, r = s.post("/v1/chat/completions", user(QUESTION, max_tokens=20, model=NAMES[0]), **key)
check(status == 200 and r["choices"][0]["message"]["content"], "and the next is served", r)
s.program.terminate()
equal(s.program.wait(timeout=WAIT_S), 0, "SIGTERM")
log = "".join(said)
check("Sanitizer" not in log and "runtime error" not in log, "no report", log[max(0, log.find("Sanitizer") - 200):][:3000])
print({name: sum(c[name] for c in counts) for name in counts[0]})
finish()
