"""Countdown's problems and its rule: what is made holds, what is almost right does not."""
import itertools
import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "train"))
import countdown  # noqa: E402

QUESTION = "Use 3, 25, 7, 12 to make 46."
RIGHT = ["25-7=18\n12*3=36\n36+18=54", "7-3=4\n25-4=21\n12+21=33"]  # of 54 and of 33


class Rule(unittest.TestCase):
    def test_made_problems_hold(self):
        for first in (0, 10 ** 8, 10 ** 9):
            for seed in range(first, first + 500):
                question, steps, answer = countdown.make(seed)
                text = "\n".join(line for line, _ in steps)
                self.assertTrue(countdown.holds(question, text), (question, text))
                self.assertEqual(countdown.for_tests(*countdown.numbers_of(question)), first == 10 ** 9)
                self.assertEqual(countdown.numbers_of(question)[1], answer)

    def test_right(self):
        self.assertTrue(countdown.holds("Use 3, 25, 7, 12 to make 54.", RIGHT[0]))
        self.assertTrue(countdown.holds("Use 3, 25, 7, 12 to make 33.", RIGHT[1] + "\n"))
        self.assertTrue(countdown.holds("Use 3, 25, 7, 12 to make 33.", " 7 - 3 = 4\n25-4= 21\n12+21=33"))

    def test_wrong(self):
        for text in ("", "46", "25-7=18\n12*3=36",  # not all are used
                     "25-7=19\n12*3=36\n36+19=55",  # a line that does not hold
                     "25-7=18\n12*3=36\n36+18=54",  # another target
                     "25+12=37\n7+3=10\n37+10=47\n47-1=46",  # a number that was not given
                     "25+7=32\n12+3=15\n32+15=47\n\n46",
                     "25+25=50\n7-3=4\n50-4=46",  # one used twice
                     "25/7=3\n12*3=36\n36+3=39", "3-25=-22\n7+12=19", "25/0=0"):
            self.assertFalse(countdown.holds(QUESTION, text), text)

    def test_reachable(self):
        """Against all expressions of the numbers, values that the rule allows."""
        def values(numbers):
            if len(numbers) == 1:
                return set(numbers)
            out = set()
            for i, j in itertools.permutations(range(len(numbers)), 2):
                a, b = numbers[i], numbers[j]
                rest = [n for k, n in enumerate(numbers) if k not in (i, j)]
                for c in [a + b, a * b] + [a - b] * (a >= b) + ([a // b] if b and a % b == 0 else []):
                    out |= values(rest + [c])
            return out

        rng = random.Random(1)
        for n in (1, 2, 3, 3, 3, 4, 4):
            numbers = [rng.randint(1, 30) for _ in range(n)]
            reached = values(numbers)
            for target in range(0, 120):
                self.assertEqual(countdown.reachable(tuple(sorted(numbers)), target), target in reached,
                                 (numbers, target))

    def test_labels(self):
        question = "Use 3, 25, 7, 12 to make 33."
        countdown_make, countdown.make = countdown.make, lambda seed: (question, [], 33)
        try:
            for text, want in ((RIGHT[1], [1, 1, 1]), ("7-3=4\n25-4=22\n12+22=34", [1, 0, 0]),
                               ("7-3=4\n25-4=21\n21+12=34", [1, 1, 0]),
                               ("25*12=300\n300*7=2100\n2100*3=33", [0, 0, 0]), ("7-3=4\n25-4=21", [1, 0]), ("", [0])):
                self.assertEqual(countdown.labels(1, text), want, text)
                pieces = list(text) + [""]
                by_token = countdown.token_labels(1, pieces)
                ends = [i for i, p in enumerate(pieces) if p in ("\n", "")]
                self.assertEqual([by_token[i] for i in ends], want, text)
            text = "7-3=4\n25-4=22\n"
            first_wrong = text.index("22") + 1
            self.assertEqual(countdown.token_labels(1, list(text) + [""])[:len(text)],
                             [1] * first_wrong + [0] * (len(text) - first_wrong))
        finally:
            countdown.make = countdown_make

    def test_as_in_the_engine(self):
        cases = (Path(__file__).resolve().parents[1] / "golden" / "countdown_rule.txt").read_text().splitlines()
        for case in cases:
            holds, question, text = case.split("|")
            self.assertEqual(countdown.holds(question, text.replace(";", "\n")), holds == "1", case)
