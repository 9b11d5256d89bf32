/* SPDX-License-Identifier: MIT */
#include "phone/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 4096 }; /* of one step, where nothing is computed */

struct sim_unit {
    struct device device;
    struct sim_device_settings set;
    struct sim_event *event; /* [n_event] of room */
    bool *waited;            /* [n_event] */
    int n_event, room;
};

static struct sim_unit *unit_of(const struct device *d)
{
    return (struct sim_unit *)d;
}

/* ---- how long ---- */

static int rows_of(const struct segment *s, int value)
{
    return s->list->value[value].rows == ROWS_ALL ? s->step->batch->n_row : s->step->n_out;
}

static double product_us(const struct sim_unit *u, const struct segment *s, const struct op *op)
{
    const int rows = rows_of(s, op->in[0]);
    double us = 0;
    if (rows < 1) return 0;
    for (int i = 0; i < op->n_weight; i++) {
        const struct weight *w = op->weight[i];
        const int k = (int)w->tensor.ne[0], n = (int)w->tensor.ne[1];
        double weights = (double)k * n, bytes = (double)(w->packed_bytes ? w->packed_bytes : w->tensor.bytes);
        double part = (double)share_columns(s->share, n).n / n;
        us += sim_product_us(u->set.profile, false, u->set.end, u->set.kind, k, n, 8 * bytes / weights, rows, part);
        if (!share_is_whole(s->share)) /* others read the rest at the same time */
            us = fmax(us, bytes / 1e3 / sim_figure(u->set.profile, SOC_TWO_GBS, u->set.end));
    }
    return us;
}

/* Keys that the rows see, and those that are read: once for rows of one sequence. */
static double attention_us(const struct sim_unit *u, const struct segment *s, const struct op *op)
{
    const struct op_attention *a = &op->attention;
    const struct batch *batch = s->step->batch;
    double seen = 0, read = 0;
    for (int r = 0; s->step->kv && r < batch->n_row; r++) {
        double n = s->step->kv->row[r].n_paged + s->step->kv->row[r].n_path;
        bool last = r + 1 == batch->n_row || batch->row[r + 1].seq != batch->row[r].seq;
        seen += n, read += last ? n : 0;
    }
    double rate = 2e6 * 256 / sim_figure(u->set.profile, SOC_GPU_US_256, u->set.end); /* operations per us */
    double bytes = 2 * 2 * read * a->n_kv_head * a->d_head;
    return fmax(
        bytes / 1e3 / sim_figure(u->set.profile, SOC_ONE_GBS, u->set.end), 4 * seen * a->n_head * a->d_head / rate);
}

double sim_device_op_us(const struct device *device, const struct segment *segment, const struct op *op)
{
    const struct sim_unit *u = unit_of(device);
    const struct op_info *info = op_info_of(op->kind);
    double bytes = 0;
    if (info->use & WEIGHT_MATMUL) return product_us(u, segment, op);
    if (op->kind == OP_ATTENTION) return attention_us(u, segment, op);
    /* What is left moves memory: halves. */
    for (int i = 0; i < op->n_in; i++)
        bytes += 2.0 * rows_of(segment, op->in[i]) *
                 (double)share_columns(segment->share, segment->list->value[op->in[i]].dim).n;
    for (int i = 0; i < op->n_out; i++)
        bytes += 2.0 * rows_of(segment, op->out[i]) *
                 (double)share_columns(segment->share, segment->list->value[op->out[i]].dim).n;
    return bytes / 1e3 / sim_figure(u->set.profile, SOC_ONE_GBS, u->set.end);
}

/* ---- a device ---- */

static void unit_close(struct device *self)
{
    struct sim_unit *u = unit_of(self);
    free(u->event), free(u->waited);
    free(u);
}

static int unit_supports(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    struct sim_unit *u = unit_of(self);
    if (u->set.kind == SIM_NPU && !(op_info_of(op->kind)->use & WEIGHT_MATMUL) && op->kind != OP_SWIGLU)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: graphs of products have no %s", self->name, op_name(op->kind));
    return u->set.inner ? u->set.inner->ops->supports(u->set.inner, list, op, err) : 0;
}

static int unit_prepare(struct device *self, struct weight *weight, bool *keeps_source, struct lutra_error *err)
{
    struct device *inner = unit_of(self)->set.inner;
    *keeps_source = false;
    return inner ? inner->ops->prepare(inner, weight, keeps_source, err) : 0;
}

static void unit_release(struct device *self, struct weight *weight)
{
    struct device *inner = unit_of(self)->set.inner;
    if (inner) inner->ops->release(inner, weight);
}

static int unit_reserve(
    struct device *self, const struct op_list *list, int max_rows, int max_out, int n_ctx, struct lutra_error *err)
{
    struct device *inner = unit_of(self)->set.inner;
    return inner ? inner->ops->reserve(inner, list, max_rows, max_out, n_ctx, err) : 0;
}

/* Room for one more event: a model has its memory before, a timeline grows. */
static int grow(struct sim_unit *u, struct lutra_error *err)
{
    int room = u->room ? 2 * u->room : 1024;
    if (u->n_event < u->room) return 0;
    struct sim_event *event = realloc(u->event, (size_t)room * sizeof *event);
    if (event) u->event = event;
    bool *waited = realloc(u->waited, (size_t)room * sizeof *waited);
    if (waited) u->waited = waited;
    if (!event || !waited) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for a timeline", u->device.name);
    u->room = room;
    return 0;
}

static int unit_submit(struct device *self, const struct segment *segment, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct sim_unit *u = unit_of(self);
    struct device *inner = u->set.inner;
    double us = 0;
    (void)after, (void)n_after; /* its own: segments follow each other */
    TRY(grow(u, err));
    if (inner) {
        struct ticket done;
        TRY(inner->ops->submit(inner, segment, NULL, 0, &done, err));
        TRY(inner->ops->wait(inner, &done, err));
    }
    for (int i = 0; i < segment->n_op; i++) us += sim_device_op_us(self, segment, &segment->op[i]);
    uint64_t now = clock_now_us(clock_virtual(u->set.time)), idle = u->n_event ? u->event[u->n_event - 1].end_us : 0;
    struct sim_event *e = &u->event[u->n_event];
    *e = (struct sim_event){
        (int)(segment->op - segment->list->op), segment->n_op, segment->share, now > idle ? now : idle, 0};
    e->end_us = e->begin_us + (uint64_t)(us + 0.5);
    u->waited[u->n_event] = false;
    *out = (struct ticket){self, (uint64_t)++u->n_event};
    return 0;
}

static bool unit_done(struct device *self, const struct ticket *ticket)
{
    const struct sim_unit *u = unit_of(self);
    return !ticket->id || clock_now_us(clock_virtual(u->set.time)) >= u->event[ticket->id - 1].end_us;
}

static int unit_wait(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    struct sim_unit *u = unit_of(self);
    (void)err;
    if (!ticket->id || u->waited[ticket->id - 1]) return 0;
    clock_sleep_until(clock_virtual(u->set.time), u->event[ticket->id - 1].end_us);
    clock_virtual_advance(u->set.time, (uint64_t)(sim_figure(u->set.profile, SOC_FAST_SYNC_US, u->set.end) + 0.5));
    u->waited[ticket->id - 1] = true;
    return 0;
}

static int unit_buffer_alloc(struct device *self, size_t bytes, struct buffer *out, struct lutra_error *err)
{
    struct device *inner = unit_of(self)->set.inner;
    if (inner) return inner->ops->buffer_alloc(inner, bytes, out, err);
    *out = (struct buffer){.bytes = bytes}; /* nothing is ever computed into it */
    return 0;
}

static void unit_buffer_free(struct device *self, struct buffer *buffer)
{
    struct device *inner = unit_of(self)->set.inner;
    if (inner) inner->ops->buffer_free(inner, buffer);
    *buffer = (struct buffer){0};
}

static void unit_forget(struct device *self, const struct op_list *list)
{
    struct device *inner = unit_of(self)->set.inner;
    if (inner && inner->extras && inner->extras->forget) inner->extras->forget(inner, list);
}

static const struct device_extras unit_extras = {.forget = unit_forget};

static const struct device_ops unit_ops = {.close = unit_close,
    .supports = unit_supports,
    .prepare = unit_prepare,
    .release = unit_release,
    .reserve = unit_reserve,
    .submit = unit_submit,
    .wait = unit_wait,
    .done = unit_done,
    .buffer_alloc = unit_buffer_alloc,
    .buffer_free = unit_buffer_free};

int sim_device_open(struct device **out, const struct sim_device_settings *settings, struct lutra_error *err)
{
    static const char *const names[SIM_DEVICES] = {"sim.gpu", "sim.npu"};
    struct sim_unit *u = calloc(1, sizeof *u);
    *out = NULL;
    if (!u) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", names[settings->kind]);
    u->set = *settings;
    u->device = (struct device){
        .ops = &unit_ops, .extras = &unit_extras, .name = names[settings->kind], .store = settings->store};
    const int rows = settings->inner ? settings->inner->caps.max_rows : ROWS_MOST;
    u->device.caps = (struct device_caps){.max_rows = rows, .flat_rows = 1, .async = true, .speed = 1};
    *out = &u->device;
    return 0;
}

int sim_device_events(const struct device *device, const struct sim_event **out)
{
    *out = unit_of(device)->event;
    return unit_of(device)->n_event;
}
