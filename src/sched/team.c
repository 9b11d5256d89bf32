/* SPDX-License-Identifier: MIT
 *
 * The shares of an operation that several devices compute: products, gates and the head by outputs, an attention and
 * what stands before it by K/V heads.
 */
#include <string.h>

#include "ops/head.h"
#include "sched/plan_impl.h"

_Static_assert((int)HEAD_SHARES >= (int)PLAN_DEVICES, "every device of a plan may have a share of the head");

/* What a device computes of an operation's outputs, in proportion; 0: nothing.  cut NULL: none is said. */
static float part_of(const struct plan_cut *cut, const struct device *d)
{
    if (!cut || !cut->n) return d->caps.speed;
    for (int i = 0; i < cut->n; i++)
        if (cut->device[i] == d) return cut->part[i];
    return 0;
}

/* Whether a device would do its share of n operations. */
static bool shares(struct device *d, const struct op_list *list, const struct op *op, int n)
{
    for (; n--; op++)
        if (!(d->caps.shares >> op->kind & 1) || d->ops->supports(d, list, op, NULL) < 0) return false;
    return true;
}

/* Those that share operations which d would do: asynchronous ones first.  Devices whose weights are not d's own, and
 * whose numbers may be others, only where a cut names them. */
static int find_team(const struct op_list *list, const struct op *op, int n_op, const struct plan_cut *cut,
    struct device *d, struct device *const *device, int n_device, struct device *team[PLAN_DEVICES])
{
    const bool said = cut && cut->n;
    int n = 0;
    if (!(said || d->caps.speed > 0) || !shares(d, list, op, n_op)) return 0;
    for (int i = 0; i < op->n_weight; i++)
        if (op->weight[i]->only) return 0;
    for (int async = 1; async >= 0; async--)
        for (int i = 0; i < n_device && n < PLAN_DEVICES; i++) {
            struct device *other = device[i];
            if (other->caps.async != async || !(part_of(cut, other) > 0)) continue;
            if (!said && device_store(other) != device_store(d)) continue;
            if (shares(other, list, op, n_op)) team[n++] = other;
        }
    return n;
}

/* ---- by outputs ---- */

static bool has_outputs(const struct op_list *list, const struct op *op, struct share share)
{
    if (op->kind == OP_HEAD) return head_share(share, op->weight[0]->tensor.ne[1]).n > 0;
    for (int i = 0; i < op->n_out; i++)
        if (share_columns(share, list->value[op->out[i]].dim).n == 0) return false;
    return true;
}

/* ---- by heads ---- */

/* How many operations from this one on work head by head, up to an attention; 0: they do not. */
static int count_by_head(const struct op_list *list, const struct op *op)
{
    const struct op *end = list->op + list->n_op, *at = op;
    while (at < end && (at->kind == OP_ROPE || at->kind == OP_RMS_NORM || at->kind == OP_KV_APPEND)) at++;
    if (at == end || at->kind != OP_ATTENTION) return 0;
    for (const struct op *o = op; o <= at; o++)
        if (!op_by_head(list, o, at->attention.d_head)) return 0;
    return (int)(at - op) + 1;
}

/* Whether nobody else uses the cache of the attention at the end: then each device finds there what it has written. */
static bool has_cache_alone(const struct op_list *list, const struct op *op, int n)
{
    int cache = list->layer[op[n - 1].layer].cache;
    for (const struct op *o = list->op; o < list->op + list->n_op; o++)
        if ((o < op || o >= op + n) && op_uses_cache(list, o, cache)) return false;
    return true;
}

/* Whether a bound of shares lies between the same two heads in every value of the operations. */
static bool bounds_head(const struct op_list *list, const struct op *op, int n, int at, int head, int n_head)
{
    for (const struct op *o = op; o < op + n; o++) {
        for (int i = 0; i < o->n_in; i++)
            if (share_at(list->value[o->in[i]].dim, at) * n_head != (int64_t)list->value[o->in[i]].dim * head)
                return false;
        for (int i = 0; i < o->n_out; i++)
            if (share_at(list->value[o->out[i]].dim, at) * n_head != (int64_t)list->value[o->out[i]].dim * head)
                return false;
    }
    return true;
}

/* ---- shares ---- */

/* Where a share ends, whose device and those before it have `part` of all: with heads at the nearest one, at an at that
 * share_at maps to it. */
static int bound_at(float part, int n_head, int *head)
{
    *head = (int)(part * (float)n_head + 0.5f);
    return n_head ? (*head * SHARE_WHOLE + n_head - 1) / n_head : (int)(part * SHARE_WHOLE + 0.5f);
}

/* Its shares, in the order of the team; false: one would be empty.  n_head 0: by outputs. */
static bool find_shares(const struct op_list *list, const struct op *op, int n_op, int n_head,
    const struct plan_cut *cut, struct device *const *team, int n, struct share share[PLAN_PARTS])
{
    float all = 0, sum = 0;
    for (int i = 0; i < n; i++) all += part_of(cut, team[i]);
    for (int i = 0, from = 0, head; i < n; i++) {
        sum += part_of(cut, team[i]);
        int to = i == n - 1 ? SHARE_WHOLE : bound_at(sum / all, n_head, &head);
        share[i] = (struct share){(int16_t)from, (int16_t)to, SHARE_ALL_ROWS};
        if (to <= from ||
            (n_head ? i < n - 1 && !bounds_head(list, op, n_op, to, head, n_head) : !has_outputs(list, op, share[i])))
            return false;
        from = to;
    }
    return true;
}

/* ---- by class of rows ---- */

/* A product over all rows, for which a cut says it. */
static bool is_by_class(const struct op_list *list, const struct op *op, const struct plan_cut *cut)
{
    bool is = cut && cut->n && cut->by_class && op->kind == OP_MATMUL;
    for (int i = 0; is && i < op->n_in; i++) is = list->value[op->in[i]].rows == ROWS_ALL;
    return is;
}

/* Of the rows of one class: the devices, and the outputs of each. */
struct class_team {
    struct device *device[PLAN_DEVICES];
    struct share share[PLAN_PARTS];
    int n;
};

static void find_class_team(const struct op_list *list, const struct op *op, const struct plan_cut *cut, bool bulk,
    struct device *d, struct device *const *device, int n_device, struct class_team *out)
{
    struct plan_cut one = *cut;
    if (bulk) memcpy(one.part, cut->bulk, sizeof one.part);
    out->n = find_team(list, op, 1, &one, d, device, n_device, out->device);
    if (out->n < 2 || !find_shares(list, op, 1, 0, &one, out->device, out->n, out->share)) {
        if (out->n != 1) out->device[0] = d;
        out->n = 1;
        out->share[0] = (struct share){0, 0, SHARE_ALL_ROWS};
    }
}

/* Whether a device would need two ranges of one weight and takes but one. */
static bool clash(const struct class_team *a, const struct class_team *b)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (a->device[i] == b->device[k] && a->device[i]->caps.one_share &&
                !share_is_same(a->share[i], b->share[k]))
                return true;
    return false;
}

static bool is_same_team(const struct class_team *a, const struct class_team *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = a->device[i] == b->device[i] && share_is_same(a->share[i], b->share[i]);
    return same;
}

/* Asynchronous devices first, and of these bulk rows.  Where a device cannot have both of its shares, all rows are cut
 * as bulk rows are. */
static int team_by_class(const struct op_list *list, const struct op *op, const struct plan_cut *cut, struct device *d,
    struct device *const *device, int n_device, struct device *team[PLAN_PARTS], struct share share[PLAN_PARTS])
{
    struct class_team of[2];
    find_class_team(list, op, cut, true, d, device, n_device, &of[0]);
    find_class_team(list, op, cut, false, d, device, n_device, &of[1]);
    const bool same = is_same_team(&of[0], &of[1]) || clash(&of[0], &of[1]);
    int n = 0;
    for (int async = 1; async >= 0; async--)
        for (int class = 0; class < (same ? 1 : 2); class ++)
            for (int i = 0; i < of[class].n; i++) {
                if (of[class].device[i]->caps.async != async) continue;
                team[n] = of[class].device[i];
                share[n] = of[class].share[i];
                share[n++].rows = same ? SHARE_ALL_ROWS : class == 0 ? SHARE_BULK : SHARE_ORDINARY;
            }
    return n;
}

int plan_team(const struct op_list *list, const struct op *op, struct device *const *device, int n_device,
    const struct plan_cut *cut, struct device *team[PLAN_PARTS], struct share share[PLAN_PARTS], int *n_op,
    struct lutra_error *err)
{
    struct device *d = NULL, *other;
    TRY(plan_choose(list, op, device, n_device, &d, err));
    if (is_by_class(list, op, cut)) {
        *n_op = 1;
        return team_by_class(list, op, cut, d, device, n_device, team, share);
    }
    int by_head = plan_stretch(list, op), n = 0, n_head = 0;
    *n_op = by_head; /* 1: no heads */
    for (int i = 1; i < by_head; i++) {
        TRY(plan_choose(list, op + i, device, n_device, &other, err));
        if (other != d) by_head = 0;
    }
    if (by_head > 1) n_head = op[by_head - 1].attention.n_kv_head;
    if (op->kind == OP_MATMUL || op->kind == OP_HEAD || n_head)
        n = find_team(list, op, *n_op, cut, d, device, n_device, team);
    if (n > 1 && find_shares(list, op, *n_op, n_head, cut, team, n, share)) return n;
    if (n != 1) {
        team[0] = d;
        *n_op = 1;
    }
    share[0] = (struct share){0, 0, SHARE_ALL_ROWS};
    return 1;
}

int plan_stretch(const struct op_list *list, const struct op *op)
{
    int n = count_by_head(list, op);
    return n && has_cache_alone(list, op, n) ? n : 1;
}

/* ---- devices whose numbers differ ---- */

bool plan_part_is_said(const struct device *device)
{
    return device->caps.speed > 0 || device->caps.by_class;
}

bool plan_devices_differ(struct device *const *device, int n_device)
{
    const struct device *store = NULL;
    for (int i = 0; i < n_device; i++) {
        if (!device[i]->caps.shares) continue;
        if (store && device_store(device[i]) != store) return true;
        store = device_store(device[i]);
    }
    return false;
}

struct plan_cut plan_cut_evenly(struct device *const *device, int n_device)
{
    struct plan_cut cut = {0};
    for (int i = 0; i < n_device && cut.n < CUT_DEVICES; i++) {
        if (!device[i]->caps.shares) continue;
        const struct device_caps *caps = &device[i]->caps;
        cut.device[cut.n] = device[i];
        cut.by_class |= caps->by_class;
        cut.part[cut.n] = plan_part_is_said(device[i]) ? caps->speed : 1;
        cut.bulk[cut.n] = caps->by_class ? caps->bulk_speed : cut.part[cut.n];
        cut.n++;
    }
    return cut;
}

bool plan_devices_by_class(struct device *const *device, int n_device)
{
    bool by_class = false;
    for (int i = 0; i < n_device; i++) by_class |= device[i]->caps.shares && device[i]->caps.by_class;
    return by_class;
}

struct plan_cut plan_cut_by_class(struct device *const *device, int n_device)
{
    struct device *host = NULL, *other = NULL, *last = NULL;
    for (int i = 0; i < n_device; i++) {
        if (!device[i]->caps.shares) continue;
        last = device[i];
        if (!host && !last->memory) host = last;
    }
    if (!host) host = last;
    for (int i = 0; i < n_device && !other; i++)
        if (device[i]->caps.shares && device[i] != host) other = device[i];
    if (!host) return (struct plan_cut){0};
    if (!other) return (struct plan_cut){.n = 1, .device = {host}, .part = {1}};
    return (struct plan_cut){.n = 2, .device = {host, other}, .part = {1, 0}, .by_class = true, .bulk = {0, 1}};
}
