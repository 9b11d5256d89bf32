/* SPDX-License-Identifier: MIT
 *
 * More requests than there is memory for: the youngest give theirs to older ones and come back, and say what each says
 * alone, every token once.  Requests that do not fit are passed by, but not by many.
 */
#include "engine_fixture.h"
#include "engine/session_impl.h"

enum { N_MOST = 24, N_SAID = 200, N_SAMPLE = 3 };

struct heard {
    int32_t token[N_SAMPLE][N_SAID];
    float log_prob[N_SAMPLE][N_SAID];
    int n[N_SAMPLE], n_end, n_pass[N_SAMPLE], n_prompt;
    int began; /* how many had begun before it */
    bool told; /* of its prompt */
};
static int n_begun;

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    if (p->token < 0) return 0;
    assert_in_range(h->n[p->sample], 0, N_SAID - 1);
    h->log_prob[p->sample][h->n[p->sample]] = p->log_prob;
    h->token[p->sample][h->n[p->sample]++] = p->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    struct heard *h = user;
    assert_int_equal(e->reason, LUTRA_STOP_LENGTH);
    h->n_pass[e->sample] = e->n_pass;
    h->n_end++;
}

static void on_prompt(void *user, int32_t request, int n_done, int n_prompt)
{
    struct heard *h = user;
    (void)request;
    assert_true((n_done > h->n_prompt || !h->told) && n_done <= n_prompt); /* nothing is told twice */
    if (!h->told) h->began = n_begun++;
    h->told = true;
    h->n_prompt = n_done;
}

static void submit(lutra_session *s, int first, int n_prompt, int n_samples, int max_tokens, struct heard *h)
{
    int32_t prompt[1024];
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    for (int i = 0; i < n_prompt; i++) prompt[i] = token_at(first + i);
    r.prompt = prompt, r.n_prompt = n_prompt, r.n_samples = n_samples, r.max_tokens = max_tokens, r.ignore_end = true;
    r.on_text = on_text, r.on_end = on_end, r.on_prompt = on_prompt, r.user = h;
    memset(h, 0, sizeof *h);
    OK(lutra_submit(s, &r, NULL, err));
}

static void open_session(struct fixture *f, int n_seq, int n_ctx, int64_t n_cache, const char *spec)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = n_seq, ss.n_ctx = n_ctx, ss.n_cache = n_cache, ss.spec_type = spec, ss.n_draft = 8;
    if (spec) ss.experiment = fixture_row_cost(0.1f);
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

static void run(lutra_session *s)
{
    for (int n_active = 1; n_active;) OK(lutra_step(s, &n_active, err));
}

static void assert_same(const struct heard *a, const struct heard *b)
{
    for (int k = 0; k < N_SAMPLE; k++) {
        assert_int_equal(a->n[k], b->n[k]);
        assert_memory_equal(a->token[k], b->token[k], sizeof a->token[k]);
        assert_memory_equal(a->log_prob[k], b->log_prob[k], sizeof a->log_prob[k]);
    }
}

static struct heard alone[4], crowded[4];

/* Four requests in a cache that is too small for two and a half; prompts end in and at a block's end. */
static void check(const char *device, const char *shape, const char *spec, int n_said)
{
    static const int n_prompt[4] = {100, 128, 97, 128};
    struct fixture f;
    int n_ctx = n_said > 100 ? 512 : 256;
    fixture_open_on(&f, &(struct where){device, NULL}, shape, "Q4_0", 2);
    for (int i = 0; i < 4; i++) {
        open_session(&f, 1, n_ctx, 0, NULL);
        submit(f.s, 50 * i, n_prompt[i], 1, n_said, &alone[i]);
        run(f.s);
    }
    open_session(&f, 4, n_ctx, n_ctx, spec);
    for (int i = 0; i < 4; i++) submit(f.s, 50 * i, n_prompt[i], 1, n_said, &crowded[i]);
    run(f.s);
    for (int i = 0; i < 4; i++) assert_same(&alone[i], &crowded[i]);
    int n = (int)f.s->stats.n_preempted;
    print_message("%s, %s, %s: %d times\n", device, shape, spec ? spec : "no drafts", n);
    assert_in_range(n, 1, 40);
    if (!spec) assert_int_equal(crowded[0].n_pass[0], alone[0].n_pass[0]); /* the oldest goes on in every pass */
    struct kv_usage u;
    kv_usage(f.s->kv, &u);
    assert_int_equal(u.n_promised, 0);
    fixture_close(&f);
}

static void preempted_requests_say_the_same(void **state)
{
    (void)state;
    check("cpu", "tiny-qwen2", NULL, N_SAID);
    check("cpu", "tiny-qwen2", "auto", N_SAID);
    check("npu-sim:lookup", "tiny-qwen2", NULL, 40); /* whose prompts' blocks are of another class */
    check("cpu", "tiny-qwen35", NULL, N_SAID);
}

/* One request whose samples do not fit together: its own last ones wait. */
static void samples_of_one_request_take_turns(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, N_SAMPLE, 512, 4096, NULL);
    submit(f.s, 0, 200, N_SAMPLE, N_SAID, &alone[0]);
    run(f.s);
    assert_int_equal(f.s->stats.n_preempted, 0);
    open_session(&f, N_SAMPLE, 448, 448, NULL); /* 10 blocks; they need 3 + 3 * 4 */
    submit(f.s, 0, 200, N_SAMPLE, N_SAID, &crowded[0]);
    run(f.s);
    assert_same(&alone[0], &crowded[0]);
    assert_int_equal(crowded[0].n_end, N_SAMPLE);
    assert_true(f.s->stats.n_preempted > 0);
    fixture_close(&f);
}

/* A request that had promised itself the whole context fits beside others. */
static void max_tokens_promise_nothing(void **state)
{
    (void)state;
    struct fixture f;
    static struct heard h[4];
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, 4, 512, 512, NULL);
    for (int i = 0; i < 4; i++) submit(f.s, 50 * i, 60, 1, 150, &h[i]);
    OK(lutra_step(f.s, NULL, err));
    for (int i = 0; i < 4; i++) assert_int_equal(h[i].n[0], 1); /* all at once */
    run(f.s);
    fixture_close(&f);
}

/* One holds most of the cache, one needs most of it, and twenty need little: eight of them begin before it. */
static void few_pass_by(void **state)
{
    (void)state;
    struct fixture f;
    static struct heard h[N_MOST];
    enum { N_SMALL = 20 };
    int before = 0;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, 3, 1024, 1024, NULL); /* 19 blocks */
    n_begun = 0;
    submit(f.s, 0, 700, 1, 150, &h[0]);
    OK(lutra_step(f.s, NULL, err));
    OK(lutra_step(f.s, NULL, err));
    submit(f.s, 3000, 600, 1, 5, &h[1]);
    for (int i = 0; i < N_SMALL; i++) submit(f.s, 100 * i, 20, 1, 5, &h[2 + i]);
    run(f.s);
    for (int i = 0; i < N_SMALL; i++) {
        before += h[2 + i].began < h[1].began;
        if (i > 0) assert_true(h[2 + i].began > h[1 + i].began); /* in order among themselves */
    }
    assert_int_equal(before, 8);
    assert_int_equal(h[1].n[0], 5);
    assert_int_equal(f.s->stats.n_preempted, 0);
    fixture_close(&f);
}

/* A request that is cancelled or ends by its deadline while it has no memory. */
static void a_preempted_request_can_be_cancelled(void **state)
{
    (void)state;
    struct fixture f;
    static struct heard h[2];
    struct lutra_request r;
    int32_t prompt[300], id;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, 2, 448, 448, NULL); /* 9 blocks */
    submit(f.s, 0, 200, 1, N_SAID, &h[0]);
    lutra_request_init(&r, sizeof r);
    for (int i = 0; i < 300; i++) prompt[i] = token_at(1000 + i);
    r.prompt = prompt, r.n_prompt = 150, r.max_tokens = N_SAID, r.ignore_end = true;
    OK(lutra_submit(f.s, &r, &id, err));
    while (f.s->stats.n_preempted == 0) OK(lutra_step(f.s, NULL, err));
    assert_int_equal(lutra_request_cancel(f.s, id), 0);
    run(f.s);
    assert_int_equal(h[0].n[0], N_SAID);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preempted_requests_say_the_same),
        cmocka_unit_test(samples_of_one_request_take_turns),
        cmocka_unit_test(max_tokens_promise_nothing),
        cmocka_unit_test(few_pass_by),
        cmocka_unit_test(a_preempted_request_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
