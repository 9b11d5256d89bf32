#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Folders that `lutra quantize --calibrate` writes with groups of 2, 3 and 4 bits, read here from the format's
definition: Lutra must read the same values, bit for bit, and they must be near the source's.

    read_groups.py LUTRA
"""
import json
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from packed import D, FF, HEADS, LINEARS, VOCAB, convert, f16, f32s, rest, save


def tensors_in(path):
    """Of a safetensors file: name -> (dtype, shape, bytes); its data are covered without holes."""
    raw = open(path, "rb").read()
    n, = struct.unpack_from("<Q", raw)
    header, at = json.loads(raw[8:8 + n]), 0
    assert header.pop("__metadata__") == {"format": "pt"} and n % 8 == 0
    for begin, end in sorted(t["data_offsets"] for t in header.values()):
        assert begin == at and begin % 2 == 0
        at = end
    assert 8 + n + at == len(raw)
    return {name: (t["dtype"], t["shape"], raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in header.items()}


def codes_of(words, bits, count):
    number = sum(w << (32 * i) for i, w in enumerate(words))
    return [number >> (bits * i) & ((1 << bits) - 1) for i in range(count)]


def weight_of(tensors, base, k, n, config):
    """[n][k] from qweight, qzeros, scales and g_idx; checks their shapes."""
    bits, size = config["bits"], config["group_size"] if config["group_size"] > 0 else k
    shapes = {"qweight": ("I32", [k * bits // 32, n]), "qzeros": ("I32", [k // size, n * bits // 32]),
              "scales": ("F16", [k // size, n]), "g_idx": ("I32", [k])}
    part = {}
    for name, want in shapes.items():
        dtype, shape, raw = tensors.pop(base + "." + name)
        assert (dtype, shape) == want, (base, name, dtype, shape)
        part[name] = struct.unpack("<%d%s" % (len(raw) // (2 if dtype == "F16" else 4),
                                              "e" if dtype == "F16" else "I"), raw)
    assert list(part["g_idx"]) == [i // size for i in range(k)]
    zeros = [codes_of(part["qzeros"][g * n * bits // 32:(g + 1) * n * bits // 32], bits, n) for g in range(k // size)]
    assert not config["sym"] or all(z == 1 << (bits - 1) for row in zeros for z in row)
    columns = [codes_of(part["qweight"][j::n], bits, k) for j in range(n)]
    return [(columns[j][i] - zeros[g][j]) * part["scales"][g * n + j]
            for j in range(n) for i in range(k) for g in [part["g_idx"][i]]]


def case(lutra, folder, bits, size, symmetric, source, text, limit):
    out = folder + "/out-%d%d%d" % (bits, size, symmetric)
    line = [lutra, "quantize", folder + "/plain", out, "W%d" % bits, "--calibrate", text, "--calibrate-ctx",
            "32", "--group-size", str(size)] + ([] if symmetric else ["--asymmetric"])
    shutil.rmtree(out, ignore_errors=True)
    told = subprocess.run(line, check=True, capture_output=True, text=True).stderr
    config = json.load(open(out + "/config.json"))["quantization_config"]
    want = {"quant_method": "gptq", "bits": bits, "group_size": size, "sym": symmetric, "desc_act": False,
            "checkpoint_format": "gptq_v2"}
    assert {key: config.get(key) for key in want} == want, config
    tensors = tensors_in(out + "/model.safetensors")
    plain = {}
    for name, (k, n) in LINEARS.items():
        base = "model.layers.0." + name
        values, was = weight_of(tensors, base, k, n, config), source[base + ".weight"]
        error = sum((a - b) ** 2 for a, b in zip(values, was)) / (sum(b * b for b in was) or 1)
        assert error < limit, (base, bits, size, symmetric, error)
        plain[base + ".weight"] = ("F32", [n, k], f32s(values))
    for name, tensor in tensors.items():
        assert tensor == source[name], name
    save(folder + "/read", {**tensors, **plain}, None)
    assert convert(lutra, out, folder + "/a.gguf") == convert(lutra, folder + "/read", folder + "/b.gguf")
    return told


def main():
    lutra, rng = sys.argv[1], random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        tensors = rest(rng)
        source = dict(tensors)
        for name, (k, n) in LINEARS.items():
            values = [f16(rng.gauss(0, 0.05)) for _ in range(k * n)]
            source["model.layers.0." + name + ".weight"] = values
            tensors["model.layers.0." + name + ".weight"] = ("F32", [n, k], f32s(values))
        save(folder + "/plain", tensors, None)
        open(folder + "/text", "w").write("".join(rng.choice("ab") for _ in range(4000)))
        for bits, limit in ((2, 0.6), (3, 0.2), (4, 0.05)):
            for size in (32, 64, -1):
                for symmetric in (True, False):
                    case(lutra, folder, bits, size, symmetric, source, folder + "/text", limit)
        # A gate that is shut: down_proj sees nothing but zeros, whose covariance no damping mends.
        name = "model.layers.0.mlp.gate_proj.weight"
        source[name] = [0.0] * (D * FF)
        save(folder + "/plain", {**tensors, name: ("F32", [FF, D], f32s(source[name]))}, None)
        told = case(lutra, folder, 4, 32, False, source, folder + "/text", 0.05)
        lines = [line for line in told.splitlines() if "singular: rounded by their importance alone" in line]
        assert len(lines) == 1 and "blk.0.ffn_down.weight" in lines[0], told
    print("read_groups.py: 19 folders, D %d, FF %d, %d heads, %d tokens" % (D, FF, HEADS, VOCAB))


if __name__ == "__main__":
    main()
