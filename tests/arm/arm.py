#!/usr/bin/env python3
"""Builds and runs the Arm kernels under qemu-aarch64.

    arm.py build|check|digest|count SOURCE BUILD [NATIVE_CHECKKERN]

Exit status 77: a cross compiler or QEMU is missing (skipped).
"""
import shutil
import subprocess
import sys
from pathlib import Path

COMPILER = "aarch64-linux-gnu-gcc"
QEMU = "qemu-aarch64"
LEVELS = [("neon", "cortex-a53"), ("dotprod", "cortex-a76"), ("i8mm", "max")]
TYPES = ["Q4_0", "Q8_0", "IQ4_NL", "Q4_K", "Q6_K", "TQ2_0"]
ROWS = [1, 4, 8]


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


def build(source, out):
    run("cmake", "-S", source, "-B", out, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DLUTRA_KERNELS_ONLY=ON",
        "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_C_COMPILER={COMPILER}",
        "-DCMAKE_EXE_LINKER_FLAGS=-static")
    run("cmake", "--build", out)


def check(out):
    for level, cpu in LEVELS:
        text = run(QEMU, "-cpu", cpu, out / "tests/checkkern/checkkern").strip()
        print(f"{cpu}: {text}")
        if f"highest level {level}" not in text:
            sys.exit(f"{cpu} did not reach {level}")


def digest(out, native):
    expected = run(native, "--digest")
    for _, cpu in LEVELS:
        got = run(QEMU, "-cpu", cpu, out / "tests/checkkern/checkkern", "--digest")
        for ours, theirs in zip(expected.splitlines(), got.splitlines()):
            if ours != theirs:
                sys.exit(f"{cpu}: {theirs}, this machine: {ours}")
        if len(got.splitlines()) != len(expected.splitlines()):
            sys.exit(f"{cpu}: other weight types than here")
    print(f"{len(expected.splitlines())} weight types: the same bits on {len(LEVELS)} Arm processors and here")


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
    for weight_type in TYPES:
        plain = None
        for level, _ in LEVELS:
            figures = [instructions(out, symbols, weight_type, level, rows) for rows in ROWS]
            print(f"{figures[0][0]:32}", *(f"{f:8.1f}" for _, f in figures))
            plain = plain or figures[-1][1]
            if level != "neon" and figures[-1][1] > 0.8 * plain:
                sys.exit(f"{figures[0][0]} saves too little over plain NEON")


def main():
    mode, source, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    need(COMPILER, QEMU, "cmake", "ninja")
    if mode == "build":
        build(source, out)
    elif mode == "check":
        check(out)
    elif mode == "digest":
        digest(out, Path(sys.argv[4]))
    else:
        count(out)


if __name__ == "__main__":
    main()
