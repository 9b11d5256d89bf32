/* SPDX-License-Identifier: MIT */
#include <arm_neon.h>

enum { CHAINS = 12, INT8_MACS = 16, F32_MACS = 4 };
typedef int8x16_t vec_i;
typedef float32x4_t vec_f;

static inline vec_i int_all(int x)
{
    return vdupq_n_s8((int8_t)x);
}

static inline vec_f float_all(float x)
{
    return vdupq_n_f32(x);
}

static inline vec_i dot(vec_i acc, vec_i w, vec_i x)
{
    return vreinterpretq_s8_s32(vpadalq_s16(
        vreinterpretq_s32_s8(acc), vpaddq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)), vmull_high_s8(w, x))));
}

static inline vec_f fma_all(vec_f acc, vec_f a, vec_f b)
{
    return vfmaq_f32(acc, a, b);
}

#include "cpu/peaks_body_impl.h"

static void measure(struct cpu_peaks *out)
{
    measure_peaks(out, "smull + addp + sadalp");
}

void cpu_peaks_init_neon(struct cpu_kernels *out)
{
    out->peaks = measure;
}
