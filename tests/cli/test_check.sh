# SPDX-License-Identifier: MIT
# Checkers as verifiers: rules by name, a program, what it does wrong, ending at the first pass, grading.
. "$(dirname "$0")/lib.sh"

run() { lutra run -m "$MODEL" -st -s 4 -p "$QUESTION" -n 150 --no-perf "$@"; }

run --best-of 4 --check equation
expect_code 0 'equation'
expect_out '#### 84' 'equation'
expect_err 'score 1.000' 'equation'
expect_err ' 0 verifier rows' 'a rule has no rows'
cp "$WORK/out" "$WORK/best"
run --best-of 4 --check equation --until-pass -t 1
expect_same "$WORK/out" "$WORK/best" 'the first pass is the best'
expect_err 'pruned' 'the others have ended'
run --beam 2x2 --check equation --until-pass
expect_code 0 'beam'
expect_err 'reward 1.000' 'beam, steps are judged'

# A program: longer texts are better; it dies at the second candidate, and says what it was asked.
cat >"$WORK/checker" <<'END'
#!/bin/sh
n=0
while IFS= read -r line; do
    n=$((n + 1))
    echo "$line" >>"$1"
    id=${line#*:}
    [ "$n" -ne 2 ] || [ -e "$1.died" ] || { : >"$1.died"; exit 7; }
    case $line in *"$2"*) echo "no idea"; continue ;; esac
    echo "{\"id\":${id%%,*},\"reward\":0.${#line}}"
done
END
chmod +x "$WORK/checker"
run --best-of 3 --check "'$WORK/checker' $WORK/asked 'not there'"
expect_code 0 'a program'
expect_err 'score 0.' 'a program'
! grep -q 'says little' "$WORK/err" || fail 'a verifier that tells candidates apart'
[ "$(wc -l <"$WORK/asked")" -eq 4 ] || fail 'one died, and was asked again'
head -n 1 "$WORK/asked" | grep -qF '"question":"Sam has 42 cards.' || fail 'the question is told'
head -n 1 "$WORK/asked" | grep -qF '"whole":true}' || fail 'a whole solution'
run --best-of 3 --check "$WORK/checker $WORK/asked2 84" --check-time 20s
expect_code 1 'nonsense: nobody is judged'
expect_err "(no reward: no reply: 'no idea')" 'nonsense has its reason'
expect_err 'score 0.000' 'nonsense'

# A verifier that likes nothing is told.
cat >"$WORK/blind" <<'END'
#!/bin/sh
while IFS= read -r line; do
    id=${line#*:}
    echo "{\"id\":${id%%,*},\"reward\":0.001}"
done
END
chmod +x "$WORK/blind"
run --best-of 3 --check "$WORK/blind"
expect_code 0 'a verifier that likes nothing'
expect_err 'no step of any candidate got more than 0.001 from the verifier' 'a verifier that likes nothing'
run --best-of 3 --check "$WORK/blind" -q
expect_quiet 'a verifier that likes nothing, -q'
run --best-of 3 --check /no/such/program
expect_code 1 'no such program'
expect_err '/no/such/program' 'no such program'
run --best-of 3 --check json-schema:/no/such/schema
expect_code 1 'no such schema'
expect_err '/no/such/schema' 'no such schema'
echo '{"type": "object"}' >"$WORK/schema"
run --best-of 3 --check "json-schema:$WORK/schema"
expect_code 3 'json-schema: nobody passes'
expect_err 'score 0.000' 'json-schema: a word problem is no object'
echo '{"properties": {"a": {"unevaluatedItems": false}}}' >"$WORK/schema"
run --best-of 3 --check "json-schema:$WORK/schema"
expect_code 1 'json-schema: a keyword that is not built'
expect_err '#/properties/a/unevaluatedItems' 'json-schema: a keyword that is not built'
run --best-of 3 --check equation --prm "$PRM"
expect_code 2 'two verifiers'
run --vote 3 --check equation --until-pass
expect_code 2 'a vote has no first pass'
run --best-of 3 --until-pass
expect_code 2 'nothing to pass'
run --best-of 3 --check equation --check-time soon
expect_code 2 '--check-time'

# eval: best by the rule is any by the rule; answer is the oracle; another grade.
lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 8 -s 3 --check answer --methods greedy,best@4,any@4 --report "$WORK/a.json"
expect_code 0 'answer'
expect_json "$WORK/a.json" 'd = json.load(sys.stdin)
m = {x["method"]: x["accuracy"]["mean"] for x in d["methods"]}
assert m["best@4"] == m["any@4"], m
assert d["settings"]["check"] == "answer" and d["settings"]["grade"] == "answer"' 'best by the oracle is any'
lutra eval -m "$MODEL" -f "$LUTRA_SOURCE/models/countdown-test.jsonl" --limit 8 --grade countdown --check countdown -n 40 \
    --methods greedy,best@2,any@2 --report "$WORK/b.json"
expect_code 0 'grade'
expect_json "$WORK/b.json" 'd = json.load(sys.stdin)
m = {x["method"]: x["accuracy"]["mean"] for x in d["methods"]}
assert m["greedy"] == 0 and m["best@2"] == m["any@2"], m' 'a model of word problems plays no Countdown'

# Nobody passes: it is said, also with -q, with a status of its own, and the most frequent answer is the reply.
judged() { lutra run -m "$MODEL" -st -s 4 -q -n 150 -p "$QUESTION" "$@"; }
cat >"$WORK/judge" <<'END'
#!/bin/sh
# "never" gives 0, "some" no reward to every second text, "none" none to any
while read -r line; do
    id=${line#*\"id\":} id=${id%%,*} n=$((${n:-0} + 1))
    reward=", \"reward\": 0"
    [ "$1" = none ] && reward=", \"reward\": -1"
    [ "$1" = some ] && [ $((n % 2)) = 0 ] && reward=", \"reward\": 7"
    echo "{\"id\": $id$reward}"
done
END
chmod +x "$WORK/judge"
for way in '--best-of 4' '--weighted 4' '--beam 2x2'; do
    judged $way --check "$WORK/judge never"
    expect_code 3 "$way: nobody passes"
    expect_err ' passed; the most frequent answer: ' "$way: nobody passes"
    [ -s "$WORK/out" ] || fail "$way: nobody passes: no reply"
done
judged --best-of 4 --check "$WORK/judge never"
expect_err 'none of 4 passed; the most frequent answer: 84 (' 'nobody passes'
expect_out '84' 'nobody passes: the most frequent answer'
judged --best-of 4 --check "$WORK/judge some"
expect_code 3 'some are judged'
expect_err 'the verifier judged 2 of 4 candidates: ' 'some are judged'

# A checker sees paths and languages of the environment, and no keys.
cat >"$WORK/env" <<'END'
#!/bin/sh
env >"$1"
while read -r line; do
    id=${line#*\"id\":}
    echo "{\"id\": ${id%%,*}, \"reward\": 1}"
done
END
chmod +x "$WORK/env"
(
    export HF_TOKEN=secret AWS_SECRET_ACCESS_KEY=secret OPENAI_API_KEY=secret LUTRA_ARG_THREADS=2 LC_ALL=C
    judged --best-of 2 --check "$WORK/env '$WORK/seen'"
)
if grep -qE 'secret|LUTRA_ARG' "$WORK/seen"; then fail 'a checker sees keys of the environment'; fi
grep -q '^PATH=/' "$WORK/seen" && grep -q '^LC_ALL=C' "$WORK/seen" || fail 'a checker finds programs and its language'

# A verifier that judges nobody is no measurement.
for judge in false "$WORK/judge none" 'sh -c exit'; do
    judged --best-of 4 --check "$judge"
    expect_code 1 "$judge: nobody is judged"
    expect_err 'the verifier judged none of 4 candidates: ' "$judge: nobody is judged"
    [ ! -s "$WORK/out" ] || fail "$judge: nobody is judged, and there is a reply"
    lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 2 -s 3 --check "$judge" --methods vote@4,weighted@4,best@4
    expect_code 1 "eval, $judge"
    expect_err 'weighted@4: the verifier gave no candidate a reward' "eval, $judge"
    [ ! -s "$WORK/out" ] || fail "eval, $judge: a table of it"
done
lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 2 -s 3 --check "$WORK/judge some" --methods vote@4,weighted@4,best@4 \
    --report "$WORK/some.json"
expect_code 0 'eval, some are judged'
expect_out 'weighted@4: the verifier judged 50.0 % of the candidates' 'the share judged'
expect_json "$WORK/some.json" 'd = json.load(sys.stdin)
m = {x["method"]: x["judged"] for x in d["methods"]}
assert m == {"vote@4": None, "weighted@4": .5, "best@4": .5}, m
assert sum(s["judged"] for p in d["problems"] for s in p["samples"]) == 4' 'the share judged, in the report'

# auto: a curve measured with the checker says what a budget buys.
lutra eval -m "$LUTRA_SOURCE/models/countdown-s-f16.gguf" -f "$LUTRA_SOURCE/models/countdown-test.jsonl" --limit 100 --temp 0.7 -n 60 \
    --grade countdown --check countdown --auto-table "$LUTRA_SOURCE/models/countdown-s-auto.json" \
    --methods greedy,auto@40,auto@200,auto@800 --report "$WORK/c.json"
expect_code 0 'auto'
expect_json "$WORK/c.json" 'd = json.load(sys.stdin)
m = {x["method"]: x for x in d["methods"]}
right = [m[k]["accuracy"]["mean"] for k in ("auto@40", "auto@200", "auto@800")]
assert right[0] == m["greedy"]["accuracy"]["mean"] and right[0] + .2 < right[1] < right[2], right
assert all(m["auto@%d" % t]["tokens_per_problem"] <= t for t in (40, 200, 800)), m' 'auto: more tokens, more right'
lutra eval -m "$LUTRA_SOURCE/models/countdown-s-f16.gguf" -f "$LUTRA_SOURCE/models/countdown-test.jsonl" --limit 1 --check equation \
    --auto-table "$LUTRA_SOURCE/models/countdown-s-auto.json" --methods auto@40
expect_code 1 'auto: the curve of another checker'
finish
