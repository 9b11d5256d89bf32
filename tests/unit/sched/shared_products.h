/* SPDX-License-Identifier: MIT
 *
 * Products that two or three devices of different numbers share by outputs, by class of rows, or both, and what stands
 * between them by class of rows: every element has the bits that it has where its device runs the whole operation; each
 * device has prepared its outputs only.
 */
#ifndef TESTS_SHARED_PRODUCTS_H
#define TESTS_SHARED_PRODUCTS_H

#include "unit/sched/shared_list.h"

/* It says when the segment ran: behind the one before. */
static inline void check_ran(struct bench *b, struct device *d, const struct ticket *ticket)
{
    uint64_t begin_us, end_us;
    assert_true(d->extras->ran(d, ticket, &begin_us, &end_us));
    assert_true(b->ran_until_us <= begin_us && begin_us <= end_us && end_us <= clock_now_us(b->clock));
    b->ran_until_us = end_us;
}

/* What a device makes of a whole operation with the inputs in `want`, into the values' own memory. */
static inline void run_whole(struct bench *b, struct device *d, int i)
{
    const struct op *op = &b->op_all[i];
    struct segment s = {.op = op, .n_op = 1, .list = &b->list_all, .pass = &b->pass};
    struct ticket ticket;
    for (int v = 0; v < N_VALUES; v++) {
        const int dim = b->list.value[v].dim;
        memcpy(b->value[v].host, b->want[v], bytes_of(b, v));
        if (d->memory) d->memory->acquire(d, &b->value[v], area_of_all(dim, b->batch.n_row));
    }
    OK(d->ops->submit(d, &s, NULL, 0, &ticket, &err));
    OK(d->ops->wait(d, &ticket, &err));
    if (ticket.id && d->extras->ran) check_ran(b, d, &ticket);
    for (int k = 0; k < op->n_out && d->memory; k++) {
        const int dim = b->list.value[op->out[k]].dim;
        OK(d->memory->publish(d, &b->value[op->out[k]], area_of_all(dim, b->batch.n_row), &err));
    }
}

/* Operation by operation: from each device the columns of its share. */
static inline void find_wanted(struct bench *b)
{
    static float now[OP_OUTS][ROW_MOST * OUT_MOST];
    for (int i = 0; i < N_OPS; i++) {
        for (int p = 0; p < b->plan.n_piece; p++) {
            const struct plan_piece *piece = &b->plan.piece[p];
            if (i < piece->first || i >= piece->first + piece->n) continue;
            run_whole(b, b->plan.device[piece->device], i);
            for (int k = 0; k < b->op[i].n_out; k++) {
                const int v = b->op[i].out[k], dim = b->list.value[v].dim;
                const struct columns own = share_columns(piece->share, dim);
                for (int r = 0; r < b->batch.n_row; r++)
                    if (share_has(piece->share, b->row[r].want & ROW_BULK))
                        memcpy(now[k] + r * dim + own.first, (float *)b->value[v].host + r * dim + own.first,
                            (size_t)own.n * sizeof(float));
            }
        }
        for (int k = 0; k < b->op[i].n_out; k++) memcpy(b->want[b->op[i].out[k]], now[k], bytes_of(b, b->op[i].out[k]));
    }
}

static inline void prepare(struct weight *w)
{
    bool keeps;
    for (int i = 0; i < WEIGHT_HOLDERS; i++)
        if (w->held[i].device) OK(w->held[i].device->ops->prepare(w->held[i].device, w, &keeps, &err));
}

/* Whether each device has its share of the outputs, and nothing more; by class, what it needs for both. */
static inline void check_held(const struct bench *b)
{
    for (int i = 0; i < N_WEIGHTS; i++) {
        int64_t sum = 0;
        for (int k = 0; k < WEIGHT_HOLDERS; k++) sum += b->part[i].held[k].has.n;
        if (!b->plan.by_class) assert_int_equal(sum, b->part[i].tensor.ne[1]);
        assert_in_range(sum, b->part[i].tensor.ne[1], b->n_device * b->part[i].tensor.ne[1]);
    }
}

static inline void open_case(struct bench *b, enum quant_type type)
{
    const uint32_t block = quant_info_of(type)->block_elems > 64 ? 256 : 64;
    const int n_in = (int)(block * (1 + below(b, IN_MOST / block))),
              n_out = 32 * (2 + (int)below(b, (uint32_t)b->outs / 32 - 1));
    const int n_hidden = (int)block * ((n_out + (int)block - 1) / (int)block);
    b->batch = (struct batch){.row = b->row, .n_row = 1 + (int)below(b, below(b, 3) ? 5 : (uint32_t)b->rows)};
    if (b->rows == ROW_MOST) b->batch.n_row = ROW_MOST;
    make_weight(b, W_GATE, type, n_in, n_hidden > b->outs ? (int)block : n_hidden);
    const int n_act = (int)b->part[W_GATE].tensor.ne[1];
    make_weight(b, W_UP, type, n_in, n_act);
    make_weight(b, W_DOWN, type, n_act, n_in);
    make_weight(b, W_LAST, type, n_in, n_act);
    make_list(b, b->part, b->op, &b->list);
    make_list(b, b->all, b->op_all, &b->list_all);
    const bool follow = below(b, 4) == 0; /* all that one device does of a class */
    for (int i = 0; i < N_OPS; i++) {
        struct plan_cut *cut = &b->cut[i];
        *cut = (struct plan_cut){.n = b->n_device, .by_class = follow || below(b, 2)};
        memcpy(cut->device, b->device, sizeof b->device);
        for (int d = 0; d < b->n_device; d++)
            cut->part[d] = (float)(1 + below(b, 7)), cut->bulk[d] = (float)below(b, 3);
        if (cut->by_class && below(b, 2)) cut->part[below(b, 2)] = 0; /* activation-centric, or hybrid */
        for (int d = 0; follow && d < b->n_device; d++) cut->part[d] = (float)(d == 0), cut->bulk[d] = (float)(d == 1);
    }
    OK(plan_open_cut(&b->plan, &b->list, b->device, b->n_device, b->cut, &err));
    OK(plan_give_weights(&b->plan, &err));
    for (int i = 0; i < N_WEIGHTS; i++) {
        prepare(&b->part[i]);
        for (int d = 0; d < b->n_device; d++)
            OK(weight_give(&b->all[i], b->device[d], (struct columns){0, b->all[i].tensor.ne[1]}, &err));
        prepare(&b->all[i]);
    }
    check_held(b);
    for (int d = 0; d < b->n_device; d++) {
        struct device *of = b->device[d];
        OK(of->ops->reserve(of, &b->list, b->rows, 1, 64, &err));
        OK(of->ops->reserve(of, &b->list_all, b->rows, 1, 64, &err));
        if (!of->memory) continue;
        OK(of->memory->load(of, &b->list, &err));
        OK(of->memory->load(of, &b->list_all, &err));
        for (int v = 0; v < N_VALUES; v++) OK(of->memory->join(of, NULL, &b->value[v], &err));
    }
}

static inline void close_case(struct bench *b)
{
    for (int d = 0; d < b->n_device; d++) {
        struct device *of = b->device[d];
        for (int v = 0; of->memory && v < N_VALUES; v++) of->memory->leave(of, &b->value[v]);
        if (of->memory) of->memory->unload(of, &b->list), of->memory->unload(of, &b->list_all);
        if (of->extras && of->extras->forget) of->extras->forget(of, &b->list), of->extras->forget(of, &b->list_all);
        for (int i = 0; i < N_WEIGHTS; i++) of->ops->release(of, &b->part[i]), of->ops->release(of, &b->all[i]);
    }
    for (int i = 0; i < N_WEIGHTS; i++) free((void *)b->part[i].tensor.data);
}

/* A row of massive activations makes the NPU scale it where it lies: others still read it. */
static inline void fill(struct bench *b)
{
    float *x = b->want[V_IN];
    const int n = b->batch.n_row * b->list.value[V_IN].dim;
    for (int i = 0; i < n; i++) x[i] = 3 * fixture_noise((uint32_t)i, 7, b->seed);
    for (int i = 0; below(b, 2) && i < b->list.value[V_IN].dim; i++) x[i] *= 300;
    bool bulk = below(b, 2);
    for (int r = 0; r < b->batch.n_row; r++) {
        if (below(b, b->rows == ROW_MOST ? 64 : 8) == 0) bulk = !bulk; /* an NPU takes over 256 areas of a value */
        b->row[r] = (struct row){.pos = r, .parent = r - 1, .want = bulk ? ROW_BULK : WANT_NOTHING};
    }
}

static inline void check_case(struct bench *b, enum quant_type type)
{
    open_case(b, type);
    b->kv = (struct kv_view){.type = {QUANT_F16, QUANT_F16}};
    b->pass = (struct pass_args){.batch = &b->batch, .kv = &b->kv, .value = b->value};
    fill(b);
    find_wanted(b);
    for (int v = 0; v < N_VALUES; v++) {
        if (v != V_IN) memset(b->value[v].host, 0x7f, b->value[v].bytes);
    }
    memcpy(b->value[V_IN].host, b->want[V_IN], bytes_of(b, V_IN));
    b->n_class += b->plan.by_class;
    const struct plan_piece *first = b->plan.piece;
    b->n_follow += first->n == N_OPS && first->share.rows != SHARE_ALL_ROWS;
    OK(plan_run(&b->plan, &b->pass, NULL, NULL, &err));
    for (int v = 0; v < N_VALUES; v++) {
        if (v == V_ACT) continue; /* nobody reads it any more: the NPU has scaled its massive rows */
        OK(plan_share(&b->plan, &b->pass, v, &err));
        const int dim = b->list.value[v].dim;
        for (int i = 0; i < b->batch.n_row * dim; i++)
            if (memcmp(&b->want[v][i], (float *)b->value[v].host + i, sizeof(float)))
                fail_msg("%s, %s first, %d rows: value %d: column %d of %d of row %d is %g, not %g",
                    quant_info_of(type)->name, b->device[0]->name, b->batch.n_row, v, i % dim, dim, i / dim,
                    (double)((float *)b->value[v].host)[i], (double)b->want[v][i]);
    }
    close_case(b);
}

/* rows: at most, as many each time where it is ROW_MOST. */
static inline void open_bench_of(struct bench *b, const char *devices, int rows)
{
    struct lutra_runtime_settings set;
    memset(b, 0, sizeof *b);
    b->rows = rows, b->outs = rows > ROWS ? OUT_MOST : OUTS;
    lutra_runtime_settings_init(&set, sizeof set);
    set.device = devices, set.n_threads = 2, set.npu_window_bytes = (rows == ROW_MOST ? 128 : 32) << 20;
#ifdef NPU_PROGRAM
    set.npu_program = NPU_PROGRAM;
#endif
    b->clock = clock_real();
    OK(device_set_open(&b->set, &set, &b->clock, &err));
    b->n_device = b->set.n_device;
    assert_in_range(b->n_device, 2, DEVICES);
    for (int d = 0; d < b->n_device; d++) {
        b->device[d] = b->set.device[d];
        if (d && b->device[0] == b->set.cpu) b->device[d]->caps.async = false; /* its share comes later */
    }
    for (int v = 0; v < N_VALUES; v++)
        OK(b->set.cpu->ops->buffer_alloc(b->set.cpu, sizeof(float) * (size_t)(rows * b->outs), &b->value[v], &err));
    for (int i = 0; i < OUT_MOST; i++)
        b->bias[i] = fixture_noise((uint32_t)i, 3, 5), b->gain[i] = 1 + fixture_noise((uint32_t)i, 4, 5) / 2;
}

static inline void open_bench(struct bench *b, const char *devices)
{
    open_bench_of(b, devices, getenv("LUTRA_TEST_LONG") ? ROWS_LONG : ROWS);
}

static inline void close_bench(struct bench *b)
{
    for (int v = 0; v < N_VALUES; v++) b->set.cpu->ops->buffer_free(b->set.cpu, &b->value[v]);
    device_set_close(&b->set);
}

/* `cuts` cases of each type, and with LUTRA_TEST_LONG=1 more of them, and some of many rows. */
static inline void check_cuts(struct bench *b, const char *devices, uint32_t seed, const enum quant_type *type,
    int n_type, int cuts, void (*change)(struct bench *b))
{
    const bool is_long = getenv("LUTRA_TEST_LONG") != NULL;
    int n_class = 0, n_follow = 0, n_shared = 0, n_all = 0;
    bool follows = true;
    for (int many = 0; many <= (is_long ? 1 : 0); many++) {
        const int n = many ? CUTS_MOST : n_type * (is_long ? CUTS_LONG : cuts);
        open_bench_of(b, devices, many ? ROW_MOST : is_long ? ROWS_LONG : ROWS);
        b->seed = seed;
        if (change) change(b);
        for (int i = 0; i < n; i++) {
            check_case(b, type[i % n_type]);
            n_shared += plan_mixes(&b->plan);
        }
        n_class += b->n_class, n_follow += b->n_follow, n_all += n;
        for (int d = 0; d < 2; d++) follows &= b->device[d]->caps.class_shares >> OP_RMS_NORM & 1;
        close_bench(b);
    }
    print_message("%s: %d cuts, %d of a class, %d of them of all that is done\n", devices, n_all, n_class, n_follow);
    assert_true(SANITIZED || n_follow >= n_all / 15 || !follows);
    assert_true(SANITIZED || (n_class > n_all / 6 && 4 * n_shared > 3 * n_all)); /* some have too few outputs */
}

#endif
