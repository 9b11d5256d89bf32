/* SPDX-License-Identifier: MIT
 *
 * Phi-3, 3.5 and 4 (mini and medium): one matrix for q, k and v, one for gate and up, a part of each head rotated
 * (Phi-4-mini), and LongRoPE.  Phi-3-mini-4k looks back 2047 positions in all layers; llama.cpp (0.7.0) has these
 * windows off.
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    return model_read_windows(r, 0, 0, err);
}

const struct arch model_phi3 = {.name = "phi3",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE,
    .gate = OP_SWIGLU,
    .rotates_part = true,
    .keys = {WINDOW_KEY},
    .read = read};
