"""The workloads of questions about documents: seeds decide, sides are apart, distances are what they are called."""
import difflib
import sys
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "train"))
import reader  # noqa: E402

MADE = [reader.make(seed) for first in (0, 10 ** 9) for seed in range(first, first + 1200)]


def likeness(m):
    """The share of an answer's words that stand in its documents, in runs of at least three."""
    answer, text = m["answer"].split(), " ".join(m["documents"]).split()
    blocks = difflib.SequenceMatcher(None, text, answer, autojunk=False).get_matching_blocks()
    return sum(b.size for b in blocks if b.size >= 3) / len(answer)


class Reader(unittest.TestCase):
    def test_same_seed_same_example(self):
        for m in MADE[::100]:
            self.assertEqual(m, reader.make(m["seed"]))

    def test_all_tasks_at_all_distances(self):
        count = Counter((m["task"], m["distance"]) for m in MADE)
        self.assertEqual(set(count.values()), {200})
        self.assertEqual(len(count), 12)

    def test_lengths(self):
        for m in MADE:  # 150 to 600 tokens of about 3.5 characters
            self.assertTrue(400 <= max(map(len, m["documents"])) <= 2100, (m["seed"], len(m["documents"][0])))
            self.assertTrue(20 <= len(m["answer"]) <= 900, (m["seed"], m["answer"]))

    def test_no_name_on_both_sides(self):
        """Words that are no name are the same on both sides; every capital in a made-up name's place is not."""
        fixed = set()
        for facts in reader.DOMAINS.values():
            for values, forms, other, question in facts:
                fixed |= set(" ".join([*forms, other, question]).replace("[", " ").replace("]", " ").replace("|", " ").split())
        names = [set(), set()]
        for m in MADE:
            for word in " ".join(m["documents"]).replace(",", " ").replace(".", " ").replace(";", " ").split():
                if word.isalpha() and word[0].isupper() and len(word) > 5 and word not in fixed:
                    names[m["seed"] >= 10 ** 9].add(word)
        shared = names[0] & names[1]
        self.assertLess(len(shared), 60)  # months, labels, first words of sentences
        self.assertGreater(min(map(len, names)), 2000)

    def test_copied_is_copied_and_rephrased_is_not(self):
        mean = {}
        for task in ("summary", "rag", "ui"):
            for d in reader.DISTANCES:
                of = [likeness(m) for m in MADE if (m["task"], m["distance"]) == (task, d)][:60]
                mean[task, d] = sum(of) / len(of)
            self.assertGreater(mean[task, "copied"], mean[task, "lightly"] + 0.1, mean)
            self.assertGreater(mean[task, "lightly"], mean[task, "heavily"], mean)
        for m in MADE:
            if m["task"] == "ui" and m["distance"] == "copied":
                for line in m["answer"].split("\n"):
                    self.assertIn(line[line.index("<"):], m["documents"][0])
