/* SPDX-License-Identifier: MIT
 *
 * The NPU device: what it can run, weights and buffers in the window, the front door of a step.
 */
#include "npu/host/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "npu/host/device_impl.h"
#include "npu/host/pack.h"
#include "quant/quant.h"

enum { MAX_ROWS = 512, FLAT_ROWS = 32 };

static struct npu_device *self_of(struct device *d)
{
    return (struct npu_device *)d;
}

/* ---- what it can run ---- */

/* The layout of a weight, or why there is none. */
static int lay_out(struct npu_device *d, const struct weight *w, struct npu_weights *out, struct lutra_error *err)
{
    const struct tensor *t = &w->tensor;
    uint32_t kind;
    struct npu_gemm_plan plan;
    TRY(npu_pack_kind((uint32_t)t->type, &kind, err));
    if (t->ne[0] < 32 || t->ne[0] % 32 || t->ne[0] > 1 << 24 || t->ne[1] < 1 || t->ne[1] > 1 << 24 ||
        npu_weights_layout(kind, npu_weights_k((uint32_t)t->ne[0]), (uint32_t)t->ne[1], out))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: tensor '%s' of %lld x %lld has no layout", t->name,
            (long long)t->ne[1], (long long)t->ne[0]);
    if (npu_gemm_plan(out, 32, d->link->machine.tcm_kept, d->link->machine.tcm_bytes, 1, &plan))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: rows of %lld of tensor '%s' do not fit into TCM",
            (long long)t->ne[0], t->name);
    return 0;
}

static int check_product(struct npu_device *d, const struct op *op, struct lutra_error *err)
{
    struct npu_weights w;
    for (int i = 0; i < op->matmul.n_part; i++) {
        const struct weight *weight = op->matmul.part[i].weight;
        TRY(lay_out(d, weight, &w, err));
        if (weight->tensor.ne[1] % 32)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: tensor '%s' has %lld outputs, not a multiple of 32",
                weight->tensor.name, (long long)weight->tensor.ne[1]);
    }
    return 0;
}

static int check_rope(const struct op_rope *p, struct lutra_error *err)
{
    bool sane = p->n_head > 0 && p->n_rot > 0 && p->n_rot % 2 == 0 && p->n_rot <= p->d_head && p->n_rot <= NPU_ROPE_MAX;
    if (sane && (p->kind == ROPE_NORM || p->kind == ROPE_NEOX) && p->n_head * p->d_head % 32 == 0) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: rope: kind %d, %d heads of %d, %d elements rotated", (int)p->kind,
        p->n_head, p->d_head, p->n_rot);
}

static int check_attention(struct npu_device *d, const struct op_attention *p, struct lutra_error *err)
{
    struct npu_attention_plan plan;
    const struct npu_machine *m = &d->link->machine;
    if (p->d_head < 8 || p->n_head * p->d_head % 32 ||
        npu_attention_plan((uint32_t)p->d_head, m->tcm_kept, m->tcm_bytes, &plan))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: attention: %d heads of %d", p->n_head, p->d_head);
    if (p->n_kv_head > 0 && p->n_head % p->n_kv_head == 0 && p->n_head / p->n_kv_head <= NPU_ATTENTION_ROWS) return 0;
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "npu: attention: %d query heads over %d key heads", p->n_head, p->n_kv_head);
}

static int npu_supports(struct device *self, const struct op *op, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    struct npu_weights w;
    switch (op->kind) {
    case OP_EMBED: return lay_out(d, op->embed.weight, &w, err);
    case OP_HEAD: return lay_out(d, op->head.weight, &w, err);
    case OP_MATMUL: return check_product(d, op, err);
    case OP_ROPE: return check_rope(&op->rope, err);
    case OP_ATTENTION: return check_attention(d, &op->attention, err);
    case OP_RMS_NORM:
        if (op->norm.n_norm % 32 == 0) return 0;
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "npu: rms_norm over %d elements, not a multiple of 32", op->norm.n_norm);
    case OP_KV_APPEND:
    case OP_SWIGLU:
    case OP_GEGLU:
    case OP_RELU2:
    case OP_ADD:
    case OP_TAKE: return 0;
    default:
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: operation %d does not run on this device", (int)op->kind);
    }
}

/* ---- weights ---- */

static void npu_release(struct device *self, struct weight *weight)
{
    if (!weight->packed) return;
    npu_transport_free(self_of(self)->link, weight->packed->at);
    free(weight->packed);
    weight->packed = NULL;
}

/* Rows to tiles; where k is an odd number of 32, a block of zeros is put behind every row first. */
static int pack(const struct tensor *t, const struct npu_weights *w, uint8_t *dst, struct lutra_error *err)
{
    size_t row_bytes, wide_bytes;
    TRY(quant_row_bytes((uint32_t)t->type, (size_t)t->ne[0], &row_bytes));
    if ((size_t)t->ne[0] == w->k) {
        npu_pack_tile32(w, t->data, row_bytes, dst, 0, w->n_blocks);
        return 0;
    }
    TRY(quant_row_bytes((uint32_t)t->type, w->k, &wide_bytes));
    uint8_t *wide = calloc(w->n, wide_bytes);
    if (!wide) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: no memory to pack tensor '%s'", t->name);
    for (uint32_t r = 0; r < w->n; r++)
        memcpy(wide + r * wide_bytes, (const uint8_t *)t->data + r * row_bytes, row_bytes);
    npu_pack_tile32(w, wide, wide_bytes, dst, 0, w->n_blocks);
    free(wide);
    return 0;
}

static int npu_prepare(struct device *self, struct weight *weight, bool *keeps_source, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    const struct tensor *t = &weight->tensor;
    struct npu_weights w;
    *keeps_source = false;
    if (weight->packed) return lutra_fail(err, LUTRA_E_ARGUMENT, "npu: tensor '%s' is prepared already", t->name);
    TRY(lay_out(d, weight, &w, err));
    struct packed *p = calloc(1, sizeof *p);
    if (!p) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: no memory for tensor '%s'", t->name);
    *p = (struct packed){.layout = w, .bytes = w.n_blocks * w.block_bytes};
    p->at = npu_transport_alloc(d->link, p->bytes);
    weight->packed = p;
    int rc =
        p->at ? pack(t, &w, d->link->base + p->at, err)
              : lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: tensor '%s' needs %u MiB of the NPU's memory, %u MiB are left",
                    d->base.name, t->name, p->bytes >> 20, (unsigned)(npu_transport_free_bytes(d->link) >> 20));
    if (rc < 0)
        npu_release(self, weight);
    else
        npu_transport_publish(d->link, p->at, p->bytes);
    return rc;
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

static int npu_buffer_alloc(struct device *self, size_t bytes, struct buffer *out, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    memset(out, 0, sizeof *out);
    /* Kernels read whole vectors: a little behind the last row. */
    uint32_t at = bytes < UINT32_MAX - 4096 ? npu_transport_alloc(d->link, (uint32_t)bytes + NPU_LINE) : 0;
    if (!at)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: a buffer of %zu MiB does not fit, %u MiB are left", d->base.name,
            bytes >> 20, (unsigned)(npu_transport_free_bytes(d->link) >> 20));
    *out = (struct buffer){.host = d->link->base + at, .bytes = bytes, .handle = d->link->base + at};
    return 0;
}

static void npu_buffer_free(struct device *self, struct buffer *buffer)
{
    struct npu_device *d = self_of(self);
    if (buffer->handle) npu_transport_free(d->link, npu_window_offset(d, buffer->host));
    memset(buffer, 0, sizeof *buffer);
}

/* The host will read what the NPU wrote. */
static int npu_publish(struct device *self, struct buffer *buffer, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    uint32_t at = npu_window_offset(d, buffer->host), bytes = (uint32_t)buffer->bytes;
    struct npu_op op = {.code = NPU_OP_FLUSH, .src = at, .k = bytes};
    uint64_t ticket;
    if (!at) return 0;
    TRY(npu_transport_submit(d->link, &op, 1, &ticket, err));
    TRY(npu_transport_wait(d->link, ticket, CLOCK_NEVER_US, err));
    npu_transport_acquire(d->link, at, bytes);
    return 0;
}

/* The NPU will read what somebody else wrote. */
static void npu_acquire(struct device *self, struct buffer *buffer)
{
    struct npu_device *d = self_of(self);
    uint32_t at = npu_window_offset(d, buffer->host);
    if (!at) return;
    npu_transport_publish(d->link, at, (uint32_t)buffer->bytes);
    for (int i = 0; i < d->n_written; i++)
        if (d->written[i].offset == at) return;
    if (d->n_written == (int)(sizeof d->written / sizeof *d->written)) { /* nobody submits */
        struct npu_op op = {.code = NPU_OP_INVALIDATE, .src = at, .k = (uint32_t)buffer->bytes};
        uint64_t ticket;
        if (npu_transport_submit(d->link, &op, 1, &ticket, NULL) == 0)
            npu_transport_wait(d->link, ticket, CLOCK_NEVER_US, NULL);
        return;
    }
    d->written[d->n_written].offset = at;
    d->written[d->n_written++].bytes = (uint32_t)buffer->bytes;
}

/* ---- steps ---- */

static int npu_reserve(
    struct device *self, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    if (max_rows > d->max_rows) d->max_rows = max_rows;
    if (max_out > d->max_out) d->max_out = max_out;
    if (n_ctx > d->n_ctx) d->n_ctx = n_ctx;
    return npu_program_reserve(d, list, err);
}

static int npu_wait(struct device *self, const struct ticket *ticket, uint64_t deadline_us, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    if (!ticket->id) return 0;
    TRY(npu_transport_wait(d->link, ticket->id, deadline_us, err));
    if (ticket->id == d->ticket) npu_program_finish(d);
    return 0;
}

static int npu_submit(struct device *self, const struct segment *segment, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct npu_device *d = self_of(self);
    struct ticket last = {self, d->ticket};
    for (int i = 0; i < n_after; i++) TRY(after[i].device->ops->wait(after[i].device, &after[i], CLOCK_NEVER_US, err));
    TRY(npu_wait(self, &last, CLOCK_NEVER_US, err));
    TRY(npu_program_submit(d, segment, err));
    *out = (struct ticket){self, d->ticket};
    return 0;
}

static void add_weight(const struct weight *w, size_t n_row, struct demand *out)
{
    size_t n_in = (size_t)w->tensor.ne[0], n_out = (size_t)w->tensor.ne[1];
    out->weight_bytes += w->packed ? w->packed->bytes : w->tensor.bytes;
    out->act_bytes += n_row * (n_in + n_out) * sizeof(float);
    out->mac += (uint64_t)n_in * n_out * n_row;
}

static void npu_demand(struct device *self, const struct op *op, const struct step *step, struct demand *out)
{
    const struct kv_view *kv = step->kv;
    size_t n_row = (size_t)step->batch->n_row;
    uint64_t seen = 0;
    (void)self;
    memset(out, 0, sizeof *out);
    switch (op->kind) {
    case OP_MATMUL:
        for (int i = 0; i < op->matmul.n_part; i++) add_weight(op->matmul.part[i].weight, n_row, out);
        break;
    case OP_HEAD: add_weight(op->head.weight, (size_t)step->n_out, out); break;
    case OP_EMBED: out->act_bytes = n_row * (size_t)op->embed.weight->tensor.ne[0] * sizeof(float); break;
    case OP_ATTENTION:
        for (size_t r = 0; r < n_row; r++) seen += (uint64_t)kv->row[r].n_paged + (uint64_t)kv->row[r].n_path;
        out->cache_bytes = (uint64_t)kv->n_item * KV_BLOCK * (uint64_t)kv->n_kv_head * 2 * kv->vec_bytes;
        out->mac = seen * 2 * (uint64_t)op->attention.n_head * (uint64_t)op->attention.d_head;
        break;
    default: break;
    }
}

static void npu_close(struct device *self)
{
    struct npu_device *d = self_of(self);
    npu_program_fini(d);
    free(d->constant);
    npu_transport_close(&d->link);
    free(d);
}

static const struct device_ops DEVICE_OPS = {.close = npu_close,
    .supports = npu_supports,
    .prepare = npu_prepare,
    .release = npu_release,
    .load = npu_load,
    .unload = npu_unload,
    .reserve = npu_reserve,
    .submit = npu_submit,
    .wait = npu_wait,
    .buffer_alloc = npu_buffer_alloc,
    .buffer_free = npu_buffer_free,
    .publish = npu_publish,
    .acquire = npu_acquire,
    .demand = npu_demand};

int npu_device_open(struct device **out, npu_transport_open *open, const struct npu_transport_settings *settings,
    struct lutra_error *err)
{
    struct npu_op table = {.code = NPU_OP_EXP_TABLE};
    *out = NULL;
    struct npu_device *d = calloc(1, sizeof *d);
    if (!d) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: no memory for the device");
    int rc = open(&d->link, settings, err);
    if (rc == 0) rc = npu_transport_submit(d->link, &table, 1, &d->ticket, err);
    if (rc == 0) rc = npu_transport_wait(d->link, d->ticket, CLOCK_NEVER_US, err);
    if (rc < 0) {
        if (d->link) npu_transport_close(&d->link);
        free(d);
        return rc;
    }
    d->base = (struct device){.ops = &DEVICE_OPS,
        .name = d->link->name,
        .caps = {.max_rows = MAX_ROWS,
            .flat_rows = FLAT_ROWS,
            .invariant_rows = NPU_GEMV_ROWS,
            .memory_bytes = d->link->end - d->link->first,
            .f16_cache = true,
            .numerics = "npu-f16"}};
    *out = &d->base;
    return 0;
}
