/* SPDX-License-Identifier: MIT
 *
 * Prompts beside running samples: how many rows of a pass they get, and who of them; the text stays the same.
 */
#include "engine_fixture.h"
#include "engine/session_impl.h"

enum { N_LONG = 900, N_SHORT = 50, N_SAID = 60, ROW_US = 1000 };

/* Time passes with the rows of a pass, ROW_US for each: what is measured is the same everywhere. */
static struct {
    lutra_session *s;
    uint64_t now;
} slow;

static uint64_t by_rows(void *state)
{
    (void)state;
    if (slow.s) slow.now += (uint64_t)slow.s->batch.n_row * ROW_US / 2;
    return slow.now;
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
        lutra_session_stats(f->s, &a, sizeof a);
        OK(lutra_step(f->s, &n_active, err));
        lutra_session_stats(f->s, &b, sizeof b);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(prompts_do_not_stop_samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
