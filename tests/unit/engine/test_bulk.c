/* SPDX-License-Identifier: MIT
 *
 * Prompts in bulk: where a device has a second numerics class for whole blocks of a prompt, a request's bits still
 * depend on its own prompt alone: not on cuts between blocks, the size of a batch, requests beside it, or a cached
 * prefix. Elsewhere the same holds trivially.
 */
#include "engine_fixture.h"
#include "sanitized.h"

enum { BLOCK = 32, N_PROMPT = 150, N_NEW = 12, N_OTHER = 3, N_VOCAB_MAX = 4096 };

static int n_vocab(const struct fixture *f)
{
    struct lutra_model_info info;
    lutra_model_info_get(f->model, &info, sizeof info);
    assert_true(info.n_vocab <= N_VOCAB_MAX);
    return info.n_vocab;
}

/* Rows for tokens [from, to) of seq behind n others; the last of a whole prompt wants logits. */
static int add_rows(struct lutra_row *row, int n, int32_t seq, int from, int to, uint32_t flag)
{
    for (int i = from; i < to; i++, n++)
        row[n] = (struct lutra_row){
            token_at(i), i, seq, i == from ? -1 : n - 1, flag | (i == N_PROMPT - 1 ? LUTRA_WANT_LOGITS : 0), 0};
    return n;
}

/* The logits behind a prompt that is fed in pieces ending at cut[]; `beside` rows of another prompt before each. */
static void logits_of(struct fixture *f, const int *cut, int n_cut, int beside, uint32_t flag, float *out)
{
    struct lutra_row row[2 * N_PROMPT];
    int32_t seq, other;
    OK(lutra_seq_open(f->s, 0, &seq, err));
    for (int i = 0, from = 0; i < n_cut; from = cut[i++]) {
        int n = 0;
        if (beside) {
            OK(lutra_seq_open(f->s, 0, &other, err));
            n = add_rows(row, 0, other, 0, beside, flag);
        }
        n = add_rows(row, n, seq, from, cut[i], flag);
        OK(lutra_forward(f->s, row, n, sizeof *row, err));
        if (beside) lutra_seq_close(f->s, other);
    }
    memcpy(out, lutra_forward_result(f->s, 0)->logits, (size_t)n_vocab(f) * sizeof *out);
    lutra_seq_close(f->s, seq);
}

static void bits_do_not_depend_on_cuts_between_blocks(void **state)
{
    static const char *const types[] = {"F16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4", "Q1_0",
        "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "TQ1_0", "TQ2_0", "IQ2_S", "IQ3_XXS"};
    static float want[N_VOCAB_MAX], got[N_VOCAB_MAX], plain[N_VOCAB_MAX];
    const int whole[] = {N_PROMPT}, cuts[] = {BLOCK, 3 * BLOCK, 4 * BLOCK + 5, N_PROMPT};
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t += SANITIZED ? 9 : 1) {
        struct fixture f;
        fixture_open(&f, "tiny-qwen2", types[t], 2);
        fixture_session(&f, 4, 512);
        int n = n_vocab(&f);
        logits_of(&f, whole, 1, 0, LUTRA_ROW_BULK, want);
        for (int beside = 0; beside <= 110; beside += 55) {
            logits_of(&f, cuts, 4, beside, LUTRA_ROW_BULK, got);
            if (memcmp(got, want, (size_t)n * sizeof *got))
                fail_msg("%s: bits differ beside %d rows", types[t], beside);
        }
        /* Near the class of few rows, which is another one only with AMX and quantized weights. */
        double error = 0, norm = 0;
        logits_of(&f, whole, 1, 0, 0, plain);
        for (int i = 0; i < n; i++) {
            error += (double)(plain[i] - want[i]) * (double)(plain[i] - want[i]);
            norm += (double)plain[i] * (double)plain[i];
        }
        bool amx = strstr(lutra_runtime_device_text(f.rt), "amx") != NULL;
        if (error > 2.5e-3 * norm) fail_msg("%s: bulk is off by %g of %g", types[t], sqrt(error), sqrt(norm));
        if ((error > 0) != (amx && t > 0)) fail_msg("%s: error %g", types[t], error);
        fixture_close(&f);
    }
}

struct said {
    int n;
    int32_t token[N_NEW];
    float log_prob[N_NEW];
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct said *s = user;
    if (p->token < 0 || s->n == N_NEW) return 0;
    s->token[s->n] = p->token;
    s->log_prob[s->n++] = p->log_prob;
    return 0;
}

static int n_cached;

static void on_end(void *user, const struct lutra_end *end)
{
    (void)user;
    n_cached = end->n_cached;
}

/* How long prompts and answers are, and how many requests there are beside one. */
struct size {
    int n_prompt, n_same, n_new, n_other;
};

/* QEMU takes 50 ms for a row and 300 for a pass: fewer of them, of the same kinds; as under a sanitizer. */
static struct size size_on(const struct where *where)
{
    bool slow = where->device && (SANITIZED || !strcmp(where->device, "npu-qemu")) && !getenv("LUTRA_TEST_LONG");
    return slow ? (struct size){2 * BLOCK + 22, BLOCK + 7, 4, 2}
                : (struct size){N_PROMPT, 3 * BLOCK + 7, N_NEW, N_OTHER};
}

/* Runs the request beside n_other others of other prompts and lengths. */
static void say(struct fixture *f, const int32_t *prompt, struct size size, int n_other, struct said *said)
{
    static int32_t noise[N_OTHER][N_PROMPT];
    struct said ignored[N_OTHER] = {0};
    memset(said, 0, sizeof *said);
    for (int k = 0; k < n_other + 1; k++) {
        struct lutra_request r;
        lutra_request_init(&r, sizeof r);
        bool mine = k == n_other; /* last in line */
        for (int i = 0; !mine && i < N_PROMPT; i++) noise[k][i] = token_at(i + 11 * k + 3);
        r.prompt = mine ? prompt : noise[k];
        r.n_prompt = mine ? size.n_prompt : 41 + 37 * k;
        r.max_tokens = size.n_new;
        r.ignore_end = true;
        struct lutra_sampling sampling;
        lutra_sampling_init(&sampling, sizeof sampling);
        sampling.seed = 5;
        r.sampling = &sampling;
        r.on_text = on_text;
        r.user = mine ? said : &ignored[k];
        if (mine) r.on_end = on_end;
        OK(lutra_submit(f->s, &r, NULL, err));
    }
    for (int active = 1; active;) OK(lutra_step(f->s, &active, err));
    assert_int_equal(said->n, size.n_new);
}

/* A prompt that begins like another one, up to the middle of a block. */
static void check_prefix(const struct where *where)
{
    struct fixture f;
    struct said want, got;
    int32_t prompt[N_PROMPT], like[N_PROMPT];
    const struct size size = size_on(where);
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_at(i), like[i] = token_at(i < size.n_same ? i : i + 1);
    fixture_open_on(&f, where, "tiny-qwen2", "Q4_0", where->device ? 1 : 2);
    fixture_session(&f, 4, 512);
    say(&f, prompt, size, 0, &want);
    fixture_session(&f, 4, 512);
    say(&f, like, size, 0, &got);
    say(&f, prompt, size, 0, &got);
    if (memcmp(&got, &want, sizeof got)) fail_msg("a cached prefix of %d tokens changed the bits", n_cached);
    fixture_close(&f);
}

static void a_cached_prefix_changes_nothing(void **state)
{
    (void)state;
    fixture_everywhere(check_prefix);
    fixture_by_class(check_prefix);
}

/* The next turn of a chat: what was said is evaluated again where the prompt's rows are in bulk. */
static void an_answer_is_no_bulk(void **state)
{
    (void)state;
    struct fixture f;
    struct said first, want, got;
    int32_t prompt[N_PROMPT];
    const struct where where = {"npu-sim:lookup", NULL};
    const struct size asked = {2 * BLOCK - 3, 0, N_NEW, 0}, turn = {2 * BLOCK + N_NEW + 5, 0, N_NEW, 0};
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_at(i);
    fixture_open_on(&f, &where, "tiny-qwen2", "Q4_0", 1);
    fixture_session(&f, 1, 512);
    say(&f, prompt, asked, 0, &first);
    memcpy(prompt + asked.n_prompt, first.token, sizeof first.token);
    say(&f, prompt, turn, 0, &got);
    assert_int_equal(n_cached, BLOCK);
    fixture_session(&f, 1, 512);
    say(&f, prompt, turn, 0, &want);
    assert_memory_equal(&got, &want, sizeof got);
    fixture_close(&f);
}

/* At every n-th size of a batch. */
static void check_load(const struct where *where, int n_th)
{
    struct fixture f;
    struct said want, got;
    int32_t prompt[N_PROMPT];
    const struct size size = size_on(where);
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_at(i);
    fixture_open_on(&f, where, "tiny-qwen2", "Q4_0", where->device ? 1 : 2);
    fixture_session(&f, 4, 512);
    say(&f, prompt, size, 0, &want);
    for (int n_batch = 2 * BLOCK; n_batch <= 512; n_batch += (SANITIZED ? 3 : 1) * n_th * 73)
        for (int n_other = 0; n_other <= size.n_other; n_other += size.n_other) {
            struct lutra_session_settings ss;
            lutra_session_settings_init(&ss, sizeof ss);
            ss.n_seq = 4;
            ss.n_ctx = 512;
            ss.n_batch = n_batch;
            lutra_session_close(&f.s);
            OK(lutra_session_open(&f.s, f.model, &ss, err));
            say(&f, prompt, size, n_other, &got);
            if (memcmp(&got, &want, sizeof got)) fail_msg("bits differ: batch %d, %d others", n_batch, n_other);
        }
    fixture_close(&f);
}

static void check_few_loads(const struct where *where)
{
    check_load(where, 8);
}

static void requests_do_not_depend_on_the_load(void **state)
{
    (void)state;
    check_load(&(struct where){0}, 1);
    fixture_everywhere(check_few_loads);
    fixture_by_class(check_few_loads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_cuts_between_blocks),
        cmocka_unit_test(a_cached_prefix_changes_nothing),
        cmocka_unit_test(an_answer_is_no_bulk),
        cmocka_unit_test(requests_do_not_depend_on_the_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
