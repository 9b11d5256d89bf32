"""The Python package: its structs against the headers, its calls against a bundled model, its wheel in a bare venv.

usage: python.py layout|use|wheel BUILD SOURCE CC      exit status 77 (skipped) where a tool is missing
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CASE, BUILD, SOURCE, CC = sys.argv[1], *map(Path, sys.argv[2:4]), sys.argv[4]
MODEL = SOURCE / "models/abacus-xs-f16.gguf"
QUESTION = "Tom has 3 apples and buys 5 more. How many apples does he have?"
ANSWER = "3 + 5 = 8.\n#### 8"


def interpreter(*modules):
    for python in (sys.executable, "/usr/bin/python3"):
        found = subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True)
        if found.returncode == 0:
            return python
    print(f"skipped: no Python with {', '.join(modules)}")
    sys.exit(77)


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def make(folder, *more):
    python = interpreter("pycparser")
    run(python, SOURCE / "bindings/python/make_abi.py", SOURCE / "include", folder / "_abi.py", *more,
        env={**os.environ, "CC": CC})


def layout(tmp):
    make(tmp, "--check", tmp / "abi.c")
    run(CC, "-std=c11", "-fsyntax-only", f"-I{SOURCE}/include", tmp / "abi.c")
    text = (tmp / "abi.c").read_text()
    assert text.count("offsetof") > 300, "fields are missing"
    (tmp / "abi.c").write_text(text.replace("offsetof(struct lutra_request, n_prompt) == 16",
                                            "offsetof(struct lutra_request, n_prompt) == 12"))
    wrong = subprocess.run([CC, "-std=c11", "-fsyntax-only", f"-I{SOURCE}/include", tmp / "abi.c"], capture_output=True)
    assert wrong.returncode != 0, "a wrong place is not seen"


def refuses(kind, words, call, *args, **options):
    try:
        call(*args, **options)
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"no {kind.__name__} with {words!r}")


def use(tmp):
    package = tmp / "lutra"
    shutil.copytree(SOURCE / "bindings/python/lutra", package)
    make(package)
    os.environ["LUTRA_LIBRARY"] = str(BUILD / "liblutra.so.0")
    sys.path.insert(0, str(tmp))
    from lutra import Lutra, LutraError, Verifier, abi
    with Lutra(MODEL, n_ctx=256, n_seq=8) as llm:
        assert llm.info["n_vocab"] > 0 and llm.info["arch"] == "qwen2"
        tokens = llm.tokenize("12 + 5 = 17", special=False)
        assert llm.detokenize(tokens) == "12 + 5 = 17" and len(tokens) > 4
        plain = llm.chat(QUESTION, temperature=0, max_tokens=60)
        assert (plain.text, plain.finish) == (ANSWER, "end"), plain.text
        assert len(plain.tokens) == len(plain.logprobs) and all(p <= 0 for p in plain.logprobs)
        assert "".join(str(p) for p in llm.chat(QUESTION, stream=True, temperature=0, max_tokens=60)) == ANSWER
        again = llm.chat(QUESTION, temperature=0, max_tokens=60)
        assert again.text == ANSWER and again.n_cached > 0
        cut = llm.chat(QUESTION, temperature=0, max_tokens=60, stop="=")
        assert (cut.text, cut.finish) == ("3 + 5 ", "string"), cut.text
        samples = llm.chat(QUESTION, n=5, seed=7, max_tokens=60)
        assert [s.sample for s in samples] == list(range(5))
        assert [s.text for s in samples] == [s.text for s in llm.chat(QUESTION, n=5, seed=7, max_tokens=60)]
        one, other = (llm.chat(q, stream=True, temperature=0, max_tokens=8) for q in (QUESTION, "Sam has 42 cards."))
        pairs = list(zip(one, other))  # both run in the same passes
        assert ANSWER.startswith("".join(str(a) for a, _ in pairs)) and len(pairs) == 8
        broken = llm.chat(QUESTION, stream=True, temperature=0, max_tokens=60)
        next(broken)
        broken.close()
        assert llm.chat(QUESTION, temperature=0, max_tokens=60).text == ANSWER  # nothing of it runs any more
        banned = llm.chat(QUESTION, temperature=0, max_tokens=1, logit_bias={plain.tokens[0]: -float("inf")})
        assert banned.tokens[0] != plain.tokens[0]
        digits = llm.chat(QUESTION, temperature=0, max_tokens=20, grammar='root ::= [0-9] [0-9] "."')
        assert len(digits.text) == 3 and digits.text[:2].isdigit() and digits.text[2] == ".", digits.text

        found = llm.search(QUESTION, "vote", width=5, seed=1, max_tokens=60)
        assert found.answer == "8" and found.candidates == 5 and 0 < found.score <= 1
        events = []
        judge = Verifier(lambda question, text: 1.0 if question == QUESTION and text.endswith("8") else 0.0)
        found = llm.search(QUESTION, "best", width=4, verifier=judge, question=QUESTION, seed=1, max_tokens=60,
                           on_event=events.append)
        assert found.answer == "8" and found.judged == 4 and found.passed >= 1
        assert sum(e["kind"] == "finish" for e in events) == 4
        found = llm.search(QUESTION, "best", width=2, verifier=Verifier(lambda question, text: 1 / 0), max_tokens=60)
        assert found.judged == 0

        refuses(TypeError, "nonsense", llm.chat, QUESTION, nonsense=1)
        refuses(ValueError, "magic", llm.search, QUESTION, "magic")
        refuses(LutraError, "999999", llm.generate, [999999])
        refuses(LutraError, "#/type", llm.chat, QUESTION, json_schema={"type": "nope"})
        refuses(LutraError, "nowhere.gguf", Lutra, tmp / "nowhere.gguf")
        refuses(TypeError, "n_contexts", Lutra, MODEL, n_contexts=3)
        try:
            llm.generate(tokens * 200)
        except LutraError as error:
            assert error.code == abi.LUTRA_E_CTX_FULL
        else:
            raise AssertionError("a prompt longer than the context is taken")


def wheel(tmp):
    python = interpreter("setuptools", "wheel", "pip", "pycparser", "venv", "ensurepip")
    out = tmp / "out"
    run(SOURCE / "scripts/python", BUILD, env={**os.environ, "LUTRA_PYTHON_OUT": str(out), "CC": CC})
    assert sorted(p.suffix for p in out.iterdir()) == [".gz", ".whl"], list(out.iterdir())
    run(python, "-m", "venv", tmp / "venv")
    run(tmp / "venv/bin/pip", "install", "--quiet", "--no-index", "--no-deps", *out.glob("*.whl"))
    said = run(tmp / "venv/bin/python", "-I", "-c", "from lutra import Lutra\n"
               f"llm = Lutra({str(MODEL)!r}, n_ctx=256)\n"
               f"print(llm.chat({QUESTION!r}, temperature=0))", cwd=tmp)
    assert said == ANSWER + "\n", said


if not (BUILD / "liblutra.so.0").exists():
    print("skipped: this build has no shared library")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    {"layout": layout, "use": use, "wheel": wheel}[CASE](Path(folder))
