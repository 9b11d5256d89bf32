"""Refuses mutable globals: looks in libraries for objects in .data, .bss or thread-local sections.

usage: check_globals.py LIBRARY.a...

Constant tables of pointers (.data.rel.ro) are fine.  Instrumented builds have globals of their own: do not ask there.
"""
import re
import subprocess
import sys

SYMBOL = re.compile(r"^[0-9a-f]+ .{7} (\.(?:data|bss|tdata|tbss)\S*|\*COM\*)\s+([0-9a-f]+)\s+(?:\.hidden )?(\S+)$")


def globals_of(library):
    member = ""
    for line in subprocess.run(["objdump", "-t", library], capture_output=True, text=True,
                               check=True).stdout.splitlines():
        if ": " in line and "file format" in line:
            member = line.split(":")[0]
        m = SYMBOL.match(line)
        if m and int(m.group(2), 16) and not m.group(1).startswith(".data.rel.ro"):
            yield f"{library}({member}): {m.group(3)} is mutable ({m.group(1)}, {int(m.group(2), 16)} bytes)"


if __name__ == "__main__":
    found = [g for library in sys.argv[1:] for g in globals_of(library)]
    print("\n".join(found) or "no mutable globals")
    sys.exit(bool(found))
