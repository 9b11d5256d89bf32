/* SPDX-License-Identifier: MIT
 *
 * Hints of a prompt's rows: what the model itself holds likely behind each of its tokens [SDNPU 4.3].
 *
 * A pass leaves what goes into the head only for rows that somebody wants a result of.  So behind the pass the last
 * layer's feed-forward and the head run once more on the rows with hints, some at a time, and the head over a shortlist
 * of the vocabulary: the tokens of the prompts of this pass, then those their requests name, then the lowest ids, which
 * vocabularies give to what is commonest.  K/V, classes and results of the pass are what they are without.  Rows whose
 * hints are known (lutra_request.known_hints) are left out.
 */
#include "engine/engine_impl.h"

#include <string.h>

#include "base/hash.h"
#include "weights/packed.h"

enum { HINT_ROWS = 128 /* that run at once */, SHORTLIST_MOST = 4096 };

static const struct op *head_of(const lutra_session *s)
{
    const struct op_list *list = model_ops(s->model->model);
    return &list->op[list->n_op - 1];
}

int hints_open(lutra_session *s, const struct lutra_session_settings *set, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    struct plan_hints at;
    int n_vocab = model_ops(s->model->model)->n_vocab;
    if (!spec_settings_need_hints(&s->spec)) return 0;
    if (set->spec_shortlist < 0 || set->spec_shortlist > SHORTLIST_MOST)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "spec_shortlist is %d, outside 0..%d", set->spec_shortlist, SHORTLIST_MOST);
    struct lutra_error why = {0};
    if (plan_find_hints(&s->model->plan, &at, &why) < 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "spec_type: calibrated: %s", why.what);
    h->n_row = s->n_batch < HINT_ROWS ? s->n_batch : HINT_ROWS;
    h->n_short = set->spec_shortlist < n_vocab ? set->spec_shortlist : 0;
    h->row_bytes = head_of(s)->weight[0]->tensor.bytes / (size_t)n_vocab;
    return 0;
}

int hints_prepare(lutra_session *s, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    const struct op *head = head_of(s);
    bool keeps;
    for (int i = 0; i < h->n_row; i++) {
        h->result[i].top_id = h->top_id + (size_t)i * ROW_HINTS;
        h->result[i].top_logit = h->top_logit + (size_t)i * ROW_HINTS;
    }
    if (!h->n_row || !h->n_short) return 0;
    h->weight.use = WEIGHT_MATMUL;
    h->weight.tensor = head->weight[0]->tensor;
    h->weight.tensor.ne[1] = h->n_short;
    h->weight.tensor.data = h->source;
    h->weight.tensor.bytes = (size_t)h->n_short * h->row_bytes;
    h->weight.device = head->weight[0]->device;
    TRY(h->weight.device->ops->prepare(h->weight.device, &h->weight, &keeps, err));
    h->head = (struct hint_head){&h->weight, h->id};
    return 0;
}

void hints_close(lutra_session *s)
{
    if (s->hints.weight.packed) s->hints.weight.device->ops->release(s->hints.weight.device, &s->hints.weight);
}

uint64_t lutra_session_hints(const lutra_session *s)
{
    if (!s->hints.n_row) return 0;
    const uint64_t who[] = {packed_identity(s->model->weights), (uint64_t)s->hints.n_short};
    return hash_bytes(ROW_HINTS, who, sizeof who) | 1;
}

/* ---- the shortlist ---- */

struct list {
    int32_t *id;
    int n, most, n_vocab;
    uint8_t *seen; /* [n_vocab / 8] */
};

static void add(struct list *l, int32_t token)
{
    if (l->n == l->most || token < 0 || token >= l->n_vocab || l->seen[token / 8] >> token % 8 & 1) return;
    l->seen[token / 8] |= (uint8_t)(1 << token % 8);
    l->id[l->n++] = token;
}

/* That of this pass, prepared unless it is the last one's. */
static void choose(lutra_session *s)
{
    struct hints *h = &s->hints;
    struct list l = {h->next_id, 0, h->n_short, model_ops(s->model->model)->n_vocab, h->seen};
    memset(h->seen, 0, (size_t)l.n_vocab / 8 + 1);
    for (const struct request *r = s->first; r; r = r->next)
        for (int i = 0; request_in_prompt(r) && i < r->set.n_prompt; i++) add(&l, r->set.prompt[i]);
    for (const struct request *r = s->first; r; r = r->next)
        for (int i = 0; request_in_prompt(r) && i < r->set.n_likely; i++) add(&l, r->set.likely[i]);
    for (int32_t token = 0; l.n < l.most; token++) add(&l, token);
    if (h->chosen && memcmp(h->id, h->next_id, (size_t)l.n * sizeof *h->id) == 0) return;
    const struct tensor *all = &head_of(s)->weight[0]->tensor;
    for (int i = 0; i < l.n; i++)
        memcpy(h->source + (size_t)i * h->row_bytes, (const uint8_t *)all->data + (size_t)l.id[i] * h->row_bytes,
            h->row_bytes);
    memcpy(h->id, h->next_id, (size_t)l.n * sizeof *h->id);
    h->weight.device->extras->repack(h->weight.device, &h->weight);
    h->chosen = true;
}

/* ---- a pass ---- */

int hints_run(lutra_session *s, const struct step *pass, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    struct step step = *pass;
    step.hints = &h->head;
    step.out_row = h->out_row;
    step.result = h->result;
    for (int row = 0, n = 0; row < s->batch.n_row; row++) {
        const struct row_hints *hints = s->batch.row[row].hints;
        bool is_known = hints && hints->p[0] > 0;
        s->stats.known_hint_rows += is_known;
        if (hints && !is_known) h->out_row[n++] = row;
        if (n == 0 || (n < h->n_row && row < s->batch.n_row - 1)) continue;
        if (h->n_short) choose(s);
        step.n_out = n;
        TRY(plan_run_hints(&s->model->plan, &step, err));
        s->stats.hint_rows += (uint64_t)n;
        for (int i = 0; i < n; i++) row_hints_of(&h->result[i], s->batch.row[h->out_row[i]].hints);
        n = 0;
    }
    return 0;
}
