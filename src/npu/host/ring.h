/* SPDX-License-Identifier: MIT
 *
 * The host's end of the ring (wire/ring.h).
 *
 *     struct npu_ring_end end = {.view = {ring}};
 *     npu_ring_begin(&end, window_bytes, tcm_bytes, n_threads);      then start the NPU and wait for npu_ring_ready
 *     while (!npu_ring_send(&end, ops, n, 0)) ...                    full: take answers
 *     while ((rc = npu_ring_next(&end, &answer)) > 0) ...
 *
 * Never waits, never allocates.  One thread.
 */
#ifndef LUTRA_NPU_HOST_RING_H
#define LUTRA_NPU_HOST_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "npu/wire/ring.h"

struct npu_ring_end {
    struct npu_ring_view view;
    uint32_t written;    /* cells */
    uint64_t sent, seen; /* messages; the number of the first is 1 */
};

/* Clears the ring and says what the window is.  Before the NPU looks at it. */
void npu_ring_begin(struct npu_ring_end *end, uint32_t window_bytes, uint32_t tcm_bytes, uint32_t n_threads);

/* Has the NPU said hello? */
bool npu_ring_ready(struct npu_ring_end *end);

/* One message of 1..NPU_MESSAGE_OPS operations, number end->sent; false: no room. */
bool npu_ring_send(struct npu_ring_end *end, const struct npu_op *op, uint32_t n_op, bool follows);

/* The next answer in order.  1: *out; 0: none yet; -1: the NPU stopped serving, or answers what was not asked. */
int npu_ring_next(struct npu_ring_end *end, struct npu_answer *out);

/* Asks the NPU to end after what was sent. */
void npu_ring_quit(struct npu_ring_end *end);

#endif
