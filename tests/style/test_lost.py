# SPDX-License-Identifier: MIT
"""tools/check_lost.py on small repositories made here: a planted removal is found, what is no loss is not."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_lost.py"
HEADER = "LUTRA_API int lutra_open(const char *path);\nLUTRA_API struct lutra_error\n    *lutra_why(int rc);\n"
TEST = "    cmocka_unit_test(a_is_b),\n    cmocka_unit_test_prestate(\n        c_is_d, NULL),\n"
OPTIONS = '    {"-c --ctx", "CTX", OPT_INT},\n    {"--greedy", NULL, OPT_ON},\n'


class Lost(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.git("init", "-q", "-b", "main")
        self.put("tools/check_lost.py", "")
        self.put("include/lutra/core.h", HEADER)
        self.put("tests/unit/kv/test_kv.c", TEST)
        self.put("tests/cli/test_run.sh", "")
        self.put("tests/style/test_x.py", "class A:\n    def test_x(self):\n        pass\n")
        self.put("apps/cli/run.c", OPTIONS)
        self.commit("all: begins")

    def tearDown(self):
        self.folder.cleanup()

    def git(self, *args):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        return subprocess.run(["git", "-C", self.root, *who, *args], check=True, capture_output=True, text=True).stdout

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def check(self, *args, root=None):
        run = subprocess.run([sys.executable, CHECK, root or self.root, *args], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr

    def finds(self, *words):
        rc, out = self.check()
        self.assertEqual((rc, out.count("\n")), (1, len(words)), out)
        for w in words:
            self.assertIn(w, out)

    def finds_nothing(self, *args):
        rc, out = self.check(*args)
        self.assertEqual(rc, 0, out)

    def remove_all(self):
        self.put("include/lutra/core.h", "LUTRA_API int lutra_open(const char *path);\n")
        self.put("tests/unit/kv/test_kv.c", "    cmocka_unit_test(a_is_b),\n")
        self.put("apps/cli/run.c", '    {"-c", "CTX", OPT_INT},\n')
        (self.root / "tests/cli/test_run.sh").unlink()
        (self.root / "tests/style/test_x.py").unlink()

    def test_planted_removal(self):
        self.remove_all()
        self.commit("kv: faster")
        self.finds("the function lutra_why (include/lutra/core.h)", "the test c_is_d (tests/unit/kv/test_kv.c)",
                   "option --ctx", "option --greedy", "test file test_run.sh", "test test_x (", "test file test_x.py")

    def test_named_removal(self):
        self.remove_all()
        self.commit("kv: less\n\nlutra_why(), c_is_d, --ctx, `--greedy`; test_run.sh and test_x.py go whole.")
        self.finds_nothing()
        self.assertEqual(self.check("HEAD~1..HEAD")[0], 0)

    def test_part_of_a_name_is_no_name(self):
        self.put("apps/cli/run.c", '    {"-c --ctx", "CTX", OPT_INT},\n')
        self.commit("cli: --greedy-ish")
        self.finds("--greedy")

    def test_moves_are_no_loss(self):
        self.git("mv", "tests/unit/kv/test_kv.c", "tests/unit/kv/test_all.c")
        self.git("mv", "apps/cli/run.c", "apps/run.c")
        self.commit("kv: test_kv.c is called otherwise")
        self.finds_nothing()

    def test_one_of_two_of_a_name(self):
        self.put("tests/unit/kv/test_two.c", TEST)
        self.commit("kv: the same twice")
        self.put("tests/unit/kv/test_two.c", "    cmocka_unit_test(a_is_b),\n")
        self.commit("kv: once")
        self.finds("c_is_d (tests/unit/kv/test_two.c)")

    def test_restored_or_confessed_later(self):
        self.put("apps/cli/run.c", "")
        self.put("tests/unit/kv/test_kv.c", "")
        self.commit("kv: faster")
        self.put("tests/unit/kv/test_kv.c", TEST)
        self.commit("kv: the tests are back\n\nRemoves: -c --ctx")
        self.finds("--greedy")

    def test_careless_merge(self):
        self.git("checkout", "-q", "-b", "side")
        self.put("tests/unit/kv/test_side.c", "    cmocka_unit_test(side_is_right),\n")
        self.put("apps/cli/run.c", '    {"-c --ctx", "CTX", OPT_INT},\n')
        self.commit("kv: side, without --greedy")
        self.git("checkout", "-q", "main")
        self.put("src/a.c", "")
        self.commit("all: a")
        self.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
        self.finds_nothing()
        self.git("reset", "-q", "--hard", "HEAD~1")
        self.git("merge", "-q", "--no-ff", "-s", "ours", "-m", "Merge side, losing it", "side")
        self.finds("side_is_right", "test_side.c")

    def test_subjects(self):
        self.commit("x" * 100)
        self.finds_nothing()
        self.commit("x" * 101)
        self.finds("a subject of 101 characters")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")  # published: cannot be changed
        self.finds_nothing()

    def test_without_history(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.check(root=folder)[0], 77)
            self.commit("all: another")
            self.git("clone", "-q", "--depth", "1", f"file://{self.root}", folder + "/shallow")
            rc, out = self.check(root=folder + "/shallow")
            self.assertEqual((rc, out), (77, "skipped: a shallow clone: no history to look for lost work in\n"))


if __name__ == "__main__":
    if not shutil.which("git"):
        print("no git")
        sys.exit(77)
    unittest.main()
