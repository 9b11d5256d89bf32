/* SPDX-License-Identifier: MIT
 *
 * Models with devices of their own run passes at the same time: a pass of one is held until a pass of the other has
 * begun, which would never be if they took turns; and texts are those of each alone.
 */
#include <pthread.h>
#include <time.h>

#include "engine/model_impl.h"
#include "engine/session_impl.h"
#include "engine_fixture.h"

enum { N_TOKENS = 64, WAIT_S = 20, HELD = 3 };

static bool have_two(void)
{
    int cpu[4] = {0};
    return cpu_allowed(cpu, 4) >= 2 && cpu[0] == 0 && cpu[1] == 1;
}

/* ---- devices that meet ---- */

/* The first HELD passes of device 0 that is_held() names wait until device 1 has been given work since; with drafts,
 * until a draft model's own thread has given it some since the caller last heard of a token: it may be through before
 * the pass is here. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const struct device_ops *ops[2];
    struct device_ops own[2];
    pthread_t caller;
    long n_second, n_heard; /* with drafts, not of the caller's; when a token was heard of */
    int n_held, n_met;
    bool every, drafts; /* which passes: all, or those with drafts in them */
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool is_held(const struct segment *s)
{
    if (s->op != s->list->op) return false; /* not its first piece */
    const struct batch *b = s->pass->batch;
    for (int r = 0; r < b->n_row; r++)
        if (meeting.every || (meeting.drafts && b->row[r].want & ROW_DRAFT)) return true;
    return false;
}

static int submit_first(struct device *self, const struct segment *s, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    pthread_mutex_lock(&meeting.lock);
    if (is_held(s) && meeting.n_held < HELD) {
        long n = meeting.drafts ? meeting.n_heard : meeting.n_second;
        meeting.n_held++;
        while (meeting.n_second == n && pthread_cond_timedwait(&meeting.changed, &meeting.lock, &end) == 0) continue;
        meeting.n_met += meeting.n_second != n;
    }
    pthread_mutex_unlock(&meeting.lock);
    return meeting.ops[0]->submit(self, s, after, n_after, out, err);
}

static int submit_second(struct device *self, const struct segment *s, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    pthread_mutex_lock(&meeting.lock);
    meeting.n_second += !meeting.drafts || !pthread_equal(pthread_self(), meeting.caller);
    pthread_cond_broadcast(&meeting.changed);
    pthread_mutex_unlock(&meeting.lock);
    return meeting.ops[1]->submit(self, s, after, n_after, out, err);
}

static void begin_meeting(lutra_runtime *rt, bool every, bool drafts)
{
    for (int i = 0; i < 2; i++) {
        meeting.ops[i] = rt->devices.device[i]->ops;
        meeting.own[i] = *meeting.ops[i];
        meeting.own[i].submit = i ? submit_second : submit_first;
        rt->devices.device[i]->ops = &meeting.own[i];
    }
    meeting.n_held = meeting.n_met = 0;
    meeting.n_second = meeting.n_heard = 0;
    meeting.caller = pthread_self();
    meeting.every = every, meeting.drafts = drafts;
}

static void end_meeting(lutra_runtime *rt)
{
    for (int i = 0; i < 2; i++) rt->devices.device[i]->ops = meeting.ops[i];
}

/* ---- answers ---- */

struct answer {
    int32_t token[N_TOKENS + 1];
    int n;
};

static int note(void *user, const struct lutra_piece *piece)
{
    struct answer *a = user;
    pthread_mutex_lock(&meeting.lock);
    meeting.n_heard = meeting.n_second;
    pthread_mutex_unlock(&meeting.lock);
    if (piece->token < 0) return 0;
    assert_true(a->n < N_TOKENS);
    a->token[a->n++] = piece->token;
    return 0;
}

static void generate(lutra_session *s, float temperature, struct answer *out)
{
    struct lutra_request r;
    struct lutra_sampling sampling;
    int32_t prompt[20];
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 20; i++) prompt[i] = token_at(i);
    lutra_request_init(&r, sizeof r);
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = temperature;
    sampling.seed = 11;
    r.prompt = prompt, r.n_prompt = 20;
    r.max_tokens = N_TOKENS;
    r.ignore_end = true;
    r.sampling = &sampling;
    r.on_text = note, r.user = out;
    OK(lutra_generate(s, &r, err));
}

static void open_on(struct fixture *f, const char *path, const char *device, lutra_model **out)
{
    struct lutra_model_settings ms;
    lutra_model_settings_init(&ms, sizeof ms);
    ms.device = device;
    OK(lutra_model_open(out, f->rt, path, &ms, err));
    assert_int_equal((*out)->plan.n_device, 1);
    assert_string_equal((*out)->plan.device[0]->name, device);
}

static void open_session(lutra_session **out, lutra_model *model, lutra_model *draft)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 256;
    ss.draft_model = draft;
    ss.draft_max = 4;
    ss.draft_p_min = 0;
    ss.experiment = fixture_row_cost(0.02f);
    OK(lutra_session_open(out, model, &ss, err));
}

/* The model itself on cpu:1 drafts for the one on cpu:0, and goes on while that one judges; another model does, too. */
static void a_draft_model_goes_on_while_it_is_judged(void **state)
{
    struct fixture f;
    static struct answer alone, drafted;
    lutra_model *draft = NULL, *other = NULL;
    struct lutra_make_model_settings make;
    char path[80];
    (void)state;
    if (!have_two()) skip();
    fixture_make_split(&f, &(struct where){"cpu:0,cpu:1", NULL}, NULL, "tiny-qwen2", "Q4_0", 0, 0);
    snprintf(path, sizeof path, "%s.2", f.path);
    lutra_make_model_settings_init(&make, sizeof make);
    make.shape = "tiny-qwen2", make.seed = 6;
    OK(lutra_make_model(f.rt, path, &make, err));
    open_on(&f, f.path, "cpu:0", &f.model);
    open_on(&f, f.path, "cpu:1", &draft);
    open_on(&f, path, "cpu:1", &other);
    for (int i = 0; i < 4; i++) {
        float temperature = i % 2 ? 0.8f : 0;
        open_session(&f.s, f.model, NULL);
        generate(f.s, temperature, &alone);
        assert_int_equal(alone.n, N_TOKENS);
        lutra_session_close(&f.s);
        open_session(&f.s, f.model, i < 2 ? draft : other);
        begin_meeting(f.rt, false, true);
        generate(f.s, temperature, &drafted);
        end_meeting(f.rt);
        assert_memory_equal(&alone, &drafted, sizeof alone);
        assert_int_equal(meeting.n_held, HELD);
        assert_int_equal(meeting.n_met, HELD);
        struct lutra_stats st;
        lutra_session_stats_get(f.s, &st, sizeof st);
        assert_true(st.rows_drafted > 0);
        if (i < 2) assert_true(st.n_pass <= N_TOKENS / 3); /* its own guesses are all right, those of before, too */
        lutra_session_close(&f.s);
    }
    lutra_model_close(&draft);
    lutra_model_close(&other);
    unlink(path);
    fixture_close(&f);
}

struct job {
    lutra_session *s;
    struct answer answer;
    atomic_bool stop;
};

static void *generate_on(void *arg)
{
    struct job *j = arg;
    do generate(j->s, 0, &j->answer);
    while (!atomic_load(&j->stop));
    return NULL;
}

/* Two models, two threads. */
static void two_requests_run_at_once(void **state)
{
    struct fixture f;
    struct answer alone;
    struct job job = {0};
    lutra_model *second = NULL;
    pthread_t thread;
    static struct answer answer;
    (void)state;
    if (!have_two()) skip();
    fixture_make_split(&f, &(struct where){"cpu:0,cpu:1", NULL}, NULL, "tiny-qwen2", "Q4_0", 0, 0);
    open_on(&f, f.path, "cpu:0", &f.model);
    open_on(&f, f.path, "cpu:1", &second);
    open_session(&f.s, f.model, NULL);
    open_session(&job.s, second, NULL);
    generate(f.s, 0, &alone);
    begin_meeting(f.rt, true, false);
    assert_int_equal(pthread_create(&thread, NULL, generate_on, &job), 0);
    generate(f.s, 0, &answer);
    atomic_store(&job.stop, true);
    pthread_join(thread, NULL);
    end_meeting(f.rt);
    assert_int_equal(meeting.n_met, HELD);
    assert_memory_equal(&alone, &answer, sizeof alone);
    assert_memory_equal(&alone, &job.answer, sizeof alone);
    lutra_session_close(&job.s);
    lutra_session_close(&f.s);
    lutra_model_close(&second);
    fixture_close(&f);
}

static void names_are_checked(void **state)
{
    struct fixture f;
    struct lutra_model_settings ms;
    struct lutra_error why;
    (void)state;
    fixture_make_split(&f, &(struct where){"cpu,cpu-ref", NULL}, NULL, "tiny-qwen2", "Q4_0", 0, 0);
    lutra_model_settings_init(&ms, sizeof ms);
    ms.device = "cpu-ref,gpu";
    assert_int_equal(lutra_model_open(&f.model, f.rt, f.path, &ms, &why), LUTRA_E_ARGUMENT);
    assert_string_equal(why.what, "device: 'gpu' is no device of this runtime (cpu, cpu-ref)");
    ms.device = "";
    assert_int_equal(lutra_model_open(&f.model, f.rt, f.path, &ms, &why), LUTRA_E_ARGUMENT);
    open_on(&f, f.path, "cpu-ref", &f.model);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_draft_model_goes_on_while_it_is_judged),
        cmocka_unit_test(two_requests_run_at_once), cmocka_unit_test(names_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
