#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every filter, test, method and global of templates on large values: is the work charged that is done?

    template_work.py TEXT_RENDER SOURCE

A render asks its caller every 65,536 steps whether it may go on, a few milliseconds apart.  Processor time that no step
paid for is work that neither a limit nor a deadline ends: its quadratic cases took hours.  One template in 48 is tried;
with LUTRA_TEST_LONG all are.
"""
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

SECONDS_AN_ASK = 0.3  # a hundred times what it takes: sanitizers and busy processors share the bound
VALUES = {"s": "'b' * 200000", "a": "'a' * 200000 ~ 'b'", "c": "'b' * 200000 ~ 'c'", "w": "'ab ' * 60000", "e": "'%s{}&' * 40000",
          "l": "range(20000)|list", "t": "['b' * 200000, 'b' * 200000 ~ 'c', 'b' * 200000 ~ 'd', 'a']",
          "d": "{'b' * 200000: 1, 'b' * 200000 ~ 'c': 2, 'k': 'b' * 200000}", "n": "7", "z": "1000000000"}
PAIRS = ("s, a", "a, s", "s, c", "c, s", "w, s", "n, s", "t, n", "l, l", "s, z", "'', s")


def names(source, pattern):
    found = set()
    for path in (pathlib.Path(source) / "src/text/jinja").glob("*.c"):
        found |= set(re.findall(r'\{"([a-z_]+)", (?:' + pattern + ")", path.read_text()))
    return sorted(found)


def cases(source):
    filters, methods = names(source, "f_|jinja_(?:to|from)json|jinja_(?:escape|pprint|urlize)"), names(source, "str_|dict_|list_|any_|jinja_str_")
    tests, globals_ = names(source, "t_"), names(source, "g_")
    assert min(len(filters), len(methods), len(tests)) > 30 and len(globals_) > 5, "the tables are written otherwise"
    arguments = ["", *VALUES, *PAIRS]
    for name, value, a in itertools.product(filters, VALUES, arguments):
        yield f"{{{{ ({value}|{name}({a}))|string|length }}}}"
    for name, value, a in itertools.product(methods, VALUES, arguments):
        yield f"{{{{ {value}.{name}({a})|string|length }}}}"
    for name, value, a in itertools.product(tests, VALUES, ["", *VALUES]):
        yield f"{{{{ {value} is {name}({a}) }}}}"
    for name, a in itertools.product(globals_, arguments):
        yield f"{{{{ {name}({a})|string|length }}}}"
    for op, a, b in itertools.product("+ - * / // % ~ == < in".split(), VALUES, VALUES):
        yield f"{{{{ ({a} {op} {b})|string|length }}}}"


def main():
    child = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    n, bad, longest = 0, 0, 0
    step = 1 if os.environ.get("LUTRA_TEST_LONG") else 48
    for case in itertools.islice(cases(sys.argv[2]), 0, None, step):
        used = [v for v in VALUES if re.search(rf"\b{v}\b", case)]
        template = "".join(f"{{% set {v} = {VALUES[v]} %}}" for v in used) + case
        child.stdin.write(json.dumps({"template": template, "variables": {}, "now": 0}) + "\n")
        child.stdin.flush()
        answer = json.loads(child.stdout.readline())
        n += 1
        longest = max(longest, answer["seconds"] / (answer["asked"] + 1))
        if answer["seconds"] > SECONDS_AN_ASK * (answer["asked"] + 1):
            bad += 1
            print(f"{case}: {answer['seconds']:.1f} s of processor time, {answer['asked']} looks whether to go on")
    print(f"{n} templates; at most {longest * 1e3:.1f} ms of processor time between two looks")
    sys.exit(bad > 0)


main()
