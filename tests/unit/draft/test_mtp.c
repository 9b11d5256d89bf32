/* SPDX-License-Identifier: MIT
 *
 * A model's own MTP block: what it is refused for, that it changes no text, and what it brings where it was trained.
 * What it computes is tests/golden/test_formula.c's.
 */
#include "unit/engine/engine_fixture.h"

#include <jansson.h>

#include "engine/model_impl.h"
#include "engine/session_impl.h"
#include "unit/engine/mtp_block.h"

/* ---- refusals ---- */

static void refused(const struct mtp_form *form, int status, const char *text)
{
    struct fixture f;
    struct lutra_session_settings ss;
    struct lutra_error why;
    fixture_make(&f, &(struct where){0}, "tiny-qwen35", "F32", 0, 1);
    if (form) add_mtp_block(f.path, form);
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    ss.spec_type = "mtp";
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), status);
    if (!strstr(why.what, text)) fail_msg("'%s' says nothing of '%s'", why.what, text);
    ss.spec_type = "auto"; /* goes on without it */
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    assert_null(f.s->drafter[DRAFTER_MTP].ops);
    fixture_close(&f);
}

static void blocks_are_refused_by_name(void **state)
{
    (void)state;
    refused(NULL, LUTRA_E_UNSUPPORTED, "no MTP block ('qwen35.nextn_predict_layers')");
    refused(&(struct mtp_form){.without = "eh_proj"}, LUTRA_E_NOT_FOUND, "'blk.4.nextn.eh_proj.weight' is missing");
    refused(&(struct mtp_form){.without = "enorm"}, LUTRA_E_NOT_FOUND, "'blk.4.nextn.enorm.weight' is missing");
    refused(&(struct mtp_form){.without = "attn_k.weight"}, LUTRA_E_NOT_FOUND, "'blk.4.attn_k.weight' is missing");
    refused(&(struct mtp_form){.narrow = "hnorm"}, LUTRA_E_FORMAT, "'blk.4.nextn.hnorm.weight' has shape 224");
    refused(
        &(struct mtp_form){.narrow = "eh_proj"}, LUTRA_E_FORMAT, "'blk.4.nextn.eh_proj.weight' has shape 480 x 256");
}

/* Where it has no norm of its own, the model's last one is its last one, too. */
static void the_last_norm_is_optional(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_session_settings ss;
    fixture_make(&f, &(struct where){0}, "tiny-qwen35", "F32", 0, 1);
    add_mtp_block(f.path, &(struct mtp_form){.without = "shared_head_norm"});
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    ss.spec_type = "mtp";
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    fixture_close(&f);
}

/* llama.cpp's names of the two drafters that run a model. */
static void names_of_others_are_known(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_session_settings ss;
    struct lutra_error why;
    fixture_make(&f, &(struct where){0}, "tiny-qwen2", "F32", 0, 1);
    add_mtp_block(f.path, &(struct mtp_form){0});
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    ss.spec_type = "draft-mtp,suffix";
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    assert_non_null(f.s->drafter[DRAFTER_MTP].ops);
    lutra_session_close(&f.s);
    ss.spec_type = "mtp,draft-mtp";
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "'draft-mtp' names a drafter a second time"));
    ss.spec_type = "draft-simple";
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "without a draft model (-md)"));
    ss.draft_model = f.model;
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    lutra_session_close(&f.s);
    ss.spec_type = "draft-eagle3";
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "'draft-eagle3' is not built"));
    assert_non_null(strstr(why.what, "draft-mtp"));
    fixture_close(&f);
}

/* ---- what it leaves as it is ---- */

enum { MAX_CAND = 64 };

struct said {
    int32_t token[MAX_CAND][128];
    float log_prob[MAX_CAND][128];
    int n[MAX_CAND], n_pass, n_drafted, n_accepted;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct said *s = user;
    if (p->token < 0) return 0;
    assert_in_range(p->sample, 0, MAX_CAND - 1);
    assert_in_range(s->n[p->sample], 0, 127);
    s->token[p->sample][s->n[p->sample]] = p->token;
    s->log_prob[p->sample][s->n[p->sample]++] = p->log_prob;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    struct said *s = user;
    s->n_pass += e->n_pass;
    s->n_drafted += e->n_drafted;
    s->n_accepted += e->n_accepted;
}

/* A search, whose candidates are forked and dropped; its winner's text. */
static void find(struct fixture *f, const char *spec, enum lutra_search_method method, uint64_t seed, float temperature,
    struct said *out, char *winner)
{
    struct lutra_session_settings ss;
    struct lutra_search set;
    struct lutra_sampling sampling;
    struct lutra_request r;
    struct lutra_session_experiment x;
    struct lutra_verifier_settings vs;
    lutra_verifier *judge;
    lutra_search_run *search;
    int32_t prompt[40];
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 128;
    ss.n_seq = 4;
    ss.spec_type = spec;
    ss.draft_p_min = 0;
    lutra_session_experiment_init(&x, sizeof x);
    x.draft_row_cost = 0.001f; /* drafts pay however seldom they are right */
    ss.experiment = &x;
    OK(lutra_session_open(&f->s, f->model, &ss, err));
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.model = f->model;
    OK(lutra_verifier_open(&judge, "likelihood", &vs, err));
    lutra_search_init(&set, sizeof set);
    set.method = method;
    set.width = 4;
    set.step = "e";
    set.max_steps = 8;
    set.early_stop = false;
    set.verifier = judge;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = temperature;
    sampling.seed = seed;
    lutra_request_init(&r, sizeof r);
    for (int i = 0; i < 40; i++) prompt[i] = token_at(i);
    memset(out, 0, sizeof *out);
    r.prompt = prompt;
    r.n_prompt = 40;
    r.sampling = &sampling;
    r.max_tokens = 60;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = out;
    OK(lutra_search_submit(&search, f->s, &r, &set, err));
    for (int active = 1; active;) OK(lutra_step(f->s, &active, err));
    snprintf(winner, 1024, "%s", lutra_search_done(search)->text);
    lutra_search_close(&search);
    lutra_session_close(&f->s);
    lutra_verifier_close(&judge);
}

/* A block that says the last token again is right now and then: random models repeat themselves, too, or draw with the
 * same random number from much the same tokens. */
static void searches_stay_as_they_are(void **state)
{
    static const char *const shapes[] = {"tiny-qwen2", "tiny-qwen35"};
    static const float temperature[] = {0.25f, 1.5f};
    static const enum lutra_search_method methods[] = {LUTRA_SEARCH_VOTE, LUTRA_SEARCH_BEAM, LUTRA_SEARCH_REBASE};
    static struct said plain, drafted;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        int n_accepted = 0;
        fixture_make(&f, &(struct where){0}, shapes[i], "F16", 0, 2);
        add_mtp_block(f.path, &(struct mtp_form){.repeats = true});
        OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
        for (uint64_t m = 0; m < 4 * sizeof methods / sizeof *methods; m++) {
            char winner[2][1024];
            find(&f, NULL, methods[m % 3], m, temperature[i], &plain, winner[0]);
            find(&f, "mtp", methods[m % 3], m, temperature[i], &drafted, winner[1]);
            assert_string_equal(winner[0], winner[1]);
            assert_memory_equal(plain.n, drafted.n, sizeof plain.n);
            assert_memory_equal(plain.token, drafted.token, sizeof plain.token);
            assert_memory_equal(plain.log_prob, drafted.log_prob, sizeof plain.log_prob);
            n_accepted += drafted.n_accepted;
        }
        print_message("%s: %d drafts accepted\n", shapes[i], n_accepted);
        assert_true(n_accepted > (i ? 2 : 40));
        fixture_close(&f);
    }
}

static const char *const questions[] = {
    "Sam has 42 cards. Then the number of cards doubles. How many cards does Sam have in the end?",
    "Ann has 17 books. Ann buys 5 more books. Then Ann gives away 8 books. How many books does Ann have in the end?",
    "Tom has 30 coins. Tom loses 12 coins. Then the number of coins doubles. How many coins does Tom have in the end?",
};

/* One question after the other in one session; n_cache 0: room for all. */
static void answer(
    lutra_model *model, const char *spec, int n_samples, float temperature, int n_cache, struct said *out)
{
    lutra_session *s;
    struct lutra_session_settings ss;
    struct lutra_session_experiment x;
    struct lutra_sampling sampling;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 256;
    ss.n_seq = 4;
    ss.n_cache = n_cache;
    ss.spec_type = spec;
    lutra_session_experiment_init(&x, sizeof x);
    x.draft_row_cost = 0.09f;
    ss.experiment = &x;
    OK(lutra_session_open(&s, model, &ss, err));
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = temperature;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        int32_t token[256];
        char text[512];
        int n = 0;
        struct lutra_request r;
        lutra_request_init(&r, sizeof r);
        snprintf(text, sizeof text, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n", questions[i]);
        OK(lutra_tokenize(model, text, strlen(text), LUTRA_PARSE_SPECIAL, token, 256, &n, err));
        r.prompt = token;
        r.n_prompt = n;
        r.sampling = &sampling;
        r.n_samples = n_samples;
        r.max_tokens = 40;
        r.on_text = on_text;
        r.on_end = on_end;
        r.user = out;
        OK(lutra_generate(s, &r, err));
    }
    lutra_session_close(&s);
}

static void a_trained_block_pays(void **state)
{
    static struct said plain, drafted;
    static const struct {
        int n_samples;
        float temperature;
        int n_cache;
        double least; /* tokens a pass */
    } runs[] = {
        {1, 0, 0, 2.4}, {1, 0.8f, 0, 2.2}, {4, 0.8f, 0, 1.5}, {4, 0.8f, 256, 1.5} /* somebody loses its room */};
    lutra_runtime *rt;
    lutra_model *model;
    (void)state;
    OK(lutra_runtime_open(&rt, NULL, err));
    OK(lutra_model_open(&model, rt, LUTRA_SOURCE_DIR "/models/abacus-xs-mtp-f16.gguf", NULL, err));
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        int n = 0;
        answer(model, NULL, runs[i].n_samples, runs[i].temperature, runs[i].n_cache, &plain);
        answer(model, "mtp", runs[i].n_samples, runs[i].temperature, runs[i].n_cache, &drafted);
        assert_memory_equal(plain.n, drafted.n, sizeof plain.n);
        assert_memory_equal(plain.token, drafted.token, sizeof plain.token);
        assert_memory_equal(plain.log_prob, drafted.log_prob, sizeof plain.log_prob);
        for (int k = 0; k < MAX_CAND; k++) n += drafted.n[k];
        print_message("%d samples at %g: %d tokens in %d passes, %d drafted, %d accepted\n", runs[i].n_samples,
            (double)runs[i].temperature, n, drafted.n_pass, drafted.n_drafted, drafted.n_accepted);
        assert_true(n >= runs[i].least * drafted.n_pass);
    }
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
}

/* A line of models/abacus-test.jsonl as a turn of a conversation, the last one without its answer. */
static void add_turn(char *text, size_t size, const char *line, bool last)
{
    json_t *o = json_loads(line, 0, NULL), *step;
    size_t i, n = strlen(text);
    assert_non_null(o);
    n += (size_t)snprintf(text + n, size - n, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n",
        json_string_value(json_object_get(o, "question")));
    json_array_foreach(json_object_get(o, "steps"), i, step) if (!last) n +=
        (size_t)snprintf(text + n, size - n, "%s\n", json_string_value(step));
    if (!last)
        n += (size_t)snprintf(
            text + n, size - n, "#### %s<|im_end|>\n", json_string_value(json_object_get(o, "answer")));
    assert_true(n < size);
    json_decref(o);
}

/* Behind some 1,800 tokens, which help the block. */
static void a_long_prompt_is_read(void **state)
{
    enum { N_TURN = 18, N_TEXT = 10, N_LINE = 512 };
    static char line[N_LINE][2048], text[32768];
    static int32_t token[2400];
    static struct said said;
    lutra_runtime *rt;
    lutra_model *model;
    lutra_session *s;
    struct lutra_session_settings ss;
    int n_line = 0, n_new = 0, n_prompt = 0;
    (void)state;
    FILE *f = fopen(LUTRA_SOURCE_DIR "/models/abacus-test.jsonl", "r");
    assert_non_null(f);
    while (n_line < N_LINE && fgets(line[n_line], sizeof *line, f)) n_line++;
    fclose(f);
    assert_true(n_line >= 300);
    OK(lutra_runtime_open(&rt, NULL, err));
    OK(lutra_model_open(&model, rt, LUTRA_SOURCE_DIR "/models/abacus-xs-mtp-f16.gguf", NULL, err));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 2400;
    ss.spec_type = "mtp";
    ss.experiment = fixture_row_cost(0.09f);
    OK(lutra_session_open(&s, model, &ss, err));
    memset(&said, 0, sizeof said);
    for (int i = 0; i < N_TEXT; i++) {
        struct lutra_request r;
        int n;
        text[0] = 0;
        for (int k = 0; k < N_TURN; k++) add_turn(text, sizeof text, line[100 + 20 * i + k], false);
        add_turn(text, sizeof text, line[i], true);
        OK(lutra_tokenize(model, text, strlen(text), LUTRA_PARSE_SPECIAL, token, 2300, &n, err));
        lutra_request_init(&r, sizeof r);
        r.prompt = token;
        r.n_prompt = n;
        r.max_tokens = 80;
        r.on_text = on_text;
        r.on_end = on_end;
        r.user = &said;
        struct lutra_sampling greedy;
        lutra_sampling_init(&greedy, sizeof greedy);
        greedy.temperature = 0;
        r.sampling = &greedy;
        said.n[0] = 0;
        OK(lutra_generate(s, &r, err));
        n_new += said.n[0];
        n_prompt += n;
    }
    print_message("%d tokens of prompts, %d in %d passes\n", n_prompt, n_new, said.n_pass);
    assert_true(n_prompt > N_TEXT * 1700);
    assert_true(n_new >= 1.8 * said.n_pass);
    lutra_session_close(&s);
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_refused_by_name),
        cmocka_unit_test(the_last_norm_is_optional),
        cmocka_unit_test(names_of_others_are_known),
        cmocka_unit_test(searches_stay_as_they_are),
        cmocka_unit_test(a_trained_block_pays),
        cmocka_unit_test(a_long_prompt_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
