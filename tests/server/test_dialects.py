# SPDX-License-Identifier: MIT
"""The APIs of llama.cpp's server, Ollama and Anthropic, and OpenAI's responses: the same reply in each one's words."""
import json
import sys

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import MODEL, ANSWER, QUESTION, Server, check, equal, finish, user

CHAT = "/v1/chat/completions"

s = Server("--alias", "tiny")
TALK = [{"role": "user", "content": QUESTION}]
PROMPT = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"


def lines(path, body):
    status, headers, text = s.ask("POST", path, body)
    equal(status, 200, path)
    return headers, [json.loads(line) for line in text.split("\n") if line]


def events(path, body):
    """[(event, data)]"""
    status, headers, text = s.ask("POST", path, {**body, "stream": True})
    equal((status, headers["Content-Type"]), (200, "text/event-stream"), path)
    out = []
    for block in text.strip().split("\n\n"):
        parts = dict(line.split(": ", 1) for line in block.split("\n"))
        out.append((parts.get("event"), json.loads(parts["data"])))
    return out


# ---- llama.cpp
plain = {"prompt": PROMPT, "temperature": 0, "n_predict": 100}
status, r = s.post("/completion", {**plain, "n_probs": 1, "return_tokens": True})
equal((r["content"], r["stop_type"], r["stop"]), (ANSWER, "eos", True), "/completion")
equal(r["tokens_evaluated"], 32, "/completion: tokens_evaluated")
equal(len(r["completion_probabilities"]), len(r["tokens"]), "/completion: n_probs")
equal([[t["id"] for t in p["top_logprobs"]] for p in r["completion_probabilities"]], [[p["id"]] for p in r["completion_probabilities"]],
      "/completion: the likeliest of greedy decoding")
check(r["timings"]["predicted_n"] == r["tokens_predicted"] and r["timings"]["rows_idle"] >= 0, "timings", r["timings"])
parts = [e for _, e in events("/completion", plain)]
equal("".join(p["content"] for p in parts), ANSWER, "/completion, streamed")
equal([p["stop"] for p in parts], [False] * (len(parts) - 1) + [True], "/completion: stop")
equal(s.post("/completion", {**plain, "n_predict": 3})[1]["stop_type"], "limit", "stop_type limit")
equal(s.post("/completion", {**plain, "n_predict": 0})[1]["tokens_predicted"], 0, "no tokens: the prompt is evaluated")


def progress(events):
    return [[e["prompt_progress"][k] for k in ("total", "cache", "processed")] for e in events if "prompt_progress" in e]


new = {**plain, "prompt": [300 + i % 90 for i in range(200)], "n_predict": 2, "return_progress": True}
first = [e for _, e in events("/completion", new)]
equal((progress(first)[0], progress(first)[-1]), ([200, 0, 0], [200, 0, 200]), "return_progress")
check("prompt_progress" in first[0] and first[0]["content"] == "" and not first[0]["stop"], "progress comes before the text", first[0])
again = progress(e for _, e in events("/completion", new))
check(again[0][1] > 100 and again[0][1] == again[0][2] and again[-1][2] == 200, "what was cached", again)
chat = s.stream("/v1/chat/completions", {"messages": TALK, "return_progress": True, "temperature": 0})
equal((progress(chat)[-1][2], chat[0]["choices"][0]["delta"]), (32, {"role": "assistant", "content": None}), "chat: progress")
equal("".join(e["choices"][0]["delta"].get("content") or "" for e in chat), ANSWER, "chat: the text beside it")
equal(progress(e for _, e in events("/completion", plain)), [], "no progress unless it is asked for")
r = s.post("/completion", {**plain, "stop": ["never", "84"]})[1]
equal((r["stop_type"], r["stopping_word"]), ("word", "84"), "stop_type word")
equal([e["stopping_word"] for _, e in events("/completion", {**plain, "stop": ["84"]}) if e["stop"]], ["84"], "streamed")
equal(s.post("/completion", plain)[1]["stopping_word"], "", "no stopping_word")
equal([x["index"] for x in s.post("/completion", {**plain, "prompt": [PROMPT, "x"]})[1]], [0, 1], "several prompts")
equal(s.post("/completion", {**plain, "prompt": ["a", 70, "b"], "n_predict": 1})[1]["tokens_evaluated"], 3, "a mixed prompt")
equal(s.post("/completion", {"prompt": "a " * 2000})[1]["error"]["type"], "exceed_context_size_error", "too long")
equal(s.post("/infill", {"input_prefix": "a", "input_suffix": "b"})[1]["error"]["code"], 400, "no hole in this vocabulary")
ids = s.post("/tokenize", {"content": "Sam has 42 é<|im_end|>"})[1]["tokens"]
equal(s.post("/detokenize", {"tokens": ids})[1]["content"], "Sam has 42 é<|im_end|>", "there and back")
pieces = s.post("/tokenize", {"content": "Sam é", "with_pieces": True})[1]["tokens"]
equal(pieces[0]["piece"], "Sam", "pieces")
equal([p["piece"] for p in pieces[2:]], [[195], [169]], "pieces that are no characters are bytes")
check(len(s.post("/tokenize", {"content": "<|im_end|>", "parse_special": False})[1]["tokens"]) > 1, "parse_special")
equal(s.post("/detokenize", {"tokens": [5000]})[0], 400, "a token that there is not")
equal(s.post("/apply-template", {"messages": TALK})[1]["prompt"], PROMPT, "/apply-template")
props = s.get("/props")[1]
check(props["total_slots"] == 8 and props["default_generation_settings"]["n_ctx"] == 1024 and
      "im_start" in props["chat_template"], "/props", props)
equal([x["is_processing"] for x in s.get("/slots")[1]], [False] * 8, "/slots")
check(s.metric("llamacpp:tokens_predicted_total") > 20 and s.metric("lutra:rows_valid_total") > 20, "/metrics")

# ---- Ollama
cold = {"options": {"temperature": 0}}
equal(s.ask("GET", "/")[2], "Ollama is running", "the root")
check(s.get("/api/version")[1]["version"].count(".") == 2, "/api/version")
model = s.get("/api/tags")[1]["models"][0]
equal((model["name"], model["details"]["family"], model["details"]["quantization_level"]), ("tiny:latest", "qwen2", "F16"),
      "/api/tags")
equal(s.get("/api/ps")[1]["models"][0]["context_length"], 1024, "/api/ps")
shown = s.post("/api/show", {"model": "tiny:latest"})[1]
equal((shown["capabilities"], shown["model_info"]["qwen2.context_length"]), (["completion"], 1024), "/api/show")
headers, said = lines("/api/chat", {"model": "tiny", "messages": TALK, **cold})
equal(headers["Content-Type"], "application/x-ndjson", "lines of JSON")
equal("".join(x["message"]["content"] for x in said), ANSWER, "/api/chat streams by default")
equal([x["done"] for x in said], [False] * (len(said) - 1) + [True], "/api/chat: done")
last = said[-1]
check(last["done_reason"] == "stop" and last["prompt_eval_count"] == 32 and last["eval_count"] > 10 and
      last["total_duration"] >= last["eval_duration"] > 0, "/api/chat: figures", last)
r = s.post("/api/chat", {"model": "tiny:latest", "messages": TALK, "stream": False, **cold})[1]
equal((r["message"]["content"], r["model"]), (ANSWER, "tiny:latest"), "/api/chat, whole")
equal(s.post("/api/chat", {"messages": TALK, "stream": False, "options": {"num_predict": 2}})[1]["done_reason"], "length",
      "num_predict")
r = s.post("/api/chat", {"messages": TALK, "stream": False, "format": {"type": "object", "properties": {
    "n": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["n"]}, **cold})[1]
check(0 <= json.loads(r["message"]["content"])["n"] <= 99, "format: a schema", r)
r = s.post("/api/generate", {"prompt": QUESTION, "stream": False, **cold})[1]
equal(r["response"], ANSWER, "/api/generate")
equal("".join(x["response"] for x in lines("/api/generate", {"prompt": PROMPT, "raw": True, **cold})[1]), ANSWER, "raw")
equal(s.post("/api/generate", {"model": "tiny", "stream": False})[1]["done_reason"], "load", "no prompt")
for path in ("/api/pull", "/api/create"):
    status, r = s.post(path, {"model": "x"})
    check(status == 501 and isinstance(r["error"], str), path, r)
status, r = s.post("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]})
check(status == 400 and "images" in r["error"], "images", r)

# ---- Anthropic
ask = {"model": "tiny", "max_tokens": 100, "messages": TALK, "temperature": 0}
r = s.post("/v1/messages", ask)[1]
equal((r["type"], r["role"], r["content"], r["stop_reason"]),
      ("message", "assistant", [{"type": "text", "text": ANSWER}], "end_turn"), "/v1/messages")
check(r["usage"]["input_tokens"] + r["usage"]["cache_read_input_tokens"] == 32, "usage", r["usage"])
told = events("/v1/messages", ask)
equal([name for name, _ in told if name != "content_block_delta"],
      ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"], "its events")
check(all(name == data["type"] for name, data in told), "each event's type")
equal("".join(d["delta"]["text"] for name, d in told if name == "content_block_delta"), ANSWER, "its text")
equal(s.post("/v1/messages", {**ask, "max_tokens": 2})[1]["stop_reason"], "max_tokens", "max_tokens")
r = s.post("/v1/messages", {**ask, "stop_sequences": ["9", "84"]})[1]
equal((r["stop_reason"], r["stop_sequence"]), ("stop_sequence", "84"), "stop_sequences")
equal([d["delta"] for name, d in events("/v1/messages", {**ask, "stop_sequences": ["84"]}) if name == "message_delta"],
      [{"stop_reason": "stop_sequence", "stop_sequence": "84"}], "stop_sequences, streamed")
equal(s.post("/v1/messages", ask)[1]["stop_sequence"], None, "no stop_sequence")
blocks = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
equal(s.post("/v1/messages", {**ask, "messages": blocks})[1]["content"][0]["text"], ANSWER, "blocks")
n = s.post("/v1/messages/count_tokens", {"model": "tiny", "messages": TALK})[1]["input_tokens"]
equal(n, 32, "count_tokens")
for path in ("/v1/messages/count_tokens", "/apply-template"):  # what counts or shows a request that would stream
    equal(s.post(path, {"messages": TALK})[1], s.post(path, {"messages": TALK, "stream": True})[1], path + " of a stream")
check(s.post("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "a " * 5000}]})[1]["input_tokens"] > 1024,
      "count_tokens of what does not fit")
status, r = s.post("/v1/messages", {"messages": TALK})
equal((status, r["type"], r["error"]["type"]), (400, "error", "invalid_request_error"), "max_tokens is missing")
status, r = s.post("/v1/messages", {**ask, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]})
check(status == 400 and "image" in r["error"]["message"], "images", r)

# ---- responses
ask = {"model": "tiny", "input": QUESTION, "temperature": 0}
r = s.post("/v1/responses", ask)[1]
equal((r["status"], r["output"][0]["content"][0]["text"]), ("completed", ANSWER), "/v1/responses")
equal(r["usage"]["input_tokens"], 32, "its usage")
told = events("/v1/responses", ask)
names = [name for name, _ in told if name != "response.output_text.delta"]
equal(names, ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
              "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"],
      "its events")
equal([d["sequence_number"] for _, d in told], list(range(len(told))), "their numbers")
equal("".join(d["delta"] for name, d in told if name == "response.output_text.delta"), ANSWER, "its text")
equal(told[-1][1]["response"]["output"][0]["content"][0]["text"], ANSWER, "the whole response")
r = s.post("/v1/responses", {**ask, "max_output_tokens": 2})[1]
equal((r["status"], r["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}), "max_output_tokens")
items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]}]
equal(s.post("/v1/responses", {**ask, "input": items})[1]["output"][0]["content"][0]["text"], ANSWER, "items")
status, r = s.post("/v1/responses", {**ask, "previous_response_id": "resp_1"})
equal((status, r["error"]["param"]), (400, "previous_response_id"), "stored conversations")
equal(s.post("/v1/rerank", {"query": "x", "documents": ["y"]})[0], 400, "/v1/rerank of a model that ranks nothing")

# ---- what these APIs have and this server does not is refused by name: fields that would change the reply, endpoints
chat, plain = user(QUESTION, max_tokens=2), {"prompt": "x", "n_predict": 1}
for path, body, field, value, nothing in (
        ("/completion", plain, "lora", [{"id": 0, "scale": 2}], []), ("/completion", plain, "post_sampling_probs", True, False),
        ("/completion", plain, "n_indent", 4, 0), ("/completion", plain, "min_keep", 2, 1), ("/completion", plain, "grammar_lazy", True, False),
        ("/infill", {"input_prefix": "a", "input_suffix": "b"}, "n_indent", 4, None),
        ("/v1/chat/completions", chat, "guided_json", {"type": "object"}, {}), (CHAT, chat, "structured_outputs", {"regex": "a"}, None),
        (CHAT, chat, "functions", [{"name": "f"}], []),
        ("/v1/messages", chat, "mcp_servers", [{"url": "x"}], []), ("/v1/messages", chat, "container", "c", None),
        ("/v1/messages", chat, "output_config", {"format": {"type": "grammar"}}, {}),
        ("/v1/responses", ask, "top_logprobs", 3, 0)):
    status, r = s.post(path, {**body, field: value})
    check(status == 400 and field in json.dumps(r), f"{path}: {field} is refused", r)
    if path != "/infill":
        status, r = s.post(path, {**body, field: nothing})
        equal(status, 200, f"{path}: {field} that asks for nothing: {str(r)[:200]}")
for method, path in (("POST", "/slots/0?action=save"), ("GET", "/lora-adapters"), ("POST", "/lora-adapters"), ("GET", "/v1/responses/resp_1"),
                     ("POST", "/v1/conversations"), ("POST", "/v1/audio/speech"), ("POST", "/v1/images/generations"), ("GET", "/v1/files"),
                     ("POST", "/v1/messages/batches"), ("HEAD", "/api/blobs/sha256:00"), ("POST", "/v1/moderations")):
    status, _, text = s.ask(method, path, "{}" if method == "POST" else None)
    equal(status, 501, f"{method} {path}")
    check(method == "HEAD" or path.split("?")[0] in json.loads(text)["error"]["message"], "which is named", text)
equal(s.get("/slots/")[0], 404, "what nobody has is not found")

# ---- and what is new of theirs
r = s.post("/completion", {"prompt": "Sam has", "n_predict": 2, "n_cmpl": 3,
                           "temperature": 1, "samplers": ["top_k", "adaptive_p"], "adaptive_target": 0.5, "adaptive_decay": 0.5})[1]
check(isinstance(r, list), "n_cmpl, adaptive_p", r)
equal([c["index"] for c in r], [0, 1, 2], "n_cmpl")
schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
for more in ({"output_config": {"format": {"type": "json_schema", "schema": schema}}}, {"output_format": {"type": "json_schema", "schema": schema}}):
    r = s.post("/v1/messages", user(QUESTION, max_tokens=200, **more))[1]
    check(r["stop_reason"] == "max_tokens" or list(json.loads(r["content"][0]["text"])) == ["n"], "Anthropic's structured outputs", r)
    check(r["content"][0]["text"].lstrip().startswith("{"), "... hold the text to the schema", r)
r = s.get("/v1/models")[1]
check(r["has_more"] is False and all(m["type"] == "model" and m["display_name"] == m["id"] and m["created_at"].endswith("Z") for m in r["data"]),
      "Anthropic's list of models", r)
equal(s.stop(), 0, "SIGTERM")
other = Server("-m", MODEL.replace("abacus-1m", "abacus-xs"))
value = lambda: [m["status"]["value"] for m in other.get("/v1/models")[1]["data"]]
equal(value(), ["loaded", "unloaded"], "the first is open")
equal(other.post("/models/load", {"model": "abacus-xs-f16"}), (200, {"success": True}), "/models/load")
equal(value(), ["loaded", "loaded"], "both are open")
equal(other.post("/models/unload", {"model": "abacus-1m-f16"}), (200, {"success": True}), "/models/unload")
equal(value(), ["unloaded", "loaded"], "the first is closed")
equal(other.post("/models/unload", {"model": "abacus-1m-f16"})[0], 400, "a model that is not open")
equal(other.post("/models/unload", {"model": "none"})[0], 404, "a model that there is not")
equal(other.post("/models/unload", {})[0], 400, "no model")
equal(other.post(CHAT, {**chat, "model": "abacus-1m-f16"})[0], 200, "it is opened again when it is asked for")
equal(value(), ["loaded", "loaded"], "and stays")
other.stop()
# ---- thinking: the server's options, and a request that says otherwise
SHOWS = "{# tools #}{{ messages[0].content }} {{ enable_thinking|default('-') }} {{ reasoning_effort|default('-') }} {{ a|default('-') }}"
other = Server("--chat-template", SHOWS, "--reasoning", "low", "--chat-template-kwargs", '{"a": 7}')


def shown(**more):
    return other.post("/apply-template", user("hi", **more))[1]["prompt"]


equal(shown(), "hi True low 7", "the server's variables")
equal(shown(reasoning_effort="high"), "hi True high 7", "a request's effort")
equal(shown(enable_thinking=False), "hi False low 7", "a request without thinking")
equal(shown(chat_template_kwargs={"a": 8, "enable_thinking": False}), "hi False low 8", "a request's variables")
other.stop()
other = Server("--chat-template", SHOWS, "--reasoning", "off")
equal(shown(), "hi False - -", "a server without thinking")
equal(shown(enable_thinking=True), "hi True - -", "a request with thinking")
other.stop()

finish()
