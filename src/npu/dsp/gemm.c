/* SPDX-License-Identifier: MIT
 *
 * The mixed-precision product on tiles as a pipeline over chunks of outputs [TTS 3.2, 5.1], [TMAN 4.2].  In phase p
 *
 *     DMA brings chunk p + 1 | vector threads make f16 tiles of chunk p - 1 and store the rows of chunk p - 4
 *     (p - 3 where TCM has no room for it to be so late) | the tile thread multiplies chunk p - 2
 *
 * and in phase 0 the rows become tiles.  Each thread has some units of a chunk's weights, which it fetches itself, and
 * some pairs of its rows, so that vector threads wait for the tile thread, a phase late, and not for each other.  A
 * chunk serves every block of rows that fits in TCM beside it; further rows are further passes.
 */
#include "npu/dsp/kernels.h"

/* Two rows of f32 to one vector of halves, interleaved as a tile wants them. */
ISA_INLINE vec interleave(struct isa *isa, vec even, vec odd)
{
    const vec zero = v_zero();
    (void)isa;
    return f16_of_q32(v_pair(q32_add(odd, zero), q32_add(even, zero)));
}

void npu_tiles_of_rows(struct isa *isa, uint8_t *restrict tiles, const uint8_t *restrict x, uint32_t stride, uint32_t m,
    uint32_t k, uint32_t n_tiles, uint32_t first, uint32_t last)
{
    for (uint32_t r = 0; r < (m + 31) / 32 * 32; r += 2) {
        uint8_t *to = tiles + (size_t)(r / 32) * n_tiles * TILE_BYTES + r % 32 / 2 * 128;
        const uint8_t *from = x + (size_t)r * stride;
        for (uint32_t t = first; r >= m && t < last; t++) v_store(to + t * TILE_BYTES, v_zero());
        for (uint32_t t = first; r < m && t < last; t++) {
            vec even = 32 * t < k ? v_load(from + 128 * t) : v_zero();
            vec odd = r + 1 < m && 32 * t < k ? v_load(from + stride + 128 * t) : v_zero();
            v_store(to + t * TILE_BYTES, interleave(isa, even, odd));
        }
    }
}

void npu_rows_of_tile(struct isa *isa, uint8_t *restrict y, uint32_t stride, const uint8_t *restrict tile,
    uint32_t first, uint32_t last, vec bias)
{
    const vec one = v_splat_h(0x3c00);
    for (uint32_t r = first; r < last; r += 2) {
        vec2 rows = q32_mul_f16(v_load(tile + r / 2 * 128), one);
        v_store(y + (size_t)r * stride, f32_of_q32(q32_add_q(v_lo(rows), bias)));
        if (r + 1 < last) v_store(y + (size_t)(r + 1) * stride, f32_of_q32(q32_add_q(v_hi(rows), bias)));
    }
    (void)isa;
}

/* All k of one tile of output. */
static void multiply(struct isa *isa, uint8_t *out, const uint8_t *act, const uint8_t *weight, uint32_t n_tiles)
{
    tile_clear();
    for (uint32_t t = 0; t < n_tiles; t += TILE_PAIRS_MAX) {
        uint32_t n = n_tiles - t < TILE_PAIRS_MAX ? n_tiles - t : TILE_PAIRS_MAX;
        tile_mac(act + t * TILE_BYTES, weight + t * TILE_BYTES, n);
    }
    tile_store(out);
    (void)isa;
}

/* One pass: rows of X, all outputs; what threads share. */
struct pass {
    const struct npu_op *op;
    const struct npu_weights *w;
    const struct npu_gemm_plan *plan;
    uint8_t *tcm, *y;
    const uint8_t *x;
    uint32_t m;
    struct npu_shares columns;            /* of X, 32 wide */
    struct npu_shares units[2], pairs[2]; /* of a chunk, and of the last one: units of weights, pairs of rows */
    uint32_t ticket[NPU_THREADS_MAX][NPU_LEAD_MAX + 2];
};

/* Constants to divide by: Hexagon has no other division. */
static uint32_t packed_at(const struct pass *p, uint32_t chunk)
{
    return p->plan->packed[p->plan->lead == 1 ? chunk % 3 : chunk % 4];
}

static uint32_t tiled_at(const struct pass *p, const uint32_t *ring, uint32_t chunk)
{
    return ring[p->plan->lead == 1 ? chunk % 2 : chunk % 3];
}

static uint32_t blocks_of(const struct pass *p, uint32_t chunk)
{
    uint32_t left = p->w->n_blocks - chunk * p->plan->chunk_blocks;
    return left < p->plan->chunk_blocks ? left : p->plan->chunk_blocks;
}

static struct npu_shares units_of(const struct pass *p, uint32_t chunk)
{
    return p->units[chunk + 1 == p->plan->n_chunks];
}

/* A thread's units of a chunk follow one another from block to block, in TCM and as tiles. */
struct part {
    uint32_t first, end;
};

static struct part part_of(const struct pass *p, uint32_t chunk, uint32_t thread)
{
    struct npu_shares units = units_of(p, chunk);
    return (struct part){npu_share_start(units, thread), npu_share_start(units, thread + 1)};
}

/* Those of them that are of block b of the chunk, counted from its first one; end 0: none. */
static struct part part_of_block(const struct pass *p, struct part all, uint32_t b)
{
    const uint32_t at = b * p->w->n_units, n = p->w->n_units;
    if (all.first >= at + n || all.end <= at) return (struct part){0, 0};
    return (struct part){all.first > at ? all.first - at : 0, all.end - at < n ? all.end - at : n};
}

/* Bit planes: a block's units lie a row of their panel apart. */
static uint32_t fetch_planes(struct isa *isa, const struct pass *p, uint32_t chunk, struct part all)
{
    const struct npu_weights *w = p->w;
    uint32_t ticket = 0, stride;
    for (uint32_t b = 0; b * w->n_units < all.end; b++) {
        struct part some = part_of_block(p, all, b);
        if (!some.end) continue;
        const uint8_t *from =
            isa_ptr(p->op->weights) + npu_planes_unit(w, some.first, chunk * p->plan->chunk_blocks / 4 + b, &stride);
        ticket = dma_start_2d(p->tcm + packed_at(p, chunk) + (size_t)(b * w->n_units + some.first) * w->unit_bytes,
            w->unit_bytes, from, stride, w->unit_bytes, some.end - some.first);
    }
    return ticket;
}

/* The thread's units of a chunk are on their way. */
static void fetch(struct isa *isa, struct pass *p, uint32_t chunk, uint32_t thread)
{
    if (chunk >= p->plan->n_chunks) return;
    const struct part units = part_of(p, chunk, thread);
    uint32_t *ticket = &p->ticket[thread][chunk % (NPU_LEAD_MAX + 2)], first = units.first * p->w->unit_bytes;
    const uint8_t *from = isa_ptr(p->op->weights) + (size_t)chunk * p->plan->chunk_blocks * p->w->block_bytes;
    if (p->w->panel)
        *ticket = fetch_planes(isa, p, chunk, units);
    else
        *ticket = units.end > units.first ? dma_start_1d(p->tcm + packed_at(p, chunk) + first, from + first,
                                                (units.end - units.first) * p->w->unit_bytes)
                                          : 0;
}

static void prepare_planes(struct isa *isa, const struct pass *p, uint32_t chunk, struct part all)
{
    const struct npu_weights *w = p->w;
    const uint32_t stride = w->k * 64;
    for (uint32_t b = 0; b * w->n_units < all.end; b++) {
        struct part some = part_of_block(p, all, b);
        if (!some.end) continue;
        npu_planes_dequant(isa, w,
            p->tcm + tiled_at(p, p->plan->tiles, chunk) + 4 * (size_t)b * stride + some.first * 4 * TILE_BYTES, stride,
            p->tcm + packed_at(p, chunk) + (size_t)(b * w->n_units + some.first) * w->unit_bytes, w->unit_bytes,
            some.end - some.first);
    }
}

/* The thread's units of a chunk to tiles. */
static void prepare(struct isa *isa, struct pass *p, uint32_t chunk, uint32_t thread)
{
    const struct part units = part_of(p, chunk, thread);
    if (units.end == units.first) return;
    dma_wait(p->ticket[thread][chunk % (NPU_LEAD_MAX + 2)]);
    if (p->w->kind == NPU_W_F16) return;
    if (p->w->panel)
        prepare_planes(isa, p, chunk, units);
    else
        npu_dequant(isa, p->w->kind,
            p->tcm + tiled_at(p, p->plan->tiles, chunk) + (size_t)units.first * p->w->unit_k * 64,
            p->tcm + packed_at(p, chunk) + (size_t)units.first * p->w->unit_bytes, units.end - units.first);
}

static void products(struct isa *isa, const struct pass *p, uint32_t chunk)
{
    uint32_t n_tiles = p->w->k / 32, rows = (p->m + 31) / 32;
    const uint8_t *weight =
        p->tcm + (p->w->kind == NPU_W_F16 ? packed_at(p, chunk) : tiled_at(p, p->plan->tiles, chunk));
    uint8_t *out = p->tcm + tiled_at(p, p->plan->out, chunk);
    for (uint32_t b = 0; b < blocks_of(p, chunk); b++, weight += (size_t)n_tiles * TILE_BYTES)
        for (uint32_t r = 0; r < rows; r++, out += TILE_BYTES)
            multiply(isa, out, p->tcm + p->plan->act + (size_t)r * n_tiles * TILE_BYTES, weight, n_tiles);
}

/* Rows first .. last - 1 of one block. */
static void store_block(
    struct isa *isa, const struct pass *p, uint32_t block, const uint8_t *tiles, uint32_t first, uint32_t last)
{
    const size_t stride = p->op->dst_stride;
    vec bias = p->op->bias ? v_load(isa_ptr(p->op->bias) + (size_t)block * 128) : v_zero();
    for (uint32_t end; first < last; first = end) {
        uint32_t r = first / 32;
        end = last < 32 * r + 32 ? last : 32 * r + 32;
        npu_rows_of_tile(isa, p->y + 32 * r * stride + (size_t)block * 128, p->op->dst_stride,
            tiles + (size_t)r * TILE_BYTES, first % 32, end - 32 * r, bias);
    }
}

/* The thread's pairs of a chunk's rows, counted from block to block. */
static void store(struct isa *isa, const struct pass *p, uint32_t chunk, uint32_t thread)
{
    struct npu_shares pairs = p->pairs[chunk + 1 == p->plan->n_chunks];
    uint32_t each = (p->m + 1) / 2, rows = (p->m + 31) / 32;
    uint32_t from = npu_share_start(pairs, thread), to = npu_share_start(pairs, thread + 1);
    for (uint32_t b = 0, at = 0; at < to; b++, at += each) {
        uint32_t first = from > at ? from - at : 0, last = to - at < each ? to - at : each;
        if (first >= last) continue;
        store_block(isa, p, chunk * p->plan->chunk_blocks + b,
            p->tcm + tiled_at(p, p->plan->out, chunk) + (size_t)b * rows * TILE_BYTES, 2 * first,
            2 * last < p->m ? 2 * last : p->m);
    }
}

/* The chunk to fetch in a phase after the first.  F16 tiles are read where DMA puts them, one phase longer than other
 * kinds.  The last chunk has shares of its own, and another thread may be two phases behind with the chunk whose place
 * it takes. */
static uint32_t next_of(const struct pass *p, uint32_t phase, uint32_t ahead)
{
    uint32_t last = p->plan->n_chunks - 1;
    if (phase - 1 + ahead < last) return phase - 1 + ahead;
    return phase == last && last >= ahead ? last : p->plan->n_chunks;
}

/* Chunks, counted from phase 1 on. */
static void work(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n)
{
    struct pass *p = user;
    const uint32_t end = p->plan->n_chunks, n_tiles = p->w->k / 32, ahead = p->w->kind == NPU_W_F16 ? 1 : 2;
    if (thread == n) {
        if (phase >= 2 && phase - 2 < end) products(isa, p, phase - 2);
        return;
    }
    if (!phase) {
        for (uint32_t i = 0; i < ahead; i++) fetch(isa, p, i, thread);
        npu_tiles_of_rows(isa, p->tcm + p->plan->act, p->x, p->op->src_stride, p->m, p->op->k, n_tiles,
            npu_share_start(p->columns, thread), npu_share_start(p->columns, thread + 1));
        return;
    }
    fetch(isa, p, next_of(p, phase, ahead), thread);
    if (phase - 1 < end) prepare(isa, p, phase - 1, thread);
    if (phase >= 2 + p->plan->lead) store(isa, p, phase - 2 - p->plan->lead, thread);
}

uint32_t npu_gemm(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct npu_weights w;
    struct npu_gemm_plan plan;
    uint32_t n = npu_machine_threads(machine);
    if (op->k % 32 || npu_weights_layout(op->kind, npu_weights_k(op->k), op->n, &w) || !op->m) return NPU_BAD_SHAPE;
    if (npu_gemm_plan_of(&w, op->m, op->param, machine->tcm_kept, machine->tcm_bytes, &plan)) return NPU_NO_ROOM;
    for (uint32_t i = 0; i < plan.n_passes; i++) {
        uint32_t first = i * plan.row_blocks * 32, left = op->m - first;
        struct pass p = {.op = op, .w = &w, .plan = &plan, .tcm = isa_ptr(machine->tcm_start)};
        p.y = isa_ptr(op->dst) + (size_t)first * op->dst_stride;
        p.x = isa_ptr(op->src) + (size_t)first * op->src_stride;
        p.m = left < plan.row_blocks * 32 ? left : plan.row_blocks * 32;
        p.columns = npu_shares(w.k / 32, n);
        for (uint32_t j = 0; j < 2; j++) {
            uint32_t blocks = blocks_of(&p, j ? plan.n_chunks - 1 : 0);
            p.units[j] = npu_shares((w.panel ? (blocks + 3) / 4 : blocks) * w.n_units, n);
            p.pairs[j] = npu_shares(blocks * ((p.m + 1) / 2), n);
        }
        isa_phases(n, plan.n_chunks + 2 + plan.lead, plan.lead, work, &p);
    }
    return NPU_OK;
}
