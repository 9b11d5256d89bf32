/* SPDX-License-Identifier: MIT
 *
 * The run of a plan: pieces submitted, waited for where another device needs what they leave, done again when a device
 * is lost.
 */
#include <string.h>

#include "ops/head.h"
#include "sched/waits.h"

struct run {
    const struct plan *plan;
    const struct pass_args *pass;
    struct waits *waits;
    const struct plan_rescue *rescue;
    struct device *lost;
    int n; /* pieces submitted, of which the arrays tell: the rest is not even cleared */
    struct ticket ticket[PLAN_PIECES];
    bool over[PLAN_PIECES];
    bool has[2];                    /* ordinary rows, bulk rows: the pass does */
    uint64_t told_us[PLAN_DEVICES]; /* until when a device's pieces have been told of */
};

static int note_loss(struct run *r, struct device *d, int rc)
{
    if (rc == LUTRA_E_DEVICE_LOST) r->lost = d;
    return rc;
}

static uint64_t now(const struct run *r)
{
    return r->waits && r->waits->told ? clock_now_us(r->waits->clock) : 0;
}

static void tell(const struct run *r, int what, int p, uint64_t begin_us, uint64_t end_us)
{
    struct run_event e = {.plan = r->plan, .piece = p, .begin_us = begin_us, .end_us = end_us};
    e.what = what;
    if (!r->waits || !r->waits->told) return;
    e.pass = r->waits->n_pass;
    r->waits->told(r->waits->user, &e);
}

/* A piece of a device that computes beside the caller: as the device says, or from its submission, and from the end of
 * the piece before it, until now. */
static void tell_ran(struct run *r, int p)
{
    struct device *d = r->ticket[p].device;
    uint64_t begin, end, *told_us = &r->told_us[r->plan->piece[p].device];
    if (!r->waits || !r->waits->told || !r->ticket[p].id) return;
    if (!d->extras || !d->extras->ran || !d->extras->ran(d, &r->ticket[p], &begin, &end)) {
        begin = r->waits->begun_us[p] > *told_us ? r->waits->begun_us[p] : *told_us;
        end = now(r);
    }
    *told_us = end;
    tell(r, RUN_COMPUTE, p, begin, end);
}

/* What a share is of a value in some of its rows. */
static struct area area_of(const struct value *v, struct share share, struct row_run r)
{
    return (struct area){share_columns(share, v->dim), v->dim, r.n, r.first, share.rows != SHARE_ALL_ROWS};
}

/* A piece of a class that the pass has no rows of is not run. */
static bool is_idle(const struct run *r, int p)
{
    const struct share share = r->plan->piece[p].share;
    return !(r->has[0] && share_has(share, false)) && !(r->has[1] && share_has(share, true));
}

/* The last piece on a device, from this one back, that is run; -1: none. */
static int last_run(const struct run *r, int p, int device)
{
    while (p >= 0 && is_idle(r, p)) p = r->plan->piece[p].wait[device];
    return p;
}

static int piece_before(const struct run *r, int p)
{
    const int device = r->plan->piece[p].device;
    return last_run(r, r->plan->piece[p].wait[device], device);
}

/* Of a value that a piece wrote, to shared memory: rows of these classes. */
static int publish_value(struct device *d, const struct plan *plan, const struct pass_args *pass, int value,
    struct share share, struct lutra_error *err)
{
    const struct value *v = &plan->list->value[value];
    for (struct row_run rows = {0}; share_next_rows(pass, v->rows, share, &rows);)
        TRY(d->memory->publish(d, &pass->value[value], area_of(v, share, rows), err));
    return 0;
}

/* Brings what a piece has written, and others will read, to where they find it. */
static int publish(struct run *r, int p, struct lutra_error *err)
{
    const struct plan_piece *piece = &r->plan->piece[p];
    struct device *d = r->plan->device[piece->device];
    for (int v = 0; d->memory && (piece->publish[0] | piece->publish[1]) >> v; v++) {
        const bool ordinary = piece->publish[0] >> v & 1, bulk = piece->publish[1] >> v & 1;
        if (!ordinary && !bulk) continue;
        uint64_t start = now(r);
        struct share share = piece->share;
        if (ordinary != bulk) share.rows = bulk ? SHARE_BULK : SHARE_ORDINARY;
        TRY(note_loss(r, d, publish_value(d, r->plan, r->pass, v, share, err)));
        tell(r, RUN_COPY, p, start, now(r));
    }
    return 0;
}

/* Waits for a piece, with which those before it on the device are over. */
static int finish(struct run *r, int p, struct lutra_error *err)
{
    int self = r->plan->piece[p].device;
    struct device *d = r->plan->device[self];
    p = last_run(r, p, self);
    int first = p;
    if (p < 0 || r->over[p]) return 0;
    uint64_t start = now(r);
    TRY(note_loss(r, d, waits_for(r->waits, r->plan, p, &r->ticket[p], err)));
    if (r->ticket[p].id) tell(r, RUN_WAIT, p, start, now(r));
    for (int i = p; i >= 0 && !r->over[i]; i = piece_before(r, i)) r->over[first = i] = true;
    for (; first <= p; first++)
        if (r->plan->piece[first].device == self && !is_idle(r, first)) {
            tell_ran(r, first);
            TRY(publish(r, first, err));
        }
    return 0;
}

static void acquire(const struct run *r, const struct plan_piece *piece)
{
    struct device *d = r->plan->device[piece->device];
    const struct plan_move *m = &r->plan->move[piece->first_move];
    for (const struct plan_move *end = m + piece->n_move; d->memory && m < end; m++) {
        const struct value *v = &r->plan->list->value[m->value];
        for (struct row_run rows = {0}; share_next_rows(r->pass, v->rows, m->share, &rows);)
            d->memory->acquire(d, &r->pass->value[m->value], area_of(v, m->share, rows));
    }
}

/* ---- weights that are still being read ---- */

static bool is_prepared(const struct op *op, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < op[i].n_weight; k++)
            if (!weight_is_ready(op[i].weight[k], NULL)) return false;
    return true;
}

/* How many operations from this one on, of a piece that ends before `end`, are of its layer. */
static int of_layer(const struct op *op, const struct op *end)
{
    int n = 1;
    while (op + n < end && op[n].layer == op->layer) n++;
    return n;
}

/* What piece p has before the operations whose weights are the last to come, a layer at a time; these are left in
 * *segment. */
static int submit_as_held(
    struct run *r, int p, struct segment *segment, const struct ticket **after, struct lutra_error *err)
{
    struct device *d = r->plan->device[r->plan->piece[p].device];
    const struct op *end = segment->op + segment->n_op;
    for (int i = 0; i < p; i++) TRY(finish(r, i, err));
    *after = NULL;
    for (;;) {
        segment->n_op = of_layer(segment->op, end);
        TRY(r->rescue->hold(r->rescue->user, segment->op, segment->n_op, err));
        if (segment->op + segment->n_op == end) return 0;
        TRY(note_loss(r, d, d->ops->submit(d, segment, NULL, 0, &r->ticket[p], err)));
        TRY(note_loss(r, d, d->ops->wait(d, &r->ticket[p], err)));
        segment->op += segment->n_op;
    }
}

/* The last piece before this one, on its device, that others have to take something from; -1: none. */
static int last_published(const struct run *r, int p)
{
    const struct plan_piece *piece = r->plan->piece;
    int before = piece_before(r, p);
    while (before >= 0 && !r->over[before] && !(piece[before].publish[0] | piece[before].publish[1]))
        before = piece_before(r, before);
    return before >= 0 && !r->over[before] ? before : -1;
}

static int start(struct run *r, int p, struct lutra_error *err)
{
    const struct plan *plan = r->plan;
    const struct plan_piece *piece = &plan->piece[p];
    struct device *d = plan->device[piece->device];
    int before = piece_before(r, p);
    r->over[p] = is_idle(r, p);
    if (r->over[p]) {
        r->n = p + 1;
        return 0;
    }
    for (int i = 0; i < plan->n_device; i++)
        if (i != piece->device && piece->wait[i] >= 0) TRY(finish(r, piece->wait[i], err));
    /* Those it shares with read that, too: they would wait for it until this share is done. */
    const int shown = d->memory && !share_is_all(piece->share) ? last_published(r, p) : -1;
    if (shown >= 0) TRY(finish(r, shown, err));
    uint64_t before_us = now(r);
    acquire(r, piece);
    if (d->memory && piece->n_move) tell(r, RUN_COPY, p, before_us, now(r));
    struct segment segment = {&plan->list->op[piece->first], piece->n, plan->list, r->pass, piece->share, 0};
    if (p > plan->head && p < plan->head + plan->n_head) segment.place = p - plan->head;
    const struct ticket *after = before >= 0 && !r->over[before] ? &r->ticket[before] : NULL;
    if (r->rescue && r->rescue->hold && !is_prepared(segment.op, segment.n_op))
        TRY(submit_as_held(r, p, &segment, &after, err));
    waits_submitted(r->waits, p);
    before_us = now(r);
    TRY(note_loss(r, d, d->ops->submit(d, &segment, after, after != NULL, &r->ticket[p], err)));
    if (!r->ticket[p].id) tell(r, RUN_COMPUTE, p, before_us, now(r));
    r->over[p] = false;
    r->n = p + 1;
    return 0;
}

static int run_pieces(struct run *r, struct lutra_error *err)
{
    for (int p = 0; p < r->plan->n_piece; p++) {
        if (r->pass->cancel && atomic_load_explicit(r->pass->cancel, memory_order_relaxed))
            return lutra_fail(err, LUTRA_E_CANCELLED, "cancelled");
        TRY(start(r, p, err));
    }
    for (int p = r->n - 1; p >= 0; p--) TRY(finish(r, p, err));
    if (r->plan->n_head) head_merge(r->pass, &r->plan->list->op[r->plan->piece[r->plan->head].first], r->plan->n_head);
    return 0;
}

/* Nothing of a pass that failed goes on, on the devices that are left. */
static void settle(struct run *r)
{
    struct lutra_error ignored;
    for (int p = 0; p < r->n; p++) {
        struct device *d = r->plan->device[r->plan->piece[p].device];
        if (!r->over[p] && d != r->lost) d->ops->wait(d, &r->ticket[p], &ignored);
    }
}

static int run_once(const struct plan *plan, const struct pass_args *pass, struct waits *waits,
    const struct plan_rescue *rescue, struct device **lost, struct lutra_error *err)
{
    struct run r;
    r.plan = plan, r.pass = pass, r.waits = waits, r.rescue = rescue, r.lost = NULL, r.n = 0;
    for (int bulk = 0; bulk < 2; bulk++) {
        const struct share rows = {.rows = bulk ? SHARE_BULK : SHARE_ORDINARY};
        r.has[bulk] = !plan->by_class || share_next_rows(pass, ROWS_ALL, rows, &(struct row_run){0, 0});
    }
    memset(r.told_us, 0, sizeof r.told_us);
    if (waits) waits_begin(waits, plan, pass->batch->n_row);
    int rc = run_pieces(&r, err);
    if (rc < 0) settle(&r);
    *lost = r.lost;
    return rc;
}

int plan_share(const struct plan *plan, const struct pass_args *pass, int value, struct lutra_error *err)
{
    const struct plan_writers *w = &plan->writer[value];
    for (int p = w->first; p < w->first + w->n; p++) {
        const struct plan_piece *piece = &plan->piece[p];
        struct device *d = plan->device[piece->device];
        if (!d->memory || (piece->publish[0] & piece->publish[1]) >> value & 1) continue;
        TRY(publish_value(d, plan, pass, value, piece->share, err));
    }
    return 0;
}

int plan_run(const struct plan *plan, const struct pass_args *pass, struct waits *waits,
    const struct plan_rescue *rescue, struct lutra_error *err)
{
    struct device *lost = NULL;
    if (!plan->n_piece) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "no devices are left for the model");
    if (plan->n_head && !pass->head)
        return lutra_fail(err, LUTRA_E_INTERNAL, "no room for what shares of the head leave");
    int rc = run_once(plan, pass, waits, rescue, &lost, err);
    while (rc == LUTRA_E_DEVICE_LOST && lost && rescue) {
        TRY(rescue->replace(rescue->user, lost, err));
        for (int i = 0; i < plan->n_device; i++)
            if (plan->device[i] == lost)
                return lutra_fail(err, LUTRA_E_INTERNAL, "the plan keeps %s, which is lost", lost->name);
        rc = run_once(plan, pass, waits, rescue, &lost, err);
    }
    return rc;
}
