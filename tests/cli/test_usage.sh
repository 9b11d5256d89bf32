# SPDX-License-Identifier: MIT
# Help, version, completion, and what a wrong command line says.
. "$(dirname "$0")/lib.sh"

commands='run eval perplexity bench quantize imatrix import pack make-model inspect tokenize'

lutra --version
expect_code 0 version
expect_out 'lutra 0.' version
lutra --help
expect_code 0 help
for c in $commands; do expect_out "  $c " 'list of commands'; done
lutra
expect_code 2 'no command'

for c in $commands; do
    for way in "$c --help" "$c -h" "help $c"; do
        lutra $way
        expect_code 0 "$way"
        expect_out "Usage: lutra $c" "$way"
        expect_quiet "$way"
        awk 'length > 122 { exit 1 }' "$WORK/out" || fail "$way: a line is too long"
        ! grep -q ' $' "$WORK/out" || fail "$way: white space at a line's end"
    done
    lutra "$c" --no-such-option
    expect_code 2 "$c, unknown option"
    expect_err "unknown option --no-such-option" "$c, unknown option"
done
# The help shows the defaults that the parser starts from.
lutra run --help
expect_out '(default 0.8)' 'default of --temp'
lutra run --help all
expect_out '[$LUTRA_ARG_CTX_SIZE]' 'environment names'

lutra --completion-bash
expect_code 0 completion
bash -n "$WORK/out" || fail 'completion is not a bash script'
words=$(bash -c '. "$0"; COMP_WORDS=(lutra run --ctx); COMP_CWORD=2; _lutra; echo "${COMPREPLY[@]}"' "$WORK/out")
[ "$words" = --ctx-size ] || fail "completion of --ctx gives '$words'"
words=$(bash -c '. "$0"; COMP_WORDS=(lutra qu); COMP_CWORD=1; _lutra; echo "${COMPREPLY[@]}"' "$WORK/out")
[ "$words" = quantize ] || fail "completion of qu gives '$words'"

complete() { bash -c '. "$0"; shift 0; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lutra; echo "${COMPREPLY[@]}"' "$WORK/out" "$@"; }
[ "$(complete lutra run -ctk '')" = 'f16 f32 q8_0 q5_0 q4_1 q4_0' ] || fail "values of -ctk: $(complete lutra run -ctk '')"
[ "$(complete lutra run --reasoning-format d)" = deepseek ] || fail 'values of --reasoning-format'
[ "$(complete lutra rag s)" = 'search stats' ] || fail "rag's commands: $(complete lutra rag s)"
"$LUTRA" --completion-fish >"$WORK/fish" && "$LUTRA" --completion-zsh >"$WORK/zsh" || fail 'completions'
"$LUTRA" run --help all | grep -o -- '^  *-[-a-z0-9, ]*' | tr -d ',' | tr ' ' '\n' | grep '^-' | sort -u >"$WORK/options"
[ "$(wc -l <"$WORK/options")" -gt 60 ] || fail 'run --help all has too few options'
[ "$("$LUTRA" run --help | wc -l)" -lt 60 ] || fail 'run --help is not short'
"$LUTRA" run --help | grep -q 'help all' || fail 'run --help does not lead to the rest'
"$LUTRA" --man run | sed 's/\\-/-/g' >"$WORK/page"
while read -r option; do # what parses is what is described
    for file in page zsh; do grep -qF -- "$option" "$WORK/$file" || fail "$option is not in the $file"; done
    grep -qF -- " ${option##*-}" "$WORK/fish" || grep -qF -- "${option#--}" "$WORK/fish" || fail "$option is not in fish's"
done <"$WORK/options"
for shell in zsh fish; do
    ! command -v $shell >/dev/null || $shell -n "$WORK/$shell" || fail "$shell does not read its completion"
done
for c in $commands; do "$LUTRA" --man "$c" | grep -q "^.TH \"lutra-$c\" 1" || fail "man page of $c"; done

lutra rum
expect_code 2 'unknown command'
expect_err "did you mean 'run'" 'unknown command'
lutra run --modle x
expect_code 2 'misspelt option'
expect_err 'did you mean --model?' 'misspelt option'
lutra run -m
expect_code 2 'missing value'
expect_err '-m: FILE is missing' 'missing value'
lutra run -c 12x
expect_code 2 'not a number'
expect_err "'12x' is not a number" 'not a number'
lutra run --top-p 1.5
expect_code 2 'out of range'
expect_err 'from 0 to 1' 'out of range'
lutra run --temp nan
expect_code 2 'NaN'
lutra run -ctk q4_k
expect_code 2 'unknown choice'
expect_err 'f16 f32 q8_0 q5_0 q4_1 q4_0' 'unknown choice'
lutra run -l 12
expect_code 2 'bad bias'
lutra run -cnv -no-cnv -m x
expect_code 2 'both modes'
lutra run -p x
expect_code 2 'no model'
expect_err 'LUTRA_ARG_MODEL' 'no model'
lutra quantize a b
expect_code 2 'too few arguments'
expect_err "TYPE is missing, or 'b' is none" 'too few arguments'
lutra quantize "$WORK/x-f16.gguf" Q4_0
expect_code 1 'a file that is not there, and a name for OUT made of its own'
expect_err "$WORK/x-f16.gguf" 'a file that is not there'
cp "$MODEL" "$WORK/x-f16.gguf"
lutra quantize "$WORK/x-f16.gguf" q8_0
expect_code 0 'quantize IN TYPE'
expect_out "$WORK/x-Q8_0.gguf: " 'quantize IN TYPE'
lutra quantize "$WORK/x-f16.gguf" 7
expect_code 2 'quantize IN TYPE does not overwrite'
expect_err "$WORK/x-Q8_0.gguf exists" 'quantize IN TYPE does not overwrite'
lutra quantize "$WORK/x-f16.gguf" "$WORK/y.gguf" 7 2
expect_code 0 'quantize IN OUT NUMBER THREADS'
cmp -s "$WORK/x-Q8_0.gguf" "$WORK/y.gguf" || fail '7 is not Q8_0'
lutra quantize "$WORK/x-f16.gguf" 2
expect_out "$WORK/x-Q4_0.gguf" '2 is Q4_0'
lutra quantize "$WORK/x-f16.gguf" "$WORK/z.gguf" 99
expect_code 1 '99 is no type'
# A limit of a file's size is an error like a full disk, not a signal, and leaves nothing.
mkdir "$WORK/limited"
cp "$MODEL" "$WORK/limited/in.gguf"
limited() { (ulimit -f 64; timeout 120 "$LUTRA" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null); rc=$?; }
for c in "quantize $WORK/limited/in.gguf $WORK/limited/out.gguf Q8_0" "pack $WORK/limited/in.gguf" \
    "rag add --db $WORK/limited/x.db $PROBLEMS"; do
    limited $c
    grep -q 'without SQLite' "$WORK/err" && continue
    expect_code 1 "a limit of a file's size: $c"
    [ -s "$WORK/err" ] || fail "a limit of a file's size: $c: not a word"
    rm -f "$WORK/limited"/x.db*
    left=$(ls "$WORK/limited")
    [ "$left" = in.gguf ] || fail "a limit of a file's size: $c leaves $left"
done
# The model by position or with -m, in every command; other names of commands.
for c in 'bench -p 4 -n 0 -r 1 -q --no-peaks' 'tokenize -p x' "perplexity -f $LUTRA_SOURCE/LICENSE -q --chunks 1 -c 64" \
    "eval -f $PROBLEMS --limit 1 -n 4 -q" 'run -st -p x -n 1 -q' 'inspect' 'show' '-st -p x -n 1 -q' \
    "imatrix -f $LUTRA_SOURCE/LICENSE -o $WORK/i.gguf --chunks 1 -q"; do
    lutra $c -m "$MODEL"
    expect_code 0 "$c -m MODEL"
    case $c in -*) continue ;; esac
    lutra $c "$MODEL"
    expect_code 0 "$c MODEL"
done
lutra "$MODEL" -st -p x -n 1 -q
expect_code 0 'lutra MODEL'
lutra bench "$MODEL" -m "$MODEL"
expect_code 2 'the model twice'
lutra bench "$MODEL" "$MODEL"
expect_code 2 'two models'
HOME=$WORK LUTRA_MODELS=$WORK/nowhere lutra ls
expect_code 0 'lutra ls'
expect_err 'no models' 'lutra ls'
lutra pull
expect_code 2 'pull without a name'
lutra pull llama3
expect_code 2 'pull without a maker'
expect_err 'USER/REPO' 'pull without a maker'
lutra quantize "$MODEL" "$WORK/none.gguf" Q9_9 # lists the types; the help has each of them
types=$(sed -n 's/.*there are //p' "$WORK/err")
[ "$(echo $types | wc -w)" -gt 30 ] || fail 'quantize lists its types'
lutra quantize --help
for type in $types; do grep -qw "$type" "$WORK/out" || fail "quantize --help lacks $type"; done
lutra import --help
for type in Q4_0 Q5_0 Q8_0 Q2_0 TQ2_0; do expect_out "$type" 'types of import'; done
lutra bench --npu
expect_code 2 'bench without the tables of the NPU'
lutra bench --help
expect_out 'lutra sim --papers' 'where they are'
lutra inspect a b
expect_code 2 'too many arguments'
expect_err "'b'" 'too many arguments'
lutra bench -m x -p 5-1
expect_code 2 'bad list'
lutra eval -m x
expect_code 2 'no problems'

LUTRA_ARG_CTX_SIZE=12x lutra run -p x -m "$MODEL"
expect_code 2 'bad environment'
expect_err 'LUTRA_ARG_CTX_SIZE' 'bad environment'
LUTRA_ARG_MODEL=/nowhere.gguf lutra run -p x
expect_code 1 'model from the environment'
expect_err '/nowhere.gguf' 'model from the environment'
LUTRA_ARG_MODEL=/nowhere.gguf lutra tokenize -m "$MODEL" -p x
expect_code 0 'the command line wins'
LUTRA_ARG_MODEL=/nowhere.gguf lutra bench -m "$MODEL" -p 4 -n 0 -r 1 -q
expect_code 0 'the command line wins in bench'
lutra tokenize --model="$MODEL" --show_count -p x
expect_code 0 'equals sign and underscore'

for c in 'run -p x' 'tokenize -p x' 'bench' "eval -f $PROBLEMS"; do
    lutra $c -m /no/such/file
    expect_code 1 "missing file: $c"
    expect_err '/no/such/file' "missing file: $c"
    lutra $c -m "$LUTRA_SOURCE/LICENSE"
    expect_code 1 "not a model: $c"
    expect_err 'LICENSE' "not a model: $c"
done
head -c 100000 "$MODEL" >"$WORK/cut.gguf"
lutra run -m "$WORK/cut.gguf" -p x
expect_code 1 'a model cut short'
expect_err 'cut.gguf' 'a model cut short'
# What people bring instead of a GGUF file.
printf '\50\0\0\0\0\0\0\0{"t":{"dtype":"F32"}}' >"$WORK/model.safetensors"
printf 'PK\3\4rest' >"$WORK/model.bin"
printf '\200\2}q\1.' >"$WORK/model.pkl"
printf 'version https://git-lfs.github.com/spec/v1\n' >"$WORK/model.gguf"
for pair in safetensors:safetensors bin:PyTorch pkl:pickle gguf:'git lfs pull'; do
    lutra run -m "$WORK/model.${pair%%:*}" -p x
    expect_code 1 "$pair"
    expect_err "${pair#*:}" "$pair"
done
lutra run -m "$WORK" -p x
expect_code 1 'a folder'
expect_err "$WORK: a folder" 'a folder'
lutra run https://example.com/model.gguf -p x
expect_code 1 'a URL'
expect_err 'https://example.com/model.gguf: a URL, not a file' 'a URL'
# What would be ignored is refused by name, before a model is opened.
while IFS=: read -r line what; do
    lutra $line
    expect_code 2 "$line"
    expect_err "$what" "$line"
done <<'END'
run -m x --prm y:--prm has no effect without --weighted or --best-of
run -m x --vote 4 --prm y:--prm has no effect without
run -m x --vote 4 --check equation --until-pass:--check has no effect without
run -m x --best-of 4 --prm y --prune 0.5:--prune has no effect without --beam
run -m x --best-of 4 --check equation --prm y:--prm and --check exclude each other
run -m x --best-of 4 --prm y --check-time 1s:--check-time has no effect without --check
run -m x --budget 200:--budget has no effect without --vote
run -m x --vote 4 --budget 200 --auto-table y:--auto-table has no effect without --method
run -m x --draft-max 8:--draft-max has no effect without --spec-type
run -m x -md y --spec-shortlist 8:--spec-shortlist has no effect without --spec-type
run -m x --rag-passages 3:--rag-passages has no effect without --rag
run -m x -no-cnv -sys y:--system-prompt and -no-cnv exclude each other
run -m x -no-cnv --chat-template chatml:--chat-template and -no-cnv exclude each other
run -m x --hf-file y:--hf-file has no effect without -hf
eval -m x -f y --methods greedy --n 4:--n and --methods exclude each other
eval -m x -f y --keep-texts:--keep-texts has no effect without --report
eval -m x -f y --spec-mode forced:--spec-mode has no effect without --spec
eval -m x --spec y --methods greedy:--spec and --methods exclude each other
eval -m x --spec y --check equation:--check and --spec exclude each other
perplexity -m x -f y --winogrande-tasks 5:--winogrande-tasks has no effect without --winogrande
bench -m x -npp 8:-npp has no effect without -npl
END
for wrong in '--methods greedy,vote@4 --prm y' '--methods vote@4 --check equation'; do
    lutra eval -m "$MODEL" -f "$PROBLEMS" $wrong
    expect_code 2 "eval $wrong"
    expect_err 'judge none of these --methods' "eval $wrong"
done
LUTRA_ARG_DRAFT_MAX=8 lutra tokenize -m "$MODEL" -p x
expect_code 0 'the environment may say more than a command needs'
LUTRA_ARG_DRAFT_MAX=8 LUTRA_ARG_CHAT_TEMPLATE=chatml lutra run -m "$MODEL" -no-cnv -p x -n 1
expect_code 0 'what the environment says is ignored where it says nothing'
mkfifo "$WORK/device"
lutra quantize "$MODEL" "$WORK/device" Q4_0
expect_code 1 'a device is not replaced'
expect_err 'not a regular file' 'a device is not replaced'
[ -p "$WORK/device" ] || fail 'a device is not replaced'
# A small file is written beside its place, too.
report="lutra eval -m $MODEL -f $PROBLEMS --limit 1 --methods greedy --report $WORK/r.json"
head -c 9999 /dev/zero >"$WORK/r.json.lutra-tmp"
$report
expect_code 0 'a temporary file of a dead writer'
expect_json "$WORK/r.json" 'json.load(sys.stdin)' 'a report over one of a dead writer'
[ -e "$WORK/r.json.lutra-tmp" ] && fail 'a temporary file is left'
flock -F "$WORK/r.json.lutra-tmp" sleep 20 &
holder=$!
while flock -n "$WORK/r.json.lutra-tmp" true; do sleep .05; done
$report
expect_code 1 'a temporary file of a living writer'
expect_err 'r.json.lutra-tmp: another program is writing' 'a temporary file of a living writer'
kill $holder
rm -f "$WORK/r.json.lutra-tmp"
ln -s "$WORK/out" "$WORK/r.json.lutra-tmp"
$report
expect_code 1 'a link in the place of the temporary file'
lutra quantize "$MODEL" "$WORK/out.gguf" Q9
expect_err 'MXFP4' 'types are listed'
lutra bench -m "$MODEL" -p 1 -n 0 -r 1 -t 1000
expect_err 'warning: 1000 threads' 'too many threads'
lutra inspect "$LUTRA_SOURCE"
expect_code 1 'a folder'

lutra --help
"$LUTRA" --help >/dev/full 2>"$WORK/err"
rc=$?
expect_code 1 'a full disk'
finish
