/* SPDX-License-Identifier: MIT
 *
 * The float operations of isa.h on one lane: the definition that the emulator and the QEMU back end share.
 *
 * Bits in, bits out.  Half floats are computed in f32 and rounded once more: with 24 and 11 bits of precision the
 * second rounding is innocuous for sums, differences and products, so the result is the nearest half.  Built with
 * -ffp-contract=off.  Freestanding, pure.
 */
#ifndef LUTRA_NPU_DSP_SOFT_H
#define LUTRA_NPU_DSP_SOFT_H

#include "base/f16.h"

enum { SOFT_NAN16 = 0x7e00 };
#define SOFT_NAN32 0x7fc00000u

static inline int soft_is_nan32(uint32_t a)
{
    return (a & 0x7fffffffu) > 0x7f800000u;
}

static inline int soft_is_nan16(uint16_t a)
{
    return (a & 0x7fffu) > 0x7c00u;
}

static inline uint32_t soft_bits(float x)
{
    uint32_t u = f32_bits(x);
    return soft_is_nan32(u) ? SOFT_NAN32 : u;
}

static inline uint16_t soft_half(float x)
{
    uint16_t h = f32_to_f16(x);
    return soft_is_nan16(h) ? SOFT_NAN16 : h;
}

static inline uint32_t soft_add32(uint32_t a, uint32_t b)
{
    return soft_bits(f32_from_bits(a) + f32_from_bits(b));
}

static inline uint32_t soft_sub32(uint32_t a, uint32_t b)
{
    return soft_bits(f32_from_bits(a) - f32_from_bits(b));
}

static inline uint32_t soft_mul32(uint32_t a, uint32_t b)
{
    return soft_bits(f32_from_bits(a) * f32_from_bits(b));
}

static inline uint16_t soft_add16(uint16_t a, uint16_t b)
{
    return soft_half(f16_to_f32(a) + f16_to_f32(b));
}

static inline uint16_t soft_sub16(uint16_t a, uint16_t b)
{
    return soft_half(f16_to_f32(a) - f16_to_f32(b));
}

static inline uint16_t soft_mul16(uint16_t a, uint16_t b)
{
    return soft_half(f16_to_f32(a) * f16_to_f32(b));
}

static inline uint32_t soft_mul_f16(uint16_t a, uint16_t b)
{
    return soft_bits(f16_to_f32(a) * f16_to_f32(b));
}

static inline uint16_t soft_narrow(uint32_t a)
{
    return soft_half(f32_from_bits(a));
}

/* A key that orders floats as integers do; -0 below +0. */
static inline int32_t soft_key32(uint32_t a)
{
    return (int32_t)(a ^ ((uint32_t)((int32_t)a >> 31) >> 1));
}

static inline int32_t soft_key16(uint16_t a)
{
    return a & 0x8000 ? -(int32_t)(a & 0x7fff) - 1 : (int32_t)a;
}

static inline uint32_t soft_max32(uint32_t a, uint32_t b)
{
    if (soft_is_nan32(a) || soft_is_nan32(b)) return SOFT_NAN32;
    return soft_key32(a) > soft_key32(b) ? a : b;
}

static inline uint32_t soft_min32(uint32_t a, uint32_t b)
{
    if (soft_is_nan32(a) || soft_is_nan32(b)) return SOFT_NAN32;
    return soft_key32(a) > soft_key32(b) ? b : a;
}

static inline uint16_t soft_max16(uint16_t a, uint16_t b)
{
    if (soft_is_nan16(a) || soft_is_nan16(b)) return SOFT_NAN16;
    return soft_key16(a) > soft_key16(b) ? a : b;
}

static inline uint16_t soft_min16(uint16_t a, uint16_t b)
{
    if (soft_is_nan16(a) || soft_is_nan16(b)) return SOFT_NAN16;
    return soft_key16(a) > soft_key16(b) ? b : a;
}

static inline int soft_gt32(uint32_t a, uint32_t b)
{
    return f32_from_bits(a) > f32_from_bits(b);
}

static inline int soft_gt16(uint16_t a, uint16_t b)
{
    return f16_to_f32(a) > f16_to_f32(b);
}

static inline uint32_t soft_of_i32(uint32_t a)
{
    return f32_bits((float)(int32_t)a);
}

static inline uint32_t soft_to_i32(uint32_t a)
{
    float x = f32_from_bits(a);
    if (soft_is_nan32(a)) return 0;
    if (x >= 0x1p31f) return 0x7fffffffu;
    if (x < -0x1p31f) return 0x80000000u;
    return (uint32_t)(int32_t)x;
}

static inline uint16_t soft_of_i16(uint16_t a)
{
    return f32_to_f16((float)(int16_t)a);
}

static inline uint16_t soft_to_i16(uint16_t a)
{
    float x = f16_to_f32(a);
    if (soft_is_nan16(a)) return 0;
    if (x > 32767.0f) return 0x7fffu;
    if (x < -32768.0f) return 0x8000u;
    return (uint16_t)(int16_t)x;
}

#endif
