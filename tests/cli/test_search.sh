# SPDX-License-Identifier: MIT
# lutra run with several candidates: winners, events, the picture on a terminal, budgets, Ctrl-C, wrong options.
. "$(dirname "$0")/lib.sh"

run() { lutra run -m "$MODEL" -st -s 4 -p "$QUESTION" -n 150 "$@"; }

run --vote 8
expect_code 0 'vote'
expect_out '#### 84' 'vote'
expect_err '#7 step 2: #### 84' 'vote, events'
expect_err '#7 finished: 84' 'vote, events'
expect_err 'vote 8: answer 84, share of votes 1.000' 'vote, summary'
cp "$WORK/out" "$WORK/vote"
run --vote 8 -q -t 1 -b 9
expect_quiet 'vote --quiet'
expect_same "$WORK/out" "$WORK/vote" 'one thread, small batches'

for method in '--weighted 6' '--best-of 6' '--beam 3x2' '--dvts 3x2' '--rebase 6'; do
    run $method --prm "$PRM" --score mean --no-perf
    expect_code 0 "$method"
    expect_out '####' "$method"
    expect_err ' verifier rows, ' "$method, summary"
    expect_err 'score 0.' "$method, rewards"
    cp "$WORK/out" "$WORK/first"
    grep -v ' s$' "$WORK/err" >"$WORK/events"
    run $method --prm "$PRM" --score mean --no-perf -t 1
    expect_same "$WORK/out" "$WORK/first" "$method again"
    grep -v ' s$' "$WORK/err" >"$WORK/events1"
    expect_same "$WORK/events" "$WORK/events1" "$method, events with one thread"
    case $method in
    --w* | --best*) ;;
    *)
        expect_err ' forked from #' "$method"
        expect_err ' pruned' "$method"
        ;;
    esac
done
if [ "$(nproc)" -gt 1 ]; then
    run --beam 3x2 --prm "$PRM" --score mean --no-perf -t 1
    cp "$WORK/out" "$WORK/first"
    run --beam 3x2 --prm "$PRM" --score mean --no-perf --device cpu:0 -devd cpu:1
    expect_code 0 'a verifier on devices of its own'
    expect_same "$WORK/out" "$WORK/first" 'a verifier on devices of its own'
    run --beam 3x2 --prm "$PRM" --device cpu:0 -devd cpu:none
    expect_code 1 'a verifier on a device that is not there'
fi

run --beam 3x2 --prm "$PRM" --budget 20
[ "$(sed -n 's/.*pruned), \([0-9]*\) tokens.*/\1/p' "$WORK/err")" -lt 120 ] || fail 'a budget is kept'
run --beam 2x2 --prm "$PRM" --step ' ' --verifier-mark ' +'
expect_code 0 'another delimiter and a mark'
expect_err 'step 4 ' 'a step at every blank'
if grep -q 'step 5 ' "$WORK/err"; then fail 'a blank alone is no step'; fi

# The kinds of judge: any model's likelihood, the generator's own at no cost, and what is refused.
LONG=$LUTRA_SOURCE/models/abacus-xs-long-f16.gguf
XS=$LUTRA_SOURCE/models/abacus-xs-f16.gguf
run --best-of 6 --prm "$LONG" --prm-kind likelihood --no-perf
expect_code 0 'likelihood'
expect_err '#5 step 1 reward 0.' 'likelihood, steps while others run'
expect_err ' verifier rows' 'likelihood'
if grep -q ' 0 verifier rows' "$WORK/err"; then fail 'another model has rows of its own'; fi
run --best-of 6 --prm-kind likelihood --no-perf
expect_err ' 0 verifier rows' 'own likelihood'
cp "$WORK/out" "$WORK/own"
run --best-of 6 --prm "$MODEL" --prm-kind likelihood --no-perf
expect_err ' 0 verifier rows' 'own likelihood, by its file'
expect_same "$WORK/out" "$WORK/own" 'own likelihood, by its file'
run --best-of 6 --prm "$LONG" --prm-kind oracle
expect_code 2 'an unknown kind'
run --best-of 6 --prm "$LONG" --prm-kind value
expect_code 1 'no value head'
expect_err "no tensor 'cls.output'" 'no value head'

# What a budget buys, without and with a table of measured methods.
run --method auto --budget 300 --prm "$LONG" --prm-kind likelihood
expect_code 0 'auto'
expect_err 'auto (weighted ' 'auto without a table'
tokens=$(sed -n 's/.*pruned), \([0-9]*\) tokens.*/\1/p' "$WORK/err")
[ "$tokens" -gt 200 ] && [ "$tokens" -le 300 ] || fail "auto: $tokens tokens of 300"
run --method auto --budget 300
expect_err 'auto (vote ' 'auto without a judge'
cat >"$WORK/table.json" <<'END'
{"methods": [
 {"method": "greedy", "accuracy": {"mean": 0.59}, "tokens_per_problem": 45},
 {"method": "mean sample", "accuracy": {"mean": 0.99}, "tokens_per_problem": 45},
 {"method": "any@16", "accuracy": {"mean": 0.99}, "tokens_per_problem": 45},
 {"method": "beam@2x2", "accuracy": {"mean": 0.7}, "tokens_per_problem": 180},
 {"method": "best@16", "accuracy": {"mean": 0.8}, "tokens_per_problem": 730}],
 "time": {"methods": {"greedy": {"latency_s": 0.001}, "best@16": {"latency_s": 3600}}}}
END
auto() { run --method auto --prm "$LONG" --prm-kind likelihood --auto-table "$WORK/table.json" --budget "$1"; }
auto 100
expect_err 'auto (vote 1): ' 'auto: the greedy answer is what 100 tokens buy'
auto 200
expect_err 'auto (beam 2x2): ' 'auto: 200 tokens'
auto 2000
expect_err 'auto (best-of ' 'auto: 2000 tokens'
auto 20s
expect_err 'auto (vote 1): ' 'auto: what is too slow, or was not timed, is not chosen'
run --method auto --prm "$LONG" --prm-kind likelihood
expect_code 2 'auto without a budget'
for bad in 12x -1 1.5 ''; do
    run --method auto --budget "$bad"
    expect_code 2 "--budget '$bad'"
done
run --method auto --budget 10 --auto-table "$PROBLEMS"
expect_code 1 'a table that is none'

# With a checker: the curve measured with it, and no other; without one, --until-pass takes the first that passes.
sed 's/^{/{"settings": {"check": "equation"}, /' "$WORK/table.json" >"$WORK/checked.json"
run --method auto --budget 200 --check equation --auto-table "$WORK/checked.json"
expect_err 'auto (beam 2x2): ' 'auto: a table of the same checker'
for judge in '--check countdown' "--prm $LONG --prm-kind likelihood" ''; do
    run --method auto --budget 200 $judge --auto-table "$WORK/checked.json"
    expect_code 1 "auto: a table of another checker, $judge"
    expect_err "checked.json was measured with the verifier 'equation'" "auto: a table of another checker, $judge"
done
sed 's/^{/{"settings": {"prm": "judge.gguf"}, /' "$WORK/table.json" >"$WORK/judged.json"
run --method auto --budget 200 --check equation --auto-table "$WORK/judged.json"
expect_err "judged.json was measured with the verifier 'judge.gguf'" 'auto: a table of a model, a checker'
run --method auto --budget 2000 --check equation
expect_err 'auto (weighted ' 'auto without a table, a checker'
run --method auto --budget 2000 --check equation --until-pass
expect_err 'auto (best-of ' 'auto without a table, the first that passes'
expect_err ' pruned)' 'auto without a table, the others have ended'

# The same in an evaluation: a budget of tokens buys the same answers however many problems run at once.
head -n 12 "$PROBLEMS" >"$WORK/twelve"
for np in 1 64; do
    lutra eval -m "$XS" --prm "$LONG" --prm-kind likelihood -f "$WORK/twelve" -np $np --auto-table "$WORK/table.json" \
        --methods best@4,auto@60,auto@200,auto@1000 --report "$WORK/report$np.json"
    expect_code 0 "eval auto, -np $np"
    python3 -c "import json,sys
d = json.load(open(sys.argv[1])); d.pop('time'); d['settings'].pop('file', None); print(json.dumps(d, indent=1))" \
        "$WORK/report$np.json" >"$WORK/plain$np"
done
expect_same "$WORK/plain1" "$WORK/plain64" 'eval auto, one problem or many at once'
for bad in auto auto@ auto@0 auto@x auto@5x; do
    lutra eval -m "$XS" -f "$WORK/twelve" --methods $bad
    expect_code 2 "eval --methods $bad"
done

# A chat of two turns: the winner is what is remembered.
printf '%s\n/regen\n' "$QUESTION" | timeout 60 "$LUTRA" run -i -m "$MODEL" -s 4 --vote 4 -n 150 -q >"$WORK/out" 2>"$WORK/err"
[ "$(grep -c '^#### 84' "$WORK/out")" -eq 2 ] || fail 'chat'

# On a terminal of 60 columns: redrawn in place, never wider.
cat >"$WORK/terminal.py" <<'END'
import fcntl, os, pty, re, struct, sys, termios
columns = 60
pid, fd = pty.fork()
if pid == 0:
    os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600), 1)
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
out = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    out += part
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert code == 0, (code, out[-500:])
text = out.decode()
ups = [int(n) for n in re.findall(r"\x1b\[(\d+)A", text)]
assert ups and max(ups) < 24, ups
picture = text.split("\x1b[J")[:-1]
for line in "".join(picture).split("\n"):
    line = re.sub(r"\x1b\[\d*[A-Za-z]", "", line.rstrip("\r")).split("\r")[-1]
    assert len(line) < columns, line
last = picture[-1]
assert "beam 3x2: 0 running" in last and re.search(r"84 +#{24} +\d", last), last
END
if python3 -c 'import os, pty; os.close(pty.openpty()[0])' 2>/dev/null; then
    python3 "$WORK/terminal.py" "$WORK/tty" "$LUTRA" run -m "$MODEL" -st -s 4 -p "$QUESTION" -n 150 --beam 3x2 --prm "$PRM" \
        >"$WORK/out" 2>&1 || fail 'on a terminal'
    grep -q '#### 84' "$WORK/tty" || fail 'on a terminal: the winner'
else
    echo 'not run: the picture on a terminal (this system gives no pseudo-terminal)'
fi

# What is wrong.
run --vote 4 --best-of 4 --prm "$PRM"
expect_code 2 'two searches'
run --best-of 4
expect_code 2 'no verifier'
expect_err '--prm' 'no verifier'
for bad in 4 4x x4 0x4 4x4x4 99x99; do
    run --beam $bad --prm "$PRM"
    expect_code 2 "--beam $bad"
done
run --vote 4 --step ''
expect_code 2 'an empty delimiter'
run --best-of 4 --prm /no/such/file
expect_code 1 'no such verifier'
run --best-of 4 --prm "$MODEL"
expect_code 1 'no reward model'
expect_err 'no reward model' 'no reward model'

# Ctrl-C.
"$LUTRA" run -m "$MODEL" -st --ignore-eos -s 1 -c 100000 -p "$QUESTION" --vote 4 >"$WORK/out" 2>"$WORK/err" </dev/null &
pid=$!
sleep 1.5
kill -INT $pid
wait $pid
rc=$?
expect_code 130 'Ctrl-C'
finish
