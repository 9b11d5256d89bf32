/* SPDX-License-Identifier: MIT
 *
 * Peak of one core on Arm: an int8 dot product and fma on registers, 12 independent chains.
 *
 * Included by one file per instruction set, which defines before:
 *     enum { STEP_MACS };   multiply-accumulates of one step
 *     int32x4_t peak_step(int32x4_t acc, int8x16_t w, int8x16_t x);
 */
#ifndef LUTRA_CHECKKERN_PEAKS_ARM_H
#define LUTRA_CHECKKERN_PEAKS_ARM_H

#include "checkkern.h"

enum { CHAINS = 12, LOOPS = 100000 };

static struct peaks measure(void)
{
    volatile int seed = 3;
    int8x16_t w = vdupq_n_s8((int8_t)seed), x = vdupq_n_s8((int8_t)(seed + 1));
    int32x4_t a[CHAINS];
    float32x4_t f[CHAINS], g = vdupq_n_f32((float)seed * 1e-9f);
    struct peaks best = {0, 0};
    for (int rep = 0; rep < 40; rep++) {
        for (int c = 0; c < CHAINS; c++) {
            a[c] = vdupq_n_s32(c); /* chains differ, or the compiler would run one for all */
            f[c] = vdupq_n_f32((float)c);
        }
        double t0 = now_seconds();
        for (int i = 0; i < LOOPS; i++) {
#pragma GCC unroll 12
            for (int c = 0; c < CHAINS; c++) a[c] = peak_step(a[c], w, x);
        }
        double t1 = now_seconds();
        for (int i = 0; i < LOOPS; i++) {
#pragma GCC unroll 12
            for (int c = 0; c < CHAINS; c++) f[c] = vfmaq_f32(f[c], g, g);
        }
        double t2 = now_seconds();
        for (int c = 0; c < CHAINS; c++) seed += vgetq_lane_s32(a[c], 0) + (int)vgetq_lane_f32(f[c], 0);
        double int8 = (double)STEP_MACS * CHAINS * LOOPS / (t1 - t0) * 1e-9;
        double f32 = 4.0 * CHAINS * LOOPS / (t2 - t1) * 1e-9;
        if (int8 > best.int8_gmac) best.int8_gmac = int8;
        if (f32 > best.f32_gmac) best.f32_gmac = f32;
    }
    return best;
}

#endif
