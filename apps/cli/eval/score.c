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

/* The share of a method's candidates that its verifier gave a reward; < 0: it has none. */
static double share_judged(const struct eval_run *run, const struct eval_method *m)
{
    const struct eval_source *source = &run->set->source[m->source];
    bool samples = m->kind == METHOD_WEIGHTED || m->kind == METHOD_BEST;
    bool search = m->kind == METHOD_SEARCH && source->search != LUTRA_SEARCH_VOTE;
    int n = 0, n_judged = 0;
    if ((!samples && !search) || !judge_wanted(&run->opts->judge)) return -1;
    for (int i = 0; i < run->set->n; i++) {
        const struct eval_outcome *out = &run->set->problem[i].outcome[m->source];
        n += samples ? m->k : out->n_counted;
        if (search) n_judged += out->n_judged;
        for (int k = 0; samples && k < m->k; k++) n_judged += out->sample[k].judged;
    }
    return n ? (double)n_judged / n : -1;
}

int eval_check_judged(const struct eval_run *run)
{
    for (int i = 0; i < run->set->n_method; i++) {
        const struct eval_method *m = &run->set->method[i];
        if (m->judged != 0) continue;
        say("eval: %s: the verifier gave no candidate a reward: %s", m->name,
            *run->no_reward ? run->no_reward : "its reasons stand in the events of --keep-texts");
        return EXIT_FAILED;
    }
    return 0;
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
        m->judged = share_judged(run, m);
        m->accuracy = eval_bootstrap(value, set->n, run->sampling.seed);
        compare(set, m, run->sampling.seed, value);
        bool whole = m->kind == METHOD_MEAN || m->k == source->width;
        if (whole && source->seconds > 0) m->tokens_per_second = (double)source->tokens / source->seconds;
    }
    set->no_answer = share_without_answer(set);
    free(value);
}
