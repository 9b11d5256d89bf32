/* SPDX-License-Identifier: MIT
 *
 * What products by lookup share, whatever their tables hold: how inputs are spread to entries, and how tiles of weights
 * come to the function that adds them (lookup.c; bench/npu/vlut32.c is the other).
 */
#ifndef LUTRA_NPU_DSP_LOOKUP_IMPL_H
#define LUTRA_NPU_DSP_LOOKUP_IMPL_H

#include "npu/dsp/kernels.h"

static const uint32_t ramp[32] __attribute__((aligned(128))) = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

/* Controls of v_delta that spread input i of 4 tables, and where entries have it. */
struct spread {
    vec control[4], has[4];
};

ISA_INLINE struct spread spread(struct isa *isa)
{
    struct spread s;
    /* Byte b of a vector takes from b ^ control: words 0 .. 15 from word 2i, words 16 .. 31 from word 2i + 1. */
    vec word = v_const(ramp), high = v_lsr_uw(word, 4);
    vec at = v_xor(v_asl_w(word, 2), v_asl_w(high, 2));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        vec one = v_xor(at, v_splat_w(8 * i));
        one = v_or(one, v_asl_w(one, 8));
        s.control[i] = v_or(one, v_asl_w(one, 16));
        s.has[i] = v_sub_w(v_zero(), v_and(v_lsr_uw(word, i), v_splat_w(1)));
    }
    (void)isa;
    return s;
}

struct job {
    const struct npu_op *op;
    const struct npu_weights *w;
    const struct npu_lookup_plan *plan;
    struct npu_shares parts;
    uint8_t *tcm;
    uint32_t turns; /* of a tile: how often its sums go from one spill buffer to the other */
};

/* How far into a spill buffer a row's sums of the blocks from `first` on are. */
static inline uint32_t spill_of(const struct job *j, uint32_t row, uint32_t first)
{
    return 512 * (row * npu_planes_blocks(j->w) + first);
}

/* What the file that includes this has: adds tile t of n_blocks blocks from `first` on, one row, to that row's sums;
 * integers: room for two such rows of sums. */
static void tile(struct isa *isa, const struct job *j, const uint8_t *w, uint8_t *integers, uint32_t row, uint32_t t,
    uint32_t first, uint32_t n_blocks);

/* Sums of one row's blocks to where they belong, with the bias. */
static void finish(struct isa *isa, const struct job *j, uint32_t row, uint32_t first, uint32_t n_blocks)
{
    const uint32_t end = 4 * (first + n_blocks) < j->w->n_blocks ? 4 * (first + n_blocks) : j->w->n_blocks;
    const uint8_t *from = j->tcm + j->plan->spill[j->w->n_units * j->turns & 1] + spill_of(j, row, 0);
    uint8_t *y = isa_ptr(j->op->dst) + (size_t)row * j->op->dst_stride;
    for (uint32_t i = 4 * first; i < end; i++) {
        vec s = v_load(from + 128 * i);
        v_store(y + 128 * i, j->op->bias ? f32_add(s, v_load(isa_ptr(j->op->bias) + 128 * i)) : s);
    }
}

/* Blocks of one panel: tiles stream through a ring, two chunks on their way while one is used for all rows. */
static void stream(struct isa *isa, const struct job *j, uint8_t *area, uint32_t first, uint32_t n_blocks)
{
    const struct npu_weights *w = j->w;
    const uint32_t bytes = n_blocks * w->unit_bytes, n_tiles = w->n_units, each = npu_lookup_tiles(w, n_blocks);
    uint8_t *ring = area + 1024 * w->panel;
    uint32_t ticket[3] = {0, 0, 0}, stride;
    const uint8_t *from = isa_ptr(j->op->weights) + npu_planes_unit(w, 0, first, &stride);
    for (uint32_t r = 0; r < j->op->m; r++) {
        uint8_t *sums = j->tcm + j->plan->spill[0] + spill_of(j, r, first);
        for (uint32_t i = 0; i < 4 * n_blocks; i++) v_store(sums + 128 * i, v_zero());
    }
    for (uint32_t c = 0, next = 0, t = 0; t < n_tiles; c++, next += each) {
        if (c >= 2) dma_wait(ticket[(c - 2) % 3]);
        if (next < n_tiles)
            ticket[c % 3] = dma_start_2d(ring + c % 3 * NPU_LOOKUP_CHUNK, bytes, from + (size_t)next * stride, stride,
                bytes, n_tiles - next < each ? n_tiles - next : each);
        if (c < 2) continue;
        const uint8_t *at = ring + (c - 2) % 3 * NPU_LOOKUP_CHUNK;
        for (uint32_t end = n_tiles - t < each ? n_tiles : t + each; t < end; t++, at += bytes)
            for (uint32_t r = 0; r < j->op->m; r++) tile(isa, j, at, area, r, t, first, n_blocks);
    }
    for (uint32_t r = 0; r < j->op->m; r++) finish(isa, j, r, first, n_blocks);
}

/* A thread's blocks, panel after panel. */
static void share(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct job *j = user;
    uint32_t first = npu_share_start(j->parts, thread), end = npu_share_start(j->parts, thread + 1), panel = 0;
    (void)n;
    for (; first < end; panel += j->w->panel) {
        uint32_t last = end < panel + j->w->panel ? end : panel + j->w->panel;
        if (first >= last) continue;
        stream(isa, j, j->tcm + j->plan->threads + thread * j->plan->thread_bytes, first, last - first);
        first = last;
    }
}

/* Y = X W^T + bias: op, w and turns are set, the rest is found here.  0 or an npu_op_status. */
static uint32_t look_up(struct isa *isa, const struct npu_machine *machine, struct job *j)
{
    struct npu_lookup_plan plan;
    const uint32_t most = npu_machine_threads(machine), blocks = npu_planes_blocks(j->w),
                   n = most < blocks ? most : blocks;
    if (npu_lookup_plan(j->w, j->op->m, machine, &plan)) return NPU_NO_ROOM;
    j->plan = &plan;
    j->tcm = isa_ptr(machine->tcm_start);
    j->parts = npu_shares(blocks, n);
    isa_threads(n, share, j);
    return NPU_OK;
}

#endif
