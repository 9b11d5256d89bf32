/* SPDX-License-Identifier: MIT
 *
 * A segment of a program on all threads of the pool, in one pool_run.
 *
 * Two kinds of operation.  Row operations (norms, rope, gates, ...) give each thread the same rows every time, so a
 * chain of them needs no barrier.  Matmul, attention and head read what other threads wrote: they meet before, share
 * their work out in units, and meet after.  Which thread computes a unit never changes its bits.
 */
#include "cpu/attention_heads.h"
#include "cpu/program_impl.h"

#include <math.h>
#include <string.h>

#include "ops/ref/ref.h"
#include "quant/quant.h"

/* ---- threads ---- */

static void prepare_phase(const struct worker *w)
{
    struct run *r = w->run;
    unsigned next = (w->phase + 1) & 1;
    const atomic_bool *cancel = r->segment->pass->cancel;
    if (w->ith != 0) return;
    r->phase[next].stop = cancel && atomic_load_explicit(cancel, memory_order_relaxed);
    atomic_store_explicit(&r->phase[next].next, 0, memory_order_relaxed);
}

static bool begin_phase(struct worker *w)
{
    w->phase++;
    return !w->run->phase[w->phase & 1].stop;
}

bool cpu_worker_meet(struct worker *w)
{
    prepare_phase(w);
    pool_barrier(w->run->device->pool);
    return begin_phase(w);
}

/* The row behind the first n of the segment's share. */
static int row_behind(const struct segment *s, int n)
{
    struct row_run r = {0};
    while (share_next_rows(s->pass, ROWS_ALL, s->share, &r) && n > r.n) n -= r.n;
    return r.n ? r.first + n : r.first;
}

/* Of a share's rows every thread has as many, and with them rows that are not the share's. */
static void share_rows(struct worker *w)
{
    const struct segment *s = w->run->segment;
    int first, last;
    for (int rows = ROWS_ALL; rows <= ROWS_OUT; rows++)
        cpu_worker_share(w, w->run->n_rows[rows], &w->share[rows].first, &w->share[rows].last);
    if (s->share.rows == SHARE_ALL_ROWS) return;
    cpu_worker_share(w, w->run->n_own, &first, &last);
    w->share[ROWS_ALL].first = row_behind(s, first), w->share[ROWS_ALL].last = row_behind(s, last);
}

/* This thread's rows of the segment's share that follow *r, which begins as none. */
static bool next_rows(const struct worker *w, enum value_rows rows, struct row_run *r)
{
    const struct segment *s = w->run->segment;
    const int end = w->share[rows].last;
    if (!r->n) r->first = w->share[rows].first;
    if (!share_next_rows(s->pass, rows, s->share, r) || r->first >= end) return false;
    if (r->first + r->n > end) r->n = end - r->first;
    return true;
}

/* The same before operation i, whose shares are those of a new team.  False also for who has left it. */
static bool regroup(struct worker *w, int i)
{
    int ith = w->ith, nth = w->nth;
    prepare_phase(w);
    if (!pool_regroup(w->run->device->pool, &w->ith, &w->nth, i * 2 + (int)((w->phase + 1) & 1))) return false;
    if (w->ith != ith || w->nth != nth) share_rows(w);
    return begin_phase(w);
}

size_t cpu_worker_next(struct worker *w)
{
    atomic_size_t *next = &w->run->phase[w->phase & 1].next;
    if (w->nth > 1) return atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
    size_t unit = atomic_load_explicit(next, memory_order_relaxed);
    atomic_store_explicit(next, unit + 1, memory_order_relaxed);
    return unit;
}

void cpu_worker_share(const struct worker *w, int n, int *first, int *last)
{
    *first = (int)((int64_t)n * w->ith / w->nth);
    *last = (int)((int64_t)n * (w->ith + 1) / w->nth);
}

/* ---- row operations ---- */

static int dim_of(const struct worker *w, int value)
{
    return w->run->segment->list->value[value].dim;
}

static void embed_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    const struct weight *weight = op->weight[0];
    const struct packed *p = cpu_packed_of(w->run->device, weight);
    float *out = cpu_value_row(w, op->out[0], row);
    int32_t index = ref_embed_index(op->embed.by, &w->run->segment->pass->batch->row[row]);
    if (!p->gemm) {
        ref_embed_part(&weight->tensor, index, op->embed.first, dim_of(w, op->out[0]), op->embed.scale, out);
        return;
    }
    p->gemm->unpack_row(p->gemm, p->data, p->n_out, p->n_in, (size_t)index, out);
    for (size_t i = 0; i < p->n_in; i++) out[i] *= op->embed.scale;
}

static void norm_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    const float *x = cpu_value_row(w, op->in[0], row);
    float *out = cpu_value_row(w, op->out[0], row);
    for (int64_t i = in->columns.first, end = i + in->columns.n; i < end; i += op->norm.n_norm)
        w->run->device->kernels.rms_norm(x + i, op->norm.weight, (size_t)op->norm.n_norm, op->norm.eps, out + i);
}

static void layer_norm_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    const float *x = cpu_value_row(w, op->in[0], row);
    float *out = cpu_value_row(w, op->out[0], row);
    for (int i = 0, dim = dim_of(w, op->in[0]); i < dim; i += op->norm.n_norm)
        w->run->device->kernels.layer_norm(
            x + i, op->norm.weight, op->norm.bias, (size_t)op->norm.n_norm, op->norm.eps, out + i);
}

static void rope_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    const float *table = w->run->device->scratch.rope[in->rope];
    float *x = cpu_value_row(w, op->out[0], row) + in->columns.first;
    const float *from = cpu_value_row(w, op->in[0], row) + in->columns.first;
    struct op_rope rope = op->rope;
    rope.n_head = (int)(in->columns.n / rope.d_head);
    if (x != from) memcpy(x, from, (size_t)in->columns.n * sizeof *x);
    w->run->device->kernels.rope(&rope, table + (size_t)row * (size_t)op->rope.n_rot, x);
}

static void store_vectors(const struct worker *w, const struct instr *in, enum kv_side side, int row)
{
    const struct op *op = in->op;
    const struct kv_view *kv = w->run->segment->pass->kv;
    const struct kv_layer *l = &kv->layer[op->layer];
    const float *x = cpu_value_row(w, op->in[side], row) + in->columns.first;
    int first = (int)(in->columns.first / l->d_head), end = first + (int)(in->columns.n / l->d_head);
    for (int h = first; h < end; h++, x += l->d_head) {
        void *to = kv_slot_at(kv, op->layer, side, h, row);
        if (kv->type[side] == QUANT_F16) {
            w->run->device->kernels.f32_to_f16(x, (size_t)l->d_head, to);
        } else {
            kv_round(kv->type[side], x, to, l->d_head);
        }
    }
}

static void append_row(const struct worker *w, const struct instr *in, int row)
{
    store_vectors(w, in, KV_K, row);
    store_vectors(w, in, KV_V, row);
}

static void take_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    memcpy(cpu_value_row(w, op->out[0], row), cpu_value_row(w, op->in[0], w->run->segment->pass->out_row[row]),
        (size_t)dim_of(w, op->in[0]) * sizeof(float));
}

static void permute_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    ref_permute(
        cpu_value_row(w, op->in[0], row), op->permute.order, cpu_value_row(w, op->out[0], row), dim_of(w, op->out[0]));
}

static void pointwise_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    int64_t first = in->columns.first;
    in->pointwise(cpu_value_row(w, op->in[0], row) + first, cpu_value_row(w, op->in[1], row) + first,
        (size_t)in->columns.n, cpu_value_row(w, op->out[0], row) + first);
}

/* One gate for a whole row is one factor; otherwise each element has its own. */
static void gate_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    const float *gate = cpu_value_row(w, op->in[0], row);
    if (dim_of(w, op->in[0]) > 1) {
        pointwise_row(w, in, row);
        return;
    }
    ref_scale(cpu_value_row(w, op->in[1], row), (float)(1 / (1 + exp(-(double)*gate))),
        cpu_value_row(w, op->out[0], row), dim_of(w, op->out[0]));
}

static void gelu_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    w->run->device->kernels.gelu(
        cpu_value_row(w, op->in[0], row), (size_t)dim_of(w, op->out[0]), cpu_value_row(w, op->out[0], row));
}

static void gelu_erf_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    w->run->device->kernels.gelu_erf(
        cpu_value_row(w, op->in[0], row), (size_t)dim_of(w, op->out[0]), cpu_value_row(w, op->out[0], row));
}

static void scale_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    ref_scale(cpu_value_row(w, op->in[0], row), op->scale.by, cpu_value_row(w, op->out[0], row), dim_of(w, op->out[0]));
}

static void add_scaled_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    w->run->device->kernels.add_scaled(cpu_value_row(w, op->in[0], row), cpu_value_row(w, op->in[1], row),
        op->add.scale, (size_t)dim_of(w, op->out[0]), cpu_value_row(w, op->out[0], row));
}

static void route_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    ref_route(&op->route, cpu_value_row(w, op->in[0], row), cpu_value_row(w, op->out[0], row));
}

/* Slots are added in ascending order. */
static void combine_row(const struct worker *w, const struct instr *in, int row)
{
    const struct op *op = in->op;
    const float *x = cpu_value_row(w, op->in[0], row), *weight = cpu_value_row(w, op->in[1], row) + op->combine.n_used;
    float *out = cpu_value_row(w, op->out[0], row);
    size_t n = (size_t)dim_of(w, op->out[0]);
    memset(out, 0, n * sizeof *out);
    for (int j = 0; j < op->combine.n_used; j++, x += n) w->run->device->kernels.add_scaled(out, x, weight[j], n, out);
}

static void run_rows(const struct worker *w, const struct instr *in)
{
    for (struct row_run own = {0}; next_rows(w, in->rows, &own);)
        for (int r = own.first; r < own.first + own.n; r++) in->row(w, in, r);
}

/* ---- attention ---- */

static size_t next_unit(void *worker)
{
    return cpu_worker_next(worker);
}

static bool run_attention(struct worker *w, const struct instr *in)
{
    const struct op *op = in->op;
    const struct pass_args *pass = w->run->segment->pass;
    struct cpu_device *d = w->run->device;
    const int64_t kv_columns = (int64_t)op->attention.n_head / op->attention.n_kv_head * op->attention.d_head;
    struct attention_args a = {.op = &op->attention,
        .kv = pass->kv,
        .layer = op->layer,
        .n_row = pass->batch->n_row,
        .q = cpu_value_row(w, op->in[0], 0),
        .out = cpu_value_row(w, op->out[0], 0),
        .scratch = d->scratch.attention,
        .scratch_bytes = d->scratch.attention_bytes,
        .next = next_unit,
        .next_context = w};
    attention_run_heads(&d->kernels.attention, &a, (int)(in->columns.first / kv_columns),
        (int)(in->columns.n / kv_columns), d->pool, w->ith, w->nth);
    return true;
}

/* ---- a segment ---- */

void cpu_run_bind(struct instr *in)
{
    in->row = NULL;
    in->run = NULL;
    switch (in->op->kind) {
    case OP_EMBED: in->row = embed_row; break;
    case OP_RMS_NORM: in->row = norm_row; break;
    case OP_LAYER_NORM: in->row = layer_norm_row; break;
    case OP_GELU: in->row = gelu_row; break;
    case OP_GELU_ERF: in->row = gelu_erf_row; break;
    case OP_SCALE: in->row = scale_row; break;
    case OP_ADD_SCALED: in->row = add_scaled_row; break;
    case OP_ROPE: in->row = rope_row; break;
    case OP_KV_APPEND: in->row = append_row; break;
    case OP_TAKE: in->row = take_row; break;
    case OP_PERMUTE: in->row = permute_row; break;
    case OP_ATTENTION: in->run = run_attention; break;
    case OP_HEAD: in->run = cpu_run_head; break;
    case OP_MATMUL: in->run = cpu_run_matmul; break;
    case OP_EXPERTS: in->run = cpu_run_experts; break;
    case OP_ROUTE: in->row = route_row; break;
    case OP_COMBINE: in->row = combine_row; break;
    case OP_GATE: in->row = gate_row; break;
    case OP_CONV: in->run = cpu_run_conv; break;
    case OP_DELTA_NET: in->run = cpu_run_delta; break;
    default: in->row = pointwise_row; break;
    }
}

/* Cosines and sines of this thread's rows, once per segment. */
static void fill_rope(const struct worker *w)
{
    const struct run *run = w->run;
    const struct pass_args *pass = run->segment->pass;
    const struct program *p = run->program;
    for (int i = 0; i < ROPE_TABLES; i++) {
        if (!(run->span->ropes >> i & 1)) continue;
        struct op_rope rope = ref_rope_in(p->rope[i].params, pass->n_ctx);
        for (struct row_run own = {0}; next_rows(w, ROWS_ALL, &own);)
            for (int r = own.first; r < own.first + own.n; r++)
                ref_rope_turns(&rope, p->rope[i].power, pass->batch->row[r].pos,
                    run->device->scratch.rope[i] + (size_t)r * (size_t)rope.n_rot);
    }
}

/* Instruction *i, or several from it on; then *i is the next.  False: cancelled, or this thread is out. */
static bool run_instr(struct worker *w, int *i)
{
    const struct instr *in = &w->run->span->instr[*i];
    bool going = true;
    if (in->meets && *i > 0 && !cpu_worker_meet(w)) return false;
    if (in->row) {
        run_rows(w, in);
        ++*i;
        return true;
    }
    const int times = in->op->kind == OP_MATMUL ? w->run->device->repeat : 1;
    int n_op = 1;
    for (int k = 0; k < times && going; k++) {
        if (k > 0 && !cpu_worker_meet(w)) return false;
        if (*i + 2 < w->run->segment->n_op && cpu_run_gated(w, in, &going))
            n_op = 3;
        else
            going = in->run(w, in);
    }
    *i += n_op;
    return going && regroup(w, *i);
}

void cpu_run_segment(void *arg, int ith, int nth)
{
    struct run *run = arg;
    int entry = pool_entry(run->device->pool, ith), i = entry / 2;
    struct worker w = {.run = run, .ith = ith, .nth = nth, .phase = (unsigned)entry % 2};
    bool going = entry == 0 || !run->phase[w.phase].stop;
    share_rows(&w);
    if (entry == 0) fill_rope(&w);
    while (going && i < run->segment->n_op) going = run_instr(&w, &i);
    if (ith == 0 && !going) run->stopped = true;
}
