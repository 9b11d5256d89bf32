/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "eval/spec.h"

static void print_title(const struct spec_run *run, const char *what, int distance, const char *kind)
{
    const struct spec_set *set = &run->set;
    printf("\n%s%s%s, %s\n%-*s", what, distance == SPEC_ANY ? "" : ", ",
        distance == SPEC_ANY ? "" : set->distance.name[distance], kind, SPEC_NAME_WIDTH, "");
    for (int t = 0; t < set->task.n; t++) printf(" %9.9s", set->task.name[t]);
    printf(" %9s\n", "mean");
}

static void print_number(double x)
{
    x > 0 ? printf(" %9.2f", x) : printf(" %9s", "-");
}

/* [SDNPU Table 4]: accept lengths, and how many times those of the baselines, or of all but one. */
static void print_lengths(const struct spec_run *run, int distance)
{
    struct spec_pair pair[SPEC_PAIRS_MAX];
    const struct spec_set *set = &run->set;
    print_title(run, "Accept length", distance, "counted");
    for (int i = 0; i < run->n_method; i++) {
        printf("%-*s", SPEC_NAME_WIDTH, run->method[i].name);
        for (int t = 0; t < set->task.n; t++) print_number(spec_length(run, &run->method[i], t, distance));
        print_number(spec_length(run, &run->method[i], SPEC_ANY, distance));
        putchar('\n');
    }
    int n = spec_pairs(run, pair);
    for (int i = 0; i < n; i++) {
        struct eval_interval all = spec_ratio(run, pair[i], SPEC_ANY, distance);
        char name[2 * sizeof pair->of->name + 8];
        snprintf(name, sizeof name, "  %s / %s", pair[i].of->name, pair[i].to->name);
        printf("%-*s", SPEC_NAME_WIDTH, name);
        for (int t = 0; t < set->task.n; t++) print_number(spec_ratio(run, pair[i], t, distance).mean);
        print_number(all.mean);
        printf("  (%.3f to %.3f)%s\n", all.low, all.high,
            all.high < 1   ? " below 1"
            : all.low <= 1 ? " includes 1"
                           : "");
    }
}

/* [SDNPU Table 3] is its first column. */
static void print_times(const struct spec_run *run)
{
    printf("\n%-*s %9s %9s %9s %9s %8s %8s %8s %9s %9s %8s\n", SPEC_NAME_WIDTH, "measured", "ms/token", "last ms",
        "prefill", "hints ms", "valid", "wasted", "unused", "drafting", "session", "store");
    for (int i = 0; i < run->n_method; i++) {
        const struct spec_method *m = &run->method[i];
        struct spec_times t = spec_times_of(run, m);
        char session[32], store[32];
        printf("%-*s %9.3f %9.1f %8.1f%% %9.2f %8llu %8llu %8llu %8.2f%% %9s %8s", SPEC_NAME_WIDTH, m->name, t.token_ms,
            t.last_ms, 100 * t.prefill, t.hints_ms, (unsigned long long)(m->stats.rows_valid - m->stats.prompt_tokens),
            (unsigned long long)m->stats.rows_wasted, (unsigned long long)m->stats.rows_underutilized, 100 * t.drafting,
            bytes_text((double)m->session_bytes, session, sizeof session),
            bytes_text((double)m->store_bytes, store, sizeof store));
        if (m->joules >= 0) printf("  %.3f J a text", m->joules / run->set.n);
        putchar('\n');
    }
}

static void print_speeds(const struct spec_run *run)
{
    print_title(run, "Times as fast as none", SPEC_ANY, "measured");
    for (int i = 0; i < run->n_method; i++) {
        struct eval_interval all = spec_faster(run, &run->method[i], SPEC_ANY);
        printf("%-*s", SPEC_NAME_WIDTH, run->method[i].name);
        for (int t = 0; t < run->set.task.n; t++) print_number(spec_faster(run, &run->method[i], t).mean);
        print_number(all.mean);
        printf("  (%.3f to %.3f)\n", all.low, all.high);
    }
}

/* [SDNPU Table 2] */
static void print_rejections(const struct spec_run *run)
{
    long sum[REJECT_KINDS], all = spec_rejections(run, sum);
    if (all == 0) return;
    printf("\nWhere the store's likeliest path was wrong (%ld times): ", all);
    for (int k = 0; k < REJECT_KINDS; k++)
        printf("%s%s %.1f%%", k ? ", " : "", spec_reject_name((enum spec_reject)k), 100 * (double)sum[k] / (double)all);
    putchar('\n');
}

void spec_print(const struct spec_run *run)
{
    static const char *const texts[] = {"the model's own texts",
        "FORCED: the file's answers, whatever the model holds likely",
        "REPLAY: drafts that are right with a given probability"};
    const struct spec_set *set = &run->set;
    printf("%d questions of %s, %s\n%s\n", set->n, run->opts->spec, run->opts->engine.model, texts[run->mode]);
    if (run->opts->engine.experiment.draft_row_cost > 0)
        printf("a further row counted as %.3f of a pass\n", (double)run->opts->engine.experiment.draft_row_cost);
    if (spec_loops(run) > 0) printf("%d texts that repeat themselves to the end count for none\n", spec_loops(run));
    for (int d = 0; set->distance.n > 1 && d < set->distance.n; d++) print_lengths(run, d);
    print_lengths(run, SPEC_ANY);
    print_speeds(run);
    print_times(run);
    print_rejections(run);
}
