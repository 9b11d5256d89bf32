"""Training of few bits: what is trained is what the folders hold, read here from the formats' definitions."""
import json
import struct
import sys
import tempfile
import unittest
from argparse import Namespace
from pathlib import Path

import torch

TRAIN = Path(__file__).resolve().parents[2] / "tools" / "train"
sys.path.insert(0, str(TRAIN))
import export_folder  # noqa: E402
import lowbit  # noqa: E402
import outliers  # noqa: E402
import train  # noqa: E402
from model import Model  # noqa: E402

BYTES = {"F16": ("e", 2), "F32": ("f", 4), "I32": ("I", 4), "U8": ("B", 1), "BF16": ("H", 2)}


def config(weights):
    return Namespace(d=128, ff=192, heads=2, kv=1, layers=1, vocab=1024, weights=weights)


def checkpoint(folder, model):
    torch.save(dict(model=model.state_dict(), config=vars(model.c), tokens=0), folder + "/checkpoint.pt")
    (Path(folder) / "tokenizer.json").write_text((TRAIN / "tokenizer.json").read_text())


def tensors_of(path):
    """{name: (shape, flat list)}"""
    raw = path.read_bytes()
    (n,) = struct.unpack_from("<Q", raw)
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            form, size = BYTES[t["dtype"]]
            a, b = t["data_offsets"]
            out[name] = t["shape"], struct.unpack(f"<{(b - a) // size}{form}", raw[8 + n + a:8 + n + b])
    return out


def gptq(t, base):
    """[out][in]: (code - zero) x scale."""
    (rows, n), q = t[base + "qweight"]
    (groups, _), s = t[base + "scales"]
    z = t[base + "qzeros"][1]
    k = rows * 16
    zero = [[z[g * n // 16 + j // 16] >> 2 * (j % 16) & 3 for j in range(n)] for g in range(groups)]
    return torch.tensor([[((q[i // 16 * n + j] >> 2 * (i % 16) & 3) - zero[i // 64][j]) * s[i // 64 * n + j]
                          for i in range(k)] for j in range(n)])


def bitnet(t, base):
    (quarter, k), q = t[base + "weight"]
    (scale,) = struct.unpack("<f", struct.pack("<I", t[base + "weight_scale"][1][0] << 16))
    return torch.tensor([[((q[r % quarter * k + i] >> 2 * (r // quarter) & 3) - 1) * scale for i in range(k)]
                         for r in range(4 * quarter)])


class Layers(unittest.TestCase):
    def test_w2_rounds_to_the_nearest_and_learns(self):
        torch.manual_seed(1)
        m = lowbit.W2(128, 8, True)
        m.fit()
        w = m(torch.eye(128)).t() - m.bias[:, None]
        self.assertLess((w - m.weight).pow(2).mean(), 0.13 * m.weight.pow(2).mean())
        self.assertLessEqual(len(set(w[0, :64].tolist())), 4)
        w.sum().backward()
        share = m.weight.grad.gt(0).float().mean()
        self.assertTrue(0.5 < share <= 1)  # what is cut off has none
        self.assertGreater(m.log_scale.grad.abs().min(), 0)

    def test_ternary_is_the_mean_magnitude(self):
        torch.manual_seed(1)
        m = lowbit.Ternary(128, 8, False)
        w = m(torch.eye(128)).t()
        scale = m.weight.abs().mean().bfloat16().float()
        self.assertTrue(torch.allclose(w / scale, (m.weight / scale).round().clamp(-1, 1), atol=1e-6))
        w.sum().backward()
        self.assertTrue(m.weight.grad.eq(1).all())

    def test_rows_have_127_steps(self):
        x = torch.randn(4, 32, requires_grad=True)
        y = lowbit.Int8Rows.apply(x)
        step = x.detach().abs().amax(-1, keepdim=True) / 127
        self.assertTrue(torch.allclose(y / step, (y / step).round(), atol=1e-4))
        self.assertLessEqual(((y - x).abs() / step).max(), 0.5001)
        y.sum().backward()
        self.assertTrue(x.grad.eq(1).all())


class Folders(unittest.TestCase):
    def check(self, kind, unpack):
        torch.manual_seed(2)
        model = Model(config(kind))
        model.fit()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint(folder, model)
            export_folder.main(folder, folder + "/out")
            t = tensors_of(Path(folder) / "out" / "model.safetensors")
            self.assertEqual(json.loads((Path(folder) / "out" / "config.json").read_text())["intermediate_size"], 192)
        block = model.blocks[0]
        for ours, theirs in export_folder.NAMES.items():
            m, base = getattr(block, ours, None), f"model.layers.0.{theirs}."
            if isinstance(m, torch.nn.Linear):
                w = m(torch.eye(m.in_features)) - (0 if m.bias is None else m.bias)
                self.assertTrue(torch.allclose(unpack(t, base), w.t(), rtol=0, atol=1e-6), base)
            elif m is not None:
                self.assertEqual(t[base + "weight"][0], [len(m.weight)])
        self.assertEqual(t["model.embed_tokens.weight"][0], [1024, 128])

    def test_w2(self):
        self.check("w2", gptq)

    def test_b158(self):
        self.check("b158", bitnet)

    def test_begin_takes_what_is_there(self):
        source, model = Model(config("float")), Model(config("b158"))
        with tempfile.TemporaryDirectory() as folder:
            checkpoint(folder, source)
            train.begin(model, folder)
        self.assertTrue(model.blocks[0].gate.weight.equal(source.blocks[0].gate.weight))
        self.assertTrue(model.blocks[0].attn_norm.weight.eq(2).all())
        self.assertTrue(model.blocks[0].ffn_norm.weight.eq(1).all())
        self.assertTrue(model.blocks[0].ffn_sub_norm.weight.eq(2).all())

    def test_begin_keeps_scales_that_are_there(self):
        source, model = Model(config("w2")), Model(config("w2"))
        with tempfile.TemporaryDirectory() as folder:
            checkpoint(folder, source)
            train.begin(model, folder)
            self.assertTrue(model.blocks[0].o.log_scale.eq(0).all())
            checkpoint(folder, Model(config("float")))
            train.begin(model, folder)
        self.assertTrue(model.blocks[0].o.log_scale.lt(0).all())

    def test_like_its_teacher(self):
        torch.manual_seed(3)
        source = Model(config("float"))
        with tempfile.TemporaryDirectory() as folder:
            checkpoint(folder, source)
            teacher = train.load(folder)
        ids, states, taught = torch.tensor([[5, 6, 7, 0]]), [], []
        source.hidden(ids, after=states)
        teacher.hidden(ids, after=taught)
        self.assertEqual(len(states), 1)
        self.assertEqual(train.unlike(states, taught, ids > 0).item(), 0)
        states[0] = 2 * states[0]
        states[0][:, 3] = 9  # padding is left out
        self.assertAlmostEqual(train.unlike(states, taught, ids > 0).item(), 1, 4)


class Outliers(unittest.TestCase):
    @torch.no_grad()
    def test_same_function_of_larger_columns(self):
        torch.manual_seed(1)
        model = Model(config("float")).eval()
        ids = torch.arange(40)[None]
        before, largest = model.logits(model.hidden(ids)), model.blocks[0].down.weight.abs().max().item()
        outliers.enlarge(model.state_dict(), 1, 16.0)
        self.assertGreater(model.blocks[0].down.weight.abs().max().item(), 5 * largest)
        self.assertTrue(torch.allclose(model.logits(model.hidden(ids)), before, atol=1e-4))
