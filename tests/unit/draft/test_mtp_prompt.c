/* SPDX-License-Identifier: MIT
 *
 * What an MTP block reads of prompts: every row once, with the states that the model leaves, whatever is found in the
 * caches.
 */
#include "unit/engine/engine_fixture.h"

#include "engine/session_impl.h"
#include "unit/engine/mtp_block.h"

enum { N_CTX = 512, N_PROMPT = 300 };

static void open_with_block_on(struct fixture *f, const char *device, const char *shape)
{
    fixture_make(f, &(struct where){device, NULL}, shape, device && strstr(device, "npu") ? "Q8_0" : "F32", 0, 2);
    add_mtp_block(f->path, &(struct mtp_form){0});
    OK(lutra_model_open(&f->model, f->rt, f->path, NULL, err));
}

static void open_with_block(struct fixture *f, const char *shape)
{
    open_with_block_on(f, NULL, shape);
}

static void open_session(struct fixture *f, int n_seq, int n_batch, int n_cache)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = N_CTX;
    ss.n_seq = n_seq;
    ss.n_batch = n_batch;
    ss.n_cache = n_cache;
    ss.spec_type = "mtp";
    ss.draft_p_min = 0;
    ss.experiment = fixture_row_cost(0.001f);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

/* A prompt that is the same up to token `same`. */
static void make_prompt(int32_t *token, int n, int same)
{
    for (int i = 0; i < n; i++) token[i] = 1 + (i < same ? 7 * i : 11 * i + 3) % 200;
}

static void submit(struct fixture *f, const int32_t *prompt, int n_prompt, int n_samples, int n_new, uint64_t domain)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.n_samples = n_samples;
    r.max_tokens = n_new;
    r.ignore_end = true;
    r.cache_domain = domain;
    OK(lutra_submit(f->s, &r, NULL, err));
}

static void run(struct fixture *f)
{
    for (int active = 1; active;) OK(lutra_step(f->s, &active, err));
}

static uint64_t block_rows(const struct fixture *f)
{
    return f->s->drafter[DRAFTER_MTP].own->stats.rows_valid;
}

/* The rows that the block evaluates for one token behind a prompt. */
static void reads(struct fixture *f, const int32_t *prompt, int n_prompt, int n_samples, uint64_t domain, int want)
{
    uint64_t before = block_rows(f);
    submit(f, prompt, n_prompt, n_samples, 1, domain);
    run(f);
    assert_int_equal(block_rows(f) - before, want);
}

/* A prompt of n tokens has n - 1 rows whose next token is known; what is found is not read again, but for the row of
 * the last token found, which needs the token behind it. */
static void every_row_is_read_once(void **state)
{
    static const char *const shapes[] = {"tiny-qwen2", "tiny-qwen35"};
    static const int batches[] = {32, 512};
    static int32_t prompt[N_PROMPT], forked[N_PROMPT];
    (void)state;
    make_prompt(prompt, N_PROMPT, N_PROMPT);
    make_prompt(forked, N_PROMPT, 150);
    for (size_t i = 0; i < 4; i++) {
        struct fixture f;
        open_with_block(&f, shapes[i / 2]);
        open_session(&f, 2, batches[i % 2], 0);
        int bulk = f.s->batch.bulk ? f.s->batch.bulk : 1, common = 149 / bulk * bulk;
        reads(&f, prompt, N_PROMPT, 1, 0, N_PROMPT - 1);
        reads(&f, prompt, N_PROMPT, 2, 0, 0);
        reads(&f, prompt, N_PROMPT, 1, 9, N_PROMPT - 1); /* nothing is found across domains */
        reads(&f, prompt, 1, 1, 0, 0);
        reads(&f, forked, N_PROMPT, 1, 0, N_PROMPT - 1 - common);
        reads(&f, forked, N_PROMPT, 1, 0, 0);
        fixture_close(&f);
    }
}

/* Two prompts in the same passes, and one that is the first one's beginning: the block reads no more of it again than
 * the model evaluates again. */
static void prompts_share_passes(void **state)
{
    static int32_t prompt[2][N_PROMPT];
    struct fixture f;
    (void)state;
    make_prompt(prompt[0], N_PROMPT, N_PROMPT);
    make_prompt(prompt[1], N_PROMPT, 0);
    open_with_block(&f, "tiny-qwen2");
    open_session(&f, 4, 64, 0);
    submit(&f, prompt[0], N_PROMPT, 1, 1, 0);
    submit(&f, prompt[1], N_PROMPT - 60, 1, 1, 0);
    submit(&f, prompt[0], N_PROMPT - 100, 1, 1, 0);
    run(&f);
    assert_in_range(f.s->stats.prompt_tokens, 2 * N_PROMPT - 60 + 1, 2 * N_PROMPT - 60 + KV_BLOCK);
    assert_in_range(block_rows(&f), 2 * N_PROMPT - 60 - 2, f.s->stats.prompt_tokens - 3);
    fixture_close(&f);
}

/* The state of each row of a prompt, whether the row has a result or not, is what WANT_HIDDEN gives for it. */
static void states_are_those_of_results(void **state)
{
    enum { N = 90, HALF = N / 2 };
    static const struct {
        const char *shape, *device;
    } runs[] = {{"tiny-qwen2", NULL}, {"tiny-qwen35", NULL}, {"tiny-qwen2", "cpu-ref"}, {"tiny-qwen2", "cpu:0,cpu:1"},
        {"tiny-qwen2", "npu-sim"}};
    static int32_t prompt[N];
    (void)state;
    make_prompt(prompt, N, N);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fixture f;
        int cpu[2] = {0};
        if (runs[i].device && strchr(runs[i].device, ',') && (cpu_allowed(cpu, 2) < 2 || cpu[0] || cpu[1] != 1))
            continue;
        struct lutra_row row[N];
        static float want[N][1024];
        int32_t seq;
        open_with_block_on(&f, runs[i].device, runs[i].shape);
        open_session(&f, 1, N, 0);
        size_t d = (size_t)model_ops(f.model->model)->d_model;
        OK(lutra_seq_open(f.s, N, &seq, err));
        for (int k = 0; k < N; k++) row[k] = (struct lutra_row){prompt[k], k, seq, k % HALF - 1, WANT_HIDDEN, 0};
        for (int k = 0; k < N; k++) { /* no pass has results of more than 64 rows */
            if (k % HALF == 0) OK(lutra_forward(f.s, row + k, HALF, sizeof *row, err));
            memcpy(want[k], lutra_forward_result(f.s, k % HALF)->hidden, d * sizeof(float));
        }
        lutra_seq_close(f.s, seq);
        submit(&f, prompt, N, 1, 2, 0);
        int active;
        OK(lutra_step(f.s, &active, err)); /* the whole prompt; its states are there until the next pass is filled */
        double sum = 0, error = 0;
        for (int k = 0; k < N; k++) {
            const float *got = session_state(f.s, k);
            assert_non_null(got);
            for (size_t x = 0; x < d; x++) {
                double apart = (double)got[x] - (double)want[k][x];
                sum += (double)want[k][x] * (double)want[k][x];
                error += apart * apart;
            }
        }
        print_message("%s, %s: states are %.2g of their size apart\n", runs[i].shape,
            runs[i].device ? runs[i].device : "cpu", sqrt(error / sum));
        assert_true(sqrt(error / sum) < (f.s->batch.bulk ? 0.02 : 1e-5));
        run(&f);
        fixture_close(&f);
    }
}

enum { N_NEW = 120, N_SHORT = 180 };

struct said {
    int32_t token[8][N_NEW];
    float log_prob[8][N_NEW];
    int n[8], n_accepted;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct said *s = user;
    if (p->token < 0) return 0;
    int i = p->request * 2 + p->sample;
    assert_in_range(i, 0, 7);
    assert_in_range(s->n[i], 0, N_NEW - 1);
    s->token[i][s->n[i]] = p->token;
    s->log_prob[i][s->n[i]++] = p->log_prob;
    return 0;
}

static void on_end(void *user, const struct lutra_end *e)
{
    ((struct said *)user)->n_accepted += e->n_accepted;
}

/* Prompts that share their beginnings, a cache in which somebody always loses its room. */
static void generate(struct fixture *f, const char *spec, int n_cache, struct said *out)
{
    static int32_t prompt[N_SHORT];
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = N_SHORT + N_NEW;
    ss.n_seq = 4;
    ss.n_batch = 96;
    ss.n_cache = n_cache;
    ss.spec_type = spec;
    ss.draft_p_min = 0;
    ss.experiment = fixture_row_cost(0.001f);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 4; i++) {
        struct lutra_request r;
        struct lutra_sampling sampling;
        lutra_request_init(&r, sizeof r);
        lutra_sampling_init(&sampling, sizeof sampling);
        sampling.temperature = i % 2 ? 0.3f : 0;
        make_prompt(prompt, N_SHORT, 50 * i);
        r.prompt = prompt;
        r.n_prompt = N_SHORT - 40 * (i / 2);
        r.n_samples = 2;
        r.max_tokens = N_NEW;
        r.ignore_end = true;
        r.sampling = &sampling;
        r.on_text = on_text;
        r.on_end = on_end;
        r.user = out;
        OK(lutra_submit(f->s, &r, NULL, err));
    }
    run(f);
}

static void texts_stay_as_they_are(void **state)
{
    static const char *const shapes[] = {"tiny-qwen2", "tiny-qwen35"};
    static struct said plain, drafted;
    (void)state;
    for (size_t i = 0; i < 4; i += SANITIZED ? 3 : 1) {
        struct fixture f;
        int n_cache = i % 2 ? N_SHORT + N_NEW : 0;
        fixture_make(&f, &(struct where){0}, shapes[i / 2], "F16", 0, 2);
        add_mtp_block(f.path, &(struct mtp_form){.repeats = true});
        OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
        generate(&f, NULL, n_cache, &plain);
        uint64_t lost = f.s->stats.n_preempted;
        lutra_session_close(&f.s);
        generate(&f, "mtp", n_cache, &drafted);
        print_message("%s: %d accepted, %d lost their room\n", shapes[i / 2], drafted.n_accepted, (int)lost);
        assert_true(!n_cache || (lost > 0 && f.s->stats.n_preempted > 0));
        assert_memory_equal(plain.n, drafted.n, sizeof plain.n);
        assert_memory_equal(plain.token, drafted.token, sizeof plain.token);
        assert_memory_equal(plain.log_prob, drafted.log_prob, sizeof plain.log_prob);
        assert_true(drafted.n_accepted > 0);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_read_once),
        cmocka_unit_test(prompts_share_passes),
        cmocka_unit_test(states_are_those_of_results),
        cmocka_unit_test(texts_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
