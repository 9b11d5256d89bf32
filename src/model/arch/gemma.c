/* SPDX-License-Identifier: MIT
 *
 * Gemma has embeddings scaled by sqrt(d_model), and GEGLU; Gemma 2 and 3 also norms behind each sub-layer, and windows.
 * Gemma 2 caps scores and logits, and every other layer has a window.  Gemma 3 has norms of each head's q and k instead
 * of caps, windows in five layers of six, and these turn with a base of their own and without scaling.
 */
#include "model/model_impl.h"

#include <math.h>

/* The fallbacks are llama.cpp's, and so is telling the 27b models by their layers: the only ones whose scores are not
 * scaled by the size of their heads. */
static void scale(struct hparams *hp, int layers_27b)
{
    hp->embedding_scale = sqrtf((float)hp->d_model);
    if (hp->n_layer == layers_27b) hp->attention_scale = 1.0f / sqrtf((float)hp->d_model / (float)hp->n_head);
}

static int read2(const struct reader *r, struct lutra_error *err)
{
    scale(r->hp, 46);
    r->hp->attention_cap = 50;
    r->hp->logit_cap = 30;
    TRY(model_opt_float(r, "attn_logit_softcapping", 0.0f, 1e6f, &r->hp->attention_cap, err));
    TRY(model_opt_float(r, "final_logit_softcapping", 0.0f, 1e6f, &r->hp->logit_cap, err));
    return model_read_windows(r, 4096, 2, err);
}

static int read3(const struct reader *r, struct lutra_error *err)
{
    struct op_rope *local = &r->hp->window_rope;
    scale(r->hp, 62);
    local->freq_scale = local->magnitude = 1;
    local->freq_base = 10000;
    TRY(model_opt_float(r, "rope.freq_base_swa", 1.0f, 1e12f, &local->freq_base, err));
    return model_read_windows(r, 0, 6, err);
}

static int read1(const struct reader *r, struct lutra_error *err)
{
    (void)err;
    scale(r->hp, 0);
    return 0;
}

const struct arch model_gemma = {
    .name = "gemma", .rope = ROPE_NEOX, .norms = NORM_BEFORE, .gate = OP_GEGLU, .read = read1};

const struct arch model_gemma2 = {.name = "gemma2",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE | NORM_BEHIND,
    .gate = OP_GEGLU,
    .keys = {"attn_logit_softcapping", "final_logit_softcapping", WINDOW_KEY},
    .read = read2};

const struct arch model_gemma3 = {.name = "gemma3",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE | NORM_BEHIND,
    .qk_norm = QK_NORM_HEADS,
    .gate = OP_GEGLU,
    .two_ropes = true,
    .keys = {WINDOW_KEY},
    .read = read3};
