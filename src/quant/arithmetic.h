/* SPDX-License-Identifier: MIT
 *
 * What rounding to codes is made of, in every format the same way.
 */
#ifndef LUTRA_QUANT_ARITHMETIC_H
#define LUTRA_QUANT_ARITHMETIC_H

#include <math.h>

/* Truncates into [lo, hi]; NaN becomes lo.  A plain cast of NaN or a large float is undefined. */
static inline int quant_clamp(float x, int lo, int hi)
{
    if (!(x > (float)lo)) return lo;
    return x >= (float)hi ? hi : (int)x;
}

/* Nearest integer, ties to even, without a libm call; exact for |x| < 2^22. */
static inline float quant_nearest(float x)
{
    return (x + 12582912.0f) - 12582912.0f;
}

/* The element of largest magnitude, with its sign. */
static inline float quant_signed_max(const float *x, int n)
{
    float amax = 0, max = 0;
    for (int i = 0; i < n; i++) {
        if (amax < fabsf(x[i])) {
            amax = fabsf(x[i]);
            max = x[i];
        }
    }
    return max;
}

static inline void quant_min_max(const float *x, int n, float *min, float *max)
{
    *min = *max = x[0];
    for (int i = 1; i < n; i++) {
        if (x[i] < *min) *min = x[i];
        if (x[i] > *max) *max = x[i];
    }
}

#endif
