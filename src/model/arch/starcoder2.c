/* SPDX-License-Identifier: MIT
 *
 * StarCoder2: LayerNorm, biases everywhere, GELU without a gate, and windows in all layers where the file says so.
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    return model_read_windows(r, 0, 0, err);
}

const struct arch model_starcoder2 = {.name = "starcoder2",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE,
    .layer_norm = true,
    .qkv_bias = true,
    .gate = OP_GELU,
    .keys = {WINDOW_KEY},
    .read = read};
