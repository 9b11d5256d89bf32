#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# lutra sim --papers: the recorded counts as tables and JSON.
. "$LUTRA_SOURCE/tests/cli/lib.sh"
tables() { lutra sim --papers "$@"; }

tables
expect_code 0 "npu-tables"
expect_out "| dequant | Q4_0 | 1 | 1536 | 8960 |" "npu-tables: kernels"
expect_out "snapdragon-8elite" "npu-tables: profiles"
expect_out "TTS Figure 15" "npu-tables: the papers' tables"
expect_out "## decode_modelled" "npu-tables: models"
expect_out "## accuracy_against_cost" "npu-tables: accuracy against cost"
expect_out "## low_bits_decode_modelled" "npu-tables: layers of 1 and 2 bits"
expect_out "| BitNet-2B-4T | ternary | no |" "npu-tables: modes of [TMAN]"
expect_out "times and energies are modelled" "npu-tables says that times are modelled"

tables -o json
expect_code 0 "npu-tables -o json"
expect_json "$WORK/out" "
d = json.load(open('$WORK/out'))['counted']
r = {(x['kernel'], x['kind'], x['m'], x['k'], x['n']): x for x in d['kernels']}
g = r['dequant', 'Q4_0', 1, 1536, 8960]
assert g['packets_counted'] / (1536 * 8960 / 256) <= 9 and g['dma_bytes'] == 7741440
t = g['modelled']['snapdragon-8gen3']
assert 0 < t['low_us'] <= t['high_us']
# what one resource alone takes: 7741440 bytes at 60 GB/s
assert t['low_us'] >= 7741440 / 60e3
f = [x for x in d['ratios'] if x['table'] == 'TTS Figure 14']
assert len(f) == 18 and all(x['modelled_low'] < x['modelled_high'] for x in f)
assert d['compiler']
for x in d['ratios']:  # a wide interval decides nothing
    low, high, wide = x['modelled_low'], x['modelled_high'], x['modelled_high'] >= 2 * x['modelled_low']
    if x['published_low']:
        apart = high < x['published_low'] or low > x['published_high']
        assert x['verdict'] == (('below' if high < x['published_low'] else 'above') if apart else
                                'undecided' if wide else 'overlaps'), x
most = [x for x in f if not x['published_low']]  # 'up to': of all shapes together
assert len(most) == 9 and len({x['verdict'] for x in most}) == 1
low, high = (max(x['modelled_' + end] for x in most) for end in ('low', 'high'))
assert most[0]['verdict'] == ('below' if high < 1.6 else 'above' if low > 1.6 else 'undecided' if high >= 2 * low else 'overlaps')
# batches: more sequences, more tokens per second; published pairs as ratios
for model in {s['model'] for s in d['decode_modelled']}:
    for soc in {s['soc'] for s in d['decode_modelled']}:
        rates = [s for s in d['decode_modelled'] if (s['model'], s['soc'], s['context']) == (model, soc, 1024)]
        rates.sort(key=lambda s: s['batch'])
        for end in ('low', 'high'):
            t = [s['tokens_per_s_' + end] for s in rates]
            assert len(t) == 5 and t == sorted(t), (model, soc, t)
" "npu-tables -o json"

expect_json "$WORK/out" "
d = json.load(open('$WORK/out'))['counted']
def near(a, b): return abs(a - b) <= 1e-4 * abs(b)
FIELDS = ('low_us', 'high_us', 'low_mj', 'high_mj')
passes = {(s['soc'], s['model'], s['batch'], s['context']): s for s in d['decode_modelled']}
assert len(passes) == 3 * 11 * 5 * 4, len(passes)
for s in d['decode_modelled'] + d['prefill_modelled']:
    for f in FIELDS:  # a whole is the sum of its parts
        assert near(s['whole'][f], sum(p[f] for p in s['parts'].values())), (s, f)
    assert 0 < s['whole']['low_us'] <= s['whole']['high_us'] and 0 < s['whole']['low_mj'] <= s['whole']['high_mj']
for (soc, model, batch, context), s in passes.items():
    assert near(s['tokens_per_s_high'], batch * 1e6 / s['whole']['low_us'])
    longer, wider = passes.get((soc, model, batch, 2 * context)), passes.get((soc, model, 2 * batch, context))
    for f in FIELDS:  # more keys, more rows: never less
        assert not longer or longer['whole'][f] > s['whole'][f], (soc, model, batch, context, f)
        assert not wider or model.startswith(('abacus', 'countdown')) or wider['whole'][f] >= s['whole'][f], (soc, model, batch, f)
    # rows are nearly free: a doubled batch never takes twice as long
    assert not wider or wider['whole']['high_us'] < 2 * s['whole']['high_us'], (soc, model, batch)
fills = {(s['soc'], s['model'], s['tokens']): s['whole']['low_us'] for s in d['prefill_modelled']}
assert len(fills) == 3 * 11 * 5 and all(fills[k] < fills[k[0], k[1], 4096] for k in fills if k[2] < 4096)
memory = {m['model']: (m['layers_bytes'] + m['cache_bytes']) / 2**20 for m in d['memory_computed']}
assert abs(memory['Qwen2.5-1.5B'] / 1056 - 1) < .1 and abs(memory['Qwen2.5-3B'] / 2090 - 1) < .1  # [TTS 7.5]
low = {(s['soc'], s['model'], s['weights'], s['way'], s['context']): s for s in d['low_bits_decode_modelled']}
assert len(low) == 3 * 16 * 4, len(low)
for (soc, model, weights, way, context), s in low.items():
    lookup, tiles = (low[soc, model, weights, 'planes, ' + w, context]['whole'] for w in ('lookup', 'tiles'))
    for f in FIELDS:  # a whole is the sum of its parts; lookups do without the tile unit
        assert near(s['whole'][f], sum(p[f] for p in s['parts'].values())), (s, f)
        assert lookup[f] < tiles[f], (soc, model, weights, f)
bitnet = low['snapdragon-8gen3', 'BitNet-2B-4T', 'ternary', 'planes, lookup', 1024]
assert bitnet['tokens_per_s_low'] < 49.1 < bitnet['tokens_per_s_high'] < 2 * bitnet['tokens_per_s_low']  # [TMAN 6.3]
assert len(d['low_bits_prefill_modelled']) == 3 * 3  # of BitNet's planes
kernels, modes = d['mpgemv_modelled'], {(m['model'], m['mode']): m for m in d['modes_modelled']}  # [TMAN 6]
assert len(kernels) == len(d['mpgemm_modelled']) == 16 and len(modes) == 14, (len(kernels), len(modes))
for x in kernels:  # lookups have fewer packets than tiles, and gain no more than bytes allow
    assert x['lookup_packets'] < x['tiles_packets'], x
    bits = {'W2 planes': 2.5, 'W4 planes': 4.5, 'TQ2_0 planes': 2.125}[x['weights']]
    assert x['QNN, F16']['low_us'] < 16 / bits * x['lookup']['low_us'], x
for model in ('Qwen3-8B', 'Llama-3.1-8B'):  # two copies do not leave 12 GB to anybody else
    assert modes[model, 'llm.npu']['memory_bytes'] > 11e9 > 6e9 > modes[model, '4 bit']['memory_bytes'], model
chosen = [c for c in d['accuracy_against_cost'] if c['soc'] == 'snapdragon-8gen3']
by = {(c['model'], c['judge'], c['method']): c for c in chosen}
assert len(chosen) == len(by) >= 40 and {c['task'] for c in chosen} == {'word problems', 'Countdown'}
recorded = json.load(open('$LUTRA_SOURCE/bench/npu/scaling.json'))['runs']
for run in recorded:
    for m in run['methods']:
        judge = run['settings'].get('prm', '') if m['verifier_rows'] else ''
        c = by[run['settings']['model'], judge, m['method']]
    assert abs(c['accuracy_measured'] - m['accuracy']['mean']) < 1e-5, m
assert by['abacus-xs', 'abacus-xs-judge', 'best@16']['low_us'] < 16 * by['abacus-xs', '', 'greedy']['low_us']
for c in chosen:  # a front is what nothing beats, whatever is true within the intervals
    for cost, front in (('us', 'front_latency'), ('mj', 'front_energy')):
        better = [e for e in chosen if e['accuracy_low'] > c['accuracy_high'] and
                  e['task'] == c['task'] and e['low_' + cost] < c['low_' + cost] and e['high_' + cost] < c['high_' + cost]]
        assert c[front] == (not better), c
assert any(not c['front_latency'] for c in chosen) and any(c['front_latency'] for c in chosen)
" "npu-tables -o json: whole models"

tables --svg "$WORK/cost.svg"
expect_code 0 "npu-tables --svg"
expect_json "$WORK/cost.svg" "
import xml.dom.minidom
points = xml.dom.minidom.parse('$WORK/cost.svg').getElementsByTagName('circle')
assert len(points) >= 40 and all(0 <= float(p.getAttribute('cx')) <= 1040 for p in points)
titles = [p.getElementsByTagName('title')[0].firstChild.data for p in points]
runs = json.load(open('$LUTRA_SOURCE/bench/npu/scaling.json'))['runs']
best = next(m['accuracy']['mean'] for run in runs for m in run['methods'] if m['method'] == 'best@16')
assert any('best@16: %.1f %%' % (100 * best) in t for t in titles) and any('best@16, PRM: ' in t for t in titles), titles
" "npu-tables --svg: a picture"
expect_same "$WORK/cost.svg" "$LUTRA_SOURCE/docs/npu-cost.svg" "docs/npu-cost.svg is this picture (bench/scaling/table write BUILD)"
tables --svg "$WORK/no/such/cost.svg"
expect_code 1 "npu-tables --svg: a file that cannot be written"
expect_err "cost.svg cannot be written" "npu-tables --svg names the file"

tables -o csv
expect_code 2 "npu-tables -o csv"

sed 's/"dma_gbs"/"dma"/' "$LUTRA_SOURCE/profiles/snapdragon-8gen3.json" >"$WORK/broken.json"
tables --soc "$WORK/broken.json"
expect_code 1 "a broken profile"
expect_err "broken.json: unknown figure 'dma'" "a broken profile is named"

grep -v '"message_us"' "$LUTRA_SOURCE/profiles/snapdragon-8gen3.json" | grep -v "llama.cpp issue 18139); a few" >"$WORK/broken.json"
tables --soc "$WORK/broken.json"
expect_code 1 "a profile without a figure"
expect_err "broken.json: figure 'message_us' is missing" "the missing figure is named"

finish
