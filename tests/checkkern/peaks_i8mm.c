/* SPDX-License-Identifier: MIT */
#include <arm_neon.h>

enum { STEP_MACS = 32 };

static inline int32x4_t peak_step(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    return vmmlaq_s32(acc, w, x);
}

#include "peaks_arm_impl.h"

struct peaks measure_peaks_i8mm(void)
{
    return measure();
}
