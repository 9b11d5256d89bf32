/* SPDX-License-Identifier: MIT
 *
 * The conversions behind the table of quant.c, a pair per format, or the reader alone, and the arithmetic they share.
 */
#ifndef LUTRA_QUANT_FORMATS_IMPL_H
#define LUTRA_QUANT_FORMATS_IMPL_H

#include "quant/formats.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define QUANT_DECLARE_READ(format) void quant_##format##_dequantize(const void *src, float *dst, size_t n);
#define QUANT_DECLARE(format)                                                                                          \
    QUANT_DECLARE_READ(format)                                                                                         \
    void quant_##format##_quantize(const float *src, void *dst, size_t n);
QUANT_DECLARE(f32)
QUANT_DECLARE(f16)
QUANT_DECLARE(bf16)
QUANT_DECLARE(q4_0)
QUANT_DECLARE(q4_1)
QUANT_DECLARE(q5_0)
QUANT_DECLARE(q5_1)
QUANT_DECLARE(q8_0)
QUANT_DECLARE(q2_k)
QUANT_DECLARE(q3_k)
QUANT_DECLARE(q4_k)
QUANT_DECLARE(q5_k)
QUANT_DECLARE(q6_k)
QUANT_DECLARE(iq4_nl)
QUANT_DECLARE(iq4_xs)
QUANT_DECLARE(tq1_0)
QUANT_DECLARE(tq2_0)
QUANT_DECLARE(mxfp4)
QUANT_DECLARE(q1_0)
QUANT_DECLARE(q2_0)
QUANT_DECLARE(iq2_xxs)
QUANT_DECLARE(iq2_xs)
QUANT_DECLARE(iq2_s)
QUANT_DECLARE(iq3_xxs)
QUANT_DECLARE(iq3_s)
QUANT_DECLARE_READ(iq1_s)
QUANT_DECLARE_READ(iq1_m)
QUANT_DECLARE_READ(nvfp4)
QUANT_DECLARE_READ(nvfp4_scaled)
QUANT_DECLARE_READ(w2)
QUANT_DECLARE_READ(w3)
QUANT_DECLARE_READ(w4)
#undef QUANT_DECLARE
#undef QUANT_DECLARE_READ

/* The same by quant_weighted's weights; w: NULL: all alike. */
void quant_iq2_xxs_weighted(const float *x, const float *w, void *dst, size_t n);
void quant_iq2_xs_weighted(const float *x, const float *w, void *dst, size_t n);
void quant_iq2_s_weighted(const float *x, const float *w, void *dst, size_t n);
void quant_iq3_xxs_weighted(const float *x, const float *w, void *dst, size_t n);
void quant_iq3_s_weighted(const float *x, const float *w, void *dst, size_t n);

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

/* The codes of one block of 5 bits: nibbles, element i beside element i + 16, and the fifth bits, bit i of qh. */
void quant_pack5(const uint8_t code[QUANT_BLOCK], uint8_t qs[16], uint8_t qh[4]);

#endif
