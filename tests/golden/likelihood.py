#!/usr/bin/python3
"""Adds to prm_scores.json what the likelihood kind of verifier must say: every step's probability under a model.

usage: likelihood.py MODEL.gguf prm_scores.json     (needs numpy)

float64 but for the cache; nothing is shared with the engine.

A step's reward is exp(sum over its tokens of log p(token | prompt and all solution tokens before)).
"""
import json
import struct
import sys

import numpy as np

SCALAR = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Gguf:
    """Keys and tensors (F32 and F16 only) of a GGUF file."""

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
            where.append((name, shape[::-1], self.read("I"), self.read("Q")))
        base = (self.at + 31) // 32 * 32
        self.tensor = {}
        for name, shape, kind, offset in where:
            flat = np.frombuffer(self.data, [np.float32, np.float16][kind], int(np.prod(shape)), base + offset)
            self.tensor[name] = flat.reshape(shape).astype(np.float64)

    def read(self, form):
        (v,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return v

    def text(self):
        n = self.read("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            elem, n = self.read("I"), self.read("Q")
            return [self.value(elem) for _ in range(n)]
        return self.read(SCALAR[kind])


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(x, base):
    """x [tokens][heads][d]: the first half of each head turned against the second."""
    n, half = x.shape[0], x.shape[2] // 2
    angle = np.outer(np.arange(n), base ** (-np.arange(half) / half))[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def cached(x):
    """What the engine's cache, F16 unless asked otherwise, keeps of x."""
    return x.astype(np.float16).astype(np.float64)


def log_probs(model, ids):
    """log p(ids[i + 1] | ids[..i]) for all i but the last."""
    t, key = model.tensor, model.key
    heads, kv = key["qwen2.attention.head_count"], key["qwen2.attention.head_count_kv"]
    eps, base = key["qwen2.attention.layer_norm_rms_epsilon"], key.get("qwen2.rope.freq_base", 10000.0)
    n, x = len(ids), t["token_embd.weight"][ids]
    mask = np.triu(np.full((n, n), -np.inf), 1)
    for i in range(key["qwen2.block_count"]):
        w = {k.split(".", 2)[2]: v for k, v in t.items() if k.startswith(f"blk.{i}.")}
        y = rms_norm(x, w["attn_norm.weight"], eps)
        q, k, v = ((y @ w[f"attn_{c}.weight"].T + w[f"attn_{c}.bias"]).reshape(n, h, -1)
                   for c, h in (("q", heads), ("k", kv), ("v", kv)))
        q, k, v = rotate(q, base), cached(rotate(k, base)), cached(v)
        out = np.empty_like(q)
        for h in range(heads):
            s = q[:, h] @ k[:, h * kv // heads].T / np.sqrt(q.shape[2]) + mask
            s = np.exp(s - s.max(-1, keepdims=True))
            out[:, h] = s / s.sum(-1, keepdims=True) @ v[:, h * kv // heads]
        x = x + out.reshape(n, -1) @ w["attn_output.weight"].T
        y = rms_norm(x, w["ffn_norm.weight"], eps)
        gate = y @ w["ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w["ffn_up.weight"].T)) @ w["ffn_down.weight"].T
    z = rms_norm(x, t["output_norm.weight"], eps) @ t.get("output.weight", t["token_embd.weight"]).T
    z = z - z.max(-1, keepdims=True)
    z = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return z[np.arange(n - 1), ids[1:]]


def main(path, golden):
    model = Gguf(path)
    with open(golden) as f:
        records = json.load(f)
    for r in records:
        log_p = log_probs(model, r["prompt"] + r["solution"])[len(r["prompt"]) - 1:]
        r["likelihood"] = [float(np.exp(log_p[a:b].sum())) for a, b in zip([0] + r["step_end"], r["step_end"])]
    with open(golden, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
