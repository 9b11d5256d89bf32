/* SPDX-License-Identifier: MIT
 *
 * Activations to int8 in blocks of up to 8 rows (cpu/layout.h), one scale per 32 or 256 inputs or per row.  Used at
 * every x86 level.
 */
#include <string.h>

#include "cpu/layout.h"
#include "cpu/x86/act_quant_impl.h"

/* Stores 8 steps of 4 bytes, `width` columns apart. */
LUTRA_INLINE void scatter(uint8_t *to, size_t width, __m256i q)
{
    int32_t word[8];
    _mm256_storeu_si256((__m256i *)word, q);
    for (int i = 0; i < 8; i++) memcpy(to + (size_t)i * width * 4, &word[i], 4);
}

void cpu_act_row_q8x32(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 32) * ACT32_BYTES;
    for (size_t k = 0; k < n_in; k += 32, r += p.width * ACT32_BYTES) {
        float max = row_max ? row_max : max_abs(x + k, 32), scale = scale_of(max);
        __m256i q = quantize32(x + k, inverse_of(max));
        int32_t sum[2];
        sum16(q, sum);
        scatter(r + 4 * p.column, p.width, q);
        int32_t start = -8 * (sum[0] + sum[1]);
        float scaled = scale * (float)(sum[0] + sum[1]);
        uint8_t *tail = r + 32 * p.width + 4 * p.column;
        memcpy(tail, &scale, 4);
        memcpy(tail + 4 * p.width, &start, 4);
        memcpy(tail + 8 * p.width, &scaled, 4);
    }
}

void cpu_act_row_q8x256(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 256) * ACT256_BYTES;
    for (size_t k = 0; k < n_in; k += 256, r += p.width * ACT256_BYTES) {
        float max = row_max ? row_max : max_abs(x + k, 256), scale = scale_of(max), inverse = inverse_of(max);
        uint8_t *tail = r + 256 * p.width + 4 * p.column;
        int32_t start = 0;
        memcpy(tail, &scale, 4);
        for (size_t g = 0; g < 8; g++) {
            __m256i q = quantize32(x + k + 32 * g, inverse);
            int32_t sum[2];
            sum16(q, sum);
            scatter(r + 32 * g * p.width + 4 * p.column, p.width, q);
            int16_t both = (int16_t)(sum[0] + sum[1]);
            memcpy(tail + (2 + g / 2) * 4 * p.width + 2 * (g % 2), &both, 2);
            for (size_t h = 0; h < 2; h++) {
                int32_t start16 = -32 * sum[h];
                int16_t sum16 = (int16_t)sum[h];
                memcpy(tail + (6 + 2 * g + h) * 4 * p.width, &start16, 4);
                memcpy(tail + (22 + g) * 4 * p.width + 2 * h, &sum16, 2);
            }
            start -= both;
        }
        memcpy(tail + 4 * p.width, &start, 4);
    }
}
