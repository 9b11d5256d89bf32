/* SPDX-License-Identifier: MIT
 *
 * Prompts beside running samples: how many rows of a pass they get, and who of them; the text stays the same.
 */
#include "engine_fixture.h"
#include "engine/session_impl.h"

enum { N_LONG = 900, N_SHORT = 50, N_SAID = 60, ROW_US = 1000 };

/* Time passes with the rows of a pass, ROW_US for each, and so much more by its position as `dear` times what is
 * counted: what is measured is the same everywhere. */
static struct {
    lutra_session *s;
    double now, dear;
} slow;

static uint64_t by_rows(void *state)
{
    (void)state;
    for (int r = 0; slow.s && r < slow.s->batch.n_row; r++) {
        double more = slow.dear * (row_cost_work(&slow.s->cost, slow.s->batch.row[r].pos, 1) - 1);
        slow.now += ROW_US / 2 * (1 + more);
    }
    return (uint64_t)slow.now;
}

struct heard {
    int32_t token[N_SAID];
    int n;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    if (p->token >= 0) h->token[h->n++] = p->token;
    return 0;
}

static void submit(lutra_session *s, int first, int n_prompt, int max_tokens, struct heard *h)
{
    struct lutra_request r;
    int32_t prompt[N_LONG];
    lutra_request_init(&r, sizeof r);
    for (int i = 0; i < n_prompt; i++) prompt[i] = token_at(first + i);
    r.prompt = prompt, r.n_prompt = n_prompt, r.max_tokens = max_tokens, r.ignore_end = true;
    r.on_text = on_text, r.user = h;
    memset(h, 0, sizeof *h);
    OK(lutra_submit(s, &r, NULL, err));
}

static void open_session(struct fixture *f, uint64_t prompt_us)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    assert_int_equal(ss.prompt_us, 100000);
    ss.n_seq = 3, ss.n_ctx = 1024, ss.n_cache = 4096, ss.prompt_us = prompt_us;
    slow.s = NULL;
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
    slow.s = f->s;
}

/* The longest pass of prompt rows while a sample runs; passes until the long and the short prompt speak. */
static int longest(struct fixture *f, uint64_t prompt_us, struct heard *h, int *n_long, int *n_short)
{
    struct lutra_stats a, b;
    int n_active = 1, most = 0;
    open_session(f, prompt_us);
    submit(f->s, 0, N_SHORT, N_SAID, &h[0]);
    OK(lutra_step(f->s, NULL, err));
    submit(f->s, 5000, N_LONG, 5, &h[1]);
    submit(f->s, 9000, N_SHORT, 5, &h[2]);
    *n_long = *n_short = 0;
    for (int i = 1; n_active; i++) {
        lutra_session_stats_get(f->s, &a, sizeof a);
        OK(lutra_step(f->s, &n_active, err));
        lutra_session_stats_get(f->s, &b, sizeof b);
        int n = (int)(b.prompt_tokens - a.prompt_tokens);
        most = n > most && h[0].n < N_SAID ? n : most;
        if (h[1].n && !*n_long) *n_long = i;
        if (h[2].n && !*n_short) *n_short = i;
    }
    return most;
}

static void prompts_do_not_stop_samples(void **state)
{
    (void)state;
    static struct heard free_[3], timed[3], least[3];
    struct fixture f;
    int n_long, n_short;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    f.rt->clock = (struct clock){.now_us = by_rows};
    int all = longest(&f, 0, free_, &n_long, &n_short);
    assert_int_equal(all, 511); /* a pass, but for the sample: 50 of the short prompt, the rest of the long one */
    assert_int_equal(n_short, 1);
    assert_int_equal(longest(&f, 1, least, &n_long, &n_short), 16);
    int some = longest(&f, 100 * ROW_US, timed, &n_long, &n_short);
    print_message("rows of a pass: %d of 511; passes to the first token: %d and %d\n", some, n_long, n_short);
    assert_in_range(some, 50, 110);
    assert_true(n_short * 4 <= n_long); /* the short one does not wait for the long one */
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(timed[i].token, free_[i].token, sizeof free_[i].token);
        assert_memory_equal(least[i].token, free_[i].token, sizeof free_[i].token);
    }
    slow.s = NULL;
    fixture_close(&f);
}

/* Microseconds of the longest pass with more than the least rows of a prompt, while a sample runs and prompts come at
 * other positions. */
static double longest_us(struct fixture *f, uint64_t prompt_us)
{
    static struct heard h[4];
    struct lutra_stats a, b;
    double most = 0;
    open_session(f, prompt_us);
    submit(f->s, 0, N_SHORT, N_SAID, &h[0]);
    OK(lutra_step(f->s, NULL, err));
    submit(f->s, 5000, N_LONG, 5, &h[1]);
    for (int i = 1, n_active = 1; n_active; i++) {
        lutra_session_stats_get(f->s, &a, sizeof a);
        OK(lutra_step(f->s, &n_active, err));
        lutra_session_stats_get(f->s, &b, sizeof b);
        bool counts = b.prompt_tokens - a.prompt_tokens > 16 && h[0].n < N_SAID;
        if (counts && (double)(b.prompt_us - a.prompt_us) > most) most = (double)(b.prompt_us - a.prompt_us);
        if (i == 5) submit(f->s, 9000, 3 * N_SHORT, 5, &h[2]);
        if (h[1].n && !h[3].n) submit(f->s, 5000, N_LONG - 64, 5, &h[3]); /* most of it is in the cache */
    }
    return most;
}

static void late_positions_take_fewer_rows(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    f.rt->clock = (struct clock){.now_us = by_rows};
    for (slow.dear = 0; slow.dear <= 4; slow.dear = slow.dear * 2 + (slow.dear == 0)) {
        double us = longest_us(&f, 100 * ROW_US);
        print_message("%g times: a row at 900 is worth %.2f, the longest pass %.0f ms\n", slow.dear,
            1 + slow.dear * (row_cost_work(&f.s->cost, 900, 1) - 1), us / 1000);
        assert_true(us > 60 * ROW_US && us < (slow.dear > 1 ? 130 : 105) * ROW_US);
    }
    slow.s = NULL, slow.dear = 0;
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_do_not_stop_samples),
        cmocka_unit_test(late_positions_take_fewer_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
