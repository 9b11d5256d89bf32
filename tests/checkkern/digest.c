/* SPDX-License-Identifier: MIT
 *
 * One line per weight type: its numerics class and a hash of what its best kernel computes on fixed numbers; of ternary
 * types another of class i8row.  Kernels of one class give the same bits on every processor, so the lines of two machines must be equal (tests/arm compares
 * them).  The numbers are made without libm, whose results differ in the last place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkkern.h"
#include "cpu/layout.h"
#include "quant/quant.h"

enum { N_OUT = 37, N_IN = 768, N_ROW = 13 };

static float number(uint64_t *state)
{
    float x = (float)(random_unit(state) * 2 - 1);
    return random_u64(state) % 61 == 0 ? 50 * x : x;
}

static uint64_t hash_of(const uint8_t *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint64_t digest(const struct cpu_gemm *g, bool i8row)
{
    const struct quant_info *q = quant_info_of(g->type);
    size_t row_bytes = N_IN / q->block_elems * q->block_bytes;
    uint64_t state = 1 + (uint64_t)g->type;
    float x[N_IN];
    uint8_t *src = malloc(N_OUT * row_bytes);
    struct guarded packed = guard(g->packed_bytes(g, N_OUT, N_IN), 0), act = guard(g->act_bytes(N_IN, N_ROW), 0);
    struct guarded out = guard(N_ROW * N_OUT * sizeof(float), 0);
    if (!src) exit(2);
    for (size_t o = 0; o < N_OUT; o++) {
        for (int i = 0; i < N_IN; i++) x[i] = number(&state);
        if (q->quantize) q->quantize(x, src + o * row_bytes, N_IN);
        if (!q->quantize) quant_random_blocks(q, o, 1, src + o * row_bytes, N_IN);
    }
    g->pack(g, src, N_OUT, N_IN, 0, (N_OUT + (size_t)g->mr - 1) / (size_t)g->mr, packed.data);
    for (size_t r = 0; r < N_ROW; r++) {
        for (int i = 0; i < N_IN; i++) x[i] = number(&state);
        g->act_row(x, N_IN, r, N_ROW, i8row ? cpu_row_max(x, N_IN) : 0, act.data);
    }
    struct cpu_gemm_args a = {.gemm = g,
        .packed = packed.data,
        .act = act.data,
        .out = (float *)(void *)out.data,
        .out_stride = N_OUT,
        .n_out = N_OUT,
        .n_in = N_IN,
        .n_panel = (N_OUT + (size_t)g->mr - 1) / (size_t)g->mr,
        .n_row = N_ROW};
    g->run(&a);
    uint64_t h = hash_of(out.data, out.bytes);
    unguard(&packed);
    unguard(&act);
    unguard(&out);
    free(src);
    return h;
}

void print_digests(const struct cpu_kernels *k)
{
    for (int i = 0; i < QUANT_TYPE_END; i++) {
        const struct cpu_gemm *g = &k->gemm[i];
        if (!g->run) continue;
        const char *name = quant_info_of(g->type)->name;
        printf("%s %s %016llx\n", name, g->numerics, (unsigned long long)digest(g, false));
        if (g->type == QUANT_TQ1_0 || g->type == QUANT_TQ2_0 || g->type == QUANT_Q2_0)
            printf("%s i8row %016llx\n", name, (unsigned long long)digest(g, true));
    }
}
