# SPDX-License-Identifier: MIT
# quantize, make-model, inspect, tokenize: what they write, and that a failure leaves nothing behind.
. "$(dirname "$0")/lib.sh"

for type in f16 Q8_0 q4_0 Q4_1 COPY; do
    lutra quantize "$MODEL" "$WORK/q-$type.gguf" $type
    expect_code 0 "quantize $type"
    lutra run -m "$WORK/q-$type.gguf" -st --temp 0 -n 40 -p "$QUESTION" -q
    expect_code 0 "run $type"
done
lutra run -m "$WORK/q-Q8_0.gguf" -st --temp 0 -p "$QUESTION" -q
expect_out '#### 84' 'the answer of the Q8_0 file'
[ "$(stat -c %s "$WORK/q-q4_0.gguf")" -lt "$(stat -c %s "$WORK/q-Q8_0.gguf")" ] || fail 'Q4_0 is not smaller than Q8_0'
lutra inspect "$WORK/q-Q8_0.gguf"
expect_out 'Q8_0' 'types of the new file'

lutra quantize --dry-run "$MODEL" q5_0 --tensor-type 'blk\.[01]\.ffn_down=q8_0' --tensor-type ffn_down=F16
expect_code 0 'dry run'
expect_out 'blk.1.ffn_down.weight: F16 -> Q8_0' 'the first expression'
expect_out 'blk.2.ffn_down.weight: F16 -> F16' 'the second'
expect_out 'blk.0.attn_q.weight: F16 -> Q5_0' 'the mix'

# A pattern that decides nothing: of no tensor, of a vector, behind one that takes all of its own, beside COPY.
for way in 'q8_0 blk.9=q4_0' 'q8_0 attn_norm=q4_0' 'q8_0 attn_q=q4_0 blk.0.attn_q=q5_0' 'copy attn_q=q4_0'; do
    set -- $way
    last=${way##* }
    lutra quantize "$MODEL" "$WORK/unused.gguf" $(printf -- '--tensor-type %s ' "${@:2}") $1
    expect_code 0 "a pattern without effect, $way"
    expect_err "warning: tensor type: '${last%=*}' decides nothing" "a pattern without effect, $way"
    [ "$(grep -c 'decides nothing' "$WORK/err")" = 1 ] || fail "patterns with effect are warned of, $way"
done

# Whole or not at all: no new file, and an old one stays as it was.
echo precious >"$WORK/old.gguf"
mkdir "$WORK/empty"
lutra quantize "$MODEL" "$WORK/empty/new.gguf" Q9_9
expect_code 1 'unknown type'
expect_err Q9_9 'unknown type'
head -c 1500000 "$MODEL" >"$WORK/cut.gguf"
lutra quantize "$WORK/cut.gguf" "$WORK/empty/new.gguf" Q8_0
expect_code 1 'input cut short'
lutra quantize "$WORK/cut.gguf" "$WORK/old.gguf" Q8_0
expect_code 1 'input cut short'
[ "$(cat "$WORK/old.gguf")" = precious ] || fail 'a failed quantize touched the old file'
lutra quantize "$MODEL" "$WORK/empty/new.gguf" iq1_m
expect_code 1 'quantize to a type that is only read'
expect_err 'IQ1_M cannot be written, it can be read' 'it is named'
lutra quantize "$MODEL" "$WORK/empty/new.gguf" Q4_0 --tensor-type 'attn_v=iq1_s'
expect_err 'would become IQ1_S, which can be read, not written' 'so is that of a tensor'
lutra quantize "$MODEL" "$WORK/empty/new.gguf" Q4_0 --tensor-type 'attn_v=q4_k_m'
expect_code 1 'a mix is no type'
expect_err "'q4_k_m'" 'a mix is no type'
lutra quantize "$MODEL" --dry-run Q4_0 --tensor-type '(attn_v=q8_0'
expect_code 1 'no expression'
expect_err "'(attn_v' is no regular expression" 'no expression'
lutra quantize "$MODEL" "$WORK/no/such/folder.gguf" Q8_0
expect_code 1 'no such folder'
(
    ulimit -f 300 # 300 KiB: the disk is full in the middle
    trap '' XFSZ
    "$LUTRA" quantize "$MODEL" "$WORK/empty/new.gguf" Q8_0 >"$WORK/out" 2>"$WORK/err"
)
rc=$?
expect_code 1 'disk full'
lutra make-model -o "$WORK/empty/new.gguf" --shape no-such-shape
expect_code 1 'unknown shape'
[ -z "$(ls -A "$WORK/empty")" ] || fail "left behind: $(ls -A "$WORK/empty")"
lutra quantize "$WORK/q-q4_0.gguf" "$WORK/again.gguf" Q8_0
expect_code 1 'requantize without leave'
lutra quantize --allow-requantize "$WORK/q-q4_0.gguf" "$WORK/again.gguf" Q8_0
expect_code 0 'requantize with leave'

lutra make-model --list
expect_out qwen2.5-0.5b 'shapes'
lutra make-model -o "$WORK/tiny.gguf" --shape qwen2.5-0.5b --type Q4_0 --layers 1
expect_code 0 make-model
lutra run -m "$WORK/tiny.gguf" -no-cnv -n 3 -p 'hello' -q -c 64
expect_code 0 'run a made model'
lutra make-model -o "$WORK/tiny2.gguf" --shape qwen2.5-0.5b --type Q4_0 --layers 1
expect_same "$WORK/tiny.gguf" "$WORK/tiny2.gguf" 'equal seeds give equal files'
rm -f "$WORK"/tiny*.gguf
lutra make-model -o "$WORK/groups" --shape tiny-qwen2 --type W2 --group-size 64 --asymmetric
expect_code 0 'make-model of groups'
lutra run -m "$WORK/groups" -no-cnv -n 3 -p 'hello' -q -c 64
expect_code 0 'run a made folder'
lutra make-model -o "$WORK/groups8" --shape tiny-qwen2 --type Q4_0 --group-size 64
expect_code 1 'groups of a type that has none'
[ -e "$WORK/groups8" ] && fail 'a refused folder is there'

lutra imatrix -m "$MODEL" -p "$QUESTION $QUESTION" -c 16 --chunks 2 -o "$WORK/im.gguf"
expect_code 0 imatrix
lutra inspect "$WORK/im.gguf" --kv imatrix.chunk_count
[ "$(cat "$WORK/out")" = 2 ] || fail 'chunks of the imatrix'
lutra quantize "$MODEL" "$WORK/w.gguf" Q4_0 --imatrix "$WORK/im.gguf"
expect_code 0 'quantize --imatrix'
lutra inspect "$WORK/w.gguf" --kv quantize.imatrix.entries_count
[ "$(cat "$WORK/out")" = 28 ] || fail 'entries of the imatrix'
head -c 5000 "$WORK/im.gguf" >"$WORK/cut.im"
shared=$LUTRA_SOURCE/../shared/cases
if [ -f "$shared/imatrix-other-names.gguf" ]; then
    other=${MODEL%-1m*}-3m-f16.gguf
    lutra quantize "$other" "$WORK/empty/new.gguf" Q4_0 --imatrix "$shared/imatrix-other-names.gguf"
    expect_code 1 'names of another model'
    expect_err 'imatrix-other-names.gguf: none of its 28 entries' 'names of another model'
    lutra quantize "$other" "$WORK/w3.gguf" Q4_0 --imatrix "$shared/imatrix-layer-missing.gguf"
    expect_code 0 'a layer is missing'
    expect_err 'no entry for 7 of 28 matrices' 'a layer is missing'
    expect_err 'blk.1.ffn_down.weight' 'a layer is missing: its matrices'
fi
lutra quantize "$MODEL" "$WORK/empty/new.gguf" Q4_0 --imatrix "$WORK/cut.im"
expect_code 1 'an imatrix cut short'
expect_err cut.im 'an imatrix cut short'
for i in 1 2 3 4 5 6 7 8 9; do printf '%s ' "$QUESTION"; done >"$WORK/calibration"
lutra quantize "$MODEL" "$WORK/c.gguf" Q4_0 --calibrate "$WORK/calibration" --calibrate-ctx 64
expect_code 0 'quantize --calibrate'
lutra run -m "$WORK/c.gguf" -st --temp 0 -p "$QUESTION" -q
expect_out '#### 84' 'the answer of the calibrated file'
cmp -s "$WORK/c.gguf" "$WORK/w.gguf" && fail 'calibration changed nothing'
big=$(dirname "$MODEL")/abacus-3m-f16.gguf # its rows are blocks of 256
lutra quantize "$big" "$WORK/iq.gguf" IQ3_M
expect_code 0 'quantize IQ3_M'
lutra quantize "$big" "$WORK/iq-c.gguf" IQ3_M --calibrate "$WORK/calibration" --calibrate-ctx 64
expect_code 0 'quantize IQ3_M --calibrate'
expect_err 'blk.3.ffn_up.weight: errors in codebooks are not handed on' 'no GPTQ into a codebook'
cmp -s "$WORK/iq.gguf" "$WORK/iq-c.gguf" && fail 'calibration changed nothing'
lutra run -m "$WORK/iq-c.gguf" -st --temp 0 -p "$QUESTION" -q
expect_out '#### 84' 'the answer of the IQ3_M file'
# Killed in the middle of a matrix that is being kept: no model; the next run takes the whole ones and ends alike.
(
    ulimit -f 300
    "$LUTRA" quantize "$MODEL" "$WORK/r.gguf" Q4_0 --calibrate "$WORK/calibration" --calibrate-ctx 64 --resume
) >/dev/null 2>&1
[ -e "$WORK/r.gguf" ] && fail 'a killed calibration left a model'
(
    ulimit -f 300
    "$LUTRA" quantize "$MODEL" "$WORK/empty/new.gguf" Q4_0 --calibrate "$WORK/calibration" --calibrate-ctx 64
) >/dev/null 2>&1
[ -z "$(ls -A "$WORK/empty")" ] || fail 'a killed calibration left something'
lutra quantize "$MODEL" "$WORK/r.gguf" Q4_1 --calibrate "$WORK/calibration" --calibrate-ctx 64 --resume
expect_code 1 'resumed with another type'
expect_err 'r.gguf.calibrated: kept by a run with another model, text, types' 'resumed with another type'
lutra quantize "$MODEL" "$WORK/r.gguf" Q4_0 --calibrate "$WORK/calibration" --calibrate-ctx 64 --resume
expect_code 0 'resumed'
grep -q 'r.gguf: [1-9][0-9]* finished matrices' "$WORK/err" || fail 'it began anew'
expect_same "$WORK/r.gguf" "$WORK/c.gguf" 'resumed'
[ -e "$WORK/r.gguf.calibrated" ] && fail 'what was kept is still there'
lutra quantize "$MODEL" "$WORK/b.gguf" --budget 5 --budget-text "$WORK/calibration" --calibrate-ctx 64
expect_code 0 'quantize --budget'
expect_err 'budget: a divergence of 0.0' 'quantize --budget'
lutra inspect "$WORK/b.gguf" --tensors
[ "$(grep -c ' tensors, ' "$WORK/out")" -ge 3 ] || fail 'a budget between two types has both, and F32'
lutra quantize "$MODEL" "$WORK/q5.gguf" Q5_0 --pure
[ "$(stat -c %s "$WORK/b.gguf")" -lt "$(stat -c %s "$WORK/q5.gguf")" ] || fail '5 bits are more than 5.5'
lutra quantize "$MODEL" "$WORK/b.gguf" --budget 6 --budget-types Q8_0,Q4_0 --budget-text "$WORK/calibration" --calibrate-ctx 64
expect_code 0 'quantize --budget-types'
lutra inspect "$WORK/b.gguf" --tensors
for type in Q4_0 Q8_0; do grep -q " $type " "$WORK/out" || fail "a budget between the two types has no $type"; done
grep -qE ' (Q4_1|Q5_0|Q5_1|IQ4_NL) ' "$WORK/out" && fail 'a budget chose what it was not given'
for wrong in "Q4_K,Q9:type 'Q9' is not known" 'IQ1_S:IQ1_S cannot be written' 'Q8_0,F16:F16 cannot be chosen' \
    'q4_0,Q4_0:type Q4_0 is named a second time' "Q4_0,:type '' is not known"; do
    lutra quantize "$MODEL" "$WORK/empty/new.gguf" --budget 5 --budget-types "${wrong%%:*}" --budget-text "$WORK/calibration"
    expect_code 1 "--budget-types ${wrong%%:*}"
    expect_err "budget: ${wrong#*:}" "--budget-types ${wrong%%:*}"
done
lutra quantize "$MODEL" "$WORK/empty/new.gguf" Q4_0 --budget-types Q4_0
expect_err 'types of a budget, and no budget' 'types without a budget'
# A folder's matrices are computed when they are needed: a budget sees in them what it sees in a file of the same values.
FOLDER=$LUTRA_SOURCE/models/abacus-w2
lutra quantize "$FOLDER" "$WORK/copy.gguf" COPY
for source in "$WORK/copy.gguf" "$FOLDER"; do
    lutra quantize "$source" "$WORK/b.gguf" --allow-requantize --budget 4 --budget-text "$WORK/calibration" --calibrate-ctx 64
    grep -o 'budget: a divergence of .*' "$WORK/err" >>"$WORK/divergences"
done
[ "$(uniq "$WORK/divergences" | wc -l)" = 1 ] || fail 'the budget of a folder and of its file'
lutra quantize "$MODEL" "$WORK/empty/new.gguf" --budget 4 --budget-text "$WORK/calibration" --calibrate-ctx 64
expect_err 'the least is 4.5' 'a budget too small'
lutra quantize "$MODEL" "$WORK/empty/new.gguf" --budget 5
expect_err 'there is none' 'a budget without a text'
lutra quantize "$MODEL" "$WORK/empty/new.gguf" Q4_0 --budget 5 --budget-text "$WORK/calibration"
expect_code 2 'a budget and a type'
expect_err "so 'Q4_0' cannot" 'a budget and a type'
lutra quantize "$MODEL" "$WORK/empty/new.gguf" Q4_0 --budget-text "$WORK/calibration"
expect_err 'and no budget' 'a text to measure over without a budget'
lutra quantize "$MODEL" "$WORK/empty/new.gguf" Q4_0 --resume
expect_err 'only a calibration can be resumed' 'nothing to resume'
lutra quantize "$MODEL" "$WORK/empty/new.gguf" Q4_0 --calibrate "$WORK/calibration" --calibrate-ctx 4096
expect_code 1 'a text of no chunk'
expect_err 'make no chunk of 4096' 'a text of no chunk'
lutra quantize "$WORK/w.gguf" "$WORK/empty/new.gguf" Q4_1 --calibrate "$WORK/calibration" --calibrate-ctx 4096
expect_code 1 'quantized already'
expect_err 'quantizing it again' 'quantized already: refused before it is calibrated'
lutra quantize "$MODEL" "$WORK/empty/new" W4
expect_err 'W4 is written by a calibration' 'groups without a text'
lutra quantize "$MODEL" "$WORK/empty/new" W4 --calibrate "$WORK/calibration" --calibrate-ctx 64
expect_err 'written from a Hugging Face folder' 'groups from a GGUF file'
lutra quantize "$MODEL" "$WORK/empty/new" W4 --calibrate "$WORK/calibration" --group-size 48
expect_err 'groups of 48' 'groups of another size'
lutra quantize "$MODEL" "$WORK/empty/new" Q4_0 --asymmetric
expect_err 'only W2, W3 and W4' 'groups of blocks'
lutra imatrix -m "$MODEL" -p short -c 512 -o "$WORK/empty/im.gguf"
expect_code 1 'an imatrix of no chunk'
lutra imatrix -m "$MODEL" -p "$QUESTION" -c 16 -o "$WORK/no/such/im.dat" --output-format dat
expect_code 1 'imatrix without its folder'
[ -z "$(ls -A "$WORK/empty")" ] || fail "left behind: $(ls -A "$WORK/empty")"

lutra inspect "$MODEL" --json
expect_code 0 inspect
expect_json "$WORK/out" 'd = json.load(sys.stdin)
assert d["metadata"]["general.architecture"] == "qwen2", d["metadata"]
assert len(d["tensors"]) == 50 and d["memory"]["weights"] > 0' 'inspect --json'
lutra inspect "$MODEL" --kv qwen2.block_count
[ "$(cat "$WORK/out")" = 4 ] || fail 'inspect --kv'
lutra inspect "$MODEL" --kv no.such.key
expect_code 1 'inspect of a missing key'
lutra inspect "$MODEL" --tensors
expect_out 'blk.3.ffn_down.weight' 'inspect --tensors'

lutra tokenize -m "$MODEL" -p 'Tom has 5 pens.' --ids
expect_code 0 tokenize
expect_json "$WORK/out" 'assert len(json.load(sys.stdin)) == 6' 'tokenize --ids'
lutra tokenize -m "$MODEL" -p '<|im_end|>' --show-count
expect_out 'tokens: 1' 'special token'
lutra tokenize -m "$MODEL" -p '<|im_end|>' --show-count --no-parse-special
! grep -q 'tokens: 1$' "$WORK/out" || fail '--no-parse-special'
printf 'Tom has 5 pens.' | "$LUTRA" tokenize -m "$MODEL" --stdin >"$WORK/stdin" 2>"$WORK/err"
lutra tokenize -m "$MODEL" -p 'Tom has 5 pens.'
expect_same "$WORK/out" "$WORK/stdin" 'tokenize --stdin'
lutra tokenize -m "$MODEL"
expect_code 2 'tokenize without a text'
finish
