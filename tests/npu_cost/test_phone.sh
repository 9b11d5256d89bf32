#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An afternoon with a phone, without one: the vectors on the emulator; what is refused; what made-up cycles narrow.  With
# LUTRA_TEST_LONG=1 the library's objects under qemu-hexagon are the phone.
. "$LUTRA_SOURCE/tests/cli/lib.sh"
narrow() { python3 -B "$LUTRA_SOURCE/bench/npu/phone/narrow.py" "$@" >"$WORK/out" 2>"$WORK/err"; rc=$?; }
PROFILE=$LUTRA_SOURCE/profiles/snapdragon-8gen3.json

lutra --device npu-sim --runs 1 --threads 4 # $LUTRA is lutra-npu-phone here
expect_code 0 'the emulator agrees with itself'
expect_json "$WORK/out" "
d = json.load(open('$WORK/out'))
assert len(d['vectors']) == 12 and all(v['holds'] and v['difference'] == 0 for v in d['vectors'])
assert len(d['kernels']) == 18 and {k['threads'] for k in d['kernels']} == {1, 4}" 'phone.json'
cp "$WORK/out" "$WORK/sim.json"
narrow "$WORK/sim.json" "$PROFILE"
expect_code 1 'the emulator is no phone'
expect_err 'npu-sim is no silicon and narrows nothing' 'no phone'
narrow "$WORK/sim.json" "$PROFILE" --stand-in
expect_err 'npu-sim counted no cycles' 'no cycles'

# 1.5 cycles a packet, 20 a gather after them, 5 threads at a time of 6, 250 to meet, 1450 MHz; 25, 30 and 59 GB/s.
PYTHONPATH=$LUTRA_SOURCE/bench/npu/phone python3 -B - "$WORK" <<'END'
import json, sys
from narrow import count
half, table, swiglu = (count(k, kind, 8192, 8192)["packets"] for k, kind in
                       (("exp16", "f16"), ("exp16", "table"), ("swiglu", "f32")))
d = json.load(open(sys.argv[1] + "/sim.json"))
d["device"], d["threads"] = "npu", 6
each = {"exp16 half polynomial": half * 1.5, "exp16 table": table * 1.5 + 128 * 20, "add a vector a thread": 100,
        "swiglu": swiglu * 1.5, "add 3 MiB": 200000, "gemm Q4_0": 40000,
        **{f"read by {way}": 2**22 * 1.45 / gbs for way, gbs in (("loads", 25), ("l2fetch", 30), ("DMA", 59))}}
d["kernels"] = [{"name": n, "threads": t, "cycles": c, "median": c, "ticks": c / 1450 * 19.2}
                for name, one in each.items() for n, t, c in
                ((name, 1, one), (name, 6, one + 250 if name[:3] == "add" else one / 5 if name == "swiglu" else one))]
json.dump(d, open(sys.argv[1] + "/made.json", "w"))
d["vectors"][3]["holds"] = False
json.dump(d, open(sys.argv[1] + "/wrong.json", "w"))
END
narrow "$WORK/made.json" "$PROFILE"
expect_code 0 'made-up cycles'
cp "$WORK/out" "$WORK/narrowed.json"
expect_json "$WORK/narrowed.json" "
d = json.load(open('$WORK/narrowed.json'))
old = json.load(open('$PROFILE'))['figures']
near = lambda n, low, high: abs(d['figures'][n]['low'] / low - 1) < 2e-3 and abs(d['figures'][n]['high'] / high - 1) < 2e-3
assert near('cycles_per_packet', 1.5, 1.5) and near('gather_cycles', 20, 27.5)
assert near('l2_gbs', 25, 30) and near('dma_gbs', 59, 59)
assert near('vector_threads', 5, 6) and near('meet_cycles', 250, 250) and near('clock_mhz', 1450, 1450)
assert d['figures']['scatter_cycles'] == old['scatter_cycles'] and d['name'] == 'snapdragon-8gen3-measured'" 'a narrowed profile'
# The cost model reads it: all packets at 1.5 cycles and 1450 MHz, shared by 5 to 6 threads.
LUTRA=$LUTRA_TABLES lutra sim --papers --soc "$WORK/narrowed.json" -o json
expect_code 0 'lutra sim reads the narrowed profile'
expect_json "$WORK/out" "
d = json.load(open('$WORK/out'))['counted']
row = next(r for r in d['kernels'] if (r['kernel'], r['kind'], r['m'], r['k']) == ('softmax', 'f32', 24, 16384))
assert d['ratios_on'] == 'snapdragon-8gen3-measured' and list(row['modelled']) == [d['ratios_on']]
t, alone = row['modelled'][d['ratios_on']], row['packets_counted'] * 1.5 / 1450
assert abs(t['low_us'] / (alone / 6) - 1) < 2e-3 and abs(t['high_us'] / (alone / 5) - 1) < 2e-3, t" 'times by the narrowed profile'
narrow "$WORK/wrong.json" "$PROFILE"
expect_err 'swiglu: wrong results narrow nothing' 'wrong results'
echo '{}' >"$WORK/none.json"
narrow "$WORK/none.json" "$PROFILE"
expect_err 'not what lutra-npu-phone writes' 'another file'
lutra --device tpu
expect_code 2 'an unknown device'

if [ "${LUTRA_TEST_LONG:-}" = 1 ] && [ -n "${LUTRA_SILICON_PROGRAM:-}" ]; then
    lutra --runs 1 --threads 2
    expect_code 0 'silicon code under QEMU agrees with the emulator'
    cp "$WORK/out" "$WORK/qemu.json"
    narrow "$WORK/qemu.json" "$PROFILE"
    expect_err 'its timer stands still' 'a stand-in behind FastRPC is no silicon'
    narrow "$WORK/qemu.json" "$PROFILE" --stand-in
    expect_code 0 'a stand-in, named so'
    expect_out 'stand-in, no silicon' 'the source of a figure'
fi
finish
