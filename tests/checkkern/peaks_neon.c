/* SPDX-License-Identifier: MIT */
#include <arm_neon.h>

enum { STEP_MACS = 16 };

static inline int32x4_t peak_step(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    return vpadalq_s16(acc, vpaddq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)), vmull_high_s8(w, x)));
}

#include "peaks_arm_impl.h"

struct peaks measure_peaks_neon(void)
{
    return measure();
}
