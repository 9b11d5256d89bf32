/* SPDX-License-Identifier: MIT
 *
 * Weights in the NPU's windows: their layout, packing on all threads, where they lie.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "npu/host/device_impl.h"
#include "npu/host/pack.h"
#include "quant/quant.h"

/* A kind's layout that products can use. */
static int product_layout(const struct npu_machine *m, uint32_t kind, const struct tensor *t, struct npu_weights *out,
    struct lutra_error *err)
{
    struct npu_gemm_plan plan;
    if (t->ne[0] < 32 || t->ne[0] % 32 || t->ne[0] > 1 << 24 || t->ne[1] < 1 || t->ne[1] > 1 << 24 ||
        npu_weights_layout(kind, npu_weights_k((uint32_t)t->ne[0]), (uint32_t)t->ne[1], out))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: tensor '%s' of %lld x %lld has no layout", t->name,
            (long long)t->ne[1], (long long)t->ne[0]);
    if (npu_gemm_plan(out, 32, m->tcm_kept, m->tcm_bytes, &plan))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: rows of %lld of tensor '%s' do not fit into TCM",
            (long long)t->ne[0], t->name);
    return 0;
}

static bool in_layers(const char *name)
{
    return strncmp(name, "blk.", 4) == 0;
}

/* How the layers' weights of `bytes` in all are packed where a setting says so; 0: as others. */
static uint32_t kind_of_layers(const struct npu_device *d, const struct tensor *t, uint32_t kind, size_t bytes)
{
    if (!in_layers(t->name)) return 0;
    switch (d->settings.packing) {
    case NPU_PACK_SUPERGROUPS: return kind == NPU_W_Q4_0 ? NPU_W_SUPER4 : kind == NPU_W_Q8_0 ? NPU_W_SUPER8 : 0;
    case NPU_PACK_PLANES:
    case NPU_PACK_LOOKUP: return npu_pack_planes_of_rows((uint32_t)t->type, t->data, bytes, (uint32_t)t->ne[0]);
    default: return 0;
    }
}

int npu_weight_layout(struct npu_device *d, const struct weight *w, struct npu_weights *out, struct lutra_error *err)
{
    const struct tensor *t = &w->tensor;
    const struct npu_machine *m = &d->window[0].link->machine;
    uint32_t kind, own;
    size_t row_bytes = 0;
    const struct packed *p = npu_packed_of(d, w);
    if (p) {
        *out = p->layout;
        return 0;
    }
    TRY(npu_pack_kind((uint32_t)t->type, &kind, err));
    if (quant_row_bytes((uint32_t)t->type, t->ne[0], &row_bytes) == 0)
        kind = npu_pack_kind_of_rows((uint32_t)t->type, kind, t->data, row_bytes * (size_t)t->ne[1]);
    own = kind_of_layers(d, t, kind, row_bytes * (size_t)t->ne[1]);
    if (!own || product_layout(m, own, t, out, NULL) < 0) TRY(product_layout(m, kind, t, out, err));
    if ((uint64_t)out->bytes + 4 * NPU_LINE > npu_window_bytes(d))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: tensor '%s' of %u KiB exceeds a session's window of %u KiB",
            t->name, out->bytes >> 10, npu_window_bytes(d) >> 10);
    return 0;
}

/* ---- packing ---- */

struct packing {
    const struct npu_weights *w;
    const uint8_t *rows;
    size_t row_bytes;
    uint8_t *dst;
    float *scratch; /* of supergroups: 32 rows of each thread, zeros behind those of the tensor */
    const struct tensor *t;
};

static void pack_some(void *arg, int ith, int nth)
{
    const struct packing *p = arg;
    uint64_t n = npu_weights_outputs(p->w) / p->w->cols;
    uint32_t first = (uint32_t)(n * (uint64_t)ith / (uint64_t)nth);
    uint32_t last = (uint32_t)(n * ((uint64_t)ith + 1) / (uint64_t)nth);
    (npu_is_planes(p->w->kind) ? npu_pack_planes : npu_pack_tile32)(
        p->w, (uint32_t)p->t->type, p->rows, p->row_bytes, p->dst, first, last);
}

/* The rows' values in groups of their own [TTS 5.1]. */
static void pack_groups(void *arg, int ith, int nth)
{
    const struct packing *p = arg;
    const struct npu_weights *w = p->w;
    float *rows = p->scratch + (size_t)ith * NPU_COLS * w->k;
    for (uint32_t b = (uint32_t)ith; b < w->n_blocks; b += (uint32_t)nth) {
        struct npu_weights block = *w;
        block.n = w->n - b * NPU_COLS < NPU_COLS ? w->n - b * NPU_COLS : NPU_COLS;
        for (uint32_t r = 0; r < block.n; r++)
            quant_info_of((uint32_t)p->t->type)
                ->dequantize(
                    p->rows + (b * (size_t)NPU_COLS + r) * p->row_bytes, rows + (size_t)r * w->k, (size_t)p->t->ne[0]);
        npu_pack_supergroup(&block, rows, w->k, p->dst + (size_t)b * w->block_bytes, 0, 1);
    }
}

static int pack_supergroups(struct npu_device *d, struct packing *p, struct lutra_error *err)
{
    TRY(quant_row_bytes((uint32_t)p->t->type, p->t->ne[0], &p->row_bytes));
    p->scratch = calloc((size_t)pool_size(d->pool) * NPU_COLS * p->w->k, sizeof *p->scratch);
    if (!p->scratch) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: no memory to pack tensor '%s'", p->t->name);
    pool_run(d->pool, pack_groups, p);
    free(p->scratch);
    return 0;
}

/* Rows to tiles; where k is an odd number of 32, a block of zeros is put behind every row first. */
static int pack(
    struct npu_device *d, const struct tensor *t, const struct npu_weights *w, uint8_t *dst, struct lutra_error *err)
{
    struct packing p = {.w = w, .rows = t->data, .dst = dst, .t = t};
    size_t row_bytes;
    uint8_t *wide = NULL;
    if (w->kind == NPU_W_SUPER4 || w->kind == NPU_W_SUPER8) return pack_supergroups(d, &p, err);
    TRY(quant_row_bytes((uint32_t)t->type, (size_t)t->ne[0], &row_bytes));
    TRY(quant_row_bytes((uint32_t)t->type, w->k, &p.row_bytes));
    if (row_bytes != p.row_bytes) {
        p.rows = wide = calloc(w->n, p.row_bytes);
        if (!wide) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: no memory to pack tensor '%s'", t->name);
        for (uint32_t r = 0; r < w->n; r++)
            memcpy(wide + r * p.row_bytes, (const uint8_t *)t->data + r * row_bytes, row_bytes);
    }
    pool_run(d->pool, pack_some, &p);
    free(wide);
    return 0;
}

/* Rows of a product by lookup that TCM has room for; 0: no such product. */
static uint32_t lookup_rows(const struct npu_device *d, const struct npu_weights *w)
{
    struct npu_lookup_plan plan;
    uint32_t m = d->settings.packing == NPU_PACK_LOOKUP && npu_is_planes(w->kind) ? NPU_LOOKUP_ROWS : 0;
    while (m && npu_lookup_plan(w, m, &d->window[0].link->machine, &plan)) m--;
    return m;
}

/* Some of its outputs. */
static struct tensor part_of(const struct tensor *t, struct columns outputs)
{
    struct tensor part = *t;
    size_t row_bytes = t->bytes / (size_t)t->ne[1];
    part.ne[1] = outputs.n;
    part.data = (const uint8_t *)t->data + (size_t)outputs.first * row_bytes;
    part.bytes = (size_t)outputs.n * row_bytes;
    return part;
}

int npu_weight_prepare(struct npu_device *d, struct weight *weight, struct lutra_error *err)
{
    const struct tensor *t = &weight->tensor;
    struct npu_weights w;
    struct lutra_error why;
    if (weight_is_ready(weight, &d->base))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "npu: tensor '%s' is prepared already", t->name);
    struct held *h = weight_to_prepare(weight, &d->base, err);
    if (!h) return LUTRA_E_UNSUPPORTED;
    npu_weight_release(d, weight); /* of fewer outputs */
    TRY(npu_weight_layout(d, weight, &w, err));
    const struct tensor part = part_of(t, h->want);
    if (part.ne[1] != t->ne[1]) TRY(product_layout(&d->window[0].link->machine, w.kind, &part, &w, err));
    struct packed *p = calloc(1, sizeof *p);
    if (!p) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: no memory for tensor '%s'", t->name);
    *p = (struct packed){
        .layout = w, .bytes = w.bytes, .first = (uint32_t)h->want.first, .name = t->name, .type = (uint32_t)t->type};
    p->lookup_rows = lookup_rows(d, &w);
    int rc = npu_window_place(d, p->bytes, &p->window, &p->at, &why);
    if (rc < 0) {
        free(p);
        return lutra_fail(err, rc, "%s: tensor '%s': %s", d->base.name, t->name, why.what);
    }
    h->packed = p, h->has = h->want, h->bytes = p->bytes;
    p->next = d->packed, d->packed = p;
    struct npu_transport *link = d->window[p->window].link;
    rc = pack(d, &part, &w, link->base + p->at, err);
    if (rc < 0)
        npu_weight_release(d, weight);
    else
        npu_transport_publish(link, p->at, p->bytes);
    return rc;
}

void npu_weight_release(struct npu_device *d, struct weight *weight)
{
    struct held *h = weight_held(weight, &d->base);
    struct packed *p = h ? h->packed : NULL;
    if (!p) return;
    for (struct packed **at = &d->packed; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    npu_transport_free(d->window[p->window].link, p->at);
    d->window[p->window].weight_bytes -= p->bytes;
    if (!d->packed) d->filling = 0;
    free(p);
    weight_forget(h);
}

/* ---- in words ---- */

/* The types of the layers' weights that are packed so, in the model's order. */
static void types_packed(const struct npu_device *d, bool planes, char text[128])
{
    bool seen[QUANT_TYPE_END] = {false};
    text[0] = 0;
    for (const struct packed *p = d->packed; p; p = p->next) {
        size_t used = strlen(text);
        if (!in_layers(p->name) || npu_is_planes(p->layout.kind) != planes || seen[p->type]) continue;
        seen[p->type] = true;
        snprintf(text + used, 128 - used, " %s", quant_type_name(p->type));
    }
    if (!text[0]) snprintf(text, 128, " none");
}

bool npu_planes_describe(const struct npu_device *d, char *text, size_t size)
{
    char planes[128], tiles[128];
    if (d->settings.packing != NPU_PACK_PLANES && d->settings.packing != NPU_PACK_LOOKUP) return false;
    types_packed(d, true, planes);
    types_packed(d, false, tiles);
    snprintf(text, size, "%s layers: as bit planes%s; as tile32%s", d->base.name, planes, tiles);
    return true;
}

/* ---- where ---- */

/* The window of an operation's first weight, or -1: it has none here. */
static int window_of(const struct npu_device *d, const struct op *op)
{
    const struct packed *p = op->n_weight ? npu_packed_of(d, op->weight[0]) : NULL;
    return p ? p->window : -1;
}

int npu_home(const struct npu_device *d, const struct op_list *list, int i)
{
    for (; i < list->n_op; i++)
        if (window_of(d, &list->op[i]) >= 0) return window_of(d, &list->op[i]);
    return 0;
}

int npu_layer_home(const struct npu_device *d, const struct op_list *list, int layer)
{
    for (int i = 0; i < list->n_op; i++)
        if (list->op[i].layer == layer && window_of(d, &list->op[i]) >= 0) return window_of(d, &list->op[i]);
    return 0;
}
