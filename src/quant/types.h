/* SPDX-License-Identifier: MIT
 *
 * GGUF's type numbers, and those of formats in memory only.  Freestanding, as quant/formats.h is.
 */
#ifndef LUTRA_QUANT_TYPES_H
#define LUTRA_QUANT_TYPES_H

/* GGUF's tensor types.  X(id, name, implemented): those with 0 are known only to be refused by name. */
#define QUANT_TYPE_LIST(X)                                                                                             \
    X(0, F32, 1)                                                                                                       \
    X(1, F16, 1)                                                                                                       \
    X(2, Q4_0, 1)                                                                                                      \
    X(3, Q4_1, 1)                                                                                                      \
    X(6, Q5_0, 1)                                                                                                      \
    X(7, Q5_1, 1)                                                                                                      \
    X(8, Q8_0, 1)                                                                                                      \
    X(9, Q8_1, 0)                                                                                                      \
    X(10, Q2_K, 1)                                                                                                     \
    X(11, Q3_K, 1)                                                                                                     \
    X(12, Q4_K, 1)                                                                                                     \
    X(13, Q5_K, 1)                                                                                                     \
    X(14, Q6_K, 1)                                                                                                     \
    X(15, Q8_K, 0)                                                                                                     \
    X(16, IQ2_XXS, 1)                                                                                                  \
    X(17, IQ2_XS, 1)                                                                                                   \
    X(18, IQ3_XXS, 1)                                                                                                  \
    X(19, IQ1_S, 1)                                                                                                    \
    X(20, IQ4_NL, 1)                                                                                                   \
    X(21, IQ3_S, 1)                                                                                                    \
    X(22, IQ2_S, 1)                                                                                                    \
    X(23, IQ4_XS, 1)                                                                                                   \
    X(24, I8, 0)                                                                                                       \
    X(25, I16, 0)                                                                                                      \
    X(26, I32, 0)                                                                                                      \
    X(27, I64, 0)                                                                                                      \
    X(28, F64, 0)                                                                                                      \
    X(29, IQ1_M, 1)                                                                                                    \
    X(30, BF16, 1)                                                                                                     \
    X(34, TQ1_0, 1)                                                                                                    \
    X(35, TQ2_0, 1)                                                                                                    \
    X(39, MXFP4, 1)                                                                                                    \
    X(40, NVFP4, 1)                                                                                                    \
    X(41, Q1_0, 1)                                                                                                     \
    X(42, Q2_0, 1)

enum quant_type {
#define QUANT_TYPE_ENUM(id, name, implemented) QUANT_##name = id,
    QUANT_TYPE_LIST(QUANT_TYPE_ENUM)
#undef QUANT_TYPE_ENUM
        QUANT_GGUF_END = 43, /* one more than the largest id: no file may have this number or one above */

    /* In memory only: quant/zero_point.h, and NVFP4 with a factor of the whole matrix. */
    QUANT_W2 = QUANT_GGUF_END,
    QUANT_W3,
    QUANT_W4,
    QUANT_NVFP4_SCALED,
    QUANT_TYPE_END
};

#endif
