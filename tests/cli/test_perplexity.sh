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

# One pass or several, a file or standard input, some of the chunks.
lutra perplexity -m "$M" -f "$T" -c 64 --chunks 5 --quiet
expect_out ': 155 tokens of 5 chunks of 64' 'chunks'
cp "$WORK/out" "$WORK/whole"
"$LUTRA" perplexity -m "$M" -f - -c 64 --chunks 5 --quiet -b 7 <"$T" >"$WORK/out"
expect_same "$WORK/out" "$WORK/whole" 'passes of 7 rows'

lutra perplexity -m "$M" -p 'too short' -c 64
expect_code 1 'a short text'
expect_err 'at least 128' 'a short text'
lutra perplexity -m "$M"
expect_code 2 'no text'
lutra perplexity -m "$M" -f "$WORK/none"
expect_code 1 'no file'
finish
