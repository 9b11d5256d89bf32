/* SPDX-License-Identifier: MIT
 *
 * gpt-oss (20b, 120b): attention with a learnt extra logit per head (a sink), windows in every other layer from the
 * first on, biases everywhere, and experts with a clamped SwiGLU, whose weights are the softmax over the chosen ones'
 * scores.  Its YaRN does not round the ramp to whole pairs (config.json: "truncate": false); llama.cpp rounds.
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    r->hp->yarn.between_pairs = true;
    return model_read_windows(r, 128, 2, err);
}

const struct arch model_gpt_oss = {.name = "gpt-oss",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE,
    .gate = OP_SWIGLU_OAI,
    .qkv_bias = true,
    .sinks = true,
    .experts = true,
    .expert_biases = true,
    .ffn_norm = "post_attention_norm",
    .route = ROUTE_SOFTMAX_CHOSEN,
    .keys = {"expert_count", WINDOW_KEY},
    .read = read};
