/* SPDX-License-Identifier: MIT
 *
 * The middle of n measurements, which are sorted by it.
 */
#ifndef LUTRA_BENCH_MEDIAN_H
#define LUTRA_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

#endif
