/* SPDX-License-Identifier: MIT
 *
 * What transports over a ring share: submissions as messages, answers as statuses, waiting.
 *
 * A transport embeds a session, sets `poll`, and uses npu_session_submit and npu_session_wait as its own.
 *
 * Whoever waits looks every 100 ms at an NPU that has answered nothing meanwhile.  After `silent_looks` without a sign
 * of life, and after 600 s whatever it shows, it is lost.  Looks are counted, not the clock: after the whole machine
 * has slept nobody is late.
 */
#ifndef LUTRA_NPU_HOST_SESSION_H
#define LUTRA_NPU_HOST_SESSION_H

#include "npu/host/ring.h"
#include "npu/host/transport.h"

struct npu_session {
    struct npu_transport npu; /* first */
    struct npu_ring_end ring;
    /* Looks after the other side.  1: did something for it; 0: nothing to do; negative: lost, *err says how. */
    int (*poll)(struct npu_session *self, struct lutra_error *err);
    int silent_looks;                        /* 0: 20 */
    bool (*lives)(struct npu_session *self); /* has it done anything since the last look; NULL: answers tell */
    void (*end)(struct npu_session *self);   /* it is lost and must write no more; NULL: nothing can be done */
    int failed;                              /* LUTRA_E_INTERNAL until the next wait reports it */
    struct lutra_error why;
};

/* Settings with defaults filled in, and what they make of the window: a ring, TCM unless it lies elsewhere, memory. */
int npu_session_plan(
    struct npu_session *s, const struct npu_transport_settings *settings, bool with_tcm, struct lutra_error *err);

/* Waits until the NPU has said hello and shows its machine in s->npu.machine. */
int npu_session_meet(struct npu_session *s, uint64_t deadline_us, struct lutra_error *err);

int npu_session_submit(
    struct npu_transport *self, const struct npu_op *op, uint32_t n_op, uint64_t *ticket, struct lutra_error *err);
int npu_session_wait(struct npu_transport *self, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err);

#endif
