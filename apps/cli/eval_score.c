/* SPDX-License-Identifier: MIT */
#include "eval.h"

#include <stdlib.h>
#include <string.h>

bool eval_vote(const struct eval_problem *p, int k)
{
    int best = -1, most = 0;
    for (int i = 0; i < k; i++) {
        if (!p->sample[i].answer) continue;
        int votes = 0;
        bool seen = false;
        for (int j = 0; j < k; j++) {
            bool same = p->sample[j].answer && strcmp(p->sample[i].answer, p->sample[j].answer) == 0;
            votes += same;
            seen |= same && j < i;
        }
        if (!seen && votes > most) best = i, most = votes;
    }
    return best >= 0 && p->sample[best].right;
}

static bool any_right(const struct eval_problem *p, int k)
{
    for (int i = 0; i < k; i++)
        if (p->sample[i].right) return true;
    return false;
}

static double mean_right(const struct eval_problem *p, int k)
{
    int right = 0;
    for (int i = 0; i < k; i++) right += p->sample[i].right;
    return (double)right / k;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct eval_interval eval_bootstrap(const double *value, int n, uint64_t seed)
{
    struct eval_interval out = {0};
    double *mean = get_memory(EVAL_RESAMPLES * sizeof *mean);
    for (int i = 0; i < n; i++) out.mean += value[i] / n;
    for (int r = 0; r < EVAL_RESAMPLES; r++) {
        double sum = 0;
        for (int i = 0; i < n; i++) sum += value[next_random(&seed) % (uint64_t)n];
        mean[r] = sum / n;
    }
    qsort(mean, EVAL_RESAMPLES, sizeof *mean, by_size);
    out.low = mean[EVAL_RESAMPLES / 40];                       /* 2.5 % */
    out.high = mean[EVAL_RESAMPLES - 1 - EVAL_RESAMPLES / 40]; /* 97.5 % */
    free(mean);
    return out;
}

static double tokens_of(const struct eval_set *set, int k)
{
    double sum = 0;
    for (int i = 0; i < set->n; i++)
        for (int j = 0; j < k; j++) sum += set->problem[i].sample[j].n_tok;
    return sum / set->n;
}

static struct eval_method *add_method(
    struct eval_result *out, const char *name, int k, const double *value, int n, uint64_t seed)
{
    struct eval_method *m = &out->method[out->n_method++];
    *m = (struct eval_method){.accuracy = eval_bootstrap(value, n, seed)};
    if (k)
        snprintf(m->name, sizeof m->name, "%s@%d", name, k);
    else
        snprintf(m->name, sizeof m->name, "%s", name);
    return m;
}

static void score_samples(const struct eval_set *set, const struct eval_options *o, const struct eval_pass *pass,
    uint64_t seed, double *value, struct eval_result *out)
{
    int n = set->n, full = set->n_sample, n_silent = 0;
    double rate = pass->seconds > 0 ? (double)pass->tokens / pass->seconds : 0;
    for (int i = 0; i < n; i++) value[i] = mean_right(&set->problem[i], full);
    struct eval_method *m = add_method(out, "mean sample", 0, value, n, seed);
    m->tokens_per_problem = tokens_of(set, full) / full;
    m->tokens_per_second = rate;
    for (int k = 1; o->vote && k <= full; k = k * 2 > full && k < full ? full : k * 2) {
        for (int i = 0; i < n; i++) value[i] = eval_vote(&set->problem[i], k);
        m = add_method(out, "vote", k, value, n, seed);
        m->tokens_per_problem = tokens_of(set, k);
        m->tokens_per_second = k == full ? rate : 0;
    }
    for (int i = 0; i < n; i++) value[i] = any_right(&set->problem[i], full);
    m = add_method(out, "any", full, value, n, seed);
    m->tokens_per_problem = tokens_of(set, full);
    m->tokens_per_second = rate;
    for (int i = 0; i < n; i++) value[i] = eval_vote(&set->problem[i], full) - mean_right(&set->problem[i], full);
    out->gain = eval_bootstrap(value, n, seed);
    out->has_gain = o->vote;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < full; j++) n_silent += !set->problem[i].sample[j].answer;
    out->no_answer = (double)n_silent / n / full;
}

void eval_score(const struct eval_set *set, const struct eval_options *o, const struct eval_pass *greedy,
    const struct eval_pass *samples, uint64_t seed, struct eval_result *out)
{
    double *value = get_memory((size_t)set->n * sizeof *value);
    *out = (struct eval_result){0};
    if (o->greedy) {
        double tokens = 0;
        for (int i = 0; i < set->n; i++) {
            value[i] = set->problem[i].greedy.right;
            tokens += set->problem[i].greedy.n_tok;
        }
        struct eval_method *m = add_method(out, "greedy", 0, value, set->n, seed);
        m->tokens_per_problem = tokens / set->n;
        m->tokens_per_second = greedy->seconds > 0 ? (double)greedy->tokens / greedy->seconds : 0;
    }
    if (set->n_sample > 0) score_samples(set, o, samples, seed, value, out);
    free(value);
}
