# SPDX-License-Identifier: MIT
"""Behind nginx and HAProxy, with the configurations of apps/server/proxy: TLS, streams, hang-ups, affinity, draining."""
import atexit
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import ANSWER, QUESTION, SOURCE, WAIT_S, Server, check, equal, finish, user

CHAT = "/v1/chat/completions"
os.environ["PATH"] += ":/usr/sbin"
folder = tempfile.TemporaryDirectory()
pem = folder.name + "/lutra.pem"
proxies = [name for name in ("nginx", "haproxy") if shutil.which(name)]
if not proxies or not shutil.which("openssl"):
    print("no nginx, no haproxy, or no openssl here (scripts/setup all)")
    sys.exit(77)
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lutra.example",
                "-keyout", folder.name + "/key", "-out", folder.name + "/cert"], check=True, capture_output=True)
with open(pem, "w") as f:
    f.write(open(folder.name + "/cert").read() + open(folder.name + "/key").read())
trust = ssl.create_default_context()
trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def start(name, servers):
    """The proxy with its configuration, but for ports and folders."""
    port, path = free_port(), f"{folder.name}/{name}"
    file = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[name]
    with open(f"{SOURCE}/apps/server/proxy/{file}") as f:
        text = f.read().replace("/etc/ssl/lutra.pem", pem).replace("8081", str(servers[0].port)).replace("8082", str(servers[1].port))
    os.mkdir(path)
    if name == "nginx":
        text = text.replace("listen 443", f"listen 127.0.0.1:{port}")
        own = "".join(f"{what}_temp_path {path}/{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = f"daemon off; pid {path}/pid; error_log stderr;\n" + text.replace("http {", f"http {{ access_log off; {own}")
        command = ["nginx", "-p", path, "-e", "stderr", "-c", path + "/conf"]
    else:
        text = text.replace("bind :443", f"bind 127.0.0.1:{port}")
        command = ["haproxy", "-f", path + "/conf"]
    with open(path + "/conf", "w") as f:
        f.write(text)
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(path + "/log", "w"))
    atexit.register(program.terminate)
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end and program.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return program, port
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"FAILED: no {name}: {open(path + '/log').read()}")


def send(port, method, path, body=None, session="a"):
    c = http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT_S, context=trust)
    c.request(method, path, json.dumps(body) if body else None, {"Host": "lutra.example", "X-Session": session})
    return c, c.getresponse()


def whole(port, *what, **more):
    c, r = send(port, *what, **more)
    text = r.read().decode()
    c.close()
    return r.status, text


def begin(port, **more):
    """A stream whose first events have come: they do not wait for the last."""
    c, r = send(port, "POST", CHAT, {**user(QUESTION), "stream": True, "ignore_eos": True, **more})
    return c, r, r.readline()


for name in proxies:
    servers = [Server("-c", "65536", "--allow-host", "lutra.example") for _ in range(2)]
    program, port = start(name, servers)
    count = lambda: [s.metric("lutra:requests_total") for s in servers]
    end = time.monotonic() + WAIT_S
    while whole(port, "GET", "/health")[0] != 200 and time.monotonic() < end:  # its first checks
        time.sleep(0.05)
    equal(whole(port, "GET", "/health")[0], 200, f"{name}: health")
    status, text = whole(port, "POST", CHAT, user(QUESTION))
    equal(json.loads(text)["choices"][0]["message"]["content"], ANSWER, f"{name}: a reply over TLS")

    c, r, line = begin(port, max_tokens=60000)
    check(line.startswith(b"data: "), f"{name}: the first event of a stream that goes on", line)
    c.sock.shutdown(socket.SHUT_RDWR)
    r.close()
    c.close()
    for s in servers:
        s.wait_metric("llamacpp:requests_processing", lambda n: n == 0, f"{name}: a hang-up ends its request")

    used = set()
    for session in range(12):
        before = count()
        for _ in range(3):
            equal(whole(port, "POST", CHAT, user("x", max_tokens=1), session=str(session))[0], 200, f"{name}: a session")
        more = [b - a for a, b in zip(before, count())]
        equal(sorted(more), [0, 3], f"{name}: a session has one server")
        used.add(more.index(3))
    equal(used, {0, 1}, f"{name}: sessions have different ones")

    before = count()
    c, r, _ = begin(port, max_tokens=3000)
    drained = 0 if count()[0] > before[0] else 1
    servers[drained].program.send_signal(signal.SIGTERM)
    for _ in range(5):
        equal(whole(port, "POST", CHAT, user("x", max_tokens=1))[0], 200, f"{name}: others are served while one drains")
    check(r.read().endswith(b"data: [DONE]\n\n"), f"{name}: a server that drains ends its stream")
    c.close()
    equal(servers[drained].program.wait(timeout=WAIT_S), 0, f"{name}: drained")
    servers[1 - drained].stop()
    program.terminate()
    program.wait(timeout=WAIT_S)
print("tried:", ", ".join(proxies))
finish()
