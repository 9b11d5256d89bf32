# SPDX-License-Identifier: MIT
# lutra eval: forms of problems, methods and what is wrong with them, the picture, the energy counter.
. "$(dirname "$0")/lib.sh"

# MATH500: the answer's field, or the solution's box.
cat >"$WORK/math.jsonl" <<'END'
{"problem": "Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have in the end?", "answer": "\\frac{168}{2}", "solution": "so \\boxed{84}", "subject": "x"}
{"problem": "Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have in the end?", "solution": "$2\\cdot 42=\\boxed{84\\text{ cards}}$"}
{"problem": "Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have in the end?", "answer": "\\frac{1}{2}"}
END
lutra eval -m "$MODEL" -f "$WORK/math.jsonl" --methods greedy --report "$WORK/math.json"
expect_code 0 'MATH500'
expect_json "$WORK/math.json" 'd = json.load(sys.stdin)
assert [p["answer"] for p in d["problems"]] == ["84", "84", "0.5"]
assert [p["greedy"]["right"] for p in d["problems"]] == [True, True, False]' 'MATH500 answers'

# Multiple choice: the likelier ending wins, whatever the batch.
cat >"$WORK/wino.jsonl" <<'END'
{"sentence": "5 + 3 = _.", "option1": "8", "option2": "1", "answer": "1"}
{"sentence": "9 - 4 = 5. 5 * 2 _ 10.", "option1": "how", "option2": "=", "answer": "2"}
{"sentence": "_ has 5 pens.", "option1": "Tom", "option2": "twice", "answer": "1"}
END
for more in '--methods greedy' '--check equation'; do
    lutra eval -m "$MODEL" -f "$WORK/wino.jsonl" $more
    expect_code 2 "multiple choice $more"
    expect_err 'multiple choice' "multiple choice $more"
done
cat >"$WORK/mmlu.jsonl" <<'END'
{"question": "5 + 3 = ?", "subject": "elementary_mathematics", "choices": ["8", "1", "2", "3"], "answer": 0}
{"question": "5 + 3 = ?", "choices": ["1", "8", "2", "3"], "answer": "B"}
END
cat >"$WORK/swag.jsonl" <<'END'
{"activity_label": "Counting", "ctx": "[header] Pens [title] Tom has 5 pens. Tom buys 3 more. 5 + 3 =", "endings": ["many many many", "8.", "friends [substeps] each", "dollars"], "label": "1"}
{"ctx": "Tom has 5", "endings": ["pens. How many", "= = = ="], "label": 0}
END
for f in wino mmlu swag; do
    lutra eval -m "$MODEL" -f "$WORK/$f.jsonl" --report "$WORK/$f.json"
    expect_code 0 "$f"
    expect_out 'acc_norm' "$f"
    lutra eval -m "$MODEL" -f "$WORK/$f.jsonl" -b 3 -t 1 --report "$WORK/$f-3.json"
    for r in "$f" "$f-3"; do
        python3 -c 'import json,sys
print([[c["log_prob"] for c in p["choices"]] for p in json.load(open(sys.argv[1]))["problems"]])' "$WORK/$r.json" >"$WORK/$r"
    done
    expect_same "$WORK/$f" "$WORK/$f-3" "$f in small batches"
done
expect_json "$WORK/swag.json" 'd = json.load(sys.stdin)
m = {x["method"]: x["accuracy"]["mean"] for x in d["methods"]}
endings = [[" many many many", " 8.", " friends each", " dollars"], [" pens. How many", " = = = ="]]
per_byte = [[c["log_prob"] / len(e) for c, e in zip(p["choices"], es)] for p, es in zip(d["problems"], endings)]
assert m["acc_norm"] == sum(x.index(max(x)) == p["answer"] for x, p in zip(per_byte, d["problems"])) / 2, per_byte
assert d["problems"][0]["question"] == "Counting: Pens. Tom has 5 pens. Tom buys 3 more. 5 + 3 =", d["problems"][0]
' 'HellaSwag'
expect_json "$WORK/wino.json" 'd = json.load(sys.stdin)
c = [[x["log_prob"] for x in p["choices"]] for p in d["problems"]]
assert all(x < 0 for p in c for x in p), c
assert c[1][1] > c[1][0] and d["problems"][1]["answer"] == 1, c
assert abs(d["methods"][0]["accuracy"]["mean"] - sum(max(range(2), key=lambda i: p[i]) == q["answer"] for p, q in zip(c, d["problems"])) / 3) < 1e-9' 'WinoGrande'
# The chain of a text is the sum of its parts: log p(a b | c) = log p(a | c) + log p(b | c a).
cat >"$WORK/chain.jsonl" <<'END'
{"ctx": "5 + 3", "endings": ["= 8.", "="], "label": 0}
{"ctx": "5 + 3 =", "endings": ["8.", "9."], "label": 0}
END
lutra eval -m "$MODEL" -f "$WORK/chain.jsonl" --report "$WORK/chain.json"
expect_json "$WORK/chain.json" 'd = json.load(sys.stdin)
a, b = [[c["log_prob"] for c in p["choices"]] for p in d["problems"]]
assert abs(a[0] - a[1] - b[0]) < 1e-5 * abs(a[0]), (a, b)' 'sums of log-probabilities'
lutra eval -m "$MODEL" -f "$WORK/wino.jsonl" --format mmlu
expect_code 0 'a shape names itself'
printf '{"sentence": "no blank", "option1": "a", "option2": "b", "answer": "1"}\n' >"$WORK/bad.jsonl"
lutra eval -m "$MODEL" -f "$WORK/bad.jsonl"
expect_code 1 'WinoGrande without a blank'
expect_err 'line 1' 'WinoGrande without a blank'
printf '{"ctx": "x", "endings": ["a", "b"], "label": "2"}\n' >"$WORK/bad.jsonl"
lutra eval -m "$MODEL" -f "$WORK/bad.jsonl"
expect_code 1 'a label outside the endings'
cat "$WORK/wino.jsonl" "$WORK/math.jsonl" >"$WORK/bad.jsonl"
lutra eval -m "$MODEL" -f "$WORK/bad.jsonl"
expect_code 1 'two kinds of problems'
expect_err 'line 4' 'two kinds of problems'

# Methods.
for bad in best@4 vote vote@0 vote@4x2 beam@4 greedy@2 nonsense 'greedy,,sample' rebase@9999; do
    lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 2 --methods "$bad"
    expect_code 2 "--methods $bad"
    expect_err '--methods' "--methods $bad"
done
mkdir "$WORK/power" "$WORK/power/intel-rapl:0" "$WORK/power/intel-rapl:0:0"
echo 5000000 >"$WORK/power/intel-rapl:0/energy_uj"
echo 9 >"$WORK/power/intel-rapl:0:0/energy_uj"
export LUTRA_POWERCAP=$WORK/power
lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 6 --max-tokens 120 --prm "$PRM" --timed 2 \
    --methods greedy,sample,vote@2,vote@4,weighted@4,best@4,beam@2x2,any@4 --report "$WORK/m.json" --svg "$WORK/m.svg"
expect_code 0 'all methods'
expect_json "$WORK/m.json" 'd = json.load(sys.stdin)
m = {x["method"]: x for x in d["methods"]}
ps = d["problems"]
assert list(m) == ["greedy", "mean sample", "vote@2", "vote@4", "weighted@4", "best@4", "beam@2x2", "any@4"]
def mean(f): return sum(map(f, ps)) / len(ps)
def best(p): return max(p["samples"], key=lambda s: s["score"])["right"]
def weighted(p):
    w = {}
    for s in p["samples"]:
        if s["answer"] is not None: w[s["answer"]] = w.get(s["answer"], 0) + s["score"]
    return bool(w) and max(w, key=w.get) == p["answer"]
assert abs(m["best@4"]["accuracy"]["mean"] - mean(best)) < 1e-9
assert abs(m["weighted@4"]["accuracy"]["mean"] - mean(weighted)) < 1e-9
assert abs(m["beam@2x2"]["accuracy"]["mean"] - mean(lambda p: p["beam@2x2"]["right"])) < 1e-9
assert all(0 < s["score"] < 1 for p in ps for s in p["samples"])
assert abs(m["best@4"]["minus"]["greedy"]["mean"] - (m["best@4"]["accuracy"]["mean"] - m["greedy"]["accuracy"]["mean"])) < 1e-9
assert abs(m["beam@2x2"]["verifier_rows"] - mean(lambda p: p["beam@2x2"]["verifier_rows"])) < 1e-6
tokens = mean(lambda p: sum(s["tokens"] for s in p["samples"][:2]))
assert abs(m["vote@2"]["generator_rows"] - tokens - mean(lambda p: p["prompt_tokens"])) < 1e-6
t = d["time"]["methods"]
assert t["any@4"]["latency_s"] is None and all(t[k]["latency_s"] > 0 for k in m if k != "any@4"), t
assert all(0 < t[k]["latency_low_s"] <= t[k]["latency_s"] <= t[k]["latency_high_s"] for k in m if k != "any@4"), t
assert d["time"]["others_cpus"] is None or d["time"]["others_cpus"] >= 0
assert t["greedy"]["joules"] == 0 and d["time"]["energy"] != "not available"' 'all methods'
python3 -c 'import sys, xml.dom.minidom as x
t = x.parse(sys.argv[1]).getElementsByTagName("text")
names = [n.firstChild.data for n in t]
for m in "greedy", "vote@2", "best@4", "beam@2x2": assert names.count(m) == 2, (m, names)' "$WORK/m.svg" >"$WORK/out" 2>&1 || fail 'SVG'
# Latencies beside a program that never waits.
if [ -r /proc/stat ]; then
    while :; do :; done &
    busy=$!
    lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 6 --max-tokens 120 --timed 6 --methods greedy,sample --report "$WORK/busy.json"
    kill $busy
    wait $busy 2>/dev/null
    expect_code 0 'busy machine'
    [ "$(nproc)" -gt 16 ] || expect_err 'the machine is busy' 'busy machine'
fi
LUTRA_POWERCAP=/nowhere lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 2 --n 0 --table
expect_out 'energy: not available' 'no energy counter'
finish
