/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <unistd.h>

#include "eval/spec.h"

static const char *distance_name(const struct spec_run *run, int distance)
{
    return distance == SPEC_ANY ? "all" : run->set.distance.name[distance];
}

static json_t *interval_json(struct eval_interval x)
{
    return json_pack("{s:f, s:f, s:f}", "mean", x.mean, "low", x.low, "high", x.high);
}

/* {"all": {"mean": 4.1, "summary": 4.4, ...}, "lightly": ...} */
static json_t *lengths_json(const struct spec_run *run, const struct spec_method *m)
{
    json_t *out = json_object();
    for (int d = SPEC_ANY; d < run->set.distance.n; d++) {
        json_t *row = json_pack("{s:f}", "mean", spec_length(run, m, SPEC_ANY, d));
        for (int t = 0; t < run->set.task.n; t++)
            json_object_set_new(row, run->set.task.name[t], json_real(spec_length(run, m, t, d)));
        json_object_set_new(out, distance_name(run, d), row);
    }
    return out;
}

static json_t *time_json(const struct spec_run *run, const struct spec_method *m)
{
    struct spec_times t = spec_times_of(run, m);
    json_t *tasks = json_object();
    for (int i = 0; i < run->set.task.n; i++)
        json_object_set_new(tasks, run->set.task.name[i], interval_json(spec_faster(run, m, i)));
    return json_pack("{s:f, s:o, s:o, s:f, s:f, s:f, s:f, s:o}", "ms_per_token", t.token_ms, "times_as_fast",
        interval_json(spec_faster(run, m, SPEC_ANY)), "times_as_fast_by_task", tasks, "last_ms", t.last_ms,
        "prefill_share", t.prefill, "drafting_share", t.drafting, "hints_ms", t.hints_ms, "joules",
        m->joules >= 0 ? json_real(m->joules / run->set.n) : json_null());
}

static json_t *method_json(const struct spec_run *run, const struct spec_method *m)
{
    const struct lutra_stats *s = &m->stats;
    json_t *rows = json_pack("{s:I, s:I, s:I, s:I, s:I}", "valid", (json_int_t)(s->rows_valid - s->prompt_tokens),
        "wasted", (json_int_t)s->rows_wasted, "underutilized", (json_int_t)s->rows_underutilized, "drafted",
        (json_int_t)s->rows_drafted, "accepted", (json_int_t)s->rows_accepted);
    return json_pack("{s:s, s:o, s:o, s:I, s:I, s:o}", "method", m->name, "accept_length", lengths_json(run, m), "rows",
        rows, "session_bytes", (json_int_t)m->session_bytes, "store_bytes", (json_int_t)m->store_bytes, "time",
        time_json(run, m));
}

static json_t *ratio_json(const struct spec_run *run, struct spec_pair pair, int distance)
{
    json_t *tasks = json_object();
    for (int t = 0; t < run->set.task.n; t++)
        json_object_set_new(tasks, run->set.task.name[t], interval_json(spec_ratio(run, pair, t, distance)));
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "of", pair.of->name, "to", pair.to->name, "distance",
        distance_name(run, distance), "all", interval_json(spec_ratio(run, pair, SPEC_ANY, distance)), "tasks", tasks);
}

static json_t *ratios_json(const struct spec_run *run)
{
    struct spec_pair pair[SPEC_PAIRS_MAX];
    json_t *out = json_array();
    int n = spec_pairs(run, pair);
    for (int i = 0; i < n; i++)
        for (int d = SPEC_ANY; d < run->set.distance.n; d++) json_array_append_new(out, ratio_json(run, pair[i], d));
    return out;
}

static json_t *rejections_json(const struct spec_run *run)
{
    long sum[REJECT_KINDS];
    json_t *out = json_pack("{s:I}", "all", (json_int_t)spec_rejections(run, sum));
    for (int k = 0; k < REJECT_KINDS; k++)
        json_object_set_new(out, spec_reject_name((enum spec_reject)k), json_integer(sum[k]));
    return out;
}

static json_t *settings_json(const struct spec_run *run)
{
    const struct eval_options *o = run->opts;
    json_t *out = json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:f, s:i, s:f}", "spec", o->spec, "mode", o->spec_mode,
        "model", o->engine.model, "questions", run->set.n, "looping", spec_loops(run), "seed",
        (json_int_t)run->sampling.seed, "temperature", (double)run->sampling.temperature, "max_tokens", o->max_tokens,
        "row_cost", (double)o->engine.experiment.draft_row_cost);
    if (o->engine.draft_model) json_object_set_new(out, "draft_model", json_string(o->engine.draft_model));
    return out;
}

static json_t *machine_json(const struct spec_run *run)
{
    double joules;
    return json_pack("{s:s, s:i, s:I, s:s}", "device", lutra_runtime_device_text(run->engine.runtime), "threads",
        lutra_runtime_n_threads(run->engine.runtime), "processors", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "energy",
        energy_read(&joules) ? "powercap, processor packages" : "not available");
}

int spec_report(const struct spec_run *run)
{
    json_t *methods = json_array();
    for (int i = 0; i < run->n_method; i++) json_array_append_new(methods, method_json(run, &run->method[i]));
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "lutra", lutra_version(), "machine", machine_json(run), "settings",
            settings_json(run), "methods", methods, "ratios", ratios_json(run), "rejections", rejections_json(run));
    return eval_write_report(run->opts->report, root);
}
