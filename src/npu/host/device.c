/* SPDX-License-Identifier: MIT
 *
 * The NPU device: what it can run, weights and buffers in the window, the front door of a pass.
 */
#include "npu/host/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "npu/host/device_impl.h"

/* Lookup cost grows linearly with rows; only weight traffic is shared. */
enum { MAX_ROWS = 512, FLAT_ROWS = 32, FLAT_LOOKUPS = 3, BULK_ROWS = 32 };

static struct npu_device *self_of(struct device *d)
{
    return (struct npu_device *)d;
}

/* ---- what it can run ---- */

static int check_product(struct npu_device *d, const struct op *op, struct lutra_error *err)
{
    struct npu_weights w;
    for (int i = 0; i < op->n_weight; i++) {
        const struct weight *weight = op->weight[i];
        TRY(npu_weight_layout(d, weight, &w, err));
        if (weight->tensor.ne[1] % 32)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: tensor '%s' has %lld outputs, not a multiple of 32",
                weight->tensor.name, (long long)weight->tensor.ne[1]);
    }
    return 0;
}

static int check_rope(const struct op_rope *p, struct lutra_error *err)
{
    bool sane = p->n_head > 0 && p->n_rot > 0 && p->n_rot % 2 == 0 && p->n_rot <= p->d_head && p->n_rot <= NPU_ROPE_MAX;
    if (p->long_factors)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: rope: factors that depend on the length of the context");
    if (sane && (p->kind == ROPE_NORM || p->kind == ROPE_NEOX) && p->n_head * p->d_head % 32 == 0) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: rope: kind %d, %d heads of %d, %d elements rotated", (int)p->kind,
        p->n_head, p->d_head, p->n_rot);
}

static int check_attention(struct npu_device *d, const struct op_attention *p, struct lutra_error *err)
{
    struct npu_attention_plan plan;
    const struct npu_machine *m = &d->window[0].link->machine;
    if (p->d_head < 8 || p->n_head * p->d_head % 32 ||
        npu_attention_plan((uint32_t)p->d_head, m->tcm_kept, m->tcm_bytes, &plan))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: attention: %d heads of %d", p->n_head, p->d_head);
    if (p->n_kv_head > 0 && p->n_head % p->n_kv_head == 0 && p->n_head / p->n_kv_head <= NPU_ATTENTION_ROWS) return 0;
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "npu: attention: %d query heads over %d key heads", p->n_head, p->n_kv_head);
}

/* Its windows hold whole layers, and cut a cache into equal ones (npu_cache_place). */
static int check_cache(const struct op_list *list, struct lutra_error *err)
{
    if (list->whole) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: attention that looks ahead");
    for (int i = 0; i < list->n_layer; i++) {
        const struct op_layer *l = &list->layer[i], *first = &list->layer[0];
        if (l->cache == i && l->n_kv_head == first->n_kv_head && l->d_head == first->d_head) continue;
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "npu: layer %d: %d heads of %d in the cache of layer %d; only layers with caches of their own, all alike",
            i, l->n_kv_head, l->d_head, l->cache);
    }
    return 0;
}

static int npu_supports(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    struct npu_weights w;
    switch (op->kind) {
    case OP_EMBED:
        if (op->embed.by != EMBED_TOKEN)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: embed: positions and segments");
        if (op->embed.first || list->value[op->out[0]].dim != op->weight[0]->tensor.ne[0])
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: embed: a part of a row");
        return npu_weight_layout(d, op->weight[0], &w, err);
    case OP_HEAD:
        if (!op->n_weight) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: head: no logits");
        if (op->head.scale != 0) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: head: scaled logits");
        return npu_weight_layout(d, op->weight[0], &w, err);
    case OP_MATMUL: return check_product(d, op, err);
    case OP_ROPE: return check_rope(&op->rope, err);
    case OP_ATTENTION: TRY(check_cache(list, err)); return check_attention(d, &op->attention, err);
    case OP_KV_APPEND: return check_cache(list, err);
    case OP_RMS_NORM:
        if (op->norm.n_norm % 32 == 0) return 0;
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "npu: rms_norm over %d elements, not a multiple of 32", op->norm.n_norm);
    case OP_SWIGLU:
    case OP_GEGLU:
    case OP_RELU2:
    case OP_ADD:
    case OP_TAKE: return 0;
    default: return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: %s does not run on this device", op_name(op->kind));
    }
}

/* ---- weights ---- */

static int npu_prepare(struct device *self, struct weight *weight, bool *keeps_source, struct lutra_error *err)
{
    *keeps_source = false;
    return npu_weight_prepare(self_of(self), weight, err);
}

static void npu_release(struct device *self, struct weight *weight)
{
    npu_weight_release(self_of(self), weight);
}

static int npu_load(struct device *self, const struct op_list *list, struct lutra_error *err)
{
    return npu_constants_load(self_of(self), list, err);
}

static void npu_unload(struct device *self, const struct op_list *list)
{
    npu_constants_unload(self_of(self), list);
}

/* ---- buffers ---- */

static void give_buffer(const struct npu_buffer *b, struct buffer *out)
{
    *out = (struct buffer){.host = b->host, .bytes = b->bytes, .handle = b->host};
}

static int npu_buffer_alloc(struct device *self, size_t bytes, struct buffer *out, struct lutra_error *err)
{
    struct npu_buffer *b;
    memset(out, 0, sizeof *out);
    TRY(npu_value_alloc(self_of(self), NULL, bytes, &b, err));
    give_buffer(b, out);
    return 0;
}

/* With the sinks of its layers.  host: NULL, or somebody else's memory. */
static int place_cache(struct npu_device *d, const struct op_list *list, void *host, size_t bytes,
    struct npu_buffer **out, struct lutra_error *err)
{
    TRY(npu_cache_place(d, list, host, bytes, out, err));
    int rc = npu_constants_sinks(d, list, *out, err);
    if (rc < 0) npu_buffer_drop(d, *out);
    return rc;
}

static int npu_cache_alloc(
    struct device *self, const struct op_list *list, size_t bytes, struct buffer *out, struct lutra_error *err)
{
    struct npu_buffer *b;
    memset(out, 0, sizeof *out);
    TRY(place_cache(self_of(self), list, NULL, bytes, &b, err));
    give_buffer(b, out);
    return 0;
}

static int npu_join(
    struct device *self, const struct op_list *list, const struct buffer *buffer, struct lutra_error *err)
{
    struct npu_buffer *b;
    return list ? place_cache(self_of(self), list, buffer->host, buffer->bytes, &b, err)
                : npu_value_alloc(self_of(self), buffer->host, buffer->bytes, &b, err);
}

static void npu_leave(struct device *self, const struct buffer *buffer)
{
    struct npu_buffer *b = npu_buffer_of(self_of(self), buffer->host);
    if (b) npu_buffer_drop(self_of(self), b);
}

static void npu_buffer_free(struct device *self, struct buffer *buffer)
{
    struct npu_buffer *b = npu_buffer_of(self_of(self), buffer->host);
    if (b) npu_buffer_drop(self_of(self), b);
    memset(buffer, 0, sizeof *buffer);
}

/* The host will read what the NPU wrote. */
static int npu_publish(struct device *self, struct buffer *buffer, struct area area, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    struct npu_buffer *b = npu_buffer_of(d, buffer->host);
    if (!b || b->n_layer) return 0;
    TRY(npu_run_drain(d, err)); /* of a later segment */
    if (!area_is_whole(&area)) return npu_value_area_to_host(d, b, &area, err);
    return npu_value_to_host(d, b, (uint32_t)b->bytes, err);
}

/* The NPU will read what somebody else wrote: it is brought when it is needed. */
static void npu_acquire(struct device *self, struct buffer *buffer, struct area area)
{
    struct npu_buffer *b = npu_buffer_of(self_of(self), buffer->host);
    if (!b || b->n_layer) return;
    if (!area_is_whole(&area)) {
        npu_value_area_comes(b, &area);
        return;
    }
    b->host_fresh = b->shared = true;
    b->fresh = 0, b->n_come = 0;
}

/* ---- passes ---- */

static int reserve_ops(struct npu_device *d, int n, struct lutra_error *err)
{
    if (n <= d->max_op) return 0;
    struct npu_op *op = realloc(d->op, (size_t)n * sizeof *op);
    if (!op) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", d->base.name);
    d->op = op, d->max_op = n;
    return 0;
}

static int npu_reserve(
    struct device *self, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    struct npu_reserved had = d->most, *most = &d->most;
    if (max_rows > most->max_rows) most->max_rows = max_rows;
    if (max_out > most->max_out) most->max_out = max_out;
    if (n_ctx > most->n_ctx) most->n_ctx = n_ctx;
    int rc = reserve_ops(d, npu_program_ops(d, list) + 2 * most->max_out, err);
    if (rc == 0) rc = npu_reserve_all(d, list, err);
    if (rc < 0)
        d->most = had;
    else
        npu_tcm_note(d, list);
    return rc;
}

static int npu_wait(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    if (ticket->id != d->ticket) return 0; /* what came after waited for it */
    int rc = npu_run_drain(d, err);
    uint64_t *end_us = &d->ran[ticket->id % NPU_RAN].end_us;
    if (!*end_us) *end_us = clock_now_us(clock_real()); /* or a little sooner: nobody has looked */
    if (rc < 0) d->pass = NULL; /* a run that was stopped brings nothing, however often it is waited for */
    npu_run_finish(d);
    return rc;
}

static int npu_submit(struct device *self, const struct segment *segment, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    for (int i = 0; i < n_after; i++) TRY(after[i].device->ops->wait(after[i].device, &after[i], err));
    TRY(npu_run_abandon(d, err));
    const uint64_t begin_us = clock_now_us(clock_real());
    int rc = npu_program_submit(d, segment, err);
    if (rc < 0) {
        d->pass = NULL;
        return rc;
    }
    *out = (struct ticket){self, ++d->ticket};
    d->ran[d->ticket % NPU_RAN].begin_us = begin_us, d->ran[d->ticket % NPU_RAN].end_us = 0;
    return 0;
}

static bool npu_report(struct device *self, int line, char *text, size_t size)
{
    const struct npu_device *d = self_of(self);
    double mib = 1 << 20;
    if (line < d->n_window) {
        npu_window_describe(d, line, text, size);
        return true;
    }
    line -= d->n_window;
    if (npu_planes_describe(d, text, size) && line-- == 0) return true;
    snprintf(text, size, "%s TCM: %.1f of %.1f MiB at most, by %s of layer %d", d->base.name, d->tcm.bytes / mib,
        d->window[0].link->machine.tcm_bytes / mib, op_name(d->tcm.kind), d->tcm.layer);
    return line == 0 && d->tcm.bytes;
}

static void npu_close(struct device *self)
{
    struct npu_device *d = self_of(self);
    while (d->buffer) npu_buffer_drop(d, d->buffer);
    while (d->n_window) npu_window_remove(d);
    free(d->constant);
    free(d->op);
    free(d);
}

static const struct device_ops DEVICE_OPS = {.close = npu_close,
    .supports = npu_supports,
    .prepare = npu_prepare,
    .release = npu_release,
    .reserve = npu_reserve,
    .submit = npu_submit,
    .wait = npu_wait,
    .buffer_alloc = npu_buffer_alloc,
    .buffer_free = npu_buffer_free};

static const struct device_memory DEVICE_MEMORY = {.publish = npu_publish,
    .acquire = npu_acquire,
    .load = npu_load,
    .unload = npu_unload,
    .cache_alloc = npu_cache_alloc,
    .join = npu_join,
    .leave = npu_leave};

/* Tiles are another class than lookups. */
static int npu_bulk_rows(struct device *self, const struct op *op)
{
    const struct npu_device *d = self_of(self);
    for (int i = 0; op->kind == OP_MATMUL && i < op->n_weight; i++)
        if (npu_packed_of(d, op->weight[i])->lookup_rows) return BULK_ROWS;
    return 0;
}

static bool npu_ran(struct device *self, const struct ticket *ticket, uint64_t *begin_us, uint64_t *end_us)
{
    const struct npu_device *d = self_of(self);
    *begin_us = d->ran[ticket->id % NPU_RAN].begin_us, *end_us = d->ran[ticket->id % NPU_RAN].end_us;
    return ticket->id && d->ticket - ticket->id < NPU_RAN && *end_us;
}

static const struct device_extras DEVICE_EXTRAS = {.report = npu_report, .bulk_rows = npu_bulk_rows, .ran = npu_ran};

int npu_device_open(struct device **out, npu_transport_open *open, const struct npu_transport_settings *settings,
    struct pool *pool, struct lutra_error *err)
{
    *out = NULL;
    struct npu_device *d = calloc(1, sizeof *d);
    if (!d) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: no memory for the device");
    d->open = open, d->settings = *settings, d->pool = pool;
    d->base.name = "npu";
    int rc = npu_window_add(d, err);
    if (rc < 0) {
        free(d);
        return rc;
    }
    d->base = (struct device){.ops = &DEVICE_OPS,
        .memory = &DEVICE_MEMORY,
        .extras = &DEVICE_EXTRAS,
        .name = d->window[0].link->name,
        .caps = {.max_rows = MAX_ROWS,
            .flat_rows = settings->packing == NPU_PACK_LOOKUP ? FLAT_LOOKUPS : FLAT_ROWS,
            .memory_bytes = npu_window_bytes(d),
            .cache = DEVICE_CACHE_F16,
            .async = true,
            .shares = 1 << OP_MATMUL | 1 << OP_SWIGLU | 1 << OP_GEGLU | 1 << OP_RELU2,
            .class_shares = 1 << OP_MATMUL | 1 << OP_SWIGLU | 1 << OP_GEGLU | 1 << OP_RELU2 | 1 << OP_ADD |
                            1 << OP_RMS_NORM | 1 << OP_ROPE,
            /* blocks of bit planes lie side by side in panels */
            .one_share = settings->packing == NPU_PACK_PLANES || settings->packing == NPU_PACK_LOOKUP}};
    *out = &d->base;
    return 0;
}
