/* SPDX-License-Identifier: MIT
 *
 * Activations for the AMX matmul: the same int8 codes and scales as cpu/layout.h's, in tiles of 8 or 16 rows.
 *
 *     q8x32:  per 32 inputs:  int8 code [16][32], f32 scale[16], f32 sum[16] = scale * sum of the codes
 *             up to 8 rows, per 64 inputs: int8 code [8][32 of the first group, 32 zeros],
 *                                          [8][32 zeros, 32 of the second], per group f32 scale[8], f32 sum[8]
 *     q8x256: per 256 inputs: int8 code [4][rows][64], f32 scale[rows], i16 sums [4][rows][2] of 32 inputs each
 *             up to 8 rows of K-quants, per 256 inputs and in groups of G = 32 (Q6_K: 16): int8 code
 *                 [128 / G][8][G of the first group, G zeros], [8][G zeros, G of the second], interleaved by pair;
 *                 f32 scale[8], i16 sums [4][8][2], i16 reach[8], 16 unused
 *
 * The reach of 256 inputs tells how large the dot product of a group of them with codes can be: the most that the
 * inputs of one sign add up to (unsigned codes; Q6_K, whose codes are signed: that all add up to), without their signs.
 */
#include <string.h>

#include "cpu/x86/act_quant_impl.h"
#include "cpu/x86/gemm_amx_impl.h"

/* Of n records per row, and AMX_SPARE behind the last block. */
static size_t block_bytes(size_t n_row, size_t n, size_t record_bytes)
{
    size_t rows = amx_block_rows(n_row);
    return ((amx_blocks(n_row) * n + AMX_SPARE) * rows * record_bytes + 63) & ~(size_t)63;
}

size_t cpu_act_bytes_q8x32_amx(size_t n_in, size_t n_row)
{
    if (n_row < AMX_MIN_ROWS) return cpu_act_bytes_q8x32(n_in, n_row);
    if (n_row <= 8) return ((n_in + 63) / 64 + AMX_SPARE) * AMX32_PAIR_BYTES;
    return block_bytes(n_row, n_in / 32, AMX32_BYTES);
}

size_t cpu_act_bytes_q8x256_amx(size_t n_in, size_t n_row)
{
    if (n_row < AMX_MIN_ROWS256) return cpu_act_bytes_q8x256(n_in, n_row);
    if (n_row <= 8) return n_in / 256 * AMX256_PAIR_BYTES;
    return block_bytes(n_row, n_in / 256, AMX256_BYTES);
}

size_t cpu_act_bytes_ternary_amx(size_t n_in, size_t n_row)
{
    if (n_row < AMX_MIN_ROWS_TERNARY) return cpu_act_bytes_q8x256(n_in, n_row);
    return block_bytes(n_row, n_in / 256, AMX256_BYTES);
}

LUTRA_INLINE int32_t sum32(__m256i q)
{
    int32_t half[2];
    sum16(q, half);
    return half[0] + half[1];
}

/* Clears a f32 of the rows behind `row` in a block of `rows`. */
LUTRA_INLINE void clear_rest(uint8_t *f32, size_t row, size_t rows)
{
    memset(f32 + 4 * (row + 1), 0, 4 * (rows - row - 1));
}

/* Where a group of 32 inputs of a row goes. */
struct place32 {
    uint8_t *code, *zeros; /* zeros: NULL = none */
    uint8_t *scale, *sum;  /* of row 0; f32 [rows] */
};

LUTRA_INLINE struct place32 place_group(void *act, size_t n_in, size_t k, size_t row, size_t n_row)
{
    if (n_row <= 8) {
        size_t second = k / 32 % 2;
        uint8_t *pair = (uint8_t *)act + k / 64 * AMX32_PAIR_BYTES, *half = pair + second * 512 + row * 64;
        uint8_t *tail = pair + 1024 + second * 64;
        return (struct place32){half + second * 32, half + !second * 32, tail, tail + 32};
    }
    size_t r = row % 16;
    uint8_t *record = (uint8_t *)act + ((row - r) * (n_in / 32) + k / 32 * 16) * AMX32_BYTES, *tail = record + 32 * 16;
    return (struct place32){record + 32 * r, NULL, tail, tail + 64};
}

void cpu_act_row_q8x32_amx(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    if (n_row < AMX_MIN_ROWS) {
        cpu_act_row_q8x32(x, n_in, row, n_row, row_max, act);
        return;
    }
    size_t rows = amx_block_rows(n_row), r = row % rows;
    for (size_t k = 0; k < n_in; k += 32) {
        struct place32 to = place_group(act, n_in, k, row, n_row);
        float max = row_max ? row_max : max_abs(x + k, 32), scale = scale_of(max);
        __m256i q = quantize32(x + k, inverse_of(max));
        float scaled = scale * (float)sum32(q);
        _mm256_storeu_si256((__m256i *)to.code, q);
        if (to.zeros) _mm256_storeu_si256((__m256i *)to.zeros, _mm256_setzero_si256());
        memcpy(to.scale + 4 * r, &scale, 4);
        memcpy(to.sum + 4 * r, &scaled, 4);
        if (row + 1 < n_row) continue;
        clear_rest(to.scale, r, rows);
        clear_rest(to.sum, r, rows);
    }
}

/* In blocks of 8 or 16 rows. */
static void act_row_blocks(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    size_t rows = amx_block_rows(n_row), r = row % rows;
    uint8_t *record = (uint8_t *)act + (row - r) * (n_in / 256) * AMX256_BYTES;
    for (size_t k = 0; k < n_in; k += 256, record += rows * AMX256_BYTES) {
        float max = row_max ? row_max : max_abs(x + k, 256), scale = scale_of(max), inverse = inverse_of(max);
        uint8_t *tail = record + 256 * rows;
        memcpy(tail + 4 * r, &scale, 4);
        for (size_t g = 0; g < 8; g++) {
            __m256i q = quantize32(x + k + 32 * g, inverse);
            int16_t sum = (int16_t)sum32(q);
            _mm256_storeu_si256((__m256i *)(record + 64 * (g / 2 * rows + r) + 32 * (g % 2)), q);
            memcpy(tail + 4 * rows + 4 * (g / 2 * rows + r) + 2 * (g % 2), &sum, 2);
        }
        if (row + 1 == n_row) clear_rest(tail, r, rows);
    }
}

/* The larger of what 32 codes above and below 0 add up to, or, of 16 codes each, the larger sum of magnitudes. */
LUTRA_INLINE int16_t reach_of(__m256i q, int32_t sum, size_t group)
{
    __m256i eights = _mm256_sad_epu8(_mm256_abs_epi8(q), _mm256_setzero_si256());
    __m128i lower = _mm256_castsi256_si128(eights), upper = _mm256_extracti128_si256(eights, 1);
    int first = _mm_cvtsi128_si32(lower) + _mm_extract_epi16(lower, 4);
    int second = _mm_cvtsi128_si32(upper) + _mm_extract_epi16(upper, 4);
    if (group == 16) return (int16_t)(first > second ? first : second);
    return (int16_t)((first + second + (sum < 0 ? -sum : sum)) / 2);
}

/* Up to 8 rows, in pairs of groups of `group` inputs: 32 or 16. */
LUTRA_INLINE void act_row_pairs(
    const float *x, size_t n_in, size_t row, size_t n_row, const size_t group, float row_max, void *act)
{
    const __m256i zero = _mm256_setzero_si256();
    uint8_t *record = (uint8_t *)act;
    for (size_t k = 0; k < n_in; k += 256, record += AMX256_PAIR_BYTES) {
        float max = row_max ? row_max : max_abs(x + k, 256), scale = scale_of(max), inverse = inverse_of(max);
        uint8_t *tail = record + 4096, *reaches = tail + AMX256_REACH_AT;
        int16_t reach = 0;
        memcpy(tail + 4 * row, &scale, 4);
        for (size_t g = 0; g < 8; g++) {
            __m256i q = quantize32(x + k + 32 * g, inverse);
            int16_t sum = (int16_t)sum32(q);
            int16_t own = reach_of(q, sum, group);
            reach = own > reach ? own : reach;
            memcpy(tail + 32 + 4 * (g / 2 * 8 + row) + 2 * (g % 2), &sum, 2);
            if (group == 32) {
                uint8_t *to = record + g / 2 * 1024 + g % 2 * 512 + row * 64;
                _mm256_storeu_si256((__m256i *)(to + g % 2 * 32), q);
                _mm256_storeu_si256((__m256i *)(to + !(g % 2) * 32), zero);
            } else {
                uint8_t *to = record + g * 512 + row * 32;
                _mm256_storeu_si256((__m256i *)to, _mm256_blend_epi32(q, zero, 0xf0));
                _mm256_storeu_si256((__m256i *)(to + 256), _mm256_blend_epi32(q, zero, 0x0f));
            }
        }
        memcpy(reaches + 2 * row, &reach, 2);
        if (row + 1 < n_row) continue;
        clear_rest(tail, row, 8);
        memset(reaches + 2 * (row + 1), 0, 2 * (8 - row - 1));
    }
}

/* group: of the weights' integer scales. */
static void act_row256(const float *x, size_t n_in, size_t row, size_t n_row, size_t group, float row_max, void *act)
{
    if (n_row < AMX_MIN_ROWS256) {
        cpu_act_row_q8x256(x, n_in, row, n_row, row_max, act);
    } else if (n_row <= 8) {
        act_row_pairs(x, n_in, row, n_row, group, row_max, act);
    } else {
        act_row_blocks(x, n_in, row, n_row, row_max, act);
    }
}

void cpu_act_row_q8x256_amx(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    act_row256(x, n_in, row, n_row, 32, row_max, act);
}

void cpu_act_row_q6_k_amx(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    act_row256(x, n_in, row, n_row, 16, row_max, act);
}

void cpu_act_row_ternary_amx(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    if (n_row < AMX_MIN_ROWS_TERNARY) {
        cpu_act_row_q8x256(x, n_in, row, n_row, row_max, act);
    } else {
        act_row_blocks(x, n_in, row, n_row, row_max, act);
    }
}
