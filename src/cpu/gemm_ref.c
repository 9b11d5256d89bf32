/* SPDX-License-Identifier: MIT
 *
 * The reference in the form of weight kernels: the "packed" weight is the file's own bytes, the arithmetic is
 * ops/ref's (f32 activations, sums in double).  Every type with a reader works at every level through these.
 */
#include "cpu/kernels.h"

#include <string.h>

#include "base/compiler.h"
#include "ops/ref/ref.h"
#include "quant/quant.h"

enum { PANEL = 16, ROWS = 16 };

static size_t row_bytes(const struct cpu_gemm *g, size_t n_in)
{
    size_t bytes;
    return quant_row_bytes(g->type, (int64_t)n_in, &bytes) < 0 ? 0 : bytes;
}

static size_t size_ref(const struct cpu_gemm *g, size_t n_out, size_t n_in)
{
    size_t bytes;
    if (n_in > INT64_MAX / 2 || LUTRA_MUL_OVERFLOWS(row_bytes(g, n_in), n_out, &bytes) || bytes > SIZE_MAX - 63)
        return 0;
    return (bytes + 63) & ~(size_t)63;
}

static void pack_ref(
    const struct cpu_gemm *g, const void *src, size_t n_out, size_t n_in, size_t panel, size_t n_panel, void *dst)
{
    size_t stride = row_bytes(g, n_in), first = panel * PANEL, last = first + n_panel * PANEL;
    if (last > n_out) last = n_out;
    memcpy((uint8_t *)dst + first * stride, (const uint8_t *)src + first * stride, (last - first) * stride);
}

static size_t act_size_ref(size_t n_in, size_t n_row)
{
    return (n_in * n_row * sizeof(float) + 63) & ~(size_t)63;
}

static void act_row_ref(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    float *to = (float *)act + row * n_in;
    (void)n_row;
    if (row_max != 0)
        ref_round_row(x, (int64_t)n_in, to);
    else
        memcpy(to, x, n_in * sizeof *x);
}

static struct tensor borrow_row(const struct cpu_gemm *g, const void *packed, size_t n_in, size_t row)
{
    size_t stride = row_bytes(g, n_in);
    return (struct tensor){.type = g->type,
        .n_dim = 2,
        .ne = {(int64_t)n_in, 1, 1, 1},
        .data = (const uint8_t *)packed + row * stride,
        .bytes = stride};
}

static void run_ref(const struct cpu_gemm_args *a)
{
    size_t first = a->panel * PANEL, last = first + a->n_panel * PANEL;
    if (last > a->n_out) last = a->n_out;
    for (size_t o = first; o < last; o++) {
        struct tensor w = borrow_row(a->gemm, a->packed, a->n_in, o);
        for (size_t r0 = 0; r0 < a->n_row; r0 += ROWS) {
            float out[ROWS];
            size_t n = a->n_row - r0 < ROWS ? a->n_row - r0 : ROWS;
            ref_matmul(&w, a->bias ? a->bias + o : NULL, (const float *)a->act + r0 * a->n_in, out, (int)n);
            for (size_t r = 0; r < n; r++) a->out[(r0 + r) * a->out_stride + o - first] = out[r];
        }
    }
}

static void unpack_row_ref(
    const struct cpu_gemm *g, const void *packed, size_t n_out, size_t n_in, size_t row, float *dst)
{
    (void)n_out;
    struct tensor w = borrow_row(g, packed, n_in, row);
    ref_embed(&w, 0, 1.0f, dst);
}

void cpu_gemm_init_ref(struct cpu_kernels *out)
{
    for (uint32_t type = 0; type < QUANT_TYPE_END; type++) {
        const struct quant_info *q = quant_info_of(type);
        if (!q) continue;
        out->gemm[q->type] = (struct cpu_gemm){.name = "gemm_ref",
            .numerics = "ref",
            .layout = "rows.1",
            .type = q->type,
            .mr = PANEL,
            .kr = 1,
            .packed_bytes = size_ref,
            .pack = pack_ref,
            .act_bytes = act_size_ref,
            .act_row = act_row_ref,
            .run = run_ref,
            .unpack_row = unpack_row_ref};
    }
}
