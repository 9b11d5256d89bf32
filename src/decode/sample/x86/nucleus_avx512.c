/* SPDX-License-Identifier: MIT */
#include "decode/sample/nucleus_passes_impl.h"

static struct row_extent extent(const float *logit, int n)
{
    return extent_of(logit, n);
}

static void sort(struct nucleus *out, const struct nucleus_row *row)
{
    sort_row(out, row);
}

static void weigh(struct nucleus *out, const struct nucleus_row *row, struct sample_cand end)
{
    weigh_row(out, row, end);
}

const struct nucleus_passes nucleus_passes_avx512 = {extent, sort, weigh};
