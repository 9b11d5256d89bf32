/* SPDX-License-Identifier: MIT
 *
 * Sizes of prepared activations (cpu/layout.h), the form that stays f32, and what a row's one scale is made of.
 */
#include <string.h>

#include "cpu/layout.h"

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

size_t cpu_act_bytes_q8x32(size_t n_in, size_t n_row)
{
    return round_up(n_in / 32 * ACT32_BYTES * n_row);
}

size_t cpu_act_bytes_q8x256(size_t n_in, size_t n_row)
{
    return round_up(n_in / 256 * ACT256_BYTES * n_row);
}

size_t cpu_act_bytes_f32(size_t n_in, size_t n_row)
{
    return round_up(n_in * sizeof(float) * n_row);
}

float cpu_row_max(const float *x, size_t n_in)
{
    int32_t most = 0; /* magnitudes are in the order of their bits, NaN above all */
    for (size_t k = 0; k < n_in; k++) {
        int32_t bits;
        memcpy(&bits, &x[k], sizeof bits);
        bits &= 0x7fffffff;
        if (bits > most) most = bits;
    }
    float max;
    memcpy(&max, &most, sizeof max);
    return max < 1e-5f ? 1e-5f : max;
}

void cpu_act_row_f32(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    float *to = (float *)act + p.block * ACT_COLUMNS * n_in + p.column;
    (void)row_max; /* int8 classes alone are asked for a scale of the row */
    if (p.width == 1) {
        memcpy(to, x, n_in * sizeof *x);
        return;
    }
    for (size_t k = 0; k < n_in; k++) to[k * p.width] = x[k];
}
