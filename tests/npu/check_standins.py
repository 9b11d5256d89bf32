"""Checks tests/npu/standins.txt: the types of both instructions in the compiler's header, that the header files of the
back ends say the same pairs with their operands in the macro's order, and that each stand-in really is in the counting
program's assembly.

usage: check_standins.py CLANG SOURCE_ROOT
"""
import re
import subprocess
import sys
from pathlib import Path

clang, root = sys.argv[1], Path(sys.argv[2])
folder = subprocess.run([clang, "-print-resource-dir"], capture_output=True, text=True, check=True).stdout.strip()
protos = (Path(folder) / "include/hvx_hexagon_protos.h").read_text()
types = {}
for m in re.finditer(r"Assembly Syntax:\s*(.*?)\n\s*C Intrinsic Prototype: \S+ (\w+)\(.*?\n\s*Instruction Type:\s*(\S+)\n"
                     r"\s*Execution Slots:\s*(\S+)", protos):
    types[m.group(2)] = (m.group(3), m.group(4), m.group(1))

errors, rows = [], []
for line in (root / "tests/npu/standins.txt").read_text().splitlines():
    if line and not line.startswith("#"):
        rows.append(line.split())
count = re.split(r"#ifdef ISA_COUNT", (root / "src/npu/dsp/isa_qemu_impl.h").read_text())[1].split("#else")[0]
real = (root / "src/npu/dsp/isa_real_impl.h").read_text()


def defined(text, name):
    """Its parameters, and what it is."""
    m = re.search(r"#define %s\(([^)]*)\) (.*)" % name, text)
    return m.groups() if m else ("", "")


def compare(text, where, name, instruction, operands=None):
    """`name` is this instruction with these operands, or with the macro's parameters as they come."""
    parameters, is_ = defined(text, name)
    if is_ != f"{instruction}({operands or parameters})":
        errors.append(f"{name}: {where} has {is_ or 'nothing'} of ({parameters}), the map says {instruction}")


# Operands that are not the parameters as they come.  The stand-in of a pair's conversion has the type and the two
# operands it needs only as an instruction of two vectors.
OTHER_OPERANDS = {"f16_of_q32": "Q6_V_hi_W(w), Q6_V_lo_W(w)"}

LANES = {"f32": "sf", "i32": "w", "f16": "hf", "i16": "h"}
for name, silicon, standin, kind in rows:
    want, builtin = types.get(standin), silicon.startswith("V6_")
    if builtin:
        to, of = name.split("_of_")
        if silicon != f"V6_vconv_{LANES[to]}_{LANES[of]}":
            errors.append(f"{name}: {silicon} converts something else")
    if not want or want[0] != kind:
        errors.append(f"{name}: {standin} has type {want and want[0]}, the map says {kind}")
    if not builtin and types.get(silicon, (None, None))[:2] != (want or (0, 0))[:2]:
        errors.append(f"{name}: {silicon} is {types.get(silicon)}, {standin} is {want}")
    compare(count, "isa_qemu_impl.h", name, standin, OTHER_OPERANDS.get(name))
    compare(real, "isa_real_impl.h", name, f"__builtin_HEXAGON_{silicon}_128B" if builtin else silicon)
for text, where in ((count, "isa_qemu_impl.h"), (real, "isa_real_impl.h")):
    for name in re.findall(r"#define ((?:q16|q32|f16|f32|i16|i32)_\w+)\(", text):
        if name not in [r[0] for r in rows]:
            errors.append(f"{name}: in {where}, not in the map")

# Every kernel's source for silicon and for counting: as many packets, but for what calls DMA and tiles, which are other
# code, and exp, which the counting program schedules worse.  read is timed, not counted.
SLACK = {"attention": 0.02, "gemm": 0.04, "head": 0.01, "lookup": 0.02, "move": 0.03, "exp": 0.15}
flags = ["--target=hexagon-unknown-linux-musl", "-mv73", "-mhvx=v73", "-mhvx-length=128b", "-O2", "-std=c11",
         "-ffreestanding",
         "-fno-builtin", "-ffp-contract=off", f"-I{root}/src", "-S", "-o", "-"]
OTHERS = ("check", "execute", "isa_qemu", "read", "runtime", "server")
for source in sorted(p.stem for p in (root / "src/npu/dsp").glob("*.c") if p.stem not in OTHERS):
    packets, slack = [], SLACK.get(source, 0)
    for define in ("ISA_COUNT", "ISA_HEXAGON"):
        run = subprocess.run([clang, *flags, f"-D{define}", root / f"src/npu/dsp/{source}.c"], capture_output=True,
                             text=True)
        if run.returncode:
            errors.append(f"{source} with {define}: {run.stderr[:300]}")
        packets.append(len(re.findall(r"^\t\}", run.stdout, re.M)))
    a, b = packets
    print(f"{source}: {a} packets in the counting program's text, {b} in silicon's")
    if abs(a - b) > slack * b:
        errors.append(f"{source}: {a} packets counted, {b} for silicon: a stand-in schedules differently")
print("\n".join(errors) or f"{len(rows)} stand-ins of the same issue resource")
sys.exit(bool(errors))
