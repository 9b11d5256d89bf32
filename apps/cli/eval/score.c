/* SPDX-License-Identifier: MIT */
#include "eval/eval.h"

#include <stdlib.h>
#include <string.h>

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

static const struct eval_method *find_method(const struct eval_set *set, const char *name)
{
    for (int i = 0; name && i < set->n_method; i++)
        if (!strcmp(set->method[i].name, name)) return &set->method[i];
    return NULL;
}

/* Differences problem by problem: what two methods share of a problem's difficulty cancels. */
static void compare(const struct eval_set *set, struct eval_method *m, uint64_t seed, double *value)
{
    for (int b = 0; b < EVAL_BASES; b++) {
        const struct eval_method *base = find_method(set, set->base[b]);
        if (!base || base == m) continue;
        for (int i = 0; i < set->n; i++)
            value[i] = eval_value(m, &set->problem[i]) - eval_value(base, &set->problem[i]);
        m->minus[b] = eval_bootstrap(value, set->n, seed);
        m->compared[b] = true;
    }
}

static double share_without_answer(const struct eval_set *set)
{
    int silent = 0, total = 0;
    for (int s = 0; s < set->n_source; s++) {
        if (set->source[s].kind != EVAL_SAMPLES) continue;
        for (int i = 0; i < set->n; i++)
            for (int k = 0; k < set->source[s].width; k++) {
                silent += !set->problem[i].outcome[s].sample[k].answer;
                total++;
            }
    }
    return total ? (double)silent / total : 0;
}

void eval_score(struct eval_run *run)
{
    struct eval_set *set = run->set;
    double *value = get_memory((size_t)set->n * sizeof *value);
    for (int j = 0; j < set->n_method; j++) {
        struct eval_method *m = &set->method[j];
        const struct eval_source *source = &set->source[m->source];
        for (int i = 0; i < set->n; i++) {
            value[i] = eval_value(m, &set->problem[i]);
            eval_cost(run, m, &set->problem[i]);
        }
        m->accuracy = eval_bootstrap(value, set->n, run->sampling.seed);
        compare(set, m, run->sampling.seed, value);
        bool whole = m->kind == METHOD_MEAN || m->k == source->width;
        if (whole && source->seconds > 0) m->tokens_per_second = (double)source->tokens / source->seconds;
    }
    set->no_answer = share_without_answer(set);
    free(value);
}
