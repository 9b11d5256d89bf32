/* SPDX-License-Identifier: MIT
 *
 * A tile of quant_gram, c[i][k] += sum over p of a[p][i] b[p][k], and what errors ask of a column in GRAM_ROWS rows.
 */
#ifndef LUTRA_QUANTIZE_GRAM_IMPL_H
#define LUTRA_QUANTIZE_GRAM_IMPL_H

#include <stddef.h>

/* Before a loop whose trip count is a constant: accumulators in arrays become registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { GRAM_I = 8, GRAM_K = 24, GRAM_KF = 48, GRAM_ROWS = 16 };

/* a: [n_row][GRAM_I], b: [n_row][GRAM_K] doubles, or [n_row][GRAM_KF] and all floats, which are added up as floats
 * before they are added to c. */
typedef void (*gram_tile_fn)(const void *a, const void *b, size_t n_row, double *c, size_t ldc);

/* sum[r] += sum over j of a[j] e[j][r]; e: [n][GRAM_ROWS] */
typedef void (*gram_errors_fn)(const float *a, size_t n, const float *e, float *sum);

#define GRAM_DECLARE(isa)                                                                                              \
    void gram_tile_##isa(const void *a, const void *b, size_t n_row, double *c, size_t ldc);                           \
    void gram_tile_f32_##isa(const void *a, const void *b, size_t n_row, double *c, size_t ldc);                       \
    void gram_errors_##isa(const float *a, size_t n, const float *e, float *sum);
GRAM_DECLARE(plain)
GRAM_DECLARE(avx2)
GRAM_DECLARE(avx512)
#undef GRAM_DECLARE

#endif
