/* SPDX-License-Identifier: MIT
 *
 * LFM2 and LFM2.5, and with experts (8B-A1B): layers without key/value heads are short convolutions (recurrent.c).  The
 * last norm is called that of the embedding.  The first layers have no experts; experts' scores are sigmoids, and a
 * bias counts for the choice alone.
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    char name[96];
    struct hparams *hp = r->hp;
    model_key(name, r, "attention.head_count_kv");
    TRY(model_get_int(r, "shortconv.l_cache", CONV_TAPS, &hp->n_tap, err));
    if (hp->n_tap < 2)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: convolutions of %d tokens", weights_path(r->w), hp->n_tap);
    for (int i = 0; i < hp->n_layer; i++) {
        uint32_t n = 0;
        TRY(weights_opt_layer_u32(r->w, name, (uint32_t)i, &n, err));
        if (n == 0) model_set_recurrent(hp, i, LAYER_CONV);
    }
    if (!hp->n_expert) return 0;
    int gating = 2;
    TRY(model_opt_int(r, "expert_gating_func", 16, &gating, err));
    if (gating != 2)
        return model_lack(r->to, err, "%s: key '%s' is %d: only sigmoids (2) are implemented", weights_path(r->w),
            model_key(name, r, "expert_gating_func"), gating);
    if (model_key_is_off(r, "leading_dense_block_count")) return 0;
    return model_opt_int(r, "leading_dense_block_count", (uint32_t)hp->n_layer, &hp->n_dense_lead, err);
}

const struct arch model_lfm2 = {.name = "lfm2",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE,
    .qk_norm = QK_NORM_HEADS,
    .gate = OP_SWIGLU,
    .output_norm = "token_embd_norm",
    .conv_without_kv = true,
    .read = read};

const struct arch model_lfm2moe = {.name = "lfm2moe",
    .rope = ROPE_NEOX,
    .norms = NORM_BEFORE,
    .qk_norm = QK_NORM_HEADS,
    .gate = OP_SWIGLU,
    .output_norm = "token_embd_norm",
    .conv_without_kv = true,
    .experts = true,
    .route = ROUTE_SIGMOID,
    .route_normalized = true,
    .route_bias = true,
    .keys = {"expert_count"},
    .read = read};
