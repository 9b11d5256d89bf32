/* SPDX-License-Identifier: MIT
 *
 * Qwen3 MoE (30B-A3B, 235B-A22B): Qwen 3 with experts in every layer, softmax over all scores, the chosen ones'
 * weights divided by their sum.
 */
#include "model/model_impl.h"

const struct arch model_qwen3moe = {.name = "qwen3moe",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE,
    .gate = OP_SWIGLU,
    .qk_norm = QK_NORM_HEADS,
    .experts = true,
    .route = ROUTE_SOFTMAX,
    .route_normalized = true,
    .keys = {"expert_count"}};
