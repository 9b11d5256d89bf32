#!/usr/bin/python3
"""Logits of a small BitNet b1.58 file by the makers' formula, in 64 bits: rows for tiny-logits.txt and test_bitnet.c.

usage: bitnet.py MODEL.gguf N [--as-trained] [--apart=LENGTH]

After token_at(0) .. token_at(N - 1) (tests/unit/engine/engine_fixture.h).  Nothing is shared with the engine.
--apart: a line after each of them, and every LENGTH of them are a sequence by themselves.
--as-trained: what goes into a layer's matrices is rounded to 8 bits with one scale per row, as the models were trained
(transformers' ActQuant); the engine does that with ternary types, and not with floats.
"""
import math
import operator
import struct
import sys

STRING, ARRAY = 8, 9
SCALAR = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
F32, F16, TQ2_0, Q2_0 = 0, 1, 35, 42


class Gguf:
    """Keys, and tensors as lists of rows."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.at = 0
        _, _, n_tensor, n_key = self.read("4s"), self.read("I"), self.read("Q"), self.read("Q")
        self.key = {}
        for _ in range(n_key):
            name = self.text()
            self.key[name] = self.value(self.read("I"))
        where = []
        for _ in range(n_tensor):
            name = self.text()
            shape = [self.read("Q") for _ in range(self.read("I"))]
            where.append((name, shape, self.read("I"), self.read("Q")))
        base = (self.at + 31) // 32 * 32
        self.tensor = {name: self.rows(kind, shape, base + at) for name, shape, kind, at in where}

    def read(self, kind):
        (x,) = struct.unpack_from("<" + kind, self.data, self.at)
        self.at += struct.calcsize("<" + kind)
        return x

    def text(self):
        n = self.read("Q")
        self.at += n
        return self.data[self.at - n : self.at].decode("utf-8", "replace")

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            elem, n = self.read("I"), self.read("Q")
            return [self.value(elem) for _ in range(n)]
        return self.read(SCALAR[kind])

    def rows(self, kind, shape, at):
        n, n_row = shape[0], math.prod(shape[1:])
        if kind == TQ2_0:
            flat = []
            for b in range(at, at + n * n_row // 256 * 66, 66):
                (d,) = struct.unpack_from("<e", self.data, b + 64)
                flat += [d * ((self.data[b + h + i] >> s & 3) - 1) for h in (0, 32) for s in (0, 2, 4, 6) for i in range(32)]
        elif kind == Q2_0:
            flat = []
            for b in range(at, at + n * n_row // 64 * 18, 18):
                (d,) = struct.unpack_from("<e", self.data, b)
                flat += [d * ((self.data[b + 2 + i // 4] >> i % 4 * 2 & 3) - 1) for i in range(64)]
        else:
            flat = struct.unpack_from(f"<{n * n_row}{ {F32: 'f', F16: 'e'}[kind] }", self.data, at)
        return [flat[i * n : (i + 1) * n] for i in range(n_row)]


def sparse(row):
    """What picks the inputs whose weights are not zero, and those weights; all of them where that is no less work."""
    at = [i for i, w in enumerate(row) if w]
    return (operator.itemgetter(*at), [row[i] for i in at]) if 2 <= len(at) < len(row) / 2 else (list, row)


class Model:
    def __init__(self, file, as_trained):
        self.file, self.as_trained = file, as_trained
        self.matrix = {name[: -len(".weight")]: [sparse(row) for row in rows]
                       for name, rows in file.tensor.items() if len(rows) > 1}
        arch = file.key["general.architecture"]
        key = lambda name: file.key[f"{arch}.{name}"]
        self.n_layer, self.n_head, self.n_kv = (key(k) for k in ("block_count", "attention.head_count", "attention.head_count_kv"))
        self.d_head, self.base = key("attention.key_length"), key("rope.freq_base")
        self.eps = key("attention.layer_norm_rms_epsilon")
        act = file.key.get(f"{arch}.hidden_activation", "silu" if arch == "bitnet" else "relu2")
        self.act = (lambda x: max(x, 0.0) ** 2) if act == "relu2" else (lambda x: x / (1 + math.exp(-x)))
        self.forget()

    def forget(self):
        self.cache = [([], []) for _ in range(self.n_layer)]

    def norm(self, x, name):
        r = 1 / math.sqrt(sum(map(operator.mul, x, x)) / len(x) + self.eps)
        return [a * r * b for a, b in zip(x, self.file.tensor[name + ".weight"][0])]

    def linear(self, x, name, rounded=True):
        if self.as_trained and rounded:
            s = 127 / max(max(map(abs, x)), 1e-5)
            x = [min(max(round(a * s), -128), 127) / s for a in x]
        return [sum(map(operator.mul, weights, pick(x))) for pick, weights in self.matrix[name]]

    def rotate(self, x, pos):
        half = self.d_head // 2
        for h in range(0, len(x), self.d_head):
            for i in range(half):
                angle = pos * self.base ** (-2 * i / self.d_head)
                a, b, c, s = x[h + i], x[h + half + i], math.cos(angle), math.sin(angle)
                x[h + i], x[h + half + i] = a * c - b * s, b * c + a * s
        return x

    def attend(self, q, keys, values):
        out, d = [], self.d_head
        for h in range(self.n_head):
            kv = h // (self.n_head // self.n_kv) * d
            score = [sum(map(operator.mul, q[h * d : h * d + d], k[kv : kv + d])) / math.sqrt(d) for k in keys]
            p = [math.exp(s - max(score)) for s in score]
            out += [sum(w * v[kv + i] for w, v in zip(p, values)) / sum(p) for i in range(d)]
        return out

    def step(self, token, pos):
        x = list(self.file.tensor["token_embd.weight"][token])
        for layer in range(self.n_layer):
            b = f"blk.{layer}."
            keys, values = self.cache[layer]
            y = self.norm(x, b + "attn_norm")
            q, k = (self.rotate(self.linear(y, b + n), pos) for n in ("attn_q", "attn_k"))
            keys.append(k)
            values.append(self.linear(y, b + "attn_v"))
            y = self.linear(self.norm(self.attend(q, keys, values), b + "attn_sub_norm"), b + "attn_output")
            x = [a + c for a, c in zip(x, y)]
            y = self.norm(x, b + "ffn_norm")
            y = [self.act(g) * u for g, u in zip(self.linear(y, b + "ffn_gate"), self.linear(y, b + "ffn_up"))]
            y = self.linear(self.norm(y, b + "ffn_sub_norm"), b + "ffn_down")
            x = [a + c for a, c in zip(x, y)]
        return x

    def logits(self, x):
        return self.linear(self.norm(x, "output_norm"), "token_embd", rounded=False)


def main():
    model = Model(Gguf(sys.argv[1]), "--as-trained" in sys.argv)
    n = int(sys.argv[2])
    apart = next((int(a.split("=")[1]) for a in sys.argv if a.startswith("--apart=")), 0)
    for i in range(n):
        if apart and i % apart == 0:
            model.forget()
        x = model.step((i * 7919 + 13) % 251, i % (apart or n))
        if apart or i == n - 1:
            print(*(f"{v:.6g}" for v in model.logits(x)))


if __name__ == "__main__":
    main()
