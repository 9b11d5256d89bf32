# SPDX-License-Identifier: MIT
"""All of what models are trained and measured on: the bundled sets are what their seeds make, and the tests beside
this file.  Those of the trainers are left out, with a line that says so, where there is no PyTorch."""
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTS = ("test_countdown", "test_reader", "test_train", "test_lowbit")
SETS = (["make_test_set.py", "--check", "models/abacus-test.jsonl"],
        ["make_test_set.py", "--check", "models/countdown-test.jsonl", "--task", "countdown"],
        ["reader.py", "--check", "models/reader-test.jsonl"])


class Sets(unittest.TestCase):
    def test_bundled_sets(self):
        for tool, *args in SETS:
            with self.subTest(" ".join(args)):
                run = subprocess.run([sys.executable, "-B", ROOT / "tools/train" / tool, *args], cwd=ROOT,
                                     capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


def load_tests(loader, tests, pattern):
    for part in PARTS:
        tests.addTests(loader.loadTestsFromName(part))
    return tests


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    try:
        import torch  # noqa: F401
    except ImportError:
        PARTS = PARTS[:2]
        print("left out: test_train, test_lowbit: no PyTorch")
    unittest.main()
