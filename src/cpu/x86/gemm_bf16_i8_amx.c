/* SPDX-License-Identifier: MIT
 *
 * Formats with 32-element blocks for the bf16 matmul.
 */
#include "cpu/x86/gemm_bf16_amx_impl.h"
#include "cpu/x86/gemm_i8_form_impl.h"

/* Nibbles without a minimum: two rotations of a lane bring all eight of them to bits 8, 12 and 16. */
LUTRA_INLINE void unpack_nibbles(struct form f, const uint8_t *packed, size_t groups, size_t g, uint8_t *to)
{
    struct group group = group_at(f, packed, groups, g);
    __m512 scale = load_scale(f, group.d), zero = _mm512_setzero_ps();
    const int offset = 8 << f.start_shift;
    struct bf16_scale s8 = bf16_scale_of(scale, 8, offset, zero), s12 = bf16_scale_of(scale, 12, offset, zero),
                      s16 = bf16_scale_of(scale, 16, offset, zero);
    UNROLL
    for (int v = 0; v < 4; v++, to += 2 * STEP_BYTES) {
        uint8_t *high = to + 8 * STEP_BYTES; /* step v + 4 */
        __m512i x = _mm512_loadu_si512(group.code + STEP_BYTES * v);
        __m512i y = _mm512_ror_epi32(x, 12), z = _mm512_rol_epi32(x, 8);
        bf16_store_pairs(bf16_weight(z, 8, 15, s8), bf16_weight(x, 8, 15, s8), to);
        bf16_store_pairs(bf16_weight(x, 16, 15, s16), bf16_weight(y, 12, 15, s12), to + 64);
        bf16_store_pairs(bf16_weight(z, 12, 15, s12), bf16_weight(x, 12, 15, s12), high);
        bf16_store_pairs(bf16_weight(y, 8, 15, s8), bf16_weight(y, 16, 15, s16), high + 64);
    }
}

LUTRA_INLINE void unpack(struct form f, const uint8_t *packed, size_t groups, size_t g, uint8_t *to)
{
    struct group group = group_at(f, packed, groups, g);
    __m512 scale = load_scale(f, group.d), min = _mm512_setzero_ps();
    int offset = f.start_shift < 0 || f.scales == F16_SCALE_AND_ZERO ? 0 : 8 << f.start_shift;
    if (f.scales == F16_SCALE_AND_MIN) min = load_f16(group.m);
    if (f.scales == F16_SCALE_AND_ZERO) /* exact: 11 bits times 8 */
        min = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_mullo_epi32(load_zero(&group), _mm512_set1_epi32(-8))));
    struct bf16_scale s = bf16_scale_of(scale, 15, offset, min);
    __m512i table = code_table(f);
    UNROLL
    for (int v = 0; v < 8; v++) bf16_store_step(load_codes(f, &group, v, table), s, to + 2 * STEP_BYTES * v);
}

static void unpack_q4_0(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack_nibbles(FORM_Q4_0, packed, groups, g, to);
}

static void unpack_q4_1(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_Q4_1, packed, groups, g, to);
}

static void unpack_q5_0(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_Q5_0, packed, groups, g, to);
}

static void unpack_q5_1(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_Q5_1, packed, groups, g, to);
}

static void unpack_q8_0(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_Q8_0, packed, groups, g, to);
}

static void unpack_iq4_nl(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_IQ4_NL, packed, groups, g, to);
}

static void unpack_mxfp4(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_MXFP4, packed, groups, g, to);
}

static void unpack_q1_0(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_Q1_0, packed, groups, g, to);
}

static void unpack_q2_0(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_Q2_0, packed, groups, g, to);
}

static void unpack_w2(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_W2, packed, groups, g, to);
}

static void unpack_w3(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_W3, packed, groups, g, to);
}

static void unpack_w4(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_W4, packed, groups, g, to);
}

const struct bf16_format BF16_I8_FORMATS[QUANT_TYPE_END] = {
    [QUANT_Q4_0] = {"gemm_q4_0_bf16_32x32_amx", unpack_q4_0},
    [QUANT_Q4_1] = {"gemm_q4_1_bf16_32x32_amx", unpack_q4_1},
    [QUANT_Q5_0] = {"gemm_q5_0_bf16_32x32_amx", unpack_q5_0},
    [QUANT_Q5_1] = {"gemm_q5_1_bf16_32x32_amx", unpack_q5_1},
    [QUANT_Q8_0] = {"gemm_q8_0_bf16_32x32_amx", unpack_q8_0},
    [QUANT_IQ4_NL] = {"gemm_iq4_nl_bf16_32x32_amx", unpack_iq4_nl},
    [QUANT_MXFP4] = {"gemm_mxfp4_bf16_32x32_amx", unpack_mxfp4},
    [QUANT_Q1_0] = {"gemm_q1_0_bf16_32x32_amx", unpack_q1_0},
    [QUANT_Q2_0] = {"gemm_q2_0_bf16_32x32_amx", unpack_q2_0},
    [QUANT_W2] = {"gemm_w2_bf16_32x32_amx", unpack_w2},
    [QUANT_W3] = {"gemm_w3_bf16_32x32_amx", unpack_w3},
    [QUANT_W4] = {"gemm_w4_bf16_32x32_amx", unpack_w4},
};
