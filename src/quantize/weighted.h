/* SPDX-License-Identifier: MIT
 *
 * Quantizing where some elements matter more than others: the smallest sum of w (x - x')^2, and the same with each
 * error handed on to the columns not yet rounded (GPTQ).
 *
 *     if (quant_has_weighted(QUANT_Q4_K)) quant_weighted(run, QUANT_Q4_K, row, importance, blocks, n_in);
 *
 * A block's scales are searched for in three steps: for each group its best real scale (and minimum), rounding of these
 * to the block's integers, and coordinate descent over integers and half floats.  Pure functions, safe from any thread.
 */
#ifndef LUTRA_QUANTIZE_WEIGHTED_H
#define LUTRA_QUANTIZE_WEIGHTED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "quantize/gram.h"
#include "quant/quant.h"

/* The fastest that this machine has.  Once for a whole run: asking the processor takes 0.1 ms in a virtual machine. */
const struct quant_kernels *quant_kernels(void);

bool quant_has_weighted(enum quant_type type);
bool quant_has_gptq(enum quant_type type); /* a code for each element, so that errors can be handed on */

/* Rounds to this type with equal weights of all elements: quant_info's function, or the search among a codebook's
 * entries; NULL: the type can only be read. */
typedef void (*quant_plain_fn)(const float *x, void *dst, size_t n);
quant_plain_fn quant_plain(enum quant_type type);

/* x, w: [n], whole blocks; w >= 0, all finite. */
void quant_weighted(
    const struct quant_kernels *run, enum quant_type type, const float *x, const float *w, void *dst, size_t n);

/* How the errors of columns are handed on, from a matrix's inputs: H = sum of x x^T over them.  Columns are rounded
 * block by block, within one those with the largest sums of squares first. */
struct quant_gptq {
    int n;         /* inputs */
    int block;     /* elements of the type's block */
    int *order;    /* [n] which column comes when */
    float *a;      /* [n][n] by how much an error of column j moves column c > j, in that order */
    float *weight; /* [n] of columns, for the search of scales; in the matrix's order */
    const struct quant_kernels *run;
};

/* h: double[n][n], symmetric, of which only the upper triangle is read; damp is added to its diagonal, in units of the
 * diagonal's mean.  on: NULL: this thread.  LUTRA_E_ARGUMENT: not positive definite so far (Cholesky fails);
 * LUTRA_E_NO_MEMORY. */
int quant_gptq_open(struct quant_gptq *g, int block, const double *h, int n, double damp,
    const struct quant_parallel *on, struct lutra_error *err);
void quant_gptq_close(struct quant_gptq *g);

int quant_gptq_block(enum quant_type type);

/* What the columns' inputs weigh by themselves, in units of their mean, and damp for those that are never used. */
void quant_gptq_weight(const double *h, int n, double damp, float *weight);

/* GPTQ's own format: a row is groups of `size` inputs, the weight (code - zero) x scale with codes of 2, 3 or 4 bits
 * and a scale that a half float holds. */
struct quant_group {
    int bits, size;
    bool symmetric; /* all zeros are 2^(bits - 1) */
};

/* The type whose blocks of 32 hold such groups' values. */
enum quant_type quant_group_type(const struct quant_group *f);

/* One row into its blocks, by w alone.  x: [n], whole groups, overwritten; w: [n]. */
void quant_group_row(
    const struct quant_kernels *run, const struct quant_group *f, const float *w, float *x, int n, uint8_t *dst);

/* Up to QUANT_GPTQ_ROWS rows, which share what is read of g, into blocks, or where group is not NULL groups: x:
 * [n_row][n], dst: [n_row][row_bytes], scratch: QUANT_GPTQ_SCRATCH * n floats. */
enum { QUANT_GPTQ_ROWS = 16, QUANT_GPTQ_SCRATCH = 4 * QUANT_GPTQ_ROWS };
void quant_gptq_rows(const struct quant_gptq *g, enum quant_type type, const struct quant_group *group, const float *x,
    int n_row, float *scratch, uint8_t *dst, size_t row_bytes);

#endif
