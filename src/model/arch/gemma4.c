/* SPDX-License-Identifier: MIT
 *
 * Gemma 4 (E2B, E4B, 31B, 26B-A4B): Gemma 3 with heads of another size, and maybe fewer key/value heads, in the layers
 * without a window; these rotate a quarter of a head (factors in the file).  Scores are not scaled, v has a norm
 * without weights, and where a layer has no v it is k.  The last layers of E2B and E4B read the keys and values of
 * earlier ones, and every layer adds something of the token itself (transformer.c).  The 26B has experts beside each
 * feed-forward; their router reads the residual stream by a norm of its own.
 */
#include "model/model_impl.h"

#include <math.h>

/* Whether layer i has a window: an array of yes and no, or every period-th layer has none. */
static int read_pattern(const struct reader *r, int i, bool *windowed, struct lutra_error *err)
{
    char name[96];
    int64_t value = 0;
    const struct gguf_kv *kv = weights_kv_find(r->w, model_key(name, r, "attention.sliding_window_pattern"));
    *windowed = (i + 1) % 6 != 0;
    if (!kv) return 0;
    bool one = kv->n == 1 && r->hp->n_layer != 1;
    if ((!one && kv->n < (uint64_t)r->hp->n_layer) || !gguf_kv_i64(kv, one ? 0 : (uint64_t)i, &value) ||
        (one && value < 1))
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s: key '%s' does not say which layers have a window", weights_path(r->w), name);
    *windowed = one ? (i + 1) % value != 0 : value != 0;
    return 0;
}

/* The last layer before `first` with as wide a view: its keys and values are read. */
static int shared_with(const struct hparams *hp, int i, int first)
{
    for (int k = first - 1; k >= 0; k--)
        if (!hp->layer[k].window == !hp->layer[i].window) return k;
    return -1;
}

static int read_layer(const struct reader *r, int i, int d_head_window, int window, struct lutra_error *err)
{
    struct hparams_layer *l = &r->hp->layer[i];
    bool windowed;
    TRY(read_pattern(r, i, &windowed, err));
    TRY(model_opt_layer_int(r, "attention.head_count", i, 4096, &l->n_head, err));
    TRY(model_opt_layer_int(r, "attention.head_count_kv", i, 4096, &l->n_kv_head, err));
    TRY(model_opt_layer_int(r, "feed_forward_length", i, MODEL_MAX_DIM, &l->d_ff, err));
    if (l->n_head % l->n_kv_head)
        return lutra_fail(err, LUTRA_E_FORMAT,
            "%s: layer %d: %d attention heads are not a multiple of %d key/value heads", weights_path(r->w), i,
            l->n_head, l->n_kv_head);
    l->window = windowed ? window : 0;
    if (windowed) l->d_head = d_head_window;
    return 0;
}

static int read(const struct reader *r, struct lutra_error *err)
{
    struct hparams *hp = r->hp;
    struct op_rope *local = &hp->window_rope;
    int window = 512, d_head = hp->d_head, shared = 0, d_value;
    TRY(model_opt_int(r, WINDOW_KEY, MODEL_MAX_CTX, &window, err));
    TRY(model_opt_int(r, "attention.key_length_swa", 512, &d_head, err));
    d_value = d_head;
    TRY(model_opt_int(r, "attention.value_length_swa", 512, &d_value, err));
    if (d_value != d_head || d_head % 8)
        return model_lack(r->to, err,
            "%s: key heads of %d and value heads of %d in layers with windows: not implemented", weights_path(r->w),
            d_head, d_value);
    local->d_head = local->n_rot = d_head;
    local->freq_scale = local->magnitude = 1;
    local->freq_base = 10000;
    TRY(model_opt_float(r, "rope.freq_base_swa", 1.0f, 1e12f, &local->freq_base, err));
    TRY(model_opt_int(r, "rope.dimension_count_swa", (uint32_t)d_head, &local->n_rot, err));
    if (local->n_rot % 2)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: %d elements of a head are rotated, an odd number",
            weights_path(r->w), local->n_rot);
    hp->attention_scale = 1;
    hp->dense_beside = hp->n_expert > 0;
    hp->embedding_scale = sqrtf((float)hp->d_model);
    TRY(model_opt_float(r, "final_logit_softcapping", 0.0f, 1e6f, &hp->logit_cap, err));
    if (!model_key_is_off(r, "embedding_length_per_layer_input"))
        TRY(model_opt_int(r, "embedding_length_per_layer_input", 1 << 14, &hp->d_per_layer, err));
    if (!model_key_is_off(r, "attention.shared_kv_layers"))
        TRY(model_opt_int(r, "attention.shared_kv_layers", (uint32_t)hp->n_layer - 1, &shared, err));
    for (int i = 0; i < hp->n_layer; i++) TRY(read_layer(r, i, d_head, window, err));
    for (int i = hp->n_layer - shared; i < hp->n_layer; i++) {
        struct hparams_layer *l = &hp->layer[i];
        l->cache = shared_with(hp, i, hp->n_layer - shared);
        if (l->cache < 0 || hp->layer[l->cache].n_kv_head != l->n_kv_head)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s: layer %d shares keys and values with no layer of its kind",
                weights_path(r->w), i);
    }
    return 0;
}

const struct arch model_gemma4 = {.name = "gemma4",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE | NORM_BEHIND,
    .qk_norm = QK_NORM_HEADS,
    .gate = OP_GEGLU,
    .two_ropes = true,
    .by_layer = true,
    .v_norm = true,
    .layer_scale = true,
    .experts = true,
    .maybe_experts = true,
    .dense_beside = true,
    .route = ROUTE_SOFTMAX,
    .route_normalized = true,
    .keys = {"final_logit_softcapping", WINDOW_KEY, "expert_count"},
    .read = read};
