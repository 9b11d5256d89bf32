/* SPDX-License-Identifier: MIT
 *
 * Constant vectors of op lists in the windows.
 */
#include <stdlib.h>
#include <string.h>

#include "npu/host/device_impl.h"

static int add(
    struct npu_device *d, const struct op_list *list, const float *x, size_t n, int window, struct lutra_error *err)
{
    struct npu_transport *link = d->window[window].link;
    if (!x || npu_constant_at(d, list, x, window)) return 0;
    if (d->n_constant == d->max_constant) {
        int max = 2 * d->max_constant + 64;
        struct npu_constant *more = realloc(d->constant, (size_t)max * sizeof *more);
        if (!more) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", d->base.name);
        d->constant = more, d->max_constant = max;
    }
    uint32_t bytes = (uint32_t)((n + 31) / 32 * 128), at = npu_transport_alloc(link, bytes);
    if (!at) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: session %d is full", d->base.name, window + 1);
    memset(link->base + at, 0, bytes);
    memcpy(link->base + at, x, n * sizeof *x);
    d->constant[d->n_constant++] = (struct npu_constant){list, x, window, at};
    npu_transport_publish(link, at, bytes);
    return npu_window_do(d, window, NPU_OP_INVALIDATE, at, bytes, err);
}

/* A product's, where its weight lies; a norm's, where the next weight lies; a rotation's becomes part of its tables,
 * and sinks lie beside the cache (npu_constants_sinks). */
static int add_op(struct npu_device *d, const struct op_list *list, int i, struct lutra_error *err)
{
    const struct op *op = &list->op[i];
    struct op_constant c;
    for (int k = 0; op->kind != OP_ROPE && op->kind != OP_ATTENTION && op_constant(op, k, &c); k++) {
        const struct packed *p = c.weight < 0 ? NULL : npu_packed_of(d, op->weight[c.weight]);
        if (c.weight >= 0 && !p) continue;
        TRY(add(d, list, c.x, c.n, p ? p->window : npu_home(d, list, i), err));
    }
    return 0;
}

int npu_constants_load(struct npu_device *d, const struct op_list *list, struct lutra_error *err)
{
    for (int i = 0; i < list->n_op; i++) {
        if (d->base.ops->supports(&d->base, list, &list->op[i], NULL) < 0) continue;
        int rc = add_op(d, list, i, err);
        if (rc == 0) continue;
        npu_constants_unload(d, list);
        return rc;
    }
    return 0;
}

int npu_constants_sinks(
    struct npu_device *d, const struct op_list *list, const struct npu_buffer *cache, struct lutra_error *err)
{
    for (int i = 0; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        struct op_constant c;
        for (int k = 0; op_info_of(op->kind)->reads_cache && op_constant(op, k, &c); k++)
            TRY(add(d, list, c.x, c.n, cache->layer[op->layer].window, err));
    }
    return 0;
}

void npu_constants_unload(struct npu_device *d, const struct op_list *list)
{
    int n = 0;
    for (int i = 0; i < d->n_constant; i++) {
        const struct npu_constant *c = &d->constant[i];
        if (c->list == list)
            npu_transport_free(d->window[c->window].link, c->at);
        else
            d->constant[n++] = *c;
    }
    d->n_constant = n;
}

uint32_t npu_constant_at(const struct npu_device *d, const struct op_list *list, const float *host, int window)
{
    for (int i = 0; i < d->n_constant; i++) {
        const struct npu_constant *c = &d->constant[i];
        if (c->host == host && c->list == list && c->window == window) return c->at;
    }
    return 0;
}
