/* SPDX-License-Identifier: MIT
 *
 * Times of operations, on one device and on several at once: those of the pieces of whole passes.
 */
#include <stdlib.h>
#include <string.h>

#include "sched/profile_impl.h"

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

struct profile_time profile_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return (struct profile_time){n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2, x[n * 3 / 4] - x[n / 4]};
}

/* ---- one pass ---- */

static void note(void *user, const struct run_event *e)
{
    struct gauge *g = user;
    if (e->what != RUN_COMPUTE) return;
    g->begin_us[e->piece] = e->begin_us;
    g->end_us[e->piece] = e->end_us;
}

int profile_run(struct maker *m, const struct plan *plan, enum pass_class rows, double *us, struct lutra_error *err)
{
    const struct profile_how *how = m->how;
    uint64_t start = clock_now_us(how->clock);
    m->waits->told = note;
    m->waits->user = m->gauge;
    TRY(plan_run(plan, how->step[rows], m->waits, NULL, err));
    *us = (double)(clock_now_us(how->clock) - start);
    if (m->done < m->total) m->done++;
    if (!how->progress || !how->progress(how->user, m->done, m->total)) return 0;
    return lutra_fail(err, LUTRA_E_CANCELLED, "profile: cancelled");
}

double profile_uneven(const struct gauge *g, const struct plan *plan)
{
    double apart = 0, all = 0;
    for (int p = 0, end; p < plan->n_piece; p = end) {
        uint64_t begin = g->begin_us[p], first = g->end_us[p], last = first;
        for (end = p + 1; end < plan->n_piece && plan->piece[end].first == plan->piece[p].first; end++) {
            if (g->begin_us[end] < begin) begin = g->begin_us[end];
            if (g->end_us[end] < first) first = g->end_us[end];
            if (g->end_us[end] > last) last = g->end_us[end];
        }
        if (end == p + 1) continue;
        apart += (double)(last - first);
        all += (double)(last - begin);
    }
    return all > 0 ? apart / all : 0;
}

/* ---- how many passes ---- */

static int count_plans(const struct maker *m)
{
    int n = m->out->n_device;
    for (unsigned set = 1; set < 1u << m->out->n_device; set++) n += solve_is_one(set) ? 0 : PROFILE_POINTS;
    return n;
}

void profile_count(struct maker *m)
{
    m->total = 0;
    for (int c = 0; c < PASS_CLASSES; c++)
        m->total += (uint64_t)(count_plans(m) * (1 + m->reps[c]) + 2 * PROFILE_PLANS * m->passes[c]);
}

/* Fewer where passes of this class, which take so long on one device, would not end in their part of the time. */
static void limit(struct maker *m, enum pass_class rows, double us)
{
    double plans = count_plans(m), both = 2 * PROFILE_PLANS, most = m->how->limit_us / PASS_CLASSES / us - plans;
    double share = most / (plans * m->reps[rows] + both * m->passes[rows]);
    if (!(m->how->limit_us > 0) || share >= 1) return;
    m->reps[rows] = share * m->reps[rows] < 1 ? 1 : (int)(share * m->reps[rows]);
    m->passes[rows] = share * m->passes[rows] < 1 ? 1 : (int)(share * m->passes[rows]);
    profile_count(m);
}

/* ---- one plan ---- */

static struct plan_cut cut_of(const struct maker *m, const int *part)
{
    struct plan_cut cut = {0};
    for (int d = 0; d < m->out->n_device; d++) {
        if (!part[d]) continue;
        cut.device[cut.n] = m->device[d];
        cut.part[cut.n++] = (float)part[d];
    }
    return cut;
}

bool profile_can_cut(const struct maker *m, int op, const int *part)
{
    struct device *team[PLAN_DEVICES];
    struct share share[PLAN_DEVICES];
    struct plan_cut cut = cut_of(m, part);
    int n_op;
    return cut.n > 1 && plan_team(m->how->list, &m->how->list->op[op], m->how->device, m->how->n_device, &cut, team,
                            share, &n_op, NULL) == cut.n;
}

static int number_of(const struct maker *m, const struct device *d)
{
    int i = 0;
    while (m->device[i] != d) i++;
    return i;
}

/* Opens the plan of m->part, each unit apart. */
static int open_parts(struct maker *m, struct plan *plan, struct lutra_error *err)
{
    const int home[SOLVE_DEVICES] = {PROFILE_GRID};
    const struct op_list *list = m->how->list;
    for (int i = 0; i < list->n_op; i++) m->cut[i] = cut_of(m, home);
    for (int u = 0; u < m->n_unit; u++) {
        struct plan_cut *cut = &m->cut[m->unit[u].first];
        if (m->unit[u].cut) *cut = cut_of(m, m->part[m->unit[u].kind]);
        cut->apart = true;
    }
    return plan_open_cut(plan, list, m->how->device, m->how->n_device, m->cut, err);
}

static unsigned set_of(const struct maker *m, int kind)
{
    return m->out->kind[kind].cut ? solve_set(m->part[kind]) : 1u << m->on[kind];
}

/* The times of the last pass, number k, by kind.  What one device has is a sum: a gate may have stayed at home. */
static void sum_kinds(struct maker *m, const struct plan *plan, int k)
{
    struct gauge *g = m->gauge;
    for (int i = 0; i < m->out->n_kind; i++)
        for (int d = 0; d < SOLVE_DEVICES; d++) g->us[i][d][k] = 0;
    for (int p = 0, u = 0; p < plan->n_piece; p++) {
        while (u + 1 < m->n_unit && m->unit[u + 1].first <= plan->piece[p].first) u++;
        int kind = m->unit[u].kind, d = number_of(m, plan->device[plan->piece[p].device]);
        unsigned set = set_of(m, kind);
        for (int one = 0; solve_is_one(set) && one < SOLVE_DEVICES; one++)
            if (set >> one & 1) d = one;
        g->us[kind][d][k] += (double)(g->end_us[p] - g->begin_us[p]) / m->out->kind[kind].count;
    }
}

/* What pass number k took longer than its units, each as long as its slowest part, by the number of units that several
 * devices run or that follow on another device: as the solver counts (solve_time). */
static double more_us(const struct maker *m, enum pass_class rows, int k)
{
    double us = m->gauge->wall_us[k];
    unsigned held = 1u << m->home;
    int n = 0;
    for (int i = 0; i < m->out->n_kind; i++) {
        const struct profile_kind *kind = &m->out->kind[i];
        double most = kind->cut ? 0 : kind->of[rows].alone[m->on[i]].us;
        for (int d = 0; kind->cut && d < m->out->n_device; d++)
            if (m->gauge->us[i][d][k] > most) most = m->gauge->us[i][d][k];
        us -= most * kind->count;
    }
    for (int u = 0; u < m->n_unit; u++) {
        unsigned set = set_of(m, m->unit[u].kind);
        n += !solve_is_one(set) || !(set & held);
        held = set;
    }
    return n ? us / n : 0;
}

/* Passes of m->part: the first for what devices work out about a plan, the others timed. */
static int time_plan(struct maker *m, enum pass_class rows, struct lutra_error *err)
{
    struct plan *plan = &m->plan[PLAN_ONE];
    double us;
    TRY(open_parts(m, plan, err));
    TRY(profile_run(m, plan, rows, &us, err));
    if (!m->out->pass[rows].n_row) {
        m->out->pass[rows].n_row = m->how->step[rows]->batch->n_row;
        limit(m, rows, us);
    }
    for (int k = 0; k < m->reps[rows]; k++) {
        TRY(profile_run(m, plan, rows, &m->gauge->wall_us[k], err));
        sum_kinds(m, plan, k);
    }
    return 0;
}

static void keep_times(struct maker *m, enum pass_class rows, int kind, struct profile_time *time)
{
    unsigned set = set_of(m, kind);
    for (int d = 0; d < m->out->n_device; d++)
        if (set >> d & 1) time[d] = profile_median(m->gauge->us[kind][d], m->reps[rows]);
}

/* ---- one device ---- */

static int time_alone(struct maker *m, enum pass_class rows, int d, struct lutra_error *err)
{
    for (int k = 0; k < m->out->n_kind; k++) {
        memset(m->part[k], 0, sizeof m->part[k]);
        m->part[k][d] = PROFILE_GRID;
    }
    TRY(time_plan(m, rows, err));
    for (int k = 0; k < m->out->n_kind; k++)
        if (m->out->kind[k].cut || d == 0) keep_times(m, rows, k, m->out->kind[k].of[rows].alone);
    return 0;
}

/* ---- several ---- */

static int first_of(const struct maker *m, int kind)
{
    int u = 0;
    while (m->unit[u].kind != kind) u++;
    return m->unit[u].first;
}

/* Parts for the devices of a set so that each takes as long: in proportion to rate, each at least one.  False: there is
 * no such cut of the operation. */
static bool balance(const struct maker *m, int op, unsigned set, const double *rate, int *part)
{
    double sum = 0;
    int left = PROFILE_GRID, most = -1;
    for (int d = 0; d < m->out->n_device; d++) sum += set >> d & 1 ? rate[d] : 0;
    for (int d = 0; d < SOLVE_DEVICES; d++) {
        part[d] = 0;
        if (d >= m->out->n_device || !(set >> d & 1)) continue;
        part[d] = (int)(rate[d] / sum * PROFILE_GRID + 0.5);
        if (part[d] < 1) part[d] = 1;
        left -= part[d];
        if (most < 0 || part[d] > part[most]) most = d;
    }
    part[most] += left;
    return part[most] > 0 && profile_can_cut(m, op, part);
}

/* A second cut where the first is balanced already: a little less for the largest part. */
static bool beside(const struct maker *m, int op, unsigned set, int *part)
{
    int most = -1, least = -1;
    for (int d = 0; d < m->out->n_device; d++) {
        if (!(set >> d & 1)) continue;
        if (most < 0 || part[d] > part[most]) most = d;
        if (least < 0 || part[d] <= part[least]) least = d;
    }
    part[most] -= 2, part[least] += 2;
    return part[most] > 0 && profile_can_cut(m, op, part);
}

/* Sets m->part of a kind for measurement number `point` of a set: first by the devices' times alone, then by what they
 * took side by side.  False: there is no such cut, or none that has not been measured; all is the first device's. */
static bool choose_part(struct maker *m, enum pass_class rows, int kind, unsigned set, int point)
{
    const struct profile_shape *s = &m->out->kind[kind].of[rows];
    const struct profile_joint *last = point ? &s->joint[set][point - 1] : NULL;
    double rate[SOLVE_DEVICES];
    int *part = m->part[kind], op = first_of(m, kind);
    for (int d = 0; d < m->out->n_device; d++) {
        double us = last ? last->time[d].us : s->alone[d].us;
        rate[d] = (last ? last->part[d] : 1) / (us > 0 ? us : 1);
    }
    bool found = m->out->kind[kind].cut && s->n_joint[set] == point && balance(m, op, set, rate, part);
    if (found && last && !memcmp(part, last->part, sizeof last->part)) found = beside(m, op, set, part);
    if (found) return true;
    memset(part, 0, sizeof m->part[kind]);
    part[0] = PROFILE_GRID;
    return false;
}

static int time_joint(
    struct maker *m, enum pass_class rows, unsigned set, int point, double *more, int *n_more, struct lutra_error *err)
{
    bool found[PROFILE_KINDS], any = false;
    for (int k = 0; k < m->out->n_kind; k++) any |= found[k] = choose_part(m, rows, k, set, point);
    if (!any) return 0;
    TRY(time_plan(m, rows, err));
    for (int k = 0; k < m->out->n_kind; k++) {
        struct profile_shape *s = &m->out->kind[k].of[rows];
        if (!found[k]) continue;
        struct profile_joint *j = &s->joint[set][s->n_joint[set]++];
        memcpy(j->part, m->part[k], sizeof j->part);
        keep_times(m, rows, k, j->time);
    }
    for (int k = 0; k < m->reps[rows]; k++) more[(*n_more)++] = more_us(m, rows, k);
    return 0;
}

int profile_measure(struct maker *m, enum pass_class rows, struct lutra_error *err)
{
    double more[PROFILE_SETS * PROFILE_POINTS * PROFILE_REPS], us;
    int n_more = 0;
    for (int d = 0; d < m->out->n_device; d++) TRY(time_alone(m, rows, d, err));
    for (unsigned set = 1; set < 1u << m->out->n_device; set++)
        for (int point = 0; !solve_is_one(set) && point < PROFILE_POINTS; point++)
            TRY(time_joint(m, rows, set, point, more, &n_more, err));
    us = n_more ? profile_median(more, n_more).us : 0;
    m->out->pass[rows].sync_us = us > 0 ? us : 0;
    return 0;
}
