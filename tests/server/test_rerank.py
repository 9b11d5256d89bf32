# SPDX-License-Identifier: MIT
"""Encoders behind the server: vectors and ranks by all endpoints, lengths, and what they refuse."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import LUTRA, WAIT_S, Server, check, equal, finish, user

work = tempfile.TemporaryDirectory()
QUERY = "how are owls counted?"
DOCUMENTS = ["Owls are counted at night, by their calls.", "A recipe for bread.", "owl [SEP] pellets " * 8, "x"]


def made(shape):
    path = os.path.join(work.name, shape + ".gguf")
    subprocess.run([LUTRA, "make-model", "-o", path, "--shape", shape, "--type", "Q8_0"], check=True, timeout=WAIT_S, stdout=subprocess.DEVNULL)
    return path


def by_command(model, texts):
    r = subprocess.run([LUTRA, "embed", "-m", model, "--stdin"], input="\n".join(texts) + "\n", capture_output=True, text=True, timeout=WAIT_S)
    equal((r.returncode, r.stderr.count("error")), (0, 0), f"lutra embed: {r.stderr[-200:]}")
    return [json.loads(line) for line in r.stdout.splitlines()]


# ---- vectors ----

for shape in ("tiny-bert", "tiny-nomic-bert", "tiny-gemma-embedding"):
    model = made(shape)
    s, texts = Server("--alias", "tiny", "-np", "2", model=model), ["One text.", "b", "of mixed lengths " * 15]
    right = by_command(model, texts)
    equal([d["embedding"] for d in s.post("/v1/embeddings", {"input": texts})[1]["data"]], right, f"{shape}: /v1/embeddings")
    equal(s.post("/api/embed", {"input": texts})[1]["embeddings"], right, f"{shape}: /api/embed")
    equal([e["embedding"][0] for e in s.post("/embedding", {"input": texts})[1]], right, f"{shape}: /embedding")
    equal(s.post("/v1/embeddings", {"input": texts[1]})[1]["data"][0]["embedding"], right[1], f"{shape}: one text")
    status, r = s.post("/v1/embeddings", {"input": "word " * 600})
    equal((status, r["error"]["code"]), (400, "context_length_exceeded"), f"{shape}: too long")
    status, r = s.post("/api/embed", {"input": "word " * 600})
    equal((status, r["prompt_eval_count"]), (200, 512), f"{shape}: cut")
    for path, body in (("/v1/chat/completions", user("x")), ("/v1/completions", {"prompt": "x"}), ("/completion", {"prompt": "x"}),
                       ("/api/chat", {"messages": [{"role": "user", "content": "x"}]}), ("/v1/responses", {"input": "x"})):
        status, r = s.post(path, {"model": "tiny", **body})
        check(status == 400 and "encoder" in json.dumps(r), f"{shape}: {path} of an encoder", r)
    equal(s.post("/api/show", {"model": "tiny"})[1]["capabilities"], ["embedding"], f"{shape}: /api/show")
    equal(s.post("/v1/rerank", {"query": "a", "documents": ["b"]})[1]["error"]["param"], "model", f"{shape}: ranks nothing")
    r = subprocess.run([LUTRA, "run", "-m", model, "-st", "-p", "hello"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S)
    check(r.returncode and "encoder" in r.stderr and not r.stdout.strip(), f"{shape}: lutra run", r.stderr)

# ---- ranks ----

for shape in ("tiny-bert-rank", "tiny-qwen3-rank"):
    s = Server("--alias", "tiny", "-np", "2", "--rerank", model=made(shape))
    ask = {"model": "tiny", "query": QUERY, "documents": DOCUMENTS}
    status, whole = s.post("/v1/rerank", ask)
    equal((status, whole.get("object"), whole.get("model")), (200, "list", "tiny"), f"{shape}: /v1/rerank")
    ranks = whole["results"]
    equal(sorted(r["index"] for r in ranks), [0, 1, 2, 3], f"{shape}: every document")
    scores = [r["relevance_score"] for r in ranks]
    equal(scores, sorted(scores, reverse=True), f"{shape}: the best first")
    equal(len(set(scores)), 4, f"{shape}: different scores")
    equal(whole["usage"]["prompt_tokens"], whole["usage"]["total_tokens"], f"{shape}: usage")
    for path in ("/rerank", "/reranking", "/v1/reranking"):
        equal(s.post(path, ask)[1], whole, f"{shape}: {path}")
    for r in ranks:
        alone = s.post("/rerank", {"query": QUERY, "documents": [DOCUMENTS[r["index"]]]})[1]["results"]
        equal(alone, [{"index": 0, "relevance_score": r["relevance_score"]}], f"{shape}: one document")
    equal(s.post("/rerank", {**ask, "top_n": 2})[1]["results"], ranks[:2], f"{shape}: top_n")
    got = s.post("/rerank", {**ask, "documents": [{"text": d} for d in DOCUMENTS], "return_documents": True, "top_n": 9})[1]["results"]
    equal(got, [{**r, "document": {"text": DOCUMENTS[r["index"]]}} for r in ranks], f"{shape}: return_documents")
    many = s.post("/rerank", {**ask, "documents": DOCUMENTS * 100})[1]["results"]
    equal([r["relevance_score"] for r in many], sorted(scores * 100, reverse=True), f"{shape}: many documents")

    def refused(body, param, code="invalid_value"):
        status, r = s.post("/v1/rerank", body)
        equal((status, r["error"].get("param"), r["error"].get("code")), (400, param, code), f"{shape} refused: {str(body)[:60]}")

    refused({"documents": ["a"]}, "query")
    refused({"query": 3, "documents": ["a"]}, "query")
    refused({"query": "a"}, "documents")
    refused({"query": "a", "documents": []}, "documents")
    refused({"query": "a", "documents": "b"}, "documents")
    refused({"query": "a", "documents": ["b", 3]}, "documents")
    refused({"query": "a", "documents": ["b", {"body": "c"}]}, "documents")
    refused({"query": "a", "documents": ["b"], "top_n": 0}, "top_n")
    refused({"query": "a", "documents": ["b"] * 2049}, "documents")
    refused({"query": "a", "documents": ["b", "word " * 600]}, "documents", "context_length_exceeded")

finish()
