/* SPDX-License-Identifier: MIT
 *
 * A reward model as a role: its own session, one cached sequence per candidate, only new rows evaluated.
 *
 * The likelihood kind is one token behind: a token's log-probability is read at the row of the token before it, so the
 * last token of a sequence is evaluated with the step that follows, when its target is known.  No row is ever evaluated
 * twice for want of a target, and a solution's last token never.
 */
#include "search/search_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/checker.h"
#include "search/json_schema.h"
#include "text/encode.h"

enum { OUT_BYTES = 64 << 20 };

void lutra_verifier_settings_init(struct lutra_verifier_settings *settings, size_t size)
{
    struct lutra_verifier_settings d = {.size = sizeof d,
        .n_seq = 16,
        .n_batch = 512,
        .timeout_us = 5000000,
        .memory_bytes = (int64_t)4 << 30,
        .restarts = 10000};
    settings_fill(settings, size, &d);
}

/* The single token of a text. */
static int one_token(
    const struct lutra_model *m, const char *what, const char *text, int32_t *token, struct lutra_error *err)
{
    *token = text_token_find(m->vocab, text, strlen(text));
    if (*token >= 0) return 0;
    return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: the verifier's %s token '%.40s' is not in its vocabulary",
        weights_path(m->weights), what, text);
}

/* Positive and negative token: the caller's, the file's, or + and -. */
static int find_signs(lutra_verifier *v, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    uint32_t id = 0;
    const struct weights *w = v->model->weights;
    const struct {
        const char *what, *key, *caller, *fallback;
        int32_t *token;
    } sign[] = {{"positive", "lutra.prm.positive", set->positive, "+", &v->positive},
        {"negative", "lutra.prm.negative", set->negative, "-", &v->negative}};
    for (int i = 0; i < 2; i++) {
        if (sign[i].caller || !weights_kv_find(w, sign[i].key)) {
            TRY(one_token(
                v->model, sign[i].what, sign[i].caller ? sign[i].caller : sign[i].fallback, sign[i].token, err));
            continue;
        }
        TRY(weights_get_u32(w, sign[i].key, &id, err));
        if (id >= text_vocab_n_tok(v->model->vocab))
            return lutra_fail(
                err, LUTRA_E_FORMAT, "%s: key '%s' is %u, outside the vocabulary", weights_path(w), sign[i].key, id);
        *sign[i].token = (int32_t)id;
    }
    return 0;
}

static const char *const kind_names[] = {
    [VERIFIER_VALUE] = "value", [VERIFIER_TOKEN] = "token", [VERIFIER_LIKELIHOOD] = "likelihood"};
enum { N_KIND = sizeof kind_names / sizeof *kind_names };

static int kind_of(const char *name, size_t n)
{
    for (int i = 0; i < N_KIND; i++)
        if (strlen(kind_names[i]) == n && !memcmp(kind_names[i], name, n)) return i;
    return -1;
}

/* The caller's kind; else token if the caller names tokens; else the file's; else what its tensors say. */
static int find_kind(
    lutra_verifier *v, const char *name, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    const struct weights *w = v->model->weights;
    struct gguf_str in_file = {NULL, 0};
    TRY(weights_opt_str(w, "lutra.prm.kind", &in_file, err));
    int kind = -1, code = LUTRA_E_ARGUMENT;
    if (name) {
        in_file = (struct gguf_str){name, strlen(name)};
        kind = kind_of(in_file.s, in_file.n);
    } else if (set->positive || set->negative) {
        kind = VERIFIER_TOKEN;
    } else if (in_file.s) {
        kind = kind_of(in_file.s, in_file.n);
        code = LUTRA_E_UNSUPPORTED;
    } else if (v->value->n_class) {
        kind = VERIFIER_VALUE;
    } else {
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "%s is no reward model: it has neither 'cls.output' nor 'lutra.prm.kind', and no kind or tokens were named",
            weights_path(w));
    }
    if (kind < 0)
        return lutra_fail(err, code,
            "%s: a verifier of kind '%.*s' is not known (value, token and likelihood are models, function and program "
            "are "
            "not)",
            weights_path(w), in_file.n < 40 ? (int)in_file.n : 40, in_file.s);
    v->kind = (enum verifier_kind)kind;
    if (v->kind == VERIFIER_VALUE && !v->value->n_class)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: kind 'value', but no tensor 'cls.output'", weights_path(w));
    if (v->kind != VERIFIER_TOKEN && (set->positive || set->negative))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: the %s kind has no use for tokens", kind_names[v->kind]);
    if (v->kind == VERIFIER_LIKELIHOOD && set->mark)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: the likelihood kind judges every token and needs no mark");
    return v->kind == VERIFIER_TOKEN ? find_signs(v, set, err) : 0;
}

/* Rows of a pass that may want a result: as many as there are, while their logits stay within OUT_BYTES. */
static int rows_out(const lutra_verifier *v, const struct lutra_verifier_settings *set)
{
    int64_t fit = OUT_BYTES / ((int64_t)sizeof(float) * model_ops(v->model->model)->n_vocab);
    if (v->kind != VERIFIER_LIKELIHOOD) return 0;
    fit = fit < 64 ? 64 : fit;
    return fit < set->n_batch ? (int)fit : set->n_batch;
}

/* The caller's mark, or the file's. */
static int find_mark(lutra_verifier *v, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    const char *mark = set->mark;
    if (!mark && v->kind != VERIFIER_LIKELIHOOD) {
        mark = v->model->step_mark;
        if (mark[0] && text_token_find(v->model->vocab, mark, strlen(mark)) < 0)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s: its mark behind steps, '%s', is not in its vocabulary",
                weights_path(v->model->weights), mark);
    }
    return mark && mark[0] ? text_encode(v->model->vocab, mark, strlen(mark), TEXT_PARSE_SPECIAL, &v->mark, err) : 0;
}

/* Kind, head, mark and sizes. */
static int find_judge(
    lutra_verifier *v, const char *kind, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    if (!v->model->model) return lutra_fail(err, LUTRA_E_ARGUMENT, "the verifier was opened for its vocabulary only");
    if (model_ops(v->model->model)->whole)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s is an encoder, which cannot judge a text that grows",
            weights_path(v->model->weights));
    v->value = model_value_head(v->model->model);
    TRY(find_kind(v, kind, set, err));
    TRY(find_mark(v, set, err));
    if (v->value->dense) {
        v->dense = calloc((size_t)model_hparams(v->model->model)->d_model, sizeof *v->dense);
        if (!v->dense) return lutra_fail(err, LUTRA_E_NO_MEMORY, "verifier: out of memory");
    }
    if (set->n_ctx < 0 || set->n_ctx > 1 << 24)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: n_ctx is %d, outside 0..%d", set->n_ctx, 1 << 24);
    if (set->n_seq < 0 || set->n_seq > 4095)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: n_seq is %d, outside 0..4095", set->n_seq);
    if (set->n_seq == 0 && v->kind != VERIFIER_LIKELIHOOD)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "verifier: the %s kind reads the row of a step's last token, which a generator evaluates only with the "
            "next "
            "step: it needs a cache of its own (n_seq)",
            kind_names[v->kind]);
    return 0;
}

/* Its own session, and what searches that use it share. */
static int open_session(lutra_verifier *v, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = (set->n_ctx + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK; /* whole blocks: searches reserve them */
    ss.n_seq = set->n_seq + 1;                                    /* the prompt's own */
    ss.n_batch = set->n_batch;
    ss.n_out = rows_out(v, set);
    TRY(lutra_session_open(&v->session, v->model, &ss, err));
    size_t n_batch = (size_t)session_sizes(v->session).n_batch;
    v->free_seq = set->n_seq;
    v->free_block = session_sizes(v->session).n_cache / KV_BLOCK;
    v->row = calloc(n_batch, sizeof *v->row);
    v->job = calloc(n_batch, sizeof *v->job);
    v->step = calloc(n_batch, sizeof *v->step);
    return v->row && v->job && v->step ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "verifier: out of memory");
}

static int open_model(
    lutra_verifier **out, const char *kind, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    TRY(handle_check(set->model, "model", err));
    lutra_verifier *v = calloc(1, sizeof *v);
    if (!v) return lutra_fail(err, LUTRA_E_NO_MEMORY, "verifier: out of memory");
    v->model = set->model;
    atomic_fetch_add(&v->model->n_user, 1);
    int rc = find_judge(v, kind, set, err);
    if (rc == 0 && set->n_seq > 0) rc = open_session(v, set, err);
    if (rc < 0) {
        lutra_verifier_close(&v);
        return rc;
    }
    *out = v;
    return 0;
}

int lutra_verifier_open(
    lutra_verifier **out, const char *kind, const struct lutra_verifier_settings *settings, struct lutra_error *err)
{
    struct lutra_verifier_settings set;
    lutra_verifier_settings_init(&set, sizeof set);
    *out = NULL;
    TRY(settings_copy(&set, sizeof set, settings, "verifier", err));
    if (kind && !strcmp(kind, "function")) return verifier_open_function(out, set.check, set.check_user, err);
    if (kind && !strcmp(kind, "program")) return verifier_open_program(out, &set, err);
    return open_model(out, kind, &set, err);
}

void lutra_verifier_close(lutra_verifier **verifier)
{
    lutra_verifier *v = verifier ? *verifier : NULL;
    if (!v) return;
    lutra_session_close(&v->session);
    if (v->model) atomic_fetch_sub(&v->model->n_user, 1);
    asker_close(&v->asker);
    checker_close(&v->program);
    json_schema_close(&v->schema);
    text_tokens_fini(&v->mark);
    free(v->row);
    free(v->job);
    free(v->step);
    free(v->dense);
    free(v);
    *verifier = NULL;
}

int verifier_check_vocab(const lutra_verifier *v, const lutra_model *generator, struct lutra_error *err)
{
    int32_t differs, mark = v->mark.n == 1 ? v->mark.ids[0] : -1; /* which the verifier alone writes */
    text_vocab_common(v->model->vocab, generator->vocab, mark, &differs);
    if (differs < 0) return 0;
    return lutra_fail_at(err, LUTRA_E_UNSUPPORTED, (uint64_t)differs,
        "the verifier %s has another vocabulary than the generator (token %d)", weights_path(v->model->weights),
        differs);
}

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

/* The value head: the sigmoid of its one class, or the softmax of the second of two. */
static double value_of(const lutra_verifier *v, const float *hidden)
{
    const struct model_value_head *head = v->value;
    size_t d = (size_t)model_hparams(v->model->model)->d_model;
    double z[2] = {0, 0};
    for (size_t k = 0; head->dense && k < d; k++) {
        double sum = head->dense_bias ? (double)head->dense_bias[k] : 0;
        for (size_t i = 0; i < d; i++) sum += (double)head->dense[k * d + i] * (double)hidden[i];
        v->dense[k] = sum < 0 ? 0 : sum; /* a NaN stays one, and is reported */
    }
    for (int c = 0; c < head->n_class; c++) {
        const float *w = head->weight + (size_t)c * d;
        z[c] = head->bias ? (double)head->bias[c] : 0;
        for (size_t i = 0; i < d; i++) z[c] += (double)w[i] * (head->dense ? v->dense[i] : (double)hidden[i]);
    }
    return sigmoid(head->n_class == 2 ? z[1] - z[0] : z[0]);
}

/* What a wanted row adds to its job. */
static void take_result(const lutra_verifier *v, struct verify_job *job, const struct lutra_row_result *r)
{
    switch (v->kind) {
    case VERIFIER_VALUE: job->reward = value_of(v, r->hidden); break;
    case VERIFIER_TOKEN: job->reward = sigmoid((double)r->logits[v->positive] - (double)r->logits[v->negative]); break;
    case VERIFIER_LIKELIHOOD:
        job->log_prob += (double)r->target_logit - (double)r->log_sum_exp;
        job->reward = search_likelihood(job->log_prob);
        break;
    case VERIFIER_CHECK: break; /* has no rows */
    }
}

/* A value head of NaN makes rewards of it from hidden states that are numbers. */
static int check_rewards(
    const lutra_verifier *v, const struct verify_job *job, int from, int to, struct lutra_error *err)
{
    for (int k = from; k <= to; k++)
        if (!isfinite(job[k].reward))
            return lutra_fail(err, LUTRA_E_INTERNAL, "verifier %s: the reward at position %d is not a number",
                weights_path(v->model->weights), lutra_seq_length(v->session, job[k].seq) - 1);
    return 0;
}

/* ---- passes ---- */

/* A row of a list of jobs. */
struct place {
    int job, row;
};

static bool lags(const lutra_verifier *v)
{
    return v->kind == VERIFIER_LIKELIHOOD;
}

int verifier_rows(const lutra_verifier *v, int n)
{
    return n + (int)v->mark.n;
}

static bool wanted(const lutra_verifier *v, int row, int n_row)
{
    return lags(v) || row == n_row - 1;
}

/* Row i of a job: its tokens and the mark; or the token before and all but its last. */
static struct lutra_row job_row(const lutra_verifier *v, const struct verify_job *job, int i)
{
    static const uint32_t want[] = {[VERIFIER_VALUE] = LUTRA_WANT_HIDDEN,
        [VERIFIER_TOKEN] = LUTRA_WANT_LOGITS,
        [VERIFIER_LIKELIHOOD] = LUTRA_WANT_LOGPROB};
    struct lutra_row row = {.seq = job->seq, .want = want[v->kind]};
    if (lags(v)) {
        row.token = i ? job->token[i - 1] : job->before;
        row.target = job->token[i];
    } else {
        row.token = i < job->n ? job->token[i] : v->mark.ids[i - job->n];
    }
    return row;
}

/* Fills a pass with rows from *at on, which moves behind them; returns how many. */
static int pack(lutra_verifier *v, const struct verify_job *job, int n_job, struct place *at)
{
    int n = 0, n_want = 0, first = 0; /* first: of the current sequence's rows */
    for (; at->job < n_job; at->job++, at->row = 0) {
        const struct verify_job *j = &job[at->job];
        int n_row = verifier_rows(v, j->n), length = lutra_seq_length(v->session, j->seq);
        if (n == 0 || v->row[n - 1].seq != j->seq) first = n;
        for (; at->row < n_row; at->row++) {
            bool want = wanted(v, at->row, n_row);
            if (n == session_sizes(v->session).n_batch || (want && n_want == session_sizes(v->session).n_out)) return n;
            struct lutra_row row = job_row(v, j, at->row);
            row.pos = length + n - first;
            row.parent = n == first ? -1 : n - 1;
            if (!want) row.want = 0;
            v->row[n++] = row;
            n_want += want;
        }
    }
    return n;
}

static void take_results(const lutra_verifier *v, struct verify_job *job, struct place from, struct place to)
{
    for (int k = from.job, i = 0; k <= to.job; k++) {
        int n_row = k < to.job || to.row ? verifier_rows(v, job[k].n) : 0, end = k < to.job ? n_row : to.row;
        for (int r = k == from.job ? from.row : 0; r < end; r++)
            if (wanted(v, r, n_row)) take_result(v, &job[k], lutra_forward_result(v->session, i++));
    }
}

int verifier_run(lutra_verifier *v, struct verify_job *job, int n_job, struct lutra_error *err)
{
    struct place from = {0, 0};
    for (int i = 0; i < n_job; i++) job[i].log_prob = job[i].reward = 0;
    while (from.job < n_job) {
        struct place to = from;
        int n = pack(v, job, n_job, &to);
        TRY(lutra_forward(v->session, v->row, n, sizeof *v->row, err));
        take_results(v, job, from, to);
        TRY(check_rewards(v, job, from.job, to.job < n_job ? to.job : n_job - 1, err));
        from = to;
    }
    return 0;
}

int verifier_prompt(
    lutra_verifier *v, int32_t seq, const int32_t *prompt, int n_prompt, int64_t *rows, struct lutra_error *err)
{
    int n_tok = n_prompt - lags(v);
    for (int t = 0; t < n_tok;) {
        int n = 0, fit = batch_fit(session_sizes(v->session).bulk, t, n_tok - t, session_sizes(v->session).n_batch);
        for (; n < fit; t++, n++) v->row[n] = (struct lutra_row){prompt[t], t, seq, n - 1, LUTRA_ROW_BULK, 0};
        TRY(lutra_forward(v->session, v->row, n, sizeof *v->row, err));
        *rows += n;
    }
    return 0;
}

static int score_steps(lutra_verifier *v, struct verify_job job, const int32_t *solution, const int *step_end,
    int n_step, double *reward, struct lutra_error *err)
{
    for (int i = 0; i < n_step; i++) {
        int from = i ? step_end[i - 1] : 0;
        job.token = solution + from;
        job.n = step_end[i] - from;
        TRY(verifier_run(v, &job, 1, err));
        reward[i] = job.reward;
        job.before = solution[step_end[i] - 1];
    }
    return 0;
}

int lutra_verifier_score(lutra_verifier *v, const int32_t *prompt, int n_prompt, const int32_t *solution,
    const int *step_end, int n_step, double *reward, struct lutra_error *err)
{
    TRY(handle_check(v, "verifier", err));
    if (n_prompt < 1) return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: the prompt is empty");
    for (int i = 0; i < n_step; i++)
        if (step_end[i] <= (i ? step_end[i - 1] : 0))
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "verifier: step ends are not ascending");
    if (v->kind == VERIFIER_CHECK)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: a checker judges text (lutra_verifier_check)");
    if (!v->session)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: opened with n_seq = 0, it has no rows of its own");
    struct verify_job job = {.before = prompt[n_prompt - 1]};
    int64_t rows = 0;
    TRY(lutra_seq_open(v->session, 0, &job.seq, err));
    int rc = verifier_prompt(v, job.seq, prompt, n_prompt, &rows, err);
    if (rc == 0) rc = score_steps(v, job, solution, step_end, n_step, reward, err);
    lutra_seq_close(v->session, job.seq);
    return rc;
}
