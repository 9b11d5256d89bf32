/* SPDX-License-Identifier: MIT
 *
 * Laws, the choices that a plan leaves, the solver over one layer, and the pass as the sum of its layers.
 */
#include "sim/pieces.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { STAGE = 32, GRID = SIM_GRID, CUTS_MAX = 64, HALF = 2, OP_HEAD = SIM_OPS - 1 };
enum { CHOICES = (GRID + 1) * (GRID + 2) / 2 + CUTS_MAX };

const char *sim_plan_name(int plan)
{
    static const char *const names[] = {"free", "fine", "tensor", "solved", "activation", "weight", "pipe", "padding",
        "chunked", "prepare", "layer", "gpu", "three", "one", "class", "hybrid"};
    return plan < SIM_PLANS ? names[plan] : NULL;
}

const char *sim_processor_name(int unit)
{
    static const char *const names[SIM_UNITS] = {[SIM_GPU] = "gpu", [SIM_NPU] = "npu", [SIM_CPU] = "cpu"};
    return unit < SIM_UNITS ? names[unit] : NULL;
}

/* ---- sums ---- */

void sim_add(struct sim_span *sum, const struct sim_span *x, double times)
{
    sum->low += times * x->low, sum->middle += times * x->middle, sum->high += times * x->high;
}

double *sim_at(struct sim_span *s, enum sim_end end)
{
    return end == SIM_BETTER ? &s->low : end == SIM_MIDDLE ? &s->middle : &s->high;
}

/* ---- graphs ---- */

static int round_up(int rows, int to)
{
    return (rows + to - 1) / to * to;
}

/* The next standard size of a graph: 32, 64, ... 1024, then multiples of that. */
static int standard_rows(int rows)
{
    int size = STAGE;
    while (size < rows && size < SIM_PASS_ROWS) size *= 2;
    return size >= rows ? size : round_up(rows, SIM_PASS_ROWS);
}

/* ---- operations of a layer ---- */

struct op {
    const char *name;
    bool product;
    int n, k;
    double bits;
    double bytes, flop; /* of the GPU's own operations: memory that they move, sums of halves */
    double reads;       /* bytes that are handed over where another processor made them */
};

/* Fills op [SIM_OPS]: a layer, then the head. */
static void list_ops(const struct sim_question *q, struct op *op)
{
    const struct sim_shape *s = q->shape;
    const double row = (double)HALF * (q->rows + q->beside);
    const int d = s->d_model, width = s->n_head * s->d_head, kv = s->n_kv_head * s->d_head, qkv = width + 2 * kv;
    /* Keys that rows see, and keys that are read: once for rows of one sequence. */
    double seen = q->many ? (double)q->rows * (q->past + 1) : (double)q->rows * (q->past + (q->rows + 1) / 2.0);
    double read = q->many ? seen : q->past + q->rows;
    seen += (double)q->beside * (q->beside_past + 1), read += (double)q->beside * (q->beside_past + 1);
    const struct op all[SIM_OPS] = {{.name = "norm", .bytes = 2 * row * d, .reads = row * d},
        {.name = "qkv", .product = true, .n = qkv, .k = d, .bits = s->layer_bits, .reads = row * d},
        {.name = "rope", .bytes = 2 * row * qkv, .reads = row * qkv},
        {.name = "attention",
            .bytes = 2 * HALF * read * kv + 2 * row * width,
            .flop = 4 * seen * width,
            .reads = row * qkv},
        {.name = "o", .product = true, .n = d, .k = width, .bits = s->layer_bits, .reads = row * width},
        {.name = "add, norm", .bytes = 4 * row * d, .reads = row * d},
        {.name = "gate, up", .product = true, .n = 2 * s->d_ff, .k = d, .bits = s->layer_bits, .reads = row * d},
        {.name = "swiglu", .bytes = 3 * row * s->d_ff, .reads = 2 * row * s->d_ff},
        {.name = "down", .product = true, .n = d, .k = s->d_ff, .bits = s->down_bits, .reads = row * s->d_ff},
        {.name = "add", .bytes = 3 * row * d, .reads = row * d},
        {.name = "head", .product = true, .n = s->n_vocab, .k = d, .bits = s->head_bits}};
    memcpy(op, all, sizeof all);
}

/* What is not a product: as long as its memory or its sums take. */
static double other_us(const struct sim_question *q, enum sim_end end, enum sim_device home, const struct op *op)
{
    double gflops = home == SIM_CPU ? 2e6 * 128 / sim_figure(q->profile, SOC_CPU_US_128, end)
                                    : 2e6 * 256 / sim_figure(q->profile, SOC_GPU_US_256, end); /* per us */
    return fmax(op->bytes / 1e3 / sim_figure(q->profile, SOC_ONE_GBS, end), op->flop / gflops);
}

/* ---- choices ---- */

struct choices {
    struct solve_choice item[CHOICES];
    int n;
};

static void add_one(struct choices *c, enum sim_device d, int rows, int computed)
{
    struct solve_choice *x = &c->item[c->n++];
    *x = (struct solve_choice){.kind = computed > rows ? SOLVE_PADDED : SOLVE_ONE};
    x->part[d] = GRID, x->rows[d] = computed;
}

/* Each of a set alone, and every cut of outputs among them whose bounds are multiples of `step`, or of `other`. */
static void add_outputs(struct choices *c, unsigned set, int step, int other, int rows)
{
    const int padded = round_up(rows, STAGE);
    for (int d = 0; d < SIM_UNITS; d++)
        if (set >> d & 1) add_one(c, (enum sim_device)d, rows, d == SIM_NPU ? padded : rows);
    for (int cpu = 0; cpu < GRID; cpu++)
        for (int gpu = 0; gpu < GRID && gpu <= GRID - cpu; gpu++) {
            struct solve_choice x = {.part = {[SIM_GPU] = gpu, [SIM_NPU] = GRID - gpu - cpu, [SIM_CPU] = cpu}};
            const unsigned used = solve_set(x.part);
            if (solve_is_one(used) || used & ~set || (gpu % step && gpu % other)) continue;
            for (int d = 0; d < SIM_UNITS; d++) x.rows[d] = !x.part[d] ? 0 : d == SIM_NPU ? padded : rows;
            x.kind = x.rows[SIM_NPU] > rows ? SOLVE_HYBRID : SOLVE_OUTPUTS;
            c->item[c->n++] = x;
        }
}

static void add_rows(struct choices *c, int npu_rows, int rows)
{
    struct solve_choice *x = &c->item[c->n++];
    *x = (struct solve_choice){.kind = SOLVE_ROWS};
    x->part[SIM_GPU] = x->part[SIM_NPU] = GRID;
    x->rows[SIM_NPU] = npu_rows, x->rows[SIM_GPU] = rows - npu_rows;
}

/* Whose are the operations that are no products. */
static enum sim_device home_of(const struct sim_question *q)
{
    for (int i = 0; i < q->n_device; i++)
        if (q->device[i] != SIM_NPU) return q->device[i];
    return SIM_GPU;
}

/* Who may have a product's outputs. */
static unsigned set_of(const struct sim_question *q)
{
    unsigned set = q->plan == SIM_HYBRID ? 0 : 1u << SIM_GPU | 1u << SIM_NPU | (q->plan == SIM_THREE) << SIM_CPU;
    for (int i = 0; q->plan == SIM_HYBRID && i < q->n_device; i++) set |= 1u << q->device[i];
    return set;
}

/* What a plan leaves a product of so many rows. */
static void list_choices(const struct sim_question *q, int rows, struct choices *c)
{
    const enum sim_plan plan = q->plan;
    const int padded = round_up(rows, STAGE);
    switch (plan) {
    case SIM_GPU_ONLY: add_one(c, SIM_GPU, rows, rows); return;
    case SIM_PADDING: add_one(c, SIM_NPU, rows, standard_rows(rows)); return;
    case SIM_PIPE:
    case SIM_PREPARE: add_one(c, SIM_NPU, rows, padded); return;
    case SIM_CHUNKED: add_one(c, SIM_NPU, rows, round_up(rows, SIM_CHUNK)); return;
    case SIM_LAYER: add_one(c, rows < STAGE ? SIM_GPU : SIM_NPU, rows, rows < STAGE ? rows : padded); return;
    case SIM_ACTIVATION: add_one(c, SIM_GPU, rows, rows), add_one(c, SIM_NPU, rows, padded); break;
    case SIM_TENSOR: add_outputs(c, set_of(q), GRID / 5, GRID / 4, rows); break;
    default: add_outputs(c, set_of(q), 1, 1, rows);
    }
    const bool by_rows = plan == SIM_FINE || plan == SIM_THREE || plan == SIM_TENSOR || plan == SIM_ACTIVATION;
    int step = round_up((rows + CUTS_MAX - 1) / CUTS_MAX, STAGE);
    for (int at = step; at < rows && by_rows; at += step) add_rows(c, at, rows);
}

/* Times of a product's choice at one end. */
static void time_choice(const struct sim_question *q, enum sim_end end, const struct op *op, struct solve_choice *c)
{
    double floor_us = 0;
    if (!solve_is_one(solve_set(c->part))) /* all read weights: each those of its part, by rows each all of them */
        floor_us = (double)op->k * op->n * op->bits / 8e3 / sim_figure(q->profile, SOC_TWO_GBS, end) *
                   (c->kind == SOLVE_ROWS ? 2 : 1);
    for (int d = 0; d < SIM_UNITS; d++) {
        c->us[d] = 0;
        if (!c->part[d]) continue;
        double us = sim_product_us(q->profile, q->natural_order, end, (enum sim_device)d, op->k, op->n, op->bits,
            c->rows[d], (double)c->part[d] / GRID);
        c->us[d] = fmax(us, floor_us);
    }
}

/* ---- a layer, and the pass ---- */

/* What the solver sees of one end. */
struct layer {
    struct op op[SIM_OPS];
    struct choices choices[SIM_OPS];
    struct solve_op solve[SIM_OPS];
    struct solve_problem problem;
};

static void build_layer(const struct sim_question *q, enum sim_end end, struct layer *l)
{
    const enum sim_device home = home_of(q);
    list_ops(q, l->op);
    for (int i = 0; i < SIM_OPS; i++) {
        struct op *op = &l->op[i];
        struct choices *c = &l->choices[i];
        const int rows = q->beside + (i == OP_HEAD ? q->n_out : q->rows);
        c->n = 0;
        if (op->product && i != OP_HEAD)
            list_choices(q, rows, c);
        else
            add_one(c, home, rows, rows); /* the head's weights are no graph of the NPU's either */
        for (int k = 0; k < c->n; k++) {
            if (op->product)
                time_choice(q, end, op, &c->item[k]);
            else
                c->item[k].us[home] = other_us(q, end, home, op);
        }
        double copy = q->slow_sync ? op->reads / 1e3 / sim_figure(q->profile, SOC_COPY_GBS, end) : 0;
        l->solve[i] = (struct solve_op){c->item, c->n, copy, 0};
    }
    enum soc_figure sync = q->slow_sync ? SOC_SYNC_US : SOC_FAST_SYNC_US;
    l->problem = (struct solve_problem){.n_device = SIM_UNITS,
        .n_op = OP_HEAD,
        .grid = GRID,
        .op = l->solve,
        .sync_us = sim_figure(q->profile, sync, end),
        .start = 1u << home};
}

/* us of operation i where `held` have its values, and of that what handing them over takes. */
static double op_us(const struct layer *l, int i, const struct solve_choice *c, unsigned held, double *hand_over)
{
    unsigned set = solve_set(c->part);
    *hand_over = solve_is_one(set) && set & held ? 0 : l->problem.sync_us + l->solve[i].copy_us;
    return fmax(fmax(c->us[SIM_GPU], c->us[SIM_NPU]), c->us[SIM_CPU]) + *hand_over;
}

void sim_add_work(struct sim_result *r, const struct soc_profile *p, enum sim_end end, double times, double us,
    const double busy_us[SIM_UNITS], double wait_us, double bytes)
{
    static const enum soc_figure mw[SIM_UNITS] = {
        [SIM_GPU] = SOC_GPU_MW, [SIM_NPU] = SOC_QNN_MW, [SIM_CPU] = SOC_BIG_CORES_MW};
    double nj = us * sim_figure(p, NPU_BASE_MW, end) + wait_us * sim_figure(p, NPU_CPU_MW, end) +
                1e-3 * bytes * sim_figure(p, NPU_MEMORY_PJ, end);
    for (int d = 0; d < SIM_UNITS; d++) {
        *sim_at(&r->busy_us[d], end) += times * busy_us[d];
        nj += busy_us[d] * sim_figure(p, mw[d], end);
    }
    *sim_at(&r->us, end) += times * us;
    *sim_at(&r->mj, end) += times * 1e-6 * nj;
}

/* Adds what one layer (or the head) takes at one end, `times` over. */
static void add_ops(const struct sim_question *q, const struct layer *l, const int *choice, enum sim_end end, int first,
    int last, double times, struct sim_result *r)
{
    unsigned held = 1u << SIM_GPU;
    double at = 0, bytes = 0, waits = 0, busy[SIM_UNITS] = {0};
    for (int i = first; i < last; i++) {
        const struct solve_choice *c = &l->choices[i].item[choice[i]];
        struct sim_op *s = &r->op[i];
        double hand_over, us = op_us(l, i, c, held, &hand_over);
        snprintf(s->name, sizeof s->name, "%s", l->op[i].name);
        s->product = l->op[i].product, s->n = l->op[i].n, s->k = l->op[i].k;
        if (end == SIM_MIDDLE) s->choice = *c;
        *sim_at(&s->us, end) = us, *sim_at(&s->start_us, end) = at;
        s->hand_over_us[end] = hand_over;
        memcpy(s->device_us[end], c->us, sizeof s->device_us[end]);
        for (int d = 0; d < SIM_UNITS; d++) busy[d] += c->us[d];
        at += us, waits += hand_over;
        bytes += l->op[i].product ? (double)l->op[i].k * l->op[i].n * l->op[i].bits / 8 : l->op[i].bytes;
        if (end == SIM_MIDDLE && hand_over > 0) r->hand_overs += times;
        held = solve_set(c->part);
    }
    sim_add_work(r, q->profile, end, times, at, busy, waits, bytes);
}

static void add_prepare(const struct sim_question *q, enum sim_end end, struct sim_result *r)
{
    double weights = 1e-6 * (sim_weights_of_layer(q->shape) + sim_weights_of_down(q->shape));
    double us = weights * (sim_figure(q->profile, SOC_PREPARE_US, end) +
                              (q->rows + q->beside) * sim_figure(q->profile, SOC_PREPARE_ROW_US, end));
    *sim_at(&r->prepare_us, end) += us;
    *sim_at(&r->us, end) += us;
    *sim_at(&r->mj, end) +=
        1e-6 * us * (sim_figure(q->profile, NPU_BASE_MW, end) + sim_figure(q->profile, NPU_CPU_MW, end));
}

int sim_cut_blocks(const struct sim_question *q, int part[SIM_OPS][SIM_UNITS], struct lutra_error *err)
{
    struct sim_question blocks = *q;
    struct layer *l = malloc(sizeof *l);
    struct solve_answer *a = malloc(sizeof *a);
    blocks.rows = SIM_PASS_ROWS, blocks.past = blocks.beside = 0, blocks.many = blocks.slow_sync = false;
    int rc = l && a ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a plan");
    if (!rc) build_layer(&blocks, SIM_MIDDLE, l), rc = solve(&l->problem, a, err);
    for (int i = 0; !rc && i < OP_HEAD; i++) memcpy(part[i], l->choices[i].item[a->choice[i]].part, sizeof part[i]);
    free(l), free(a);
    return rc;
}

/* One pass by one plan; adds to r. */
static int add_pass(const struct sim_question *q, struct layer *l, struct sim_result *r, struct lutra_error *err)
{
    struct solve_answer a;
    struct sim_question fast = *q;
    if (q->plan >= SIM_ONE) return sim_add_pieces(q, r, err);
    fast.slow_sync = false;
    if (q->plan == SIM_SOLVED && q->rows >= STAGE) fast.rows = SIM_PASS_ROWS; /* the same cuts for every length */
    build_layer(&fast, SIM_MIDDLE, l);
    TRY(solve(&l->problem, &a, err));
    a.choice[OP_HEAD] = 0;
    for (int end = 0; end < SIM_ENDS; end++) {
        build_layer(q, (enum sim_end)end, l);
        add_ops(q, l, a.choice, (enum sim_end)end, 0, OP_HEAD, q->shape->n_layer, r);
        if (q->n_out + q->beside) add_ops(q, l, a.choice, (enum sim_end)end, OP_HEAD, SIM_OPS, 1, r);
        if (q->plan == SIM_PREPARE && q->rows >= STAGE) add_prepare(q, (enum sim_end)end, r);
    }
    r->n_pass++;
    return 0;
}

int sim_pass_rows(const struct sim_question *q, int left)
{
    const bool chunked = q->plan == SIM_CHUNKED;
    return !q->many && left > (chunked ? SIM_CHUNK : SIM_LAST_ROWS) ? (chunked ? SIM_CHUNK : SIM_PASS_ROWS) : left;
}

/* A prompt by one plan: in passes where it is long. */
static int add_passes(const struct sim_question *q, struct layer *l, struct sim_result *out, struct lutra_error *err)
{
    struct sim_question part = *q;
    struct sim_result first = {0};
    *out = (struct sim_result){.plan = q->plan};
    for (int at = 0; at < q->rows; at += part.rows) {
        part.rows = sim_pass_rows(q, q->rows - at);
        part.past = q->past + (q->many ? 0 : at);
        part.n_out = at + part.rows == q->rows ? q->n_out : 0;
        TRY(add_pass(&part, l, out, err));
        if (at == 0) first = *out;
    }
    if (out->n_pass > 1) memcpy(out->op, first.op, sizeof first.op);
    return 0;
}

int sim_pass(const struct sim_question *q, struct sim_result *out, struct lutra_error *err)
{
    if (q->rows < 1 || q->rows > SIM_ROWS_MAX || q->past < 0 || q->past > SIM_ROWS_MAX || q->n_out < 0 ||
        q->n_out > q->rows || q->beside < 0 || q->beside > SIM_BESIDE_MAX)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "a pass of %d rows behind %d, %d of them to the head, beside %d",
            q->rows, q->past, q->n_out, q->beside);
    struct layer *l = malloc(sizeof *l);
    if (!l) return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a plan");
    int rc = 0;
    if (q->plan != SIM_FREE) rc = add_passes(q, l, out, err);
    for (int plan = SIM_FREE + 1; q->plan == SIM_FREE && !rc && plan < SIM_THREE; plan++) {
        struct sim_question one = *q;
        struct sim_result r;
        one.plan = (enum sim_plan)plan;
        rc = add_passes(&one, l, &r, err);
        if (!rc && (plan == SIM_FREE + 1 || r.us.middle < out->us.middle)) *out = r;
    }
    free(l);
    return rc;
}
