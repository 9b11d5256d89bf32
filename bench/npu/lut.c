/* SPDX-License-Identifier: MIT
 *
 * Product of one row with bit planes by table lookup [TMAN 4.1, 4.3, 5]: 32 tables of 4 inputs in 8 registers, sums of
 * a group as integers (inner tile), f32 accumulators in TCM between tiles of 128 inputs (outer tile, spill buffer).
 *
 * A vector of indices (8 k of 128 outputs, one plane) takes 1 load, 1 shift, 2 lookups, 2 widening sums.
 */
#include "ablation.h"
#include "bitplane.h"
#include "npu/dsp/vmath.h"

static const uint32_t ramp[32] __attribute__((aligned(128))) = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

/* What a tile of activations needs: controls of v_delta that spread input i of 4 tables, and where entries have it. */
struct spread {
    vec control[4], has[4];
};

ISA_INLINE struct spread spread(struct isa *isa)
{
    struct spread s;
    /* Byte b of a vector takes from b ^ control: words 0 .. 15 from word i, words 16 .. 31 from word 4 + i. */
    vec word = v_const(ramp), high = v_lsr_uw(word, 4);
    vec at = v_xor(v_asl_w(word, 2), v_asl_w(high, 4));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        vec one = v_xor(at, v_splat_w(4 * i));
        one = v_or(one, v_asl_w(one, 8));
        s.control[i] = v_or(one, v_asl_w(one, 16));
        s.has[i] = v_sub_w(v_zero(), v_and(v_lsr_uw(word, i), v_splat_w(1)));
    }
    (void)isa;
    return s;
}

/* 4 tables from words i, 4 + i of codes, each of two inputs 8 apart as halves. */
ISA_INLINE vec tables_of(struct isa *isa, const struct spread *s, vec pairs, vec flip)
{
    vec t = v_and(v_delta(pairs, v_xor(s->control[0], flip)), s->has[0]);
#pragma GCC unroll 3
    for (int i = 1; i < 4; i++) t = v_add_h(t, v_and(v_delta(pairs, v_xor(s->control[i], flip)), s->has[i]));
    (void)isa;
    return t;
}

/* x: 128 inputs, n of them there. */
static void table_tile(struct isa *isa, uint8_t *restrict tables, uint8_t *restrict side, const uint8_t *restrict x,
    uint32_t n, const struct spread *s)
{
    const vec magnitude = v_splat_w(0x7fffffff), magic = v_splat_w(0x4b400000), word = v_const(ramp);
    vec most = v_zero(), sums = v_zero(), two = v_zero(), all = v_zero();
    for (uint32_t i = 0; i < n; i += 32) most = v_max_w(most, v_and(v_load(x + 4 * i), magnitude));
#pragma GCC unroll 5
    for (int r = 64; r >= 4; r >>= 1) most = v_max_w(most, v_ror(most, r));
    vmask some = v_gt_w(most, v_splat_w(27 << 23)); /* below 2^-100 everything is 0 */
    vec inverse = v_mux(some, f32_mul(v_reciprocal(isa, most), v_splat_w(0x45fff800)), v_zero()); /* 8191 */
    vec scale = v_mux(some, f32_mul(most, v_splat_w(0x39000400)), v_zero());                      /* 1/8191 */
    for (uint32_t i = 0; i < BITPLANE_K / 32; i++, tables += 256) {
        vec c = v_zero();
        if (32 * i < n) c = v_sub_w(f32_add(f32_mul(v_load(x + 128 * i), inverse), magic), magic);
        vec pairs = v_or(v_and(c, v_splat_w(0xffff)), v_asl_w(v_ror(c, 32), 16));
        v_store(tables, tables_of(isa, s, pairs, v_zero()));
        v_store(tables + 128, tables_of(isa, s, pairs, v_splat_b(64)));
#pragma GCC unroll 5
        for (int r = 64; r >= 4; r >>= 1) c = v_add_w(c, v_ror(c, r));
        two = i % 2 ? v_add_w(two, c) : c;
        all = v_add_w(all, c);
        sums = v_mux(v_eq_w(word, v_splat_w((int32_t)i)), c, sums);
        if (i % 2) sums = v_mux(v_eq_w(word, v_splat_w((int32_t)(4 + i / 2))), two, sums);
    }
    sums = v_mux(v_eq_w(word, v_splat_w(6)), all, sums);
    v_store(side, v_mux(v_eq_w(word, v_splat_w(7)), scale, f32_of_i32(sums)));
}

uint32_t ablation_tables(struct isa *isa, const struct npu_op *op)
{
    const struct spread s = spread(isa);
    uint32_t n_tiles = (op->k + BITPLANE_K - 1) / BITPLANE_K;
    uint8_t *dst = isa_ptr(op->dst);
    const uint8_t *x = isa_ptr(op->src);
    if (!op->k || op->k % 32) return NPU_BAD_SHAPE;
    if (op->flags & NPU_FROM_HOST) cache_invalidate(x, 4 * op->k);
    for (uint32_t t = 0, k = 0; t < n_tiles; t++, k += BITPLANE_K)
        table_tile(isa, dst + t * LUT_TILE, dst + lut_side(n_tiles) + t * 128, x + 4 * k,
            op->k - k < BITPLANE_K ? op->k - k : BITPLANE_K, &s);
    if (op->flags & NPU_TO_HOST) cache_flush(dst, lut_bytes(n_tiles));
    return NPU_OK;
}

/* What a step does with the integer sums before it. */
enum before { NONE, KEPT, DOUBLED };

/* One plane of 8 n_vectors inputs added to the integer sums of n_blocks blocks, 4 vectors each.  Blocks are the inner
 * loop and sums are in TCM, since compilers pipeline a loop that is short and runs often: with 16 registers of tables
 * and sums in registers (one block at a time) clang needed 1.1 to 1.3 times as many packets. */
ISA_INLINE void step(struct isa *isa, const enum before before, const uint32_t n_vectors, uint8_t *restrict to,
    const uint8_t *restrict from, const uint8_t *restrict w, uint32_t stride, const uint8_t *restrict tables,
    uint32_t n_blocks)
{
    vec table[4];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < n_vectors / 2; i++) table[i] = v_load(tables + 128 * i);
    for (; n_blocks; n_blocks--, w += stride, from += 512, to += 512) {
        vec s[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            s[v] = before == NONE ? v_zero() : v_load(from + 128 * v);
            if (before == DOUBLED) s[v] = v_add_w(s[v], s[v]);
        }
        vec2 low = v_pair(s[1], s[0]), high = v_pair(s[3], s[2]);
#pragma GCC unroll 8
        for (uint32_t j = 0; j < n_vectors; j++) {
            vec x = v_load(w + 128 * j);
            vec2 p = v_lut16(x, table[j / 2], (int)(2 * j % 4));
            /* Two of three shifts are products: the shifter is what lookups wait for. */
            vec2 q = v_lut16(j % 3 ? v_mpyf_rh(x, 1 << 11) : v_lsr_ub(x, 4), table[j / 2], (int)(2 * j % 4 + 1));
            low = v_addacc_h(low, v_lo(p), v_lo(q));
            high = v_addacc_h(high, v_hi(p), v_hi(q));
        }
        v_store(to, v_lo(low)), v_store(to + 128, v_hi(low));
        v_store(to + 256, v_lo(high)), v_store(to + 384, v_hi(high));
    }
    (void)isa;
}

/* A call of its own: inlined into the loop over planes, clang 19 lets a step's loads pass the stores of the one before
 * it, which are another `restrict`'s. */
__attribute__((noinline)) static void step_of_kind(struct isa *isa, enum before before, uint32_t n_vectors,
    uint8_t *restrict to, const uint8_t *restrict from, const uint8_t *restrict w, uint32_t stride,
    const uint8_t *restrict tables, uint32_t n)
{
    switch (2 * before + n_vectors / 8) {
    case 2 * NONE: step(isa, NONE, 4, to, from, w, stride, tables, n); break;
    case 2 * NONE + 1: step(isa, NONE, 8, to, from, w, stride, tables, n); break;
    case 2 * DOUBLED: step(isa, DOUBLED, 4, to, from, w, stride, tables, n); break;
    case 2 * DOUBLED + 1: step(isa, DOUBLED, 8, to, from, w, stride, tables, n); break;
    default: step(isa, KEPT, 8, to, from, w, stride, tables, n); break;
    }
}

/* to = from + sums x scales (+ minima x inputs) of one group of n_blocks blocks; everything of the group is multiplied
 * by the activations' scale first. */
ISA_INLINE void weigh(struct isa *isa, const uint32_t minima, uint8_t *restrict to, const uint8_t *restrict from,
    const uint8_t *restrict sums, const uint8_t *restrict scales, uint32_t stride, vec scale, vec inputs, uint32_t n)
{
    const vec one = v_splat_h(0x3c00);
    for (; n; n--, to += 512, from += 512, sums += 512, scales += stride)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            vec2 d = q32_mul_f16(v_load(scales + 128 * h), one), m = d;
            if (minima) m = q32_mul_f16(v_load(scales + 256 + 128 * h), one);
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                uint32_t at = 256 * (uint32_t)h + 128 * (uint32_t)v;
                vec y = q32_mul_qq(q32_mul(f32_of_i32(v_load(sums + at)), scale), v ? v_hi(d) : v_lo(d));
                if (minima) y = q32_add_qq(y, q32_mul_qq(v ? v_hi(m) : v_lo(m), inputs));
                v_store(to + at, f32_of_q32(q32_add_q(y, v_load(from + at))));
            }
        }
    (void)isa;
}

__attribute__((noinline)) static void weigh_of_kind(struct isa *isa, uint32_t minima, uint8_t *restrict to,
    const uint8_t *restrict from, const uint8_t *restrict sums, const uint8_t *restrict scales, uint32_t stride,
    vec scale, vec inputs, uint32_t n)
{
    if (minima)
        weigh(isa, 1, to, from, sums, scales, stride, scale, inputs, n);
    else
        weigh(isa, 0, to, from, sums, scales, stride, scale, inputs, n);
}

/* Where a thread works: f32 sums so far and those to be, integer sums, all of n_blocks blocks. */
struct place {
    uint8_t *from, *to, *sums[2];
};

/* One group of n_blocks blocks, whose planes are `stride` apart from block to block. */
static void group(struct isa *isa, const struct bitplane *b, struct place *at, const uint8_t *w, const uint8_t *tables,
    const uint8_t *side, uint32_t g, uint32_t n_blocks)
{
    const uint32_t n_vectors = b->group < 64 ? 4 : 8, per_plane = b->group / 8;
    const uint8_t *codes = w;
    uint32_t turn = 0;
    for (uint32_t plane = 0; plane < b->bits; plane++)
        for (uint32_t v = 0; v < per_plane; v += n_vectors, codes += 128 * n_vectors, turn ^= 1)
            step_of_kind(isa,
                v       ? KEPT
                : plane ? DOUBLED
                        : NONE,
                n_vectors, at->sums[turn], at->sums[turn ^ 1], codes, b->unit_bytes, tables + 64 * v, n_blocks);
    const uint8_t *inputs = side + 4 * ((b->group == 32 ? 0 : b->group == 64 ? 4 : 6) + g);
    vec scale = v_splat_w((int32_t)s_load_u32(side + 28)), i = q32_mul(v_splat_w((int32_t)s_load_u32(inputs)), scale);
    w += b->code_bytes;
    weigh_of_kind(isa, b->minima, at->to, at->from, at->sums[turn ^ 1], w, b->unit_bytes, scale, i, n_blocks);
}

enum { CHUNK_BLOCKS = 36 };

struct job {
    const struct npu_op *op;
    struct bitplane b;
    struct npu_shares parts;
    uint32_t thread_bytes;
    uint8_t *spill[2], *threads; /* f32 of all outputs, twice; thread 0's area: integer sums, a ring */
};

/* A chunk of a tile, `first` and so on being blocks. */
static void chunk(struct isa *isa, const struct job *j, const uint8_t *w, uint8_t *sums, uint32_t t, uint32_t first,
    uint32_t n_blocks)
{
    const struct bitplane *b = &j->b;
    const uint32_t groups = b->group == 32 ? 4 : b->group == 64 ? 2 : 1;
    const uint8_t *tables = isa_ptr(j->op->src), *side = tables + lut_side(b->n_tiles) + 128 * t;
    for (uint32_t g = 0, turn = t * groups; g < groups; g++, turn++, w += b->group_bytes) {
        struct place at = {
            j->spill[turn & 1] + 512 * first, j->spill[~turn & 1] + 512 * first, {sums, sums + 512 * CHUNK_BLOCKS}};
        if (turn + 1 == b->n_tiles * groups) at.to = isa_ptr(j->op->dst) + 512 * first;
        group(isa, b, &at, w, tables + t * LUT_TILE + b->group * g * 8, side, g, n_blocks);
    }
}

/* A chunk's place in a thread's share; the next one's. */
struct at {
    uint32_t tile, block;
};

ISA_INLINE struct at following(struct at a, uint32_t blocks, uint32_t mine)
{
    a.block += blocks;
    return a.block < mine ? a : (struct at){a.tile + 1, 0};
}

/* A thread's blocks, tile after tile; two chunks on their way while one is used.  No division in the loop: the NPU has
 * no instruction for it. */
static void share(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct job *j = user;
    const struct bitplane *b = &j->b;
    const uint32_t first = npu_share_start(j->parts, thread), mine = npu_share_start(j->parts, thread + 1) - first;
    const uint32_t per_tile = (mine + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS, blocks = (mine + per_tile - 1) / per_tile;
    const uint32_t n_chunks = per_tile * b->n_tiles, ring_bytes = CHUNK_BLOCKS * b->unit_bytes;
    uint8_t *sums = j->threads + thread * j->thread_bytes, *ring = sums + 1024 * CHUNK_BLOCKS;
    uint32_t ticket[3] = {0, 0, 0};
    struct at next = {0, 0}, now = {0, 0};
    (void)n;
    for (uint32_t i = 0; i < 4 * mine; i++) v_store(j->spill[0] + 512 * first + 128 * i, v_zero());
    for (uint32_t c = 0; c < n_chunks + 2; c++, next = following(next, blocks, mine)) {
        if (c >= 2) dma_wait(ticket[(c - 2) % 3]);
        if (c < n_chunks)
            ticket[c % 3] = dma_start_1d(ring + c % 3 * ring_bytes,
                isa_ptr(j->op->weights) + ((size_t)next.tile * b->n_blocks + first + next.block) * b->unit_bytes,
                (mine - next.block < blocks ? mine - next.block : blocks) * b->unit_bytes);
        if (c < 2) continue;
        chunk(isa, j, ring + (c - 2) % 3 * ring_bytes, sums, now.tile, first + now.block,
            mine - now.block < blocks ? mine - now.block : blocks);
        now = following(now, blocks, mine);
    }
}

uint32_t ablation_lut_gemv(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct job j = {.op = op};
    if (bitplane_layout(op->kind, op->k, op->n, &j.b)) return NPU_BAD_SHAPE;
    uint32_t n = machine->n_threads < j.b.n_blocks ? machine->n_threads : j.b.n_blocks, spill = 512 * j.b.n_blocks;
    j.thread_bytes = CHUNK_BLOCKS * (1024 + 3 * j.b.unit_bytes);
    if (machine->tcm_kept + 2 * (uint64_t)spill + (uint64_t)n * j.thread_bytes > machine->tcm_bytes) return NPU_NO_ROOM;
    j.spill[0] = isa_ptr(machine->tcm_start + machine->tcm_kept);
    j.spill[1] = j.spill[0] + spill;
    j.threads = j.spill[1] + spill;
    j.parts = npu_shares(j.b.n_blocks, n);
    isa_threads(n, share, &j);
    if (op->flags & NPU_TO_HOST) cache_flush(isa_ptr(op->dst), spill);
    return NPU_OK;
}
