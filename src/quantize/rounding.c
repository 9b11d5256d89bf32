/* SPDX-License-Identifier: MIT */
#include "quantize/rounding.h"

#include <stdatomic.h>
#include <stdlib.h>

struct run {
    const struct rounding *r;
    const struct quant_kernels *kernels;
    atomic_int next;
    atomic_bool no_memory, not_finite;
};

size_t rounding_row_bytes(const struct tensor *t, enum quant_type type)
{
    const struct quant_info *q = quant_info_of(type);
    return (size_t)t->ne[0] / q->block_elems * q->block_bytes;
}

static int rows_of(const struct tensor *t)
{
    return (int)(t->ne[1] * t->ne[2] * t->ne[3]);
}

static void round_row(const struct run *run, float *x, uint8_t *out)
{
    const struct rounding *r = run->r;
    size_t n = (size_t)r->t->ne[0];
    if (r->group.bits)
        quant_group_row(run->kernels, &r->group, r->weight, x, (int)n, out);
    else if (r->weight && quant_has_weighted(r->type))
        quant_weighted(run->kernels, r->type, x, r->weight, out, n);
    else
        quant_plain(r->type)(x, out, n);
}

static void round_some(struct run *run, int first, float *x, float *scratch)
{
    const struct rounding *r = run->r;
    const struct quant_info *from = quant_info_of(r->t->type);
    size_t n_in = (size_t)r->t->ne[0], from_bytes = rounding_row_bytes(r->t, r->t->type),
           to_bytes = rounding_row_bytes(r->t, r->type);
    int n = rows_of(r->t) - first < QUANT_GPTQ_ROWS ? rows_of(r->t) - first : QUANT_GPTQ_ROWS;
    uint8_t *out = r->out + (size_t)first * to_bytes;
    from->dequantize((const uint8_t *)r->t->data + (size_t)first * from_bytes, x, (size_t)n * n_in);
    if (!quant_all_finite(x, (size_t)n * n_in)) run->not_finite = true;
    if (r->gptq) quant_gptq_rows(r->gptq, r->type, r->group.bits ? &r->group : NULL, x, n, scratch, out, to_bytes);
    for (int i = 0; i < n && !r->gptq; i++) round_row(run, x + (size_t)i * n_in, out + (size_t)i * to_bytes);
}

static void round_rows(void *arg, int ith, int nth)
{
    struct run *run = arg;
    size_t n_in = (size_t)run->r->t->ne[0];
    (void)ith, (void)nth;
    float *x = malloc((QUANT_GPTQ_ROWS + QUANT_GPTQ_SCRATCH) * n_in * sizeof *x);
    if (!x) run->no_memory = true;
    for (int i; x && (i = atomic_fetch_add(&run->next, QUANT_GPTQ_ROWS)) < rows_of(run->r->t);)
        round_some(run, i, x, x + QUANT_GPTQ_ROWS * n_in);
    free(x);
}

int rounding_run(struct pool *pool, const struct rounding *r, struct lutra_error *err)
{
    struct run run = {.r = r, .kernels = quant_kernels()};
    pool_run(pool, round_rows, &run);
    if (run.no_memory) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: tensor '%s': no memory", r->path, r->t->name);
    if (!run.not_finite) return 0;
    return lutra_fail(
        err, LUTRA_E_FORMAT, "%s: tensor '%s' holds a value that is NaN or infinite", r->path, r->t->name);
}
