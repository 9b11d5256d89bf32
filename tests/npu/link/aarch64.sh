#!/bin/sh
# SPDX-License-Identifier: MIT
# aarch64.sh COMPILER ROOT: the room npu and what it stands on, compiled and linked for a phone's processor; run under
# qemu-aarch64 where that is installed: the message where there is no NPU.
[ -n "$1" ] && [ -x "$1" ] || { echo "skipped: no aarch64-linux-gnu-gcc (package gcc-aarch64-linux-gnu)"; exit 77; }
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$2" || exit 1
cat > "$out/main.c" <<'C'
#include "npu/host/transport.h"
#include <stdio.h>
int main(void)
{
    struct npu_transport *npu;
    struct lutra_error err;
    if (npu_fastrpc_open(&npu, &(struct npu_transport_settings){.memory_bytes = 1 << 20}, &err) == 0) return 1;
    puts(err.what);
    return err.code != LUTRA_E_UNSUPPORTED;
}
C
"$1" -std=c11 -Og -Wall -Wextra -Werror -D_GNU_SOURCE -ffp-contract=off -Isrc -Iinclude -static-libgcc -o "$out/main" "$out/main.c" \
    src/npu/host/transport*.c src/npu/host/child.c src/npu/host/tiles.c src/npu/host/ring.c src/npu/host/session.c src/npu/host/fastrpc.c \
    src/npu/dsp/*.c src/npu/wire/*.c src/npu/sim/*.c src/base/status.c src/base/clock.c -lm -lpthread -ldl \
    2> "$out/log" || { cat "$out/log"; exit 1; }
run=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)
[ -n "$run" ] && [ -d /usr/aarch64-linux-gnu ] || { echo "compiled; not run: no qemu-aarch64"; exit 0; }
"$run" -L /usr/aarch64-linux-gnu "$out/main"
