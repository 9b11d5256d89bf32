"""A small Qwen2-shaped transformer and batched sampling with a KV cache."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

MAX_CTX = 1024


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rope_tables(n, hd, theta=10000.0):
    f = theta ** (-torch.arange(0, hd, 2).float() / hd)
    a = torch.outer(torch.arange(n).float(), f)
    return a.cos(), a.sin()


def rope(x, cos, sin):  # rotate-half ("NEOX") order, as Qwen2
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h, self.kv, self.hd = c.heads, c.kv, c.d // c.heads
        self.attn_norm, self.ffn_norm = RMSNorm(c.d), RMSNorm(c.d)
        self.q = nn.Linear(c.d, c.d)
        self.k = nn.Linear(c.d, c.kv * self.hd)
        self.v = nn.Linear(c.d, c.kv * self.hd)
        self.o = nn.Linear(c.d, c.d, bias=False)
        self.gate = nn.Linear(c.d, c.ff, bias=False)
        self.up = nn.Linear(c.d, c.ff, bias=False)
        self.down = nn.Linear(c.ff, c.d, bias=False)

    def forward(self, x, mask, cos, sin, past=None):
        """past: None, or (keys, values, n_past): what this block has seen; its keys and values are written behind
        that."""
        b, t, d = x.shape
        y = self.attn_norm(x)
        q = rope(self.q(y).view(b, t, self.h, self.hd).transpose(1, 2), cos, sin)
        k = rope(self.k(y).view(b, t, self.kv, self.hd).transpose(1, 2), cos, sin)
        v = self.v(y).view(b, t, self.kv, self.hd).transpose(1, 2)
        if past:
            keys, values, n = past
            keys[:, :, n:n + t], values[:, :, n:n + t] = k, v
            k, v = keys[:, :, :n + t], values[:, :, :n + t]
        # the heads of one group lie behind one another, so each group is one matrix product
        q = q.reshape(b, self.kv, -1, self.hd)
        a = (q @ k.transpose(-1, -2)).view(b, self.h, t, -1) / math.sqrt(self.hd) + mask
        a = (a.softmax(-1).view(b, self.kv, -1, k.shape[2]) @ v).view(b, self.h, t, self.hd)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        y = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c.vocab, c.d)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = RMSNorm(c.d)
        cos, sin = rope_tables(MAX_CTX, c.d // c.heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for n, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 if "embed" in n else p.shape[1] ** -0.5)
            elif "bias" in n:
                nn.init.zeros_(p)
        for b in self.blocks:
            for p in (b.o.weight, b.down.weight):
                p.data.mul_((2 * c.layers) ** -0.5)

    def hidden(self, ids, mask=None, past=None, pos=None):
        """[rows][tokens] to [rows][tokens][d], after the last norm; pos: [rows][tokens], counted from past if None."""
        n, t = (past[0][2] if past else 0), ids.shape[1]
        cos, sin = (self.cos[n:n + t], self.sin[n:n + t]) if pos is None else (self.cos[pos][:, None],
                                                                               self.sin[pos][:, None])
        if mask is None:
            mask = torch.full((t, t), float("-inf"), device=ids.device).triu(1)
        x = self.embed(ids)
        for i, b in enumerate(self.blocks):
            x = b(x, mask, cos, sin, past and past[i])
        return self.norm(x)

    def logits(self, x):
        return x @ self.embed.weight.t()


def device_of(name="auto"):
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


@torch.no_grad()
def generate(model, prompts, stops, temperature=0.0, max_new=110, rows=512):
    """One continuation per prompt (lists of ids), up to and including a token of `stops`; None where none came.

    Prompts are padded on the left: rotary positions are relative, so a shift changes nothing.  Rows that stop leave.
    """
    c, dev = model.c, model.embed.weight.device
    out = [None] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for at in range(0, len(order), rows):
        live = order[at:at + rows]
        n = max(len(prompts[i]) for i in live)
        ids = torch.tensor([[0] * (n - len(prompts[i])) + prompts[i] for i in live], device=dev)
        pad = torch.tensor([n - len(prompts[i]) for i in live], device=dev)
        shape = (len(live), c.kv, n + max_new, c.d // c.heads)
        cache = [(torch.zeros(shape, device=dev), torch.zeros(shape, device=dev)) for _ in model.blocks]
        dead = (torch.arange(n + max_new, device=dev)[None] < pad[:, None]).float()[:, None, None] * -1e9
        mask = torch.full((n, n), float("-inf"), device=dev).triu(1) + dead[..., :n]
        text, seen = [[] for _ in live], 0
        for _ in range(max_new):
            logits = model.logits(model.hidden(ids, mask, [(k, v, seen) for k, v in cache])[:, -1])
            seen += ids.shape[1]
            if temperature > 0:
                ids = torch.multinomial((logits / temperature).softmax(-1), 1)
            else:
                ids = logits.argmax(-1, keepdim=True)
            for r, t in enumerate(ids[:, 0].tolist()):
                text[r].append(t)
                if t in stops and out[live[r]] is None:
                    out[live[r]] = text[r][:]
            keep = [r for r in range(len(live)) if out[live[r]] is None]
            if not keep:
                break
            # stopped rows go in bulk: copying the cache costs more than a few idle rows
            if len(keep) < 0.8 * len(live):
                pick = torch.tensor(keep, device=dev)
                cache = [(k[pick], v[pick]) for k, v in cache]
                dead, ids = dead[pick], ids[pick]
                live, text = [live[r] for r in keep], [text[r] for r in keep]
            mask = dead[..., :seen + 1]
    return out
