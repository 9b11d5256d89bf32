/* SPDX-License-Identifier: MIT
 *
 * What npu/dsp/lookup.c does, with tables of bytes: an input's sign and size are rounded so that the largest difference
 * of two sums of a table is 255, and a table holds its sums less the smallest [TMAN Table 1, VLUT32].
 *
 * A vector of indices takes 1 load, 1 shift, 2 lookups by permute alone, and 1 widening sum of both into 16 bits.
 * Weights are those of npu/wire/planes.h, of the kinds in built(); at 4 bits 64 inputs of a group are summed at a time,
 * since those of 128 do not fit 16 bits.
 *
 * lut8: [tile of 128 k]: two vectors per 32 k, those of low nibbles before those of high ones; entry e, and e + 16, of
 *   table t (inputs 8 t, and 2, 4 and 6 further; in high nibbles one more) is byte 2 (e + 32 (t & 1)) + (t >> 1).
 *   side, a vector per tile: 64ths of an entry's unit, int32: sums of 64 inputs (words 0, 1), of 128 (2), of the
 *   negative ones among them (4, 5, 6); the unit (7), f32
 */
#include "vlut32.h"

#include "ablation.h"
#include "npu/dsp/lookup_impl.h"
#include "npu/dsp/vmath.h"
#include "npu/wire/planes.h"

/* 4 tables less their smallest entries, in 64ths: halves. */
ISA_INLINE vec tables_of(struct isa *isa, const struct spread *s, vec pairs, vec flip)
{
    vec t = v_splat_h(32);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        vec x = v_delta(pairs, v_xor(s->control[i], flip));
        t = v_add_h(t, v_sub_h(v_and(x, s->has[i]), v_min_h(x, v_zero())));
    }
    (void)isa;
    return v_lsr_uh(t, 6);
}

/* The sum of 32 words in every word. */
ISA_INLINE vec total(struct isa *isa, vec x)
{
#pragma GCC unroll 5
    for (int r = 64; r >= 4; r >>= 1) x = v_add_w(x, v_ror(x, r));
    (void)isa;
    return x;
}

/* x: 128 inputs, n of them there. */
static void table_tile(struct isa *isa, uint8_t *restrict tables, uint8_t *restrict side, const uint8_t *restrict x,
    uint32_t n, const struct spread *s, vmask even)
{
    const vec magnitude = v_splat_w(0x7fffffff), magic = v_splat_w(0x4b400000), word = v_const(ramp);
    vec most = v_zero(), sums = v_zero(), all[2] = {v_zero(), v_zero()}, two[2] = {v_zero(), v_zero()};
    for (uint32_t i = 0; i < n; i += 32) { /* sums of words 2 apart, right where a table begins */
        vec a = v_and(v_load(x + 4 * i), magnitude);
        a = f32_add(a, v_ror(a, 8));
        most = v_max_w(most, f32_add(a, v_ror(a, 16)));
    }
    most = v_mux(v_eq_w(v_and(word, v_splat_w(6)), v_zero()), most, v_zero());
#pragma GCC unroll 5
    for (int r = 64; r >= 4; r >>= 1) most = v_max_w(most, v_ror(most, r));
    vmask some = v_gt_w(most, v_splat_w(27 << 23)); /* below 2^-100 everything is 0 */
    vec inverse = v_mux(some, f32_mul(v_reciprocal(isa, most), v_splat_w(0x467f0000)), v_zero()); /* 64 x 255 */
    vec unit = v_mux(some, f32_mul(most, v_splat_w(0x3b808081)), v_zero());                       /* 1/255 */
    for (uint32_t i = 0; i < NPU_PLANES_K / 32; i++, tables += 256) {
        vec c = v_zero();
        if (32 * i < n) c = v_sub_w(f32_add(f32_mul(v_load(x + 128 * i), inverse), magic), magic);
        vec pairs = v_or(v_and(c, v_splat_w(0xffff)), v_asl_w(v_ror(c, 32), 16));
        vec t = v_or(tables_of(isa, s, pairs, v_zero()), v_asl_h(tables_of(isa, s, pairs, v_splat_b(64)), 8));
        t = v_deal_h(t); /* 32 bytes each: low nibbles of tables 0 and 2, high ones, low ones of 1 and 3, high ones */
        v_store(tables, v_mux(even, t, v_ror(t, 96)));
        v_store(tables + 128, v_mux(even, v_ror(t, 32), t));
        vec sum[2] = {total(isa, c), total(isa, v_min_w(c, v_zero()))};
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            two[j] = i % 2 ? v_add_w(two[j], sum[j]) : sum[j];
            all[j] = v_add_w(all[j], sum[j]);
            sums = v_mux(v_eq_w(word, v_splat_w(4 * j + (int32_t)i / 2)), two[j], sums);
        }
    }
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) sums = v_mux(v_eq_w(word, v_splat_w(4 * j + 2)), all[j], sums);
    v_store(side, v_mux(v_eq_w(word, v_splat_w(7)), unit, sums));
}

void vlut32_tables(
    struct isa *isa, uint8_t *restrict lut, const uint8_t *restrict x, uint32_t k, uint32_t first, uint32_t last)
{
    const struct spread s = spread(isa);
    const vmask even = m_or(m_first(32), m_and(m_not(m_first(64)), m_first(96))); /* bytes 0 .. 31 and 64 .. 95 */
    uint8_t *side = lut + npu_lut_side((k + NPU_PLANES_K - 1) / NPU_PLANES_K);
    for (uint32_t t = first, at = first * NPU_PLANES_K; t < last; t++, at += NPU_PLANES_K)
        table_tile(isa, lut + t * NPU_LUT_TILE, side + t * NPU_LINE, x + 4 * (size_t)at,
            k - at < NPU_PLANES_K ? k - at : NPU_PLANES_K, &s, even);
}

/* How sums become f32: by scales; with minima, too; with minima and sums of codes less their centre. */
enum form { SCALED, MINIMA, CENTRED };

/* Of the inputs that are summed together, in entries' units: what sums begin with, the inputs' sum, and that times what
 * codes are less. */
struct inputs {
    int32_t start, sum, centre;
};

/* What all blocks share. */
struct shared {
    vec table[8], start[2], sum[2], centre[2], unit;
};

/* Sums of 64 inputs, planes `apart` bytes apart.  A lookup ignores bits above the fifth, a table the fifth.  Every
 * other shift is a product from 2 bits on, which clang 19 schedules better. */
ISA_INLINE vec2 looked_up(
    struct isa *isa, const uint32_t bits, const uint8_t *restrict w, const uint32_t apart, const vec *table)
{
    vec2 sum = v_pair(v_zero(), v_zero());
#pragma GCC unroll 4
    for (uint32_t plane = 0; plane < bits; plane++, w += apart) {
        if (plane) sum = v_pair(v_add_h(v_hi(sum), v_hi(sum)), v_add_h(v_lo(sum), v_lo(sum)));
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            vec x = v_load(w + 128 * j), y = bits > 1 && j % 2 ? v_mpyf_rh(x, 1 << 11) : v_lsr_ub(x, 4);
            sum = v_addacc_ub(sum, v_lut32(x, table[j / 4 * 2], j % 4), v_lut32(y, table[j / 4 * 2 + 1], j % 4));
        }
    }
    (void)isa;
    return sum;
}

/* to = from + (integers x scales (+ inputs x minima)) x unit of one block; parts of its 128 inputs, group by group. */
ISA_INLINE void weigh(struct isa *isa, const enum form form, const uint32_t parts, uint8_t *restrict to,
    const uint8_t *restrict from, const uint8_t *restrict scales, const uint32_t apart, const vec2 *sum,
    const struct shared *c)
{
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        vec2 y = v_pair(v_zero(), v_zero());
#pragma GCC unroll 2
        for (uint32_t i = 0; i < parts; i++) {
            const uint8_t *at = scales + apart * i + 128 * h;
            vec q = f16_of_i16(v_add_h(h ? v_hi(sum[i]) : v_lo(sum[i]), c->start[i]));
            if (form == CENTRED) q = f16_add(q, c->centre[i]);
            vec2 p = q32_mul_f16(q, v_load(at)), m;
            y = i ? v_pair(q32_add_qq(v_hi(y), v_hi(p)), q32_add_qq(v_lo(y), v_lo(p))) : p;
            if (form == SCALED) continue;
            m = q32_mul_f16(c->sum[i], v_load(at + 256));
            y = v_pair(q32_add_qq(v_hi(y), v_hi(m)), q32_add_qq(v_lo(y), v_lo(m)));
        }
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            int at = 256 * h + 128 * v;
            v_store(to + at, f32_of_q32(q32_add_q(q32_mul_qq(v ? v_hi(y) : v_lo(y), c->unit), v_load(from + at))));
        }
    }
    (void)isa;
}

/* How many sums 128 inputs have: one a group, and two of a group of 128 where its sum would not fit 16 bits. */
ISA_INLINE uint32_t sums_of(const uint32_t bits, const uint32_t each)
{
    return bits > 3 || each < 128 ? 2 : 1;
}

/* One tile of n blocks: the tables of 128 inputs stay in registers, and what is looked up there until it is f32. */
ISA_INLINE void blocks(struct isa *isa, const uint32_t bits, const uint32_t each, const enum form form,
    uint8_t *restrict to, const uint8_t *restrict from, const uint8_t *restrict w, const uint8_t *restrict tables,
    const struct inputs in[2], uint32_t unit, uint32_t n)
{
    const uint32_t parts = sums_of(bits, each), code_bytes = 16 * bits * each,
                   group_bytes = code_bytes + (form == SCALED ? 256 : 512), apart = each < 128 ? group_bytes : 0,
                   stride = each < 128 ? 2 * group_bytes : group_bytes;
    struct shared c = {.unit = q32_mul(v_splat_w((int32_t)unit), v_splat_w(0x3f800000))};
#pragma GCC unroll 8
    for (uint32_t i = 0; i < 8; i++) c.table[i] = v_load(tables + 128 * i);
#pragma GCC unroll 2
    for (uint32_t i = 0; i < parts; i++) {
        c.start[i] = v_splat_h(in[i].start), c.sum[i] = f16_of_i16(v_splat_h(in[i].sum));
        c.centre[i] = f16_of_i16(v_splat_h(in[i].centre));
    }
    for (; n; n--, w += stride, from += 512, to += 512) {
        vec2 sum[2];
#pragma GCC unroll 2
        for (uint32_t i = 0; i < 2; i++) /* two chains of sums, since each waits for its last one */
            sum[i] = looked_up(isa, bits, w + (apart ? apart : 1024) * i, 16 * each, c.table + 4 * i);
        if (parts == 1) sum[0] = v_pair(v_add_h(v_hi(sum[0]), v_hi(sum[1])), v_add_h(v_lo(sum[0]), v_lo(sum[1])));
        weigh(isa, form, parts, to, from, w + code_bytes, apart, sum, &c);
    }
}

/* What is built: bits, group and form of the weights, and of their sums. */
#define EVERY(KIND)                                                                                                    \
    KIND(1, 128, CENTRED, SCALED)                                                                                      \
    KIND(2, 128, TERNARY, SCALED)                                                                                      \
    KIND(2, 64, CENTRED, SCALED)                                                                                       \
    KIND(2, 64, MINIMA, MINIMA)                                                                                        \
    KIND(3, 128, MINIMA, CENTRED)                                                                                      \
    KIND(4, 64, MINIMA, CENTRED)                                                                                       \
    KIND(4, 128, MINIMA, CENTRED)

/* A call of its own, as in lookup.c. */
__attribute__((noinline)) static void blocks_of_kind(struct isa *isa, uint32_t kind, uint8_t *restrict to,
    const uint8_t *restrict from, const uint8_t *restrict w, const uint8_t *restrict tables, const struct inputs in[2],
    uint32_t unit, uint32_t n)
{
#define BLOCKS(bits, each, weights, form)                                                                              \
    case NPU_PLANES(bits, each, NPU_PLANES_##weights):                                                                 \
        blocks(isa, bits, each, form, to, from, w, tables, in, unit, n);                                               \
        break;
    switch (kind) {
        EVERY(BLOCKS)
    default: __builtin_unreachable();
    }
}

static int built(uint32_t kind)
{
#define IS_BUILT(bits, each, weights, form) || kind == NPU_PLANES(bits, each, NPU_PLANES_##weights)
    return 0 EVERY(IS_BUILT);
}

/* One tile of n_blocks blocks from `first` on, and one row. */
static void tile(struct isa *isa, const struct job *j, const uint8_t *w, uint8_t *integers, uint32_t row, uint32_t t,
    uint32_t first, uint32_t n_blocks)
{
    const uint32_t kind = npu_planes_untiled(j->w->kind), bits = npu_planes_bits(kind),
                   minima = npu_planes_form(kind) == NPU_PLANES_MINIMA;
    const uint8_t *tables = j->tcm + j->plan->tables + row * npu_lut_bytes(j->w->n_units);
    const uint8_t *side = tables + npu_lut_side(j->w->n_units) + NPU_LINE * t;
    const uint32_t spill = spill_of(j, row, first);
    /* Twice what codes are less, so that sums fit 16 bits: those of 2 bits with minima do anyway. */
    const int32_t most = (1 << bits) - 1, centre = bits == 1             ? 1
                                                   : bits == 2 && minima ? 0
                                                                         : 2 * (int32_t)npu_planes_centre(bits);
    uint32_t unit = s_load_u32(side + 28);
    if (bits == 1 && unit) unit += 1u << 23; /* of (2q - 1) / 2 */
    struct inputs in[2];
    for (uint32_t i = 0, parts = sums_of(bits, npu_planes_group(kind)); i < parts; i++) {
        const uint8_t *words = side + (parts == 2 ? 4 * i : 8);
        int32_t sum = (int32_t)s_load_u32(words), least = (int32_t)s_load_u32(words + 16);
        in[i].start = (2 * most * least - centre * sum + 64) >> 7;
        in[i].sum = (sum + 32) >> 6, in[i].centre = (centre * sum + 64) >> 7;
    }
    blocks_of_kind(isa, kind, j->tcm + j->plan->spill[~t & 1] + spill, j->tcm + j->plan->spill[t & 1] + spill, w,
        tables + t * NPU_LUT_TILE, in, unit, n_blocks);
    (void)integers;
}

uint32_t vlut32_product(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct npu_weights w;
    struct job j = {.op = op, .w = &w, .turns = 1};
    if (!op->m || !built(npu_planes_untiled(op->kind)) || npu_weights_layout(op->kind, op->k, op->n, &w))
        return NPU_BAD_SHAPE;
    return look_up(isa, machine, &j);
}

uint32_t ablation_vlut32(struct isa *isa, struct npu_machine *machine, const struct npu_op *op)
{
    const uint32_t n_tiles = (op->k + NPU_PLANES_K - 1) / NPU_PLANES_K, bytes = npu_lut_bytes(n_tiles);
    struct npu_scratch_plan plan;
    if (op->code == ABLATION_VLUT32) {
        if (op->bias && op->flags & NPU_FROM_HOST) cache_invalidate(isa_ptr(op->bias), (op->n + 31) / 32 * 128);
        uint32_t status = vlut32_product(isa, machine, op);
        if (op->flags & NPU_TO_HOST) cache_flush(isa_ptr(op->dst), op->m * op->dst_stride);
        return status;
    }
    if (!op->k || op->k % 32 || npu_scratch_plan((uint64_t)op->m * bytes, machine, &plan)) return NPU_BAD_SHAPE;
    if (op->flags & NPU_FROM_HOST) cache_invalidate(isa_ptr(op->src), op->m * op->src_stride);
    uint8_t *lut = isa_ptr(machine->tcm_start + plan.at);
    for (uint32_t r = 0; r < op->m; r++)
        vlut32_tables(isa, lut + r * bytes, isa_ptr(op->src) + (size_t)r * op->src_stride, op->k, 0, n_tiles);
    machine->tables_m = op->m, machine->tables_k = op->k;
    return NPU_OK;
}
