"""The likelihood judge: a language model whose probability of a step is that step's reward.

reward of a step = exp(sum over its tokens of log p(token | prompt, all solution tokens before it))

No head and no mark: an ordinary generator file can be one.  The product of the rewards is the likelihood of a solution.
"""
import torch

import prm
import steps


def token_log_p(model, packed, where):
    """Log-probabilities [len(where)] of tokens of packed rows; where: (row, column of the token, column before it)."""
    hidden = prm.forward(model, packed)
    row, at, before = torch.tensor(where, device=hidden.device).t()
    target = torch.tensor([packed[r][0][i] for r, i, _ in where], device=hidden.device)
    logits = model.logits(hidden[row, before])
    return logits.gather(1, target[:, None])[:, 0] - logits.logsumexp(1)


def step_sums(log_p, owner, n):
    """Sums [n] of the log-probabilities whose owner is each step."""
    return log_p.new_zeros(n).index_add(0, torch.tensor(owner, device=log_p.device), log_p)


@torch.no_grad()
def rewards(model, tok, prompts, solutions, end, share=4, batch=32):
    """For each prompt and each of its solutions (ids) the reward of every step; what follows the last step has none."""
    jobs = [(p, i) for p in range(len(prompts)) for i in range(0, len(solutions[p]), share)]
    jobs.sort(key=lambda j: len(prompts[j[0]]) + sum(map(len, solutions[j[0]][j[1]:j[1] + share])))
    out = [[[] for _ in row] for row in solutions]
    for at in range(0, len(jobs), batch):
        part = jobs[at:at + batch]
        packed, where, owner, steps_of = [], [], [], []
        for r, (p, i) in enumerate(part):
            packed.append(prm.pack(prompts[p], solutions[p][i:i + share]))
            col = len(prompts[p])
            for k, s in enumerate(solutions[p][i:i + share], i):
                done = 0
                for m in steps.marks(tok, s, end):
                    where += [(r, col + t, col + t - 1 if t else len(prompts[p]) - 1) for t in range(done, m + 1)]
                    owner += [len(steps_of)] * (m + 1 - done)
                    steps_of.append(out[p][k])
                    done = m + 1
                col += len(s)
        if where:
            for o, x in zip(steps_of, step_sums(token_log_p(model, packed, where), owner,
                                                len(steps_of)).exp().tolist()):
                o.append(x)
    return out
