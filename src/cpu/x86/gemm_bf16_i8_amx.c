/* SPDX-License-Identifier: MIT
 *
 * Formats with 32-element blocks for the bf16 matmul.
 */
#include "cpu/x86/gemm_bf16_amx_impl.h"
#include "cpu/x86/gemm_i8_form_impl.h"

LUTRA_INLINE void unpack(struct form f, const uint8_t *packed, size_t groups, size_t g, uint8_t *to)
{
    struct group group = group_at(f, packed, groups, g);
    __m512 min = f.scales == F16_SCALE_AND_MIN ? load_f16(group.m) : _mm512_setzero_ps();
    struct bf16_scale s = bf16_scale_of(load_scale(f, group.d), f.start_shift < 0 ? 0 : 8 << f.start_shift, min);
    __m512i table = code_table(f);
    UNROLL
    for (int v = 0; v < 8; v++) bf16_store_step(load_codes(f, &group, v, table), s, to + 2 * STEP_BYTES * v);
}

static void unpack_q4_0(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)kept;
    unpack(FORM_Q4_0, packed, groups, g, to);
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

const struct bf16_format BF16_I8_FORMATS[QUANT_TYPE_END] = {
    [QUANT_Q4_0] = {"gemm_q4_0_bf16_32x32_amx", unpack_q4_0},
    [QUANT_Q4_1] = {"gemm_q4_1_bf16_32x32_amx", unpack_q4_1},
    [QUANT_Q5_0] = {"gemm_q5_0_bf16_32x32_amx", unpack_q5_0},
    [QUANT_Q5_1] = {"gemm_q5_1_bf16_32x32_amx", unpack_q5_1},
    [QUANT_Q8_0] = {"gemm_q8_0_bf16_32x32_amx", unpack_q8_0},
    [QUANT_IQ4_NL] = {"gemm_iq4_nl_bf16_32x32_amx", unpack_iq4_nl},
    [QUANT_MXFP4] = {"gemm_mxfp4_bf16_32x32_amx", unpack_mxfp4},
};
