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
static int place(struct gpu_device *d, struct packed *p, const uint8_t *data, size_t bytes, struct lutra_error *err)
{
    size_t offset = 0;
    p->in_place = (uintptr_t)data % 2 == 0 && gpu_memory_import(d, data, bytes, &p->memory, &offset);
    if (!p->in_place) {
        TRY(gpu_memory_alloc(d, bytes, GPU_WEIGHTS, &p->memory, err));
        TRY(gpu_memory_write(d, &p->memory, data, bytes, err));
    }
    p->address = p->memory.address + offset / 4 * 4;
    p->skew = offset % 4;
    return 0;
}

int gpu_weight_prepare(struct gpu_device *d, struct weight *w, bool *keeps_source, struct lutra_error *err)
{
    const struct tensor *t = &w->tensor;
    size_t row_bytes;
    if (weight_is_ready(w, &d->base))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "vulkan: tensor '%s' is prepared already", t->name);
    TRY(gpu_weight_check(d, w, err));
    struct held *h = weight_to_prepare(w, &d->base, err);
    if (!h) return LUTRA_E_UNSUPPORTED;
    gpu_weight_release(d, w); /* of fewer outputs */
    TRY(quant_row_bytes((uint32_t)t->type, t->ne[0], &row_bytes));
    if (has_groups_of_32((uint32_t)t->type)) TRY(gpu_exact_find(d, err));
    struct packed *p = calloc(1, sizeof *p);
    if (!p) return lutra_fail(err, LUTRA_E_NO_MEMORY, "vulkan: no memory for tensor '%s'", t->name);
    p->row_bytes = (uint32_t)row_bytes;
    p->first = h->want.first;
    p->i8 = has_groups_of_32((uint32_t)t->type) && d->exact != GPU_EXACT_NO;
    const size_t bytes = (size_t)h->want.n * row_bytes;
    int rc = place(d, p, (const uint8_t *)t->data + (size_t)h->want.first * row_bytes, bytes, err);
    if (rc < 0) {
        gpu_memory_free(d, &p->memory);
        free(p);
        return rc;
    }
    h->packed = p, h->has = h->want, h->bytes = bytes;
    *keeps_source = p->in_place;
    *(p->in_place ? &d->in_place_bytes : &d->mirrored_bytes) += bytes;
    return 0;
}

void gpu_weight_release(struct gpu_device *d, struct weight *w)
{
    struct held *h = weight_held(w, &d->base);
    struct packed *p = h ? h->packed : NULL;
    if (!p) return;
    gpu_queue_drain(d);
    *(p->in_place ? &d->in_place_bytes : &d->mirrored_bytes) -= h->bytes;
    gpu_memory_free(d, &p->memory);
    free(p);
    weight_forget(h);
}
