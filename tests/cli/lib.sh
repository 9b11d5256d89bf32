# SPDX-License-Identifier: MIT
# Sourced by every test: a folder of its own, and checks that say what they saw.
set -u
: "${LUTRA:?path of the program}" "${LUTRA_SOURCE:?path of the source folder}"
[ -x "$LUTRA" ] || { echo "$LUTRA cannot be run"; exit 1; }
unset "${!LUTRA_ARG_@}"
MODEL=$LUTRA_SOURCE/models/abacus-1m-f16.gguf
PRM=$LUTRA_SOURCE/models/abacus-xs-prm-token-f16.gguf # of the same vocabulary
PROBLEMS=$LUTRA_SOURCE/models/abacus-test.jsonl
QUESTION='Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have in the end?'
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
failures=0
rc=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
    echo "  exit code: $rc"
    sed 's/^/  stdout: /' "$WORK/out" | tail -n 12
    sed 's/^/  stderr: /' "$WORK/err" | tail -n 12
}

# Runs lutra; stdout, stderr and exit code are looked at by the checks below.
lutra() {
    timeout 120 "$LUTRA" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
    rc=$?
}

expect_code() { [ "$rc" -eq "$1" ] || fail "$2: exit code $rc instead of $1"; }
expect_out() { grep -qF -- "$1" "$WORK/out" || fail "$2: '$1' is not on stdout"; }
expect_err() { grep -qF -- "$1" "$WORK/err" || fail "$2: '$1' is not on stderr"; }
expect_quiet() { [ ! -s "$WORK/err" ] || fail "$1: stderr is not empty"; }
expect_same() { cmp -s "$1" "$2" || { fail "$3: files differ"; diff "$1" "$2" | head -n 5; }; }
expect_json() { python3 -c "import json,sys
$2" <"$1" >"$WORK/python" 2>&1 || { fail "$3"; sed 's/^/  python: /' "$WORK/python"; }; }

finish() {
    [ "$failures" -eq 0 ] && echo "all checks passed"
    [ "$failures" -eq 0 ]
    exit
}
