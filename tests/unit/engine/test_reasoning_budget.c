/* SPDX-License-Identifier: MIT
 *
 * A budget of thoughts: so many tokens, then the tag that ends reasoning, then an answer.
 */
#include "engine/session_impl.h"
#include "engine_fixture.h"

enum { N_MOST = 64 };

struct heard {
    char text[2][4 * N_MOST], part[2][4 * N_MOST]; /* of each byte: a, r, m */
    size_t n[2];
    int32_t guess; /* of on_draft */
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    for (size_t i = 0; i < p->n_bytes; i++) {
        h->text[p->sample][h->n[p->sample]] = p->text[i];
        h->part[p->sample][h->n[p->sample]++] = "arm"[p->part];
    }
    return 0;
}

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    const struct heard *h = user;
    (void)tip;
    for (int i = 0; i < n_max; i++) draft[i] = (struct lutra_draft){.token = h->guess, .parent = i - 1, .p = 0.9f};
    return n_max;
}

static int32_t byte_token(const struct fixture *f, const char *byte)
{
    int32_t id;
    int n;
    OK(lutra_tokenize(f->model, byte, 1, 0, &id, 1, &n, err));
    assert_int_equal(n, 1);
    return id;
}

/* Two samples of a model that says the bytes of `two` in turn, behind a prompt that ends in `end`. */
static void say(struct fixture *f, const char *two, const char *end, int budget, const char *stop, struct heard *h)
{
    int32_t prompt[32];
    int n;
    struct lutra_request r;
    struct lutra_sampling sampling;
    struct lutra_logit_bias bias[] = {{byte_token(f, two), 1000}, {byte_token(f, two + 1), 900}};
    memset(h, 0, sizeof *h);
    h->guess = bias[0].token;
    OK(lutra_tokenize(f->model, end, strlen(end), 0, prompt, 32, &n, err));
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 0;
    sampling.penalty_last_n = -1;
    sampling.frequency_penalty = two[0] == two[1] ? 0 : 300;
    sampling.bias = bias;
    sampling.n_bias = two[0] == two[1] ? 1 : 2;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = n;
    r.n_samples = 2;
    r.max_tokens = 26;
    r.sampling = &sampling;
    r.stop = &stop;
    r.n_stop = stop != NULL;
    r.chat_template = "</think>";
    r.reasoning_budget = budget;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_draft = on_draft;
    r.user = h;
    OK(lutra_generate(f->s, &r, err));
    assert_string_equal(h->text[0], h->text[1]);
    assert_memory_equal(h->part[0], h->part[1], sizeof h->part[0]);
}

static void the_tag_comes_when_the_budget_is_used_up(void **state)
{
    (void)state;
    static const struct {
        const char *two, *end, *stop;
        int budget;
        const char *text, *part; /* how it begins */
    } cases[] = {
        {"aa", "hm <think>", NULL, 5, "aaaaa</think>aaa", "rrrrrmmmmmmmmaaa"},
        {"aa", "hm <think>", NULL, 0, "</think>aaa", "mmmmmmmmaaa"},
        {"aa", "hm <think>", NULL, -1, "aaaaaaaaaaaaaaaaaaaaaaaaaa", "rrrrrrrrrrrrrrrrrrrrrrrrrr"},
        {"aa", "hm", NULL, 3, "aaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"\xc3\xa9", "<think>", NULL, 3, "\xc3\xa9\xc3\xa9</think>", "rrrrmmmmmmmm"}, /* no half character */
        {"<a", "a<think>", NULL, 3, "<a<a</think>", "rrrrmmmmmmmm"},                  /* it might have been a tag */
        {"ba", "<think>", "ac", 2, "bab</think>", "rrrmmmmmmmm"},                     /* or the string that ends all */
        {"<<", "<think>", NULL, 3, "<<<<<<<<<<<</think>", "rrrrrrrrrrrmmmmmmmm"},     /* it waits for 8 tokens */
    };
    struct fixture f;
    static struct heard h;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, 2, 256);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        say(&f, cases[i].two, cases[i].end, cases[i].budget, cases[i].stop, &h);
        h.text[0][strlen(cases[i].text)] = h.part[0][strlen(cases[i].part)] = 0;
        assert_string_equal(h.text[0], cases[i].text);
        assert_string_equal(h.part[0], cases[i].part);
    }
    fixture_close(&f);
}

/* A model that would rather end than say "a": thoughts do not end a text that a grammar still wants an answer of. */
static void thoughts_do_not_end_what_owes_an_answer(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *text;
        int stop_token; /* 1: it would rather say another token that ends it */
    } cases[] = {{"root ::= \"aa\"", "aaa</think>aa", 0}, {"root ::= \"aa\"", "aaa</think>aa", 1},
        {"root ::= \"aa\"?", "", 0}, {NULL, "", 0}, {"root ::= \"a\" | \"b\" root", "aaa</think>a", 0}};
    struct fixture f;
    static struct heard h;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, 2, 256);
    int32_t eog = 0, prompt[32], stop_token = byte_token(&f, "z");
    while (!text_is_eog(f.model->vocab, eog)) eog++;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lutra_logit_bias bias[] = {{cases[i].stop_token ? stop_token : eog, 2000}, {byte_token(&f, "a"), 1000}};
        struct lutra_request r;
        struct lutra_sampling sampling;
        memset(&h, 0, sizeof h);
        h.guess = bias[1].token;
        lutra_request_init(&r, sizeof r);
        lutra_sampling_init(&sampling, sizeof sampling);
        sampling.temperature = 0;
        sampling.bias = bias;
        sampling.n_bias = 2;
        OK(lutra_tokenize(f.model, "<think>", 7, 0, prompt, 32, &r.n_prompt, err));
        r.prompt = prompt;
        r.n_samples = 2;
        r.max_tokens = 26;
        r.sampling = &sampling;
        r.chat_template = "</think>";
        r.reasoning_budget = 3;
        r.grammar = cases[i].grammar;
        r.stop_tokens = &stop_token;
        r.n_stop_tokens = cases[i].stop_token;
        r.on_text = on_text;
        r.on_draft = on_draft;
        r.user = &h;
        OK(lutra_generate(f.s, &r, err));
        for (int k = 0; k < 2; k++) assert_string_equal(h.text[k], cases[i].text);
    }
    fixture_close(&f);
}

static void a_budget_without_tags_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_request r;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, 1, 64);
    lutra_request_init(&r, sizeof r);
    r.prompt = &(int32_t){1};
    r.n_prompt = 1;
    r.reasoning_budget = 7;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "budget of 7 tokens, but the chat template has no tags"));
    r.chat_template = "</think>";
    r.reasoning_budget = -2;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "reasoning_budget is -2"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tag_comes_when_the_budget_is_used_up),
        cmocka_unit_test(thoughts_do_not_end_what_owes_an_answer),
        cmocka_unit_test(a_budget_without_tags_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
