/* SPDX-License-Identifier: MIT
 *
 * Lossless: questions of the four workloads (models/reader-test.jsonl) with each drafter, in company and alone, say
 * what they say without drafts: text, log-probs, ends, winners, bit for bit.
 *
 * LUTRA_TEST_LONG=1: 200 questions on one thread and on two, each of them in every way; else a sample.
 * LUTRA_TEST_FIRST=N skips N of them, LUTRA_TEST_N=M takes M, so that the whole can be run in pieces.
 */
#include "rag_fixture.h"

#include <jansson.h>
#include <math.h>

#include "lutra.h"
#include "sanitized.h"

enum {
    N_ALL = 200,
    N_SHORT = 6,
    ROOM = 40 /* tokens behind the longest prompt */,
    N_BESIDE = 3,
    WIDTH = 4,
    SHAPES = 6,
    SAMPLED = 3, /* a sample has one of so many cases, and each way one of so many of them */
    SAMPLED_WAY = 5
};

/* ---- questions ---- */

struct question {
    int32_t *prompt;
    int n;
};

static struct question question[N_ALL];
static int n_question, n_ctx;
static bool is_whole, by_counts; /* by_counts: what is drafted does not depend on times */
static struct lutra_error err;

struct text {
    char *at;
    size_t n;
};

static void put(struct text *t, const char *more)
{
    size_t n = strlen(more);
    t->at = realloc(t->at, t->n + n + 1);
    assert_non_null(t->at);
    memcpy(t->at + t->n, more, n + 1);
    t->n += n;
}

static void add_question(const lutra_model *model, lutra_store *store, const json_t *root)
{
    struct text t = {0};
    size_t i;
    json_t *document;
    struct question *q = &question[n_question];
    json_array_foreach(json_object_get(root, "documents"), i, document)
    {
        char name[32];
        snprintf(name, sizeof name, "%d/%zu", n_question, i);
        if (store) add_text(store, name, json_string_value(document));
        put(&t, json_string_value(document));
        put(&t, "\n\n");
    }
    put(&t, json_string_value(json_object_get(root, "question")));
    struct lutra_message m = {"user", t.at, t.n};
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &m;
    chat.n_message = 1;
    OK(lutra_chat_tokenize(model, &chat, NULL, 0, &q->n, &err));
    q->prompt = calloc((size_t)q->n, sizeof *q->prompt);
    OK(lutra_chat_tokenize(model, &chat, q->prompt, q->n, &q->n, &err));
    if (q->n + ROOM > n_ctx) n_ctx = q->n + ROOM;
    n_question++;
    free(t.at);
}

static void add_exchange(lutra_store *store, const json_t *root)
{
    struct lutra_exchange e;
    lutra_exchange_init(&e, sizeof e);
    e.question = json_string_value(json_object_get(root, "question"));
    e.answer = json_string_value(json_object_get(root, "answer"));
    e.n_question = strlen(e.question);
    e.n_answer = strlen(e.answer);
    OK(lutra_store_commit(store, &e, &err));
}

/* Every sixth begins with itself, until its text has to end where the context does. */
static void fill_context(int i)
{
    struct question *q = &question[i];
    int n = i % SHAPES == SHAPES - 1 ? n_ctx - ROOM / 2 : q->n;
    int32_t *prompt = calloc((size_t)n, sizeof *prompt);
    for (int k = 0; k < n; k++) prompt[n - 1 - k] = q->prompt[q->n - 1 - k % q->n];
    free(q->prompt);
    *q = (struct question){prompt, n};
}

static int number_from(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

static void read_questions(const lutra_model *model, lutra_store *store)
{
    char *line = NULL;
    size_t room = 0;
    int skip = number_from("LUTRA_TEST_FIRST", 0);
    int most = number_from("LUTRA_TEST_N", is_whole ? N_ALL - skip : SANITIZED ? 1 : N_SHORT);
    FILE *file = fopen(LUTRA_SOURCE_DIR "/models/reader-test.jsonl", "r");
    assert_non_null(file);
    while (n_question < most && n_question < N_ALL && getline(&line, &room, file) > 0) {
        json_t *root = json_loads(line, 0, NULL);
        assert_non_null(root);
        bool past = json_is_true(json_object_get(root, "past"));
        if (past && store) add_exchange(store, root);
        if (!past && skip-- <= 0) add_question(model, store, root);
        json_decref(root);
    }
    free(line);
    fclose(file);
    assert_int_equal(n_question, most);
    for (int i = 0; i < n_question; i++) fill_context(i);
}

/* ---- what is heard ---- */

/* Everything a listener is told of one sample, as hashes of bytes in their order. */
struct sample {
    uint64_t token, text;
    double sum_log_prob;
    int n_tok, reason;
};

enum { SAMPLES_MOST = 120 };
struct heard {
    struct sample sample[SAMPLES_MOST];
    int32_t said[64]; /* of sample 0, for the callers that know the text */
    int n_said;
};

struct outcome {
    struct heard of[N_BESIDE];
    char winner[512];
    double score;
};

static void mix(uint64_t *hash, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) *hash = (*hash ^ b[i]) * 0x100000001B3u + 1;
}

struct caller {
    struct heard *heard;
    const struct heard *plain; /* what will be said, for an adversary; or NULL */
    lutra_drafts *drafts;      /* or NULL */
    int n_prompt;
    uint64_t state;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = ((struct caller *)user)->heard;
    assert_in_range(p->sample, 0, SAMPLES_MOST - 1);
    struct sample *s = &h->sample[p->sample];
    mix(&s->text, p->text, p->n_bytes);
    if (p->token < 0) return 0;
    mix(&s->token, &p->token, sizeof p->token);
    mix(&s->token, &p->log_prob, sizeof p->log_prob);
    if (p->sample == 0 && h->n_said < 64) h->said[h->n_said++] = p->token;
    return 0;
}

static int n_reason[LUTRA_STOP_PRUNED + 1];

static void on_end(void *user, const struct lutra_end *end)
{
    struct sample *s = &((struct caller *)user)->heard->sample[end->sample];
    s->reason = (int)end->reason;
    s->n_tok = end->n_tok;
    s->sum_log_prob = end->sum_log_prob;
    n_reason[end->reason]++;
}

static int below(uint64_t *state, int n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (unsigned)n);
}

/* Trees of the text's own tokens and of others, all of them said to be near certain; more than the row has room for. */
static int be_adverse(struct caller *c, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    int n = below(&c->state, n_max + 1), depth[64];
    for (int i = 0; i < n; i++) {
        int up = below(&c->state, 3) ? i - 1 : below(&c->state, i + 1) - 1;
        depth[i] = up < 0 ? 0 : depth[up] + 1;
        int at = tip->n_token - c->n_prompt + depth[i];
        bool knows = tip->sample == 0 && at < c->plain->n_said && below(&c->state, 4);
        draft[i] = (struct lutra_draft){
            .token = knows ? c->plain->said[at] : below(&c->state, 1024), .parent = up, .p = 0.99f};
    }
    return n;
}

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    struct caller *c = user;
    if (c->drafts) return lutra_drafts_guess(c->drafts, tip, draft, n_max);
    return be_adverse(c, tip, draft, n_max);
}

/* ---- what is asked ---- */

enum company { ALONE, VOTE, BEST, BEAM, BESIDE, N_COMPANY };

/* Of a question, by its number: its sampler and its end.  The penalty keeps a small model from one token for ever. */
static void shape_request(struct lutra_request *r, struct lutra_sampling *sp, int i)
{
    static const struct lutra_logit_bias bias[] = {{60, 2}, {67, 3}, {300, -INFINITY}};
    static const char *const stops[] = {"an", "is ", "\n"};
    r->max_tokens = is_whole ? 24 : 12;
    if (i % SHAPES > 0) sp->frequency_penalty = 1.5f;
    switch (i % SHAPES) {
    case 1: sp->repeat_penalty = 1.3f, sp->presence_penalty = 0.4f, sp->penalty_last_n = i % 4 ? 64 : -1; break;
    case 2: sp->bias = bias, sp->n_bias = 3; break;
    case 3: r->stop = stops, r->n_stop = 3; break;
    case 4: r->max_tokens = 1 + i % 11, r->ignore_end = true; break;
    case 5: r->max_tokens = -1, r->ignore_end = true; break; /* the context is full */
    default: break;
    }
}

struct bench {
    lutra_runtime *rt;
    lutra_model *model, *small;
    lutra_session *s;
    lutra_verifier *own;
    lutra_store *store;
    lutra_drafts *drafts;
};

/* What drafts: the session's own, a second model (itself or another one), a caller (the store or an adversary). */
enum draft_model { NO_MODEL, ITSELF, ANOTHER };
enum drafting_caller { NO_CALLER, STORE, ADVERSARY };
struct way {
    const char *name, *spec;
    enum draft_model model;
    enum drafting_caller caller;
};

static const struct way ways[] = {{"none", NULL, NO_MODEL, NO_CALLER},
    {"ngram-simple", "ngram-simple", NO_MODEL, NO_CALLER}, {"suffix", "suffix", NO_MODEL, NO_CALLER},
    {"store", NULL, NO_MODEL, STORE}, {"recycle", "recycle", NO_MODEL, NO_CALLER},
    {"calibrated", "calibrated", NO_MODEL, NO_CALLER}, {"draft", "draft", ITSELF, NO_CALLER},
    {"auto", "auto", NO_MODEL, STORE}, {"all", "calibrated,auto", ANOTHER, STORE},
    {"an adversary", NULL, NO_MODEL, ADVERSARY}};
enum { N_WAY = sizeof ways / sizeof *ways };

static void open_session(struct bench *b, const struct way *w)
{
    struct lutra_session_experiment cost;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = WIDTH * WIDTH;
    ss.n_ctx = n_ctx;
    ss.n_cache = (N_BESIDE + 1) * n_ctx + ss.n_seq * 128;
    ss.spec_type = w->spec;
    ss.draft_p_min = 0;
    lutra_session_experiment_init(&cost, sizeof cost);
    cost.draft_row_cost = by_counts ? 0.05f : 0;
    ss.experiment = &cost;
    if (w->model) ss.draft_model = w->model == ITSELF ? b->model : b->small;
    lutra_session_close(&b->s);
    OK(lutra_session_open(&b->s, b->model, &ss, &err));
}

/* Fills r as question i asks; what it points to lives as long as the run. */
static void prepare(struct bench *b, const struct way *w, int i, bool greedy, struct caller *c,
    struct lutra_sampling *sampling, struct lutra_request *r)
{
    const struct question *q = &question[i];
    lutra_request_init(r, sizeof *r);
    lutra_sampling_init(sampling, sizeof *sampling);
    sampling->temperature = greedy ? 0 : 0.8f;
    sampling->seed = (uint64_t)i;
    shape_request(r, sampling, i);
    c->drafts = w->caller == STORE ? b->drafts : NULL;
    c->n_prompt = q->n;
    c->state = (uint64_t)i;
    r->prompt = q->prompt;
    r->n_prompt = q->n;
    r->sampling = sampling;
    r->on_text = on_text;
    r->on_end = on_end;
    if (c->drafts || w->caller == ADVERSARY) r->on_draft = on_draft;
    r->user = c;
}

static lutra_search_run *submit_search(struct bench *b, const struct lutra_request *r, enum company company)
{
    static const enum lutra_search_method method[N_COMPANY] = {
        [VOTE] = LUTRA_SEARCH_VOTE, [BEST] = LUTRA_SEARCH_BEST, [BEAM] = LUTRA_SEARCH_BEAM};
    lutra_search_run *run;
    struct lutra_search set;
    lutra_search_init(&set, sizeof set);
    set.method = method[company];
    set.width = company == BEAM ? WIDTH * WIDTH : WIDTH;
    set.expand = WIDTH;
    set.step = " ";
    set.max_steps = 6;
    set.early_stop = false; /* how far the others have come then depends on the load */
    if (company != VOTE) set.verifier = b->own;
    OK(lutra_search_submit(&run, b->s, r, &set, &err));
    return run;
}

/* Question i in some company; the others of BESIDE are the questions that follow it. */
static void ask(struct bench *b, const struct way *w, int i, bool greedy, enum company company,
    const struct outcome *plain, struct outcome *out)
{
    struct caller caller[N_BESIDE];
    struct lutra_sampling sampling[N_BESIDE];
    struct lutra_request r;
    lutra_search_run *run = NULL;
    memset(out, 0, sizeof *out);
    for (int k = 0; k < (company == BESIDE ? N_BESIDE : 1); k++) {
        caller[k] = (struct caller){.heard = &out->of[k], .plain = &plain->of[k]};
        prepare(b, w, (i + k) % n_question, greedy, &caller[k], &sampling[k], &r);
        if (company == ALONE || company == BESIDE)
            OK(lutra_submit(b->s, &r, NULL, &err));
        else
            run = submit_search(b, &r, company);
    }
    for (int active = 1; active;) OK(lutra_step(b->s, &active, &err));
    if (!run) return;
    const struct lutra_search_result *res = lutra_search_done(run);
    snprintf(out->winner, sizeof out->winner, "%s", res->text ? res->text : "");
    out->score = res->score;
    lutra_search_close(&run);
}

/* ---- the whole ---- */

static uint64_t n_cached, n_accepted; /* with drafts: prompt tokens from the cache, drafts that became text */
static struct outcome *plain;         /* [n_question][2][N_COMPANY] on one thread, without drafts */

/* way: -1: without drafts. */
static bool is_asked(int at, int way)
{
    if (is_whole) return true;
    return at % SAMPLED == 0 && (way < 0 || (at / SAMPLED + way) % SAMPLED_WAY == 0);
}

static void run_way(struct bench *b, const struct way *w, bool is_first)
{
    static struct outcome said;
    static const char *const in[N_COMPANY] = {"alone", "vote", "best-of", "beam", "beside others"};
    struct lutra_stats s;
    int at = 0;
    open_session(b, w);
    for (int i = 0; i < n_question; i++)
        for (int greedy = 0; greedy < 2; greedy++)
            for (int company = 0; company < N_COMPANY; company++, at++) {
                if (!is_asked(at, is_first ? -1 : (int)(w - ways))) continue;
                ask(b, w, i, greedy, (enum company)company, &plain[at], is_first ? &plain[at] : &said);
                if (!is_first && memcmp(&plain[at], &said, sizeof said) != 0)
                    fail_msg("%s: question %d, %s, %s: not as without drafts", w->name, i,
                        greedy ? "greedy" : "sampled", in[company]);
            }
    lutra_session_stats_get(b->s, &s, sizeof s);
    print_message("%-14s %6llu drafted, %6llu accepted; of prompts %llu evaluated, %llu cached\n", w->name,
        (unsigned long long)s.rows_drafted, (unsigned long long)s.rows_accepted, (unsigned long long)s.prompt_tokens,
        (unsigned long long)s.cached_tokens);
    n_cached += is_first ? 0 : s.cached_tokens;
    n_accepted += s.rows_accepted;
    /* Of the few questions of a short run a drafter may hold none of its guesses worth a row. */
    assert_true(is_first || !is_whole || s.rows_drafted > 0);
}

/* What was said becomes earlier answers of the store, which drafts them from then on. */
static void keep_answers(struct bench *b)
{
    for (int at = 0; b->store && at < n_question * 2 * N_COMPANY; at++) {
        if (at % N_COMPANY != ALONE || !is_asked(at, -1)) continue;
        struct lutra_exchange e;
        char *said;
        lutra_exchange_init(&e, sizeof e);
        OK(lutra_detokenize(b->model, plain[at].of[0].said, plain[at].of[0].n_said, false, &said, NULL, &err));
        e.question = "What did it say?";
        e.n_question = strlen(e.question);
        e.answer = said;
        e.n_answer = strlen(said);
        OK(lutra_store_commit(b->store, &e, &err));
        lutra_free(said);
    }
}

static void open_models(struct bench *b, int n_threads)
{
    struct lutra_runtime_settings rs;
    struct lutra_verifier_settings vs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = n_threads;
    OK(lutra_runtime_open(&b->rt, &rs, &err));
    OK(lutra_model_open(&b->model, b->rt, LUTRA_SOURCE_DIR "/models/reader-f16.gguf", NULL, &err));
    OK(lutra_model_open(&b->small, b->rt, LUTRA_SOURCE_DIR "/models/reader-draft-f16.gguf", NULL, &err));
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.model = b->model;
    vs.n_seq = 0;
    OK(lutra_verifier_open(&b->own, "likelihood", &vs, &err));
}

static void close_models(struct bench *b)
{
    lutra_session_close(&b->s);
    lutra_verifier_close(&b->own);
    lutra_model_close(&b->small);
    lutra_model_close(&b->model);
    lutra_runtime_close(&b->rt);
}

static void drafts_change_nothing(void **state)
{
    (void)state;
    struct bench b = {0};
    is_whole = getenv("LUTRA_TEST_LONG") != NULL;
    bool has_store = lutra_store_open(&b.store, store_path, NULL, &err) == 0;
    for (int n_threads = is_whole ? 1 : 2; n_threads <= 2; n_threads++) {
        by_counts = n_threads == 2;
        open_models(&b, n_threads);
        if (!plain) {
            read_questions(b.model, b.store);
            plain = calloc((size_t)n_question * 2 * N_COMPANY, sizeof *plain);
            assert_non_null(plain);
            run_way(&b, &ways[0], true);
            keep_answers(&b);
        }
        if (has_store) OK(lutra_drafts_open(&b.drafts, b.store, b.model, NULL, NULL, &err));
        print_message("%d questions, %d threads\n", n_question, n_threads);
        for (int k = 1; k < N_WAY; k++)
            if (has_store || ways[k].caller != STORE) run_way(&b, &ways[k], false);
        lutra_drafts_close(&b.drafts);
        close_models(&b);
    }
    print_message("ends: %d by length, %d by a string, %d by the context, %d at the end token\n",
        n_reason[LUTRA_STOP_LENGTH], n_reason[LUTRA_STOP_STRING], n_reason[LUTRA_STOP_CTX_FULL],
        n_reason[LUTRA_STOP_END]);
    assert_true(n_accepted > (n_question < N_SHORT ? 10 : 100));
    assert_true(n_cached > 0 || n_question < N_SHORT);
    if (n_question >= N_SHORT)
        assert_true(n_reason[LUTRA_STOP_LENGTH] && n_reason[LUTRA_STOP_STRING] && n_reason[LUTRA_STOP_CTX_FULL]);
    if (!has_store) print_message("no store in this build\n");
    lutra_store_close(&b.store);
    for (int i = 0; i < n_question; i++) free(question[i].prompt);
    free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(drafts_change_nothing, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
