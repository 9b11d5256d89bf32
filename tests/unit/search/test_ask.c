/* SPDX-License-Identifier: MIT
 *
 * A program as verifier that takes its time: other requests go on, the search does not end without its replies, and one
 * that is closed waits for none.  The test program is its own checker: with --slow FOLDER it answers a text once
 * FOLDER/go is there, and leaves FOLDER/asked behind when it is asked.
 */
#include "unit/engine/engine_fixture.h"
#include "hostile_checker.h"

#include <sys/stat.h>

#include "engine/session_impl.h"

enum { N_FREE = 400 };

static char folder[] = "/tmp/lutra-ask-XXXXXX";

static bool has(const char *name)
{
    char path[64];
    struct stat s;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &s) == 0;
}

static void make(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void forget(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static int be_slow(void)
{
    static char line[1 << 16];
    while (fgets(line, sizeof line, stdin)) {
        long id = strtol(strchr(line, ':') + 1, NULL, 10);
        make("asked");
        while (!has("go")) wait_ms(1);
        answer(id, reward_of(strstr(line, "\"text\"")));
    }
    return 0;
}

static lutra_verifier *open_slow(void)
{
    lutra_verifier *v;
    struct lutra_verifier_settings set;
    char command[128];
    lutra_verifier_settings_init(&set, sizeof set);
    snprintf(command, sizeof command, "/proc/self/exe --slow %s", folder);
    set.command = command;
    set.timeout_us = 600000000;
    set.memory_bytes = 0; /* a sanitized program reserves terabytes */
    OK(lutra_verifier_open(&v, "program", &set, err));
    return v;
}

static int count_token(void *user, const struct lutra_piece *p)
{
    *(int *)user += p->token >= 0;
    return 0;
}

static int32_t prompt[40];
static struct lutra_sampling sampling;

static struct lutra_request request_of(int *n, int max_tokens)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 1.5f;
    sampling.seed = 3;
    for (int i = 0; i < 40; i++) prompt[i] = token_at(i);
    r.prompt = prompt, r.n_prompt = 40, r.max_tokens = max_tokens, r.ignore_end = true;
    r.sampling = &sampling, r.on_text = count_token, r.user = n;
    return r;
}

static lutra_search_run *begin(struct fixture *f, lutra_verifier *v, enum lutra_search_method method, int *n)
{
    lutra_search_run *run;
    struct lutra_search set;
    struct lutra_request r = request_of(n, 24);
    lutra_search_init(&set, sizeof set);
    set.method = method, set.width = 4, set.verifier = v;
    set.expand = method == LUTRA_SEARCH_BEAM ? 2 : 1;
    OK(lutra_search_submit(&run, f->s, &r, &set, err));
    return run;
}

static void open_session(struct fixture *f)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 6, ss.n_ctx = 512, ss.n_cache = 4096;
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

static void until_asked(struct fixture *f)
{
    while (!has("asked")) OK(lutra_step(f->s, NULL, err));
}

/* The text and the score of the winner; the program replies at once. */
static void at_once(struct fixture *f, enum lutra_search_method method, char *text, size_t n_text, double *score)
{
    int n = 0, n_active = 1;
    lutra_verifier *v = open_slow();
    make("go");
    lutra_search_run *run = begin(f, v, method, &n);
    while (n_active) OK(lutra_step(f->s, &n_active, err));
    const struct lutra_search_result *res = lutra_search_done(run);
    assert_non_null(res);
    snprintf(text, n_text, "%s", res->text);
    *score = res->score;
    assert_int_equal(res->n_judged, res->n_counted);
    lutra_search_close(&run);
    lutra_verifier_close(&v);
    forget("go");
    forget("asked");
}

static void others_go_on(void **state)
{
    (void)state;
    static const enum lutra_search_method methods[] = {LUTRA_SEARCH_BEST, LUTRA_SEARCH_BEAM};
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    lutra_session_close(&f.s);
    open_session(&f);
    for (int i = 0; i < 2; i++) {
        int n_free = 0, n_search = 0, n_active = 1;
        static char expected[4096];
        double score;
        at_once(&f, methods[i], expected, sizeof expected, &score);
        lutra_verifier *v = open_slow();
        lutra_search_run *run = begin(&f, v, methods[i], &n_search);
        until_asked(&f);
        struct lutra_request r = request_of(&n_free, N_FREE);
        OK(lutra_submit(f.s, &r, NULL, err));
        while (n_free < N_FREE) OK(lutra_step(f.s, &n_active, err)); /* the program has not replied */
        assert_null(lutra_search_done(run));
        for (int k = 0; k < 5; k++) OK(lutra_step(f.s, &n_active, err));
        assert_true(n_active > 0 && !lutra_search_done(run)); /* nothing has rows, and it is not over */
        assert_int_equal(lutra_wait(&f.s, 1, 1000), 0);
        make("go");
        assert_int_equal(lutra_wait(&f.s, 1, LUTRA_WAIT_FOREVER), 1); /* the reply */
        while (n_active) OK(lutra_step(f.s, &n_active, err));
        const struct lutra_search_result *res = lutra_search_done(run);
        assert_non_null(res);
        assert_string_equal(res->text, expected);
        assert_true(res->score == score && res->n_judged == res->n_counted);
        lutra_search_close(&run);
        lutra_verifier_close(&v);
        forget("go");
        forget("asked");
    }
    fixture_close(&f);
}

/* Closed, cancelled, or with its session closed beneath it; and the next search is judged. */
static void nobody_waits_for_the_last_reply(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    lutra_session_close(&f.s);
    for (int way = 0; way < 3; way++) {
        int n = 0, n_active = 1;
        open_session(&f);
        lutra_verifier *v = open_slow();
        lutra_search_run *run = begin(&f, v, LUTRA_SEARCH_BEST, &n);
        until_asked(&f);
        if (way == 0) lutra_search_close(&run);
        if (way == 1) {
            lutra_cancel(f.s);
            while (n_active) OK(lutra_step(f.s, &n_active, err));
            assert_non_null(lutra_search_done(run));
        }
        if (way == 2) lutra_session_close(&f.s);
        lutra_search_close(&run);
        lutra_verifier_close(&v);
        lutra_session_close(&f.s);
        forget("asked");
    }
    fixture_close(&f);
}

/* Two searches ask one program: neither gets what the other's candidate was given. */
static void searches_share_a_program(void **state)
{
    (void)state;
    struct fixture f;
    int n[2] = {0}, n_active = 1;
    static char expected[4096];
    double score;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    lutra_session_close(&f.s);
    open_session(&f);
    at_once(&f, LUTRA_SEARCH_BEST, expected, sizeof expected, &score);
    lutra_verifier *v = open_slow();
    lutra_search_run *run[2] = {begin(&f, v, LUTRA_SEARCH_BEST, &n[0]), begin(&f, v, LUTRA_SEARCH_BEST, &n[1])};
    until_asked(&f);
    for (int k = 0; k < 40; k++) OK(lutra_step(f.s, &n_active, err));
    make("go");
    while (n_active) OK(lutra_step(f.s, &n_active, err));
    for (int i = 0; i < 2; i++) {
        const struct lutra_search_result *res = lutra_search_done(run[i]);
        assert_non_null(res);
        assert_string_equal(res->text, expected);
        assert_true(res->score == score);
        lutra_search_close(&run[i]);
    }
    lutra_verifier_close(&v);
    forget("go");
    forget("asked");
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--slow")) {
        snprintf(folder, sizeof folder, "%s", argv[2]);
        return be_slow();
    }
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_go_on),
        cmocka_unit_test(nobody_waits_for_the_last_reply),
        cmocka_unit_test(searches_share_a_program),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return rc;
}
