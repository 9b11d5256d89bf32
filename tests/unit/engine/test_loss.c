/* SPDX-License-Identifier: MIT
 *
 * A cluster of CPUs that is lost, at any call of a pass and at random ones of an answer, or that takes up no work any
 * more, where all share rows by outputs or by class: the others go on from the last commit, and no token is repeated,
 * skipped or another.
 */
#include "cpu/device_impl.h"
#include "engine/model_impl.h"
#include "engine/session_impl.h"
#include "loss_fixture.h"

enum { N_TOKENS = 64, N_PROMPT = 80, RANDOM = SANITIZED ? 6 : 16, RANDOM_LONG = 200, DEVICES = 3 };

static bool have_two(void)
{
    int cpu[4] = {0};
    return cpu_allowed(cpu, 4) >= 2 && cpu[0] == 0 && cpu[1] == 1;
}

/* ---- a device that is lost at its n-th call ---- */

static struct {
    const struct device_ops *ops;
    struct device_ops own;
    long calls_left; /* -1: never */
    long n_call;
    bool is_asked;      /* whether it has ended that */
    struct ticket last; /* of what it was given */
} failing;

static bool is_alive(void)
{
    failing.n_call++;
    if (failing.calls_left > 0) failing.calls_left--;
    if (!failing.calls_left) loss_begins();
    return failing.calls_left != 0;
}

/* A device that says that it is lost does not write any more: here, since it has ended what it had begun. */
static int be_lost(struct device *self, struct lutra_error *err)
{
    if (failing.last.id) failing.ops->wait(self, &failing.last, NULL);
    return lutra_fail(err, LUTRA_E_DEVICE_LOST, "%s is gone", self->name);
}

static int fail_submit(struct device *self, const struct segment *s, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    if (!is_alive()) return be_lost(self, err);
    int rc = failing.ops->submit(self, s, after, n_after, out, err);
    failing.last = *out;
    failing.is_asked = false;
    return rc;
}

static int fail_wait(struct device *self, const struct ticket *t, struct lutra_error *err)
{
    return is_alive() ? failing.ops->wait(self, t, err) : be_lost(self, err);
}

/* How often it is asked depends on the time: the first question behind a submit counts. */
static bool fail_done(struct device *self, const struct ticket *t)
{
    bool alive = failing.is_asked ? failing.calls_left != 0 : is_alive();
    failing.is_asked = true;
    return alive ? failing.ops->done(self, t) : true; /* wait tells */
}

static void make_failing(struct device *d, long calls)
{
    failing.ops = d->ops;
    failing.own = *d->ops;
    failing.own.submit = fail_submit;
    failing.own.wait = fail_wait;
    failing.own.done = fail_done;
    failing.calls_left = calls;
    failing.n_call = 0;
    failing.last = (struct ticket){0};
    d->ops = &failing.own;
}

/* ---- answers ---- */

struct answer {
    int32_t token[N_TOKENS];
    int n;
};

static int note(void *user, const struct lutra_piece *piece)
{
    struct answer *a = user;
    if (piece->token < 0) return 0;
    assert_true(a->n < N_TOKENS);
    a->token[a->n++] = piece->token;
    return 0;
}

static void generate(lutra_session *s, int n, struct answer *out)
{
    struct lutra_request r;
    struct lutra_sampling sampling;
    int32_t prompt[N_PROMPT];
    memset(out, 0, sizeof *out);
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_at(i);
    lutra_request_init(&r, sizeof r);
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = 3;
    r.prompt = prompt, r.n_prompt = N_PROMPT;
    r.max_tokens = n;
    r.ignore_end = true;
    r.sampling = &sampling;
    r.on_text = note, r.user = out;
    OK(lutra_generate(s, &r, err));
    assert_int_equal(out->n, n);
}

static char said[4096]; /* by the log */

static void hear(void *user, enum lutra_log_level level, const char *line)
{
    size_t n = strlen(said);
    (void)user;
    loss_hear(line);
    if (level <= LUTRA_LOG_WARN && n + strlen(line) + 2 < sizeof said)
        snprintf(said + n, sizeof said - n, "%s\n", line);
}

static const char *split; /* of the clusters */

/* Two more clusters beside the first, which hold parts of every product. */
static void open_clusters(struct fixture *f, const char *path)
{
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.device = "cpu:0,cpu:1,cpu:0-1", rs.split = split;
    rs.log = hear;
    said[0] = 0;
    loss.gone_ms = 0;
    memset(f, 0, sizeof *f);
    OK(lutra_runtime_open(&f->rt, &rs, err));
    OK(lutra_model_open(&f->model, f->rt, path, NULL, err));
    fixture_session(f, 1, 256);
}

static void close_clusters(struct fixture *f)
{
    lutra_session_close(&f->s);
    lutra_model_close(&f->model);
    lutra_runtime_close(&f->rt);
}

static bool is_planned(const struct fixture *f, const struct device *d)
{
    return model_uses(f->model, d);
}

/* The answer where device `at` is lost at a call; whether it came so far. */
static bool lose(const char *path, int at, long call, int n, const struct answer *want)
{
    static struct answer got;
    struct fixture f;
    open_clusters(&f, path);
    struct device *d = f.rt->devices.device[at];
    assert_true(is_planned(&f, d));
    make_failing(d, call);
    generate(f.s, n, &got);
    if (memcmp(want, &got, sizeof got)) fail_msg("cluster %d lost at call %ld: another answer", at, call);
    bool lost = !failing.calls_left;
    assert_int_equal(is_planned(&f, d), !lost);
    loss_check_log(said, at == 1 ? "cpu:1" : "cpu:0-1", lost);
    d->ops = failing.ops;
    close_clusters(&f);
    return lost;
}

static char path[64];

/* At every call of two passes, and at random ones of a long answer. */
static void lose_at_calls(void)
{
    static struct answer want, all;
    struct fixture f;
    int n_lost = 0, n_random_lost = 0;
    uint32_t seed = 1;
    const bool is_long = getenv("LUTRA_TEST_LONG") != NULL;
    const int n_random = is_long ? RANDOM_LONG : split ? RANDOM / 2 : RANDOM;
    const int step = is_long ? 1 : SANITIZED ? 7 : split ? 3 : 1;
    fixture_make_split(&f, &(struct where){0}, NULL, "tiny-qwen2", "Q4_0", 0, 1);
    snprintf(path, sizeof path, "%s", f.path);
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    fixture_session(&f, 1, 256);
    generate(f.s, 2, &want); /* the prompt's pass, and one more */
    struct loss_held held = {0};
    for (int at = 1; at < DEVICES; at++)
        for (long call = 1; lose(path, at, call, 2, &want); call += step)
            if (++n_lost == 40 / step) held = loss_held_now();
    assert_true(n_lost > 40 / step);
    loss_check_held("clusters", held);

    generate(f.s, N_TOKENS, &want);
    close_clusters(&f);
    open_clusters(&f, path); /* how many calls there are */
    assert_int_equal(model_plan(f.model, 1)->by_class, split != NULL);
    make_failing(f.rt->devices.device[1], -1);
    loss.calm_ms = -loss_clock_ms();
    generate(f.s, N_TOKENS, &all);
    loss.calm_ms += loss_clock_ms();
    assert_memory_equal(&want, &all, sizeof all);
    long n_call = failing.n_call;
    f.rt->devices.device[1]->ops = failing.ops;
    close_clusters(&f);
    for (int i = 0; i < n_random; i++) {
        seed = seed * 1664525u + 1013904223u;
        n_random_lost += lose(path, 1, 1 + (long)(seed % (uint32_t)n_call), N_TOKENS, &want);
    }
    print_message("%s: lost at %d calls of two passes and %d of an answer; the next token took %.0f ms at most\n",
        split ? split : "by speed", n_lost, n_random_lost, loss.slowest_ms);
    assert_true(2 * n_random_lost > n_random);
    loss_check_time("clusters");
    unlink(path);
}

static void any_call_may_be_the_last(void **state)
{
    (void)state;
    if (!have_two()) skip();
    split = NULL;
    lose_at_calls();
    split = "1,2,1/2,1,1"; /* prompts' blocks, other rows */
    lose_at_calls();
    split = NULL;
}

/* A driver that stands still: its segment is withdrawn, and the answer goes on without it. */
static void a_silent_cluster_is_lost(void **state)
{
    static struct answer want, got;
    struct fixture f;
    (void)state;
    if (!have_two()) skip();
    fixture_make_split(&f, &(struct where){0}, NULL, "tiny-qwen2", "Q4_0", 0, 1);
    snprintf(path, sizeof path, "%s", f.path);
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    fixture_session(&f, 1, 256);
    generate(f.s, 8, &want);
    close_clusters(&f);
    open_clusters(&f, path);
    struct cpu_device *cpu = (struct cpu_device *)f.rt->devices.device[1];
    generate(f.s, 8, &got);
    assert_memory_equal(&want, &got, sizeof got);
    cpu_driver_freeze(cpu->driver, true);
    generate(f.s, 8, &got);
    assert_memory_equal(&want, &got, sizeof got);
    assert_false(is_planned(&f, &cpu->base));
    assert_true(is_planned(&f, f.rt->devices.device[2]));
    assert_non_null(strstr(said, "cpu:1 is lost"));
    assert_non_null(strstr(said, "the pass that lost cpu:1 is done"));
    cpu_driver_freeze(cpu->driver, false); /* too late: it does not write into what others use now */
    generate(f.s, 8, &got);
    assert_memory_equal(&want, &got, sizeof got);
    close_clusters(&f);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_call_may_be_the_last), cmocka_unit_test(a_silent_cluster_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
