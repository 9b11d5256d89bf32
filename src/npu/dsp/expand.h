/* SPDX-License-Identifier: MIT
 *
 * Codes to vectors of a tile through 16-entry tables of halves; what every kind with 2 or 4 bits is made of.
 *
 * A kind of value `table[q] scale` rounds once; one with a minimum adds it before the product is rounded to a half.
 */
#ifndef LUTRA_NPU_DSP_EXPAND_H
#define LUTRA_NPU_DSP_EXPAND_H

#include "npu/dsp/isa.h"

/* Halves of -8 .. 7 and of 0 .. 15, in the low half of words 0 .. 15. */
static const uint16_t signed_table[64]
    __attribute__((aligned(128))) = {0xc800, 0, 0xc700, 0, 0xc600, 0, 0xc500, 0, 0xc400, 0, 0xc200, 0, 0xc000, 0,
        0xbc00, 0, 0x0000, 0, 0x3c00, 0, 0x4000, 0, 0x4200, 0, 0x4400, 0, 0x4500, 0, 0x4600, 0, 0x4700, 0};
static const uint16_t unsigned_table[64]
    __attribute__((aligned(128))) = {0x0000, 0, 0x3c00, 0, 0x4000, 0, 0x4200, 0, 0x4400, 0, 0x4500, 0, 0x4600, 0,
        0x4700, 0, 0x4800, 0, 0x4880, 0, 0x4900, 0, 0x4980, 0, 0x4a00, 0, 0x4a80, 0, 0x4b00, 0, 0x4b80, 0};

/* The upper nibbles, in the lower ones.  A product, because lookups and conversions wait for the shifter. */
ISA_INLINE vec upper(struct isa *isa, vec x)
{
    (void)isa;
    return v_mpyf_rh(x, 1 << 11);
}

/* Four tile vectors of what two lookups found, under one scale vector; least: what is added, NULL: nothing. */
ISA_INLINE void store_4(struct isa *isa, uint8_t *restrict dst, vec2 low, vec2 high, vec scale, const vec *least)
{
    vec x[4] = {v_lo(low), v_hi(low), v_lo(high), v_hi(high)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        v_store(dst + 128 * i, least ? f16_of_q16(q16_add_q(q16_mul(x[i], scale), *least)) : f16_mul(x[i], scale));
    (void)isa;
}

/* The same of masks and a scale whose sign is set: all of it, nothing, all but the sign. */
ISA_INLINE void mask_4(struct isa *isa, uint8_t *restrict dst, vec2 low, vec2 high, vec scale)
{
    vec x[4] = {v_lo(low), v_hi(low), v_lo(high), v_hi(high)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) v_store(dst + 128 * i, v_and(x[i], scale));
    (void)isa;
}

/* Four tile vectors of 256 4-bit codes. */
ISA_INLINE void expand_4(struct isa *isa, uint8_t *restrict dst, vec codes, vec table, vec scale, const vec *least)
{
    store_4(isa, dst, v_lut16(codes, table, 0), v_lut16(upper(isa, codes), table, 0), scale, least);
}

/* Eight tile vectors of 512 2-bit codes: a nibble is looked up once for each of its codes, so nothing is masked.  Word
 * i of the table: what its low two bits stand for and, beside it, its high two bits. */
ISA_INLINE void expand_2(struct isa *isa, uint8_t *restrict dst, vec codes, vec table, vec scale, const vec *least)
{
    vec high = v_lsr_ub(codes, 4); /* a constant of `upper` would not find a register beside minima */
    store_4(isa, dst, v_lut16(codes, table, 0), v_lut16(codes, table, 2), scale, least);
    store_4(isa, dst + 512, v_lut16(high, table, 0), v_lut16(high, table, 2), scale, least);
}

#endif
