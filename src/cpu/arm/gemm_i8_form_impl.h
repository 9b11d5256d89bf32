/* SPDX-License-Identifier: MIT
 *
 * Tables and scales of the formats with 32-element blocks as vectors of 4 rows.  Codes are within int8 here: those of
 * Q8_0 and of tables are signed.
 */
#ifndef LUTRA_CPU_ARM_GEMM_I8_FORM_H
#define LUTRA_CPU_ARM_GEMM_I8_FORM_H

#include "cpu/arm/gemm_arm_impl.h"

#include "cpu/gemm_i8_form_tmpl.h"

/* The same format when codes that would leave int8 are kept signed: nothing to start with. */
LUTRA_INLINE struct form in_int8(struct form f)
{
    if (f.codes == BYTES || f.codes == TABLE) f.start_shift = -1;
    return f;
}

LUTRA_INLINE int8x16_t code_table(struct form f)
{
    static const int8_t IQ4_NL[16] = QUANT_IQ4_NL_VALUES;
    static const int8_t MXFP4[16] = QUANT_MXFP4_VALUES;
    return vld1q_s8(f.scales == E8M0_SCALE ? MXFP4 : IQ4_NL);
}

/* The zeros of a quad. */
LUTRA_INLINE int32x4_t load_zero(const struct group *g, int quad)
{
    uint32_t bytes;
    memcpy(&bytes, g->m + 4 * quad, 4);
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes)))));
}

LUTRA_INLINE float32x4_t load_scale(struct form f, const uint8_t *d, int quad)
{
    if (f.shared) return vmulq_n_f32(load_f16(d + 8 * quad), value_scale(f));
    if (f.scales != E8M0_SCALE) return load_f16(d + 8 * quad);
    /* 2^(e - 128): the exponent field e - 1, or a subnormal for e = 0 and 1. */
    uint32_t bytes;
    memcpy(&bytes, d + 4 * quad, 4);
    uint32x4_t e = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
    uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    uint32x4_t tiny = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), tiny, normal));
}

#endif
