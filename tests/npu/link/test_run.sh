# SPDX-License-Identifier: MIT
# lutra run --device npu-qemu: a Hexagon binary answers what the emulator answers, and when it is killed mid-answer the CPU goes
# on.  LUTRA_NPU_LONG: five problems instead of one.
. "$(dirname "$0")/../../cli/lib.sh"

lutra run -m "$MODEL" -st --temp 0 -n 1 -p "$QUESTION" -q --device npu-qemu
if [ "$rc" -ne 0 ] && grep -q 'npu-qemu: .*\(qemu-hexagon\|clang-19\|too old\)' "$WORK/err"; then
    echo "skipped: $(cat "$WORK/err")"
    exit 77
fi
expect_code 0 'one token'

n=1
[ -n "${LUTRA_NPU_LONG:-}" ] && n=5
python3 -c "import json,sys
for line in open(sys.argv[1]).readlines()[:int(sys.argv[2])]: print(json.loads(line)['question'])" "$PROBLEMS" $n >"$WORK/questions"
while read -r question <&3; do
    lutra run -m "$MODEL" -st --temp 0 -p "$question" -q --device npu-sim
    expect_code 0 "npu-sim: $question"
    expect_out '####' "npu-sim: $question"
    cp "$WORK/out" "$WORK/sim"
    timeout 600 "$LUTRA" run -m "$MODEL" -st --temp 0 -p "$question" -q --device npu-qemu >"$WORK/out" 2>"$WORK/err" </dev/null
    rc=$?
    expect_code 0 "npu-qemu: $question"
    expect_same "$WORK/out" "$WORK/sim" "npu-qemu answers as npu-sim: $question"
done 3<"$WORK/questions"

# Killed once it has begun to answer; the answer is long, so that it is not over before that on a busy machine.
lutra run -m "$MODEL" -st --temp 0 -p "$QUESTION" -q --ignore-eos -n 400
cp "$WORK/out" "$WORK/cpu"
"$LUTRA" run -m "$MODEL" -st --temp 0 -p "$QUESTION" -v --ignore-eos -n 400 --device npu-qemu >"$WORK/out" 2>"$WORK/err" </dev/null &
lutra_pid=$!
for i in $(seq 1200); do
    [ -s "$WORK/out" ] && break
    sleep 0.05
done
guest=$(cat /proc/$lutra_pid/task/*/children)
[ -n "$guest" ] || fail 'no qemu-hexagon process'
kill -9 $guest
wait $lutra_pid
rc=$?
expect_code 0 'killed mid-answer'
expect_same "$WORK/out" "$WORK/cpu" 'killed mid-answer: the answer goes on'
expect_err 'npu-qemu is lost' 'killed mid-answer: said so'
expect_err "the NPU's program ended: signal 9)" 'killed mid-answer: and why'
finish
