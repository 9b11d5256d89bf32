/* SPDX-License-Identifier: MIT */
#include "eval/eval.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

static void print_differences(const struct eval_set *set)
{
    int n_base = 0;
    for (int b = 0; b < EVAL_BASES; b++) n_base += set->base[b] != NULL;
    if (n_base == 0 || set->n_method < 2) return;
    printf("\npoints above");
    for (int b = 0; b < EVAL_BASES; b++)
        if (set->base[b]) printf("  %21s", set->base[b]);
    printf("\n");
    for (int i = 0; i < set->n_method; i++) {
        const struct eval_method *m = &set->method[i];
        printf("%-12s", m->name);
        for (int b = 0; b < EVAL_BASES; b++) {
            char text[48] = "";
            if (m->compared[b])
                snprintf(text, sizeof text, "%+.1f (%+.1f to %+.1f)", m->minus[b].mean * 100, m->minus[b].low * 100,
                    m->minus[b].high * 100);
            if (set->base[b]) printf("  %21s", text);
        }
        putchar('\n');
    }
    printf("(paired bootstrap over %d problems)\n", set->n);
}

void eval_print(const struct eval_run *run)
{
    const struct eval_set *set = run->set;
    printf("%-12s  %8s  %-16s  %9s  %9s  %-23s  %9s\n", "method", "accuracy", "95% CI", "tokens", "rows",
        "latency (quartiles)", "t/s");
    for (int i = 0; i < set->n_method; i++) {
        const struct eval_method *m = &set->method[i];
        char ci[32], speed[32] = "-", latency[64] = "-";
        snprintf(ci, sizeof ci, "%.1f - %.1f %%", m->accuracy.low * 100, m->accuracy.high * 100);
        if (m->tokens_per_second > 0) snprintf(speed, sizeof speed, "%.1f", m->tokens_per_second);
        if (m->latency_s >= 0)
            snprintf(latency, sizeof latency, "%.1f (%.1f - %.1f) ms", m->latency_s * 1e3, m->latency_low_s * 1e3,
                m->latency_high_s * 1e3);
        printf("%-12s  %6.1f %%  %-16s  %9.1f  %9.1f  %-23s  %9s\n", m->name, m->accuracy.mean * 100, ci, m->tokens,
            m->generator_rows + m->verifier_rows, latency, speed);
    }
    print_differences(set);
    for (int i = 0; i < set->n_method; i++)
        if (set->method[i].judged >= 0 && set->method[i].judged < 1)
            printf("%s: the verifier judged %.1f %% of the candidates\n", set->method[i].name,
                set->method[i].judged * 100);
    if (set->no_answer > 0) printf("samples without an answer: %.1f %%\n", set->no_answer * 100);
    if (!run->opts->table) return;
    puts("any@k counts a problem when one of k samples is right: what a perfect judge would reach.\n"
         "tokens, rows: per problem; rows are those of the generator (prompt included) and of the verifier.\n"
         "latency: the method alone, one problem at a time, median and quartiles (measured); t/s: over the batched "
         "pass (measured).");
    double joules;
    if (!energy_read(&joules)) puts("energy: not available (no powercap counter)");
    for (int i = 0; i < set->n_method; i++)
        if (set->method[i].joules >= 0)
            printf("energy of %s: %.2f J per problem\n", set->method[i].name, set->method[i].joules);
}

/* ---- the report ---- */

static json_t *interval_json(struct eval_interval x)
{
    return json_pack("{s:f, s:f, s:f}", "mean", x.mean, "low", x.low, "high", x.high);
}

static json_t *differences_json(const struct eval_set *set, const struct eval_method *m)
{
    json_t *out = json_object();
    for (int b = 0; b < EVAL_BASES; b++)
        if (m->compared[b]) json_object_set_new(out, set->base[b], interval_json(m->minus[b]));
    return out;
}

static json_t *methods_json(const struct eval_set *set)
{
    json_t *list = json_array();
    for (int i = 0; i < set->n_method; i++) {
        const struct eval_method *m = &set->method[i];
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:o}", "method", m->name, "accuracy",
                      interval_json(m->accuracy), "minus", differences_json(set, m), "tokens_per_problem", m->tokens,
                      "rows_per_problem", m->generator_rows + m->verifier_rows, "generator_rows", m->generator_rows,
                      "verifier_rows", m->verifier_rows, "pruned_rows", m->pruned_rows, "judged",
                      m->judged >= 0 ? json_real(m->judged) : json_null()));
    }
    return list;
}

static json_t *sample_json(const struct eval_sample *s)
{
    json_t *answer = s->answer ? json_string(s->answer) : json_null();
    /* A byte string that is not UTF-8 has no JSON form. */
    if (!answer) answer = json_null();
    return json_pack("{s:o, s:b, s:i, s:f, s:f, s:b, s:s}", "answer", answer, "right", s->right, "tokens", s->n_tok,
        "log_prob", s->sum_log_prob, "score", s->score, "judged", s->judged, "end", eval_reason_text(s->reason));
}

static json_t *samples_json(const struct eval_outcome *out)
{
    json_t *list = json_array();
    for (int i = 0; i < out->n_sample; i++) json_array_append_new(list, sample_json(&out->sample[i]));
    return list;
}

static json_t *search_json(const struct eval_outcome *out)
{
    const struct eval_sample *win = &out->sample[0];
    json_t *answer = win->answer ? json_string(win->answer) : json_null();
    return json_pack("{s:o, s:b, s:f, s:i, s:i, s:i, s:I, s:I, s:I}", "answer", answer ? answer : json_null(), "right",
        win->right, "score", win->score, "candidates", out->n_candidates, "finished", out->n_finished, "pruned",
        out->n_pruned, "tokens", (json_int_t)out->tokens, "pruned_tokens", (json_int_t)out->pruned_tokens,
        "verifier_rows", (json_int_t)out->verifier_rows);
}

static json_t *problem_json(const struct eval_set *set, const struct eval_problem *p)
{
    json_t *one = json_pack("{s:s, s:i}", "question", p->question, "prompt_tokens", p->prompt.n);
    json_t *texts = json_object();
    if (p->answer) json_object_set_new(one, "answer", json_string(p->answer));
    if (p->n_choice) json_object_set_new(one, "answer", json_integer(p->right_choice));
    for (int s = 0; s < set->n_source; s++) {
        const struct eval_outcome *out = &p->outcome[s];
        switch (set->source[s].kind) {
        case EVAL_GREEDY: json_object_set_new(one, "greedy", sample_json(&out->sample[0])); break;
        case EVAL_SAMPLES: json_object_set_new(one, "samples", samples_json(out)); break;
        case EVAL_CHOICES: json_object_set_new(one, "choices", samples_json(out)); break;
        case EVAL_SEARCH: json_object_set_new(one, set->source[s].name, search_json(out)); break;
        }
        bool samples = set->source[s].kind == EVAL_SAMPLES;
        if (out->texts) json_object_set(texts, samples ? "samples" : set->source[s].name, out->texts);
    }
    if (json_object_size(texts)) json_object_set(one, "texts", texts);
    json_decref(texts);
    return one;
}

static json_t *number_or_null(double x)
{
    return x >= 0 ? json_real(x) : json_null();
}

/* All that depends on the machine and the moment: what an interrupted evaluation may differ in. */
static json_t *time_json(const struct eval_run *run)
{
    const struct eval_set *set = run->set;
    double joules;
    json_t *methods = json_object(), *passes = json_object();
    for (int i = 0; i < set->n_method; i++) {
        const struct eval_method *m = &set->method[i];
        json_object_set_new(methods, m->name,
            json_pack("{s:o, s:o, s:o, s:o, s:o}", "latency_s", number_or_null(m->latency_s), "latency_low_s",
                number_or_null(m->latency_s < 0 ? -1 : m->latency_low_s), "latency_high_s",
                number_or_null(m->latency_s < 0 ? -1 : m->latency_high_s), "joules", number_or_null(m->joules),
                "tokens_per_second", m->tokens_per_second > 0 ? json_real(m->tokens_per_second) : json_null()));
    }
    for (int i = 0; i < set->n_source; i++)
        json_object_set_new(passes, set->source[i].name,
            json_pack("{s:f, s:I}", "seconds", set->source[i].seconds, "tokens", (json_int_t)set->source[i].tokens));
    return json_pack("{s:f, s:s, s:i, s:i, s:i, s:o, s:s, s:o, s:o}", "seconds", run->seconds, "device",
        lutra_runtime_device_text(run->engine.runtime), "threads", lutra_runtime_n_threads(run->engine.runtime),
        "ranks", run->ranks.n, "timed_problems", run->opts->timed < set->n ? run->opts->timed : set->n, "others_cpus",
        number_or_null(run->others_cpus), "energy",
        energy_read(&joules) ? "powercap, processor packages" : "not available", "passes", passes, "methods", methods);
}

static json_t *settings_json(const struct eval_run *run)
{
    const struct eval_options *o = run->opts;
    const struct lutra_sampling *s = &run->sampling;
    json_t *out = json_pack("{s:s, s:s, s:i, s:I, s:f, s:i, s:f, s:f, s:i}", "model", o->engine.model, "file", o->file,
        "problems", run->set->n, "seed", (json_int_t)s->seed, "temperature", (double)s->temperature, "top_k", s->top_k,
        "top_p", (double)s->top_p, "min_p", (double)s->min_p, "max_tokens", o->max_tokens);
    if (o->judge.prm) json_object_set_new(out, "prm", json_string(o->judge.prm));
    if (o->judge.kind) json_object_set_new(out, "prm_kind", json_string(o->judge.kind));
    if (o->judge.check) json_object_set_new(out, "check", json_string(o->judge.check));
    if (o->judge.check) json_object_set_new(out, "until_pass", json_boolean(o->judge.until_pass));
    json_object_set_new(out, "grade", json_string(o->grade));
    if (judge_wanted(&o->judge)) json_object_set_new(out, "score", json_string(o->judge.score));
    if (judge_wanted(&o->judge)) json_object_set_new(out, "prune", json_real((double)o->judge.prune));
    return out;
}

int eval_write_report(const char *path, json_t *report)
{
    char *text = report ? json_dumps(report, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(report);
    if (!text) {
        say("%s: the report cannot be written as JSON", path);
        return EXIT_FAILED;
    }
    int rc = write_file_whole(path, text, strlen(text));
    free(text);
    return rc < 0 ? EXIT_FAILED : 0;
}

int eval_report(const struct eval_run *run)
{
    const struct eval_set *set = run->set;
    json_t *problems = json_array();
    for (int i = 0; i < set->n; i++) json_array_append_new(problems, problem_json(set, &set->problem[i]));
    json_t *root = json_pack("{s:s, s:o, s:o, s:f, s:o, s:o}", "lutra", lutra_version(), "settings", settings_json(run),
        "methods", methods_json(set), "without_answer", set->no_answer, "time", time_json(run), "problems", problems);
    return eval_write_report(run->opts->report, root);
}
