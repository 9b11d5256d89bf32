/* SPDX-License-Identifier: MIT */
#include "npu/host/ring.h"

#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct npu_op) == 64 && sizeof(struct npu_message) == 64, "cells");
_Static_assert(offsetof(struct npu_ring, npu) == 128 && offsetof(struct npu_ring, tile) == 256, "lines");
_Static_assert(offsetof(struct npu_ring, answer) % 128 == 0 && offsetof(struct npu_ring, cell) % 128 == 0, "lines");
_Static_assert(sizeof(struct npu_ring) <= NPU_RING_BYTES, "size");

void npu_ring_begin(struct npu_ring_end *end, uint32_t window_bytes, uint32_t tcm_bytes, uint32_t n_threads)
{
    struct npu_ring *r = end->view.ring;
    memset(r, 0, sizeof *r);
    end->written = 0, end->sent = end->seen = 0;
    r->host.window_bytes = window_bytes, r->host.tcm_bytes = tcm_bytes, r->host.n_threads = n_threads;
    npu_ring_flush(&end->view, r, sizeof *r);
    npu_ring_store(&end->view, &r->host.magic, NPU_RING_MAGIC);
}

bool npu_ring_ready(struct npu_ring_end *end)
{
    if (npu_ring_load(&end->view, &end->view.ring->npu.magic) != NPU_RING_MAGIC) return false;
    npu_ring_invalidate(&end->view, &end->view.ring->npu, sizeof end->view.ring->npu);
    return true;
}

static void put(struct npu_ring_end *end, const union npu_cell *from)
{
    union npu_cell *c = &end->view.ring->cell[end->written++ % NPU_RING_CELLS];
    memcpy(c, from, sizeof *c);
    npu_ring_flush(&end->view, c, sizeof *c);
}

bool npu_ring_send(struct npu_ring_end *end, const struct npu_op *op, uint32_t n_op, bool follows)
{
    struct npu_ring *r = end->view.ring;
    uint32_t used = end->written - npu_ring_load(&end->view, &r->npu.taken);
    if (used > NPU_RING_CELLS || NPU_RING_CELLS - used < n_op + 1) return false;
    if (end->sent - end->seen >= NPU_RING_ANSWERS) return false;
    union npu_cell c = {.message = {.magic = NPU_RING_MAGIC, .n_op = n_op, .follows = follows}};
    c.message.number = (uint32_t)++end->sent;
    c.message.check = npu_ring_check(&c.message, op);
    put(end, &c);
    for (uint32_t i = 0; i < n_op; i++) put(end, &(union npu_cell){.op = op[i]});
    npu_ring_store(&end->view, &r->host.written, end->written);
    return true;
}

int npu_ring_next(struct npu_ring_end *end, struct npu_answer *out)
{
    struct npu_ring *r = end->view.ring;
    uint32_t ahead = npu_ring_load(&end->view, &r->npu.answered) - (uint32_t)end->seen;
    if (!ahead) return npu_ring_load(&end->view, &r->npu.state) > NPU_RING_SERVING ? -1 : 0;
    if (ahead > end->sent - end->seen) return -1;
    struct npu_answer *a = &r->answer[(end->seen + 1) % NPU_RING_ANSWERS];
    npu_ring_invalidate(&end->view, a, sizeof *a);
    *out = *a;
    return out->number == (uint32_t)++end->seen ? 1 : -1;
}

void npu_ring_quit(struct npu_ring_end *end)
{
    npu_ring_store(&end->view, &end->view.ring->host.quit, 1);
}
