/* SPDX-License-Identifier: MIT
 *
 * Constrained requests: every text is one of the grammar, a draw is that from logits with all other tokens forbidden,
 * log-probs stay the model's, and drafts leave the text as it is.
 */
#include "engine/session_impl.h"
#include "engine_fixture.h"

#include <jansson.h>

enum { SAMPLES = 4, MOST = 200 };

struct heard {
    char text[SAMPLES][4096];
    int32_t token[SAMPLES][MOST];
    float log_prob[SAMPLES][MOST];
    int n[SAMPLES];
    struct lutra_end end[SAMPLES];
    const struct heard *guess; /* what on_draft guesses from: sample 0's text, each fifth guess wrong */
    int n_prompt;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    strncat(h->text[p->sample], p->text, p->n_bytes);
    if (p->token < 0) return 0;
    assert_in_range(h->n[p->sample], 0, MOST - 1);
    h->token[p->sample][h->n[p->sample]] = p->token;
    h->log_prob[p->sample][h->n[p->sample]++] = p->log_prob;
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    ((struct heard *)user)->end[end->sample] = *end;
}

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    const struct heard *h = user;
    int n = 0;
    for (int at = tip->n_token - h->n_prompt; n < n_max && at + n < h->guess->n[0]; n++)
        draft[n] = (struct lutra_draft){h->guess->token[0][at + n] ^ ((at + n) % 5 == 4), n - 1, 0.9f, 0, 0};
    return n;
}

static void generate(struct fixture *f, struct heard *h, struct lutra_request *r)
{
    static int32_t prompt[20];
    const struct heard *guess = h->guess;
    memset(h, 0, sizeof *h);
    h->guess = guess;
    h->n_prompt = r->n_prompt = 20;
    for (int i = 0; i < 20; i++) prompt[i] = token_at(i);
    r->prompt = prompt;
    r->max_tokens = MOST;
    r->on_text = on_text;
    r->on_end = on_end;
    r->user = h;
    OK(lutra_generate(f->s, r, err));
}

#define THING                                                                                                          \
    "{\"type\":\"object\",\"properties\":{\"kind\":{\"enum\":[\"a\",\"b\"]},\"n\":{\"type\":\"integer\","              \
    "\"minimum\":10,\"maximum\":99},\"more\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"maxItems\":3}},"   \
    "\"required\":[\"kind\",\"n\"]}"

static void check_thing(const char *text)
{
    json_t *x = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!x) fail_msg("no JSON: %s", text);
    const char *kind = json_string_value(json_object_get(x, "kind"));
    assert_true(kind && (!strcmp(kind, "a") || !strcmp(kind, "b")));
    assert_in_range(json_integer_value(json_object_get(x, "n")), 10, 99);
    assert_true(json_array_size(json_object_get(x, "more")) <= 3);
    json_decref(x);
}

static void texts_hold_with_and_without_drafts(void **state)
{
    (void)state;
    static struct heard h, again;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 512;
    ss.n_seq = SAMPLES;
    ss.experiment = fixture_row_cost(0.05f); /* drafts are taken whatever rows are measured to cost */
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    struct lutra_sampling sampling;
    for (int round = 0; round < 3; round++) { /* the usual chain, another, the best */
        lutra_sampling_init(&sampling, sizeof sampling);
        sampling.seed = 7 + (uint64_t)round;
        if (round == 1) sampling.samplers = "min_p;temperature;top_p";
        if (round == 2) sampling.temperature = 0;
        struct lutra_request r;
        lutra_request_init(&r, sizeof r);
        r.json_schema = THING;
        r.n_samples = SAMPLES;
        r.sampling = &sampling;
        generate(&f, &h, &r);
        for (int i = 0; i < SAMPLES; i++) {
            if (h.end[i].reason != LUTRA_STOP_END) continue; /* white space may take all of max_tokens */
            check_thing(h.text[i]);
            for (int k = 0; k < h.n[i]; k++) assert_true(h.log_prob[i][k] < 0);
        }
        again.guess = &h;
        r.on_draft = on_draft;
        generate(&f, &again, &r);
        for (int i = 0; i < SAMPLES; i++) {
            assert_string_equal(again.text[i], h.text[i]);
            assert_int_equal(again.n[i], h.n[i]);
            assert_memory_equal(again.log_prob[i], h.log_prob[i], (size_t)h.n[i] * sizeof(float));
        }
        assert_true(again.end[0].n_accepted > 0);
    }
    fixture_close(&f);
}

/* The same draws as with every other token forbidden by a bias. */
static void draws_are_those_of_masked_logits(void **state)
{
    (void)state;
    static struct heard h, all, biased;
    static struct lutra_logit_bias bias[4096];
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, SAMPLES, 512);
    int n_vocab = model_ops(f.model->model)->n_vocab, n = 0;
    for (int t = 0; t < n_vocab && n < 4096; t++) {
        struct text_bytes p = text_token_piece(f.model->vocab, t, 0);
        bool digits = p.n > 0 && !text_is_eog(f.model->vocab, t);
        for (size_t i = 0; i < p.n; i++) digits = digits && p.p[i] >= '0' && p.p[i] <= '9';
        if (!digits) bias[n++] = (struct lutra_logit_bias){t, -INFINITY};
    }
    assert_in_range(n, 1, n_vocab - 1);
    for (int k = 0; k < 4; k++) {
        struct lutra_sampling sampling;
        struct lutra_request r;
        lutra_sampling_init(&sampling, sizeof sampling);
        sampling.seed = 11 + (uint64_t)k;
        if (k == 1) sampling.top_k = 0;
        if (k == 2) sampling.repeat_penalty = 1.3f;
        if (k == 3) sampling.mirostat = 2;
        lutra_request_init(&r, sizeof r);
        r.sampling = &sampling;
        r.n_samples = SAMPLES;
        r.grammar = "root ::= [0-9]{1000,}";
        generate(&f, &h, &r);
        r.top_logprobs = 3; /* of all tokens, not of those allowed: then all logits are drawn from */
        generate(&f, &all, &r);
        r.top_logprobs = 0;
        for (int i = 0; i < SAMPLES; i++) assert_string_equal(h.text[i], all.text[i]);
        r.grammar = NULL;
        sampling.bias = bias;
        sampling.n_bias = n;
        generate(&f, &biased, &r);
        for (int i = 0; i < SAMPLES; i++) {
            assert_int_equal(h.end[i].reason, LUTRA_STOP_LENGTH);
            assert_string_equal(h.text[i], biased.text[i]);
            assert_memory_equal(h.log_prob[i], biased.log_prob[i], sizeof h.log_prob[i]);
        }
    }
    fixture_close(&f);
}

static void whole_texts_end_and_wrong_requests_are_refused(void **state)
{
    (void)state;
    static struct heard h;
    struct fixture f;
    struct lutra_request r;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, 2, 512);
    lutra_request_init(&r, sizeof r);
    r.grammar = "root ::= \"yes\" | \"no\"";
    r.ignore_end = true; /* no end token is needed where nothing else may follow */
    generate(&f, &h, &r);
    assert_int_equal(h.end[0].reason, LUTRA_STOP_END);
    assert_true(!strcmp(h.text[0], "yes") || !strcmp(h.text[0], "no"));
    struct lutra_error err;
    r.json_schema = "{}";
    assert_int_equal(lutra_submit(f.s, &r, NULL, &err), LUTRA_E_ARGUMENT);
    r.grammar = NULL;
    r.json_schema = "{\"not\":{}}";
    assert_int_equal(lutra_submit(f.s, &r, NULL, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "#/not"));
    r.json_schema = NULL;
    r.grammar = "root ::= (";
    assert_int_equal(lutra_submit(f.s, &r, NULL, &err), LUTRA_E_FORMAT);
    r.grammar = NULL;
    generate(&f, &h, &r); /* and the next request is free again */
    assert_int_equal(h.end[0].reason, LUTRA_STOP_LENGTH);
    fixture_close(&f);
}

#define CALLS(trigger)                                                                                                 \
    "{\"type\":\"structural_tag\",\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\"" trigger                    \
    "\"],\"tags\":[{\"type\":\"tag\",\"begin\":\"" trigger                                                             \
    "\",\"content\":{\"type\":\"json_schema\",\"json_schema\":" THING "},\"end\":\";\"}]}}"

/* Text is the free one as long as no trigger comes; behind each stands what the schema allows, whatever drafts do. */
static void structures_are_free_up_to_their_triggers(void **state)
{
    (void)state;
    static struct heard h, plain;
    struct fixture f;
    struct lutra_request r;
    struct lutra_sampling sampling;
    int n_call = 0;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, SAMPLES, 512);
    for (int round = 0; round < 6; round++) {
        lutra_sampling_init(&sampling, sizeof sampling);
        sampling.seed = 3 + (uint64_t)round;
        lutra_request_init(&r, sizeof r);
        r.sampling = &sampling;
        r.n_samples = SAMPLES;
        r.on_draft = round % 2 ? on_draft : NULL;
        plain.guess = h.guess = &plain;
        generate(&f, &plain, &r);
        r.structure = CALLS("never, not once");
        generate(&f, &h, &r);
        for (int i = 0; i < SAMPLES; i++) {
            assert_string_equal(h.text[i], plain.text[i]);
            assert_memory_equal(h.log_prob[i], plain.log_prob[i], sizeof h.log_prob[i]);
        }
        r.structure = CALLS("e");
        generate(&f, &h, &r);
        for (int i = 0; i < SAMPLES; i++)
            for (char *p = h.text[i], *end; (p = strchr(p, 'e')); p = end) {
                end = strchr(p, ';');
                if (!end) break; /* cut by max_tokens */
                *end++ = 0;
                check_thing(p + 1);
                n_call++;
            }
    }
    assert_true(n_call > 4);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_hold_with_and_without_drafts),
        cmocka_unit_test(draws_are_those_of_masked_logits),
        cmocka_unit_test(structures_are_free_up_to_their_triggers),
        cmocka_unit_test(whole_texts_end_and_wrong_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
