#!/bin/bash
# SPDX-License-Identifier: MIT
# `lutra run` with a grammar or a JSON Schema: what comes out holds, and what cannot be read is said with its place.
. "$(dirname "$0")/lib.sh"
ask() { lutra run -m "$MODEL" -st -q -p "$QUESTION" -n 300 -s 1 "$@"; }

ask --grammar 'root ::= "The answer is " [0-9] [0-9] "."'
expect_code 0 'a grammar'
grep -qE '^The answer is [0-9]{2}\.$' "$WORK/out" || fail 'a grammar: another text'
cp "$WORK/out" "$WORK/first"
printf 'root ::= "The answer is " digit digit "."\ndigit ::= [0-9]\n' >"$WORK/g.gbnf"
ask --grammar-file "$WORK/g.gbnf"
expect_same "$WORK/out" "$WORK/first" 'a grammar from a file'

schema='{"type": "object", "properties": {"sum": {"type": "integer", "minimum": 0, "maximum": 999}, "ok": {"type": "boolean"}}, "required": ["sum", "ok"]}'
ask -j "$schema"
expect_code 0 'a schema'
expect_json "$WORK/out" 'x = json.load(sys.stdin); assert list(x) == ["sum", "ok"] and 0 <= x["sum"] <= 999 and x["ok"] in (True, False), x' 'a schema'
cp "$WORK/out" "$WORK/first"
echo "$schema" >"$WORK/s.json"
for option in -jf --json-schema-file; do
    ask "$option" "$WORK/s.json"
    expect_same "$WORK/out" "$WORK/first" "$option"
done
ask --json-schema '{"enum": ["yes", "no"]}' --vote 4
grep -qE '^"(yes|no)"$' "$WORK/out" || fail 'a vote: another text'
lutra run -m "$MODEL" -no-cnv --no-display-prompt -q -p 'Sam has' --grammar 'root ::= " " [a-z]{3} " cards."'
grep -qE '^ [a-z]{3} cards\.$' "$WORK/out" || fail 'plain text: another text'
printf 'first\nsecond\n' | "$LUTRA" run -m "$MODEL" -i -q --grammar 'root ::= "ok"' >"$WORK/out" 2>"$WORK/err"
[ "$(grep -c '^ok$' "$WORK/out")" = 2 ] || fail 'every reply of a chat is constrained'

ask --grammar 'root ::= foo'
expect_code 1 'a rule is missing'
expect_err "grammar, line 1: rule 'foo'" 'a rule is missing'
printf 'root ::= "a"\n\nroot ::= "b"\n' >"$WORK/g.gbnf"
ask --grammar-file "$WORK/g.gbnf"
expect_err "$WORK/g.gbnf: grammar, line 3" 'a rule twice'
ask -j '{"type": "object", "properties": {"a": {"not": {}}}}'
expect_code 1 'a keyword that is not built'
expect_err '#/properties/a/not' 'a keyword that is not built'
ask -j '{"type": '
expect_err 'JSON schema, line 1' 'no JSON'
ask -jf /dev/null
expect_err '/dev/null: the file is empty' 'an empty file'
ask --grammar-file "$WORK/none"
expect_err "$WORK/none" 'no such file'
ask -j '{}' --grammar 'root ::= "a"'
expect_code 2 'both'
expect_err 'exclude each other' 'both'
lutra perplexity -m "$MODEL" --grammar 'root ::= "a"' -f "$WORK/s.json"
expect_code 2 'perplexity takes no grammar'
expect_err "'lutra run' takes grammars" 'perplexity takes no grammar'
finish
