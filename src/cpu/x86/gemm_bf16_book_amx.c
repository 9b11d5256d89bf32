/* SPDX-License-Identifier: MIT
 *
 * Formats with codebooks for the bf16 matmul.  Their tables are made once per call.
 */
#include "cpu/x86/gemm_bf16_amx_impl.h"
#include "cpu/x86/gemm_book_form_avx512_impl.h"

_Static_assert(sizeof(struct tables) <= BF16_KEPT_BYTES, "a codebook's tables fit what is kept");

void cpu_bf16_make_tables(enum quant_type type, void *kept)
{
    switch (type) {
    case QUANT_IQ2_XXS: make_tables((struct form){BOOK_IQ2_XXS}, kept); break;
    case QUANT_IQ2_XS: make_tables((struct form){BOOK_IQ2_XS}, kept); break;
    case QUANT_IQ2_S: make_tables((struct form){BOOK_IQ2_S}, kept); break;
    case QUANT_IQ3_XXS: make_tables((struct form){BOOK_IQ3_XXS}, kept); break;
    case QUANT_IQ3_S: make_tables((struct form){BOOK_IQ3_S}, kept); break;
    default: break;
    }
}

LUTRA_INLINE void unpack(struct form f, const uint8_t *packed, size_t g, const struct tables *t, uint8_t *to)
{
    const int steps = group_steps(f);
    const __m512 d = load_d(f, packed);
    __m512i entries[4], signs = load_signs(f, packed, g);
    read_entries(f, t, packed, g, entries);
    UNROLL
    for (int v = 0; v < 8; v += steps) {
        __m512i scale = load_scale(f, packed, (8 * (int)g + v) / steps);
        struct bf16_scale s =
            bf16_scale_of(_mm512_mul_ps(d, _mm512_cvtepi32_ps(scale)), 15, OFFSET, _mm512_setzero_ps());
        UNROLL
        for (int i = v; i < v + steps; i++)
            bf16_store_step(codes_of(f, t, entries, signs, i), s, to + 2 * STEP_BYTES * i);
    }
}

static void unpack_iq2_xxs(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack((struct form){BOOK_IQ2_XXS}, packed, g, kept, to);
}

static void unpack_iq2_xs(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack((struct form){BOOK_IQ2_XS}, packed, g, kept, to);
}

static void unpack_iq2_s(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack((struct form){BOOK_IQ2_S}, packed, g, kept, to);
}

static void unpack_iq3_xxs(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack((struct form){BOOK_IQ3_XXS}, packed, g, kept, to);
}

static void unpack_iq3_s(const uint8_t *packed, size_t groups, size_t g, void *kept, uint8_t *to)
{
    (void)groups;
    unpack((struct form){BOOK_IQ3_S}, packed, g, kept, to);
}

const struct bf16_format BF16_BOOK_FORMATS[QUANT_TYPE_END] = {
    [QUANT_IQ2_XXS] = {"gemm_iq2_xxs_bf16_32x32_amx", unpack_iq2_xxs},
    [QUANT_IQ2_XS] = {"gemm_iq2_xs_bf16_32x32_amx", unpack_iq2_xs},
    [QUANT_IQ2_S] = {"gemm_iq2_s_bf16_32x32_amx", unpack_iq2_s},
    [QUANT_IQ3_XXS] = {"gemm_iq3_xxs_bf16_32x32_amx", unpack_iq3_xxs},
    [QUANT_IQ3_S] = {"gemm_iq3_s_bf16_32x32_amx", unpack_iq3_s},
};
