# SPDX-License-Identifier: MIT
"""Changed and broken bodies to every endpoint, over kept connections, some of which hang up: each is answered in JSON, none
with a 5xx status, and the server lives.  200 requests; with LUTRA_TEST_LONG 10,000."""
import http.client
import json
import os
import random
import sys

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import SOURCE, WAIT_S, Server, check, equal, finish

PATHS = ("/v1/chat/completions /v1/completions /v1/responses /completion /infill /api/chat /api/generate /v1/messages "
         "/v1/messages/count_tokens /v1/embeddings /embedding /api/embed /api/embeddings /tokenize /detokenize /apply-template "
         "/v1/rerank /api/show").split()
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}
SEEDS = [{"messages": [{"role": "user", "content": "Sam has 42 cards."}], "max_tokens": 3},
         {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4, "stream": True},
         {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": "a"}]},
                       {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "1", "content": "2"}],
          "n": 2, "logprobs": True, "top_logprobs": 3, "max_tokens": 4},
         {"messages": [{"role": "user", "content": "x"}], "stop": ["a", "b"], "max_tokens": 8, "response_format": {
             "type": "json_schema", "json_schema": {"schema": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}}}}},
         {"prompt": "Sam has", "max_tokens": 2, "echo": True, "best_of": 2}, {"input": "x", "stream": True, "max_output_tokens": 3},
         {"prompt": [[1, 2], [3]], "logprobs": 2, "n": 2, "stream": True, "max_tokens": 2},
         {"prompt": ["a", 70, "b"], "n_predict": 2, "n_probs": 2, "json_schema": {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2}},
         {"input_prefix": "a", "input_suffix": "b", "n_predict": 2}, {"input": ["a", [1, 2]], "encoding_format": "base64"},
         {"messages": [{"role": "user", "content": "x"}], "options": {"temperature": 0, "num_predict": 2}, "think": False, "format": "json"},
         {"prompt": "x", "system": "y", "raw": True, "options": {"num_predict": 2}}, {"content": ["a", 5], "tokens": [1, 2]},
         {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4, "lutra": {"search": {"method": "vote", "width": 2, "budget": 9}}},
         {"query": "a", "documents": ["b", {"text": "c"}]}, {"model": "x"}]
NAMES = ("messages role content tool_calls function name type text prompt suffix echo best_of n seed stop stream logit_bias top_k logprobs "
         "top_logprobs response_format json_schema schema grammar tools tool_choice properties items enum anyOf $ref pattern minItems maxItems "
         "lutra search method width budget max_tokens min_tokens samplers input dimensions options format think system reasoning n_probs").split()
TEXTS = ["", "x", "\n", "user", "<|im_end|>", "vote", "beam", "json_schema", "object", "\U0001f999", "root ::= root", "root ::= [a-",
         "root ::= \"a\"{2,99999999}", "^(a+)+$", "#/$defs/a", "500ms", "a\0b"]
JUNK = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"\\ud83d", b"null", b"1e999", b"-0", b"123456789012345678901", b"\x01",
        b"\xff", b"\xc3", b"\xed\xa0\x80", b"[[[[[[[[", b'{"a":', b"\0"]
R = random.Random(36)


def value(depth=3):
    kind = R.randrange(9 if depth else 6)
    if kind < 4:
        return R.choice([None, True, False, 0, -1, 3, 0.5, 1e308, -1e308, 2147483648, 1e-320, R.getrandbits(63)])
    if kind < 6:
        return R.choice(TEXTS)
    n = R.randrange(4)
    return [value(depth - 1) for _ in range(n)] if kind == 6 else {R.choice(NAMES): value(depth - 1) for _ in range(n)}


def change(at):
    while at and R.randrange(4):
        inner = R.choice(list(at.values()) if isinstance(at, dict) else at)
        if not isinstance(inner, (dict, list)):
            break
        at = inner
    if isinstance(at, dict):
        at[R.choice([*at, R.choice(NAMES)])] = value()
    else:
        at.insert(R.randrange(len(at) + 1), value())


def body():
    b = json.loads(json.dumps(R.choice(SEEDS)))
    for _ in range(R.randrange(4)):
        change(b)
    raw = json.dumps(b, ensure_ascii=R.random() < 0.5).encode()
    for _ in range(R.choice([0, 0, 0, 1, 3])):
        at = R.randrange(len(raw) + 1)
        skip = R.choice([0, 0, 0, R.randrange(len(raw) - at + 1)])
        raw = raw[:at] + R.choice(JUNK) + raw[at + skip:]
    return raw


s = Server("-np", "4", "-c", "2048", "--no-access-log", model=SOURCE + "/models/abacus-xs-f16.gguf")
c, n_good, n_gone = None, 0, 0
for i in range(10000 if os.environ.get("LUTRA_TEST_LONG") else 200):
    path, raw = R.choice(PATHS), body()
    c = c or http.client.HTTPConnection("127.0.0.1", s.port, timeout=WAIT_S)
    try:
        c.request("POST", path, raw, {"Content-Type": "application/json"})
        r = c.getresponse()
        if R.randrange(40) == 0:
            c.close()
            c, n_gone = None, n_gone + 1
            continue
        text, kind = r.read(), r.headers.get("Content-Type", "")
        n_good += r.status == 200
        check(r.status == 200 or (r.status in range(400, 500) or r.status == 501), f"request {i}: {path} {raw}", (r.status, text))
        if kind.startswith("application/json"):
            json.loads(text)
    except (OSError, http.client.HTTPException, ValueError) as e:
        check(False, f"request {i}: {path} {raw}", repr(e))
        c = None
        if s.program.poll() is not None:
            break
check(n_good > 20 and n_gone, "some are answered, some hang up", (n_good, n_gone))
equal(s.program.poll(), None, "the server lives")
equal(s.stop(), 0, "and ends when asked")
finish()
