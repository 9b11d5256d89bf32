#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Quantized Hugging Face folders (GPTQ, AWQ, compressed-tensors, BitNet) against values computed here from the formats'
definitions.

    packed.py LUTRA [SEED]

Each case is written twice, packed and as plain F32; `lutra quantize` must make the same F32 tensors of both, bit for
bit. Labels (v1, v2) are wrong at random: the data decide.  Planted faults must change the values or be refused.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

D, FF, HEADS, VOCAB = 64, 64, 2, 16
LINEARS = {"self_attn.q_proj": (D, D), "self_attn.k_proj": (D, D), "self_attn.v_proj": (D, D),
           "self_attn.o_proj": (D, D), "mlp.gate_proj": (D, FF), "mlp.up_proj": (D, FF), "mlp.down_proj": (FF, D)}


SAYS_V2 = {"quant_method": "gptq", "checkpoint_format": "gptq_v2", "lutra_zeros": "v2"}


def f16(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def f32s(values):
    return struct.pack("<%df" % len(values), *values)


def words(values):
    return struct.pack("<%dI" % len(values), *values)


def stream(codes, bits):
    """Codes as one number of little-endian words, the first in the low bits."""
    total = sum(c << (i * bits) for i, c in enumerate(codes))
    return [total >> (32 * i) & 0xffffffff for i in range(len(codes) * bits // 32)]


class Layer:
    """Random codes [k][n], zeros and scales [group][n], order of groups; weight (code - zero) x scale."""

    def __init__(self, rng, k, n, bits, group, symmetric, shuffled, scale="F16", zeros=None):
        top, half = (1 << bits) - 1, 1 << (bits - 1)
        self.k, self.n, self.bits, self.groups = k, n, bits, k // group
        self.symmetric, self.shuffled, self.scale_type = symmetric, shuffled, scale
        spread = max(0, half // 4)
        self.zero = [[half if symmetric else max(1, min(top - 1, half + rng.randint(-spread - 1, spread + 1)))
                      for _ in range(n)] for _ in range(self.groups)]
        if not symmetric:
            self.zero[0][0] = half - 1 if self.zero[0][0] != half - 1 else half + 1
            self.zero[-1][-1] = rng.choice((0, half))
        if zeros:
            self.zero = [[rng.choice(zeros) for _ in range(n)] for _ in range(self.groups)]
        rounded = f16 if scale == "F16" else bf16
        self.scale = [[rounded(rng.choice((-1, 1, 1, 1)) * rng.uniform(0.001, 0.02)) for _ in range(n)]
                      for _ in range(self.groups)]
        self.order = [i // group for i in range(k)]
        if shuffled:
            rng.shuffle(self.order)
        self.code = [[max(0, min(top, round(rng.gauss(self.zero[self.order[i]][j], top / 6)))) for j in range(n)]
                     for i in range(k)]

    def values(self):
        """[n][k], as a weight lies in safetensors."""
        return [(self.code[i][j] - self.zero[self.order[i]][j]) * self.scale[self.order[i]][j]
                for j in range(self.n) for i in range(self.k)]


def scales_of(layer, turned=False):
    rows = zip(*layer.scale) if turned else layer.scale
    values = [s for row in rows for s in row]
    raw = struct.pack("<%de" % len(values), *values) if layer.scale_type == "F16" else b"".join(
        struct.pack("<f", s)[2:] for s in values)
    return layer.scale_type, [layer.n, layer.groups] if turned else [layer.groups, layer.n], raw


def gptq(layer, version, with_order):
    mask = (1 << layer.bits) - 1
    columns = [stream([layer.code[i][j] for i in range(layer.k)], layer.bits) for j in range(layer.n)]
    rows = len(columns[0])
    out = {"qweight": ("I32", [rows, layer.n], words([columns[j][r] for r in range(rows) for j in range(layer.n)])),
           "scales": scales_of(layer)}
    zeros = []
    for row in layer.zero:
        zeros += stream([(z - (version == 1)) & mask for z in row], layer.bits)
    out["qzeros"] = ("I32", [layer.groups, layer.n * layer.bits // 32], words(zeros))
    if with_order:
        out["g_idx"] = ("I32", [layer.k], words(layer.order))
    return out


def tens(layer):
    """EfficientQAT's 3 bits: ten codes to a word, zeros as they are."""
    def pack(codes):
        return [sum(c << (3 * i) for i, c in enumerate(codes[at:at + 10])) for at in range(0, len(codes), 10)]
    columns = [pack([row[j] for row in layer.code]) for j in range(layer.n)]
    zeros = [pack(row) for row in layer.zero]
    return {"qweight": ("I32", [len(columns[0]), layer.n], words([w for row in zip(*columns) for w in row])),
            "qzeros": ("I32", [layer.groups, len(zeros[0])], words([w for row in zeros for w in row])),
            "scales": scales_of(layer), "g_idx": ("I32", [layer.k], words(layer.order))}


def awq(layer, order=(0, 2, 4, 6, 1, 3, 5, 7)):
    def pack(row):
        return [sum(row[c + order[i]] << (4 * i) for i in range(8)) for c in range(0, len(row), 8)]
    return {"qweight": ("I32", [layer.k, layer.n // 8], words([w for row in layer.code for w in pack(row)])),
            "qzeros": ("I32", [layer.groups, layer.n // 8], words([w for row in layer.zero for w in pack(row)])),
            "scales": scales_of(layer)}


def whole_codes(codes, bits):
    """As many codes to a word as are whole in it: compressed-tensors."""
    per = 32 // bits
    return [sum(c << (bits * i) for i, c in enumerate(codes[at:at + per])) for at in range(0, len(codes), per)]


def compressed(layer, symmetric, with_order, unset=False):
    """unset: an order is there, and is none."""
    rows = [whole_codes([layer.code[i][j] for i in range(layer.k)], layer.bits) for j in range(layer.n)]
    out = {"weight_packed": ("I32", [layer.n, len(rows[0])], words([w for row in rows for w in row])),
           "weight_scale": scales_of(layer, True),
           "weight_shape": ("I64", [2], struct.pack("<2q", layer.n, layer.k))}
    if not symmetric:
        columns = [whole_codes([layer.zero[g][j] for j in range(layer.n)], layer.bits) for g in range(layer.groups)]
        height = len(columns[0])
        out["weight_zero_point"] = ("I32", [height, layer.groups],
                                    words([columns[g][r] for r in range(height) for g in range(layer.groups)]))
    if with_order or unset:
        out["weight_g_idx"] = ("I32", [layer.k], words(layer.order if with_order else [0xffffffff] * layer.k))
    return out


def bf16(x):
    return struct.unpack("<f", b"\0\0" + struct.pack("<f", x)[2:])[0]


class Ternary:
    """Random codes [n][k] of 0, 1, 2 and a scale; weight (code - 1) x scale, or the nearest half of 1 / scale."""

    def __init__(self, rng, k, n, divides):
        self.k, self.n = k, n
        self.scale = bf16(rng.uniform(0.5, 40))
        self.factor = f16(1 / self.scale) if divides else self.scale
        self.code = [[rng.choice((0, 1, 2)) for _ in range(k)] for _ in range(n)]

    def values(self):
        return [(c - 1) * self.factor for row in self.code for c in row]


def bitnet(layer, stride=True):
    """Four rows to a byte: a quarter of the matrix apart, or (a fault) neighbours."""
    quarter = layer.n // 4
    at = (lambda r, i: r + i * quarter) if stride else (lambda r, i: 4 * r + i)
    packed = bytes(sum(layer.code[at(r, i)][c] << (2 * i) for i in range(4)) for r in range(quarter)
                   for c in range(layer.k))
    return {"weight": ("U8", [quarter, layer.k], packed),
            "weight_scale": ("BF16", [1], struct.pack("<f", layer.scale)[2:])}


def save(folder, tensors, config, **more):
    os.makedirs(folder, exist_ok=True)
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(folder + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    base = {"architectures": ["LlamaForCausalLM"], "hidden_size": D, "num_hidden_layers": 1, "intermediate_size": FF,
            "num_attention_heads": HEADS, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "vocab_size": VOCAB,
            "hidden_act": "silu", "tie_word_embeddings": True, "rope_theta": 10000.0}
    base.update(more)
    if config:
        base["quantization_config"] = config
    json.dump(base, open(folder + "/config.json", "w"))
    model = {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "merges": ["a b"],
             "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3}}
    json.dump({"added_tokens": [], "model": model, "normalizer":
               {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}},
              open(folder + "/tokenizer.json", "w"))


def tensors_of(path):
    """Names and bytes of a GGUF file's tensors."""
    raw = open(path, "rb").read()
    at = [8]

    def take(form):
        v = struct.unpack_from("<" + form, raw, at[0])
        at[0] += struct.calcsize("<" + form)
        return v if len(v) > 1 else v[0]

    def text():
        n = take("Q")
        at[0] += n
        return raw[at[0] - n:at[0]]

    def value(kind):
        if kind == 8:
            text()
        elif kind == 9:
            kind, n = take("IQ")
            for _ in range(n):
                value(kind)
        else:
            at[0] += {0: 1, 1: 1, 2: 2, 3: 2, 7: 1, 10: 8, 11: 8, 12: 8}.get(kind, 4)

    n_tensor, n_key = take("QQ")
    for _ in range(n_key):
        text()
        value(take("I"))
    infos = []
    for _ in range(n_tensor):
        name, n_dim = text(), take("I")
        size = 4
        for _ in range(n_dim):
            size *= take("Q")
        kind, offset = take("IQ")
        assert kind == 0, "not F32"
        infos.append((name, size, offset))
    start = (at[0] + 31) // 32 * 32
    return {name: struct.unpack("<%df" % (size // 4), raw[start + offset:start + offset + size])
            for name, size, offset in infos}


def convert(lutra, folder, out, *more):
    done = subprocess.run([lutra, "quantize", "-q", "--allow-requantize", *more, folder, out, "F32"],
                          capture_output=True, text=True)
    return tensors_of(out) if done.returncode == 0 else done.stderr or "status %d" % done.returncode


def rest(rng):
    """What is not quantized."""
    out = {"model.embed_tokens.weight": ("F32", [VOCAB, D], f32s([rng.gauss(0, 1) for _ in range(VOCAB * D)]))}
    for name in ("model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"):
        out[name + ".weight"] = ("F32", [D], f32s([1.0] * D))
    return out


def case(lutra, folder, rng, pack, config, make, *more):
    """Whether packed (opened with options, maybe) and plain layers give the same; or the message of the refusal."""
    layers = {name: make(*size) for name, size in LINEARS.items()}
    same = rest(rng)
    packed, plain = dict(same), dict(same)
    for name, layer in layers.items():
        base = "model.layers.0." + name
        plain[base + ".weight"] = ("F32", [layer.n, layer.k], f32s(layer.values()))
        for part, tensor in pack(layer).items():
            packed[base + "." + part] = tensor
    save(folder + "/plain", plain, None)
    save(folder + "/packed", packed, config)
    want = convert(lutra, folder + "/plain", folder + "/a.gguf")
    got = convert(lutra, folder + "/packed", folder + "/b.gguf", *more)
    assert not isinstance(want, str), want
    return got if isinstance(got, str) else got == want


def granite4(lutra, folder, rng):
    """Granite 4's gate and up in one: two tensors of the model, of floats and packed."""
    base = "model.layers.0.shared_mlp."
    wide, down = Layer(rng, D, 2 * FF, 4, 32, False, False), Layer(rng, FF, D, 4, 32, False, False)
    plain = rest(rng)
    for name in ("q", "k", "v", "o"):
        plain["model.layers.0.self_attn.%s_proj.weight" % name] = ("F32", [D, D], f32s([0.5] * (D * D)))
    packed = dict(plain)
    for name, layer in (("input_linear", wide), ("output_linear", down)):
        plain[base + name + ".weight"] = ("F32", [layer.n, layer.k], f32s(layer.values()))
        for part, tensor in gptq(layer, 2, False).items():
            packed[base + name + "." + part] = tensor
    says = {"architectures": ["GraniteMoeHybridForCausalLM"], "layer_types": ["attention"], "num_local_experts": 0,
            "shared_intermediate_size": FF}
    save(folder + "/plain", plain, None, **says)
    save(folder + "/packed", packed, SAYS_V2, **says)
    want = convert(lutra, folder + "/plain", folder + "/a.gguf")
    got = convert(lutra, folder + "/packed", folder + "/b.gguf")
    halves = {b"blk.0.ffn_gate.weight", b"blk.0.ffn_up.weight"}
    return got if isinstance(got, str) else halves <= set(want) and want == got


def imported(lutra, folder, rng, want, change=lambda parts: parts, bits=4, symmetric=True, group=32, shuffled=False,
             zeros=None):
    """`lutra import` of GPTQ."""
    return imported_as(lutra, folder, rng, want, lambda l: change(gptq(l, 2, True)), SAYS_V2, lambda k, m: Layer(
        rng, k, m, bits, group, symmetric, shuffled, zeros=zeros))


def held(lutra, folder, rng, want, make):
    """The layers of a GPTQ folder are of the wanted type and have their values."""
    done = case(lutra, folder, rng, lambda l: gptq(l, 2, True), SAYS_V2, make)
    shown = json.loads(subprocess.check_output([lutra, "inspect", "--json", folder + "/packed"]))
    types = {t["type"] for t in shown["tensors"] if t["name"].startswith("blk.") and len(t["shape"]) == 2}
    return (types == {want} and done) or (types, done)


def imported_as(lutra, folder, rng, want, pack, config, make):
    """`lutra import`: the layers become the wanted type and keep their values, or are refused for the wanted reason."""
    packed, plain, out = rest(rng), {}, folder + "/out.gguf"
    for name, size in LINEARS.items():
        layer = make(*size)
        base = "model.layers.0." + name
        plain[base + ".weight"] = ("F32", [layer.n, layer.k], f32s(layer.values()))
        packed.update({base + "." + part: t for part, t in pack(layer).items()})
    save(folder + "/packed", packed, config)
    done = subprocess.run([lutra, "import", "-q", folder + "/packed", out], capture_output=True, text=True)
    if done.returncode or not os.path.exists(out):
        assert not [name for name in os.listdir(folder) if name.startswith("out.gguf")]
        return done.returncode == 1 and want in done.stderr or done.stderr
    shown = json.loads(subprocess.check_output([lutra, "inspect", "--json", out]))
    types = {t["type"] for t in shown["tensors"] if t["name"].startswith("blk.") and len(t["shape"]) == 2}
    save(folder + "/plain", {**{k: t for k, t in packed.items() if k.endswith("norm.weight") or "embed" in k}, **plain},
         None)
    same = convert(lutra, out, folder + "/b.gguf") == convert(lutra, folder + "/plain", folder + "/a.gguf")
    os.remove(out)
    return (types == {want} and same) or (types, same)


def main():
    lutra, rng, n = sys.argv[1], random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1), 0
    with tempfile.TemporaryDirectory() as folder:
        def expect(what, result, want=True):
            nonlocal n
            n += 1
            ok = want in result if isinstance(want, str) and isinstance(result, str) else result == want
            if not ok:
                sys.exit("packed.py: %s: %s" % (what, result))

        expect("Granite 4", granite4(lutra, folder, rng))
        for bits in (2, 3, 4, 8):
            for symmetric in (True, False):
                for version in (1, 2):
                    group, shuffled = rng.choice((32, 64)), rng.random() < 0.3
                    label = version if bits == 8 and not symmetric else rng.choice((1, 2))
                    expect("GPTQ %d bits, symmetric %s, v%d said to be v%d, groups of %d, shuffled %s" % (
                        bits, symmetric, version, label, group, shuffled),
                        case(lutra, folder, rng, lambda l: gptq(l, version, shuffled or rng.random() < 0.5),
                             {"quant_method": "gptq", "checkpoint_format": "gptq_v2" if label == 2 else "gptq"},
                             lambda k, m: Layer(rng, k, m, bits, group, symmetric, shuffled)))
        for group in (32, 64):
            expect("AWQ, groups of %d" % group, case(lutra, folder, rng, awq, {"quant_method": "awq",
                                                                               "version": "gemm"},
                                                     lambda k, m: Layer(rng, k, m, 4, group, False, False)))
        for bits in (3, 4, 8):
            for symmetric in (True, False):
                for shuffled in (False, True):
                    expect("compressed-tensors, %d bits, symmetric %s, shuffled %s" % (bits, symmetric, shuffled),
                           case(lutra, folder, rng, lambda l: compressed(l, symmetric, shuffled),
                                {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups":
                                 {"group_0": {"weights": {"num_bits": bits, "type": "int"}}}},
                                lambda k, m: Layer(rng, k, m, bits, 32, symmetric, shuffled)))

        global D, FF, LINEARS
        for size in (64, 256, 96):  # Q2_0, TQ2_0, and F32
            D = FF = size
            LINEARS = {name: (size, size) for name in LINEARS}
            for divides in (False, True):
                if size == 96 and divides:
                    continue  # nothing is rounded to a half there
                method = {"quant_method": "bitnet", "linear_class": "bitlinear" if divides else "autobitlinear"}
                expect("BitNet, rows of %d, divides %s" % (size, divides),
                       case(lutra, folder, rng, bitnet, method, lambda k, m: Ternary(rng, k, m, divides)))
                expect("import, BitNet, rows of %d, divides %s" % (size, divides), imported_as(
                    lutra, folder, rng, "16 bits do not hold" if divides else "blocks of 64" if size == 96 else
                    "Q2_0" if size == 64 else "TQ2_0", bitnet, method, lambda k, m: Ternary(rng, k, m, divides)))
            if size == 64:
                for what, fault, change in (
                        ("chunks of neighbours", lambda l: bitnet(l, False), method),
                        ("the scale multiplied", bitnet, {**method, "linear_class": "autobitlinear"})):
                    expect("BitNet, " + what, case(lutra, folder, rng, fault, change, lambda k, m: Ternary(
                        rng, k, m, True)), False)
                for what, change, want in (
                        ("online", {"quantization_mode": "online"}, "'online'"),
                        ("norms inside", {"use_rms_norm": True}, "'use_rms_norm'"),
                        ("another class", {"linear_class": "bitnet"}, "'bitnet'")):
                    expect("BitNet, " + what, case(lutra, folder, rng, bitnet, {**method, **change},
                                                   lambda k, m: Ternary(rng, k, m, True)), want)
                expect("BitNet, floats with scales", case(
                    lutra, folder, rng, lambda l: {"weight": ("F32", [l.n, l.k], f32s(l.values())), "weight_scale":
                                                   bitnet(l)["weight_scale"]},
                    method, lambda k, m: Ternary(rng, k, m, True)), "weight_scale'")
                expect("BitNet without scales", case(
                    lutra, folder, rng, lambda l: {"weight": bitnet(l)["weight"]}, method,
                    lambda k, m: Ternary(rng, k, m, True)), "no 'weight_scale'")
        D, FF = 64, 64
        LINEARS = {name: (D, D) for name in LINEARS}

        def scales_of_32(parts):
            scale = [rng.uniform(0.001, 0.02) for _ in range(len(parts["scales"][2]) // 2)]
            return {**parts, "scales": ("F32", parts["scales"][1], f32s(scale))}

        expect("import, 4 bits", imported(lutra, folder, rng, "Q4_0"))
        expect("import, 4 bits, asymmetric", imported(lutra, folder, rng, "Q5_0", symmetric=False))
        expect("import, zeros of 7 and 8", imported_as(lutra, folder, rng, "Q5_0", lambda l: gptq(l, 2, True), {
            "quant_method": "gptq", "checkpoint_format": "gptq_v2"}, middle(rng)))
        expect("import, 2 bits", imported(lutra, folder, rng, "Q2_0", bits=2, group=64))
        expect("import, 2 bits, zeros of 1 and 2", imported(lutra, folder, rng, "Q2_0", bits=2, group=64, zeros=(1, 2)))
        expect("import, 2 bits, a zero of 0", imported(lutra, folder, rng, "Q4_0", bits=2, group=64, zeros=(0, 1, 2)))
        expect("import, 3 bits", imported(lutra, folder, rng, "Q4_0", bits=3, group=64, zeros=range(8)))
        expect("import, 4 bits, groups of 64", imported(lutra, folder, rng, "Q5_0", group=64, zeros=range(16)))
        for bits, group, zeros, want in ((2, 64, (1, 2), "Q2_0"), (2, 64, (0, 1, 2, 3), "W2"), (2, 32, (2,), "Q4_0"),
                                         (3, 64, (4,), "W3"), (3, 64, range(8), "W3"), (4, 64, (8,), "Q4_0"),
                                         (4, 64, range(16), "W4"), (4, 32, range(16), "Q5_0")):
            expect("%d bits, groups of %d, zeros of %s: in memory" % (bits, group, zeros), held(
                lutra, folder, rng, want, lambda k, m: Layer(rng, k, m, bits, group, False, False, zeros=zeros)))
        expect("shuffled groups of unequal sizes: in memory", held(lutra, folder, rng, "F32", unequal(rng)))
        expect("import, 2 bits, groups of 32", imported(lutra, folder, rng, "Q4_0", bits=2))
        expect("import, 8 bits", imported(lutra, folder, rng, "Q8_0", bits=8))
        expect("import, shuffled", imported(lutra, folder, rng, "desc_act", shuffled=True))
        for what, layer, scales in (("shuffled", lambda k, m: Layer(rng, k, m, 4, 32, False, True), lambda parts: parts),
                                    ("scales of 32 bits", lambda k, m: Layer(rng, k, m, 4, 32, False, False), scales_of_32)):
            case(lutra, folder, rng, lambda l: scales(gptq(l, 2, True)), SAYS_V2, layer)
            again = [lutra, "quantize", folder + "/packed", folder + "/out.gguf", "Q4_0"]
            done = subprocess.run(again, capture_output=True, text=True)
            expect("quantized again, " + what, done.stderr,
                   "'blk.0.ffn_down.weight' is quantized already; quantizing it again needs allow-requantize")
            expect("quantized again, as asked, " + what, subprocess.run(
                again + ["--allow-requantize"], capture_output=True, text=True).returncode, 0)
            os.remove(folder + "/out.gguf")
        expect("import, groups of 16", imported(lutra, folder, rng, "blocks of 32", group=16))
        expect("import, scales of 32 bits", imported(lutra, folder, rng, "16 bits do not hold", scales_of_32))

        # Faults: caught as other values, or refused.
        def usual(k, m):
            return Layer(rng, k, m, 4, 32, False, False)

        def without(part, pack):
            return lambda l: {name: t for name, t in pack(l).items() if name != part}

        def cut(part, pack):
            def out(l):
                tensors = pack(l)
                dtype, shape, raw = tensors[part]
                tensors[part] = (dtype, [shape[0] // 2] + shape[1:], raw[:len(raw) // 2])
                return tensors
            return out

        def turned(l):
            tensors = gptq(l, 2, False)
            dtype, shape, raw = tensors["scales"]
            tensors["scales"] = (dtype, shape[::-1], raw)
            return tensors

        def narrow(l):
            tensors = gptq(l, 2, False)
            dtype, shape, raw = tensors["scales"]
            tensors["scales"] = (dtype, [shape[0], shape[1] // 2], raw[:len(raw) // 2])
            return tensors

        def beyond(l):
            l.order[3] = l.groups
            return {**gptq(l, 2, False), "g_idx": ("I32", [l.k], words(l.order))}

        config = {"quant_method": "gptq"}
        expect("AWQ in the order of columns", case(lutra, folder, rng, lambda l: awq(l, tuple(range(8))), {
            "quant_method": "awq"}, usual), False)
        expect("shuffled groups without their order", case(lutra, folder, rng, lambda l: gptq(l, 2, False), config,
               lambda k, m: Layer(rng, k, m, 4, 32, False, True)), False)
        expect("transposed scales", case(lutra, folder, rng, turned, config, lambda k, m: Layer(
            rng, k, m, 4, 32, False, False)), "do")
        expect("scales of half the outputs", case(lutra, folder, rng, narrow, config, usual), "do not fit together")
        for part in ("scales", "qzeros"):
            expect("without " + part, case(lutra, folder, rng, without(part, lambda l: gptq(l, 1, True)), config,
                                           usual),
                   "no scales or no zeros")
        for part in ("qweight", "scales", "qzeros", "g_idx"):
            expect("half of " + part, case(lutra, folder, rng, cut(part, lambda l: gptq(l, 1, True)), config, usual),
                   "quantized layer")
        expect("order beyond the groups", case(lutra, folder, rng, beyond, config, usual), "beyond their number")
        expect("AWQ gemv", case(lutra, folder, rng, awq, {"quant_method": "awq", "version": "gemv"}, usual), "'gemv'")
        expect("another method", case(lutra, folder, rng, awq, {"quant_method": "bitsandbytes"}, usual),
               "'bitsandbytes'")

        # Zeros that the data do not tell: refused without --zeros, shown by inspect; and files without any.
        def told(*more):
            return case(lutra, folder, rng, lambda l: gptq(l, 2, False), config, half_way(rng), *more)

        def said(command, *arguments):
            done = subprocess.run([lutra, command, *arguments], capture_output=True, text=True)
            return done.stderr if done.returncode else done.stdout

        packed, plain, out = folder + "/packed", folder + "/plain", folder + "/out.gguf"
        expect("codes spread around half a code", told(), "--zeros v1 or v2 says it")
        expect("the same, by run", said("run", "-m", packed, "-p", "a"), "--zeros v1 or v2 says it")
        expect("the same, shown", said("inspect", packed), "cannot be told (lutra.zeros): --zeros v1 or v2 says it")
        for line in said("inspect", packed, "--tensors").splitlines():
            if line.startswith("  lutra.zeros  "):
                expect("the same, whole", line, "; label v1")
                expect("the same, whole", line.endswith("; label v1"))
            if "attn_q" in line:
                means = line.split()[-7:]
        q = next(t for t in json.loads(said("inspect", packed, "--json"))["tensors"] if "attn_q" in t["name"])["zeros"]
        expect("the same, a matrix", abs(q["v1"] + 0.5) < 0.05 and abs(q["v2"] - 0.5) < 0.05 and q["v2"] - q["v1"] == 1)
        expect("the same, listed", " ".join(means), "v1 %.3f, as v2 %.3f" % (q["v1"], q["v2"]))
        expect("the same, its figures", said("inspect", packed, "--kv", "lutra.zeros"),
               "undecided 7; mean code as v1 -0.")
        expect("read as it is", told("--zeros", "v2"))
        for says, want in (("gptq_v2", True), ("gptq", "--zeros v1 or v2 says it")):
            expect("undecided, and labelled " + says, case(lutra, folder, rng, lambda l: gptq(l, 2, False), {
                "quant_method": "gptq", "checkpoint_format": says}, half_way(rng)), want)
        for bits in (5, 6):
            expect("compressed-tensors of %d bits" % bits, case(lutra, folder, rng, lambda l: compressed(
                l, True, False), {"quant_method": "compressed-tensors", "format": "pack-quantized"},
                lambda k, m: Layer(rng, k, m, bits, 32, True, False)),
                "codes of %d bits, where 2, 3, 4 and 8 are implemented" % bits)
        case(lutra, folder, rng, lambda l: gptq(l, 2, False), config, half_way(rng))  # what is run below
        expect("read otherwise", told("--zeros", "v1"), False)
        expect("by run", "--zeros" in said("run", "-m", packed, "-p", "a", "-n", "1", "--zeros", "v1"), False)
        one = ["-m", packed, "-p", "8", "-n", "1", "-r", "1", "--no-peaks", "--no-warmup"]
        expect("by bench, undecided", said("bench", *one), "--zeros v1 or v2 says it")
        expect("by bench", said("bench", *one, "--zeros", "v2"), "tg1")
        expect("by bench, one of two", said("bench", "-m", plain, *one, "--zeros", "v2").count("tg1"), 2)
        expect("packed, undecided", said("pack", packed, "-o", out), "--zeros v1 or v2 says it")
        expect("packed", said("pack", packed, "-o", out, "--zeros", "v2"), "out.gguf")
        for way, want in (("v2", "matrices mapped from it"), ("v1", "with another header")):  # other values
            ran = subprocess.run([lutra, "run", "-m", packed, "-p", "a", "-n", "1", "-v", "--packed", out, "--zeros", way],
                                 capture_output=True, text=True)
            expect("packed so, read as " + way, ran.stderr, want)
        expect("tokens need no weights", said("tokenize", "-m", packed, "-p", "ab", "--ids"), "[")
        draft = ["run", "-p", "a", "-n", "1", "--model-draft"]
        expect("draft, undecided", said(*draft, packed, "-m", plain), packed + ": whether zeros are stored less one")
        expect("draft", "--zeros" in said(*draft, packed, "-m", plain, "--zeros", "v2"), False)
        expect("main model", "--zeros" in said(*draft, plain, "-m", packed, "--zeros", "v2"), False)
        expect("neither", said(*draft, plain, "-m", plain, "--zeros", "v2"), "plain: --zeros v2: no folder with layers")
        expect("main model alone", said("run", "-m", plain, "-p", "a", "--zeros", "v2"), "--zeros v2: no folder with")
        expect("imported", said("import", "--zeros", "v2", packed, out), "out.gguf")
        expect("imported, its values", convert(lutra, out, out + "2") == convert(lutra, plain, out + "2"))
        expect("data that tell, read otherwise", case(lutra, folder, rng, lambda l: gptq(l, 2, False), config, usual,
                                                      "--zeros", "v1"), False)
        expect("a wrong label", case(lutra, folder, rng, lambda l: gptq(l, 1, False), {
            "quant_method": "gptq", "checkpoint_format": "gptq_v2"}, usual))
        for command in (["import", packed, out], ["quantize", packed, out, "COPY"], ["run", "-m", packed, "-p", "a", "-n", "1"],
                        ["quantize", packed, out, "Q8_0", "--allow-requantize"]):
            told_of = subprocess.run([lutra, *command], capture_output=True, text=True).stderr
            expect("a wrong label, " + command[0], told_of.count(
                "packed: its zeros are stored otherwise than config.json says: v1; layers for v1 7"), 1)
        expect("a wrong label, inspect", said("inspect", packed), "warnings\n  " + packed + ": its zeros are stored otherwise")
        for what, pack, method in (("AWQ", awq, {"quant_method": "awq"}), ("compressed-tensors", lambda l: compressed(
                l, False, False), {"quant_method": "compressed-tensors", "format": "pack-quantized"})):
            expect("--zeros, " + what, case(lutra, folder, rng, pack, method, usual, "--zeros", "v1"),
                   "--zeros v1: no folder with layers of GPTQ")
        for path in (plain, out):
            expect("--zeros, " + path, convert(lutra, path, out + "2", "--zeros", "v2"),
                   "--zeros v2: no folder with layers of GPTQ")
    print("%d cases" % n)


def middle(rng):
    """Layers of which only the least zeros and the largest codes are too far apart for a signed number of 4 bits."""
    def make(k, m):
        layer = Layer(rng, k, m, 4, 32, False, False)
        layer.zero = [[rng.choice((7, 8)) for _ in row] for row in layer.zero]
        layer.code = [[rng.choice((0, 15)) if rng.random() < 0.1 else 8 for _ in row] for row in layer.code]
        return layer
    return make


def unequal(rng):
    """Shuffled groups, one of which has taken an input of another's."""
    def make(k, m):
        layer = Layer(rng, k, m, 4, 32, False, True)
        layer.order[0] = (layer.order[0] + 1) % layer.groups
        return layer
    return make


def half_way(rng):
    """Layers whose codes are half a code below their zeros: both readings are as good."""
    def make(k, m):
        layer = Layer(rng, k, m, 4, 32, False, False)
        layer.code = [[min(15, max(0, layer.zero[layer.order[i]][j] + (0 if (i + j) % 2 else 1))) for j in range(m)]
                      for i in range(k)]
        return layer
    return make


if __name__ == "__main__":
    main()
