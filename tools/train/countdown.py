"""Countdown: four numbers, each to be used once, make a target; one equation per line, the last one gives the target.

    Use 3, 25, 7, 12 to make 46.
    3*7=21
    25-12=13 ...

A solution may be found in many ways, and finding one is harder than checking it: `holds` reads the question and the
solution alone.  Numbers are 1 to 30, results 1 to 199, targets 10 to 99; a training example shows one random solution.

The split is by question: the numbers in order and the target are hashed, one question of eight is for tests.  Seeds
below 10**9 make training problems, those from 10**9 on test problems, so no seed's problem is ever on the other side.
"""
import functools
import random
import re
import zlib

FIRST_TEST_SEED = 10 ** 9
N_NUMBER, LARGEST, LARGEST_RESULT, TARGETS = 4, 30, 199, range(10, 100)
EQUATION = re.compile(r" *(\d{1,9}) *([-+*/]) *(\d{1,9}) *= *(\d{1,9}) *")


def results(a, b):
    """The equations of two numbers as (text, result); the larger stands first."""
    a, b = max(a, b), min(a, b)
    found = [("+", a + b)] + [("-", a - b)] * (a > b)
    found += ([("*", a * b)] + [("/", a // b)] * (a % b == 0)) if b > 1 else []
    return [(f"{a}{op}{b}={c}", c) for op, c in found if c <= LARGEST_RESULT]


def attempt(rng):
    """(numbers, equations as (line, result)) of random steps; None where no step was left."""
    numbers = [rng.randint(1, LARGEST) for _ in range(N_NUMBER)]
    pool, steps = numbers[:], []
    while len(pool) > 1:
        rng.shuffle(pool)
        found = results(pool.pop(), pool.pop())
        if not found:
            return None
        steps.append(rng.choice(found))
        pool.append(steps[-1][1])
    return numbers, steps


def key(numbers, target):
    """What makes a question the same as another: the order of its numbers does not count."""
    return " ".join(map(str, sorted(numbers))) + f" {target}"


def for_tests(numbers, target):
    return zlib.crc32(key(numbers, target).encode()) % 8 == 0


def make(seed):
    """Returns (question, steps, answer); steps is a list of (line, value)."""
    rng = random.Random(seed)
    while True:
        made = attempt(rng)
        if made and made[1][-1][1] in TARGETS and for_tests(made[0], made[1][-1][1]) == (seed >= FIRST_TEST_SEED):
            numbers, steps = made
            return f"Use {', '.join(map(str, numbers))} to make {steps[-1][1]}.", steps, steps[-1][1]


def numbers_of(question):
    """(numbers, target) of a question: all its numbers, the last one being the target."""
    found = [int(n) for n in re.findall(r"\d+", question)]
    return found[:-1], found[-1]


def left(numbers, lines):
    """The rule: every line holds and uses up two of the numbers left, its result is left instead.  None where one does
    not."""
    pool = list(numbers)
    for line in lines:
        m = EQUATION.fullmatch(line)
        if not m:
            return None
        a, op, b, c = int(m[1]), m[2], int(m[3]), int(m[4])
        for used in (a, b):
            if used not in pool:
                return None
            pool.remove(used)
        if not (c == a + b if op == "+" else c == a - b if op == "-" else c == a * b if op == "*" else a == b * c
                and b):
            return None
        pool.append(c)
    return pool


def holds(question, text):
    """Every line holds by the rule, and at last the target is what is left."""
    numbers, target = numbers_of(question)
    return left(numbers, text.strip().split("\n")) == [target]


# ---- what can still become of a solution: exact, by search ----

def moves(pool):
    """The equations that the rule allows next, as (text without blanks, numbers left in order)."""
    for i, a in enumerate(pool):
        for j, b in enumerate(pool):
            rest = tuple(x for k, x in enumerate(pool) if k not in (i, j))
            for op, c in (("+", a + b), ("-", a - b), ("*", a * b), ("/", a // b if b and a % b == 0
                                                                     else -1)) if i != j else ():
                if c >= 0:
                    yield f"{a}{op}{b}={c}", tuple(sorted(rest + (c,)))


@functools.lru_cache(1 << 20)
def reachable(pool, target):
    """Can the target be made of all of these numbers (a sorted tuple)?"""
    return pool == (target,) if len(pool) < 2 else any(reachable(rest, target) for _, rest in moves(pool))


@functools.lru_cache(1 << 16)
def ways(pool, target):
    """The lines behind which the target can still be reached."""
    return {line for line, rest in moves(pool) if reachable(rest, target)}


def labels(seed, text):
    """For each line of a whole solution: 1 if the target can still be reached behind it (at the last: if it has
    been)."""
    numbers, target = numbers_of(make(seed)[0])
    lines, out = text.split("\n"), []
    for i in range(len(lines)):
        pool = left(numbers, lines[:i + 1])
        out.append(int(pool is not None and (pool == [target] if i + 1 == len(lines)
                                             else reachable(tuple(sorted(pool)), target))))
    return out


def token_labels(seed, texts):
    """For each token of a whole solution, given as texts: 1 if what stands there can still become a right solution."""
    numbers, target = numbers_of(make(seed)[0])
    pool, line, out, ok = tuple(sorted(numbers)), "", [], True
    for i, t in enumerate(texts):
        line += t
        if ok and i + 1 == len(texts):  # the end
            ok = left(pool, [line]) == [target]
        elif ok and line.endswith("\n"):
            ok = line[:-1] in ways(pool, target)
            pool, line = tuple(sorted(left(pool, [line[:-1]]))) if ok else pool, ""
        elif ok:
            ok = any(way.startswith(line) for way in ways(pool, target))
        out.append(int(ok))
    return out


def right(made, text):
    """Is a solution of make()'s problem right?"""
    return holds(made[0], text)


def chat(question, steps=None, answer=None):
    """ChatML text; with steps, the full training example."""
    text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    if steps is not None:
        text += "\n".join(line for line, _ in steps) + "<|im_end|>"
    return text


if __name__ == "__main__":
    for i in range(6):
        print(chat(*make(i)))
