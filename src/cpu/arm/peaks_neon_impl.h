/* SPDX-License-Identifier: MIT
 *
 * Vectors and fma of the peaks on Arm; cpu/peaks_tmpl.h says what a file adds.
 */
#ifndef LUTRA_CPU_ARM_PEAKS_NEON_IMPL_H
#define LUTRA_CPU_ARM_PEAKS_NEON_IMPL_H

#include <arm_neon.h>

#include "base/compiler.h"

enum { CHAINS = 12, F32_MACS = 4 };
typedef int8x16_t vec_i;
typedef float32x4_t vec_f;

LUTRA_INLINE vec_i int_all(int x)
{
    return vdupq_n_s8((int8_t)x);
}

LUTRA_INLINE vec_f float_all(float x)
{
    return vdupq_n_f32(x);
}

LUTRA_INLINE vec_f fma_all(vec_f acc, vec_f a, vec_f b)
{
    return vfmaq_f32(acc, a, b);
}

#endif
