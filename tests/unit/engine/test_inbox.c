/* SPDX-License-Identifier: MIT
 *
 * Any thread submits, cancels, pauses and resumes while one steps; callbacks do so, too; the queue says when it is
 * full; a session without work sleeps.  Also under ThreadSanitizer (scripts/test).
 */
#include <pthread.h>
#include <stdatomic.h>

#include "engine_fixture.h"
#include "engine/session_impl.h"

enum { N_PROMPT = 40, N_SAID = 12, N_THREAD = 4, N_ROUND = 30 };

struct heard {
    lutra_session *s;
    int32_t id, token[N_SAID], other; /* other: request that the first token cancels; -1: none */
    int n, pauses_at;                 /* token behind which it pauses itself; 0: none */
    enum lutra_stop reason;
    atomic_int n_end;
    struct heard *next; /* submitted by its end, by its first token; NULL: nothing */
};

static void submit(lutra_session *s, int first, struct heard *h);

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    if (p->token < 0) return 0;
    if (h->n < N_SAID) h->token[h->n] = p->token;
    if (++h->n == 1 && h->other >= 0) assert_int_equal(lutra_request_cancel(h->s, h->other), 0);
    if (h->n == h->pauses_at) assert_int_equal(lutra_request_pause(h->s, p->request), 0);
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    struct heard *h = user;
    h->reason = e->reason;
    if (h->next) submit(h->s, 0, h->next);
    atomic_fetch_add(&h->n_end, 1);
}

static struct lutra_request request(const int32_t *prompt, struct heard *h)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt, r.n_prompt = N_PROMPT, r.max_tokens = N_SAID, r.ignore_end = true;
    r.on_text = on_text, r.on_end = on_end, r.user = h;
    return r;
}

static void submit(lutra_session *s, int first, struct heard *h)
{
    int32_t prompt[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_at(first + i);
    struct lutra_request r = request(prompt, h);
    h->s = s;
    OK(lutra_submit(s, &r, &h->id, err));
}

static void open_session(struct fixture *f, int n_seq, int n_queue)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    assert_int_equal(ss.n_queue, 4096);
    ss.n_seq = n_seq, ss.n_ctx = 128, ss.n_queue = n_queue;
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

static void run(lutra_session *s)
{
    for (int n_active = 1; n_active;) OK(lutra_step(s, &n_active, err));
}

/* ---- four threads ---- */

static struct {
    lutra_session *s;
    struct heard heard[N_THREAD][N_ROUND];
    atomic_bool ends;
} all;

static int kind_of(int thread, int round)
{
    return (thread + round) % 4;
}

static void *ask(void *arg)
{
    int thread = (int)(intptr_t)arg;
    for (int i = 0; i < N_ROUND; i++) {
        struct heard *h = &all.heard[thread][i];
        h->other = -1;
        submit(all.s, i % 3, h);
        switch (kind_of(thread, i)) {
        case 0: break; /* runs beside the next */
        case 1: lutra_request_cancel(all.s, h->id); break;
        case 2:
            lutra_request_pause(all.s, h->id);
            lutra_wake(all.s);
            lutra_request_resume(all.s, h->id);
            break;
        default:
            while (!atomic_load(&h->n_end)) sched_yield();
        }
    }
    return NULL;
}

static void *serve(void *arg)
{
    int n_active = 0;
    struct lutra_error err = {0};
    (void)arg;
    while (!atomic_load(&all.ends) || n_active > 0) {
        int rc = lutra_wait(&all.s, 1, LUTRA_WAIT_FOREVER);
        if (rc == 1) rc = lutra_step(all.s, &n_active, &err);
        if (rc < 0) return "a pass or a wait failed";
    }
    return NULL;
}

static void threads_ask_while_one_steps(void **state)
{
    (void)state;
    struct fixture f;
    struct heard alone[3] = {{.other = -1}, {.other = -1}, {.other = -1}};
    pthread_t asks[N_THREAD], serves;
    void *wrong;
    int n_cancelled = 0;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, 3, 4096);
    for (int i = 0; i < 3; i++) {
        submit(f.s, i, &alone[i]);
        run(f.s);
    }
    all.s = f.s;
    assert_int_equal(pthread_create(&serves, NULL, serve, NULL), 0);
    for (int i = 0; i < N_THREAD; i++) assert_int_equal(pthread_create(&asks[i], NULL, ask, (void *)(intptr_t)i), 0);
    for (int i = 0; i < N_THREAD; i++) pthread_join(asks[i], NULL);
    for (int i = 0; i < N_THREAD; i++)
        for (int k = 0; k < N_ROUND; k++)
            while (!atomic_load(&all.heard[i][k].n_end)) sched_yield();
    atomic_store(&all.ends, true);
    lutra_wake(f.s);
    pthread_join(serves, &wrong);
    assert_null(wrong);
    for (int i = 0; i < N_THREAD; i++)
        for (int k = 0; k < N_ROUND; k++) {
            struct heard *h = &all.heard[i][k];
            bool cancelled = h->reason == LUTRA_STOP_CANCELLED;
            n_cancelled += cancelled;
            assert_int_equal(atomic_load(&h->n_end), 1);
            assert_true(kind_of(i, k) == 1 || !cancelled);
            assert_true(cancelled || h->n == N_SAID);
            assert_memory_equal(h->token, alone[k % 3].token, (size_t)h->n * sizeof *h->token);
        }
    print_message("%d requests, %d cancelled before their end\n", N_THREAD * N_ROUND, n_cancelled);
    fixture_close(&f);
}

/* ---- one thread ---- */

static void a_full_queue_says_so(void **state)
{
    (void)state;
    struct fixture f;
    struct heard h[4] = {{.other = -1}, {.other = -1}, {.other = -1}, {.other = -1}};
    struct lutra_error why = {0};
    int32_t prompt[N_PROMPT] = {0}, id = 77;
    struct lutra_request r = request(prompt, &h[3]);
    fixture_open(&f, "tiny-llama", "F16", 1);
    open_session(&f, 1, 2);
    for (int i = 0; i < 2; i++) submit(f.s, i, &h[i]);
    assert_int_equal(lutra_submit(f.s, &r, &id, &why), LUTRA_E_BUSY);
    assert_non_null(strstr(why.what, "n_queue"));
    assert_int_equal(id, 77);
    OK(lutra_step(f.s, NULL, err)); /* the first has begun */
    submit(f.s, 2, &h[2]);
    assert_int_equal(lutra_submit(f.s, &r, &id, NULL), LUTRA_E_BUSY);
    assert_int_equal(lutra_request_cancel(f.s, h[1].id), 0); /* before it began */
    OK(lutra_step(f.s, NULL, err));
    submit(f.s, 3, &h[3]);
    run(f.s);
    for (int i = 0; i < 4; i++) assert_int_equal(h[i].n, i == 1 ? 0 : N_SAID);
    struct lutra_session_settings ss;
    lutra_session *none;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_queue = 0;
    assert_int_equal(lutra_session_open(&none, f.model, &ss, NULL), LUTRA_E_ARGUMENT);
    fixture_close(&f);
}

static void a_paused_request_keeps_its_place(void **state)
{
    (void)state;
    struct fixture f;
    struct heard alone = {.other = -1}, first = {.other = -1, .pauses_at = 3}, second = {.other = -1};
    int n_active;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, 2, 8);
    submit(f.s, 0, &alone);
    run(f.s);
    assert_int_equal(lutra_wait(&f.s, 1, 0), 0);
    submit(f.s, 0, &first);
    submit(f.s, 1, &second);
    assert_int_equal(lutra_request_pause(f.s, second.id), 0); /* before it began */
    for (int i = 0; i < 8; i++) OK(lutra_step(f.s, &n_active, err));
    assert_int_equal(first.n, 3);
    assert_int_equal(second.n, 0);
    assert_int_equal(n_active, 2);
    assert_int_equal(lutra_wait(&f.s, 1, 1000), 0); /* nothing to do */
    assert_int_equal(lutra_request_resume(f.s, first.id), 0);
    assert_int_equal(lutra_wait(&f.s, 1, LUTRA_WAIT_FOREVER), 1);
    for (int i = 0; i < 20; i++) OK(lutra_step(f.s, &n_active, err));
    assert_int_equal(first.n, N_SAID);
    assert_memory_equal(first.token, alone.token, sizeof alone.token);
    assert_int_equal(n_active, 1);
    assert_int_equal(lutra_request_resume(f.s, second.id), 0);
    run(f.s);
    assert_int_equal(second.n, N_SAID);
    assert_int_equal(lutra_request_resume(f.s, second.id), LUTRA_E_NOT_FOUND);
    assert_int_equal(lutra_request_pause(f.s, 1234), LUTRA_E_NOT_FOUND);
    fixture_close(&f);
}

/* Time of the test; the runtime's. */
static uint64_t virtual_now(void *now)
{
    return *(uint64_t *)now;
}

static void a_deadline_ends_a_pause(void **state)
{
    (void)state;
    struct fixture f;
    struct heard h = {.other = -1, .pauses_at = 2};
    int32_t prompt[N_PROMPT] = {0};
    uint64_t now = 5;
    fixture_open(&f, "tiny-llama", "F16", 1);
    f.rt->clock = (struct clock){.now_us = virtual_now, .state = &now};
    open_session(&f, 1, 8);
    struct lutra_request r = request(prompt, &h);
    r.timeout_us = 1000, h.s = f.s;
    OK(lutra_submit(f.s, &r, NULL, err));
    for (int i = 0; i < 5; i++) OK(lutra_step(f.s, NULL, err));
    assert_int_equal(h.n, 2);
    assert_int_equal(lutra_wait(&f.s, 1, 0), 0);
    now += 1000;
    assert_int_equal(lutra_wait(&f.s, 1, LUTRA_WAIT_FOREVER), 1);
    run(f.s);
    assert_int_equal(h.reason, LUTRA_STOP_DEADLINE);
    fixture_close(&f);
}

static void callbacks_may_ask(void **state)
{
    (void)state;
    struct fixture f;
    struct heard a = {.other = -1}, b = {.other = -1}, c = {.other = -1};
    int n_active = 0;
    fixture_open(&f, "tiny-llama", "F16", 1);
    open_session(&f, 2, 8);
    submit(f.s, 1, &b);
    a.other = b.id, a.next = &c;
    submit(f.s, 0, &a);
    while (!atomic_load(&a.n_end)) OK(lutra_step(f.s, &n_active, err));
    assert_int_equal(n_active, 1); /* what its end submitted counts */
    assert_int_equal(b.reason, LUTRA_STOP_CANCELLED);
    run(f.s);
    assert_int_equal(c.n, N_SAID);
    assert_memory_equal(c.token, a.token, sizeof a.token);
    fixture_close(&f);
}

static void several_sessions_are_waited_for(void **state)
{
    (void)state;
    struct fixture f, other;
    struct heard h = {.other = -1};
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_open(&other, "tiny-llama", "F16", 1);
    open_session(&f, 1, 8);
    open_session(&other, 1, 8);
    lutra_session *two = f.s;
    f.s = NULL;
    open_session(&f, 1, 8);
    lutra_session *both[] = {f.s, two}, *apart[] = {f.s, other.s};
    assert_int_equal(lutra_wait(both, 2, 0), 0);
    lutra_wake(f.s);
    assert_int_equal(lutra_wait(both, 2, LUTRA_WAIT_FOREVER), 1);
    assert_int_equal(lutra_wait(both, 2, 0), 0); /* once */
    submit(two, 0, &h);
    assert_int_equal(lutra_wait(both, 2, LUTRA_WAIT_FOREVER), 1);
    run(two);
    assert_int_equal(lutra_wait(both, 2, 0), 0);
    assert_int_equal(lutra_wait(apart, 2, 0), LUTRA_E_ARGUMENT);
    assert_int_equal(lutra_wait(NULL, 0, 0), LUTRA_E_ARGUMENT);
    lutra_session_close(&two);
    fixture_close(&other);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_ask_while_one_steps),
        cmocka_unit_test(a_full_queue_says_so),
        cmocka_unit_test(a_paused_request_keeps_its_place),
        cmocka_unit_test(a_deadline_ends_a_pause),
        cmocka_unit_test(callbacks_may_ask),
        cmocka_unit_test(several_sessions_are_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
