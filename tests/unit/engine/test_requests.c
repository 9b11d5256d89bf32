/* SPDX-License-Identifier: MIT
 *
 * Requests: the same text whatever the batch, threads and waiting; every way a sample can end.
 */
#include "engine_fixture.h"

enum { MAX_SAMPLES = 40, MAX_TEXT = 4096 };

struct heard {
    char text[MAX_SAMPLES][MAX_TEXT];
    int32_t token[MAX_SAMPLES][512];
    int n_token[MAX_SAMPLES];
    struct lutra_end end[MAX_SAMPLES];
    int n_end;
    int stop_after; /* on_text returns nonzero at this many tokens; 0 = never */
    int cancel_after;
    lutra_session *s;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    char *end = h->text[p->sample] + strlen(h->text[p->sample]);
    assert_true(end + p->n_bytes < h->text[p->sample] + MAX_TEXT);
    assert_int_equal(p->text[p->n_bytes], 0);
    for (size_t i = 0; i < p->n_bytes; i++) end[i] = p->text[i] ? p->text[i] : '@'; /* NUL is text, too */
    if (p->token >= 0) h->token[p->sample][h->n_token[p->sample]++] = p->token;
    if (h->cancel_after && h->n_token[p->sample] == h->cancel_after) lutra_cancel(h->s);
    return h->stop_after && h->n_token[p->sample] == h->stop_after;
}

static void on_end(void *user, const struct lutra_end *e)
{
    struct heard *h = user;
    assert_int_equal(h->end[e->sample].reason, LUTRA_STOP_NONE); /* once per sample */
    h->end[e->sample] = *e;
    h->n_end++;
}

static struct lutra_sampling sampling; /* of the request made last */

static struct lutra_request make_request(
    struct heard *h, lutra_session *s, int32_t *prompt, int n_prompt, int n_samples, int max_tokens)
{
    memset(h, 0, sizeof *h);
    h->s = s;
    for (int i = 0; i < n_prompt; i++) prompt[i] = token_at(i);
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.n_samples = n_samples;
    r.max_tokens = max_tokens;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = 42;
    r.sampling = &sampling;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = h;
    return r;
}

static void same_samples(const struct heard *a, const struct heard *b, int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(a->n_token[i], b->n_token[i]);
        assert_memory_equal(a->token[i], b->token[i], sizeof(int32_t) * (size_t)a->n_token[i]);
        assert_string_equal(a->text[i], b->text[i]);
        assert_true(a->end[i].sum_log_prob == b->end[i].sum_log_prob);
    }
}

static struct heard first, second, third;

static void same_text_whatever_the_batch(void **state)
{
    (void)state;
    struct fixture two, one;
    int32_t prompt[100], other[50];
    fixture_open(&two, "tiny-qwen2", "Q4_0", 2);
    fixture_open(&one, "tiny-qwen2", "Q4_0", 1);

    fixture_session(&two, 16, 256); /* all at once */
    struct lutra_request r = make_request(&first, two.s, prompt, 100, 16, 40);
    OK(lutra_generate(two.s, &r, err));
    assert_int_equal(first.n_end, 16);
    assert_true(memcmp(first.token[0], first.token[1], sizeof first.token[0]) != 0);
    for (int i = 0; i < 16; i++) assert_int_equal(first.end[i].reason, LUTRA_STOP_LENGTH);

    fixture_session(&two, 3, 256); /* waiting for slots, restarting from the last prompt token */
    r = make_request(&second, two.s, prompt, 100, 16, 40);
    OK(lutra_generate(two.s, &r, err));
    same_samples(&first, &second, 16);

    fixture_session(&one, 5, 256); /* one thread, another request beside it, small passes */
    struct lutra_request r2 = make_request(&third, one.s, other, 50, 7, 25);
    sampling.seed = 7;
    OK(lutra_submit(one.s, &r2, NULL, err));
    r = make_request(&second, one.s, prompt, 100, 16, 40);
    int active = 1;
    for (int i = 0; i < 3; i++) OK(lutra_step(one.s, &active, err));
    OK(lutra_submit(one.s, &r, NULL, err));
    while (active) OK(lutra_step(one.s, &active, err));
    assert_int_equal(third.n_end, 7);
    same_samples(&first, &second, 16);
    fixture_close(&two);
    fixture_close(&one);
}

/* Biases of nothing, and many, are too many for the head's best: the sampler gets all logits, and picks the same. */
static void same_text_from_best_and_all(void **state)
{
    (void)state;
    enum { N = 70 };
    struct fixture f;
    struct lutra_logit_bias nothing[N] = {{0}}, some[3] = {{5, 3}, {6, -2}, {5, 1}};
    int32_t prompt[40];
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    fixture_session(&f, 4, 64);
    for (int greedy = 0; greedy < 2; greedy++) {
        struct lutra_request r = make_request(&first, f.s, prompt, 40, 6, 40);
        sampling.temperature = greedy ? 0 : 1.5f;
        sampling.bias = some;
        sampling.n_bias = 3;
        OK(lutra_generate(f.s, &r, err));
        r = make_request(&second, f.s, prompt, 40, 6, 40);
        sampling.temperature = greedy ? 0 : 1.5f;
        memcpy(nothing, some, sizeof some);
        for (int i = 3; i < N; i++) nothing[i].token = i;
        sampling.bias = nothing;
        sampling.n_bias = N;
        OK(lutra_generate(f.s, &r, err));
        same_samples(&first, &second, 6);
    }
    fixture_close(&f);
}

static void identical_greedy_prompts_agree(void **state)
{
    (void)state;
    struct fixture f;
    int32_t prompt[30];
    fixture_open(&f, "tiny-qwen3", "Q8_0", 2);
    fixture_session(&f, MAX_SAMPLES, 128);
    struct lutra_request r = make_request(&first, f.s, prompt, 30, MAX_SAMPLES, 50);
    sampling.temperature = 0;
    OK(lutra_generate(f.s, &r, err));
    for (int i = 1; i < MAX_SAMPLES; i++) assert_memory_equal(first.token[0], first.token[i], sizeof first.token[0]);
    fixture_close(&f);
}

static void prefix_is_reused(void **state)
{
    (void)state;
    struct fixture f;
    int32_t prompt[100], longer[180];
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, 2, 256);
    struct lutra_request r = make_request(&first, f.s, prompt, 100, 1, 20);
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(first.end[0].n_cached, 0);

    /* The next turn: prompt, answer, and new words. */
    r = make_request(&second, f.s, longer, 180, 2, 20);
    memcpy(longer + 100, first.token[0], 20 * sizeof *longer);
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(second.end[0].n_cached, 119); /* the last answer token was never evaluated */

    fixture_session(&f, 2, 256);
    r = make_request(&third, f.s, longer, 180, 2, 20);
    memcpy(longer + 100, first.token[0], 20 * sizeof *longer);
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(third.end[0].n_cached, 0);
    same_samples(&second, &third, 2);
    fixture_close(&f);
}

static void every_way_to_end(void **state)
{
    (void)state;
    struct fixture f;
    int32_t prompt[50];
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, 4, 80);

    struct lutra_request r = make_request(&first, f.s, prompt, 50, 2, -1);
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(first.end[1].reason, LUTRA_STOP_CTX_FULL);
    assert_int_equal(first.end[1].n_tok, 31); /* 50 + 30 in the cache, and one more */

    r = make_request(&second, f.s, prompt, 50, 2, -1);
    second.stop_after = 3;
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(second.end[0].reason, LUTRA_STOP_CALLER);
    assert_int_equal(second.end[0].n_tok, 3);

    r = make_request(&second, f.s, prompt, 50, 2, -1);
    second.cancel_after = 5;
    assert_int_equal(lutra_generate(f.s, &r, NULL), LUTRA_E_CANCELLED);
    assert_int_equal(second.end[0].reason, LUTRA_STOP_CANCELLED);
    assert_in_range(second.end[0].n_tok, 5, 6);
    assert_int_equal(second.n_end, 2);

    r = make_request(&second, f.s, prompt, 50, 1, -1); /* usable after a cancel */
    r.timeout_us = 1;
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(second.end[0].reason, LUTRA_STOP_DEADLINE);

    /* A stop string: the text up to it, and none of it. */
    char stop[8];
    size_t middle = strlen(first.text[0]) / 2;
    while (((unsigned char)first.text[0][middle] & 0xc0) == 0x80) middle++;
    memcpy(stop, first.text[0] + middle, 7);
    stop[7] = 0;
    const char *const stops[] = {"never said", stop};
    r = make_request(&second, f.s, prompt, 50, 1, -1);
    r.stop = stops;
    r.n_stop = 2;
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(second.end[0].reason, LUTRA_STOP_STRING);
    size_t n = (size_t)(strstr(first.text[0], stop) - first.text[0]);
    assert_int_equal(strlen(second.text[0]), n);
    assert_memory_equal(second.text[0], first.text[0], n);

    /* Every end-of-generation token ends. */
    struct lutra_logit_bias bias = {0, 1000.0f};
    while (!lutra_token_is_end(f.model, bias.token)) bias.token++;
    r = make_request(&second, f.s, prompt, 50, 1, -1);
    r.ignore_end = false;
    sampling.bias = &bias;
    sampling.n_bias = 1;
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(second.end[0].reason, LUTRA_STOP_END);
    assert_int_equal(second.end[0].n_tok, 0);
    fixture_close(&f);
}

static void one_request_is_cancelled_alone(void **state)
{
    (void)state;
    struct fixture f;
    int32_t prompt[20], other[20], id;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, 4, 128);
    struct lutra_request r = make_request(&first, f.s, prompt, 20, 2, 60);
    OK(lutra_generate(f.s, &r, err));

    r = make_request(&second, f.s, prompt, 20, 2, 60);
    struct lutra_request r2 = make_request(&third, f.s, other, 20, 2, 60);
    OK(lutra_submit(f.s, &r2, &id, err));
    OK(lutra_submit(f.s, &r, NULL, err));
    int active = 1;
    for (int i = 0; i < 10; i++) OK(lutra_step(f.s, &active, err));
    OK(lutra_request_cancel(f.s, id));
    while (active) OK(lutra_step(f.s, &active, err));
    assert_int_equal(third.end[0].reason, LUTRA_STOP_CANCELLED);
    assert_int_equal(third.end[1].reason, LUTRA_STOP_CANCELLED);
    same_samples(&first, &second, 2);
    assert_int_equal(lutra_request_cancel(f.s, id), LUTRA_E_NOT_FOUND);
    fixture_close(&f);
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    int32_t prompt[100];
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    struct lutra_request good = make_request(&first, f.s, prompt, 10, 1, 5), r = good;
    r.n_prompt = 0;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    r = good;
    r.n_prompt = 64;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_CTX_FULL);
    assert_non_null(strstr(why.what, "64"));
    r = good;
    r.n_samples = 0;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    r = good;
    prompt[3] = -7;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    assert_int_equal(why.where, 3);
    prompt[3] = 1;
    const char *const empty[] = {""};
    r = good;
    r.stop = empty;
    r.n_stop = 1;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    r = good;
    r.size = 0;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    r = good;
    sampling.top_p = 0.0f / 0.0f;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    sampling.top_p = 1;
    OK(lutra_generate(f.s, &good, err));
    assert_int_equal(first.end[0].n_tok, 5);
    fixture_close(&f);
}

/* What a sample died of is what lutra_generate() returns, in words. */
static void samples_that_fail_are_an_error(void **state)
{
    (void)state;
    struct fixture f;
    struct heard h;
    struct lutra_error why = {0};
    int32_t prompt[8];
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    struct lutra_request r = make_request(&h, f.s, prompt, 8, 1, 8);
    struct lutra_model_info info;
    lutra_model_info_get(f.model, &info, sizeof info);
    struct lutra_logit_bias *none = calloc((size_t)info.n_vocab, sizeof *none);
    for (int i = 0; i < info.n_vocab; i++) none[i] = (struct lutra_logit_bias){i, -INFINITY};
    sampling.bias = none;
    sampling.n_bias = info.n_vocab;
    assert_int_equal(lutra_generate(f.s, &r, &why), LUTRA_E_NOT_FOUND);
    assert_non_null(strstr(why.what, "forbids every one"));
    free(none);
    assert_int_equal(h.end[0].reason, LUTRA_STOP_ERROR);
    r = make_request(&h, f.s, prompt, 8, 1, 8); /* and it is forgotten */
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(h.end[0].reason, LUTRA_STOP_LENGTH);
    fixture_close(&f);
}

/* A prompt as text is the same tokens. */
static void a_prompt_may_be_text(void **state)
{
    (void)state;
    static const char text[] = "one two";
    struct fixture f;
    int32_t token[32];
    int n;
    struct lutra_request r;
    struct lutra_stats stats;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    OK(lutra_tokenize(f.model, text, strlen(text), LUTRA_ADD_SPECIAL | LUTRA_PARSE_SPECIAL, token, 32, &n, err));
    lutra_request_init(&r, sizeof r);
    r.text = text, r.n_text = strlen(text), r.max_tokens = 1;
    OK(lutra_generate(f.s, &r, err));
    lutra_session_stats_get(f.s, &stats, sizeof stats);
    assert_int_equal(stats.prompt_tokens, n);
    r.prompt = token, r.n_prompt = n;
    assert_int_equal(lutra_submit(f.s, &r, NULL, NULL), LUTRA_E_ARGUMENT);
    r.text = NULL;
    OK(lutra_generate(f.s, &r, err));
    lutra_session_stats_get(f.s, &stats, sizeof stats);
    assert_int_equal(stats.prompt_tokens, n + 1); /* all but the last row was there */
    fixture_close(&f);
}

static void metadata_is_read_by_key(void **state)
{
    (void)state;
    struct fixture f;
    char *text = NULL;
    int n = 0;
    fixture_open(&f, "tiny-llama", "F16", 1);
    OK(lutra_model_meta(f.model, "general.architecture", &text, err));
    assert_string_equal(text, "llama");
    lutra_free(text);
    OK(lutra_model_meta(f.model, "llama.block_count", &text, err));
    assert_true(atoi(text) > 0);
    lutra_free(text);
    assert_int_equal(lutra_model_meta(f.model, "no.such", &text, NULL), LUTRA_E_NOT_FOUND);
    assert_null(text);
    for (; lutra_model_meta_key(f.model, n); n++) {
        OK(lutra_model_meta(f.model, lutra_model_meta_key(f.model, n), &text, err));
        lutra_free(text);
    }
    assert_true(n > 5);
    assert_null(lutra_model_meta_key(f.model, -1));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_text_whatever_the_batch),
        cmocka_unit_test(samples_that_fail_are_an_error),
        cmocka_unit_test(same_text_from_best_and_all),
        cmocka_unit_test(identical_greedy_prompts_agree),
        cmocka_unit_test(prefix_is_reused),
        cmocka_unit_test(a_prompt_may_be_text),
        cmocka_unit_test(metadata_is_read_by_key),
        cmocka_unit_test(every_way_to_end),
        cmocka_unit_test(one_request_is_cancelled_alone),
        cmocka_unit_test(bad_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
