# SPDX-License-Identifier: MIT
"""Keys, Host and Origin, addresses, the Unix socket, a socket of the service manager."""
import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import LUTRA, MODEL, QUESTION, WAIT_S, Server, check, equal, finish, user

CHAT = "/v1/chat/completions"
folder = tempfile.TemporaryDirectory()
keys = folder.name + "/keys"
with open(keys, "w") as f:
    f.write("# keys\n\nsecret-one editor\nsecret-two\n")

# ---- keys
s = Server("--api-key-file", keys, "--api-key", "third,fourth")
equal(s.get("/health")[0], 200, "/health is public")
for path in ("/", "/page/app.js"):
    equal(s.ask("GET", path)[0], 200, f"the page needs no key: {path}")
for path in ("/v1/models", "/metrics", "/api/tags", "/props"):
    status = s.ask("GET", path)[0]
    check(status == 401, f"no key: {path}", status)
equal(s.ask("GET", "/v1/models")[1]["WWW-Authenticate"], "Bearer", "401 says how")
equal(s.post(CHAT, user("x"))[1]["error"]["code"], "invalid_api_key", "no key: error")
for key, status in (("secret-one", 200), ("secret-two", 200), ("third", 200), ("fourth", 200), ("secret", 401),
                    ("secret-onex", 401), ("", 401), ("third,fourth", 401), ("editor", 401), ("k" * 5000, 401)):
    equal(s.get("/v1/models", Authorization="Bearer " + key)[0], status, f"key {key[:20]!r}")
equal(s.get("/v1/models", **{"X-Api-Key": "third"})[0], 200, "X-Api-Key")
equal(s.get("/v1/models", Authorization="Bearer third", Host="evil.example")[0], 200, "with a key any Host will do")

# What is cached of one key's prompts is seen with that key only, whichever dialect asks.
def cached(key, path=CHAT, text=QUESTION * 3):
    body = {"/completion": {"prompt": text, "n_predict": 1}, "/v1/messages": user(text, max_tokens=1),
            "/v1/responses": {"input": text, "max_output_tokens": 1}}.get(path, user(text, max_tokens=1))
    status, r = s.post(path, body, Authorization="Bearer " + key)
    equal(status, 200, path)
    if path == "/completion":
        return r["tokens_cached"]
    if path == "/v1/messages":
        return r["usage"]["cache_read_input_tokens"]
    return r["usage"][{"/v1/responses": "input_tokens_details"}.get(path, "prompt_tokens_details")]["cached_tokens"]


for path in (CHAT, "/completion", "/v1/messages", "/v1/responses"):
    text = f"{path} asks. " + QUESTION * 3
    check(cached("secret-one", path, text) < 16, f"{path}: nothing but the template's beginning is cached")
    check(cached("secret-one", path, text) > 64, f"{path}: cached for the key that asked")
    check(cached("third", path, text) < 16, f"{path}: another key sees nothing of it")
    check(cached("fourth", path, text) < 16, f"{path}: nor does one more")
    check(cached("secret-one", path, text) > 64, f"{path}: still cached for the first")
s.stop()
check('"key":"editor"' in s.rest and "secret" not in s.rest, "the log has the key's name only", s.rest)

# ---- what a key may use
with open(folder.name + "/limited", "w") as f:
    f.write("all\nfew alice models=abacus-xs-f16 stores= judges=likelihood tokens=5\none bob requests=1\n")
s = Server("-m", MODEL.replace("abacus-1m", "abacus-xs"), "--api-key-file", folder.name + "/limited", "--check", "countdown",
           "--check", "rule=equation")


def asked(key, path=CHAT, **more):
    status, r = s.post(path, user(QUESTION, **{"max_tokens": 3, **more}), Authorization="Bearer " + key)
    return status, r.get("error", {}).get("param") if "error" in r else r["model"]


names = lambda key, path, list_: [m.get("id") or m["name"] for m in s.get(path, Authorization="Bearer " + key)[1][list_]]
equal(names("all", "/v1/models", "data"), ["abacus-1m-f16", "abacus-xs-f16"], "a key without fields sees all models")
equal(names("few", "/v1/models", "data"), ["abacus-xs-f16"], "a key sees the models that it may use")
equal(names("few", "/api/tags", "models"), ["abacus-xs-f16:latest"], "... also in Ollama's list")
equal(s.get("/v1/models/abacus-1m-f16", Authorization="Bearer few")[0], 404, "... and no others by name")
equal(asked("few"), (200, "abacus-xs-f16"), "no model is named: the first that it may use")
equal(asked("few", model="abacus-1m-f16"), (403, "model"), "another model")
equal(asked("all", model="abacus-1m-f16"), (200, "abacus-1m-f16"), "... which others may use")
equal(asked("few", model="none"), (404, "model"), "a model that there is not")
equal(asked("few", max_tokens=6), (403, "max_tokens"), "longer replies than it may have")
equal(asked("few", max_tokens=-1), (403, "max_tokens"), "... or without a limit")
status, r = s.post(CHAT, user(QUESTION), Authorization="Bearer few")
equal((status, r["usage"]["completion_tokens"]), (200, 5), "what is not said is what it may have")
best = {"search": {"method": "best", "width": 2}}
equal(asked("few", lutra={"search": {**best["search"], "check": "rule"}}), (403, "lutra.search.check"), "a checker that it may not use")
equal(asked("few", lutra={"search": {**best["search"], "verifier": "likelihood"}}), (200, "abacus-xs-f16"), "a verifier that it may use")
equal(asked("all", lutra={"search": {**best["search"], "check": "rule"}})[0], 200, "a key without fields may use all")
slow = s.connect()
slow.request("POST", CHAT, json.dumps(user(QUESTION, stream=True, ignore_eos=True, max_tokens=-1)), {"Authorization": "Bearer one"})
answer = slow.getresponse()
answer.read(1)
status, headers, text = s.ask("POST", CHAT, user("x"), {"Authorization": "Bearer one"})
equal((status, json.loads(text)["error"]["code"], headers["Retry-After"]), (429, "too_many_requests", "1"), "one request too many")
answer.close()
slow.close()
end = time.monotonic() + WAIT_S
while time.monotonic() < end and asked("one")[0] == 429:
    time.sleep(0.05)
equal([asked("one")[0] for _ in range(200)].count(200), 200, "and then there is room again, for one after another")
s.stop()
for line, word in (("k n models=nothing", "'nothing'"), ("k n tokens=many", "tokens=many"), ("k n colour=red", "colour=red")):
    with open(folder.name + "/wrong", "w") as f:
        f.write("# first\n" + line + "\n")
    done = subprocess.run([LUTRA, "serve", "-m", MODEL, "--port", "0", "--api-key-file", folder.name + "/wrong"],
                          capture_output=True, text=True, timeout=WAIT_S)
    check(done.returncode == 1 and word in done.stderr and "line 2" in done.stderr, f"a key file with {line}", done.stderr)

# ---- Host and Origin
s = Server("--allow-host", "lutra.lan", "--allow-origin", "https://app.example")
for host, status in (("localhost", 200), ("localhost:8080", 200), ("127.0.0.1:1", 200), ("[::1]:80", 200), ("x.localhost", 200),
                     ("10.0.0.7", 200), ("lutra.lan:80", 200), ("evil.example", 403), ("localhost.evil.example", 403),
                     ("127.0.0.1.evil.example:80", 403)):
    equal(s.get("/v1/models", Host=host)[0], status, f"Host {host}")
equal(s.get("/health", Host="evil.example")[0], 403, "Host of /health")
for origin, status in (("https://app.example", 200), (f"http://127.0.0.1:{s.port}", 200), ("https://evil.example", 403),
                       ("null", 403), ("http://app.example", 403)):
    status_seen, headers, _ = s.ask("GET", "/v1/models", headers={"Origin": origin})
    equal(status_seen, status, f"Origin {origin}")
    equal(headers["Access-Control-Allow-Origin"], origin if status == 200 else None, f"Origin {origin}: header")
status, headers, _ = s.ask("OPTIONS", CHAT, headers={"Origin": "https://app.example",
                                                     "Access-Control-Request-Method": "POST",
                                                     "Access-Control-Request-Headers": "authorization"})
equal((status, headers["Access-Control-Allow-Headers"]), (204, "authorization"), "preflight")
equal(s.ask("OPTIONS", CHAT, headers={"Origin": "https://evil.example"})[0], 403, "preflight of another")
body = "messages=%5B%5D&model=x"
equal(s.ask("POST", CHAT, body, {"Content-Type": "application/x-www-form-urlencoded"})[0], 400, "no forms")
s.stop()

# ---- an address that others reach needs keys
def refused(*options):
    r = subprocess.run([LUTRA, "serve", "-m", MODEL, "--port", "0", *options], capture_output=True, text=True,
                       timeout=WAIT_S, stdin=subprocess.DEVNULL)
    return r.returncode, r.stderr


code, said = refused("--host", "0.0.0.0")
check(code == 1 and "--no-auth" in said and "--api-key-file" in said, "an open address without keys", said)
s = Server("--host", "0.0.0.0", "--no-auth")
equal(s.get("/health")[0], 200, "--no-auth")
code, said = refused("--port", str(s.port))
check(code == 1 and str(s.port) in said and "--port N" in said, "a port that is taken", said)
s.stop()
s = Server("--host", "0.0.0.0", "--api-key-file", keys)
equal(s.get("/v1/models")[0], 401, "an open address with keys")
s.stop()
for options, word in ((("--api-key-file", folder.name + "/none"), "none"), (("--host", "256.0.0.1"), "256.0.0.1"),
                      (("--host", "/no/such/folder/x.sock"), "/no/such/folder"), (("-m", "/no/model"), "/no/model")):
    code, said = refused(*options)
    check(code == 1 and word in said, f"{options}", (code, said))
with open(folder.name + "/empty", "w") as f:
    f.write("# none\n")
code, said = refused("--api-key-file", folder.name + "/empty")
check(code == 1 and "no keys" in said, "a file without keys", said)


# ---- a Unix socket
def over(path):
    c = http.client.HTTPConnection("localhost", timeout=WAIT_S)
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect(path)
    c.request("GET", "/v1/models")
    return c.getresponse().status


path = folder.name + "/lutra.sock"
s = Server("--host", path)
equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "the socket is its user's")
equal(over(path), 200, "over a Unix socket")
code, said = refused("--host", path)
check(code == 1 and "in use" in said, "a socket that is taken", said)
s.program.kill()
s.program.wait()
s = Server("--host", path)
equal(over(path), 200, "in place of a socket that was left")
equal(s.stop(), 0, "SIGTERM")
check(not os.path.exists(path), "the socket goes with the server")

# ---- a socket of the service manager, and what it is told
given = socket.create_server(("127.0.0.1", 0))
told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
told.bind(folder.name + "/notify")
told.settimeout(WAIT_S)
start = ("import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
         "os.environ['LISTEN_FDS'] = '1'; os.execv(sys.argv[2], sys.argv[2:])")
program = subprocess.Popen([sys.executable, "-c", start, str(given.fileno()), LUTRA, "serve", "-m", MODEL], text=True,
                           stderr=subprocess.PIPE, pass_fds=[given.fileno()],
                           env={**os.environ, "NOTIFY_SOCKET": folder.name + "/notify"})
equal(told.recv(100), b"READY=1", "sd_notify")
c = http.client.HTTPConnection("127.0.0.1", given.getsockname()[1], timeout=WAIT_S)
c.request("GET", "/health")
equal(c.getresponse().status, 200, "a passed socket")
program.terminate()
equal(told.recv(100), b"STOPPING=1", "sd_notify at the end")
program.stderr.read()
equal(program.wait(timeout=WAIT_S), 0, "SIGTERM")

# ---- a picture of the passes
s = Server("--timeline", folder.name + "/passes.svg")
s.post(CHAT, user(QUESTION, max_tokens=3))
equal(s.stop(), 0, "SIGTERM")
with open(folder.name + "/passes.svg") as f:
    check(f.read().startswith("<svg"), "--timeline FILE.svg is a picture")
check(not os.path.exists(folder.name + "/passes.svg.json"), "... and leaves nothing else")

# ---- and of several models a file for each, told by name
for name, begins in (("two.svg", "<svg"), ("two.v1.json", "[")):
    path = folder.name + "/" + name
    s = Server("-m", MODEL.replace("abacus-1m", "abacus-xs"), "--timeline", path)
    for model in ("abacus-1m-f16", "abacus-xs-f16"):
        s.post(CHAT, user(QUESTION, max_tokens=3, model=model))
    equal(s.stop(), 0, "SIGTERM")
    second = path[:path.rindex(".")] + "-2" + path[path.rindex("."):]
    for model, file in (("abacus-1m-f16", path), ("abacus-xs-f16", second)):
        check(f"timeline of {model}: {file}" in "".join(s.said) + s.rest, f"the file of {model} is told", s.said)
        with open(file) as f:
            check(f.read().startswith(begins), f"{file} is the timeline of {model}")
equal(sorted(f for f in os.listdir(folder.name) if f.startswith("two")), ["two-2.svg", "two.svg", "two.v1-2.json", "two.v1.json"], "nothing else is left")
finish()
