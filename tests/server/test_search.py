# SPDX-License-Identifier: MIT
"""lutra.search: the searches of `lutra run` over HTTP, word for word, and what becomes of the candidates."""
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import ANSWER, LUTRA, MODEL, QUESTION, SOURCE, WAIT_S, Server, check, equal, finish, user

CHAT, PRM = "/v1/chat/completions", SOURCE + "/models/abacus-xs-prm-token-f16.gguf"
SAMPLING = {"seed": 4, "max_tokens": 150, "temperature": 1.5}


def by_command(*options):
    """Text, and (candidate, answer) of those that finished."""
    r = subprocess.run([LUTRA, "run", "-m", MODEL, "-st", "-s", "4", "-n", "150", "--temp", "1.5", "-p", QUESTION, *options],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S)
    equal(r.returncode, 0, str(options))
    return r.stdout.rstrip("\n"), re.findall(r"#(\d+) finished: (.*?)(?:,|$)", r.stderr, re.M)


def look(server, search, **more):
    return server.post(CHAT, user(QUESTION, **{**SAMPLING, **more}, lutra={"search": search, "events": True}))


s = Server("--prm", "judge=" + PRM, "--check", "equation", "-np", "8", "--alias", "tiny")
for search, options in (({"method": "vote", "width": 8}, ["--vote", "8"]),
                        ({"method": "weighted", "width": 6}, ["--weighted", "6", "--prm", PRM]),
                        ({"method": "best", "width": 6, "verifier": "judge"}, ["--best-of", "6", "--prm", PRM]),
                        ({"method": "beam", "width": 6, "expand": 2}, ["--beam", "3x2", "--prm", PRM]),
                        ({"method": "dvts", "width": 6, "expand": 2}, ["--dvts", "3x2", "--prm", PRM]),
                        ({"method": "rebase", "width": 6}, ["--rebase", "6", "--prm", PRM]),
                        ({"method": "best", "width": 6, "check": "equation"}, ["--best-of", "6", "--check", "equation"]),
                        ({"method": "best", "width": 6, "verifier": "likelihood"}, ["--best-of", "6", "--prm-kind", "likelihood"]),
                        ({"method": "beam", "width": 6, "expand": 2, "budget": 20}, ["--beam", "3x2", "--prm", PRM, "--budget", "20"])):
    text, finished = by_command(*options)
    status, r = look(s, search)
    name = f"{search['method']} {search.get('verifier', search.get('check', ''))}"
    equal(status, 200, name)
    equal(r["choices"][0]["message"]["content"].rstrip("\n"), text, f"{name}: the text of lutra run")
    found = r["lutra"]["search"]
    equal((found["event"], found["method"], found["width"]), ("decided", search["method"], search["width"]), name)
    equal(r["usage"]["completion_tokens"], found["generated_tokens"], f"{name}: all candidates' tokens count")
    events = [e["lutra"]["search"] for e in s.stream(CHAT, user(QUESTION, **SAMPLING, lutra={"search": search, "events": True}))
              if "lutra" in e]
    equal({(str(e["candidate"]), e["answer"] or "no answer") for e in events if e["event"] == "finish"},
          {(c, a.strip()) for c, a in finished}, f"{name}: who finished, with which answer")
    equal(events[-1], found, f"{name}: decided comes last")
    known = set()
    for e in events[:-1]:
        equal(set(e) - {"reward", "score", "text", "answer", "why"}, {"event", "candidate", "parent", "n_step"}, "fields")
        if e["event"] == "fork":
            check(e["parent"] in known, f"{name}: a fork of a candidate that was told", e)
        known.add(e["candidate"])
    if search["method"] in ("beam", "dvts", "rebase") and "budget" not in search:
        check({"step", "fork", "prune", "finish"} <= {e["event"] for e in events}, f"{name}: all kinds of events", events)

# Strict clients hear nothing of it; the reply is the same.
plain = s.stream(CHAT, user(QUESTION, **SAMPLING, stream_options={"include_usage": True},
                            lutra={"search": {"method": "vote", "width": 8}}))
check(all("lutra" not in e for e in plain), "no events unasked")
check(all(e["choices"] for e in plain[:-1]), "only the last chunk has no choices")
equal("".join(c["delta"].get("content", "") for e in plain for c in e["choices"]), by_command("--vote", "8")[0], "its text")
equal([c["finish_reason"] for e in plain for c in e["choices"]][-1], "stop", "its end")

# Widths that a request leaves open, and auto.
equal(look(s, {"method": "beam", "expand": 3})[1]["lutra"]["search"]["width"], 6, "the widest multiple of expand")
r = look(s, {"method": "auto", "budget": 60})[1]["lutra"]["search"]
check(r["method"] == "weighted" and r["n_judged"] > 0, "auto, by a budget", r)
equal(look(s, {"method": "vote", "width": 2, "budget": "30s"})[0], 200, "a budget of time")
r = look(s, {"method": "best", "width": 8, "check": "equation", "until_pass": True}, temperature=0.1)[1]["lutra"]["search"]
equal(r["score"], 1, "until_pass")
r = look(s, {"method": "vote", "width": 3}, logprobs=True, top_logprobs=5)
equal((r[0], r[1]["choices"][0]["logprobs"]["content"]), (200, []), "no log-probs of a search")
r = look(s, {"method": "vote", "width": 3}, max_tokens=2)[1]["choices"][0]
equal(r["finish_reason"], "length", "candidates that are cut")
schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["n"]}
r = look(s, {"method": "vote", "width": 4}, response_format={"type": "json_schema", "json_schema": {"schema": schema}})[1]
check(re.fullmatch(r"\s*\{\s*\"n\"\s*:\s*\d+\s*\}\s*", r["choices"][0]["message"]["content"]), "with a schema", r)


def refused(search, param, **more):
    status, r = look(s, search, **more)
    equal((status, r.get("error", {}).get("param")), (400, param), f"refused: {search} {more}")


refused({}, "lutra.search.method")
refused({"method": "magic"}, "lutra.search.method")
refused({"method": 5}, "lutra.search.method")
refused({"method": "vote", "width": 0}, "lutra.search.width")
refused({"method": "vote", "width": 10 ** 6}, "lutra.search.width")
refused({"method": "beam", "width": 9}, "lutra.search.width")
refused({"method": "best", "width": 17}, "lutra.search.width")
refused({"method": "beam", "width": 6, "expand": 4}, "lutra.search.expand")
refused({"method": "best", "verifier": "/etc/passwd"}, "lutra.search.verifier")
refused({"method": "best", "verifier": PRM}, "lutra.search.verifier")
refused({"method": "best", "check": "cat"}, "lutra.search.check")
refused({"method": "best", "check": "equation", "verifier": "judge"}, "lutra.search.check")
refused({"method": "vote", "until_pass": True}, "lutra.search.until_pass")
refused({"method": "vote", "budget": -1}, "lutra.search.budget")
refused({"method": "vote", "budget": "soon"}, "lutra.search.budget")
refused({"method": "vote", "budget": "nan s"}, "lutra.search.budget")
refused({"method": "auto"}, "lutra.search.budget")
refused({"method": "beam", "step": ""}, "lutra.search.step")
refused({"method": "beam", "prune_below": 2}, "lutra.search.prune_below")
refused({"method": "vote"}, "n", n=2)
refused("vote", "lutra.search")
equal(s.post(CHAT, user("x", lutra=[]))[1]["error"]["param"], "lutra", "lutra is an object")

# A client that hangs up ends its search; many searches and plain replies beside each other are those alone.
long = Server("-c", "65536", "-np", "2")
c = long.connect()
c.request("POST", CHAT, '{"stream":true,"ignore_eos":true,"messages":[{"role":"user","content":"x"}],'
                        '"lutra":{"search":{"method":"vote","width":2},"events":true}}')
long.wait_metric("llamacpp:requests_processing", lambda n: n > 0, "the search runs")
c.sock.shutdown(2)
c.close()
long.wait_metric("llamacpp:requests_processing", lambda n: n == 0, "a hang-up ends the search")
equal(long.metric("lutra:cancelled_total"), 1, "it is counted")
long.stop()
alone, got = look(s, {"method": "beam", "width": 4, "expand": 2})[1]["choices"][0], []
threads = [threading.Thread(target=lambda: got.append(look(s, {"method": "beam", "width": 4, "expand": 2})))
           for _ in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
equal([r["choices"][0]["message"] for status, r in got], [alone["message"]] * 3, "searches beside each other")
equal(s.stop(), 0, "SIGTERM")

# A program that takes its time stops nobody: others are served, and without them no pass is run.
with tempfile.TemporaryDirectory() as folder:
    with open(folder + "/slow", "w") as f:
        f.write("""import json, os, sys, time
for line in sys.stdin:
    open(sys.argv[1] + "/asked", "w").close()
    while not os.path.exists(sys.argv[1] + "/go"):
        time.sleep(0.002)
    print(json.dumps({"id": json.loads(line)["id"], "reward": 1}), flush=True)
""")
    s = Server("--check", f"slow={sys.executable} {folder}/slow {folder}")
    got = []
    t = threading.Thread(target=lambda: got.append(look(s, {"method": "best", "width": 2, "check": "slow"})))
    t.start()
    end = time.monotonic() + WAIT_S
    while not os.path.exists(folder + "/asked") and time.monotonic() < end:
        time.sleep(0.01)
    for _ in range(3):
        equal(s.post(CHAT, user(QUESTION))[1]["choices"][0]["message"]["content"], ANSWER, "served while a program judges")
    time.sleep(0.2)
    passes = s.metric("llamacpp:n_decode_total")
    time.sleep(0.2)
    equal(s.metric("llamacpp:n_decode_total"), passes, "no passes while a program judges")
    open(folder + "/go", "w").close()
    t.join()
    equal(got[0][0], 200, "then it is over")
    s.stop()

s = Server()
refused({"method": "best"}, "lutra.search.verifier")
equal(look(s, {"method": "vote", "width": 2})[0], 200, "a vote needs no judge")
equal(look(s, {"method": "best", "width": 2, "verifier": "likelihood"})[0], 200, "the model itself judges")
s.stop()
for options, word in ((("--prm", "a=" + PRM, "--check", "a=equation"), "two verifiers"), (("--prm", "/no/prm"), "/no/prm"),
                      (("--check", "no-such-program-here"), "no-such-program-here")):
    r = subprocess.run([LUTRA, "serve", "-m", MODEL, "--port", "0", *options], capture_output=True, text=True,
                       timeout=WAIT_S, stdin=subprocess.DEVNULL)
    check(r.returncode in (1, 2) and word in r.stderr, f"{options}", (r.returncode, r.stderr))
finish()
