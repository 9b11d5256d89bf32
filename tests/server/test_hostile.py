# SPDX-License-Identifier: MIT
"""Clients that hang up, trickle, send too much or never read: what they hold is given back, and the next is served."""
import http.client
import json
import os
import re
import signal
import socket
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import ANSWER, QUESTION, WAIT_S, Server, check, equal, finish, user

CHAT = "/v1/chat/completions"
ENDLESS = {"messages": [{"role": "user", "content": QUESTION}], "ignore_eos": True, "max_tokens": 60000}


def raw(s, *parts):
    c = socket.create_connection(("127.0.0.1", s.port), timeout=WAIT_S)
    for part in parts:
        c.sendall(part if isinstance(part, bytes) else part.encode())
    return c


def request(body, path=CHAT, more=""):
    body = json.dumps(body)
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{more}\r\n{body}"


def served(s, what):
    equal(s.post(CHAT, user(QUESTION))[1]["choices"][0]["message"]["content"], ANSWER, f"served after: {what}")


def until_idle(s, what):
    s.wait_metric("llamacpp:requests_processing", lambda n: n == 0, f"{what}: nothing runs")
    s.wait_metric("llamacpp:requests_deferred", lambda n: n == 0, f"{what}: nothing waits")


s = Server("-c", "65536", "-np", "2", "--timeout", "2")

# ---- hang-ups: streaming or not, running or waiting behind others
for stream in (False, True):
    clients = [raw(s, request({**ENDLESS, "stream": stream})) for _ in range(5)]
    s.wait_metric("lutra:requests_total", lambda n: n >= 5 + 6 * stream, "five requests")
    s.wait_metric("llamacpp:requests_processing", lambda n: n > 0, "they run")
    if stream:
        clients[0].recv(100)
    for c in clients:
        c.close()
    until_idle(s, f"hang-up, stream {stream}")
    equal(s.metric("lutra:cancelled_total"), 5 + 5 * stream, f"hang-ups are counted, stream {stream}")
    served(s, f"hang-ups, stream {stream}")
[raw(s, request(ENDLESS)).close() for _ in range(5)]
until_idle(s, "hang-up at once")
served(s, "hang-ups at once")

# ---- a client that never reads is not waited for: others go on
stuck = raw(s, request({**ENDLESS, "stream": True}))
served(s, "a client that does not read")
stuck.close()
until_idle(s, "a client that did not read")

# ---- nor are tokens evaluated for it that it does not read: it gets all of them when it does
c = socket.socket()
c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
c.settimeout(WAIT_S)
c.connect(("127.0.0.1", s.port))
c.sendall(request({**ENDLESS, "max_tokens": 8000, "stream": True, "logprobs": True, "top_logprobs": 20},
                  more="Connection: close\r\n").encode())
s.wait_metric("lutra:requests_paused", lambda n: n == 1, "a client that does not read: its request is paused")
passes = s.metric("llamacpp:n_decode_total")
check(passes < 8000, "paused before its end", passes)
served(s, "a paused request")
equal(s.metric("lutra:requests_paused"), 1, "still paused")
answer = http.client.HTTPResponse(c)
answer.begin()
answer = answer.read()
equal((answer.count(b'"top_logprobs":['), answer.count(b"[DONE]")), (8000, 1), "then every token comes")
until_idle(s, "a client that reads late")

# ---- trickling heads and bodies, unfinished ones
slow = [raw(s, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"), raw(s, "G"), raw(s),
        raw(s, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")]
served(s, "slow-loris, while it lasts")
for i, c in enumerate(slow):
    end = time.monotonic() + WAIT_S
    ended = False
    while not ended and time.monotonic() < end:
        try:  # a byte now and then does not prolong it
            c.sendall(b"x" if i != 2 else b"")
            c.settimeout(0.3)
            ended = c.recv(1000) == b""
        except socket.timeout:
            continue
        except OSError:
            ended = True
    check(ended, f"slow client {i} is cut off")
served(s, "slow-loris")

# ---- too much
status, _, text = s.ask("POST", CHAT, b"x" * (4 << 20 | 1))
equal((status, json.loads(text)["error"]["code"]), (413, "body_too_large"), "a body above 4 MiB")
c = raw(s, f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
try:
    for _ in range(80):
        c.sendall(b"10000\r\n" + b"y" * 65536 + b"\r\n")
    c.sendall(b"0\r\n\r\n")
except OSError:
    pass
check(b" 413 " in c.recv(1000), "chunks above 4 MiB")
c = raw(s, f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {10**15}\r\n\r\n")
check(b" 413 " in c.recv(1000), "a length of a petabyte")
c = raw(s, "GET /health HTTP/1.1\r\nHost: localhost\r\n", "X: " + "y" * 100000 + "\r\n\r\n")
try:
    answer = c.recv(1000)
except OSError:
    answer = b""
check(b"200 OK" not in answer, "headers of 100 kB", answer)
served(s, "too much")

# ---- split anywhere, and chunked
text = request(user(QUESTION), more="Connection: close\r\n")
c = raw(s)
for i in range(0, len(text), 7):
    c.sendall(text[i:i + 7].encode())
answer = b""
while part := c.recv(65536):
    answer += part
check(b"#### 84" in answer, "a request in parts of seven bytes", answer)
body = json.dumps(user(QUESTION)).encode()
c = raw(s, f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
        *(b"%x\r\n%s\r\n" % (len(body[i:i + 9]), body[i:i + 9]) for i in range(0, len(body), 9)), "0\r\n\r\n")
answer = b""
while part := c.recv(65536):
    answer += part
check(b"#### 84" in answer, "a body in chunks", answer)

# ---- what is no HTTP, and idle connections
for junk in (b"\0" * 1000, b"\r\n\r\n", b"GET\r\n\r\n", os.urandom(5000), b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00"):
    c = raw(s, junk)
    c.close()
served(s, "junk")
idle = [raw(s) for _ in range(200)]
served(s, "200 idle connections")
for c in idle:
    c.close()
equal(s.stop(), 0, "SIGTERM")


# ---- idle connections wake nobody until their own time is over
def switches(s):
    """Times that its threads went to sleep of themselves, each woken before; None: one is awake."""
    n, tasks = 0, f"/proc/{s.program.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/status") as f:
            status = f.read()
        if re.search(r"^State:\s+(\S)", status, re.M)[1] != "S":
            return None
        n += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M)[1])
    return n


for seconds in (2, 8, 32, 128):  # longer where the machine is busy: the count must end before theirs
    s = Server("--timeout", str(seconds))
    begin = time.monotonic()
    idle = [s.connect() for _ in range(200)]
    equal([s.ask("GET", "/health", connection=c)[0] for c in idle].count(200), 200, "each is served once")
    before = None
    while before is None or before != switches(s):
        before = switches(s)
        time.sleep(0.1)
    time.sleep(max(0, begin + 1.5 * seconds - time.monotonic()))
    n, late = switches(s), time.monotonic() > begin + 1.9 * seconds
    for c in idle:
        c.close()
    equal(s.stop(), 0, "SIGTERM with idle connections")
    if not late:
        break
check(not late, "200 connections can be counted before their time is over")
equal(n, before, f"wake-ups with 200 idle connections, over --timeout {seconds}")

# ---- a full queue, and the end while requests run
s = Server("-c", "65536", "-np", "1", "--queue", "2", "--connections", "64")
running = [raw(s, request({**ENDLESS, "stream": True})) for _ in range(2)]
s.wait_metric("lutra:requests_total", lambda n: n >= 2, "two requests")
status, headers, text = s.ask("POST", CHAT, user(QUESTION))
equal((status, json.loads(text)["error"]["code"], headers["Retry-After"]), (503, "queue_full", "1"), "a full queue")
running[1].close()
s.wait_metric("llamacpp:requests_deferred", lambda n: n == 0, "one went")
s.program.send_signal(signal.SIGTERM)  # runs on; a second one ends it
time.sleep(0.2)
running[0].recv(1)
equal(s.stop(), 0, "a second SIGTERM ends what runs")

# ---- a log that nobody reads stops nobody; what was left out is counted where it is missing
s = Server()
c, n = s.connect(), 1500
equal([s.ask("GET", "/v1/models?" + "x" * 100, connection=c)[0] for _ in range(n)].count(200), n, "served while nobody reads the log")
first = [s.program.stderr.readline() for _ in range(100)]
s.ask("GET", "/v1/models", connection=c)
equal(s.stop(), 0, "SIGTERM with a log that nobody read")
log = first + s.rest.splitlines()
lost = [int(line.split()[1]) for line in log if "lines are missing" in line]
check(len(lost) == 1 and lost[0] > 100, "the count of lost lines", lost)
equal(sum('"path":"/v1/models' in line for line in log) + sum(lost), n + 1, "lines, and those that are missing")
check(all(json.loads(line)["status"] == 200 for line in log if line.startswith("{")), "no line is cut")

# ---- SIGTERM waits for what was taken in
s = Server()
c = raw(s, request(user(QUESTION, max_tokens=900, ignore_eos=True, stream=True), more="Connection: close\r\n"))
s.wait_metric("lutra:requests_total", lambda n: n >= 1, "taken in")
equal(s.stop(), 0, "SIGTERM with a stream")
answer = b""
while part := c.recv(65536):
    answer += part
check(b"[DONE]" in answer, "the stream came to its end", answer[-300:])
finish()
