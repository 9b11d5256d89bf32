# SPDX-License-Identifier: MIT
# scripts/demo from its first question to its last table, with the program that was built and a few problems.
. "$(dirname "$0")/lib.sh"

LUTRA_DEMO_PROBLEMS=4 "$LUTRA_SOURCE/scripts/demo" >"$WORK/out" 2>"$WORK/err"
rc=$?
expect_code 0 'the demo'
[ "$(grep -c '^method ' "$WORK/out")" = 2 ] || fail 'a table of each model'
expect_out 'best@16' 'the small one with a checker'
expect_out 'abacus-b158: greedy' 'weights of few bits'
if ! grep -q 'without SQLite' "$WORK/out"; then
    expect_out 'From March to September the trail is open, then rain blocks it.' 'an answer from documents'
    expect_out 'trail.txt, bytes' 'its source'
fi
expect_out 'docs/SCALING.md' 'where to read on'

finish
