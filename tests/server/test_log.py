# SPDX-License-Identifier: MIT
"""The access log: JSON where programs read it, short lines on a terminal, and nothing that moves its cursor."""
import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import threading
import time

from lib import LUTRA, MODEL, WAIT_S, Server, check, equal, finish, user

CHAT = "/v1/chat/completions"


class OnTerminal(Server):
    """Its standard error is a terminal."""

    def __init__(self, *options):
        ours, theirs = pty.openpty()
        self.program = subprocess.Popen([LUTRA, "serve", "-m", MODEL, "--port", "0", *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        self.text = b""
        self.reader = threading.Thread(target=self.read, args=(ours,), daemon=True)
        self.reader.start()
        end = time.monotonic() + WAIT_S
        while not (found := re.search(rb"serving .* at http://127.0.0.1:(\d+)", self.text)):
            if self.program.poll() is not None or time.monotonic() > end:
                raise SystemExit(77 if b"without libmicrohttpd" in self.text else f"FAILED: no server: {self.text}")
            time.sleep(0.02)
        self.port = int(found[1])

    def read(self, ours):
        try:
            while some := os.read(ours, 4096):
                self.text += some
        except OSError:  # the other end is closed
            pass

    def lines(self):
        """What the log says in all: it stops."""
        self.program.send_signal(signal.SIGTERM)
        equal(self.program.wait(timeout=WAIT_S), 0, "SIGTERM")
        self.reader.join(timeout=WAIT_S)
        return [line for line in self.text.decode().split("\r\n") if re.match(r"\d\d:\d\d:\d\d |\{", line)]


def talk(s, **headers):
    equal(s.ask("POST", CHAT, {**user("Sam has 2 pens."), "max_tokens": 3}, headers)[0], 200, "chat")
    equal(s.ask("GET", "/v1/models", headers=headers)[0], 200, "a list")
    equal(s.ask("GET", "/nothing\x1b[2J".replace("\x1b", "%1b"), headers=headers)[0], 404, "a path that is not there")


s = OnTerminal()
talk(s)
asked, failed = (s.lines() + ["", ""])[:2]
check(re.fullmatch(r"[\d:]{8} POST /v1/chat/completions 200, \d+ tokens in( \(\d+ cached\))?, 3 out, \d+\.\d\d s", asked), "a reply", asked)
check(re.fullmatch(r"[\d:]{8} GET /nothing\S+ 404, \d+\.\d\d s, not_found", failed) and "\x1b" not in failed, "a failure", failed)
check("Sam" not in s.text.decode(), "the log has no prompts")

with tempfile.NamedTemporaryFile("w") as keys:
    keys.write("sk-1 pho\x1bne\n")
    keys.flush()
    s = OnTerminal("--verbose", "--api-key-file", keys.name)
    talk(s, Authorization="Bearer sk-1")
    lines = s.lines()
equal([line.split(" ")[1:4] for line in lines], [["POST", CHAT, "200,"], ["GET", "/v1/models", "200,"], ["GET", lines[-1].split(" ")[2], "404,"]],
      "--verbose: every request")
check(all(line.split(", ")[-1 if "404" not in line else -2] == "pho?ne" for line in lines), "the key's name, without its escape", lines)

s = OnTerminal("--log-jsonl")
talk(s)
equal([json.loads(line)["status"] for line in s.lines()], [200, 200, 404], "--log-jsonl on a terminal")

s = Server("--no-log-jsonl")
talk(s)
s.stop()
equal([re.sub(r"^[\d:]{8} (\S+ \S+ \d+).*", r"\1", line) for line in s.rest.splitlines() if " 200" in line], ["POST " + CHAT + " 200"],
      "--no-log-jsonl without a terminal")
finish()
