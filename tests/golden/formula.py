#!/usr/bin/python3
"""Logits of small models with recurrent layers or experts by their makers' formula, in 64 bits.

usage: formula.py MODEL.gguf N      the logits behind token_at(0) .. token_at(N - 1) (tests/unit/engine/engine_fixture.h)
       formula.py MODEL.gguf N mtp  those of the MTP block behind token_at(N + 1): it reads the model's states of the
                                    first N tokens, then its own, each beside the token that follows
       formula.py MODEL.gguf N gelu the same as the first, with GELU as llama.cpp looks it up: a table of halves, read
                                    at a half

Written after transformers' modeling_qwen3_5.py, modeling_lfm2.py, modeling_gemma4.py, modeling_granitemoehybrid.py,
modeling_granitemoe.py and vLLM's qwen3_5_mtp.py; nothing is shared with the engine.  F32 files of qwen35, qwen35moe,
lfm2, lfm2moe, gemma4 (with experts), granitemoe and granitehybrid.
"""
import math
import struct
import sys

from linear import File, State, dot


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return x if x > 40 else math.log1p(math.exp(x))


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def gelu_table(x):
    """ggml's, of its files vec.h and ggml-cpu.c."""
    return 0.0 if x <= -10 else x if x >= 10 else half(gelu_tanh(half(x)))


def softmax(x):
    e = [math.exp(a - max(x)) for a in x]
    return [a / sum(e) for a in e]


def unit(x, scale=1.0):
    r = scale / math.sqrt(dot(x, x) + 1e-6)
    return [a * r for a in x]


class Model:
    def __init__(self, file):
        self.t = file.tensor
        self.arch = file.key["general.architecture"]
        self.key = lambda name, other=None: file.key.get(f"{self.arch}.{name}", other)
        n_block = self.key("block_count")
        self.n_layer, self.n_head = n_block - self.key("nextn_predict_layers", 0), self.key("attention.head_count")
        kv = self.key("attention.head_count_kv")
        self.n_kv = max(kv) if isinstance(kv, list) else kv
        d_model = self.key("embedding_length")
        self.d = self.key("attention.key_length", d_model // self.n_head)
        self.n_rot, self.base = self.key("rope.dimension_count", self.d), self.key("rope.freq_base")
        self.eps = self.key("attention.layer_norm_rms_epsilon")
        self.past = [{"conv": [], "k": [], "v": [], "state": None} for _ in range(n_block)]

    def norm(self, x, name):
        r = 1 / math.sqrt(dot(x, x) / len(x) + self.eps)
        return [a * r * b for a, b in zip(x, self.t[name + ".weight"][0])]

    def linear(self, x, name, rows=slice(None)):
        return self.t[name + ".weight"][rows].times(x)

    def heads(self, x, d):
        return [x[i : i + d] for i in range(0, len(x), d)]

    def rotate(self, x, pos):
        half = self.n_rot // 2
        for i in range(half):
            angle = pos * self.base ** (-2 * i / self.n_rot)
            a, b, c, s = x[i], x[half + i], math.cos(angle), math.sin(angle)
            x[i], x[half + i] = a * c - b * s, b * c + a * s
        return x

    def attention(self, x, pos, b, past):
        q = self.heads(self.linear(x, b + "attn_q"), self.d)
        gate = None
        if self.arch.startswith("qwen35"):
            q, gate = q[0::2], q[1::2]
        q = [self.rotate(self.norm(h, b + "attn_q_norm"), pos) for h in q]
        k = self.heads(self.linear(x, b + "attn_k"), self.d)
        past["k"].append([self.rotate(self.norm(h, b + "attn_k_norm"), pos) for h in k])
        past["v"].append(self.heads(self.linear(x, b + "attn_v"), self.d))
        out = []
        for h in range(self.n_head):
            kv = h // (self.n_head // self.n_kv)
            score = [dot(q[h], k[kv]) / math.sqrt(self.d) for k in past["k"]]
            p = [math.exp(s - max(score)) for s in score]
            y = [sum(w * v[kv][i] for w, v in zip(p, past["v"])) / sum(p) for i in range(self.d)]
            out += [a * sigmoid(g) for a, g in zip(y, gate[h])] if gate else y
        return self.linear(out, b + "attn_output")

    def conv(self, x, name, past):
        taps = self.t[name + ".weight"]
        n = len(taps[0])
        past["conv"] = ([[0.0] * len(x)] * n + past["conv"] + [x])[-n:]
        return [dot(row, column) for row, column in zip(taps, zip(*past["conv"]))]

    def delta_net(self, x, b, past):
        d, n_k, n_v = self.key("ssm.state_size"), self.key("ssm.group_count"), self.key("ssm.time_step_rank")
        mixed = [silu(c) for c in self.conv(self.linear(x, b + "attn_qkv"), b + "ssm_conv1d", past)]
        q, k = self.heads(mixed[: n_k * d], d), self.heads(mixed[n_k * d : 2 * n_k * d], d)
        v, z = self.heads(mixed[2 * n_k * d :], d), self.heads(self.linear(x, b + "attn_gate"), d)
        alpha, beta = self.linear(x, b + "ssm_alpha"), self.linear(x, b + "ssm_beta")
        if not past["state"]:
            past["state"] = [State(d, d) for _ in range(n_v)]  # [d_v][d_k]
        out = []
        for h in range(n_v):
            qh, kh = unit(q[h % n_k], d**-0.5), unit(k[h % n_k])
            decay = math.exp(self.t[b + "ssm_a"][0][h] * softplus(alpha[h] + self.t[b + "ssm_dt.bias"][0][h]))
            state = past["state"][h]
            read = [decay * r for r in state.times(kh)]
            state.update(decay, [sigmoid(beta[h]) * (a - r) for a, r in zip(v[h], read)], kh)
            y = self.norm(state.times(qh), b + "ssm_norm")
            out += [a * silu(g) for a, g in zip(y, z[h])]
        return self.linear(out, b + "ssm_out")

    def short_conv(self, x, b, past):
        d = len(x)
        left, gate, right = self.heads(self.linear(x, b + "shortconv.in_proj"), d)
        y = self.conv([a * c for a, c in zip(left, right)], b + "shortconv.conv", past)
        return self.linear([a * g for a, g in zip(y, gate)], b + "shortconv.out_proj")

    def dense(self, x, b, suffix=""):
        g, u = self.linear(x, f"{b}ffn_gate{suffix}"), self.linear(x, f"{b}ffn_up{suffix}")
        return self.linear([silu(a) * c for a, c in zip(g, u)], f"{b}ffn_down{suffix}")

    def mixture(self, x, b):
        n_used, d_ff = self.key("expert_used_count"), self.key("expert_feed_forward_length")
        score, total, out = self.linear(x, b + "ffn_gate_inp"), 0.0, [0.0] * len(x)
        if self.arch == "lfm2moe":
            weight = [sigmoid(s) for s in score]
            rank = [w + p for w, p in zip(weight, self.t[b + "exp_probs_b.bias"][0])]
        else:
            weight = rank = [math.exp(s - max(score)) for s in score]
        chosen = sorted(range(len(score)), key=lambda e: -rank[e])[:n_used]
        for e in chosen:
            wide = slice(e * d_ff, (e + 1) * d_ff)
            g, u = self.linear(x, b + "ffn_gate_exps", wide), self.linear(x, b + "ffn_up_exps", wide)
            y = self.linear([silu(a) * c for a, c in zip(g, u)], b + "ffn_down_exps", slice(e * len(x), (e + 1) * len(x)))
            out = [o + weight[e] * a for o, a in zip(out, y)]
            total += weight[e]
        out = [o / total for o in out]
        if b + "ffn_gate_shexp.weight" not in self.t:
            return out
        gate = sigmoid(dot(self.t[b + "ffn_gate_inp_shexp.weight"][0], x))
        return [o + gate * a for o, a in zip(out, self.dense(x, b, "_shexp"))]

    def block(self, x, layer, pos):
        b, past = f"blk.{layer}.", self.past[layer]
        y = self.norm(x, b + "attn_norm")
        if b + "attn_q.weight" in self.t:
            y = self.attention(y, pos, b, past)
        elif b + "ssm_out.weight" in self.t:
            y = self.delta_net(y, b, past)
        else:
            y = self.short_conv(y, b, past)
        x = [a + c for a, c in zip(x, y)]
        y = self.norm(x, b + ("post_attention_norm" if self.arch.startswith("qwen35") else "ffn_norm"))
        y = self.mixture(y, b) if b + "ffn_gate_inp.weight" in self.t else self.dense(y, b)
        return [a + c for a, c in zip(x, y)]

    def embedding(self, token):
        return list(self.t["token_embd.weight"][token])

    def step(self, token, pos):
        """The state behind a token, after the last norm."""
        x = self.embedding(token)
        for layer in range(self.n_layer):
            x = self.block(x, layer, pos)
        return self.norm(x, "token_embd_norm" if self.arch.startswith("lfm2") else "output_norm")

    def draft(self, state, token, pos):
        """The same of the MTP block, of the state behind a token and the next token."""
        b = f"blk.{self.n_layer}.nextn."
        x = self.norm(self.t["token_embd.weight"][token], b + "enorm") + self.norm(state, b + "hnorm")
        return self.norm(self.block(self.linear(x, b + "eh_proj"), self.n_layer, pos), b + "shared_head_norm")

    def logits(self, x):
        return self.linear(x, "output" if "output.weight" in self.t else "token_embd")


class Gemma4(Model):
    def __init__(self, file):
        super().__init__(file)
        assert not self.key("attention.shared_kv_layers") and not self.key("embedding_length_per_layer_input")
        self.windowed = self.key("attention.sliding_window_pattern")

    def plain_norm(self, x):
        r = 1 / math.sqrt(dot(x, x) / len(x) + self.eps)
        return [a * r for a in x]

    def turn(self, x, pos, layer):
        d = len(x)
        base = self.key("rope.freq_base_swa") if self.windowed[layer] else self.base
        factor = [1.0] * (d // 2) if self.windowed[layer] else self.t["rope_freqs.weight"][0]
        for i in range(d // 2):
            angle = pos * base ** (-2 * i / d) / factor[i]
            a, b, c, s = x[i], x[d // 2 + i], math.cos(angle), math.sin(angle)
            x[i], x[d // 2 + i] = a * c - b * s, b * c + a * s
        return x

    def attention(self, x, pos, b, past, layer):
        d = self.key("attention.key_length_swa") if self.windowed[layer] else self.key("attention.key_length")
        first = max(0, pos - self.key("attention.sliding_window") + 1) if self.windowed[layer] else 0
        q = [self.turn(self.norm(h, b + "attn_q_norm"), pos, layer) for h in self.heads(self.linear(x, b + "attn_q"), d)]
        k = self.heads(self.linear(x, b + "attn_k"), d)
        v = self.heads(self.linear(x, b + "attn_v"), d) if b + "attn_v.weight" in self.t else k
        past["v"].append([self.plain_norm(h) for h in v])
        past["k"].append([self.turn(self.norm(h, b + "attn_k_norm"), pos, layer) for h in k])
        out = []
        for h in range(self.n_head):
            kv = h // (self.n_head // len(k))
            p = softmax([dot(q[h], k[kv]) for k in past["k"][first:]])
            out += [sum(w * v[kv][i] for w, v in zip(p, past["v"][first:])) for i in range(d)]
        return self.linear(out, b + "attn_output")

    gelu = staticmethod(gelu_tanh)

    def wide(self, g, u):
        return [self.gelu(a) * c for a, c in zip(g, u)]

    def dense(self, x, b):
        return self.linear(self.wide(self.linear(x, b + "ffn_gate"), self.linear(x, b + "ffn_up")), b + "ffn_down")

    def experts(self, x, b):
        """x: the residual stream, which the router reads by a norm of its own."""
        n_used, d_ff, d = self.key("expert_used_count"), self.key("expert_feed_forward_length"), len(x)
        scale, each = self.t[b + "ffn_gate_inp.scale"][0], self.t[b + "ffn_down_exps.scale"][0]
        p = softmax(self.linear([a * c / math.sqrt(d) for a, c in zip(self.plain_norm(x), scale)], b + "ffn_gate_inp"))
        chosen = sorted(range(len(p)), key=lambda e: -p[e])[:n_used]
        y, out = self.norm(x, b + "pre_ffw_norm_2"), [0.0] * d
        for e in chosen:
            both = self.linear(y, b + "ffn_gate_up_exps", slice(2 * e * d_ff, 2 * (e + 1) * d_ff))
            z = self.linear(self.wide(both[:d_ff], both[d_ff:]), b + "ffn_down_exps", slice(e * d, (e + 1) * d))
            weight = p[e] / sum(p[c] for c in chosen) * each[e]
            out = [o + weight * a for o, a in zip(out, z)]
        return self.norm(out, b + "post_ffw_norm_2")

    def block(self, x, layer, pos):
        b = f"blk.{layer}."
        y = self.attention(self.norm(x, b + "attn_norm"), pos, b, self.past[layer], layer)
        x = [a + c for a, c in zip(x, self.norm(y, b + "post_attention_norm"))]
        y = self.dense(self.norm(x, b + "ffn_norm"), b)
        if b + "ffn_gate_inp.weight" in self.t:
            y = [a + c for a, c in zip(self.norm(y, b + "post_ffw_norm_1"), self.experts(x, b))]
        scale = self.t[b + "layer_output_scale.weight"][0][0]
        return [scale * (a + c) for a, c in zip(x, self.norm(y, b + "post_ffw_norm"))]

    def embedding(self, token):
        return [a * math.sqrt(len(self.t["token_embd.weight"][token])) for a in self.t["token_embd.weight"][token]]

    def logits(self, x):
        cap = self.key("final_logit_softcapping")
        return [cap * math.tanh(a / cap) for a in super().logits(x)]


class Granite(Model):
    """Layers with a Mamba-2 state, and some that attend without positions; of granitemoe all do, with positions."""

    def turn(self, x, pos):
        """The makers rotate halves; files have the rows of q and k so that pairs are neighbours."""
        x = self.rotate(x[0::2] + x[1::2], pos)
        return [a for pair in zip(x[: len(x) // 2], x[len(x) // 2 :]) for a in pair]

    def attention(self, x, pos, b, past):
        q, k = self.heads(self.linear(x, b + "attn_q"), self.d), self.heads(self.linear(x, b + "attn_k"), self.d)
        if self.arch == "granitemoe":
            q, k = [self.turn(h, pos) for h in q], [self.turn(h, pos) for h in k]
        past["k"].append(k)
        past["v"].append(self.heads(self.linear(x, b + "attn_v"), self.d))
        out = []
        for h in range(self.n_head):
            kv = h // (self.n_head // len(k))
            p = softmax([self.key("attention.scale") * dot(q[h], k[kv]) for k in past["k"]])
            out += [sum(w * v[kv][i] for w, v in zip(p, past["v"])) for i in range(self.d)]
        return self.linear(out, b + "attn_output")

    def mamba(self, x, b, past):
        n, inner, n_head = self.key("ssm.state_size"), self.key("ssm.inner_size"), self.key("ssm.time_step_rank")
        group, d = self.key("ssm.group_count"), inner // n_head
        both = self.linear(x, b + "ssm_in")
        z, mixed, dt = both[:inner], both[inner : 2 * inner + 2 * group * n], both[2 * inner + 2 * group * n :]
        bias = self.t[b + "ssm_conv1d.bias"][0]
        mixed = [silu(a + c) for a, c in zip(self.conv(mixed, b + "ssm_conv1d", past), bias)]
        xs, write, read = self.heads(mixed[:inner], d), mixed[inner : inner + group * n], mixed[inner + group * n :]
        if not past["state"]:
            past["state"] = [State(d, n) for _ in range(n_head)]
        out = []
        for h in range(n_head):
            at = h // (n_head // group) * n
            step = softplus(dt[h] + self.t[b + "ssm_dt.bias"][0][h])
            decay = math.exp(step * self.t[b + "ssm_a"][h][0])
            state, skip = past["state"][h], self.t[b + "ssm_d"][h][0]
            state.update(decay, [step * a for a in xs[h]], write[at : at + n])
            out += [a + skip * x for a, x in zip(state.times(read[at : at + n]), xs[h])]
        out = [a * silu(g) for a, g in zip(out, z)]
        return self.linear(self.norm(out, b + "ssm_norm"), b + "ssm_out")

    def dense(self, x, b, suffix=""):
        g, u = self.linear(x, f"{b}ffn_gate{suffix}"), self.linear(x, f"{b}ffn_up{suffix}")
        return self.linear([silu(a) * c for a, c in zip(g, u)], f"{b}ffn_down{suffix}")

    def feed_forward(self, x, b):
        if b + "ffn_gate_inp.weight" not in self.t:
            return self.dense(x, b)
        p, d_ff, d = self.linear(x, b + "ffn_gate_inp"), self.key("feed_forward_length"), len(x)
        chosen = sorted(range(len(p)), key=lambda e: -p[e])[: self.key("expert_used_count")]
        out = self.dense(x, b, "_shexp") if b + "ffn_up_shexp.weight" in self.t else [0.0] * d
        for e, weight in zip(chosen, softmax([p[e] for e in chosen])):
            wide = slice(e * d_ff, (e + 1) * d_ff)
            g, u = self.linear(x, b + "ffn_gate_exps", wide), self.linear(x, b + "ffn_up_exps", wide)
            y = self.linear([silu(a) * c for a, c in zip(g, u)], b + "ffn_down_exps", slice(e * d, (e + 1) * d))
            out = [o + weight * a for o, a in zip(out, y)]
        return out

    def block(self, x, layer, pos):
        b, past, scale = f"blk.{layer}.", self.past[layer], self.key("residual_scale")
        y = self.norm(x, b + "attn_norm")
        y = self.attention(y, pos, b, past) if b + "attn_q.weight" in self.t else self.mamba(y, b, past)
        x = [a + scale * c for a, c in zip(x, y)]
        y = self.feed_forward(self.norm(x, b + "ffn_norm"), b)
        return [a + scale * c for a, c in zip(x, y)]

    def embedding(self, token):
        return [a * self.key("embedding_scale") for a in self.t["token_embd.weight"][token]]

    def logits(self, x):
        return [a / self.key("logit_scale") for a in super().logits(x)]


def token_at(i):
    return (i * 7919 + 13) % 251


def main():
    file, n = File(sys.argv[1]), int(sys.argv[2])
    model = {"gemma4": Gemma4, "granitehybrid": Granite, "granitemoe": Granite}.get(file.key["general.architecture"], Model)(file)
    if sys.argv[3:] == ["gelu"]:
        model.gelu = gelu_table
    states = [model.step(token_at(i), i) for i in range(n)]
    x = states[-1]
    for i in range(n + 1 if sys.argv[3:] == ["mtp"] else 0):
        x = model.draft(states[i] if i < n else x, token_at(i + 1), i)
    print(*(f"{v:.7g}" for v in model.logits(x)))


main()
