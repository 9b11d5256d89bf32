"""The checks of tools/ must find what they are for: each is run on a small tree with one fault."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import changed  # noqa: E402

SPDX = "/* SPDX-License-Identifier: MIT */\n"
LAYERS = "# layer room may include\n0 base\n1 text base\n1 quant base\n5 engine base text include\n"


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.put("src/LAYERS", LAYERS)
        self.put("include/lutra.h", SPDX)
        self.put("include/lutra/status.h", SPDX)
        self.put("src/base/status.h", SPDX + '#include "lutra/status.h"\n')
        self.put("src/base/pool_impl.h", SPDX)
        self.put("src/text/bpe.c", SPDX + '#include <stdio.h>\n#include "base/status.h"\n')
        for room in ("base", "text"):
            self.put(f"src/{room}/README.md", "A sentence.\n")

    def tearDown(self):
        self.folder.cleanup()

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, name, *args):
        run = subprocess.run([sys.executable, TOOLS / name, *(args or [self.root])], capture_output=True, text=True)
        return run.returncode, run.stdout

    def refuses(self, tool, name, text, words):
        self.put(name, text)
        rc, out = self.run_tool(tool)
        self.assertEqual(rc, 1, out)
        self.assertIn(words, out)


class Layers(Tree):
    def refuses_include(self, name, line, words):
        self.refuses("check_layers.py", name, SPDX + f'#include {line}\n', words)

    def test_good_tree(self):
        self.put("apps/cli/main.c", SPDX + '#include "lutra.h"\n#include "cli.h"\n')
        self.put("apps/cli/run/run.c", SPDX + '#include "cli.h"\n')
        self.put("apps/cli/cli.h", SPDX)
        self.put("src/engine/engine.c", SPDX + '#include "lutra.h"\n#include "text/bpe.h"\n#include "near.h"\n')
        self.put("src/engine/near.h", SPDX)
        self.put("src/text/bpe.h", SPDX)
        self.assertEqual(self.run_tool("check_layers.py")[0], 0)

    def test_upwards(self):
        self.refuses_include("src/base/a.c", '"text/bpe.c"', "base may not include text")

    def test_sideways(self):
        self.put("src/quant/q.h", SPDX)
        self.refuses_include("src/text/a.c", '"quant/q.h"', "text may not include quant")

    def test_private(self):
        self.refuses_include("src/text/a.c", '"base/pool_impl.h"', "private header of base")

    def test_public_api(self):
        self.refuses_include("src/text/a.c", '"lutra.h"', "may not include the public API")

    def test_going_up_by_path(self):
        self.refuses_include("src/text/a.c", '"../base/status.h"', "may not go up")

    def test_unknown(self):
        self.refuses_include("src/text/a.c", '"base/nothing.h"', "no such file")
        self.refuses_include("src/text/a.c", '"nothing.h"', "neither")

    def test_angle_brackets(self):
        self.refuses_include("src/text/a.c", "<lutra.h>", "with quotes")

    def test_app_sees_the_api_only(self):
        self.refuses_include("apps/cli/main.c", '"base/status.h"', "include/ and its own folder")

    def test_unlisted_room(self):
        self.refuses("check_layers.py", "src/extra/a.c", SPDX, "not in src/LAYERS")

    def test_layers_themselves(self):
        self.refuses("check_layers.py", "src/LAYERS", "0 base\n1 text base\n1 quant base text\n5 engine base\n",
                     "may not include text")


class Sizes(Tree):
    def function(self, n):
        return SPDX + "static int f(int a,\n    int b)\n{\n" + "    a++;\n" * (n - 2) + "}\n"

    def test_function(self):
        self.put("src/text/a.c", self.function(120))
        self.assertEqual(self.run_tool("check_size.py")[0], 0)
        self.refuses("check_size.py", "src/text/a.c", self.function(121), "f has 121 lines")

    def test_kernel_may_be_longer(self):
        self.put("src/cpu/a.c", self.function(200))
        self.assertEqual(self.run_tool("check_size.py")[0], 0)

    def test_files(self):
        self.refuses("check_size.py", "src/text/a.c", SPDX + "\n" * 800, "801 lines")
        self.refuses("check_size.py", "src/text/a.h", SPDX + "\n" * 250, "251 lines")

    def test_rooms(self):
        for i in range(7):
            self.put(f"src/engine/part{i}.c", SPDX + "\n" * 699)
        self.put("src/engine/deep/rest.h", SPDX + "\n" * 99)
        self.assertEqual(self.run_tool("check_size.py")[0], 0)
        self.put("src/engine/README.md", "Not counted.\n")
        self.assertEqual(self.run_tool("check_size.py")[0], 0)
        self.refuses("check_size.py", "src/engine/deep/one_more.c", SPDX, "src/engine: 5001 lines, at most 5000")

    def test_a_room_has_a_limit(self):
        self.refuses("check_size.py", "src/attic/a.c", SPDX, "src/attic: no limit in ROOMS")


class Text(Tree):
    def test_good_tree(self):
        self.put("src/text/a.c", SPDX + '/* printf( in a comment */\nint a = f("exit(1)");\n')
        self.put("src/base/thread.c", SPDX + "int a = pthread_create(t, 0, g, 0);\n")
        self.put("apps/cli/a.c", SPDX + "int a = pthread_create(t, 0, g, 0);\n")
        rc, out = self.run_tool("check_text.py")
        self.assertEqual(rc, 0, out)

    def test_faults(self):
        for text, words in ((SPDX + "\tint a;\n", "a tab"), (SPDX + "/*" + 120 * "-" + "*/\n", "columns"), (SPDX + "int a; \n", "blank"), (SPDX + "#if 0\n", "#if 0"),
                            (SPDX + "/* TO" + "DO */\n", "reminder"), ("int a;\n", "SPDX"),
                            (SPDX + "void f(void)\n{\n    abort();\n}\n", "never prints"),
                            (SPDX + 'void f(void)\n{\n    fprintf(stderr, "x");\n}\n', "never prints"),
                            (SPDX + "int f(void)\n{\n    return pthread_create(t, 0, g, 0);\n}\n", "thread_start")):
            self.refuses("check_text.py", "src/text/a.c", text, words)

    def test_readmes(self):
        self.put("CONTRIBUTING.md", "| `src/base/` | A sentence |\n| `src/text/` | Another |\n")
        self.refuses("check_text.py", "src/base/README.md", "A sentence.\n", "| `src/text/` | A sentence |")
        self.refuses("check_text.py", "src/base/README.md", "# Base\n", "must be the room's sentence")


class Docs(Tree):
    def setUp(self):
        super().setUp()
        self.put("include/lutra/core.h", SPDX + "int lutra_open(void);\n")
        self.put("apps/cli/run.c", SPDX + '{"-c --ctx", "CTX"},\n')
        self.put("scripts/test", "--long\n")

    def test_good_page(self):
        self.put("docs/A.md", "`lutra_open()`, `lutra_*`, `--ctx`, `scripts/test --long`, [here](../README.md), `bpe.c`, "
                 "`text/bpe.c`, `src/*/bpe.c`, `MODEL.md`, `models.json`, `tests/NAME.c`\n\n    lutra run -c 5 > out.md\n")
        self.put("README.md", "| `src/base/` | A sentence |\n")
        self.put("MODEL.md", "")
        rc, out = self.run_tool("check_docs.py")
        self.assertEqual(rc, 0, out)

    def test_faults(self):
        for text, words in (("`lutra_close()`", "function: lutra_close"), ("``lutra_clos``", "function: lutra_clos"),
                            ("    int rc = lutra_close(&m);", "function: lutra_close"), ("`--size`", "option: --size"),
                            ("`lutra run --long`", "option: --long"), ("```\nlutra run \\\n  --siz 3\n```", "option: --siz"),
                            ("[here](B.md)", "file: B.md"), ("`src/text/spm.c`", "file: src/text/spm.c"),
                            ("`spm.c`", "file: spm.c"), ("`src/nothing/`", "file: src/nothing/"),
                            ("`src/*/spm.c`", "file: src/*/spm.c"), ("`docs/C.md`", "file: docs/C.md")):
            self.refuses("check_docs.py", "docs/A.md", text + "\n", "docs/A.md: no such " + words)


class Headers(Tree):
    def test_incomplete_header(self):
        rc, out = self.run_tool("check_headers.py", "cc", self.root)
        self.assertEqual(rc, 0, out)
        self.put("src/text/a.h", SPDX + "uint32_t f(void);\n")
        rc, out = self.run_tool("check_headers.py", "cc", self.root)
        self.assertEqual(rc, 1)
        self.assertIn("a.h", out)


class Globals(Tree):
    def build(self, code):
        self.put("a.c", code)
        subprocess.run(["cc", "-fPIC", "-c", self.root / "a.c", "-o", self.root / "a.o"], check=True)
        subprocess.run(["ar", "rc", self.root / "a.a", self.root / "a.o"], check=True)
        return self.run_tool("check_globals.py", self.root / "a.a")

    def test_globals(self):
        self.assertEqual(self.build('const char *const t[] = {"a", "b"}; static const int c[] = {1}; int f(int i) { return c[i]; }')[0], 0)
        for code in ("int counter;", "int counter = 3;", "int f(void) { static int n; return n++; }",
                     "_Thread_local int t;"):
            rc, out = self.build(code)
            self.assertEqual(rc, 1, code)
            self.assertIn("mutable", out)


class Changed(unittest.TestCase):
    """Which tests scripts/test --quick chooses."""
    ROOMS = {"base": set(), "text": {"base"}, "kv": {"base"}, "engine": {"base", "text", "kv", "include"},
             "rag": {"base", "engine"}}

    def test_the_nearest_rooms_first(self):
        for paths, want in ((["src/rag/a.c", "README.md"], ["style/", "unit/rag/"]),
                            (["src/kv/kv.c", "tests/unit/text/test_a.c"],
                             ["style/", "unit/kv/", "unit/text/", "unit/engine/", "unit/rag/"]),
                            (["include/lutra.h"], ["style/", "unit/engine/", "unit/rag/"]),
                            (["apps/cli/run/run.c"], ["style/", "cli/"]),
                            (["tests/hf/a.py", "tests/planted.py"], ["style/", "hf/"]), (["docs/A.md"], ["style/"])):
            order = changed.prefixes(paths, self.ROOMS)
            self.assertEqual(order[:len(want)], want)
            self.assertTrue(set(order[len(want):]) <= {"golden/", "cli/"} or "planted" in str(paths), order)
        self.assertIn("unit/base/", changed.prefixes(["CMakeLists.txt"], self.ROOMS))

    def test_the_budget_cuts_the_farthest(self):
        tests = ["unit/rag/slow", "unit/rag/quick", "unit/kv/a", "style/size", "unit/text/a"]
        cost = {"unit/rag/slow": 50, "unit/rag/quick": 1, "style/size": 9, "unit/kv/a": 10}
        order = ["style/", "unit/kv/", "unit/rag/"]
        for budget, want in ((70, ["style/size", "unit/kv/a", "unit/rag/quick", "unit/rag/slow"]),
                             (21, ["style/size", "unit/kv/a", "unit/rag/quick"]), (1, ["style/size"])):
            self.assertEqual(changed.choose(tests, order, cost, budget), (want, 4 - len(want)))


class Planted(Tree):
    def bug(self, old):
        return {"bug": "of " + old, "file": "src/text/bpe.c", "old": old, "new": "", "test": "t", "word": "w"}

    def test_stale(self):
        planted = "../tests/planted.py"
        self.assertEqual(self.run_tool(planted, "--check", self.root)[0], 1)  # no list at all
        self.put("tests/hf/planted.json", json.dumps([self.bug("stdio")]))
        self.assertEqual(self.run_tool(planted, "--check", self.root)[0], 0)
        self.put("tests/hf/planted.json", json.dumps([self.bug("gone"), self.bug("stdio"), self.bug("include")]))
        rc, out = self.run_tool(planted, "--check", self.root)
        self.assertEqual(rc, 1)
        for words in ("hf/planted.json: src/text/bpe.c: `gone` (of gone) stands there 0 times", "2 times", "2 stale"):
            self.assertIn(words, out)


if __name__ == "__main__":
    unittest.main()
