# SPDX-License-Identifier: MIT
"""Texts as vectors: OpenAI's, Ollama's and llama.cpp's endpoints give what `lutra embed` gives."""
import base64
import json
import struct
import subprocess
import sys
import threading

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import LUTRA, MODEL, WAIT_S, Server, check, equal, finish, user

EMBED, TEXTS = "/v1/embeddings", ["Sam has 42 cards.", "Tom has <|im_end|> 7 boxes with 3 pens in each.", "x"]


def by_command(pooling):
    r = subprocess.run([LUTRA, "embed", "-m", MODEL, "--pooling", pooling, "--stdin"], input="\n".join(TEXTS) + "\n",
                       capture_output=True, text=True, timeout=WAIT_S)
    return [json.loads(line) for line in r.stdout.splitlines()]


for pooling in ("mean", "last"):
    s, right = Server("--pooling", pooling, "--alias", "tiny", "-np", "2"), by_command(pooling)
    equal(len(right), 3, "lutra embed")
    status, r = s.post(EMBED, {"input": TEXTS, "model": "tiny"})
    equal((status, r["object"], r["model"]), (200, "list", "tiny"), EMBED)
    equal([(d["object"], d["index"]) for d in r["data"]], [("embedding", i) for i in range(3)], "its list")
    equal([d["embedding"] for d in r["data"]], right, f"{pooling}: the vectors of lutra embed")
    n = [len(s.post("/tokenize", {"content": t, "parse_special": False})[1]["tokens"]) for t in TEXTS]
    equal(r["usage"], {"prompt_tokens": sum(n), "total_tokens": sum(n)}, "usage")
    equal(s.post(EMBED, {"input": TEXTS[0]})[1]["data"][0]["embedding"], right[0], "one text, alone")
    r = s.post(EMBED, {"input": TEXTS, "encoding_format": "base64", "user": "u"})[1]
    for got, want in zip(r["data"], right):
        raw = base64.b64decode(got["embedding"], validate=True)
        equal(list(struct.unpack(f"<{len(want)}f", raw)), [struct.unpack("f", struct.pack("f", x))[0] for x in want], "base64")
    ids = s.post("/tokenize", {"content": TEXTS[0], "parse_special": False})[1]["tokens"]
    equal(s.post(EMBED, {"input": ids})[1]["data"][0]["embedding"], right[0], "token ids")
    equal([d["embedding"] for d in s.post(EMBED, {"input": [ids, ids]})[1]["data"]], right[:1] * 2, "lists of token ids")
    equal(s.post(EMBED, {"input": TEXTS[0], "dimensions": len(right[0])})[0], 200, "dimensions that it has")
    r = s.post("/api/embed", {"model": "tiny:latest", "input": TEXTS})[1]
    equal((r["embeddings"], r["model"], r["prompt_eval_count"]), (right, "tiny:latest", sum(n)), "/api/embed")
    equal(s.post("/api/embed", {"input": TEXTS[1]})[1]["embeddings"], right[1:2], "/api/embed of one text")
    equal(s.post("/api/embeddings", {"prompt": TEXTS[2]})[1], {"embedding": right[2]}, "/api/embeddings")
    for path in ("/embedding", "/embeddings"):
        equal(s.post(path, {"content": TEXTS[0]})[1], [{"index": 0, "embedding": [right[0]]}], path)
    equal([e["embedding"][0] for e in s.post("/embedding", {"input": TEXTS})[1]], right, "/embedding of several")

    def refused(body, param, path=EMBED, code="invalid_value"):
        status, r = s.post(path, body)
        equal((status, r["error"].get("param"), r["error"].get("code")), (400, param, code), f"refused: {str(body)[:60]}")

    refused({}, "input")
    refused({"input": []}, "input")
    refused({"input": ""}, "input")
    refused({"input": ["a", ""]}, "input")
    refused({"input": {"a": 1}}, "input")
    refused({"input": [1.5]}, "input")
    refused({"input": [[1], [10 ** 6]]}, "input")
    refused({"input": ["a"] * 2049}, "input")
    refused({"input": "a", "encoding_format": "int8"}, "encoding_format")
    refused({"input": "a", "dimensions": 3}, "dimensions", code="unsupported_value")
    refused({"input": "a", "dimensions": 0}, "dimensions")
    refused({"input": ["a", "word " * 2000]}, "input", code="context_length_exceeded")
    status, r = s.post("/api/embed", {"input": "word " * 2000, "truncate": False})
    check(status == 400 and "1024" in r["error"], "/api/embed, not truncated", r)
    status, r = s.post("/api/embed", {"input": "word " * 2000})
    equal((status, r["prompt_eval_count"]), (200, 1024), "/api/embed cuts what is too long")
    status, r = s.post("/api/embeddings", {"prompt": ["a"]})
    check(status == 400 and "prompt" in r["error"], "/api/embeddings takes one text", r)
    status, r = s.post("/embedding", {"content": "a", "embd_normalize": -1})
    check(status == 400 and "embd_normalize" in r["error"]["message"], "embd_normalize", r)

    # Beside replies that fill the cache: everybody comes to an end, and the vectors are the same.
    got = []
    talkers = [threading.Thread(target=lambda: got.append(s.post("/v1/chat/completions", user("x", ignore_eos=True))[0]))
               for _ in range(4)]
    for t in talkers:
        t.start()
    many = s.post(EMBED, {"input": TEXTS * 100})[1]["data"]
    for t in talkers:
        t.join()
    equal(got, [200] * 4, "the replies")
    equal([d["embedding"] for d in many], right * 100, "many texts, beside replies")
    equal(s.stop(), 0, "SIGTERM")

# A model whose file names no pooling.
s = Server()
status, r = s.post(EMBED, {"input": "x"})
check(status == 400 and "--pooling" in r["error"]["message"], "no pooling is known", r)
equal(s.post("/v1/chat/completions", user("x", max_tokens=1))[0], 200, "and the server goes on")
s.stop()
finish()
