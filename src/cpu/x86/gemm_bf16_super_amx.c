/* SPDX-License-Identifier: MIT
 *
 * Formats with 256-element blocks for the bf16 matmul.  A tile is one block, whose codes and scales are unpacked with
 * its first group.
 */
#include "cpu/x86/gemm_bf16_amx_impl.h"
#include "cpu/x86/gemm_super_form_impl.h"

_Static_assert(sizeof(struct unpacked) <= BF16_KEPT_BYTES, "an unpacked tile fits what is kept of it");

/* What unsigned codes have above their values. */
LUTRA_INLINE int offset_of(struct form f)
{
    if (f.scales == NO_SCALES) return 1;
    return f.codes == THREE_BITS ? 4 : f.codes == SIX_BITS ? 32 : f.codes == TABLE ? 128 : 0;
}

/* Scale i of a tile, with its minimum for the formats that have them. */
LUTRA_INLINE struct bf16_scale scale_at(struct form f, const struct unpacked *u, size_t i)
{
    const __m512 zero = _mm512_setzero_ps();
    if (f.scales == NO_SCALES) return bf16_scale_of(u->d, 15, offset_of(f), zero);
    __m512i own = u->scale[i], pair = u->min_pair[i / 2];
    if (f.scales == SCALE_6) own = _mm512_srai_epi32(_mm512_slli_epi32(own, 16), 16); /* fits_half: no sign above */
    __m512 scale = _mm512_mul_ps(u->d, _mm512_cvtepi32_ps(own));
    if (!has_minima(f)) return bf16_scale_of(scale, 15, offset_of(f), zero);
    __m512 min =
        _mm512_cvtepi32_ps(i % 2 ? _mm512_srli_epi32(pair, 16) : _mm512_and_si512(pair, _mm512_set1_epi32(63)));
    return bf16_scale_of(scale, 15, offset_of(f), _mm512_mul_ps(min, _mm512_sub_ps(zero, u->dmin)));
}

LUTRA_INLINE void unpack(struct form f, const uint8_t *packed, size_t g, void *kept, uint8_t *to)
{
    struct unpacked *u = kept;
    if (g == 0) unpack_tile(f, u, packed);
    const int steps = group_steps(f);
    UNROLL
    for (int v = 0; v < 8; v += steps) {
        struct bf16_scale s = scale_at(f, u, (8 * g + (size_t)v) / (size_t)steps);
        UNROLL
        for (int i = v; i < v + steps; i++) bf16_store_step(u->code[8 * g + (size_t)i], s, to + 2 * STEP_BYTES * i);
    }
}

static void unpack_q2_k(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack(FORM_Q2_K, packed, g, kept, to);
}

static void unpack_q3_k(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack(FORM_Q3_K, packed, g, kept, to);
}

static void unpack_q4_k(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack(FORM_Q4_K, packed, g, kept, to);
}

static void unpack_q5_k(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack(FORM_Q5_K, packed, g, kept, to);
}

static void unpack_q6_k(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack(FORM_Q6_K, packed, g, kept, to);
}

static void unpack_iq4_xs(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack(FORM_IQ4_XS, packed, g, kept, to);
}

static void unpack_ternary(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack(FORM_TERNARY, packed, g, kept, to);
}

const struct bf16_format BF16_SUPER_FORMATS[QUANT_TYPE_END] = {
    [QUANT_Q2_K] = {"gemm_q2_k_bf16_32x32_amx", unpack_q2_k},
    [QUANT_Q3_K] = {"gemm_q3_k_bf16_32x32_amx", unpack_q3_k},
    [QUANT_Q4_K] = {"gemm_q4_k_bf16_32x32_amx", unpack_q4_k},
    [QUANT_Q5_K] = {"gemm_q5_k_bf16_32x32_amx", unpack_q5_k},
    [QUANT_Q6_K] = {"gemm_q6_k_bf16_32x32_amx", unpack_q6_k},
    [QUANT_IQ4_XS] = {"gemm_iq4_xs_bf16_32x32_amx", unpack_iq4_xs},
    [QUANT_TQ1_0] = {"gemm_tq1_0_bf16_32x32_amx", unpack_ternary},
    [QUANT_TQ2_0] = {"gemm_tq2_0_bf16_32x32_amx", unpack_ternary},
};
