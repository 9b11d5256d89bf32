/* SPDX-License-Identifier: MIT
 *
 * Searches over steps in caches that hold few candidates: every request ends with an answer, and neither drafts nor
 * other requests change which candidate wins.
 */
#include "unit/engine/engine_fixture.h"

#define MODELS LUTRA_SOURCE_DIR "/models/"

enum { N_TOK = 128, N_SEARCH = 2 };

static const char *const questions[] = {"Use 29, 27, 26, 1 to make 27.", "Use 5, 3, 8, 40 to make 51."};

struct models {
    lutra_runtime *rt;
    lutra_model *model, *prm;
    int n_narrowed;
};

static void on_log(void *user, enum lutra_log_level level, const char *text)
{
    struct models *m = user;
    m->n_narrowed += level == LUTRA_LOG_WARN && strstr(text, "candidates at once instead of 8") != NULL;
}

static void open_models(struct models *m)
{
    struct lutra_runtime_settings rs;
    struct lutra_model_settings ms;
    memset(m, 0, sizeof *m);
    lutra_runtime_settings_init(&rs, sizeof rs);
    lutra_model_settings_init(&ms, sizeof ms);
    rs.n_threads = 1;
    rs.log = on_log;
    rs.log_user = m;
    OK(lutra_runtime_open(&m->rt, &rs, err));
    OK(lutra_model_open(&m->model, m->rt, MODELS "countdown-s-f16.gguf", &ms, err));
    OK(lutra_model_open(&m->prm, m->rt, MODELS "countdown-s-prm-f16.gguf", &ms, err));
}

static void close_models(struct models *m)
{
    lutra_model_close(&m->prm);
    lutra_model_close(&m->model);
    lutra_runtime_close(&m->rt);
}

static int n_ended;

static void on_end(void *user, const struct lutra_end *end)
{
    (void)user;
    n_ended += end->reason == LUTRA_STOP_END || end->reason == LUTRA_STOP_LENGTH || end->reason == LUTRA_STOP_STRING;
}

struct tight {
    int n_cache, n_seq, max_tokens;
    enum lutra_search_method method;
    const char *spec;
    bool beside; /* ordinary requests, too */
    uint64_t seed;
};

/* N_SEARCH searches at once; their winners' texts and widths. */
static void run(struct models *m, const struct tight *t, char text[N_SEARCH][2048], int width[N_SEARCH])
{
    struct lutra_session_settings ss;
    struct lutra_verifier_settings vs;
    lutra_session *s;
    lutra_verifier *v;
    lutra_search_run *search[N_SEARCH];
    static int32_t prompt[N_SEARCH][N_TOK];
    struct lutra_sampling sampling;
    int active = 1, n_other = 0;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 300;
    ss.n_cache = t->n_cache;
    ss.n_seq = t->n_seq;
    ss.spec_type = t->spec;
    OK(lutra_session_open(&s, m->model, &ss, err));
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.n_ctx = 300;
    vs.n_seq = 8 * N_SEARCH + 2;
    vs.model = m->prm;
    OK(lutra_verifier_open(&v, NULL, &vs, err));
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = t->seed;
    n_ended = 0;
    for (int i = 0; i < N_SEARCH; i++) {
        struct lutra_message message = {.role = "user", .content = questions[i]};
        struct lutra_request r;
        struct lutra_search set;
        lutra_request_init(&r, sizeof r);
        struct lutra_chat chat;
        lutra_chat_init(&chat, sizeof chat);
        chat.messages = &message;
        chat.n_message = 1;
        OK(lutra_chat_tokenize(m->model, &chat, prompt[i], N_TOK, &r.n_prompt, err));
        r.prompt = prompt[i];
        r.max_tokens = t->max_tokens;
        r.sampling = &sampling;
        if (t->beside) {
            struct lutra_request other = r;
            other.n_samples = 2;
            other.on_end = on_end;
            OK(lutra_submit(s, &other, NULL, err));
            n_other += 2;
        }
        lutra_search_init(&set, sizeof set);
        set.method = t->method;
        set.width = 8;
        set.expand = 2;
        set.verifier = v;
        OK(lutra_search_submit(&search[i], s, &r, &set, err));
    }
    for (int n = 0; active; n++) {
        OK(lutra_step(s, &active, err));
        if (n > 20000) fail_msg("%d samples after %d passes", active, n);
    }
    assert_int_equal(n_ended, n_other);
    for (int i = 0; i < N_SEARCH; i++) {
        const struct lutra_search_result *res = lutra_search_done(search[i]);
        assert_non_null(res);
        assert_non_null(res->text);
        snprintf(text[i], 2048, "%s", res->text);
        width[i] = res->width;
        lutra_search_close(&search[i]);
    }
    lutra_verifier_close(&v);
    lutra_session_close(&s);
}

/* The session of the report: 9 sequences, 8 candidates, a cache of 400 tokens. */
static void everybody_ends(void **state)
{
    (void)state;
    struct models m;
    char text[N_SEARCH][2048];
    int width[N_SEARCH];
    open_models(&m);
    struct tight t = {.n_cache = 400, .n_seq = 9, .max_tokens = 60, .method = LUTRA_SEARCH_BEAM, .beside = true};
    run(&m, &t, text, width);
    assert_int_equal(width[0], 6); /* and that is said */
    assert_int_equal(m.n_narrowed, 2);
    t.n_cache = 4096;
    run(&m, &t, text, width);
    assert_int_equal(width[0], 8);
    assert_int_equal(m.n_narrowed, 2);
    close_models(&m);
}

/* The same winners with drafts, without, and beside others, however tight the cache. */
static void drafts_change_no_winner(void **state)
{
    (void)state;
    static const enum lutra_search_method methods[] = {LUTRA_SEARCH_BEAM, LUTRA_SEARCH_DVTS, LUTRA_SEARCH_REBASE};
    static const int caches[] = {300, 400, 600, 900};
    struct models m;
    char alone[N_SEARCH][2048], other[N_SEARCH][2048];
    int width[N_SEARCH];
    open_models(&m);
    for (size_t k = 0; k < 3; k++)
        for (size_t c = 0; c < 4; c++)
            for (uint64_t seed = 1; seed < 4; seed++) {
                struct tight t = {
                    .n_cache = caches[c], .n_seq = 9, .max_tokens = 60, .method = methods[k], .seed = seed};
                run(&m, &t, alone, width);
                for (int way = 0; way < 3; way++) {
                    t.spec = way == 1 ? NULL : "auto";
                    t.beside = way > 0;
                    run(&m, &t, other, width);
                    for (int i = 0; i < N_SEARCH; i++)
                        if (strcmp(alone[i], other[i]))
                            fail_msg("method %d, cache %d, seed %d, way %d: '%s' instead of '%s'", (int)methods[k],
                                caches[c], (int)seed, way, other[i], alone[i]);
                }
            }
    close_models(&m);
}

/* Candidates of the whole context, expand beyond what there is room for, one at a time. */
static void narrow_to_one(void **state)
{
    (void)state;
    struct models m;
    char text[N_SEARCH][2048];
    int width[N_SEARCH];
    open_models(&m);
    for (int max = 20; max <= 280; max += 65) {
        struct tight t = {.n_cache = 300, .n_seq = 8, .max_tokens = max, .method = LUTRA_SEARCH_DVTS, .spec = "auto"};
        run(&m, &t, text, width);
        assert_in_range(width[0], 1, 8);
    }
    close_models(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_ends), cmocka_unit_test(drafts_change_no_winner), cmocka_unit_test(narrow_to_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
