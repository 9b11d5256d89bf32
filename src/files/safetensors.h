/* SPDX-License-Identifier: MIT
 *
 * The tensors of a safetensors file, checked: names, element types, shapes, and where their bytes lie.
 *
 *     struct safetensors list = {0};
 *     TRY(safetensors_parse(&file, &list, err));      appends; may be called for one shard after the other
 *     list.tensor[i] ...
 *     safetensors_fini(&list);
 *
 * The format (huggingface/safetensors, README): a u64 with the header's length, the header in JSON
 * {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__": {...}}, then the data, which the
 * tensors cover without holes and without overlapping.
 */
#ifndef LUTRA_FILES_SAFETENSORS_H
#define LUTRA_FILES_SAFETENSORS_H

#include "lutra/status.h"
#include "ops/tensor.h"

struct model_file;

enum { SAFETENSORS_MAX_DIM = 8, SAFETENSORS_MAX_HEADER = 100000000 /* the format's own bound */ };

struct safetensors_type {
    const char *name;     /* in the file */
    int bytes;            /* of an element */
    enum quant_type type; /* or QUANT_TYPE_END: what no tensor of a model can have */
};

struct safetensors_tensor {
    const char *name;
    const struct safetensors_type *dtype;
    int n_dim;
    uint64_t dim[SAFETENSORS_MAX_DIM]; /* the last one is contiguous */
    const uint8_t *data;
    uint64_t bytes;
    size_t file;             /* which call of safetensors_parse */
    const struct tensor *as; /* what the model has it as; NULL: it is left out, or part of another */
};

struct safetensors {
    struct safetensors_tensor *tensor; /* [n] by name once sorted */
    size_t n;
    size_t n_file;
};

/* Of a mapped file; names are copied into file->names.  Sets file->header_bytes.
 * Errors: LUTRA_E_FORMAT, LUTRA_E_UNSUPPORTED (an element type without a name here), LUTRA_E_NO_MEMORY. */
int safetensors_parse(struct model_file *file, struct safetensors *list, struct lutra_error *err);
void safetensors_fini(struct safetensors *list);

/* Element i of a tensor of F32, F16 or BF16, wherever it lies. */
float safetensors_f32(const struct safetensors_tensor *t, uint64_t i);

/* By name; find is for sorted lists. */
void safetensors_sort(struct safetensors *list);
const struct safetensors_tensor *safetensors_find(const struct safetensors *list, const char *name);

#endif
