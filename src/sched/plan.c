/* SPDX-License-Identifier: MIT
 *
 * A plan: operations placed, pieces cut, hand-overs found.
 */
#include "sched/plan.h"

#include <stdio.h>
#include <string.h>

/* ---- placing ---- */

/* Whether two operations must be on one device: over the same cache, or with the same weight. */
static bool bound(const struct op_list *list, const struct op *a, const struct op *b)
{
    const struct op_info *info = op_info_of(a->kind);
    for (int i = 0; i < a->n_weight; i++)
        for (int k = 0; k < b->n_weight; k++)
            if (a->weight[i] == b->weight[k]) return true;
    return (info->reads_cache || info->writes_cache) && op_uses_cache(list, b, list->layer[a->layer].cache);
}

/* Whether a device does an operation and all that are bound to it. */
static int supports(struct device *d, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    TRY(d->ops->supports(d, list, op, err));
    for (int i = 0; i < op->n_weight; i++) {
        const struct weight *w = op->weight[i];
        if (w->packed && w->device && w->device != d)
            return lutra_fail(
                err, LUTRA_E_UNSUPPORTED, "%s: %s has tensor '%s'", d->name, w->device->name, w->tensor.name);
    }
    for (int i = 0; i < list->n_op; i++)
        if (bound(list, op, &list->op[i])) TRY(d->ops->supports(d, list, &list->op[i], err));
    return 0;
}

/* The first device that can do an operation, or the last refusal. */
static int choose(const struct op_list *list, const struct op *op, struct device *const *device, int n_device,
    struct device **out, struct lutra_error *err)
{
    struct lutra_error why = {.what = "there is no device"};
    for (int d = 0; d < n_device; d++) {
        if (supports(device[d], list, op, &why) < 0) continue;
        *out = device[d];
        return 0;
    }
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "operation %s of layer %d: %s", op_name(op->kind), op->layer, why.what);
}

/* Its number in the plan; -1: there are too many. */
static int index_of(struct plan *plan, struct device *d)
{
    for (int i = 0; i < plan->n_device; i++)
        if (plan->device[i] == d) return i;
    if (plan->n_device == PLAN_DEVICES) return -1;
    plan->device[plan->n_device] = d;
    return plan->n_device++;
}

/* ---- who holds what ---- */

struct holders {
    uint32_t valid;             /* set of devices that have it */
    int writer;                 /* piece that wrote it last */
    int16_t used[PLAN_DEVICES]; /* last piece of each device that read or wrote it; -1: none */
};

static void wait_for(struct plan *plan, int piece, int other)
{
    int16_t *wait = &plan->piece[piece].wait[plan->piece[other].device];
    if (other > *wait) *wait = (int16_t)other;
}

/* Piece p reads a value. */
static void note_read(struct plan *plan, int p, int value, struct holders *h)
{
    struct plan_piece *piece = &plan->piece[p];
    uint32_t self = 1u << piece->device;
    h->used[piece->device] = (int16_t)p;
    if (h->valid & self) return;
    if (h->writer >= 0) { /* else it is given */
        wait_for(plan, p, h->writer);
        plan->piece[h->writer].publish |= 1u << value;
    }
    piece->acquire |= 1u << value;
    h->valid |= self;
}

/* Piece p writes a value: others may still use what was in shared memory. */
static void note_write(struct plan *plan, int p, struct holders *h)
{
    int self = plan->piece[p].device;
    for (int d = 0; d < plan->n_device; d++)
        if (d != self && h->used[d] >= 0) wait_for(plan, p, h->used[d]);
    h->valid = 1u << self;
    h->writer = p;
    h->used[self] = (int16_t)p;
}

static void find_moves(struct plan *plan)
{
    struct holders holders[VALUE_MAX];
    int last[PLAN_DEVICES];
    memset(holders, 0, sizeof holders);
    memset(last, -1, sizeof last);
    for (int v = 0; v < VALUE_MAX; v++) {
        memset(holders[v].used, -1, sizeof holders[v].used);
        holders[v].writer = -1;
    }
    for (int p = 0; p < plan->n_piece; p++) {
        const struct plan_piece *piece = &plan->piece[p];
        if (last[piece->device] >= 0) wait_for(plan, p, last[piece->device]);
        last[piece->device] = p;
        for (const struct op *op = plan->list->op + piece->first; op < plan->list->op + piece->first + piece->n; op++) {
            for (int i = 0; i < op->n_in; i++) note_read(plan, p, op->in[i], &holders[op->in[i]]);
            for (int i = 0; i < op->n_out; i++) note_write(plan, p, &holders[op->out[i]]);
        }
    }
    for (int v = 0; v < VALUE_MAX; v++) plan->writer[v] = (int16_t)holders[v].writer;
}

static int cut(
    struct plan *plan, const struct op_list *list, struct device *const *device, int n_device, struct lutra_error *err)
{
    for (int i = 0; i < list->n_op; i++) {
        struct device *d = NULL;
        TRY(choose(list, &list->op[i], device, n_device, &d, err));
        int index = index_of(plan, d);
        if (index < 0) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "more than %d devices in a plan", PLAN_DEVICES);
        if (plan->n_piece > 0 && plan->piece[plan->n_piece - 1].device == index) {
            plan->piece[plan->n_piece - 1].n++;
            continue;
        }
        if (plan->n_piece == PLAN_PIECES)
            return lutra_fail(
                err, LUTRA_E_UNSUPPORTED, "the devices would change more than %d times in a pass", PLAN_PIECES);
        struct plan_piece *piece = &plan->piece[plan->n_piece++];
        *piece = (struct plan_piece){.device = index, .first = i, .n = 1};
        memset(piece->wait, -1, sizeof piece->wait);
    }
    return 0;
}

int plan_open(
    struct plan *plan, const struct op_list *list, struct device *const *device, int n_device, struct lutra_error *err)
{
    plan->list = list;
    plan->n_piece = plan->n_device = 0;
    int rc = cut(plan, list, device, n_device, err);
    if (rc < 0)
        plan->n_piece = plan->n_device = 0;
    else
        find_moves(plan);
    return rc;
}

/* ---- what a plan says of itself ---- */

bool plan_keeps_cache(const struct plan *plan, const struct device *device)
{
    for (int p = 0; p < plan->n_piece; p++) {
        const struct op *op = plan->list->op + plan->piece[p].first, *end = op + plan->piece[p].n;
        for (; plan->device[plan->piece[p].device] == device && op < end; op++)
            if (op_info_of(op->kind)->reads_cache || op_info_of(op->kind)->writes_cache) return true;
    }
    return false;
}

int plan_bulk_rows(const struct plan *plan)
{
    int most = 0;
    for (int p = 0; p < plan->n_piece; p++) {
        struct device *d = plan->device[plan->piece[p].device];
        for (int i = 0; d->extras && d->extras->bulk_rows && i < plan->piece[p].n; i++) {
            int n = d->extras->bulk_rows(d, &plan->list->op[plan->piece[p].first + i]);
            if (n > most) most = n;
        }
    }
    return most;
}

struct device_caps plan_caps(const struct plan *plan)
{
    struct device_caps caps = plan->device[0]->caps;
    for (int i = 1; i < plan->n_device; i++) {
        const struct device_caps *c = &plan->device[i]->caps;
        if (c->max_rows < caps.max_rows) caps.max_rows = c->max_rows;
        if (c->flat_rows < caps.flat_rows) caps.flat_rows = c->flat_rows;
        caps.f16_cache |= c->f16_cache;
    }
    return caps;
}

/* How many operations of a kind a device runs. */
static int count(const struct plan *plan, int device, enum op_kind kind)
{
    int n = 0;
    for (int p = 0; p < plan->n_piece; p++)
        for (int i = 0; plan->piece[p].device == device && i < plan->piece[p].n; i++)
            n += plan->list->op[plan->piece[p].first + i].kind == kind;
    return n;
}

static void describe_device(const struct plan *plan, int device, char *text, size_t size)
{
    int at = snprintf(text, size, "%s runs", plan->device[device]->name), n_kind = 0;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        int n = count(plan, device, (enum op_kind)kind);
        if (n && at >= 0 && (size_t)at < size)
            at += snprintf(text + at, size - (size_t)at, "%s %d %s", n_kind ? "," : "", n, op_name((enum op_kind)kind));
        n_kind += n > 0;
    }
}

bool plan_report(const struct plan *plan, struct device *first, int line, char *text, size_t size)
{
    struct lutra_error why = {0}, last = {0};
    if (line < plan->n_device) {
        describe_device(plan, line, text, size);
        return true;
    }
    line -= plan->n_device;
    for (int p = 0; p < plan->n_piece; p++) {
        const struct plan_piece *piece = &plan->piece[p];
        const struct device *d = plan->device[piece->device];
        for (int i = piece->first; d != first && i < piece->first + piece->n; i++) {
            const struct op *op = &plan->list->op[i];
            if (supports(first, plan->list, op, &why) == 0 || !strcmp(why.what, last.what)) continue;
            last = why;
            if (line-- > 0) continue;
            snprintf(
                text, size, "%s runs %s of layer %d because of %s", d->name, op_name(op->kind), op->layer, why.what);
            return true;
        }
    }
    return false;
}
