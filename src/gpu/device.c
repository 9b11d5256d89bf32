/* SPDX-License-Identifier: MIT
 *
 * The GPU device: what it can do, and the front door of a pass.
 */
#include "gpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device_impl.h"

enum { MAX_ROWS = 512, FLAT_ROWS = 4 };

static const double SLICE_MS = 10;

/* ---- what it can run ---- */

static int check_rope(const struct op_rope *p, struct lutra_error *err)
{
    bool sane = p->n_head > 0 && p->n_rot > 0 && p->n_rot % 2 == 0 && p->n_rot <= p->d_head && p->n_rot <= GPU_ROT_MAX;
    if (sane && (p->kind == ROPE_NORM || p->kind == ROPE_NEOX)) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: rope: kind %d, %d heads of %d, %d elements rotated",
        (int)p->kind, p->n_head, p->d_head, p->n_rot);
}

static int check_heads(int d_head, struct lutra_error *err)
{
    if (d_head >= 2 && d_head % 2 == 0 && d_head <= GPU_ROT_MAX) return 0;
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "vulkan: head size %d is not an even number from 2 to %d", d_head, GPU_ROT_MAX);
}

static int check_attention(const struct op_list *list, const struct op_attention *p, struct lutra_error *err)
{
    TRY(check_heads(p->d_head, err));
    if (list->whole && p->window)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: attention: a window that looks ahead");
    if (p->n_kv_head > 0 && p->n_head > 0 && p->n_head % p->n_kv_head == 0) return 0;
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "vulkan: attention: %d query heads over %d key heads", p->n_head, p->n_kv_head);
}

/* The CPU looks rows up in the file itself; only a table that is here anyway, as the head, is read here. */
static int check_embed(struct gpu_device *d, const struct weight *w, enum embed_by by, struct lutra_error *err)
{
    if (by != EMBED_TOKEN) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: embed: positions and segments");
    if (w->use & WEIGHT_MATMUL) return gpu_weight_check(d, w, err);
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: embed: tensor '%s' is no product's, too", w->tensor.name);
}

static int gpu_supports(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    switch (op->kind) {
    case OP_EMBED: return check_embed(gpu_of(self), op->weight[0], op->embed.by, err);
    case OP_HEAD:
        if (!op->n_weight) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: head: no logits");
        /* fall through */
    case OP_MATMUL:
        for (int i = 0; i < op->n_weight; i++) TRY(gpu_weight_check(gpu_of(self), op->weight[i], err));
        return 0;
    case OP_ROPE: return check_rope(&op->rope, err);
    case OP_ATTENTION: return check_attention(list, &op->attention, err);
    case OP_KV_APPEND: return check_heads(list->layer[op->layer].d_head, err);
    case OP_RMS_NORM:
    case OP_LAYER_NORM:
    case OP_SWIGLU:
    case OP_GEGLU:
    case OP_GELU:
    case OP_RELU2:
    case OP_SWIGLU_OAI:
    case OP_ADD:
    case OP_SCALE:
    case OP_ADD_SCALED:
    case OP_TAKE:
    case OP_PERMUTE: return 0;
    default: return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: %s does not run on this device", op_name(op->kind));
    }
}

/* ---- weights and constants ---- */

static int gpu_prepare(struct device *self, struct weight *weight, bool *keeps_source, struct lutra_error *err)
{
    *keeps_source = false;
    return gpu_weight_prepare(gpu_of(self), weight, keeps_source, err);
}

static void gpu_release(struct device *self, struct weight *weight)
{
    gpu_weight_release(gpu_of(self), weight);
}

static int gpu_load_list(struct device *self, const struct op_list *list, struct lutra_error *err)
{
    return gpu_constants_load(gpu_of(self), list, err);
}

static void gpu_unload_list(struct device *self, const struct op_list *list)
{
    gpu_constants_unload(gpu_of(self), list);
}

/* ---- buffers ---- */

static int gpu_buffer_alloc(struct device *self, size_t bytes, struct buffer *out, struct lutra_error *err)
{
    struct gpu_buffer *b;
    memset(out, 0, sizeof *out);
    TRY(gpu_buffer_add(gpu_of(self), NULL, bytes, false, &b, err));
    *out = (struct buffer){.host = b->host, .bytes = bytes, .handle = b};
    return 0;
}

/* Layers lie wherever the whole cache lies.  Zero, as the CPU's is: states of recurrent layers lie there, too. */
static int gpu_cache_alloc(
    struct device *self, const struct op_list *list, size_t bytes, struct buffer *out, struct lutra_error *err)
{
    (void)list;
    TRY(gpu_buffer_alloc(self, bytes, out, err));
    memset(out->host, 0, bytes);
    return 0;
}

static int gpu_join(
    struct device *self, const struct op_list *list, const struct buffer *buffer, struct lutra_error *err)
{
    struct gpu_buffer *b;
    return gpu_buffer_add(gpu_of(self), buffer->host, buffer->bytes, list != NULL, &b, err);
}

static void gpu_leave(struct device *self, const struct buffer *buffer)
{
    struct gpu_device *d = gpu_of(self);
    struct gpu_buffer *b = gpu_buffer_of(d, buffer->host);
    gpu_queue_drain(d);
    if (b) gpu_buffer_drop(d, b);
}

static void gpu_buffer_free(struct device *self, struct buffer *buffer)
{
    gpu_leave(self, buffer);
    memset(buffer, 0, sizeof *buffer);
}

static void copy_area(uint8_t *to, const uint8_t *from, const struct area *area)
{
    const size_t bytes = (size_t)area->columns.n * sizeof(float), row_bytes = (size_t)area->dim * sizeof(float);
    size_t at = (size_t)area->columns.first * sizeof(float) + (size_t)area->first * row_bytes;
    for (int r = 0; r < area->rows; r++, at += row_bytes) memcpy(to + at, from + at, bytes);
}

static int gpu_publish(struct device *self, struct buffer *buffer, struct area area, struct lutra_error *err)
{
    const struct gpu_buffer *b = gpu_buffer_of(gpu_of(self), buffer->host);
    (void)err;
    if (b && b->copies) copy_area(b->host, b->memory.mapped, &area);
    return 0;
}

static void gpu_acquire(struct device *self, struct buffer *buffer, struct area area)
{
    struct gpu_buffer *b = gpu_buffer_of(gpu_of(self), buffer->host);
    if (!b || !b->copies) return;
    if (area_is_whole(&area))
        b->stale = true; /* brought when it is needed */
    else if (!b->stale)
        copy_area(b->memory.mapped, b->host, &area);
}

/* ---- passes ---- */

static size_t at_least(size_t have, size_t want)
{
    return have > want ? have : want;
}

/* The sizes of before and of this list, the larger of each. */
static int note_sizes(struct gpu_reserved *most, const struct op_list *list, int max_rows, int max_out, int n_ctx,
    struct lutra_error *err)
{
    size_t rope_bytes;
    if (max_rows > most->max_rows) most->max_rows = max_rows;
    if (max_out > most->max_out) most->max_out = max_out;
    if (n_ctx > most->n_ctx) most->n_ctx = n_ctx;
    TRY(gpu_tables_ropes(list, most->max_rows, &rope_bytes, err));
    most->rope_bytes = at_least(most->rope_bytes, rope_bytes);
    for (int i = 0; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        for (int k = 0; (op->kind == OP_MATMUL || op->kind == OP_HEAD) && k < op->n_weight; k++)
            most->rounded_bytes =
                at_least(most->rounded_bytes, gpu_program_rounded_bytes(&op->weight[k]->tensor, most->max_rows));
        if (op->kind != OP_HEAD) continue;
        size_t rows = (size_t)most->max_out * sizeof(float);
        most->hidden_bytes = at_least(most->hidden_bytes, rows * (size_t)list->value[op->in[1]].dim);
        most->logits_bytes = at_least(most->logits_bytes, rows * (size_t)list->n_vocab);
    }
    return 0;
}

static int gpu_reserve(
    struct device *self, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err)
{
    struct gpu_device *d = gpu_of(self);
    struct gpu_reserved most = d->most;
    gpu_queue_drain(d);
    TRY(note_sizes(&most, list, max_rows, max_out, n_ctx, err));
    TRY(gpu_memory_grow(d, most.logits_bytes, GPU_READ, &d->logits, err));
    TRY(gpu_memory_grow(d, most.hidden_bytes, GPU_READ, &d->hidden, err));
    TRY(gpu_memory_grow(d, most.rounded_bytes, GPU_SHARED, &d->rounded, err));
    for (int i = 0; i < GPU_TABLES; i++)
        TRY(gpu_memory_grow(d, gpu_tables_bytes(&most), GPU_SHARED, &d->tables[i], err));
    d->most = most;
    return gpu_program_prepare(d, list, err);
}

/* Segments before it in the queue are over before it begins: `after` asks for nothing more. */
static int gpu_submit(struct device *self, const struct segment *segment, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct gpu_device *d = gpu_of(self);
    const struct pass_args *pass = segment->pass;
    (void)after, (void)n_after;
    if (pass->batch->n_row > d->most.max_rows || pass->n_out > d->most.max_out)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "vulkan: a pass of %d rows, %d wanted; reserved for %d and %d",
            pass->batch->n_row, pass->n_out, d->most.max_rows, d->most.max_out);
    TRY(gpu_program_submit(d, segment, err));
    *out = (struct ticket){self, d->submitted};
    return 0;
}

static int gpu_wait(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    struct gpu_device *d = gpu_of(self);
    int rc = gpu_queue_wait(d, ticket->id, err);
    if (rc < 0)
        d->head.op = NULL;
    else if (d->head.ticket <= ticket->id)
        gpu_head_deliver(d);
    return rc;
}

static bool gpu_done(struct device *self, const struct ticket *ticket)
{
    struct gpu_device *d = gpu_of(self);
    uint64_t now = 0;
    return d->lost || ticket->id <= d->done || d->vk.GetSemaphoreCounterValue(d->device, d->timeline, &now) ||
           now >= ticket->id;
}

/* ---- in words ---- */

void gpu_device_text(const struct device *device, char *text, size_t size)
{
    const struct gpu_device *d = (const struct gpu_device *)device;
    const VkPhysicalDeviceProperties *p = &d->properties;
    snprintf(text, size, "vulkan: %.80s, %.60s, Vulkan %u.%u", p->deviceName, d->driver,
        VK_API_VERSION_MAJOR(p->apiVersion), VK_API_VERSION_MINOR(p->apiVersion));
}

static bool gpu_report(struct device *self, int line, char *text, size_t size)
{
    const struct gpu_device *d = gpu_of(self);
    static const char *const exact[] = {[GPU_EXACT_FUSED] = "class i8x32, the CPU's bits",
        [GPU_EXACT_MADE] = "class i8x32, the CPU's bits, without a fused multiply-add",
        [GPU_EXACT_NO] = "class gpu-f32: a self-test had other bits than the CPU"};
    const double mib = 1 << 20;
    if (line == 1) {
        const int n = snprintf(text, size, "%s submissions: %.1f ms at most", d->base.name, d->settings.slice_ms);
        if (d->slices.n && n > 0 && (size_t)n < size)
            snprintf(text + n, size - (size_t)n, ", %llu so far, the longest %.2f ms", (unsigned long long)d->slices.n,
                d->slices.measured_us / 1000);
        return true;
    }
    if (line == 2 && d->exact != GPU_EXACT_UNKNOWN) {
        snprintf(text, size, "%s products of 32-element types: %s", d->base.name, exact[d->exact]);
        return true;
    }
    if (line == 0)
        snprintf(text, size, "%s weights: %.1f MiB read in place, %.1f MiB mirrored", d->base.name,
            (double)d->in_place_bytes / mib, (double)d->mirrored_bytes / mib);
    return line == 0;
}

/* ---- open and close ---- */

static void free_memory(struct gpu_device *d)
{
    while (d->buffer) gpu_buffer_drop(d, d->buffer);
    gpu_constants_unload(d, NULL);
    gpu_memory_free(d, &d->logits);
    gpu_memory_free(d, &d->hidden);
    gpu_memory_free(d, &d->rounded);
    gpu_memory_free(d, &d->staging);
    for (int i = 0; i < GPU_TABLES; i++) gpu_memory_free(d, &d->tables[i]);
}

static void gpu_close(struct device *self)
{
    struct gpu_device *d = gpu_of(self);
    if (d->device && !d->silent) d->vk.DeviceWaitIdle(d->device);
    if (d->device) free_memory(d);
    if (d->device && !d->silent) {
        gpu_queue_close(d);
        gpu_pipelines_close(d);
    }
    if (!d->silent) gpu_unload(d);
    free(d);
}

static const struct device_ops GPU_OPS = {.close = gpu_close,
    .supports = gpu_supports,
    .prepare = gpu_prepare,
    .release = gpu_release,
    .reserve = gpu_reserve,
    .submit = gpu_submit,
    .wait = gpu_wait,
    .done = gpu_done,
    .buffer_alloc = gpu_buffer_alloc,
    .buffer_free = gpu_buffer_free};

static const struct device_memory GPU_MEMORY = {.publish = gpu_publish,
    .acquire = gpu_acquire,
    .load = gpu_load_list,
    .unload = gpu_unload_list,
    .cache_alloc = gpu_cache_alloc,
    .join = gpu_join,
    .leave = gpu_leave};

static const struct device_extras GPU_EXTRAS = {.report = gpu_report};

int gpu_device_open(struct device **out, const struct gpu_settings *settings, struct lutra_error *err)
{
    *out = NULL;
    struct gpu_device *d = calloc(1, sizeof *d);
    if (!d) return lutra_fail(err, LUTRA_E_NO_MEMORY, "vulkan: no memory for the device");
    d->settings = *settings;
    if (!(d->settings.slice_ms > 0)) d->settings.slice_ms = SLICE_MS;
    d->base = (struct device){.ops = &GPU_OPS,
        .memory = &GPU_MEMORY,
        .extras = &GPU_EXTRAS,
        .name = "vulkan",
        .caps = {.max_rows = MAX_ROWS,
            .flat_rows = FLAT_ROWS,
            .async = true,
            .masks = true,
            .cache = DEVICE_CACHE_ALIKE,
            .shares = 1 << OP_MATMUL,
            .class_shares = SHARED_BY_CLASS}};
    int rc = gpu_load(d, err);
    if (rc == 0) rc = gpu_pipelines_open(d, err);
    if (rc == 0) rc = gpu_queue_open(d, err);
    if (rc < 0) {
        gpu_close(&d->base);
        return rc;
    }
    *out = &d->base;
    return 0;
}
