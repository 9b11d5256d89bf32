/* SPDX-License-Identifier: MIT
 *
 * Quantizing where some elements matter more than others: the smallest sum of w (x - x')^2, and the same with each
 * error handed on to the columns not yet rounded (GPTQ).
 *
 *     if (quant_has_weighted(QUANT_Q4_K)) quant_weighted(QUANT_Q4_K, row, importance, blocks, n_in);
 *
 * A block's scales are searched for in three steps: for each group its best real scale (and minimum), rounding of these
 * to the block's integers, and coordinate descent over integers and half floats.  Pure functions, safe from any thread.
 */
#ifndef LUTRA_QUANT_WEIGHTED_H
#define LUTRA_QUANT_WEIGHTED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "quant/quant.h"

bool quant_has_weighted(enum quant_type type);

/* x, w: [n], whole blocks; w >= 0, all finite. */
void quant_weighted(enum quant_type type, const float *x, const float *w, void *dst, size_t n);

/* How the errors of columns are handed on, from a matrix's inputs: H = sum of x x^T over them.  Columns are rounded
 * block by block, within one those with the largest sums of squares first. */
struct quant_gptq {
    int n;         /* inputs */
    int block;     /* elements of the type's block */
    int *order;    /* [n] which column comes when */
    float *u;      /* [n][n] upper triangle: H^-1 = u^T u, in that order */
    float *weight; /* [n] of columns, for the search of scales; in the matrix's order */
};

/* h: double[n][n], symmetric, of which only the upper triangle is read; damp is added to its diagonal, in units of the
 * diagonal's mean.  LUTRA_E_ARGUMENT: not positive definite so far (Cholesky fails); LUTRA_E_NO_MEMORY. */
int quant_gptq_open(
    struct quant_gptq *g, enum quant_type type, const double *h, int n, double damp, struct lutra_error *err);
void quant_gptq_close(struct quant_gptq *g);

/* One row.  x: [n], overwritten with what was left to do; dst: its blocks. */
void quant_gptq_row(const struct quant_gptq *g, enum quant_type type, float *x, void *dst);

#endif
