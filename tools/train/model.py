"""A small Qwen2-shaped transformer and batched sampling with a KV cache."""
import torch
import torch.nn as nn

import lowbit

MAX_CTX = 1024
ROWS = 128  # of queries that are attended at once


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def frequencies(hd, theta):
    return theta ** (-torch.arange(0, hd, 2).float() / hd)


def rope_tables(n, hd, theta=10000.0):
    a = torch.outer(torch.arange(n).float(), frequencies(hd, theta))
    return a.cos(), a.sin()


def rope(x, cos, sin):  # rotate-half ("NEOX") order, as Qwen2
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def blocks_of(trunk, branches=()):
    """(first, end, before) of blocks of queries: they see the tokens before `before`, and of their own those that are not
    later.  A trunk of so many tokens, and behind it branches of so many, each of which continues the trunk."""
    blocks = [(s, min(s + ROWS, trunk), s) for s in range(0, trunk, ROWS)]
    for n in branches:
        at = blocks[-1][1]
        blocks.append((at, at + n, trunk))
    return blocks


class Causal(torch.autograd.Function):
    """Attention of tokens over themselves and those before them, in the type of its arguments: queries [rows][kv
    heads][heads of a group][tokens][dim], keys and values [rows][kv heads][tokens][dim].  The tokens are a trunk and
    branches behind it that do not see one another (`blocks_of`).  Only what softmax gave is kept for the way back: less
    to write than autograd's."""

    @staticmethod
    def seen(x, block):
        """Of keys or values: those that a block of queries may see."""
        s, e, before = block
        return x[:, :, :e] if before == s else torch.cat([x[:, :, :before], x[:, :, s:e]], 2)

    @staticmethod
    def add(to, block, x):
        """Adds what `seen` would have given."""
        s, e, before = block
        to[:, :, :before] += x[:, :, :before]
        to[:, :, s:e] += x[:, :, before:]

    @staticmethod
    def forward(ctx, q, k, v, blocks):
        hd, n = q.shape[-1], max(e - s for s, e, _ in blocks)
        out, kept = torch.empty_like(q), []
        later = torch.full((n, n), float("-inf"), dtype=q.dtype, device=q.device).triu(1)
        for block in blocks:
            s, e, before = block
            # the heads of one group lie behind one another, so each group is one matrix product
            a = (q[..., s:e, :].flatten(2, 3) * hd ** -0.5) @ Causal.seen(k, block).transpose(-1, -2)
            a.view(*q.shape[:3], e - s, -1)[..., before:] += later[:e - s, :e - s]
            kept.append(torch._softmax(a, -1, False))
            out[..., s:e, :] = (kept[-1] @ Causal.seen(v, block)).view_as(out[..., s:e, :])
        ctx.blocks = blocks
        ctx.save_for_backward(q, k, v, *kept)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, *kept = ctx.saved_tensors
        hd = q.shape[-1]
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k, dtype=torch.float), torch.zeros_like(v, dtype=torch.float)
        for block, p in zip(ctx.blocks, kept):
            s, e, _ = block
            g = grad[..., s:e, :].flatten(2, 3)
            Causal.add(dv, block, p.transpose(-1, -2) @ g)
            d = torch._softmax_backward_data(g @ Causal.seen(v, block).transpose(-1, -2), p, -1, p.dtype)
            dq[..., s:e, :] = (d @ Causal.seen(k, block) * hd ** -0.5).view_as(dq[..., s:e, :])
            Causal.add(dk, block, d.transpose(-1, -2) @ (q[..., s:e, :].flatten(2, 3) * hd ** -0.5))
        return dq, dk.to(k.dtype), dv.to(v.dtype), None


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h, self.kv, self.hd = c.heads, c.kv, c.d // c.heads
        self.kind = lowbit.KINDS[getattr(c, "weights", "float")]
        linear, bias = self.kind.linear, self.kind.bias
        self.attn_norm, self.ffn_norm = RMSNorm(c.d), RMSNorm(c.d)
        if self.kind.sub_norms:
            self.attn_sub_norm, self.ffn_sub_norm = RMSNorm(c.d), RMSNorm(c.ff)
        self.q = linear(c.d, c.d, bias=bias)
        self.k = linear(c.d, c.kv * self.hd, bias=bias)
        self.v = linear(c.d, c.kv * self.hd, bias=bias)
        self.o = linear(c.d, c.d, bias=False)
        self.gate = linear(c.d, c.ff, bias=False)
        self.up = linear(c.d, c.ff, bias=False)
        self.down = linear(c.ff, c.d, bias=False)

    def attend(self, q, k, v, mask):
        """Rows of queries over the keys that the last of them may see; those behind it are not computed."""
        b, _, t, _ = q.shape
        n = k.shape[2]
        # the heads of one group lie behind one another, so each group is one matrix product
        q = (q * self.hd ** -0.5).reshape(b, self.kv, -1, self.hd)
        a = ((q @ k.transpose(-1, -2)).view(b, self.h, t, n) + mask[..., :n]).softmax(-1)
        return (a.view(b, self.kv, -1, n) @ v[:, :, :n]).view(b, self.h, t, self.hd)

    def forward(self, x, mask, cos, sin, past=None, blocks=None):
        """past: None, or (keys, values, n_past): what this block has seen; its keys and values are written behind
        that.  blocks: of queries without a mask (`blocks_of`); None: one sequence."""
        b, t, d = x.shape
        y = self.kind.rounded(self.attn_norm(x))
        q = rope(self.q(y).view(b, t, self.h, self.hd).transpose(1, 2), cos, sin)
        k = rope(self.k(y).view(b, t, self.kv, self.hd).transpose(1, 2), cos, sin)
        v = self.v(y).view(b, t, self.kv, self.hd).transpose(1, 2)
        if past:
            keys, values, n = past
            keys[:, :, n:n + t], values[:, :, n:n + t] = k, v
            k, v = keys[:, :, :n + t], values[:, :, :n + t]
        if mask is None:
            a = Causal.apply(q.reshape(b, self.kv, -1, t, self.hd).to(v.dtype), k.to(v.dtype), v,
                             blocks or blocks_of(t)).flatten(1, 2)
        else:
            a = torch.cat([self.attend(q[:, :, s:s + ROWS], k[:, :, :k.shape[2] - max(0, t - s - ROWS)],
                                       v, mask[..., s:s + ROWS, :]) for s in range(0, t, ROWS)], 2)
        a = a.transpose(1, 2).reshape(b, t, d)
        x = x + self.o(self.kind.rounded(self.attn_sub_norm(a)) if self.kind.sub_norms else a)
        y = self.kind.rounded(self.ffn_norm(x))
        y = self.kind.act(self.gate(y)) * self.up(y)
        return x + self.down(self.kind.rounded(self.ffn_sub_norm(y)) if self.kind.sub_norms else y)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c.vocab, c.d)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = RMSNorm(c.d)
        theta = getattr(c, "theta", 10000.0)
        cos, sin = rope_tables(MAX_CTX, c.d // c.heads, theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for n, p in self.named_parameters():
            if p.dim() == 2 and not n.endswith("log_scale"):
                nn.init.normal_(p, std=0.02 if "embed" in n else p.shape[1] ** -0.5)
            elif "bias" in n:
                nn.init.zeros_(p)
        for b in self.blocks:
            for p in (b.o.weight, b.down.weight):
                p.data.mul_((2 * c.layers) ** -0.5)
        if getattr(c, "copies", False):
            self.copy_at_first(frequencies(c.d // c.heads, theta))

    def fit(self):
        """Scales and zero points from the weights as they are."""
        for m in self.modules():
            if isinstance(m, lowbit.W2):
                m.fit()

    @torch.no_grad()
    def copy_at_first(self, f, sharpness=6.0, match=1.6, embed=0.5):
        """First weights with an induction head in them, which small models find late or never: a head of the first block
        attends to the token before and writes down which it was; one of the second looks for places behind the token
        that it is at and votes for what stands there.  Rotary positions turn biases into a function of the distance;
        which token it is goes into their slow half."""
        n, first, second = len(f), self.blocks[0], self.blocks[1]
        hd, slow = 2 * n, torch.cat([torch.arange(n // 2, n), torch.arange(n + n // 2, 2 * n)])
        self.embed.weight.mul_(embed / 0.02)
        self.norm.weight.fill_(0.02 / embed)
        for w in (first.q.weight[:hd], first.k.weight[:hd]):
            w.mul_(0.1)
        first.k.bias[:n] = sharpness
        first.q.bias[:n], first.q.bias[n:hd] = sharpness * torch.cos(f), -sharpness * torch.sin(f)
        first.o.weight[:, :hd].mul_((2 * len(self.blocks)) ** 0.5)
        second.q.weight[:hd], second.k.weight[:hd] = 0, 0
        second.q.weight[slow] = match * first.v.weight[slow]
        second.k.weight[slow] = match * first.o.weight[:, slow].t()
        second.o.weight[:, :hd] = second.v.weight[:hd].t()

    def hidden(self, ids, mask=None, past=None, pos=None, after=None, blocks=None):
        """[rows][tokens] to [rows][tokens][d], after the last norm; pos: [rows][tokens], counted from past if None;
        after: a list that gets what leaves each block; blocks: as in Block.forward."""
        n, t = (past[0][2] if past else 0), ids.shape[1]
        cos, sin = (self.cos[n:n + t], self.sin[n:n + t]) if pos is None else (self.cos[pos][:, None],
                                                                               self.sin[pos][:, None])
        x = self.embed(ids)
        for i, b in enumerate(self.blocks):
            x = b(x, mask, cos, sin, past and past[i], blocks)
            if after is not None:
                after.append(x)
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
