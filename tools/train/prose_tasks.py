"""Tasks in the three forms of llama-perplexity, made of the test's side of prose.py's corpus.

usage: prose_tasks.py CORPUS.txt OUT [--tasks 1000]      OUT.hellaswag, OUT.winogrande, OUT.choice

Not the published sets: their forms, on text that a model of this project can have learnt.
    HellaSwag        a paragraph's first sentence; its second, or a second sentence of another document
    WinoGrande       a sentence with a gap; the word, or another sentence's word of the same ending
    multiple choice  (MMLU's form) a package's name; its one-line description, or another's
"""
import argparse
import os
import random
import re
import struct

import prose

SEED = prose.FIRST_TEST_SEED
GAP = "_"


def sentences(text):
    for paragraph in text.split("\n\n"):
        parts = re.split(r"(?<=[.!?]) +(?=[A-Z])", paragraph)
        good = [p for p in parts if 40 <= len(p) <= 200 and GAP not in p and "\n" not in p and '"' not in p]
        if len(good) == len(parts):
            yield good


def hellaswag(r, documents):
    pairs = [(s[0], s[1]) for d in documents for s in sentences(d) if len(s) > 1]
    for first, second in r.sample(pairs, len(pairs)):
        wrong = [p[1] for p in r.sample(pairs, 3)]
        if second in wrong:
            continue
        place = r.randrange(4)
        yield "\n".join([first, str(place), *wrong[:place], second, *wrong[place:]]) + "\n"


def winogrande(r, documents):
    """The gap is neither the first word nor the last, so that both sides say something."""
    gaps, by_ending = [], {}
    for s in (s for d in documents for ss in sentences(d) for s in ss):
        words = [m for m in re.finditer(r"(?<= )[a-z]{4,}(?= )", s) if m.end() < len(s) * .7 and "," not in s]
        if words:
            word = r.choice(words)
            gaps.append((s, word))
            by_ending.setdefault(word[0][-2:], []).append(word[0])
    for n, (s, word) in enumerate(r.sample(gaps, len(gaps))):
        other = r.choice(by_ending[word[0][-2:]])
        if other == word[0]:
            continue
        right = r.randrange(2)
        choices = [other, word[0]] if right else [word[0], other]
        yield f"{n},{s[:word.start()]}{GAP}{s[word.end():]},{choices[0]},{choices[1]},{right + 1}\n"


def choices(r, documents):
    about = [m.groups() for d in documents if (m := re.match(r"([a-z0-9.+-]+): (.{10,100})\n", d))]
    for name, line in r.sample(about, len(about)):
        wrong = [a[1] for a in r.sample(about, 3)]
        if line not in wrong:
            yield f"{name}:", [line, *wrong]


def text_of(text):
    return struct.pack("<I", len(text.encode())) + text.encode()


def binary(tasks):
    places, body, at = [], b"", 4 + 4 * len(tasks)
    for question, answers in tasks:
        places.append(at + len(body))
        labels = struct.pack("<4i", 1, 0, 0, 0)
        body += text_of(question) + 2 * (struct.pack("<I", 4) + b"".join(map(text_of, answers)) + labels)
    return struct.pack("<I", len(tasks)) + struct.pack(f"<{len(places)}I", *places) + body


def main():
    a = argparse.ArgumentParser()
    a.add_argument("corpus")
    a.add_argument("out")
    a.add_argument("--tasks", type=int, default=1000)
    c = a.parse_args()
    os.environ["PROSE"] = c.corpus
    documents, r = prose.Side(True).text, random.Random(SEED)
    for name, made in ("hellaswag", hellaswag), ("winogrande", winogrande), ("choice", choices):
        tasks = [t for t, _ in zip(made(r, documents), range(c.tasks))]
        data = binary(tasks) if name == "choice" else "".join(tasks).encode()
        with open(f"{c.out}.{name}", "wb") as f:
            f.write(data)
        print(f"{c.out}.{name}: {len(tasks)} tasks")


if __name__ == "__main__":
    main()
