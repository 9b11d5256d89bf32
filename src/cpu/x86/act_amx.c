/* SPDX-License-Identifier: MIT
 *
 * Activations for the AMX matmul: the same int8 codes and scales as cpu/layout.h's, in tiles of 8 or 16 rows.
 *
 *     q8x32:  per 32 inputs:  int8 code [rows][32], f32 scale[rows], f32 sum[rows] = scale * sum of the codes
 *     q8x256: per 256 inputs: int8 code [4][rows][64], f32 scale[rows], i16 sums [4][rows][2] of 32 inputs each
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
    return block_bytes(n_row, n_in / 32, AMX32_BYTES);
}

size_t cpu_act_bytes_q8x256_amx(size_t n_in, size_t n_row)
{
    if (n_row < AMX_MIN_ROWS256) return cpu_act_bytes_q8x256(n_in, n_row);
    return block_bytes(n_row, n_in / 256, AMX256_BYTES);
}

/* Clears a f32 of the rows behind `row` in a block of `rows`. */
LUTRA_INLINE void clear_rest(uint8_t *f32, size_t row, size_t rows)
{
    memset(f32 + 4 * (row + 1), 0, 4 * (rows - row - 1));
}

void cpu_act_row_q8x32_amx(const float *x, size_t n_in, size_t row, size_t n_row, void *act)
{
    if (n_row < AMX_MIN_ROWS) {
        cpu_act_row_q8x32(x, n_in, row, n_row, act);
        return;
    }
    size_t rows = amx_block_rows(n_row), r = row % rows;
    uint8_t *record = (uint8_t *)act + (row - r) * (n_in / 32) * AMX32_BYTES;
    for (size_t k = 0; k < n_in; k += 32, record += rows * AMX32_BYTES) {
        float max = max_abs(x + k, 32), scale = scale_of(max);
        __m256i q = quantize32(x + k, inverse_of(max));
        int32_t sum[2];
        sum16(q, sum);
        float scaled = scale * (float)(sum[0] + sum[1]);
        uint8_t *tail = record + 32 * rows;
        _mm256_storeu_si256((__m256i *)(record + 32 * r), q);
        memcpy(tail + 4 * r, &scale, 4);
        memcpy(tail + 4 * (rows + r), &scaled, 4);
        if (row + 1 < n_row) continue;
        clear_rest(tail, r, rows);
        clear_rest(tail + 4 * rows, r, rows);
    }
}

void cpu_act_row_q8x256_amx(const float *x, size_t n_in, size_t row, size_t n_row, void *act)
{
    if (n_row < AMX_MIN_ROWS256) {
        cpu_act_row_q8x256(x, n_in, row, n_row, act);
        return;
    }
    size_t rows = amx_block_rows(n_row), r = row % rows;
    uint8_t *record = (uint8_t *)act + (row - r) * (n_in / 256) * AMX256_BYTES;
    for (size_t k = 0; k < n_in; k += 256, record += rows * AMX256_BYTES) {
        float max = max_abs(x + k, 256), scale = scale_of(max), inverse = inverse_of(max);
        uint8_t *tail = record + 256 * rows;
        memcpy(tail + 4 * r, &scale, 4);
        for (size_t g = 0; g < 8; g++) {
            __m256i q = quantize32(x + k + 32 * g, inverse);
            int32_t sum[2];
            sum16(q, sum);
            int16_t both = (int16_t)(sum[0] + sum[1]);
            _mm256_storeu_si256((__m256i *)(record + 64 * (g / 2 * rows + r) + 32 * (g % 2)), q);
            memcpy(tail + 4 * rows + 4 * (g / 2 * rows + r) + 2 * (g % 2), &both, 2);
        }
        if (row + 1 == n_row) clear_rest(tail, r, rows);
    }
}
