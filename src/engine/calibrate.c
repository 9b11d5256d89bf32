/* SPDX-License-Identifier: MIT */
#include "engine/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/observe.h"
#include "quant/weighted.h"
#include "weights/mix.h"

struct matrix {
    const struct tensor *t;
    enum quant_type type;
    uint8_t *bytes; /* of the whole tensor; NULL: not reached, or stays as it is */
};

struct calibration {
    const struct lutra_quantize_settings *set;
    lutra_model *model;
    lutra_session *s;
    struct matrix *matrix; /* [n_matrix] in the file's order */
    size_t n_matrix;
    double *h; /* [n_in][n_in] of the matmul whose inputs are coming, upper triangle */
    int n_done, n_matmul;
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

/* Of a weight, or of the tensor that it is a slice of ("NAME[first row]"). */
static struct matrix *matrix_of(const struct calibration *c, const struct weight *w, size_t *first_row)
{
    size_t n = strcspn(w->tensor.name, "[");
    *first_row = w->tensor.name[n] ? strtoul(w->tensor.name + n + 1, NULL, 10) : 0;
    for (size_t i = 0; i < c->n_matrix; i++)
        if (strncmp(c->matrix[i].t->name, w->tensor.name, n) == 0 && !c->matrix[i].t->name[n]) return &c->matrix[i];
    return NULL;
}

static bool changes(const struct calibration *c, const struct weight *w)
{
    size_t row;
    const struct matrix *m = matrix_of(c, w, &row);
    return m && m->type != w->tensor.type;
}

/* ---- inputs ---- */

struct product {
    double *h;
    const float *x;
    int n_row, n_in;
    atomic_int next;
    atomic_bool failed;
};

/* Row i of the triangle is one thread's. */
static void multiply(void *arg, int ith, int nth)
{
    struct product *p = arg;
    (void)ith, (void)nth;
    float *sum = malloc((size_t)p->n_in * sizeof *sum);
    if (!sum) p->failed = true;
    for (int i; sum && (i = atomic_fetch_add(&p->next, 1)) < p->n_in;) {
        memset(sum, 0, (size_t)p->n_in * sizeof *sum);
        for (int r = 0; r < p->n_row; r++) {
            const float *x = p->x + (size_t)r * (size_t)p->n_in, xi = x[i];
            for (int k = i; k < p->n_in; k++) sum[k] += xi * x[k];
        }
        for (int k = i; k < p->n_in; k++) p->h[(size_t)i * (size_t)p->n_in + (size_t)k] += (double)sum[k];
    }
    free(sum);
}

static int add_inputs(void *user, const struct op *op, const float *x, int n_row, struct lutra_error *err)
{
    struct calibration *c = user;
    int n_in = (int)op->weight[0]->tensor.ne[0];
    bool wanted = false;
    for (int k = 0; k < op->n_weight; k++) wanted |= changes(c, op->weight[k]);
    if (!wanted) return 0;
    if (!c->h) c->h = calloc((size_t)n_in * (size_t)n_in, sizeof *c->h);
    if (!c->h) return no_memory(err);
    struct product p = {.h = c->h, .x = x, .n_row = n_row, .n_in = n_in};
    pool_run(c->model->runtime->pool, multiply, &p);
    return p.failed ? no_memory(err) : 0;
}

/* ---- rounding ---- */

struct rounding {
    const struct weight *w;
    const struct quant_info *from, *to;
    const struct quant_gptq *gptq; /* NULL: by weight, or where that is NULL, too, plainly */
    const float *weight;
    uint8_t *out;
    size_t row_bytes;
    atomic_int next;
    atomic_bool failed;
};

static void round_rows(void *arg, int ith, int nth)
{
    struct rounding *r = arg;
    size_t n_in = (size_t)r->w->tensor.ne[0], from_bytes = r->w->tensor.bytes / (size_t)r->w->tensor.ne[1];
    (void)ith, (void)nth;
    float *x = malloc(n_in * sizeof *x);
    if (!x) r->failed = true;
    for (int64_t i; x && (i = atomic_fetch_add(&r->next, 1)) < r->w->tensor.ne[1];) {
        uint8_t *out = r->out + (size_t)i * r->row_bytes;
        r->from->dequantize((const uint8_t *)r->w->tensor.data + (size_t)i * from_bytes, x, n_in);
        for (size_t k = 0; k < n_in; k++)
            if (!isfinite(x[k])) r->failed = true;
        if (r->gptq)
            quant_gptq_row(r->gptq, r->to->type, x, out);
        else if (r->weight)
            quant_weighted(r->to->type, x, r->weight, out, n_in);
        else
            r->to->quantize(x, out, n_in);
    }
    free(x);
}

/* Damping 1 %, and ten times as much up to three times; then no GPTQ: gptq->u is NULL, gptq->weight remains to be
 * used. */
static int open_gptq(struct calibration *c, struct quant_gptq *g, const char *name, enum quant_type type, int n_in,
    struct lutra_error *err)
{
    int rc = LUTRA_E_ARGUMENT;
    double damp = 0.01;
    for (int i = 0; i < 4 && rc == LUTRA_E_ARGUMENT; i++, damp *= 10)
        rc = quant_gptq_open(g, type, c->h, n_in, damp, err);
    if (rc != LUTRA_E_ARGUMENT) return rc;
    tell(c, LUTRA_LOG_WARN, name, "its inputs' covariance is singular: rounded by their importance alone");
    g->weight = malloc((size_t)n_in * sizeof *g->weight);
    if (!g->weight) return no_memory(err);
    for (size_t i = 0; i < (size_t)n_in; i++) {
        double sum2 = c->h[i * (size_t)n_in + i];
        g->weight[i] = isfinite(sum2) ? (float)sum2 + 1e-20f : 1;
    }
    return 0;
}

/* The device computes with the new bytes from now on. */
static int exchange(
    struct calibration *c, struct weight *w, enum quant_type type, uint8_t *bytes, struct lutra_error *err)
{
    struct device *d = w->device;
    bool keeps_source;
    d->ops->release(d, w);
    w->tensor.type = type;
    w->tensor.data = bytes;
    w->tensor.bytes = (size_t)w->tensor.ne[1] * ((size_t)w->tensor.ne[0] / quant_info_of(type)->block_elems) *
                      quant_info_of(type)->block_bytes;
    w->stored = NULL;
    TRY(d->ops->prepare(d, w, &keeps_source, err));
    return d->ops->reserve(d, model_ops(c->model->model), c->s->n_batch, c->s->n_out, c->s->n_ctx, err);
}

/* Plainly where nothing is known of its inputs (c->h is NULL). */
static int round_weight(struct calibration *c, struct weight *w, struct lutra_error *err)
{
    size_t first;
    struct matrix *m = matrix_of(c, w, &first);
    struct quant_gptq g = {0};
    struct rounding r = {.w = w, .from = quant_info_of(w->tensor.type), .to = quant_info_of(m->type)};
    r.row_bytes = (size_t)w->tensor.ne[0] / r.to->block_elems * r.to->block_bytes;
    if (!m->bytes) m->bytes = malloc((size_t)m->t->ne[1] * r.row_bytes);
    if (!m->bytes) return no_memory(err);
    r.out = m->bytes + first * r.row_bytes;
    if (c->h && quant_has_weighted(m->type)) {
        TRY(open_gptq(c, &g, m->t->name, m->type, (int)w->tensor.ne[0], err));
        r.gptq = g.u ? &g : NULL;
        r.weight = g.weight;
    }
    weights_fetch(c->model->weights, m->t);
    pool_run(c->model->runtime->pool, round_rows, &r);
    quant_gptq_close(&g);
    if (r.failed)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s' holds a value that is NaN or infinite",
            weights_path(c->model->weights), m->t->name);
    return exchange(c, w, m->type, r.out, err);
}

static int round_op(void *user, const struct op *op, struct lutra_error *err)
{
    struct calibration *c = user;
    int rc = 0;
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
    return lutra_model_open(&c->model, rt, path, &set, err);
}

int calibration_open(struct calibration **out, lutra_runtime *rt, const char *path,
    const struct lutra_quantize_settings *set, const struct weights_quantize_settings *q, struct lutra_error *err)
{
    int32_t *ids = NULL;
    int n_chunk = 0;
    struct calibration *c = *out = calloc(1, sizeof *c);
    if (!c) return no_memory(err);
    c->set = set;
    int rc = open_model(c, rt, path, err);
    if (rc == 0) rc = choose_types(c, q, err);
    if (rc == 0) rc = read_text(c, &ids, &n_chunk, err);
    if (rc == 0) rc = run(c, ids, n_chunk, err);
    free(ids);
    free(c->h);
    c->h = NULL;
    if (rc < 0) calibration_close(out);
    return rc;
}

void calibration_close(struct calibration **calibration)
{
    struct calibration *c = *calibration;
    if (!c) return;
    lutra_session_close(&c->s);
    lutra_model_close(&c->model);
    for (size_t i = 0; i < c->n_matrix; i++) free(c->matrix[i].bytes);
    free(c->matrix);
    free(c);
    *calibration = NULL;
}

const void *calibration_ready(void *calibration, const struct tensor *t, enum quant_type type)
{
    const struct calibration *c = calibration;
    for (size_t i = 0; i < c->n_matrix; i++)
        if (strcmp(c->matrix[i].t->name, t->name) == 0 && c->matrix[i].type == type) return c->matrix[i].bytes;
    return NULL;
}
