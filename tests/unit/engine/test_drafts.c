/* SPDX-License-Identifier: MIT
 *
 * Drafts: whatever a source guesses, text, log-probs, ends and events are those of plain decoding, bit for bit.
 */
#include "engine_fixture.h"

#include "guess_source.h"
#include "sanitized.h"

enum { N_WHO = 3, MAX_CAND = 120, MAX_TOK = 100, N_PROMPT = 40 };

/* What a request's listener hears. */
struct heard {
    char text[MAX_CAND][1024];
    int32_t token[MAX_CAND][MAX_TOK];
    float log_prob[MAX_CAND][MAX_TOK];
    int n_token[MAX_CAND], n_tok[MAX_CAND];
    enum lutra_stop reason[MAX_CAND];
    double sum_log_prob[MAX_CAND];
    int n_pass[MAX_CAND], n_drafted, n_accepted;
    char event[MAX_CAND * 40][96];
    int n_event;
    int n_prompt, enough; /* on_text returns nonzero at so many tokens; 0: never */
    int cancel;           /* sample 0 cancels all at so many; 0: never */
    lutra_session *s;
};

/* Requests of one run, by their ids. */
struct run {
    struct heard who[N_WHO];
    char winner[1024];
    double score;
    uint64_t n_step;
};

static struct run plain, drafted; /* large: not on the stack */

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    assert_in_range(p->sample, 0, MAX_CAND - 1);
    size_t at = strlen(h->text[p->sample]);
    for (size_t i = 0; i < p->n_bytes && at < sizeof h->text[0] - 1; i++)
        h->text[p->sample][at++] = p->text[i] ? p->text[i] : '@'; /* NUL is text, too */
    if (p->token < 0) return 0;
    int n = h->n_token[p->sample]++;
    assert_in_range(n, 0, MAX_TOK - 1);
    h->token[p->sample][n] = p->token;
    h->log_prob[p->sample][n] = p->log_prob;
    if (h->cancel && p->sample == 0 && n + 1 == h->cancel) lutra_cancel(h->s);
    return h->enough && n + 1 == h->enough + p->sample;
}

static void on_end(void *user, const struct lutra_end *e)
{
    struct heard *h = user;
    assert_int_equal(h->reason[e->sample], LUTRA_STOP_NONE);
    h->reason[e->sample] = e->reason;
    h->n_tok[e->sample] = e->n_tok;
    h->sum_log_prob[e->sample] = e->sum_log_prob;
    h->n_pass[e->sample] = e->n_pass;
    h->n_drafted += e->n_drafted;
    h->n_accepted += e->n_accepted;
}

static void on_event(void *user, const struct lutra_search_event *e)
{
    struct heard *h = user;
    assert_in_range(h->n_event, 0, sizeof h->event / sizeof *h->event - 1);
    snprintf(h->event[h->n_event++], sizeof *h->event, "%d %d %d %d %.17g %.17g %.20s", e->candidate, (int)e->kind,
        e->parent, e->n_step, e->reward, e->score, e->answer);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The same but for the order in which candidates that end beside each other are told of. */
static void assert_same(struct run *a, struct run *b, int trial)
{
    for (int w = 0; w < N_WHO; w++) {
        struct heard *x = &a->who[w], *y = &b->who[w];
        qsort(x->event, (size_t)x->n_event, sizeof *x->event, by_text);
        qsort(y->event, (size_t)y->n_event, sizeof *y->event, by_text);
        if (memcmp(x->text, y->text, sizeof x->text) || memcmp(x->token, y->token, sizeof x->token) ||
            memcmp(x->log_prob, y->log_prob, sizeof x->log_prob) || memcmp(x->n_token, y->n_token, sizeof x->n_token) ||
            memcmp(x->reason, y->reason, sizeof x->reason) || memcmp(x->n_tok, y->n_tok, sizeof x->n_tok) ||
            memcmp(x->sum_log_prob, y->sum_log_prob, sizeof x->sum_log_prob) || x->n_event != y->n_event ||
            memcmp(x->event, y->event, sizeof x->event))
            fail_msg("trial %d, request %d: not as without drafts", trial, w);
    }
    assert_string_equal(a->winner, b->winner);
    assert_true(a->score == b->score);
}

static int32_t prompt[N_WHO][N_PROMPT];

/* What sample tip->sample says at this depth behind the tip, as the plain run has heard it. */
static int32_t said(const void *text, const struct row_tip *tip, int depth)
{
    const struct heard *h = &((const struct run *)text)->who[tip->request % N_WHO];
    int inherited = h->n_tok[tip->sample] - h->n_token[tip->sample]; /* by a fork */
    int n = tip->n_token - h->n_prompt + depth - 1 - inherited;
    return n >= 0 && n < h->n_token[tip->sample] ? h->token[tip->sample][n] : -1;
}

/* A trial's random choices: the same numbers for both runs. */
struct dice {
    struct guesser g;
};

static int roll(struct dice *d, int n)
{
    return guess_below(&d->g, n);
}

/* Samplers with a state, or that look at the text. */
static void choose_chain(struct dice *d, struct lutra_sampling *sp)
{
    static const char *const breakers[] = {"e", " t"};
    if (roll(d, 3) == 0) sp->dry_multiplier = 1, sp->dry_allowed_length = roll(d, 3), sp->dry_penalty_last_n = -1;
    if (roll(d, 2) == 0) sp->dry_sequence_breakers = breakers, sp->n_dry_sequence_breakers = 2;
    if (roll(d, 5) == 0) sp->xtc_probability = 0.5f, sp->xtc_threshold = 0.05f;
    if (roll(d, 5) == 0) sp->typical_p = 0.8f;
    if (roll(d, 5) == 0) sp->top_n_sigma = 2;
    switch (roll(d, 6)) {
    case 0: sp->mirostat = 1 + roll(d, 2), sp->mirostat_eta = 0.5f; break;
    case 1: sp->adaptive_target = 0.3f, sp->samplers = "top_k;adaptive_p"; break;
    case 2: sp->dynatemp_range = 0.4f, sp->samplers = "temperature;penalties;top_k;dry;min_p"; break;
    default: break;
    }
}

static struct lutra_request make_request(struct dice *d, lutra_session *s, struct heard *h, int who)
{
    static const char *const stops[] = {"e", "\xff\xfe", "ing"};
    static struct lutra_logit_bias bias[3];
    static struct lutra_sampling all[N_WHO], *sp;
    sp = &all[who];
    lutra_sampling_init(sp, sizeof *sp);
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    h->n_prompt = 1 + roll(d, N_PROMPT);
    h->s = s;
    for (int i = 0; i < N_PROMPT; i++) prompt[who][i] = token_at(i + 100 * who);
    for (int i = 0; i < 3; i++) bias[i] = (struct lutra_logit_bias){7 * i + 60, (float)(3 * i)};
    r.sampling = sp;
    r.prompt = prompt[who];
    r.n_prompt = h->n_prompt;
    r.n_samples = 1 + roll(d, 6);
    r.max_tokens = roll(d, 3) ? 1 + roll(d, 40) : -1;
    sp->seed = (uint64_t)roll(d, 1000);
    sp->temperature = (float)roll(d, 4) / 2;
    if (roll(d, 3) == 0) sp->top_k = 0;
    if (roll(d, 3) == 0) sp->repeat_penalty = 1.3f, sp->presence_penalty = 0.4f;
    if (roll(d, 3) == 0) sp->penalty_last_n = roll(d, 80) - 1;
    if (roll(d, 3) == 0) sp->bias = bias, sp->n_bias = 3;
    choose_chain(d, sp);
    if (roll(d, 4) == 0) r.stop = stops, r.n_stop = 1 + roll(d, 3);
    if (roll(d, 6) == 0) h->enough = 1 + roll(d, 20);
    r.ignore_end = roll(d, 2);
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = h;
    return r;
}

/* A judge: the generator's own likelihood, or one with rows of its own. */
static lutra_verifier *open_judge(struct fixture *f, bool own)
{
    struct lutra_verifier_settings vs;
    lutra_verifier *v;
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.model = f->model;
    vs.n_seq = own ? 0 : 8;
    vs.positive = own ? NULL : "+";
    vs.negative = own ? NULL : "-";
    OK(lutra_verifier_open(&v, own ? "likelihood" : "token", &vs, err));
    return v;
}

/* budget: tokens; 0: none; -1: none, and no early stop, since how far the others have come then depends on the load. */
static lutra_search_run *submit_search(struct dice *d, struct fixture *f, struct lutra_request *r, lutra_verifier *v,
    enum lutra_search_method method, int n_seq, int budget)
{
    struct lutra_search set;
    lutra_search_init(&set, sizeof set);
    lutra_search_run *search;
    int width = 1 + roll(d, n_seq < 8 ? n_seq : 8);
    set.method = method;
    set.width = width;
    set.expand = width % 2 ? 1 : 2;
    set.step = roll(d, 2) ? "e" : " ";
    set.max_steps = 2 + roll(d, 20);
    set.early_stop = budget >= 0;
    set.token_budget = budget > 0 ? budget : 0;
    set.score = LUTRA_SCORE_MEAN;
    set.verifier = v;
    set.on_event = on_event;
    set.user = r->user;
    r->max_tokens = 10 + roll(d, 30);
    OK(lutra_search_submit(&search, f->s, r, &set, err));
    return search;
}

static void run_to_end(struct fixture *f, lutra_search_run *search, struct run *out)
{
    for (int active = 1; active;) OK(lutra_step(f->s, &active, err));
    const struct lutra_search_result *res = lutra_search_done(search);
    snprintf(out->winner, sizeof out->winner, "%s", res->text ? res->text : "");
    out->score = res->score;
    out->n_step = f->s->stats.n_step;
    lutra_search_close(&search);
}

/* Two requests and a search in a session of random sizes; with drafts where g or spec is given. */
static void run_trial(
    struct fixture *f, lutra_verifier *v, int trial, struct guesser *g, const char *spec, struct run *out)
{
    struct dice d = {.g.state = (uint64_t)trial * 977 + 5};
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 1 + roll(&d, 9);
    ss.n_ctx = 64;
    ss.n_batch = 1 + roll(&d, roll(&d, 2) ? 12 : 120);
    ss.n_out = roll(&d, 2) ? 0 : 1 + roll(&d, 40);
    ss.n_draft = roll(&d, 2) ? 0 : 1 + roll(&d, 100);
    ss.spec_type = spec;
    if (spec && strstr(spec, "draft")) ss.draft_model = f->model;
    ss.draft_max = 1 + trial % 20;
    ss.draft_p_min = 0;
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
    memset(out, 0, sizeof *out);
    if (g) guess_begin(g, f->s);
    for (int w = 0; w < N_WHO - 1; w++) {
        struct lutra_request r = make_request(&d, f->s, &out->who[w], w);
        OK(lutra_submit(f->s, &r, NULL, err));
    }
    struct lutra_request r = make_request(&d, f->s, &out->who[N_WHO - 1], N_WHO - 1);
    enum lutra_search_method method = (enum lutra_search_method)roll(&d, LUTRA_SEARCH_REBASE + 1);
    run_to_end(f, submit_search(&d, f, &r, v, method, ss.n_seq, -1), out);
}

static void random_trees_change_nothing(void **state)
{
    const char *type = *state;
    struct fixture f;
    long n_tree = 0, n_right = 0;
    if (SANITIZED && !strcmp(type, "Q6_K")) skip(); /* the code of Q4_0 but for its kernels */
    fixture_open(&f, "tiny-qwen2", type, 2);
    lutra_verifier *own = open_judge(&f, true);
    bool all = getenv("LUTRA_TEST_LONG") != NULL; /* 10,000 trees of each type */
    for (int trial = 0; trial < (SANITIZED ? 10 : 30) || (all && n_tree < 10000); trial++) {
        struct guesser g = {.state = (uint64_t)trial,
            .most = 1 + trial % GUESS_MOST,
            .right_in_8 = trial % 9,
            .right = said,
            .text = &plain};
        run_trial(&f, own, trial, NULL, NULL, &plain);
        run_trial(&f, own, trial, &g, NULL, &drafted);
        assert_same(&plain, &drafted, trial);
        n_tree += g.n_tree;
        n_right += g.n_right;
    }
    print_message("%s: %ld trees, %ld drafts taken\n", type, n_tree, n_right);
    assert_true(n_tree > (SANITIZED ? 500 : 2000) && n_right > (SANITIZED ? 100 : 500));
    lutra_verifier_close(&own);
    fixture_close(&f);
}

/* Passes take no time: none is measured, and what is drafted does not depend on the machine. */
static void stop_time(struct fixture *f)
{
    static struct virtual_time time;
    f->rt->clock = clock_virtual(&time);
}

/* The same with drafters of the library, as passes are measured here and as counts say. */
static void speculation_changes_nothing(void **state)
{
    static const char *const specs[] = {"ngram-simple", "suffix", "auto", "recycle", "calibrated,auto", "draft,suffix"};
    const char *type = *state;
    struct fixture f;
    uint64_t n_drafted = 0, n_accepted = 0;
    if (SANITIZED && !strcmp(type, "Q6_K")) skip();
    fixture_open(&f, "tiny-qwen2", type, 2);
    lutra_verifier *own = open_judge(&f, true);
    int n_trial = SANITIZED ? 12 : 40;
    for (int trial = 0; trial < n_trial; trial++) {
        if (trial == n_trial / 4) stop_time(&f);
        run_trial(&f, own, trial, NULL, NULL, &plain);
        run_trial(&f, own, trial, NULL, specs[trial % 6], &drafted);
        assert_same(&plain, &drafted, trial);
        n_drafted += f.s->stats.rows_drafted;
        n_accepted += f.s->stats.rows_accepted;
    }
    print_message("%s: %llu drafts, %llu taken\n", type, (unsigned long long)n_drafted, (unsigned long long)n_accepted);
    assert_true(n_drafted > 7 * (uint64_t)n_trial && n_accepted > 2 * (uint64_t)n_trial && n_accepted < n_drafted);
    lutra_verifier_close(&own);
    fixture_close(&f);
}

/* One search over a text that a drafter knows: many steps end in the middle of a chain, several in one pass. */
static void steps_end_within_a_pass(void **state)
{
    (void)state;
    static const enum lutra_search_method methods[] = {
        LUTRA_SEARCH_VOTE, LUTRA_SEARCH_WEIGHTED, LUTRA_SEARCH_BEST, LUTRA_SEARCH_BEAM, LUTRA_SEARCH_REBASE};
    struct fixture f;
    long n_right = 0;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    lutra_verifier *judge[] = {open_judge(&f, true), open_judge(&f, false)};
    for (size_t m = 0; m < 2 * sizeof methods / sizeof *methods; m++) {
        struct guesser g = {.most = 12, .right_in_8 = 8, .right = said, .text = &plain};
        for (int drafts = 0; drafts < 2; drafts++) {
            struct dice d = {.g.state = m};
            struct run *out = drafts ? &drafted : &plain;
            memset(out, 0, sizeof *out);
            fixture_session(&f, 4, 128);
            if (drafts) guess_begin(&g, f.s);
            struct lutra_request r = make_request(&d, f.s, &out->who[0], 0);
            run_to_end(&f, submit_search(&d, &f, &r, judge[m % 2], methods[m / 2], 4, -1), out);
        }
        assert_same(&plain, &drafted, (int)m);
        n_right += g.n_right;
    }
    print_message("%ld drafts taken\n", n_right);
    assert_true(n_right > 200);
    for (int i = 0; i < 2; i++) lutra_verifier_close(&judge[i]);
    fixture_close(&f);
}

/* What a budget of tokens pays for, and when a vote is decided, does not depend on how far candidates had run that
 * others have made vain: the same winner, and the same text of all that counted. */
static void budgets_choose_the_same(void **state)
{
    (void)state;
    static const enum lutra_search_method methods[] = {LUTRA_SEARCH_VOTE, LUTRA_SEARCH_WEIGHTED, LUTRA_SEARCH_BEST,
        LUTRA_SEARCH_BEAM, LUTRA_SEARCH_DVTS, LUTRA_SEARCH_REBASE};
    enum { METHODS = sizeof methods / sizeof *methods, TRIALS = SANITIZED ? 2 : 8 };
    struct fixture f;
    long n_right = 0;
    int n_cut = 0;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    lutra_verifier *judge = open_judge(&f, true);
    for (int trial = 0; trial < METHODS * TRIALS; trial++) {
        struct guesser g = {.most = 12, .right_in_8 = 8, .right = said, .text = &plain};
        int budget = trial / METHODS % 2 ? 40 + 60 * (trial / METHODS) : 0;
        for (int drafts = 0; drafts < 2; drafts++) {
            struct dice d = {.g.state = (uint64_t)trial};
            struct run *out = drafts ? &drafted : &plain;
            memset(out, 0, sizeof *out);
            fixture_session(&f, 8, 128);
            if (drafts) guess_begin(&g, f.s);
            struct lutra_request r = make_request(&d, f.s, &out->who[0], 0);
            run_to_end(&f, submit_search(&d, &f, &r, judge, methods[trial % METHODS], 8, budget), out);
        }
        if (strcmp(plain.winner, drafted.winner) || plain.score != drafted.score)
            fail_msg(
                "trial %d: '%s' (%g), not '%s' (%g)", trial, drafted.winner, drafted.score, plain.winner, plain.score);
        for (int c = 0; c < MAX_CAND; c++) {
            const struct heard *a = &plain.who[0], *b = &drafted.who[0];
            n_cut += a->reason[c] == LUTRA_STOP_PRUNED;
            if (a->reason[c] == LUTRA_STOP_PRUNED || b->reason[c] == LUTRA_STOP_PRUNED) continue;
            if (strcmp(a->text[c], b->text[c]) || a->reason[c] != b->reason[c])
                fail_msg("trial %d: candidate %d has another text", trial, c);
        }
        n_right += g.n_right;
    }
    print_message("%ld drafts taken, %d candidates cut off\n", n_right, n_cut);
    assert_true(n_right > 100 && n_cut > 5);
    lutra_verifier_close(&judge);
    fixture_close(&f);
}

static void generate(
    struct fixture *f, struct guesser *g, int n_samples, int cancel, float temperature, struct run *out)
{
    struct lutra_sampling sampling;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = temperature;
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.sampling = &sampling;
    memset(out, 0, sizeof *out);
    out->who[0].n_prompt = N_PROMPT;
    out->who[0].cancel = cancel;
    out->who[0].s = f->s;
    for (int i = 0; i < N_PROMPT; i++) prompt[0][i] = token_at(i);
    r.prompt = prompt[0];
    r.n_prompt = N_PROMPT;
    r.n_samples = n_samples;
    r.max_tokens = 64;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = &out->who[0];
    if (g) guess_begin(g, f->s);
    lutra_session_stats_reset(f->s);
    assert_int_equal(lutra_generate(f->s, &r, NULL), cancel ? LUTRA_E_CANCELLED : 0);
    out->n_step = f->s->stats.n_step;
}

/* Tokens of the prompt and n that were said behind it that the cache has. */
static int n_kept(struct fixture *f, const int32_t *token, int n)
{
    int32_t text[N_PROMPT + MAX_TOK];
    memcpy(text, prompt[0], sizeof prompt[0]);
    memcpy(text + N_PROMPT, token, (size_t)n * sizeof *token);
    struct kv_past past = {text, N_PROMPT + n, N_PROMPT, 0, 0};
    return kv_find(f->s->kv, &past);
}

/* Who offers what will be said gets it in fewer passes, and what was taken is in the cache. */
static void right_drafts_are_taken(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    for (int n_samples = 1; n_samples <= 4; n_samples += 3) {
        struct guesser g = {.most = 7, .right_in_8 = 8, .right = said, .text = &plain};
        fixture_session(&f, 4, 256);
        generate(&f, NULL, n_samples, 0, 0.8f, &plain);
        assert_int_equal(plain.n_step, 64);
        fixture_session(&f, 4, 256);
        generate(&f, &g, n_samples, 0, 0.8f, &drafted);
        assert_same(&plain, &drafted, n_samples);
        assert_int_equal(drafted.n_step, 1 + 63 / 8 + 1); /* the prompt's token, then eight at a time */
        assert_int_equal(g.n_right, n_samples * (63 - 63 / 8 - 1));
        assert_int_equal(f.s->stats.rows_wasted, n_samples); /* the last token is a right guess that nobody needs */
        assert_int_equal(n_kept(&f, plain.who[0].token[0], 64), N_PROMPT + 63); /* all but the last token */
    }
    fixture_close(&f);
}

static const float like_avx512 = 0.09f; /* cost of a row; processors with dearer ones draft less */

static void spec_session_at(struct fixture *f, int n_seq, const char *spec, float row_cost)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = n_seq;
    ss.n_ctx = 256;
    ss.spec_type = spec;
    ss.experiment = fixture_row_cost(row_cost);
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

/* What rows cost is counted, then measured. */
static void spec_session(struct fixture *f, int n_seq, const char *spec)
{
    spec_session_at(f, n_seq, spec, 0);
}

/* A text that repeats itself takes far fewer passes, alone and as four samples. */
static void repetition_is_drafted(void **state)
{
    static const char *const specs[] = {"ngram-simple", "suffix", "calibrated,suffix", "auto"};
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    stop_time(&f);
    for (int i = 0; i < 8; i++) {
        int n_samples = i < 4 ? 1 : 4;
        spec_session(&f, 4, NULL);
        generate(&f, NULL, n_samples, 0, 0, &plain);
        assert_int_equal(plain.n_step, 64);
        spec_session_at(&f, 4, specs[i % 4], like_avx512);
        generate(&f, NULL, n_samples, 0, 0, &drafted);
        assert_same(&plain, &drafted, i);
        struct lutra_stats s;
        lutra_session_stats(f.s, &s, sizeof s);
        print_message("%s, %d samples: %llu passes, %llu drafted, %llu accepted\n", specs[i % 4], n_samples,
            (unsigned long long)s.n_step, (unsigned long long)s.rows_drafted, (unsigned long long)s.rows_accepted);
        assert_true(s.n_step < 32);
        assert_int_equal(s.rows_wasted, s.rows_drafted - s.rows_accepted);
        assert_int_equal(drafted.who[0].n_drafted, s.rows_drafted);
        assert_int_equal(drafted.who[0].n_accepted, s.rows_accepted);
        for (int k = 0; k < n_samples; k++) assert_in_range(drafted.who[0].n_pass[k], 4, s.n_step);
    }
    fixture_close(&f);
}

/* With every instruction set of this machine, on one thread and two; the prompt found in the cache the second time. */
static void no_machine_makes_a_difference(void **state)
{
    (void)state;
    for (uint32_t bit = 1; bit & CPU_ISA_ALL; bit <<= 1) {
        if (!(cpu_isa() & bit)) continue;
        for (int n_threads = SANITIZED ? 2 : 1; n_threads <= 2; n_threads++) {
            struct fixture f;
            fixture_open_on(&f, &(struct where){"cpu", cpu_isa_name(bit)}, "tiny-qwen2", "Q4_0", n_threads);
            stop_time(&f);
            spec_session(&f, 3, NULL);
            generate(&f, NULL, 3, 0, 0.8f, &plain);
            spec_session(&f, 3, "auto");
            for (int again = 0; again < 2; again++) {
                struct guesser g = {.state = bit, .most = 9, .right_in_8 = 5, .right = said, .text = &plain};
                f.s->inbox.next_id = 0; /* as the guesser knows it */
                generate(&f, &g, 3, 0, 0.8f, &drafted);
                source_remove(&f.s->sources, &g.source);
                assert_same(&plain, &drafted, again);
                print_message("%s, %d threads: %llu accepted\n", cpu_isa_name(bit), n_threads,
                    (unsigned long long)f.s->stats.rows_accepted);
                assert_true(f.s->stats.rows_accepted > 30);
                assert_true(again == 0 || f.s->stats.cached_tokens > 0);
            }
            fixture_close(&f);
        }
    }
}

static void what_is_not_built_is_refused(void **state)
{
    static const char *const names[] = {"draft", "suffix,draft", "eagle", "store", "recycler", "suffix,automatic",
        "suffix,,ngram-simple", "suffixes", "suff", ","};
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_session_settings ss;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ss.spec_type = names[i];
        assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_UNSUPPORTED);
        assert_non_null(strstr(why.what, "is not built"));
    }
    ss.spec_type = "suffix,suffix";
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_ARGUMENT);
    ss.spec_type = "recycle,auto";
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_ARGUMENT);
    ss.spec_type = "suffix";
    for (int i = 0; i < 4; i++) {
        struct lutra_session_settings bad = ss;
        if (i == 0) bad.draft_max = 65;
        if (i == 1) bad.draft_min = 17;
        if (i == 2) bad.draft_p_min = NAN;
        if (i == 3) bad.spec_ngram_size_n = 1;
        assert_int_equal(lutra_session_open(&f.s, f.model, &bad, &why), LUTRA_E_ARGUMENT);
        bad.spec_type = "none";
        OK(lutra_session_open(&f.s, f.model, &bad, err));
        lutra_session_close(&f.s);
    }
    fixture_close(&f);
}

/* A text that one cache domain has had is drafted from for that domain; another one's drafts know nothing of it. */
static void domains_learn_apart(void **state)
{
    (void)state;
    struct fixture f;
    int n_drafted[3];
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    stop_time(&f);
    spec_session(&f, 2, "recycle");
    for (int i = 0; i < 3; i++) {
        struct lutra_request r;
        struct heard h = {0};
        lutra_request_init(&r, sizeof r);
        r.prompt = (int32_t[]){token_at(3)};
        r.n_prompt = 1;
        r.max_tokens = 12;
        r.ignore_end = true;
        r.cache_domain = i < 2 ? 7 : 8;
        r.on_end = on_end;
        r.user = &h;
        OK(lutra_generate(f.s, &r, err));
        n_drafted[i] = h.n_drafted;
    }
    assert_true(n_drafted[1] > n_drafted[0] && n_drafted[2] < n_drafted[1]);
    fixture_close(&f);
}

/* What is likely behind each token goes with a fork. */
static void forks_have_the_hints(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_request r;
    int active;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 1);
    spec_session(&f, 2, "calibrated");
    for (int i = 0; i < N_PROMPT; i++) prompt[0][i] = token_at(i);
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt[0];
    r.n_prompt = N_PROMPT;
    r.ignore_end = true;
    OK(lutra_submit(f.s, &r, NULL, err));
    for (int i = 0; i < 10; i++) OK(lutra_step(f.s, &active, err));
    struct sample *from = &f.s->sample[0], *to = sample_fork(f.s, from);
    assert_non_null(to);
    size_t n = (size_t)(N_PROMPT + sample_length(from) - 1);
    assert_true(from->seq.hints[0].p[0] > 0 && from->seq.hints[n - 1].p[0] > 0);
    assert_memory_equal(to->seq.hints, from->seq.hints, n * sizeof *from->seq.hints);
    fixture_close(&f);
}

/* An NPU, and one that has two classes: rows of prompts on tiles, all others, drafts too, by lookup. */
static void npus_say_the_same(void **state)
{
    static const char *const devices[] = {"npu-sim", "npu-sim:lookup"}, *const specs[] = {"suffix", "auto"};
    (void)state;
    for (int i = SANITIZED ? 3 : 0; i < 4; i++) {
        struct fixture f;
        float temperature = i < 2 ? 0 : 0.8f;
        fixture_open_on(&f, &(struct where){devices[i % 2], NULL}, "tiny-qwen2", "Q4_0", 2);
        stop_time(&f);
        spec_session(&f, 3, NULL);
        assert_true((f.s->batch.bulk > 0) == (i % 2 == 1));
        generate(&f, NULL, 3, 0, temperature, &plain);
        spec_session(&f, 3, specs[i / 2]);
        struct guesser g = {.state = 1, .most = 9, .right_in_8 = 5, .right = said, .text = &plain};
        generate(&f, &g, 3, 0, temperature, &drafted);
        assert_same(&plain, &drafted, i);
        assert_true(f.s->stats.rows_accepted > 30 && f.s->stats.rows_wasted > 30);
        fixture_close(&f);
    }
}

/* A second model: itself is always right, at any temperature, alone and as several samples; another changes nothing,
 * either. */
static void a_model_drafts(void **state)
{
    (void)state;
    struct fixture f, other;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    struct lutra_make_model_settings ms;
    lutra_make_model_settings_init(&ms, sizeof ms);
    memset(&other, 0, sizeof other);
    snprintf(other.path, sizeof other.path, "%.40s.2", f.path);
    ms.shape = "tiny-qwen2";
    ms.seed = 6;
    OK(lutra_make_model(f.rt, other.path, &ms, err));
    OK(lutra_model_open(&other.model, f.rt, other.path, NULL, err));
    stop_time(&f);
    for (int i = 0; i < 8; i++) {
        int n_samples = i % 2 ? 4 : 1;
        float temperature = i / 2 % 2 ? 0.8f : 0;
        struct lutra_session_settings ss;
        spec_session(&f, 4, NULL);
        generate(&f, NULL, n_samples, 0, temperature, &plain);
        lutra_session_settings_init(&ss, sizeof ss);
        ss.n_seq = 4;
        ss.n_ctx = 256;
        ss.draft_max = 7;
        ss.experiment = fixture_row_cost(like_avx512);
        ss.draft_p_min = 0; /* of random weights none is likely */
        ss.spec_type = i % 3 ? "draft" : NULL;
        ss.draft_model = i < 4 ? f.model : other.model;
        lutra_session_close(&f.s);
        OK(lutra_session_open(&f.s, f.model, &ss, err));
        generate(&f, NULL, n_samples, 0, temperature, &drafted);
        assert_same(&plain, &drafted, i);
        print_message("%s, %d samples, temperature %g: %llu passes, %llu drafted, %llu accepted\n",
            i < 4 ? "itself" : "another", n_samples, (double)temperature, (unsigned long long)f.s->stats.n_step,
            (unsigned long long)f.s->stats.rows_drafted, (unsigned long long)f.s->stats.rows_accepted);
        assert_true(f.s->stats.rows_drafted > 0);
        if (i < 4) assert_true(f.s->stats.rows_wasted <= (uint64_t)n_samples); /* the last guess nobody needs */
        /* A kind of draft that is not known yet is tried at one sample first: beside others it begins later. */
        if (i < 4) assert_true(f.s->stats.n_step <= (n_samples > 1 ? 64 / 3 : 64 / 4));
    }
    lutra_session_close(&f.s);
    lutra_model_close(&other.model);
    unlink(other.path);
    ms.shape = "tiny-llama"; /* another vocabulary */
    OK(lutra_make_model(f.rt, other.path, &ms, err));
    OK(lutra_model_open(&other.model, f.rt, other.path, NULL, err));
    struct lutra_session_settings ss;
    struct lutra_error why;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.draft_model = other.model;
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "not one vocabulary"));
    lutra_model_close(&other.model);
    unlink(other.path);
    fixture_close(&f);
}

/* Cancelled in the middle of a tree: not one token more than without drafts. */
static void a_cancel_drops_the_rest(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, 1, 256);
    generate(&f, NULL, 1, 0, 0.8f, &plain);
    struct guesser g = {.most = 7, .right_in_8 = 8, .right = said, .text = &plain};
    fixture_session(&f, 1, 256);
    generate(&f, &g, 1, 20, 0.8f, &drafted);
    assert_int_equal(drafted.who[0].reason[0], LUTRA_STOP_CANCELLED);
    assert_int_equal(drafted.who[0].n_tok[0], 20);
    assert_int_equal(n_kept(&f, drafted.who[0].token[0], 20), N_PROMPT + 19);
    fixture_close(&f);
}

/* A caller's drafts: n of them, the text's own tokens in a chain or wrong ones beside it, or one that cannot be. */
struct caller {
    int n, wrong; /* wrong: what is wrong with the last */
    long n_asked;
};

static struct caller caller;

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    const struct heard *h = user;
    struct row_tip at = {.request = tip->request, .sample = tip->sample, .n_token = tip->n_token};
    int n = caller.n < n_max ? caller.n : n_max;
    caller.n_asked++;
    assert_memory_equal(tip->token, prompt[0], (size_t)h->n_prompt * sizeof *tip->token);
    for (int i = 0; i < n; i++) {
        int32_t token = said(&plain, &at, i + 1);
        draft[i] = (struct lutra_draft){.token = token < 0 ? 5 : token, .parent = i - 1, .p = 0.9f};
    }
    if (caller.wrong == 1) draft[n - 1].token = 1 << 20;
    if (caller.wrong == 2) draft[n - 1].parent = n - 1;
    if (caller.wrong == 3) draft[n - 1].p = NAN;
    if (caller.wrong == 4) return n_max + 1;
    if (caller.wrong == 5) return -1;
    return n;
}

static int generate_with_caller(struct fixture *f, const char *spec, struct lutra_error *why)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    spec_session(f, 4, spec);
    memset(&drafted, 0, sizeof drafted);
    drafted.who[0].n_prompt = r.n_prompt = N_PROMPT;
    r.prompt = prompt[0];
    r.n_samples = 4;
    r.max_tokens = 64;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.on_draft = on_draft;
    r.user = &drafted.who[0];
    int rc = lutra_generate(f->s, &r, why);
    drafted.n_step = f->s->stats.n_step;
    return rc;
}

static void a_caller_may_draft(void **state)
{
    static const char *const words[] = {"", "draft 3: token 1048576", "draft 3: parent 3", "draft 3: p is nan",
        "17 drafts, outside 0..16", "-1 drafts, outside 0..16"};
    (void)state;
    struct fixture f;
    struct lutra_error why;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    stop_time(&f);
    fixture_session(&f, 4, 256);
    generate(&f, NULL, 4, 0, 0.8f, &plain);
    for (int i = 0; i < 4; i++) {
        caller = (struct caller){.n = i < 2 ? 0 : 4};
        OK(generate_with_caller(&f, i % 2 ? "auto" : NULL, err));
        assert_same(&plain, &drafted, i);
        assert_true(caller.n_asked > 0);
        if (i >= 2) assert_true(drafted.n_step < 64 / 3);
    }
    for (int wrong = 1; wrong <= 5; wrong++) {
        caller = (struct caller){.n = 4, .wrong = wrong};
        assert_int_equal(generate_with_caller(&f, NULL, &why), LUTRA_E_ARGUMENT);
        assert_non_null(strstr(why.what, words[wrong]));
        for (int i = 0; i < 4; i++) assert_int_equal(drafted.who[0].reason[i], LUTRA_STOP_ERROR);
        caller = (struct caller){0};
        OK(generate_with_caller(&f, NULL, err)); /* the session goes on */
    }
    fixture_close(&f);
}

int main(void)
{
    static char q4[] = "Q4_0", f16[] = "F16", q6[] = "Q6_K";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(random_trees_change_nothing, q4),
        cmocka_unit_test_prestate(random_trees_change_nothing, f16),
        cmocka_unit_test_prestate(random_trees_change_nothing, q6),
        cmocka_unit_test_prestate(speculation_changes_nothing, q4),
        cmocka_unit_test_prestate(speculation_changes_nothing, f16),
        cmocka_unit_test_prestate(speculation_changes_nothing, q6),
        cmocka_unit_test(repetition_is_drafted),
        cmocka_unit_test(no_machine_makes_a_difference),
        cmocka_unit_test(a_caller_may_draft),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(steps_end_within_a_pass),
        cmocka_unit_test(budgets_choose_the_same),
        cmocka_unit_test(domains_learn_apart),
        cmocka_unit_test(forks_have_the_hints),
        cmocka_unit_test(npus_say_the_same),
        cmocka_unit_test(right_drafts_are_taken),
        cmocka_unit_test(a_cancel_drops_the_rest),
        cmocka_unit_test(a_model_drafts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
