# SPDX-License-Identifier: MIT
"""OpenAI's endpoints: chat and completions, streams and not, and what is refused."""
import json
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import ANSWER, QUESTION, Server, check, equal, finish, user

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
s = Server("--alias", "tiny", "--alias", "gpt-x", "--strict-model")

# ---- models
status, models = s.get("/v1/models")
equal([m["id"] for m in models["data"]], ["tiny"], "models")
equal(models["data"][0]["object"], "model", "models: object")
equal(s.get("/v1/models/gpt-x")[1]["id"], "gpt-x", "a model by its other name")
equal(s.get("/v1/models/none")[0], 404, "a model that is not there")

# ---- chat
status, r = s.post(CHAT, user(QUESTION, model="tiny"))
equal((status, r["object"], r["model"]), (200, "chat.completion", "tiny"), "chat")
equal(r["choices"][0]["message"], {"role": "assistant", "content": ANSWER, "refusal": None}, "chat: message")
equal(r["choices"][0]["finish_reason"], "stop", "chat: finish_reason")
usage = r["usage"]
equal(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"], "usage")
check(usage["completion_tokens"] >= 10, "usage: completion_tokens", usage)

events = s.stream(CHAT, user(QUESTION, model="gpt-x", stream_options={"include_usage": True}))
equal("".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"]), ANSWER, "stream: text")
equal(events[0]["choices"][0]["delta"]["role"], "assistant", "stream: role first")
reasons = [e["choices"][0]["finish_reason"] for e in events if e["choices"]]
equal(reasons, [None] * (len(reasons) - 1) + ["stop"], "stream: finish_reason null until the end")
equal(events[-1]["choices"], [], "stream: usage in a last chunk without choices")
equal(events[-1]["usage"]["completion_tokens"], usage["completion_tokens"], "stream: usage")
check(events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, "stream: the prompt was cached", events[-1])
check(all("usage" not in e for e in s.stream(CHAT, user(QUESTION, model="tiny"))), "stream: no usage unasked")

hot = user("cards", model="tiny", temperature=5, top_k=0, top_p=1, min_p=0, seed=5, max_tokens=12)
status, four = s.post(CHAT, {**hot, "n": 4})
texts = [c["message"]["content"] for c in four["choices"]]
equal([c["index"] for c in four["choices"]], [0, 1, 2, 3], "n: indices")
check(len(set(texts)) > 1, "n: samples differ", texts)
streamed = [""] * 4
for e in s.stream(CHAT, {**hot, "n": 4}):
    for c in e["choices"]:
        streamed[c["index"]] += c["delta"].get("content", "")
equal(streamed, texts, "n: the same seed gives the same texts, streamed")
equal(s.post(CHAT, hot)[1]["choices"][0]["message"]["content"], texts[0], "seed")
check(s.post(CHAT, {**hot, "seed": 6})[1]["choices"][0]["message"]["content"] != texts[0], "another seed")

one = s.post(CHAT, user(QUESTION, model="tiny", stop=["84"]))[1]["choices"][0]
equal((one["message"]["content"], one["finish_reason"]), ("42 * 2 = ", "stop"), "stop as a list")
equal(s.post(CHAT, user(QUESTION, model="tiny", stop="*"))[1]["choices"][0]["message"]["content"], "42 ", "stop as text")
equal(one["stop_reason"], "84", "stop_reason: the string")
equal(s.post(CHAT, user(QUESTION, model="tiny"))[1]["choices"][0]["stop_reason"], None, "stop_reason: none")
star = s.post("/tokenize", {"model": "tiny", "content": " *"})[1]["tokens"]
one = s.post(CHAT, user(QUESTION, model="tiny", stop_token_ids=[1, *star[-1:]]))[1]["choices"][0]
equal((one["message"]["content"].strip(), one["finish_reason"], one["stop_reason"]), ("42", "stop", star[-1]), "stop_token_ids")
r = s.post(CHAT, user(QUESTION, model="tiny", min_tokens=40, max_tokens=60))[1]["usage"]["completion_tokens"]
check(r >= 40 > usage["completion_tokens"], "min_tokens", r)
for field in ("max_tokens", "max_completion_tokens"):
    r = s.post(CHAT, user(QUESTION, model="tiny", **{field: 3}))[1]
    equal((r["choices"][0]["finish_reason"], r["usage"]["completion_tokens"]), ("length", 3), field)

ids = s.post(CHAT, user(QUESTION, model="tiny", logprobs=True, max_tokens=4))[1]["choices"][0]["logprobs"]["content"]
equal(len(ids), 4, "logprobs: one for each token")
equal("".join(t["token"] for t in ids), bytes(b for t in ids for b in t["bytes"]).decode(), "logprobs: bytes")
check(all(-20 < t["logprob"] <= 0 for t in ids), "logprobs: values", ids)
few = s.post(CHAT, user(QUESTION, model="tiny", logprobs=True, top_logprobs=5, max_tokens=4))[1]["choices"][0]
for one in few["logprobs"]["content"]:
    top = one["top_logprobs"]
    equal((len(top), top[0]["token"], top[0]["logprob"]), (5, one["token"], one["logprob"]), "top_logprobs: greedy is first")
    check(all(a["logprob"] >= b["logprob"] for a, b in zip(top, top[1:])), "top_logprobs: best first", top)
    check(sum(2.718281828 ** t["logprob"] for t in top) <= 1.001, "top_logprobs: probabilities", top)
check(all(t["top_logprobs"] == [] for t in ids), "top_logprobs: none unasked", ids)
streamed = [t for e in s.stream(CHAT, user(QUESTION, model="tiny", logprobs=True, max_tokens=4))
            for c in e["choices"] for t in c.get("logprobs", {}).get("content", [])]
equal(streamed, ids, "logprobs, streamed")

banned = s.post(CHAT, user(QUESTION, model="tiny", max_tokens=1, logprobs=True))[1]["choices"][0]
tokens = s.post(TEXT, {"model": "tiny", "prompt": "x", "max_tokens": 1, "temperature": 0})[1]
first = banned["message"]["content"]
for bias in ({str(i): -100 for i in range(0, 1024)},):
    del bias["65"]
    forced = s.post(CHAT, user(QUESTION, model="tiny", max_tokens=2, logit_bias=bias))[1]["choices"][0]["message"]["content"]
    check(len(forced) == 2 and forced[0] == forced[1], "logit_bias: only one token is left", forced)

# ---- what messages may be
parts = [{"type": "text", "text": QUESTION[:40]}, {"type": "text", "text": QUESTION[40:]}]
joined = s.post(CHAT, user(QUESTION[:40] + "\n" + QUESTION[40:], model="tiny"))[1]["usage"]["prompt_tokens"]
equal(s.post(CHAT, user(parts, model="tiny"))[1]["usage"]["prompt_tokens"], joined, "text parts")
for role in ("developer", "system"):
    talk = [{"role": role, "content": "Solve it."}, {"role": "user", "content": QUESTION}]
    n = s.post(CHAT, {"model": "tiny", "messages": talk, "max_tokens": 1})[1]["usage"]["prompt_tokens"]
    with_role = n if role == "developer" else with_role
    equal(n, with_role, "developer is system")
talk = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": None, "tool_calls": [
    {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "2"}]
equal(s.post(CHAT, {"model": "tiny", "messages": talk, "max_tokens": 1})[0], 200, "content null beside tool calls")
begun = {"model": "tiny", "temperature": 0, "messages": [{"role": "user", "content": QUESTION},
                                                        {"role": "assistant", "content": "42 * 2 ="}]}
equal(s.post(CHAT, begun)[1]["choices"][0]["message"]["content"], ANSWER[len("42 * 2 ="):], "a reply continued")

# ---- completions
r = s.post(TEXT, {"model": "tiny", "prompt": "Sam has", "max_tokens": 4, "temperature": 0, "echo": True})[1]
check(r["object"] == "text_completion" and r["choices"][0]["text"].startswith("Sam has"), "echo", r)
whole = r["choices"][0]["text"]
equal("".join(e["choices"][0]["text"] for e in s.stream(TEXT, {"model": "tiny", "prompt": "Sam has", "max_tokens": 4,
                                                              "temperature": 0, "echo": True})), whole, "echo, streamed")

# The prompt's tokens with their log-probs are what they were when the model said them.
first = s.post("/tokenize", {"content": QUESTION, "add_special": True})[1]["tokens"]
said = s.post("/completion", {"prompt": first, "n_predict": 8, "temperature": 0, "return_tokens": True, "n_probs": 2, "ignore_eos": True})[1]
r = s.post(TEXT, {"prompt": first + said["tokens"], "max_tokens": 0, "echo": True, "logprobs": 2})[1]["choices"][0]
scores = r["logprobs"]
equal([len(scores[k]) for k in scores], [len(first) + 8] * 4, "echo with logprobs: a value a token")
equal((scores["token_logprobs"][0], scores["top_logprobs"][0], r["finish_reason"]), (None, None, "length"), "... but the first")
equal("".join(scores["tokens"]), r["text"], "... which are the text")
for i, t in enumerate(said["completion_probabilities"]):
    check(abs(scores["token_logprobs"][len(first) + i] - t["logprob"]) < 1e-5, f"log-prob of prompt token {i}", (t, i))
    check(set(scores["top_logprobs"][len(first) + i]) >= {k["token"] for k in t["top_logprobs"]}, "likely tokens", (t, i))
for n, more in ((1, {}), (2, {}), (1, {"max_tokens": 0})):
    body = {"prompt": [first, "Ann"], "max_tokens": 5, "seed": 1, "temperature": 0, "echo": True, "logprobs": 1, "n": n, **more}
    whole = s.post(TEXT, body)[1]["choices"]
    parts = [{"text": "", **{k: [] for k in scores}} for _ in whole]
    for e in s.stream(TEXT, body):
        for c in e["choices"]:
            parts[c["index"]]["text"] += c["text"]
            for k in scores:
                parts[c["index"]][k] += c["logprobs"][k]
    equal(parts, [{"text": c["text"], **c["logprobs"]} for c in whole], f"echo with logprobs, streamed, n {n} {more}")
r = s.post(TEXT, {"model": "tiny", "prompt": ["Sam has", "Tom has"], "max_tokens": 4, "n": 2, "seed": 1})[1]
equal([c["index"] for c in r["choices"]], [0, 1, 2, 3], "several prompts with n")
equal(s.post(TEXT, {"model": "tiny", "prompt": [5, 6, 7], "max_tokens": 1})[1]["usage"]["prompt_tokens"], 3, "token ids")
equal(s.post(TEXT, {"model": "tiny", "prompt": [[5, 6], [7]], "max_tokens": 1})[1]["usage"]["prompt_tokens"], 3, "lists")
lp = s.post(TEXT, {"model": "tiny", "prompt": "Sam", "max_tokens": 3, "logprobs": 0})[1]["choices"][0]["logprobs"]
equal((len(lp["tokens"]), len(lp["token_logprobs"]), lp["text_offset"][0]), (3, 3, 0), "logprobs of completions")
lp = s.post(TEXT, {"model": "tiny", "prompt": "Sam", "max_tokens": 4, "logprobs": 3, "temperature": 3, "top_k": 0, "top_p": 1,
                   "min_p": 0, "seed": 4})[1]["choices"][0]["logprobs"]
check(all(3 <= len(t) <= 4 for t in lp["top_logprobs"]), "completions: three likely ones, and the token", lp)
equal([t[name] for t, name in zip(lp["top_logprobs"], lp["tokens"])], lp["token_logprobs"], "the token is among them")
best = {"model": "tiny", "prompt": "Sam has", "max_tokens": 6, "seed": 3, "temperature": 2, "logprobs": 0}
all8 = s.post(TEXT, {**best, "n": 8})[1]["choices"]
means = [sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"]) for c in all8]
r = s.post(TEXT, {**best, "n": 1, "best_of": 8})[1]
equal(r["choices"][0]["text"], all8[means.index(max(means))]["text"], "best_of: the likeliest a token")

# ---- what is refused, and how
def refused(body, status, param, code, path=CHAT, what=None):
    seen, r = s.post(path, body)
    error = r.get("error", {})
    equal((seen, error.get("param"), error.get("code")), (status, param, code), f"refused: {what or str(body)[:80]}")
    check(error.get("message") and error.get("type"), "refused: message and type", r)
    return error


refused("{", 400, None, "invalid_json")
refused("", 400, None, "invalid_json")
refused("[1]", 400, None, "invalid_json")
refused("[" * 100 + "]" * 100, 400, None, "invalid_json", what="deep")
refused('{"a":[' + "1," * 300000 + "1]}", 400, None, "invalid_json", what="many values")
refused({}, 400, "messages", "invalid_value")
refused({"messages": []}, 400, "messages", "invalid_value")
refused({"messages": [{"role": "user", "content": 5}]}, 400, "messages[0].content", "invalid_value")
refused({"messages": [{"role": "us er", "content": "x"}]}, 400, "messages[0].role", "invalid_value")
refused({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/"}}]}]}, 400,
        "messages[0].content[0].type", "unsupported_value")
refused(user("x", model="other"), 404, "model", "model_not_found")
refused(user("x", temperature="hot"), 400, "temperature", "invalid_value")
refused(user("x", temperature=-1), 400, "temperature", "invalid_value")
refused(user("x", top_p=2), 400, "top_p", "invalid_value")
refused(user("x", n=0), 400, "n", "invalid_value")
refused(user("x", n=1.5), 400, "n", "invalid_value")
refused(user("x", n=10**30), 400, "n", "invalid_value")
refused(user("x", stop=5), 400, "stop", "invalid_value")
refused(user("x", stop=["a"] * 65), 400, "stop", "invalid_value")
refused(user("x", logit_bias={"a": 1}), 400, "logit_bias", "invalid_value")
refused(user("x", logit_bias={"99999": 1}), 400, "logit_bias", "invalid_value")
refused(user("x", stream_options=5), 400, "stream_options", "invalid_value")
refused(user("x", top_logprobs=5), 400, "top_logprobs", "invalid_value")
refused(user("x", logprobs=True, top_logprobs=21), 400, "top_logprobs", "invalid_value")
refused(user("x", min_tokens=-1), 400, "min_tokens", "invalid_value")
refused(user("x", stop_token_ids=7), 400, "stop_token_ids", "invalid_value")
refused(user("x", stop_token_ids=["7"]), 400, "stop_token_ids", "invalid_value")
refused(user("x", stop_token_ids=list(range(65))), 400, "stop_token_ids", "invalid_value")
refused(user("x", stop_token_ids=[10 ** 9]), 400, "stop_token_ids", "invalid_value")
refused(user("x", modalities=["audio"]), 400, "modalities", "invalid_value")
refused({"prompt": "a", "suffix": "b"}, 400, "suffix", "unsupported_value", TEXT)
refused({}, 400, "prompt", "invalid_value", TEXT)
refused({"prompt": [1, 99999]}, 400, "prompt", "invalid_value", TEXT)
refused({"prompt": []}, 400, "prompt", "invalid_value", TEXT)
refused({"prompt": "a", "best_of": 1, "n": 2}, 400, "best_of", "invalid_value", TEXT)
error = refused(user("word " * 3000), 400, "messages", "context_length_exceeded")
check(error["n_ctx"] == 1024 and error["n_prompt_tokens"] > 1024 and "1024" in error["message"] and
      str(error["n_prompt_tokens"]) in error["message"], "both counts", error)
equal(s.ask("GET", CHAT)[0], 405, "GET where POST is meant")
equal(s.ask("GET", CHAT)[1]["Allow"], "POST", "405 names the method")
equal(s.ask("POST", "/v1/nothing", {})[0], 404, "no such path")
equal(s.ask("HEAD", "/health")[0], 200, "HEAD")

# Unknown fields and null do not count.
equal(s.post(CHAT, user(QUESTION, model="tiny", user="u", metadata={"a": 1}, stop=None, n=None, store=False))[0], 200,
      "unknown fields, null")
equal(s.stop(), 0, "SIGTERM")

# A conversation longer than the context loses its oldest turns, where the request or the server says so.
s = Server("-c", "256", "-n", "4")
talk, rolled, total = [{"role": "system", "content": "Count."}], [], 0
for i in range(24):
    talk.append({"role": "user", "content": f"Sam has {i} cards. " * 3 + "How many?"})
    status, r = s.post(CHAT, {"messages": talk, "truncation": "auto"})
    equal(status, 200, f"turn {i} of a long conversation")
    details = r["usage"]["prompt_tokens_details"]
    evaluated = r["usage"]["prompt_tokens"] - details["cached_tokens"]
    if rolled and details["dropped_messages"] == rolled[-1]:
        check(evaluated < 96, f"turn {i}: what is new is evaluated, and the reply", (evaluated, r["usage"]))
    check(r["usage"]["prompt_tokens"] <= 255 - 4, "it fits", r["usage"])
    rolled.append(details["dropped_messages"])
    talk.append(r["choices"][0]["message"])
check(rolled[0] == 0 and rolled[-1] > 10 and rolled == sorted(rolled) and all(n % 2 == 0 for n in rolled), "turns leave", rolled)
check(len(set(rolled)) < 12, "what is left out stays for some turns", rolled)
for body, named in [({"messages": talk + talk[-2:-1]}, "messages"), ({"messages": talk, "truncation": "disabled"}, "messages"),
                    ({"messages": talk, "truncation": "yes"}, "truncation")]:
    status, r = s.post(CHAT, body)
    equal((status, r["error"]["param"]), (400, named), f"without it: {named}")
r = s.post("/v1/responses", {"input": talk[1:-1], "truncation": "auto"})[1]
check(r["usage"]["input_tokens_details"]["dropped_messages"] > 10, "/v1/responses", r)
r = s.post("/api/chat", {"messages": talk[:-1], "truncate": True, "stream": False})[1]
check(r["dropped_messages"] > 10, "/api/chat", r)
check(s.post("/v1/messages/count_tokens", {"messages": talk[1:-1]})[1]["input_tokens"] > 256, "all of it is counted")
s.stop()
s = Server("-c", "256", "-n", "4", "--context-shift")
check(s.post(CHAT, {"messages": talk[:-1]})[1]["usage"]["prompt_tokens_details"]["dropped_messages"] > 10, "--context-shift")
equal(s.post(CHAT, user("word " * 3000))[0], 400, "one turn that is too long")
s.stop()

# A single model answers to any name; the context of a request ends it.
s = Server("-c", "64", "-n", "5")
equal(s.post(CHAT, user(QUESTION, model="gpt-5"))[1]["model"], "abacus-1m-f16", "any name")
equal(s.post(CHAT, user(QUESTION))[1]["usage"]["completion_tokens"], 5, "-n where a request says nothing")
r = s.post(TEXT, {"prompt": "Sam has", "max_tokens": 1000, "ignore_eos": True, "temperature": 0})[1]
equal(r["choices"][0]["finish_reason"], "length", "the context is full")
lines = [json.loads(line) for line in (s.stop(), s.rest)[1].split("\n") if line.startswith("{")]
equal([(x["method"], x["path"], x["status"]) for x in lines],
      [("POST", CHAT, 200), ("POST", CHAT, 200), ("POST", TEXT, 200)], "access log")
check(all("Sam" not in line for line in s.rest.split("\n")), "the log has no prompts")
finish()
