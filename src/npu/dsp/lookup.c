/* SPDX-License-Identifier: MIT
 *
 * Products of a few rows with bit planes by table lookup [TMAN 4.1, 4.3, 5]: 16 tables of 4 inputs in 4 registers, sums
 * of a group as integers (inner tile), f32 accumulators in TCM between tiles of 128 inputs (outer tile, spill buffer).
 *
 * A vector of indices (8 k of 128 outputs, one plane) takes 1 load, 1 shift, 2 lookups, 2 widening sums.
 */
#include "npu/dsp/lookup_impl.h"
#include "npu/dsp/vmath.h"

/* 4 tables from words 0 .. 7 of codes, each of two inputs 8 apart as halves. */
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
    for (uint32_t i = 0; i < NPU_PLANES_K / 32; i++, tables += 256) {
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
    v_store(side, v_mux(v_eq_w(word, v_splat_w(7)), scale, sums));
}

void npu_tables(
    struct isa *isa, uint8_t *restrict lut, const uint8_t *restrict x, uint32_t k, uint32_t first, uint32_t last)
{
    const struct spread s = spread(isa);
    uint8_t *side = lut + npu_lut_side((k + NPU_PLANES_K - 1) / NPU_PLANES_K);
    for (uint32_t t = first, at = first * NPU_PLANES_K; t < last; t++, at += NPU_PLANES_K)
        table_tile(isa, lut + t * NPU_LUT_TILE, side + t * NPU_LINE, x + 4 * (size_t)at,
            k - at < NPU_PLANES_K ? k - at : NPU_PLANES_K, &s);
}

enum { CENTRED = NPU_PLANES_CENTRED, MINIMA = NPU_PLANES_MINIMA, ZEROS = NPU_PLANES_ZEROS };

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

/* Integers of codes to what the codes stand for. */
ISA_INLINE vec centred(struct isa *isa, const uint32_t bits, vec s, vec sum)
{
    if (bits == 1) s = v_add_w(s, s);
    if (bits > 2) sum = v_asl_w(sum, (int)bits - 1);
    (void)isa;
    return v_sub_w(s, sum);
}

/* to = from + integers x scales (+ minima x inputs) of one group of n blocks; everything of the group is multiplied by
 * the activations' scale first.  sum: of the group's inputs, in every lane like that scale; zeros times it stay
 * integers. */
ISA_INLINE void weigh(struct isa *isa, const uint32_t bits, const uint32_t form, uint8_t *restrict to,
    const uint8_t *restrict from, const uint8_t *restrict sums, const uint8_t *restrict scales, uint32_t stride,
    vec sum, vec scale, uint32_t n)
{
    const vec one = v_splat_h(0x3c00), scaled = q32_mul(f32_of_i32(sum), scale);
    for (; n; n--, to += 512, from += 512, sums += 512, scales += stride)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            vec2 d = q32_mul_f16(v_load(scales + 128 * h), one), m = d;
            vec zeros = v_zero();
            if (form == MINIMA) m = q32_mul_f16(v_load(scales + 256 + 128 * h), one);
            if (form == ZEROS) zeros = v_load(scales + 256 + 128 * h);
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                uint32_t at = 256 * (uint32_t)h + 128 * (uint32_t)v;
                vec s = v_load(sums + at);
                if (form == ZEROS)
                    s = v_sub_w(s, v_mpyio_w(sum, v ? zeros : v_asl_w(zeros, 16)));
                else if (form != MINIMA)
                    s = centred(isa, bits, s, sum);
                vec y = q32_mul_qq(q32_mul(f32_of_i32(s), scale), v ? v_hi(d) : v_lo(d));
                if (form == MINIMA) y = q32_add_qq(y, q32_mul_qq(v ? v_hi(m) : v_lo(m), scaled));
                v_store(to + at, f32_of_q32(q32_add_q(y, v_load(from + at))));
            }
        }
    (void)isa;
}

__attribute__((noinline)) static void weigh_of_kind(struct isa *isa, uint32_t kind, uint8_t *restrict to,
    const uint8_t *restrict from, const uint8_t *restrict sums, const uint8_t *restrict scales, uint32_t stride,
    vec sum, vec scale, uint32_t n)
{
    const uint32_t form = npu_planes_form(kind);
    switch (form == MINIMA ? 0 : form == ZEROS ? 5 : npu_planes_bits(kind)) {
    case 0: weigh(isa, 0, MINIMA, to, from, sums, scales, stride, sum, scale, n); break;
    case 1: weigh(isa, 1, CENTRED, to, from, sums, scales, stride, sum, scale, n); break;
    case 2: weigh(isa, 2, CENTRED, to, from, sums, scales, stride, sum, scale, n); break;
    case 3: weigh(isa, 3, CENTRED, to, from, sums, scales, stride, sum, scale, n); break;
    case 4: weigh(isa, 4, CENTRED, to, from, sums, scales, stride, sum, scale, n); break;
    default: weigh(isa, 0, ZEROS, to, from, sums, scales, stride, sum, scale, n); break;
    }
}

/* Where a thread works: f32 sums so far and those to be, integer sums, all of n_blocks blocks. */
struct place {
    uint8_t *from, *to, *sums[2];
};

/* One group of n_blocks blocks, whose planes are a unit apart from block to block. */
static void group(struct isa *isa, const struct npu_weights *b, struct place *at, const uint8_t *w,
    const uint8_t *tables, const uint8_t *side, uint32_t g, uint32_t n_blocks)
{
    const uint32_t each = npu_planes_group(b->kind), n_vectors = each < 64 ? 4 : 8;
    const uint8_t *codes = w;
    uint32_t turn = 0;
    for (uint32_t plane = 0; plane < npu_planes_bits(b->kind); plane++)
        for (uint32_t v = 0; v < each / 8; v += n_vectors, codes += 128 * n_vectors, turn ^= 1)
            step_of_kind(isa,
                v       ? KEPT
                : plane ? DOUBLED
                        : NONE,
                n_vectors, at->sums[turn], at->sums[turn ^ 1], codes, b->unit_bytes, tables + 64 * v, n_blocks);
    vec sum = v_splat_w((int32_t)s_load_u32(side + 4 * ((each == 32 ? 0 : each == 64 ? 4 : 6) + g)));
    vec scale = v_splat_w((int32_t)s_load_u32(side + 28));
    weigh_of_kind(
        isa, b->kind, at->to, at->from, at->sums[turn ^ 1], w + b->code_bytes, b->unit_bytes, sum, scale, n_blocks);
}

/* One tile of n_blocks blocks from `first` on, and one row. */
static void tile(struct isa *isa, const struct job *j, const uint8_t *w, uint8_t *integers, uint32_t row, uint32_t t,
    uint32_t first, uint32_t n_blocks)
{
    const struct npu_weights *b = j->w;
    const uint32_t each = npu_planes_group(b->kind);
    const uint8_t *tables = j->tcm + j->plan->tables + row * npu_lut_bytes(b->n_units);
    const uint8_t *side = tables + npu_lut_side(b->n_units) + NPU_LINE * t;
    const uint32_t spill = spill_of(j, row, first);
    for (uint32_t g = 0, turn = t * j->turns; g < j->turns; g++, turn++, w += npu_planes_group_bytes(b)) {
        struct place at = {j->tcm + j->plan->spill[turn & 1] + spill, j->tcm + j->plan->spill[~turn & 1] + spill,
            {integers, integers + 512 * b->panel}};
        group(isa, b, &at, w, tables + t * NPU_LUT_TILE + each * g * 8, side, g, n_blocks);
    }
}

uint32_t npu_lookup(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct npu_weights w;
    struct job j = {.op = op, .w = &w, .turns = npu_planes_groups(op->kind)};
    if (!op->m || !npu_is_planes(op->kind) || npu_weights_layout(op->kind, op->k, op->n, &w)) return NPU_BAD_SHAPE;
    return look_up(isa, machine, &j);
}
