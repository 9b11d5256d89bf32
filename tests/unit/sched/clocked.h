/* SPDX-License-Identifier: MIT
 *
 * Doubles of devices on a virtual clock.  They compute nothing: they count the outputs that they are given, and take as
 * long as a function of costs says.  clocked_world.h opens them.
 */
#ifndef TESTS_CLOCKED_H
#define TESTS_CLOCKED_H

#include <string.h>

#include "base/clock.h"
#include "ops/device.h"

#ifndef CLOCKED_OWN_SIZES /* else the test has said them */
enum {
    CLOCKED_DIM = 512,
    CLOCKED_FF = 1024,
    CLOCKED_VOCAB = 16384,
    CLOCKED_LAYERS = 3,
    CLOCKED_HEADS = 8,
    CLOCKED_KV_HEADS = 8,
    CLOCKED_HEAD_DIM = 64,
    CLOCKED_ROWS = 256
};
#endif
enum {
    CLOCKED_OPS = 4 + 13 * CLOCKED_LAYERS,
    CLOCKED_DEVICES = 3,
    CLOCKED_JOBS = 1 << 16,
    CLOCKED_NEAR_US = 20,
    CLOCKED_CACHED = 6 /* operations whose weights a device's cache holds */
};

struct clocked {
    struct device device;
    struct virtual_time *time;
    const struct op_list *list;
    double ns_per_kmac; /* of products */
    double fixed_us;    /* of any operation */
    double beside;      /* how much slower it is with a share of an operation, while others have theirs */
    double burst;       /* how much slower it is in a quarter of all stretches of time, somebody else's; 0: never */
    uint64_t burst_us;  /* such a stretch */
    double cold_ns;     /* of each output of weights that are not cached */
    double fetch_us;    /* of a segment that is no share, where it reads what shares of others have written */
    uint64_t sync_us;   /* what waiting for it costs the host ... */
    uint64_t near_us;   /* ... and more where it ends just when the host asks */
    const struct op *cached[CLOCKED_CACHED];
    int n_cached;
    long *n_share, seen; /* segments of all devices that were shares; of which it has read what they wrote */
    uint64_t begin_us[CLOCKED_JOBS], end_us[CLOCKED_JOBS];
    int n_job;
    bool waited[CLOCKED_JOBS];
    long columns[CLOCKED_OPS]; /* outputs that it has computed */
};

static inline struct clocked *clocked_of(struct device *d)
{
    return (struct clocked *)d;
}

static inline int clocked_supports(
    struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    (void)self, (void)list, (void)op, (void)err;
    return 0;
}

/* Whether an operation's weights are cached; now they are. */
static inline bool clocked_is_warm(struct clocked *d, const struct op *op)
{
    for (int i = 0; i < CLOCKED_CACHED; i++)
        if (d->cached[i] == op) return true;
    d->cached[d->n_cached++ % CLOCKED_CACHED] = op;
    return false;
}

static inline double clocked_op_us(struct clocked *d, const struct op *op, const struct segment *s)
{
    double us = d->fixed_us;
    int64_t columns = 0;
    for (int i = 0; i < op->n_out; i++) columns += share_columns(s->share, s->list->value[op->out[i]].dim).n;
    if (op->kind == OP_HEAD) columns = share_columns(s->share, s->list->n_vocab).n;
    d->columns[op - s->list->op] += (long)columns;
    if (op->n_weight == 0 || op->kind == OP_EMBED) return us;
    if (!clocked_is_warm(d, op)) us += d->cold_ns * 1e-3 * (double)columns;
    enum value_rows rows = s->list->value[op->in[0]].rows;
    double mac = (double)columns * s->list->value[op->in[0]].dim;
    mac *= share_count_rows(s->pass, rows, s->share);
    return us + mac * d->ns_per_kmac * 1e-6 * (share_is_all(s->share) ? 1 : d->beside);
}

/* How long `us` of work take that begin then. */
static inline uint64_t clocked_took(const struct clocked *d, uint64_t begin_us, double us)
{
    double at = (double)begin_us;
    while (d->burst > 0 && us > 0) {
        uint64_t stretch = (uint64_t)at / d->burst_us;
        double slower = (uint32_t)(stretch + 7) * 2654435761u >> 30 ? 1 : d->burst;
        double rest = (double)((stretch + 1) * d->burst_us) - at, done = rest / slower < us ? rest / slower : us;
        at += done * slower + 1e-6, us -= done;
    }
    return (uint64_t)(at - (double)begin_us + (us > 0 ? us : 0) + 0.5);
}

static inline int clocked_submit(struct device *self, const struct segment *s, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct clocked *d = clocked_of(self);
    double us = 0;
    (void)after, (void)n_after;
    if (!share_is_all(s->share))
        ++*d->n_share;
    else if (d->seen != *d->n_share)
        us += d->fetch_us;
    d->seen = *d->n_share;
    for (int i = 0; i < s->n_op; i++) us += clocked_op_us(d, &s->op[i], s);
    *out = (struct ticket){self, 0};
    if (!self->caps.async) {
        clock_virtual_advance(d->time, clocked_took(d, d->time->now_us, us));
        return 0;
    }
    if (d->n_job == CLOCKED_JOBS /* tickets of one test */)
        return lutra_fail(err, LUTRA_E_INTERNAL, "%s: too many jobs", self->name);
    int k = d->n_job++;
    uint64_t now = d->time->now_us, idle = k ? d->end_us[k - 1] : 0;
    d->begin_us[k] = now > idle ? now : idle;
    d->end_us[k] = d->begin_us[k] + clocked_took(d, d->begin_us[k], us);
    d->waited[k] = false;
    out->id = (uint64_t)k + 1;
    return 0;
}

static inline bool clocked_done(struct device *self, const struct ticket *ticket)
{
    const struct clocked *d = clocked_of(self);
    return !ticket->id || d->time->now_us >= d->end_us[ticket->id - 1];
}

static inline int clocked_wait(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    struct clocked *d = clocked_of(self);
    (void)err;
    if (!ticket->id || d->waited[ticket->id - 1]) return 0;
    const uint64_t end_us = d->end_us[ticket->id - 1];
    const bool is_near = end_us < d->time->now_us + CLOCKED_NEAR_US && end_us + CLOCKED_NEAR_US > d->time->now_us;
    clock_sleep_until(clock_virtual(d->time), d->end_us[ticket->id - 1]);
    clock_virtual_advance(d->time, d->sync_us + (is_near ? d->near_us : 0));
    d->waited[ticket->id - 1] = true;
    return 0;
}

static inline bool clocked_ran(struct device *self, const struct ticket *ticket, uint64_t *begin_us, uint64_t *end_us)
{
    const struct clocked *d = clocked_of(self);
    if (!ticket->id) return false;
    *begin_us = d->begin_us[ticket->id - 1];
    *end_us = d->end_us[ticket->id - 1];
    return true;
}

static const struct device_extras clocked_extras = {.ran = clocked_ran};
static int clocked_prepare(struct device *self, struct weight *w, bool *keeps_source, struct lutra_error *err)
{
    struct held *h = weight_to_prepare(w, self, err);
    h->packed = (struct packed *)self, h->has = h->want;
    *keeps_source = false;
    return 0;
}

static const struct device_ops clocked_ops = {.supports = clocked_supports,
    .prepare = clocked_prepare,
    .submit = clocked_submit,
    .wait = clocked_wait,
    .done = clocked_done};

#endif
