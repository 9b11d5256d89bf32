"""Trains an MTP block for a bundled model, and writes the model with it.

usage: train_mtp.py model.gguf model-mtp.gguf [--begin OLD-mtp.gguf --minutes 4 --problems 1000 --batch 24 --depth 3 --seed 1
                    --threads 1]

The block is one more layer behind the model's (`blk.N.nextn.*`, as Qwen 3.5 has it): it reads the state that the model
left behind a token, after the last norm, and the next token, and says what follows that; further on it reads its own
states.  What it is to say is the model's own distribution there, whose weights stay as they are.  It reads all of a
text, prompts too, as it does in the engine, and learns what replies go on with.  Each eighth update is of a long conversation.
"""
import argparse
import random
import struct
import time
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

import bpe
import import_gguf
import problems
from export import NAMES, U32, kv, string
from model import Block, Model, RMSNorm, rope_tables

CTX = 2304


class Mtp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.enorm, self.hnorm, self.norm = RMSNorm(c.d), RMSNorm(c.d), RMSNorm(c.d)
        self.eh = nn.Linear(2 * c.d, c.d, bias=False)
        self.block = Block(c)

    def forward(self, embedded, state, cos, sin):
        """[rows][tokens][d] each; the block's states, after its norm."""
        x = self.eh(torch.cat([self.enorm(embedded), self.hnorm(state)], -1))
        return self.norm(self.block(x, None, cos[:x.shape[1]], sin[:x.shape[1]]))


def load(path):
    keys, tensors = import_gguf.read(path)
    of = lambda name: keys["qwen2." + name]
    c = SimpleNamespace(d=of("embedding_length"), layers=of("block_count"), heads=of("attention.head_count"),
                        kv=of("attention.head_count_kv"), ff=of("feed_forward_length"), theta=of("rope.freq_base"),
                        vocab=len(keys["tokenizer.ggml.tokens"]))
    model = Model(c)
    model.cos, model.sin = rope_tables(CTX, c.d // c.heads, c.theta)
    model.load_state_dict({import_gguf.our_name(n): torch.from_numpy(t.copy()) for n, t in tensors.items()})
    merges = [m.split(" ") for m in keys["tokenizer.ggml.merges"]]
    return model.requires_grad_(False), c, bpe.Tokenizer(keys["tokenizer.ggml.tokens"], merges)


@torch.no_grad()
def text_of(model, tok, rng, turns):
    """A conversation: (states that the model leaves, tokens, whether each is of a reply)."""
    ids, reply = [], []
    for _ in range(turns):
        made = problems.make(rng.randrange(10 ** 9))
        prompt, whole = len(tok.encode(problems.chat(made[0]))), tok.encode(problems.chat(*made))
        ids, reply = ids + whole, reply + [False] * prompt + [True] * (len(whole) - prompt)
    ids, reply = torch.tensor([ids[:CTX]]), torch.tensor(reply[:CTX])
    return model.hidden(ids)[0], ids[0], reply


def loss_of(mtp, model, batch, depth):
    """Cross-entropy with what the model says in replies, and how often the likeliest token is the model's, by depth."""
    state, token, reply = (nn.utils.rnn.pad_sequence([x[k] for x in batch], batch_first=True) for k in range(3))
    said = model.logits(state)
    loss, right = 0, []
    for k in range(1, depth + 1):
        # the state of token t, or the block's own in its place, and token t + k: what the model says behind that
        state = mtp(model.embed(token[:, k:]), state[:, :token.shape[1] - k], model.cos, model.sin)
        logits, want, here = model.logits(state), said[:, k:], reply[:, k:]
        loss = loss - (want.softmax(-1) * logits.log_softmax(-1)).sum(-1)[here].mean() / k
        right.append((logits.argmax(-1) == want.argmax(-1))[here].float().mean().item())
    return loss, right


def train(a, model, c, tok):
    torch.manual_seed(a.seed)
    rng, mtp = random.Random(a.seed), Mtp(c)
    if a.begin:
        mtp.load_state_dict(block_of(a.begin, mtp, c.layers))
    short = [text_of(model, tok, rng, 1) for _ in range(a.problems)]
    long = [text_of(model, tok, rng, rng.randint(2, 20)) for _ in range(a.problems // 10)]
    opt = torch.optim.AdamW(mtp.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.01)
    begun, step = time.process_time(), 0  # of processors: a busy machine trains the same
    while time.process_time() - begun < 60 * a.minutes:
        done = (time.process_time() - begun) / (60 * a.minutes)
        for g in opt.param_groups:
            g["lr"] = 3e-3 * min(1, (step + 1) / 30) * max(0.03, 1 - done)
        loss, right = loss_of(mtp, model, rng.sample(long, 1) if step % 8 == 7 else rng.sample(short, a.batch), a.depth)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(mtp.parameters(), 1.0)
        opt.step()
        step += 1
        if step % 50 in (0, 49):
            print(f"{step} updates, {time.process_time() - begun:.0f} s: loss {loss.item():.3f}, right " +
                  " ".join(f"{r:.3f}" for r in right), flush=True)
    return mtp


def names_of(mtp, layer):
    """(name in the file, name in the state) of the block's weights."""
    for gguf, ours in dict(enorm="enorm", hnorm="hnorm", eh_proj="eh", shared_head_norm="norm").items():
        yield f"blk.{layer}.nextn.{gguf}.weight", ours + ".weight"
    for gguf, ours in NAMES.items():
        for part in ("weight", "bias"):
            if f"block.{ours}.{part}" in mtp.state_dict():
                yield f"blk.{layer}.{gguf}.{part}", f"block.{ours}.{part}"


def tensors_of(mtp, layer):
    return [(gguf, mtp.state_dict()[ours]) for gguf, ours in names_of(mtp, layer)]


def block_of(path, mtp, layer):
    tensors = import_gguf.read(path)[1]
    return {ours: torch.from_numpy(tensors[gguf].copy()) for gguf, ours in names_of(mtp, layer)}


def write(source, path, added, layers):
    """The file with more tensors behind its own, one block more, and the key that says that it drafts."""
    with open(source, "rb") as f:
        r = import_gguf.Reader(f.read())
    r.take("4s"), r.take("I")
    n_tensor, n_key = r.take("Q"), r.take("Q")
    keys = []
    for _ in range(n_key):
        at, name = r.at, r.text()
        r.value(r.take("I"))
        keys.append(kv(name, U32, layers + 1) if name == "qwen2.block_count" else r.data[at:r.at])
    keys.append(kv("qwen2.nextn_predict_layers", U32, 1))
    begun = r.at
    for _ in range(n_tensor):
        r.text(), [r.take("Q") for _ in range(r.take("I"))], r.take("I"), r.take("Q")
    infos, data = r.data[begun:r.at], r.data[(r.at + 31) // 32 * 32:]
    for name, t in added:
        half = t.dim() == 2
        data += b"\0" * (-len(data) % 32)
        infos += string(name) + struct.pack("<I", t.dim()) + b"".join(struct.pack("<Q", d) for d in reversed(t.shape))
        infos += struct.pack("<IQ", 1 if half else 0, len(data))
        data += (t.half() if half else t.float()).contiguous().numpy().tobytes()
    data += b"\0" * (-len(data) % 32)
    head = struct.pack("<4sIQQ", b"GGUF", 3, n_tensor + len(added), len(keys)) + b"".join(keys) + infos
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("source")
    p.add_argument("path")
    p.add_argument("--begin", help="a file with a block that is trained on")
    p.add_argument("--minutes", type=float, default=4)
    p.add_argument("--problems", type=int, default=1000)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--depth", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    trunk, config, tokenizer = load(a.source)
    block = train(a, trunk, config, tokenizer)
    write(a.source, a.path, tensors_of(block, config.layers), config.layers)
