"""Writes tests/golden/prm_scores.json: step rewards of a verifier in f32 from its exported (F16) weights.

usage: golden_prm.py GENERATOR_DIR PRM_DIR OUT.json [countdown]

For 20 problems from seed 1001000000 on: the prompt's ids, and a sampled and the worked solution's ids (end token last),
where its steps end (step_end, the number of tokens up to and with the last of a step), each step's label, and its
reward by both heads (of Countdown by the value head, the one that is trained).
"""
import importlib
import json
import sys

import torch

import measure
import prm
import sample
import steps
import train_prm

FIRST, N = 10 ** 9 + 10 ** 6, 20


def main(generator, verifier_dir, path, task="problems"):
    kinds, task = prm.KINDS if task == "problems" else ("value",), importlib.import_module(task)
    torch.manual_seed(1)
    model, tok, _ = sample.load(generator, "cpu")
    verifier = measure.load_verifier(verifier_dir, "cpu")
    for p in verifier.parameters():
        if p.dim() == 2:
            p.data = p.data.half().float()
    end, out = tok.id["<|im_end|>"], []
    drawn = sample.solutions(model, tok, range(FIRST, FIRST + N), 8, 1.0, task)
    for seed, rows in zip(range(FIRST, FIRST + N), drawn):
        made = task.make(seed)
        prompt = tok.encode(task.chat(made[0]))
        worked = train_prm.worked_ids(task, tok, made, len(prompt))
        other = next((s for s in rows if s and s != worked), None)
        for s in [worked] + ([other] if other else []):
            reward = {k: prm.rewards(verifier, tok, [prompt], [[s]], end, k)[0][0] for k in kinds}
            out.append(dict(seed=seed, prompt=prompt, solution=s, step_end=[m + 1 for m in steps.marks(tok, s, end)],
                            labels=train_prm.labels_of(task, tok, end, seed, worked, s)[0], **reward))
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in out) + "\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
