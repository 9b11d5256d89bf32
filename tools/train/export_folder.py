"""Writes a checkpoint, of few bits (lowbit.py) or of floats, as a Hugging Face folder.

usage: export_folder.py OUT_DIR FOLDER

w2 becomes GPTQ v2 (Qwen2ForCausalLM), b158 BitNet's packed bytes (BitNetForCausalLM), exactly; others get halves as
export.py's.  The embedding has halves, vectors floats.
"""
import json
import os
import struct
import sys
from types import SimpleNamespace

import numpy as np
import torch

import bpe
import lowbit
from export import TEMPLATE
from model import MAX_CTX, Model

NAMES = dict(attn_norm="input_layernorm", ffn_norm="post_attention_layernorm", attn_sub_norm="self_attn.attn_sub_norm",
             ffn_sub_norm="mlp.ffn_sub_norm", q="self_attn.q_proj", k="self_attn.k_proj", v="self_attn.v_proj",
             o="self_attn.o_proj", gate="mlp.gate_proj", up="mlp.up_proj", down="mlp.down_proj")
QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu"}
CONFIG = {"float": QWEN2,
          "w2": {**QWEN2,
                 "quantization_config": {"quant_method": "gptq", "checkpoint_format": "gptq_v2", "bits": 2,
                                         "group_size": lowbit.GROUP, "desc_act": False, "sym": False}},
          "b158": {"architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_act": "relu2",
                   "quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear",
                                           "quantization_mode": "offline"}}}
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")  # Qwen2's, of which bpe.py's is a part


def words(codes, bits=2):
    """[n][m] codes as [n / 16][m] little-endian words, the first of 16 in the low bits."""
    per = 32 // bits
    parts = codes.numpy().astype(np.uint32).reshape(len(codes) // per, per, -1)
    return np.bitwise_or.reduce(parts << (bits * np.arange(per, dtype=np.uint32))[None, :, None], 1).astype("<u4")


def gptq(m):
    """Codes of 16 inputs to a word, zero points of 16 outputs, as they are; scales [groups][out]."""
    yield "qweight", "I32", words(m.codes().t())
    yield "qzeros", "I32", np.ascontiguousarray(words(m.zero).T)
    yield "scales", "F16", m.scale().t().half().numpy()


def bitnet(m):
    """Rows r, r + n / 4, r + n / 2 and r + 3 n / 4 share bytes; -1, 0, 1 are 0, 1, 2."""
    c = (m.levels() + 1).numpy().astype(np.uint8).reshape(4, -1, m.in_features)
    yield "weight", "U8", c[0] | c[1] << 2 | c[2] << 4 | c[3] << 6
    yield "weight_scale", "BF16", np.array([m.scale().view(torch.int32).item() >> 16], "<u2")


def floats(t, kind="F32"):
    return kind, t.numpy().astype({"F32": "<f4", "F16": "<f2"}[kind])


def halves(m):
    yield "weight", *floats(m.weight, "F16")


WRITERS = {"float": halves, "w2": gptq, "b158": bitnet}


def tensors(model, kind):
    yield "model.embed_tokens.weight", *floats(model.embed.weight, "F16")
    yield "model.norm.weight", *floats(model.norm.weight)
    for i, block in enumerate(model.blocks):
        for ours, m in block.named_children():
            base = f"model.layers.{i}.{NAMES[ours]}."
            if not isinstance(m, torch.nn.Linear):
                yield base + "weight", *floats(m.weight)
                continue
            for part, dtype, value in WRITERS[kind](m):
                yield base + part, dtype, value
            if m.bias is not None:
                yield base + "bias", *floats(m.bias)


def safetensors(path, list_):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, dtype, value in list_:
        raw = np.ascontiguousarray(value).tobytes()
        header[name] = dict(dtype=dtype, shape=list(value.shape), data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def tokenizer(tok):
    """tokenizer.json and tokenizer_config.json."""
    added = [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for i, t in enumerate(tok.vocab) if t in bpe.SPECIAL]
    split = dict(type="Split", pattern=dict(Regex=SPLIT), behavior="Isolated", invert=False)
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=False, use_regex=False)
    model = dict(type="BPE", vocab={t: i for i, t in enumerate(tok.vocab) if not t.startswith("<|")},
                 merges=[" ".join(m) for m in tok.merges])
    return (dict(version="1.0", added_tokens=added, normalizer=None,
                 pre_tokenizer=dict(type="Sequence", pretokenizers=[split, level]), decoder=level, model=model),
            dict(add_bos_token=False, bos_token="<|endoftext|>", eos_token="<|im_end|>", pad_token="<|endoftext|>",
                 chat_template=TEMPLATE, tokenizer_class="Qwen2Tokenizer"))


@torch.no_grad()
def main(src, out):
    ck = torch.load(os.path.join(src, "checkpoint.pt"), map_location="cpu")
    c = SimpleNamespace(**ck["config"])
    kind = getattr(c, "weights", "float")
    model = Model(c)
    model.load_state_dict(ck["model"])
    tok = bpe.Tokenizer.load(os.path.join(src, "tokenizer.json"))
    config = dict(hidden_size=c.d, num_hidden_layers=c.layers, intermediate_size=c.ff, num_attention_heads=c.heads,
                  num_key_value_heads=c.kv, vocab_size=c.vocab, max_position_embeddings=MAX_CTX, rms_norm_eps=1e-6,
                  rope_theta=float(getattr(c, "theta", 10000.0)), tie_word_embeddings=True, torch_dtype="float16",
                  bos_token_id=tok.id["<|endoftext|>"], eos_token_id=tok.id["<|im_end|>"], **CONFIG[kind])
    os.makedirs(out, exist_ok=True)
    safetensors(os.path.join(out, "model.safetensors"), tensors(model, kind))
    for name, value, indent in zip(("tokenizer.json", "tokenizer_config.json", "config.json"), (*tokenizer(tok), config),
                                   (None, 1, 1)):
        with open(os.path.join(out, name), "w") as f:
            f.write(json.dumps(value, indent=indent, ensure_ascii=False) + "\n")
    size = sum(os.path.getsize(os.path.join(out, n)) for n in os.listdir(out))
    print(f"{out}: {size / 1e6:.2f} MB, trained {ck['tokens'] / 1e6:.1f} M tokens")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
