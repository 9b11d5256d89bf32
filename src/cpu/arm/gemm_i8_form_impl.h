/* SPDX-License-Identifier: MIT
 *
 * The formats with 32-element blocks on Arm, class i8x32: what differs between them, and their groups of 32 inputs in a
 * packed panel.
 *
 * Included by a body that defines run_all(struct form f, const struct cpu_gemm_args *a), and that includes
 * gemm_i8_runs_impl.h after it.
 */
#ifndef LUTRA_CPU_ARM_GEMM_I8_FORM_H
#define LUTRA_CPU_ARM_GEMM_I8_FORM_H

#include "cpu/arm/gemm_arm_impl.h"

enum codes { NIBBLES, TABLE, FIVE_BITS, BYTES };
enum scales { F16_SCALE, F16_SCALE_AND_MIN, E8M0_SCALE };

/* Always a compile-time constant of an inlined call. */
struct form {
    enum codes codes;
    enum scales scales;
    int start_shift; /* the dot product starts at the record's start << this (codes are offset); -1: at 0 */
};

struct group {
    const uint8_t *code, *bits, *d, *m; /* of one group */
};

LUTRA_INLINE size_t code_bytes(struct form f)
{
    return f.codes == BYTES ? 512 : 256;
}

LUTRA_INLINE size_t scale_bytes(struct form f)
{
    return f.scales == E8M0_SCALE ? 16 : 32;
}

/* The first of a tile's groups.  Returns the next tile. */
LUTRA_INLINE const uint8_t *first_group(struct form f, const uint8_t *tile, size_t groups, struct group *g)
{
    g->code = tile;
    g->bits = g->code + groups * code_bytes(f);
    g->d = g->bits + (f.codes == FIVE_BITS ? groups * STEP_BYTES : 0);
    g->m = g->d + groups * scale_bytes(f);
    return g->m + (f.scales == F16_SCALE_AND_MIN ? groups * 32 : 0);
}

LUTRA_INLINE void next_group(struct form f, struct group *g)
{
    g->code += code_bytes(f);
    g->bits += STEP_BYTES;
    g->d += scale_bytes(f);
    g->m += 32;
}

LUTRA_INLINE int8x16_t code_table(enum quant_type type)
{
    static const int8_t IQ4_NL[16] = QUANT_IQ4_NL_VALUES;
    static const int8_t MXFP4[16] = QUANT_MXFP4_VALUES;
    return vld1q_s8(type == QUANT_MXFP4 ? MXFP4 : IQ4_NL);
}

LUTRA_INLINE float32x4_t load_scale(struct form f, const uint8_t *d, int quad)
{
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
