"""Writes models/abacus-test.jsonl: the first 500 problems of the generator's test seeds.

usage: make_test_set.py OUT.jsonl      write the set
       make_test_set.py --check FILE   exit 1 unless FILE is byte for byte what would be written, and no question of it
                                       is among the training problems (seeds 0 to 260,000: more than any model saw)
"""
import json
import sys

import problems

FIRST_TEST_SEED, N_PROBLEM, N_TRAIN = 10 ** 9, 500, 260_000


def lines():
    for i in range(N_PROBLEM):
        question, steps, answer = problems.make(FIRST_TEST_SEED + i)
        yield json.dumps({"question": question, "answer": str(answer), "steps": [line for line, _ in steps]}) + "\n"


def check(path):
    expected = "".join(lines())
    with open(path, encoding="utf-8", newline="") as f:
        if f.read() != expected:
            return f"{path} is not what make_test_set.py writes"
    questions = {json.loads(line)["question"] for line in expected.splitlines()}
    if len(questions) != N_PROBLEM:
        return f"only {len(questions)} of {N_PROBLEM} questions are different"
    shared = [seed for seed in range(N_TRAIN) if problems.make(seed)[0] in questions]
    return f"training seed {shared[0]} is a test question" if shared else None


def main(args):
    if len(args) == 2 and args[0] == "--check":
        problem = check(args[1])
        if problem:
            sys.exit(problem)
    elif len(args) == 1 and not args[0].startswith("-"):
        with open(args[0], "w", encoding="utf-8", newline="") as f:
            f.writelines(lines())
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
