"""Weights of few bits, trained as they will be run: rounded in the forward pass, a float behind them in the backward.

    w2     codes of 2 bits, a scale and a zero point for each 64 inputs of an output: what a GPTQ (v2) folder holds
    b158   BitNet b1.58: -1, 0, 1 times the mean of the matrix's magnitudes; rows of activations are rounded to int8;
           norms before the last matrix of each sub-layer, a squared ReLU, no biases

Sources: LSQ (arXiv 1902.08153) for w2's scales; BitNet b1.58 2B4T (arXiv 2504.12285).
"""
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

GROUP = 64


def straight(exact, rounded):
    """The value of `rounded`, the gradient of `exact`."""
    return exact + (rounded - exact).detach()


class W2(nn.Linear):
    """The weight is (code - zero) x scale; scales are learnt as logarithms, zero points stay as fit() found them."""

    def __init__(self, n_in, n_out, bias):
        super().__init__(n_in, n_out, bias)
        self.log_scale = nn.Parameter(torch.zeros(n_out, n_in // GROUP))
        self.register_buffer("zero", torch.ones(n_out, n_in // GROUP))

    def scale(self):  # as a half holds it
        s = self.log_scale.exp()
        return straight(s, s.half().float())

    def levels(self, scale, zero):
        """code - zero, [out][groups][64]."""
        v = self.weight.view(len(self.weight), -1, GROUP) / scale[..., None]
        v = torch.minimum(torch.maximum(v, -zero[..., None]), 3 - zero[..., None])
        return straight(v, v.round())

    def codes(self):
        return (self.levels(self.scale(), self.zero) + self.zero[..., None]).view_as(self.weight)

    def forward(self, x):
        scale = self.scale()
        w = (self.levels(scale, self.zero) * scale[..., None]).view_as(self.weight)
        return F.linear(x, w, self.bias)

    @torch.no_grad()
    def fit(self):
        """Of all zero points and 20 scales, those of the least squared error, group by group."""
        g = self.weight.view(len(self.weight), -1, GROUP)
        top = g.abs().amax(-1).clamp(min=1e-6)
        best = torch.full_like(top, float("inf"))
        for zero in range(4):
            for part in range(1, 21):
                s, z = top * part / 20, torch.full_like(top, zero)
                error = (self.levels(s, z) * s[..., None] - g).pow(2).sum(-1)
                better = error < best
                best[better], self.zero[better] = error[better], float(zero)
                self.log_scale[better] = s[better].log()


class Ternary(nn.Linear):
    def __init__(self, n_in, n_out, bias):
        super().__init__(n_in, n_out, bias)

    def scale(self):  # as a bfloat16 holds it
        return self.weight.detach().abs().mean().clamp(min=1e-5).bfloat16().float()

    def levels(self):
        return (self.weight.detach() / self.scale()).round().clamp(-1, 1)

    def forward(self, x):
        return F.linear(x, straight(self.weight, self.levels() * self.scale()))


class Int8Rows(torch.autograd.Function):
    """A row rounded to int8, its largest magnitude being 127."""

    @staticmethod
    def forward(ctx, x):
        s = 127 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
        return (x * s).round_().clamp_(-128, 127).div_(s)

    @staticmethod
    def backward(ctx, g):
        return g


Kind = namedtuple("Kind", "linear bias act sub_norms rounded")
KINDS = {"float": Kind(nn.Linear, True, F.silu, False, lambda x: x),
         "w2": Kind(W2, True, F.silu, False, lambda x: x),
         "b158": Kind(Ternary, False, lambda x: F.relu(x).square(), True, Int8Rows.apply)}
