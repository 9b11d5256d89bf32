/* SPDX-License-Identifier: MIT
 *
 * Qwen 3.5 and 3.6, and with experts (35B-A3B, ...), as text: three of four layers are a gated delta rule
 * (recurrent.c), every fourth attends, rotates a quarter of a head and has a gate on its output.  Beside the experts
 * there is one that all rows go to.  A block behind the last drafts (model_open_nextn).
 */
#include "model/model_impl.h"

/* Which layers are recurrent: an array of yes and no, or all but every full_attention_interval-th. */
static int read_layers(const struct reader *r, struct lutra_error *err)
{
    char name[96];
    int period = 4;
    struct hparams *hp = r->hp;
    TRY(model_opt_int(r, "full_attention_interval", MODEL_MAX_LAYER, &period, err));
    const struct gguf_kv *kv = weights_kv_find(r->w, model_key(name, r, "attention.recurrent_layers"));
    for (int i = 0; i < hp->n_layer; i++) {
        int64_t value = (i + 1) % period != 0;
        if (kv && (kv->n < (uint64_t)hp->n_layer || !gguf_kv_i64(kv, (uint64_t)i, &value)))
            return lutra_fail(
                err, LUTRA_E_FORMAT, "%s: key '%s' does not say which layers are recurrent", weights_path(r->w), name);
        if (value) model_set_recurrent(hp, i, LAYER_DELTA_NET);
    }
    return 0;
}

static int read(const struct reader *r, struct lutra_error *err)
{
    struct hparams *hp = r->hp;
    int inner = 0;
    TRY(model_get_int(r, "ssm.conv_kernel", CONV_TAPS, &hp->n_tap, err));
    TRY(model_get_int(r, "ssm.state_size", DELTA_MOST, &hp->d_state, err));
    TRY(model_get_int(r, "ssm.group_count", 4096, &hp->n_key_head, err));
    TRY(model_get_int(r, "ssm.time_step_rank", 4096, &hp->n_value_head, err));
    hp->d_value = hp->d_state;
    inner = hp->n_value_head * hp->d_state;
    TRY(model_opt_int(r, "ssm.inner_size", MODEL_MAX_DIM, &inner, err));
    if (hp->n_tap < 2 || hp->n_value_head % hp->n_key_head || inner != hp->n_value_head * hp->d_state)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: %d taps, %d value heads of %d over %d key heads, %d elements",
            weights_path(r->w), hp->n_tap, hp->n_value_head, hp->d_state, hp->n_key_head, inner);
    if (hp->d_state % DELTA_TILE)
        return model_lack(r->to, err, "%s: recurrent heads of %d elements: only multiples of %d", weights_path(r->w),
            hp->d_state, DELTA_TILE);
    hp->key_neighbours = !model_key_is_off(r, "ssm.lutra.key_neighbours");
    if (r->arch->shared_expert) {
        hp->d_ff_shared = hp->d_ff;
        TRY(model_opt_int(r, "expert_shared_feed_forward_length", MODEL_MAX_DIM, &hp->d_ff_shared, err));
    }
    return read_layers(r, err);
}

const struct arch model_qwen35 = {.name = "qwen35",
    .rope = ROPE_NEOX,
    .rotates_part = true,
    .norms = NORM_BEFORE,
    .ffn_norm = "post_attention_norm",
    .qk_norm = QK_NORM_HEADS,
    .gate = OP_SWIGLU,
    .gated_attention = true,
    .read = read};

const struct arch model_qwen35moe = {.name = "qwen35moe",
    .rope = ROPE_NEOX,
    .rotates_part = true,
    .norms = NORM_BEFORE,
    .ffn_norm = "post_attention_norm",
    .qk_norm = QK_NORM_HEADS,
    .gate = OP_SWIGLU,
    .gated_attention = true,
    .experts = true,
    .shared_expert = true,
    .route = ROUTE_SOFTMAX,
    .route_normalized = true,
    .keys = {"expert_count"},
    .read = read};
