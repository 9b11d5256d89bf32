/* SPDX-License-Identifier: MIT
 *
 * Profiles of doubles whose costs are known, on a virtual clock: what is predicted is what passes then take, the cuts
 * are the best there are, and the plan that is kept is not slower than the first device alone.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sched/profile.h"
#include "unit/sched/clocked_world.h"

enum { REPS = 7, PASSES = 8 };

struct bench {
    struct clocked_world w;
    struct batch many;
    struct pass_args pass[PASS_CLASSES];
    struct profile p;
    double limit_us;
    int n_shortened; /* -1: passes of many rows cannot be */
};

static void open_bench(struct bench *b, int n_device)
{
    clocked_open(&b->w, n_device);
    b->many = (struct batch){.row = b->w.row, .n_row = CLOCKED_ROWS};
    b->pass[PASS_FEW] = b->pass[PASS_MANY] = b->w.pass;
    b->pass[PASS_MANY].batch = &b->many;
    b->n_shortened = -1;
    for (int r = 1; r < CLOCKED_ROWS; r++) b->w.row[r].want = ROW_BULK;
}

static int shorten(void *user, int n_row, struct lutra_error *err)
{
    struct bench *b = user;
    (void)err;
    assert_true(n_row >= PASS_MANY_ROWS && CLOCKED_ROWS % n_row == 0);
    b->many.n_row = n_row;
    b->n_shortened++;
    return 0;
}

static int make(struct bench *b, int (*progress)(void *, uint64_t, uint64_t), void *user, struct lutra_error *err)
{
    struct profile_how how = {.list = &b->w.list,
        .device = b->w.devices,
        .n_device = b->w.n_device,
        .pass = {&b->pass[PASS_FEW], &b->pass[PASS_MANY]},
        .clock = clock_virtual(&b->w.time),
        .sync = WAIT_BLOCK,
        .reps = REPS,
        .passes = PASSES,
        .limit_us = b->limit_us,
        .shorten = b->n_shortened < 0 ? NULL : shorten,
        .progress = progress,
        .user = progress ? user : b};
    return profile_make(&b->p, &how, err);
}

static void made(struct bench *b)
{
    struct lutra_error err = {.what = ""};
    if (make(b, NULL, NULL, &err) < 0) fail_msg("%s", err.what);
    for (int c = 0; c < PASS_CLASSES; c++) { /* never slower than one device, and the fastest of all */
        const struct profile_pass *pass = &b->p.pass[c];
        for (int i = 0; i < b->p.n_plan; i++) assert_true(pass->measured[pass->best].us <= pass->measured[i].us);
    }
}

static void assert_predicted(const struct bench *b, double within)
{
    for (int c = 0; c < PASS_CLASSES; c++)
        for (int i = 0; i < PLAN_CLASS; i++) {
            double is = b->p.pass[c].measured[i].us, said = b->p.pass[c].predicted_us[i];
            if (fabs(said / is - 1) > within)
                fail_msg("%s, class %d: %.0f us predicted, %.0f measured", profile_plan_name((enum profile_plan)i), c,
                    said, is);
        }
}

/* us of a pass with everything but one kind's cut as it was found. */
static double with_part(struct bench *b, enum pass_class rows, struct profile_kind *k, int part)
{
    static struct plan plan;
    static struct waits waits;
    struct plan_cut cut[CLOCKED_OPS];
    struct lutra_error err = {.what = ""};
    int was[SOLVE_DEVICES];
    memcpy(was, k->of[rows].part, sizeof was);
    k->of[rows].part[0] = part, k->of[rows].part[1] = PROFILE_GRID - part;
    assert_true(profile_cuts(&b->p, rows, PLAN_SOLVED, &b->w.list, b->w.devices, b->w.n_device, cut));
    assert_int_equal(plan_open_cut(&plan, &b->w.list, b->w.devices, b->w.n_device, cut, &err), 0);
    waits_init(&waits, clock_virtual(&b->w.time), WAIT_BLOCK);
    uint64_t start = b->w.time.now_us;
    assert_int_equal(plan_run(&plan, &b->pass[rows], &waits, NULL, &err), 0);
    memcpy(k->of[rows].part, was, sizeof was);
    return (double)(b->w.time.now_us - start);
}

/* No other cut of any kind makes a pass shorter by more than this, and the clock's whole microseconds. */
static void assert_best(struct bench *b, double within)
{
    for (int c = 0; c < PASS_CLASSES; c++)
        for (int i = 0; i < b->p.n_kind; i++) {
            struct profile_kind *k = &b->p.kind[i];
            if (!k->cut) continue;
            double found = with_part(b, (enum pass_class)c, k, k->of[c].part[0]);
            for (int part = 0; part <= PROFILE_GRID; part++) {
                double us = with_part(b, (enum pass_class)c, k, part);
                if (us < found * (1 - within) - 2 * CLOCKED_LAYERS)
                    fail_msg("%s, class %d: %d:%d takes %.0f us, %d sixteenths %.0f", k->name, c, k->of[c].part[0],
                        k->of[c].part[1], found, part, us);
            }
        }
}

/* The second device is as fast, a third as fast, and hampered by its neighbour; waiting costs little and much.  Where
 * it costs much, the slower device begins the second of two operations that follow each other while the host still
 * wakes up: how much of the waiting that hides depends on the cuts. */
static void predictions_come_true(void **state)
{
    static struct bench b;
    (void)state;
    for (int i = 0; i < 18; i++) {
        static const double slow[] = {1, 3, 1.7}, beside[] = {1, 1.25, 2.5};
        open_bench(&b, 2);
        b.w.device[1].ns_per_kmac *= slow[i % 3];
        b.w.device[0].beside = b.w.device[1].beside = beside[i / 3 % 3];
        b.w.device[1].sync_us = i < 9 ? 4 : 120;
        made(&b);
        assert_int_equal(b.p.n_device, 2);
        assert_int_equal(b.p.pass[PASS_FEW].n_row, 1);
        assert_int_equal(b.p.pass[PASS_MANY].n_row, CLOCKED_ROWS);
        double more = b.p.pass[PASS_MANY].sync_us - (double)b.w.device[1].sync_us;
        if (more > 1 || more < (i < 9 ? -1 : -0.25 * (double)b.w.device[1].sync_us))
            fail_msg("%d: a cut costs %g us more than waiting", i, more);
        assert_predicted(&b, i < 9 ? 0.02 : 0.08);
        assert_best(&b, i < 9 ? 0 : 0.03);
    }
}

/* Waiting costs more where parts end together, as those of the cuts solved do, and those of halves do not. */
static void waits_of_balanced_cuts(void **state)
{
    static struct bench b;
    double off = 0;
    (void)state;
    for (int slow = 2; slow <= 5; slow++) {
        open_bench(&b, 2);
        for (int d = 0; d < 2; d++) b.w.device[d].ns_per_kmac *= 4;
        b.w.device[1].ns_per_kmac *= slow;
        b.w.device[1].sync_us = 4, b.w.device[1].near_us = 30;
        made(&b);
        const struct profile_pass *few = &b.p.pass[PASS_FEW];
        off += fabs(few->predicted_us[PLAN_SOLVED] / few->measured[PLAN_SOLVED].us - 1) / 4;
    }
    if (off > 0.01) fail_msg("%g off", off);
}

static const struct profile_kind *kind_of(const struct bench *b, const char *name)
{
    for (int i = 0; i < b->p.n_kind; i++)
        if (!strcmp(b->p.kind[i].name, name)) return &b->p.kind[i];
    fail_msg("no kind '%s'", name);
    return NULL;
}

/* Weights that come from memory, as in every pass, and what a device reads that others have written: an operation that
 * was measured by itself, again and again, would show neither. */
static void passes_are_cold(void **state)
{
    static struct bench b;
    (void)state;
    for (int i = 0; i < 4; i++) {
        open_bench(&b, 2);
        for (int d = 0; d < 2; d++) b.w.device[d].cold_ns = 40, b.w.device[d].fetch_us = i % 2 ? 25 : 0;
        b.w.device[1].ns_per_kmac *= i / 2 ? 3 : 1;
        made(&b);
        assert_predicted(&b, 0.02);
    }
}

/* Somebody else has a processor for a quarter of the time, for stretches of a layer up to many passes: predictions
 * hold, and of processors that are alike none gets more than its half. */
static void others_disturb(void **state)
{
    static struct bench b;
    int n_off = 0, n_all = 0;
    (void)state;
    for (uint64_t us = 30; us < 4000000; us *= 5)
        for (int slow = 1; slow <= 3; slow += 2) {
            open_bench(&b, 2);
            for (int d = 0; d < 2; d++) b.w.device[d].burst = 2.5, b.w.device[d].burst_us = us + 17 * (uint64_t)d;
            b.w.device[1].ns_per_kmac *= slow;
            made(&b);
            assert_predicted(&b, 0.25);
            for (int i = 0; i < PASS_CLASSES * PLAN_CLASS; i++) {
                const struct profile_pass *pass = &b.p.pass[i / PLAN_CLASS];
                n_off += fabs(pass->predicted_us[i % PLAN_CLASS] / pass->measured[i % PLAN_CLASS].us - 1) > 0.05;
                n_all++;
            }
            const int *part = kind_of(&b, "matmul 512>1024 F32,1024 F32")->of[PASS_MANY].part;
            if (abs(part[0] - (slow == 1 ? 8 : 12)) > slow / 2)
                fail_msg("bursts of %d us: %d:%d", (int)us, part[0], part[1]);
        }
    assert_true(6 * n_off <= n_all); /* most are within 5 %; bursts about as long as a pass are the worst */
}

/* How far apart the parts of an operation end, in the passes of each plan. */
static void parts_end_together(void **state)
{
    static struct bench b;
    (void)state;
    open_bench(&b, 2); /* of halves the first device's end after a third of the time */
    b.w.device[1].ns_per_kmac *= 3;
    made(&b);
    const struct profile_pass *pass = &b.p.pass[PASS_MANY];
    assert_true(pass->uneven[PLAN_ONE] == 0);
    assert_true(fabs(pass->uneven[PLAN_EVEN] - 2.0 / 3) < 0.01);
    assert_true(pass->uneven[PLAN_SOLVED] < 0.02);
}

/* A model whose passes are long is measured in fewer. */
static void time_is_limited(void **state)
{
    static const double limit_us[] = {0, 150e6, 60e6, 1};
    static struct bench b;
    struct lutra_error err = {.what = ""};
    double took[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        open_bench(&b, 2);
        for (int d = 0; d < 2; d++) b.w.device[d].ns_per_kmac *= 20;
        b.limit_us = limit_us[i];
        if (make(&b, NULL, NULL, &err) < 0) fail_msg("%s", err.what);
        took[i] = (double)b.w.time.now_us;
        b.limit_us = 0;
        if (limit_us[i] > 1) assert_true(took[i] <= limit_us[i]);
        assert_true(i == 0 || took[i] <= took[i - 1]);
        assert_predicted(&b, 0.02);
    }
    assert_true(took[0] > 150e6 && took[3] < 45e6);
}

/* One device, the first or the second, is so slow that fewer passes do not help: what is timed goes without a pass
 * before, and prompts are shorter; what was left out is said.  Passes that all end in time are all made. */
static void slow_devices_keep_the_limit(void **state)
{
    static struct bench b;
    static const int slow[] = {1, 10, 30, 100, 200, 400, 800};
    struct lutra_error err = {.what = ""};
    int n_once = 0, n_shorter = 0;
    (void)state;
    for (int i = 0; i < 14; i++) {
        open_bench(&b, 2);
        b.w.device[i % 2].ns_per_kmac *= slow[i / 2];
        if (i % 4 > 1) b.w.device[i % 2].device.store = NULL, b.w.device[i % 2].device.caps.speed = 0;
        b.limit_us = 300e6;
        b.n_shortened = 0;
        if (make(&b, NULL, NULL, &err) < 0) fail_msg("%s", err.what);
        const struct profile_pass *few = &b.p.pass[PASS_FEW], *many = &b.p.pass[PASS_MANY];
        print_message("%d times slower, device %d: %.0f s; few %d %d %d, many %d rows %d %d %d\n", slow[i / 2], i % 2,
            (double)b.w.time.now_us / 1e6, few->reps, few->passes, few->once, many->n_row, many->reps, many->passes,
            many->once);
        assert_true((double)b.w.time.now_us <= b.limit_us);
        assert_int_equal(many->n_row, b.many.n_row);
        assert_int_equal(many->n_left_out, many->n_row < CLOCKED_ROWS ? CLOCKED_ROWS : 0);
        assert_true(few->n_row == 1 && few->n_left_out == 0);
        if (slow[i / 2] < 30) assert_true(b.n_shortened == 0 && many->reps == REPS && many->passes == PASSES);
        assert_true(!many->once || many->reps == 1);
        n_once += many->once, n_shorter += many->n_left_out > 0;
        assert_predicted(&b, 0.15);
    }
    assert_true(n_once > 0 && n_shorter > 0);
}

static void cuts_follow_the_devices(void **state)
{
    static struct bench b;
    const char *down = "matmul 1024>512 F32";
    (void)state;
    open_bench(&b, 2); /* alike: halves */
    made(&b);
    assert_int_equal(kind_of(&b, down)->count, CLOCKED_LAYERS);
    assert_int_equal(kind_of(&b, down)->of[PASS_MANY].part[0], PROFILE_GRID / 2);
    open_bench(&b, 2); /* a third as fast: a quarter */
    b.w.device[1].ns_per_kmac *= 3;
    made(&b);
    assert_int_equal(kind_of(&b, down)->of[PASS_MANY].part[0], PROFILE_GRID * 3 / 4);
    assert_int_equal(b.p.pass[PASS_MANY].best, PLAN_SOLVED);
    open_bench(&b, 2); /* waiting costs more than a row gains, and less than a prompt does */
    b.w.device[1].sync_us = 60;
    made(&b);
    assert_int_equal(b.p.pass[PASS_FEW].best, PLAN_ONE);
    assert_int_equal(kind_of(&b, down)->of[PASS_FEW].part[1], 0);
    assert_int_equal(b.p.pass[PASS_MANY].best == PLAN_ONE, 0);
    open_bench(&b, 2); /* side by side both are slower than one alone */
    b.w.device[0].beside = b.w.device[1].beside = 2.5;
    made(&b);
    assert_int_equal(b.p.pass[PASS_MANY].best, PLAN_ONE);
    assert_int_equal(kind_of(&b, down)->of[PASS_MANY].part[0], PROFILE_GRID);
}

/* One of three is lost: the others' cuts are solved anew from the times that they took side by side, and passes are as
 * short as those of a profile of these two. */
static void what_is_left_is_solved(void **state)
{
    static struct bench b, two;
    static struct plan plan;
    static struct waits waits;
    struct plan_cut cut[CLOCKED_OPS];
    struct device *left[2];
    (void)state;
    for (int lost = 0; lost < 3; lost++) {
        open_bench(&b, 3);
        b.w.device[1].ns_per_kmac *= 2;
        b.w.device[2].ns_per_kmac *= 4;
        made(&b);
        int n = 0;
        for (int d = 0; d < 3; d++)
            if (d != lost) left[n++] = b.w.devices[d];
        assert_true(profile_cuts(&b.p, PASS_MANY, PLAN_SOLVED, &b.w.list, left, 2, cut));
        assert_int_equal(plan_open_cut(&plan, &b.w.list, left, 2, cut, NULL), 0);
        assert_int_equal(plan.n_device, 2);
        waits_init(&waits, clock_virtual(&b.w.time), WAIT_BLOCK);
        uint64_t start = b.w.time.now_us;
        assert_int_equal(plan_run(&plan, &b.pass[PASS_MANY], &waits, NULL, NULL), 0);
        double us = (double)(b.w.time.now_us - start), one = b.p.pass[PASS_MANY].measured[PLAN_ONE].us;
        if (lost == 2) {
            open_bench(&two, 2);
            two.w.device[1].ns_per_kmac *= 2;
            made(&two);
            assert_true(us <= 1.03 * two.p.pass[PASS_MANY].measured[PLAN_SOLVED].us);
        }
        assert_true(us < one * (lost == 0 ? 1.6 : lost == 1 ? 0.9 : 0.8)); /* of 1 + 1/2 + 1/4 */
    }
}

/* Two of them have one name, as npu-sim,npu-sim,cpu. */
static void three_devices_share(void **state)
{
    static struct bench b;
    (void)state;
    open_bench(&b, 3);
    b.w.device[1].ns_per_kmac *= 2;
    b.w.device[2].ns_per_kmac *= 4;
    b.w.device[2].device.name = b.w.device[1].device.name;
    made(&b);
    assert_predicted(&b, 0.05);
    assert_int_equal(b.p.pass[PASS_MANY].best, PLAN_SOLVED);
    const int *part = kind_of(&b, "matmul 512>1024 F32,1024 F32")->of[PASS_MANY].part;
    assert_true(part[0] >= 8 && part[0] <= 10 && part[1] > part[2] && part[2] > 0); /* 4 : 2 : 1 */
    assert_true(b.p.pass[PASS_MANY].measured[PLAN_SOLVED].us < 0.68 * b.p.pass[PASS_MANY].measured[PLAN_ONE].us);
}

/* One device is measured, too. */
static void other_sets_of_devices(void **state)
{
    static struct bench b;
    (void)state;
    open_bench(&b, 1);
    made(&b);
    assert_int_equal(b.p.pass[PASS_FEW].best, PLAN_ONE);
    assert_predicted(&b, 0.02);
}

/* Devices with weights of their own, whose numbers differ: few rows and many have one plan, with one cut or one for
 * each class of rows, and what that needs is prepared.  Waiting that is dear speaks against it for few rows. */
static void devices_that_differ_have_one_plan(void **state)
{
    static struct bench b;
    struct lutra_error err = {.what = ""};
    int n_shared = 0, n_alike = 0;
    (void)state;
    for (int i = 0; i < 6; i++) {
        open_bench(&b, 2);
        b.w.device[1].device.store = NULL;
        b.w.device[0].device.caps.speed = b.w.device[1].device.caps.speed = 0;
        b.w.device[1].ns_per_kmac *= 1 + i % 3;
        b.w.device[1].sync_us = i < 3 ? 4 : 300;
        assert_int_equal(make(&b, NULL, NULL, &err), 0);
        assert_int_equal(b.p.n_device, 2);
        assert_int_equal(b.p.pass[PASS_FEW].best, b.p.pass[PASS_MANY].best);
        for (int k = 0; k < b.p.n_kind; k++) {
            const struct profile_kind *kind = &b.p.kind[k];
            n_shared += kind->cut && kind->of[PASS_MANY].part[0] && kind->of[PASS_MANY].part[1];
            n_alike += kind->cut && !memcmp(kind->of[PASS_FEW].part, kind->of[PASS_MANY].part, sizeof kind->of->part);
        }
        for (int w = 0; w < 6; w++) assert_true(weight_is_ready(&b.w.weight[w], NULL));
        assert_predicted(&b, 0.15);
        double sum[PROFILE_PLANS] = {0};
        for (int c = 0; c < PASS_CLASSES; c++)
            for (int p = 0; p < PROFILE_PLANS; p++)
                sum[p] += b.p.pass[c].measured[p].us / b.p.pass[c].measured[PLAN_ONE].us;
        for (int p = 0; p < PROFILE_PLANS; p++) assert_true(sum[b.p.pass[PASS_FEW].best] <= sum[p]);
    }
    assert_true(n_shared > 0 && n_alike > 0);
}

/* The second is fast, and slow to begin: whole blocks of prompts are its, or a part of them, other rows the first's.
 * Few rows take what they take there alone. */
static void devices_that_differ_share_by_class(void **state)
{
    static struct bench b;
    static struct plan plan;
    struct plan_cut cut[CLOCKED_OPS];
    struct lutra_error err = {.what = ""};
    (void)state;
    open_bench(&b, 2);
    b.w.device[1].device.store = NULL;
    b.w.device[0].device.caps.speed = b.w.device[1].device.caps.speed = 0;
    b.w.device[1].ns_per_kmac /= 8;
    b.w.device[1].fixed_us = 2000;
    assert_int_equal(make(&b, NULL, NULL, &err), 0);
    assert_int_equal(b.p.n_plan, PROFILE_PLANS);
    for (int c = 0; c < PASS_CLASSES; c++) assert_true(b.p.pass[c].best >= PLAN_SOLVED);
    const struct profile_pass *few = &b.p.pass[PASS_FEW], *many = &b.p.pass[PASS_MANY];
    assert_true(few->measured[PLAN_SOLVED].us <= 1.01 * few->measured[PLAN_ONE].us);
    assert_true(many->measured[PLAN_SOLVED].us < 0.5 * many->measured[PLAN_ONE].us);
    assert_true(few->measured[PLAN_CLASS].us <= 1.01 * few->measured[PLAN_ONE].us);
    assert_true(many->measured[PLAN_CLASS].us < 0.5 * many->measured[PLAN_ONE].us);
    static struct profile again;
    const struct profile_key key = {"build", "model", "machine"};
    char *text = profile_text(&b.p, &key);
    if (profile_parse(&again, text, strlen(text), &key, &err) < 0) fail_msg("%s", err.what);
    free(text);
    assert_int_equal(again.n_plan, PROFILE_PLANS);
    assert_int_equal(again.pass[PASS_MANY].best, many->best);
    assert_true(fabs(again.pass[PASS_MANY].measured[PLAN_CLASS].us - many->measured[PLAN_CLASS].us) < 1);
    assert_true(profile_cuts(&b.p, PASS_FEW, PLAN_SOLVED, &b.w.list, b.w.devices, 2, cut));
    assert_int_equal(plan_open_cut(&plan, &b.w.list, b.w.devices, 2, cut, &err), 0);
    assert_true(plan.by_class);
    for (int p = 0; p < plan.n_piece; p++)
        if (plan.piece[p].share.rows == SHARE_ORDINARY)
            assert_ptr_equal(plan.device[plan.piece[p].device], b.w.devices[0]);
    for (int c = 0; c < PASS_CLASSES; c++) { /* free: all rows where few are best, all where many are */
        bool other = false;
        assert_true(profile_cuts(&b.p, (enum pass_class)c, PLAN_FREE, &b.w.list, b.w.devices, 2, cut));
        assert_int_equal(plan_open_cut(&plan, &b.w.list, b.w.devices, 2, cut, &err), 0);
        for (int p = 0; p < plan.n_piece; p++) other |= plan.device[plan.piece[p].device] == b.w.devices[1];
        assert_true(!plan.by_class && other == (c == PASS_MANY));
    }
}

/* How long each device has computed, and until when: a device computes one piece at a time. */
struct told {
    uint64_t until_us[PLAN_DEVICES];
    int n;
};

static void told(void *user, const struct run_event *e)
{
    struct told *t = user;
    if (e->what != RUN_COMPUTE) return;
    uint64_t *until_us = &t->until_us[e->plan->piece[e->piece].device];
    assert_true(e->begin_us >= *until_us && e->end_us >= e->begin_us);
    *until_us = e->end_us;
    t->n++;
}

/* Of devices that do not say when their segments ran it is told that each began behind the one before. */
static void devices_that_say_nothing(void **state)
{
    static struct bench b;
    static struct plan plan;
    static struct waits waits;
    struct lutra_error err = {.what = ""};
    (void)state;
    for (int says = 0; says < 2; says++) {
        struct plan_cut cut[CLOCKED_OPS] = {{0}};
        struct told seen = {{0}, 0};
        open_bench(&b, 2);
        for (int d = 0; d < 2; d++) {
            b.w.device[d].device.caps.async = true;
            if (!says) b.w.device[d].device.extras = NULL;
        }
        for (int i = 0; i < CLOCKED_OPS; i++) cut[i].apart = true;
        assert_int_equal(plan_open_cut(&plan, &b.w.list, b.w.devices, 2, cut, &err), 0);
        waits_init(&waits, clock_virtual(&b.w.time), WAIT_BLOCK);
        waits.told = told, waits.user = &seen;
        assert_int_equal(plan_run(&plan, &b.pass[PASS_FEW], &waits, NULL, &err), 0);
        assert_int_equal(seen.n, plan.n_piece);
    }
}

static int stop_at(void *left, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    return --*(int *)left == 0;
}

static void may_be_cancelled(void **state)
{
    static struct bench b;
    struct lutra_error err = {.what = ""};
    int left = 1 << 30, most;
    (void)state;
    open_bench(&b, 2);
    assert_int_equal(make(&b, stop_at, &left, &err), 0);
    most = (1 << 30) - left;
    for (int at = 1; at <= most; at += 37) {
        open_bench(&b, 2);
        left = at;
        assert_int_equal(make(&b, stop_at, &left, &err), LUTRA_E_CANCELLED);
    }
}

/* A profile of other devices, or of operations that the model does not have. */
static void cuts_are_by_name(void **state)
{
    static struct bench b;
    struct plan_cut cut[CLOCKED_OPS];
    (void)state;
    open_bench(&b, 2);
    b.w.device[1].ns_per_kmac *= 3;
    made(&b);
    assert_false(profile_cuts(&b.p, PASS_MANY, PLAN_SOLVED, &b.w.list, b.w.devices, 0, cut));
    for (int i = 0; i < b.p.n_kind; i++) b.p.kind[i].name[0] = '?';
    assert_true(profile_cuts(&b.p, PASS_MANY, PLAN_SOLVED, &b.w.list, b.w.devices, 2, cut));
    for (int i = 0; i < b.w.list.n_op; i++) assert_true(cut[i].n == 1 && cut[i].device[0] == b.w.devices[0]);
}

/* ---- as text ---- */

static const struct profile_key key = {.build = "1", .model = "abc", .machine = "cpu: a \"quoted\" one"};

static void text_says_the_same(void **state)
{
    static struct bench b;
    static struct profile again;
    struct lutra_error err = {.what = ""};
    (void)state;
    open_bench(&b, 3);
    b.w.device[1].ns_per_kmac *= 2.3;
    made(&b);
    char *text = profile_text(&b.p, &key);
    assert_non_null(text);
    if (profile_parse(&again, text, strlen(text), &key, &err) < 0) fail_msg("%s", err.what);
    char *twice = profile_text(&again, &key);
    assert_string_equal(text, twice);
    for (int k = 0; k < b.p.n_kind; k++)
        for (int c = 0; c < PASS_CLASSES && b.p.kind[k].cut; c++)
            assert_memory_equal(again.kind[k].of[c].part, b.p.kind[k].of[c].part, sizeof again.kind[k].of[c].part);
    for (int c = 0; c < PASS_CLASSES; c++) assert_int_equal(again.pass[c].best, b.p.pass[c].best);
    free(twice);
    free(text);
}

static void other_keys_are_refused(void **state)
{
    static struct bench b;
    static struct profile p;
    static const struct {
        struct profile_key key;
        const char *says;
    } other[] = {{{"2", "abc", "cpu: a \"quoted\" one"}, "build"},
        {{"1", "abd", "cpu: a \"quoted\" one"}, "model file"}, {{"1", "abc", "cpu: another"}, "machine"}};
    struct lutra_error err = {.what = ""};
    (void)state;
    open_bench(&b, 2);
    made(&b);
    char *text = profile_text(&b.p, &key);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(profile_parse(&p, text, strlen(text), &other[i].key, &err), LUTRA_E_UNSUPPORTED);
        if (!strstr(err.what, other[i].says)) fail_msg("%s", err.what);
        assert_int_equal(p.n_kind, 0);
    }
    free(text);
}

/* What a parsed profile promises: cuts that a plan can use. */
static void assert_sound(const struct profile *p)
{
    assert_true(p->n_device >= 1 && p->n_device <= SOLVE_DEVICES && p->n_kind >= 0 && p->n_kind <= PROFILE_KINDS);
    for (int c = 0; c < PASS_CLASSES; c++) {
        assert_true((unsigned)p->pass[c].best < PROFILE_PLANS);
        for (int k = 0; k < p->n_kind; k++) {
            int sum = 0;
            for (int d = 0; d < SOLVE_DEVICES; d++) {
                assert_in_range(p->kind[k].of[c].part[d], 0, d < p->n_device ? PROFILE_GRID : 0);
                sum += p->kind[k].of[c].part[d];
            }
            assert_int_equal(sum, p->kind[k].cut ? PROFILE_GRID : 0);
            assert_true(strlen(p->kind[k].name) > 0);
            for (int set = 0; set < PROFILE_SETS; set++)
                assert_in_range(p->kind[k].of[c].n_joint[set], 0, PROFILE_POINTS);
        }
    }
}

/* Cut short, other bytes, other numbers: refused, or as good as any. */
static void hostile_text_is_refused_or_sound(void **state)
{
    static struct bench b;
    static struct profile p;
    static const char *const with[] = {"-1", "17", "1e400", "null", "[]", "99999999999999999999", "\"x\""};
    struct lutra_error err = {.what = ""};
    uint32_t seed = 7;
    (void)state;
    open_bench(&b, 2);
    made(&b);
    char *text = profile_text(&b.p, &key);
    size_t n = strlen(text);
    for (size_t short_of = 0; short_of < n; short_of += 1 + n / 400)
        assert_true(profile_parse(&p, text, short_of, &key, &err) < 0);
    char *bad = malloc(n + 64);
    for (int i = 0; i < 4000; i++) {
        memcpy(bad, text, n);
        seed = seed * 1664525u + 1013904223u;
        size_t at = seed % n, m = n;
        if (i % 2) { /* another byte, or another number */
            bad[at] = (char)(seed >> 11);
        } else {
            while (at < n && (text[at] < '0' || text[at] > '9')) at++;
            size_t end = at;
            while (end < n && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.' || text[end] == 'e')) end++;
            const char *in = with[seed % 7];
            m = n - (end - at) + strlen(in);
            memcpy(bad + at, in, strlen(in));
            memcpy(bad + at + strlen(in), text + end, n - end);
        }
        if (profile_parse(&p, bad, m, &key, &err) == 0)
            assert_sound(&p);
        else
            assert_int_equal(p.n_kind, 0);
    }
    free(bad);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices_that_differ_share_by_class),
        cmocka_unit_test(predictions_come_true), cmocka_unit_test(waits_of_balanced_cuts),
        cmocka_unit_test(passes_are_cold), cmocka_unit_test(others_disturb), cmocka_unit_test(parts_end_together),
        cmocka_unit_test(time_is_limited), cmocka_unit_test(slow_devices_keep_the_limit),
        cmocka_unit_test(cuts_follow_the_devices), cmocka_unit_test(what_is_left_is_solved),
        cmocka_unit_test(three_devices_share), cmocka_unit_test(other_sets_of_devices),
        cmocka_unit_test(devices_that_differ_have_one_plan), cmocka_unit_test(devices_that_say_nothing),
        cmocka_unit_test(may_be_cancelled), cmocka_unit_test(cuts_are_by_name), cmocka_unit_test(text_says_the_same),
        cmocka_unit_test(other_keys_are_refused), cmocka_unit_test(hostile_text_is_refused_or_sound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
