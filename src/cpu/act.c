/* SPDX-License-Identifier: MIT
 *
 * Sizes of prepared activations (cpu/layout.h), and the form that stays f32.
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

void cpu_act_row_f32(const float *x, size_t n_in, size_t row, size_t n_row, void *act)
{
    struct act_place p = act_place_of(row, n_row);
    float *to = (float *)act + p.block * ACT_COLUMNS * n_in + p.column;
    if (p.width == 1) {
        memcpy(to, x, n_in * sizeof *x);
        return;
    }
    for (size_t k = 0; k < n_in; k++) to[k * p.width] = x[k];
}
