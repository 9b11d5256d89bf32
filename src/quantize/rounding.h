/* SPDX-License-Identifier: MIT
 *
 * The rows of a matrix rounded into another type, on all threads.
 */
#ifndef LUTRA_QUANTIZE_ROUNDING_H
#define LUTRA_QUANTIZE_ROUNDING_H

#include "base/pool.h"
#include "quantize/weighted.h"
#include "weights/weights.h"

struct rounding {
    const char *path;       /* of its file, for errors */
    const struct tensor *t; /* what is rounded */
    enum quant_type type;
    struct quant_group group;      /* bits 0: the type's own blocks; else there is a weight */
    const struct quant_gptq *gptq; /* NULL: by weight, or where that is NULL, too, plainly */
    const float *weight;           /* [n_in] of columns */
    uint8_t *out;                  /* [rows][rounding_row_bytes] */
};

size_t rounding_row_bytes(const struct tensor *t, enum quant_type type);

/* LUTRA_E_FORMAT: a value is NaN or infinite; LUTRA_E_NO_MEMORY. */
int rounding_run(struct pool *pool, const struct rounding *r, struct lutra_error *err);

#endif
