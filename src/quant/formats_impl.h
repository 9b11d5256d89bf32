/* SPDX-License-Identifier: MIT
 *
 * The conversions behind the table of quant.c, a pair per format, or the reader alone.
 */
#ifndef LUTRA_QUANT_FORMATS_IMPL_H
#define LUTRA_QUANT_FORMATS_IMPL_H

#include "quant/arithmetic.h"
#include "quant/formats.h"

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
QUANT_DECLARE_READ(iq2_xxs)
QUANT_DECLARE_READ(iq2_xs)
QUANT_DECLARE_READ(iq2_s)
QUANT_DECLARE_READ(iq3_xxs)
QUANT_DECLARE_READ(iq3_s)
QUANT_DECLARE_READ(iq1_s)
QUANT_DECLARE_READ(iq1_m)
QUANT_DECLARE_READ(nvfp4)
QUANT_DECLARE_READ(nvfp4_scaled)
QUANT_DECLARE_READ(w2)
QUANT_DECLARE_READ(w3)
QUANT_DECLARE_READ(w4)
#undef QUANT_DECLARE
#undef QUANT_DECLARE_READ

/* The codes of one block of 5 bits: nibbles, element i beside element i + 16, and the fifth bits, bit i of qh. */
void quant_pack5(const uint8_t code[QUANT_BLOCK], uint8_t qs[16], uint8_t qh[4]);

#endif
