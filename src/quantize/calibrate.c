/* SPDX-License-Identifier: MIT */
#include "quantize/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "quantize/checkpoint.h"
#include "quantize/observe.h"
#include "quantize/rounding.h"
#include "quantize/mix.h"

struct matrix {
    const struct tensor *t;
    enum quant_type type;
    bool rounded; /* false: not reached, or stays as it is */
};

struct calibration {
    const struct lutra_quantize_settings *set;
    lutra_model *model;
    lutra_session *s;
    const struct quant_group *group; /* NULL: blocks of GGUF's types */
    struct matrix *matrix;           /* [n_matrix] in the file's order */
    size_t n_matrix;
    double *h; /* [n_in][n_in] of the matmul whose inputs are coming, upper triangle */
    int n_done, n_matmul;
    struct checkpoint *checkpoint; /* finished matrices, in a file */
    uint8_t *held[OP_WEIGHTS];     /* [n_held] those that the model computes with now */
    int n_held;
    void *ready; /* the one that is being written */
};

static int no_memory(struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "calibrate: out of memory");
}

static void tell(const struct calibration *c, enum lutra_log_level level, const char *name, const char *what)
{
    char line[256];
    snprintf(line, sizeof line, "%s: %s", name, what);
    if (c->set->log) c->set->log(c->set->log_user, level, line);
}

static struct matrix *matrix_of(const struct calibration *c, const struct weight *w, size_t *first_row)
{
    const struct tensor *t = observe_tensor(c->model, w, first_row);
    for (size_t i = 0; i < c->n_matrix; i++)
        if (c->matrix[i].t == t) return &c->matrix[i];
    return NULL;
}

static bool changes(const struct calibration *c, const struct weight *w)
{
    size_t row;
    const struct matrix *m = matrix_of(c, w, &row);
    return m && m->type != w->tensor.type;
}

/* Its inputs are needed: it will be rounded, and no killed run has done so. */
static bool is_open(const struct calibration *c, const struct weight *w)
{
    size_t row;
    const struct matrix *m = matrix_of(c, w, &row);
    return changes(c, w) && !checkpoint_has(c->checkpoint, (uint64_t)(m - c->matrix), row);
}

/* ---- inputs ---- */

static int add_inputs(void *user, const struct op *op, const float *x, int n_row, struct lutra_error *err)
{
    struct calibration *c = user;
    int n_in = (int)op->weight[0]->tensor.ne[0];
    bool wanted = false;
    for (int k = 0; k < op->n_weight; k++) wanted |= is_open(c, op->weight[k]);
    if (!wanted) return 0;
    if (!c->h) c->h = calloc((size_t)n_in * (size_t)n_in, sizeof *c->h);
    if (!c->h) return no_memory(err);
    const struct quant_parallel on = {pool_each, c->model->runtime->devices.pool};
    quant_gram(c->h, (size_t)n_in, NULL, x, (size_t)n_in, (size_t)n_in, (size_t)n_row, 1, &on);
    return 0;
}

/* ---- rounding ---- */

/* gptq->a is NULL: no GPTQ, gptq->weight remains to be used. */
static int by_importance(
    struct calibration *c, struct quant_gptq *g, const char *name, const char *why, int n_in, struct lutra_error *err)
{
    tell(c, LUTRA_LOG_WARN, name, why);
    g->weight = malloc((size_t)n_in * sizeof *g->weight);
    if (!g->weight) return no_memory(err);
    quant_gptq_weight(c->h, n_in, 0.01, g->weight);
    return 0;
}

/* Damping 1 %, and ten times as much up to three times; then by importance. */
static int open_gptq(
    struct calibration *c, struct quant_gptq *g, const char *name, int block, int n_in, struct lutra_error *err)
{
    int rc = LUTRA_E_ARGUMENT;
    double damp = 0.01;
    const struct quant_parallel on = {pool_each, c->model->runtime->devices.pool};
    for (int i = 0; i < 4 && rc == LUTRA_E_ARGUMENT; i++, damp *= 10)
        rc = quant_gptq_open(g, block, c->h, n_in, damp, &on, err);
    if (rc != LUTRA_E_ARGUMENT) return rc;
    return by_importance(
        c, g, name, "its inputs' covariance is singular: rounded by their importance alone", n_in, err);
}

/* Plainly where nothing is known of its inputs (c->h is NULL). */
static int compute(struct calibration *c, struct rounding *r, const char *name, struct lutra_error *err)
{
    struct quant_gptq g = {0};
    int n_in = (int)r->t->ne[0];
    if (c->group) {
        r->group = *c->group;
        if (r->group.size < 0) r->group.size = n_in;
        if (!c->h) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "tensor '%s': no text was run through it", name);
    }
    if (c->h && (c->group || quant_has_weighted(r->type))) {
        if (c->group || quant_has_gptq(r->type))
            TRY(open_gptq(c, &g, name, c->group ? r->group.size : quant_gptq_block(r->type), n_in, err));
        else
            TRY(by_importance(
                c, &g, name, "errors in codebooks are not handed on: rounded by importance alone", n_in, err));
        r->gptq = g.a ? &g : NULL;
        r->weight = g.weight;
    }
    weights_fetch(c->model->weights, r->t);
    int rc = rounding_run(c->model->runtime->devices.pool, r, err);
    weights_drop_pages(c->model->weights, r->t);
    quant_gptq_close(&g);
    return rc;
}

/* A killed run may have done it. */
static int round_weight(struct calibration *c, struct weight *w, struct lutra_error *err)
{
    size_t first;
    struct matrix *m = matrix_of(c, w, &first);
    uint64_t tensor = (uint64_t)(m - c->matrix);
    struct tensor to = w->tensor;
    to.type = m->type;
    to.bytes = (size_t)to.ne[1] * rounding_row_bytes(&to, m->type);
    struct rounding r = {
        .path = weights_path(c->model->weights), .t = &w->tensor, .type = m->type, .out = malloc(to.bytes)};
    if (!r.out) return no_memory(err);
    to.data = c->held[c->n_held++] = r.out;
    if (!checkpoint_read(c->checkpoint, tensor, first, r.out, to.bytes)) {
        TRY(compute(c, &r, m->t->name, err));
        TRY(checkpoint_add(c->checkpoint, tensor, first, r.out, to.bytes, err));
    }
    m->rounded = true;
    return observe_exchange(c->s, w, &to, err);
}

static void drop_held(struct calibration *c)
{
    while (c->n_held > 0) free(c->held[--c->n_held]);
}

/* The operations before it are over. */
static int round_op(void *user, const struct op *op, struct lutra_error *err)
{
    struct calibration *c = user;
    int rc = 0;
    drop_held(c);
    for (int k = 0; k < op->n_weight && rc == 0; k++)
        if (changes(c, op->weight[k])) rc = round_weight(c, op->weight[k], err);
    free(c->h);
    c->h = NULL;
    TRY(rc);
    c->n_done++;
    const struct lutra_quantize_settings *set = c->set;
    if (set->progress && set->progress(set->progress_user, "calibrating", (uint64_t)c->n_done, (uint64_t)c->n_matmul))
        return lutra_fail(err, LUTRA_E_CANCELLED, "calibrate: cancelled");
    return 0;
}

/* ---- all of it ---- */

static int choose_types(struct calibration *c, const struct weights_quantize_settings *q, struct lutra_error *err)
{
    const struct weights *w = c->model->weights;
    c->n_matrix = weights_tensor_count(w);
    c->matrix = calloc(c->n_matrix + 1, sizeof *c->matrix);
    struct weights_choice *choice = calloc(c->n_matrix + 1, sizeof *choice);
    int rc = c->matrix && choice ? weights_mix_choose(w, q, choice, err) : no_memory(err);
    for (size_t i = 0; i < c->n_matrix && rc == 0; i++)
        c->matrix[i] = (struct matrix){.t = weights_tensor_at(w, i), .type = choice[i].type};
    free(choice);
    return rc;
}

static int read_text(struct calibration *c, int32_t **ids, int *n_chunk, struct lutra_error *err)
{
    const struct lutra_quantize_settings *set = c->set;
    int n;
    TRY(lutra_tokenize(c->model, set->calibration, set->n_calibration_bytes, LUTRA_ADD_SPECIAL, NULL, 0, &n, err));
    *ids = malloc(((size_t)n + 1) * sizeof **ids);
    if (!*ids) return no_memory(err);
    TRY(lutra_tokenize(c->model, set->calibration, set->n_calibration_bytes, LUTRA_ADD_SPECIAL, *ids, n, &n, err));
    return observe_chunks(n, set->calibration_ctx, set->calibration_chunks, n_chunk, err);
}

/* Of everything that the rounded matrices depend on. */
static uint64_t key_of(const struct calibration *c, const int32_t *ids, int n_chunk)
{
    size_t n_ctx = (size_t)c->set->calibration_ctx;
    uint64_t key = hash_bytes(n_ctx, ids, n_ctx * (size_t)n_chunk * sizeof *ids);
    if (c->group) {
        int of[] = {c->group->bits, c->group->size, c->group->symmetric};
        key = hash_bytes(key, of, sizeof of);
    }
    for (size_t i = 0; i < c->n_matrix; i++) {
        const struct tensor *t = c->matrix[i].t;
        weights_fetch(c->model->weights, t);
        uint64_t of[] = {c->matrix[i].type, t->type, (uint64_t)t->ne[0], hash_parts(t->data, t->bytes)};
        key = hash_bytes(hash_bytes(key, t->name, strlen(t->name)), of, sizeof of);
        weights_drop_pages(c->model->weights, t);
    }
    return key;
}

static int open_checkpoint(
    struct calibration *c, const char *out_path, const int32_t *ids, int n_chunk, struct lutra_error *err)
{
    char what[64];
    if (!c->set->resume) return checkpoint_open(&c->checkpoint, out_path, NULL, err);
    uint64_t key = key_of(c, ids, n_chunk);
    TRY(checkpoint_open(&c->checkpoint, out_path, &key, err));
    snprintf(what, sizeof what, "%d finished matrices are there already", checkpoint_count(c->checkpoint));
    if (checkpoint_count(c->checkpoint)) tell(c, LUTRA_LOG_INFO, out_path, what);
    return 0;
}

/* The embedding comes first: nothing is known of its inputs, which are tokens. */
static int run(struct calibration *c, const int32_t *ids, int n_chunk, struct lutra_error *err)
{
    const struct op_list *list = model_ops(c->model->model);
    const struct observer o = {.inputs = add_inputs, .seen = round_op, .user = c};
    TRY(observe_open(&c->s, c->model, c->set->calibration_ctx, err));
    for (int i = 0; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        c->n_matmul += op->kind == OP_MATMUL;
        if (op->kind == OP_EMBED && changes(c, op->weight[0])) TRY(round_weight(c, op->weight[0], err));
    }
    return observe_run(c->s, ids, n_chunk, &o, err);
}

static int open_model(struct calibration *c, lutra_runtime *rt, const char *path, struct lutra_error *err)
{
    struct lutra_model_settings set;
    lutra_model_settings_init(&set, sizeof set);
    set.progress = c->set->progress;
    set.progress_user = c->set->progress_user;
    set.zeros = c->set->zeros;
    return model_open_unsorted(&c->model, rt, path, &set, true, err);
}

int calibration_open(struct calibration **out, lutra_runtime *rt, const char *path, const char *out_path,
    const struct lutra_quantize_settings *set, const struct weights_quantize_settings *q, struct lutra_error *err)
{
    int32_t *ids = NULL;
    int n_chunk = 0;
    struct calibration *c = *out = calloc(1, sizeof *c);
    if (!c) return no_memory(err);
    c->set = set;
    c->group = q->group;
    int rc = open_model(c, rt, path, err);
    if (rc == 0) rc = choose_types(c, q, err);
    if (rc == 0) rc = read_text(c, &ids, &n_chunk, err);
    if (rc == 0) rc = open_checkpoint(c, out_path, ids, n_chunk, err);
    if (rc == 0) rc = run(c, ids, n_chunk, err);
    free(ids);
    free(c->h);
    c->h = NULL;
    if (rc < 0) calibration_close(out, false);
    return rc;
}

void calibration_close(struct calibration **calibration, bool written)
{
    struct calibration *c = *calibration;
    if (!c) return;
    checkpoint_close(&c->checkpoint, written);
    lutra_session_close(&c->s);
    lutra_model_close(&c->model);
    drop_held(c);
    free(c->ready);
    free(c->matrix);
    free(c);
    *calibration = NULL;
}

int calibration_ready(
    void *calibration, const struct tensor *t, enum quant_type type, const void **bytes, struct lutra_error *err)
{
    struct calibration *c = calibration;
    const struct matrix *m = NULL;
    size_t first, row_bytes = rounding_row_bytes(t, type);
    *bytes = NULL;
    for (size_t i = 0; i < c->n_matrix && !m; i++)
        if (strcmp(c->matrix[i].t->name, t->name) == 0 && c->matrix[i].type == type) m = &c->matrix[i];
    if (!m || !m->rounded) return 0;
    free(c->ready);
    c->ready = malloc((size_t)t->ne[1] * row_bytes);
    if (!c->ready) return no_memory(err);
    for (int i = 0; i < model_n_weight(c->model->model); i++) { /* it may have been rounded slice by slice */
        const struct weight *w = model_weight(c->model->model, i);
        if (matrix_of(c, w, &first) != m) continue;
        if (!checkpoint_read(c->checkpoint, (uint64_t)(m - c->matrix), first, (uint8_t *)c->ready + first * row_bytes,
                (size_t)w->tensor.ne[1] * row_bytes))
            return lutra_fail(err, LUTRA_E_IO, "tensor '%s' cannot be read back", t->name);
    }
    *bytes = c->ready;
    return 0;
}
