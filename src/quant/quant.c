/* SPDX-License-Identifier: MIT */
#include "quant/quant.h"

#include <math.h>

#include "base/status.h"
#include "quant/codebooks.h"
#include "quant/formats_impl.h"

/* id, name, elements per block, bytes per block, general.file_type, functions */
#define READ(name, text, elems, bytes, file_type, fn)                                                                  \
    {                                                                                                                  \
        QUANT_##name, text, elems, bytes, file_type, quant_##fn##_dequantize, NULL                                     \
    }
#define ROW(name, text, elems, bytes, file_type, fn)                                                                   \
    {                                                                                                                  \
        QUANT_##name, text, elems, bytes, file_type, quant_##fn##_dequantize, quant_##fn##_quantize                    \
    }

static const struct quant_info formats[] = {
    ROW(F32, "F32", 1, 4, 0, f32),
    ROW(F16, "F16", 1, 2, 1, f16),
    ROW(Q4_0, "Q4_0", QUANT_BLOCK, sizeof(struct quant_q4_0), 2, q4_0),
    ROW(Q4_1, "Q4_1", QUANT_BLOCK, sizeof(struct quant_q4_1), 3, q4_1),
    ROW(Q5_0, "Q5_0", QUANT_BLOCK, sizeof(struct quant_q5_0), 8, q5_0),
    ROW(Q5_1, "Q5_1", QUANT_BLOCK, sizeof(struct quant_q5_1), 9, q5_1),
    ROW(Q8_0, "Q8_0", QUANT_BLOCK, sizeof(struct quant_q8_0), 7, q8_0),
    ROW(Q2_K, "Q2_K", QUANT_SUPER, sizeof(struct quant_q2_k), 10, q2_k),
    ROW(Q3_K, "Q3_K", QUANT_SUPER, sizeof(struct quant_q3_k), 11, q3_k),
    ROW(Q4_K, "Q4_K", QUANT_SUPER, sizeof(struct quant_q4_k), 14, q4_k),
    ROW(Q5_K, "Q5_K", QUANT_SUPER, sizeof(struct quant_q5_k), 16, q5_k),
    ROW(Q6_K, "Q6_K", QUANT_SUPER, sizeof(struct quant_q6_k), 18, q6_k),
    READ(IQ2_XXS, "IQ2_XXS", QUANT_SUPER, sizeof(struct quant_iq2_xxs), 19, iq2_xxs),
    READ(IQ2_XS, "IQ2_XS", QUANT_SUPER, sizeof(struct quant_iq2_xs), 20, iq2_xs),
    READ(IQ3_XXS, "IQ3_XXS", QUANT_SUPER, sizeof(struct quant_iq3_xxs), 23, iq3_xxs),
    READ(IQ1_S, "IQ1_S", QUANT_SUPER, sizeof(struct quant_iq1_s), 24, iq1_s),
    ROW(IQ4_NL, "IQ4_NL", QUANT_BLOCK, sizeof(struct quant_iq4_nl), 25, iq4_nl),
    READ(IQ3_S, "IQ3_S", QUANT_SUPER, sizeof(struct quant_iq3_s), 26, iq3_s),
    READ(IQ2_S, "IQ2_S", QUANT_SUPER, sizeof(struct quant_iq2_s), 29, iq2_s),
    ROW(IQ4_XS, "IQ4_XS", QUANT_SUPER, sizeof(struct quant_iq4_xs), 30, iq4_xs),
    READ(IQ1_M, "IQ1_M", QUANT_SUPER, sizeof(struct quant_iq1_m), 31, iq1_m),
    ROW(BF16, "BF16", 1, 2, 32, bf16),
    ROW(TQ1_0, "TQ1_0", QUANT_SUPER, sizeof(struct quant_tq1_0), 36, tq1_0),
    ROW(TQ2_0, "TQ2_0", QUANT_SUPER, sizeof(struct quant_tq2_0), 37, tq2_0),
    ROW(MXFP4, "MXFP4", QUANT_BLOCK, sizeof(struct quant_mxfp4), 38, mxfp4),
    READ(NVFP4, "NVFP4", QUANT_GROUP64, sizeof(struct quant_nvfp4), 39, nvfp4),
    ROW(Q1_0, "Q1_0", QUANT_GROUP128, sizeof(struct quant_q1_0), 40, q1_0),
    ROW(Q2_0, "Q2_0", QUANT_GROUP64, sizeof(struct quant_q2_0), 41, q2_0),
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* From QUANT_GGUF_END on. */
static const struct quant_info in_memory[] = {
    READ(W2, "W2", QUANT_GROUP64, sizeof(struct quant_w2), 0, w2),
    READ(W3, "W3", QUANT_GROUP64, sizeof(struct quant_w3), 0, w3),
    READ(W4, "W4", QUANT_GROUP64, sizeof(struct quant_w4), 0, w4),
    READ(NVFP4_SCALED, "NVFP4 scaled", QUANT_GROUP64, sizeof(struct quant_nvfp4_scaled), 0, nvfp4_scaled),
};

const struct quant_info *quant_info_of(uint32_t type)
{
    for (int i = 0; i < N_FORMATS; i++)
        if ((uint32_t)formats[i].type == type) return &formats[i];
    return quant_in_gguf(type) || type >= QUANT_TYPE_END ? NULL : &in_memory[type - QUANT_GGUF_END];
}

/* ASCII only: format names must not depend on the locale. */
static int lower(int c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static int same_name(const char *a, const char *b)
{
    while (*a && lower((unsigned char)*a) == lower((unsigned char)*b)) {
        a++;
        b++;
    }
    return *a == 0 && *b == 0;
}

const struct quant_info *quant_info_by_name(const char *name)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (same_name(formats[i].name, name)) return &formats[i];
    return NULL;
}

const struct quant_info *quant_info_at(size_t i)
{
    return i < N_FORMATS ? &formats[i] : NULL;
}

const char *quant_type_name(uint32_t type)
{
    switch (type) {
#define NAME_CASE(id, name, implemented)                                                                               \
    case id: return #name;
        QUANT_TYPE_LIST(NAME_CASE)
#undef NAME_CASE
    }
    const struct quant_info *q = quant_info_of(type);
    return q ? q->name : NULL;
}

int quant_row_bytes(uint32_t type, int64_t n_elems, size_t *bytes)
{
    const struct quant_info *q = quant_info_of(type);
    if (!q) return LUTRA_E_UNSUPPORTED;
    if (n_elems <= 0 || n_elems % q->block_elems) return LUTRA_E_ARGUMENT;
    size_t total;
    if (LUTRA_MUL_OVERFLOWS((uint64_t)n_elems / q->block_elems, q->block_bytes, &total)) return LUTRA_E_ARGUMENT;
    *bytes = total;
    return 0;
}

bool quant_all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}
