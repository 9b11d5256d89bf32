# SPDX-License-Identifier: MIT
"""Answers by a schema or a grammar, and calls of tools: recorded replies (LUTRA_TEST_REPLY), and calls that a schema forces."""
import json
import sys
import tempfile

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import QUESTION, Server, check, equal, finish, user

CHAT = "/v1/chat/completions"
folder = tempfile.TemporaryDirectory()


def template(call):
    """ChatML with tools, their calls begun by `call`."""
    path = folder.name + "/template"
    with open(path, "w") as f:
        f.write("{% if tools %}" + call + "{{ tools|tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
                "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments.city }}{% endfor %}<|im_end|>\n"
                "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    return path


# ---- schemas and grammars
s = Server("--chat-template-file", template("<tool_call>"), "-c", "4096")
schema = {"type": "object", "properties": {"name": {"enum": ["Sam", "Tom"]}, "n": {"type": "integer", "minimum": 1, "maximum": 50},
                                           "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}},
          "required": ["name", "n", "list"], "additionalProperties": False}


def fits(text):
    x = json.loads(text)
    return (list(x) == ["name", "n", "list"] and x["name"] in ("Sam", "Tom") and 1 <= x["n"] <= 50 and len(x["list"]) <= 3 and
            all(isinstance(b, bool) for b in x["list"]))


for seed in range(5):
    body = user(QUESTION, seed=seed, temperature=1.5, max_tokens=400)
    body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
    r = s.post(CHAT, body)[1]
    check(fits(r["choices"][0]["message"]["content"]), f"json_schema, seed {seed}", r)
equal(r["choices"][0]["finish_reason"], "stop", "json_schema: it ends by itself")
body = user(QUESTION, grammar='root ::= ("yes" | "no")')
check(s.post(CHAT, body)[1]["choices"][0]["message"]["content"] in ("yes", "no"), "grammar")
body = user(QUESTION, response_format={"type": "json_object"}, max_tokens=60, seed=1)
check(s.post(CHAT, body)[1]["choices"][0]["message"]["content"].lstrip().startswith("{"), "json_object")
far = {"type": "object", "properties": {"n": {"type": "integer", "minimum": -123456789012345678901234567890, "maximum": 9}},
       "required": ["n"], "additionalProperties": False}
body = user(QUESTION, seed=7, temperature=1, max_tokens=200, response_format={"type": "json_schema", "json_schema": {"schema": far}})
body["metadata"] = {"id": 18446744073709551616, "text": "12345678901234567890123 \\\" 9"}
status, r = s.post(CHAT, body)
check(status == 200 and json.loads(r["choices"][0]["message"]["content"])["n"] <= 9, "integers beyond 64 bits", r)
equal(s.ask("POST", CHAT, '{"messages": 1' + "0" * 400 + ".5e9999}")[0], 400, "a number beyond a double")
bad = dict(schema, properties={"n": {"type": "integer", "multipleOf": 7}}, required=["n"])
status, r = s.post(CHAT, user(QUESTION, response_format={"type": "json_schema", "json_schema": {"schema": bad}}))
check(status == 400 and r["error"]["param"] == "response_format" and "#/properties/n/multipleOf" in r["error"]["message"],
      "a keyword that is not built", r)
status, r = s.post(CHAT, user(QUESTION, grammar="root ::= ("))
equal((status, r["error"]["param"]), (400, "grammar"), "a grammar that is none")
status, r = s.post(CHAT, user(QUESTION, grammar='root ::= "a"', response_format={"type": "json_object"}))
equal((status, r["error"]["param"]), (400, "response_format"), "both")
status, r = s.post(CHAT, user(QUESTION, response_format={"type": "xml"}))
equal((status, r["error"]["param"]), (400, "response_format.type"), "another format")

# ---- calls that must come
weather = {"type": "function", "function": {"name": "weather", "description": "Tells the weather", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}}
odd = {"type": "function", "function": {"name": "odd", "parameters": {"type": "object", "properties": {
    "n": {"type": "integer", "multipleOf": 2}}}}}


def is_weather(call):
    a = json.loads(call["function"]["arguments"])
    return call["function"]["name"] == "weather" and a["city"] in ("Rome", "Oslo") and 1 <= a["days"] <= 9


for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
    body = user(QUESTION, tools=[weather], tool_choice=choice, parallel_tool_calls=False, max_tokens=300, seed=3)
    r = s.post(CHAT, body)[1]["choices"][0]
    check(r["finish_reason"] == "tool_calls" and r["message"]["content"] is None and len(r["message"]["tool_calls"]) == 1 and
          is_weather(r["message"]["tool_calls"][0]), f"tool_choice {choice}", r)
    pieces = [c["delta"]["tool_calls"][0] for e in s.stream(CHAT, body) for c in e["choices"] if "tool_calls" in c["delta"]]
    joined = {"function": {"name": pieces[0]["function"]["name"],
                           "arguments": "".join(p["function"]["arguments"] for p in pieces)}}
    check(is_weather(joined) and pieces[0]["id"] and len(pieces) > 2, f"tool_choice {choice}, streamed", pieces)
r = s.post(CHAT, user(QUESTION, tools=[odd], tool_choice="required", max_tokens=40))[1]
check(r["choices"][0]["message"].get("tool_calls"), "a tool whose schema has what is not built: any arguments", r)
for body, param in ((user("x", tools=[{"type": "web_search"}]), "tools"), (user("x", tools=[{"type": "function"}]), "tools"),
                    (user("x", tools=[weather], tool_choice={"type": "function", "function": {"name": "f"}}), "tool_choice"),
                    (user("x", tools=[weather], tool_choice="maybe"), "tool_choice")):
    status, r = s.post(CHAT, body)
    equal((status, r["error"]["param"]), (400, param), f"refused: {body['tools']}")
s.stop()
s = Server()
status, r = s.post(CHAT, user("x", tools=[weather]))
equal((status, r["error"]["param"]), (400, "tools"), "a template without tools")
equal(s.post(CHAT, user("x", tools=[weather], tool_choice="none", max_tokens=1))[0], 200, "tool_choice none")
s.stop()

# ---- recorded replies, through each dialect
TWO = [("weather", {"city": "Rome", "days": 2}), ("weather", {"city": "Oslo", "days": 3})]
REPLIES = {
    "<tool_call>": "I look.\n" + "\n".join("<tool_call>\n" + json.dumps({"name": n, "arguments": a}) + "\n</tool_call>" for n, a in TWO),
    "<tool_call> <function=": "I look.\n" + "\n".join(
        f"<tool_call>\n<function={n}>\n" + "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in a.items()) +
        "</function>\n</tool_call>" for n, a in TWO),
    "[TOOL_CALLS]": "I look.[TOOL_CALLS]" + json.dumps([{"name": n, "arguments": a} for n, a in TWO]),
    "<|python_tag|>": "I look.<|python_tag|>" + "; ".join(json.dumps({"name": n, "parameters": a}) for n, a in TWO),
    "<|tool_call>": "I look." + "".join(f'<|tool_call>call:{n}{{city:<|"|>{a["city"]}<|"|>,days:{a["days"]}}}<tool_call|>' for n, a in TWO),
}
for mark, reply in REPLIES.items():
    s = Server("--chat-template-file", template(mark), "-c", "4096", env={"LUTRA_TEST_REPLY": reply})
    body = user("Weather?", tools=[weather])
    choice = s.post(CHAT, body)[1]["choices"][0]
    seen = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in choice["message"].get("tool_calls", [])]
    equal((choice["message"]["content"], seen, choice["finish_reason"]), ("I look.", TWO, "tool_calls"), mark)
    equal(len({c["id"] for c in choice["message"]["tool_calls"]}), 2, mark + ": ids")
    calls = {}
    for e in s.stream(CHAT, body):
        for t in e["choices"][0]["delta"].get("tool_calls", []):
            calls.setdefault(t["index"], []).append(t)
    equal([(c[0]["function"]["name"], json.loads("".join(t["function"]["arguments"] for t in c))) for c in calls.values()], TWO,
          mark + ", streamed")
    tools = [{"name": "weather", "input_schema": weather["function"]["parameters"]}]
    r = s.post("/v1/messages", {"max_tokens": 900, "messages": body["messages"], "tools": tools})[1]
    equal([(b["name"], b["input"]) for b in r["content"] if b["type"] == "tool_use"], TWO, mark + ", Anthropic's")
    equal(r["stop_reason"], "tool_use", mark + ", Anthropic's: stop_reason")
    r = s.post("/api/chat", {"messages": body["messages"], "tools": [weather], "stream": False})[1]
    equal([(c["function"]["name"], c["function"]["arguments"]) for c in r["message"]["tool_calls"]], TWO, mark + ", Ollama's")
    r = s.post("/v1/responses", {"input": "Weather?", "tools": [{"type": "function", **weather["function"]}]})[1]
    equal([(o["name"], json.loads(o["arguments"])) for o in r["output"] if o["type"] == "function_call"], TWO, mark + ", responses")
    s.stop()
finish()
