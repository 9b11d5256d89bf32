# SPDX-License-Identifier: MIT
# lutra eval and bench: figures that add up, reports that parse, the same text whatever the threads and the batch.
. "$(dirname "$0")/lib.sh"

eval_with() {
    out=$1
    shift
    lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 10 --n 4 -s 3 --report "$WORK/$out" "$@"
    expect_code 0 "eval $*"
}
answers() { python3 -c 'import json,sys
for p in json.load(open(sys.argv[1]))["problems"]:
    print(p["answer"], p["greedy"]["answer"], [(s["answer"], s["tokens"], round(s["log_prob"], 4)) for s in p["samples"]])' "$1"; }

eval_with a.json
expect_out 'vote@4' 'table'
expect_out 'any@4' 'table'
expect_out 'paired bootstrap' 'table'
eval_with b.json -t 1
eval_with c.json -t 2 -np 3 -b 16
for other in b c; do
    answers "$WORK/a.json" >"$WORK/1"
    answers "$WORK/$other.json" >"$WORK/2"
    [ -s "$WORK/1" ] || fail 'no answers in the report'
    expect_same "$WORK/1" "$WORK/2" "the same samples ($other)"
done
expect_json "$WORK/a.json" 'd = json.load(sys.stdin)
m = {x["method"]: x["accuracy"]["mean"] for x in d["methods"]}
ps = d["problems"]
assert len(ps) == 10 and all(len(p["samples"]) == 4 for p in ps)
assert abs(m["greedy"] - sum(p["greedy"]["right"] for p in ps) / 10) < 1e-9
assert abs(m["mean sample"] - sum(s["right"] for p in ps for s in p["samples"]) / 40) < 1e-9
assert abs(m["any@4"] - sum(any(s["right"] for s in p["samples"]) for p in ps) / 10) < 1e-9
assert abs(m["vote@1"] - sum(p["samples"][0]["right"] for p in ps) / 10) < 1e-9
def vote(p):
    a = [s["answer"] for s in p["samples"] if s["answer"] is not None]
    return bool(a) and max(dict.fromkeys(a), key=a.count) == p["answer"]
assert abs(m["vote@4"] - sum(map(vote, ps)) / 10) < 1e-9
assert m["greedy"] >= 0.5, m
for x in d["methods"]: assert x["accuracy"]["low"] <= x["accuracy"]["mean"] <= x["accuracy"]["high"]' 'the report adds up'

# Forms of an answer.
cat >"$WORK/forms.jsonl" <<END
{"question": "$QUESTION", "answer": "84"}
{"question": "$QUESTION", "answer": "so 42 * 2 = 84\n#### \$84.00"}
{"question": "$QUESTION", "answer": 84}

{"question": "$QUESTION", "answer": "1,084"}
END
lutra eval -m "$MODEL" -f "$WORK/forms.jsonl" --n 0
expect_code 0 'forms of an answer'
grep -qE '^greedy +75\.0 %' "$WORK/out" || fail 'forms of an answer: 3 of 4 are right'
printf '{"question": "x"}\n' >"$WORK/bad.jsonl"
lutra eval -m "$MODEL" -f "$WORK/bad.jsonl"
expect_code 1 'no answer in the file'
expect_err 'line 1' 'no answer in the file'
lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 1 --n 1 --report "$WORK/no/such/folder.json"
expect_code 1 'report that cannot be written'

lutra bench -m "$MODEL" -p 16,32 -n 4 -pg 8,4 -d 0,16 -r 2 -o json -oe md
expect_code 0 bench
expect_json "$WORK/out" 'd = json.load(sys.stdin)
assert [t["test"] for t in d] == ["pp16", "pp32", "tg4", "pp8+tg4", "pp16 @ d16", "pp32 @ d16", "tg4 @ d16", "pp8+tg4 @ d16"]
assert all(len(t["samples_ts"]) == 2 and t["avg_ts"] > 0 for t in d)
assert abs(d[0]["avg_ns"] - sum(d[0]["samples_ns"]) / 2) < 1' 'bench JSON'
expect_json "$WORK/out" 'd = json.load(sys.stdin)
tg = next(t for t in d if t["n_gen"] == 4 and not t["n_prompt"] and not t["n_depth"])
pp = next(t for t in d if t["n_prompt"] == 16 and not t["n_gen"] and not t["n_depth"])
assert tg["weight_bytes_counted"] == 4 * pp["weight_bytes_counted"] > 0, "a pass reads the weights once"
assert tg["cache_bytes_counted"] > 0 and abs(tg["gmac_s"] - tg["mac_counted"] / tg["avg_ns"]) < 0.01 * tg["gmac_s"]
assert tg["peak_stream_gb_s_measured"] > 0 and 0 < tg["gb_share"] == tg["gb_s"] / tg["peak_stream_gb_s_measured"]' \
    'bench: counts and shares of peaks'
expect_err 'pp16 @ d16' 'bench table on stderr'
expect_err 'shares are of peaks measured in this run on' 'bench says what its shares are of'
lutra bench -m "$MODEL" -p 4-16*2 -n 0 -r 1 -o csv --no-peaks
expect_code 0 'bench csv'
[ "$(wc -l <"$WORK/out")" -eq 4 ] || fail 'bench csv: a header and three lines'
lutra bench -m "$MODEL" -npp 16 -ntg 4 -npl 1,4 -o jsonl
expect_code 0 'batched bench'
expect_json "$WORK/out" 'd = [json.loads(l) for l in sys.stdin]
assert [t["n_kv"] for t in d] == [20, 80] and d[1]["tg_passes"] == 4 and d[1]["tg_rows_valid"] == 16' 'batched bench JSON'
lutra bench -m "$MODEL" -npp 16 -ntg 4 -npl 4 -pps
expect_code 0 'shared prompt'
grep -qE '^\| +16 \| +4 \| +4 \| +32 ' "$WORK/out" || fail 'shared prompt: N_KV is 32'

# The bundled folders of few bits: 20 problems, or all 500, of which three quarters are the aim.
few_problems=20 few_right=0.7
[ "${LUTRA_TEST_LONG:-}" != 1 ] || { few_problems=500 few_right=0.75; }
for few in abacus-w2 abacus-b158; do
    lutra eval -m "$LUTRA_SOURCE/models/$few" -f "$PROBLEMS" --limit "$few_problems" -n 200 --methods greedy --report "$WORK/$few.json"
    expect_code 0 "eval $few"
    expect_json "$WORK/$few.json" "r = json.load(sys.stdin)
assert len(r['problems']) == $few_problems and r['methods'][0]['accuracy']['mean'] >= $few_right" "$few answers"
done
finish
