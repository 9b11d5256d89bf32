/* SPDX-License-Identifier: MIT */
#include "search/budget.h"

bool search_option_fits(const struct search_option *o, const struct search_means *means)
{
    bool judged = o->method != SEARCH_VOTE, steps = o->method >= SEARCH_BEAM;
    if (o->width < 1 || o->width > means->max_width || (judged && !means->verifier)) return false;
    if (steps && o->width > means->max_beam) return false;
    if (means->tokens > 0 && !(o->tokens <= (double)means->tokens)) return false;
    return means->us == 0 || (o->us >= 0 && o->us <= (double)means->us);
}

bool search_option_better(const struct search_option *a, const struct search_option *b)
{
    return a->accuracy > b->accuracy || (a->accuracy == b->accuracy && a->tokens < b->tokens);
}

struct search_option search_option_unmeasured(const struct search_means *means)
{
    enum search_method method = means->until_pass ? SEARCH_BEST : means->verifier ? SEARCH_WEIGHTED : SEARCH_VOTE;
    return (struct search_option){.method = method, .width = means->max_width, .expand = 1, .us = -1};
}

int search_wave(double left, double mean, double longest, int most)
{
    if (longest < 1) longest = 1;
    if (mean < 1) mean = 1;
    if (most < 1 || left < longest) return 0;
    double n = 1 + (left - longest) / mean;
    return n < most ? (int)n : most;
}

int search_within(const int *length, int n, int64_t budget)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        sum += length[i];
        if (sum > budget) return i;
    }
    return n;
}
