# SPDX-License-Identifier: MIT
"""Where tensors of a GGUF file lie, and copies of it with one value of a tensor (F16 or F32) replaced."""
import struct


def tensors(data):
    """{name: (type, first byte, shape)}"""
    at = 4

    def take(kind):
        nonlocal at
        (x,) = struct.unpack_from("<" + kind, data, at)
        at += struct.calcsize("<" + kind)
        return x

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode("utf-8", "replace")

    def value_of(kind):
        if kind == 8:
            return text()
        if kind == 9:
            element, n = take("I"), take("Q")
            return [value_of(element) for _ in range(n)]
        return take({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}[kind])

    take("I")
    n_tensor, n_key = take("Q"), take("Q")
    keys = {}
    for _ in range(n_key):
        key = text()
        keys[key] = value_of(take("I"))
    found = {}
    for _ in range(n_tensor):
        name = text()
        shape = [take("Q") for _ in range(take("I"))]
        found[name] = take("I"), take("Q"), shape
    align = keys.get("general.alignment", 32)
    start = (at + align - 1) // align * align
    return {name: (kind, start + offset, shape) for name, (kind, offset, shape) in found.items()}


def poke(source, target, tensor, value, index=7):
    with open(source, "rb") as f:
        data = bytearray(f.read())
    kind, first, _ = tensors(data)[tensor]
    struct.pack_into("<f" if kind == 0 else "<e", data, first + (4 if kind == 0 else 2) * index, value)
    with open(target, "wb") as f:
        f.write(data)
