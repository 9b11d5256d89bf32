/* SPDX-License-Identifier: MIT */
#include "npu/host/session.h"

#include <sched.h>

#include "base/clock.h"

enum { DEFAULT_TCM = 8 << 20, DEFAULT_MEMORY = 256 << 20, GRANULE = 65536, SPINS = 512 };
enum { LOOK_US = 100000, SILENT_LOOKS = 20, STALLED_LOOKS = 6000 };

int npu_session_plan(
    struct npu_session *s, const struct npu_transport_settings *settings, bool with_tcm, struct lutra_error *err)
{
    uint32_t tcm = settings->tcm_bytes ? settings->tcm_bytes : DEFAULT_TCM;
    uint64_t memory = settings->memory_bytes ? settings->memory_bytes : DEFAULT_MEMORY;
    memory = (memory + GRANULE - 1) / GRANULE * GRANULE;
    if (tcm % GRANULE || NPU_RING_BYTES + (uint64_t)tcm + memory >= UINT32_MAX)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: %u bytes of TCM and %llu of memory make no 32-bit window",
            s->npu.name, tcm, (unsigned long long)memory);
    s->npu.first = NPU_RING_BYTES + (with_tcm ? tcm : 0);
    s->npu.end = s->npu.first + (uint32_t)memory;
    s->npu.machine = (struct npu_machine){.tcm_start = NPU_RING_BYTES,
        .tcm_bytes = tcm,
        .tcm_kept = 65536,
        .n_threads = settings->n_threads ? settings->n_threads : 1};
    return 0;
}

static const char *const NAMES[NPU_OPS] = {"nop", "dequant", "gemm", "add", "swiglu", "rms_norm", "rope", "exp16",
    "attention", "exp_table", "geglu", "relu2", "embed", "take", "kv_append", "head", "invalidate", "flush", "fit",
    "unfit", "tables", "lookup", "clock", "read"};

static void note(struct npu_session *s, const struct npu_answer *a)
{
    const char *name = a->code < NPU_OPS ? NAMES[a->code] : "unknown";
    if (a->status == NPU_OK || a->status == NPU_SKIPPED || s->failed) return;
    s->failed = LUTRA_E_INTERNAL;
    if (s->why.code && a->status == NPU_STOPPED) return; /* said by who stopped it */
    lutra_fail(&s->why, LUTRA_E_INTERNAL, "%s: operation %u of message %u, %s, was refused: %s", s->npu.name, a->op,
        a->number, name,
        a->status == NPU_OUT_OF_WINDOW ? "it leaves the window"
        : a->status == NPU_BAD_OP      ? "unknown operation"
        : a->status == NPU_BAD_SHAPE   ? "shape"
        : a->status == NPU_NO_ROOM     ? "it does not fit into TCM"
        : a->status == NPU_NO_TABLES   ? "its tables are not in TCM"
                                       : "unknown status");
}

/* Waiting for answers up to a ticket, or for room. */
struct waiting {
    struct npu_session *s;
    uint64_t ticket;
    int rc;
    bool moved; /* since the last look at an NPU that is silent */
    struct lutra_error *err;
};

/* One look at both sides: 1 = something moved. */
static int look(struct waiting *w)
{
    struct npu_answer a;
    int moved = w->s->poll(w->s, w->err);
    if (moved < 0) return w->rc = moved;
    int next = npu_ring_next(&w->s->ring, &a);
    if (next > 0) note(w->s, &a);
    if (next < 0)
        return w->rc = lutra_fail(w->err, LUTRA_E_DEVICE_LOST, "%s: the NPU stopped serving (state %u)", w->s->npu.name,
                   w->s->ring.view.ring->npu.state);
    w->moved |= moved || next;
    return moved || next;
}

static bool arrived(void *arg)
{
    struct waiting *w = arg;
    for (int idle = 0; idle < SPINS && w->s->ring.seen < w->ticket; idle++) {
        int moved = look(w);
        if (moved < 0) return true;
        if (moved) idle = -1;
        if (idle % 64 == 63) sched_yield();
    }
    return w->s->ring.seen >= w->ticket;
}

static int give_up(struct npu_session *s, struct lutra_error *err)
{
    if (s->end) s->end(s);
    return lutra_fail(err, LUTRA_E_DEVICE_LOST, "%s: the NPU answers no more", s->npu.name);
}

static int wait_for(struct npu_session *s, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err)
{
    const int most = s->silent_looks ? s->silent_looks : SILENT_LOOKS;
    struct waiting w = {.s = s, .ticket = ticket, .err = err};
    for (int silent = 0, stalled = 0;; silent++, stalled++) {
        uint64_t next_us = clock_now_us(clock_real()) + LOOK_US;
        bool last = deadline_us <= next_us;
        int rc = clock_wait(clock_real(), arrived, &w, 0, last ? deadline_us : next_us);
        if (w.rc < 0) return w.rc;
        if (rc == 0) return 0;
        if (last) return lutra_fail(err, rc, "%s: no answer before the deadline", s->npu.name);
        if (w.moved) silent = stalled = 0;
        if (s->lives && s->lives(s)) silent = 0;
        w.moved = false;
        if (silent >= most || stalled >= STALLED_LOOKS) return give_up(s, err);
    }
}

static bool met(void *arg)
{
    struct waiting *w = arg;
    w->rc = w->s->poll(w->s, w->err);
    return w->rc < 0 || npu_ring_ready(&w->s->ring);
}

int npu_session_meet(struct npu_session *s, uint64_t deadline_us, struct lutra_error *err)
{
    struct waiting w = {.s = s, .err = err};
    int rc = clock_wait(clock_real(), met, &w, 0, deadline_us);
    if (w.rc < 0) return w.rc;
    if (rc < 0) return lutra_fail(err, LUTRA_E_DEVICE_LOST, "%s: the NPU's program does not answer", s->npu.name);
    s->npu.machine = s->ring.view.ring->npu.machine;
    return 0;
}

int npu_session_submit(
    struct npu_transport *self, const struct npu_op *op, uint32_t n_op, uint64_t *ticket, struct lutra_error *err)
{
    struct npu_session *s = (struct npu_session *)self;
    for (uint32_t at = 0, n; at < n_op; at += n) {
        n = n_op - at < NPU_MESSAGE_OPS ? n_op - at : NPU_MESSAGE_OPS;
        while (!npu_ring_send(&s->ring, op + at, n, at > 0)) TRY(wait_for(s, s->ring.seen + 1, CLOCK_NEVER_US, err));
    }
    *ticket = s->ring.sent;
    return 0;
}

int npu_session_wait(struct npu_transport *self, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err)
{
    struct npu_session *s = (struct npu_session *)self;
    TRY(wait_for(s, ticket, deadline_us, err));
    if (!s->failed) return 0;
    s->failed = s->why.code = 0;
    return lutra_fail(err, LUTRA_E_INTERNAL, "%s", s->why.what);
}
