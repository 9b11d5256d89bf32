/* SPDX-License-Identifier: MIT
 *
 * Several samples over a long shared prompt, in the cache geometry of a 1.5B model (2 KV heads of 128): the prompt is
 * evaluated once, by generator and verifier, and the cache grows by the new tokens and at most one block per sequence.
 * One layer of random weights; all 28 with LUTRA_TEST_LONG=1; a tiny model under a sanitizer.
 */
#include "unit/engine/engine_fixture.h"
#include "sanitized.h"

#include "engine/session_impl.h" /* blocks in use */
#include "search/search_impl.h"

enum { N_SAMPLE = 8, N_PROMPT = SANITIZED ? 512 : 4096, N_NEW = SANITIZED ? 40 : 80, N_CTX = N_PROMPT + 128 };

static int32_t prompt[N_PROMPT];
static int n_said[N_SAMPLE];

static int on_text(void *user, const struct lutra_piece *p)
{
    (void)user;
    n_said[p->sample] += p->token >= 0;
    return 0;
}

static void open_model(struct fixture *f)
{
    struct lutra_make_model_settings ms;
    lutra_make_model_settings_init(&ms, sizeof ms);
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    const char *all = getenv("LUTRA_TEST_LONG");
    memset(f, 0, sizeof *f);
    snprintf(f->path, sizeof f->path, "/tmp/lutra-test-XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    rs.n_threads = 2;
    ms.shape = SANITIZED ? "tiny-qwen2" : "qwen2.5-1.5b";
    ms.seed = 3;
    ms.n_layer = all && *all ? 0 : 1;
    OK(lutra_runtime_open(&f->rt, &rs, err));
    OK(lutra_make_model(f->rt, f->path, &ms, err));
    OK(lutra_model_open(&f->model, f->rt, f->path, NULL, err));
}

/* Blocks that a session's cache holds. */
static int64_t blocks_in_use(const lutra_session *s)
{
    struct kv_usage u;
    kv_usage(s->kv, &u);
    return u.n_block - u.n_free;
}

static struct lutra_sampling sampling;

static struct lutra_request make_request(int n_prompt)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    for (int i = 0; i < n_prompt; i++) prompt[i] = token_at(i);
    memset(n_said, 0, sizeof n_said);
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.n_samples = N_SAMPLE;
    r.max_tokens = N_NEW;
    r.ignore_end = true;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = 5;
    r.sampling = &sampling;
    r.on_text = on_text;
    return r;
}

/* The prompt's blocks, those that each sequence's new tokens need, and one more for each.  A prompt that ends with a
 * block leaves nothing to copy: then new tokens and one block per sequence bound the growth to the token. */
static void check_growth(const lutra_session *s, int n_prompt)
{
    int64_t said = 0, blocks = (n_prompt + KV_BLOCK - 1) / KV_BLOCK;
    for (int i = 0; i < N_SAMPLE; i++) {
        said += n_said[i];
        blocks += n_said[i] ? (n_said[i] + KV_BLOCK - 1) / KV_BLOCK + 1 : 0;
    }
    bool over = n_prompt % KV_BLOCK == 0 ? blocks_in_use(s) * KV_BLOCK > n_prompt + said + (int64_t)KV_BLOCK * N_SAMPLE
                                         : blocks_in_use(s) > blocks;
    if (over) fail_msg("%d blocks hold %d + %d tokens", (int)blocks_in_use(s), n_prompt, (int)said);
}

static void samples_share_the_prompt(void **state)
{
    struct fixture f;
    (void)state;
    open_model(&f);
    for (int odd = 0; odd < 2; odd++) {
        int n_prompt = odd ? N_PROMPT - 27 : N_PROMPT, active = 1;
        struct lutra_request r = make_request(n_prompt);
        struct lutra_stats stats;
        fixture_session(&f, N_SAMPLE, N_CTX);
        OK(lutra_submit(f.s, &r, NULL, err));
        while (active) {
            OK(lutra_step(f.s, &active, err));
            check_growth(f.s, n_prompt);
        }
        lutra_session_stats_get(f.s, &stats, sizeof stats);
        /* a sample's last token is not evaluated */
        assert_int_equal(stats.rows_valid, n_prompt + N_SAMPLE * (N_NEW - 1));
        assert_int_equal(stats.rows_wasted, 0);
        assert_int_equal(stats.generated_tokens, N_SAMPLE * N_NEW);
    }
    fixture_close(&f);
}

static void search_shares_the_prompt(void **state)
{
    struct fixture f;
    lutra_verifier *v;
    lutra_search_run *run;
    int active = 1;
    (void)state;
    open_model(&f);
    fixture_session(&f, N_SAMPLE, N_CTX);
    struct lutra_verifier_settings vs;
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.positive = "!"; /* any tokens will do */
    vs.negative = "\"";
    vs.n_seq = N_SAMPLE;
    vs.n_ctx = N_CTX;
    vs.model = f.model;
    OK(lutra_verifier_open(&v, NULL, &vs, err));
    struct lutra_request r = make_request(N_PROMPT);
    struct lutra_search set;
    lutra_search_init(&set, sizeof set);
    struct lutra_stats stats;
    set.method = LUTRA_SEARCH_BEST;
    set.width = N_SAMPLE;
    set.verifier = v;
    OK(lutra_search_submit(&run, f.s, &r, &set, err));
    while (active) {
        OK(lutra_step(f.s, &active, err));
        check_growth(f.s, N_PROMPT);
        if (active) check_growth(v->session, N_PROMPT);
    }
    const struct lutra_search_result *res = lutra_search_done(run);
    lutra_session_stats_get(f.s, &stats, sizeof stats);
    assert_int_equal(stats.rows_valid, N_PROMPT + N_SAMPLE * (N_NEW - 1));
    assert_int_equal(res->verifier_rows, N_PROMPT + N_SAMPLE * N_NEW);
    assert_int_equal(blocks_in_use(v->session), 0); /* all given back */
    lutra_search_close(&run);
    lutra_verifier_close(&v);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_share_the_prompt),
        cmocka_unit_test(search_shares_the_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
