/* SPDX-License-Identifier: MIT
 *
 * The prefix cache: a text evaluates only what no other of its domain has evaluated in the same classes (kv/past.c), of
 * those that run and of those that have ended.  One that would share what another is about to evaluate waits for that.
 * What is likely behind a block's tokens is kept beside it.
 */
#include "engine/session_impl.h"

#include <string.h>

struct kv_past prefix_of_prompt(const lutra_session *s, const struct request *r)
{
    int n = r->set.n_prompt;
    return (struct kv_past){r->set.prompt, n - 1, n, s->batch.bulk, r->set.cache_domain}; /* one row is left */
}

struct kv_past prefix_of_sample(const lutra_session *s, const struct sample *slot)
{
    const struct request *r = slot->request;
    return (struct kv_past){slot->token, slot->n_token, r->set.n_prompt, s->batch.bulk, r->set.cache_domain};
}

int texts_under_way(lutra_session *s)
{
    int n = 0;
    for (struct request *r = s->first; r; r = r->next)
        if (request_in_prompt(r))
            s->way[n++] = (struct text_way){.request = r,
                .seq = r->seq,
                .token = r->set.prompt,
                .n_token = r->set.n_prompt,
                .n_done = r->n_done,
                .n_found = r->n_found};
    for (int i = 0; i < s->n_seq; i++) {
        struct sample *slot = &s->sample[i];
        if (!slot->request || slot->seq < 0 || !slot->behind || request_paused(slot->request)) continue;
        s->way[n++] = (struct text_way){.request = slot->request,
            .slot = slot,
            .seq = slot->seq,
            .token = slot->token,
            .n_token = sample_catch_up(s, slot),
            .n_done = kv_seq_length(s->kv, slot->seq),
            .n_found = slot->n_found};
    }
    return n;
}

/* Of the first n tokens of a text, those evaluated as any prompt's would be: where a device has bulk rows, whole blocks
 * before the prompt's last token. */
static int of_class(const lutra_session *s, int n_prompt, int n)
{
    int bulk = s->batch.bulk, most = bulk ? (n_prompt - 1) / bulk * bulk : n;
    return n < most ? n : most;
}

static int n_common(const int32_t *a, int n_a, const int32_t *b, int n_b)
{
    int n = 0, most = n_a < n_b ? n_a : n_b;
    while (n < most && a[n] == b[n]) n++;
    return n;
}

bool prefix_is_coming(lutra_session *s, const struct kv_past *p)
{
    const struct op_list *list = model_ops(s->model->model);
    if (s->free_windows) return false; /* what it shares may be gone by then */
    for (int i = 0; i < list->n_layer; i++)
        if (list->layer[i].state_bytes) return false; /* and not every token leaves a state */
    int most = 0, n_way = texts_under_way(s);
    for (int i = 0; i < n_way; i++) {
        const struct text_way *w = &s->way[i];
        if (w->request->set.cache_domain != p->domain) continue;
        int n = n_common(w->token, of_class(s, w->request->set.n_prompt, w->n_token), p->token, p->n_token);
        if (n > w->n_done && n > most) most = n;
    }
    return most >= KV_BLOCK && most >= kv_find(s->kv, p) + KV_BLOCK;
}

/* Hints of a sequence's tokens first .. n - 1, from the first's block on, go to those of its blocks, or come from
 * there. */
static void copy_hints(lutra_session *s, int32_t seq, struct row_hints *hints, int first, int n, bool keep)
{
    for (int at = first - first % KV_BLOCK; s->kept_hints && at < n; at += KV_BLOCK) {
        int32_t block = kv_seq_block(s->kv, seq, at / KV_BLOCK);
        size_t bytes = (size_t)(n - at < KV_BLOCK ? n - at : KV_BLOCK) * sizeof *hints;
        if (block < 0) return;
        struct row_hints *kept = s->kept_hints + (size_t)block * KV_BLOCK;
        memcpy(keep ? kept : hints + at, keep ? hints + at : kept, bytes);
    }
}

void prefix_note(lutra_session *s, struct sample *slot)
{
    int n = kv_seq_length(s->kv, slot->seq);
    if (slot->hints && n > slot->n_noted) copy_hints(s, slot->seq, slot->hints, slot->n_noted, n, true);
    slot->n_noted = n;
}

void prefix_note_prompt(lutra_session *s, struct request *r, int before)
{
    if (r->hints) copy_hints(s, r->seq, r->hints, before, r->n_done, true);
}

int prefix_seq_open(
    lutra_session *s, const struct kv_past *past, struct row_hints *hints, int max_tok, int32_t *seq, int32_t *n_found)
{
    TRY(kv_seq_open_past(s->kv, past, max_tok, seq, n_found, NULL));
    if (hints) copy_hints(s, *seq, hints, 0, *n_found, false);
    return 0;
}
