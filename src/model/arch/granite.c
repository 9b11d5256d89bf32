/* SPDX-License-Identifier: MIT
 *
 * Granite 3 and 4 (dense): Llama's block with four scales, and without rotation where the file says so.
 * Granite MoE: the same with experts in every layer, softmax over the chosen ones' scores, and maybe one beside them.
 * Granite 4 hybrid: layers without key/value heads are Mamba-2 (recurrent.c); maybe with experts, and one beside them.
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
    if (!rotates) hp->nope_interval = 1;
    return 0;
}

const struct arch model_granite = {.name = "granite",
    .rope = ROPE_NORM,
    .norms = NORM_BEFORE,
    .gate = OP_SWIGLU,
    .keys = {"logit_scale", "attention.scale", "embedding_scale", "residual_scale"},
    .read = read};

/* Experts have feed_forward_length where nothing else is said. */
static int read_mixture(const struct reader *r, struct lutra_error *err)
{
    struct hparams *hp = r->hp;
    if (model_key_is_off(r, "expert_feed_forward_length")) hp->d_ff_expert = hp->d_ff;
    if (model_key_is_off(r, "expert_shared_feed_forward_length")) return 0;
    return model_opt_int(r, "expert_shared_feed_forward_length", MODEL_MAX_DIM, &hp->d_ff_shared, err);
}

static int read_moe(const struct reader *r, struct lutra_error *err)
{
    TRY(read(r, err));
    return read_mixture(r, err);
}

const struct arch model_granitemoe = {.name = "granitemoe",
    .rope = ROPE_NORM,
    .norms = NORM_BEFORE,
    .gate = OP_SWIGLU,
    .experts = true,
    .route = ROUTE_SOFTMAX,
    .route_normalized = true,
    .keys = {"logit_scale", "attention.scale", "embedding_scale", "residual_scale", "expert_count"},
    .read = read_moe};

/* The sizes of Mamba-2 layers, which have no key/value heads. */
static int read_mamba(const struct reader *r, struct lutra_error *err)
{
    struct hparams *hp = r->hp;
    char name[96];
    int inner = 0;
    model_key(name, r, "attention.head_count_kv");
    TRY(model_get_int(r, "ssm.conv_kernel", CONV_TAPS, &hp->n_tap, err));
    TRY(model_get_int(r, "ssm.state_size", DELTA_MOST, &hp->d_state, err));
    TRY(model_get_int(r, "ssm.group_count", 4096, &hp->n_key_head, err));
    TRY(model_get_int(r, "ssm.time_step_rank", 4096, &hp->n_value_head, err));
    TRY(model_get_int(r, "ssm.inner_size", MODEL_MAX_DIM, &inner, err));
    hp->d_value = inner / hp->n_value_head;
    if (hp->n_tap < 2 || inner != hp->n_value_head * hp->d_value || hp->d_value < 1)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: %d taps, %d elements of %d Mamba-2 heads", weights_path(r->w),
            hp->n_tap, inner, hp->n_value_head);
    if (hp->n_key_head != 1 || hp->d_state % DELTA_TILE || hp->d_value % DELTA_TILE || hp->d_value > DELTA_MOST)
        return model_lack(r->to, err,
            "%s: Mamba-2 with %d groups, states of %d and heads of %d: only 1 group and multiples of %d up to %d",
            weights_path(r->w), hp->n_key_head, hp->d_state, hp->d_value, DELTA_TILE, DELTA_MOST);
    for (int i = 0; i < hp->n_layer; i++) {
        uint32_t n = 0;
        TRY(weights_opt_layer_u32(r->w, name, (uint32_t)i, &n, err));
        if (n == 0) model_set_recurrent(hp, i, LAYER_MAMBA);
    }
    return 0;
}

static int read_hybrid(const struct reader *r, struct lutra_error *err)
{
    TRY(read(r, err));
    TRY(read_mamba(r, err));
    return r->hp->n_expert ? read_mixture(r, err) : 0;
}

const struct arch model_granitehybrid = {.name = "granitehybrid",
    .rope = ROPE_NORM,
    .norms = NORM_BEFORE,
    .gate = OP_SWIGLU,
    .conv_without_kv = true,
    .experts = true,
    .maybe_experts = true,
    .route = ROUTE_SOFTMAX,
    .route_normalized = true,
    .keys = {"logit_scale", "attention.scale", "embedding_scale", "residual_scale", "expert_count"},
    .read = read_hybrid};
