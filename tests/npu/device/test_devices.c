/* SPDX-License-Identifier: MIT
 *
 * A model over a list of devices: two emulated NPUs and the CPU.  The bits are those of one NPU wherever an operation
 * or a layer's cache lies; whichever is lost, and when, the others go on from the last commit.
 */
#include "device_fixture.h"

/* A device whose operations are those of another, but for some that it leaves to the next. */
struct narrow {
    struct device_ops ops;
    int (*supports)(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err);
    enum split { NOTHING, PRODUCTS, ATTENTION, EVEN_LAYERS } split;
};
static struct narrow narrow;

static int supports_some(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    bool cache = op_info_of(op->kind)->reads_cache || op_info_of(op->kind)->writes_cache;
    bool mine = narrow.split == PRODUCTS      ? op->n_weight > 0
                : narrow.split == ATTENTION   ? cache
                : narrow.split == EVEN_LAYERS ? op->layer % 2 == 0
                                              : false;
    return mine ? narrow.supports(self, list, op, err) : lutra_fail(err, LUTRA_E_UNSUPPORTED, "left to the next");
}

static void open_on_list(struct fixture *f, const char *devices, enum split split)
{
    struct lutra_runtime_settings rs;
    struct lutra_session_settings ss;
    memset(f, 0, sizeof *f);
    lutra_runtime_settings_init(&rs, sizeof rs);
    lutra_session_settings_init(&ss, sizeof ss);
    rs.device = devices, rs.n_threads = 2;
    ss.n_seq = 2, ss.n_ctx = 128, ss.n_batch = 8, ss.n_out = 2;
    rs.npu_window_bytes = 16 << 20;
    OK(lutra_runtime_open(&f->rt, &rs, err));
    if (f->rt->devices.n_device > 2) { /* the first of two NPUs */
        struct device *d = f->rt->devices.device[0];
        narrow = (struct narrow){*d->ops, d->ops->supports, split};
        narrow.ops.supports = supports_some;
        d->ops = &narrow.ops;
    }
    OK(lutra_model_open(&f->model, f->rt, MODEL, NULL, err));
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

enum { PASSES = 14 };
struct trace {
    float logits[PASSES][N_VOCAB];
};

/* A prompt, a fork, single rows, drafts and their commit over the end of a block; before pass `at` a device is lost. */
static void play(struct fixture *f, struct trace *t, int at, int device)
{
    int32_t a, b;
    int pass = 0;
#define PASS(...)                                                                                                      \
    do {                                                                                                               \
        if (pass == at) ((struct npu_device *)f->rt->devices.device[device])->window[0].link->lost = true;             \
        memcpy(t->logits[pass++], feed(f->s, __VA_ARGS__), sizeof t->logits[0]);                                       \
    } while (0)
    OK(lutra_seq_open(f->s, 0, &a, err));
    for (int i = 0; i < 56; i += 8) PASS(a, i, 8, 0);
    OK(lutra_seq_fork(f->s, a, -1, 0, &b, err));
    PASS(a, 56, 1, 0);
    PASS(b, 56, 3, 0);
    PASS(b, 59, 7, LUTRA_ROW_DRAFT);
    OK(lutra_commit(f->s, 6, err));
    for (int i = 66; i < 69; i++) PASS(b, i, 1, 0);
    PASS(a, 57, 1, 0);
#undef PASS
    assert_int_equal(pass, PASSES);
    lutra_seq_close(f->s, a);
    lutra_seq_close(f->s, b);
}

static void play_on_one(struct trace *t)
{
    struct fixture f;
    open_on_list(&f, "npu-sim", NOTHING);
    play(&f, t, -1, 0);
    shut(&f);
}

static void assert_near(const struct trace *a, const struct trace *b)
{
    for (int i = 0; i < PASSES; i++)
        for (int k = 0; k < N_VOCAB; k++) assert_true(fabsf(a->logits[i][k] - b->logits[i][k]) < 0.1f);
}

static void bits_of_one_npu(void **state)
{
    static struct trace one, two;
    struct fixture f;
    (void)state;
    play_on_one(&one);
    for (enum split split = NOTHING; split <= EVEN_LAYERS; split++) {
        open_on_list(&f, "npu-sim,npu-sim,cpu", split);
        assert_int_equal(f.model->plan.n_device, split == NOTHING ? 1 : 2);
        play(&f, &two, -1, 0);
        assert_memory_equal(&one, &two, sizeof one);
        play(&f, &two, -1, 0); /* over a used cache */
        assert_memory_equal(&one, &two, sizeof one);
        shut(&f);
    }
}

/* The other NPU takes over with the same bits, and after it the CPU with nearly the same. */
static void any_of_them_may_be_lost(void **state)
{
    static struct trace one, two;
    struct fixture f;
    (void)state;
    const int step = getenv("LUTRA_TEST_LONG") ? 1 : 6; /* each split at passes of its own */
    play_on_one(&one);
    for (enum split split = PRODUCTS; split <= EVEN_LAYERS; split++)
        for (int at = (2 * (int)split - 2) % step; at < PASSES; at += step) {
            open_on_list(&f, "npu-sim,npu-sim", split);
            play(&f, &two, at, 0);
            assert_memory_equal(&one, &two, sizeof one);
            assert_ptr_equal(runtime_first(f.rt), f.rt->devices.device[1]);
            assert_int_equal(f.model->plan.n_device, 1);
            play(&f, &two, at, 1);
            assert_near(&one, &two);
            assert_ptr_equal(runtime_first(f.rt), f.rt->devices.cpu);
            shut(&f);
        }
    for (int at = 1; at < PASSES; at += 6) { /* the second alone: what it did goes to the CPU */
        open_on_list(&f, "npu-sim,npu-sim", EVEN_LAYERS);
        play(&f, &two, at, 1);
        assert_near(&one, &two);
        assert_int_equal(f.model->plan.n_device, 2);
        assert_ptr_equal(runtime_first(f.rt), f.rt->devices.device[0]);
        shut(&f);
    }
}

/* Two sessions of a model: one loses a device, and the other finds another plan at its next pass. */
static void another_session_follows(void **state)
{
    (void)state;
    for (enum split split = NOTHING; split <= EVEN_LAYERS; split++) {
        static float after[2][2][N_VOCAB]; /* on one NPU or two, of either session */
        for (int two = 0; two < 2; two++) {
            struct lutra_session_settings ss;
            struct fixture f;
            lutra_session *s[2];
            int32_t seq[2];
            open_on_list(&f, two ? "npu-sim,npu-sim" : "npu-sim", split);
            lutra_session_settings_init(&ss, sizeof ss);
            ss.n_seq = 1, ss.n_ctx = 64, ss.n_batch = 8, ss.n_out = 1;
            s[0] = f.s;
            OK(lutra_session_open(&s[1], f.model, &ss, err));
            for (int i = 0; i < 2; i++) OK(lutra_seq_open(s[i], 0, &seq[i], err));
            for (int i = 0; i < 2; i++) feed(s[i], seq[i], 0, 8, 0);
            if (two) ((struct npu_device *)f.rt->devices.device[0])->window[0].link->lost = true;
            for (int i = 0; i < 2; i++) memcpy(after[two][i], feed(s[i], seq[i], 8, 4, 0), sizeof after[two][i]);
            lutra_session_close(&s[1]);
            shut(&f);
        }
        assert_memory_equal(after[0], after[1], sizeof after[0]);
    }
}

static void lists_are_read_in_order(void **state)
{
    static const struct {
        const char *device, *says;
    } bad[] = {{"npu-sim,,cpu", "device '' is not known"}, {"cpu,npu-simm", "device 'npu-simm' is not known"},
        {"cpu,", "device '' is not known"}, {" cpu", "device ' cpu' is not known"},
        {"cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", "more than 8 devices"}};
    struct lutra_runtime_settings rs;
    struct lutra_error why;
    struct fixture f;
    (void)state;
    open_on_list(&f, "cpu,npu-sim", NOTHING); /* the CPU can do all */
    assert_int_equal(f.rt->devices.n_device, 2);
    assert_int_equal(f.model->plan.n_device, 1);
    assert_ptr_equal(f.model->plan.device[0], f.rt->devices.cpu);
    assert_non_null(strstr(lutra_runtime_device_text(f.rt), "; npu-sim, 16 MiB"));
    shut(&f);
    lutra_runtime_settings_init(&rs, sizeof rs);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rs.device = bad[i].device;
        assert_true(lutra_runtime_open(&f.rt, &rs, &why) < 0);
        assert_non_null(strstr(why.what, bad[i].says));
    }
}

/* Outputs that are prepared: on the NPU, and on the CPU. */
static void count_outputs(const struct fixture *f, int64_t n[2])
{
    n[0] = n[1] = 0;
    for (int i = 0; i < model_n_weight(f->model->model); i++)
        for (int d = 0; d < 2; d++) {
            const struct held *h = weight_held(model_weight(f->model->model, i), f->rt->devices.device[d]);
            if (h) n[d] += h->has.n;
        }
}

static void open_shared(struct fixture *f, const char *devices, const char *split)
{
    struct lutra_runtime_settings rs;
    struct lutra_session_settings ss;
    memset(f, 0, sizeof *f);
    lutra_runtime_settings_init(&rs, sizeof rs);
    lutra_session_settings_init(&ss, sizeof ss);
    rs.device = devices, rs.n_threads = 2, rs.split = split, rs.npu_window_bytes = 16 << 20;
    ss.n_seq = 2, ss.n_ctx = 128, ss.n_batch = 8, ss.n_out = 2;
    OK(lutra_runtime_open(&f->rt, &rs, err));
    OK(lutra_model_open(&f->model, f->rt, MODEL, NULL, err));
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

/* An NPU and the CPU share products: each has its own outputs only; a row's bits do not depend on how many are beside
 * it; when the NPU is lost the CPU prepares what it lacks and goes on. */
static void products_are_shared_with_the_cpu(void **state)
{
    static struct trace one, two, cpu;
    static const char *const devices[] = {"npu-sim,cpu", "cpu,npu-sim"};
    struct fixture f;
    int64_t apart[2], after[2];
    int32_t seq;
    (void)state;
    open_shared(&f, "cpu", NULL);
    play(&f, &cpu, -1, 0);
    shut(&f);
    for (int i = 0; i < 2; i++) {
        open_shared(&f, devices[i], "1,1");
        const int npu = i;
        assert_true(plan_mixes(&f.model->plan) && plan_mixes(&f.model->plan_many));
        count_outputs(&f, apart);
        assert_true(apart[0] > 0 && apart[1] > 0);
        play(&f, &one, -1, 0);
        assert_near(&cpu, &one);
        /* One row at a time. */
        OK(lutra_seq_open(f.s, 0, &seq, err));
        for (int p = 0; p < 56; p++) {
            const float *logits = feed(f.s, seq, p, 1, 0);
            if (p % 8 == 7) assert_memory_equal(logits, one.logits[p / 8], sizeof one.logits[0]);
        }
        lutra_seq_close(f.s, seq);
        play(&f, &two, 9, npu); /* lost before pass 9 */
        assert_memory_equal(&one, &two, 9 * sizeof one.logits[0]);
        assert_near(&cpu, &two);
        assert_ptr_equal(runtime_first(f.rt), f.rt->devices.cpu);
        count_outputs(&f, after);
        assert_int_equal(after[npu], 0);
        assert_true(after[1 - npu] > apart[1 - npu]);
        shut(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_shared_with_the_cpu),
        cmocka_unit_test(bits_of_one_npu), cmocka_unit_test(any_of_them_may_be_lost),
        cmocka_unit_test(another_session_follows), cmocka_unit_test(lists_are_read_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
