# SPDX-License-Identifier: MIT
"""lutra run as somebody at a terminal sees it: a pseudo-terminal types keys and pastes, /save shows what arrived."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

LUTRA = os.environ["LUTRA"]
MODEL = os.environ["LUTRA_SOURCE"] + "/models/abacus-1m-f16.gguf"
HAS_EDITOR = b"libedit" in subprocess.run(["ldd", LUTRA], capture_output=True).stdout
PROMPT = b"\033[?2004h" if HAS_EDITOR else b"> "  # pastes are marked from here on
UP, LEFT, HOME, DELETE, ENTER = b"\033[A", b"\033[D", b"\033[H", b"\033[3~", b"\r"
failures = []


def check(right, what):
    if not right:
        failures.append(what)
        print("FAILED:", what)


class Terminal:
    """One run of the program on a terminal of its own.  `folder` is its home."""

    def __init__(self, folder, *args, columns=80, term="xterm", model=("-m", MODEL), shell=False):
        environment = {"HOME": folder, "TERM": term, "PATH": os.environ["PATH"], "LANG": "C"}
        self.folder, self.seen, self.all = folder, b"", b""
        words = [LUTRA, "run", *model, "-n", "4", "-c", "65536", "--temp", "0", *args]
        line = "PS1='SHELL> '; " + " ".join(words) + "\n"
        if shell:  # which has job control: a program without a shell above it cannot be stopped
            environment["PS1"] = "$"
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            if shell:
                os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], environment)
            os.execve(LUTRA, words, environment)
        if shell:
            self.type(line.encode())

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return b""
        try:
            got = os.read(self.fd, 65536)
        except OSError:  # the program has ended
            return b""
        self.all += got
        return got

    def wait(self, text, seconds=60):
        """Until text has been shown since the last wait; what was shown, or None."""
        end = time.monotonic() + seconds
        while text not in self.seen and time.monotonic() < end:
            self.seen += self.read(0.2)
        before, found, after = self.seen.partition(text)
        if not found:
            check(False, f"{text!r} was not shown, but {self.seen[-400:]!r}")
            return None
        self.seen = after
        return before

    def type(self, keys):
        while keys:
            n = os.write(self.fd, keys[:1024])
            keys = keys[n:]
            while (shown := self.read(0)):  # a full screen buffer would stop us both
                self.seen += shown

    def paste(self, text):
        self.type(b"\033[200~" + text.replace(b"\n", b"\r") + b"\033[201~")

    def saved(self, role="user"):
        """The messages so far."""
        path = os.path.join(self.folder, "saved.json")
        if os.path.exists(path):
            os.unlink(path)
        self.type(f"/save {path}".encode() + ENTER)
        for _ in range(300):
            self.seen += self.read(0.1)
            if os.path.exists(path):
                self.wait(PROMPT)
                messages = json.load(open(path))["messages"]
                return [m["content"] for m in messages if m["role"] == role]
        check(False, f"nothing was saved; the screen: {self.seen[-400:]!r}")
        return []

    def close(self):
        """Leaves with Ctrl-D; the exit code."""
        self.type(b"\004")
        return self.code()

    def code(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        check(False, "it did not end")
        return None


def ask(terminal, keys):
    terminal.type(keys + ENTER)
    terminal.wait(b" tokens")  # the figures under the reply
    terminal.wait(PROMPT)


def editing(folder):
    t = Terminal(folder)
    first = t.wait(b"/help") or b""
    check(b"bind" not in first, f"libedit finds fault with a key: {first!r}")
    t.wait(PROMPT)
    ask(t, b"Hallo" + LEFT * 4 + DELETE + b"e")  # Hello
    ask(t, b"bc" + HOME + b"a")
    ask(t, b"x\033\ry")  # Alt-Enter
    ask(t, b"one \\" + ENTER + b"two")
    ask(t, UP * 3)  # the second message; "one \" and "two" are entries of their own
    ask(t, b"\022Hel")  # Ctrl-R finds Hello; Enter takes it
    ask(t, "zw\u00f6lf \u4e2d".encode())
    check(t.saved() == ["Hello", "abc", "x\ny", "one \ntwo", "x\ny", "Hello", "zw\u00f6lf \u4e2d"],
          f"editing: {t.saved()}")
    check(t.close() == 0, "Ctrl-D leaves with 0")
    path = os.path.join(folder, ".local/state/lutra/history")
    check(os.path.isfile(path) and os.stat(path).st_mode & 0o77 == 0, "the history file is its owner's only")
    os.chmod(path, 0o644)  # of an older program, or by hand
    t = Terminal(folder)
    t.wait(PROMPT)
    t.type(b"\022abc" + ENTER)  # of the run before
    t.wait(b" tokens")
    t.wait(PROMPT)
    check(t.saved() == ["abc"], f"history of another run: {t.saved()}")
    check(os.stat(path).st_mode & 0o77 == 0, "a history that was open to others is closed")
    check(t.close() == 0, "the second run ends")


def pastes(folder):
    lines = b"\n".join(b"line %d of the paste\tend" % i for i in range(50))
    large = b"".join(b"%07d " % i for i in range(12800)).rstrip()  # 100 KB
    t = Terminal(folder, "--history", "")
    t.wait(PROMPT)
    t.paste(lines)
    ask(t, b"")
    check(t.saved() == [lines.decode()], "50 lines arrive as one message")
    t.paste(b"evil \033[31mred\033[0m \033]0;title\007 \x01\x08text\x7f")
    ask(t, b"")
    check(t.saved()[1:] == ["evil [31mred[0m ]0;title text"], f"no control byte of a paste arrives: {t.saved()[1:]}")
    t.type(b"/system ")  # a message that no model has to read
    t.paste(large)
    t.type(ENTER)
    t.wait(PROMPT)  # keys that are typed before it may be lost: the editor empties the queue
    check(t.saved("system") == [large.decode()], "100 KB arrive as one message")
    check(t.close() == 0, "pastes: end")
    check(not os.path.exists(os.path.join(folder, ".local")), "--history '' keeps none")


def strange_keys(folder):
    """Keys, mice, focus and answers of a terminal: nothing of them is text."""
    t = Terminal(folder)
    t.wait(PROMPT)
    strange = [b"\033[15~", b"\033[24;80R", b"\033[I", b"\033[O", b"\033[<0;12;5M", b"\033OP", b"\033[1;2P",
               b"\033]11;rgb:0000/0000/0000\033\\", b"\033P1$r0m\033\\", b"\033^x\033\\", b"\033[6~"]
    ask(t, b"a" + b"b".join(strange) + b"c")
    check(t.saved() == ["a" + "b" * (len(strange) - 1) + "c"], f"strange keys: {t.saved()}")
    check(t.close() == 0, "strange keys: end")


def narrow(folder):
    text = b"a message that is much wider than the window, " * 5 + b"end"
    t = Terminal(folder, columns=20)
    t.wait(PROMPT)
    t.type(text[:100])
    fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 8, 0, 0))  # narrower while typing
    ask(t, text[100:] + HOME + b"<")
    check(t.saved() == ["<" + text.decode()], f"narrow window: {t.saved()}")
    code = t.close()
    check(code == 0, f"narrow window: end with {code}")


def interrupts(folder):
    t = Terminal(folder)
    t.wait(PROMPT)
    t.type(b"not sent")
    t.wait(b"sent")
    t.type(b"\003")  # discards what has not been read yet, too
    t.wait(PROMPT)
    ask(t, b"sent")
    check(t.saved() == ["sent"], f"Ctrl-C drops a line: {t.saved()}")
    t.type(b"\003")
    check(t.code() == 130, "Ctrl-C on an empty line leaves")


def stopped(folder):
    """Ctrl-Z and fg, in a shell of its own: the editor edits as before, and pastes arrive whole."""
    t = Terminal(folder, shell=True)
    t.wait(PROMPT)
    t.type(b"hello wor")
    t.wait(b"wor")
    t.type(b"\032")
    t.wait(b"Stopped")
    t.wait(b"SHELL> ")
    t.type(b"fg" + ENTER)
    t.wait(PROMPT)
    t.wait(b"hello wor")
    t.type(b"ld" + LEFT * 2 + b"X")
    t.paste(b"a\nb")
    ask(t, b"")
    check(t.saved() == ["hello worXa\nbld"], f"Ctrl-Z and fg: {t.saved()}")
    t.type(b"\004")
    t.wait(b"SHELL> ")
    t.type(b"exit 0" + ENTER)
    check(t.code() == 0, "Ctrl-Z and fg: end")


def woken(folder):
    """A signal that comes while a key is read is noticed at once, not at the next key."""
    t = Terminal(folder, "--history", "")
    t.wait(PROMPT)
    for _ in range(200):
        t.type(b"x")
        os.kill(t.pid, signal.SIGCONT)
        if t.wait(PROMPT, seconds=60) is None:
            break
    t.type(ENTER)
    t.wait(b" tokens")
    t.wait(PROMPT)
    check(t.saved() == ["x" * 200], f"a signal beside a key: {t.saved()}")
    check(t.close() == 0, "a signal beside a key: end")


def pastes_without_an_end(folder):
    t = Terminal(folder, "--history", "")
    t.wait(PROMPT)
    t.type(b"\033[200~cut off")  # and the connection hangs for a while
    time.sleep(0.4)
    ask(t, b"")  # Enter
    check(t.saved() == ["cut off"], f"a paste without its end, then Enter: {t.saved()}")
    t.type(b"\033[200~one\rtwo")
    time.sleep(1.6)  # it counts as over
    ask(t, b" three")
    check(t.saved()[1:] == ["one\ntwo three"], f"a paste without its end, then text: {t.saved()}")
    t.type(b"\033[200~slow ")
    for part in (b"paste\r", b"of\r", b"lines\033[20", b"1~"):
        time.sleep(0.05)
        t.type(part)
    ask(t, b"")
    check(t.saved()[2:] == ["slow paste\nof\nlines"], f"a slow paste: {t.saved()}")
    check(t.close() == 0, "pastes without an end: end")


def long_prompts(folder):
    """While a long prompt is read the terminal shows how far; nothing of it is in the reply."""
    path = os.path.join(folder, "long.txt")
    open(path, "w").write("Sam has 42 cards. " * 1500)
    t = Terminal(folder, "-f", path, "-b", "256", model=("-m", MODEL))
    t.wait(b"reading the prompt [")
    t.wait(b" tokens")
    t.wait(PROMPT)
    check(t.close() == 0, "a long prompt: end")


def full(folder):
    """A full context ends no chat: the oldest turns leave, the system message stays."""
    t = Terminal(folder, "-c", "300", "-sys", "Count.")
    t.wait(PROMPT)
    for i in range(8):
        ask(t, b"Sam has %d cards. " % i * 4)
    check(t.saved("system") == ["Count."], f"the system message stays: {t.saved('system')}")
    kept = t.saved()
    check(1 < len(kept) < 8 and kept[-1].startswith("Sam has 7"), f"the latest turns stay: {kept}")
    check(len(kept) == len(t.saved("assistant")), "a turn leaves whole")
    check(t.close() == 0, "a full context: end")
    check(b"oldest" in t.all and b"-c N gives more" in t.all, f"it is said: {t.all[-600:]!r}")


def commands(folder):
    path = os.path.join(folder, "notes.txt")
    open(path, "w").write("from a file")
    t = Terminal(folder, model=(MODEL,))
    t.wait(PROMPT)
    t.type(b"/system Be short." + ENTER + b"/read " + path.encode() + ENTER)
    t.wait(b"11 bytes")
    ask(t, b"question")
    check(t.saved() == ["from a file\nquestion"], f"/read: {t.saved()}")
    kept = os.path.join(folder, "kept.json")
    t.type(f"/save {kept}\r/clear\r/context\r".encode())
    t.wait(b"3 messages in ")
    t.wait(b"1 messages, ")
    t.type(f"/load {kept}\r/context\r".encode())
    t.wait(b"3 messages, ")
    check(os.stat(kept).st_mode & 0o77 == 0, "a saved chat is its owner's only")
    check([m["role"] for m in json.load(open(kept))["messages"]] == ["system", "user", "assistant"], "roles saved")
    t.type(b"/load /nowhere" + ENTER)
    t.wait(b"/nowhere: No such file")
    t.type(b"/hlep" + ENTER)
    t.wait(b"did you mean /help")
    t.type(b"/help" + ENTER)
    t.wait(b"/system  TEXT")
    t.type(b"/exit" + ENTER)
    check(t.code() == 0, "/exit")


def main():
    parts = [commands]
    if HAS_EDITOR:
        parts += [editing, pastes, pastes_without_an_end, strange_keys, narrow, interrupts, stopped, woken, full, long_prompts]
    else:
        print("built without libedit: its keys are not tested")
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            part(folder)
    print("all checks passed" if not failures else f"{len(failures)} checks failed")
    return 1 if failures else 0


sys.exit(main())
