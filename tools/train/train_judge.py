"""Trains a likelihood judge (judge.py) on sampled solutions whose steps the generator of problems has checked.

usage: train_judge.py START_DIR SAMPLES.jsonl OUT_DIR --tokens 12 [--wrong 1 --lr 3e-3 --batch 32 --seconds 85]

START_DIR holds the weights to begin with.  A step's reward R, its probability, is trained as the chance that the step
is right: -log R for every step of the worked solution and every right step that is written otherwise (what plain
language modelling does, too), and --wrong times -log(1 - R) for the first wrong step of every different sample; steps
behind that are left out.  A row is a tree: question, worked solution, and the samples from the step on in which they
differ. --tokens: millions of worked tokens in all; --seconds ends this call early, the same command goes on later.
"""
import argparse
import json
import math
import os
import random
import shutil
import time

import torch

import judge
import prm
import problems
import sample
import steps

R_MAX = 0.99  # the steepest part of -log(1 - R) is left out


def branches(tok, end, seed, worked, samples):
    """The different continuations of the worked solution's first steps, each up to its first wrong step:
    {(tokens of the worked solution before it, ids): right or not}."""
    ends = [m + 1 for m in steps.marks(tok, worked, end)]
    out = {}
    for s in map(list, dict.fromkeys(map(tuple, samples))):
        right = steps.labels(seed, tok.decode(s[:-1]))
        stop = [m + 1 for m in steps.marks(tok, s, end)]
        shared = 0
        while shared < min(len(ends), len(stop)) and s[:stop[shared]] == worked[:ends[shared]]:
            shared += 1
        if shared < len(stop):
            start, last = stop[shared - 1] if shared else 0, right.index(0) if 0 in right else len(stop) - 1
            out[start, tuple(s[start:stop[last]])] = 0 not in right[:last + 1]
    return out


def tree(tok, end, line):
    """One problem as (prompt tokens, stem ids, [(start, ids, all right)]); starts count stem tokens."""
    d = json.loads(line)
    q, lines, answer = problems.make(d["seed"])
    prompt = tok.encode(problems.chat(q))
    worked = tok.encode("\n".join(l for l, _ in lines) + f"\n#### {answer}<|im_end|>")
    found = branches(tok, end, d["seed"], worked, d["samples"])
    return len(prompt), prompt + worked, [(len(prompt) + n, list(ids), ok) for (n, ids), ok in found.items()]


def batch_of(tok, end, rows):
    """(packed rows, tokens to score, the step that each belongs to, is each step right)."""
    packed, where, owner, right = [], [], [], []
    for r, (n_prompt, stem, found) in enumerate(rows):
        packed.append(prm.pack(stem, [b for _, b, _ in found], [n for n, _, _ in found]))
        col = n_prompt
        for start, ids, ok in [(n_prompt, stem[n_prompt:], True)] + found:
            done, marks = 0, steps.marks(tok, ids, end)
            for m in marks:
                where += [(r, col + t, col + t - 1 if t else start - 1) for t in range(done, m + 1)]
                owner += [len(right)] * (m + 1 - done)
                right.append(ok or m != marks[-1])
                done = m + 1
            col += len(ids)
    return packed, where, owner, right


def order(rows, epoch, batch):
    """Batches of rows of similar length, the same whenever training resumes."""
    rng = random.Random(epoch)
    pool = rng.sample(range(len(rows)), len(rows))
    size = lambda i: len(rows[i][1]) + sum(len(b[1]) for b in rows[i][2])
    groups = []
    for at in range(0, len(pool), batch * 40):
        part = sorted(pool[at:at + batch * 40], key=size)
        groups += [part[i:i + batch] for i in range(0, len(part), batch)]
    rng.shuffle(groups)
    return groups


def main():
    a = argparse.ArgumentParser()
    a.add_argument("start")
    a.add_argument("data")
    a.add_argument("out")
    a.add_argument("--tokens", type=float, default=12)
    a.add_argument("--wrong", type=float, default=1.0)
    a.add_argument("--lr", type=float, default=3e-3)
    a.add_argument("--seconds", type=float, default=1e9)
    a.add_argument("--batch", type=int, default=32)
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--device", default="auto")
    c = a.parse_args()
    t0 = time.time()
    torch.set_num_threads(c.threads)
    model, tok, ck = sample.load(c.start, c.device)
    end, dev = tok.id["<|im_end|>"], model.embed.weight.device
    opt = torch.optim.AdamW(model.parameters(), c.lr, betas=(0.9, 0.98), weight_decay=0.01)
    os.makedirs(c.out, exist_ok=True)
    shutil.copy(os.path.join(c.start, "tokenizer.json"), c.out)
    path, trees = os.path.join(c.out, "checkpoint.pt"), os.path.join(c.out, "trees.pt")
    step, tokens, ema = 0, 0, None
    if os.path.exists(path):
        s = torch.load(path, map_location=dev)
        model.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        step, tokens, ema = s["step"], s["tokens"], s["ema"]
    if not os.path.exists(trees):
        torch.save([tree(tok, end, line) for line in open(c.data)], trees)
    rows = torch.load(trees)
    per_epoch = -(-len(rows) // c.batch)
    epoch, groups = -1, []
    print(f"{len(rows)} problems, {sum(len(r[2]) for r in rows)} branches, starting at {step}, {tokens / 1e6:.2f}M",
          flush=True)
    while tokens < 1e6 * c.tokens and time.time() - t0 < c.seconds:
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            groups = order(rows, epoch, c.batch)
        for g in opt.param_groups:
            g["lr"] = c.lr * min(1, (step + 1) / 100) * max(0.01, 1 - tokens / (1e6 * c.tokens))
        part = [rows[i] for i in groups[step % per_epoch]]
        packed, where, owner, right = batch_of(tok, end, part)
        log_r = judge.step_sums(judge.token_log_p(model, packed, where), owner, len(right))
        y = torch.tensor(right, device=dev)
        n = sum(len(r[1]) - r[0] for r in part)
        good, bad = -log_r[y].sum() / n, -torch.log1p(-R_MAX * log_r[~y].exp()).sum() / n
        opt.zero_grad()
        (good + c.wrong * bad).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        step += 1
        tokens += n
        now = torch.tensor([good.item(), bad.item()])
        ema = now if ema is None else 0.98 * ema + 0.02 * now
        if step % 100 == 0:
            print(f"step {step} right {ema[0]:.4f} wrong {ema[1]:.4f} tokens {tokens / 1e6:.2f}M {time.time() - t0:.0f} s", flush=True)
    torch.save(dict(model=model.state_dict(), opt=opt.state_dict(), step=step, tokens=tokens, ema=ema,
                    config=ck["config"],
                    prm=dict(kind="likelihood")), path)
    print(f"at step {step}, {tokens / 1e6:.2f}M of {c.tokens}M tokens", flush=True)


if __name__ == "__main__":
    main()
