/* SPDX-License-Identifier: MIT */
#include "decode/sequence.h"

struct kv_past sequence_past(const struct sequence *q, int bulk)
{
    return (struct kv_past){q->token, q->n_token - 1, q->n_prompt, bulk, q->domain};
}

int sequence_open(struct sequence *q, struct kv_cache *kv, int bulk, int max_tok)
{
    struct kv_past past = sequence_past(q, bulk);
    if (q->scored) past.n_token = 0;
    int32_t n = 0;
    int rc = kv_seq_open_past(kv, &past, max_tok, &q->id, &n, NULL);
    if (rc < 0) q->id = -1;
    q->n_done = q->n_found = q->n_noted = rc < 0 ? 0 : n;
    return rc;
}

void sequence_close(struct sequence *q, struct kv_cache *kv)
{
    if (q->id >= 0) kv_seq_close(kv, q->id);
    q->id = -1;
    q->n_done = q->n_found = q->n_noted = 0;
}

int sequence_common(const struct sequence *q, const int32_t *token, int n)
{
    int same = 0;
    if (n > q->n_token) n = q->n_token;
    while (same < n && q->token[same] == token[same]) same++;
    return same;
}
