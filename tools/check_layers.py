"""Checks every #include in src/ and apps/ against src/LAYERS.

usage: check_layers.py [ROOT]

npu/dsp is compiled for the NPU: it includes npu/dsp, npu/wire, the format constants and freestanding headers, and only
its isa.h names the emulator; npu/wire includes freestanding headers and itself.

A room includes headers of its own, and public headers (neither *_impl.h nor *_tmpl.h) of the rooms its line names; a line may name only
rooms of lower layers.  include/lutra/status.h is for everyone, the other headers of include/ for rooms whose line says
`include`.  An app includes include/ and its own folder only; apps/cli also apps/server's front door.  Exit status 1 and one line per violation.
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
SHARED = "lutra/status.h"
DOORS = {("cli", "server/server.h")}  # headers of one app that another one opens


def read_layers(path, errors):
    """{room: set of allowed names}, from lines `layer room allowed...`."""
    layer, allowed = {}, {}
    for n, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        room = words[1]
        layer[room], allowed[room] = int(words[0]), set(words[2:])
        for other in allowed[room] - {"include"}:
            if other not in layer:
                errors.append(f"{path}:{n}: {room} names {other}, which no line above describes")
            elif layer[other] >= layer[room]:
                errors.append(f"{path}:{n}: {room} (layer {layer[room]}) may not include {other} (layer {layer[other]})")
    return allowed


def includes(path):
    for n, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        m = INCLUDE.match(line)
        if m:
            yield n, m.group(1) == "<", m.group(2)


FREESTANDING = {"stddef.h", "stdint.h", "hexagon_types.h", "hvx_hexagon_protos.h"}


def judge_npu(path, system, name):
    """What is wrong with this include of a file that also runs on the NPU, or None."""
    if not path.startswith(("npu/dsp/", "npu/wire/")):
        return None
    if system:
        return None if name in FREESTANDING else "not a freestanding header"
    if name.startswith("npu/wire/") or path == "npu/dsp/isa.h" and name == "npu/sim/isa_sim.h":
        return None
    seen = name.startswith("npu/dsp/") or name in ("quant/formats.h", "base/f16.h")
    return None if seen and path.startswith("npu/dsp/") else "the NPU's side may not see this"


def judge_room(root, source, room, allowed, system, name):
    """What is wrong with this include of a room's source, or None."""
    public = (root / "include" / name).is_file()
    if system:
        return "headers of Lutra are included with quotes" if public else None
    if ".." in Path(name).parts:
        return "a path may not go up"
    first = name.split("/")[0]
    if "/" in name and first in allowed:
        if not (root / "src" / name).is_file():
            return "no such file"
        if first == room:
            return None
        if first not in allowed[room]:
            return f"{room} may not include {first}"
        return f"a private header of {first}" if name.endswith(("_impl.h", "_tmpl.h")) else None
    if (source.parent / name).is_file():
        return None
    if public:
        return None if name == SHARED or "include" in allowed[room] else f"{room} may not include the public API"
    return "neither a room's header, nor beside this file, nor in include/"


def judge_app(root, source, system, name):
    public = (root / "include" / name).is_file()
    if system:
        return "headers of Lutra are included with quotes" if public else None
    if ".." in Path(name).parts:
        return "a path may not go up"
    if (source.relative_to(root / "apps").parts[0], name) in DOORS:
        return None
    app = root / "apps" / source.relative_to(root / "apps").parts[0]
    own = (source.parent / name).is_file() or (app / name).is_file()
    return None if public or own else "an app includes include/ and its own folder only"


def check(root):
    errors = []
    allowed = read_layers(root / "src" / "LAYERS", errors)
    for source in sorted((root / "src").rglob("*.[ch]")):
        room = source.relative_to(root / "src").parts[0]
        if room not in allowed:
            errors.append(f"{source}: {room} is not in src/LAYERS")
            continue
        for n, system, name in includes(source):
            fault = judge_room(root, source, room, allowed, system, name)
            fault = fault or judge_npu(source.relative_to(root / "src").as_posix(), system, name)
            if fault:
                errors.append(f"{source}:{n}: {name}: {fault}")
    for source in sorted((root / "apps").rglob("*.[ch]")):
        for n, system, name in includes(source):
            fault = judge_app(root, source, system, name)
            if fault:
                errors.append(f"{source}:{n}: {name}: {fault}")
    return errors


if __name__ == "__main__":
    found = check(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found) or "every include obeys src/LAYERS")
    sys.exit(bool(found))
