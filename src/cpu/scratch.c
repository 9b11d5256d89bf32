/* SPDX-License-Identifier: MIT
 *
 * The device's scratch for passes up to a size: one arena, laid out when a session opens, so that passes allocate
 * nothing.
 */
#include "cpu/program_impl.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* A product of sizes; SIZE_MAX when it overflows, which no arena can hold. */
static size_t product(size_t a, size_t b)
{
    size_t bytes;
    return LUTRA_MUL_OVERFLOWS(a, b, &bytes) ? SIZE_MAX : bytes;
}

/* What the kernels of a weight need for up to `rows` rows.  Ordinary and bulk kernels may each receive all rows; every
 * contiguous run of rows is padded to 16. */
static void measure_weight(const struct cpu_device *d, const struct weight *w, size_t rows, struct cpu_scratch *s)
{
    uint32_t type = (uint32_t)w->tensor.type;
    size_t n_in = (size_t)w->tensor.ne[0];
    if (type >= QUANT_TYPE_END || !d->kernels.gemm[type].run) return;
    const struct cpu_gemm *g = &d->kernels.gemm[type], *bulk = &d->kernels.bulk[type];
    size_t act = g->act_bytes(n_in, rows);
    if (bulk->run) {
        act = larger(act, bulk->act_bytes(n_in, rows));
        act += product(STRETCHES, larger(g->act_bytes(n_in, 16), bulk->act_bytes(n_in, 16)));
        s->work_bytes = larger(s->work_bytes, bulk->work_bytes);
    }
    s->act_bytes = larger(s->act_bytes, act);
    s->work_bytes = larger(s->work_bytes, g->work_bytes);
}

/* Activations of every slot lie apart by expert, in runs of EXPERT_ROWS at most. */
static void measure_experts(const struct cpu_device *d, const struct op *op, size_t rows, struct cpu_scratch *s)
{
    const struct op_experts *e = &op->matmul.experts;
    size_t slots = product(rows, (size_t)e->n_used);
    for (int k = 0; k < op->n_weight; k++) {
        const struct tensor *t = &op->weight[k]->tensor;
        const struct cpu_gemm *g = &d->kernels.gemm[t->type];
        if ((uint32_t)t->type >= QUANT_TYPE_END || !g->run) continue;
        size_t runs = (size_t)e->n_expert + slots / EXPERT_ROWS;
        size_t act = g->act_bytes((size_t)t->ne[0], slots) + product(runs, g->act_bytes((size_t)t->ne[0], 16));
        s->act_bytes = larger(s->act_bytes, act);
        s->work_bytes = larger(s->work_bytes, g->work_bytes);
        if (op->weight[k]->n_packed < op->weight[k]->n_expert)
            s->panel_bytes = larger(s->panel_bytes, expert_cache_scratch(g, (size_t)t->ne[0]));
    }
    s->n_part = larger(s->n_part, 1);
    s->n_expert_rows = larger(s->n_expert_rows, slots + (size_t)e->n_expert + 1);
}

static void measure(const struct cpu_device *d, const struct op_list *list, struct cpu_scratch *s, int n_thread)
{
    size_t rows = (size_t)s->max_rows;
    for (int i = 0; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        if (op->kind == OP_EXPERTS) {
            measure_experts(d, op, rows, s);
            continue;
        }
        for (int k = 0; k < op->n_weight && op_info_of(op->kind)->use & WEIGHT_MATMUL; k++)
            measure_weight(d, op->weight[k], op->kind == OP_HEAD ? HEAD_ROWS : rows, s);
        if (op->kind == OP_HEAD && op->n_weight) {
            size_t n_out = (size_t)op->weight[0]->tensor.ne[1];
            s->n_part = larger(s->n_part, (size_t)head_units((int64_t)n_out));
        } else if (op->kind == OP_ROPE) {
            s->rope_floats = larger(s->rope_floats, (size_t)op->rope.n_rot);
        } else if (op->kind == OP_DELTA_NET) {
            s->delta_floats = larger(s->delta_floats, product(rows, (size_t)op->delta.d_k * DELTA_TILE));
        } else if (op->kind == OP_ATTENTION) {
            size_t bytes = attention_scratch_bytes(&op->attention, s->max_rows, s->n_ctx, n_thread);
            s->attention_bytes = larger(s->attention_bytes, bytes ? bytes : SIZE_MAX); /* 0: it overflows */
        }
    }
}

enum {
    ACT,
    ATTENTION = ACT + ACT_FORMS,
    ROPE,
    WORK = ROPE + ROPE_TABLES,
    LOGITS,
    HEAP,
    PARTS,
    EXPERTS,
    DELTA,
    PANELS,
    N_PIECE
};

/* Bytes of every piece. */
static void measure_pieces(const struct cpu_scratch *s, size_t n_thread, size_t bytes[N_PIECE])
{
    size_t head = product(n_thread, HEAD_ROWS) * (s->n_part > 0), parts = product(s->n_part, HEAD_ROWS);
    for (int i = 0; i < ACT_FORMS; i++) bytes[ACT + i] = s->act_bytes;
    bytes[ATTENTION] = s->attention_bytes;
    for (int i = 0; i < ROPE_TABLES; i++) {
        bytes[ROPE + i] = product(product((size_t)s->max_rows, s->rope_floats), sizeof(float));
    }
    bytes[WORK] = product(n_thread, s->work_bytes);
    bytes[LOGITS] = product(head, HEAD_OUTPUTS * sizeof(float));
    bytes[HEAP] = product(head, sizeof *s->heap);
    bytes[PARTS] = product(parts, sizeof *s->part);
    bytes[DELTA] = product(n_thread, product(s->delta_floats, sizeof *s->delta));
    bytes[PANELS] = product(n_thread, s->panel_bytes);
    bytes[EXPERTS] = product(n_thread, product(s->n_expert_rows, sizeof *s->expert_rows));
}

/* Reserves the pieces and hands them out. */
static int lay_out(struct cpu_scratch *s, size_t n_thread, struct lutra_error *err)
{
    size_t bytes[N_PIECE], total = 0;
    void *at[N_PIECE] = {NULL};
    measure_pieces(s, n_thread, bytes);
    for (int i = 0; i < N_PIECE; i++) {
        if (LUTRA_ADD_OVERFLOWS(total, arena_cost(bytes[i]), &total)) {
            return lutra_fail(err, LUTRA_E_NO_MEMORY, "cpu: the scratch of a pass is too large");
        }
    }
    TRY(arena_open(&s->memory, "cpu pass scratch", total, ARENA_HUGE_LATER, err));
    for (int i = 0; i < N_PIECE; i++) {
        if (bytes[i]) TRY(arena_take(&s->memory, bytes[i], "cpu pass scratch", &at[i], err));
    }
    for (int i = 0; i < ACT_FORMS; i++) s->act[i] = at[ACT + i];
    s->attention = at[ATTENTION];
    for (int i = 0; i < ROPE_TABLES; i++) s->rope[i] = at[ROPE + i];
    s->work = at[WORK];
    s->logits = at[LOGITS];
    s->heap = at[HEAP];
    s->part = at[PARTS];
    s->expert_rows = at[EXPERTS];
    s->delta = at[DELTA];
    s->panels = at[PANELS];
    return 0;
}

/* Whether it needs more than it has. */
static bool grows(const struct cpu_scratch *s, const struct cpu_scratch *old)
{
    return s->max_rows > old->max_rows || s->max_out > old->max_out || s->n_ctx > old->n_ctx ||
           s->act_bytes > old->act_bytes || s->attention_bytes > old->attention_bytes ||
           s->rope_floats > old->rope_floats || s->work_bytes > old->work_bytes || s->n_part > old->n_part ||
           s->n_expert_rows > old->n_expert_rows || s->delta_floats > old->delta_floats ||
           s->panel_bytes > old->panel_bytes;
}

int cpu_scratch_reserve(
    struct cpu_device *d, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err)
{
    const struct cpu_scratch *old = &d->scratch;
    struct cpu_scratch s = {.max_rows = max_rows > old->max_rows ? max_rows : old->max_rows,
        .max_out = max_out > old->max_out ? max_out : old->max_out,
        .n_ctx = n_ctx > old->n_ctx ? n_ctx : old->n_ctx,
        .act_bytes = old->act_bytes,
        .attention_bytes = old->attention_bytes,
        .rope_floats = old->rope_floats,
        .work_bytes = old->work_bytes,
        .n_part = old->n_part,
        .n_expert_rows = old->n_expert_rows,
        .delta_floats = old->delta_floats,
        .panel_bytes = old->panel_bytes};
    measure(d, list, &s, pool_size(d->pool));
    if (!grows(&s, old)) return 0;
    int rc = lay_out(&s, (size_t)pool_size(d->pool), err);
    if (rc < 0) {
        arena_close(&s.memory);
        return rc;
    }
    arena_close(&d->scratch.memory);
    d->scratch = s;
    return 0;
}
