"""Samples solutions of the problems of some seeds with a trained model.

usage: sample.py MODEL_DIR OUT.jsonl --first 170000 --problems 20000 --samples 6 --temperature 1.0

One line per problem: {"seed": n, "samples": [[token ids, the end token last], ...]}; samples that do not end are left
out.  Resumes: seeds that OUT.jsonl already has are not sampled again.
"""
import argparse
import importlib
import json
import os

import torch

import bpe
import problems
from model import Model, device_of, generate


def load(folder, device="auto", name="checkpoint.pt"):
    """(model in eval mode, tokenizer, checkpoint) of a training folder."""
    dev = device_of(device)
    ck = torch.load(os.path.join(folder, name), map_location=dev)
    model = Model(argparse.Namespace(**ck["config"])).to(dev)
    model.load_state_dict(ck["model"])
    return model.eval(), bpe.Tokenizer.load(os.path.join(folder, "tokenizer.json")), ck


def solutions(model, tok, seeds, n, temperature, task=problems):
    """For each seed, n sampled solutions (ids with the end token, or None)."""
    prompts = [tok.encode(task.chat(task.make(s)[0])) for s in seeds]
    flat = generate(model, [p for p in prompts for _ in range(n)], {tok.id["<|im_end|>"]}, temperature)
    return [flat[i * n:(i + 1) * n] for i in range(len(seeds))]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("out")
    a.add_argument("--task", choices=("problems", "countdown"), default="problems")
    for k, v in dict(first=170000, problems=20000, samples=6, threads=1, seed=1, block=256).items():
        a.add_argument("--" + k, type=int, default=v)
    a.add_argument("--temperature", type=float, default=1.0)
    a.add_argument("--device", default="auto")
    c = a.parse_args()
    torch.set_num_threads(c.threads)
    model, tok, _ = load(c.model, c.device)
    task = importlib.import_module(c.task)
    done = {json.loads(line)["seed"] for line in open(c.out)} if os.path.exists(c.out) else set()
    seeds = [s for s in range(c.first, c.first + c.problems) if s not in done]
    with open(c.out, "a") as f:
        for at in range(0, len(seeds), c.block):
            block = seeds[at:at + c.block]
            torch.manual_seed(c.seed * 10 ** 9 + block[0])
            for s, rows in zip(block, solutions(model, tok, block, c.samples, c.temperature, task)):
                f.write(json.dumps({"seed": s, "samples": [r for r in rows if r]}) + "\n")
            f.flush()
            print(f"{at + len(block)} of {len(seeds)} problems", flush=True)


if __name__ == "__main__":
    main()
