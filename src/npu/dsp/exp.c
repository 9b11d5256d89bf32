/* SPDX-License-Identifier: MIT
 *
 * exp of halves <= 0 for the softmax, three ways [TTS 5.2.1, Figure 14]: a table in TCM read by gathers, a polynomial
 * in halves, and f32 arithmetic.
 *
 * The table is indexed by the IEEE bits of the half without its sign: entry i is the nearest half of exp(-half(i)), 0
 * for infinity, NaN for NaN.  (Never by the unit's own form, whose bits differ between generations.)
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vexp.h"

enum { SIGN = (int32_t)0x80008000 };

void npu_exp_table(struct isa *isa, uint8_t *table)
{
    static const uint16_t ramp[64] __attribute__((aligned(128))) = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
        15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
        43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    const vec infinity = v_splat_h(0x7c00);
    vec index = v_const(ramp);
    for (uint32_t i = 0; i < EXP_TABLE_BYTES; i += 128, index = v_add_h(index, v_splat_h(64))) {
        vec y = v_exp_wide(isa, v_or(index, v_splat_w(SIGN)));
        y = v_mux(v_eq_h(index, infinity), v_zero(), y);
        v_store(table + i, v_mux(v_gt_h(index, infinity), v_splat_h(0x7e00), y));
    }
}

void npu_exp_by_table(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t n, const uint8_t *table,
    uint8_t *restrict scratch)
{
    /* Four gathers are under way before the first result is read. */
    for (uint32_t i = 0; i < 2 * n; i += 512) {
        uint32_t left = 2 * n - i < 512 ? 2 * n - i : 512;
        if (left == 512) {
#pragma GCC unroll 4
            for (uint32_t j = 0; j < 512; j += 128)
                v_gather_h(scratch + j, table, EXP_TABLE_BYTES, v_asl_h(v_load(x + i + j), 1));
#pragma GCC unroll 4
            for (uint32_t j = 0; j < 512; j += 128) v_store(y + i + j, v_load(scratch + j));
        } else {
            for (uint32_t j = 0; j < left; j += 128)
                v_gather_h(scratch + j, table, EXP_TABLE_BYTES, v_asl_h(v_load(x + i + j), 1));
            for (uint32_t j = 0; j < left; j += 128) v_store(y + i + j, v_load(scratch + j));
        }
    }
    (void)isa;
}

void npu_exp_by_f16(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t n)
{
    for (uint32_t i = 0; i < 2 * n; i += 128) v_store(y + i, v_exp_half(isa, v_load(x + i)));
}

void npu_exp_by_f32(struct isa *isa, uint8_t *restrict y, const uint8_t *restrict x, uint32_t n)
{
    for (uint32_t i = 0; i < 2 * n; i += 128) v_store(y + i, v_exp_wide(isa, v_load(x + i)));
}
