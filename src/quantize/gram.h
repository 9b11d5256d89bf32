/* SPDX-License-Identifier: MIT
 *
 * Sums of products of columns, on all threads: what a covariance and its Cholesky factor take most of their time for.
 */
#ifndef LUTRA_QUANTIZE_GRAM_H
#define LUTRA_QUANTIZE_GRAM_H

#include <stddef.h>

/* How to call fn(arg, i) for i = 0..n-1, in any order, on any threads; NULL: one after the other. */
struct quant_parallel {
    void (*run)(void *user, void (*fn)(void *arg, int i), void *arg, int n);
    void *user;
};
void quant_parallel_run(const struct quant_parallel *on, void (*fn)(void *arg, int i), void *arg, int n);

/* c[i][k] += sign x sum over p of x[p][i] x[p][k] for i <= k < n; below the diagonal something may be written, too.
 * c: rows of ldc.  x: n_row rows of ldx, in doubles or, where that is NULL, floats, of which up to
 * 128 products are added up as floats.  The order of additions does not depend on the threads. */
void quant_gram(double *c, size_t ldc, const double *x, const float *xf, size_t ldx, size_t n, size_t n_row,
    double sign, const struct quant_parallel *on);

#endif
