/* SPDX-License-Identifier: MIT
 *
 * Samples that say a given text: it comes whatever the weights, drafts meet it, and how much is drafted can be a matter
 * of counts.
 */
#include "engine/session_impl.h"
#include "engine_fixture.h"

enum { N_PROMPT = 40, N_FORCED = 60 };

struct heard {
    int32_t said[N_FORCED];
    int n;
    const int32_t *forced; /* what on_draft guesses from, each fourth guess wrong; NULL: no guesses */
    struct lutra_end end;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    if (p->token < 0) return 0;
    assert_in_range(h->n, 0, N_FORCED - 1);
    h->said[h->n++] = p->token;
    assert_true(p->log_prob == 0);
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    ((struct heard *)user)->end = *end;
}

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    const struct heard *h = user;
    int n = 0;
    for (int at = tip->n_token - N_PROMPT; n < n_max && at + n < N_FORCED; n++)
        draft[n] = (struct lutra_draft){.token = h->forced[at + n] ^ ((at + n) % 4 == 3), .parent = n - 1, .p = 0.9f};
    return n;
}

static void write_forced(int32_t forced[N_FORCED])
{
    for (int i = 0; i < N_FORCED; i++) forced[i] = 11 * i * i % 199 + 20;
}

static void say(struct fixture *f, struct heard *h, const int32_t *forced, bool drafts)
{
    int32_t prompt[N_PROMPT];
    struct lutra_request r;
    struct lutra_request_experiment x;
    *h = (struct heard){.forced = forced};
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = 7 * i % 200;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = N_PROMPT;
    lutra_request_experiment_init(&x, sizeof x);
    x.forced = forced;
    x.n_forced = N_FORCED;
    r.experiment = &x;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    if (drafts) r.on_draft = on_draft;
    r.user = h;
    OK(lutra_generate(f->s, &r, err));
    assert_int_equal(h->n, N_FORCED);
    assert_int_equal(h->end.reason, LUTRA_STOP_LENGTH);
    assert_memory_equal(h->said, forced, sizeof h->said);
}

static void the_text_comes_with_and_without_drafts(void **state)
{
    (void)state;
    struct fixture f;
    static struct heard h;
    int32_t forced[N_FORCED];
    int n_pass[2];
    write_forced(forced);
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    for (int round = 0; round < 2; round++) {
        struct lutra_session_settings ss;
        lutra_session_settings_init(&ss, sizeof ss);
        ss.n_ctx = 256;
        ss.experiment = fixture_row_cost(0.09f);
        lutra_session_close(&f.s);
        OK(lutra_session_open(&f.s, f.model, &ss, err));
        say(&f, &h, forced, false);
        assert_int_equal(h.end.n_pass, N_FORCED);
        say(&f, &h, forced, true);
        assert_in_range(h.end.n_pass, N_FORCED / 4, N_FORCED / 2);
        assert_in_range(h.end.n_accepted, N_FORCED / 2, N_FORCED);
        n_pass[round] = h.end.n_pass;
    }
    assert_int_equal(n_pass[0], n_pass[1]); /* whatever the passes took */
    fixture_close(&f);
}

/* A clock that is asked moves on by one. */
static uint64_t tick(void *ticks)
{
    return ++*(uint64_t *)ticks;
}

/* Of one sample the end says what the session's figures say. */
static void ends_tell_rows_and_times(void **state)
{
    (void)state;
    struct fixture f;
    static struct heard h;
    static uint64_t ticks;
    int32_t forced[N_FORCED];
    write_forced(forced);
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    f.rt->clock = (struct clock){.now_us = tick, .state = &ticks};
    for (int drafts = 0; drafts < 2; drafts++) {
        struct lutra_session_settings ss;
        struct lutra_stats st;
        lutra_session_settings_init(&ss, sizeof ss);
        ss.n_ctx = 256;
        ss.spec_type = drafts ? "calibrated" : NULL;
        ss.experiment = fixture_row_cost(0.05f);
        OK(lutra_session_open(&f.s, f.model, &ss, err));
        say(&f, &h, forced, drafts);
        lutra_session_stats_get(f.s, &st, sizeof st);
        assert_int_equal(h.end.n_wasted, st.rows_wasted);
        assert_int_equal(h.end.n_wasted, h.end.n_drafted - h.end.n_accepted);
        assert_int_equal(h.end.n_underutilized, st.rows_underutilized);
        assert_int_equal(h.end.hints_us, st.hints_us);
        bool roomy = plan_caps(&f.model->plan).flat_rows > 1; /* more rows than one, which drafts may fill */
        if (!drafts) assert_int_equal(h.end.n_underutilized > 0, roomy);
        assert_int_equal(h.end.hints_us > 0, drafts == 1);
        assert_true((h.end.n_wasted > 0) == (drafts == 1) && (h.end.draft_us > 0) == (drafts == 1));
        assert_in_range(
            st.draft_us, h.end.draft_us, h.end.draft_us + 20); /* what is learnt from the last pass is late */
        lutra_session_close(&f.s);
    }
    fixture_close(&f);
}

/* Before passes are measured, a row is dear where weights are few bytes. */
static void rows_cost_what_counts_say(void **state)
{
    (void)state;
    static const char *const types[] = {"F16", "Q8_0", "Q4_0"};
    double last = 0;
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        fixture_open(&f, "tiny-qwen2", types[i], 1);
        fixture_session(&f, 1, 64);
        const struct demand *rates = f.model->demand.rows;
        double mac = (double)(rates[0].mac + rates[1].mac), row = f.s->cost.row;
        double bytes = (double)(rates[0].weight_bytes + rates[1].weight_bytes);
        assert_true(row > last);
        assert_float_equal(row, 0.7 / plan_caps(&f.model->plan).flat_rows * mac / bytes * 18 / 32, 1e-9);
        last = row;
        fixture_close(&f);
    }
}

static void reopen(struct fixture *f)
{
    lutra_session_close(&f->s);
    lutra_model_close(&f->model);
    OK(lutra_model_open(&f->model, f->rt, f->path, NULL, err));
}

/* A session for drafts; whether it knows what the first row of a pass costs, and knows it to be us. */
static bool knows(struct fixture *f, float row_cost, double us)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 256;
    ss.spec_type = "suffix";
    ss.experiment = fixture_row_cost(row_cost);
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
    return row_cost_known(&f->s->cost) && f->s->cost.us[0] == us;
}

/* What passes cost is known to the model's next session and, where it has a packed copy, to the next that opens it; but
 * not from a file that is damaged. */
static void costs_are_kept(void **state)
{
    (void)state;
    struct fixture f;
    static struct heard h;
    char packed[100], costs[110];
    int32_t forced[N_FORCED];
    double us = 0;
    write_forced(forced);
    fixture_open(&f, "tiny-qwen2", "Q4_0", 1);
    snprintf(packed, sizeof packed, "%s%s", f.path, LUTRA_PACKED_SUFFIX);
    snprintf(costs, sizeof costs, "%s.costs", packed);
    for (int copy = 0; copy < 2; copy++) {
        if (copy) OK(lutra_pack(f.rt, f.path, packed, NULL, err));
        reopen(&f);
        knows(&f, 0, 0);
        assert_false(row_cost_known(&f.s->cost));
        say(&f, &h, forced, false);
        us = f.s->cost.us[0];
        assert_true(us > 0);
        assert_true(knows(&f, 0, us));
        assert_int_equal(access(costs, F_OK), copy ? 0 : -1);
        assert_false(knows(&f, 0.09f, us)); /* told, not measured: what is kept stays */
        say(&f, &h, forced, false);
        assert_true(knows(&f, 0, us));
    }
    reopen(&f);
    assert_true(knows(&f, 0, us));
    FILE *file = fopen(costs, "r+b");
    assert_true(file && fputc('X', file) == 'X' && fclose(file) == 0);
    reopen(&f);
    knows(&f, 0, 0);
    assert_false(row_cost_known(&f.s->cost));
    unlink(costs);
    unlink(packed);
    fixture_close(&f);
}

static void what_cannot_be_said_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_error why;
    struct lutra_request r;
    struct lutra_request_experiment x;
    struct lutra_session_settings ss;
    int32_t forced[2] = {1, 1 << 20};
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    fixture_session(&f, 1, 64);
    lutra_request_init(&r, sizeof r);
    r.prompt = forced;
    r.n_prompt = 1;
    lutra_request_experiment_init(&x, sizeof x);
    r.experiment = &x;
    x.forced = forced;
    x.n_forced = 2;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "forced token 1 is 1048576"));
    x.n_forced = 0;
    assert_int_equal(lutra_submit(f.s, &r, NULL, &why), LUTRA_E_ARGUMENT);
    x.n_forced = 1;
    OK(lutra_submit(f.s, &r, NULL, err));
    lutra_session_close(&f.s);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.experiment = fixture_row_cost(NAN);
    assert_int_equal(lutra_session_open(&f.s, f.model, &ss, &why), LUTRA_E_ARGUMENT);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_comes_with_and_without_drafts),
        cmocka_unit_test(ends_tell_rows_and_times),
        cmocka_unit_test(rows_cost_what_counts_say),
        cmocka_unit_test(costs_are_kept),
        cmocka_unit_test(what_cannot_be_said_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
