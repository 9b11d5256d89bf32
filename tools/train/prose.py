"""English text of this machine's packages: descriptions of all that its lists know, and its manual pages.

What quantizers and perplexities are judged on must not be easy: a model of word problems expects nearly every token.
A paragraph that stands in several documents is told once.  A document is of the training's or the test's side by its
name's hash.  The corpus differs with the machine; nothing of it is in this repository, so it is written first:

usage: prose.py CORPUS.txt [--lists /var/lib/apt/lists]     documents, each behind a line "\\f NAME"
       prose.py --held-out CORPUS.txt TEXT.txt [--bytes N]  the beginnings of documents of the test's side

apt keeps long descriptions only where it is asked to (`apt-get -o Acquire::Languages=en update`).  train.py reads
the corpus at $PROSE.
"""
import argparse
import bisect
import glob
import gzip
import itertools
import os
import random
import re
import subprocess
import sys
import zlib

FIRST_TEST_SEED = 10 ** 9
N_TOKENIZER = 4000  # train.py: examples that the tokenizer learns from
CHARACTERS = 2600   # of an example
ESCAPES = {"-": "-", "e": "\\", " ": " ", "~": " ", "0": " ", "&": "", "|": "", "^": "", "%": "", "/": "", ",": "", ":": ""}
GLYPHS = {"em": " - ", "en": "-", "aq": "'", "oq": "'", "cq": "'", "lq": '"', "rq": '"', "dq": '"', "bu": "*", "co": "(c)",
          "ha": "^", "ti": "~", "rs": "\\", "ga": "`", "mi": "-", "mu": "x", "->": "->", "<=": "<=", ">=": ">="}


# ---- manual pages ----

def plain(text):
    """roff's escapes in words."""
    def one(m):
        glyph, character = m[1] or m[2], m[3]
        return GLYPHS.get(glyph, "") if glyph else ESCAPES.get(character, "")
    text = re.sub(r"\\f(?:\[[^]]*\]|\(..|.)|\\s[-+]?\d+|\\[*mnFM](?:\[[^]]*\]|\(..|.)|\\[hvwlLbDoxZ]'[^']*'|\\\".*", "", text)
    return re.sub(r"\\(?:\((..)|\[([^]]*)\]|(.))", one, text)


def words(line):
    """A macro's arguments."""
    return [a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', line)]


def manual(source):
    """Paragraphs of a page, of man's or of mdoc's macros."""
    paragraph, paragraphs = [], []

    def end():
        text = " ".join(" ".join(paragraph).split())
        if text:
            paragraphs.append(text)
        paragraph.clear()
    for line in source.split("\n"):
        if not line.startswith((".", "'")):
            paragraph.append(plain(line)) if line.strip() else end()
            continue
        macro, _, rest = line[1:].strip().partition(" ")
        if macro in ("SH", "SS", "Sh", "Ss"):
            end()
            paragraphs.append(plain(" ".join(words(rest))))
        elif macro in ("PP", "P", "LP", "sp", "TP", "HP", "Pp", "It", "br", "IP"):
            end()
            paragraph += [plain(a) for a in words(rest)[:1]] if macro in ("It", "IP") else []
        elif macro in ("B", "I", "SM", "Nm", "Ar", "Pa", "Em", "Sy", "Nd", "Li", "Dq", "Ql"):
            paragraph.append(plain(" ".join(words(rest))))
        elif macro in ("BR", "RB", "BI", "IB", "IR", "RI", "SB", "Xr"):
            paragraph.append(plain("".join(words(rest))))
        elif macro in ("Fl", "Op"):
            paragraph.append("-" + plain(" ".join(words(rest))))
    end()
    return paragraphs


def manuals():
    seen = set()
    for path in sorted(glob.glob("/usr/share/man/man[1-8]/*.gz")):
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        try:
            with gzip.open(real, "rt", encoding="utf-8", errors="replace") as f:
                source = f.read()
        except (OSError, EOFError):
            continue  # a link to nowhere, or half a file
        if len(source) > 300:  # others only name another page
            yield os.path.basename(path)[:-3], manual(source)


# ---- descriptions ----

def descriptions(lists):
    for path in sorted(glob.glob(os.path.join(lists, "*Translation-en*"))):
        text = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", path], capture_output=True, check=True, text=True).stdout
        for stanza in text.split("\n\n"):
            name = re.match(r"Package: (\S+)", stanza)
            about = re.search(r"^Description-en: (.*(?:\n .*)*)", stanza, re.M)
            if name and about:
                lines = [line.strip() for line in about[1].split("\n")]
                paragraphs = "\n".join("" if line == "." else line for line in lines[1:]).split("\n\n")
                yield name[1], [f"{name[1]}: {lines[0]}"] + [" ".join(p.split()) for p in paragraphs]


def write(path, lists):
    held, n, size = set(), 0, 0
    with open(path, "w", encoding="utf-8") as f:
        for name, paragraphs in itertools.chain(descriptions(lists), manuals()):
            new = []
            for p in paragraphs:
                key = hash(p)
                if key in held or len(p.encode()) > 1.02 * len(p):  # told already, or in another language
                    continue
                if len(p) > 30:
                    held.add(key)
                new.append(p)
            text = "\n\n".join(new)
            if len(text) > 100:
                f.write(f"\f {name}\n{text}\n")
                n, size = n + 1, size + len(text)
    print(f"{path}: {n} documents, {size / 1e6:.1f} million characters")


# ---- what train.py asks for ----

class Side:
    """The documents of one side, end to end."""

    def __init__(self, test):
        path = os.environ.get("PROSE", "prose.txt")
        try:
            with open(path, encoding="utf-8") as f:
                parts = f.read().split("\f ")[1:]
        except OSError as e:
            sys.exit(f"prose.py: {path}: {e.strerror}; write it with prose.py first ($PROSE names it)")
        named = (p.partition("\n") for p in parts)
        self.text = [text for name, _, text in named if (zlib.crc32(name.encode()) % 16 == 0) == test]
        self.at = list(itertools.accumulate(map(len, self.text)))


SIDES = {}


def make(seed):
    test = seed >= FIRST_TEST_SEED
    side = SIDES[test] = SIDES.get(test) or Side(test)
    r = random.Random(seed)
    i = bisect.bisect_right(side.at, r.randrange(side.at[-1]))
    text = side.text[i]
    if len(text) > CHARACTERS:
        text = text[r.randrange(len(text) - CHARACTERS + 1):][:CHARACTERS]
        text = text[text.find(" ") + 1:text.rfind(" ")]
    return dict(text=text)


def texts(made):
    return ["<|endoftext|>", made["text"]]


def held_out(path, size):
    text, n = [], 0
    for one in Side(True).text:
        text.append(one[:4000])
        n += len(text[-1])
        if n >= size:
            break
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(text))
    print(f"{path}: {len(text)} documents, {n} characters")


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("path")
    a.add_argument("--held-out", metavar="CORPUS")
    a.add_argument("--bytes", type=int, default=400_000)
    a.add_argument("--lists", default="/var/lib/apt/lists")
    c = a.parse_args()
    if c.held_out:
        os.environ["PROSE"] = c.held_out
        held_out(c.path, c.bytes)
    else:
        write(c.path, c.lists)
