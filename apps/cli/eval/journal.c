/* SPDX-License-Identifier: MIT
 *
 * The journal beside a report: a first line with what the outcomes depend on, then one JSON object per outcome, each on
 * disk before the next begins; with --keep-texts that has the candidates' texts, too.  A journal may be continued with
 * and without them: what is asked for and not there is computed again.  Rank 0 writes REPORT.journal, rank r
 * REPORT.journal.r; all are read at the start.
 */
#include "eval/eval.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS_MAX = 256, PATH_BYTES = 4096, JOURNAL_FORMAT = 4 }; /* 4: who was judged */

struct eval_journal {
    int fd;
    char path[PATH_BYTES];
    char *settings; /* the first line */
};

static const char *const reason_texts[] = {
    "none", "end", "string", "length", "context full", "caller", "cancelled", "deadline", "error", "pruned"};
enum { N_REASON = sizeof reason_texts / sizeof *reason_texts };

const char *eval_reason_text(enum lutra_stop reason)
{
    return (int)reason >= 0 && (int)reason < N_REASON ? reason_texts[reason] : "?";
}

static enum lutra_stop reason_of(const char *text)
{
    for (int i = 0; text && i < N_REASON; i++)
        if (!strcmp(reason_texts[i], text)) return (enum lutra_stop)i;
    return LUTRA_STOP_NONE;
}

static uint64_t file_bytes(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void set_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, text ? json_string(text) : json_null());
}

static char *describe(const struct eval_run *run)
{
    const struct eval_options *o = run->opts;
    const struct lutra_sampling *s = &run->sampling;
    char hash[32];
    json_t *root = json_object();
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)run->set->content_hash);
    set_text(root, "journal", lutra_version());
    json_object_set_new(root, "format", json_integer(JOURNAL_FORMAT));
    set_text(root, "problems", hash);
    set_text(root, "model", o->engine.model);
    set_text(root, "prm", o->judge.prm);
    json_object_set_new(root, "model_bytes", json_integer((json_int_t)file_bytes(o->engine.model)));
    json_object_set_new(root, "prm_bytes", json_integer((json_int_t)file_bytes(o->judge.prm)));
    set_text(root, "prm_kind", o->judge.kind);
    set_text(root, "check", o->judge.check);
    set_text(root, "check_time", o->judge.check_time);
    json_object_set_new(root, "check_memory", json_integer(o->judge.check_memory));
    json_object_set_new(root, "until_pass", json_boolean(o->judge.until_pass));
    set_text(root, "grade", o->grade);
    set_text(root, "score", o->judge.score);
    set_text(root, "auto_table", o->auto_table);
    set_text(root, "step", o->judge.step);
    json_object_set_new(root, "reasoning_budget", json_integer(o->budget));
    json_object_set_new(root, "prune", json_real((double)o->judge.prune));
    set_text(root, "mark", o->judge.mark);
    set_text(root, "system", o->system);
    set_text(root, "template", o->template_file);
    set_text(root, "cache", o->engine.type_k);
    if (o->engine.type_v) set_text(root, "cache_v", o->engine.type_v);
    set_text(root, "device", o->engine.device);
    set_text(root, "isa", o->engine.isa);
    struct buffer sampling = {0};
    sampling_text(s, &sampling);
    json_object_set_new(root, "seed", json_integer((json_int_t)s->seed));
    json_object_set_new(root, "sampling", json_stringn(sampling.text, sampling.n_bytes));
    buffer_free(&sampling);
    json_t *bias = json_array();
    for (int i = 0; i < s->n_bias; i++) json_array_append_new(bias, json_string(o->sampling.bias.item[i]));
    json_object_set_new(root, "bias", bias);
    json_object_set_new(root, "max_tokens", json_integer(o->max_tokens));
    json_object_set_new(root, "n_ctx", json_integer(o->engine.n_ctx));
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(root);
    return text;
}

/* ---- outcomes as JSON ---- */

static json_t *sample_json(const struct eval_sample *s)
{
    json_t *answer = s->answer ? json_string(s->answer) : json_null();
    return json_pack("{s:o*, s:b, s:b, s:i, s:i, s:f, s:f, s:s}", "answer", answer, "right", s->right, "judged",
        s->judged, "tokens", s->n_tok, "steps", s->n_step, "log_prob", s->sum_log_prob, "score", s->score, "end",
        eval_reason_text(s->reason));
}

static json_t *outcome_json(const struct eval_set *set, int source, int problem)
{
    const struct eval_outcome *out = &set->problem[problem].outcome[source];
    json_t *samples = json_array();
    for (int i = 0; i < out->n_sample; i++) json_array_append_new(samples, sample_json(&out->sample[i]));
    return json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:o, s:O*}", "problem", problem, "source",
        set->source[source].name, "candidates", out->n_candidates, "finished", out->n_finished, "pruned", out->n_pruned,
        "counted", out->n_counted, "judged", out->n_judged, "tokens", (json_int_t)out->tokens, "pruned_tokens",
        (json_int_t)out->pruned_tokens, "verifier_rows", (json_int_t)out->verifier_rows, "us", (json_int_t)out->us,
        "samples", samples, "texts", out->texts);
}

static int int_of(const json_t *object, const char *key)
{
    return (int)json_integer_value(json_object_get(object, key));
}

static void read_sample(struct eval_sample *s, const json_t *object)
{
    const char *answer = json_string_value(json_object_get(object, "answer"));
    *s = (struct eval_sample){.answer = answer ? copy_text(answer) : NULL,
        .right = json_is_true(json_object_get(object, "right")),
        .judged = json_is_true(json_object_get(object, "judged")),
        .n_tok = int_of(object, "tokens"),
        .n_step = int_of(object, "steps"),
        .sum_log_prob = json_number_value(json_object_get(object, "log_prob")),
        .score = json_number_value(json_object_get(object, "score")),
        .reason = reason_of(json_string_value(json_object_get(object, "end")))};
}

/* Samples that a source leaves for a problem. */
static int n_samples_of(const struct eval_source *source, const struct eval_problem *p)
{
    return source->kind == EVAL_SAMPLES ? source->width : source->kind == EVAL_CHOICES ? p->n_choice : 1;
}

/* One line; what does not fit this evaluation (another method, a problem beyond --limit) is passed over. */
static void take_line(struct eval_set *set, bool keep_texts, const char *line, size_t n)
{
    json_t *root = json_loadb(line, n, 0, NULL);
    const char *name = json_string_value(json_object_get(root, "source"));
    const json_t *samples = json_object_get(root, "samples");
    json_t *texts = json_object_get(root, "texts");
    int i = int_of(root, "problem"), source = 0;
    while (name && source < set->n_source && strcmp(set->source[source].name, name)) source++;
    bool fits = name && source < set->n_source && i >= 0 && i < set->n && !set->problem[i].outcome[source].done &&
                (int)json_array_size(samples) == n_samples_of(&set->source[source], &set->problem[i]) &&
                (!keep_texts || json_is_array(texts) || set->choices);
    if (fits) {
        struct eval_outcome *out = &set->problem[i].outcome[source];
        *out = (struct eval_outcome){.done = true,
            .n_sample = (int)json_array_size(samples),
            .n_candidates = int_of(root, "candidates"),
            .n_finished = int_of(root, "finished"),
            .n_counted = int_of(root, "counted"),
            .n_judged = int_of(root, "judged"),
            .n_pruned = int_of(root, "pruned"),
            .tokens = json_integer_value(json_object_get(root, "tokens")),
            .pruned_tokens = json_integer_value(json_object_get(root, "pruned_tokens")),
            .verifier_rows = json_integer_value(json_object_get(root, "verifier_rows")),
            .us = (uint64_t)json_integer_value(json_object_get(root, "us"))};
        if (keep_texts) out->texts = json_incref(texts);
        out->sample = get_memory((size_t)out->n_sample * sizeof *out->sample);
        for (int k = 0; k < out->n_sample; k++) read_sample(&out->sample[k], json_array_get(samples, (size_t)k));
    }
    json_decref(root);
}

/* ---- files ---- */

static void name_file(char path[PATH_BYTES], const struct eval_run *run, int rank)
{
    if (rank)
        snprintf(path, PATH_BYTES, "%.3900s.journal.%d", run->opts->report, rank);
    else
        snprintf(path, PATH_BYTES, "%.3900s.journal", run->opts->report);
}

/* Takes the outcomes of one file; *whole: bytes up to the end of its last whole line.  A missing file is empty. */
static int read_journal(struct eval_run *run, const char *path, size_t *whole)
{
    struct buffer file = {0};
    int code = 0;
    *whole = 0;
    if (access(path, F_OK) < 0) return 0;
    if (read_file(path, &file) < 0) return EXIT_FAILED;
    const char *p = file.text, *end = p + file.n_bytes;
    for (bool first = true; !code && p < end; first = false) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) break; /* cut short by a kill */
        size_t n = (size_t)(stop - p);
        if (first && (n != strlen(run->journal->settings) || memcmp(p, run->journal->settings, n))) {
            say("%s: an unfinished evaluation with other settings; delete it, or give another --report", path);
            code = EXIT_FAILED;
        }
        if (!first) take_line(run->set, run->opts->keep_texts, p, n);
        p = stop + 1;
        *whole = (size_t)(p - file.text);
    }
    buffer_free(&file);
    return code;
}

static int write_line(struct eval_journal *j, const char *text)
{
    size_t n = strlen(text);
    char *line = get_memory(n + 2);
    memcpy(line, text, n);
    line[n] = '\n';
    ssize_t done = write(j->fd, line, n + 1);
    free(line);
    if (done == (ssize_t)(n + 1) && fdatasync(j->fd) == 0) return 0;
    say("%s: %s", j->path, done < 0 ? strerror(errno) : "cannot be written");
    return EXIT_FAILED;
}

int eval_journal_open(struct eval_run *run)
{
    struct eval_journal *j = get_memory(sizeof *j);
    char path[PATH_BYTES];
    size_t whole = 0, own = 0;
    int code = 0;
    run->journal = j;
    j->fd = -1;
    j->settings = describe(run);
    for (int rank = 0; !code && j->settings && rank < RANKS_MAX; rank++) {
        name_file(path, run, rank);
        code = read_journal(run, path, &whole);
        if (rank == run->ranks.rank) own = whole;
    }
    ranks_wait(&run->ranks); /* nobody writes while another still reads */
    if (code) return code;
    name_file(j->path, run, run->ranks.rank);
    j->fd = open(j->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (j->fd < 0 || ftruncate(j->fd, (off_t)own) < 0 || lseek(j->fd, 0, SEEK_END) < 0) {
        say("%s: %s", j->path, strerror(errno));
        return EXIT_FAILED;
    }
    return own ? 0 : write_line(j, j->settings);
}

int eval_journal_add(struct eval_run *run, int source, int problem)
{
    json_t *root = outcome_json(run->set, source, problem);
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (!text) {
        say("problem %d: its outcome has no JSON form", problem);
        return EXIT_FAILED;
    }
    int code = write_line(run->journal, text);
    free(text);
    return code;
}

int eval_journal_merge(struct eval_run *run)
{
    char path[PATH_BYTES];
    size_t whole;
    int code = 0;
    for (int rank = 0; !code && rank < run->ranks.n; rank++) {
        name_file(path, run, rank);
        if (rank != run->ranks.rank) code = read_journal(run, path, &whole);
    }
    return code;
}

void eval_journal_close(struct eval_run *run, bool remove_files)
{
    struct eval_journal *j = run->journal;
    char path[PATH_BYTES];
    if (!j) return;
    if (j->fd >= 0) close(j->fd);
    for (int rank = 0; remove_files && rank < RANKS_MAX; rank++) {
        name_file(path, run, rank);
        unlink(path);
    }
    free(j->settings);
    free(j);
    run->journal = NULL;
}
