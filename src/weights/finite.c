/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "quant/quant.h"
#include "weights/weights.h"

enum { CHUNK_ELEMS = 1 << 16 };

/* scratch: [2][CHUNK_ELEMS], the values and, aligned, what they are made of. */
static bool tensor_finite(const struct tensor *t, float *scratch)
{
    const struct quant_info *q = quant_info_of(t->type);
    if (!q || !t->data) return true;
    size_t block = q->block_elems, chunk = CHUNK_ELEMS / block * block, n = 1;
    for (int d = 0; d < t->n_dim; d++) n *= (size_t)t->ne[d];
    for (size_t at = 0; at < n; at += chunk) {
        size_t part = n - at < chunk ? n - at : chunk;
        memcpy(
            scratch + CHUNK_ELEMS, (const char *)t->data + at / block * q->block_bytes, part / block * q->block_bytes);
        q->dequantize(scratch + CHUNK_ELEMS, scratch, part);
        if (!quant_all_finite(scratch, part)) return false;
    }
    return true;
}

const char *weights_not_finite(const struct weights *w)
{
    const char *name = NULL;
    float *scratch = malloc(2 * CHUNK_ELEMS * sizeof *scratch);
    for (size_t i = 0; scratch && !name && i < weights_tensor_count(w); i++) {
        const struct tensor *t = weights_tensor_at(w, i);
        if (!tensor_finite(t, scratch)) name = t->name;
    }
    free(scratch);
    return name;
}
