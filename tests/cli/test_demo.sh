# SPDX-License-Identifier: MIT
# scripts/demo from its first question to its last table, with the program that was built and a few problems.
. "$(dirname "$0")/lib.sh"

LUTRA_DEMO_PROBLEMS=4 "$LUTRA_SOURCE/scripts/demo" >"$WORK/out" 2>"$WORK/err"
rc=$?
expect_code 0 'the demo'
# The problem's target is none of its numbers; the small model alone is wrong there, and it is said why.
python3 - "$WORK/out" >"$WORK/python" 2>&1 <<'END' || { fail 'the problem and its answers'; cat "$WORK/python"; }
import re, sys
text = open(sys.argv[1]).read()
numbers, target = re.search(r"^Use (.*) to make (\d+)\.", text, re.M).groups()
assert target not in numbers.split(", "), (numbers, target)
verdicts = re.findall(r"^    => (.*)", text, re.M)
assert len(verdicts) == 3 and verdicts[0].startswith("wrong: ") and verdicts[2] == "right", verdicts
for answer in re.findall(r":\n((?:    [^=\n]*=\d+\n)+)    => right", text):  # what is called right is
    left = [int(x) for x in numbers.split(", ")]
    for line in answer.split():
        a, op, b, c = re.fullmatch(r"(\d+)([-+*/])(\d+)=(\d+)", line).groups()
        for x in (a, b):
            left.remove(int(x))
        assert eval(a + op + b) == int(c), line
        left.append(int(c))
    assert left == [int(target)], (answer, left)
END
[ "$(grep -c '^model .*method .*right' "$WORK/out")" = 1 ] || fail 'one table with headers'
[ "$(grep -c '^countdown-s .*best@16' "$WORK/out")" = 1 ] || fail 'the small one with a checker'
[ "$(grep -c '^abacus-.* greedy .* %' "$WORK/out")" = 3 ] || fail 'weights of few bits'
if ! grep -q 'without SQLite' "$WORK/out"; then
    expect_out 'From March to September the trail is open, then rain blocks it.' 'an answer from documents'
    expect_out 'trail.txt, bytes' 'where it stands'
fi
expect_out 'Now your model:' 'what to do next'
expect_out 'docs/SCALING.md' 'where to read on'

"$LUTRA_SOURCE/scripts/demo" --help >"$WORK/out" 2>"$WORK/err"
rc=$?
expect_code 0 'demo --help'
expect_out 'LUTRA_DEMO_PROBLEMS=N' 'demo --help'
"$LUTRA_SOURCE/scripts/demo" --nonsense >"$WORK/out" 2>"$WORK/err"
rc=$?
expect_code 2 'an argument that is not known'

finish
