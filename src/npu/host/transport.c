/* SPDX-License-Identifier: MIT
 *
 * What all transports share: buffers of the window, and the state of being lost.
 */
#include "npu/host/transport.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 128 }; /* of buffers, and the least gap between them */

struct npu_range {
    uint32_t first, end; /* with the gap */
    uint32_t bytes;
};

void npu_transport_close(struct npu_transport **npu)
{
    if (!*npu) return;
    free((*npu)->used);
    (*npu)->ops->close(*npu);
    *npu = NULL;
}

static bool grow(struct npu_transport *npu)
{
    if (npu->n_used < npu->max_used) return true;
    uint32_t max = npu->max_used ? 2 * npu->max_used : 64;
    struct npu_range *more = realloc(npu->used, max * sizeof *more);
    if (!more) return false;
    npu->used = more, npu->max_used = max;
    return true;
}

uint32_t npu_transport_alloc(struct npu_transport *npu, uint32_t bytes)
{
    uint64_t whole = ((uint64_t)bytes + 2 * ALIGN - 1) / ALIGN * ALIGN; /* and a gap */
    uint64_t at = ((uint64_t)npu->first + ALIGN - 1) / ALIGN * ALIGN;
    uint32_t i = 0;
    if (!bytes || !grow(npu)) return 0;
    while (i < npu->n_used && npu->used[i].first - at < whole) at = npu->used[i++].end;
    if (at + whole > npu->end) return 0;
    memmove(npu->used + i + 1, npu->used + i, (npu->n_used - i) * sizeof *npu->used);
    npu->used[i] = (struct npu_range){(uint32_t)at, (uint32_t)(at + whole), bytes};
    npu->n_used++;
    if (npu->ops->own) npu->ops->own(npu, (uint32_t)at, bytes, true);
    return (uint32_t)at;
}

void npu_transport_free(struct npu_transport *npu, uint32_t offset)
{
    for (uint32_t i = 0; offset && i < npu->n_used; i++) {
        if (npu->used[i].first != offset) continue;
        if (npu->ops->own) npu->ops->own(npu, offset, npu->used[i].bytes, false);
        memmove(npu->used + i, npu->used + i + 1, (npu->n_used - i - 1) * sizeof *npu->used);
        npu->n_used--;
        return;
    }
}

uint64_t npu_transport_free_bytes(const struct npu_transport *npu)
{
    uint64_t bytes = npu->end - npu->first;
    for (uint32_t i = 0; i < npu->n_used; i++) bytes -= npu->used[i].end - npu->used[i].first;
    return bytes;
}

static int lost(struct npu_transport *npu, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_DEVICE_LOST, "%s: the NPU was lost", npu->name);
}

int npu_transport_submit(
    struct npu_transport *npu, const struct npu_op *op, uint32_t n_op, uint64_t *ticket, struct lutra_error *err)
{
    if (npu->lost) return lost(npu, err);
    int rc = npu->ops->submit(npu, op, n_op, ticket, err);
    if (rc == LUTRA_E_DEVICE_LOST) npu->lost = true;
    return rc;
}

int npu_transport_wait(struct npu_transport *npu, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err)
{
    if (npu->lost) return lost(npu, err);
    int rc = npu->ops->wait(npu, ticket, deadline_us, err);
    if (rc == LUTRA_E_DEVICE_LOST) npu->lost = true;
    return rc;
}

void npu_transport_publish(struct npu_transport *npu, uint32_t offset, uint32_t bytes)
{
    if (npu->ops->publish && bytes) npu->ops->publish(npu, offset, bytes);
}

void npu_transport_acquire(struct npu_transport *npu, uint32_t offset, uint32_t bytes)
{
    if (npu->ops->acquire && bytes) npu->ops->acquire(npu, offset, bytes);
}
