/* SPDX-License-Identifier: MIT
 *
 * A program that uses every struct of the API.  package.py compiles it against two ages of the headers and runs it with
 * two ages of the library: what it prints is the same in all four cases.
 *
 *     growth MODEL.gguf [future]     "future": sets a field that only the newer headers have; prints who refused it
 */
#include <lutra.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TOK = 256, GUARD = 0x5a };

/* One of each, before bytes that nobody may write. */
#define GUARDED(type, name)                                                                                            \
    static struct {                                                                                                    \
        struct type it;                                                                                                \
        unsigned char guard[128];                                                                                      \
    } name
GUARDED(lutra_runtime_settings, runtime_settings);
GUARDED(lutra_model_settings, model_settings);
GUARDED(lutra_session_settings, session_settings);
GUARDED(lutra_verifier_settings, verifier_settings);
GUARDED(lutra_quantize_settings, quantize_settings);
GUARDED(lutra_make_model_settings, make_model_settings);
GUARDED(lutra_session_experiment, session_experiment);
GUARDED(lutra_request_experiment, request_experiment);
GUARDED(lutra_check, check);
GUARDED(lutra_sampling, sampling);
GUARDED(lutra_request, request);
GUARDED(lutra_search, search);
GUARDED(lutra_model_info, info);
GUARDED(lutra_stats, stats);
GUARDED(lutra_peaks, peaks);

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "growth: %s: %s\n", what, why);
    exit(1);
}

static void call(const char *what, int rc, const struct lutra_error *err)
{
    if (rc < 0) stop(what, err->what);
}

static void watch(void *guarded, size_t size)
{
    memset(guarded, GUARD, size);
}

static void check_guard(const char *name, const unsigned char *guard)
{
    for (int i = 0; i < 128; i++)
        if (guard[i] != GUARD) stop(name, "the library wrote past it");
}

#define INIT(name) (watch(&name, sizeof name), lutra_##name##_init(&name.it, sizeof name.it))
#define CHECK(name) check_guard(#name, name.guard)

static int on_text(void *user, const struct lutra_piece *piece)
{
    (void)user;
    printf("%.*s", (int)piece->n_bytes, piece->text);
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    (void)user;
    printf("\nsample %d: %d tokens, reason %d, %.6f\n", end->sample, end->n_tok, (int)end->reason, end->sum_log_prob);
}

static void on_event(void *user, const struct lutra_search_event *event)
{
    *(int *)user += event->kind == LUTRA_EVENT_FINISH && event->answer[0];
}

static void generate(lutra_session *s, const int32_t *tokens, int n_tok)
{
    struct lutra_error err = {0};
    INIT(sampling);
    INIT(request);
    INIT(request_experiment);
    sampling.it.temperature = 0.9f;
    sampling.it.seed = 3;
    request.it.prompt = tokens;
    request.it.n_prompt = n_tok;
    request.it.max_tokens = 100;
    request.it.sampling = &sampling.it;
    request.it.experiment = &request_experiment.it;
    request.it.on_text = on_text;
    request.it.on_end = on_end;
    call("lutra_generate", lutra_generate(s, &request.it, &err), &err);
}

static void run_search(lutra_session *s)
{
    struct lutra_error err = {0};
    struct lutra_search_option option[] = {{.method = LUTRA_SEARCH_BEST, .width = 3, .tokens = 1e9, .accuracy = 0.9},
        {.method = LUTRA_SEARCH_VOTE, .width = 4, .expand = 1, .tokens = 120, .us = -1, .accuracy = 0.5}};
    lutra_search_run *run;
    int active = 1, n_finish = 0;
    INIT(search);
    search.it.method = LUTRA_SEARCH_AUTO;
    search.it.width = 4;
    search.it.token_budget = 500;
    search.it.option = option;
    search.it.n_option = 2;
    search.it.option_size = sizeof *option;
    search.it.on_event = on_event;
    search.it.user = &n_finish;
    request.it.on_text = NULL;
    request.it.on_end = NULL;
    call("lutra_search_submit", lutra_search_submit(&run, s, &request.it, &search.it, &err), &err);
    while (active) call("lutra_step", lutra_step(s, &active, &err), &err);
    const struct lutra_search_result *r = lutra_search_done(run);
    printf("search: method %d width %d answer %s score %.3f of %d, heard %d\n", (int)r->method, r->width, r->answer,
        r->score, r->n_finished, n_finish);
    lutra_search_close(&run);
}

static void forward(lutra_session *s, const int32_t *tokens)
{
    struct lutra_error err = {0};
    struct lutra_row row[3];
    int32_t seq;
    call("lutra_seq_open", lutra_seq_open(s, 16, &seq, &err), &err);
    for (int i = 0; i < 3; i++)
        row[i] = (struct lutra_row){.token = tokens[i],
            .pos = i,
            .seq = seq,
            .parent = i - 1,
            .want = LUTRA_WANT_LOGPROB,
            .target = tokens[i + 1]};
    call("lutra_forward", lutra_forward(s, row, 3, sizeof *row, &err), &err);
    for (int i = 0; i < 3; i++) {
        const struct lutra_row_result *r = lutra_forward_result(s, i);
        printf("row %d: %.6f of %.6f\n", (int)r->row, r->target_logit, r->log_sum_exp);
    }
    lutra_seq_close(s, seq);
}

/* A verifier that is a rule: the last number of the text must be the expected one. */
static void ask_checker(void)
{
    struct lutra_error err = {0};
    lutra_verifier *v;
    double reward = -1;
    INIT(verifier_settings);
    INIT(check);
    verifier_settings.it.command = "answer";
    check.it.text = "3 + 5 = 8.\n#### 8";
    check.it.expected = "8";
    check.it.whole = true;
    call("lutra_verifier_open", lutra_verifier_open(&v, "program", &verifier_settings.it, &err), &err);
    call("lutra_verifier_check", lutra_verifier_check(v, &check.it, &reward, &err), &err);
    printf("checked: %.1f\n", reward);
    lutra_verifier_close(&v);
}

static int tokens_of(lutra_model *m, int32_t tokens[N_TOK])
{
    struct lutra_message message = {
        .role = "user", .content = "Tom has 3 apples and buys 5 more. How many apples does he have?"};
    struct lutra_error err = {0};
    char *text;
    int n;
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &message;
    chat.n_message = 1;
    call("lutra_chat_render", lutra_chat_render(m, &chat, &text, NULL, &err), &err);
    call("lutra_tokenize", lutra_tokenize(m, text, strlen(text), LUTRA_PARSE_SPECIAL, tokens, N_TOK, &n, &err), &err);
    lutra_free(text);
    return n;
}

/* Uses what only the newer headers have. */
static void use_the_future(lutra_session *s, const int32_t *tokens, int n_tok)
{
#ifdef LUTRA_FUTURE
    struct lutra_error err = {0};
    INIT(request);
    INIT(sampling);
    request.it.prompt = tokens;
    request.it.n_prompt = n_tok;
    request.it.max_tokens = 1;
    request.it.sampling = &sampling.it;
    sampling.it.future[1] = 1;
    int rc = lutra_submit(s, &request.it, NULL, &err);
    printf("future: %s%s%s\n", lutra_status_text(rc), rc ? ": " : "", rc ? err.what : "");
#else
    (void)s, (void)tokens, (void)n_tok;
#endif
}

int main(int argc, char **argv)
{
    struct lutra_error err = {0};
    lutra_runtime *rt;
    lutra_model *m;
    lutra_session *s;
    int32_t tokens[N_TOK];
    INIT(runtime_settings);
    INIT(model_settings);
    INIT(session_settings);
    INIT(session_experiment);
    session_settings.it.experiment = &session_experiment.it;
    INIT(verifier_settings);
    INIT(quantize_settings);
    INIT(make_model_settings);
    runtime_settings.it.n_threads = 1;
    session_settings.it.n_seq = 4;
    session_settings.it.n_ctx = 512;
    call("lutra_runtime_open", lutra_runtime_open(&rt, &runtime_settings.it, &err), &err);
    call("lutra_model_open", lutra_model_open(&m, rt, argv[1], &model_settings.it, &err), &err);
    call("lutra_session_open", lutra_session_open(&s, m, &session_settings.it, &err), &err);
    int n_tok = tokens_of(m, tokens);
    if (argc > 2) {
        use_the_future(s, tokens, n_tok);
    } else {
        generate(s, tokens, n_tok);
        run_search(s);
        forward(s, tokens);
        ask_checker();
        watch(&info, sizeof info);
        lutra_model_info_get(m, &info.it, sizeof info.it);
        watch(&stats, sizeof stats);
        lutra_session_stats_get(s, &stats.it, sizeof stats.it);
        watch(&peaks, sizeof peaks);
        lutra_runtime_peaks_get(rt, &peaks.it, sizeof peaks.it);
        printf("%s: %d layers, %d rows, peaks %s\n", info.it.arch, info.it.n_layer, (int)stats.it.rows_valid,
            peaks.it.stream_gb_s > 0 ? "known" : "not known");
        CHECK(search), CHECK(info), CHECK(stats), CHECK(peaks), CHECK(request_experiment), CHECK(session_experiment),
            CHECK(check);
    }
    lutra_session_close(&s);
    lutra_model_close(&m);
    lutra_runtime_close(&rt);
    CHECK(runtime_settings), CHECK(model_settings), CHECK(session_settings), CHECK(verifier_settings);
    CHECK(quantize_settings), CHECK(make_model_settings), CHECK(sampling), CHECK(request);
    return 0;
}
