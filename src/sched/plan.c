/* SPDX-License-Identifier: MIT
 *
 * A plan: operations placed, pieces cut, hand-overs found.
 */
#include "sched/plan.h"

#include <stdio.h>
#include <string.h>

#include "sched/plan_impl.h"

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
        if (w->only && w->only != d)
            return lutra_fail(
                err, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' is kept for %s", d->name, w->tensor.name, w->only->name);
    }
    for (int i = 0; i < list->n_op; i++)
        if (bound(list, op, &list->op[i])) TRY(d->ops->supports(d, list, &list->op[i], err));
    return 0;
}

int plan_choose(const struct op_list *list, const struct op *op, struct device *const *device, int n_device,
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

/* Columns of a value that one piece has written. */
struct kept {
    struct share share;
    int writer;        /* piece; -1: none, they are given */
    uint32_t valid[2]; /* sets of devices that have their ordinary rows, and their bulk rows */
};

struct holders {
    struct kept held[PLAN_PARTS];
    int n_held;
    int group;                                        /* its first piece, of the pieces that wrote it last */
    int16_t used[PLAN_DEVICES], before[PLAN_DEVICES]; /* last piece of each device that read or wrote it, -1: none; and
                                                         before the pieces at work */
};

static void wait_for(struct plan *plan, int piece, int other)
{
    int16_t *wait = &plan->piece[piece].wait[plan->piece[other].device];
    if (other > *wait) *wait = (int16_t)other;
}

static bool overlap(struct share a, struct share b)
{
    if (share_is_whole(a) || share_is_whole(b)) return true;
    return a.from < b.to && b.from < a.to;
}

/* The classes of rows, ordinary and bulk, of what has been written that a device needs and does not have: sets it has
 * now.  False: none. */
static bool needs(struct kept *c, struct share share, uint32_t self, bool class[2])
{
    for (int k = 0; k < 2; k++) {
        class[k] = share_has(share, k) && share_has(c->share, k) && !(c->valid[k] & self);
        if (class[k]) c->valid[k] |= self;
    }
    return class[0] || class[1];
}

/* Piece p reads a value: a product all of it, a gate the columns of its share. */
static int note_read(
    struct plan *plan, int p, int value, struct share share, struct holders *h, struct lutra_error *err)
{
    struct plan_piece *piece = &plan->piece[p];
    uint32_t self = 1u << piece->device;
    h->used[piece->device] = (int16_t)p;
    for (struct kept *c = h->held; c < h->held + h->n_held; c++) {
        bool class[2];
        if (!overlap(c->share, share) || !needs(c, share, self, class)) continue;
        if (c->writer >= 0) wait_for(plan, p, c->writer);
        for (int k = 0; c->writer >= 0 && k < 2; k++) plan->piece[c->writer].publish[k] |= (uint64_t) class[k] << value;
        const enum share_rows rows = class[0] && class[1] ? SHARE_ALL_ROWS : class[1] ? SHARE_BULK : SHARE_ORDINARY;
        if (plan->n_move == PLAN_MOVES)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "the devices would hand over more than %d values", PLAN_MOVES);
        plan->move[plan->n_move++] = (struct plan_move){value, {c->share.from, c->share.to, rows}};
        piece->n_move++;
    }
    return 0;
}

/* Piece p, of a group that begins with piece `group`, writes a value: others may still use what was there. */
static void note_write(struct plan *plan, int p, int group, struct holders *h)
{
    int self = plan->piece[p].device;
    for (int d = 0; d < plan->n_device; d++)
        if (d != self && h->before[d] >= 0) wait_for(plan, p, h->before[d]);
    if (h->group != group) h->n_held = 0;
    h->group = group;
    h->held[h->n_held++] = (struct kept){plan->piece[p].share, p, {1u << self, 1u << self}};
    h->used[self] = (int16_t)p;
}

/* Written before in the same piece: the columns are there. */
static bool writes_again(int p, const struct holders *h)
{
    for (int i = 0; i < h->n_held; i++)
        if (h->held[i].writer == p) return true;
    return false;
}

/* What a piece reads that it has not written itself, a product and the head whole rows, others the columns of its
 * share. */
static int find_reads(struct plan *plan, int p, struct holders *holders, struct lutra_error *err)
{
    struct plan_piece *piece = &plan->piece[p];
    const struct op *first = plan->list->op + piece->first;
    uint64_t own = 0;
    piece->first_move = plan->n_move;
    for (const struct op *op = first; op < first + piece->n; op++) {
        bool whole = op->kind == OP_MATMUL || op->kind == OP_HEAD;
        struct share share = piece->share;
        if (whole) share.from = share.to = 0;
        for (int i = 0; i < op->n_in; i++)
            if (!(own >> op->in[i] & 1)) TRY(note_read(plan, p, op->in[i], share, &holders[op->in[i]], err));
        for (int i = 0; i < op->n_out; i++) own |= (uint64_t)1 << op->out[i];
    }
    return 0;
}

static void find_writes(struct plan *plan, int p, int group, struct holders *holders)
{
    const struct plan_piece *piece = &plan->piece[p];
    const struct op *op = plan->list->op + piece->first, *end = op + piece->n;
    for (; op < end; op++)
        for (int i = 0; i < op->n_out; i++)
            if (!writes_again(p, &holders[op->out[i]])) note_write(plan, p, group, &holders[op->out[i]]);
}

/* The pieces of one operation, or stretch of operations, that begin at piece p. */
static int group_end(const struct plan *plan, int p)
{
    int end = p + 1;
    while (end < plan->n_piece && plan->piece[end].first == plan->piece[p].first) end++;
    return end;
}

static int find_moves(struct plan *plan, struct lutra_error *err)
{
    struct holders holders[VALUE_MAX];
    int last[PLAN_DEVICES];
    memset(last, -1, sizeof last);
    for (int v = 0; v < VALUE_MAX; v++) {
        holders[v] = (struct holders){.held = {{.writer = -1}}, .n_held = 1, .group = -1};
        memset(holders[v].used, -1, sizeof holders[v].used);
    }
    for (int group = 0, end; group < plan->n_piece; group = end) {
        end = group_end(plan, group);
        for (int v = 0; v < VALUE_MAX; v++) memcpy(holders[v].before, holders[v].used, sizeof holders[v].used);
        for (int p = group; p < end; p++) { /* all of them read before any writes: some work in place */
            const int device = plan->piece[p].device;
            if (last[device] >= 0) wait_for(plan, p, last[device]);
            last[device] = p;
            TRY(find_reads(plan, p, holders, err));
        }
        for (int p = group; p < end; p++) find_writes(plan, p, group, holders);
    }
    for (int v = 0; v < VALUE_MAX; v++) {
        const struct holders *h = &holders[v];
        plan->writer[v] = (struct plan_writers){(int16_t)h->group, (int16_t)(h->group < 0 ? 0 : h->n_held)};
    }
    return 0;
}

/* ---- pieces ---- */

/* Operations op .. op + n - 1. */
static int add_piece(struct plan *plan, struct device *d, int op, int n, struct share share, struct lutra_error *err)
{
    int index = index_of(plan, d);
    if (index < 0) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "more than %d devices in a plan", PLAN_DEVICES);
    if (plan->n_piece == PLAN_PIECES)
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "the devices would change more than %d times in a pass", PLAN_PIECES);
    struct plan_piece *piece = &plan->piece[plan->n_piece++];
    *piece = (struct plan_piece){.device = index, .first = op, .n = n, .share = share};
    plan->by_class |= share.rows != SHARE_ALL_ROWS;
    memset(piece->wait, -1, sizeof piece->wait);
    return 0;
}

static bool is_like(const struct op_list *list, const struct op *a, const struct op *b)
{
    bool like = a->kind == b->kind && a->n_in == b->n_in && a->n_out == b->n_out && a->n_weight == b->n_weight;
    for (int i = 0; like && i < a->n_in; i++) like = list->value[a->in[i]].dim == list->value[b->in[i]].dim;
    for (int i = 0; like && i < a->n_out; i++)
        like = list->value[a->out[i]].dim == list->value[b->out[i]].dim &&
               list->value[a->out[i]].rows == list->value[b->out[i]].rows;
    for (int i = 0; like && i < a->n_weight; i++) like = a->weight[i]->tensor.type == b->weight[i]->tensor.type;
    return like;
}

/* Only the pieces of a layer or two are looked at. */
static void find_likes(struct plan *plan)
{
    enum { BACK = 96 };
    const struct op_list *list = plan->list;
    for (int p = 0; p < plan->n_piece; p++) {
        struct plan_piece *piece = &plan->piece[p];
        piece->like = p;
        for (int q = p - 1; q >= 0 && q >= p - BACK && piece->like == p; q--) {
            const struct plan_piece *other = &plan->piece[q];
            bool like =
                other->device == piece->device && other->n == piece->n && share_is_same(other->share, piece->share);
            for (int i = 0; like && i < piece->n; i++)
                like = is_like(list, &list->op[piece->first + i], &list->op[other->first + i]);
            if (like) piece->like = other->like;
        }
    }
}

/* Whether the pieces from `group` on compute all outputs, one those of bulk rows and one the others, up to operation
 * i. */
static bool are_classes(const struct plan *plan, int i, int group)
{
    const struct plan_piece *piece = plan->piece + group;
    if (plan->n_piece - group != 2 || piece[0].share.rows == piece[1].share.rows) return false;
    for (const struct plan_piece *p = piece; p < piece + 2; p++)
        if (p->first + p->n != i || !share_is_whole(p->share) || p->share.rows == SHARE_ALL_ROWS) return false;
    return true;
}

/* Whether all values of an operation have these rows. */
static bool is_over(const struct op_list *list, const struct op *op, enum value_rows rows)
{
    bool all = op->n_in > 0 && op->n_out > 0;
    for (int k = 0; k < op->n_in; k++) all &= list->value[op->in[k]].rows == rows;
    for (int k = 0; k < op->n_out; k++) all &= list->value[op->out[k]].rows == rows;
    return all;
}

/* Rows of both classes stay where the last operation has left them, in the pieces from `group` on: for what works row
 * by row, and for a product that the same two devices have, as team and share say. */
static bool stay_by_class(
    const struct plan *plan, int i, int group, struct device *const *team, const struct share *share, int n_team)
{
    const struct op_list *list = plan->list;
    const struct op *op = &list->op[i];
    if (!are_classes(plan, i, group) || !is_over(list, op, ROWS_ALL)) return false;
    if (n_team != (op->kind == OP_MATMUL ? 2 : 1)) return false;
    for (int k = 0; k < 2; k++) {
        const struct plan_piece *piece = plan->piece + group + k;
        struct device *d = plan->device[piece->device];
        if (!(d->caps.class_shares >> op->kind & 1) || d->ops->supports(d, list, op, NULL) < 0) return false;
        if (n_team == 2 && (team[k] != d || !share_is_same(share[k], piece->share))) return false;
    }
    return true;
}

static bool is_gate(enum op_kind kind)
{
    return kind == OP_SWIGLU || kind == OP_GEGLU || kind == OP_RELU2 || kind == OP_SWIGLU_OAI;
}

static bool writes_all(const struct op *op, const struct op *of)
{
    bool all = true;
    for (int i = 0; i < of->n_in; i++) all &= op_writes(op, of->in[i]);
    return all;
}

/* A gate whose inputs the last operation has left in shares, by the pieces from `group` on, stays in these. */
static bool goes_on(const struct plan *plan, int i, int group)
{
    const struct op_list *list = plan->list;
    const struct op *op = &list->op[i];
    if (!is_gate(op->kind) || plan->n_piece - group < 2) return false;
    for (const struct plan_piece *piece = plan->piece + group; piece < plan->piece + plan->n_piece; piece++) {
        struct device *d = plan->device[piece->device];
        if (piece->first + piece->n != i || share_is_all(piece->share)) return false;
        if (!(d->caps.shares >> op->kind & 1) || d->ops->supports(d, list, op, NULL) < 0) return false;
    }
    for (int k = plan->piece[group].first; k < i; k++)
        if (op_reads(&list->op[k], op->out[0]) && !is_gate(list->op[k].kind)) return false; /* others still read it */
    return writes_all(op - 1, op);
}

/* So does one behind a product that a cut gives to one device: nobody else has to read it.  With cuts by class wanted
 * rows, which are of one class, stay where their last product was. */
static bool stays(const struct plan *plan, int i, const struct plan_cut *said, const struct plan_piece *last)
{
    const struct op *op = &plan->list->op[i];
    struct device *d = plan->device[last->device];
    const uint32_t kind = 1u << op->kind;
    if (d->ops->supports(d, plan->list, op, NULL) < 0) return false;
    if (plan->by_class && d->caps.class_shares & kind && is_over(plan->list, op, ROWS_OUT)) return !op->n_weight;
    return is_gate(op->kind) && said[i - 1].n > 0 && op[-1].kind == OP_MATMUL && writes_all(op - 1, op) &&
           d->caps.shares & kind;
}

static int cut(
    struct plan *plan, struct device *const *device, int n_device, const struct plan_cut *said, struct lutra_error *err)
{
    struct device *team[PLAN_PARTS];
    struct share share[PLAN_PARTS];
    for (int i = 0, n_op, group = 0; i < plan->list->n_op; i += n_op) { /* group: the first piece of the last cut */
        struct plan_piece *last = plan->n_piece ? &plan->piece[plan->n_piece - 1] : NULL;
        const struct op *op = &plan->list->op[i];
        int n = plan_team(plan->list, op, device, n_device, said ? &said[i] : NULL, team, share, &n_op, err);
        if (n < 0) return n;
        const bool apart = said && said[i].apart, joins = n == 1 && last && !apart && share_is_all(last->share);
        if (goes_on(plan, i, group) || (!apart && n_op == 1 && stay_by_class(plan, i, group, team, share, n))) {
            for (int p = group; p < plan->n_piece; p++) plan->piece[p].n++;
        } else if (joins && (plan->device[last->device] == team[0] || (said && stays(plan, i, said, last)))) {
            last->n += n_op;
        } else {
            if (n > 1) group = plan->n_piece;
            if (n > 1 && op->kind == OP_HEAD) plan->head = group, plan->n_head = n;
            for (int k = 0; k < n; k++) TRY(add_piece(plan, team[k], i, n_op, share[k], err));
        }
    }
    return 0;
}

int plan_open_cut(struct plan *plan, const struct op_list *list, struct device *const *device, int n_device,
    const struct plan_cut *said, struct lutra_error *err)
{
    plan->list = list;
    plan->n_piece = plan->n_device = plan->n_move = plan->n_head = 0;
    plan->by_class = false;
    int rc = cut(plan, device, n_device, said, err);
    if (rc == 0) rc = find_moves(plan, err);
    if (rc == 0) find_likes(plan);
    if (rc < 0) plan->n_piece = plan->n_device = 0;
    return rc;
}

int plan_open(
    struct plan *plan, const struct op_list *list, struct device *const *device, int n_device, struct lutra_error *err)
{
    return plan_open_cut(plan, list, device, n_device, NULL, err);
}

/* ---- weights ---- */

int plan_give_weights(const struct plan *plan, struct lutra_error *err)
{
    for (int p = 0; p < plan->n_piece; p++) {
        const struct plan_piece *piece = &plan->piece[p];
        for (int i = piece->first; i < piece->first + piece->n; i++) {
            const struct op *op = &plan->list->op[i];
            for (int k = 0; k < op->n_weight; k++) {
                struct columns all = {0, op->weight[k]->tensor.ne[1]};
                struct columns own = op->kind == OP_MATMUL ? share_columns(piece->share, all.n) : all;
                TRY(weight_give(op->weight[k], device_store(plan->device[piece->device]), own, err));
            }
        }
    }
    return 0;
}

int plan_prepare(const struct plan *plan, void (*fetch)(void *user, const struct tensor *tensor), void *user,
    struct lutra_error *err)
{
    bool keeps;
    TRY(plan_give_weights(plan, err));
    for (const struct op *op = plan->list->op; op < plan->list->op + plan->list->n_op; op++) {
        for (int k = 0; k < op->n_weight; k++) {
            if (fetch) fetch(user, &op->weight[k]->tensor);
            TRY(weight_prepare(op->weight[k], &keeps, err));
        }
    }
    for (int i = 0; i < plan->n_device; i++)
        if (plan->device[i]->memory) TRY(plan->device[i]->memory->load(plan->device[i], plan->list, err));
    return 0;
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

bool plan_mixes(const struct plan *plan)
{
    for (int p = 1; p < plan->n_piece; p++)
        if (plan->piece[p].first == plan->piece[p - 1].first &&
            device_store(plan->device[plan->piece[p].device]) != device_store(plan->device[plan->piece[p - 1].device]))
            return true;
    return false;
}

int plan_bulk_rows(const struct plan *plan)
{
    int most = plan->by_class ? PLAN_BULK_ROWS : 0;
    for (int p = 0; p < plan->n_piece; p++) {
        struct device *d = plan->device[plan->piece[p].device];
        for (int i = 0; d->extras && d->extras->bulk_rows && i < plan->piece[p].n; i++) {
            int n = d->extras->bulk_rows(d, &plan->list->op[plan->piece[p].first + i]);
            if (n > most) most = n;
        }
    }
    return most;
}

bool plan_knows_masks(const struct plan *plan)
{
    for (int i = 0; i < plan->n_device; i++)
        if (!plan->device[i]->caps.masks) return false;
    return true;
}

struct device_caps plan_caps(const struct plan *plan)
{
    struct device_caps caps = plan->device[0]->caps;
    caps.cache = DEVICE_CACHE_ANY;
    for (int i = 0; i < plan->n_device; i++) {
        const struct device_caps *c = &plan->device[i]->caps;
        if (c->max_rows < caps.max_rows) caps.max_rows = c->max_rows;
        if (c->flat_rows < caps.flat_rows) caps.flat_rows = c->flat_rows;
        if (c->cache > caps.cache && plan_keeps_cache(plan, plan->device[i])) caps.cache = c->cache;
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
