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


def pack(prompt, solutions):
    """One row of ids for a prompt and several solutions that do not see one another: (ids, positions, segments)."""
    ids, pos, seg = list(prompt), list(range(len(prompt))), [0] * len(prompt)
    for i, s in enumerate(solutions, 1):
        pos += range(len(prompt), len(prompt) + len(s))
        seg += [i] * len(s)
        ids += s
    return ids, pos, seg


def forward(trunk, rows):
    """Hidden states [rows][tokens][d] of packed rows; row r's are the first len(ids)."""
    dev = trunk.embed.weight.device
    n = max(len(r[0]) for r in rows)
    ids, pos, seg = (torch.tensor([r[k] + [fill] * (n - len(r[0])) for r in rows], device=dev)
                     for k, fill in ((0, 0), (1, 0), (2, -1)))
    seen = (seg[:, :, None] == seg[:, None, :]) | (seg[:, None, :] == 0)
    mask = torch.zeros(len(rows), 1, n, n, device=dev)
    mask.masked_fill_(~(seen & torch.ones(n, n, dtype=torch.bool, device=dev).tril())[:, None], -1e9)
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
