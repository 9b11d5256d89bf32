"""Compiles every header of include/ and src/ alone, private ones (*_impl.h, *_tmpl.h) excepted; those of include/ also as C++
where there is a compiler for it.  The top comment of a template, *_tmpl.h, says what it needs and what it gives.

usage: check_headers.py CC [ROOT]
"""
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ISA_FLAGS = {"avx2": ["-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2"],
             "avxvnni": ["-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mavxvnni"],
             "avx512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx512vbmi", "-mfma",
                        "-mf16c", "-mbmi2"]}
WARN = ["-Wall", "-Wextra", "-Wshadow", "-Werror", "-D_GNU_SOURCE"]


def compile_alone(job):
    root, folder, header, compiler, language, standard = job
    isa = ISA_FLAGS.get(header.stem.rsplit("_", 1)[-1], [])
    flags = [] if language == "c++" else ["-Wstrict-prototypes"]
    with tempfile.TemporaryDirectory() as tmp:
        source = Path(tmp) / ("alone.cpp" if language == "c++" else "alone.c")
        source.write_text(f'#include "{header.relative_to(root / folder).as_posix()}"\nextern int not_empty;\n')
        run = subprocess.run([compiler, "-x", language, standard, "-fsyntax-only", *WARN, *flags, *isa,
                              f"-I{root}/src", f"-I{root}/include", source], capture_output=True, text=True)
    return f"{header} as {language}:\n{run.stderr}" if run.returncode else None


def is_silent(template):
    top = template.read_text().split("*/", 1)[0].lower()
    return not ("needs" in top and "gives" in top)


def main(cc, root):
    cxx = shutil.which("c++")
    jobs = [(root, f, h, cc, "c", "-std=c11") for f in ("include", "src") for h in sorted((root / f).rglob("*.h"))
            if not h.stem.endswith(("_impl", "_tmpl"))]
    if cxx:
        jobs += [(root, "include", h, cxx, "c++", "-std=c++17") for h in sorted((root / "include").rglob("*.h"))]
    with ThreadPoolExecutor(2) as pool:
        failures = [f for f in pool.map(compile_alone, jobs) if f]
    failures += [f"{t}: the top comment has no \"Needs\" and \"Gives\"" for t in sorted((root / "src").rglob("*_tmpl.h"))
                 if is_silent(t)]
    print("\n".join(failures) or f"{len(jobs)} headers compile alone")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve()))
