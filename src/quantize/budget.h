/* SPDX-License-Identifier: MIT
 *
 * Types for a number of bits per weight, chosen matrix by matrix by what they cost in Kullback-Leibler divergence.
 *
 * Each matrix in turn, alone, is rounded to the largest single type that fits: the divergence is its share.  Its share
 * at another type is taken to be in the ratio of the two types' errors, weighed by the importance of inputs.  Then
 * bytes go where they lower the sum of the shares most; a few such choices are measured whole, and the best is taken.
 */
#ifndef LUTRA_QUANTIZE_BUDGET_H
#define LUTRA_QUANTIZE_BUDGET_H

#include "lutra.h"
#include "quantize/convert.h"

struct budget;

/* q's mix and rules become those of the choice, which lives until budget_close; what q's own rules and types decide
 * stays.  Without an imatrix of the caller's, q gets the text's.  LUTRA_E_ARGUMENT: fewer bits than there are types
 * for. */
int budget_open(struct budget **out, lutra_runtime *rt, const char *path, const struct lutra_quantize_settings *set,
    struct weights_quantize_settings *q, struct lutra_error *err);
void budget_close(struct budget **b);

#endif
