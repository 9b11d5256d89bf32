"""Steps of a solution: where they end, and which of them are right.

A step ends at every solution token whose text ends with a newline, and at the end token.  A step is right when every
step up to and including it is one of the worked solution's, in its order: the same equation, where the two sides of +
and * may be swapped; the line `#### x` is right when all equations stand before it and x is the answer.  So a right
step is the last of a prefix of a correct derivation, and after a wrong step every step is wrong.
"""
import re

import problems

EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)\.")


def canonical(line):
    """An equation as (sides, operator, result), or None."""
    m = EQUATION.fullmatch(line)
    if not m:
        return None
    a, op, b, c = m.groups()
    return (tuple(sorted((a, b))) if op in "+*" else (a, b)), op, c


def labels(seed, text):
    """For each line of a whole solution (without its end token): 1 if right, else 0."""
    _, steps, answer = problems.make(seed)
    expected = [canonical(line) for line, _ in steps]
    ok, out = True, []
    for i, line in enumerate(text.split("\n")):
        if i < len(expected):
            ok = ok and canonical(line) == expected[i]
        else:
            ok = ok and i == len(expected) and line == f"#### {answer}"
        out.append(int(ok))
    return out


def marks(tok, ids, end):
    """Positions in a solution's ids at which a step ends."""
    return [i for i, t in enumerate(ids) if t == end or tok.vocab[t].endswith("\u010a")]
