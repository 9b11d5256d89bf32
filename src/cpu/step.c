/* SPDX-License-Identifier: MIT
 *
 * A segment of operations on all threads of the pool, in one pool_run.
 *
 * Two kinds of operation.  Row operations (norms, rope, gates, ...) give each thread the same rows every time, so a
 * chain of them needs no barrier.  Matmul, attention and head read what other threads wrote: they meet before, share
 * their work out in units, and meet after.  Who computes a unit never changes its bits.
 */
#include "cpu/device_impl.h"

#include <string.h>

#include "ops/ref/ref.h"
#include "quant/quant.h"

static void prepare_phase(const struct worker *w)
{
    struct run *r = w->run;
    unsigned next = (w->phase + 1) & 1;
    const atomic_bool *cancel = r->segment->step->cancel;
    if (w->ith != 0) return;
    r->phase[next].stop = cancel && atomic_load_explicit(cancel, memory_order_relaxed);
    atomic_store_explicit(&r->phase[next].next, 0, memory_order_relaxed);
}

static bool begin_phase(struct worker *w)
{
    w->phase++;
    w->pending = 0;
    return !w->run->phase[w->phase & 1].stop;
}

bool cpu_worker_meet(struct worker *w)
{
    prepare_phase(w);
    pool_barrier(w->run->device->pool);
    return begin_phase(w);
}

/* The same before operation i, whose shares are those of a new team.  False also for who has left it. */
static bool regroup(struct worker *w, int i)
{
    prepare_phase(w);
    return pool_regroup(w->run->device->pool, &w->ith, &w->nth, i * 2 + (int)((w->phase + 1) & 1)) && begin_phase(w);
}

size_t cpu_worker_next(struct worker *w)
{
    return atomic_fetch_add_explicit(&w->run->phase[w->phase & 1].next, 1, memory_order_relaxed);
}

void cpu_worker_share(const struct worker *w, int n, int *first, int *last)
{
    *first = (int)((int64_t)n * w->ith / w->nth);
    *last = (int)((int64_t)n * (w->ith + 1) / w->nth);
}

int cpu_value_rows(const struct segment *s, int value)
{
    return s->list->value[value].rows == ROWS_OUT ? s->step->n_out : s->step->batch->n_row;
}

float *cpu_value_row(const struct segment *s, int value, int row)
{
    return (float *)s->step->value[value].host + (size_t)row * (size_t)s->list->value[value].dim;
}

/* ---- row operations ---- */

static void embed_row(const struct worker *w, const struct op *op, int row)
{
    const struct segment *s = w->run->segment;
    const struct weight *weight = op->weight[0];
    const struct packed *p = weight->packed;
    float *out = cpu_value_row(s, op->out[0], row);
    int32_t token = s->step->batch->row[row].token;
    if (!p->gemm) {
        ref_embed(&weight->tensor, token, op->embed.scale, out);
        return;
    }
    p->gemm->unpack_row(p->gemm, p->data, p->n_out, p->n_in, (size_t)token, out);
    for (size_t i = 0; i < p->n_in; i++) out[i] *= op->embed.scale;
}

static void norm_row(const struct worker *w, const struct op *op, int row)
{
    const struct segment *s = w->run->segment;
    const float *x = cpu_value_row(s, op->in[0], row);
    float *out = cpu_value_row(s, op->out[0], row);
    int dim = s->list->value[op->in[0]].dim;
    const struct cpu_kernels *k = &w->run->device->kernels;
    size_t n = (size_t)op->norm.n_norm;
    for (int i = 0; i < dim; i += op->norm.n_norm) {
        if (op->kind == OP_LAYER_NORM)
            k->layer_norm(x + i, op->norm.weight, op->norm.bias, n, op->norm.eps, out + i);
        else
            k->rms_norm(x + i, op->norm.weight, n, op->norm.eps, out + i);
    }
}

bool cpu_rope_same_table(const struct op_rope *a, const struct op_rope *b)
{
    return a->n_rot == b->n_rot && a->freq_base == b->freq_base && a->freq_scale == b->freq_scale &&
           a->factors == b->factors && a->long_factors == b->long_factors && a->short_ctx == b->short_ctx &&
           a->magnitude == b->magnitude && a->growth == b->growth && a->growth_every == b->growth_every;
}

static void rope_row(const struct worker *w, const struct op *op, int row)
{
    const struct segment *s = w->run->segment;
    float *x = cpu_value_row(s, op->out[0], row);
    if (op->out[0] != op->in[0])
        memcpy(x, cpu_value_row(s, op->in[0], row), (size_t)s->list->value[op->in[0]].dim * sizeof *x);
    for (int i = 0; i < ROPE_TABLES; i++) {
        const struct rope_table *t = &w->run->rope[i];
        if (!t->params || !cpu_rope_same_table(t->params, &op->rope)) continue;
        w->run->device->kernels.rope(&op->rope, t->cs + (size_t)row * (size_t)op->rope.n_rot, x);
        return;
    }
}

static void store_vectors(const struct worker *w, const struct op *op, enum kv_side side, int value, int row)
{
    const struct segment *s = w->run->segment;
    const struct kv_view *kv = s->step->kv;
    const struct kv_layer *l = &kv->layer[op->layer];
    const float *x = cpu_value_row(s, value, row);
    for (int h = 0; h < l->n_kv_head; h++, x += l->d_head) {
        void *to = kv_slot_at(kv, op->layer, side, h, row);
        if (kv->type == QUANT_F16) {
            w->run->device->kernels.f32_to_f16(x, (size_t)l->d_head, to);
        } else {
            quant_info_of(kv->type)->quantize(x, to, (size_t)l->d_head);
        }
    }
}

cpu_pointwise *cpu_gate_of(const struct cpu_kernels *k, enum op_kind kind)
{
    switch (kind) {
    case OP_SWIGLU: return k->swiglu;
    case OP_GEGLU: return k->geglu;
    case OP_RELU2: return k->relu2;
    default: return NULL;
    }
}

static void pointwise_row(const struct worker *w, const struct op *op, int row)
{
    const struct segment *s = w->run->segment;
    const struct cpu_kernels *k = &w->run->device->kernels;
    cpu_pointwise *f = op->kind == OP_ADD ? k->add : cpu_gate_of(k, op->kind);
    f(cpu_value_row(s, op->in[0], row), cpu_value_row(s, op->in[1], row), (size_t)s->list->value[op->out[0]].dim,
        cpu_value_row(s, op->out[0], row));
}

void cpu_run_row(const struct worker *w, const struct op *op, int row)
{
    const struct segment *s = w->run->segment;
    switch (op->kind) {
    case OP_EMBED: embed_row(w, op, row); break;
    case OP_RMS_NORM:
    case OP_LAYER_NORM: norm_row(w, op, row); break;
    case OP_ROPE: rope_row(w, op, row); break;
    case OP_KV_APPEND:
        store_vectors(w, op, KV_K, op->in[0], row);
        store_vectors(w, op, KV_V, op->in[1], row);
        break;
    case OP_TAKE:
        memcpy(cpu_value_row(s, op->out[0], row), cpu_value_row(s, op->in[0], s->step->out_row[row]),
            (size_t)s->list->value[op->in[0]].dim * sizeof(float));
        break;
    case OP_GELU:
        w->run->device->kernels.gelu(
            cpu_value_row(s, op->in[0], row), (size_t)s->list->value[op->in[0]].dim, cpu_value_row(s, op->out[0], row));
        break;
    case OP_ADD_SCALED:
        w->run->device->kernels.add_scaled(cpu_value_row(s, op->in[0], row), cpu_value_row(s, op->in[1], row),
            op->add.scale, (size_t)s->list->value[op->out[0]].dim, cpu_value_row(s, op->out[0], row));
        break;
    default: pointwise_row(w, op, row); break;
    }
}

static bool run_rows(struct worker *w, const struct op *op)
{
    const struct segment *s = w->run->segment;
    int value = op->n_out ? op->out[0] : op->in[0], rows = 1 + (int)s->list->value[value].rows, first, last;
    bool crosses = op->kind == OP_TAKE ? w->pending == 1 : w->pending && w->pending != rows;
    if (crosses && !cpu_worker_meet(w)) return false;
    cpu_worker_share(w, cpu_value_rows(s, value), &first, &last);
    for (int r = first; r < last; r++) cpu_run_row(w, op, r);
    w->pending = rows;
    return true;
}

static size_t next_unit(void *worker)
{
    return cpu_worker_next(worker);
}

static bool run_attention(struct worker *w, const struct op *op)
{
    const struct segment *s = w->run->segment;
    struct cpu_device *d = w->run->device;
    if (w->pending && !cpu_worker_meet(w)) return false;
    struct attention_args a = {.op = &op->attention,
        .kv = s->step->kv,
        .layer = op->layer,
        .n_row = s->step->batch->n_row,
        .q = cpu_value_row(s, op->in[0], 0),
        .out = cpu_value_row(s, op->out[0], 0),
        .scratch = d->scratch.attention,
        .scratch_bytes = d->scratch.attention_bytes,
        .next = next_unit,
        .next_context = w};
    attention_run(&d->kernels.attention, &a, d->pool, w->ith, w->nth);
    return true;
}

/* Cosines and sines of this thread's rows, once per segment. */
static void fill_rope(const struct worker *w)
{
    const struct batch *b = w->run->segment->step->batch;
    int first, last;
    cpu_worker_share(w, b->n_row, &first, &last);
    for (int i = 0; i < ROPE_TABLES; i++) {
        const struct rope_table *t = &w->run->rope[i];
        if (!t->params) continue;
        struct op_rope rope = ref_rope_in(t->params, w->run->segment->step->n_ctx);
        for (int r = first; r < last; r++) ref_rope_table(&rope, b->row[r].pos, t->cs + (size_t)r * (size_t)rope.n_rot);
    }
}

/* Operation *i, or several from it on; then *i is the next.  False: cancelled, or this thread is out. */
static bool run_op(struct worker *w, int *i)
{
    const struct op *op = &w->run->segment->op[*i];
    bool going = true;
    if (cpu_run_gated(w, *i, &going)) {
        *i += 3;
    } else {
        ++*i;
        if (op_info_of(op->kind)->by_row) return run_rows(w, op);
        switch (op->kind) {
        case OP_ATTENTION: going = run_attention(w, op); break;
        case OP_HEAD: going = cpu_run_head(w, op); break;
        default: going = cpu_run_matmul(w, op); break;
        }
    }
    return going && regroup(w, *i);
}

void cpu_run_segment(void *arg, int ith, int nth)
{
    struct run *run = arg;
    int entry = pool_entry(run->device->pool, ith), i = entry / 2;
    struct worker w = {.run = run, .ith = ith, .nth = nth, .phase = (unsigned)entry % 2};
    bool going = entry == 0 || !run->phase[w.phase].stop;
    if (entry == 0) fill_rope(&w);
    while (going && i < run->segment->n_op) going = run_op(&w, &i);
    if (ith == 0 && !going) run->stopped = true;
}
