#!/bin/sh
# SPDX-License-Identifier: MIT
# phone.sh ROOT NAMES BUILD: the folder that scripts/phone makes, without an NDK: the program runs under qemu-aarch64 with the
# emulator, says that there is no NPU, and asks the system for nothing that Android 12 does not have (NAMES).  The NPU's
# library is that of BUILD, where it has one.
command -v aarch64-linux-gnu-gcc >/dev/null || {
    echo "skipped: no aarch64-linux-gnu-gcc (package gcc-aarch64-linux-gnu)"
    exit 77
}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
[ -e "$3/liblutra_npu.so" ] && export NPU_FROM="$3"
env -u NDK "$1/scripts/phone" --dry-run "$out/files" >"$out/log" 2>&1 || { tail -20 "$out/log"; exit 1; }
grep 'warning:' "$out/log" && exit 1
for file in lutra-npu-phone run.sh ${NPU_FROM:+liblutra_npu.so}; do [ -s "$out/files/$file" ] || { echo "no $file"; exit 1; }; done

# What it asks for: of bionic at this level, or what glibc calls something that Android has by another name.
aarch64-linux-gnu-nm -D --undefined-only "$out/files/lutra-npu-phone" | sed 's/.* //; s/@.*//' | sort -u >"$out/asked"
awk '!/^#/ { for (i = 2; i <= NF; i++) if ($1 == "glibc" || $1 <= 31) print $i }' "$2" | sort -u >"$out/known"
comm -23 "$out/asked" "$out/known" >"$out/unknown"
[ -s "$out/unknown" ] && { echo "not in bionic at android-31, as far as $2 knows:"; cat "$out/unknown"; exit 1; }
n=$(awk '/^glibc/ { n += NF - 1 } END { print n }' "$2")
[ "$n" -le 20 ] || { echo "$n aliases of glibc, more than 20"; exit 1; }

run=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)
[ -n "$run" ] && [ -d /usr/aarch64-linux-gnu ] || { echo "built; not run: no qemu-aarch64"; exit 0; }
python3 - "$out/files/sim.json" <<'END' || exit 1
import json, sys
d = json.load(open(sys.argv[1]))
assert d["device"] == "npu-sim" and len(d["vectors"]) == 12 and all(v["holds"] for v in d["vectors"]), d
END
"$run" -L /usr/aarch64-linux-gnu "$out/files/lutra-npu-phone" 2>"$out/err"
[ $? = 2 ] && grep -q 'there is no NPU here' "$out/err" || { cat "$out/err"; exit 1; }
