/* SPDX-License-Identifier: MIT
 *
 * A reward model as a role: its own session, one cached sequence per candidate, only new rows evaluated.
 */
#include "engine/search_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/encode.h"

struct lutra_verifier_settings lutra_verifier_settings_default(void)
{
    return (struct lutra_verifier_settings){
        .size = sizeof(struct lutra_verifier_settings), .n_seq = 16, .n_batch = 512};
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

static int open_all(lutra_verifier *v, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    float bias;
    if (!v->model->model) return lutra_fail(err, LUTRA_E_ARGUMENT, "the verifier was opened for its vocabulary only");
    v->value = model_value_head(v->model->model, &bias);
    v->bias = bias;
    if (!v->value || set->positive || set->negative) {
        if (!v->value && !set->positive && !set->negative && !weights_kv_find(v->model->weights, "lutra.prm.kind"))
            return lutra_fail(err, LUTRA_E_UNSUPPORTED,
                "%s is no reward model: it has neither 'cls.output' nor 'lutra.prm.kind', and no tokens were named",
                weights_path(v->model->weights));
        v->value = NULL;
        TRY(find_signs(v, set, err));
    }
    if (set->mark) TRY(text_encode(v->model->vocab, set->mark, strlen(set->mark), TEXT_PARSE_SPECIAL, &v->mark, err));
    if (set->n_seq < 1 || set->n_seq > 4095)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: n_seq is %d, outside 1..4095", set->n_seq);
    struct lutra_session_settings ss = lutra_session_settings_default();
    ss.n_ctx = set->n_ctx;
    ss.n_seq = set->n_seq + 1; /* the prompt's own */
    ss.n_batch = set->n_batch;
    TRY(lutra_session_open(&v->session, v->model, &ss, err));
    v->row = calloc((size_t)v->session->n_batch, sizeof *v->row);
    return v->row ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "verifier: out of memory");
}

int lutra_verifier_open(
    lutra_verifier **out, lutra_model *model, const struct lutra_verifier_settings *settings, struct lutra_error *err)
{
    struct lutra_verifier_settings set = lutra_verifier_settings_default();
    *out = NULL;
    TRY(settings_copy(&set, sizeof set, settings, "verifier", err));
    lutra_verifier *v = calloc(1, sizeof *v);
    if (!v) return lutra_fail(err, LUTRA_E_NO_MEMORY, "verifier: out of memory");
    v->model = model;
    int rc = open_all(v, &set, err);
    if (rc < 0) {
        lutra_verifier_close(&v);
        return rc;
    }
    *out = v;
    return 0;
}

void lutra_verifier_close(lutra_verifier **verifier)
{
    lutra_verifier *v = *verifier;
    if (!v) return;
    lutra_session_close(&v->session);
    text_tokens_fini(&v->mark);
    free(v->row);
    free(v);
    *verifier = NULL;
}

int verifier_check_vocab(const lutra_verifier *v, const lutra_model *generator, struct lutra_error *err)
{
    size_t a = text_vocab_n_tok(v->model->vocab), b = text_vocab_n_tok(generator->vocab), n = a < b ? a : b;
    for (size_t i = 0; i < n; i++) {
        struct text_bytes x = text_token_piece(v->model->vocab, (int32_t)i, TEXT_PIECE_SPECIAL);
        struct text_bytes y = text_token_piece(generator->vocab, (int32_t)i, TEXT_PIECE_SPECIAL);
        if (x.n != y.n || (x.n && memcmp(x.p, y.p, x.n)))
            return lutra_fail_at(err, LUTRA_E_UNSUPPORTED, i,
                "the verifier %s has another vocabulary than the generator (token %zu)",
                weights_path(v->model->weights), i);
    }
    return 0;
}

static double reward_of(const lutra_verifier *v, const struct lutra_row_result *r)
{
    double z = (double)v->bias;
    if (v->value) {
        int d = model_hparams(v->model->model)->d_model;
        for (int i = 0; i < d; i++) z += (double)v->value[i] * (double)r->hidden[i];
    } else {
        z = (double)r->logits[v->positive] - (double)r->logits[v->negative];
    }
    return 1 / (1 + exp(-z));
}

/* Token i of a job: the new tokens, then the mark. */
static int32_t job_token(const lutra_verifier *v, const struct verify_job *job, int i)
{
    return i < job->n ? job->token[i] : v->mark.ids[i - job->n];
}

int verifier_run(lutra_verifier *v, struct verify_job *job, int n_job, bool marked, struct lutra_error *err)
{
    uint32_t want = v->value ? LUTRA_WANT_HIDDEN : LUTRA_WANT_LOGITS;
    int n_mark = marked ? (int)v->mark.n : 0, first = 0, done = 0; /* done: tokens of job `first` evaluated */
    while (first < n_job) {
        int n = 0, n_want = 0, k = first, at = done;
        for (; k < n_job && n < v->session->n_batch && n_want < v->session->n_out; k++, at = 0) {
            int total = job[k].n + n_mark, from = n, length = lutra_seq_length(v->session, job[k].seq);
            for (; at < total && n < v->session->n_batch; at++, n++)
                v->row[n] = (struct lutra_row){job_token(v, &job[k], at), length + n - from, job[k].seq,
                    n == from ? -1 : n - 1, marked && at == total - 1 ? want : 0, 0};
            if (at < total) break;
            n_want += marked && total > 0;
        }
        if (n == 0) return 0;
        TRY(lutra_forward(v->session, v->row, n, err));
        v->rows += n;
        for (int i = 0, j = first; j < k && marked; j++)
            if (job[j].n + n_mark > 0) job[j].reward = reward_of(v, lutra_forward_result(v->session, i++));
        first = k;
        done = at;
    }
    return 0;
}

static int score_steps(lutra_verifier *v, int32_t seq, const int32_t *solution, const int *step_end, int n_step,
    double *reward, struct lutra_error *err)
{
    for (int i = 0; i < n_step; i++) {
        int from = i ? step_end[i - 1] : 0;
        struct verify_job job = {.seq = seq, .token = solution + from, .n = step_end[i] - from};
        TRY(verifier_run(v, &job, 1, true, err));
        reward[i] = job.reward;
    }
    return 0;
}

int lutra_verifier_score(lutra_verifier *v, const int32_t *prompt, int n_prompt, const int32_t *solution,
    const int *step_end, int n_step, double *reward, struct lutra_error *err)
{
    for (int i = 0; i < n_step; i++)
        if (step_end[i] <= (i ? step_end[i - 1] : 0))
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "verifier: step ends are not ascending");
    int32_t seq;
    TRY(lutra_seq_open(v->session, 0, &seq, err));
    struct verify_job job = {.seq = seq, .token = prompt, .n = n_prompt};
    int rc = verifier_run(v, &job, 1, false, err);
    if (rc == 0) rc = score_steps(v, seq, solution, step_end, n_step, reward, err);
    lutra_seq_close(v->session, seq);
    return rc;
}
