/* SPDX-License-Identifier: MIT
 *
 * The prefix cache: a text evaluates only what no other of its domain has evaluated in the same classes (kv/past.c), of
 * those that run and of those that have ended.  One that would share what another is about to evaluate waits for that.
 * What is likely behind a block's tokens is kept beside it.
 */
#include "engine/session_impl.h"

#include <string.h>

void texts_under_way(lutra_session *s)
{
    int n = 0;
    for (struct request *r = s->first; r; r = r->next)
        if (request_in_prompt(r)) s->way[n++] = (struct text_way){.request = r, .seq = &r->seq, .row = -1};
    for (int i = 0; i < s->n_seq; i++) {
        struct sample *slot = &s->sample[i];
        if (slot->request && slot->seq.id >= 0 && sequence_left(&slot->seq) > 1 && !request_paused(slot->request))
            s->way[n++] = (struct text_way){.request = slot->request, .slot = slot, .seq = &slot->seq, .row = -1};
    }
    s->n_way = n;
}

/* Of the first n tokens of a text, those evaluated as any prompt's would be: where a device has bulk rows, whole blocks
 * before the prompt's last token. */
static int of_class(const lutra_session *s, int n_prompt, int n)
{
    int bulk = s->batch.bulk, most = bulk ? (n_prompt - 1) / bulk * bulk : n;
    return n < most ? n : most;
}

bool prefix_is_coming(lutra_session *s, const struct sequence *q)
{
    const struct op_list *list = model_ops(s->model->model);
    if (s->swa_trim || q->scored) return false; /* what it shares may be gone by then, or is not taken */
    for (int i = 0; i < list->n_layer; i++)
        if (list->layer[i].state_bytes) return false; /* and not every token leaves a state */
    struct kv_past past = sequence_past(q, s->batch.bulk);
    int most = 0;
    texts_under_way(s);
    for (const struct text_way *w = s->way; w < s->way + s->n_way; w++) {
        if (w->seq->domain != q->domain) continue;
        int n = of_class(s, w->seq->n_prompt, sequence_text(w->seq));
        n = sequence_common(w->seq, past.token, n < past.n_token ? n : past.n_token);
        if (n > w->seq->n_done && n > most) most = n;
    }
    return most >= KV_BLOCK && most >= kv_find(s->kv, &past) + KV_BLOCK;
}

/* Hints of a sequence's tokens first .. n - 1, from the first's block on, go to those of its blocks, or come from
 * there. */
static void copy_hints(lutra_session *s, const struct sequence *q, int first, int n, bool keep)
{
    for (int at = first - first % KV_BLOCK; s->kept_hints && at < n; at += KV_BLOCK) {
        int32_t block = kv_seq_block(s->kv, q->id, at / KV_BLOCK);
        size_t bytes = (size_t)(n - at < KV_BLOCK ? n - at : KV_BLOCK) * sizeof *q->hints;
        if (block < 0) return;
        struct row_hints *kept = s->kept_hints + (size_t)block * KV_BLOCK;
        memcpy(keep ? kept : q->hints + at, keep ? q->hints + at : kept, bytes);
    }
}

void prefix_note(lutra_session *s, struct sequence *q)
{
    if (q->hints && q->n_done > q->n_noted) copy_hints(s, q, q->n_noted, q->n_done, true);
    q->n_noted = q->n_done;
}

int prefix_open(lutra_session *s, struct sequence *q, int max_tok)
{
    TRY(sequence_open(q, s->kv, s->batch.bulk, max_tok));
    if (q->hints) copy_hints(s, q, 0, q->n_done, false);
    return 0;
}
