/* SPDX-License-Identifier: MIT
 *
 * Times of operations, on one device and on several at once: those of the pieces of whole passes.
 */
#include <math.h>
#include <string.h>

#include "sched/profile_impl.h"

struct profile_time profile_typical(const double *x, const double *wall, int n)
{
    double sum = 0, least = INFINITY, most = 0;
    const int kept = (n + 2) / 3;
    for (int i = 0; i < n; i++) {
        int before = 0;
        for (int k = 0; k < n; k++) before += wall[k] < wall[i] || (wall[k] == wall[i] && k < i);
        if (before >= kept) continue;
        sum += x[i];
        if (x[i] < least) least = x[i];
        if (x[i] > most) most = x[i];
    }
    return (struct profile_time){sum / kept, most - least};
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
    memset(m->gauge, 0, sizeof *m->gauge); /* pieces of a class that the pass has no rows of are not told of */
    m->waits->told = note;
    m->waits->user = m->gauge;
    TRY(plan_run(plan, how->pass[rows], m->waits, NULL, err));
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
    for (int c = 0; c < PASS_CLASSES; c++) {
        const struct profile_pass *p = &m->out->pass[c];
        m->total += (uint64_t)((p->once ? 1 : 2) * (count_plans(m) * p->reps + m->out->n_plan * p->passes));
    }
    if (m->total < m->done) m->total = m->done;
}

static double now_us(const struct maker *m)
{
    return (double)clock_now_us(m->how->clock);
}

double profile_left_us(const struct maker *m)
{
    return m->how->limit_us > 0 ? m->how->limit_us - (now_us(m) - (double)m->begun_us) : INFINITY;
}

/* Passes of few rows have a quarter of the time, or less.  Plans of classes before are still to be compared. */
static void begin_class(struct maker *m, enum pass_class rows)
{
    double left = profile_left_us(m);
    for (int c = 0; c < (int)rows; c++) left -= m->out->pass[c].passes * m->round_us[c];
    m->until_us = now_us(m) + left / (rows == PASS_FEW ? 4 : 1);
}

/* Passes that must come behind the first one of trial n_trial - 1: of trials and plans, once each. */
static int must_come(const struct maker *m)
{
    return count_plans(m) - m->n_trial + m->out->n_plan;
}

/* Behind a first pass of a trial. */
static void hurry(struct maker *m, enum pass_class rows, double us)
{
    if (us > m->slowest_us) m->slowest_us = us;
    if ((2 * must_come(m) + 1) * m->slowest_us > m->until_us - now_us(m)) m->out->pass[rows].once = true;
}

/* Passes of each trial and plan, once each. */
static double least_us(const struct maker *m)
{
    return (count_plans(m) + m->out->n_plan) * m->slowest_us;
}

/* How often all is repeated behind the first passes, which took so long. */
static void repeat(struct maker *m, enum pass_class rows, double first_us)
{
    struct profile_pass *p = &m->out->pass[rows];
    m->round_us[rows] = (p->once ? 1 : 2) * m->out->n_plan * m->slowest_us;
    double all_us = (p->reps - 1) * first_us + p->passes * m->round_us[rows], left = m->until_us - now_us(m);
    if (all_us > left) {
        double share = left > 0 ? left / all_us : 0;
        p->reps = p->once ? 1 : 1 + (int)(share * (p->reps - 1));
        p->passes = (int)(share * p->passes);
        if (p->passes < 1) p->passes = 1;
    }
    m->until_us -= p->passes * m->round_us[rows];
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
    struct device *team[PLAN_PARTS];
    struct share share[PLAN_PARTS];
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

/* Opens a trial's plan. */
static int open_trial(struct maker *m, const struct trial *t, struct plan *plan, struct lutra_error *err)
{
    const int home[SOLVE_DEVICES] = {PROFILE_GRID};
    const struct op_list *list = m->how->list;
    for (int i = 0; i < list->n_op; i++) m->cut[i] = cut_of(m, home);
    for (int u = 0; u < m->n_unit; u++) {
        struct plan_cut *cut = &m->cut[m->unit[u].first];
        if (m->unit[u].cut) *cut = cut_of(m, t->part[m->unit[u].kind]);
        cut->apart = true;
    }
    return profile_open(m, plan, err);
}

static unsigned set_of(const struct maker *m, const struct trial *t, int kind)
{
    return m->out->kind[kind].cut ? solve_set(t->part[kind]) : 1u << m->on[kind];
}

/* The times of the last pass, number k, by kind.  What one device has is a sum: a gate may have stayed at home. */
static void sum_kinds(const struct maker *m, struct trial *t, const struct plan *plan, int k)
{
    const struct gauge *g = m->gauge;
    for (int i = 0; i < m->out->n_kind; i++)
        for (int d = 0; d < SOLVE_DEVICES; d++) t->us[i][d][k] = 0;
    for (int p = 0, u = 0; p < plan->n_piece; p++) {
        while (u + 1 < m->n_unit && m->unit[u + 1].first <= plan->piece[p].first) u++;
        int kind = m->unit[u].kind, d = number_of(m, plan->device[plan->piece[p].device]);
        unsigned set = set_of(m, t, kind);
        for (int one = 0; solve_is_one(set) && one < SOLVE_DEVICES; one++)
            if (set >> one & 1) d = one;
        t->us[kind][d][k] += (double)(g->end_us[p] - g->begin_us[p]) / m->out->kind[kind].count;
    }
}

/* What the passes took longer than their units, each as long as its slowest part.  What cannot be cut counts as long as
 * in passes of one device: behind a cut it is slower, since it reads what others have written. */
static double beyond_units(const struct maker *m, enum pass_class rows, const struct trial *t)
{
    const int reps = m->out->pass[rows].reps;
    double us = profile_typical(t->wall_us, t->wall_us, reps).us;
    for (int i = 0; i < m->out->n_kind; i++) {
        const struct profile_kind *kind = &m->out->kind[i];
        double most = kind->cut ? 0 : kind->of[rows].alone[m->on[i]].us;
        for (int d = 0; kind->cut && d < m->out->n_device; d++) {
            double own = profile_typical(t->us[i][d], t->wall_us, reps).us;
            if (own > most) most = own;
        }
        us -= most * kind->count;
    }
    return us;
}

/* That beyond what a pass on one device has of it, by the number of units that several devices run or that follow on
 * another device: as the solver counts (solve_time). */
static double more_us(const struct maker *m, enum pass_class rows, const struct trial *t)
{
    unsigned held = 1u << m->home;
    int n = 0;
    for (int u = 0; u < m->n_unit; u++) {
        unsigned set = set_of(m, t, m->unit[u].kind);
        n += !solve_is_one(set) || !(set & held);
        held = set;
    }
    return (beyond_units(m, rows, t) - m->base_us[rows]) / (n ? n : 1);
}

/* Two passes: the first for what devices work out about a plan, the second, number k, is timed; one where time is
 * short. */
static int run_trial(struct maker *m, enum pass_class rows, struct trial *t, int k, struct lutra_error *err)
{
    struct plan *plan = &m->plan[PLAN_ONE];
    TRY(open_trial(m, t, plan, err));
    TRY(profile_run(m, plan, rows, &t->wall_us[k], err));
    if (k == 0) hurry(m, rows, t->wall_us[k]);
    if (!m->out->pass[rows].once) TRY(profile_run(m, plan, rows, &t->wall_us[k], err));
    sum_kinds(m, t, plan, k);
    return 0;
}

/* From the first n passes. */
static void keep_times(struct maker *m, enum pass_class rows, const struct trial *t, int n)
{
    for (int k = 0; k < m->out->n_kind; k++) {
        struct profile_shape *s = &m->out->kind[k].of[rows];
        const unsigned set = set_of(m, t, k);
        struct profile_joint *j = &s->joint[set][t->point];
        if (!t->found[k]) continue;
        if (!solve_is_one(set)) s->n_joint[set] = t->point + 1, memcpy(j->part, t->part[k], sizeof j->part);
        for (int d = 0; d < m->out->n_device; d++)
            if (set >> d & 1) (solve_is_one(set) ? s->alone : j->time)[d] = profile_typical(t->us[k][d], t->wall_us, n);
    }
}

/* ---- which plans ---- */

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

/* What a trial measures of a kind: on one device all that can be cut, and on the first one the rest, too; of several
 * first the cut by speed, then by what they took so.  What has no such cut, or none that has not been measured, is the
 * first device's meanwhile. */
static void choose_part(struct maker *m, enum pass_class rows, struct trial *t, int kind)
{
    const struct profile_shape *s = &m->out->kind[kind].of[rows];
    const struct profile_joint *last = t->point ? &s->joint[t->set][t->point - 1] : NULL;
    const int op = first_of(m, kind);
    const bool cut = m->out->kind[kind].cut;
    double rate[SOLVE_DEVICES];
    int *part = t->part[kind];
    for (int d = 0; d < m->out->n_device; d++) {
        part[d] = t->set == 1u << d ? PROFILE_GRID : 0;
        double us = last ? last->time[d].us : s->alone[d].us;
        rate[d] = (last ? last->part[d] : 1) / (us > 0 ? us : 1);
    }
    bool found = cut || t->set == 1;
    if (!solve_is_one(t->set)) {
        found = cut && s->n_joint[t->set] == t->point;
        if (found && !last) profile_even(m, t->set, part);
        if (found && (last || !profile_can_cut(m, op, part))) found = balance(m, op, t->set, rate, part);
        if (found && last && !memcmp(part, last->part, sizeof last->part)) found = beside(m, op, t->set, part);
    }
    t->found[kind] = found;
    if (found) return;
    memset(part, 0, sizeof t->part[kind]);
    part[0] = PROFILE_GRID;
}

static int add_trial(struct maker *m, enum pass_class rows, unsigned set, int point, struct lutra_error *err)
{
    struct trial *t = &m->trial[m->n_trial];
    bool any = false;
    *t = (struct trial){.set = set, .point = point};
    for (int k = 0; k < m->out->n_kind; k++) {
        choose_part(m, rows, t, k);
        any |= t->found[k];
    }
    if (!any) return 0;
    m->n_trial++;
    TRY(run_trial(m, rows, t, 0, err));
    keep_times(m, rows, t, 1);
    return 0;
}

/* What a cut costs beyond its parts, in the faster trial of each set: the cuts solved are near that.  Where parts end
 * far apart waiting costs something else. */
static double find_sync(const struct maker *m, enum pass_class rows)
{
    const struct trial *best[PROFILE_SETS] = {NULL};
    double wall_us[PROFILE_SETS], more = 0;
    const int reps = m->out->pass[rows].reps;
    int n = 0;
    for (const struct trial *t = m->trial; t < m->trial + m->n_trial; t++) {
        double us = profile_typical(t->wall_us, t->wall_us, reps).us;
        if (solve_is_one(t->set) || (best[t->set] && us >= wall_us[t->set])) continue;
        best[t->set] = t, wall_us[t->set] = us;
    }
    for (int set = 0; set < PROFILE_SETS; set++)
        if (best[set]) more += more_us(m, rows, best[set]), n++;
    return more > 0 ? more / n : 0;
}

/* Each device once. */
static int find_alone(struct maker *m, enum pass_class rows, struct lutra_error *err)
{
    struct profile_pass *pass = &m->out->pass[rows];
    m->n_trial = 0, m->slowest_us = 0;
    pass->once = false;
    pass->n_row = m->how->pass[rows]->batch->n_row;
    for (int d = 0; d < m->out->n_device; d++) TRY(add_trial(m, rows, 1u << d, 0, err));
    return 0;
}

/* Where passes of few rows leave it open whether all would end in time, devices are tried with fewer rows first: more
 * take as long by their number, or less. */
static int find_rows(struct maker *m, struct lutra_error *err)
{
    const struct profile_how *how = m->how;
    const int most = how->pass[PASS_MANY]->batch->n_row;
    int n = PASS_MANY_ROWS;
    if (!how->shorten || most <= n || least_us(m) * most <= m->until_us - now_us(m))
        return find_alone(m, PASS_MANY, err);
    TRY(how->shorten(how->user, n, err));
    TRY(find_alone(m, PASS_MANY, err));
    for (double us = 2 * least_us(m); 2 * n <= most && us <= m->until_us - now_us(m); us *= 2) n *= 2;
    m->out->pass[PASS_MANY].n_left_out = n < most ? most : 0;
    if (n == PASS_MANY_ROWS) return 0;
    TRY(how->shorten(how->user, n, err));
    return find_alone(m, PASS_MANY, err);
}

int profile_measure(struct maker *m, enum pass_class rows, struct lutra_error *err)
{
    struct profile_pass *pass = &m->out->pass[rows];
    begin_class(m, rows);
    const double start_us = now_us(m);
    TRY(rows == PASS_MANY ? find_rows(m, err) : find_alone(m, rows, err));
    for (unsigned set = 1; set < 1u << m->out->n_device; set++)
        for (int point = 0; !solve_is_one(set) && point < PROFILE_POINTS; point++)
            TRY(add_trial(m, rows, set, point, err));
    const double first_us = now_us(m) - start_us;
    repeat(m, rows, first_us);
    /* In turn, so that what disturbs the machine for a while is not all of one trial's. */
    for (int k = 1; k < pass->reps; k++) {
        if (now_us(m) + first_us > m->until_us) pass->reps = k;
        for (int i = 0; k < pass->reps && i < m->n_trial; i++) TRY(run_trial(m, rows, &m->trial[i], k, err));
    }
    for (int i = 0; i < m->n_trial; i++) keep_times(m, rows, &m->trial[i], pass->reps);
    m->base_us[rows] = m->home == 0 ? beyond_units(m, rows, &m->trial[0]) : 0;
    pass->sync_us = find_sync(m, rows);
    return 0;
}
