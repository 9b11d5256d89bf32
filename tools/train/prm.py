"""The step verifier: a generator's trunk with two heads, read at the last token of each step.

Both heads give a step's reward as a probability:
  value  sigmoid(cls.output . hidden + bias)                      (as Skywork-o1-PRM)
  token  softmax of the logits of '+' and '-', the others left out  (as Math-Shepherd and Qwen-PRM)
"""
import torch
import torch.nn as nn

import steps
from model import Model

KINDS = ("value", "token")


class Verifier(nn.Module):
    def __init__(self, c, plus, minus):
        super().__init__()
        self.trunk, self.value = Model(c), nn.Linear(c.d, 1)
        self.plus, self.minus = plus, minus

    def heads(self, x):
        """Log odds that a step is right, by both heads: {kind: [rows]} of hidden states [rows][d]."""
        e = self.trunk.embed.weight
        return {"value": self.value(x)[:, 0], "token": x @ (e[self.plus] - e[self.minus])}


def pack(stem, branches, starts=None):
    """One row of ids for a stem and branches that do not see one another: (ids, positions, segments, starts).

    A branch continues the stem's first starts[i] tokens (all of them if None) and sees no others of it.
    """
    ids, pos, seg, start = list(stem), list(range(len(stem))), [0] * len(stem), [0] * len(stem)
    for i, b in enumerate(branches):
        n = starts[i] if starts else len(stem)
        ids += b
        pos += range(n, n + len(b))
        seg += [i + 1] * len(b)
        start += [n] * len(b)
    return ids, pos, seg, start


def forward(trunk, rows):
    """Hidden states [rows][tokens][d] of packed rows; row r's are the first len(ids)."""
    dev = trunk.embed.weight.device
    n = max(len(r[0]) for r in rows)
    ids, pos, seg, start = (torch.tensor([r[k] + [fill] * (n - len(r[0])) for r in rows], device=dev)
                            for k, fill in enumerate((0, 0, -1, 0)))
    stem = (seg[:, None, :] == 0) & (pos[:, None, :] < start[:, :, None])
    seen = ((seg[:, :, None] == seg[:, None, :]) | stem) & torch.ones(n, n, dtype=torch.bool, device=dev).tril()
    mask = torch.zeros(len(rows), 1, n, n, device=dev)
    mask.masked_fill_(~seen[:, None], -1e9)
    return trunk.hidden(ids, mask, None, pos)


@torch.no_grad()
def rewards(verifier, tok, prompts, solutions, end, kind, share=1, batch=64):
    """For each prompt and each of its solutions (ids) the reward of every step; solutions may be unfinished."""
    jobs = [(p, i) for p in range(len(prompts)) for i in range(0, len(solutions[p]), share)]
    jobs.sort(key=lambda j: len(prompts[j[0]]) + sum(map(len, solutions[j[0]][j[1]:j[1] + share])))
    out = [[None] * len(s) for s in solutions]
    for at in range(0, len(jobs), batch):
        part = jobs[at:at + batch]
        rows = [pack(prompts[p], solutions[p][i:i + share]) for p, i in part]
        where, owner = [], []
        for r, (p, i) in enumerate(part):
            col = len(prompts[p])
            for k, s in enumerate(solutions[p][i:i + share], i):
                out[p][k] = []
                for m in steps.marks(tok, s, end):
                    where.append((r, col + m))
                    owner.append(out[p][k])
                col += len(s)
        if not where:
            continue
        r, c = torch.tensor(where).t()
        odds = verifier.heads(forward(verifier.trunk, rows)[r, c])[kind]
        for o, x in zip(owner, odds.sigmoid().tolist()):
            o.append(x)
    return out
