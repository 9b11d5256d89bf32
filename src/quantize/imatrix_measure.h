/* SPDX-License-Identifier: MIT
 *
 * Sums of squares of every matrix's inputs, over a text.
 */
#ifndef LUTRA_QUANTIZE_IMATRIX_MEASURE_H
#define LUTRA_QUANTIZE_IMATRIX_MEASURE_H

#include "lutra.h"
#include "quantize/imatrix.h"

/* What lutra_imatrix writes; closed by the caller. */
int observe_importance(struct imatrix **out, lutra_model *model, const int32_t *tokens, int n_token,
    const struct lutra_imatrix_settings *set, struct lutra_error *err);

#endif
