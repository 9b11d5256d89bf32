#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# lutra bench --npu: the recorded counts as tables and JSON, broken profiles and counters.
. "$(dirname "$0")/lib.sh"

lutra bench --npu
expect_code 0 "bench --npu"
expect_out "| gemv | Q4_0 | 1 | 1536x8960 |" "bench --npu: kernels"
expect_out "snapdragon-8elite" "bench --npu: profiles"
expect_out "TTS Figure 15" "bench --npu: the papers' tables"
expect_out "nothing here was measured" "bench --npu says that times are modelled"

lutra bench --npu -o json
expect_code 0 "bench --npu -o json"
expect_json "$WORK/out" "
d = json.load(open('$WORK/out'))
r = {(x['kernel'], x['kind'], x['m'], x['k'], x['n']): x for x in d['kernels']}
g = r['gemv', 'Q4_0', 1, 1536, 8960]
assert g['packets_counted'] / (1536 * 8960 / 256) <= 3.5 and g['dma_bytes'] == 7741440
t = g['modelled']['snapdragon-8gen3']
assert 0 < t['low_us'] <= t['high_us']
# what one resource alone takes: 7741440 bytes at 60 GB/s
assert t['low_us'] >= 7741440 / 60e3
f = [x for x in d['ratios'] if x['table'] == 'TTS Figure 14']
assert len(f) == 18 and all(x['modelled_low'] < x['modelled_high'] for x in f)
assert d['compiler'] and d['origin'] == 'recorded'
" "bench --npu -o json"

lutra bench --npu -o csv
expect_code 2 "bench --npu -o csv"

sed 's/"dma_gbs"/"dma"/' "$LUTRA_SOURCE/profiles/snapdragon-8gen3.json" >"$WORK/broken.json"
lutra bench --npu --npu-profile "$WORK/broken.json"
expect_code 1 "a broken profile"
expect_err "broken.json: unknown or doubled figure 'dma'" "a broken profile is named"

lutra bench --npu --npu-counter /bin/false
expect_code 1 "a counter that fails"
expect_err "/bin/false did not count" "a counter that fails is named"
lutra bench --npu --npu-counter /bin/true
expect_code 1 "a counter that says nothing"
expect_err "not a file of counts" "a counter that says nothing"

finish
