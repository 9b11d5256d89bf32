# SPDX-License-Identifier: MIT
"""Several models by name: opened when asked for, closed when idle or when another needs the place."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import ANSWER, LUTRA, MODEL, QUESTION, SOURCE, WAIT_S, Server, check, equal, finish, user

CHAT = "/v1/chat/completions"
folder = tempfile.TemporaryDirectory()
os.mkdir(folder.name + "/deep")
for name, at in (("abacus-1m-f16", ""), ("abacus-xs-f16", ""), ("abacus-3m-f16", "/deep")):
    os.symlink(f"{SOURCE}/models/{name}.gguf", f"{folder.name}{at}/{name}.gguf")
os.symlink(f"{SOURCE}/models/abacus-xs-prm-f16.gguf", f"{folder.name}/a-prm.gguf")  # a verifier answers nobody
with open(folder.name + "/broken.gguf", "wb") as f:
    f.write(b"GGUF" + os.urandom(200))


def loaded(server):
    return {m["id"] for m in server.get("/v1/models")[1]["data"] if m["status"]["value"] == "loaded"}


def ask(server, name, **more):
    return server.post(CHAT, user(QUESTION, model=name, **more))


for start in ([LUTRA, "serve", "--models-dir", folder.name], [LUTRA, "serve"]):
    env = {**os.environ, "LUTRA_MODELS": folder.name} if len(start) == 2 else None
    p = subprocess.Popen([*start, "--port", "0"], stderr=subprocess.PIPE, text=True, env=env, stdin=subprocess.DEVNULL)
    line = p.stderr.readline()
    check("serving 4 models at" in line, f"{start}", line)
    p.terminate()
    p.stderr.read()
    equal(p.wait(timeout=WAIT_S), 0, "SIGTERM")

s = Server("--models-dir", folder.name, "--models-max", "2", model=None)
equal({m["id"] for m in s.get("/v1/models")[1]["data"]}, {"abacus-1m-f16", "abacus-3m-f16", "abacus-xs-f16", "broken"}, "models")
equal(loaded(s), set(), "none is open at first")
digests = [m["digest"] for m in s.get("/api/tags")[1]["models"]]
check(len(set(digests)) == 4 and all(re.fullmatch("[0-9a-f]{64}", d) for d in digests), "each content has a digest", digests)
for path in ("/props", "/slots", "/api/tags", "/api/ps", "/metrics", "/"):
    equal(s.ask("GET", path)[0], 200, f"{path} without an open model")
status, r = ask(s, "abacus-1m-f16")
equal((status, r["choices"][0]["message"]["content"], r["model"]), (200, ANSWER, "abacus-1m-f16"), "opened when asked for")
equal(loaded(s), {"abacus-1m-f16"}, "open")
equal(ask(s, "abacus-3m-f16:latest")[1]["model"], "abacus-3m-f16", "another one, by Ollama's name")
equal(loaded(s), {"abacus-1m-f16", "abacus-3m-f16"}, "two are open")
ask(s, "abacus-1m-f16")
rows = s.metric("lutra:rows_valid_total")
equal(ask(s, "abacus-xs-f16")[0], 200, "a third one")
equal(loaded(s), {"abacus-1m-f16", "abacus-xs-f16"}, "the one that was asked for longest ago made room")
check(s.metric("lutra:rows_valid_total") > rows, "counts stay when a model is closed")
for name in ("none", "../abacus-1m-f16", folder.name + "/abacus-1m-f16.gguf", MODEL, "gpt-5", "abacus-1m-f16.gguf"):
    status, r = ask(s, name)
    equal((status, r["error"]["code"], r["error"]["param"]), (404, "model_not_found", "model"), f"no model {name}")
status, r = ask(s, "broken")
check(status == 500 and r["error"]["code"] == "model_failed" and "broken" in r["error"]["message"], "a damaged file", r)
equal(ask(s, "abacus-1m-f16")[1]["choices"][0]["message"]["content"], ANSWER, "the server goes on")
equal(s.post("/api/generate", {"model": "abacus-3m-f16", "stream": False})[1]["done_reason"], "load", "Ollama's way to load")
check("abacus-3m-f16" in loaded(s), "it is loaded")
equal([m["name"] for m in s.get("/api/ps")[1]["models"]], sorted(n + ":latest" for n in loaded(s)), "/api/ps")
for path, body in (("/tokenize", {"content": "Sam", "model": "abacus-xs-f16"}), ("/api/show", {"model": "abacus-1m-f16"}),
                   ("/v1/embeddings", {"input": "x", "model": "abacus-3m-f16"})):
    check(s.post(path, body)[0] in (200, 400), path)

# How long a model stays, by Ollama's keep_alive.
def keep(value, name="abacus-xs-f16"):
    return s.post("/api/generate", {"model": name, "prompt": "", "stream": False, "keep_alive": value})


def wait_closed(name, what):
    end = time.monotonic() + WAIT_S
    while name in loaded(s) and time.monotonic() < end:
        time.sleep(0.02)
    check(name not in loaded(s), what)


for value, least, most in (("10m", 500, 700), (3600, 3500, 3700), ("1h30m", 5000, 5500)):
    equal(keep(value)[0], 200, f"keep_alive {value}")
    shown = {m["name"]: m["expires_at"] for m in s.get("/api/ps")[1]["models"]}["abacus-xs-f16:latest"]
    left = datetime.fromisoformat(shown.replace("Z", "+00:00")).timestamp() - time.time()
    check(least < left < most + WAIT_S, f"keep_alive {value}: expires_at", shown)
keep("0.05s")
wait_closed("abacus-xs-f16", "closed when its time is over")
status, r = s.post("/api/chat", {**user(QUESTION, model="abacus-xs-f16"), "stream": False, "keep_alive": 0})
equal(status, 200, "keep_alive 0: an answer first")
wait_closed("abacus-xs-f16", "... then it is closed")
equal(keep(-1)[0], 200, "keep_alive -1")
check("2318" in str(s.get("/api/ps")[1]), "for good", s.get("/api/ps"))
for value in ("soon", "5", "", "5 m", True, "1m1"):
    status, r = keep(value)
    check(status == 400 and "keep_alive" in r["error"], f"keep_alive {value!r}", r)

# Requests to more models than may be open: those that are at work stay, others are told to come back, nobody fails.
seen = []


def client(name):
    for _ in range(6):
        status, r = ask(s, name, max_tokens=30)
        seen.append((name, status, r["choices"][0]["message"]["content"] if status == 200 else r["error"]["code"]))


threads = [threading.Thread(target=client, args=(name,)) for name in ("abacus-1m-f16", "abacus-3m-f16", "abacus-xs-f16") * 2]
for t in threads:
    t.start()
for t in threads:
    t.join()
check(all(status == 200 or (status, text) == (503, "model_busy") for _, status, text in seen), "all are answered", seen)
for name in ("abacus-1m-f16", "abacus-3m-f16", "abacus-xs-f16"):
    check(len({text for n, status, text in seen if n == name and status == 200}) <= 1, f"{name}: the same answers", seen)
check(len(loaded(s)) <= 2, "never more than two", loaded(s))
# One that is at work is not closed.
c = s.connect()
c.request("POST", CHAT, '{"model":"abacus-1m-f16","stream":true,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}')
answer = c.getresponse()
begin = answer.read(50)
ask(s, "abacus-3m-f16", max_tokens=2)
ask(s, "abacus-xs-f16", max_tokens=2)
check(begin and b"[DONE]" in answer.read(), "a reply under way comes to its end")
equal(s.stop(), 0, "SIGTERM")

# -m several times: the first answers where a request names none; idle ones are closed and come back.
s = Server("-m", SOURCE + "/models/abacus-xs-f16.gguf", "--sleep-idle-seconds", "1")
equal(loaded(s), {"abacus-1m-f16"}, "the first is opened at the start")
equal(s.post(CHAT, user(QUESTION))[1]["model"], "abacus-1m-f16", "no model is named")
equal(ask(s, "abacus-xs-f16")[1]["model"], "abacus-xs-f16", "the other")
end = time.monotonic() + WAIT_S
while loaded(s) and time.monotonic() < end:
    time.sleep(0.1)
equal(loaded(s), set(), "idle models are closed")
equal(s.post(CHAT, user(QUESTION))[1]["choices"][0]["message"]["content"], ANSWER, "and opened again")
equal(s.stop(), 0, "SIGTERM")

# Nothing is named: the models of this machine, a good one first.
nowhere = {"HOME": folder.name + "/nowhere", "LUTRA_MODELS": "", "HF_HUB_CACHE": "", "OLLAMA_MODELS": folder.name + "/nowhere"}
s = Server(model=None, env=nowhere)
check("abacus-3m-f16 answers" in "".join(s.said), "which model answers is said", s.said)
equal(loaded(s), {"abacus-3m-f16"}, "it is opened at the start")
equal(s.post(CHAT, user(QUESTION))[1]["model"], "abacus-3m-f16", "it answers")
equal(ask(s, "abacus-1m-f16")[1]["choices"][0]["message"]["content"], ANSWER, "another by its name")
equal(s.stop(), 0, "SIGTERM")
shutil.copy(LUTRA, folder.name + "/lutra")  # beside no models
r = subprocess.run([folder.name + "/lutra", "serve", "--port", "0"], capture_output=True, text=True, timeout=WAIT_S,
                   stdin=subprocess.DEVNULL, env={**os.environ, **nowhere})
check(r.returncode == 1 and "lutra pull" in r.stderr and "-m FILE" in r.stderr, "no model on this machine", r.stderr)

for options, word in ((("--models-dir", "/no/folder"), "/no/folder"), (("--models-dir", folder.name, "-m", MODEL), "--models-dir"),
                      (("--models-dir", folder.name, "--alias", "x"), "--alias")):
    r = subprocess.run([LUTRA, "serve", "--port", "0", *options], capture_output=True, text=True, timeout=WAIT_S,
                       stdin=subprocess.DEVNULL)
    check(r.returncode in (1, 2) and word in r.stderr, f"{options}", (r.returncode, r.stderr))
finish()
