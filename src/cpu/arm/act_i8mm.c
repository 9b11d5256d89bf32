/* SPDX-License-Identifier: MIT
 *
 * Activations to int8 for the smmla kernels: the integers of act_neon.c in the records of pairs_i8mm_impl.h.
 */
#include "cpu/arm/act_q8_impl.h"
#include "cpu/arm/pairs_i8mm_impl.h"

/* Columns of a block come in pairs, but for a single one. */
static struct act_place place_of(size_t row, size_t n_row)
{
    struct act_place p = act_place_of(row, n_row);
    p.width += p.width > 1 && p.width % 2;
    return p;
}

static size_t bytes_of(size_t record, size_t n_row)
{
    return (record * (n_row + n_row % 2) + 63) & ~(size_t)63;
}

size_t act_bytes_q8x32_pairs(size_t n_in, size_t n_row)
{
    return bytes_of(n_in / 32 * PAIRS32_BYTES, n_row);
}

size_t act_bytes_q8x256_pairs(size_t n_in, size_t n_row)
{
    return bytes_of(n_in / 256 * PAIRS256_BYTES, n_row);
}

/* A value of a column, twice: [0 1 0 1] for a pair of columns. */
static void put_twice(uint8_t *to, struct act_place p, const void *value)
{
    to += p.column / 2 * 16 + p.column % 2 * 4;
    memcpy(to, value, 4);
    if (p.width > 1) memcpy(to + 8, value, 4);
}

void act_row_q8x32_pairs(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    struct act_place p = place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 32) * PAIRS32_BYTES;
    for (size_t k = 0; k < n_in; k += 32, r += p.width * PAIRS32_BYTES) {
        struct scale32 s = put32(x + k, row_max, r + 8 * p.column, p.width, 8);
        put_twice(r + 32 * p.width, p, &s.scale);
        put_twice(r + 40 * p.width, p, &s.start);
        put_twice(r + 48 * p.width, p, &s.scaled);
    }
}

/* A sum of up to 32 inputs in two bytes. */
static void put_sum(int32_t sum, uint8_t *low, uint8_t *high)
{
    int32_t upper = (sum + (1 << (SUM_BITS - 1))) >> SUM_BITS;
    *high = (uint8_t)upper;
    *low = (uint8_t)(sum - upper * (1 << SUM_BITS));
}

void act_row_q8x256_pairs(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    struct act_place p = place_of(row, n_row);
    uint8_t *r = (uint8_t *)act + p.block * ACT_COLUMNS * (n_in / 256) * PAIRS256_BYTES;
    for (size_t k = 0; k < n_in; k += 256, r += p.width * PAIRS256_BYTES) {
        float max = row_max ? row_max : max_abs(x + k, 256), scale = scale_of(max), inverse = inverse_of(max);
        uint8_t *to = r + 8 * p.column, *tail = r + 256 * p.width + 4 * p.column;
        uint8_t *low32 = to + 264 * p.width, *low16 = low32 + 16 * p.width;
        int32_t start = 0;
        for (size_t g = 0; g < 8; g++) {
            int32_t both = 0;
            for (size_t i = 2 * g; i < 2 * g + 2; i++) {
                int32_t sum = put16(x + k + 16 * i, inverse, to + 16 * i * p.width, p.width, 8);
                uint8_t *low = low16 + i / 8 * 8 * p.width + i % 8;
                put_sum(sum, low, low + 16 * p.width);
                both += sum;
            }
            put_sum(both, low32 + g, low32 + 8 * p.width + g);
            start -= both;
        }
        memcpy(tail, &scale, 4);
        memcpy(tail + 4 * p.width, &start, 4);
    }
}
