/* SPDX-License-Identifier: MIT
 *
 * What a request reports beside its text: likeliest tokens, what ended a sample, progress of the prompt, times.
 */
#include "engine_fixture.h"

enum { N_PROMPT = 90, N_SAID = 24, N_TOP = 20 };

struct heard {
    int32_t token[N_SAID + 8];
    float log_prob[N_SAID + 8];
    struct lutra_token_prob top[N_SAID + 8][N_TOP];
    int n, n_top;
    char text[2048];
    int done[16], n_done;
    struct lutra_end end;
};
static struct heard first, second;
static int32_t prompt[N_PROMPT];
static struct lutra_sampling sampling;

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    strncat(h->text, p->text, p->n_bytes);
    assert_int_equal(p->n_top, p->token >= 0 ? h->n_top : 0);
    if (p->token < 0) return 0;
    h->log_prob[h->n] = p->log_prob;
    if (p->n_top) memcpy(h->top[h->n], p->top, (size_t)p->n_top * sizeof *p->top);
    h->token[h->n++] = p->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    ((struct heard *)user)->end = *e;
}

static void on_prompt(void *user, int32_t request, int n_done, int n_prompt)
{
    struct heard *h = user;
    (void)request;
    assert_int_equal(n_prompt, N_PROMPT);
    h->done[h->n_done++] = n_done;
}

static struct lutra_request request(struct heard *h, int n_top)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 1.2f;
    memset(h, 0, sizeof *h);
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_at(i);
    r.prompt = prompt, r.n_prompt = N_PROMPT, r.max_tokens = N_SAID, r.ignore_end = true;
    r.sampling = &sampling;
    r.top_logprobs = h->n_top = n_top;
    r.on_text = on_text, r.on_end = on_end, r.on_prompt = on_prompt, r.user = h;
    return r;
}

static void open_session(struct fixture *f, const char *spec)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 2, ss.n_ctx = 256, ss.n_batch = 32, ss.spec_type = spec;
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

static double log_sum_exp(const float *logits, int n)
{
    double most = logits[0], sum = 0;
    for (int i = 1; i < n; i++) most = logits[i] > most ? logits[i] : most;
    for (int i = 0; i < n; i++) sum += exp(logits[i] - most);
    return most + log(sum);
}

/* The lists are those of all logits of the same text, whatever samples, grammars and drafts do. */
static void likeliest_tokens_are_the_models(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_model_info info;
    int32_t seq;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    lutra_model_info_get(f.model, &info, sizeof info);
    open_session(&f, NULL);
    struct lutra_request r = request(&first, 0);
    OK(lutra_generate(f.s, &r, err));
    r = request(&second, N_TOP);
    OK(lutra_generate(f.s, &r, err));
    assert_memory_equal(first.token, second.token, sizeof first.token);
    assert_memory_equal(first.log_prob, second.log_prob, sizeof first.log_prob);

    open_session(&f, NULL);
    OK(lutra_seq_open(f.s, 0, &seq, err));
    for (int i = 0, n = N_PROMPT + N_SAID - 1; i < n; i++) {
        struct lutra_row row = {.token = i < N_PROMPT ? prompt[i] : second.token[i - N_PROMPT],
            .pos = i,
            .seq = seq,
            .parent = -1,
            .want = LUTRA_WANT_LOGITS};
        OK(lutra_forward(f.s, &row, 1, sizeof row, err));
        if (i < N_PROMPT - 1) continue;
        const float *logits = lutra_forward_result(f.s, 0)->logits;
        const struct lutra_token_prob *top = second.top[i - N_PROMPT + 1];
        double sum = log_sum_exp(logits, info.n_vocab);
        int n_better = 0;
        for (int t = 0; t < info.n_vocab; t++) n_better += logits[t] > logits[top[N_TOP - 1].token];
        assert_in_range(n_better, 0, N_TOP - 1); /* none is left out */
        for (int k = 0; k < N_TOP; k++) {
            assert_float_equal(top[k].log_prob, logits[top[k].token] - sum, 1e-4);
            if (k) assert_true(top[k].log_prob <= top[k - 1].log_prob);
            if (top[k].token == second.token[i - N_PROMPT + 1])
                assert_true(top[k].log_prob == second.log_prob[i - N_PROMPT + 1]);
        }
    }

    open_session(&f, "recycle"); /* rows of drafts have them, too */
    r = request(&first, N_TOP);
    OK(lutra_generate(f.s, &r, err));
    assert_memory_equal(first.token, second.token, sizeof first.token);
    assert_memory_equal(first.top, second.top, sizeof first.top);
    r = request(&first, 5);
    r.grammar = "root ::= [a-z]+"; /* a mask changes what is said, not what the model holds likely */
    OK(lutra_generate(f.s, &r, err));
    assert_memory_equal(first.top[0], second.top[0], 5 * sizeof first.top[0][0]);
    r = request(&first, LUTRA_TOP_LOGPROBS + 1);
    assert_int_equal(lutra_generate(f.s, &r, NULL), LUTRA_E_ARGUMENT);
    fixture_close(&f);
}

static void what_ended_it_is_named(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, NULL);
    struct lutra_request r = request(&first, 0);
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(first.end.stop, -1);
    assert_int_equal(first.end.reason, LUTRA_STOP_LENGTH);

    int32_t stop[] = {0, first.token[7]}; /* the first place where either is said */
    int at = 0;
    while (first.token[at] != stop[0] && first.token[at] != stop[1]) at++;
    r = request(&second, 0);
    r.stop_tokens = stop, r.n_stop_tokens = 2;
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(second.end.reason, LUTRA_STOP_TOKEN);
    assert_int_equal(stop[second.end.stop], first.token[at]);
    assert_int_equal(second.end.n_tok, at);
    assert_memory_equal(second.token, first.token, (size_t)at * sizeof *first.token);

    r = request(&second, 0); /* not so soon: neither may be drawn before */
    r.stop_tokens = stop, r.n_stop_tokens = 2, r.min_tokens = at + 3;
    OK(lutra_generate(f.s, &r, err));
    assert_true(second.end.n_tok >= at + 3);
    for (int i = 0; i < at + 3; i++) assert_true(second.token[i] != stop[0] && second.token[i] != stop[1]);

    char said[3] = {first.text[4], first.text[5], 0};
    const char *const stops[] = {"never said", said};
    r = request(&second, 0);
    r.stop = stops, r.n_stop = 2;
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(second.end.reason, LUTRA_STOP_STRING);
    assert_int_equal(second.end.stop, 1);

    stop[1] = 1 << 30;
    r = request(&second, 0);
    r.stop_tokens = stop, r.n_stop_tokens = 2;
    assert_int_equal(lutra_generate(f.s, &r, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "stop token 1"));
    r.n_stop_tokens = 65;
    assert_int_equal(lutra_generate(f.s, &r, &why), LUTRA_E_ARGUMENT);
    r.n_stop_tokens = 0, r.min_tokens = -1;
    assert_int_equal(lutra_generate(f.s, &r, &why), LUTRA_E_ARGUMENT);
    fixture_close(&f);
}

/* The model's own end waits for min_tokens, too, and a grammar's mask and it hold together. */
static void short_answers_are_not_ended(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_logit_bias bias = {0, 1000.0f};
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, NULL);
    while (!lutra_token_is_end(f.model, bias.token)) bias.token++;
    for (int with_grammar = 0; with_grammar < 2; with_grammar++)
        for (int min = 0; min < 12; min += 5) {
            struct lutra_request r = request(&first, 0);
            r.ignore_end = false;
            sampling.bias = &bias, sampling.n_bias = 1;
            r.min_tokens = min;
            r.grammar = with_grammar ? "root ::= [a-z]*" : NULL;
            OK(lutra_generate(f.s, &r, err));
            assert_int_equal(first.end.reason, LUTRA_STOP_END);
            assert_int_equal(first.end.n_tok, min);
        }
    fixture_close(&f);
}

static void prompts_report_progress(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, NULL);
    struct lutra_request r = request(&first, 0);
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(first.n_done, 4);
    assert_int_equal(first.done[0], 0);
    assert_int_equal(first.done[1], 32);
    assert_int_equal(first.done[2], 64);
    assert_int_equal(first.done[3], N_PROMPT);
    r = request(&second, 0);
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(second.done[0], second.end.n_cached); /* what is found comes first */
    assert_true(second.n_done == 2 && second.done[0] > 0 && second.done[1] == N_PROMPT);
    assert_true(first.end.start_us <= first.end.first_us && first.end.first_us <= first.end.end_us);
    fixture_close(&f);
}

/* ---- a prompt's tokens ---- */

struct scored {
    int n, n_text;
    float log_prob[N_PROMPT];
    struct lutra_token_prob top[N_PROMPT][3];
};

static void on_prompt_piece(void *user, const struct lutra_prompt_piece *p)
{
    struct scored *h = user;
    assert_int_equal(p->index, ++h->n); /* from 1 on, each once */
    assert_int_equal(p->token, prompt[p->index]);
    assert_int_equal(p->n_top, 3);
    assert_int_equal(h->n_text, 0);
    h->log_prob[p->index] = p->log_prob;
    memcpy(h->top[p->index], p->top, 3 * sizeof *p->top);
}

static int count_text(void *user, const struct lutra_piece *p)
{
    ((struct scored *)user)->n_text += p->token >= 0;
    return 0;
}

/* Each is what its row says of the token behind it, whatever is cached and how small the passes are; so is the text
 * that follows. */
static void prompt_tokens_have_log_probs(void **state)
{
    (void)state;
    static struct scored h;
    struct fixture f;
    struct lutra_model_info info;
    int32_t seq;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    lutra_model_info_get(f.model, &info, sizeof info);
    open_session(&f, NULL);
    struct lutra_request r = request(&first, 0);
    OK(lutra_generate(f.s, &r, err)); /* all of it is cached now */
    for (int n_samples = 1; n_samples <= 2; n_samples++) {
        memset(&h, 0, sizeof h);
        r = request(&second, 3);
        r.on_prompt_piece = on_prompt_piece, r.on_text = count_text, r.on_end = NULL, r.on_prompt = NULL;
        r.user = &h, r.n_samples = n_samples, r.max_tokens = 2;
        OK(lutra_generate(f.s, &r, err));
        assert_int_equal(h.n, N_PROMPT - 1);
        assert_int_equal(h.n_text, 2 * n_samples);
    }
    memset(&h, 0, sizeof h);
    r.max_tokens = 0, r.n_samples = 1;
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(h.n, N_PROMPT - 1);
    assert_int_equal(h.n_text, 0);

    open_session(&f, NULL);
    OK(lutra_seq_open(f.s, 0, &seq, err));
    for (int i = 0; i < N_PROMPT - 1; i++) {
        struct lutra_row row = {
            .token = prompt[i], .pos = i, .seq = seq, .parent = -1, .want = LUTRA_WANT_LOGITS | LUTRA_WANT_LOGPROB};
        row.target = prompt[i + 1];
        OK(lutra_forward(f.s, &row, 1, sizeof row, err));
        const struct lutra_row_result *res = lutra_forward_result(f.s, 0);
        assert_true(h.log_prob[i + 1] == res->target_logit - res->log_sum_exp);
        int n_better = 0;
        for (int t = 0; t < info.n_vocab; t++) n_better += res->logits[t] > res->logits[h.top[i + 1][2].token];
        assert_in_range(n_better, 0, 2);
    }
    fixture_close(&f);
}

/* Beside others, with too few blocks for all: a prompt that is evaluated again is told of once. */
static void a_prompt_is_told_of_once(void **state)
{
    (void)state;
    static struct heard other[2];
    static struct scored h;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    open_session(&f, NULL);
    struct lutra_request r = request(&first, 3);
    OK(lutra_generate(f.s, &r, err));
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 3, ss.n_ctx = 256, ss.n_batch = 32, ss.n_cache = 320;
    lutra_session_close(&f.s);
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    for (int i = 0; i < 2; i++) {
        r = request(&other[i], 0);
        r.max_tokens = 120, r.on_text = NULL, r.on_prompt = NULL;
        OK(lutra_submit(f.s, &r, NULL, err));
    }
    r = request(&second, 3);
    r.on_prompt_piece = on_prompt_piece, r.on_text = count_text, r.on_prompt = NULL, r.on_end = NULL, r.user = &h;
    memset(&h, 0, sizeof h);
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(h.n, N_PROMPT - 1);
    assert_int_equal(h.n_text, N_SAID);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(likeliest_tokens_are_the_models),
        cmocka_unit_test(what_ended_it_is_named),
        cmocka_unit_test(short_answers_are_not_ended),
        cmocka_unit_test(prompts_report_progress),
        cmocka_unit_test(prompt_tokens_have_log_probs),
        cmocka_unit_test(a_prompt_is_told_of_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
