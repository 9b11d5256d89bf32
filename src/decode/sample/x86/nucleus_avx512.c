/* SPDX-License-Identifier: MIT */
#include "decode/sample/nucleus_fill_impl.h"

void nucleus_fill_avx512(struct nucleus *out, const struct nucleus_row *row, float temperature)
{
    fill(out, row, temperature);
}
