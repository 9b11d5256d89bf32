#!/bin/sh
# SPDX-License-Identifier: MIT
# describe.sh PROGRAM FOLDER: the man pages and completions that `cmake --install` puts in place.
set -eu
program=$1
mkdir -p "$2/man1"
cd "$2"
"$program" --completion-bash >lutra
"$program" --completion-zsh >_lutra
"$program" --completion-fish >lutra.fish
"$program" --man >man1/lutra.1
"$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | while read -r command; do
    "$program" --man "$command" >"man1/lutra-$command.1"
done
