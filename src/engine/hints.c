/* SPDX-License-Identifier: MIT
 *
 * What drafters want of a prompt's rows: hints, what the model itself holds likely behind each token [SDNPU 4.3]; and
 * the states that an MTP block reads.
 *
 * A pass leaves what goes into the head only for rows whose results are wanted.  So behind the pass an op list
 * of its own runs on the rows that ask, some at a time: the model's operations from the first that takes wanted rows on
 * (the last layer's feed-forward and the head).  For hints the head is over a shortlist of the vocabulary: the tokens
 * of the prompts of this pass, then those their requests name, then the lowest ids, which vocabularies give to what is
 * commonest; for states alone it computes nothing.  All its rows are bulk rows.  K/V, classes and results of the pass
 * are what they are without.  Rows whose hints are known (lutra_request_experiment.known_hints) are left out.
 */
#include "engine/session_impl.h"

#include <string.h>

#include "base/hash.h"
#include "weights/packed.h"

enum { HINT_ROWS = 128 /* that run at once */, SHORTLIST_MOST = 4096 };

static const struct op *head_of(const lutra_session *s)
{
    const struct op_list *list = model_ops(s->model->model);
    return &list->op[list->n_op - 1];
}

/* ---- their op list ---- */

/* Of all rows: what wanted rows have left is of other ones. */
static int check_given(const struct op_list *list, uint64_t given, struct lutra_error *err)
{
    for (int v = 0; v < list->n_value; v++)
        if (given >> v & 1 && list->value[v].rows != ROWS_ALL)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "spec_type: of value %d there is no row for each token", v);
    return 0;
}

int hints_open(lutra_session *s, const struct lutra_session_settings *set, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    const struct op_list *all = model_ops(s->model->model);
    int n_vocab = all->n_vocab, n_block = model_hparams(s->model->model)->n_draft_layer;
    bool states = n_block > 0 && spec_settings_need_mtp(&s->spec) != SPEC_WITHOUT;
    h->wanted = spec_settings_need_hints(&s->spec);
    if (!h->wanted && !states) return 0;
    if (set->spec_shortlist < 0 || set->spec_shortlist > SHORTLIST_MOST)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "spec_shortlist is %d, outside 0..%d", set->spec_shortlist, SHORTLIST_MOST);
    h->list = *all;
    h->list.n_op = all->n_op - op_list_tail(all, &h->list.given);
    int rc = check_given(all, h->list.given, err);
    if (rc < 0) return h->wanted ? rc : 0;
    h->states = states;
    h->n_row = s->n_batch < HINT_ROWS ? s->n_batch : HINT_ROWS;
    h->n_short = h->wanted && set->spec_shortlist < n_vocab ? set->spec_shortlist : 0;
    h->row_bytes = head_of(s)->weight[0]->tensor.bytes / (size_t)n_vocab;
    return 0;
}

/* The shortlist's rows of the head. */
static void make_head(lutra_session *s)
{
    struct hints *h = &s->hints;
    struct op *head = &h->op[h->list.n_op - 1];
    h->weight.use = WEIGHT_MATMUL;
    h->weight.tensor = head->weight[0]->tensor;
    h->weight.tensor.ne[1] = h->n_short;
    h->weight.tensor.data = h->source;
    h->weight.tensor.bytes = (size_t)h->n_short * h->row_bytes;
    head->weight[0] = &h->weight;
    h->list.n_vocab = h->n_short;
}

void hints_make(lutra_session *s)
{
    struct hints *h = &s->hints;
    const struct op_list *all = model_ops(s->model->model);
    if (!h->n_row) return;
    for (int i = 0; i < h->n_row; i++) {
        h->result[i].top_id = h->top_id + (size_t)i * ROW_TOPK;
        h->result[i].top_logit = h->top_logit + (size_t)i * ROW_TOPK;
    }
    memcpy(h->op, all->op + all->n_op - h->list.n_op, (size_t)h->list.n_op * sizeof *h->op);
    h->list.op = h->op;
    if (h->n_short) make_head(s);
}

/* ---- their plan ---- */

static void let_go(lutra_session *s)
{
    struct hints *h = &s->hints;
    struct held *held = &h->weight.held[0];
    if (held->packed) held->device->ops->release(held->device, &h->weight);
    held->device = NULL;
}

static int open_plan(lutra_session *s, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    bool keeps;
    TRY(model_open_plan(s->model, PASS_FEW, &h->list, h->plan, err));
    if (h->n_short) {
        struct device *last = h->plan->device[h->plan->piece[h->plan->n_piece - 1].device];
        TRY(device_store(last)->ops->prepare(device_store(last), &h->weight, &keeps, err));
    }
    for (int i = 0; i < h->plan->n_device; i++) {
        struct device *d = h->plan->device[i];
        if (d->memory) TRY(d->memory->load(d, &h->list, err));
    }
    return 0;
}

int hints_plan(lutra_session *s, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    let_go(s);
    int rc = open_plan(s, err);
    if (rc < 0) h->plan->n_piece = h->plan->n_device = 0;
    return rc;
}

void hints_close(lutra_session *s)
{
    const lutra_runtime *rt = s->model->runtime;
    if (!s->hints.list.op) return;
    let_go(s);
    for (int i = 0; i < rt->devices.n_device; i++) {
        struct device *d = rt->devices.device[i];
        if (d->memory) d->memory->unload(d, &s->hints.list);
        if (d->extras && d->extras->forget) d->extras->forget(d, &s->hints.list);
    }
}

uint64_t lutra_session_hints(const lutra_session *s)
{
    if (!s || !s->hints.wanted) return 0;
    const uint64_t who[] = {packed_identity(s->model->weights), s->model->adapters, (uint64_t)s->hints.n_short};
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

static int prepare_again(struct weight *w, struct lutra_error *err)
{
    struct device *d = w->held[0].device;
    bool keeps, again = d->extras && d->extras->repack;
    (again ? d->extras->repack : d->ops->release)(d, w);
    return again ? 0 : d->ops->prepare(d, w, &keeps, err);
}

/* That of this pass, prepared unless it is the last one's. */
static int choose(lutra_session *s, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    struct list l = {h->next_id, 0, h->n_short, model_ops(s->model->model)->n_vocab, h->seen};
    memset(h->seen, 0, (size_t)l.n_vocab / 8 + 1);
    for (const struct request *r = s->first; r; r = r->next)
        for (int i = 0; request_in_prompt(r) && i < r->set.n_prompt; i++) add(&l, r->set.prompt[i]);
    for (const struct request *r = s->first; r; r = r->next)
        for (int i = 0; request_in_prompt(r) && i < r->experiment.n_likely; i++) add(&l, r->experiment.likely[i]);
    for (int32_t token = 0; l.n < l.most; token++) add(&l, token);
    if (h->chosen && memcmp(h->id, h->next_id, (size_t)l.n * sizeof *h->id) == 0) return 0;
    const struct tensor *all = &head_of(s)->weight[0]->tensor;
    for (int i = 0; i < l.n; i++)
        memcpy(h->source + (size_t)i * h->row_bytes, (const uint8_t *)all->data + (size_t)l.id[i] * h->row_bytes,
            h->row_bytes);
    memcpy(h->id, h->next_id, (size_t)l.n * sizeof *h->id);
    h->chosen = false;
    TRY(prepare_again(&h->weight, err));
    h->chosen = true;
    return 0;
}

/* ---- a pass ---- */

bool session_leaves_states(const lutra_session *s)
{
    return s->hints.states;
}

void session_ask_state(lutra_session *s, int32_t row)
{
    if (s->batch.row[row].want & WANT_ALL)
        s->batch.row[row].want |= WANT_HIDDEN;
    else
        s->asked[row] = true;
}

const float *session_state(const lutra_session *s, int32_t row)
{
    const struct row_result *r = session_result(s, row);
    if (r) return r->hidden;
    return s->asked[row] ? s->state + (size_t)row * (size_t)model_ops(s->model->model)->d_model : NULL;
}

/* What the pass has left goes to where the hints' plan finds it. */
static int share(lutra_session *s, const struct pass_args *pass, struct lutra_error *err)
{
    for (int v = 0; v < s->hints.list.n_value; v++)
        if (s->hints.list.given >> v & 1) TRY(plan_share(model_plan(s->model, pass->batch->n_row), pass, v, err));
    return 0;
}

static bool is_known(const struct row *r)
{
    return r->hints && r->hints->p[0] > 0;
}

static bool wants_hints(const struct row *r)
{
    return r->hints && !is_known(r);
}

/* The rows of out_row want their states, and what hints are made of, in bulk.  Returns for how many hints are made. */
static int ask(lutra_session *s, int n)
{
    struct hints *h = &s->hints;
    size_t d = (size_t)model_ops(s->model->model)->d_model;
    int n_hint = 0;
    for (int i = 0; i < n; i++) {
        int32_t row = h->out_row[i];
        bool hint = wants_hints(&s->batch.row[row]), state = s->asked && s->asked[row];
        n_hint += hint;
        h->batch.row[row].want = ROW_BULK | (hint ? WANT_TOPK : 0u) | (state ? WANT_HIDDEN : 0u);
        h->result[i].row = row;
        h->result[i].hidden = state ? s->state + (size_t)row * d : NULL;
    }
    return n_hint;
}

static void answer(lutra_session *s, int n)
{
    struct hints *h = &s->hints;
    for (int i = 0; i < n; i++) {
        struct row_result *r = &h->result[i];
        bool hint = (h->batch.row[r->row].want & WANT_TOPK) != 0;
        h->batch.row[r->row].want = 0;
        if (!hint) continue;
        for (int k = 0; h->n_short && k < r->n_top; k++) r->top_id[k] = h->id[r->top_id[k]];
        row_hints_of(r, s->batch.row[r->row].hints);
        s->stats.hint_rows++;
    }
}

int hints_run(lutra_session *s, const struct pass_args *pass, const struct plan_rescue *rescue, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    struct pass_args own = *pass;
    int n_row = h->batch.n_row = s->batch.n_row;
    own.batch = &h->batch;
    own.out_row = h->out_row;
    own.result = h->result;
    TRY(share(s, pass, err));
    for (int row = 0; row < n_row; row++) {
        h->batch.row[row] = s->batch.row[row];
        h->batch.row[row].want = 0;
    }
    for (int row = 0, n = 0; row < n_row; row++) {
        const struct row *r = &s->batch.row[row];
        s->stats.known_hint_rows += is_known(r);
        if (wants_hints(r) || (s->asked && s->asked[row])) h->out_row[n++] = row;
        if (n == 0 || (n < h->n_row && row < n_row - 1)) continue;
        if (ask(s, n) > 0 && h->n_short) TRY(choose(s, err));
        own.n_out = n;
        TRY(plan_run(h->plan, &own, NULL, rescue, err));
        answer(s, n);
        n = 0;
    }
    return 0;
}
