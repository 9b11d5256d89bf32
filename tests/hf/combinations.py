#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every combination of format, bits, groups, zeros, order and scales that is read: a matrix each, in folders of many.

    combinations.py LUTRA COUNT_SORTED [SEED]

A folder of FOLDERS is written twice, packed and as plain F32 (packed.py computes the values from the formats'
definitions): `lutra quantize` must make the same F32 tensors of both, bit for bit, and each matrix must have the type
that its differences of codes and zeros fit; those of shuffled groups must have the same values sorted by group
(count_sorted.c). What the configuration says of single modules is never needed: the shapes
tell, and modules that are left out (o_proj and down_proj) are floats.
"""
import itertools
import json
import random
import subprocess
import sys
import tempfile

from packed import Layer, awq, compressed, convert, f32s, gptq, save, tens

K, N = 256, 32
PLACES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
          "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up"}
LEFT_OUT = ("self_attn.o_proj", "mlp.down_proj")
GROUPS, BOTH = (32, 64, 128, -1), (True, False)


def dynamic(modules):
    """GPTQModel's rules: "+:" of modules that differ, "-:" of those that are left out."""
    rules = {"+:" + name.replace(".", r"\."): {"bits": bits, "group_size": group} for name, bits, group in modules}
    return {**rules, **{"-:.*%s.*" % name: {} for name in LEFT_OUT}}


def gptq_says(version):
    return lambda modules: {"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": version,
                            "dynamic": dynamic(modules)}


def auto_round_says(packing):
    return lambda modules: {"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": packing,
                            "extra_config": {**{n: {"bits": b, "group_size": g} for n, b, g in modules},
                                             **{".*" + n: {"bits": 16, "data_type": "float"} for n in LEFT_OUT}}}


def awq_says(modules):
    return {"quant_method": "awq", "version": "gemm", "bits": 4, "modules_to_not_convert": list(LEFT_OUT)}


def compressed_says(modules):
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "actorder": "group"}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["re:.*" + n for n in LEFT_OUT],
            "config_groups": {"group_0": {"weights": weights, "targets": [n for n, _, _ in modules]}}}


def folder(what, says, pack, **axes):
    every = {"bits": (2, 3, 4, 8), "group": GROUPS, "symmetric": BOTH, "shuffled": (False,), "scale": ("F16",)}
    every.update(axes)
    return what, says, pack, [dict(zip(every, values)) for values in itertools.product(*every.values())]


FOLDERS = (
    folder("GPTQ v1", gptq_says("gptq"), lambda m: gptq(m, 1, m.shuffled or m.bits == 4), shuffled=BOTH),
    folder("GPTQ v2", gptq_says("gptq_v2"), lambda m: gptq(m, 2, m.shuffled or m.bits == 4), shuffled=BOTH),
    folder("GPTQ v2 that says v1", gptq_says("gptq"), lambda m: gptq(m, 2, False), group=(64,)),
    folder("AutoRound as GPTQ", auto_round_says("auto_round:auto_gptq"), lambda m: gptq(m, 1, False),
           scale=("F16", "BF16")),
    folder("AutoRound as AWQ", auto_round_says("auto_round:auto_awq"), awq, bits=(4,), scale=("F16", "BF16")),
    folder("EfficientQAT", None, lambda m: tens(m) if m.bits == 3 else gptq(m, 2, True), bits=(2, 3, 4),
           symmetric=(False,)),
    folder("AWQ", awq_says, awq, bits=(4,)),
    folder("compressed-tensors", compressed_says, lambda m: compressed(m, m.symmetric, m.shuffled, m.groups == 4),
           bits=(2, 4, 8), shuffled=BOTH, scale=("F16", "BF16")),
)


def type_of(m):
    """In groups of 64 and more by its bits, else by the differences that its codes could have."""
    zeros = [z for row in m.zero for z in row]
    least, most = -max(zeros), (1 << m.bits) - 1 - min(zeros)
    if m.k // m.groups % 64 == 0 and m.bits <= 4 and not (m.bits == 4 and least >= -8 and most < 8):
        return "Q2_0" if m.bits == 2 and set(zeros) <= {1, 2} else "W%d" % m.bits
    for name, half in (("Q4_0", 8), ("Q5_0", 16), ("Q8_0", 128)):
        if least >= -half and most < half:
            return name
    return "F32"


def check(lutra, counter, where, rng, what, says, pack, combinations):
    n_layer = -(-len(combinations) // len(PLACES))
    packed = {"model.embed_tokens.weight": ("F32", [16, K], f32s([rng.gauss(0, 1) for _ in range(16 * K)])),
              "model.norm.weight": ("F32", [K], f32s([1.0] * K))}
    for i in range(n_layer):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            packed["model.layers.%d.%s.weight" % (i, norm)] = ("F32", [K], f32s([1.0] * K))
        for name in LEFT_OUT:
            packed["model.layers.%d.%s.weight" % (i, name)] = ("F32", [K, N], f32s([0.25 * i] * (K * N)))
    plain, modules, types = dict(packed), [], {}
    for i, name in itertools.product(range(n_layer), PLACES):
        c = combinations[(i * len(PLACES) + list(PLACES).index(name)) % len(combinations)]
        base = "model.layers.%d.%s" % (i, name)
        layer = Layer(rng, K, N, c["bits"], c["group"] if c["group"] > 0 else K, c["symmetric"], c["shuffled"],
                      c["scale"])
        plain[base + ".weight"] = ("F32", [N, K], f32s(layer.values()))
        packed.update({base + "." + part: tensor for part, tensor in pack(layer).items()})
        modules.append((base, c["bits"], c["group"]))
        types["blk.%d.%s.weight" % (i, PLACES[name])] = c, type_of(layer)
    sizes = {"hidden_size": K, "head_dim": N // 2, "intermediate_size": N, "num_hidden_layers": n_layer}
    save(where + "/plain", plain, None, **sizes)
    save(where + "/packed", packed, says and says(modules), **sizes)
    shown = json.loads(subprocess.check_output([lutra, "inspect", "--json", where + "/packed"]))
    have = {t["name"]: t["type"] for t in shown["tensors"]}
    for name, (c, wanted) in types.items():
        if have[name] != wanted:
            sys.exit("combinations.py: %s, %s: %s in place of %s" % (what, c, have[name], wanted))
    want, got = (convert(lutra, where + side, where + "/out.gguf") for side in ("/plain", "/packed"))
    if isinstance(got, str):
        sys.exit("combinations.py: %s: %s" % (what, got))
    for name, values in want.items():
        if got.get(name) != values:
            sys.exit("combinations.py: %s, %s: values" % (what, types.get(name.decode(), name)))
    assert len(got) == len(want)
    wanted = sum(1 for c, kind in types.values() if c["shuffled"] and c["group"] > 0 and kind != "F32")
    counted = subprocess.run([counter, where + "/packed"], capture_output=True, text=True).stdout.strip()
    if counted != str(wanted):
        sys.exit("combinations.py: %s: %s in place of %d matrices sorted by group" % (what, counted, wanted))
    return wanted


def main():
    lutra, counter, rng = sys.argv[1], sys.argv[2], random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    with tempfile.TemporaryDirectory() as where:
        for what, says, pack, combinations in FOLDERS:
            n = check(lutra, counter, where, rng, what, says, pack, combinations)
            print("%-24s %3d combinations, %d matrices sorted by group" % (what, len(combinations), n))


if __name__ == "__main__":
    main()
