#!/usr/bin/env python3
"""Builds and runs the Arm kernels under qemu-aarch64.

    arm.py build|check|digest|count|engine SOURCE BUILD [NATIVE]      NATIVE: checkkern for digest, lutra for engine

engine: the whole program.  It takes the libraries for arm64, in Debian's folders (multiarch), or unpacked below
LUTRA_ARM64_ROOT.  Exit status 77: something is missing, or only the long form does it (skipped).
LUTRA_TEST_LONG=1: the long form: check and count in full, as a release has the kernels, and engine.
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

COMPILER = "aarch64-linux-gnu-gcc"
QEMU = "qemu-aarch64"
LEVELS = [("neon", "cortex-a53"), ("dotprod", "cortex-a76"), ("i8mm", "max")]
LONG = os.environ.get("LUTRA_TEST_LONG") == "1"
TYPES = ["Q4_0", "Q8_0", "Q4_K", "TQ2_0", "Q1_0"]  # Q4_0 first: lookup is judged by it
ALL_TYPES = ["Q4_0", "Q1_0", "Q2_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
             "Q6_K", "IQ4_XS", "TQ2_0", "W2"]
BOOKS = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]  # reading a tile takes as long at each level
ROWS = [1, 2, 4, 8] if LONG else [1, 8]
LIBRARIES = ["jansson", "libpcre2-8", "libutf8proc"]


def need(*programs):
    for name in programs:
        if not shutil.which(name):
            print(f"skipped: {name} was not found (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)")
            sys.exit(77)


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def build(source, out, target, *options):
    # -O3 takes 40 % more time.  What lookup saves beside products depends on it: the long form judges that.
    flags = "-O3 -DNDEBUG" if LONG else "-O1 -DNDEBUG"
    run("cmake", "-S", source, "-B", out, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_C_FLAGS_RELEASE={flags}", "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        f"-DCMAKE_C_COMPILER={COMPILER}", "-DCMAKE_EXE_LINKER_FLAGS=-static", *options)
    run("cmake", "--build", out, "--target", target)


def check(out):
    """Each processor the kernels that are new on it; in the long form all that it has, and more shapes."""
    for level, cpu in LEVELS:
        options = [] if LONG else ["--quick", f"--only=_{level}"]
        text = run(QEMU, "-cpu", cpu, out / "tests/checkkern/checkkern", *options).strip()
        print(f"{cpu}: {text}")
        found = re.search(r"(\d+) kernels.*highest level (\w+)", text)
        if not found or found.group(2) != level or int(found.group(1)) < 12:
            sys.exit(f"{cpu} did not reach {level}, or has too few kernels")


def digest(out, native):
    expected = run(native, "--digest")
    for _, cpu in LEVELS:
        got = run(QEMU, "-cpu", cpu, out / "tests/checkkern/checkkern", "--digest")
        for ours, theirs in zip(expected.splitlines(), got.splitlines()):
            if ours != theirs:
                sys.exit(f"{cpu}: {theirs}, this machine: {ours}")
        if len(got.splitlines()) != len(expected.splitlines()):
            sys.exit(f"{cpu}: other weight types than here")
    print(f"{len(expected.splitlines())} digests: the same bits on {len(LEVELS)} Arm processors and here")


def symbol_sizes(binary):
    """Sizes of functions by address, and the ranges of what kernels call."""
    sizes, called = {}, []
    for line in run("aarch64-linux-gnu-nm", "-S", binary).splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tT":
            sizes[int(words[0], 16)] = int(words[1], 16)
            if words[3] == "gemm_arm_store":
                called.append(f"0x{words[0]}+0x{words[1]}")
    return sizes, called


def instructions(out, symbols, weight_type, level, rows):
    """Name of the kernel, and its instructions per 256 weights."""
    sizes, called = symbols
    command = [out / "tests/arm/count", weight_type, level, rows]
    name, address, blocks = run(QEMU, "-cpu", "max", *command).split()
    log = out / "count.log"
    run(QEMU, "-cpu", "max", "-one-insn-per-tb", "-d", "exec,nochain", "-D", log,
        "-dfilter", ",".join([f"{address}+{sizes[int(address, 16)]:#x}", *called]), *command)
    with open(log) as f:
        count = sum(line.startswith("Trace") for line in f)
    log.unlink()
    return name, count / int(blocks)


def count(out):
    symbols = symbol_sizes(out / "tests/arm/count")
    print("instructions of whole kernels per 256 weights (counted by QEMU), by rows:", *ROWS)
    for weight_type in [*ALL_TYPES, *BOOKS] if LONG else TYPES:
        below = before = None
        for level, _ in LEVELS:
            kernels = [instructions(out, symbols, weight_type, level, rows) for rows in ROWS]
            name, figures = kernels[0][0], [f for _, f in kernels]
            print(f"{name:32}", *(f"{f:8.1f}" for f in figures), flush=True)
            if below and name != before and figures[-1] > (0.85 if weight_type in BOOKS else 0.75) * below:
                sys.exit(f"{name} saves too little at {ROWS[-1]} rows")
            if weight_type == "Q4_0" and level == "neon":
                multiplied = figures  # what products take: codes of 1 and 2 bits take 4 % more, or 1.3 times less by lookup
            if LONG and "lookup" in name and any(1.2 * f > m for f, m in zip(figures, multiplied)):
                sys.exit(f"{name} saves too little beside products")
            below, before = None if "lookup" in name else figures[-1], name


def build_engine(source, out):
    root = os.environ.get("LUTRA_ARM64_ROOT", "")
    os.environ["PKG_CONFIG_LIBDIR"] = f"{root}/usr/lib/aarch64-linux-gnu/pkgconfig"
    os.environ["PKG_CONFIG_SYSROOT_DIR"] = root
    for name in LIBRARIES:
        if subprocess.run(["pkg-config", "--exists", name]).returncode:
            print(f"skipped: {name} for arm64 was not found below '{root}/'")
            sys.exit(77)
    build(source, out, "lutra_cli", "-DLUTRA_TESTS=OFF", "-DLUTRA_MPI=OFF")


def answers(report, *command):
    """What a program answers to a few problems: texts, lengths, log probabilities in full."""
    run(*command, "--limit", 6, "--n", 2, "-s", 3, "-n", 160, "--report", report)
    problems = json.loads(report.read_text())["problems"]
    report.unlink()
    return [[(s["answer"], s["tokens"], s["log_prob"]) for s in (p["greedy"], *p["samples"])] for p in problems]


def engine(source, out, native):
    """Bits of whole models on Arm are those of AVX2, whose vectors have as many lanes."""
    if not LONG:
        print("skipped: only in the long form (LUTRA_TEST_LONG=1)")
        sys.exit(77)
    need("pkg-config")
    build_engine(source, out)
    models, report, model = source / "models", out / "report.json", out / "model.gguf"
    for name, kind in (("abacus-1m-f16", "Q4_0"), ("abacus-3m-f16", "Q4_K")):
        run(native, "quantize", models / f"{name}.gguf", model, kind, "-q")
        ask = ["eval", "-m", model, "-f", models / "abacus-test.jsonl"]
        expected = answers(report, native, *ask, "--isa", "avx2")
        for level, cpu in LEVELS:
            if answers(report, QEMU, "-cpu", cpu, out / "lutra", *ask) != expected:
                sys.exit(f"{name} {kind}: {level} answers otherwise than AVX2 here")
        right = sum(p[0][0] == e for p, e in zip(expected, wanted(models / "abacus-test.jsonl")))
        if right < 4:
            sys.exit(f"{name} {kind}: {right} of {len(expected)} problems are right")
        print(f"{name} {kind}: {right} of {len(expected)} problems right, the same bits on {len(LEVELS)} Arm processors and here")


def wanted(problems):
    with open(problems, encoding="utf-8") as f:
        return [json.loads(line)["answer"] for line in f]


def main():
    mode, source, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    need(COMPILER, QEMU, "cmake", "ninja")
    if mode == "build":
        build(source, out, "all", "-DLUTRA_KERNELS_ONLY=ON")
    elif mode == "check":
        check(out)
    elif mode == "digest":
        digest(out, Path(sys.argv[4]))
    elif mode == "count":
        count(out)
    else:
        engine(source, out, Path(sys.argv[4]))


if __name__ == "__main__":
    main()
