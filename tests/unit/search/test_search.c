/* SPDX-License-Identifier: MIT
 *
 * Searches over random models: the verifier's cached scores against scores from scratch, determinism, every end.
 */
#include "unit/engine/engine_fixture.h"
#include "sanitized.h"

#include "engine/session_impl.h"
#include "search/search_impl.h" /* how many passes a verifier has run */

enum { MAX_CAND = 600, WIDTH = 8 };

struct heard {
    int32_t token[MAX_CAND][256];
    int n_token[MAX_CAND];
    double score[MAX_CAND];
    int n_step[MAX_CAND], n_end, n_fork, n_prune, n_finish, alive, most_alive;
    char log[1 << 16];
};

static struct heard a, b; /* large: not on the stack */
static int32_t prompt[40];

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    assert_in_range(p->sample, 0, MAX_CAND - 1);
    if (p->token >= 0) h->token[p->sample][h->n_token[p->sample]++] = p->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    (void)e;
    ((struct heard *)user)->n_end++;
}

static void on_event(void *user, const struct lutra_search_event *e)
{
    struct heard *h = user;
    char line[128];
    snprintf(line, sizeof line, "%d %d %d %d %.17g %.17g\n", (int)e->kind, e->candidate, e->parent, e->n_step,
        e->reward, e->score);
    if (strlen(h->log) + strlen(line) < sizeof h->log) strcat(h->log, line);
    h->n_fork += e->kind == LUTRA_EVENT_FORK;
    h->n_prune += e->kind == LUTRA_EVENT_PRUNE;
    h->n_finish += e->kind == LUTRA_EVENT_FINISH;
    if (e->kind == LUTRA_EVENT_STEP) h->score[e->candidate] = e->score;
    if (e->kind == LUTRA_EVENT_STEP) h->n_step[e->candidate] = e->n_step;
}

static struct lutra_sampling sampling;

static struct lutra_request make_request(struct heard *h)
{
    memset(h, 0, sizeof *h);
    for (int i = 0; i < 40; i++) prompt[i] = token_at(i);
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = 40;
    r.max_tokens = 60;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = 9;
    r.sampling = &sampling;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = h;
    return r;
}

struct judge {
    const char *kind, *mark, *step;
};
static const struct judge token_kind = {"token", NULL, "e"};

static lutra_verifier *open_judge(lutra_model *model, const struct judge *j, int n_seq)
{
    lutra_verifier *v;
    struct lutra_verifier_settings vs;
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.n_seq = n_seq;
    if (n_seq <= WIDTH) vs.n_batch = 48; /* jobs are cut in the middle */
    vs.mark = j->mark;
    vs.model = model;
    if (!strcmp(j->kind, "token")) {
        vs.positive = "+";
        vs.negative = "-";
    }
    OK(lutra_verifier_open(&v, j->kind, &vs, err));
    return v;
}

static lutra_verifier *open_verifier(struct fixture *f)
{
    struct lutra_error why;
    lutra_verifier *v;
    struct lutra_verifier_settings vs;
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.model = f->model;
    assert_int_equal(lutra_verifier_open(&v, NULL, &vs, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "no reward model"));
    return open_judge(f->model, &token_kind, WIDTH);
}

/* Runs a search to its end; `beside`: another request shares the steps. */
static struct lutra_search_result run(
    struct fixture *f, struct lutra_search *set, struct heard *h, bool beside, char *text)
{
    struct lutra_request r = make_request(h);
    lutra_search_run *search;
    int32_t other[] = {5, 6, 7};
    int active = 1;
    set->on_event = on_event;
    set->user = h;
    if (beside) {
        struct lutra_request o;
        lutra_request_init(&o, sizeof o);
        o.prompt = other;
        o.n_prompt = 3;
        o.max_tokens = 30;
        o.n_samples = 2;
        OK(lutra_submit(f->s, &o, NULL, err));
    }
    OK(lutra_search_submit(&search, f->s, &r, set, err));
    while (active) {
        OK(lutra_step(f->s, &active, err));
        assert_true((lutra_search_done(search) == NULL) || active <= 2);
    }
    struct lutra_search_result res = *lutra_search_done(search);
    assert_non_null(res.text);
    snprintf(text, 4096, "%s", res.text);
    lutra_search_close(&search);
    return res;
}

static struct lutra_search settings(enum lutra_search_method method, lutra_verifier *v)
{
    struct lutra_search set;
    lutra_search_init(&set, sizeof set);
    set.method = method;
    set.width = WIDTH;
    set.expand = 4;
    set.step = "e"; /* frequent in random text */
    set.score = LUTRA_SCORE_PRODUCT;
    set.prune_below = 0;
    set.verifier = v;
    return set;
}

/* Step ends of a token list, by the rules of lutra.h read naively: at the token in which the delimiter ends, if the
 * step is more than delimiters and blanks; what is left is one step. */
static int steps_of(const struct fixture *f, const struct lutra_search *set, const int32_t *token, int n, int *end)
{
    static char text[1 << 16];
    size_t n_delimiter = strlen(set->step), bytes = 0, said = 0;
    int n_step = 0;
    for (int i = 0; i < n; i++) {
        size_t before = bytes, one;
        OK(lutra_token_text(f->model, token[i], false, text + bytes, sizeof text - 1 - bytes, &one));
        bytes += one;
        bool found = false;
        for (size_t at = 0; at + n_delimiter <= bytes; at++)
            found |= !memcmp(text + at, set->step, n_delimiter) && at + n_delimiter > before;
        for (said = 0; said < bytes;) {
            if (bytes - said >= n_delimiter && !memcmp(text + said, set->step, n_delimiter))
                said += n_delimiter;
            else if (strchr(" \n\t\r", text[said]))
                said++;
            else
                break;
        }
        bool ends = found && said < bytes && n_step + 1 < set->max_steps;
        if (!ends && i < n - 1) continue;
        end[n_step++] = i + 1;
        bytes = 0;
    }
    return n_step;
}

static void cached_scores_are_the_scores(void **state)
{
    const struct judge *j = *state;
    struct fixture f;
    char text[4096];
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, WIDTH / 2, 128); /* half of the candidates begin when others have ended */
    lutra_model *other;                  /* the same weights, opened again: judged by rows of its own */
    OK(lutra_model_open(&other, f.rt, f.path, NULL, err));
    lutra_verifier *v = open_judge(other, j, WIDTH);
    struct lutra_search set = settings(LUTRA_SEARCH_BEST, v);
    char across[16] = "";
    set.step = j->step ? j->step : across;
    set.max_steps = 9;
    if (!j->step) { /* a delimiter that begins in one token and ends in the next */
        struct lutra_search vote = settings(LUTRA_SEARCH_VOTE, NULL);
        run(&f, &vote, &a, false, text);
        for (int k = 20; strlen(across) != 2; k++) {
            char two[2][64];
            size_t n[2];
            for (int i = 0; i < 2; i++)
                OK(lutra_token_text(f.model, a.token[0][k + i], false, two[i], sizeof two[i], &n[i]));
            if (n[0] && n[1] && two[0][n[0] - 1] > ' ' && two[1][0] > ' ')
                snprintf(across, sizeof across, "%c%c", two[0][n[0] - 1], two[1][0]);
        }
    }
    struct lutra_search_result res = run(&f, &set, &a, false, text);
    assert_int_equal(res.n_finished, WIDTH);
    double best = 0;
    int most = 0, least = 1000;
    for (int i = 0; i < WIDTH; i++) {
        int end[256], n = steps_of(&f, &set, a.token[i], a.n_token[i], end);
        double reward[256], product = 1;
        assert_int_equal(n, a.n_step[i]);
        OK(lutra_verifier_score(v, prompt, 40, a.token[i], end, n, reward, err)); /* one step at a time, alone */
        for (int k = 0; k < n; k++) product *= reward[k];
        assert_true(product == a.score[i]);
        if (a.score[i] > best) best = a.score[i];
        if (n > most) most = n;
        if (n < least) least = n;
    }
    print_message("%s: %d to %d steps\n", j->kind, least, most);
    assert_true(most > 1);
    assert_true(res.score == best && a.score[res.candidate] == best);
    lutra_verifier_close(&v);
    lutra_model_close(&other);
    fixture_close(&f);
}

/* A model judges its own text: no further row, and the rewards that a second copy of it finds. */
static void own_likelihood_is_free(void **state)
{
    static const struct judge own = {"likelihood", NULL, "e"};
    struct fixture f;
    char text_a[4096], text_b[4096];
    (void)state;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, WIDTH, 128);
    lutra_model *other;
    OK(lutra_model_open(&other, f.rt, f.path, NULL, err));
    lutra_verifier *self = open_judge(f.model, &own, 0), *copy = open_judge(other, &own, WIDTH);
    for (int m = LUTRA_SEARCH_WEIGHTED; m <= LUTRA_SEARCH_REBASE; m += SANITIZED ? 2 : 1) {
        struct lutra_search set = settings((enum lutra_search_method)m, self);
        set.score = LUTRA_SCORE_MEAN;
        struct lutra_search_result ra = run(&f, &set, &a, false, text_a);
        set.verifier = copy;
        struct lutra_search_result rb = run(&f, &set, &b, false, text_b);
        assert_int_equal(ra.verifier_rows, 0);
        assert_true(rb.verifier_rows > 0);
        assert_string_equal(text_a, text_b);
        for (int i = 0; i < WIDTH; i++) {
            assert_int_equal(a.n_step[i], b.n_step[i]);
            assert_true(a.score[i] > 0 && fabs(a.score[i] - b.score[i]) < 1e-5 * b.score[i]);
        }
    }
    struct lutra_error why;
    lutra_search_run *search;
    struct lutra_request r = make_request(&a);
    struct lutra_search set = settings(LUTRA_SEARCH_BEST, self);
    struct fixture g;
    fixture_open(&g, "tiny-qwen2", "F16", 1);
    fixture_session(&g, WIDTH, 128);
    assert_int_equal(lutra_search_submit(&search, g.s, &r, &set, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "same model"));
    struct lutra_verifier_settings vs;
    lutra_verifier_settings_init(&vs, sizeof vs);
    lutra_verifier *none;
    vs.n_seq = 0;
    vs.positive = "+";
    vs.model = f.model;
    assert_int_equal(lutra_verifier_open(&none, NULL, &vs, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "cache of its own"));
    lutra_verifier_close(&self);
    lutra_verifier_close(&copy);
    fixture_close(&g);
    lutra_model_close(&other);
    fixture_close(&f);
}

/* Two searches at once, one verifier: each as it is alone, in fewer passes than the two alone. */
static void searches_share_passes(void **state)
{
    static const enum lutra_search_method methods[] = {LUTRA_SEARCH_BEST, LUTRA_SEARCH_BEAM};
    struct fixture f;
    (void)state;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, 2 * WIDTH, 128);
    lutra_model *other;
    OK(lutra_model_open(&other, f.rt, f.path, NULL, err));
    struct lutra_verifier *v = open_judge(other, &token_kind, 2 * WIDTH);
    for (size_t m = 0; m < 2; m++) {
        struct lutra_search set = settings(methods[m], v);
        struct lutra_search_result alone[2];
        char text[2][4096];
        uint64_t passes[3];
        lutra_search_run *search[3];
        struct lutra_error why;
        for (int i = 0; i < 2; i++) {
            set.score = i ? LUTRA_SCORE_MEAN : LUTRA_SCORE_PRODUCT;
            lutra_session_stats_reset(v->session);
            alone[i] = run(&f, &set, &a, false, text[i]);
            passes[i] = v->session->stats.n_pass;
        }
        lutra_session_stats_reset(v->session);
        struct lutra_request ra = make_request(&a), rb = make_request(&b);
        set.on_event = on_event;
        for (int i = 0; i < 2; i++) {
            set.score = i ? LUTRA_SCORE_MEAN : LUTRA_SCORE_PRODUCT;
            set.user = i ? &b : &a;
            OK(lutra_search_submit(&search[i], f.s, i ? &rb : &ra, &set, err));
        }
        assert_int_equal(lutra_search_submit(&search[2], f.s, &ra, &set, &why), LUTRA_E_BUSY);
        for (int active = 1; active;) OK(lutra_step(f.s, &active, err));
        passes[2] = v->session->stats.n_pass;
        print_message("%llu and %llu passes alone, %llu together\n", (unsigned long long)passes[0],
            (unsigned long long)passes[1], (unsigned long long)passes[2]);
        assert_true(passes[2] < passes[0] + passes[1]);
        for (int i = 0; i < 2; i++) {
            const struct lutra_search_result *res = lutra_search_done(search[i]);
            assert_string_equal(res->text, text[i]);
            assert_true(res->score == alone[i].score);
            assert_int_equal(res->verifier_rows, alone[i].verifier_rows);
            lutra_search_close(&search[i]);
        }
    }
    struct lutra_search set = settings(LUTRA_SEARCH_BEST, v); /* all was given back */
    set.width = 2 * WIDTH;
    char text[4096];
    run(&f, &set, &a, false, text);
    lutra_verifier_close(&v);
    lutra_model_close(&other);
    fixture_close(&f);
}

/* Candidates that reach the end of the context are whole solutions as they are, and the others go on. */
static void a_full_context_ends_a_candidate(void **state)
{
    static const struct judge likelihood = {"likelihood", NULL, "e"};
    struct fixture f;
    (void)state;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, WIDTH, 64);
    lutra_verifier *v = open_judge(f.model, &likelihood, WIDTH);
    for (int m = LUTRA_SEARCH_VOTE; m <= LUTRA_SEARCH_REBASE; m++) {
        struct lutra_search set = settings((enum lutra_search_method)m, v);
        struct lutra_request r = make_request(&a);
        const char *stops[] = {"a"}; /* some end earlier */
        lutra_search_run *search;
        r.max_tokens = -1;
        r.stop = stops;
        r.n_stop = 1;
        set.early_stop = false;
        set.on_event = on_event;
        set.user = &a;
        OK(lutra_search_submit(&search, f.s, &r, &set, err));
        for (int active = 1; active;) OK(lutra_step(f.s, &active, err));
        const struct lutra_search_result *res = lutra_search_done(search);
        assert_non_null(res->text);
        assert_int_equal(res->n_finished, a.n_finish);
        if (m < LUTRA_SEARCH_BEAM) assert_int_equal(res->n_finished, WIDTH);
        int longest = 0;
        for (int i = 0; i < MAX_CAND; i++) longest = a.n_token[i] > longest ? a.n_token[i] : longest;
        if (m < LUTRA_SEARCH_BEAM) assert_int_equal(longest, 64 - 40 + 1); /* the last one need not be evaluated */
        lutra_search_close(&search);
    }
    lutra_verifier_close(&v);
    fixture_close(&f);
}

/* What a budget of tokens buys does not depend on how many candidates run at once. */
static void budgets(void **state)
{
    static const struct lutra_search_option table[] = {
        {LUTRA_SEARCH_VOTE, 1, 1, true, 60, -1, .50}, {LUTRA_SEARCH_VOTE, 2, 1, false, 120, -1, .52},
        {LUTRA_SEARCH_BEAM, 8, 4, false, 400, -1, .60}, {LUTRA_SEARCH_BEST, 8, 1, false, 480, -1, .55},
        {LUTRA_SEARCH_BEST, 64, 1, false, 390, -1, .90}, /* wider than the session */
    };
    static const struct {
        enum lutra_search_method method, chosen;
        int64_t budget;
        int n_option, width;
        bool verifier;
    } cases[] = {
        {LUTRA_SEARCH_BEST, LUTRA_SEARCH_BEST, 330, 0, WIDTH, true},
        {LUTRA_SEARCH_VOTE, LUTRA_SEARCH_VOTE, 330, 0, WIDTH, false},
        {LUTRA_SEARCH_AUTO, LUTRA_SEARCH_VOTE, 900, 0, WIDTH, false},
        {LUTRA_SEARCH_AUTO, LUTRA_SEARCH_WEIGHTED, 900, 0, WIDTH, true},
        {LUTRA_SEARCH_AUTO, LUTRA_SEARCH_BEAM, 900, 5, WIDTH, true},
        {LUTRA_SEARCH_AUTO, LUTRA_SEARCH_VOTE, 399, 5, 2, true},
        {LUTRA_SEARCH_AUTO, LUTRA_SEARCH_VOTE, 60, 5, 1, true},
    };
    struct fixture f;
    char text_a[4096], text_b[4096];
    (void)state;
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    lutra_verifier *v = open_verifier(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += SANITIZED ? 2 : 1) {
        struct lutra_search set = settings(cases[i].method, cases[i].verifier ? v : NULL);
        set.token_budget = cases[i].budget;
        set.option = table;
        set.n_option = cases[i].n_option;
        set.option_size = sizeof *set.option;
        fixture_session(&f, WIDTH + 3, 128);
        struct lutra_search_result ra = run(&f, &set, &a, false, text_a);
        bool steps = cases[i].chosen == LUTRA_SEARCH_BEAM;
        if (!steps) fixture_session(&f, 3, 128);
        struct lutra_search_result rb = run(&f, &set, &b, true, text_b);
        print_message("budget %d: %d tokens, %d of %d candidates\n", (int)cases[i].budget, (int)ra.generated_tokens,
            ra.n_finished, ra.n_candidates);
        assert_int_equal(ra.method, cases[i].chosen);
        if (cases[i].n_option) assert_int_equal(ra.width, cases[i].width);
        assert_string_equal(text_a, text_b);
        assert_true(ra.score == rb.score && ra.candidate == rb.candidate);
        if (!steps) { /* 60 tokens each: whole candidates only, and all that fit */
            assert_int_equal(ra.n_finished, cases[i].width == 1 ? 1 : cases[i].budget / 60);
            assert_true(ra.generated_tokens <= cases[i].budget);
        } else {
            assert_true(ra.n_candidates > WIDTH + a.n_fork); /* what the beam left has drawn more */
        }
    }
    lutra_verifier_close(&v);
    fixture_close(&f);
}

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Splits h's log at its ends of lines.  Returns the number of lines, sorted. */
static size_t sort_events(struct heard *h, const char **line)
{
    size_t n = 0;
    for (char *rest = h->log, *end; (end = strchr(rest, '\n')); rest = end + 1) {
        *end = '\0';
        line[n++] = rest;
    }
    qsort(line, n, sizeof *line, by_text);
    return n;
}

/* The same events in a and b.  Candidates that end in one step are told of in the order of their slots, which depends
 * on what else has some. */
static void assert_same_events(void)
{
    static const char *line_a[sizeof a.log], *line_b[sizeof b.log];
    size_t n = sort_events(&a, line_a);
    assert_int_equal(n, sort_events(&b, line_b));
    for (size_t i = 0; i < n; i++) assert_string_equal(line_a[i], line_b[i]);
}

static void same_search_whatever_runs_beside(void **state)
{
    (void)state;
    static const enum lutra_search_method methods[] = {
        LUTRA_SEARCH_VOTE, LUTRA_SEARCH_WEIGHTED, LUTRA_SEARCH_BEAM, LUTRA_SEARCH_DVTS, LUTRA_SEARCH_REBASE};
    struct fixture two, one;
    char text_a[4096], text_b[4096];
    fixture_open(&two, "tiny-qwen2", "Q4_0", 2);
    fixture_open(&one, "tiny-qwen2", "Q4_0", 1);
    fixture_session(&two, WIDTH, 128);
    fixture_session(&one, WIDTH + 3, 128);
    lutra_verifier *v2 = open_verifier(&two), *v1 = open_verifier(&one);
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        struct lutra_search set = settings(methods[m], v2);
        set.early_stop = false;
        struct lutra_search_result ra = run(&two, &set, &a, false, text_a);
        set.verifier = v1;
        struct lutra_search_result rb = run(&one, &set, &b, true, text_b);
        assert_string_equal(text_a, text_b);
        if (methods[m] >= LUTRA_SEARCH_BEAM) assert_same_events();
        assert_true(ra.score == rb.score);
        assert_int_equal(ra.candidate, rb.candidate);
        assert_int_equal(ra.n_candidates, a.n_end);
        if (methods[m] >= LUTRA_SEARCH_BEAM) {
            assert_true(a.n_fork > 5 && a.n_prune > 5);
            assert_int_equal(ra.n_candidates, WIDTH + a.n_fork);
            assert_true(ra.verifier_rows > 0);
        }
    }
    lutra_verifier_close(&v2);
    lutra_verifier_close(&v1);
    fixture_close(&two);
    fixture_close(&one);
}

static void early_ends(void **state)
{
    (void)state;
    struct fixture f;
    char text[4096];
    fixture_open(&f, "tiny-qwen2", "F16", 2);
    fixture_session(&f, WIDTH, 128);
    lutra_verifier *v = open_verifier(&f);

    struct lutra_search set = settings(LUTRA_SEARCH_BEAM, v);
    set.token_budget = 100;
    struct lutra_request r = make_request(&a);
    lutra_search_run *search;
    int active = 1;
    OK(lutra_search_submit(&search, f.s, &r, &set, err));
    while (active) OK(lutra_step(f.s, &active, err));
    const struct lutra_search_result *res = lutra_search_done(search);
    assert_in_range(res->generated_tokens, 100, 400);
    lutra_search_close(&search);

    r = make_request(&a); /* cancelled half way */
    OK(lutra_search_submit(&search, f.s, &r, &set, err));
    for (int i = 0; i < 10; i++) OK(lutra_step(f.s, &active, err));
    lutra_cancel(f.s);
    OK(lutra_step(f.s, &active, err));
    assert_int_equal(active, 0);
    assert_non_null(lutra_search_done(search));
    assert_null(lutra_search_done(search)->text);
    lutra_search_close(&search);

    r = make_request(&a); /* closed half way */
    OK(lutra_search_submit(&search, f.s, &r, &set, err));
    for (int i = 0; i < 10; i++) OK(lutra_step(f.s, &active, err));
    lutra_search_close(&search);
    OK(lutra_step(f.s, &active, err));
    assert_int_equal(active, 0);

    set = settings(LUTRA_SEARCH_BEAM, v); /* and everything still works */
    set.max_steps = 3;
    struct lutra_search_result after = run(&f, &set, &b, false, text);
    assert_true(after.n_finished > 0);
    for (int i = 0; i < MAX_CAND; i++) assert_true(b.n_step[i] <= 3);

    struct lutra_error why;
    set = settings(LUTRA_SEARCH_BEAM, NULL);
    assert_int_equal(lutra_search_submit(&search, f.s, &r, &set, &why), LUTRA_E_ARGUMENT);
    set = settings(LUTRA_SEARCH_BEAM, v);
    set.width = 3;
    assert_int_equal(lutra_search_submit(&search, f.s, &r, &set, &why), LUTRA_E_ARGUMENT);
    set.width = 64;
    assert_int_equal(lutra_search_submit(&search, f.s, &r, &set, &why), LUTRA_E_ARGUMENT);
    struct fixture other;
    fixture_open(&other, "tiny-llama-24", "F16", 1);
    lutra_verifier *stranger = open_verifier(&other);
    set = settings(LUTRA_SEARCH_BEAM, stranger);
    assert_int_equal(lutra_search_submit(&search, f.s, &r, &set, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "another vocabulary"));
    lutra_verifier_close(&stranger);
    fixture_close(&other);
    lutra_verifier_close(&v);
    fixture_close(&f);
}

int main(void)
{
    static struct judge plain = {"token", NULL, "e"}, marked = {"token", "+-", "a"},
                        across = {"likelihood", NULL, NULL}, blank = {"likelihood", NULL, " "};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(cached_scores_are_the_scores, &plain),
        cmocka_unit_test_prestate(cached_scores_are_the_scores, &marked),
        cmocka_unit_test_prestate(cached_scores_are_the_scores, &across),
        cmocka_unit_test_prestate(cached_scores_are_the_scores, &blank),
        cmocka_unit_test(own_likelihood_is_free),
        cmocka_unit_test(searches_share_passes),
        cmocka_unit_test(a_full_context_ends_a_candidate),
        cmocka_unit_test(budgets),
        cmocka_unit_test(same_search_whatever_runs_beside),
        cmocka_unit_test(early_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
