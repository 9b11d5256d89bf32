# SPDX-License-Identifier: MIT
# lutra run: answers, chat, text mode, pipes and Ctrl-C.
. "$(dirname "$0")/lib.sh"

lutra run -m "$MODEL" -st --temp 0 -p "$QUESTION"
expect_code 0 'greedy answer'
expect_out '42 * 2 = 84.' 'greedy answer'
expect_out '#### 84' 'greedy answer'
expect_err 'tokens per second' 'figures'
cp "$WORK/out" "$WORK/greedy"
lutra run -m "$MODEL" -st --temp 0 -p "$QUESTION" -q
expect_quiet '--quiet'
expect_same "$WORK/out" "$WORK/greedy" 'the same answer again'
lutra run -m "$MODEL" -st --temp 0 -p "$QUESTION" -q -t 1 -b 7
expect_same "$WORK/out" "$WORK/greedy" 'the same answer with one thread and small batches'
printf %s "$QUESTION" >"$WORK/prompt"
lutra run -m "$MODEL" -st --temp 0 -f "$WORK/prompt" --no-perf
expect_same "$WORK/out" "$WORK/greedy" 'the prompt from a file'
expect_quiet '--no-perf'
LUTRA_ARG_MODEL=$MODEL LUTRA_ARG_PERF=off lutra run -st --temp 0 -p "$QUESTION"
expect_same "$WORK/out" "$WORK/greedy" 'settings from the environment'
expect_quiet 'LUTRA_ARG_PERF'

# Speculation changes the number of passes alone; what is not built is refused.
lutra run -m "$MODEL" -st --temp 0.5 -s 3 -p "$QUESTION" --ignore-eos -n 100 -q
cp "$WORK/out" "$WORK/plain"
for type in ngram-simple suffix suffix,ngram-simple; do
    lutra run -m "$MODEL" -st --temp 0.5 -s 3 -p "$QUESTION" --ignore-eos -n 100 --spec-type $type
    expect_same "$WORK/out" "$WORK/plain" "--spec-type $type"
    expect_err 'tokens per pass' "--spec-type $type"
done
lutra run -m "$MODEL" -p "$QUESTION" --spec-type eagle
expect_code 1 '--spec-type eagle'
expect_err "'eagle' is not built" '--spec-type eagle'
expect_err 'and store where' '--spec-type eagle: what is'
refused() { # option, what to use instead
    lutra run -m "$MODEL" -p "$QUESTION" --spec-type ngram-simple "$1" 3
    expect_code 2 "$1"
    expect_err "$1" "$1"
    expect_err "$2" "$1"
}
for of in '' simple-; do
    refused --spec-ngram-${of}size-m --draft-max
    refused --spec-ngram-${of}min-hits --draft-p-min
done
refused --spec-ngram-simple-size-n --spec-ngram-size-n
for of in mod-n-min mod-n-max mod-n-match map-k-size-n map-k-size-m map-k-min-hits map-k4v-min-hits; do
    refused --spec-ngram-$of '--spec-type suffix'
done

for seed in 1 1 2 3 4; do
    lutra run -m "$MODEL" -st --temp 2 --top-k 0 --top-p 1 --min-p 0 -s $seed -p "$QUESTION" -q -n 40
    cp "$WORK/out" "$WORK/sample$seed$(test -e "$WORK/sample$seed" && echo again)"
done
expect_same "$WORK/sample1" "$WORK/sample1again" 'equal seeds'
cmp -s "$WORK/sample1" "$WORK/sample2" && cmp -s "$WORK/sample1" "$WORK/sample3" && cmp -s "$WORK/sample1" "$WORK/sample4" &&
    fail 'four seeds give one text'

# A pipe is read behind -p, with -st, too, and it is said: a loop over lines of its own input would lose them.
echo 'How many cards does Sam have?' | timeout 120 "$LUTRA" run -m "$MODEL" -st -t 1 -p 'Sam has 42 cards.' -n 4 >"$WORK/out" 2>"$WORK/err"
expect_err '29 bytes of standard input follow the prompt' 'a pipe behind -p'
expect_err ', 1 thread' 'one thread'
! grep -q '1 threads' "$WORK/err" || fail 'one thread is no threads'
echo 'more' | timeout 120 "$LUTRA" run -m "$MODEL" -st -q -p 'Sam has 42 cards.' -n 4 >"$WORK/out" 2>"$WORK/err"
expect_quiet 'a pipe behind -p, -q'
lutra run -m "$MODEL" -st -p 'Sam has 42 cards.' -n 4
! grep -q 'follow the prompt' "$WORK/err" || fail 'nothing was read'

# Conversation on standard input: two turns, commands, a continued line.
printf '%s\n/nonsense\n/clear\nSam has 42 cards. \\\nThen the number of cards doubles. How many?\n/exit\nnot read\n' "$QUESTION" |
    timeout 60 "$LUTRA" run -i -m "$MODEL" --temp 0 >"$WORK/out" 2>"$WORK/err"
rc=$?
expect_code 0 'conversation'
[ "$(grep -c '^####' "$WORK/out")" -eq 2 ] || fail 'conversation: two answers'
expect_err '/nonsense' 'conversation'
cp "$WORK/out" "$WORK/talk"
printf '%s\n/regen\n' "$QUESTION" | timeout 60 "$LUTRA" run -i -m "$MODEL" --temp 0 -q >"$WORK/out" 2>"$WORK/err"
rc=$?
cat "$WORK/greedy" "$WORK/greedy" >"$WORK/twice"
expect_same "$WORK/out" "$WORK/twice" '/regen'

# A chat of 16 turns keeps its past: beside the tokens that are new it evaluates a block of 64 a turn at most.
for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    echo "Tom has $turn apples. Tom buys $((turn + 3)) more. How many apples does Tom have?"
done >"$WORK/turns"
{ cat "$WORK/turns" && echo "/save $WORK/talk.json"; } | timeout 60 "$LUTRA" run -i -m "$MODEL" -s 1 >"$WORK/out" 2>"$WORK/err"
rc=$?
expect_code 0 'a chat of 16 turns'
rows=$(sed -n 's/^rows: *\([0-9]*\) valid.*/\1/p' "$WORK/err")
printf '%s\n' "/load $WORK/talk.json" 'And now?' | timeout 60 "$LUTRA" run -i -m "$MODEL" -n 1 >"$WORK/out" 2>"$WORK/err2"
new=$(sed -n 's/^prompt: .*\/ *\([0-9]*\) tokens.*/\1/p' "$WORK/err2") # the whole conversation, and a question more
[ "${rows:-0}" -gt 0 ] && [ "$rows" -le $((${new:-0} + 16 * 64)) ] || fail "16 turns: $rows rows for $new tokens"

# A pipe is one message, behind that of -p: not a turn per line.
printf 'Sam has 42 cards.\nThen the number of cards doubles.\n' >"$WORK/lines"
one_message() { timeout 120 "$LUTRA" run -m "$MODEL" --temp 0 -q "$@" >"$WORK/out" 2>"$WORK/err"; rc=$?; }
asked() { lutra run -m "$MODEL" -st --temp 0 -q -p "$1"; cp "$WORK/out" "$WORK/asked"; }
asked 'Sam has 42 cards.\nThen the number of cards doubles.'
one_message <"$WORK/lines"
expect_code 0 'a file as the message'
expect_same "$WORK/out" "$WORK/asked" 'a file as the message'
cat "$WORK/lines" | one_message
expect_same "$WORK/out" "$WORK/asked" 'a pipe as the message'
one_message -f - <"$WORK/lines"
[ -s "$WORK/out" ] || fail '-f -'
asked 'How many?\n\nSam has 42 cards.\nThen the number of cards doubles.'
for more in '' -st; do
    one_message -p 'How many?' $more <"$WORK/lines"
    expect_same "$WORK/out" "$WORK/asked" "-p and a file $more"
done
printf '/exit\n' | one_message
[ -s "$WORK/out" ] || fail 'a command in a pipe is text'
one_message -no-cnv -p 'Sam has' --no-display-prompt </dev/null
cp "$WORK/out" "$WORK/asked"
printf 'Sam has' | one_message -no-cnv --no-display-prompt
expect_same "$WORK/out" "$WORK/asked" 'plain text from a pipe'
seq 300000 >"$WORK/long"
one_message <"$WORK/long"
expect_code 1 'a pipe of 2 MB'
[ "$(wc -l <"$WORK/err")" -eq 1 ] || fail 'a pipe of 2 MB: one error'
mkfifo "$WORK/silent"
sleep 30 >"$WORK/silent" & # as a script may inherit it
sleeper=$!
one_message -st -p 'How many?' -n 4 <"$WORK/silent"
expect_code 0 'a silent pipe and -st'
kill $sleeper

# A reply that is cut inside its thinking says so, also with -q; so does one whose thoughts never end.
printf '%s' "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'].split('</think>')[-1] + '<|im_end|>\n' }}\
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}" >"$WORK/opens.jinja"
for more in -q '--no-perf' '-q -st' '-q --vote 2'; do
    lutra run -m "$MODEL" --chat-template-file "$WORK/opens.jinja" -p "$QUESTION" -n 6 --temp 0 $more
    expect_code 1 "cut inside its thinking, $more"
    expect_err 'the reply ended inside its thinking, after ' "cut inside its thinking, $more"
    [ ! -s "$WORK/out" ] || [ -z "$(tr -d '\n' <"$WORK/out")" ] || fail "cut inside its thinking, $more: an answer"
done
lutra run -m "$MODEL" --chat-template-file "$WORK/opens.jinja" -p "$QUESTION" -n 6 --temp 0 --reasoning-format none -q
expect_code 0 'no thinking is told apart'
lutra run -m "$MODEL" -p "$QUESTION" -n 6 --temp 0 -q
expect_code 0 'an answer that is cut is an answer'

# Plain text: the prompt is repeated, -n counts tokens, -r stops.
lutra run -m "$MODEL" -no-cnv --temp 0 -n 8 -p '<|im_start|>user\n'"$QUESTION"'<|im_end|>\n<|im_start|>assistant\n' -q
expect_code 0 'text mode'
expect_out 'Sam has 42 cards' 'text mode repeats the prompt'
lutra run -m "$MODEL" -no-cnv --temp 0 -p '<|im_start|>user\n'"$QUESTION"'<|im_end|>\n<|im_start|>assistant\n' -q --no-display-prompt
expect_same "$WORK/out" "$WORK/greedy" 'text mode with the template written out'
lutra run -m "$MODEL" -st --temp 0 -p "$QUESTION" -q -r '####'
expect_out '42 * 2 = 84.' 'reverse prompt'
! grep -q '#' "$WORK/out" || fail 'reverse prompt: the stop text is shown'
lutra run -m "$MODEL" -no-cnv -p ''
expect_code 2 'empty prompt'
lutra run -m "$MODEL" -st -p "$QUESTION" --chat-template '{{ nonsense( }}'
expect_code 1 'bad template'
lutra run -m "$MODEL" -st -p "$QUESTION" --chat-template tool_use
expect_code 2 'a template that the file does not have'
expect_err "'tool_use' is no Jinja" 'a template that the file does not have'
# Forbidding a token of the answer changes it.
id=$("$LUTRA" tokenize -m "$MODEL" --ids -p '8' | tr -d '[]')
lutra run -m "$MODEL" -st --temp 0 -p "$QUESTION" -q -l "$id-inf"
expect_code 0 'logit bias'
! grep -q 8 "$WORK/out" || fail 'logit bias: a forbidden token appears'

lutra run -m "$MODEL" -st --temp 0 -c 32 -p "$QUESTION" --ignore-eos
[ "$rc" -eq 0 ] || [ "$rc" -eq 1 ] || fail 'context full'
expect_err 'context' 'context full'
lutra run -m "$MODEL" -st -n 1 -c 200000 -p "$QUESTION"
expect_err 'warning: a context of 200000 tokens' 'more context than the model was trained with'
lutra run -m "$MODEL" -st -n 1 -p "$QUESTION"
! grep -q warning "$WORK/err" || fail 'no warning at the context it was trained with'
lutra run "$MODEL" -st --temp 0 -p "$QUESTION" -q
expect_same "$WORK/out" "$WORK/greedy" 'a model without -m'
lutra run "$MODEL" -m "$MODEL" -st -p "$QUESTION"
expect_code 2 'two models'
lutra run -m "$MODEL" -st -c 8 -p "$QUESTION"
expect_code 1 'prompt longer than the context'
expect_err 'context' 'prompt longer than the context'

# A weight that is not a number makes every logit one: an error, never an arbitrary token.
"$LUTRA" inspect "$MODEL" --json | python3 -c 'import json, struct, sys
model, out = sys.argv[1:]
blob = bytearray(open(model, "rb").read())
at = blob.find(b"output_norm.weight") + len("output_norm.weight")
(n_dims,) = struct.unpack_from("<I", blob, at)
(offset,) = struct.unpack_from("<Q", blob, at + 4 + 8 * n_dims + 4)
data = len(blob) - sum((t["bytes"] + 31) // 32 * 32 for t in json.load(sys.stdin)["tensors"])
struct.pack_into("<f", blob, data + offset, float("nan"))
open(out, "wb").write(blob)' "$MODEL" "$WORK/nan.gguf"
lutra run -m "$WORK/nan.gguf" -st -p "$QUESTION"
expect_code 1 'logits that are not numbers'
expect_err 'leave no token' 'logits that are not numbers'
head -n 2 "$PROBLEMS" >"$WORK/two.jsonl"
lutra eval -m "$WORK/nan.gguf" -f "$WORK/two.jsonl" --n 2
expect_code 1 'evaluation of logits that are not numbers'

# A reader that leaves early ends the program quietly.
timeout 20 "$LUTRA" run -m "$MODEL" -st --temp 0 --ignore-eos -q -p "$QUESTION" 2>"$WORK/err" </dev/null | head -c 5 >"$WORK/out"
rc=${PIPESTATUS[0]}
[ "$rc" -eq 141 ] || [ "$rc" -eq 0 ] || fail 'closed pipe'
expect_quiet 'closed pipe'

# Reasoning: a model whose likeliest token opens it, and whose next one ends it and answers.
"$LUTRA" make-model -o "$WORK/plain.gguf" --shape tiny-qwen2 --type F16 -q
LC_ALL=C sed -e 's/<|filler10|>/<think>\xc4\x8a7\xc4\x8a/' -e 's/<|filler11|>/<\/think>\xc4\x8a88/' "$WORK/plain.gguf" >"$WORK/thinks.gguf"
said='{# </think> #}{{ messages[0].content }}'
think() { lutra run -m "$WORK/thinks.gguf" -p hi -st --temp 0 --frequency-penalty 300 -l 306+1000 -l 307+900 -n 2 "$@"; }
think --chat-template "$said" -q
expect_code 0 'reasoning'
printf '88\n' >"$WORK/88"
expect_same "$WORK/out" "$WORK/88" 'reasoning is no part of the answer'
expect_quiet 'reasoning with -q'
think --chat-template "$said" --no-perf
expect_err 7 'reasoning goes to stderr'
think --chat-template "$said" -q --vote 2
expect_same "$WORK/out" "$WORK/88" 'reasoning is no part of a winner'
think --chat-template "$said" -q --reasoning-format none
expect_out '<think>' 'reasoning as it comes'
think --chat-template "$said{{ '<think>\n' }}" -q -n 1 -l 307+2000
expect_same "$WORK/out" "$WORK/88" 'reasoning that the prompt opened'
think --chat-template "$said{{ '<think>\n' }}" -q -n 1 -l 307+2000 --reasoning-budget 0
expect_out '</think>' 'reasoning that is closed at once: its tag is text'
think --chat-template "$said{{ '' if enable_thinking|default(true) else raise_exception('off') }}" --reasoning-budget 0
expect_err 'off' 'the template is asked for no thinking'
budget() { lutra run -m "$WORK/thinks.gguf" -p hi -st --temp 0 -l 306+1000 -n 12 -q --reasoning-budget 2 "$@"; }
budget --chat-template "$said" # opened, 2 tokens, 7 of the tag, 2 of an answer that looks like the rest
expect_code 0 'a budget of reasoning'
printf '<think>\n7\n<think>\n7\n' >"$WORK/7"
expect_same "$WORK/out" "$WORK/7" 'a budget of reasoning'
budget --chat-template "$said" --vote 2
expect_same "$WORK/out" "$WORK/7" 'a budget of reasoning of candidates'
budget --chat-template '{{ messages[0].content }}'
expect_code 1 'a budget without tags'
expect_err 'reasoning budget of 2 tokens, but the chat template has no tags' 'a budget without tags'
printf '%s' "$said" >"$WORK/said.jinja"
printf '{"question": "hi", "answer": "88"}\n{"question": "ho", "answer": "7"}\n' >"$WORK/problems.jsonl"
for n in 1 2; do
    lutra eval -m "$WORK/thinks.gguf" -f "$WORK/problems.jsonl" --chat-template-file "$WORK/said.jinja" --methods greedy,vote@2 \
        --max-tokens $n -l 306+1000 -l 307+900 --frequency-penalty 300 -q --report "$WORK/report.json"
    expect_json "$WORK/report.json" "d = json.load(sys.stdin)
assert all(m['accuracy']['mean'] == ($n - 1) / 2 for m in d['methods']), d['methods']" "answers behind reasoning, $n tokens"
done

# Variables of the template: --reasoning, --chat-template-kwargs; a conversation keeps what was thought.
shown='{# </think> #}{{ raise_exception("V " ~ enable_thinking|default("-") ~ " " ~ reasoning_effort|default("-") ~ " " ~ a|default("-") ~ " " ~ preserve_thinking|default("-") ~ ";") }}'
shows() { want=$1; shift; lutra run -m "$WORK/thinks.gguf" -p hi -st -q --chat-template "$shown" "$@"; expect_err "V $want;" "variables: $*"; }
shows '- - - -'
shows 'True - - -' --reasoning on
shows 'False - - -' -rea off
shows 'False - - -' --reasoning-budget 0
shows 'True low - -' --reasoning low
shows 'True high 7 True' --reasoning high --reasoning-preserve --chat-template-kwargs '{"a": 7}'
shows 'False mine - -' --reasoning low --chat-template-kwargs '{"reasoning_effort": "mine", "enable_thinking": false}'
for bad in '[1]' '{"a": ' '{"messages": []}'; do
    lutra run -m "$WORK/thinks.gguf" -p hi -st -q --chat-template-kwargs "$bad"
    expect_code 2 "kwargs $bad"
    expect_err 'lutra: --chat-template-kwargs: ' "kwargs $bad"
done
lutra run -m "$WORK/thinks.gguf" -p hi -st -q -no-cnv --reasoning on
expect_err 'exclude each other' 'thinking is of a chat'
past='{# </think> #}{% if messages|length > 2 %}{{ raise_exception("P " ~ messages[1].reasoning_content|trim ~ "|" ~ messages[1].content) }}{% endif %}{{ messages[0].content }}'
printf 'one\ntwo\n' | "$LUTRA" run -m "$WORK/thinks.gguf" -i --temp 0 --frequency-penalty 300 -l 306+1000 -l 307+900 -n 2 -q \
    --chat-template "$past" >"$WORK/out" 2>"$WORK/err"
expect_err 'P 7|88' 'the template decides about earlier thinking'

# Ctrl-C.  A background job of a script ignores SIGINT unless it asks for it back, as the program does.
interrupt_after() {
    : >"$WORK/out" # or the loop sees what the last command left there
    "$LUTRA" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null &
    pid=$!
    # Before it writes it may not have asked for it yet, and the signal would be lost.
    while [ ! -s "$WORK/out" ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done
    start=$(date +%s%N)
    kill -INT $pid
    wait $pid
    rc=$?
    took=$((($(date +%s%N) - start) / 1000000))
}
interrupt_after run -m "$MODEL" -st --ignore-eos -s 1 -c 200000 -p "$QUESTION"
expect_code 130 'Ctrl-C'
[ "$took" -lt 3000 ] || fail "Ctrl-C took $took ms"
[ "$(tail -c 1 "$WORK/out" | od -An -tx1)" = ' 0a' ] || fail 'Ctrl-C: the line is left open'
finish
