/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "eval/spec.h"

static bool is_of(const struct spec_item *item, int task, int distance)
{
    return !item->loops && (task == SPEC_ANY || item->task == task) &&
           (distance == SPEC_ANY || item->distance == distance);
}

/* Tokens per pass of a text.  The pass of its prompt picks a token, too. */
static double accept_length(const struct spec_outcome *o)
{
    return o->n_pass > 0 ? (double)o->n_tok / o->n_pass : 1;
}

int spec_loops(const struct spec_run *run)
{
    int n = 0;
    for (int i = 0; i < run->set.n; i++) n += run->set.item[i].loops;
    return n;
}

double spec_length(const struct spec_run *run, const struct spec_method *m, int task, int distance)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < run->set.n; i++)
        if (is_of(&run->set.item[i], task, distance)) sum += accept_length(&m->outcome[i]), n++;
    return n ? sum / n : 0;
}

static const struct spec_method *find_method(const struct spec_run *run, const char *name)
{
    for (int i = 0; i < run->n_method; i++)
        if (!strcmp(run->method[i].name, name)) return &run->method[i];
    return NULL;
}

int spec_pairs(const struct spec_run *run, struct spec_pair pair[SPEC_PAIRS_MAX])
{
    static const char *const base[][2] = {{SPEC_OURS_OF_PLD, "ngram-simple"}, {"auto", "ngram-simple"},
        {"auto", "suffix"}, {"auto", "suffix+store"}, {"auto", "recycle"}, {"auto", "draft"}, {"all", "auto"},
        {"auto+draft", "ngram-simple"}, {"auto+draft", "suffix+store"}, {"auto+draft", "auto"},
        {"auto+draft", "draft"}};
    int n = 0;
    for (size_t i = 0; i < sizeof base / sizeof *base; i++) {
        struct spec_pair p = {find_method(run, base[i][0]), find_method(run, base[i][1])};
        if (p.of && p.to) pair[n++] = p;
    }
    for (int i = 0; i < run->n_method; i++) {
        struct spec_pair p = {find_method(run, "all"), &run->method[i]};
        if (p.of && !strncmp(p.to->name, "all-", 4)) pair[n++] = p;
    }
    return n;
}

static double decode_ms(const struct spec_outcome *o)
{
    return (double)(o->end_us - o->first_us) * 1e-3;
}

/* Texts of which the second has none of the figure are left out. */
static struct eval_interval ratio_of(double (*figure)(const struct spec_outcome *), const struct spec_run *run,
    struct spec_pair pair, int task, int distance)
{
    double *value = get_memory((size_t)run->set.n * sizeof *value);
    int n = 0;
    for (int i = 0; i < run->set.n; i++) {
        double to = figure(&pair.to->outcome[i]);
        if (is_of(&run->set.item[i], task, distance) && to > 0) value[n++] = figure(&pair.of->outcome[i]) / to;
    }
    struct eval_interval out = n ? eval_bootstrap(value, n, 1) : (struct eval_interval){0};
    free(value);
    return out;
}

struct eval_interval spec_ratio(const struct spec_run *run, struct spec_pair pair, int task, int distance)
{
    return ratio_of(accept_length, run, pair, task, distance);
}

struct eval_interval spec_faster(const struct spec_run *run, const struct spec_method *m, int task)
{
    return ratio_of(decode_ms, run, (struct spec_pair){run->method, m}, task, SPEC_ANY);
}

struct spec_times spec_times_of(const struct spec_run *run, const struct spec_method *m)
{
    struct spec_times t = {.hints_ms = (double)m->stats.hints_us * 1e-3 / run->set.n};
    double decode = 0, last = 0, first = 0;
    long n_tok = 0;
    int n = run->set.n - spec_loops(run);
    for (int i = 0; i < run->set.n; i++) {
        const struct spec_outcome *o = &m->outcome[i];
        if (run->set.item[i].loops) continue;
        decode += decode_ms(o);
        last += (double)o->end_us * 1e-3;
        first += (double)o->first_us * 1e-3;
        n_tok += o->n_tok > 1 ? o->n_tok - 1 : 0;
    }
    t.token_ms = n_tok ? decode / (double)n_tok : 0;
    t.last_ms = n ? last / n : 0;
    t.prefill = last > 0 ? first / last : 0;
    t.drafting = decode > 0 ? (double)m->stats.draft_us * 1e-3 / decode : 0;
    return t;
}

const char *spec_reject_name(enum spec_reject kind)
{
    static const char *const name[] = {"missing", "synonym", "redundant"};
    return name[kind];
}

long spec_rejections(const struct spec_run *run, long sum[REJECT_KINDS])
{
    const struct spec_method *m = find_method(run, "suffix+store");
    long all = 0;
    memset(sum, 0, REJECT_KINDS * sizeof *sum);
    for (int i = 0; m && i < run->set.n; i++)
        for (int k = 0; k < REJECT_KINDS; k++) sum[k] += m->outcome[i].rejected[k], all += m->outcome[i].rejected[k];
    return all;
}
