/* SPDX-License-Identifier: MIT
 *
 * Granite 3 and 4 (dense): Llama's block with four scales, and without rotation where the file says so.
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    struct hparams *hp = r->hp;
    char name[96];
    float logits = 0, scores = 0, embeddings = 0, residual = 0;
    bool rotates = true;
    TRY(model_opt_float(r, "logit_scale", 0.0f, 1e6f, &logits, err));
    TRY(model_opt_float(r, "attention.scale", 0.0f, 1e6f, &scores, err));
    TRY(model_opt_float(r, "embedding_scale", 0.0f, 1e6f, &embeddings, err));
    TRY(model_opt_float(r, "residual_scale", 0.0f, 1e6f, &residual, err));
    TRY(weights_opt_bool(r->w, model_key(name, r, "rope.scaling.finetuned"), &rotates, err));
    if (logits > 0) hp->logit_scale = 1 / logits; /* the file's divides */
    if (scores > 0) hp->attention_scale = scores;
    if (embeddings > 0) hp->embedding_scale = embeddings;
    if (residual > 0) hp->residual_scale = residual;
    if (!rotates) hp->still_period = 1;
    return 0;
}

const struct arch model_granite = {.name = "granite",
    .rope = ROPE_NORM,
    .norms = NORM_BEFORE,
    .gate = OP_SWIGLU,
    .keys = {"logit_scale", "attention.scale", "embedding_scale", "residual_scale"},
    .read = read};
