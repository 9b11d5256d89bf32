/* SPDX-License-Identifier: MIT */
#include "ablation.h"

#include "npu/dsp/vexp.h"

/* Halves of -8 .. 7 in the low half of words 0 .. 15. */
static const uint16_t linear_table[64]
    __attribute__((aligned(128))) = {0xc800, 0, 0xc700, 0, 0xc600, 0, 0xc500, 0, 0xc400, 0, 0xc200, 0, 0xc000, 0,
        0xbc00, 0, 0x0000, 0, 0x3c00, 0, 0x4000, 0, 0x4200, 0, 0x4400, 0, 0x4500, 0, 0x4600, 0, 0x4700, 0};
/* Control of v_delta: bytes 2 .. 17 to 0 .. 15 and 16 .. 31, bytes 20 .. 35 to 32 .. 47 and 48 .. 63. */
static const uint8_t twice[128] __attribute__((aligned(128))) = {30, 30, 2, 2, 6, 6, 2, 2, 14, 14, 2, 2, 6, 6, 2, 2, 14,
    14, 18, 18, 22, 22, 18, 18, 30, 30, 18, 18, 22, 22, 18, 18, 12, 12, 12, 12, 20, 20, 20, 20, 28, 28, 28, 28, 20, 20,
    20, 20, 28, 28, 28, 28, 36, 36, 36, 36, 44, 44, 44, 44, 36, 36, 36, 36};
static const uint32_t ramp[32] __attribute__((aligned(128))) = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

/* Bytes 0 and 1 to the first 64, bytes 18 and 19 to the others. */
static const uint8_t scales[128] __attribute__((aligned(128))) = {0, 0, 2, 2, 4, 4, 2, 2, 8, 8, 2, 2, 4, 4, 2, 2, 16,
    16, 2, 2, 4, 4, 2, 2, 8, 8, 2, 2, 4, 4, 2, 2, 32, 32, 2, 2, 4, 4, 2, 2, 8, 8, 2, 2, 4, 4, 2, 2, 16, 16, 2, 2, 4, 4,
    2, 2, 8, 8, 2, 2, 4, 4, 2, 2, 2, 2, 16, 16, 2, 2, 4, 4, 2, 2, 8, 8, 2, 2, 4, 4, 2, 2, 64, 64, 2, 2, 4, 4, 2, 2, 8,
    8, 2, 2, 4, 4, 2, 2, 16, 16, 2, 2, 4, 4, 2, 2, 8, 8, 2, 2, 4, 4, 2, 2, 32, 32, 2, 2, 4, 4, 2, 2, 8, 8, 2, 2, 4, 4};

enum { AT_ONCE = 4 }; /* vectors, so that their latencies overlap */

struct constants {
    vec table, codes, scales;
    vmask high; /* bytes 16 .. 31 and 48 .. 63: high nibbles */
};

ISA_INLINE struct constants constants(struct isa *isa)
{
    (void)isa;
    return (struct constants){v_const(linear_table), v_const(twice), v_const(scales),
        m_or(m_and(m_not(m_first(16)), m_first(32)), m_and(m_not(m_first(48)), m_first(64)))};
}

/* 4 x 2 adjacent groups of 18 bytes, each pair in group order: an unaligned load, a permutation for codes and one for
 * scales, a shift, a lookup, a shuffle, a product. */
ISA_INLINE void groups(struct isa *isa, vec out[AT_ONCE], const uint8_t *restrict p, const struct constants *c)
{
    vec x[AT_ONCE];
#pragma GCC unroll 4
    for (int i = 0; i < AT_ONCE; i++) x[i] = v_loadu(p + 36 * i);
#pragma GCC unroll 4
    for (int i = 0; i < AT_ONCE; i++) {
        vec q = v_delta(x[i], c->codes);
        vec2 h = v_lut16(v_mux(c->high, v_lsr_ub(q, 4), q), c->table, 0);
        out[i] = f16_mul(v_lo(v_shuff2(v_hi(h), v_lo(h), -2)), v_delta(x[i], c->scales));
    }
    (void)isa;
}

/* A block of 32 outputs whose rows of k are `stride` bytes apart; 64 k of an output are 32 words at a stride of 128. */
static void scatter_block(
    struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t stride, uint32_t k)
{
    const struct constants c = constants(isa);
    vec offset = v_asl_w(v_const(ramp), 7), x[AT_ONCE];
    for (uint32_t n = 0; n < 32; n++, offset = v_add_w(offset, v_splat_w(4))) {
        const uint8_t *row = src + n * stride;
        for (uint32_t i = 0; i < k; i += 64 * AT_ONCE, row += 36 * AT_ONCE) {
            groups(isa, x, row, &c);
#pragma GCC unroll 4
            for (int j = 0; j < AT_ONCE; j++) v_scatter_w(dst + (i + 64 * j) * 64, 4096, offset, x[j]);
        }
    }
    scatter_sync(dst);
}

static void groups_block(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t k)
{
    const struct constants c = constants(isa);
    vec x[AT_ONCE];
    for (uint32_t i = 0; i < k / 2; i += AT_ONCE, src += 36 * AT_ONCE, dst += 128 * AT_ONCE) {
        groups(isa, x, src, &c);
#pragma GCC unroll 4
        for (int j = 0; j < AT_ONCE; j++) v_store(dst + 128 * j, x[j]);
    }
}

/* 128 codes in bytes to two tile vectors. */
ISA_INLINE void convert(struct isa *isa, uint8_t *restrict dst, vec codes, vec scale)
{
    vec2 h = v_sxt_b(v_sub_b(codes, v_splat_b(8)));
    v_store(dst, f16_mul(f16_of_i16(v_lo(h)), scale));
    v_store(dst + 128, f16_mul(f16_of_i16(v_hi(h)), scale));
    (void)isa;
}

static void convert_block(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t k)
{
    const vec mask = v_splat_b(15);
    for (uint32_t u = 0; u < k; u += 64, src += 1152, dst += 2 * TILE_BYTES) {
        vec s = v_load(src + 1024);
        vec2 scale = v_shuffoe_h(s, s);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            vec x = v_load(src + 128 * j), d = j < 4 ? v_lo(scale) : v_hi(scale);
            convert(isa, dst + 512 * j, v_and(x, mask), d);
            convert(isa, dst + 512 * j + 256, v_lsr_ub(x, 4), d);
        }
    }
}

/* Bit i of every byte of x moved to bit b. */
ISA_INLINE vec move_bit(struct isa *isa, vec x, int i, int b)
{
    vec bit = v_and(x, v_splat_b(1 << i));
    (void)isa;
    return i > b ? v_lsr_ub(bit, i - b) : i < b ? v_asl_h(bit, b - i) : bit;
}

static void planes_block(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t k)
{
    const vec scale = v_splat_h(0x3c00), zero = v_splat_h((int16_t)0x4800); /* 8 */
    for (uint32_t t = 0; t < k; t += 32, src += ABLATION_PLANES_TILE, dst += TILE_BYTES) {
        vec p[4] = {v_load(src), v_load(src + 128), v_load(src + 256), v_load(src + 384)};
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            vec x = v_or(v_or(move_bit(isa, p[0], i, 0), move_bit(isa, p[1], i, 1)),
                v_or(move_bit(isa, p[2], i, 2), move_bit(isa, p[3], i, 3)));
            vec2 h = v_zxt_ub(x);
            v_store(dst + 256 * i, f16_mul(f16_sub(f16_of_i16(v_lo(h)), zero), scale));
            v_store(dst + 256 * i + 128, f16_mul(f16_sub(f16_of_i16(v_hi(h)), zero), scale));
        }
    }
}

/* Entry m of table b: bit n of m at bit 4 n + b, in the low half of word m. */
#define SPREAD(m, b) (((m)&1) | ((m) >> 1 & 1) << 4 | ((m) >> 2 & 1) << 8 | ((m) >> 3 & 1) << 12) << (b), 0
#define SPREAD_16(b)                                                                                                   \
    {                                                                                                                  \
        SPREAD(0, b), SPREAD(1, b), SPREAD(2, b), SPREAD(3, b), SPREAD(4, b), SPREAD(5, b), SPREAD(6, b),              \
            SPREAD(7, b), SPREAD(8, b), SPREAD(9, b), SPREAD(10, b), SPREAD(11, b), SPREAD(12, b), SPREAD(13, b),      \
            SPREAD(14, b), SPREAD(15, b)                                                                               \
    }
static const uint16_t spread_table[4][64]
    __attribute__((aligned(128))) = {SPREAD_16(0), SPREAD_16(1), SPREAD_16(2), SPREAD_16(3)};

/* Codes of 256 weights, 4 to a half, to four tile vectors. */
ISA_INLINE void values(struct isa *isa, uint8_t *restrict dst, vec codes, vec table)
{
    vec2 low = v_lut16(codes, table, 0), high = v_lut16(v_lsr_ub(codes, 4), table, 0);
    v_store(dst, v_lo(low));
    v_store(dst + 128, v_hi(low));
    v_store(dst + 256, v_lo(high));
    v_store(dst + 384, v_hi(high));
    (void)isa;
}

ISA_INLINE vec2 or_pairs(struct isa *isa, vec2 a, vec2 b)
{
    (void)isa;
    return v_pair(v_or(v_hi(a), v_hi(b)), v_or(v_lo(a), v_lo(b)));
}

static void planes_lut_block(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t k)
{
    const vec spread[4] = {
        v_const(spread_table[0]), v_const(spread_table[1]), v_const(spread_table[2]), v_const(spread_table[3])};
    const vec linear = v_const(linear_table);
    for (uint32_t t = 0; t < k; t += 32, src += ABLATION_PLANES_TILE, dst += TILE_BYTES) {
        vec table = f16_mul(linear, v_splat_h(0x3c00)); /* the tile's scale, once per tile */
        vec p = v_load(src);
        vec2 low = v_lut16(p, spread[0], 0), high = v_lut16(v_lsr_ub(p, 4), spread[0], 0);
#pragma GCC unroll 3
        for (int b = 1; b < 4; b++) {
            p = v_load(src + 128 * b);
            low = or_pairs(isa, low, v_lut16(p, spread[b], 0));
            high = or_pairs(isa, high, v_lut16(v_lsr_ub(p, 4), spread[b], 0));
        }
        values(isa, dst, v_lo(low), table);
        values(isa, dst + 512, v_hi(low), table);
        values(isa, dst + 1024, v_lo(high), table);
        values(isa, dst + 1536, v_hi(high), table);
    }
}

static uint32_t dequant(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    const uint8_t *src = isa_ptr(op->weights);
    uint8_t *dst = isa_ptr(machine->tcm_start + machine->tcm_kept);
    if (!op->k || op->k % 256 || op->n % 32 || op->k > 32768) return NPU_BAD_SHAPE;
    uint32_t n_tiles = op->k / 32;
    for (uint32_t n = 0; n < op->n; n += 32) {
        switch (op->code) {
        case ABLATION_SCATTER:
            scatter_block(isa, dst, src, n_tiles * ABLATION_GROUP_BYTES, op->k);
            src += 32 * n_tiles * ABLATION_GROUP_BYTES;
            break;
        case ABLATION_GROUPS:
            groups_block(isa, dst, src, op->k);
            src += n_tiles * ABLATION_GROUPS_TILE;
            break;
        case ABLATION_CONVERT:
            convert_block(isa, dst, src, op->k);
            src += op->k / 64 * 1152;
            break;
        case ABLATION_PLANES:
            planes_block(isa, dst, src, op->k);
            src += n_tiles * ABLATION_PLANES_TILE;
            break;
        default:
            planes_lut_block(isa, dst, src, op->k);
            src += n_tiles * ABLATION_PLANES_TILE;
            break;
        }
    }
    return NPU_OK;
}

enum { BLOCKS = 16 }; /* of 64 keys between two updates of a row's statistics */

/* Two rows of n blocks of 64 keys: scores to plain rows in `rows` [n][2] vectors, and each row's maximum. */
ISA_INLINE void deal_rows(
    struct isa *isa, uint8_t *restrict rows, const uint8_t *restrict tiles, uint32_t n, vec most[2])
{
    for (uint32_t b = 0; b < n; b++, rows += 256, tiles += 2 * TILE_BYTES) {
        vec2 w = v_deal2(v_load(tiles + TILE_BYTES), v_load(tiles), -2);
        v_store(rows, v_lo(w));
        v_store(rows + 128, v_hi(w));
        most[0] = f16_max(most[0], v_lo(w));
        most[1] = f16_max(most[1], v_hi(w));
    }
#pragma GCC unroll 6
    for (int n_bytes = 64; n_bytes >= 2; n_bytes >>= 1) {
        most[0] = f16_max(most[0], v_ror(most[0], n_bytes));
        most[1] = f16_max(most[1], v_ror(most[1], n_bytes));
    }
    (void)isa;
}

/* In place: exp(row - maximum); way is a constant where this is called. */
ISA_INLINE void exponentials(
    struct isa *isa, const uint32_t way, uint8_t *restrict rows, const uint8_t *restrict table, uint32_t n, vec most[2])
{
    for (uint32_t b = 0; b < n; b++, rows += 256)
#pragma GCC unroll 2
        for (int r = 0; r < 2; r++) {
            vec x = f16_sub(v_load(rows + 128 * r), most[r]);
            if (way == NPU_EXP_TABLE)
                v_gather_h(rows + 128 * r, table, EXP_TABLE_BYTES, v_asl_h(x, 1));
            else
                v_store(rows + 128 * r, way == NPU_EXP_F16 ? v_exp_half(isa, x) : v_exp_wide(isa, x));
        }
    (void)isa;
}

/* Rows back into tiles; sums in the unit's form. */
ISA_INLINE void pack_rows(
    struct isa *isa, uint8_t *restrict tiles, const uint8_t *restrict rows, uint32_t n, vec sum[2])
{
    const vec one = v_splat_h(0x3c00);
    for (uint32_t b = 0; b < n; b++, rows += 256, tiles += 2 * TILE_BYTES) {
        vec even = v_load(rows), odd = v_load(rows + 128);
        vec2 w = v_shuff2(odd, even, -2), e = q32_mul_f16(even, one), o = q32_mul_f16(odd, one);
        v_store(tiles, v_lo(w));
        v_store(tiles + TILE_BYTES, v_hi(w));
        sum[0] = q32_add_qq(sum[0], q32_add_qq(v_lo(e), v_hi(e)));
        sum[1] = q32_add_qq(sum[1], q32_add_qq(v_lo(o), v_hi(o)));
    }
    (void)isa;
}

ISA_INLINE void softmax(struct isa *isa, const uint32_t way, uint8_t *restrict tiles, uint8_t *restrict sums,
    const uint8_t *restrict table, uint8_t *restrict rows, uint32_t n_rows, uint32_t n_blocks)
{
    const vec one = v_splat_h(0x3c00);
    for (uint32_t r = 0; r < n_rows; r += 2, sums += 256) {
        uint8_t *pair = tiles + r / 32 * n_blocks * 2 * TILE_BYTES + r % 32 / 2 * 128;
        vec most[2] = {v_splat_h((int16_t)0xfbff), v_splat_h((int16_t)0xfbff)};
        vec total[2] = {v_zero(), v_zero()};
        for (uint32_t b = 0; b < n_blocks; b += BLOCKS) {
            uint32_t n = n_blocks - b < BLOCKS ? n_blocks - b : BLOCKS;
            vec before[2] = {most[0], most[1]}, sum[2];
            sum[0] = sum[1] = q32_add(v_zero(), v_zero());
            deal_rows(isa, rows, pair + b * 2 * TILE_BYTES, n, most);
            exponentials(isa, way, rows, table, n, most);
            pack_rows(isa, pair + b * 2 * TILE_BYTES, rows, n, sum);
#pragma GCC unroll 2
            for (int i = 0; i < 2; i++) { /* rescaling, once per 1024 keys */
                vec factor = v_exp_half(isa, f16_sub(before[i], most[i]));
                vec wide = f32_of_q32(v_lo(q32_mul_f16(factor, one)));
                total[i] = f32_add(f32_mul(total[i], wide), v_sum_w(isa, f32_of_q32(sum[i])));
            }
        }
        v_store(sums, total[0]);
        v_store(sums + 128, total[1]);
    }
    (void)isa;
}

/* TCM: the table, then two vectors for each of 16 blocks, then the tiles. */
static uint32_t softmax_op(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    const uint8_t *table = isa_ptr(machine->tcm_start);
    uint8_t *rows = isa_ptr(machine->tcm_start + machine->tcm_kept), *tiles = rows + 4096;
    if (!op->m || !op->k || op->k % 64 || machine->tcm_kept < EXP_TABLE_BYTES) return NPU_BAD_SHAPE;
    if ((uint64_t)(op->m + 31) / 32 * op->k * 64 + machine->tcm_kept + 4096 > machine->tcm_bytes) return NPU_NO_ROOM;
    uint8_t *sums = isa_ptr(op->dst);
    switch (op->kind) {
    case NPU_EXP_TABLE: softmax(isa, NPU_EXP_TABLE, tiles, sums, table, rows, op->m, op->k / 64); break;
    case NPU_EXP_F16: softmax(isa, NPU_EXP_F16, tiles, sums, table, rows, op->m, op->k / 64); break;
    default: softmax(isa, NPU_EXP_F32, tiles, sums, table, rows, op->m, op->k / 64); break;
    }
    return NPU_OK;
}

uint32_t ablation_execute(struct isa *isa, struct npu_machine *machine, const struct npu_op *op)
{
    if (op->code < ABLATION_FIRST) return npu_execute(isa, machine, op);
    if (op->code == ABLATION_ATTENTION_STAGE) return ablation_stage(isa, machine, op);
    if (op->code == ABLATION_FINISHED_2 || op->code == ABLATION_FINISHED_4) return ablation_finished(isa, machine, op);
    if (op->code == ABLATION_ACT8) return ablation_act8(isa, op);
    if (op->code == ABLATION_FIELDS) return ablation_fields(isa, machine, op);
    if (op->code == ABLATION_VLUT32_TABLES || op->code == ABLATION_VLUT32) return ablation_vlut32(isa, machine, op);
    return op->code == ABLATION_SOFTMAX ? softmax_op(isa, machine, op) : dequant(isa, machine, op);
}
