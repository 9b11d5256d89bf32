/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "eval/spec.h"

enum { ANY = -1 };

static bool is_of(const struct spec_item *item, int task, int distance)
{
    return (task == ANY || item->task == task) && (distance == ANY || item->distance == distance);
}

/* Tokens per pass of a text.  The pass of its prompt picks a token, too. */
static double accept_length(const struct spec_outcome *o)
{
    return o->n_pass > 0 ? (double)o->n_tok / o->n_pass : 1;
}

/* The mean over texts. */
static double mean_length(const struct spec_run *run, const struct spec_method *m, int task, int distance)
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

/* x against y, text by text: the mean ratio with its interval. */
static struct eval_interval ratio(
    const struct spec_run *run, const struct spec_method *x, const struct spec_method *y, int distance)
{
    double *value = get_memory((size_t)run->set.n * sizeof *value);
    int n = 0;
    for (int i = 0; i < run->set.n; i++)
        if (is_of(&run->set.item[i], ANY, distance))
            value[n++] = accept_length(&x->outcome[i]) / accept_length(&y->outcome[i]);
    struct eval_interval out = eval_bootstrap(value, n, 1);
    free(value);
    return out;
}

static void print_ratio(
    const struct spec_run *run, const struct spec_method *x, const struct spec_method *y, int distance)
{
    struct eval_interval r = ratio(run, x, y, distance);
    printf("  %s / %s: %.3f (%.3f to %.3f)\n", x->name, y->name, r.mean, r.low, r.high);
}

/* Against whom it counts: the baselines, and itself with one drafter less. */
static void print_ratios(const struct spec_run *run, int distance)
{
    const struct spec_method *all = find_method(run, "auto");
    static const char *const base[] = {"ngram-simple", "suffix+store", "draft"};
    for (size_t i = 0; all && i < sizeof base / sizeof *base; i++) {
        const struct spec_method *m = find_method(run, base[i]);
        if (m) print_ratio(run, all, m, distance);
    }
    for (int i = 0; all && i < run->n_method; i++)
        if (!strncmp(run->method[i].name, "auto-", 5)) print_ratio(run, all, &run->method[i], distance);
}

static void print_lengths(const struct spec_run *run, int distance)
{
    const struct spec_set *set = &run->set;
    printf("\nAccept length%s%s, counted\n%-18s", distance == ANY ? "" : ", ",
        distance == ANY ? "" : set->distance.name[distance], "");
    for (int t = 0; t < set->task.n; t++) printf(" %9.9s", set->task.name[t]);
    printf(" %9s\n", "mean");
    for (int i = 0; i < run->n_method; i++) {
        printf("%-18s", run->method[i].name);
        for (int t = 0; t <= set->task.n; t++) {
            double mean = mean_length(run, &run->method[i], t < set->task.n ? t : ANY, distance);
            mean > 0 ? printf(" %9.2f", mean) : printf(" %9s", "-");
        }
        putchar('\n');
    }
    print_ratios(run, distance);
}

static void print_times(const struct spec_run *run)
{
    printf("\n%-18s %9s %9s %9s %8s %8s %8s %9s %9s %8s\n", "measured", "ms/token", "last ms", "prefill", "valid",
        "wasted", "unused", "drafting", "session", "store");
    for (int i = 0; i < run->n_method; i++) {
        const struct spec_method *m = &run->method[i];
        double decode = 0, last = 0, first = 0;
        long n_tok = 0;
        for (int k = 0; k < run->set.n; k++) {
            const struct spec_outcome *o = &m->outcome[k];
            decode += (double)(o->end_us - o->first_us) * 1e-3;
            last += (double)o->end_us * 1e-3;
            first += (double)o->first_us * 1e-3;
            n_tok += o->n_tok > 1 ? o->n_tok - 1 : 0;
        }
        char session[32], store[32];
        double rows = (double)(m->stats.rows_valid - m->stats.prompt_tokens + m->stats.rows_wasted);
        printf("%-18s %9.3f %9.1f %8.1f%% %8.0f %8llu %8llu %8.2f%% %9s %8s", m->name,
            n_tok ? decode / (double)n_tok : 0, last / run->set.n, last > 0 ? 100 * first / last : 0,
            rows - (double)m->stats.rows_wasted, (unsigned long long)m->stats.rows_wasted,
            (unsigned long long)m->stats.rows_underutilized, decode > 0 ? (double)m->stats.draft_us * 0.1 / decode : 0,
            bytes_text((double)m->session_bytes, session, sizeof session),
            bytes_text((double)m->store_bytes, store, sizeof store));
        if (m->joules >= 0) printf("  %.3f J a text", m->joules / run->set.n);
        putchar('\n');
    }
}

static void print_rejections(const struct spec_run *run)
{
    static const char *const name[] = {"missing", "synonym", "redundant"};
    const struct spec_method *m = find_method(run, "suffix+store");
    long sum[REJECT_KINDS] = {0}, all = 0;
    for (int i = 0; m && i < run->set.n; i++)
        for (int k = 0; k < REJECT_KINDS; k++) sum[k] += m->outcome[i].rejected[k], all += m->outcome[i].rejected[k];
    if (all == 0) return;
    printf("\nWhere the store's likeliest path was wrong (%ld times): ", all);
    for (int k = 0; k < REJECT_KINDS; k++)
        printf("%s%s %.1f%%", k ? ", " : "", name[k], 100 * (double)sum[k] / (double)all);
    putchar('\n');
}

void spec_print(const struct spec_run *run)
{
    static const char *const texts[] = {"the model's own texts",
        "FORCED: the file's answers, whatever the model holds likely",
        "REPLAY: drafts that are right with a given probability"};
    const struct spec_set *set = &run->set;
    printf("%d questions of %s, %s\n%s\n", set->n, run->opts->spec, run->opts->engine.model, texts[run->mode]);
    if (run->opts->spec_row_cost > 0)
        printf("a further row counted as %.3f of a pass\n", (double)run->opts->spec_row_cost);
    for (int d = 0; set->distance.n > 1 && d < set->distance.n; d++) print_lengths(run, d);
    print_lengths(run, ANY);
    print_times(run);
    print_rejections(run);
}
