"""Measures what sampling and verifying buy: accuracy of each method on unseen problems, with 95 % intervals.

usage: measure.py GENERATOR_DIR [--prm PRM_DIR] [--judge MODEL_DIR] [--first 1001000000 --problems 300 --samples 16]
                  [--temperature 0.8 --beams 4] [--json OUT.json]

Methods: greedy, mean single sample, vote, any (what a perfect verifier would get); with a verifier (--prm: its two
heads; --judge: a model's likelihood) also best-of-N and weighted vote by the least, the product, the last or the mean
of a solution's step rewards, and step beam search: --beams B keeps B solutions and writes samples/B next steps for
each. Differences are paired bootstrap intervals over the problems.
Test problems start at 10**9; 10**9 + 10**6 onwards is for choosing settings.
"""
import argparse
import json
import math
import random
from collections import defaultdict

import torch

import judge
import prm
import problems
import sample
import steps
from model import generate
from problems import answer_of

POOL = {"min": min, "product": math.prod, "last": lambda r: r[-1], "mean": lambda r: sum(r) / len(r)}
MAX_STEPS, MAX_STEP_TOKENS = 12, 24


def load_verifier(folder, device="auto"):
    trunk, _, ck = sample.load(folder, device)
    v = prm.Verifier(trunk.c, ck["prm"]["plus"], ck["prm"]["minus"]).to(trunk.embed.weight.device)
    v.trunk.load_state_dict(trunk.state_dict())
    v.value.load_state_dict(ck["value"])
    return v.eval()


def winner(answers, weights):
    """The answer with the greatest sum of weights; the first of equals.  Answers that are None do not vote."""
    total = defaultdict(float)
    for a, w in zip(answers, weights):
        if a is not None:
            total[a] += w
    return max(total, key=total.get) if total else None


def scorers(c, tok, end):
    """{kind: function of (prompts, solutions) that gives the reward of every step}, for the verifiers asked for."""
    out = {}
    if c.prm:
        v = load_verifier(c.prm, c.device)
        for kind in prm.KINDS:
            out[kind] = lambda prompts, sols, kind=kind: prm.rewards(v, tok, prompts, sols, end, kind)
    if c.judge:
        model = sample.load(c.judge, c.device)[0]
        out["likelihood"] = lambda prompts, sols: judge.rewards(model, tok, prompts, sols, end)
    return out


def beam(model, score, tok, prompts, end, pool, beams, expand, temperature):
    """The best finished solution of a step-level beam search for each prompt (ids, or None), and the rows it took."""
    stops = {end} | {i for i, t in enumerate(tok.vocab) if t.endswith("\u010a")}
    live = [[([], 1.0)] for _ in prompts]
    rows_used = 0
    for depth in range(MAX_STEPS):
        grow = [(p, s) for p, c in enumerate(live) for s, _ in c if not s or s[-1] != end]
        if not grow:
            break
        times = expand * beams if depth == 0 else expand
        new = generate(model, [prompts[p] + s for p, s in grow for _ in range(times)], stops, temperature,
                       MAX_STEP_TOKENS)
        rows_used += len(new)
        fresh = [dict() for _ in prompts]  # equal solutions once
        for i, step in enumerate(new):
            p, s = grow[i // times]
            if step:
                fresh[p][tuple(s + step)] = None
        fresh = [[list(s) for s in f] for f in fresh]
        scores = score(prompts, fresh)
        for p in range(len(prompts)):
            done = [c for c in live[p] if c[0] and c[0][-1] == end]
            scored = done + [(s, POOL[pool](r)) for s, r in zip(fresh[p], scores[p])]
            live[p] = sorted(scored, key=lambda c: -c[1])[:beams]
    ended = [[c for c in cs if c[0] and c[0][-1] == end] for cs in live]
    return [max(cs, key=lambda c: c[1])[0] if cs else None for cs in ended], rows_used


def interval(diff, n_boot=4000):
    rng, n = random.Random(1), len(diff)
    means = sorted(sum(rng.choices(diff, k=n)) / n for _ in range(n_boot))
    return sum(diff) / n, means[int(0.025 * n_boot)], means[int(0.975 * n_boot)]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("generator")
    a.add_argument("--prm")
    a.add_argument("--judge")
    for k, v in dict(first=10 ** 9 + 10 ** 6, problems=300, samples=16, beams=4, threads=1, seed=1).items():
        a.add_argument("--" + k, type=int, default=v)
    a.add_argument("--temperature", type=float, default=0.8)
    a.add_argument("--json")
    a.add_argument("--device", default="auto")
    c = a.parse_args()
    torch.set_num_threads(c.threads)
    torch.manual_seed(c.seed)
    model, tok, _ = sample.load(c.generator, c.device)
    end = tok.id["<|im_end|>"]
    seeds = range(c.first, c.first + c.problems)
    truth = [str(problems.make(s)[2]) for s in seeds]
    prompts = [tok.encode(problems.chat(problems.make(s)[0])) for s in seeds]
    text = lambda s: answer_of(tok.decode(s[:-1])) if s and s[-1] == end and "####" in tok.decode(s) else None
    mark = lambda picked: [float(x == t) for x, t in zip(picked, truth)]
    sols = sample.solutions(model, tok, seeds, c.samples, c.temperature)
    ans = [[text(s) for s in row] for row in sols]
    ok = {"greedy": mark([text(s) for s in generate(model, prompts, {end})]),
          "mean sample": [sum(x == t for x in row) / len(row) for row, t in zip(ans, truth)],
          f"vote@{c.samples}": mark([winner(r, [1] * len(r)) for r in ans]),
          f"any@{c.samples}": [float(t in row) for row, t in zip(ans, truth)]}
    for kind, score in scorers(c, tok, end).items():
        rewards = score(prompts, [[s or [] for s in row] for row in sols])
        for pool, f in POOL.items():
            w = [[f(r) if r else 0.0 for r in row] for row in rewards]
            best = [max(zip(row, x), key=lambda p: (p[0] is not None, p[1]))[0] for row, x in zip(ans, w)]
            ok[f"best of {c.samples}, {kind}, {pool}"] = mark(best)
            ok[f"weighted vote, {kind}, {pool}"] = mark([winner(r, x) for r, x in zip(ans, w)])
        for pool in POOL:
            picked, rows = beam(model, score, tok, prompts, end, pool, c.beams, c.samples // c.beams, c.temperature)
            ok[f"beam {c.beams}x{c.samples // c.beams}, {kind}, {pool}"] = mark([text(s) for s in picked])
            print(f"beam, {kind}, {pool}: {rows / len(prompts):.1f} step rows per problem", flush=True)
    out = {}
    for name, marks in ok.items():
        line = {"accuracy": sum(marks) / len(marks)}
        for base in ("greedy", "mean sample", f"vote@{c.samples}"):
            line["minus " + base] = interval([x - y for x, y in zip(marks, ok[base])])
        out[name] = line
        print(f"{name:34} {line['accuracy']:.3f}   " + "  ".join(
            f"{k} {v[0]:+.3f} [{v[1]:+.3f}, {v[2]:+.3f}]" for k, v in line.items() if k != "accuracy"), flush=True)
    if c.json:
        json.dump(dict(settings=vars(c), methods=out), open(c.json, "w"), indent=1)


if __name__ == "__main__":
    main()
