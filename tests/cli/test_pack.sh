# SPDX-License-Identifier: MIT
# lutra pack: the same answers from the packed copy, found beside the model or named, and left out where it does not fit.
. "$(dirname "$0")/lib.sh"

"$LUTRA" quantize "$MODEL" "$WORK/m.gguf" Q8_0 -q || exit 1
M=$WORK/m.gguf
P=$WORK/m.gguf.lutra-packed
run() { lutra run -m "$M" -st --temp 0 -n 40 -p "$QUESTION" --no-progress -v "$@"; }

run
expect_code 0 'without a packed copy'
cp "$WORK/out" "$WORK/answer"
lutra pack "$M"
expect_code 0 pack
expect_out "$P" 'the new file is named'
[ -s "$P" ] || fail 'no file beside the model'
run
expect_err "$P: 29 of 29 matrices mapped from it" 'found beside the model'
expect_same "$WORK/out" "$WORK/answer" 'the same answer from the packed copy'
run --packed ''
grep -q lutra-packed "$WORK/err" && fail 'used in spite of --packed ""'
expect_same "$WORK/out" "$WORK/answer" 'the same answer without it'

lutra inspect "$P"
expect_out lutra.packed.source.bytes 'inspect shows what it was packed from'
lutra run -m "$P" -p x
expect_code 1 'a packed copy is no model'

# Damage is told, by name.
lutra pack --check "$P"
expect_code 0 'a good file'
expect_out undamaged 'a good file is told'
cp "$P" "$WORK/bad"
dd if=/dev/zero of="$WORK/bad" bs=4096 count=1 seek=$(($(stat -c %s "$P") / 8192)) conv=notrunc 2>/dev/null
lutra pack --check "$WORK/bad"
expect_code 1 'a zeroed page'
expect_err '1 of 29 tensors are damaged' 'a zeroed page is told'
lutra pack --check "$M"
expect_code 1 'a model is no packed copy'

# By name; for another device; for another layout.
mv "$P" "$WORK/elsewhere"
run --packed "$WORK/elsewhere"
expect_err "29 of 29 matrices" '--packed FILE'
lutra run -m "$M" -st --temp 0 -n 3 -p x --packed "$WORK/elsewhere" --device cpu-ref --no-progress
expect_code 0 'another layout'
expect_err 'warning: ' 'another layout is told'
expect_err '0 of 29 matrices' 'another layout is left out'
expect_err 'layout rows.1' 'the layout that is wanted is named'
run --packed "$WORK/none"
expect_code 1 'a file that was asked for is missing'
expect_err "$WORK/none: No such file" 'it is named'
lutra pack "$M" -o "$WORK/ref" --device cpu-ref
expect_code 0 'pack for cpu-ref'
lutra run -m "$M" -st --temp 0 -n 3 -p x --packed "$WORK/ref" --device cpu-ref -v
expect_err '29 of 29 matrices' 'cpu-ref uses its own'

# Stale, cut short, changed: told, and the answer is that of the model.
for size in 0 100 4096 100000; do
    head -c $size "$WORK/elsewhere" >"$WORK/cut"
    run --packed "$WORK/cut"
    expect_code 0 "cut to $size bytes"
    expect_err 'left out' "cut to $size bytes is told"
    expect_same "$WORK/out" "$WORK/answer" "cut to $size bytes"
done
touch -d '2001-01-01' "$M"
run --packed "$WORK/elsewhere"
expect_err 'modified or copied since' 'a changed model is noticed'
expect_same "$WORK/out" "$WORK/answer" 'a changed model is packed anew'

# Whole or not at all.
mkdir "$WORK/empty"
(
    ulimit -f 300 # 300 KiB: the disk is full in the middle
    trap '' XFSZ
    "$LUTRA" pack "$M" -o "$WORK/empty/new" >"$WORK/out" 2>"$WORK/err"
)
rc=$?
expect_code 1 'disk full'
lutra pack "$WORK/cut" -o "$WORK/empty/new"
expect_code 1 'no model'
lutra pack "$M" -o "$WORK/no/such/folder"
expect_code 1 'no such folder'
[ -z "$(ls -A "$WORK/empty")" ] || fail "left behind: $(ls -A "$WORK/empty")"
lutra pack
expect_code 2 'no argument'
finish
