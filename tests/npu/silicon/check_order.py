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

# What each function of units.c does, all of it: registers by what they hold, a0 to a2 being the arguments; words of the
# tile unit with what stands in their fields Rs and Rt.
UNITS = {
    "npu_unit_dmstart": "release(a0):at; dmstart(a0)",  # a descriptor is seen before it starts
    "npu_unit_dmlink": "release(a1):at; dmlink(a0,a1)",
    "npu_unit_dmpoll": "and(dmpoll,#3)",  # the state alone
    "npu_unit_dmpause": "and(dmpause,#3)",
    "npu_unit_line": "dccleaninva(a0)",  # written back and dropped
    "npu_unit_settle": "syncht",  # and waited for
    "npu_unit_scales": "0x9200c3fe(a0)",
    "npu_unit_clear": "0xa6e0c013",
    "npu_unit_mac": "0x920041e2(a0,a2); 0x9202e1ef(a1,a2)",
    "npu_unit_store": "0xa6e2da10(#2); 0xa6e0c118(a0,#0); syncht",  # vectors see the tile
    "npu_unit_pause": "pause(#63)",
    "npu_unit_cycles": "c15:14",
    "npu_unit_ticks": "c31:30",
}
FIELDS = {0x9200c3fe: (16,), 0xa6e0c013: (), 0x920041e2: (16, 8), 0x9202e1ef: (16, 8), 0xa6e2da10: (16,),
          0xa6e0c118: (16, 8)}

# What other functions' text must contain, in this order.
RULES = {
    "machine": {
        "npu_cache_clean": r"npu_unit_line\b.*npu_unit_settle",
        "npu_hmx_clear": r"npu_unit_scales.*npu_unit_clear",
        "npu_hmx_store": r"call npu_unit_store.*memw\S* = #0",
    },
}


def instructions(text):
    """Without comments and packets."""
    return re.sub(r"//.*|[{}]", "", text)


def effects(text):
    """What a function without branches does, over copies in its registers, and what it returns."""
    held, told = {f"r{i}": f"a{i}" for i in range(3)}, []
    for packet in re.findall(r"\{(.*?)\}|(\.word\s+\d+)", re.sub(r"//.*", "", text), re.S):
        before = dict(held)
        for line in filter(None, (line.strip() for line in (packet[0] or packet[1]).splitlines())):
            if line == "jumpr r31":
                continue
            if word := re.match(r"\.word\s+(\d+)", line):
                fields = [before[f"r{int(word[1]) >> at & 31}"] for at in FIELDS.get(int(word[1]), ())]
                told.append(f"{int(word[1]):#x}" + (f"({','.join(fields)})" if fields else ""))
                continue
            to, _, value = line.rpartition(" = ")
            value = re.sub(r"\br\d+\b", lambda m: before.get(m[0], m[0]), value)
            if to:
                held[to] = value
            else:
                told.append(value)
    changed = [held["r0"]] if held["r0"] not in ("a0", "a1", "a2") else []
    return "; ".join(told + changed + [held[r] for r in ("r1:0",) if r in held])


def function(text, name):
    body = re.search(rf"^{name}:(.*?)^\t\.size\t{name},", text, re.S | re.M)
    return body[1] if body else ""


# Files with gathers, and the last byte that each of theirs may read: the table of exponentials has 65536 bytes, two
# tiles 4096.
GATHERS = {"exp": {65535}, "attention": {65535}, "move": {4095}}


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
for source in ("units", *RULES):
    run = subprocess.run([clang, *FLAGS, f"{root}/src/npu/dsp/silicon/{source}.c"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{source}.c: {run.stderr[:500]}")
    for name, rule in RULES.get(source, {}).items():
        n += 1
        if not re.search(rule, instructions(function(run.stdout, name)), re.S):
            errors.append(f"{source}.c: {name} lacks `{rule}`")
    for name in sorted({*UNITS, *re.findall(r"^(npu_\w+):", run.stdout, re.M)}) if source == "units" else ():
        n += 1
        told, want = effects(function(run.stdout, name)), UNITS.get(name)
        if told != want:
            errors.append(f"units.c: {name} does `{told}`, not `{want}`")
print("\n".join(errors) or f"{n} functions and files are as they should be")
sys.exit(bool(errors))
