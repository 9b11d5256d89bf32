/* SPDX-License-Identifier: MIT
 *
 * Qwen 2 and 2.5 (biases), 3 (norms of each head's q and k), and the vision models 2-VL, 2.5-VL and 3-VL as text: their
 * rotation has sections for time, height and width, which are one and the same position in text.
 */
#include "model/model_impl.h"

const struct arch model_qwen2 = {
    .name = "qwen2", .rope = ROPE_NEOX, .norms = NORM_BEFORE, .gate = OP_SWIGLU, .qkv_bias = true};

const struct arch model_qwen2vl = {
    .name = "qwen2vl", .rope = ROPE_NEOX, .norms = NORM_BEFORE, .gate = OP_SWIGLU, .qkv_bias = true};

const struct arch model_qwen3 = {
    .name = "qwen3", .rope = ROPE_NEOX, .norms = NORM_BEFORE, .gate = OP_SWIGLU, .qk_norm = QK_NORM_HEADS};

const struct arch model_qwen3vl = {
    .name = "qwen3vl", .rope = ROPE_NEOX, .norms = NORM_BEFORE, .gate = OP_SWIGLU, .qk_norm = QK_NORM_HEADS};
