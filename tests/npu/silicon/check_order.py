"""Checks in the compiler's text of silicon's instructions what no test can run: what is ordered before what.

usage: check_order.py CLANG SOURCE_ROOT
"""
import re
import subprocess
import sys

clang, root = sys.argv[1:]
FLAGS = ["--target=hexagon-unknown-linux-musl", "-mv73", "-mhvx=v73", "-mhvx-length=128b", "-O2", "-std=c11", "-ffreestanding",
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


errors, n = [], 0
for source, rules in RULES.items():
    run = subprocess.run([clang, *FLAGS, f"{root}/src/npu/dsp/silicon/{source}.c"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{source}.c: {run.stderr[:500]}")
    for name, rule in rules.items():
        body = re.search(rf"^{name}:.*?^\t\.size\t{name},", run.stdout, re.S | re.M)
        n += 1
        if not body or not re.search(rule, instructions(body[0]), re.S):
            errors.append(f"{source}.c: {name} lacks `{rule}`")
print("\n".join(errors) or f"{n} functions are ordered as they should be")
sys.exit(bool(errors))
