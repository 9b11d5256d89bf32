/* SPDX-License-Identifier: MIT
 *
 * A profile: the stretches of a pass by kind, their times, the cuts solved, the plans compared.
 */
#include "sched/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "quant/quant.h"
#include "sched/profile_impl.h"

static const char *const plan_names[] = {"one", "even", "solved", "class", "free"};

const char *profile_plan_name(enum profile_plan plan)
{
    return plan_names[plan];
}

int profile_plan_named(const char *name)
{
    int i = PLAN_FREE;
    while (i >= 0 && strcmp(name, plan_names[i]) != 0) i--;
    return i;
}

void profile_kind_name(const struct op_list *list, const struct op *op, char *out, size_t n)
{
    const struct op *last = op + plan_stretch(list, op) - 1; /* heads: named by their attention */
    int at = snprintf(out, n, "%s", op_name(last->kind));
    if (last->kind == OP_ATTENTION) {
        const struct op_attention *a = &last->attention;
        at = snprintf(out, n, "attention %d/%d heads of %d, %d operations", a->n_head, a->n_kv_head, a->d_head,
            (int)(last - op) + 1);
        if (a->window && at >= 0 && (size_t)at < n) snprintf(out + at, n - (size_t)at, ", window %d", a->window);
    }
    for (int i = 0; i < op->n_weight && at >= 0 && (size_t)at < n; i++) {
        const struct tensor *t = &op->weight[i]->tensor;
        if (i == 0) at += snprintf(out + at, n - (size_t)at, " %lld", (long long)t->ne[0]);
        if ((size_t)at >= n) return;
        at += snprintf(out + at, n - (size_t)at, "%c%lld %s", i ? ',' : '>', (long long)t->ne[1],
            quant_type_name((uint32_t)t->type));
    }
    bool is_wanted = op->in[0] >= 0 && list->value[op->in[0]].rows == ROWS_OUT; /* tokens' rows have no value before */
    if (op->n_weight && is_wanted && at >= 0 && (size_t)at < n) snprintf(out + at, n - (size_t)at, " of wanted rows");
}

/* ---- stretches of a pass ---- */

/* The profile's number of a device; -1: it is none of them. */
static int number_of(const struct maker *m, const struct device *d)
{
    for (int i = 0; i < m->out->n_device; i++)
        if (m->device[i] == d) return i;
    return -1;
}

static int add_device(struct maker *m, struct device *d, struct lutra_error *err)
{
    struct profile *p = m->out;
    if (number_of(m, d) >= 0) return 0;
    if (p->n_device == SOLVE_DEVICES)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "profile: more than %d devices", SOLVE_DEVICES);
    snprintf(p->device[p->n_device], sizeof *p->device, "%s", d->name);
    m->device[p->n_device++] = d;
    return 0;
}

static int find_kind(struct maker *m, const struct unit *u, int like, int on, struct lutra_error *err)
{
    struct profile *p = m->out;
    char name[sizeof p->kind->name];
    profile_kind_name(m->how->list, &m->how->list->op[u->first], name, sizeof name);
    for (int k = 0; k < p->n_kind; k++)
        if (p->kind[k].cut == u->cut && (u->cut ? !strcmp(p->kind[k].name, name) : m->like[k] == like)) return k;
    if (p->n_kind == PROFILE_KINDS)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "profile: more than %d kinds of operations", PROFILE_KINDS);
    struct profile_kind *kind = &p->kind[p->n_kind];
    *kind = (struct profile_kind){.cut = u->cut};
    memcpy(kind->name, name, sizeof name);
    m->like[p->n_kind] = like;
    m->on[p->n_kind] = on;
    return p->n_kind++;
}

/* The pieces of the plan by speed: those of one operation are a unit. */
static int find_units(struct maker *m, struct lutra_error *err)
{
    const struct plan *plan = &m->plan[PLAN_EVEN];
    m->home = -1;
    for (int i = 0; i < m->how->n_device; i++) /* in their order */
        for (int d = 0; d < plan->n_device; d++)
            if (plan->device[d] == m->how->device[i]) TRY(add_device(m, plan->device[d], err));
    for (int p = 0; p < plan->n_piece; p++) {
        const struct plan_piece *piece = &plan->piece[p];
        if (p && piece->first == plan->piece[p - 1].first) continue;
        struct unit *u = &m->unit[m->n_unit++];
        *u = (struct unit){.first = piece->first, .n = piece->n, .cut = !share_is_all(piece->share)};
        const int on = number_of(m, plan->device[piece->device]);
        if (!u->cut && m->home < 0) m->home = on;
        u->kind = find_kind(m, u, piece->like, on, err);
        if (u->kind < 0) return u->kind;
        m->out->kind[u->kind].count++;
    }
    if (m->home < 0) m->home = 0;
    return 0;
}

/* ---- plans ---- */

static bool is_among(const struct device *d, struct device *const *device, int n)
{
    while (n-- && device[n] != d) continue;
    return n >= 0;
}

bool profile_cuts(const struct profile *p, enum pass_class rows, enum profile_plan plan, const struct op_list *list,
    struct device *const *device, int n_device, struct plan_cut *cut)
{
    struct device *own[SOLVE_DEVICES] = {NULL}, *first = NULL;
    char name[sizeof p->kind->name];
    unsigned set = 0;
    for (int i = 0; i < p->n_device; i++) {
        for (int d = 0; d < n_device && !own[i]; d++)
            if (!strcmp(device[d]->name, p->device[i]) && !is_among(device[d], own, i)) own[i] = device[d];
        set |= (own[i] ? 1u : 0u) << i;
        if (!first) first = own[i];
    }
    if (!first) return false;
    const bool mixed = plan_devices_differ(device, n_device), is_free = plan == PLAN_FREE, fixed = mixed && !is_free;
    for (int i = 0; i < list->n_op; i++) {
        int part[SOLVE_DEVICES] = {0}, bulk[SOLVE_DEVICES] = {0};
        bool known = false;
        cut[i] = (struct plan_cut){0};
        if (plan == PLAN_EVEN && mixed) cut[i] = plan_cut_evenly(device, n_device);
        if (plan == PLAN_CLASS) cut[i] = plan_cut_by_class(device, n_device);
        if (plan == PLAN_EVEN || plan == PLAN_CLASS) continue;
        profile_kind_name(list, &list->op[i], name, sizeof name);
        for (int k = 0; k < p->n_kind && (plan == PLAN_SOLVED || is_free) && !known; k++) {
            known = p->kind[k].cut && !strcmp(p->kind[k].name, name);
            if (!known) continue;
            profile_part_left(p, fixed ? PASS_FEW : rows, k, set, is_free, part);
            memcpy(bulk, part, sizeof bulk);
            if (fixed) profile_part_left(p, PASS_MANY, k, set, is_free, bulk);
        }
        cut[i].by_class = memcmp(part, bulk, sizeof part) != 0;
        for (int d = 0; d < p->n_device; d++) {
            if (!part[d] && !bulk[d]) continue;
            cut[i].device[cut[i].n] = own[d];
            cut[i].bulk[cut[i].n] = (float)bulk[d];
            cut[i].part[cut[i].n++] = (float)part[d];
        }
        if (!cut[i].n) cut[i] = (struct plan_cut){.n = 1, .device = {first}, .part = {1}};
    }
    return true;
}

int profile_open(struct maker *m, struct plan *plan, struct lutra_error *err)
{
    const struct profile_how *how = m->how;
    TRY(plan_open_cut(plan, how->list, how->device, how->n_device, m->cut, err));
    return m->mixed ? plan_prepare(plan, how->fetch, how->user, err) : 0;
}

static int open_plans(struct maker *m, enum pass_class rows, struct lutra_error *err)
{
    const struct profile_how *how = m->how;
    for (int i = 0; i < m->out->n_plan; i++) {
        if (!profile_cuts(m->out, rows, (enum profile_plan)i, how->list, how->device, how->n_device, m->cut))
            return lutra_fail(err, LUTRA_E_INTERNAL, "profile: a device is missing");
        TRY(profile_open(m, &m->plan[i], err));
    }
    return 0;
}

/* Whether another round of this class, of which one took so long, and one of each later class end in time. */
static bool has_time(const struct maker *m, enum pass_class rows, double us)
{
    for (int c = (int)rows + 1; c < PASS_CLASSES; c++) us += m->round_us[c];
    return us <= profile_left_us(m);
}

/* Alternating, each pass behind one of the same plan: what devices work out about a plan is there then. */
static int compare_plans(struct maker *m, enum pass_class rows, struct lutra_error *err)
{
    struct profile_pass *pass = &m->out->pass[rows];
    double us[PROFILE_PLANS][PROFILE_REPS], uneven[PROFILE_PLANS][PROFILE_REPS];
    TRY(open_plans(m, rows, err));
    for (int k = 0; k < pass->passes; k++) {
        const uint64_t start = clock_now_us(m->how->clock);
        for (int i = 0; i < m->out->n_plan; i++)
            for (int again = pass->once; again < 2; again++) {
                TRY(profile_run(m, &m->plan[i], rows, &us[i][k], err));
                uneven[i][k] = profile_uneven(m->gauge, &m->plan[i]);
            }
        if (!has_time(m, rows, (double)(clock_now_us(m->how->clock) - start))) pass->passes = k + 1;
    }
    pass->best = PLAN_ONE;
    for (int i = 0; i < m->out->n_plan; i++) {
        pass->measured[i] = profile_typical(us[i], us[i], pass->passes);
        pass->uneven[i] = profile_typical(uneven[i], us[i], pass->passes).us;
        if (pass->measured[i].us < pass->measured[pass->best].us) pass->best = (enum profile_plan)i;
    }
    return 0;
}

/* Where devices' numbers differ one plan is kept for few rows and many: the one that is best for both. */
static void keep_one(struct profile *p)
{
    double least = 0;
    for (int i = 0; i < p->n_plan; i++) {
        double sum = 0;
        for (int c = 0; c < PASS_CLASSES; c++) sum += p->pass[c].measured[i].us / p->pass[c].measured[PLAN_ONE].us;
        if (i > 0 && sum >= least) continue;
        least = sum;
        for (int c = 0; c < PASS_CLASSES; c++) p->pass[c].best = (enum profile_plan)i;
    }
}

/* ---- in words ---- */

static uint64_t add_plan(uint64_t hash, const struct plan *plan)
{
    for (int p = 0; p < plan->n_piece; p++) {
        const struct plan_piece *piece = &plan->piece[p];
        const char *name = plan->device[piece->device]->name;
        const int what[] = {piece->first, piece->n, piece->share.from, piece->share.to, piece->share.rows};
        hash = hash_bytes(hash_bytes(hash, what, sizeof what), name, strlen(name));
    }
    return hash;
}

void profile_reason(const struct profile *p, const struct plan *few, const struct plan *many, char *text, size_t size)
{
    const uint64_t hash = add_plan(add_plan(0, few), many);
    size_t at = (size_t)snprintf(text, size, "%08x", (unsigned)(hash ^ hash >> 32));
    for (int c = 0; p && c < PASS_CLASSES; c++) {
        const struct profile_pass *pass = &p->pass[c];
        for (int i = 0; i < p->n_plan && at < size; i++)
            at += (size_t)snprintf(text + at, size - at, "%s%s %.0f us",
                i   ? ", "
                : c ? "; "
                    : ": ",
                plan_names[i], pass->measured[i].us);
        if (at < size)
            at += (size_t)snprintf(text + at, size - at, " (%d row%s)", pass->n_row, pass->n_row == 1 ? "" : "s");
    }
}

/* ---- a profile ---- */

static int make(struct maker *m, struct lutra_error *err)
{
    const struct profile_how *how = m->how;
    m->mixed = plan_devices_differ(how->device, how->n_device);
    m->out->n_plan = m->mixed ? PROFILE_PLANS : PLAN_CLASS;
    for (int i = 0; m->mixed && i < how->list->n_op; i++) m->cut[i] = plan_cut_evenly(how->device, how->n_device);
    TRY(profile_open(m, &m->plan[PLAN_EVEN], err));
    TRY(find_units(m, err));
    waits_init(m->waits, how->clock, how->sync);
    m->begun_us = clock_now_us(how->clock);
    for (int c = 0; c < PASS_CLASSES; c++) m->out->pass[c].reps = how->reps, m->out->pass[c].passes = how->passes;
    profile_count(m);
    for (int rows = 0; rows < PASS_CLASSES; rows++) {
        TRY(profile_measure(m, (enum pass_class)rows, err));
        TRY(profile_solve(m, (enum pass_class)rows, err));
    }
    if (m->mixed) TRY(profile_fix(m, err));
    for (int rows = 0; rows < PASS_CLASSES; rows++) TRY(compare_plans(m, (enum pass_class)rows, err));
    if (m->mixed) keep_one(m->out);
    return 0;
}

int profile_make(struct profile *out, const struct profile_how *how, struct lutra_error *err)
{
    struct maker m = {.how = how, .out = out};
    memset(out, 0, sizeof *out);
    if (how->reps < 1 || how->passes < 1 || how->reps > PROFILE_REPS || how->passes > PROFILE_REPS)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "profile: %d repetitions and %d passes, outside 1..%d", how->reps,
            how->passes, PROFILE_REPS);
    m.plan = calloc(PROFILE_PLANS, sizeof *m.plan);
    m.waits = calloc(1, sizeof *m.waits);
    m.unit = calloc(PLAN_PIECES, sizeof *m.unit);
    m.cut = calloc((size_t)how->list->n_op + 1, sizeof *m.cut);
    m.choice = calloc(PROFILE_KINDS, sizeof *m.choice);
    m.trial = calloc(PROFILE_TRIALS, sizeof *m.trial);
    m.gauge = calloc(1, sizeof *m.gauge);
    int rc = m.plan && m.waits && m.unit && m.cut && m.choice && m.trial && m.gauge
                 ? make(&m, err)
                 : lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: out of memory");
    free(m.plan);
    free(m.waits);
    free(m.unit);
    free(m.cut);
    free(m.choice);
    free(m.trial);
    free(m.gauge);
    return rc;
}
