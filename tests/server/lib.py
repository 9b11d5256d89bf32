# SPDX-License-Identifier: MIT
"""A server of its own for each test, and requests to it."""
import atexit
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
MODEL = SOURCE + "/models/abacus-1m-f16.gguf"
QUESTION = "Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have in the end?"
ANSWER = "42 * 2 = 84.\n#### 84"
WAIT_S = 120  # for what must happen, however busy the machine is
failures = []


def check(ok, name, seen=""):
    if not ok:
        failures.append(name)
        print(f"FAILED: {name}: {str(seen)[:600]}")


def equal(seen, expected, name):
    check(seen == expected, name, f"{seen!r}, not {expected!r}")


def finish():
    print("all checks passed" if not failures else f"{len(failures)} checks failed")
    sys.exit(bool(failures))


class Server:
    def __init__(self, *options, model=MODEL, port="0", env=None, log=False):
        command = [LUTRA, "serve", *(["-m", model] if model else []), *([] if port is None else ["--port", port]), *options]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("LUTRA_ARG_")}
        self.program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, env={**clean, **(env or {})})
        atexit.register(self.program.kill)  # a test that fails leaves no server behind
        self.said, self.port = [], None
        for line in self.program.stderr:
            self.said.append(line)
            if "without libmicrohttpd" in line:
                print(line)
                sys.exit(77)
            if found := re.search(r"serving .* at (\S+)", line):
                self.address = found[1]
                self.port = int(found[1].rsplit(":", 1)[1]) if found[1].startswith("http") else None
                break
        if not self.port and "unix:" not in "".join(self.said):
            raise SystemExit(f"FAILED: no server: {''.join(self.said)}")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """(status, headers, text)"""
        c = connection or self.connect()
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        text = r.read().decode()
        if not connection:
            c.close()
        return r.status, r.headers, text

    def get(self, path, **headers):
        status, _, text = self.ask("GET", path, headers=headers)
        return status, json.loads(text)

    def post(self, path, body, **headers):
        status, _, text = self.ask("POST", path, body, headers)
        return status, json.loads(text)

    def stream(self, path, body):
        """The events of a stream as JSON, without [DONE], which must come last."""
        status, headers, text = self.ask("POST", path, {**body, "stream": True})
        assert status == 200, text
        events = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        check(events[-1:] == ["[DONE]"], path + ": the stream's end", text[-200:])
        return [json.loads(e) for e in events if e != "[DONE]"]

    def metric(self, name):
        text = self.ask("GET", "/metrics")[2]
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])

    def wait_metric(self, name, is_right, what):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            value = self.metric(name)
            if is_right(value):
                return value
            time.sleep(0.02)
        check(False, what, f"{name} stays {value}")

    def stop(self, number=signal.SIGTERM):
        """Its exit code; what it said since is in self.rest."""
        self.program.send_signal(number)
        self.rest = self.program.stderr.read()
        return self.program.wait(timeout=WAIT_S)


def user(text, **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **more}
