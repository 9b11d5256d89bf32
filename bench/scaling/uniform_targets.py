# SPDX-License-Identifier: MIT
"""Countdown problems whose targets are drawn uniformly, for docs/SCALING.md: the generator of tools/train/countdown.py
makes a target from its numbers, so that easy ones are frequent.

usage: uniform_targets.py N SEED > problems.jsonl
       lutra eval -m models/countdown-s-f16.gguf -f problems.jsonl --temp 0.7 -n 60 -s 1 --grade countdown \\
           --check countdown --methods greedy,best@8

Numbers are 1 to 30, results 1 to 199, targets 10 to 99; every number is used once; only questions of the test split."""
import json
import random
import sys
import zlib


def reachable(numbers, known):
    """All that the numbers make, each used once."""
    if len(numbers) == 1:
        return {numbers[0]}
    if numbers in known:
        return known[numbers]
    found = set()
    for i, a in enumerate(numbers):
        for k, b in enumerate(numbers):
            if i == k:
                continue
            rest = [n for at, n in enumerate(numbers) if at not in (i, k)]
            results = [a - b] + ([a + b, a * b] if i < k else []) + ([a // b] if a % b == 0 else [])
            for r in results:
                if 1 <= r <= 199:
                    found |= reachable(tuple(sorted(rest + [r])), known)
    known[numbers] = found
    return found


def main():
    n, draw = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    while n > 0:
        target = draw.randint(10, 99)
        for _ in range(2000):
            numbers = [draw.randint(1, 30) for _ in range(4)]
            name = " ".join(map(str, sorted(numbers))) + f" {target}"
            if zlib.crc32(name.encode()) % 8 == 0 and target in reachable(tuple(sorted(numbers)), {}):
                a, b, c, d = numbers
                print(json.dumps({"question": f"Use {a}, {b}, {c}, {d} to make {target}.", "answer": str(target)}))
                n -= 1
                break


if __name__ == "__main__":
    main()
