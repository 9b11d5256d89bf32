/* SPDX-License-Identifier: MIT
 *
 * What processors are like, of doubles that are known to be like that, on a virtual clock.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "sched/traits.h"

enum { DEVICES = 2 };

/* A device that multiplies so many rows at a time, loads each weight once, and shares the memory's bandwidth. */
struct double_ {
    struct device device;
    struct world *world;
    double ns_per_kmac, load_ns; /* load_ns: of an output and input of a weight, before it is multiplied */
    double gbs;                  /* that it reads alone */
    int stage;
    uint64_t end_us;
    int n_prepared;
};

struct world {
    struct virtual_time time;
    struct double_ d[DEVICES];
    struct device *device[DEVICES];
    double gbs; /* of the memory; 0: any */
    int n_weight, n_buffer;
};

static struct double_ *of(struct device *d)
{
    return (struct double_ *)d;
}

static int supports(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    (void)self, (void)list, (void)op, (void)err;
    return 0;
}

static int prepare(struct device *self, struct weight *w, bool *keeps, struct lutra_error *err)
{
    struct held *h = weight_to_prepare(w, self, err);
    h->packed = (struct packed *)self, h->has = h->want;
    of(self)->n_prepared++, of(self)->world->n_weight++;
    *keeps = false;
    return 0;
}

static void release(struct device *self, struct weight *w)
{
    weight_forget(weight_held(w, self));
    of(self)->n_prepared--, of(self)->world->n_weight--;
}

static int reserve(struct device *self, const struct op_list *list, int rows, int out, int ctx, struct lutra_error *err)
{
    (void)self, (void)list, (void)rows, (void)out, (void)ctx, (void)err;
    return 0;
}

static int buffer_alloc(struct device *self, size_t bytes, struct buffer *out, struct lutra_error *err)
{
    (void)err;
    *out = (struct buffer){.host = aligned_alloc(64, (bytes + 63) / 64 * 64), .bytes = bytes};
    of(self)->world->n_buffer++;
    return 0;
}

static void buffer_free(struct device *self, struct buffer *b)
{
    free(b->host);
    *b = (struct buffer){0};
    of(self)->world->n_buffer--;
}

static int submit(struct device *self, const struct segment *s, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct double_ *d = of(self);
    double us = 0, gbs = d->gbs, all = 0;
    (void)after, (void)n_after, (void)err;
    for (int side = KV_K; side <= KV_V; side++) assert_int_equal(s->pass->kv->type[side], QUANT_F16); /* an NPU asks */
    for (int i = 0; i < DEVICES; i++) all += d->world->d[i].n_prepared ? d->world->d[i].gbs : 0;
    if (d->world->gbs > 0 && all > d->world->gbs) gbs *= d->world->gbs / all;
    for (int i = 0; i < s->n_op; i++) {
        const struct tensor *t = &s->op[i].weight[0]->tensor;
        double weights = (double)t->ne[0] * (double)t->ne[1];
        int rows = (s->pass->batch->n_row + d->stage - 1) / d->stage * d->stage;
        us += fmax(weights * rows * d->ns_per_kmac * 1e-6 + weights * d->load_ns * 1e-3, (double)t->bytes / gbs / 1e3);
    }
    d->end_us = clock_now_us(clock_virtual(&d->world->time)) + (uint64_t)(us + 0.5);
    *out = (struct ticket){self, 1};
    return 0;
}

static int wait(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    (void)ticket, (void)err;
    clock_sleep_until(clock_virtual(&of(self)->world->time), of(self)->end_us);
    return 0;
}

static const struct device_ops ops = {.supports = supports,
    .prepare = prepare,
    .release = release,
    .reserve = reserve,
    .submit = submit,
    .wait = wait,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free};

/* A tile unit that computes 32 rows at a time and loads weights slowly, and a processor without stages. */
static void open_world(struct world *w)
{
    memset(w, 0, sizeof *w);
    w->gbs = 60;
    for (int i = 0; i < DEVICES; i++) {
        w->d[i] = (struct double_){.device = {.ops = &ops, .name = i ? "plain" : "tiles"},
            .world = w,
            .ns_per_kmac = i ? 4 : 1,
            .load_ns = i ? 0 : 0.2,
            .gbs = i ? 40 : 45,
            .stage = i ? 1 : 32};
        w->d[i].device.caps = (struct device_caps){.max_rows = i ? 4096 : 512, .async = true};
        w->device[i] = &w->d[i].device;
    }
}

static int measure(struct world *w, struct traits *t, int n_device, struct lutra_error *err)
{
    const struct traits_how how = {.device = w->device,
        .n_device = n_device,
        .clock = clock_virtual(&w->time),
        .budget_us = 3e5,
        .memory_bytes = 2e8};
    int rc = traits_measure(t, &how, err);
    assert_int_equal(w->n_weight, 0);
    assert_int_equal(w->n_buffer, 0);
    return rc;
}

static void assert_near(double is, double want)
{
    if (!(fabs(is / want - 1) < 0.02)) fail_msg("%g, not %g", is, want);
}

static void figures_are_those_of_the_doubles(void **state)
{
    static struct world w;
    static struct traits t;
    struct lutra_error err = {.what = ""};
    (void)state;
    open_world(&w);
    if (measure(&w, &t, 2, &err) < 0) fail_msg("%s", err.what);
    const struct trait *tiles = &t.device[0], *plain = &t.device[1];
    assert_string_equal(tiles->name, "tiles");
    assert_int_equal(tiles->stage, 32);
    assert_int_equal(plain->stage, 1);
    assert_true(tiles->row[0].us == tiles->row[5].us && tiles->row[6].us > 1.1 * tiles->row[5].us); /* 1, 32, 33 */
    assert_near(plain->square[4].us, 1024.0 * 1024 * 1024 * 4e-6);
    assert_true(tiles->square[5].us == 0); /* more rows than it takes */
    /* 512 x 1024 by 64, and the other way round: the wide weight is loaded for fewer rows. */
    assert_near(tiles->order[0].us, 512 * 1024 * 64 * 1e-6 + 1024 * 64 * 0.2e-3);
    assert_near(tiles->order[1].us, 512 * 1024 * 64 * 1e-6 + 1024 * 512 * 0.2e-3);
    assert_near(plain->order[1].us, plain->order[0].us);
    assert_true(tiles->shape[1].us > 1.5 * tiles->shape[0].us);
    assert_near(plain->shape[1].us, plain->shape[0].us);
}

/* Two devices read more together than either alone, and less than the sum of both. */
static void bandwidth_is_shared(void **state)
{
    static struct world w;
    static struct traits t;
    struct lutra_error err = {.what = ""};
    (void)state;
    open_world(&w);
    for (int i = 0; i < DEVICES; i++) w.d[i].ns_per_kmac = 0.01, w.d[i].load_ns = 0;
    if (measure(&w, &t, 2, &err) < 0) fail_msg("%s", err.what);
    assert_near(t.device[0].gbs, 45);
    assert_near(t.device[1].gbs, 40);
    assert_true(fabs(t.gbs / 60 - 1) < 0.06); /* whole weights: they end nearly together */
    assert_near(t.device[0].together_gbs + t.device[1].together_gbs, t.gbs);
    if (measure(&w, &t, 1, &err) < 0) fail_msg("%s", err.what);
    assert_near(t.device[0].gbs, 45);
    assert_true(t.gbs == 0 && t.device[0].together_gbs == 0);
}

/* An emulator: what would take too long is left out, and null in the text. */
static void what_takes_long_is_left_out(void **state)
{
    static struct world w;
    static struct traits t;
    struct lutra_error err = {.what = ""};
    (void)state;
    open_world(&w);
    w.d[0].ns_per_kmac = 40000;
    if (measure(&w, &t, 2, &err) < 0) fail_msg("%s", err.what);
    assert_true(t.device[0].square[0].us > 0 && t.device[0].square[4].us == 0);
    assert_true(t.device[0].gbs > 0 && t.device[1].gbs > 0);
    assert_true(t.gbs == 0 && t.device[0].together_gbs == 0); /* it would read alone for most of the time */
    char *text = traits_text(&t, "a \"machine\"");
    json_t *all = json_loads(text, 0, NULL), *first = json_array_get(json_object_get(all, "devices"), 0);
    assert_string_equal(json_string_value(json_object_get(all, "machine")), "a \"machine\"");
    assert_string_equal(json_string_value(json_object_get(first, "name")), "tiles");
    assert_int_equal(json_array_size(json_object_get(first, "rows")), TRAIT_ROWS);
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(first, "square"), 4), "us")));
    assert_near(json_number_value(json_object_get(first, "gbs")), t.device[0].gbs);
    json_decref(all);
    free(text);
}

static int stop_at(void *left, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    return --*(int *)left == 0;
}

static void may_be_cancelled(void **state)
{
    static struct world w;
    static struct traits t;
    struct lutra_error err = {.what = ""};
    (void)state;
    for (int at = 1; at <= 47; at += 15) {
        open_world(&w);
        int left = at;
        const struct traits_how how = {.device = w.device,
            .n_device = 2,
            .clock = clock_virtual(&w.time),
            .budget_us = 3e5,
            .memory_bytes = 1e8,
            .progress = stop_at,
            .user = &left};
        assert_int_equal(traits_measure(&t, &how, &err), LUTRA_E_CANCELLED);
        assert_true(w.n_weight == 0 && w.n_buffer == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_are_those_of_the_doubles),
        cmocka_unit_test(bandwidth_is_shared), cmocka_unit_test(what_takes_long_is_left_out),
        cmocka_unit_test(may_be_cancelled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
