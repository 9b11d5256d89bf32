# SPDX-License-Identifier: MIT
# lutra run --device npu: the whole program answers by way of FastRPC and liblutra_npu.so's objects under qemu-hexagon (cdsprpc.c)
# what the emulator answers.
. "$(dirname "$0")/../../cli/lib.sh"

MODEL=$LUTRA_SOURCE/models/abacus-xs-f16.gguf
lutra run -m "$MODEL" -st --temp 0 -p "$QUESTION" -q --device npu-sim
expect_code 0 'npu-sim'
expect_out '####' 'npu-sim'
cp "$WORK/out" "$WORK/sim"
export LUTRA_NPU_WINDOW_KIB=16384 # the model of its cache (cache.c) walks over all of the window when it goes
lutra run -m "$MODEL" -st --temp 0 -p "$QUESTION" -v --device npu
expect_code 0 'npu'
expect_same "$WORK/out" "$WORK/sim" 'npu answers as npu-sim'
expect_err 'faults 0 0, 0 contexts left' 'rules of DMA and tiles'
grep -q 'silicon: [1-9][0-9]* + [1-9][0-9]* descriptors, [1-9]' "$WORK/err" || fail 'no DMA of two dimensions, or no tiles'
finish
