/* SPDX-License-Identifier: MIT
 *
 * Texts as vectors, and pairs of a query and a document as scores: passes over many texts at once, and the pooling of
 * what the last norm leaves of their tokens.
 *
 * A row's bits do not depend on the other rows of a pass but, in encoders, those of its own text, which are all there;
 * a text's rows are added up in their order, in double: a text's vector does not depend on the texts beside it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "engine/passes.h"

/* A text whose first n_first tokens are of segment 0. */
struct text {
    const int32_t *token; /* [n_token] */
    int n_token, n_first;
};

struct embed {
    lutra_session *s;
    struct session_sizes size;
    const lutra_model *model;
    const char *what;        /* the caller, for errors */
    const struct text *text; /* [n_text] */
    int n_text;
    enum lutra_pooling pooling;
    bool whole, ranks; /* the model is an encoder; a text becomes a score */
    bool segments;     /* the model tells the second of two texts from the first */
    int d_model;
    float *out;            /* [n_text] scores, or [n_text][d_model] */
    double *sum;           /* [d_model] of the text that is being added up */
    double *wide;          /* [n_mid], behind it [d_model]: floats that layers behind the pooling read */
    struct lutra_row *row; /* [n_batch] */
    int32_t *open;         /* [n_batch] sequences of this pass's texts, in order; the last may go on in the next */
    int n_open;
    int next, done; /* the first text that is not evaluated whole, and how many of its tokens are */
};

static int open_embed(struct embed *e, lutra_session *s, struct lutra_error *err)
{
    TRY(handle_check(s, "session", err));
    e->s = s;
    e->size = session_sizes(s);
    e->model = session_model(s);
    return 0;
}

/* What the file says, where the caller leaves it open. */
static int choose(struct embed *e, enum lutra_pooling pooling, struct lutra_error *err)
{
    static const enum lutra_pooling of_file[] = {
        LUTRA_POOL_MODEL, LUTRA_POOL_MEAN, LUTRA_POOL_CLS, LUTRA_POOL_LAST, LUTRA_POOL_MODEL};
    int file = model_hparams(e->model->model)->pooling;
    e->pooling = pooling == LUTRA_POOL_MODEL ? of_file[file] : pooling;
    if (e->pooling > LUTRA_POOL_MODEL && e->pooling <= LUTRA_POOL_LAST) return 0;
    if (pooling != LUTRA_POOL_MODEL) return lutra_fail(err, LUTRA_E_ARGUMENT, "embed: there is no pooling %d", pooling);
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "embed: model '%s' %s: choose mean, cls or last", e->model->name,
        file == POOLING_RANK ? "ranks texts" : "names no pooling");
}

/* The longest text: the context, or a pass where texts are evaluated whole. */
static int longest(const struct embed *e)
{
    int most = e->size.n_ctx;
    if (e->whole && e->size.n_batch < most) most = e->size.n_batch;
    if (e->whole && e->pooling == LUTRA_POOL_MEAN && e->size.n_out < most) most = e->size.n_out;
    return most;
}

static int check_texts(const struct embed *e, struct lutra_error *err)
{
    int most = longest(e);
    for (int i = 0; i < e->n_text; i++) {
        const struct text *t = &e->text[i];
        if (!t->token || t->n_token < 1)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "%s: text %d has no tokens", e->what, i);
        if (t->n_first < 0 || t->n_first > t->n_token)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "%s: text %d: %d of %d tokens are the first's",
                e->what, i, t->n_first, t->n_token);
        if (t->n_token > most)
            return lutra_fail_at(err, LUTRA_E_CTX_FULL, (uint64_t)i,
                "%s: text %d has %d tokens, which do not fit the context of %d", e->what, i, t->n_token, most);
    }
    return 0;
}

static bool wants(const struct embed *e, int n_token, int pos)
{
    if (e->pooling == LUTRA_POOL_MEAN) return true;
    return pos == (e->pooling == LUTRA_POOL_CLS ? 0 : n_token - 1);
}

/* Whether there is room for all of a text, where it may not be cut. */
static bool fits(const struct embed *e, const struct text *t, int n, int n_out)
{
    int more_out = e->pooling == LUTRA_POOL_MEAN ? t->n_token : 1;
    return !e->whole || (t->n_token <= e->size.n_batch - n && more_out <= e->size.n_out - n_out);
}

/* As many rows as there is room for, from the first text that is not whole on. */
static int fill(struct embed *e, struct lutra_error *err)
{
    int n = 0, n_out = 0;
    for (int i = e->next, pos = e->done; i < e->n_text && n < e->size.n_batch; i++, pos = 0) {
        const struct text *t = &e->text[i];
        if (!fits(e, t, n, n_out)) break;
        if (pos == 0) {
            int rc = lutra_seq_open(e->s, t->n_token, &e->open[e->n_open], n ? NULL : err);
            if (rc < 0 && n == 0) return rc;
            if (rc < 0) break;
            e->n_open++;
        }
        for (int first = pos; pos < t->n_token && n < e->size.n_batch; pos++) {
            bool want = wants(e, t->n_token, pos);
            if (want && n_out == e->size.n_out) return n;
            n_out += want;
            uint32_t flags = want ? (uint32_t)LUTRA_WANT_HIDDEN : 0;
            if (pos >= t->n_first && e->segments) flags |= LUTRA_ROW_SECOND;
            e->row[n] =
                (struct lutra_row){t->token[pos], pos, e->open[e->n_open - 1], pos == first ? -1 : n - 1, flags, 0};
            n++;
        }
    }
    return n;
}

/* sum + w[row] x of a matrix w[][n_in]. */
static double dot(const float *w, int row, const double *x, int n_in, double sum)
{
    w += (size_t)row * (size_t)n_in;
    for (int i = 0; i < n_in; i++) sum += (double)w[i] * x[i];
    return sum;
}

static double bias_of(const float *bias, int i)
{
    return bias ? (double)bias[i] : 0;
}

/* The dense layers behind the mean; the length of what they read changes that of what they give alone. */
static void apply_dense(const struct embed *e)
{
    const struct model_dense *dense = model_dense(e->model->model);
    double *x = e->wide + dense->n_mid;
    if (!dense->n_mid || e->pooling != LUTRA_POOL_MEAN) return;
    for (int d = 0; d < e->d_model; d++) x[d] = (float)e->sum[d];
    for (int i = 0; i < dense->n_mid; i++) e->wide[i] = (float)dot(dense->up, i, x, e->d_model, 0);
    for (int d = 0; d < e->d_model; d++) e->sum[d] = (float)dot(dense->down, d, e->wide, dense->n_mid, 0);
}

/* The sum as a vector of length 1, where it is not zero. */
static void finish(const struct embed *e, int text)
{
    double squares = 0;
    apply_dense(e);
    for (int d = 0; d < e->d_model; d++) squares += e->sum[d] * e->sum[d];
    double by = squares > 0 ? 1 / sqrt(squares) : 0;
    for (int d = 0; d < e->d_model; d++)
        e->out[(size_t)text * (size_t)e->d_model + (size_t)d] = (float)(e->sum[d] * by);
}

/* What the head says of the state in `sum`: its one class, or the probability of the first of two. */
static void score(const struct embed *e, int text)
{
    const struct model_value_head *head = model_value_head(e->model->model);
    double said[2] = {0};
    int n = e->d_model;
    for (int d = 0; d < n; d++) e->wide[d] = (float)e->sum[d];
    for (int d = 0; head->dense && d < n; d++)
        e->sum[d] = tanh(dot(head->dense, d, e->wide, n, bias_of(head->dense_bias, d)));
    for (int c = 0; c < head->n_class; c++) said[c] = dot(head->weight, c, e->sum, n, bias_of(head->bias, c));
    e->out[text] = (float)(head->n_class == 2 ? 1 / (1 + exp(said[1] - said[0])) : said[0]);
}

/* Takes the results of n rows in, and closes the sequences of texts that are whole. */
static void take(struct embed *e, int n)
{
    int result = 0, at = 0;
    for (int r = 0; r < n; r++) {
        const struct text *t = &e->text[e->next];
        if (e->done++ == 0) memset(e->sum, 0, (size_t)e->d_model * sizeof *e->sum);
        if (e->row[r].want & LUTRA_WANT_HIDDEN) {
            const float *x = lutra_forward_result(e->s, result++)->hidden;
            for (int d = 0; d < e->d_model; d++) e->sum[d] += (double)x[d];
        }
        if (e->done < t->n_token) continue;
        (e->ranks ? score : finish)(e, e->next++);
        lutra_seq_close(e->s, e->open[at++]);
        e->done = 0;
    }
    for (int i = at; i < e->n_open; i++) { /* opened, and no row of it fitted in: but for one that goes on */
        if (i == at && e->done > 0)
            e->open[0] = e->open[i];
        else
            lutra_seq_close(e->s, e->open[i]);
    }
    e->n_open = e->done > 0;
}

static int run(struct embed *e, struct lutra_error *err)
{
    while (e->next < e->n_text) {
        int n = fill(e, err);
        if (n < 0) return n;
        TRY(lutra_forward(e->s, e->row, n, sizeof *e->row, err));
        take(e, n);
    }
    return 0;
}

/* With e->text, what and pooling set. */
static int evaluate(struct embed *e, struct lutra_error *err)
{
    const struct model *model = e->model->model;
    size_t n_batch = (size_t)e->size.n_batch;
    e->whole = model_ops(model)->whole;
    e->segments = model_ops(model)->n_segment == 2;
    e->d_model = model_ops(model)->d_model;
    TRY(check_texts(e, err));
    e->sum = calloc((size_t)e->d_model, sizeof *e->sum);
    e->wide = calloc((size_t)model_dense(model)->n_mid + (size_t)e->d_model, sizeof *e->wide);
    e->row = calloc(n_batch, sizeof *e->row);
    e->open = calloc(n_batch + 1, sizeof *e->open);
    int rc = e->sum && e->wide && e->row && e->open ? run(e, err)
                                                    : lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", e->what);
    for (int i = 0; i < e->n_open; i++) lutra_seq_close(e->s, e->open[i]);
    free(e->sum);
    free(e->wide);
    free(e->row);
    free(e->open);
    return rc;
}

int lutra_embed(lutra_session *s, const struct lutra_embed_text *text, int n_text, enum lutra_pooling pooling,
    float *out, struct lutra_error *err)
{
    struct embed e = {.what = "embed", .n_text = n_text, .out = out};
    TRY(open_embed(&e, s, err));
    TRY(choose(&e, pooling, err));
    struct text *list = calloc((size_t)(n_text > 0 ? n_text : 1), sizeof *list);
    if (!list) return lutra_fail(err, LUTRA_E_NO_MEMORY, "embed: out of memory");
    for (int i = 0; i < n_text; i++) list[i] = (struct text){text[i].token, text[i].n_token, text[i].n_token};
    e.text = list;
    int rc = evaluate(&e, err);
    free(list);
    return rc;
}

static const struct element_kind pair_kind = {
    "rerank: pair", offsetof(struct lutra_rerank_pair, n_first) + sizeof(int), sizeof(struct lutra_rerank_pair)};

int lutra_rerank(lutra_session *s, const struct lutra_rerank_pair *pair, int n_pair, size_t pair_size, float *out,
    struct lutra_error *err)
{
    struct embed e = {.what = "rerank", .n_text = n_pair, .ranks = true, .out = out};
    int rc = 0;
    TRY(open_embed(&e, s, err));
    if (!model_ranks(e.model))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "rerank: model '%s' has no head that ranks", e.model->name);
    e.pooling = model_ops(e.model->model)->whole ? LUTRA_POOL_CLS : LUTRA_POOL_LAST;
    struct text *list = calloc((size_t)(n_pair > 0 ? n_pair : 1), sizeof *list);
    if (!list) return lutra_fail(err, LUTRA_E_NO_MEMORY, "rerank: out of memory");
    for (int i = 0; i < n_pair && rc == 0; i++) {
        struct lutra_rerank_pair p;
        rc = element_copy(&pair_kind, &p, pair, i, pair_size, err);
        if (rc == 0) list[i] = (struct text){p.token, p.n_token, p.n_first};
    }
    e.text = list;
    if (rc == 0) rc = evaluate(&e, err);
    free(list);
    return rc;
}
