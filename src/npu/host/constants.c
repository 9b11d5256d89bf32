/* SPDX-License-Identifier: MIT
 *
 * Constant vectors of op lists in the window.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "npu/host/device_impl.h"

static int add(struct npu_device *d, const struct op_list *list, const float *x, size_t n, struct lutra_error *err)
{
    if (!x) return 0;
    for (int i = 0; i < d->n_constant; i++)
        if (d->constant[i].list == list && d->constant[i].host == x) return 0;
    if (d->n_constant == d->max_constant) {
        int max = 2 * d->max_constant + 64;
        struct npu_constant *more = realloc(d->constant, (size_t)max * sizeof *more);
        if (!more) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", d->base.name);
        d->constant = more, d->max_constant = max;
    }
    uint32_t bytes = (uint32_t)((n + 31) / 32 * 128), at = npu_transport_alloc(d->link, bytes);
    if (!at) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: the window is full", d->base.name);
    memset(d->link->base + at, 0, bytes);
    memcpy(d->link->base + at, x, n * sizeof *x);
    d->constant[d->n_constant++] = (struct npu_constant){list, x, at};
    npu_transport_publish(d->link, at, bytes);
    struct npu_op fresh = {.code = NPU_OP_INVALIDATE, .src = at, .k = bytes};
    uint64_t ticket;
    TRY(npu_transport_submit(d->link, &fresh, 1, &ticket, err));
    return npu_transport_wait(d->link, ticket, CLOCK_NEVER_US, err);
}

static int add_op(struct npu_device *d, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    switch (op->kind) {
    case OP_RMS_NORM: return add(d, list, op->norm.weight, (size_t)op->norm.n_norm, err);
    case OP_ATTENTION: return add(d, list, op->attention.sinks, (size_t)op->attention.n_head, err);
    case OP_MATMUL:
        for (int i = 0; i < op->matmul.n_part; i++)
            TRY(add(d, list, op->matmul.part[i].bias, (size_t)op->matmul.part[i].weight->tensor.ne[1], err));
        return 0;
    default: return 0;
    }
}

int npu_constants_load(struct npu_device *d, const struct op_list *list, struct lutra_error *err)
{
    for (int i = 0; i < list->n_op; i++) {
        if (d->base.ops->supports(&d->base, &list->op[i], NULL) < 0) continue;
        int rc = add_op(d, list, &list->op[i], err);
        if (rc == 0) continue;
        npu_constants_unload(d, list);
        return rc;
    }
    return 0;
}

void npu_constants_unload(struct npu_device *d, const struct op_list *list)
{
    int n = 0;
    for (int i = 0; i < d->n_constant; i++) {
        if (d->constant[i].list == list)
            npu_transport_free(d->link, d->constant[i].at);
        else
            d->constant[n++] = d->constant[i];
    }
    d->n_constant = n;
}

uint32_t npu_constant_at(const struct npu_device *d, const struct op_list *list, const float *host)
{
    for (int i = 0; i < d->n_constant; i++)
        if (d->constant[i].host == host && d->constant[i].list == list) return d->constant[i].at;
    return 0;
}
