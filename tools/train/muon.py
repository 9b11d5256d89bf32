"""Muon: AdamW whose steps of the matrices between embedding and output are orthogonal.

After K. Jordan and others, "Muon: An optimizer for hidden layers in neural networks" (2024); the size of a step as in
J. Liu and others, "Muon is scalable for LLM training" (2025), section 2.2, so that both halves share a learning rate.
"""

import torch
import torch.nn as nn


def orthogonal(g, dtype):
    """About U V' of a matrix U S V', by five Newton-Schulz steps; its singular values end between 0.7 and 1.2."""
    x = g.to(dtype) / (g.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.T if tall else x).float()


class Matrices(torch.optim.Optimizer):
    def __init__(self, params, lr, dtype, momentum=0.95, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.dtype = dtype

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                m.lerp_(p.grad, 1 - group["momentum"])
                step = orthogonal(p.grad.lerp(m, group["momentum"]), self.dtype)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(step, alpha=-0.2 * group["lr"] * max(p.shape) ** 0.5)


class Muon:
    """An optimizer of a whole model: `Matrices` for the weights of its linear layers, AdamW for all else.  dtype: of the
    products that make steps orthogonal."""

    def __init__(self, model, lr, dtype=torch.bfloat16):
        linear = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
        chosen = set(map(id, linear))
        rest = [p for p in model.parameters() if id(p) not in chosen]
        self.parts = [torch.optim.AdamW(rest, lr, betas=(0.9, 0.98), weight_decay=0.01), Matrices(linear, lr, dtype)]
        self.param_groups = [g for part in self.parts for g in part.param_groups]

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

    def step(self):
        for part in self.parts:
            part.step()

    def state_dict(self):
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states):
        for part, state in zip(self.parts, states):
            part.load_state_dict(state)
        self.param_groups = [g for part in self.parts for g in part.param_groups]
