/* SPDX-License-Identifier: MIT
 *
 * Activations to int8, one scale per 32 or 256 inputs or per row; the arithmetic of x86/act_avx2.c to the bit (but for NaN,
 * whose group that file spoils in another way).
 */
#include "cpu/arm/act_q8_impl.h"

void cpu_act_row_q8x32(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 32) * ACT32_BYTES;
    for (size_t k = 0; k < n_in; k += 32, r += p.width * ACT32_BYTES) {
        uint8_t *to = r + 4 * p.column, *tail = to + 32 * p.width;
        struct scale32 s = put32(x + k, row_max, to, p.width, 4);
        memcpy(tail, &s.scale, 4);
        memcpy(tail + 4 * p.width, &s.start, 4);
        memcpy(tail + 8 * p.width, &s.scaled, 4);
    }
}

void cpu_act_row_q8x256(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 256) * ACT256_BYTES;
    for (size_t k = 0; k < n_in; k += 256, r += p.width * ACT256_BYTES) {
        float max = row_max ? row_max : max_abs(x + k, 256), scale = scale_of(max), inverse = inverse_of(max);
        uint8_t *to = r + 4 * p.column, *tail = to + 256 * p.width;
        int32_t start = 0, sum[2];
        memcpy(tail, &scale, 4);
        for (size_t g = 0; g < 8; g++) {
            for (size_t h = 0; h < 2; h++) {
                sum[h] = put16(x + k + 32 * g + 16 * h, inverse, to + (32 * g + 16 * h) * p.width, p.width, 4);
                int32_t start16 = -32 * sum[h];
                int16_t sum16 = (int16_t)sum[h];
                memcpy(tail + (6 + 2 * g + h) * 4 * p.width, &start16, 4);
                memcpy(tail + (22 + g) * 4 * p.width + 2 * h, &sum16, 2);
            }
            int16_t both = (int16_t)(sum[0] + sum[1]);
            memcpy(tail + (2 + g / 2) * 4 * p.width + 2 * (g % 2), &both, 2);
            start -= both;
        }
        memcpy(tail + 4 * p.width, &start, 4);
    }
}
