"""Random JSON Schemas: every text that is drawn through their masks is valid by python3-jsonschema.

usage: schemas.py PROGRAM      (tests/grammar/draw.c)
"""
import json
import os
import random
import re
import subprocess
import sys
from datetime import datetime

try:
    from jsonschema import Draft202012Validator, FormatChecker
except ImportError:
    print("skipped: Python has no library jsonschema (Debian: python3-jsonschema)")
    sys.exit(77)

R = random.Random(36)
NAMES = ["a", "ab", "b", "id", 'q"', "k\\", "é", "name", ""]


def maybe(schema, key, make, share=0.4):
    if R.random() < share:
        schema[key] = make()


def number(whole):
    kind = {"type": "integer" if whole else "number"}
    bound = lambda: R.choice([R.randint(-20, 20), R.randint(-3000, 3000), round(R.uniform(-5, 5), R.randint(1, 3))])
    lo, hi = sorted([bound(), bound()])
    maybe(kind, R.choice(["minimum", "exclusiveMinimum"]), lambda: lo)
    maybe(kind, R.choice(["maximum", "exclusiveMaximum"]), lambda: hi)
    return kind


def string():
    kind = {"type": "string"}
    what = R.randint(0, 5)
    if what == 0:
        kind["minLength"], kind["maxLength"] = R.randint(0, 2), R.randint(2, 5)
    elif what == 1:
        kind["format"] = R.choice(["date", "time", "date-time", "uuid"])
    elif what == 2:
        kind["pattern"] = R.choice(["^[a-z]+$", r"^\d{3}-\d{4}$", r"^(foo|bar)?\s*$", "x", r"^[^a-z]{1,3}$", r"\.$",
                                    "^a|b$", r"^\w+@\w+\.(com|org)$", '^"[\\\\n]?$', "^.{2,4}$", r"^[\u00e0-\u00ff]*$"])
    return kind


def listed():
    return R.sample(["a", "é", 'q"\\', 1, 2.5, -3, None, True, {"a": [1, "x"]}, [], {}], R.randint(1, 4))


def obj(depth):
    kind = {"type": "object"}
    names = R.sample(NAMES, R.randint(0, 4))
    if names:
        kind["properties"] = {n: schema(depth + 1) for n in names}
        kind["required"] = [n for n in names if R.random() < 0.5]
    maybe(kind, "additionalProperties", lambda: R.choice([True, False, schema(depth + 1)]))
    return kind


def array(depth):
    kind = {"type": "array"}
    maybe(kind, "items", lambda: schema(depth + 1), 0.8)
    maybe(kind, "prefixItems", lambda: [schema(depth + 1) for _ in range(R.randint(1, 3))], 0.3)
    maybe(kind, "minItems", lambda: R.randint(0, 3))
    maybe(kind, "maxItems", lambda: R.randint(2, 5))
    return kind


def schema(depth=0):
    kinds = [lambda: number(True), lambda: number(False), string, string, lambda: {"enum": listed()},
             lambda: {"const": R.choice(listed())}, lambda: {"type": R.choice(["null", "boolean"])},
             lambda: R.choice([True, {}, {"title": "anything"}])]
    if depth < 3:
        kinds += [lambda: obj(depth)] * 4 + [lambda: array(depth)] * 3 + [
            lambda: {"anyOf": [schema(depth + 1) for _ in range(R.randint(1, 3))]},
            lambda: {"oneOf": [schema(depth + 1) for _ in range(2)]},
            lambda: {"allOf": [schema(depth + 1), schema(depth + 1)]},
            lambda: {"allOf": [obj(depth + 1), obj(depth + 1)]},
            lambda: {"type": ["string", "integer", "array"], "minLength": 1, "maximum": 7, "maxItems": 2},
            lambda: {"$ref": "#/$defs/" + R.choice(["leaf", "tree", "list"])}]
    return R.choice(kinds)()


def whole():
    top = schema()
    if not isinstance(top, dict):
        top = {"items": top}
    top["$defs"] = {"leaf": string(), "list": {"type": "array", "items": {"$ref": "#/$defs/leaf"}}, "tree": {
        "type": "object", "required": ["v"], "additionalProperties": False,
        "properties": {"v": number(True), "next": {"$ref": "#/$defs/tree"}}}}
    return top


def iso(text):
    """With 6 digits or none behind the seconds and +00:00 for Z, as older Pythons read it."""
    return re.sub(r"\.(\d+)", lambda m: "." + m[1].ljust(6, "0"), text).replace("Z", "+00:00")


def main(program):
    n = 5000 if os.environ.get("LUTRA_TEST_LONG") else 1000
    asked = [whole() for _ in range(n)]
    text = "".join(json.dumps(s, ensure_ascii=False) + "\n" for s in asked)
    done = subprocess.run([program], input=text.encode(), stdout=subprocess.PIPE, timeout=800, check=True)
    answers = iter(done.stdout.decode().split("\n"))  # must be UTF-8
    counts = {"texts": 0, "unfinished": 0, "refused": 0, "none": 0}
    formats = FormatChecker(formats=["date", "uuid"])
    for name, begin in ("time", "2024-01-31T"), ("date-time", ""):  # the library's own need others or know no zones
        formats.checks(name, raises=ValueError)(
            lambda x, begin=begin: not isinstance(x, str) or datetime.fromisoformat(iso(begin + x)))
    for s in asked:
        judge = Draft202012Validator(s, format_checker=formats)
        for line in answers:
            if line == "done":
                break
            if line.startswith("error "):
                code = int(line.split()[1])
                counts["none" if "no text" in line else "refused"] += 1
                assert code == -4 or "no text" in line, (s, line)
                break
            if line == "unfinished":
                counts["unfinished"] += 1
                continue
            assert line.startswith("text "), (s, line)
            counts["texts"] += 1
            following = line[5:]
            value = json.loads(following)
            errors = list(judge.iter_errors(value))
            assert not errors, f"{json.dumps(s)}\n{following}\n{errors[0].message}"
    print(counts)
    assert counts["texts"] > 2 * n and counts["unfinished"] * 20 < counts["texts"], counts


if __name__ == "__main__":
    main(sys.argv[1])
