/* SPDX-License-Identifier: MIT
 *
 * Weights: the file's own bytes, read where they lie if the GPU works in the host's memory, else a mirror of them.
 */
#include <stdlib.h>

#include "gpu/device_impl.h"
#include "quant/quant.h"

/* Formats of class i8x32, where the GPU has its bits. */
static bool has_groups_of_32(uint32_t type)
{
    switch (type) {
    case QUANT_Q4_0:
    case QUANT_Q4_1:
    case QUANT_Q5_0:
    case QUANT_Q5_1:
    case QUANT_Q8_0:
    case QUANT_IQ4_NL:
    case QUANT_MXFP4:
    case QUANT_Q1_0:
    case QUANT_Q2_0: return true;
    default: return false;
    }
}

static bool has_kernel(uint32_t type)
{
    switch (type) {
    case QUANT_F32:
    case QUANT_F16:
    case QUANT_BF16:
    case QUANT_Q2_K:
    case QUANT_Q3_K:
    case QUANT_Q4_K:
    case QUANT_Q5_K:
    case QUANT_Q6_K:
    case QUANT_IQ4_XS:
    case QUANT_TQ2_0: return true;
    default: return has_groups_of_32(type);
    }
}

int gpu_weight_check(struct gpu_device *d, const struct weight *w, struct lutra_error *err)
{
    const struct tensor *t = &w->tensor;
    (void)d;
    if (!has_kernel((uint32_t)t->type))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: tensor '%s' has type %s, which has no kernel", t->name,
            quant_type_name((uint32_t)t->type));
    if (w->i8row)
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "vulkan: tensor '%s' wants activations with one scale per row", t->name);
    if (t->ne[0] <= 0 || t->ne[1] <= 0 || t->bytes >= UINT32_MAX - 64)
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "vulkan: tensor '%s' has %zu bytes, 1 to 2^32 are possible", t->name, t->bytes);
    return 0;
}

/* Kernels read words, and halves at even places. */
static int place(struct gpu_device *d, struct packed *p, const struct tensor *t, struct lutra_error *err)
{
    size_t offset = 0;
    p->in_place = (uintptr_t)t->data % 2 == 0 && gpu_memory_import(d, t->data, t->bytes, &p->memory, &offset);
    if (!p->in_place) {
        TRY(gpu_memory_alloc(d, t->bytes, GPU_WEIGHTS, &p->memory, err));
        TRY(gpu_memory_write(d, &p->memory, t->data, t->bytes, err));
    }
    p->address = p->memory.address + offset / 4 * 4;
    p->skew = offset % 4;
    return 0;
}

int gpu_weight_prepare(struct gpu_device *d, struct weight *w, bool *keeps_source, struct lutra_error *err)
{
    const struct tensor *t = &w->tensor;
    size_t row_bytes;
    if (w->packed) return lutra_fail(err, LUTRA_E_ARGUMENT, "vulkan: tensor '%s' is prepared already", t->name);
    TRY(gpu_weight_check(d, w, err));
    TRY(quant_row_bytes((uint32_t)t->type, t->ne[0], &row_bytes));
    if (has_groups_of_32((uint32_t)t->type)) TRY(gpu_exact_find(d, err));
    struct packed *p = calloc(1, sizeof *p);
    if (!p) return lutra_fail(err, LUTRA_E_NO_MEMORY, "vulkan: no memory for tensor '%s'", t->name);
    p->row_bytes = (uint32_t)row_bytes;
    p->i8 = has_groups_of_32((uint32_t)t->type) && d->exact != GPU_EXACT_NO;
    int rc = place(d, p, t, err);
    if (rc < 0) {
        gpu_memory_free(d, &p->memory);
        free(p);
        return rc;
    }
    w->packed = p;
    w->packed_bytes = t->bytes;
    *keeps_source = p->in_place;
    *(p->in_place ? &d->in_place_bytes : &d->mirrored_bytes) += t->bytes;
    return 0;
}

void gpu_weight_release(struct gpu_device *d, struct weight *w)
{
    struct packed *p = w->packed;
    if (!p) return;
    gpu_queue_drain(d);
    *(p->in_place ? &d->in_place_bytes : &d->mirrored_bytes) -= w->packed_bytes;
    gpu_memory_free(d, &p->memory);
    free(p);
    w->packed = NULL;
    w->packed_bytes = 0;
}
