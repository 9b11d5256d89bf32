# SPDX-License-Identifier: MIT
# 'lutra profile': what it writes, who finds it, and that text is the same under every plan.
source "$(dirname "$0")/lib.sh"
python3 -c 'import os,sys; sys.exit(0 if {0, 1} <= os.sched_getaffinity(0) else 1)' ||
    { echo "skipped: processors 0 and 1 are not both there"; exit 77; }
cp "$MODEL" "$WORK/m.gguf"
two="--device cpu:0,cpu:1"
say() { lutra run -st -m "$WORK/m.gguf" -n 24 --temp 0 -p "$QUESTION" "$@"; }

lutra run --list-devices -m "$WORK/m.gguf"
expect_out "No profile of $WORK/m.gguf" "without a profile"
say --device cpu
cp "$WORK/out" "$WORK/one"
say $two --plan solved
expect_code 1 "no profile to solve from"
expect_err "'lutra profile' makes one" "what to do without a profile"

lutra profile -m "$WORK/m.gguf" $two
expect_code 0 "profile"
expect_out "Kept: " "the choice"
expect_out " at once " "what several take"
expect_out "; parts end within " "how far apart parts end"
made=$(echo "$WORK"/m.gguf.cpu-0cpu-1.lutra-profile)
expect_json "$made" '
p = json.load(sys.stdin)
assert p["lutra_profile"] == 4 and p["devices"] == ["cpu:0", "cpu:1"]
assert p["passes"]["few"]["rows"] == 1 and p["passes"]["many"]["rows"] + p["passes"]["many"]["rows_left_out"] >= 256
assert all(sum(k[c]["part"]) == p["grid"] for k in p["kinds"] if k["cut"] for c in ("few", "many"))
for c in p["passes"].values():
    assert c["measured_us"][c["best"]][0] == min(m[0] for m in c["measured_us"].values())' "the file"
sed 's/"lutra_profile": 4/"lutra_profile": 1/' "$made" >"$WORK/before" # from before heads were cut
say $two --plan "$WORK/before"
expect_code 1 "a profile of another version"
expect_err "before: profile: of version 1, not 4; 'lutra profile' makes one" "a profile of another version"
[ "$(ls "$WORK" | grep -c tmp)" -eq 0 ] || fail "temporary files are left"
lutra run --list-devices -m "$WORK/m.gguf"
expect_out "$made" "the profile in --list-devices"
hashes=
for plan in auto one even solved "$made"; do
    say $two --plan "$plan" -v
    expect_same "$WORK/one" "$WORK/out" "text of --plan $plan"
    expect_err "plan: " "the plan of --plan $plan"
    hashes="$hashes $(sed -n 's/^plan: .*), \([0-9a-f]\{8\}\).*/\1/p' "$WORK/err")"
done
expect_err " us (1 row); one " "why the plan is kept"
# shellcheck disable=SC2086 # five words
set -- $hashes
[ $# = 5 ] && [ "$1" = "$5" ] && [ "$2" != "$3" ] || fail "hashes of auto, one, even, solved, FILE:$hashes"
lutra bench -m "$WORK/m.gguf" $two -p 8 -n 2 -r 1 --no-peaks
expect_err "(from the profile)" "bench says the plan"

lutra bench -m "$WORK/m.gguf" $two --plan even -p 8 -n 2 -r 1 --no-warmup --no-peaks --timeline "$WORK/trace.json"
expect_code 0 "a timeline"
expect_json "$WORK/trace.json" '
events = json.load(sys.stdin)
track = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
work = [e for e in events if e.get("cat") == "compute"]
assert sorted(track.values()) == ["caller", "cpu:0", "cpu:1"]
assert all(track[e["tid"]] == e["args"]["device"] for e in work)
assert {e["args"]["device"] for e in work} == {"cpu:0", "cpu:1"}
for t in track: # nothing of a device overlaps
    mine = sorted((e["ts"], e["dur"]) for e in events if e.get("ph") == "X" and e["tid"] == t)
    assert all(a[0] + a[1] <= b[0] for a, b in zip(mine, mine[1:])), (track[t], mine)
halves = [e for e in work if e["args"]["from"] != 0 or e["args"]["to"] != 1]
by = {}
for e in halves: by.setdefault(e["args"]["device"], []).append(e["args"]["piece"])
assert len(by["cpu:0"]) == len(by["cpu:1"]) > 3 * 4, by # three passes, both devices in every cut
assert any(e["cat"] == "wait" and track[e["tid"]] == "caller" for e in events if "cat" in e)' "the timeline"
lutra bench -m "$WORK/m.gguf" $two --plan even -p 8 -n 2 -r 1 --no-warmup --no-peaks --timeline "$WORK/trace.svg"
expect_code 0 "a picture"
[ ! -e "$WORK/trace.svg.json" ] || fail "what the picture was drawn from is left"
python3 - "$WORK/trace.svg" >"$WORK/python" 2>&1 <<'END' || { fail "the picture"; cat "$WORK/python"; }
import sys, xml.etree.ElementTree as tree
svg = "{http://www.w3.org/2000/svg}"
root = tree.parse(sys.argv[1]).getroot()
words = [t.text for t in root.iter(svg + "text")]
for track in ("cpu:0 ", "cpu:1 ", "caller "):
    assert sum(w.startswith(track) for w in words) == 2, (track, words)
bars = [t.find(svg + "title").text for t in root.iter(svg + "rect") if t.find(svg + "title") is not None]
assert any("matmul" in b and "outputs 0 to 50 %" in b for b in bars) and any(b.startswith("wait") for b in bars), bars[:9]
assert all(float(r.get("x", 0)) + float(str(r.get("width")).rstrip("%")) <= 1181 for r in root.iter(svg + "rect"))
END
lutra run -st -m "$WORK/m.gguf" -p hi -n 1 --timeline "$WORK/none/trace.svg"
expect_code 1 "a picture in a folder that is not there"
lutra run -st -m "$WORK/m.gguf" -p hi -n 1 --timeline "$WORK/none/trace.json"
expect_code 1 "a timeline in a folder that is not there"

# A draft model on a cluster of its own.
draft=$LUTRA_SOURCE/models/abacus-xs-f16.gguf
say --device cpu:0 -md "$draft" -devd cpu:1 --draft-p-min 0 --timeline "$WORK/both.json"
expect_code 0 "-devd"
expect_same "$WORK/one" "$WORK/out" "text with a draft model on another cluster"
expect_json "$WORK/both.json" '
events = json.load(sys.stdin)
track = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
of = {}
for e in events:
    if e.get("cat") == "compute": of.setdefault(track[e["tid"]], []).append(e["args"])
assert set(of) == {"cpu:0", "cpu:1"}, of.keys()
assert all(a["from"] == 0 and a["to"] == 1 for all in of.values() for a in all)' "each model has a cluster of its own"
say --device cpu:0 -md "$draft" -devd cpu:none
expect_code 1 "-devd with no such device"
say --device cpu:0 -devd cpu:1
expect_code 2 "-devd without a draft model"

# A profile of other tensors' places is another model's.
ot='-ot blk\.0\..*=cpu:1'
lutra profile -m "$WORK/m.gguf" $two $ot
expect_code 0 "profile with -ot"
[ "$(ls "$WORK"/*.lutra-profile | wc -l)" -eq 2 ] || fail "the profile with -ot has a file of its own"
for plan in auto solved; do
    say $two $ot --plan $plan -v
    expect_same "$WORK/one" "$WORK/out" "text of --plan $plan with -ot"
    expect_err "(from the profile)" "the profile with -ot"
done
say $two -ot 'blk\.1\..*=cpu:1' --plan solved
expect_code 1 "no profile with another -ot"
lutra profile -m "$WORK/m.gguf" $two --lora "$WORK/none.gguf"
expect_code 1 "an adapter that is not there"
expect_err "none.gguf" "an adapter that is not there"

# What devices are like, without a model.
lutra profile --characterize $two --json
expect_code 0 "--characterize"
cp "$WORK/out" "$WORK/traits.json"
expect_json "$WORK/traits.json" '
t = json.load(sys.stdin)
assert [d["name"] for d in t["devices"]] == ["cpu:0", "cpu:1"]
for d in t["devices"]:
    assert [p["rows"] for p in d["square"]] == [64, 128, 256, 512, 1024, 2048] and d["square"][0]["us"] > 0
    assert all(p["in"] == p["out"] == 1024 for p in d["rows"]) and d["gbs"] > 0 and d["together_gbs"] > 0
    assert d["order"][0]["rows"] == d["order"][1]["out"]
assert abs(sum(d["together_gbs"] for d in t["devices"]) / t["gbs"] - 1) < 1e-6' "--characterize --json"
lutra profile --characterize --device sim:8gen3.npu
expect_code 0 "--characterize of a phone that is modelled"
expect_out "  stages of 32 rows" "stages of its NPU"
lutra profile --characterize --device sim:8gen3.npu -o "$WORK/traits.svg"
expect_code 0 "--characterize as a picture"
python3 -c '
import sys, xml.dom.minidom
svg = xml.dom.minidom.parse(sys.argv[1])
lines = [p for p in svg.getElementsByTagName("path") if p.getAttribute("fill") == "none"]
assert sum(p.getAttribute("d").count("L") > 3 for p in lines) == 4, lines # two devices: size, rows
assert len(svg.getElementsByTagName("rect")) > 8 # pairs, bandwidth
' "$WORK/traits.svg" || fail "the picture of --characterize"

# A phone that is modelled is measured on its own clock: waits and times do not vary, and the text is the CPU's.
lutra profile -m "$WORK/m.gguf" --device sim:8gen3 --json
expect_code 0 "the profile of a phone"
expect_json "$WORK/out" '
p = json.load(sys.stdin)
assert p["devices"] == ["sim.gpu", "sim.npu"]
for c in p["passes"].values():
    best = c["measured_us"][c["best"]][0]
    assert best == min(m[0] for m in c["measured_us"].values()) and all(m[1] == 0 for m in c["measured_us"].values())
    assert 0.85 < c["predicted_us"][c["best"]] / best < 1.15, c
assert p["passes"]["many"]["best"] == "solved"
assert any(0 < k["many"]["part"][1] < p["grid"] for k in p["kinds"] if k["cut"])' "cuts of a phone"
say --device sim:8gen3 -v
expect_same "$WORK/one" "$WORK/out" "text of the plan of a phone"
expect_err "(from the profile)" "the plan of a phone"

# An NPU beside the CPU: one cut and one plan for few rows and many, used from then on.
if [ -n "${LUTRA_TEST_LONG:-}" ]; then
    lutra make-model -o "$WORK/npu.gguf" --shape tiny-qwen2 --type Q4_0 --layers 1 -q
    lutra profile -m "$WORK/npu.gguf" --device npu-sim,cpu -t 1 --json
    expect_code 0 "the profile of an NPU and the CPU"
    expect_json "$WORK/out" '
p = json.load(sys.stdin)
few, many = p["passes"]["few"], p["passes"]["many"]
assert p["devices"] == ["npu-sim", "cpu"] and few["best"] == many["best"]
assert set(few["measured_us"]) == {"one", "even", "solved", "class"}
assert all(us > 0 for c in (few, many) for us in c["predicted_us"].values()), (few, many)' "one cut for both"
    lutra run -st -m "$WORK/npu.gguf" --device npu-sim,cpu -t 1 -n 4 --temp 0 -p "$QUESTION" -v
    expect_code 0 "a run by the profile of an NPU and the CPU"
    expect_err "(from the profile)" "the plan of an NPU and the CPU"
    lutra run -st -m "$WORK/npu.gguf" --device npu-sim,cpu -t 1 -n 4 --temp 0 -p "$QUESTION" -v --plan free
    expect_code 0 "a run by each class's own cut"
    expect_err "free: text may depend on load (from the profile)" "what a free plan is"
fi
say --device npu-sim:bitplane,cpu --plan free
expect_code 1 "two parts of bit planes"
expect_err "plan free: npu-sim has one part of a weight" "two parts of bit planes"

touch "$WORK/m.gguf" # another time: another model
say $two
expect_same "$WORK/one" "$WORK/out" "with an old profile"
expect_err "of another model file" "an old profile is left out"
say $two --plan "$made"
expect_code 1 "an old profile that is named"
lutra profile -m "$WORK/m.gguf" $two -q -o "$WORK/none/there"
expect_code 1 "a folder that is not there"
expect_err "none/there" "a folder that is not there"
finish
