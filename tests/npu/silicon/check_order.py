"""Checks in the compiler's text of silicon's instructions what no test can run: what is ordered before what.

usage: check_order.py CLANG SOURCE_ROOT
"""
import re
import subprocess
import sys

clang, root = sys.argv[1:]
FLAGS = ["--target=hexagon-unknown-linux-musl", "-mv73", "-mhvx=v73", "-mhvx-length=128b", "-O2", "-std=c11",
         "-ffreestanding",
         "-fno-builtin", "-DISA_HEXAGON", f"-I{root}/src", "-S", "-o", "-"]

# What each function's text must contain, in this order; \1 is the register of the first group.
RULES = {
    "units": {
        "npu_unit_dmstart": r"release\((r\d+)\):at\s+dmstart\(\1\)",  # a descriptor is seen before it starts
        "npu_unit_dmlink": r"release\((r\d+)\):at\s+dmlink\(r\d+, ?\1\)",
        "npu_unit_lines": r"dccleaninva\(r\d+\).*syncht",  # written back and dropped, and waited for
        "npu_unit_scales": r"\.word 0x9200c3fe",
        "npu_unit_store": r"\.word 0xa6e2da10\s+\.word 0xa6e0c118\s+syncht",  # vectors see the tile
    },
    "machine": {
        "npu_cache_clean": r"and\(r\d+,#-64\).*npu_unit_lines",
        "npu_hmx_clear": r"npu_unit_scales.*npu_unit_clear",
        "npu_hmx_store": r"npu_unit_store.*(?:memw_rl|release|memw)",
    },
}



def instructions(text):
    """Without comments and packets; words as the source writes them."""
    text = re.sub(r"//.*|[{}]", "", text)
    return re.sub(r"\.word\s+(\d+)", lambda m: f".word {int(m[1]):#x}", text)


# Files with gathers, and the last byte that each of theirs may read: the table of exponentials has 65536 bytes.
GATHERS = {"exp": {65535}, "attention": {65535}}


def last_bytes(text):
    """The constants that reach a gather's length register, over copies in the function's order."""
    value, found = {}, set()
    for line in text.splitlines():
        if m := re.search(r"r(\d+):(\d+) = combine\(##?(-?\d+),##?(-?\d+)\)", line):
            value[f"r{m[1]}"], value[f"r{m[2]}"] = int(m[3]), int(m[4])
        elif m := re.search(r"\b(r\d+) = ##?(-?\d+)", line):
            value[m[1]] = int(m[2])
        elif m := re.search(r"\b(m[01]) = (r\d+)", line):
            value[m[1]] = value.get(m[2])
        elif m := re.search(r"vgather\(r\d+,(m[01]),", line):
            found.add(value.get(m[1]))
    return found


errors, n = [], 0
for source, lengths in GATHERS.items():
    run = subprocess.run([clang, *FLAGS, "-ffp-contract=off", f"{root}/src/npu/dsp/{source}.c"], capture_output=True,
                         text=True)
    n += 1
    if last_bytes(run.stdout) != lengths:
        errors.append(f"{source}.c: gathers read up to {last_bytes(run.stdout)}, not {lengths}")
for source, rules in RULES.items():
    run = subprocess.run([clang, *FLAGS, f"{root}/src/npu/dsp/silicon/{source}.c"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{source}.c: {run.stderr[:500]}")
    for name, rule in rules.items():
        body = re.search(rf"^{name}:.*?^\t\.size\t{name},", run.stdout, re.S | re.M)
        n += 1
        if not body or not re.search(rule, instructions(body[0]), re.S):
            errors.append(f"{source}.c: {name} lacks `{rule}`")
print("\n".join(errors) or f"{n} functions and files are as they should be")
sys.exit(bool(errors))
