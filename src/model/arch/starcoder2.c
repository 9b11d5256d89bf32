/* SPDX-License-Identifier: MIT
 *
 * StarCoder2: LayerNorm, biases everywhere, and GELU without a gate.
 */
#include "model/model_impl.h"

const struct arch model_starcoder2 = {.name = "starcoder2",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE,
    .layer_norm = true,
    .qkv_bias = true,
    .gate = OP_GELU};
