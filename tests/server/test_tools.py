# SPDX-License-Identifier: MIT
"""Calls that must come, in the format of each model family: whatever the model writes, they parse, and their arguments are valid."""
import json
import random
import sys
import tempfile

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import QUESTION, Server, check, equal, finish, user

try:
    from jsonschema import Draft202012Validator
except ImportError:
    print("skipped: Python has no library jsonschema (Debian: python3-jsonschema)")
    sys.exit(77)

CHAT = "/v1/chat/completions"
# What a chat template shows of its format.
FORMATS = {"qwen": "<tool_call>", "qwen 3.5": "<tool_call> <function=", "llama": "<|python_tag|>", "mistral": "[TOOL_CALLS]",
           "mistral 3": "[TOOL_CALLS] [ARGS]", "gpt-oss": "<|channel|>analysis", "gemma": "<|tool_call>", "functiongemma": "<start_function_call>"}
R = random.Random(36)
folder = tempfile.TemporaryDirectory()


def template(call):
    path = folder.name + "/template"
    with open(path, "w") as f:
        f.write("{% if tools %}" + call + "{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    return path


def leaf():
    return R.choice([{"type": "string", "enum": ["Rome", "a<b>", "\"quoted\"", "é"]}, {"enum": ["x", "y"]}, {"type": "boolean"},
                     {"type": "integer", "minimum": -5, "maximum": 120}, {"type": "string", "maxLength": 6},
                     {"type": "string", "pattern": "^[a-z]{1,4}$"}, {"type": "string", "format": "date"}, {"const": 7},
                     {"type": ["integer", "null"], "minimum": 0}, {"enum": [1, "1", None]}])


def value(depth=0):
    kinds = [leaf] * 4
    if depth < 2:
        kinds += [lambda: {"type": "array", "items": value(depth + 1), "maxItems": 2}, lambda: parameters(depth + 1)]
    return R.choice(kinds)()


def parameters(depth=0):
    names = R.sample(["city", "days", "unit", "a b", "größe", "n_1"], R.randint(1, 4))
    return {"type": "object", "properties": {n: value(depth) for n in names}, "additionalProperties": False,
            "required": [n for n in names if R.random() < 0.7]}


def tool(name):
    return {"type": "function", "function": {"name": name, "description": "Does it", "parameters": parameters()}}


def judge(calls, tools, what):
    for c in calls:
        of = {t["function"]["name"]: t["function"]["parameters"] for t in tools}
        name = c["function"]["name"]
        check(name in of, what + ": the name", name)
        try:
            errors = list(Draft202012Validator(of[name]).iter_errors(json.loads(c["function"]["arguments"])))
        except (ValueError, KeyError) as e:
            errors = [e]
        check(not errors, what, (of.get(name), c, errors[:1]))


n_several = 0
for name, mark in FORMATS.items():
    s = Server("--chat-template-file", template(mark), "-c", "4096", "-np", "4")
    n_whole = 0
    for k in range(12):
        tools = [tool("look"), tool("look.up"), tool("f-2")][:1 + k % 3]
        one = k % 2 == 1
        body = user(QUESTION, tools=tools, tool_choice="required", parallel_tool_calls=not one, max_tokens=700, seed=k,
                    temperature=1.5, reasoning_effort="none")
        what = f"{name}, request {k}"
        status, r = s.post(CHAT, body)
        if status != 200:
            check(False, what, r)
            continue
        choice = r["choices"][0]
        calls = choice["message"].get("tool_calls") or []
        if choice["finish_reason"] == "length":  # the last one is cut
            calls = calls[:-1]
        else:
            n_whole += 1
            equal(choice["finish_reason"], "tool_calls", what)
            check(len(calls) == 1 if one else calls, what + ": how many", r)
            equal(choice["message"]["content"], None, what + ": beside the calls")
        n_several += len(calls) > 1
        judge(calls, tools, what)
        if k < 2 and choice["finish_reason"] == "tool_calls":  # the same in pieces
            pieces = {}
            for e in s.stream(CHAT, body):
                for t in e["choices"][0]["delta"].get("tool_calls", []):
                    pieces.setdefault(t["index"], []).append(t)
            streamed = [(p[0]["function"]["name"], "".join(t["function"]["arguments"] for t in p)) for p in pieces.values()]
            equal(streamed, [(c["function"]["name"], c["function"]["arguments"]) for c in calls], what + ", streamed")
    check(n_whole >= 8, name + ": calls that end", n_whole)
    tools = [tool("look"), tool("f-2")]
    r = s.post(CHAT, user(QUESTION, tools=tools, tool_choice={"type": "function", "function": {"name": "f-2"}}, max_tokens=700,
                          temperature=1.5, seed=5, reasoning_effort="none"))[1]["choices"][0]
    if r["finish_reason"] != "length":
        equal([c["function"]["name"] for c in r["message"]["tool_calls"]], ["f-2"], name + ": the one that is named")
        judge(r["message"]["tool_calls"], tools, name + ": the one that is named")
    # Where none must come the reply is the one without tools, as long as no call begins.
    free = user(QUESTION, seed=9, temperature=1, max_tokens=40)
    if name == "qwen":
        plain = s.post(CHAT, {**free, "tools": tools, "tool_choice": "auto"})[1]["choices"][0]["message"]["content"]
        check(plain, name + ": a reply without calls", plain)
    # A keyword that is not built: unconstrained, or refused where the tool is strict.
    odd = {"type": "function", "function": {"name": "odd", "parameters": {
        "type": "object", "properties": {"n": {"type": "integer", "multipleOf": 2}, "b": {"type": "boolean"}},
        "required": ["n", "b"], "additionalProperties": False}}}
    r = s.post(CHAT, user(QUESTION, tools=[odd], tool_choice="required", max_tokens=300, seed=2, temperature=1,
                          reasoning_effort="none", parallel_tool_calls=False))[1]["choices"][0]
    if r["finish_reason"] != "length":
        a = json.loads(r["message"]["tool_calls"][0]["function"]["arguments"])
        check(isinstance(a["n"], int) and isinstance(a["b"], bool), name + ": a part that is not built", a)
    odd["function"]["strict"] = True
    status, r = s.post(CHAT, user(QUESTION, tools=[odd], tool_choice="auto"))
    check(status == 400 and r["error"]["param"] == "tools" and "'odd', #/properties/n/multipleOf" in r["error"]["message"],
          name + ": strict", r)
    s.stop()
check(n_several >= 3, "several calls in one reply", n_several)
finish()
