/* SPDX-License-Identifier: MIT
 *
 * Encoders: every row sees the whole text.  BERT [Devlin et al. 2018] adds learnt vectors of token, segment and
 * position and norms them; each sub-layer's sum is normed (post-norm); its GELU is the exact one.  Nomic's [Nussbaum et
 * al. 2024] rotates instead of adding positions, has SwiGLU and one matrix for q, k and v.  EmbeddingGemma [Schechter
 * Vera et al. 2025] is Gemma 3 without a causal mask: its windows reach half their length to both sides, and two dense
 * layers may follow the mean.  The files are llama.cpp's.
 */
#include "model/model_impl.h"

static int read_bert(const struct reader *r, struct lutra_error *err)
{
    (void)err;
    r->hp->n_position = r->hp->n_ctx_train;
    r->hp->nope_interval = 1; /* no layer rotates */
    return 0;
}

static int read_gemma(const struct reader *r, struct lutra_error *err)
{
    struct hparams *hp = r->hp;
    TRY(model_gemma3.read(r, err));
    if (hp->window) hp->window = hp->window / 2 + 1; /* op_attention.window counts the row itself, to each side */
    return 0;
}

const struct arch model_bert = {.name = "bert",
    .rope = ROPE_NEOX,
    .norms = NORM_SUM,
    .layer_norm = true,
    .encoder = true,
    .gate = OP_GELU_ERF,
    .read = read_bert};

const struct arch model_nomic_bert = {
    .name = "nomic-bert", .rope = ROPE_NEOX, .norms = NORM_SUM, .layer_norm = true, .encoder = true, .gate = OP_SWIGLU};

const struct arch model_gemma_embedding = {.name = "gemma-embedding",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE | NORM_BEHIND,
    .qk_norm = QK_NORM_HEADS,
    .gate = OP_GEGLU,
    .two_ropes = true,
    .encoder = true,
    .keys = {WINDOW_KEY},
    .read = read_gemma};
