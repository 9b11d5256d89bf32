# SPDX-License-Identifier: MIT
# lutra perplexity: the figures of llama-perplexity on the same file and text, within 0.5 % of each; and what is refused.
. "$(dirname "$0")/lib.sh"

M=$LUTRA_SOURCE/models/abacus-1m-f16.gguf
T=$WORK/text
python3 - "$LUTRA_SOURCE/models/abacus-test.jsonl" >"$T" <<'END'
import json, sys
for line in list(open(sys.argv[1], encoding="utf-8"))[:60]:
    p = json.loads(line)
    print(p["question"], *p["steps"], "#### " + str(p["answer"]), sep="\n")
END

# Recorded: llama-perplexity 0.7.0, build 11669, -c N -b N on that text.
for case in '64 14.0287' '128 18.2832'; do
    set -- $case
    lutra perplexity -m "$M" -f "$T" -c "$1" --quiet
    expect_code 0 "-c $1"
    awk -v want="$2" '{ d = $2 / want - 1; exit !(d > -0.005 && d < 0.005) }' "$WORK/out" ||
        fail "-c $1: $(cat "$WORK/out"), not $2"
done

# An NPU beside the CPU, by class of rows and hybrid: other numbers, within 0.2 %.
lutra perplexity -m "$M" -f "$T" -c 128 --chunks 4 --quiet
cpu=$(awk '{ print $2 }' "$WORK/out")
for plan in '--plan class' '-ts 1,1/0,1'; do
    lutra perplexity -m "$M" -f "$T" -c 128 --chunks 4 --quiet --device npu-sim,cpu $plan
    expect_code 0 "$plan"
    awk -v want="$cpu" '{ d = $2 / want - 1; exit !(d > -0.002 && d < 0.002 && d != 0) }' "$WORK/out" ||
        fail "$plan: $(cat "$WORK/out"), not $cpu"
done

# One pass or several, a file or standard input, some of the chunks.
lutra perplexity -m "$M" -f "$T" -c 64 --chunks 5 --quiet
expect_out ': 155 tokens of 5 chunks of 64' 'chunks'
cp "$WORK/out" "$WORK/whole"
"$LUTRA" perplexity -m "$M" -f - -c 64 --chunks 5 --quiet -b 7 <"$T" >"$WORK/out"
expect_same "$WORK/out" "$WORK/whole" 'passes of 7 rows'

# Tasks, and how many of them llama-perplexity 0.7.0 gets right in these files (F32 cache; -np 6), all and some that it draws.
python3 - "$WORK" <<'END'
# Tasks of words, the same on every machine.
import struct, sys
state = 1
def below(n):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 33) % n
words = "Sam has cards Then the number of cards doubles How many cards does Sam have in the end Lena buys 12 apples".split()
def text(n):
    return " ".join(words[below(len(words))] for _ in range(n))
folder = sys.argv[1]
with open(folder + "/hellaswag.txt", "w") as f:
    for _ in range(24):
        print(text(12), below(4), *[text(3 + below(6)) for _ in range(4)], sep="\n", file=f)
with open(folder + "/winogrande.csv", "w") as f:
    for i in range(24):
        quote = '"' if i % 5 == 0 else ""
        sentence = text(5) + (", and" if quote else "") + " _ " + text(4)
        print(i, quote + sentence + quote, text(1), text(2), 1 + below(2), sep=",", file=f)
tasks = []
for _ in range(20):
    n = 2 + below(4)
    right, texts = below(n), [text(10)] + [text(1 + below(6)) for _ in range(n)]
    spelt = [struct.pack("<I", len(t)) + t.encode() for t in texts]
    tasks.append(spelt[0] + struct.pack("<I", n) + b"".join(spelt[1:]) +
                 struct.pack(f"<{n}i", *[i == right for i in range(n)]) + struct.pack("<I", 0))
at = [4 + 4 * len(tasks) + sum(map(len, tasks[:i])) for i in range(len(tasks))]
open(folder + "/choices.bin", "wb").write(struct.pack(f"<{len(tasks) + 1}I", len(tasks), *at) + b"".join(tasks))
END
for case in 'hellaswag hellaswag.txt 400 29.1667 7 24' 'hellaswag hellaswag.txt 10 30.0000 3 10' \
    'winogrande winogrande.csv 0 37.5000 9 24' 'winogrande winogrande.csv 7 28.5714 2 7' \
    'multiple-choice choices.bin 0 45.0000 9 20' 'multiple-choice choices.bin 7 42.8571 3 7'; do
    set -- $case
    [ "$3" = 0 ] && lutra perplexity -m "$M" -f "$WORK/$2" "--$1" -ctk f32 -ctv f32 --quiet
    [ "$3" = 0 ] || lutra perplexity -m "$M" -f "$WORK/$2" "--$1" "--$1-tasks" "$3" -ctk f32 -ctv f32 --quiet
    expect_code 0 "$case"
    expect_out "accuracy $4 %" "$case"
    expect_out "$5 of $6 tasks" "$case"
done
lutra perplexity -m "$M" -f "$WORK/winogrande.csv" --winogrande -v -b 5
expect_err 'task 24: 37.5000 % -16.18' 'the last task'
for mode in hellaswag winogrande multiple-choice; do
    lutra perplexity -m "$M" -f "$T" "--$mode"
    expect_code 1 "$mode: another file"
    expect_err "$T" "$mode: another file"
done
for n in 3 100 700 1500; do
    head -c $n "$WORK/choices.bin" >"$WORK/part"
    lutra perplexity -m "$M" -f "$WORK/part" --multiple-choice
    expect_code 1 "$n bytes of the tasks"
done

# Divergence: llama-perplexity has 0.081601 from its own file, 0.081640 from the one written here.
lutra quantize "$M" "$WORK/q4.gguf" Q4_0 --pure --quiet
lutra perplexity -m "$M" -f "$T" -c 64 --kl-divergence-base "$WORK/base" -ctk f32 -ctv f32 --quiet
expect_out 'perplexity 14.03' 'a file of log-probabilities'
[ "$(stat -c %s "$WORK/base")" = 5631316 ] || fail "the file's size is $(stat -c %s "$WORK/base")"
[ ! -e "$WORK/base.part" ] || fail 'a part is left'
lutra perplexity -m "$WORK/q4.gguf" --kl-divergence --kl-divergence-base "$WORK/base" -ctk f32 -ctv f32 --quiet
expect_code 0 'divergence'
awk '/KL.*mean/ { d = $4 / 0.08164 - 1; found = 1 } /perplexity of/ { e = $5 / 13.190263 - 1 }
     END { exit !(found && d > -0.005 && d < 0.005 && e > -0.005 && e < 0.005) }' "$WORK/out" ||
    fail "divergence: $(cat "$WORK/out")"
lutra perplexity -m "$M" --kl-divergence --kl-divergence-base "$WORK/base" -ctk f32 -ctv f32 --quiet --chunks 5
expect_out '100.0000 +/- 0.0000 %' 'no divergence from itself'
head -c 100000 "$WORK/base" >"$WORK/part"
lutra perplexity -m "$M" --kl-divergence --kl-divergence-base "$WORK/part"
expect_err 'ends before its last chunk' 'a part of the file'
lutra perplexity -m "$M" --kl-divergence --kl-divergence-base "$T"
expect_err 'no file of log-probabilities' 'another file'
lutra perplexity -m "$M" -f "$T" -c 64 --kl-divergence-base "$WORK/none/base"
expect_code 1 'a folder that is not there'
lutra perplexity -m "$M" --kl-divergence
expect_code 2 'no base'
lutra perplexity -m "$M" -f "$T" --hellaswag --winogrande
expect_code 2 'two modes'

lutra perplexity -m "$M" -p 'too short' -c 64
expect_code 1 'a short text'
expect_err 'at least 128' 'a short text'
lutra perplexity -m "$M"
expect_code 2 'no text'
lutra perplexity -m "$M" -f "$WORK/none"
expect_code 1 'no file'
finish
