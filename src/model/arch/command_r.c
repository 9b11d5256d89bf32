/* SPDX-License-Identifier: MIT
 *
 * Command R, and Command R7B and A (cohere2): attention and feed-forward side by side behind one LayerNorm without
 * bias, and scaled logits.  cohere2 has windows in three layers of four; the others do not rotate.
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    return model_opt_float(r, "logit_scale", 0.0f, 1e6f, &r->hp->logit_scale, err);
}

static int read2(const struct reader *r, struct lutra_error *err)
{
    TRY(read(r, err));
    TRY(model_read_windows(r, 0, 4, err));
    r->hp->nope_interval = r->hp->window_period;
    return 0;
}

const struct arch model_command_r = {.name = "command-r",
    .rope = ROPE_NORM,
    .norms = NORM_BEFORE,
    .layer_norm = true,
    .one_norm = true,
    .gate = OP_SWIGLU,
    .keys = {"logit_scale"},
    .read = read};

const struct arch model_cohere2 = {.name = "cohere2",
    .rope = ROPE_NORM,
    .norms = NORM_BEFORE,
    .layer_norm = true,
    .one_norm = true,
    .gate = OP_SWIGLU,
    .keys = {"logit_scale", WINDOW_KEY},
    .read = read2};
