/* SPDX-License-Identifier: MIT
 *
 * How the host waits for devices [HETERO 4.3, fast synchronization].
 *
 *     waits_init(&waits, clock, WAIT_PREDICT);
 *     waits_begin(&waits, plan, n_row);                     a pass
 *     waits_submitted(&waits, piece);
 *     TRY(waits_for(&waits, piece, &ticket, &err));
 *
 * Layers repeat, so a piece takes about as long as the same piece of the layer before.  WAIT_PREDICT sleeps until
 * shortly before that time is over, then polls device_ops.done.  Pieces of one kind (plan_piece.like) share an
 * expectation; it is forgotten when a pass has another number of rows.  A device without `done` is waited for by
 * device_ops.wait.
 */
#ifndef LUTRA_SCHED_WAITS_H
#define LUTRA_SCHED_WAITS_H

#include "base/clock.h"
#include "sched/plan.h"

enum wait_mode {
    WAIT_PREDICT, /* sleep until the expected end, then poll */
    WAIT_POLL,    /* poll from the start */
    WAIT_BLOCK,   /* leave it to the device's wait */
};

/* What happened in a pass, for a picture of it. */
struct run_event {
    enum { RUN_COMPUTE, RUN_WAIT, RUN_COPY } what; /* RUN_WAIT: the caller, for the piece */
    const struct plan *plan;
    int piece;
    long pass; /* 1, 2, ... */
    uint64_t begin_us, end_us;
};

struct waits {
    struct clock clock;
    enum wait_mode mode;
    const struct plan *plan;
    long n_pass;                    /* that have begun */
    uint64_t late_8us;              /* by how much sleeps end late, times 8: a running mean */
    int n_row;                      /* of the passes that took_us is of */
    uint64_t begun_us[PLAN_PIECES]; /* when a piece was submitted */
    uint64_t idle_us[PLAN_DEVICES]; /* when the last piece that was waited for on a device was seen to be over */
    uint64_t took_us[PLAN_PIECES];  /* by plan_piece.like; 0: not known */
    void (*told)(void *user, const struct run_event *event); /* or NULL */
    void *user;
};

void waits_init(struct waits *waits, struct clock clock, enum wait_mode mode);

/* "predict", "poll", "block".  LUTRA_E_ARGUMENT names these. */
int waits_mode_named(const char *name, enum wait_mode *out, struct lutra_error *err);

void waits_begin(struct waits *waits, const struct plan *plan, int n_row);

/* Both accept waits NULL: then waits_for is device_ops.wait. */
void waits_submitted(struct waits *waits, int piece);

/* Until the ticket of a piece is over, and what device_ops.wait says of it.  Polling ends WAIT_POLL_US behind the
 * expected end: device_ops.wait, which knows what the device has ended meanwhile, waits then and says whether it is
 * lost. */
enum { WAIT_POLL_US = 500000 };
int waits_for(
    struct waits *waits, const struct plan *plan, int piece, const struct ticket *ticket, struct lutra_error *err);

#endif
