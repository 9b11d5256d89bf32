#!/usr/bin/python3
"""Hidden states and scores of small encoders and rankers by their makers' formula, in 64 bits.

usage: encoder.py MODEL.gguf N FIRST     token_at(0) .. token_at(N - 1) (tests/unit/engine/engine_fixture.h) as one text,
                                         of which the first FIRST tokens belong to the first of two texts

A line for each token's state after the last norm; then one with the text's vector as the file pools it (not of length
1), or, where it ranks, its score.

Written after transformers' modeling_bert.py, modeling_gemma3.py and modeling_qwen3.py, Nomic's modeling_hf_nomic_bert.py
and sentence-transformers' Dense; nothing is shared with the engine.  F32 files of bert, nomic-bert, gemma-embedding and
qwen3.
"""
import math
import sys

from linear import File, dot


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def softmax(x):
    p = [math.exp(a - max(x)) for a in x]
    return [a / sum(p) for a in p]


def gelu(x):
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x):
    return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def silu(x):
    return x / (1 + math.exp(-x)) if x > -700 else 0.0


class Model:
    def __init__(self, file):
        self.t = file.tensor
        self.arch = file.key["general.architecture"]
        self.key = lambda name, other=None: file.key.get(f"{self.arch}.{name}", other)
        self.n_layer, self.n_head = self.key("block_count"), self.key("attention.head_count")
        self.n_kv = self.key("attention.head_count_kv", self.n_head)
        self.d = self.key("attention.key_length", self.key("embedding_length") // self.n_head)
        self.is_gemma, self.is_bert = self.arch == "gemma-embedding", self.arch.endswith("bert")
        self.whole = self.arch != "qwen3"
        self.pooling = self.key("pooling_type")

    def linear(self, x, name):
        y = [self.t[name + ".weight"].times(a) for a in x]
        return [add(a, self.t[name + ".bias"][0]) for a in y] if name + ".bias" in self.t else y

    def rms_norm(self, x, name):
        r = 1 / math.sqrt(dot(x, x) / len(x) + self.key("attention.layer_norm_rms_epsilon"))
        return [a * r * w for a, w in zip(x, self.t[name + ".weight"][0])]

    def norm(self, x, name):
        """Of all rows: LayerNorm of the BERTs, else RMSNorm."""
        if not self.is_bert:
            return [self.rms_norm(a, name) for a in x]
        out = []
        for a in x:
            mean = sum(a) / len(a)
            a = [v - mean for v in a]
            r = 1 / math.sqrt(dot(a, a) / len(a) + self.key("attention.layer_norm_epsilon"))
            out.append([v * r * w + b for v, w, b in zip(a, self.t[name + ".weight"][0], self.t[name + ".bias"][0])])
        return out

    def window(self, layer):
        return self.key("attention.sliding_window", 0) if self.is_gemma and (layer + 1) % 6 else 0

    def rotate(self, x, pos, layer):
        if self.arch == "bert":
            return x
        base = 10000.0 if self.window(layer) else self.key("rope.freq_base")
        half, out = len(x) // 2, list(x)
        for i in range(half):
            angle = pos * base ** (-2 * i / len(x))
            out[i] = x[i] * math.cos(angle) - x[half + i] * math.sin(angle)
            out[half + i] = x[half + i] * math.cos(angle) + x[i] * math.sin(angle)
        return out

    def heads(self, rows, n, layer, norm=None, turns=True):
        """[position][head][d], normed and rotated."""
        out = []
        for pos, row in enumerate(rows):
            h = [row[i * self.d : (i + 1) * self.d] for i in range(n)]
            h = [self.rms_norm(a, norm) for a in h] if norm else h
            out.append([self.rotate(a, pos, layer) for a in h] if turns else h)
        return out

    def attention(self, x, b, layer):
        n, dq, dkv = len(x), self.n_head * self.d, self.n_kv * self.d
        if b + "attn_qkv.weight" in self.t:
            all_ = self.linear(x, b + "attn_qkv")
            q, k, v = [a[:dq] for a in all_], [a[dq : dq + dkv] for a in all_], [a[dq + dkv :] for a in all_]
        else:
            q, k, v = (self.linear(x, b + "attn_" + m) for m in "qkv")
        normed = not self.is_bert
        q = self.heads(q, self.n_head, layer, b + "attn_q_norm" if normed else None)
        k = self.heads(k, self.n_kv, layer, b + "attn_k_norm" if normed else None)
        v = self.heads(v, self.n_kv, layer, turns=False)
        half, out = self.window(layer) // 2, []
        for i in range(n):
            seen = [j for j in range(n) if (self.whole or j <= i) and (not half or abs(i - j) <= half)]
            row = []
            for h in range(self.n_head):
                kv = h // (self.n_head // self.n_kv)
                p = softmax([dot(q[i][h], k[j][kv]) / math.sqrt(self.d) for j in seen])
                row += [dot(p, c) for c in zip(*(v[j][kv] for j in seen))]
            out.append(row)
        return self.linear(out, b + "attn_output")

    def feed_forward(self, x, b):
        u = self.linear(x, b + "ffn_up")
        if self.arch == "bert":
            return self.linear([[gelu(a) for a in r] for r in u], b + "ffn_down")
        act, g = gelu_tanh if self.is_gemma else silu, self.linear(x, b + "ffn_gate")
        return self.linear([[act(a) * c for a, c in zip(*r)] for r in zip(g, u)], b + "ffn_down")

    def layer(self, x, i):
        b = f"blk.{i}."
        if self.is_bert:
            x = self.norm(list(map(add, x, self.attention(x, b, i))), b + "attn_output_norm")
            return self.norm(list(map(add, x, self.feed_forward(x, b))), b + "layer_output_norm")
        y = self.attention(self.norm(x, b + "attn_norm"), b, i)
        x = list(map(add, x, self.norm(y, b + "post_attention_norm") if self.is_gemma else y))
        y = self.feed_forward(self.norm(x, b + "ffn_norm"), b)
        return list(map(add, x, self.norm(y, b + "post_ffw_norm") if self.is_gemma else y))

    def states(self, tokens, n_first):
        x = [list(self.t["token_embd.weight"][t]) for t in tokens]
        if self.is_gemma:
            x = [[a * math.sqrt(len(r)) for a in r] for r in x]
        if self.is_bert:
            x = [add(r, self.t["token_types.weight"][int(i >= n_first)]) for i, r in enumerate(x)]
        if self.arch == "bert":
            x = [add(r, self.t["position_embd.weight"][i]) for i, r in enumerate(x)]
        if self.is_bert:
            x = self.norm(x, "token_embd_norm")
        for i in range(self.n_layer):
            x = self.layer(x, i)
        return x if self.is_bert else self.norm(x, "output_norm")

    def pooled(self, x):
        if self.pooling == 1:
            y = [sum(c) / len(x) for c in zip(*x)]
            for name in ("dense_2", "dense_3"):
                if name + ".weight" in self.t:
                    y = self.linear([y], name)[0]
            return y
        y = x[0] if self.pooling == 2 or (self.pooling == 4 and self.whole) else x[-1]
        if self.pooling != 4:
            return y
        if "cls.weight" in self.t:
            y = [math.tanh(a) for a in self.linear([y], "cls")[0]]
        y = self.linear([y], "cls.output")[0]
        return softmax(y)[:1] if len(y) == 2 else y


def main():
    model, n, n_first = Model(File(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    x = model.states([(i * 7919 + 13) % 251 for i in range(n)], n_first)
    for row in x + [model.pooled(x)]:
        print(*(f"{v:.9g}" for v in row))


main()
