/* SPDX-License-Identifier: MIT
 *
 * SmolLM3: Llama's block; every fourth layer does not turn q and k, and so sees no order but that of the mask.
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    (void)err;
    r->hp->nope_interval = 4;
    return 0;
}

const struct arch model_smollm3 = {
    .name = "smollm3", .rope = ROPE_NORM, .norms = NORM_BEFORE, .gate = OP_SWIGLU, .read = read};
