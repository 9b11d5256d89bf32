/* SPDX-License-Identifier: MIT
 *
 * Half floats (IEEE binary16) and bfloat16 as bits, to and from f32.
 *
 * Scalar and exact: round to nearest, ties to even; subnormals kept; infinities kept; NaN stays NaN, quiet, with
 * the top bits of its payload.  f16 agrees bit for bit with x86's F16C for all inputs (tests/unit/quant), so a
 * vector kernel and this file may be mixed.  Freestanding; pure; any thread.
 */
#ifndef LUTRA_BASE_F16_H
#define LUTRA_BASE_F16_H

#include <stdint.h>

static inline uint32_t f32_bits(float x)
{
    union {
        float f;
        uint32_t u;
    } v = {.f = x};
    return v.u;
}

static inline float f32_from_bits(uint32_t u)
{
    union {
        uint32_t u;
        float f;
    } v = {.u = u};
    return v.f;
}

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, expo = (h >> 10) & 31u, frac = h & 0x3ffu;
    if (expo == 31) return f32_from_bits(sign | 0x7f800000u | (frac ? 0x400000u | frac << 13 : 0));
    if (expo) return f32_from_bits(sign | (expo + 112) << 23 | frac << 13);
    /* Subnormal: frac * 2^-24, exact in f32. */
    return f32_from_bits(sign | f32_bits((float)frac * 0x1p-24f));
}

static inline uint16_t f32_to_f16(float x)
{
    uint32_t u = f32_bits(x), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (mag >> 13 & 0x3ffu));
    if (mag >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (mag < 0x38800000u) {
        /* Below 2^-14 the result is a subnormal: adding 0.5 puts its last bit where f32's last bit is, and the
         * addition rounds to nearest even. */
        return (uint16_t)(sign | (f32_bits(f32_from_bits(mag) + 0.5f) - 0x3f000000u));
    }
    uint32_t odd = mag >> 13 & 1u;
    return (uint16_t)(sign | (mag - 0x38000000u + 0xfffu + odd) >> 13);
}

static inline float bf16_to_f32(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t f32_to_bf16(float x)
{
    uint32_t u = f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* Half of the power of two 2^(e - 127) that an E8M0 scale stands for: 2^(e - 128), subnormal for e < 2. */
static inline float e8m0_half_to_f32(uint8_t e)
{
    return f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

#endif
