"""Records of evaluations, and what follows from them: accuracies, differences and costs, with 95 % intervals.

A record is a run of `lutra eval`, small: for each method one bit per problem and rows.  Intervals are paired bootstraps
over the problems, the same for all methods; where a size was trained several times, the runs are drawn, too (the second
level).
"""
import base64
import json
import math
import random
import re
import statistics

RESAMPLES = 1000
SHAPES = {"S": dict(d=64, layers=3, heads=4, kv=2, ff=192, vocab=320),
          "L": dict(d=128, layers=4, heads=4, kv=2, ff=384, vocab=320),
          "xs": dict(d=64, layers=3, heads=4, kv=2, ff=192, vocab=1024),
          "1m": dict(d=128, layers=4, heads=4, kv=2, ff=384, vocab=1024),
          "X": dict(d=256, layers=4, heads=4, kv=2, ff=768, vocab=320),
          "M": dict(d=384, layers=6, heads=6, kv=3, ff=1152, vocab=320),
          "XL": dict(d=640, layers=6, heads=10, kv=5, ff=2048, vocab=320)}
BYTES = {"M": 4, "XL": 4}  # of a weight, as these are run: in F32, so that they lie beyond the caches; the others in F16
SHAPES["E"] = SHAPES["L"]  # trained with S's compute
SIZE = "|".join(sorted(SHAPES, key=len, reverse=True))
VALUE_HEAD = "prm"  # a judge without logits; the other one, a likelihood, has them


def macs_per_row(size, head=True):
    """Multiply-accumulates of the matrices for one token, its output included: each weight is used once."""
    s = SHAPES[size]
    kv = s["d"] // s["heads"] * s["kv"]
    return s["layers"] * (2 * s["d"] * s["d"] + 2 * s["d"] * kv + 3 * s["d"] * s["ff"]) + head * s["vocab"] * s["d"]


# ---- from a report of lutra eval to a record ----

def winner(samples, weigh):
    """The sample that a vote chooses: the answer of most votes or weight, the first of equals; of it the best, else the
    first."""
    total = {}
    for s in samples:
        if s["answer"] is not None:
            total[s["answer"]] = total.get(s["answer"], 0) + (s["score"] if weigh else 1)
    if not total:
        return None
    answer = max(total, key=total.get)
    of = [s for s in samples if s["answer"] == answer]
    return max(of, key=lambda s: s["score"]) if weigh else of[0]


def right(problem, method):
    """(right ones, of how many, tokens) of a problem."""
    if method in problem:  # greedy, and searches
        return int(problem[method]["right"]), 1, problem[method]["tokens"]
    samples = problem["samples"]
    if method == "mean sample":
        return sum(s["right"] for s in samples), len(samples), sum(s["tokens"] for s in samples) / len(samples)
    name, k = method.split("@")
    first = samples[:int(k)]
    if name == "any":
        won = any(s["right"] for s in first)
    elif name == "best":  # the first of equals
        won = max(first, key=lambda s: s["score"])["right"]
    else:
        best = winner(first, name == "weighted")
        won = best is not None and best["right"]
    return int(won), 1, sum(s["tokens"] for s in first)


def planes(values):
    """Numbers as bit planes, base64: plane j has bit i of the whole set where values[i] has bit j."""
    n = (len(values) + 7) // 8
    whole = [sum((v >> j & 1) << i for i, v in enumerate(values)) for j in range(max(values + [1]).bit_length())]
    return [base64.b64encode(p.to_bytes(n, "little")).decode() for p in whole]


def pairs(problems):
    """[wins, pairs] within problems: how often the score of a right sample is above a wrong one's; equal ones count
    half."""
    wins = n = 0
    for p in problems:
        good = [s["score"] for s in p["samples"] if s["right"]]
        bad = [s["score"] for s in p["samples"] if not s["right"]]
        wins += sum((x > y) + (x == y) / 2 for x in good for y in bad)
        n += len(good) * len(bad)
    return [wins, n]


def record(name, report):
    problems, methods = report["problems"], []
    for m in report["methods"]:
        counted = [right(p, m["method"]) for p in problems]
        mean = statistics.fmean(r / of for r, of, _ in counted)
        if abs(mean - m["accuracy"]["mean"]) > 1e-6:
            raise SystemExit(f"{name}: {m['method']} is {mean} from the samples, {m['accuracy']['mean']} in the report")
        methods.append({"method": m["method"], "of": counted[0][1], "right": planes([r for r, _, _ in counted]),
                        "rows": round(m["generator_rows"], 4),
                        "rows_sd": round(statistics.pstdev(t for _, _, t in counted), 2),
                        "verifier_rows": round(m["verifier_rows"], 4), "tokens": round(m["tokens_per_problem"], 4)})
    settings = {k: v.rpartition("/")[2] if isinstance(v, str) else v for k, v in report["settings"].items()
                if k in ("model", "prm", "file", "check", "seed", "temperature")}
    out = {"name": name, "problems": len(problems), "settings": settings, "methods": methods}
    if "prm" in settings and "samples" in problems[0]:
        out["pairs"] = pairs(problems)
    return out


# ---- figures ----

class Figures:
    """Figures by the names of methods: 'S best@8' is the mean of all training runs of S."""

    def __init__(self, data):
        self.data, self.resamples, self.cost, self.planes, self.runs, self.means = data, {}, {}, {}, {}, {}
        for run in data["runs"]:
            size, number, judge = re.fullmatch(rf"({SIZE})(\d*)(?:-(prm|64))?", run["name"]).groups()
            series = size + (":prm" if judge == VALUE_HEAD else "")
            for m in run["methods"]:
                bits = [int.from_bytes(base64.b64decode(p), "little") for p in m["right"]]
                runs = self.planes.setdefault(f"{series} {m['method']}", {})
                if number in runs:
                    continue  # greedy of the second run of abacus-xs
                runs[number] = (run["problems"], bits, m["of"])
                macs = m["rows"] * macs_per_row(size) + m["verifier_rows"] * macs_per_row(*self.judge(size, judge))
                rows = m["rows"] + m["verifier_rows"]
                cost = (rows, macs, m["rows_sd"] / math.sqrt(run["problems"]), m)
                self.cost.setdefault(f"{series} {m['method']}", []).append(cost)
            self.runs.setdefault(series, []).append(number)

    @staticmethod
    def judge(size, kind):
        return ("S", False) if kind == VALUE_HEAD else (size, True)

    def methods(self, series):
        return [k.split(" ", 1)[1] for k in self.planes if k.split(" ", 1)[0] == series]

    def drawn(self, n):
        """Resamples of n problems, each as bit planes of how often a problem is drawn."""
        if n not in self.resamples:
            rng, out = random.Random(n), []
            for _ in range(RESAMPLES):
                count = [0] * n
                for i in rng.choices(range(n), k=n):
                    count[i] += 1
                out.append([int("".join("01"[c >> j & 1] for c in reversed(count)), 2)
                            for j in range(max(count).bit_length())])
            self.resamples[n] = out
        return self.resamples[n]

    def of_resamples(self, name):
        """[mean, then a mean per resample] of a method: of problems, and of runs where there are several."""
        if name not in self.means:
            per_run = []
            for n, bits, of in self.planes[name].values():
                dot = lambda weight: sum(bin(w & b).count("1") << j + k
                                         for j, w in enumerate(weight) for k, b in enumerate(bits))
                per_run.append([dot([(1 << n) - 1]) / (n * of)] + [dot(w) / (n * of) for w in self.drawn(n)])
            size = name.split(" ")[0].split(":")[0]  # the same runs for all methods of a size
            rng = random.Random(f"runs of {size}")
            picked = [range(len(per_run))] + [rng.choices(range(len(per_run)), k=len(per_run))
                                              for _ in range(RESAMPLES)]
            self.means[name] = [statistics.fmean(per_run[k][r] for k in pick) for r, pick in enumerate(picked)]
        return self.means[name]

    def interval(self, values):
        mean, rest = values[0], sorted(values[1:])
        return mean, rest[RESAMPLES // 40], rest[-1 - RESAMPLES // 40]

    def accuracy(self, name):
        return self.interval(self.of_resamples(name))

    def minus(self, a, b):
        return self.interval([x - y for x, y in zip(self.of_resamples(a), self.of_resamples(b))])

    def mean_cost(self, name, what):
        return statistics.fmean(c[what] for c in self.cost[name])

    def rows(self, name):
        return self.mean_cost(name, 0)

    def macs(self, name):
        return self.mean_cost(name, 1)

    def macs_interval(self, name):
        rows, macs = self.rows(name), self.macs(name)
        wide = 1.96 * self.mean_cost(name, 2) / math.sqrt(len(self.cost[name])) * macs / rows
        return macs, macs - wide, macs + wide

    def mean_of(self, name, field):
        """Of what a record says of a method: tokens, rows, verifier_rows."""
        return round(statistics.fmean(c[3][field] for c in self.cost[name]), 4)

    def of_run(self, run, method):
        """The accuracy in one run: 'S1', or the only one of 'xs'."""
        size, number = re.fullmatch(rf"({SIZE})(\d*)", run).groups()
        n, bits, of = self.planes[f"{size} {method}"][number]
        return sum(bin(b).count("1") << k for k, b in enumerate(bits)) / (n * of)

    def weight_bytes(self, name):
        """Of a pass of the generator and, where there is one, of the verifier."""
        series = name.split(" ")[0].split(":")
        judged = len(series) > 1 and "@" in name
        return BYTES.get(series[0], 2) * (macs_per_row(series[0]) + (macs_per_row(*self.judge(series[0], series[1])) if judged else 0))

    def ms(self, name, threads):
        """(median, least, most) of the rounds, or None."""
        of = self.data["times"].get(name, {}).get(str(threads))
        return of and (statistics.median(of), min(of), max(of))

    def auc(self, series):
        wins = [run["pairs"] for run in self.data["runs"] if "pairs" in run
                and run["name"].split("-")[0].rstrip("0123456789") == series.split(":")[0]]
        return sum(w for w, _ in wins) / sum(n for _, n in wins)


def load(path):
    return json.loads(path.read_text())
