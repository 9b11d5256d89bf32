/* SPDX-License-Identifier: MIT
 *
 * Products on the devices that hold the model's weights.  An operation of the model is run alone, as a list whose input
 * has been given, for several numbers of rows with random inputs.  A row must have the same bits in all of them, and
 * some of its outputs must be near a dot product in double with the dequantized row of the weight (ops/ref: ref_embed).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "check/check_impl.h"
#include "engine/model.h"
#include "ops/ref/ref.h"
#include "quant/quant.h"
#include "sched/plan.h"

enum { ROWS_MOST = 512, HEAD_ROWS = 8, SAMPLED = 24, KINDS_MOST = 256 };

/* Values before outputs: inputs, and of experts the scores and the route that is made of them. */
enum { INPUTS, SCORES, ROUTE, GIVEN_MOST };
static const int row_counts[] = {1, 2, 4, 8, 17, 32, ROWS_MOST};
enum { N_COUNTS = sizeof row_counts / sizeof *row_counts };

/* Of the root of the sum of the squares of a dot product's terms: eight bits of activations, one scale for 32 to all
 * inputs, miss by 0.5 to 1 % of it; halves by 0.05 %. */
static const double BOUND_INTEGER = 0.07, BOUND_FLOAT = 2e-3;

struct kind { /* of products that are looked at once */
    enum op_kind op;
    enum quant_type type[OP_WEIGHTS];
    int64_t n_in, n_out[OP_WEIGHTS];
    int n_weight;
    bool i8row, by_slot;
};

struct product {
    struct checker *c;
    lutra_model *m;
    const struct op *source; /* of the model's list */
    struct op ops[2], *op;   /* the same over values of its own; experts' behind their route */
    struct op_list list;
    struct plan plan;
    struct device *home;
    struct buffer value[GIVEN_MOST + OP_WEIGHTS];
    struct row row[ROWS_MOST];
    int32_t mark[ROWS_MOST], out_row[ROWS_MOST];
    struct row_result result[HEAD_ROWS];
    float *seen[OP_WEIGHTS]; /* [ROWS_MOST][n_out] as a row came out first */
    float *x, *w;            /* [ROWS_MOST][n_in] inputs; one row of a weight */
    int n_seen, rows_most, first_out;
    bool is_head, is_experts;
};

static double noise(uint32_t stream, uint32_t i)
{
    struct rng_key key = {0x6c757472, stream, 0};
    double u = 0;
    for (uint32_t k = 0; k < 4; k++) u += rng_float(key, 4 * i + k);
    return (u - 2) * 1.7320508; /* variance 1 */
}

static bool same_kind(const struct kind *a, const struct kind *b)
{
    bool same = a->op == b->op && a->n_in == b->n_in && a->n_weight == b->n_weight && a->i8row == b->i8row &&
                a->by_slot == b->by_slot;
    for (int i = 0; i < a->n_weight && same; i++) same = a->type[i] == b->type[i] && a->n_out[i] == b->n_out[i];
    return same;
}

static struct kind kind_of(const struct op *op)
{
    struct kind k = {.op = op->kind, .n_in = op->weight[0]->tensor.ne[0], .n_weight = op->n_weight};
    k.by_slot = op->kind == OP_EXPERTS && op->matmul.experts.by_slot;
    for (int i = 0; i < op->n_weight; i++) {
        k.type[i] = op->weight[i]->tensor.type;
        k.n_out[i] = op->weight[i]->tensor.ne[1];
        k.i8row = k.i8row || op->weight[i]->i8row;
    }
    return k;
}

/* ---- the list of one operation ---- */

/* The choice that the model makes for these experts, of scores that are given. */
static void add_route(struct product *p)
{
    const struct op *from = p->source;
    while (from->kind != OP_ROUTE || from->out[0] != p->source->in[1]) from--;
    p->ops[0] = *from;
    p->ops[0].in[0] = SCORES;
    p->ops[0].out[0] = ROUTE;
    p->op->in[1] = ROUTE;
    p->list.value[SCORES] = (struct value){from->route.n_expert, ROWS_ALL};
    p->list.value[ROUTE] = (struct value){2 * from->route.n_used, ROWS_ALL};
    p->list.given |= 1u << SCORES;
}

static int open_list(struct product *p, struct lutra_error *err)
{
    const struct op_list *model = model_ops(p->m->model);
    enum value_rows rows = p->is_head ? ROWS_OUT : ROWS_ALL;
    p->op = &p->ops[p->is_experts];
    *p->op = *p->source;
    p->first_out = p->is_experts ? GIVEN_MOST : 1;
    p->list = (struct op_list){.op = p->ops,
        .n_op = 1 + p->is_experts,
        .n_value = p->first_out + p->op->n_out,
        .layer = model->layer,
        .n_layer = model->n_layer,
        .d_model = model->d_model,
        .n_vocab = model->n_vocab,
        .given = 1u << INPUTS};
    p->list.value[INPUTS] = (struct value){model->value[p->source->in[0]].dim, rows};
    for (int i = 0; i < p->op->n_in; i++) p->op->in[i] = INPUTS;
    for (int i = 0; i < p->op->n_out; i++) {
        int dim = p->is_experts ? model->value[p->source->out[i]].dim : (int)p->op->weight[i]->tensor.ne[1];
        p->list.value[p->first_out + i] = (struct value){dim, rows};
        p->op->out[i] = p->first_out + i;
    }
    if (p->is_experts) add_route(p);
    TRY(op_list_check(&p->list, err));
    struct device *device[PLAN_DEVICES];
    int n = model_devices(p->m, device);
    TRY(plan_open(&p->plan, &p->list, device, n, err));
    p->home = p->plan.device[0];
    p->rows_most = p->is_head ? HEAD_ROWS : ROWS_MOST;
    for (int i = 0; i < p->plan.n_device; i++) {
        struct device *d = p->plan.device[i];
        if (d->caps.max_rows < p->rows_most) p->rows_most = d->caps.max_rows;
        TRY(d->ops->reserve(d, &p->list, p->rows_most, p->is_head ? p->rows_most : 1, 256, err));
    }
    return 0;
}

/* Elements of a row of output i. */
static size_t n_output(const struct product *p, int i)
{
    return p->is_head ? (size_t)p->list.n_vocab : (size_t)p->list.value[p->first_out + i].dim;
}

static int open_memory(struct product *p, struct lutra_error *err)
{
    size_t n_in = (size_t)p->list.value[0].dim;
    for (int v = 0; v < p->list.n_value; v++) {
        size_t bytes = (size_t)p->rows_most * (size_t)p->list.value[v].dim * sizeof(float);
        TRY(p->home->ops->buffer_alloc(p->home, bytes, &p->value[v], err));
    }
    p->x = malloc((size_t)p->rows_most * n_in * sizeof *p->x);
    p->w = malloc(n_in * sizeof *p->w);
    bool whole = p->x && p->w;
    for (int i = 0; i < p->op->n_weight; i++) {
        size_t n = (size_t)p->rows_most * n_output(p, i);
        p->seen[i] = malloc(n * sizeof(float));
        whole = whole && p->seen[i];
    }
    for (int r = 0; p->is_head && r < p->rows_most; r++) {
        p->result[r].logits = malloc((size_t)p->list.n_vocab * sizeof(float));
        whole = whole && p->result[r].logits;
    }
    if (!whole) return lutra_fail(err, LUTRA_E_NO_MEMORY, "check: out of memory");
    for (size_t i = 0; i < (size_t)p->rows_most * n_in; i++) p->x[i] = (float)noise(1, (uint32_t)i);
    return 0;
}

static void close_product(struct product *p)
{
    for (int i = 0; i < p->plan.n_device; i++) {
        struct device *d = p->plan.device[i];
        if (d->extras && d->extras->forget) d->extras->forget(d, &p->list);
    }
    for (int v = 0; v < p->list.n_value; v++)
        if (p->value[v].host) p->home->ops->buffer_free(p->home, &p->value[v]);
    for (int i = 0; i < OP_WEIGHTS; i++) free(p->seen[i]);
    for (int r = 0; r < HEAD_ROWS; r++) free(p->result[r].logits);
    free(p->x);
    free(p->w);
}

/* ---- runs ---- */

static int run_rows(struct product *p, int n, struct lutra_error *err)
{
    struct batch batch = {.row = p->row, .mark = p->mark, .n_row = n};
    for (int r = 0; r < n; r++) {
        p->row[r] = (struct row){.pos = r, .parent = r - 1, .want = p->is_head ? WANT_LOGITS : WANT_NOTHING};
        p->out_row[r] = r;
        if (p->is_head) p->result[r].row = r;
    }
    struct pass_args pass = {.batch = &batch,
        .value = p->value,
        .out_row = p->out_row,
        .n_out = p->is_head ? n : 0,
        .n_ctx = 256,
        .result = p->result};
    memcpy(p->value[INPUTS].host, p->x, (size_t)n * (size_t)p->list.value[INPUTS].dim * sizeof(float));
    for (int i = 0, m = n * p->list.value[SCORES].dim; p->is_experts && i < m; i++)
        ((float *)p->value[SCORES].host)[i] = (float)noise(2, (uint32_t)i);
    TRY(plan_run(&p->plan, &pass, NULL, NULL, err));
    for (int v = p->is_experts ? ROUTE : 1; v < p->list.n_value; v++) TRY(plan_share(&p->plan, &pass, v, err));
    return 0;
}

static const float *output(const struct product *p, int i, int r)
{
    if (p->is_head) return p->result[r].logits;
    return (const float *)p->value[p->first_out + i].host + (size_t)r * n_output(p, i);
}

/* Rows that were there before must have their bits. */
static void compare_bits(struct product *p, int n)
{
    for (int i = 0; i < p->op->n_weight; i++) {
        const struct tensor *t = &p->op->weight[i]->tensor;
        size_t n_out = n_output(p, i);
        for (int r = 0; r < n; r++) {
            float *seen = p->seen[i] + (size_t)r * n_out;
            if (r >= p->n_seen)
                memcpy(seen, output(p, i, r), n_out * sizeof *seen);
            else if (memcmp(seen, output(p, i, r), n_out * sizeof *seen) != 0) {
                check_found(p->c,
                    "%s of '%s' (%s, %lld inputs, %zu outputs) on %s: row %d has other bits among %d rows",
                    op_name(p->op->kind), t->name, quant_type_name(t->type), (long long)t->ne[0], n_out, p->home->name,
                    r, n);
                break;
            }
        }
    }
    if (n > p->n_seen) p->n_seen = n;
}

static double finish(const struct product *p, int i, int64_t o, double sum)
{
    if (!p->is_head) return sum + (p->op->matmul.bias[i] ? (double)p->op->matmul.bias[i][o] : 0);
    double scaled = p->op->head.scale != 0 ? sum * (double)p->op->head.scale : sum, cap = (double)p->op->head.softcap;
    return cap != 0 ? cap * tanh(scaled / cap) : scaled;
}

/* One output of one row against its definition: how far it is off, in bounds. */
static double error_of(struct product *p, int i, int64_t o, const float *x, double got)
{
    const struct weight *weight = p->op->weight[i];
    int64_t n_in = weight->tensor.ne[0];
    double sum = 0, squares = 0;
    enum quant_type type = weight->tensor.type;
    bool is_float = type == QUANT_F32 || type == QUANT_F16 || type == QUANT_BF16;
    for (int64_t k = 0; k < n_in; k++) {
        double term = (double)p->w[k] * (double)x[k];
        sum += term;
        squares += term * term;
    }
    double scale = p->is_head && p->op->head.scale != 0 ? fabs((double)p->op->head.scale) : 1;
    double want = finish(p, i, o, sum), bound = (is_float ? BOUND_FLOAT : BOUND_INTEGER) * sqrt(squares) * scale;
    return fabs(got - want) / (bound + 1e-5 * fabs(want) + 1e-30);
}

/* What makes output o of a row: the row of the weight, and *x, its inputs. */
static int64_t source_of(const struct product *p, int i, int64_t o, int r, const float **x)
{
    const struct op_experts *e = &p->op->matmul.experts;
    *x = p->x + (size_t)r * (size_t)p->list.value[INPUTS].dim;
    if (!p->is_experts) return o;
    int64_t n = p->op->weight[i]->tensor.ne[1] / e->n_expert, slot = o / n;
    if (e->by_slot) *x += slot * p->op->weight[i]->tensor.ne[0];
    const float *route = (const float *)p->value[ROUTE].host + (size_t)r * (size_t)p->list.value[ROUTE].dim;
    return (int64_t)route[slot] * n + o % n;
}

/* Some outputs of the first, the last and a row between, of a pass of n rows. */
static void compare_values(struct product *p, int i, int n)
{
    const struct tensor *t = &p->op->weight[i]->tensor;
    double worst = 0;
    int64_t worst_at = 0, n_out = (int64_t)n_output(p, i);
    const int rows[] = {0, n / 2, n - 1};
    for (int s = 0; s < SAMPLED; s++) {
        int64_t o = s == 0 ? n_out - 1 : n_out * (s - 1) / (SAMPLED - 1), last = -1;
        for (int k = 0; k < 3; k++) {
            const float *x;
            int64_t at = source_of(p, i, o, rows[k], &x);
            if (at != last) ref_embed(t, last = at, 1, p->w);
            double e = error_of(p, i, at, x, (double)output(p, i, rows[k])[o]);
            if (!(e <= worst)) worst = e, worst_at = o;
        }
    }
    if (!(worst <= 1))
        check_found(p->c,
            "%s of '%s' (%s, %lld inputs, %lld outputs) on %s, %d rows: output %lld is off by %.1f times what its "
            "arithmetic allows",
            op_name(p->op->kind), t->name, quant_type_name(t->type), (long long)t->ne[0], (long long)n_out,
            p->home->name, n, (long long)worst_at, worst);
}

static int check_product(struct product *p, struct lutra_error *err)
{
    TRY(open_list(p, err));
    TRY(open_memory(p, err));
    for (int i = 0; i < p->op->n_weight; i++) weights_fetch(p->m->weights, &p->op->weight[i]->tensor);
    for (int k = 0; k < N_COUNTS; k++) {
        int n = row_counts[k];
        if (n > p->rows_most || (p->c->set.quick && n != 1 && n != 8 && n != 32)) continue;
        TRY(run_rows(p, n, err));
        compare_bits(p, n);
        for (int i = 0; i < p->op->n_weight; i++) compare_values(p, i, n);
    }
    return 0;
}

int check_products(struct checker *c, lutra_model *m, struct lutra_error *err)
{
    const struct op_list *list = model_ops(m->model);
    struct kind *seen = calloc(KINDS_MOST, sizeof *seen);
    struct product *p = malloc(sizeof *p);
    int n = 0, rc = seen && p ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "check: out of memory");
    turn_take(&m->runtime->turn, TURN_ALL);
    for (int i = 0; i < list->n_op && rc == 0; i++) {
        const struct op *op = &list->op[i];
        bool is_experts = op->kind == OP_EXPERTS;
        if ((op->kind != OP_MATMUL && op->kind != OP_HEAD && !is_experts) || op->n_weight == 0) continue;
        struct kind kind = kind_of(op);
        int k = 0;
        while (k < n && !same_kind(&seen[k], &kind)) k++;
        if (k < n || n == KINDS_MOST) continue;
        seen[n++] = kind;
        memset(p, 0, sizeof *p);
        p->c = c, p->m = m, p->source = op, p->is_head = op->kind == OP_HEAD, p->is_experts = is_experts;
        rc = check_product(p, err);
        close_product(p);
        if (rc == 0) rc = check_progress(c, (uint64_t)i, (uint64_t)list->n_op, err);
    }
    turn_give(&m->runtime->turn, TURN_ALL);
    free(seen);
    free(p);
    if (rc == 0) check_passed(c, "%d kinds of products on %s", n, runtime_first(m->runtime)->name);
    return rc;
}
