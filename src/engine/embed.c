/* SPDX-License-Identifier: MIT
 *
 * Texts as vectors: passes over many texts at once, and the pooling of what the last norm leaves of their tokens.
 *
 * A row's bits do not depend on the other rows of a pass, and a text's rows are added up in their order, in double: a
 * text's vector does not depend on the texts beside it.
 */
#include "engine/session_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct embed {
    lutra_session *s;
    const struct lutra_embed_text *text;
    int n_text;
    enum lutra_pooling pooling;
    int d_model;
    float *out;
    double *sum;           /* [d_model] of the text that is being added up */
    struct lutra_row *row; /* [n_batch] */
    int32_t *open;         /* [n_batch] sequences of this pass's texts, in order; the last may go on in the next */
    int n_open;
    int next, done; /* the first text that is not evaluated whole, and how many of its tokens are */
};

/* What the file says, where the caller leaves it open. */
static int choose(struct embed *e, enum lutra_pooling pooling, struct lutra_error *err)
{
    static const enum lutra_pooling of_file[] = {
        LUTRA_POOL_MODEL, LUTRA_POOL_MEAN, LUTRA_POOL_CLS, LUTRA_POOL_LAST, LUTRA_POOL_MODEL};
    int file = model_hparams(e->s->model->model)->pooling;
    e->pooling = pooling == LUTRA_POOL_MODEL ? of_file[file] : pooling;
    if (e->pooling > LUTRA_POOL_MODEL && e->pooling <= LUTRA_POOL_LAST) return 0;
    if (pooling != LUTRA_POOL_MODEL) return lutra_fail(err, LUTRA_E_ARGUMENT, "embed: there is no pooling %d", pooling);
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "embed: model '%s' %s: choose mean, cls or last", e->s->model->name,
        file == 4 ? "ranks texts" : "names no pooling");
}

static int check_texts(const struct embed *e, struct lutra_error *err)
{
    for (int i = 0; i < e->n_text; i++) {
        if (!e->text[i].token || e->text[i].n_token < 1)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "embed: text %d has no tokens", i);
        if (e->text[i].n_token > e->s->n_ctx)
            return lutra_fail_at(err, LUTRA_E_CTX_FULL, (uint64_t)i,
                "embed: text %d has %d tokens, which do not fit the context of %d", i, e->text[i].n_token, e->s->n_ctx);
    }
    return 0;
}

static bool wants(const struct embed *e, int n_token, int pos)
{
    if (e->pooling == LUTRA_POOL_MEAN) return true;
    return pos == (e->pooling == LUTRA_POOL_CLS ? 0 : n_token - 1);
}

/* As many rows as there is room for, from the first text that is not whole on. */
static int fill(struct embed *e, struct lutra_error *err)
{
    int n = 0, n_out = 0;
    for (int i = e->next, pos = e->done; i < e->n_text && n < e->s->n_batch; i++, pos = 0) {
        const struct lutra_embed_text *t = &e->text[i];
        if (pos == 0) {
            int rc = lutra_seq_open(e->s, t->n_token, &e->open[e->n_open], n ? NULL : err);
            if (rc < 0 && n == 0) return rc;
            if (rc < 0) break;
            e->n_open++;
        }
        for (int first = pos; pos < t->n_token && n < e->s->n_batch; pos++) {
            bool want = wants(e, t->n_token, pos);
            if (want && n_out == e->s->n_out) return n;
            n_out += want;
            e->row[n] = (struct lutra_row){
                t->token[pos], pos, e->open[e->n_open - 1], pos == first ? -1 : n - 1, want ? LUTRA_WANT_HIDDEN : 0, 0};
            n++;
        }
    }
    return n;
}

/* The sum as a vector of length 1, where it is not zero. */
static void finish(const struct embed *e, int text)
{
    double squares = 0;
    for (int d = 0; d < e->d_model; d++) squares += e->sum[d] * e->sum[d];
    double by = squares > 0 ? 1 / sqrt(squares) : 0;
    for (int d = 0; d < e->d_model; d++)
        e->out[(size_t)text * (size_t)e->d_model + (size_t)d] = (float)(e->sum[d] * by);
}

/* Takes the results of n rows in, and closes the sequences of texts that are whole. */
static void take(struct embed *e, int n)
{
    int result = 0, at = 0;
    for (int r = 0; r < n; r++) {
        const struct lutra_embed_text *t = &e->text[e->next];
        if (e->done++ == 0) memset(e->sum, 0, (size_t)e->d_model * sizeof *e->sum);
        if (e->row[r].want) {
            const float *x = lutra_forward_result(e->s, result++)->hidden;
            for (int d = 0; d < e->d_model; d++) e->sum[d] += (double)x[d];
        }
        if (e->done < t->n_token) continue;
        finish(e, e->next++);
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

int lutra_embed(lutra_session *s, const struct lutra_embed_text *text, int n_text, enum lutra_pooling pooling,
    float *out, struct lutra_error *err)
{
    struct embed e = {
        .s = s, .text = text, .n_text = n_text, .out = out, .d_model = model_ops(s->model->model)->d_model};
    TRY(choose(&e, pooling, err));
    TRY(check_texts(&e, err));
    e.sum = calloc((size_t)e.d_model, sizeof *e.sum);
    e.row = calloc((size_t)s->n_batch, sizeof *e.row);
    e.open = calloc((size_t)s->n_batch + 1, sizeof *e.open);
    int rc = e.sum && e.row && e.open ? run(&e, err) : lutra_fail(err, LUTRA_E_NO_MEMORY, "embed: out of memory");
    for (int i = 0; i < e.n_open; i++) lutra_seq_close(s, e.open[i]);
    free(e.sum);
    free(e.row);
    free(e.open);
    return rc;
}
