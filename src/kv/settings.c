/* SPDX-License-Identifier: MIT */
#include "kv/kv.h"

/* States for all samples, a prompt and one more, and as many others for reuse as a GiB holds, within bounds. */
static int n_states(struct kv_settings kv, int n_seq)
{
    enum { FEWEST = 4, MOST = 32 };
    size_t each, spare;
    kv_state_bytes(&kv, &each);
    if (!each) return 0;
    spare = ((size_t)1 << 30) / each;
    return 1 + 2 * (n_seq + 2) + (spare < FEWEST ? FEWEST : spare > MOST ? MOST : (int)spare);
}

struct kv_settings kv_settings_for(const struct op_list *list, const enum quant_type *type, int n_ctx, int64_t n_block,
    int n_seq, int n_row, int n_draft, bool swa_trim)
{
    struct kv_settings kv = {.type = {type[KV_K], type[KV_V]},
        .layer = list->layer,
        .n_layer = list->n_layer,
        .n_ctx = n_ctx,
        .n_block = (int)n_block,
        .n_seq = 2 * n_seq + KV_SPARE, /* samples, prompts in waiting, the caller's */
        .n_row = n_row,
        .n_draft = n_draft,
        .whole = list->whole,
        .swa_trim = swa_trim};
    kv.n_state = n_states(kv, n_seq);
    return kv;
}
