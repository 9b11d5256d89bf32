"""What the likelihood judge is trained and measured on: trees of solutions against the same solutions one by one."""
import argparse
import copy
import sys
import unittest
from pathlib import Path

import torch

TRAIN = Path(__file__).resolve().parents[2] / "tools" / "train"
sys.path.insert(0, str(TRAIN))
import bpe  # noqa: E402
import judge  # noqa: E402
import problems  # noqa: E402
import reader  # noqa: E402
import steps  # noqa: E402
import train  # noqa: E402
import train_judge  # noqa: E402
from model import MAX_CTX, Model  # noqa: E402
from muon import Muon, orthogonal  # noqa: E402

TOK = bpe.Tokenizer.load(TRAIN / "tokenizer.json")
END = TOK.id["<|im_end|>"]
SEED = next(s for s in range(1000) if len(problems.make(s)[1]) == 3 and "+" in problems.make(s)[1][0][0])
QUESTION, LINES, ANSWER = problems.make(SEED)
WORKED = [line for line, _ in LINES] + [f"#### {ANSWER}"]


def ids(lines):
    return TOK.encode("\n".join(lines) + "<|im_end|>")


def swapped(line):
    a, _, b, _, c = line.split()
    return f"{b} + {a} = {c}"


class Branches(unittest.TestCase):
    def of(self, *solutions):
        return train_judge.branches(TOK, END, SEED, ids(WORKED), [ids(s) for s in solutions])

    def test_worked_solution_is_no_branch(self):
        self.assertEqual(self.of(WORKED, WORKED), {})

    def test_first_wrong_step_ends_a_branch(self):
        wrong = WORKED[:1] + ["1 + 1 = 3."] + WORKED[2:]
        start = len(TOK.encode(WORKED[0] + "\n"))
        self.assertEqual(self.of(wrong, wrong), {(start, tuple(TOK.encode("1 + 1 = 3.\n"))): False})

    def test_other_way_of_writing_is_right(self):
        other = [swapped(WORKED[0])] + WORKED[1:]
        self.assertEqual(self.of(other), {(0, tuple(ids(other))): True})

    def test_wrong_behind_other_way(self):
        other = [swapped(WORKED[0]), "1 + 1 = 3."] + WORKED[2:]
        self.assertEqual(self.of(other), {(0, tuple(TOK.encode("\n".join(other[:2]) + "\n"))): False})


class Reader(unittest.TestCase):
    def test_documents_weigh_less(self):
        [(ids, following, weights, _)], seed = next(train.batches(reader, TOK, 2, 0, 0.3))
        self.assertTrue(torch.equal(ids[:, 1:], following[:, :-1]))
        n = weights.shape[0]
        self.assertEqual((n, seed), (2, 80))
        self.assertLessEqual(ids.shape[1], MAX_CTX)
        said = [TOK.decode(following[i][weights[i] == 1].tolist()) for i in range(n)]
        answers = {reader.make(s)["answer"] + "<|im_end|>" for s in range(80)}
        self.assertTrue(set(said) <= answers, said)
        self.assertEqual(sorted({round(w, 3) for w in weights.flatten().tolist()} - {0}), [0.3, 1])

    def test_branches_are_the_same_chat(self):
        for i in range(len(reader.MIX)):
            made = reader.example(i)
            trunk, asked = reader.branches(made)
            self.assertEqual([trunk + asked[0][0], asked[0][1]], reader.texts(made)[:2])
            self.assertEqual([a for _, a in asked], [t + "<|im_end|>" for t in [made["answer"]] + [a for _, a in made["more"]]])
            for (question, _), (asked_for, _) in zip(asked[1:], made["more"]):
                self.assertEqual(question, f"{asked_for}<|im_end|>\n<|im_start|>assistant\n")

    def test_the_answer_is_right_and_another_is_not(self):
        for seed in range(24):
            made = reader.make(seed)
            self.assertTrue(reader.right(made, made["answer"]))
            self.assertFalse(reader.right(made, made["question"]))


class Optimizer(unittest.TestCase):
    def test_steps_are_orthogonal(self):
        torch.manual_seed(1)
        for shape in ((64, 256), (256, 64)):
            for dtype in (torch.bfloat16, torch.float):
                size = torch.linalg.svdvals(orthogonal(torch.randn(shape), dtype))
                self.assertTrue(size.min() > 0.6 and size.max() < 1.3, size)

    def test_goes_on_where_it_was_saved(self):
        def steps(model, opt, inputs):
            for x in inputs:
                opt.zero_grad()
                model(x).pow(2).sum().backward()
                opt.step()

        torch.manual_seed(1)
        inputs = torch.randn(4, 8, 16)
        whole = torch.nn.Sequential(torch.nn.LayerNorm(16), torch.nn.Linear(16, 32))
        halves = copy.deepcopy(whole)
        steps(whole, Muon(whole, 0.1), inputs)
        first = Muon(halves, 0.1)
        steps(halves, first, inputs[:2])
        second = Muon(halves, 0.1)
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        steps(halves, second, inputs[2:])
        for a, b in zip(whole.parameters(), halves.parameters()):
            self.assertTrue(torch.equal(a, b))


class Likelihood(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.model = Model(argparse.Namespace(d=16, layers=2, heads=2, kv=1, ff=24, vocab=len(TOK.vocab))).eval()
        for p in self.model.parameters():  # far from uniform, so that a wrong column shows
            p.data *= 4
        self.prompt = TOK.encode(problems.chat(QUESTION))
        other = swapped(WORKED[0])
        self.solutions = [WORKED, WORKED[:1] + ["1 + 1 = 3."] + WORKED[2:], [other] + WORKED[1:], [other, "1 + 1 = 3."],
                          WORKED[:2]]

    @torch.no_grad()
    def plain(self, stem, s):
        """Log-probability of every step of s behind a stem, alone in its row."""
        log_p = self.model.logits(self.model.hidden(torch.tensor([stem + s]))).log_softmax(-1)[0]
        out, done = [], 0
        for m in steps.marks(TOK, s, END):
            out.append(sum(log_p[len(stem) + t - 1, s[t]].item() for t in range(done, m + 1)))
            done = m + 1
        return out

    def test_rewards(self):
        sols = [ids(s) for s in self.solutions]
        got = judge.rewards(self.model, TOK, [self.prompt], [sols], END, share=3)[0]
        for s, r in zip(sols, got):
            for a, b in zip(r, self.plain(self.prompt, s)):
                self.assertAlmostEqual(torch.tensor(a).log().item(), b, delta=1e-3)

    @torch.no_grad()
    def test_trees(self):
        line = '{"seed": %d, "samples": %s}' % (SEED, [ids(s) for s in self.solutions[:4]])
        n, stem, found = row = train_judge.tree(TOK, END, line)
        packed, where, owner, right = train_judge.batch_of(TOK, END, [row, row])
        got = judge.step_sums(judge.token_log_p(self.model, packed, where), owner, len(right)).tolist()
        want = [x for start, s, _ in [(n, stem[n:], True)] + found for x in self.plain(stem[:start], s)]
        self.assertEqual(right, ([True] * 4 + [False] + [True] * 4 + [True, False]) * 2)
        self.assertEqual(len(got), 2 * len(want))
        for a, b in zip(got, want * 2):
            self.assertAlmostEqual(a, b, delta=1e-3)


class Attention(unittest.TestCase):
    def test_written_out_gradients_are_autograd_s(self):
        """300 tokens: two whole blocks of queries and a part; groups of two heads."""
        torch.manual_seed(1)
        model = Model(argparse.Namespace(d=64, layers=2, heads=4, kv=2, ff=96, vocab=97))
        text = torch.randint(0, 97, (2, 301))
        seen = []
        for mask in (None, torch.full((300, 300), float("-inf")).triu(1)):
            model.zero_grad()
            logits = model.logits(model.hidden(text[:, :-1], mask))
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
            seen.append(torch.cat([logits.detach().flatten()] + [p.grad.flatten() for p in model.parameters()]))
        self.assertLess((seen[0] - seen[1]).norm(), 1e-5 * seen[1].norm())

    def test_branches_are_sequences_of_their_own(self):
        """Loss and gradients of a trunk with branches, and of the trunk with each of them alone."""
        torch.manual_seed(1)
        model = Model(argparse.Namespace(d=64, layers=2, heads=4, kv=2, ff=96, vocab=len(TOK.vocab)))
        [(ids, following, w, more)], _ = next(train.branched(reader, TOK, 1, 1, 0.1, 0))

        def loss(ids, following, w, **more):
            logits = model.logits(model.hidden(ids, **more)).flatten(0, 1)
            return (torch.nn.functional.cross_entropy(logits, following.flatten(), reduction="none") * w.flatten()).sum()

        model.zero_grad()
        whole = loss(ids, following, w, **more)
        whole.backward()
        got = [whole.item()] + [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        branches = [(s, e, n) for s, e, n in more["blocks"] if n == more["blocks"][-1][2]]
        self.assertIn(len(branches), dict(reader.MIX).values())
        alone = 0
        for i, (s, e, n) in enumerate(branches):
            take = lambda x: torch.cat([x[:, :n], x[:, s:e]], 1)
            of_trunk = torch.cat([w[:, :n] * (i == 0), w[:, s:e]], 1)
            part = loss(take(ids), take(following), of_trunk)
            part.backward()
            alone += part.item()
        self.assertAlmostEqual(got[0], alone, delta=1e-4 * alone)
        for g, p in zip(got[1:], model.parameters()):
            self.assertLess((g - p.grad).norm(), 1e-4 * p.grad.norm() + 1e-6)
