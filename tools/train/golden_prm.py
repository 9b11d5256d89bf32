"""Writes tests/golden/prm_scores.json: step rewards of a verifier in f32 from its exported (F16) weights.

usage: golden_prm.py GENERATOR_DIR PRM_DIR OUT.json

For 20 problems from seed 1001000000 on: the prompt's ids, and a sampled and the worked solution's ids (end token last),
where its steps end (step_end, the number of tokens up to and with the last of a step), each step's label, and its
reward by both heads.
"""
import json
import sys

import torch

import measure
import prm
import problems
import sample
import steps

FIRST, N = 10 ** 9 + 10 ** 6, 20


def main(generator, verifier_dir, path):
    torch.manual_seed(1)
    model, tok, _ = sample.load(generator, "cpu")
    verifier = measure.load_verifier(verifier_dir, "cpu")
    for p in verifier.parameters():
        if p.dim() == 2:
            p.data = p.data.half().float()
    end, out = tok.id["<|im_end|>"], []
    drawn = sample.solutions(model, tok, range(FIRST, FIRST + N), 8, 1.0)
    for seed, rows in zip(range(FIRST, FIRST + N), drawn):
        q, lines, answer = problems.make(seed)
        prompt = tok.encode(problems.chat(q))
        worked = tok.encode("\n".join(l for l, _ in lines) + f"\n#### {answer}<|im_end|>")
        other = next((s for s in rows if s and s != worked), None)
        for s in [worked] + ([other] if other else []):
            reward = {k: prm.rewards(verifier, tok, [prompt], [[s]], end, k)[0][0] for k in prm.KINDS}
            out.append(dict(seed=seed, prompt=prompt, solution=s, step_end=[m + 1 for m in steps.marks(tok, s, end)],
                            labels=steps.labels(seed, tok.decode(s[:-1])), **reward))
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in out) + "\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
