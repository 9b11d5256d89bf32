/* SPDX-License-Identifier: MIT
 *
 * One runtime, four threads: each opens, runs, forks, cancels and closes sessions of two models, and models, beside the
 * others.  What comes out is what comes out alone.  Also under ThreadSanitizer (scripts/test); LUTRA_TEST_LONG=1: a
 * minute.
 */
#include <pthread.h>
#include <time.h>

#include "engine_fixture.h"

enum { N_THREAD = 4, N_MODEL = 2, N_PROMPT = 70, N_SAMPLE = 3, N_TOKEN = 24 };

/* What a request gave. */
struct text {
    int32_t token[N_SAMPLE][N_TOKEN];
    int n[N_SAMPLE];
    enum lutra_stop reason[N_SAMPLE];
};

static struct {
    lutra_runtime *rt;
    struct fixture of[N_MODEL];
    struct text alone[N_MODEL];
    float *logits[N_MODEL]; /* of the prompt's last token, alone */
    int n_vocab[N_MODEL];
    time_t end;
} all;

/* A thread of the test, and the session that others may cancel. */
struct thread {
    pthread_t id;
    int ith, n_round, n_cancelled;
    pthread_mutex_t lock;
    lutra_session *cancel; /* NULL: none */
    char wrong[200];       /* what went wrong; empty: nothing */
};
static struct thread threads[N_THREAD];

static int on_text(void *user, const struct lutra_piece *p)
{
    struct text *t = user;
    if (p->token >= 0 && t->n[p->sample] < N_TOKEN) t->token[p->sample][t->n[p->sample]++] = p->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    ((struct text *)user)->reason[e->sample] = e->reason;
}

static int submit(lutra_session *s, struct text *t, int32_t *id, struct lutra_error *err)
{
    int32_t prompt[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_at(i);
    struct lutra_request r;
    struct lutra_sampling sampling;
    lutra_request_init(&r, sizeof r);
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = 3;
    r.sampling = &sampling;
    r.prompt = prompt;
    r.n_prompt = N_PROMPT;
    r.n_samples = N_SAMPLE;
    r.max_tokens = N_TOKEN;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = t;
    memset(t, 0, sizeof *t);
    return lutra_submit(s, &r, id, err);
}

/* The logits of the prompt's last token in a sequence, and in a fork of it that evaluates that token again. */
static int evaluate(lutra_session *s, int32_t seq, int from, const float **logits, struct lutra_error *err)
{
    struct lutra_row row[N_PROMPT];
    int n = N_PROMPT - from;
    for (int i = 0; i < n; i++)
        row[i] = (struct lutra_row){.token = token_at(from + i), .pos = from + i, .seq = seq, .parent = i - 1};
    row[n - 1].want = LUTRA_WANT_LOGITS;
    int rc = lutra_forward(s, row, n, sizeof *row, err);
    if (rc == 0) *logits = lutra_forward_result(s, 0)->logits;
    return rc;
}

static bool same_text(const struct text *t, const struct text *alone, bool whole)
{
    for (int i = 0; i < N_SAMPLE; i++) {
        if (t->n[i] > alone->n[i] || (whole && t->n[i] != alone->n[i])) return false;
        if (memcmp(t->token[i], alone->token[i], (size_t)t->n[i] * sizeof(int32_t))) return false;
        if (t->reason[i] != LUTRA_STOP_LENGTH && (whole || t->reason[i] != LUTRA_STOP_CANCELLED)) return false;
    }
    return true;
}

/* ---- what a thread does with a session ---- */

#define GOOD(thread, call)                                                                                             \
    do {                                                                                                               \
        struct lutra_error err_ = {.what = "(no text)"}, *err = &err_;                                                 \
        int rc_ = (call);                                                                                              \
        if (rc_ == 0) break;                                                                                           \
        snprintf((thread)->wrong, sizeof(thread)->wrong, "%.50s: %.120s", lutra_status_text(rc_), err->what);          \
        return;                                                                                                        \
    } while (0)

static void offer_to_cancel(struct thread *t, lutra_session *s)
{
    pthread_mutex_lock(&t->lock);
    t->cancel = s;
    pthread_mutex_unlock(&t->lock);
}

static void cancel_others(struct thread *t)
{
    for (int i = 0; i < N_THREAD; i++) {
        struct thread *other = &threads[i];
        if (other == t) continue;
        pthread_mutex_lock(&other->lock);
        if (other->cancel) lutra_cancel(other->cancel);
        t->n_cancelled += other->cancel != NULL;
        pthread_mutex_unlock(&other->lock);
    }
}

/* Whole, cancelled by its id after some steps, or maybe cancelled by another thread. */
static void generate(struct thread *t, lutra_session *s, int model, int how)
{
    struct text text;
    int32_t id;
    int active = 1;
    GOOD(t, submit(s, &text, &id, err));
    if (how == 2) offer_to_cancel(t, s);
    for (int step = 0; active > 0 && !*t->wrong; step++) {
        struct lutra_error err = {.what = "(no text)"};
        if (how == 1 && step == 7) lutra_request_cancel(s, id);
        if (lutra_step(s, &active, &err) < 0) snprintf(t->wrong, sizeof t->wrong, "step: %.150s", err.what);
    }
    if (how == 2) offer_to_cancel(t, NULL);
    if (!*t->wrong && !same_text(&text, &all.alone[model], how == 0))
        snprintf(t->wrong, sizeof t->wrong, "another text of model %d beside others, kind %d", model, how);
}

static void fork_rows(struct thread *t, lutra_session *s, int model)
{
    size_t bytes = (size_t)all.n_vocab[model] * sizeof(float);
    int32_t seq, fork;
    const float *logits = NULL;
    GOOD(t, lutra_seq_open(s, 0, &seq, err));
    GOOD(t, evaluate(s, seq, 0, &logits, err));
    bool same = !memcmp(logits, all.logits[model], bytes);
    GOOD(t, lutra_seq_fork(s, seq, N_PROMPT - 1, 0, &fork, err));
    GOOD(t, evaluate(s, fork, N_PROMPT - 1, &logits, err));
    if (!same || memcmp(logits, all.logits[model], bytes))
        snprintf(t->wrong, sizeof t->wrong, "other logits of model %d beside others", model);
    lutra_seq_close(s, fork);
    lutra_seq_close(s, seq);
}

/* One session, of sizes of its own, so that the device's scratch grows while others use it. */
static void run_session(struct thread *t, lutra_model *m, int model, unsigned round)
{
    struct lutra_session_settings set;
    lutra_session *s = NULL;
    lutra_session_settings_init(&set, sizeof set);
    set.n_seq = 2 + (int)(round % 3);
    set.n_ctx = 128 + 64 * (int)(round % 5);
    set.n_batch = N_PROMPT + 37 * (int)(round % 7) + (int)(round % 999);
    GOOD(t, lutra_session_open(&s, m, &set, err));
    unsigned how = (round + (unsigned)t->ith) % 4;
    if (how == 3)
        fork_rows(t, s, model);
    else
        generate(t, s, model, (int)how);
    cancel_others(t);
    lutra_session_close(&s);
}

static void run_round(struct thread *t, unsigned round)
{
    int model = (int)(round / 3 + (unsigned)t->ith) % N_MODEL;
    lutra_model *own = NULL;
    if (round % 5 == 1) GOOD(t, lutra_model_open(&own, all.rt, all.of[model].path, NULL, err));
    run_session(t, own ? own : all.of[model].model, model, round);
    lutra_model_close(&own);
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    for (; !*t->wrong && time(NULL) < all.end; t->n_round++) run_round(t, (unsigned)t->n_round);
    return NULL;
}

/* ---- the test ---- */

static void run_alone(int model)
{
    struct fixture *f = &all.of[model];
    struct lutra_model_info info;
    int32_t seq;
    int active = 1;
    const float *logits = NULL;
    lutra_model_info_get(f->model, &info, sizeof info);
    all.n_vocab[model] = info.n_vocab;
    fixture_session(f, N_SAMPLE, 128);
    OK(submit(f->s, &all.alone[model], NULL, err));
    while (active) OK(lutra_step(f->s, &active, err));
    for (int i = 0; i < N_SAMPLE; i++) assert_int_equal(all.alone[model].n[i], N_TOKEN);
    OK(lutra_seq_open(f->s, 0, &seq, err));
    OK(evaluate(f->s, seq, 0, &logits, err));
    all.logits[model] = malloc((size_t)info.n_vocab * sizeof(float));
    assert_non_null(all.logits[model]);
    memcpy(all.logits[model], logits, (size_t)info.n_vocab * sizeof(float));
    lutra_session_close(&f->s);
}

static void same_text_beside_other_threads(void **state)
{
    static const char *const shape[N_MODEL] = {"tiny-qwen2", "tiny-llama"}, *const type[N_MODEL] = {"Q4_0", "Q8_0"};
    const char *lengthy = getenv("LUTRA_TEST_LONG");
    int n_round = 0, n_cancelled = 0;
    (void)state;
    for (int i = 0; i < N_MODEL; i++) {
        fixture_open(&all.of[i], shape[i], type[i], 2);
        run_alone(i);
    }
    all.rt = all.of[0].rt;
    lutra_model_close(&all.of[1].model);
    OK(lutra_model_open(&all.of[1].model, all.rt, all.of[1].path, NULL, err));
    all.end = time(NULL) + (lengthy && !strcmp(lengthy, "1") ? 60 : 4);
    for (int i = 0; i < N_THREAD; i++) {
        threads[i].ith = i;
        pthread_mutex_init(&threads[i].lock, NULL);
    }
    for (int i = 0; i < N_THREAD; i++)
        assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
    for (int i = 0; i < N_THREAD; i++) pthread_join(threads[i].id, NULL);
    for (int i = 0; i < N_THREAD; i++) {
        if (*threads[i].wrong) print_message("thread %d: %s\n", i, threads[i].wrong);
        assert_string_equal(threads[i].wrong, "");
        n_round += threads[i].n_round;
        n_cancelled += threads[i].n_cancelled;
        assert_true(threads[i].n_round > 0); /* none waits for ever */
    }
    print_message("%d sessions, %d cancelled from another thread\n", n_round, n_cancelled);
    for (int i = N_MODEL - 1; i >= 0; i--) { /* the last model lives in the first runtime */
        free(all.logits[i]);
        fixture_close(&all.of[i]);
    }
}

/* Threads without a processor would only be in the way of the others. */
static void more_threads_than_processors(void **state)
{
    struct fixture f;
    struct text text;
    int active = 1;
    (void)state;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 1000);
    assert_in_range(lutra_runtime_n_threads(f.rt), 1, 1000);
    fixture_session(&f, N_SAMPLE, 128);
    OK(submit(f.s, &text, NULL, err));
    while (active) OK(lutra_step(f.s, &active, err));
    assert_true(same_text(&text, &all.alone[0], true));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_text_beside_other_threads), cmocka_unit_test(more_threads_than_processors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
