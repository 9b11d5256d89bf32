#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fills the tables of docs/NPU.md, which stand between <!-- table NAME --> and <!-- / -->: NAME is a method of Figures
below.  Figures come from the recorded counts and from `lutra sim --papers`, for the pipeline from the emulator's
timeline, which npu_test_division prints (some 10 seconds).

usage: document.py LUTRA                      fills docs/NPU.md anew
       document.py --tables LUTRA DIVISION    prints every table
       document.py --check LUTRA              exit status 1 where docs/NPU.md is not what it would write
"""
import difflib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
import pages
from pages import table

SOC, USUAL = "snapdragon-8gen3", 1024
MODELS_SHOWN = ["Qwen2.5-1.5B", "Qwen2.5-3B", "Llama-3.2-1B"]
RATES = MODELS_SHOWN + ["Llama-3.2-3B"]
# Methods of test-time scaling that the report shows.
METHODS = {"abacus-xs": ["greedy", "vote@16", "best@4, judged", "best@16, judged", "beam@2x2, judged",
                         "beam@4x4, judged"],
           "abacus-1m": ["greedy"],
           "countdown-s": ["greedy", "best@8", "best@16", "best@64", "best@16, judged"],
           "countdown-l": ["greedy", "best@8", "best@16"]}
# Rows of the table of errors: kernels, and of which kinds where that matters; why the emulator's bound is below.
ERRORS = [("dequantization of Q4_0, IQ4_NL, MXFP4", "dequant", "Q4_0|IQ4_NL|MXFP4",
           "one resource is always busy"),
          ("dequantization of the other kinds", "dequant", "W[234]|TQ2_0|Q4_1|Q8_0|supergroup8?|Q._K", ""),
          ("dequantization of bit planes", "dequant", ".* planes(, g\\d+)?|. bit g\\d+ asym", ""),
          ("dequantization by baselines; finished halves", "dequant", "conventional.*|groups.*|.*finished", ""),
          ("product on tiles, one row", "gemm", ".*", "dequantization, and its calls"),
          ("product by lookup, VLUT32", "lookup|vlut32", ".*", "latencies, starts and ends of pipelined loops"),
          ("product by masks", "masks", ".*", "the bound is four full slots"),
          ("tables of a row", "tables", ".*", ""),
          ("exp and softmax by half polynomial, f32", "exp16|softmax", "f16|f32", "polynomials are chains"),
          ("exp and softmax by table", "exp16|softmax", "table",
           "loads wait for gathers, and little else is there to do"),
          ("add, swiglu, relu2, rms_norm, rope", "add|swiglu|relu2|rms_norm|rope", ".*",
           "scalar loops, partial vectors"),
          ("fit, quantize", "fit|quantize", ".*", "scalar extraction and stores"),
          ("unfit of ordinary rows", "unfit", ".*", "it looks and does nothing")]
# Products of one row by lookup and by masks: lower bounds that were drawn up by hand before the kernels were (masks,
# VLUT16, VLUT32).
LOOKUPS = {"4 bit g128 asym": ("4 bit, groups of 128, asym", 1.7, 3.3, 2.0),
           "3 bit g128 asym": ("3 bit, groups of 128, asym", 2.7, 2.6, 1.5),
           "2 bit g64 asym": ("2 bit, groups of 64, asym", 1.9, 2.0, 1.0),
           "Q2_0 planes": ("2 bit, groups of 64", None, None, 1.0),
           "TQ2_0 planes": ("ternary, groups of 128", 1.5, 1.5, 1.0),
           "Q1_0 planes": ("1 bit, groups of 128", 1.5, 0.9, 0.5)}


def span(low, high, digits=0):
    return f"{low:.{digits}f} to {high:.{digits}f}"


def verdict(low, high, published, most=None):
    if low == high:
        return f"{100 * (low / published - 1):+.0f} %"
    if high < published or low > (most or published):
        return "below" if high < published else "above"
    return "overlaps" if high < 2 * low else "undecided"


def times_of(row, *names):
    return [span(row[n]["low_us"], row[n]["high_us"]) if n in row else "" for n in names]


class Figures:
    def __init__(self, lutra, division=None):
        self.division = division
        self.d = d = json.loads(subprocess.run([lutra, "sim", "--papers", "-o", "json"], capture_output=True, text=True,
                                               check=True).stdout)["counted"]
        self.one_pass = {(s["model"], s["batch"], s["context"]): s for s in d["decode_modelled"] if s["soc"] == SOC}
        self.fill = {(s["model"], s["tokens"]): s for s in d["prefill_modelled"] if s["soc"] == SOC}
        self.low_bits = {(s["model"], s["weights"], s["way"], s["context"]): s for s in d["low_bits_decode_modelled"]
                    if s["soc"] == SOC}
        self.modes_of = {(m["model"], m["mode"]): m for m in d["modes_modelled"]}
        self.low_fill = {(s["model"], s["way"]): s for s in d["low_bits_prefill_modelled"] if s["soc"] == SOC}
        self.memory = {m["model"]: m for m in d["memory_computed"]}
        self.recorded = json.load(open(ROOT / "bench/npu/counts.json"))
        self.rows = self.recorded["rows"]
        self.row = {(r["kernel"], r["kind"], r["m"], r["k"], r["n"]): r for r in self.rows}

    def count(self, kernel, kind, m=1, k=1536, n=8960, what="packets"):
        return self.row[kernel, kind, m, k, n][what]

    def both(self, kernel, kind):
        """Packets per 256 weights with the emulator's bound."""
        each = [self.count(kernel, kind, what=what) * 256 / 1536 / 8960 for what in ("packets", "bound")]
        return "{:.2f} ({:.2f})".format(*each)

    def mib(self, model, *parts):
        return sum(self.memory[model][part + "_bytes"] for part in parts) / 2**20

    # ---- tables ----

    def errors(self):
        """The emulator's bound against packets.  Each row that has a bound stands in one group."""
        rows, left = [], [r for r in self.rows if "bound" in r]
        for what, kernels, kinds, why in ERRORS:
            own = [r for r in left if re.fullmatch(kernels, r["kernel"]) and re.fullmatch(kinds, r["kind"])]
            left = [r for r in left if r not in own]
            e = [100 * (r["bound"] / r["packets"] - 1) for r in own]
            rows.append([what, f"{max(e):.0f} to {min(e):.0f} %" if len(e) > 1 else f"{e[0]:.0f} %", why])
        if left:
            sys.exit(f"no group of errors has {left[0]}")
        return table(["kernel", "error", "why"], rows)

    def kinds(self):
        """Packets per 256 weights of every kind of weight, 1536x8960."""
        has = lambda kernel, kind, m=1: self.row.get((kernel, kind, m, 1536, 8960))
        per = lambda r, what="packets": f"{r[what] * 256 / 1536 / 8960:.2f}"
        both = lambda r: f"{per(r)} ({per(r, 'bound')})" if r else ""
        plain = [r["kind"] for r in self.rows if has(r["kernel"], r["kind"]) and r["kernel"] in ("dequant", "lookup")]
        kinds = list(dict.fromkeys(k.replace(" planes", "") for k in plain
                                   if not re.match("conventional|groups|.*finished", k)))
        rows = []
        for kind in kinds:
            planes = kind if " bit " in kind else kind.replace(",", " planes,") if "," in kind else kind + " planes"
            rows.append([kind, both(kind != planes and has("dequant", kind)), both(has("dequant", planes)),
                         both(has("lookup", planes))])
        return table(["kind", "tile32 to tiles", "bit planes to tiles", "product by lookup, one row"], rows)

    def others(self):
        names = {"exp16": "exp of halves", "attention": "attention of 32 rows, 4096 keys, head 128"}
        units = {"exp16": "64 elements", "attention": "64 scores"}
        rows = []
        for kernel in ("exp16", "attention", "add", "swiglu", "relu2", "rms_norm", "rope", "fit", "unfit", "quantize"):
            own = [r for r in self.rows if r["kernel"] == kernel]
            each = [r["packets"] * 64 / (r["n"] if kernel != "attention" else r["m"] * r["k"]) for r in own]
            kinds = ": " + ", ".join(r["kind"] for r in own) if len(own) > 1 else ""
            rows.append([names.get(kernel, kernel) + kinds, ", ".join(f"{x:.1f}" for x in each),
                         units.get(kernel, "64 elements")])
        return table(["kernel", "packets", "per"], rows)

    def attention(self):
        whole = {way: self.count("attention", way, 32, 4096, 128) for way in ("table", "f16", "f32")}
        parts, rows, sums = {}, [], dict.fromkeys(whole, 0)
        for r in self.rows:
            if r["kernel"] == "attention stage":
                name, _, way = r["kind"].partition(" by ")
                for w in [way] if way else whole:
                    parts.setdefault(name, {})[w] = r["packets"]
        for name, of in sorted(parts.items(), key=lambda x: -x[1]["table"]):
            if name != "masks":  # of segments that some row does not see whole: not among these
                rows.append([name] + [f"{of[w]:,} ({100 * of[w] / whole[w]:.0f} %)" for w in whole])
                sums = {w: sums[w] + of[w] for w in whole}
        rows.append(["the rest: calls, DMA, queries and results of a tile of rows"] +
                    [f"{whole[w] - sums[w]:,} ({100 - 100 * sums[w] / whole[w]:.0f} %)" for w in whole])
        rows.append(["whole"] + [f"{whole[w]:,}" for w in whole])
        return table(["stage", "exp by table", "half polynomial", "f32"], rows)

    def lookups(self):
        rows = []
        for kind, (name, *by_hand) in LOOKUPS.items():
            cells, packets = [], {}
            for kernel, hand in zip(("masks", "lookup", "vlut32"), by_hand):
                r = self.row.get((kernel, kind, 1, 1536, 8960))
                cells.append(f"{self.both(kernel, kind)}" if r else "not built")
                cells.append(f"{hand}" if hand else "")
                if r:
                    packets[{"lookup": "VLUT16", "vlut32": "VLUT32"}.get(kernel, kernel)] = r["packets"]
            first, second = sorted(packets, key=packets.get)[:2]
            rows.append([name, *cells, f"{first}, {second} {packets[second] / packets[first]:.2f} times"])
        return table(["", "masks, int8 activations", "by hand", "VLUT16: 16-bit tables", "by hand",
                      "VLUT32: 8-bit tables", "by hand", "fewest"], rows)

    def passes(self):
        rows = []
        for model in MODELS_SHOWN:
            for batch in (1, 16):
                s = self.one_pass[model, batch, USUAL]
                parts = [s["parts"][p] for p in ("products", "attention", "rows", "head", "message")] + [s["whole"]]
                rows.append([model, str(batch)] + [span(p["low_us"] / 1e3, p["high_us"] / 1e3, 1) for p in parts])
        return table(["model", "batch", "products", "attention", "rows", "head", "message", "whole"], rows)

    def throughput(self):
        rows = []
        for model in RATES:
            at = [self.one_pass[model, b, USUAL] for b in (1, 2, 4, 8, 16)] + [self.one_pass[model, 16, 4096],
                                                                           self.fill[model, 512]]
            rows.append([model] + [span(s["tokens_per_s_low"], s["tokens_per_s_high"]) for s in at])
        return table(["model", "batch 1", "2", "4", "8", "16", "16 at 4096 keys", "prompt of 512"], rows)

    def energy(self):
        rows = []
        for model in RATES:
            at = [(b, self.one_pass[model, b, USUAL]["whole"]) for b in (1, 4, 8, 16)]
            rows.append([model] + [span(w["low_mj"] / b, w["high_mj"] / b, 1) for b, w in at])
        return table(["model", "batch 1", "4", "8", "16"], rows)

    def ratios(self):
        groups = {}
        for x in self.d["ratios"]:
            groups.setdefault((x["table"], x["ratio"].split(": ")[-1]), []).append(x)
        rows = []
        for (name, what), all_of in groups.items():
            low, high = min(x["modelled_low"] for x in all_of), max(x["modelled_high"] for x in all_of)
            p = all_of[0]
            told = f"up to {p['published_high']:.2f}" if not p["published_low"] else f"{p['published_low']:.2f}" + (
                f" to {p['published_high']:.2f}" if p["published_low"] < p["published_high"] else "")
            verdicts = [x["verdict"] for x in all_of]
            if len(set(verdicts)) > 1:
                verdicts = [f"{verdicts.count(v)} {v}" for v in sorted(set(verdicts))]
            else:
                verdicts = verdicts[:1]
            rows.append([name, what, span(low, high, 2), told, ", ".join(verdicts)])
        return table(["figure", "ratio of times", "modelled", "published", ""], rows)

    def pipeline(self):
        told = subprocess.run([self.division], env={**os.environ, "LUTRA_TEST_LONG": "1"}, capture_output=True,
                              text=True, check=True).stdout  # all shapes
        rows = {}
        for shape, over, gain in re.findall(r"(\w+), \w+ end: .*? slowest stage \S+ \((\S+)\), sequential \S+ \((\S+)\)", told):
            rows.setdefault(shape, []).append((over, gain))
        return table(["k x n x rows", "over the slowest stage", "sequential over pipelined"],
                     [[shape, *(", ".join(ends) for ends in zip(*rows[shape]))] for shape in rows])

    def held(self):
        """Published figures that no profile is made from, one value each, as far as they can be compared."""
        rows = []
        for f in json.load(open(ROOT / "bench/npu/published.json"))["figures"]:
            elsewhere = f.get("ours") in ("ratios", "pipeline", "gains", "modes")
            if f["use"] != "held out" or elsewhere or "not_compared" in f:
                continue
            low, high = getattr(self, "of_" + f["ours"])(f["model"], *([f["mode"]] if "mode" in f else []))
            rows.append([f["source"], f["what"], f"{f['published']:g}", f"{low:.1f}" if low == high
                         else span(low, high, 1),
                         verdict(low, high, f["published"])])
        return table(["source", "figure", "published", "ours", ""], rows)

    def of_memory(self, model):
        return (self.mib(model, "layers", "cache"),) * 2

    def by_lookup(self, model):
        return self.low_bits[model, "ternary", "planes, lookup", USUAL]

    def of_rate(self, model):
        return self.by_lookup(model)["tokens_per_s_low"], self.by_lookup(model)["tokens_per_s_high"]

    def of_decode_mj(self, model):
        return self.by_lookup(model)["whole"]["low_mj"], self.by_lookup(model)["whole"]["high_mj"]

    def of_decode_watts(self, model):
        w = self.by_lookup(model)["whole"]
        return w["low_mj"] / w["low_us"] * 1e3, w["high_mj"] / w["high_us"] * 1e3

    def of_prompt_mj(self, model):
        s = self.low_fill[model, "planes, tiles"]
        return s["whole"]["low_mj"] / s["tokens"], s["whole"]["high_mj"] / s["tokens"]

    def of_mode_decode_mj(self, model, mode):
        t = self.modes_of[model, mode]["decode"]
        return t["low_mj"], t["high_mj"]

    def of_mode_decode_watts(self, model, mode):
        t = self.modes_of[model, mode]["decode"]
        return t["low_mj"] / t["low_us"] * 1e3, t["high_mj"] / t["high_us"] * 1e3

    def of_mode_prompt_mj(self, model, mode):
        m = self.modes_of[model, mode]
        return m["prompt"]["low_mj"] / m["prompt_tokens"], m["prompt"]["high_mj"] / m["prompt_tokens"]

    def of_mode_prompt_watts(self, model, mode):
        t = self.modes_of[model, mode]["prompt"]
        return t["low_mj"] / t["low_us"] * 1e3, t["high_mj"] / t["high_us"] * 1e3

    def mpgemv(self):
        rows = []
        for r in self.d["mpgemv_modelled"]:
            each = [f"{r[n] * 256 / r['k'] / r['n']:.2f}" if n in r else ""
                    for n in ("lookup_packets", "masks_packets", "tiles_packets")]
            rows.append([f"{r['k']}x{r['n']}", r["weights"], *each,
                         *times_of(r, "lookup", "masks", "tiles", "QNN, 4 bit per channel", "QNN, F16")])
        return table(["k x n", "weights", "lookup", "masks", "tiles", "lookup, us", "masks", "tiles", "QNN 4 bit",
                      "QNN F16"], rows)

    def mpgemm(self):
        return table(["k x n", "weights", "tiles", "tiles, us", "QNN F16", "QNN 4 bit", "llm.npu INT8"],
                     [[f"{r['k']}x{r['n']}", r["weights"], f"{r['tiles_packets'] * 256 / r['k'] / r['n']:.1f}",
                       *times_of(r, "tiles", "QNN, F16", "QNN, 4 bit per channel", "llm.npu")]
                      for r in self.d["mpgemm_modelled"]])

    def modes(self):
        rows = []
        for (model, mode), m in self.modes_of.items():
            t, p, n = m["decode"], m["prompt"], m["prompt_tokens"]
            rows.append([model, mode, span(1e6 / t["high_us"], 1e6 / t["low_us"], 1),
                         span(n * 1e6 / p["high_us"], n * 1e6 / p["low_us"]), span(t["low_mj"], t["high_mj"]),
                         span(p["low_mj"] / n, p["high_mj"] / n, 1), f"{m['memory_bytes'] / 2**30:.1f}"])
        return table(["model", "weights", "decoding, tokens per second", "prompt, tokens per second",
                      "decoding, mJ per token", "prompt, mJ per token", "GiB"], rows)

    def gains(self):
        rows = []
        for source, what, part, slow, published in (
                ("TMAN Figure 14", "decoding over QNN, 4 bit per channel", "decode", "QNN, 4 bit per channel", (1.5, 1.8)),
                ("TMAN Figure 14", "decoding over llm.npu", "decode", "llm.npu", (3.1, 3.8)),
                ("TMAN Figure 15", "a prompt over llm.npu", "prompt", "llm.npu", (None, 1.4)),
                ("TMAN Figure 15", "a prompt over QNN, F16", "prompt", "QNN, F16", (1, 1))):
            ratios = []
            for model in dict.fromkeys(model for model, _ in self.modes_of):
                fast = next(m for (name, mode), m in self.modes_of.items() if name == model and mode in ("2 bit", "ternary"))
                ends = sorted(self.modes_of[model, slow][part][e] / fast[part][e] for e in ("low_us", "high_us"))
                if published != (1, 1) or "BitNet" in model:
                    ratios.append((model, ends))
            if published[0] is None:
                ratios = [("largest of three", [max(e[i] for _, e in ratios) for i in (0, 1)])]
            low, high = published[0] or published[1], published[1]
            told = f"{low:g} to {high:g}" if low < high else f"up to {high:g}" if published[0] is None else "similar"
            rows += [[source, what, model, span(*ends, 2), told, verdict(*ends, low, high)] for model, ends in ratios]
        return table(["figure", "2 bit (BitNet-2B: ternary)", "model", "modelled, both at the same end", "published", ""],
                     rows)

    def parts(self):
        return table(["part", "us"], [[name, span(t["low_us"], t["high_us"])] for name, t in
                                      self.d["parts_modelled"][0].items()])

    def sharing(self):
        return table(["model", "weights", "lookups", "tables, each product its own", "shared", "saved", "TCM, KiB"],
                     [[t["model"], t["mode"], f"{t['lookups_packets']:.0f}", f"{t['tables_packets']:.0f}",
                       f"{t['shared_packets']:.0f}",
                       f"{100 * (1 - (t['lookups_packets'] + t['shared_packets']) / (t['lookups_packets'] + t['tables_packets'])):.1f} %",
                       f"{t['tables_bytes'] / 1024:.0f}"] for t in self.d["tables_counted"]])

    def lowbits(self):
        rows = []
        for (model, weights, way, context), s in self.low_bits.items():
            if context != USUAL:
                continue
            parts = [s["parts"]["products"], s["parts"]["head"], s["whole"]]
            rows.append([model, weights, way, f"{s['layers_bytes'] / 2**20:.0f}"] +
                        [span(p["low_us"] / 1e3, p["high_us"] / 1e3, 1) for p in parts] +
                        [span(s["tokens_per_s_low"], s["tokens_per_s_high"]),
                         span(s["whole"]["low_mj"], s["whole"]["high_mj"])])
        return table(["model", "weights", "packed, multiplied", "MiB of layers", "products", "head", "whole",
                      "tokens per second", "mJ per token"], rows)

    def methods(self):
        on = {(c["model"], c["method"] + (", judged" if c["judge"] else "")): c
              for c in self.d["accuracy_against_cost"] if c["soc"] == SOC}
        rows = []
        for model, method in ((model, method) for model in METHODS for method in METHODS[model]):
            c = on[model, method]
            front = [what for what, field in (("time", "front_latency"), ("energy", "front_energy")) if c[field]]
            rows.append([c["task"], model, method, f"{100 * c['accuracy_measured']:.0f}",
                         span(c["low_us"] / 1e3, c["high_us"] / 1e3, 1), span(c["low_mj"], c["high_mj"], 1),
                         ", ".join(front)])
        return table(["task", "model", "method", "% right", "ms", "mJ", "not beaten in"], rows)

    def pairs(self):
        a, b = self.one_pass["Qwen2.5-1.5B", 8, USUAL]["whole"], self.one_pass["Qwen2.5-3B", 1, USUAL]["whole"]
        rows = [[what, span(*sorted((a["low_" + f] / b["low_" + f], a["high_" + f] / b["high_" + f])), 2)]
                for what, f in (("time", "us"), ("energy", "mj"))]
        return table(["a pass of 1.5B at batch 8 over one of 3B at batch 1", "modelled, both at the same end"], rows)


TABLES = ("errors kinds others attention lookups passes throughput energy ratios pipeline held mpgemv mpgemm modes gains "
          "parts sharing lowbits methods pairs").split()


def main(argv):
    mode = argv.pop(0) if argv[0].startswith("--") else None
    figures = Figures(*argv)
    if mode == "--tables":
        print(*(f"## {name}\n\n{getattr(figures, name)()}\n" for name in TABLES), sep="\n")
        return
    page = ROOT / "docs/NPU.md"
    made = pages.fill(page.read_text(), lambda name: getattr(figures, name)())
    if not mode:
        page.write_text(made)
    elif page.read_text() != made:
        print(*difflib.unified_diff(page.read_text().split("\n"), made.split("\n"), "docs/NPU.md", "made anew", n=0,
                                    lineterm=""), sep="\n")
        sys.exit("the tables of docs/NPU.md are not these figures: bench/npu/document.py fills them")


if __name__ == "__main__":
    main(sys.argv[1:])
