/* SPDX-License-Identifier: MIT
 *
 * Which candidates of a search continue, and with how many rows: beams, DVTS and REBASE as pure functions of rewards
 * (policy.h).
 */
#include "search/policy.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

struct search_reward search_reward_none(void)
{
    return (struct search_reward){.least = 1, .product = 1};
}

void search_reward_add(struct search_reward *r, double step)
{
    r->n++;
    r->last = step;
    r->sum += step;
    r->product *= step;
    if (step < r->least) r->least = step;
}

double search_reward_score(const struct search_reward *r, enum search_score score)
{
    if (r->n == 0) return 0;
    switch (score) {
    case SEARCH_LAST: return r->last;
    case SEARCH_MIN: return r->least;
    case SEARCH_PRODUCT: return r->product;
    case SEARCH_MEAN: return r->sum / r->n;
    }
    return 0;
}

double search_likelihood(double sum_log_prob)
{
    double p = exp(sum_log_prob);
    return p <= 1 ? p : p > 1 ? 1 : 0; /* rounding may leave a sum just above 0 */
}

/* Better: higher score, then the lower id (candidates are in ascending id). */
static bool better(const struct search_candidate *a, const struct search_candidate *b)
{
    return a->score > b->score || (a->score == b->score && a->id < b->id);
}

static bool live(const struct search_candidate *c)
{
    return !c->finished && !c->duplicate;
}

/* How many of the candidates (in c's group only, if asked) rank before c. */
static int rank_of(const struct search_candidate *cand, int n, const struct search_candidate *c, bool in_group)
{
    int rank = 0;
    for (int i = 0; i < n; i++)
        if (!cand[i].duplicate && (!in_group || cand[i].group == c->group)) rank += better(&cand[i], c);
    return rank;
}

static double best_live(const struct search_candidate *cand, int n)
{
    double best = 0;
    for (int i = 0; i < n; i++)
        if (live(&cand[i]) && cand[i].score > best) best = cand[i].score;
    return best;
}

/* Marks the survivors with one child each; returns how many. */
static int keep_best(const struct search_settings *set, struct search_candidate *cand, int n)
{
    int beams = set->width / (set->expand > 0 ? set->expand : 1), kept = 0;
    bool in_group = set->method == SEARCH_DVTS;
    double floor = set->prune_below * best_live(cand, n);
    for (int i = 0; i < n; i++) {
        int limit = in_group ? 1 : beams > 0 ? beams : 1;
        cand[i].children = live(&cand[i]) && cand[i].score >= floor && rank_of(cand, n, &cand[i], in_group) < limit;
        kept += cand[i].children;
    }
    return kept;
}

/* Spreads `rows` evenly over the survivors, what is left over to the best. */
static void spread(struct search_candidate *cand, int n, int kept, int rows)
{
    for (int i = 0; i < n; i++) {
        if (!cand[i].children) continue;
        int rank = 0; /* among survivors */
        for (int k = 0; k < n; k++) rank += cand[k].children && better(&cand[k], &cand[i]);
        cand[i].children = rows / kept + (rank < rows % kept);
    }
}

/* REBASE: round(width * softmax(score / T)), in rank order until the rows are used up. */
static void by_softmax(const struct search_settings *set, struct search_candidate *cand, int n)
{
    double best = best_live(cand, n), total = 0, t = set->temperature > 0 ? (double)set->temperature : 0.1;
    double floor = set->prune_below * best;
    int rows = set->width, n_live = 0;
    for (int i = 0; i < n; i++) {
        cand[i].children = 0;
        if (!live(&cand[i]) || cand[i].score < floor) continue;
        total += exp((cand[i].score - best) / t);
        n_live++;
    }
    for (int rank = 0, left = rows; rank < n && left > 0 && n_live > 0; rank++) {
        for (int i = 0; i < n; i++) {
            if (!live(&cand[i]) || cand[i].score < floor || rank_of(cand, n, &cand[i], false) != rank) continue;
            int share = (int)ceil(rows * exp((cand[i].score - best) / t) / total - 1e-9);
            cand[i].children = share < left ? share : left;
            left -= cand[i].children;
        }
    }
}

void search_allocate(const struct search_settings *set, struct search_candidate *cand, int n)
{
    if (set->method == SEARCH_REBASE) {
        by_softmax(set, cand, n);
        return;
    }
    int kept = keep_best(set, cand, n);
    if (kept > 0) spread(cand, n, kept, set->width);
}

static bool answered(const struct search_final *f)
{
    return f->answer && *f->answer;
}

static bool same(const struct search_final *a, const struct search_final *b)
{
    return answered(a) && answered(b) && !strcmp(a->answer, b->answer);
}

static int best_score(const struct search_final *f, int n)
{
    int best = n > 0 ? 0 : -1;
    for (int i = 1; i < n; i++)
        if (f[i].score > f[best].score) best = i;
    return best;
}

/* Votes, or their weights, for f[i]'s answer. */
static double weight_of(enum search_method method, const struct search_final *f, int n, int i)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        if (same(&f[i], &f[k])) sum += method == SEARCH_VOTE ? 1 : f[k].score;
    return sum;
}

int search_choose(enum search_method method, const struct search_final *f, int n)
{
    if (method != SEARCH_VOTE && method != SEARCH_WEIGHTED) return best_score(f, n);
    int win = -1;
    double most = -1;
    for (int i = 0; i < n; i++) {
        if (!answered(&f[i])) continue;
        double w = weight_of(method, f, n, i);
        bool representative =
            method == SEARCH_WEIGHTED && win >= 0 && same(&f[i], &f[win]) && f[i].score > f[win].score;
        if (w > most || representative) win = i;
        if (w > most) most = w;
    }
    if (win >= 0) return win;
    return method == SEARCH_VOTE ? (n > 0 ? 0 : -1) : best_score(f, n);
}

bool search_decided(const struct search_final *f, int n, int left)
{
    int win = search_choose(SEARCH_VOTE, f, n);
    if (win < 0 || !answered(&f[win])) return left == 0;
    double most = weight_of(SEARCH_VOTE, f, n, win), second = 0;
    for (int i = 0; i < n; i++) {
        double w = weight_of(SEARCH_VOTE, f, n, i);
        if (!same(&f[i], &f[win]) && w > second) second = w;
    }
    return most > second + left;
}
