/* SPDX-License-Identifier: MIT
 *
 * Times of operations, on one device and on several at once.
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

int profile_tell(struct maker *m, struct lutra_error *err)
{
    if (m->done < m->total) m->done++;
    if (!m->how->progress || !m->how->progress(m->how->user, m->done, m->total)) return 0;
    return lutra_fail(err, LUTRA_E_CANCELLED, "profile: cancelled");
}

void profile_count(struct maker *m)
{
    uint64_t sets = 0, per_rep = 0;
    for (unsigned set = 1; set < 1u << m->out->n_device; set++) sets += (set & (set - 1)) != 0;
    for (int k = 0; k < m->out->n_kind; k++)
        per_rep += m->out->kind[k].cut ? (uint64_t)m->out->n_device + sets * PROFILE_POINTS : 1;
    m->total = PASS_CLASSES * (per_rep * (uint64_t)m->how->reps + 2 * PROFILE_PLANS * (uint64_t)m->how->passes);
}

/* ---- one unit ---- */

struct timing {
    double us[SOLVE_DEVICES], wall_us;
};

/* Who computes what of a unit: the team in the order of submission. */
struct team {
    struct device *device[PLAN_DEVICES];
    struct share share[PLAN_DEVICES];
    int n;
};

static int find_team(const struct maker *m, int op, const int *part, struct team *out, struct lutra_error *err)
{
    struct plan_cut cut = {0};
    int n_op;
    for (int d = 0; d < m->out->n_device; d++) {
        if (!part[d]) continue;
        cut.device[cut.n] = m->device[d];
        cut.part[cut.n++] = (float)part[d];
    }
    out->n = plan_team(m->how->list, &m->how->list->op[op], m->how->device, m->how->n_device, &cut, out->device,
        out->share, &n_op, err);
    return out->n < 0 ? out->n : cut.n;
}

bool profile_can_cut(const struct maker *m, int op, const int *part)
{
    struct team team;
    int n = find_team(m, op, part, &team, NULL);
    return n > 1 && team.n == n;
}

static int number_of(const struct maker *m, const struct device *d)
{
    int i = 0;
    while (m->device[i] != d) i++;
    return i;
}

/* As the executor does it: asynchronous devices first, each waited for. */
static int run_unit(struct maker *m, enum pass_class rows, const struct unit *u, const struct team *team,
    struct timing *out, struct lutra_error *err)
{
    const struct profile_how *how = m->how;
    struct ticket ticket[PLAN_DEVICES];
    uint64_t start = clock_now_us(how->clock), begin, end;
    for (int i = 0; i < team->n; i++) {
        struct device *d = team->device[i];
        struct segment segment = {&how->list->op[u->first], u->n, how->list, how->step[rows], team->share[i], i};
        uint64_t before = clock_now_us(how->clock);
        TRY(d->ops->submit(d, &segment, NULL, 0, &ticket[i], err));
        if (!d->caps.async) out->us[number_of(m, d)] = (double)(clock_now_us(how->clock) - before);
    }
    for (int i = 0; i < team->n; i++) {
        struct device *d = team->device[i];
        if (!d->caps.async) continue;
        while (d->ops->done && !d->ops->done(d, &ticket[i])) clock_sleep_us(how->clock, 1);
        TRY(d->ops->wait(d, &ticket[i], err));
        out->us[number_of(m, d)] = (double)(clock_now_us(how->clock) - start);
        if (d->extras && d->extras->ran && d->extras->ran(d, &ticket[i], &begin, &end))
            out->us[number_of(m, d)] = (double)(end - begin);
    }
    out->wall_us = (double)(clock_now_us(how->clock) - start);
    return 0;
}

/* The unit of this kind behind unit `at`, from the beginning again where there is none. */
static int next_of(const struct maker *m, int kind, int at)
{
    do {
        at = (at + 1) % m->n_unit;
    } while (m->unit[at].kind != kind);
    return at;
}

/* `reps` times, of one layer after another: first once for what devices work out about a unit, then timed. */
static int time_unit(struct maker *m, enum pass_class rows, int kind, const int *part, struct profile_time *time,
    double *more_us, struct lutra_error *err)
{
    double us[SOLVE_DEVICES][PROFILE_REPS], more[PROFILE_REPS];
    struct timing t = {{0}, 0};
    struct team team;
    for (int timed = 0; timed < 2; timed++)
        for (int k = 0, at = m->n_unit - 1; k < m->how->reps; k++) {
            at = next_of(m, kind, at);
            TRY(find_team(m, m->unit[at].first, part, &team, err));
            TRY(run_unit(m, rows, &m->unit[at], &team, &t, err));
            double slowest = 0;
            for (int d = 0; d < m->out->n_device; d++) {
                if (!part[d]) continue;
                us[d][k] = t.us[d];
                if (t.us[d] > slowest) slowest = t.us[d];
            }
            more[k] = t.wall_us - slowest;
            if (timed) TRY(profile_tell(m, err));
        }
    for (int d = 0; d < m->out->n_device; d++)
        if (part[d]) time[d] = profile_median(us[d], m->how->reps);
    if (more_us) *more_us = profile_median(more, m->how->reps).us;
    return 0;
}

/* ---- a kind ---- */

static int first_of(const struct maker *m, int kind)
{
    return m->unit[next_of(m, kind, m->n_unit - 1)].first;
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

/* First by the devices' times alone, then by what they took side by side. */
static int time_joint(
    struct maker *m, enum pass_class rows, int kind, unsigned set, double *more, int *n_more, struct lutra_error *err)
{
    struct profile_shape *s = &m->out->kind[kind].of[rows];
    double rate[SOLVE_DEVICES] = {0};
    int op = first_of(m, kind);
    for (int d = 0; d < m->out->n_device; d++) rate[d] = 1 / (s->alone[d].us > 0 ? s->alone[d].us : 1);
    for (int k = 0; k < PROFILE_POINTS; k++) {
        struct profile_joint *j = &s->joint[set][k];
        if (!balance(m, op, set, rate, j->part)) return 0;
        if (k && !memcmp(j->part, j[-1].part, sizeof j->part) && !beside(m, op, set, j->part)) return 0;
        TRY(time_unit(m, rows, kind, j->part, j->time, &more[(*n_more)++], err));
        s->n_joint[set]++;
        for (int d = 0; d < m->out->n_device; d++)
            if (j->part[d]) rate[d] = j->part[d] / (j->time[d].us > 0 ? j->time[d].us : 1);
    }
    return 0;
}

static int time_kind(
    struct maker *m, enum pass_class rows, int kind, double *more, int *n_more, struct lutra_error *err)
{
    struct profile_kind *k = &m->out->kind[kind];
    for (int d = 0; d < m->out->n_device; d++) {
        int part[SOLVE_DEVICES] = {0};
        if (!k->cut && d != m->on[kind]) continue;
        part[d] = PROFILE_GRID;
        TRY(time_unit(m, rows, kind, part, k->of[rows].alone, NULL, err));
    }
    for (unsigned set = 1; k->cut && set < 1u << m->out->n_device; set++)
        if (set & (set - 1)) TRY(time_joint(m, rows, kind, set, more, n_more, err));
    return 0;
}

int profile_measure(struct maker *m, enum pass_class rows, struct lutra_error *err)
{
    double more[PROFILE_KINDS * PROFILE_SETS * PROFILE_POINTS];
    int n_more = 0;
    for (int k = 0; k < m->out->n_kind; k++) TRY(time_kind(m, rows, k, more, &n_more, err));
    m->out->pass[rows].sync_us = n_more ? profile_median(more, n_more).us : 0;
    if (m->out->pass[rows].sync_us < 0) m->out->pass[rows].sync_us = 0;
    return 0;
}
