/* SPDX-License-Identifier: MIT
 *
 * Tiles of finished halves: q d + m is made once per group, and lookups find it [TMAN 4.1].
 *
 * A lookup has 16 entries for 128 codes, and every vector of a weight tile has 32 outputs.  So outputs and inputs
 * change places: tiles are those of the unit's activations, vectors pairs of outputs times 32 k.  Then 16 entries are
 * 4 outputs x 4 codes, or an output's 16 codes and 128 k.  A product would be W X^T, with rows as weights (as attention
 * has its queries); there is none.
 */
#include "ablation.h"

/* Entry e of a table, e & 3 and e. */
static const uint16_t two_bits[64] __attribute__((aligned(128))) = {0, 0, 0x3c00, 0x3c00, 0x4000, 0x4000, 0x4200,
    0x4200, 0, 0, 0x3c00, 0x3c00, 0x4000, 0x4000, 0x4200, 0x4200, 0, 0, 0x3c00, 0x3c00, 0x4000, 0x4000, 0x4200, 0x4200,
    0, 0, 0x3c00, 0x3c00, 0x4000, 0x4000, 0x4200, 0x4200, 0, 0, 0x3c00, 0x3c00, 0x4000, 0x4000, 0x4200, 0x4200, 0, 0,
    0x3c00, 0x3c00, 0x4000, 0x4000, 0x4200, 0x4200, 0, 0, 0x3c00, 0x3c00, 0x4000, 0x4000, 0x4200, 0x4200, 0, 0, 0x3c00,
    0x3c00, 0x4000, 0x4000, 0x4200, 0x4200};
static const uint16_t four_bits[64] __attribute__((aligned(128))) = {0, 0, 0x3c00, 0x3c00, 0x4000, 0x4000, 0x4200,
    0x4200, 0x4400, 0x4400, 0x4500, 0x4500, 0x4600, 0x4600, 0x4700, 0x4700, 0x4800, 0x4800, 0x4880, 0x4880, 0x4900,
    0x4900, 0x4980, 0x4980, 0x4a00, 0x4a00, 0x4a80, 0x4a80, 0x4b00, 0x4b00, 0x4b80, 0x4b80, 0, 0, 0x3c00, 0x3c00,
    0x4000, 0x4000, 0x4200, 0x4200, 0x4400, 0x4400, 0x4500, 0x4500, 0x4600, 0x4600, 0x4700, 0x4700, 0x4800, 0x4800,
    0x4880, 0x4880, 0x4900, 0x4900, 0x4980, 0x4980, 0x4a00, 0x4a00, 0x4a80, 0x4a80, 0x4b00, 0x4b00, 0x4b80, 0x4b80};

ISA_INLINE vec finished(struct isa *isa, vec codes, vec d, vec m)
{
    (void)isa;
    return f16_of_q16(q16_add_q(q16_mul(codes, d), m));
}

/* 32 k of 16 outputs: a lookup for 4 of them. */
ISA_INLINE void expand_16(struct isa *isa, uint8_t *restrict dst, vec x, vec table)
{
    const vec code = v_splat_b(3), output = v_splat_w(0x0c040800);
    const vec field[4] = {x, v_mpyf_rh(x, 1 << 13), v_mpyf_rh(x, 1 << 11), v_mpyf_rh(x, 1 << 9)};
#pragma GCC unroll 4
    for (int f = 0; f < 4; f++, dst += 256) {
        vec2 h = v_lut16(v_or(v_and(field[f], code), output), table, f);
        v_store(dst, v_lo(h));
        v_store(dst + 128, v_hi(h));
    }
    (void)isa;
}

static void finished_2(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t k)
{
    const vec codes = v_const(two_bits);
    for (; k; k -= 64, src += 640, dst += 2 * TILE_BYTES) {
        vec s = v_load(src + 512); /* 8 words of scales, 8 of minima, of 16 outputs each */
        vec2 twice = v_shuff2(s, s, -4), low = v_shuff2(v_lo(twice), v_lo(twice), -4),
             high = v_shuff2(v_hi(twice), v_hi(twice), -4);
        vec table[2] = {finished(isa, codes, v_lo(low), v_hi(low)), finished(isa, codes, v_lo(high), v_hi(high))};
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) expand_16(isa, dst + 1024 * j, v_load(src + 128 * j), table[j & 1]);
    }
}

static void finished_4(struct isa *isa, uint8_t *restrict dst, const uint8_t *restrict src, uint32_t k)
{
    /* Where a vector of scales and minima has those of 4 outputs: even bytes find scales, odd ones minima. */
    const vec codes = v_const(four_bits), first = v_mux(m_first(64), v_splat_w(0x06020400), v_splat_w(0x07030501));
    const vec where[2] = {first, v_add_b(first, v_splat_b(8))};
    for (; k; k -= 128, src += 128, dst += 3 * TILE_BYTES) {
        const vec s = v_load(src + 2048);
#pragma GCC unroll 8
        for (int g = 0; g < 8; g++) {
            vec2 dm = v_lut16(where[g & 1], s, g >> 1);
            vec table = finished(isa, codes, v_lo(dm), v_hi(dm));
#pragma GCC unroll 2
            for (int p = 0; p < 4; p += 2, src += 128, dst += 128) { /* two outputs */
                vec x = v_load(src);
                vec2 even = v_lut16(x, table, p), odd = v_lut16(v_mpyf_rh(x, 1 << 11), table, p + 1);
                vec2 low = v_shuffoe_h(v_lo(odd), v_lo(even)), high = v_shuffoe_h(v_hi(odd), v_hi(even));
                v_store(dst, v_lo(low));
                v_store(dst + TILE_BYTES, v_hi(low));
                v_store(dst + 2 * TILE_BYTES, v_lo(high));
                v_store(dst + 3 * TILE_BYTES, v_hi(high));
            }
        }
    }
}

uint32_t ablation_finished(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    const uint8_t *src = isa_ptr(op->weights);
    uint8_t *dst = isa_ptr(machine->tcm_start + machine->tcm_kept);
    if (!op->k || op->k % 256 || op->n % 32 || op->k > 32768) return NPU_BAD_SHAPE;
    for (uint32_t n = 0; n < op->n; n += 32) {
        if (op->code == ABLATION_FINISHED_2)
            finished_2(isa, dst, src, op->k), src += op->k / 64 * 640;
        else
            finished_4(isa, dst, src, op->k), src += op->k / 128 * 2176;
    }
    return NPU_OK;
}
