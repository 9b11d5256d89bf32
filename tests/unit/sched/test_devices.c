/* SPDX-License-Identifier: MIT
 *
 * Plans over devices with memories of their own, on random op lists: nothing is read that was not handed over, nothing
 * is written while another still reads it, and the results are those of the reference, whichever device is lost and
 * when.
 *
 * A double computes by ops/ref, some time between submit and wait.  It knows, from the list alone, which write of a
 * value each operation has to see, and fails when it finds another one, in any of the columns that it reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/waits.h"
#include "sanitized.h"
#include "unit/ops/random_list.h"
#include "unit/ops/ref_run.h"

enum { LISTS = SANITIZED ? 42 : 120, HEADS = 2, DEVICES = 4, QUEUE = RL_OPS, BLOCKS = RL_DIM * 4 / SHARE_OUTPUTS };

/* What the devices share, beside the values' memory. */
struct world {
    struct random_list *r;
    int version[RL_VALUES][RL_ROWS][BLOCKS]; /* of what lies in shared memory: which write of these columns, 0: none */
    int reads[RL_OPS][OP_INS];               /* version that each operation has to find */
    int writes[RL_OPS][OP_OUTS];             /* and makes */
    int n_moved, n_cut, n_heads;             /* n_heads: attentions that were cut */
    int n_mixed;                             /* plans in which devices with weights of their own share operations */
    int n_class, n_follow;                   /* shares of rows of one class, and those that are of no product or gate */
};

struct queued {
    int first, n;
    struct share share;
};

struct twin {
    struct device device;
    struct world *world;
    uint64_t does; /* set of operations */
    uint32_t chance;
    struct buffer own[RL_VALUES]; /* unused where it works in shared memory */
    int version[RL_VALUES][RL_ROWS][BLOCKS];
    struct queued queue[QUEUE];
    int n_queued, n_run;
    int calls_left; /* until it is lost; -1: never */
};

static struct twin *twin_of(struct device *d)
{
    return (struct twin *)d;
}

/* Of a row of a value. */
static int *version_of(struct twin *t, int value, int row)
{
    return t->device.memory ? t->version[value][row] : t->world->version[value][row];
}

static int dim_of(const struct twin *t, int value)
{
    return t->world->r->list.value[value].dim;
}

/* Of a share of a value, area by area, from row 0 on. */
static bool next_area(const struct twin *t, int value, struct share share, int *at, struct area *out)
{
    struct row_run r = {*at, 0};
    const int dim = dim_of(t, value);
    share_next_rows(&t->world->r->pass, t->world->r->list.value[value].rows, share, &r);
    *out = (struct area){share_columns(share, dim), dim, r.n, r.first, share.rows != SHARE_ALL_ROWS};
    *at = r.first + r.n;
    return r.n > 0;
}

static void set_version(int *version, struct columns c, int to)
{
    for (int64_t b = c.first / SHARE_OUTPUTS; b * SHARE_OUTPUTS < c.first + c.n; b++) version[b] = to;
}

static void copy_version(const int *from, struct columns c, int *to)
{
    for (int64_t b = c.first / SHARE_OUTPUTS; b * SHARE_OUTPUTS < c.first + c.n; b++) to[b] = from[b];
}

static void copy_area(const struct area *a, const void *from, void *to)
{
    const struct columns c = a->columns;
    for (int64_t r = a->first; r < a->first + a->rows; r++)
        memcpy((float *)to + r * a->dim + c.first, (const float *)from + r * a->dim + c.first,
            (size_t)c.n * sizeof(float));
}

static void check_row(struct twin *t, int i, int k, struct columns c, int row)
{
    const struct op *op = &t->world->r->op[i];
    const int *version = version_of(t, op->in[k], row);
    for (int64_t b = c.first / SHARE_OUTPUTS; b * SHARE_OUTPUTS < c.first + c.n; b++)
        if (version[b] != t->world->reads[i][k])
            fail_msg("%s: operation %d (%s) finds write %d of value %d, row %d, not write %d", t->device.name, i,
                op_name(op->kind), version[b], op->in[k], row, t->world->reads[i][k]);
}

/* Of a segment's share a product reads whole rows. */
static void check_input(struct twin *t, int i, int k, struct share share)
{
    const struct op *op = &t->world->r->op[i];
    struct area a;
    if (op->kind == OP_MATMUL) share.from = share.to = 0;
    for (int at = 0; next_area(t, op->in[k], share, &at, &a);)
        for (int r = a.first; r < a.first + a.rows; r++) check_row(t, i, k, a.columns, r);
}

enum { KEPT_BYTES = RL_ROWS * 8 * 2 * 64 * sizeof(float) };

/* The rows' keys and values of the heads that an append's share does not write: to `kept`, or back from it. */
static void keep_others(const struct twin *t, const struct op *op, struct share share, uint8_t *kept, bool back)
{
    const struct kv_view *kv = t->world->r->pass.kv;
    const struct op_layer *l = &t->world->r->layer[op->layer];
    const struct columns own = share_columns(share, l->n_kv_head * l->d_head);
    size_t at = 0;
    for (int r = 0; r < t->world->r->pass.batch->n_row; r++)
        for (int h = 0; h < l->n_kv_head; h++)
            for (int side = KV_K; side <= KV_V; side++) {
                const size_t n = kv->layer[op->layer].vec_bytes[side];
                assert_true(at + n <= KEPT_BYTES);
                uint8_t *slot = kv_slot_at(kv, op->layer, (enum kv_side)side, h, r);
                bool is_own = h * l->d_head >= own.first && h * l->d_head < own.first + own.n;
                if (back && !is_own) memcpy(slot, kept + at, n);
                if (!back) memcpy(kept + at, slot, n);
                at += n;
            }
}

/* The operation as a whole, into a value beside; of it the columns of its share. */
static void run_share(struct twin *t, int i, struct pass_args *pass, struct share share)
{
    const struct op *op = &t->world->r->op[i];
    static float beside[OP_OUTS][RL_ROWS * RL_DIM * 4];
    struct buffer value[RL_VALUES];
    memcpy(value, pass->value, sizeof value);
    for (int k = 0; k < op->n_out; k++) {
        assert_true(value[op->out[k]].bytes <= sizeof beside[k]);
        value[op->out[k]].host = beside[k];
        if (op_reads(op, op->out[k])) memcpy(beside[k], pass->value[op->out[k]].host, value[op->out[k]].bytes);
    }
    struct buffer *own = pass->value;
    static uint8_t kept[KEPT_BYTES];
    pass->value = value;
    if (op->kind == OP_KV_APPEND) keep_others(t, op, share, kept, false);
    ref_run(&t->world->r->list, i, 1, pass);
    if (op->kind == OP_KV_APPEND) keep_others(t, op, share, kept, true);
    struct area a;
    for (int k = 0; k < op->n_out; k++)
        for (int at = 0; next_area(t, op->out[k], share, &at, &a);) copy_area(&a, beside[k], own[op->out[k]].host);
    t->world->n_cut++;
    t->world->n_class += share.rows != SHARE_ALL_ROWS;
    t->world->n_follow += share.rows != SHARE_ALL_ROWS && !(SHARED_BY_OUTPUTS >> op->kind & 1);
    t->world->n_heads += op->kind == OP_ATTENTION;
}

/* The device has been given the outputs that its share needs. */
static void check_weights(const struct twin *t, const struct op *op, struct share share)
{
    for (int k = 0; op->kind == OP_MATMUL && k < op->n_weight; k++) {
        const struct held *h = weight_held(op->weight[k], device_store((struct device *)&t->device));
        const struct columns own = share_columns(share, op->weight[k]->tensor.ne[1]);
        assert_true(h && h->want.first <= own.first && h->want.first + h->want.n >= own.first + own.n);
    }
}

static void run_op(struct twin *t, int i, struct share share)
{
    const struct op *op = &t->world->r->op[i];
    struct pass_args pass = t->world->r->pass;
    if (t->device.memory) pass.value = t->own;
    check_weights(t, op, share);
    for (int k = 0; k < op->n_in; k++) check_input(t, i, k, share);
    if (share_is_all(share))
        ref_run(&t->world->r->list, i, 1, &pass);
    else
        run_share(t, i, &pass, share);
    struct area a;
    for (int k = 0; k < op->n_out; k++)
        for (int at = 0; next_area(t, op->out[k], share, &at, &a);)
            for (int r = a.first; r < a.first + a.rows; r++)
                set_version(version_of(t, op->out[k], r), a.columns, t->world->writes[i][k]);
}

/* Runs what is queued up to `end`. */
static void catch_up(struct twin *t, int end)
{
    for (; t->n_run < end; t->n_run++)
        for (int i = 0; i < t->queue[t->n_run].n; i++)
            run_op(t, t->queue[t->n_run].first + i, t->queue[t->n_run].share);
}

static int alive(struct twin *t, struct lutra_error *err)
{
    if (t->calls_left == 0) return lutra_fail(err, LUTRA_E_DEVICE_LOST, "%s is lost", t->device.name);
    if (t->calls_left > 0) t->calls_left--;
    return 0;
}

static int supports(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    (void)list;
    if (twin_of(self)->does >> (op - twin_of(self)->world->r->op) & 1) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: left to others", self->name);
}

static int submit(struct device *self, const struct segment *seg, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct twin *t = twin_of(self);
    TRY(alive(t, err));
    for (int i = 0; i < n_after; i++) assert_ptr_equal(after[i].device, self);
    assert_true(t->n_queued == t->n_run || n_after == 1); /* in order: behind what is under way */
    assert_true(t->n_queued < QUEUE);
    t->queue[t->n_queued++] = (struct queued){(int)(seg->op - t->world->r->op), seg->n_op, seg->share};
    t->chance = t->chance * 1664525u + 1013904223u;
    if (t->chance >> 31) catch_up(t, t->n_queued);
    *out = (struct ticket){self, (uint64_t)t->n_queued};
    return 0;
}

static int wait_for(struct device *self, const struct ticket *ticket, struct lutra_error *err)
{
    struct twin *t = twin_of(self);
    assert_ptr_equal(ticket->device, self);
    TRY(alive(t, err));
    catch_up(t, (int)ticket->id);
    return 0;
}

/* One of four questions finds a little more done. */
static bool is_done(struct device *self, const struct ticket *ticket)
{
    struct twin *t = twin_of(self);
    if (!t->calls_left) return true; /* wait tells */
    t->chance = t->chance * 1664525u + 1013904223u;
    if (t->chance >> 30 == 0 && t->n_run < t->n_queued) catch_up(t, t->n_run + 1);
    return t->n_run >= (int)ticket->id;
}

static int value_of(const struct twin *t, const struct buffer *b)
{
    return (int)(b - t->world->r->value);
}

static int publish(struct device *self, struct buffer *b, struct area area, struct lutra_error *err)
{
    const struct columns c = area.columns;
    struct twin *t = twin_of(self);
    int v = value_of(t, b);
    TRY(alive(t, err));
    for (int r = area.first; r < area.first + area.rows; r++) {
        if (!t->version[v][r][c.first / SHARE_OUTPUTS])
            fail_msg("%s publishes row %d of value %d, which it does not have", self->name, r, v);
        copy_version(t->version[v][r], c, t->world->version[v][r]);
    }
    copy_area(&area, t->own[v].host, b->host);
    t->world->n_moved++;
    return 0;
}

/* Whether an operation reads or writes any of these columns and rows. */
static bool touches(const struct twin *t, const struct op *op, struct share share, int v, const struct area *area)
{
    struct area own;
    if (!op_reads(op, v) && !op_writes(op, v)) return false;
    if (op->kind == OP_MATMUL && op_reads(op, v)) share.from = share.to = 0;
    for (int at = 0; next_area(t, v, share, &at, &own);)
        if (area_meets(&own, area)) return true;
    return false;
}

static void acquire(struct device *self, struct buffer *b, struct area area)
{
    const struct columns c = area.columns;
    struct twin *t = twin_of(self);
    int v = value_of(t, b);
    for (int i = t->n_run; i < t->n_queued; i++) /* what is under way uses the old one */
        for (int k = 0; k < t->queue[i].n; k++) {
            const struct op *op = &t->world->r->op[t->queue[i].first + k];
            if (touches(t, op, t->queue[i].share, v, &area))
                fail_msg("%s acquires value %d while it uses it", self->name, v);
        }
    copy_area(&area, b->host, t->own[v].host);
    for (int r = area.first; r < area.first + area.rows; r++)
        copy_version(t->world->version[v][r], c, t->version[v][r]);
    t->world->n_moved++;
}

static const struct device_ops twin_ops = {.supports = supports, .submit = submit, .wait = wait_for, .done = is_done};
static const struct device_memory twin_memory = {.publish = publish, .acquire = acquire};

/* ---- a world of devices and one list ---- */

struct fixture {
    struct random_list r;
    struct world world;
    struct twin twin[DEVICES];
    struct device *left[DEVICES];
    int n_left;
    struct plan_cut cut[RL_OPS];
    struct plan plan;
    struct waits waits;
    struct virtual_time time;
    uint8_t *cache; /* before the pass */
    size_t cache_bytes, draft_bytes;
    /* of the reference's run */
    uint8_t *cache_after;
    float logits[RL_ROWS][RL_VOCAB], hidden[RL_ROWS][RL_DIM];
    struct row_result result[RL_ROWS];
    int32_t top_id[RL_ROWS][ROW_TOPK];
};

static void number_writes(struct world *w)
{
    int version[RL_VALUES] = {0};
    for (int i = 0; i < w->r->list.n_op; i++) {
        const struct op *op = &w->r->op[i];
        for (int k = 0; k < op->n_in; k++) w->reads[i][k] = version[op->in[k]];
        for (int k = 0; k < op->n_out; k++) w->writes[i][k] = ++version[op->out[k]];
    }
}

static void save_cache(const struct fixture *f, uint8_t *to)
{
    memcpy(to, f->r.kv.view.pool, f->cache_bytes);
    memcpy(to + f->cache_bytes, f->r.kv.view.draft, f->draft_bytes);
}

static void run_reference(struct fixture *f)
{
    f->cache_bytes = f->r.kv.pool_bytes;
    f->draft_bytes = f->r.kv.draft_bytes;
    f->cache = malloc(f->cache_bytes + f->draft_bytes + 1);
    f->cache_after = malloc(f->cache_bytes + f->draft_bytes + 1);
    save_cache(f, f->cache);
    ref_run(&f->r.list, 0, f->r.list.n_op, &f->r.pass);
    save_cache(f, f->cache_after);
    memcpy(f->logits, f->r.logits, sizeof f->logits);
    memcpy(f->hidden, f->r.hidden, sizeof f->hidden);
    memcpy(f->result, f->r.result, sizeof f->result);
    memcpy(f->top_id, f->r.top_id, sizeof f->top_id);
}

/* Of an attention that can be cut, and what is cut with it. */
static bool is_by_head(const struct op_list *list, int i)
{
    for (int from = i; from >= 0; from--)
        if (plan_stretch(list, &list->op[from]) > i - from + (from == i)) return true;
    return false;
}

/* Ordinary rows to the first device, bulk rows to the second: all that is done row by row. */
static void split_classes(struct fixture *f, int i)
{
    f->cut[i] = (struct plan_cut){.n = 2, .part = {1, 0}, .by_class = true, .bulk = {0, 1}};
    for (int d = 0; d < 2; d++) {
        f->cut[i].device[d] = &f->twin[d].device;
        if (SHARED_BY_CLASS >> f->r.op[i].kind & 1) f->twin[d].does |= 1ull << i;
    }
}

/* With the random list that is there. */
static void open_devices(struct fixture *f, uint32_t seed)
{
    static const char *const names[DEVICES] = {"first", "second", "third", "last"};
    struct lutra_error err = {0};
    if (op_list_check(&f->r.list, &err) < 0) fail_msg("list %u: %s", seed, err.what);
    for (int i = 0; i < f->r.batch.n_row; i++) /* all of them, none, or some */
        if (!(f->r.row[i].want & WANT_ALL) && rl_below(&f->r, 5) < (int)(seed % 7)) f->r.row[i].want |= ROW_BULK;
    f->world.r = &f->r;
    waits_init(&f->waits, clock_virtual(&f->time), (enum wait_mode)(seed % 3));
    number_writes(&f->world);
    run_reference(f);
    for (int d = 0; d < DEVICES; d++) {
        struct twin *t = &f->twin[d];
        bool shared = d == DEVICES - 1 || rl_below(&f->r, 4) == 0;
        *t = (struct twin){.device = {.ops = &twin_ops, .memory = shared ? NULL : &twin_memory, .name = names[d]},
            .world = &f->world,
            .chance = seed + (uint32_t)d};
        t->device.caps.async = rl_below(&f->r, 2);
        t->device.caps.shares =
            SHARED_BY_OUTPUTS | 1u << OP_ROPE | 1u << OP_RMS_NORM | 1u << OP_KV_APPEND | 1u << OP_ATTENTION;
        t->device.caps.class_shares = SHARED_BY_CLASS;
        t->device.store = d && seed % 4 != 3 ? &f->twin[0].device : NULL; /* or weights of its own */
        if (rl_below(&f->r, 3)) t->device.caps.speed = 0.5f + (float)rl_below(&f->r, 4);
        for (int i = 0; i < f->r.list.n_op; i++)
            if (d == DEVICES - 1 || seed % 5 == 1 || rl_below(&f->r, 2) || is_by_head(&f->r.list, i))
                t->does |= 1ull << i;
        for (int v = 0; v < RL_VALUES; v++) {
            t->own[v].bytes = f->r.value[v].bytes;
            t->own[v].host = malloc(t->own[v].bytes);
        }
    }
    /* Of half the operations it is said who computes how much, with weights of one's own of all. */
    for (int i = 0; i < f->r.list.n_op; i += f->twin[1].device.store ? 2 : 1) {
        f->cut[i].by_class = rl_below(&f->r, 4) > 0;
        for (int d = 0; d < DEVICES; d++) {
            struct plan_cut *cut = &f->cut[i];
            cut->device[cut->n] = &f->twin[d].device;
            cut->bulk[cut->n] = (float)rl_below(&f->r, 3) / 2;
            cut->part[cut->n++] = (float)rl_below(&f->r, 5) / 4;
        }
    }
    for (int i = 0; seed % 6 == 3 && i < f->r.list.n_op; i++) split_classes(f, i);
}

static void open_fixture(struct fixture *f, uint32_t seed)
{
    memset(f, 0, sizeof *f);
    random_list_open(&f->r, seed);
    open_devices(f, seed);
}

static void close_fixture(struct fixture *f)
{
    for (int d = 0; d < DEVICES; d++)
        for (int v = 0; v < RL_VALUES; v++) free(f->twin[d].own[v].host);
    free(f->cache);
    free(f->cache_after);
    random_list_close(&f->r);
}

/* All as before the pass. */
static void rewind_all(struct fixture *f)
{
    memcpy(f->r.kv.view.pool, f->cache, f->cache_bytes);
    memcpy(f->r.kv.view.draft, f->cache + f->cache_bytes, f->draft_bytes);
    memset(f->world.version, 0, sizeof f->world.version);
    memset(f->r.logits, 0, sizeof f->r.logits);
    memset(f->r.hidden, 0, sizeof f->r.hidden);
    for (int v = 0; v < RL_VALUES; v++) fixture_fill_nan(f->r.value[v].host, f->r.value[v].bytes);
    for (int d = 0; d < DEVICES; d++) {
        f->twin[d].n_queued = f->twin[d].n_run = 0;
        f->twin[d].calls_left = -1;
        memset(f->twin[d].version, 0, sizeof f->twin[d].version);
        f->left[d] = &f->twin[d].device;
    }
    f->n_left = DEVICES;
}

/* Against the reference: bits. */
static void check_results(struct fixture *f, uint32_t seed)
{
    uint8_t *after = malloc(f->cache_bytes + f->draft_bytes + 1);
    save_cache(f, after);
    if (memcmp(after, f->cache_after, f->cache_bytes + f->draft_bytes)) fail_msg("list %u: another cache", seed);
    free(after);
    for (int i = 0; i < f->r.pass.n_out; i++) {
        uint32_t want = f->r.row[f->r.out_row[i]].want;
        if (want & WANT_LOGITS) assert_memory_equal(f->r.logits[i], f->logits[i], sizeof f->logits[i]);
        if (want & WANT_HIDDEN) assert_memory_equal(f->r.hidden[i], f->hidden[i], sizeof f->hidden[i]);
        if (!(want & WANT_TOPK)) continue;
        assert_int_equal(f->r.result[i].n_top, f->result[i].n_top);
        assert_memory_equal(f->r.top_id[i], f->top_id[i], (size_t)f->result[i].n_top * sizeof(int32_t));
    }
    for (int d = 0; d < DEVICES; d++) /* nothing goes on */
        if (f->twin[d].calls_left) assert_int_equal(f->twin[d].n_run, f->twin[d].n_queued);
}

/* The devices that are left; what was under way on them has been waited for. */
static int replace(void *user, struct device *lost, struct lutra_error *err)
{
    struct fixture *f = user;
    int n = 0;
    for (int i = 0; i < f->n_left; i++) {
        struct twin *t = twin_of(f->left[i]);
        if (f->left[i] == lost) {
            assert_int_equal(t->calls_left, 0);
            continue;
        }
        if (t->calls_left) assert_int_equal(t->n_run, t->n_queued);
        t->n_queued = t->n_run = 0;
        f->left[n++] = f->left[i];
    }
    assert_int_equal(n, f->n_left - 1);
    f->n_left = n;
    TRY(plan_open(&f->plan, &f->r.list, f->left, n, err));
    return plan_give_weights(&f->plan, err);
}

static void play(struct fixture *f, uint32_t seed)
{
    struct lutra_error err = {0};
    struct plan_rescue rescue = {.replace = replace, .user = f};
    const struct plan_cut *cut = seed % 2 ? f->cut : NULL;
    assert_int_equal(plan_open_cut(&f->plan, &f->r.list, f->left, f->n_left, cut, &err), 0);
    for (int i = 0; i < f->r.n_weight; i++) memset(f->r.weight[i].held, 0, sizeof f->r.weight[i].held);
    assert_int_equal(plan_give_weights(&f->plan, &err), 0);
    f->world.n_mixed += plan_mixes(&f->plan);
    if (plan_run(&f->plan, &f->r.pass, &f->waits, &rescue, &err) < 0) fail_msg("list %u: %s", seed, err.what);
    check_results(f, seed);
}

/* Lists with an attention that devices share, which few of the first have. */
static uint32_t with_heads[HEADS];

static bool shares_heads(const struct plan *p)
{
    for (int i = 0; i < p->n_piece; i++)
        for (int k = 0; k < p->piece[i].n && !share_is_all(p->piece[i].share); k++)
            if (p->list->op[p->piece[i].first + k].kind == OP_ATTENTION) return true;
    return false;
}

static int find_heads(void **state)
{
    static struct fixture f;
    uint32_t seed = 71; /* where they are now */
    (void)state;
    for (int n = 0; n < HEADS; seed += 2) { /* odd: with cuts that are said */
        open_fixture(&f, seed);
        rewind_all(&f);
        assert_int_equal(plan_open_cut(&f.plan, &f.r.list, f.left, f.n_left, f.cut, NULL), 0);
        if (shares_heads(&f.plan)) with_heads[n++] = seed;
        close_fixture(&f);
    }
    return 0;
}

/* The first n lists, and then those with heads. */
static uint32_t list_of(uint32_t i, uint32_t n)
{
    return i < n ? i : with_heads[i - n];
}

/* Pieces that return to a device after at least two others. */
static int n_returns(const struct plan *p)
{
    int n = 0;
    for (int i = 3; i < p->n_piece; i++)
        n += p->piece[i].device == p->piece[i - 3].device && p->piece[i - 1].device != p->piece[i].device &&
             p->piece[i - 2].device != p->piece[i].device && p->piece[i - 1].device != p->piece[i - 2].device;
    return n;
}

static void results_are_the_references(void **state)
{
    static struct fixture f;
    int returns = 0, pieces = 0, moved = 0, n_cut = 0, n_heads = 0, n_mixed = 0, n_class = 0, n_follow = 0;
    (void)state;
    for (uint32_t i = 0; i < LISTS + HEADS; i++) {
        const uint32_t seed = list_of(i, LISTS);
        open_fixture(&f, seed);
        rewind_all(&f);
        play(&f, seed);
        returns += n_returns(&f.plan);
        pieces += f.plan.n_piece;
        moved += f.world.n_moved;
        n_cut += f.world.n_cut;
        n_heads += f.world.n_heads;
        n_mixed += f.world.n_mixed;
        n_class += f.world.n_class, n_follow += f.world.n_follow;
        close_fixture(&f);
    }
    print_message("%d shares, %d of attentions, %d of a class (%d behind products), %d plans over different weights\n",
        n_cut, n_heads, n_class, n_follow, n_mixed);
    assert_true(SANITIZED || (n_mixed > LISTS / 40 && n_class > LISTS / 4 && n_follow > LISTS / 10));
    assert_true(n_heads > HEADS);
    assert_true(returns > LISTS && pieces > 5 * LISTS && moved > 5 * LISTS && n_cut > LISTS / 6);
}

/* Two products of one device, of which the second is of bulk rows, and the pass has none: who reads both waits for the
 * first. */
static void what_is_left_out_hides_nothing(void **state)
{
    static struct fixture f;
    struct lutra_error err = {0};
    enum { X = 1, A = 3, B = 5, SUM = 7, WANTED = 9, N = 6 };
    (void)state;
    for (uint32_t seed = 0; seed < 12; seed++) {
        memset(&f, 0, sizeof f);
        random_list_open(&f.r, seed);
        while (f.r.n_weight) free((void *)f.r.weight[--f.r.n_weight].tensor.data);
        struct op *op = f.r.op;
        op[0] = op_make(OP_EMBED, -1, -1, -1, X);
        op[0].weight[0] = rl_weight(&f.r, RL_DIM, RL_VOCAB, WEIGHT_GATHER);
        op[0].embed.scale = 1;
        for (int i = 1; i < 3; i++) {
            op[i] = op_make(OP_MATMUL, 0, X, -1, -1);
            op_add_part(&op[i], rl_weight(&f.r, RL_DIM, RL_DIM, WEIGHT_MATMUL), NULL, i == 1 ? A : B);
        }
        op[3] = op_make(OP_ADD, 0, A, B, SUM);
        op[4] = op_make(OP_TAKE, -1, SUM, -1, WANTED);
        op[5] = op_make(OP_HEAD, -1, WANTED, WANTED, -1);
        op[5].weight[0] = rl_weight(&f.r, RL_DIM, RL_VOCAB, WEIGHT_MATMUL);
        f.r.list.n_op = N;
        open_devices(&f, seed);
        for (int i = 0; i < f.r.batch.n_row; i++) f.r.row[i].want &= ~(uint32_t)ROW_BULK;
        for (int d = 0; d < DEVICES; d++) f.twin[d].does = (1u << N) - 1;
        f.twin[0].does &= ~(1u << 0 | 1u << 3); /* these are the second device's */
        f.twin[0].device.caps.async = true;
        memset(f.cut, 0, sizeof f.cut);
        f.cut[1] = (struct plan_cut){.n = 1, .device = {&f.twin[0].device}, .part = {1}};
        f.cut[2] = (struct plan_cut){
            .n = 2, .device = {&f.twin[0].device, &f.twin[1].device}, .part = {0, 1}, .by_class = true, .bulk = {1, 0}};
        rewind_all(&f);
        assert_int_equal(plan_open_cut(&f.plan, &f.r.list, f.left, DEVICES, f.cut, &err), 0);
        assert_int_equal(plan_give_weights(&f.plan, &err), 0);
        if (plan_run(&f.plan, &f.r.pass, &f.waits, NULL, &err) < 0) fail_msg("list %u: %s", seed, err.what);
        check_results(&f, seed);
        assert_true(f.plan.by_class && f.world.n_class > 0);
        close_fixture(&f);
    }
}

static uint32_t given_to(const struct op_list *list)
{
    uint32_t written = 0, given = 0;
    for (const struct op *op = list->op; op < list->op + list->n_op; op++) {
        for (int k = 0; k < op->n_in; k++) given |= (uint64_t)1 << op->in[k] & ~written;
        for (int k = 0; k < op->n_out; k++) written |= (uint64_t)1 << op->out[k];
    }
    return given;
}

/* A list in two, each with a plan of its own. */
static void a_list_goes_on_where_another_ended(void **state)
{
    static struct fixture f;
    static struct plan next;
    struct lutra_error err = {0};
    int n_given = 0;
    (void)state;
    for (uint32_t seed = 0; seed < LISTS; seed++) {
        open_fixture(&f, seed);
        rewind_all(&f);
        struct op_list first = f.r.list, rest = f.r.list;
        first.n_op = 1 + rl_below(&f.r, first.n_op - 1);
        rest.op += first.n_op;
        rest.n_op -= first.n_op;
        rest.given = given_to(&rest);
        if (plan_open(&f.plan, &first, f.left, DEVICES, &err) < 0 || plan_open(&next, &rest, f.left, DEVICES, &err) < 0)
            fail_msg("list %u: %s", seed, err.what);
        assert_int_equal(plan_give_weights(&f.plan, &err), 0);
        assert_int_equal(plan_give_weights(&next, &err), 0);
        assert_int_equal(plan_run(&f.plan, &f.r.pass, &f.waits, NULL, &err), 0);
        for (int v = 0; v < RL_VALUES; v++) {
            if (!(rest.given >> v & 1)) continue;
            assert_int_equal(plan_share(&f.plan, &f.r.pass, v, &err), 0);
            n_given++;
        }
        assert_int_equal(plan_run(&next, &f.r.pass, NULL, NULL, &err), 0);
        check_results(&f, seed);
        close_fixture(&f);
    }
    assert_true(n_given > LISTS);
}

/* At every call, of each of the devices before the last; and then of another one, too. */
static void any_device_may_be_lost(void **state)
{
    static struct fixture f;
    int n_lost = 0, n_both = 0;
    (void)state;
    for (uint32_t i = 0; i < LISTS / 6 + HEADS; i++) {
        const uint32_t seed = list_of(i, LISTS / 6);
        open_fixture(&f, seed);
        for (int d = 0; d < DEVICES - 1; d++)
            for (int call = 0;; call++) {
                rewind_all(&f);
                f.twin[d].calls_left = call;
                if (call % 3 == 2) f.twin[(d + 1) % (DEVICES - 1)].calls_left = call / 2;
                play(&f, seed);
                n_lost += f.n_left < DEVICES;
                n_both += f.n_left < DEVICES - 1;
                if (f.twin[d].calls_left) break; /* it was not asked that often */
            }
        close_fixture(&f);
    }
    assert_true(n_lost > 10 * LISTS / 6 && n_both > LISTS / 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_the_references),
        cmocka_unit_test(what_is_left_out_hides_nothing), cmocka_unit_test(a_list_goes_on_where_another_ended),
        cmocka_unit_test(any_device_may_be_lost)};
    return cmocka_run_group_tests(tests, find_heads, NULL);
}
