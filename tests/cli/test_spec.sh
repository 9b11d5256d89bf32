# SPDX-License-Identifier: MIT
# lutra eval --spec: the tables, the same as JSON, the three modes, files that are none.
. "$LUTRA_SOURCE/tests/cli/lib.sh"
cd "$WORK" || exit 1
export TMPDIR=$WORK

cat >w.jsonl <<'END'
{"past": true, "question": "Who has bread?", "answer": "The bread of the red house belongs to Anna and her three brothers."}
{"task": "rag", "distance": "copied", "documents": ["Sam has 42 cards and sells 7 of them to Tom on Monday. Rain is likely."], "question": "What does Sam have?", "answer": "Sam has 42 cards and sells 7 of them to Tom on Monday."}
{"task": "ui", "distance": "heavily", "documents": ["A red house."], "question": "Whose is the bread?", "answer": "The bread of the red house belongs to Anna and her four brothers."}
END
spec() { lutra eval -m "$MODEL" --spec w.jsonl --spec-row-cost 0.09 -t 1 "$@"; }
# The figure of a method in a column of the last table of accept lengths.
length() { awk -v m="$1" -v c="$2" '/^Accept length, counted/ {on = 1} /^Times as fast/ {on = 0} on && NF && $1 == m {print int(100 * $c)}' out; }

spec --spec-mode forced
expect_code 0 "forced"
expect_out "FORCED" "forced texts say so"
expect_out "a further row counted as 0.090" "the cost"
[ "$(length none 4)" = 100 ] || fail "plain decoding: one token a pass, not $(length none 4)"
[ "$(length suffix 2)" -ge 200 ] || fail "a copied answer: $(length suffix 2) with suffix"
[ "$(length suffix+store 3)" -ge 200 ] || fail "an earlier answer: $(length suffix+store 3) with the store"
[ "$(length suffix+store 3)" -gt "$(length all-store 3)" ] || fail "the store has no share"
expect_out "all / all-store" "against all but one"
expect_out "Where the store's likeliest path was wrong" "what was rejected"
mv out first
spec --spec-mode forced
n=$(sed -n '/^Times as fast/q;p' first | wc -l)
cmp -s <(head -n "$n" first) <(head -n "$n" out) || fail "counted figures differ from run to run"

spec --spec-mode forced --report r.json
expect_code 0 "a report"
cat >check.py <<'PY'
import json
r, out = json.load(open("r.json")), open("out").read()
figures = out[out.rindex("Accept length, counted"):out.index("\nTimes as fast")].splitlines()[2:]
method = {m["method"]: m for m in r["methods"]}
for line in figures:
    if not line or line.startswith("  "): continue  # a ratio
    name, *want = line.split()
    got = method[name]["accept_length"]["all"]
    assert ["%.2f" % got[k] for k in ("rag", "ui", "mean")] == want, line
for x in r["ratios"]:
    if x["distance"] != "all": continue
    line = next(l for l in figures if l.startswith("  %(of)s / %(to)s " % x))
    want = "%.2f  (%.3f to %.3f)" % tuple(x["all"][k] for k in ("mean", "low", "high"))
    assert line.endswith(want + (" below 1" if x["all"]["high"] < 1 else " includes 1" if x["all"]["low"] <= 1 else "")), line
    assert ["%.2f" % x["tasks"][k]["mean"] for k in ("rag", "ui")] == line.split("  (")[0].split()[-3:-1], line
shares = [x["to"] for x in r["ratios"] if x["of"] == "all" and x["distance"] == "all" and x["to"] != "auto"]
assert shares == ["all-" + n for n in ("suffix", "ngram-simple", "calibrated", "recycle", "store")], shares
assert r["rejections"]["all"] == sum(r["rejections"][k] for k in ("missing", "synonym", "redundant")) > 0
assert r["machine"]["threads"] == 1 and r["machine"]["device"] and r["machine"]["processors"] >= 1
assert r["settings"]["questions"] == 2 and r["settings"]["mode"] == "forced"
t = method["auto"]["time"]
assert t["last_ms"] > 0 and 0 < t["prefill_share"] < 1 and t["times_as_fast"]["low"] <= t["times_as_fast"]["mean"]
assert method["none"]["time"]["times_as_fast"]["mean"] == 1 and set(t["times_as_fast_by_task"]) == {"rag", "ui"}
speeds = out[out.index("\nTimes as fast"):out.index("\nmeasured")].splitlines()[3:]
for line in filter(None, speeds):
    name, *want = line.split()
    got = method[name]["time"]
    got = [got["times_as_fast_by_task"][k]["mean"] for k in ("rag", "ui")] + [got["times_as_fast"]["mean"]]
    assert ["%.2f" % x for x in got] == want[:3], line
assert len(speeds) == len(method) and method["all"]["time"]["hints_ms"] > 0 == method["none"]["time"]["hints_ms"]
PY
python3 check.py || fail "the report does not say what the tables say"
spec --spec-mode forced --report no/such/folder.json --spec-methods suffix
expect_err "no/such/folder.json" "a report that cannot be written"

spec --spec-mode free --temp 0 -n 30 --spec-methods suffix+store,recycle
expect_code 0 "the model's own texts"
[ "$(awk '$1 == "recycle"' out | wc -l)" -eq 5 ] || fail "recycle is not in all tables" # by distance, of all, faster, times
grep -q "repeat themselves" out && fail "texts of 30 tokens that do not repeat themselves"
cat >loop.jsonl <<'END'
{"task": "rag", "question": "Sam has 4 cards. Tom gives him 3 cards. How many cards does Sam have in the end?", "answer": "7"}
{"task": "ui", "question": "Sam has 4 cards. Tom gives him 3 cards. How many cards does Sam have in the end?", "answer": "7"}
END
# without its end token
lutra eval -m "$MODEL" --spec loop.jsonl --spec-row-cost 0.09 -t 1 --temp 0 -n 400 --spec-methods suffix --logit-bias 1023-inf
expect_code 0 "texts that never end"
expect_out "2 texts that repeat themselves to the end count for none" "looping texts are left out"
spec --spec-mode replay --temp 0.8 -n 30
expect_code 0 "replay"
expect_out "REPLAY" "replay says so"
[ "$(length 0.95 4)" -gt "$(length 0.41 4)" ] || fail "replay: 0.95 is no better than 0.41"
[ "$(length 0 4)" = 100 ] || fail "replay: drafts that are wrong were taken"
ls -d lutra-spec-* 2>/dev/null && fail "a store was left over"

spec --spec-methods 0.5 --spec-mode forced
expect_err "'0.5' is not built" "no such drafter"
spec --spec-methods suffix --spec-mode replay
expect_err "'suffix' is no probability" "replay has probabilities"
echo '{"question": "x"}' >w.jsonl
spec
expect_err "w.jsonl: line 1: no \"question\" or \"answer\"" "a line without an answer"
echo '{"question": ' >w.jsonl
spec
expect_err "w.jsonl: line 1:" "no JSON"
: >w.jsonl
spec
expect_err "no questions in it" "an empty file"
finish
