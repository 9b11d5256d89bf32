"""Trains a step verifier on sampled solutions, starting from the weights of the generator that wrote them.

usage: train_prm.py GENERATOR_DIR SAMPLES.jsonl OUT_DIR [--epochs 2 --batch 12 --samples 6 --lr 2e-3 --dense 1 --lm 0.5]

Loss: binary cross-entropy of the heads (prm.py; --heads) at the end of every step, right and wrong steps weighted
equally; the same at every token of a solution, which shows where a step goes wrong (--dense); and the generator's own
loss on the worked solution, which keeps the trunk learning arithmetic (--lm).  What is right: steps.py says it of word
problems; of --task countdown everything behind which the target can still be reached, found by search (countdown.py). 
Each row holds a question, its worked solution and the first --samples different sampled ones.  The last 5 % of the
problems are held out: step AUC is measured on them. Checkpoints and resumes.
"""
import argparse
import importlib
import json
import math
import os
import random
import shutil
import time

import torch
import torch.nn.functional as F

import bpe
import prm
import problems
import sample
import steps


def token_labels(tok, end, worked, ids, right):
    """1 for each token before the first that differs from the worked solution in the first wrong step, then 0."""
    if all(right):
        return [1] * len(ids)
    k = right.index(0)
    starts = lambda s: [0] + [m + 1 for m in steps.marks(tok, s, end)] + [len(s)]
    here, there = starts(ids), starts(worked)
    at, step = here[k], worked[there[k]:there[k + 1]] if k + 1 < len(there) else []
    while at < len(ids) and at - here[k] < len(step) and ids[at] == step[at - here[k]]:
        at += 1
    return [1] * at + [0] * (len(ids) - at)


def worked_ids(task, tok, made, n_prompt):
    """The worked solution's ids, the end token last."""
    ids = tok.encode(task.chat(*made))[n_prompt:]
    return ids[:ids.index(tok.id["<|im_end|>"]) + 1]


def labels_of(task, tok, end, seed, worked, ids):
    """(labels of the steps, labels of the tokens) of a whole solution."""
    if task is problems:
        right = steps.labels(seed, tok.decode(ids[:-1]))
        return right, token_labels(tok, end, worked, ids, right)
    return task.labels(seed, tok.decode(ids[:-1])), task.token_labels(seed, [tok.decode([i]) for i in ids[:-1]] + [""])


def read(path, tok, end, n_samples, task):
    """Packed rows: (packed, marks, labels of the marks, (first column, tokens) of the worked solution, labels of all
    solution tokens)."""
    out = []
    for line in open(path):
        d = json.loads(line)
        made = task.make(d["seed"])
        prompt = tok.encode(task.chat(made[0]))
        worked = worked_ids(task, tok, made, len(prompt))
        sols = [worked] + [list(s) for s in dict.fromkeys(map(tuple, d["samples"])) if list(s) != worked][:n_samples]
        at, where, y, dense = len(prompt), [], [], []
        for s in sols:
            where += [at + m for m in steps.marks(tok, s, end)]
            by_step, by_token = labels_of(task, tok, end, d["seed"], worked, s)
            y += by_step
            dense += by_token
            at += len(s)
        out.append((prm.pack(prompt, sols), where, y, (len(prompt), len(worked)), dense))
    return out


def gather(hidden, at):
    """Hidden states at (row, column) pairs."""
    return hidden[tuple(torch.tensor(at, device=hidden.device).t())]


def step_ends(hidden, rows):
    """Hidden states at the step ends, and their labels."""
    x = gather(hidden, [(r, m) for r, row in enumerate(rows) for m in row[1]])
    return x, torch.tensor([v for row in rows for v in row[2]], device=x.device).float()


def all_tokens(hidden, rows):
    """Hidden states at all solution tokens, and their labels."""
    x = gather(hidden, [(r, row[3][0] + i) for r, row in enumerate(rows) for i in range(len(row[4]))])
    return x, torch.tensor([v for row in rows for v in row[4]], device=x.device).float()


def worked(hidden, rows):
    """Hidden states before the tokens of the worked solutions, and those tokens."""
    columns = [(r, i) for r, row in enumerate(rows) for i in range(row[3][0], sum(row[3]))]
    x = gather(hidden, [(r, i - 1) for r, i in columns])
    return x, torch.tensor([rows[r][0][0][i] for r, i in columns], device=x.device)


def balanced(verifier, kinds, x, y):
    """Mean cross-entropy of the heads of these kinds, right and wrong weighted equally."""
    n, n_right = len(y), y.sum().clamp(1, len(y) - 1)
    w = torch.where(y > 0, n / (2 * n_right), n / (2 * (n - n_right)))
    odds = verifier.heads(x)
    return sum(F.binary_cross_entropy_with_logits(odds[k], y, w) for k in kinds) / len(kinds)


def auc(score, y):
    """Chance that a right step scores higher than a wrong one."""
    rank = torch.empty(len(score))
    rank[score.argsort()] = torch.arange(1, len(score) + 1).float()
    pos, neg = y.sum().item(), (1 - y).sum().item()
    return (rank[y > 0].double().sum().item() - pos * (pos + 1) / 2) / max(pos * neg, 1)


@torch.no_grad()
def held_out_auc(verifier, rows, batch=32):
    odds, ys = {k: [] for k in prm.KINDS}, []
    for at in range(0, len(rows), batch):
        part = rows[at:at + batch]
        x, y = step_ends(prm.forward(verifier.trunk, [r[0] for r in part]), part)
        ys.append(y.cpu())
        for k, v in verifier.heads(x).items():
            odds[k].append(v.cpu())
    y = torch.cat(ys)
    return {k: round(auc(torch.cat(v), y), 4) for k, v in odds.items()}, len(y), y.mean().item()


def save(path, verifier, opt, c, step, tokens, spent):
    torch.save(dict(model=verifier.trunk.state_dict(), value=verifier.value.state_dict(), opt=opt.state_dict(),
                    step=step,
                    tokens=tokens, spent=spent, config=c, prm=dict(plus=verifier.plus, minus=verifier.minus)), path)


def order(rows, epochs, batch):
    """Batches of rows of similar length, in an order that is the same whenever training resumes."""
    out = []
    for e in range(epochs):
        rng = random.Random(e)
        pool = rng.sample(rows, len(rows))
        pool.sort(key=lambda r: len(r[0][0]))
        groups = [pool[i:i + batch] for i in range(0, len(pool), batch)]
        rng.shuffle(groups)
        out += groups
    return out


def main():
    a = argparse.ArgumentParser()
    a.add_argument("generator")
    a.add_argument("data")
    a.add_argument("out")
    a.add_argument("--task", choices=("problems", "countdown"), default="problems")
    a.add_argument("--heads", nargs="+", choices=prm.KINDS, default=prm.KINDS, help="those to train")
    for k, v in dict(epochs=2, batch=12, samples=6, threads=1).items():
        a.add_argument("--" + k, type=int, default=v)
    a.add_argument("--lr", type=float, default=2e-3)
    a.add_argument("--dense", type=float, default=1.0)
    a.add_argument("--lm", type=float, default=0.5)
    a.add_argument("--device", default="auto")
    c = a.parse_args()
    torch.set_num_threads(c.threads)
    torch.manual_seed(1)
    trunk, tok, ck = sample.load(c.generator, c.device)
    end, dev = tok.id["<|im_end|>"], trunk.embed.weight.device
    verifier = prm.Verifier(trunk.c, tok.id["+"], tok.id["-"]).to(dev)
    verifier.trunk.load_state_dict(trunk.state_dict())
    opt = torch.optim.AdamW(verifier.parameters(), c.lr, betas=(0.9, 0.98), weight_decay=0.01)
    os.makedirs(c.out, exist_ok=True)
    shutil.copy(os.path.join(c.generator, "tokenizer.json"), c.out)
    path, step, tokens, spent = os.path.join(c.out, "checkpoint.pt"), 0, 0, 0.0
    if os.path.exists(path):
        s = torch.load(path, map_location=dev)
        verifier.trunk.load_state_dict(s["model"])
        verifier.value.load_state_dict(s["value"])
        opt.load_state_dict(s["opt"])
        step, tokens, spent = s["step"], s["tokens"], s["spent"]
    rows = read(c.data, tok, end, c.samples, importlib.import_module(c.task))
    n_held = max(1, len(rows) // 20)
    held, rows = rows[-n_held:], rows[:-n_held]
    todo = order(rows, c.epochs, c.batch)
    n_step = len(todo)
    print(f"{len(rows)} problems, {sum(len(r[2]) for r in rows)} steps, {n_step} updates, starting at {step}",
          flush=True)
    t0, last, ema = time.time() - spent, time.time(), None
    for step in range(step, n_step):
        part = todo[step]
        for g in opt.param_groups:
            g["lr"] = c.lr * min(1, (step + 1) / 100) * (0.02 + 0.49 * (1 + math.cos(math.pi * step / n_step)))
        hidden = prm.forward(verifier.trunk, [r[0] for r in part])
        bce, dense = (balanced(verifier, c.heads, *of(hidden, part)) for of in (step_ends, all_tokens))
        before, target = worked(hidden, part)
        lm = F.cross_entropy(verifier.trunk.logits(before), target)
        opt.zero_grad()
        (bce + c.dense * dense + c.lm * lm).backward()
        torch.nn.utils.clip_grad_norm_(verifier.parameters(), 1.0)
        opt.step()
        tokens += sum(len(r[0][0]) for r in part)
        now = torch.tensor([bce.item(), dense.item(), lm.item()])
        ema = now if ema is None else 0.98 * ema + 0.02 * now
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} step {ema[0]:.4f} token {ema[1]:.4f} lm {ema[2]:.4f} tokens {tokens / 1e6:.2f}M "
                  f"{(time.time() - t0) / 60:.1f} min", flush=True)
        if time.time() - last > 60:
            save(path, verifier, opt, ck["config"], step + 1, tokens, time.time() - t0)
            last = time.time()
    save(path, verifier, opt, ck["config"], n_step, tokens, time.time() - t0)
    result, n, right = held_out_auc(verifier, held)
    print(f"step AUC {result} on {n} steps of {len(held)} held-out problems, {right:.3f} of them right")


if __name__ == "__main__":
    main()
