#!/usr/bin/env python3
"""Narrows a profile by what lutra-npu-phone measured (docs/PHONE.md).

usage: narrow.py PHONE.json PROFILE.json [--stand-in] > narrowed.json

PHONE.json is the program's output on a phone, PROFILE.json the SoC's profile.  A figure that the measurements say
nothing about stays as it is.  --stand-in: the device was none of silicon; for tests, and the new profile says so.
"""
import json
import sys
from pathlib import Path

TIMER_MHZ = 19.2
READ_BYTES = 4 << 20
COUNTS = Path(__file__).parent.parent / "counts.json"


def count(kernel, kind, k, n, m=1):
    """The recorded row of a kernel on one thread."""
    for row in json.loads(COUNTS.read_text())["rows"]:
        if (row["kernel"], row["kind"], row["m"], row["k"], row["n"]) == (kernel, kind, m, k, n):
            return row
    sys.exit(f"{COUNTS.name}: no row {kernel} {kind} {m}x{k}x{n}")


class Phone:
    def __init__(self, path, stand_in):
        try:
            self.told = json.loads(Path(path).read_text())
            self.device, self.threads = self.told["device"], self.told["threads"]
            bad = [v["name"] for v in self.told["vectors"] if not v["holds"]]
            self.rows = {(r["name"], r["threads"]): r for r in self.told["kernels"]}
        except (OSError, ValueError, KeyError, TypeError) as e:
            sys.exit(f"{path}: not what lutra-npu-phone writes: {e!r}")
        if bad:
            sys.exit(f"{path}: {', '.join(bad)}: wrong results narrow nothing")
        if self.device != "npu" and not stand_in:
            sys.exit(f"{path}: {self.device} is no silicon and narrows nothing")
        if not any(r["ticks"] for r in self.rows.values()) and not stand_in:
            sys.exit(f"{path}: {self.device} is no silicon: its timer stands still")
        if not any(r["cycles"] for r in self.rows.values()):
            sys.exit(f"{path}: {self.device} counted no cycles")

    def cycles(self, name, threads):
        """Least and median."""
        row = self.rows.get((name, threads))
        if not row:
            sys.exit(f"kernel '{name}' on {threads} threads was not measured")
        return row["cycles"], row["median"]


def figures(phone):
    """name -> low, high, how."""
    exp, table = count("exp16", "f16", 8192, 8192), count("exp16", "table", 8192, 8192)
    swiglu = count("swiglu", "f32", 8192, 8192)
    all_, found = phone.threads, {}
    clocks = [r["median"] / r["ticks"] * TIMER_MHZ for r in phone.rows.values() if r["ticks"] > 0]
    if clocks:
        found["clock_mhz"] = min(clocks), max(clocks), "cycles per tick of the 19.2 MHz timer, all kernels"
    each = [c / row["packets"] for name, row in (("exp16 half polynomial", exp), ("swiglu", swiglu))
            for c in phone.cycles(name, 1)]
    found["cycles_per_packet"] = max(1, min(each)), max(1, max(each)), "exp16 and swiglu on one thread"
    least, median = phone.cycles("exp16 table", 1)
    free = (least - table["packets"] * found["cycles_per_packet"][1]) / table["gathers"]
    found["gather_cycles"] = max(1, free), max(1, median / table["gathers"]), "exp16 by table: gathers beside packets or after"
    one, many = phone.cycles("swiglu", 1), phone.cycles("swiglu", all_)
    if all_ > 1:
        found["vector_threads"] = (max(1, min(all_, one[0] / many[1])), all_,
                                   f"swiglu is {one[0] / many[0]:.2f} times faster on {all_} threads")
        meet = sorted(b - a for a, b in zip(phone.cycles("add a vector a thread", 1),
                                            phone.cycles("add a vector a thread", all_)))
        found["meet_cycles"] = max(1, meet[0]), max(1, meet[1]), f"an addition of a vector a thread, {all_} threads over one"
    if clocks:
        rates = {way: [READ_BYTES * clock / 1000 / cycles for clock, cycles in
                       zip((min(clocks), max(clocks)), reversed(phone.cycles(f"read by {way}", all_)))]
                 for way in ("loads", "l2fetch", "DMA")}
        found["dma_gbs"] = *rates["DMA"], "4 MiB by DMA, all threads"
        found["l2_gbs"] = (min(rates["loads"][0], rates["l2fetch"][0]), max(rates["loads"][1], rates["l2fetch"][1]),
                           "4 MiB by loads of vectors, with l2fetch and without, all threads")
    message = phone.told["message_us"]
    found["message_us"] = max(1, message["low"]), max(1, message["median"]), "empty messages, one at a time"
    return found


def main(argv):
    stand_in = "--stand-in" in argv
    paths = [a for a in argv if not a.startswith("-")]
    if len(paths) != 2:
        sys.exit(__doc__)
    phone, profile = Phone(paths[0], stand_in), json.loads(Path(paths[1]).read_text())
    for name, (low, high, how) in figures(phone).items():
        old = profile["figures"][name]
        if high is None:  # a bound from below alone
            low, high = max(low, old["low"]), max(low, old["high"])
        if low > old["high"] or high < old["low"]:
            print(f"{name}: {low:.4g} to {high:.4g} lies outside of {old['low']:g} to {old['high']:g}", file=sys.stderr)
        print(f"{name:18} {old['low']:9g} to {old['high']:9g}   now {low:9.4g} to {high:9.4g}   {how}", file=sys.stderr)
        kind = "stand-in, no silicon" if phone.device != "npu" or stand_in else "measured"
        profile["figures"][name] = {"low": float(f"{low:.4g}"), "high": float(f"{high:.4g}"), "source": f"{kind}: {how}"}
    profile["name"] += "-stand-in" if stand_in else "-measured"
    json.dump(profile, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
