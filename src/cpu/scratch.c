/* SPDX-License-Identifier: MIT
 *
 * The device's scratch for steps up to a size: one arena, laid out when a session opens, so that steps allocate
 * nothing.
 */
#include <string.h>

#include "cpu/device_impl.h"

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

static size_t weight_act(const struct cpu_device *d, const struct weight *w, size_t rows)
{
    uint32_t type = (uint32_t)w->tensor.type;
    if (type >= QUANT_TYPE_END || !d->kernels.gemm[type].run) return 0;
    return d->kernels.gemm[type].act_bytes((size_t)w->tensor.ne[0], rows);
}

static void measure(const struct cpu_device *d, const struct op_list *list, struct cpu_scratch *s, int n_thread)
{
    size_t rows = (size_t)s->max_rows;
    for (int i = 0; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        if (op->kind == OP_MATMUL) {
            for (int p = 0; p < op->matmul.n_part; p++) {
                s->act_bytes = larger(s->act_bytes, weight_act(d, op->matmul.part[p].weight, rows));
            }
        } else if (op->kind == OP_HEAD) {
            size_t n_out = (size_t)op->head.weight->tensor.ne[1];
            s->act_bytes = larger(s->act_bytes, weight_act(d, op->head.weight, HEAD_ROWS));
            s->n_part = larger(s->n_part, (n_out + HEAD_OUTPUTS - 1) / HEAD_OUTPUTS);
        } else if (op->kind == OP_ROPE) {
            s->rope_floats = larger(s->rope_floats, (size_t)op->rope.n_rot);
        } else if (op->kind == OP_ATTENTION) {
            s->attention_bytes =
                larger(s->attention_bytes, attention_scratch_bytes(&op->attention, s->max_rows, s->n_ctx, n_thread));
        }
    }
}

struct piece {
    void **at;
    size_t bytes;
    const char *what;
};

/* Reserves and hands out all pieces. */
static int take_pieces(struct cpu_scratch *s, const struct piece *piece, int n, struct lutra_error *err)
{
    size_t total = 0;
    for (int i = 0; i < n; i++) {
        if (LUTRA_ADD_OVERFLOWS(total, arena_cost(piece[i].bytes), &total)) {
            return lutra_fail(err, LUTRA_E_NO_MEMORY, "cpu: the scratch of a step is too large");
        }
    }
    TRY(arena_open(&s->memory, "cpu step scratch", total, ARENA_HUGE_PAGES, err));
    for (int i = 0; i < n; i++) {
        if (piece[i].bytes) TRY(arena_take(&s->memory, piece[i].bytes, piece[i].what, piece[i].at, err));
    }
    return 0;
}

static int lay_out(struct cpu_scratch *s, size_t n_thread, struct lutra_error *err)
{
    size_t head = product(n_thread, HEAD_ROWS) * (s->n_part > 0), rope = product((size_t)s->max_rows, s->rope_floats);
    size_t parts = product(s->n_part, HEAD_ROWS);
    struct piece piece[] = {{&s->act[0], s->act_bytes, "activations"}, {&s->act[1], s->act_bytes, "activations"},
        {&s->act[2], s->act_bytes, "activations"}, {&s->attention, s->attention_bytes, "attention"},
        {(void **)&s->rope[0], product(rope, sizeof(float)), "rotation"},
        {(void **)&s->rope[1], product(rope, sizeof(float)), "rotation"},
        {(void **)&s->rope[2], product(rope, sizeof(float)), "rotation"},
        {(void **)&s->rope[3], product(rope, sizeof(float)), "rotation"},
        {(void **)&s->logits, product(head, HEAD_OUTPUTS * sizeof(float)), "logits"},
        {(void **)&s->heap, product(head, sizeof *s->heap), "top entries"},
        {(void **)&s->part_max, product(parts, sizeof *s->part_max), "head"},
        {(void **)&s->part_sum, product(parts, sizeof *s->part_sum), "head"}};
    return take_pieces(s, piece, (int)(sizeof piece / sizeof *piece), err);
}

int cpu_device_reserve(
    struct device *self, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err)
{
    struct cpu_device *d = (struct cpu_device *)self;
    const struct cpu_scratch *old = &d->scratch;
    struct cpu_scratch s = {.max_rows = max_rows > old->max_rows ? max_rows : old->max_rows,
        .max_out = max_out > old->max_out ? max_out : old->max_out,
        .n_ctx = n_ctx > old->n_ctx ? n_ctx : old->n_ctx,
        .act_bytes = old->act_bytes,
        .attention_bytes = old->attention_bytes,
        .rope_floats = old->rope_floats,
        .n_part = old->n_part};
    measure(d, list, &s, pool_size(d->pool));
    int rc = lay_out(&s, (size_t)pool_size(d->pool), err);
    if (rc < 0) {
        arena_close(&s.memory);
        return rc;
    }
    arena_close(&d->scratch.memory);
    d->scratch = s;
    return 0;
}
