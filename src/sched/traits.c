/* SPDX-License-Identifier: MIT */
#include "sched/traits.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/quant.h"

enum { REPS = 5, OPS = 64, STREAM_DIM = 4096, LARGEST = 2048, PROMPT_ROWS = 256 };

static const int sizes[TRAIT_SIZES] = {64, 128, 256, 512, 1024, LARGEST};
static const int row_counts[TRAIT_ROWS] = {1, 8, 9, 16, 17, 32, 33, 48, 64, 65, 96, 128};

/* ---- products on one device ---- */

/* So many products with the same input, each with a weight and an output of its own place; they follow each other. */
struct products {
    struct device *d;
    int n;
    struct op op[OPS];
    struct weight weight[OPS];
    struct op_list list;
    struct row row[LARGEST];
    struct kv_view kv;
    struct batch batch;
    struct buffer value[2];
    struct pass_args pass;
    void *bytes; /* of a weight: all have the same */
    bool loaded;
};

/* Rows of one pattern: how long a product takes does not depend on its values. */
static int make_weight(struct products *p, int n_in, int n_out, struct lutra_error *err)
{
    enum { PATTERN = 4096 };
    float x[PATTERN];
    size_t row_bytes = 0;
    TRY(quant_row_bytes(QUANT_Q4_0, n_in, &row_bytes));
    for (int i = 0; i < n_in; i++) x[i] = (float)((i * 37 + 11) % 101 - 50) / 256;
    p->bytes = aligned_alloc(64, (row_bytes * (size_t)n_out + 63) / 64 * 64);
    if (!p->bytes) return lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: no memory for a weight");
    quant_info_of(QUANT_Q4_0)->quantize(x, p->bytes, (size_t)n_in);
    for (int o = 1; o < n_out; o++) memcpy((char *)p->bytes + (size_t)o * row_bytes, p->bytes, row_bytes);
    for (int i = 0; i < p->n; i++) {
        p->weight[i] = (struct weight){.use = WEIGHT_MATMUL,
            .tensor = {"made up", QUANT_Q4_0, 2, {n_in, n_out, 1, 1}, p->bytes, row_bytes * (size_t)n_out}};
        p->op[i] = op_make(OP_MATMUL, -1, 0, -1, -1);
        op_add_part(&p->op[i], &p->weight[i], NULL, 1);
    }
    return 0;
}

static int open_products(struct products *p, int n_row, int n_in, int n_out, struct lutra_error *err)
{
    for (int r = 0; r < n_row; r++) p->row[r].want = n_row >= PROMPT_ROWS ? ROW_BULK : WANT_NOTHING;
    struct device *keeper = device_store(p->d);
    bool keeps;
    TRY(make_weight(p, n_in, n_out, err));
    p->list = (struct op_list){.op = p->op, .n_op = p->n, .n_value = 2, .value = {{n_in, ROWS_ALL}, {n_out, ROWS_ALL}}};
    p->batch = (struct batch){.row = p->row, .n_row = n_row};
    p->kv = (struct kv_view){.type = {QUANT_F16, QUANT_F16}};
    p->pass = (struct pass_args){.batch = &p->batch, .kv = &p->kv, .value = p->value};
    TRY(p->d->ops->supports(p->d, &p->list, p->op, err));
    for (int i = 0; i < p->n; i++) TRY(keeper->ops->prepare(keeper, &p->weight[i], &keeps, err));
    TRY(p->d->ops->reserve(p->d, &p->list, n_row, 1, KV_BLOCK, err));
    p->loaded = true;
    if (p->d->memory) TRY(p->d->memory->load(p->d, &p->list, err));
    for (int v = 0; v < 2; v++) {
        size_t bytes = sizeof(float) * (size_t)n_row * (size_t)p->list.value[v].dim;
        TRY(p->d->ops->buffer_alloc(p->d, bytes, &p->value[v], err));
        for (size_t i = 0; p->value[v].host && i < bytes / sizeof(float); i++)
            ((float *)p->value[v].host)[i] = (float)(i % 61) / 61;
    }
    if (p->d->memory) p->d->memory->acquire(p->d, &p->value[0], area_of_all(n_in, n_row));
    return 0;
}

static void close_products(struct products *p)
{
    struct device *keeper = device_store(p->d);
    for (int v = 0; v < 2; v++)
        if (p->value[v].bytes) p->d->ops->buffer_free(p->d, &p->value[v]);
    if (p->loaded && p->d->memory) p->d->memory->unload(p->d, &p->list);
    if (p->loaded && p->d->extras && p->d->extras->forget) p->d->extras->forget(p->d, &p->list);
    for (int i = 0; i < p->n; i++)
        if (weight_packed(&p->weight[i], keeper)) keeper->ops->release(keeper, &p->weight[i]);
    free(p->bytes);
    memset(p, 0, sizeof *p);
}

static int start(struct products *p, struct ticket *ticket, struct lutra_error *err)
{
    struct segment segment = {.op = p->op, .n_op = p->n, .list = &p->list, .pass = &p->pass};
    return p->d->ops->submit(p->d, &segment, NULL, 0, ticket, err);
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* All devices of `p` at once: asynchronous ones first.  us: until the last is done, the median. */
static int run_all(struct products *const *p, int n, const struct traits_how *how, double *us, struct lutra_error *err)
{
    double took[REPS];
    for (int k = -1; k < REPS; k++) { /* the first for what devices work out */
        struct ticket ticket[PLAN_DEVICES];
        uint64_t begin = clock_now_us(how->clock);
        for (int async = 1; async >= 0; async--)
            for (int i = 0; i < n; i++)
                if (p[i]->d->caps.async == async) TRY(start(p[i], &ticket[i], err));
        for (int i = 0; i < n; i++) TRY(p[i]->d->ops->wait(p[i]->d, &ticket[i], err));
        if (k >= 0) took[k] = (double)(clock_now_us(how->clock) - begin);
    }
    qsort(took, REPS, sizeof *took, by_size);
    *us = took[REPS / 2];
    return 0;
}

/* ---- one device ---- */

struct measuring {
    const struct traits_how *how;
    struct traits *out;
    struct products *products[PLAN_DEVICES];
    double us_per_mac[PLAN_DEVICES]; /* at worst so far; 0: nothing measured */
    uint64_t done;
};

enum { PER_DEVICE = TRAIT_SIZES + TRAIT_ROWS + 4 + 1 };

static int tell(struct measuring *m, struct lutra_error *err)
{
    const struct traits_how *how = m->how;
    m->done++;
    if (!how->progress || !how->progress(how->user, m->done, (uint64_t)how->n_device * PER_DEVICE + 1)) return 0;
    return lutra_fail(err, LUTRA_E_CANCELLED, "profile: cancelled");
}

static int open_on(
    struct measuring *m, int d, int n, int rows, int n_in, int n_out, struct products **out, struct lutra_error *err)
{
    *out = m->products[d];
    (*out)->d = m->how->device[d];
    (*out)->n = n;
    int rc = open_products(*out, rows, n_in, n_out, err);
    if (rc < 0) close_products(*out);
    return rc;
}

static int time_product(struct measuring *m, int d, struct trait_time *t, struct lutra_error *err)
{
    const double mac = (double)t->rows * t->n_in * t->n_out;
    struct products *p;
    TRY(tell(m, err));
    if (t->rows > m->how->device[d]->caps.max_rows || mac * m->us_per_mac[d] > m->how->budget_us) return 0;
    TRY(open_on(m, d, 1, t->rows, t->n_in, t->n_out, &p, err));
    int rc = run_all(&p, 1, m->how, &t->us, err);
    close_products(p);
    /* Small products cost more than their multiplications: the last and largest tells best. */
    if (rc == 0) m->us_per_mac[d] = t->us / mac;
    return rc;
}

static double us_of(const struct trait *t, int rows)
{
    for (int i = 0; i < TRAIT_ROWS; i++)
        if (t->row[i].rows == rows) return t->row[i].us;
    return 0;
}

/* One row more than a stage costs another one, and as much as another whole one. */
static int stage_of(const struct trait *t)
{
    for (int stage = 64; stage >= 8; stage /= 2) {
        double one = us_of(t, stage), next = us_of(t, stage + 1), two = us_of(t, 2 * stage);
        if (!(one > 0 && next > 0 && two > 0)) return 0;
        if (next > 1.05 * one && next - one > 4 * (two - next)) return stage;
    }
    return 1;
}

static int time_device(struct measuring *m, int d, struct lutra_error *err)
{
    struct trait *t = &m->out->device[d];
    snprintf(t->name, sizeof t->name, "%s", m->how->device[d]->name);
    for (int i = 0; i < TRAIT_SIZES; i++) {
        t->square[i] = (struct trait_time){sizes[i], sizes[i], sizes[i], 0};
        TRY(time_product(m, d, &t->square[i], err));
    }
    for (int i = 0; i < TRAIT_ROWS; i++) {
        t->row[i] = (struct trait_time){row_counts[i], 1024, 1024, 0};
        TRY(time_product(m, d, &t->row[i], err));
    }
    t->stage = stage_of(t);
    t->order[0] = (struct trait_time){512, 1024, 64, 0}, t->order[1] = (struct trait_time){64, 1024, 512, 0};
    t->shape[0] = (struct trait_time){512, 128, 512, 0}, t->shape[1] = (struct trait_time){128, 512, 512, 0};
    for (int i = 0; i < 2; i++) {
        TRY(time_product(m, d, &t->order[i], err));
        TRY(time_product(m, d, &t->shape[i], err));
    }
    return 0;
}

/* ---- bandwidth ---- */

/* How many weights of the stream a device reads in a measurement, so that it takes about `us`. */
static int stream_length(const struct measuring *m, int d, double us)
{
    const double weight = (double)STREAM_DIM * STREAM_DIM * 18 / 32;
    double n = m->how->memory_bytes / weight, most = us / (m->us_per_mac[d] * STREAM_DIM * STREAM_DIM);
    if (n > most) n = most;
    return n > OPS ? OPS : n < 1 ? 1 : (int)n;
}

static double bytes_of(const struct products *p)
{
    double bytes = 0;
    for (int i = 0; i < p->n; i++) bytes += (double)weight_bytes(&p->weight[i]);
    return bytes;
}

/* Products of one row, each with a weight of its own, so that none is in a cache. */
static int time_stream(struct measuring *m, int d, struct lutra_error *err)
{
    struct trait *t = &m->out->device[d];
    struct products *p;
    double us = 0;
    TRY(tell(m, err));
    TRY(open_on(m, d, 1, 1, STREAM_DIM, STREAM_DIM, &p, err));
    int rc = run_all(&p, 1, m->how, &us, err);
    if (rc == 0 && us > 0) t->gbs = bytes_of(p) / us / 1e3;
    close_products(p);
    m->us_per_mac[d] = us / STREAM_DIM / STREAM_DIM;
    if (rc < 0 || us * 2 > m->how->budget_us) return rc;
    TRY(open_on(m, d, stream_length(m, d, m->how->budget_us), 1, STREAM_DIM, STREAM_DIM, &p, err));
    rc = run_all(&p, 1, m->how, &us, err);
    if (rc == 0 && us > 0) t->gbs = bytes_of(p) / us / 1e3;
    m->us_per_mac[d] = us / p->n / STREAM_DIM / STREAM_DIM;
    close_products(p);
    return rc;
}

/* Each device reads as much as it can in the same time alone.  One that takes much longer for a single weight, an
 * emulator beside a processor, would be at work alone: it is left out. */
static int time_together(struct measuring *m, struct lutra_error *err)
{
    struct products *p[PLAN_DEVICES];
    double least = m->how->budget_us, us = 0, bytes = 0;
    int n = 0, rc = 0, of[PLAN_DEVICES];
    TRY(tell(m, err));
    for (int d = 0; d < m->how->n_device; d++) {
        double all = m->how->memory_bytes / m->how->n_device / (m->out->device[d].gbs * 1e3);
        if (m->out->device[d].gbs > 0 && all < least) least = all;
    }
    for (int d = 0; rc == 0 && d < m->how->n_device; d++) {
        if (!(m->out->device[d].gbs > 0) || m->us_per_mac[d] * STREAM_DIM * STREAM_DIM > 4 * least) continue;
        rc = open_on(m, d, stream_length(m, d, least), 1, STREAM_DIM, STREAM_DIM, &p[n], err);
        if (rc == 0) of[n++] = d;
    }
    if (rc == 0 && n > 1) rc = run_all(p, n, m->how, &us, err);
    for (int i = 0; i < n; i++) bytes += bytes_of(p[i]);
    if (rc == 0 && n > 1 && us > 0) m->out->gbs = bytes / us / 1e3;
    for (int i = 0; i < n; i++) {
        if (m->out->gbs > 0) m->out->device[of[i]].together_gbs = m->out->gbs * bytes_of(p[i]) / bytes;
        close_products(p[i]);
    }
    return rc;
}

int traits_measure(struct traits *out, const struct traits_how *how, struct lutra_error *err)
{
    struct measuring m = {.how = how, .out = out};
    int rc = 0;
    memset(out, 0, sizeof *out);
    out->n_device = how->n_device;
    for (int d = 0; d < how->n_device; d++)
        if (!(m.products[d] = calloc(1, sizeof **m.products)))
            rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: out of memory");
    for (int d = 0; rc == 0 && d < how->n_device; d++) rc = time_device(&m, d, err);
    for (int d = 0; rc == 0 && d < how->n_device; d++) rc = time_stream(&m, d, err);
    if (rc == 0) rc = time_together(&m, err);
    for (int d = 0; d < how->n_device; d++) free(m.products[d]);
    return rc;
}

/* ---- as text ---- */

static json_t *time_json(const struct trait_time *t)
{
    return json_pack("{si si si so}", "rows", t->rows, "in", t->n_in, "out", t->n_out, "us",
        t->us > 0 ? json_real(t->us) : json_null());
}

static json_t *times_json(const struct trait_time *t, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, time_json(&t[i]));
    return a;
}

static json_t *rate_json(double gbs)
{
    return gbs > 0 ? json_real(gbs) : json_null();
}

char *traits_text(const struct traits *t, const char *machine)
{
    json_t *devices = json_array();
    for (int d = 0; d < t->n_device; d++) {
        const struct trait *one = &t->device[d];
        json_array_append_new(devices,
            json_pack("{ss so so so so so so so}", "name", one->name, "square", times_json(one->square, TRAIT_SIZES),
                "rows", times_json(one->row, TRAIT_ROWS), "stage", one->stage ? json_integer(one->stage) : json_null(),
                "order", times_json(one->order, 2), "shape", times_json(one->shape, 2), "gbs", rate_json(one->gbs),
                "together_gbs", rate_json(one->together_gbs)));
    }
    json_t *all =
        json_pack("{si ss so so}", "lutra_traits", 1, "machine", machine, "devices", devices, "gbs", rate_json(t->gbs));
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    return text;
}
