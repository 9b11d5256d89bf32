"""Checks the file liblutra_npu.so: what its loader reads, what it asks of the firmware, and the words of the
instructions that no assembler here knows.

usage: check_library.py LIBRARY ARCHITECTURE
"""
import struct
import sys

NEEDED, SONAME, TEXTREL, RELA, RELASZ, JMPREL, PLTRELSZ, FLAGS = 1, 14, 22, 7, 8, 23, 2, 30
HEXAGON, SHARED = 164, 3

# What FastRPC's loader must find, and what it may: firmwares differ.
STRONG = """HAP_mmap_get HAP_mmap_put HAP_power_set qurt_thread_create qurt_thread_join qurt_futex_wait qurt_futex_wake"""
WEAK = """HAP_power_destroy_client compute_resource_query_VTCM compute_resource_attr_init
compute_resource_attr_set_vtcm_param_v2 compute_resource_attr_set_hmx_param compute_resource_attr_get_vtcm_ptr_v2
compute_resource_acquire compute_resource_release compute_resource_hmx_lock compute_resource_hmx_unlock
compute_resource_hmx_lock2 compute_resource_hmx_unlock2 qurt_hvx_lock qurt_hvx_unlock qurt_hvx_get_units qurt_timer_sleep
qurt_thread_get_id qurt_thread_get_priority"""
EXPORTS = {"lutra_npu_skel_handle_invoke"}

UNITS = {
    "npu_unit_scales": ["bias=mxmem2(r0)", "end"],
    "npu_unit_clear": ["mxclracc.hf", "end"],
    "npu_unit_mac": ["activation.hf=mxmem(r0,r1):deep", "weight.hf=mxmem(r2,r1)", "end"],
    "npu_unit_store": ["cvt.hf=acc(r2)", "end", "mxmem(r0,r1)=cvt", "end"],
}

data = open(sys.argv[1], "rb").read()
errors = []


def expect(what, got, want):
    if got != want:
        errors.append(f"{what}: {got}, not {want}")


def text(at):
    return data[at:data.index(b"\0", at)].decode()


head = struct.unpack_from("<16sHHIIIIIHHHHHH", data)
expect("class and byte order", head[0][4:6], b"\1\1")
expect("kind and machine", head[1:3], (SHARED, HEXAGON))
expect("architecture", f"v{head[7]:x}", sys.argv[2])
segments = [struct.unpack_from("<8I", data, head[5] + i * head[9]) for i in range(head[10])]
loads = [s for s in segments if s[0] == 1]
for s in loads:
    if s[6] & 3 == 3:
        errors.append(f"a segment is written and run: {s[2]:#x}")


def file_offset(address):
    for s in loads:
        if s[2] <= address < s[2] + s[4]:
            return address - s[2] + s[1]
    return 0


dynamic = {}
for s in segments:
    for i in range(0, s[4] if s[0] == 2 else 0, 8):
        tag, value = struct.unpack_from("<II", data, s[1] + i)
        dynamic.setdefault(tag, []).append(value)
strings = file_offset(dynamic[5][0])
expect("SONAME", [text(strings + x) for x in dynamic.get(SONAME, [])], ["liblutra_npu.so"])
expect("libraries needed", [text(strings + x) for x in dynamic.get(NEEDED, [])], [])
if TEXTREL in dynamic or dynamic.get(FLAGS, [0])[0] & 4:
    errors.append("relocations of text")
expect("a SysV hash table", 4 in dynamic, True)
for table, size in ((RELA, RELASZ), (JMPREL, PLTRELSZ)):
    for i in range(0, dynamic.get(size, [0])[0], 12):
        at = struct.unpack_from("<I", data, file_offset(dynamic[table][0]) + i)[0]
        if not any(s[2] <= at < s[2] + s[5] and s[6] & 2 for s in loads):
            errors.append(f"a relocation outside of data: {at:#x}")

sections = [struct.unpack_from("<10I", data, head[6] + i * head[11]) for i in range(head[12])]


def symbols(kind):
    for s in sections:
        for i in range(16, s[5] if s[1] == kind else 0, 16):
            name, value, size, info, _, where = struct.unpack_from("<IIIBBH", data, s[4] + i)
            yield text(sections[s[6]][4] + name), value, size, info >> 4, where


asked = {1: set(), 2: set()}
for name, _, _, bind, where in symbols(11):
    if where:
        expect("exported", {name}, EXPORTS)
    else:
        asked[bind].add(name)
expect("asked of every firmware", sorted(asked[1]), sorted(STRONG.split()))
expect("asked where there is", sorted(asked[2]), sorted(WEAK.split()))


def decode(word):
    """Instructions of the tile unit, by the fields that public decoders agree on; None: another."""
    bits = lambda high, low: word >> low & (1 << high - low + 1) - 1
    s, t, low = bits(20, 16), bits(12, 8), bits(7, 0)
    if bits(31, 28) == 9 and bits(27, 21) == 0x10 and low >> 6 == 3:
        if not bits(13, 13) and t == 3 and low & 0x3f == 0x3e:
            return f"bias=mxmem2(r{s})"
        if not bits(13, 13) and low & 0x3f == 0x22:
            return f"activation.hf=mxmem(r{s},r{t}):deep"
        if bits(13, 13) and low & 0x3f == 0x2f:
            return f"weight.hf=mxmem(r{s},r{t})"
    if bits(31, 28) == 10 and bits(27, 21) == 0x37 and not low >> 5 and not bits(13, 13):
        if not t and not s and low == 0x13:
            return "mxclracc.hf"
        if t == 0x1a and low == 0x10:
            return f"cvt.hf=acc(r{s})"
        if low == 0x18:
            return f"mxmem(r{s},r{t})=cvt"
    return None


for name, value, size, _, where in symbols(2):
    if name not in UNITS:
        continue
    found, ended = [], True
    for i in range(0, size, 4):
        word = struct.unpack_from("<I", data, file_offset(value) + i)[0]
        meaning, end = decode(word), word >> 14 & 3 in (0, 3)  # 0: two short instructions, always last
        if meaning and not ended and not (found and found[-1] != "end"):
            errors.append(f"{name}: {meaning} stands in the packet of another instruction")
        if meaning:
            found += [meaning] + ["end"] * end
        ended = end
    expect(name, found, UNITS.pop(name))
for name in UNITS:
    errors.append(f"{name} is missing")

print("\n".join(errors) or f"{sys.argv[1]}: {len(data)} bytes, {len(asked[1])} + {len(asked[2])} functions of the firmware")
sys.exit(bool(errors))
