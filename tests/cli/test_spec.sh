# SPDX-License-Identifier: MIT
# lutra eval --spec: the tables, the three modes, files that are none.
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
length() { awk -v m="$1" -v c="$2" '/^Accept length, counted/ {on = 1} /^measured/ {on = 0} on && NF && $1 == m {print int(100 * $c)}' out; }

spec --spec-mode forced
expect_code 0 "forced"
expect_out "FORCED" "forced texts say so"
expect_out "a further row counted as 0.090" "the cost"
[ "$(length none 4)" = 100 ] || fail "plain decoding: one token a pass, not $(length none 4)"
[ "$(length suffix 2)" -ge 200 ] || fail "a copied answer: $(length suffix 2) with suffix"
[ "$(length suffix+store 3)" -ge 200 ] || fail "an earlier answer: $(length suffix+store 3) with the store"
[ "$(length suffix+store 3)" -gt "$(length auto-store 3)" ] || fail "the store has no share"
expect_out "auto / auto-store: " "the share of each drafter"
expect_out "Where the store's likeliest path was wrong" "what was rejected"
mv out first
spec --spec-mode forced
n=$(sed -n '/^measured/q;p' first | wc -l)
cmp -s <(head -n "$n" first) <(head -n "$n" out) || fail "counted figures differ from run to run"

spec --spec-mode free --temp 0 -n 30 --spec-methods suffix+store,recycle
expect_code 0 "the model's own texts"
[ "$(awk '$1 == "recycle"' out | wc -l)" -eq 4 ] || fail "recycle is not in all tables" # by distance, of all, of times
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
