/* SPDX-License-Identifier: MIT
 *
 * Ministral 3: Llama's block, contexts stretched by YaRN, and scores that grow with the position of the row that asks:
 * times 1 + scale log(1 + floor(pos / n_ctx_orig)).
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    TRY(model_opt_float(r, "attention.temperature_scale", 0.0f, 1e6f, &r->hp->temperature_scale, err));
    return 0;
}

const struct arch model_mistral3 = {.name = "mistral3",
    .rope = ROPE_NORM,
    .norms = NORM_BEFORE,
    .gate = OP_SWIGLU,
    .keys = {"attention.temperature_scale"},
    .read = read};
