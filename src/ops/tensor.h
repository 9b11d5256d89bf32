/* SPDX-License-Identifier: MIT
 *
 * A named, read-only array as it lies in a model file.  Matrices are [n_out][n_in]: ne[0] = n_in is contiguous.
 */
#ifndef LUTRA_OPS_TENSOR_H
#define LUTRA_OPS_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "quant/formats.h"

struct tensor {
    const char *name; /* borrowed */
    enum quant_type type;
    int n_dim;        /* 1..4 */
    int64_t ne[4];    /* elements per dimension, ne[0] contiguous; unused ones are 1 */
    const void *data; /* borrowed from the file mapping; may be only 1-byte aligned */
    size_t bytes;
};

#endif
