# SPDX-License-Identifier: MIT
# lutra eval, killed at random moments and started again: the same report but for its time fields; under mpirun, too.
. "$(dirname "$0")/lib.sh"

METHODS=greedy,sample,vote@4,best@4,weighted@4,any@4,beam@2x2,dvts@2x2,rebase@4
EVAL="eval -m $MODEL -f $PROBLEMS --limit 24 -s 5 --max-tokens 120 --methods $METHODS --prm $PRM --score mean"

# The report without what may differ.
settled() { python3 -c 'import json,sys
d = json.load(open(sys.argv[1])); d.pop("time"); print(json.dumps(d, indent=1))' "$1" >"$2"; }

lutra $EVAL --report "$WORK/whole.json"
expect_code 0 'uninterrupted'
[ ! -e "$WORK/whole.json.journal" ] || fail 'the journal stays behind'
settled "$WORK/whole.json" "$WORK/whole"

# Threads and batching change nothing.
lutra $EVAL -t 1 -np 5 -b 33 --report "$WORK/other.json"
expect_code 0 'other batching'
settled "$WORK/other.json" "$WORK/other"
expect_same "$WORK/whole" "$WORK/other" 'other threads and batching'

# Killed again and again, a little later each time; the last journal line is cut as a kill in a write would.
kills=0
for round in 1 2 3 4 5 6 7 8; do
    "$LUTRA" $EVAL --report "$WORK/cut.json" >"$WORK/out" 2>"$WORK/err" &
    pid=$!
    sleep "0.$((RANDOM % 8 + 1))"
    [ $((round % 2)) -eq 0 ] && sleep 0.5
    if kill -KILL $pid 2>/dev/null; then kills=$((kills + 1)); fi
    wait $pid 2>/dev/null
    [ -e "$WORK/cut.json" ] && break
    [ -s "$WORK/cut.json.journal" ] && printf '{"problem":1,"sou' >>"$WORK/cut.json.journal"
done
[ "$kills" -gt 0 ] || fail 'nothing was killed'
lines=$(cat "$WORK/cut.json.journal" 2>/dev/null | wc -l)
lutra $EVAL --report "$WORK/cut.json"
expect_code 0 'after the kills'
settled "$WORK/cut.json" "$WORK/cut"
expect_same "$WORK/whole" "$WORK/cut" "after $kills kills, $lines lines in the journal"
echo "$kills kills, $lines lines kept"

# kill_after LINES REPORT OPTION...: an evaluation, killed when its journal has more than that many lines.
kill_after() {
    enough=$1 report=$2
    shift 2
    "$LUTRA" $EVAL "$@" --report "$report" >"$WORK/out" 2>"$WORK/err" &
    pid=$!
    for _ in $(seq 200); do
        [ "$(cat "$report.journal" 2>/dev/null | wc -l)" -gt "$enough" ] && break
        sleep 0.05
    done
    kill -KILL $pid
    wait $pid 2>/dev/null
}

# A journal half written by hand: what it holds is not computed again; other settings are refused.
kill_after 5 "$WORK/part.json"
lutra $EVAL --report "$WORK/part.json" -s 6
expect_code 1 'a journal of other settings'
expect_err 'other settings' 'a journal of other settings'
sed -i 's/"answer":"[^"]*"/"answer":"kept"/' "$WORK/part.json.journal"
lutra $EVAL --report "$WORK/part.json"
expect_code 0 'a journal with its own answers'
grep -q '"kept"' "$WORK/part.json" || fail 'outcomes of the journal are computed again'

# --keep-texts: the answers can be read off the texts again; a journal without texts is continued with them, and the other way round.
lutra $EVAL --keep-texts --report "$WORK/texts.json"
expect_code 0 '--keep-texts'
settled "$WORK/texts.json" "$WORK/texts"
python3 -c 'import json,sys
d = json.load(open(sys.argv[1]))
for p in d["problems"]: p.pop("texts")
print(json.dumps(d, indent=1))' "$WORK/texts" >"$WORK/stripped"
expect_same "$WORK/whole" "$WORK/stripped" '--keep-texts changes nothing else'
expect_json "$WORK/texts.json" 'd = json.load(sys.stdin)
def shown(text): return text.split("####")[-1].strip().split("\n")[0] if "####" in text else None
n_forked = n_read = 0
for p in d["problems"]:
    t = p["texts"]
    assert list(t) == ["greedy", "samples", "beam@2x2", "dvts@2x2", "rebase@4"], list(t)
    assert len(t["greedy"]) == 1 and len(t["samples"]) == 4
    for kept, sample in zip(t["greedy"] + t["samples"], [p["greedy"]] + p["samples"]):
        assert kept["answer"] == sample["answer"] and kept["end"] == sample["end"], (kept, sample)
    for kept, sample in zip(t["samples"], p["samples"]):
        assert kept["rewards"] and kept["score"] == sample["score"]
        assert abs(sum(kept["rewards"]) / len(kept["rewards"]) - kept["score"]) < 1e-6
    for name, kept in t.items():
        for c in kept:
            if shown(c["text"]) and c["answer"]:
                assert shown(c["text"]) == c["answer"], c
                n_read += 1
            if c["parent"] >= 0:
                n_forked += 1
                parent = kept[c["parent"]]
                same = 0
                while same < min(len(c["rewards"]), len(parent["rewards"])) and c["rewards"][same] == parent["rewards"][same]: same += 1
                assert same > 0, (c, parent)
        if "@" in name: assert p[name]["candidates"] == len(kept) and p[name]["answer"] in [c["answer"] for c in kept]
assert n_forked > 10 and n_read > 100, (n_forked, n_read)' '--keep-texts'
for first in '' --keep-texts; do
    second=$([ -n "$first" ] || echo --keep-texts)
    kill_after 30 "$WORK/turn.json" $first
    lutra $EVAL $second --report "$WORK/turn.json"
    expect_code 0 "continued with '$second'"
    settled "$WORK/turn.json" "$WORK/turn"
    expect_same "$([ -n "$first" ] && echo "$WORK/whole" || echo "$WORK/texts")" "$WORK/turn" "continued with '$second'"
    rm "$WORK/turn.json"
done
lutra $EVAL --keep-texts
expect_code 2 '--keep-texts without --report'
expect_err '--report' '--keep-texts without --report'

# Two processes, one of them killed.
! ldd "$LUTRA" | grep -q libmpi || fail 'lutra links MPI'
OMPI_COMM_WORLD_SIZE=2 lutra eval -m "$MODEL" -f "$PROBLEMS" --limit 2 --n 0 --report "$WORK/no.json"
expect_code 1 'lutra eval under mpirun'
expect_err 'lutra-eval-mpi' 'lutra eval under mpirun'
MPI="$(dirname "$LUTRA")/lutra-eval-mpi"
if command -v mpirun >/dev/null 2>&1 && [ -x "$MPI" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ranks() { timeout 120 mpirun --allow-run-as-root --oversubscribe -n "$1" "$MPI" ${EVAL#eval } --report "$WORK/mpi.json"; }
    ranks 2 >"$WORK/out" 2>"$WORK/err" &
    pid=$!
    for _ in $(seq 200); do
        [ "$(cat "$WORK"/mpi.json.journal* 2>/dev/null | wc -l)" -gt 8 ] && break
        sleep 0.05
    done
    kept=$(cat "$WORK"/mpi.json.journal* | wc -l)
    victim=$(pgrep -f "lutra-eval-mpi ${EVAL#eval } --report $WORK/mpi.json" | while read -r p; do
        grep -qz OMPI_COMM_WORLD_RANK=1 "/proc/$p/environ" 2>/dev/null && [ "$(cat "/proc/$p/comm")" = lutra-eval-mpi ] && echo "$p"
    done | head -n 1)
    [ -n "$victim" ] || fail 'mpirun: no rank 1 to kill'
    kill -KILL "$victim"
    wait $pid
    rc=$?
    [ "$rc" -ne 0 ] || fail 'mpirun: a lost rank is no success'
    [ ! -e "$WORK/mpi.json" ] || fail 'mpirun: a report without all ranks'
    lines=$(cat "$WORK"/mpi.json.journal* | wc -l)
    [ "$lines" -ge "$kept" ] || fail 'mpirun: outcomes are lost'
    ranks 2 >"$WORK/out" 2>"$WORK/err"
    rc=$?
    expect_code 0 'mpirun, started again'
    settled "$WORK/mpi.json" "$WORK/mpi"
    expect_same "$WORK/whole" "$WORK/mpi" "mpirun, $lines lines in the journals after one rank was killed"
    [ "$(grep -c '^greedy ' "$WORK/out")" -ge 1 ] || fail 'mpirun: no table'
    [ -z "$(ls "$WORK"/mpi.json.journal* 2>/dev/null)" ] || fail 'mpirun: journals stay behind'
    echo "mpirun: $lines lines kept"
    timeout 60 mpirun --allow-run-as-root --oversubscribe -n 2 "$MPI" -m "$MODEL" -f "$PROBLEMS" --limit 2 --n 0 >"$WORK/out" 2>"$WORK/err"
    rc=$?
    [ "$rc" -ne 0 ] || fail 'mpirun without --report'
    expect_err '--report' 'mpirun without --report'
else
    echo "mpirun: skipped (not found, or lutra-eval-mpi was not built)"
fi
finish
