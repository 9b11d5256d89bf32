"""Writes a bundled test set, or a longer one of the same beginning: the first problems of a task's test seeds.

usage: make_test_set.py OUT.jsonl [--task problems|countdown] [--problems 500]
       make_test_set.py --check FILE [--task ...]    exit 1 unless FILE is byte for byte what would be written, and no
                                       question of it is among the training problems; says how many were compared

Questions of Countdown are the same whatever the order of their numbers, and the training sets of all seeds are looked
at.
"""
import argparse
import importlib
import json
import sys

FIRST_TEST_SEED = 10 ** 9
TRAINED = {"problems": [range(260_000)],  # seeds: more than any model of that task saw, or a part that is quickly made
           "countdown": [range(s * 10 ** 8, s * 10 ** 8 + 20_000) for s in range(3)]}


def same(task, question):
    """What makes a question the same as another."""
    return task.key(*task.numbers_of(question)) if hasattr(task, "key") else question


def lines(task, n):
    seen, seed = set(), FIRST_TEST_SEED
    while len(seen) < n:
        question, steps, answer = task.make(seed)
        seed += 1
        if same(task, question) in seen:
            continue
        seen.add(same(task, question))
        yield json.dumps({"question": question, "answer": str(answer), "steps": [line for line, _ in steps]}) + "\n"


def check(task, path, seeds):
    with open(path, encoding="utf-8", newline="") as f:
        text = f.read()
    expected = "".join(lines(task, text.count("\n")))
    if text != expected:
        return f"{path} is not what make_test_set.py writes"
    questions = {same(task, json.loads(line)["question"]) for line in expected.splitlines()}
    shared = [seed for part in seeds for seed in part if same(task, task.make(seed)[0]) in questions]
    print(f"{path}: {len(questions)} questions; {sum(map(len, seeds))} training problems, {len(shared)} of them among these")
    return f"training seed {shared[0]} is a test question" if shared else None


def main():
    a = argparse.ArgumentParser()
    a.add_argument("out", nargs="?")
    a.add_argument("--check")
    a.add_argument("--task", choices=TRAINED, default="problems")
    a.add_argument("--problems", type=int, default=500)
    c = a.parse_args()
    if (c.out is None) == (c.check is None):
        sys.exit(__doc__)
    task = importlib.import_module(c.task)
    if c.check:
        problem = check(task, c.check, TRAINED[c.task])
        if problem:
            sys.exit(problem)
    else:
        with open(c.out, "w", encoding="utf-8", newline="") as f:
            f.writelines(lines(task, c.problems))


if __name__ == "__main__":
    main()
