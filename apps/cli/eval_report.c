/* SPDX-License-Identifier: MIT */
#include "eval.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void eval_print(const struct eval_set *set, const struct eval_result *r, const struct eval_options *o)
{
    printf("%-12s  %8s  %-16s  %14s  %9s\n", "method", "accuracy", "95% CI", "tokens/problem", "t/s");
    for (int i = 0; i < r->n_method; i++) {
        const struct eval_method *m = &r->method[i];
        char ci[32], speed[32] = "-";
        snprintf(ci, sizeof ci, "%.1f - %.1f %%", m->accuracy.low * 100, m->accuracy.high * 100);
        if (m->tokens_per_second > 0) snprintf(speed, sizeof speed, "%.1f", m->tokens_per_second);
        printf(
            "%-12s  %6.1f %%  %-16s  %14.1f  %9s\n", m->name, m->accuracy.mean * 100, ci, m->tokens_per_problem, speed);
    }
    if (r->has_gain)
        printf("\nvote@%d minus mean sample: %+.1f points, 95%% CI %+.1f to %+.1f (paired bootstrap, %d problems)\n",
            set->n_sample, r->gain.mean * 100, r->gain.low * 100, r->gain.high * 100, set->n);
    if (set->n_sample > 0 && r->no_answer > 0) printf("samples without an answer: %.1f %%\n", r->no_answer * 100);
    if (o->table) puts("any@k counts a problem when one of k samples is right: what a perfect judge would reach.");
}

static json_t *interval_json(struct eval_interval x)
{
    return json_pack("{s:f, s:f, s:f}", "mean", x.mean, "low", x.low, "high", x.high);
}

static json_t *methods_json(const struct eval_result *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->n_method; i++) {
        const struct eval_method *m = &r->method[i];
        json_t *speed = m->tokens_per_second > 0 ? json_real(m->tokens_per_second) : json_null();
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:f, s:o}", "method", m->name, "accuracy", interval_json(m->accuracy),
                      "tokens_per_problem", m->tokens_per_problem, "tokens_per_second", speed));
    }
    return list;
}

static const char *reason_text(enum lutra_stop reason)
{
    switch (reason) {
    case LUTRA_STOP_END: return "end";
    case LUTRA_STOP_STRING: return "string";
    case LUTRA_STOP_LENGTH: return "length";
    case LUTRA_STOP_CTX_FULL: return "context full";
    case LUTRA_STOP_CANCELLED: return "cancelled";
    case LUTRA_STOP_DEADLINE: return "deadline";
    case LUTRA_STOP_NONE: return "none";
    case LUTRA_STOP_CALLER: return "caller";
    case LUTRA_STOP_ERROR: return "error";
    default: return "?";
    }
}

static json_t *sample_json(const struct eval_sample *s)
{
    json_t *answer = s->answer ? json_string(s->answer) : json_null();
    /* A byte string that is not UTF-8 has no JSON form. */
    if (!answer) answer = json_null();
    return json_pack("{s:o, s:b, s:i, s:f, s:s}", "answer", answer, "right", s->right, "tokens", s->n_tok, "log_prob",
        s->sum_log_prob, "end", reason_text(s->reason));
}

static json_t *problems_json(const struct eval_set *set, const struct eval_options *o)
{
    json_t *list = json_array();
    for (int i = 0; i < set->n; i++) {
        const struct eval_problem *p = &set->problem[i];
        json_t *one =
            json_pack("{s:s, s:s, s:i}", "question", p->question, "answer", p->answer, "prompt_tokens", p->prompt.n);
        if (o->greedy) json_object_set_new(one, "greedy", sample_json(&p->greedy));
        if (set->n_sample > 0) {
            json_t *samples = json_array();
            for (int j = 0; j < set->n_sample; j++) json_array_append_new(samples, sample_json(&p->sample[j]));
            json_object_set_new(one, "samples", samples);
            json_object_set_new(one, "vote_right", json_boolean(eval_vote(p, set->n_sample)));
        }
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *pass_json(const struct eval_pass *p)
{
    const struct lutra_stats *s = &p->stats;
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "seconds", p->seconds, "tokens", (json_int_t)p->tokens,
        "steps", (json_int_t)s->n_step, "rows_valid", (json_int_t)s->rows_valid, "rows_wasted",
        (json_int_t)s->rows_wasted, "rows_underutilized", (json_int_t)s->rows_underutilized, "weight_bytes",
        (json_int_t)s->weight_bytes, "cache_bytes", (json_int_t)s->cache_bytes);
}

int eval_report(const struct eval_set *set, const struct eval_result *r, const struct eval_options *o,
    const struct engine *e, const struct lutra_sampling *sampling, const struct eval_pass *greedy,
    const struct eval_pass *samples)
{
    json_t *settings = json_pack("{s:s, s:s, s:i, s:i, s:I, s:f, s:i, s:f, s:f, s:i, s:i, s:s}", "model",
        o->engine.model, "file", o->file, "problems", set->n, "samples", set->n_sample, "seed",
        (json_int_t)sampling->seed, "temperature", (double)sampling->temperature, "top_k", sampling->top_k, "top_p",
        (double)sampling->top_p, "min_p", (double)sampling->min_p, "parallel", o->parallel, "threads",
        lutra_runtime_n_threads(e->runtime), "device", lutra_runtime_device_text(e->runtime));
    json_t *root =
        json_pack("{s:s, s:o, s:o}", "lutra", lutra_version(), "settings", settings, "methods", methods_json(r));
    if (r->has_gain) json_object_set_new(root, "vote_minus_mean_sample", interval_json(r->gain));
    if (o->greedy) json_object_set_new(root, "greedy_pass", pass_json(greedy));
    if (set->n_sample > 0) json_object_set_new(root, "sample_pass", pass_json(samples));
    json_object_set_new(root, "problems", problems_json(set, o));
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!text) {
        say("%s: the report cannot be written as JSON", o->report);
        return EXIT_FAILED;
    }
    int rc = write_file_whole(o->report, text, strlen(text));
    free(text);
    return rc < 0 ? EXIT_FAILED : 0;
}
