/* SPDX-License-Identifier: MIT
 *
 * Encoders and rankers through whole models: a text's bits do not depend on the texts beside it, their order, the size
 * of a pass or the threads; what they cannot do is refused.
 */
#include "engine_fixture.h"

enum { N_TEXT = 11, MOST = 256, D = 256 };

static int32_t token[N_TEXT][MOST];
static const int length[N_TEXT] = {1, 40, 3, 70, 129, 2, 200, 64, 65, 5, 256};

static void make_texts(void)
{
    for (int i = 0; i < N_TEXT; i++)
        for (int k = 0; k < length[i]; k++) token[i][k] = token_at(k + 13 * i);
}

static lutra_session *open_session(const struct fixture *f, int n_seq, int n_batch)
{
    lutra_session *s;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = n_seq, ss.n_batch = n_batch, ss.n_ctx = MOST;
    OK(lutra_session_open(&s, f->model, &ss, err));
    return s;
}

/* The text's states, alone in a pass. */
static void alone(lutra_session *s, int i, float out[][D])
{
    static struct lutra_row row[MOST];
    int32_t seq;
    OK(lutra_seq_open(s, length[i], &seq, err));
    for (int k = 0; k < length[i]; k++) row[k] = (struct lutra_row){token[i][k], k, seq, k - 1, LUTRA_WANT_HIDDEN, 0};
    OK(lutra_forward(s, row, length[i], sizeof *row, err));
    for (int k = 0; k < length[i]; k++) memcpy(out[k], lutra_forward_result(s, k)->hidden, sizeof out[k]);
    lutra_seq_close(s, seq);
}

/* Texts a and b in one pass, their rows taking turns. */
static void mixed(lutra_session *s, int a, int b, float out[2][MOST][D])
{
    static struct lutra_row row[2 * MOST];
    int32_t seq[2], last[2] = {-1, -1};
    int n = 0, n_done[2] = {0, 0}, which[2 * MOST];
    OK(lutra_seq_open(s, length[a], &seq[0], err));
    OK(lutra_seq_open(s, length[b], &seq[1], err));
    for (int i = 0; n < length[a] + length[b]; i = !i) {
        int text = i ? b : a, k = n_done[i];
        if (k == length[text]) continue;
        row[n] = (struct lutra_row){token[text][k], k, seq[i], last[i], LUTRA_WANT_HIDDEN, 0};
        n_done[i]++;
        which[n] = i;
        last[i] = n++;
    }
    OK(lutra_forward(s, row, n, sizeof *row, err));
    n_done[0] = n_done[1] = 0;
    for (int r = 0; r < n; r++)
        memcpy(out[which[r]][n_done[which[r]]++], lutra_forward_result(s, r)->hidden, sizeof out[0][0]);
    lutra_seq_close(s, seq[0]);
    lutra_seq_close(s, seq[1]);
}

static void check_rows(const struct where *where, const char *shape, const char *type, int n_text)
{
    static float one[N_TEXT][MOST][D], again[MOST][D], two[2][MOST][D];
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        struct fixture f;
        fixture_open_on(&f, where, shape, type, n_threads);
        lutra_session *s = open_session(&f, 4, 512);
        for (int i = 0; i < n_text; i++) {
            alone(s, i, n_threads == 1 ? one[i] : again);
            if (n_threads == 2) assert_memory_equal(one[i], again, (size_t)length[i] * sizeof again[0]);
        }
        for (int i = 0; i + 1 < n_text; i++) {
            mixed(s, i, i + 1, two);
            assert_memory_equal(two[0], one[i], (size_t)length[i] * sizeof two[0][0]);
            assert_memory_equal(two[1], one[i + 1], (size_t)length[i + 1] * sizeof two[0][0]);
        }
        lutra_session_close(&s);
        fixture_close(&f);
    }
}

static const char *const shapes[] = {"tiny-bert", "tiny-nomic-bert", "tiny-gemma-embedding"};

static void check_place(const struct where *where)
{
    bool is_cpu = strcmp(where->device, "cpu") == 0, is_ref = strcmp(where->device, "cpu-ref") == 0;
    if (strcmp(where->device, "npu-qemu") == 0) return; /* attention is the CPU's: as npu-sim, and slow */
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        check_rows(where, shapes[k], "Q8_0", SANITIZED ? 2 : is_cpu ? 5 : is_ref ? 4 : 3);
}

static void rows_depend_on_their_text_alone(void **state)
{
    static const char *const types[] = {"F32", "F16", "Q4_K", "Q4_0"};
    (void)state;
    make_texts();
    fixture_everywhere(check_place);
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (size_t i = SANITIZED ? k : 0; i < (SANITIZED ? k + 1 : sizeof types / sizeof *types); i++)
            check_rows(&(struct where){0}, shapes[k], types[i], SANITIZED ? 4 : i == k ? N_TEXT : 6);
}

/* Together, apart, and in passes that hold few texts. */
static void vectors_do_not_depend_on_the_batch(void **state)
{
    static float together[N_TEXT][D], apart[N_TEXT][D], narrow[N_TEXT][D];
    struct lutra_embed_text text[N_TEXT];
    (void)state;
    make_texts();
    for (int i = 0; i < N_TEXT; i++) text[i] = (struct lutra_embed_text){token[i], length[i]};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct fixture f;
        fixture_open(&f, shapes[k], "Q8_0", 2);
        lutra_session *wide = open_session(&f, 16, 1024), *small = open_session(&f, 2, 1);
        for (enum lutra_pooling p = LUTRA_POOL_MODEL; p <= LUTRA_POOL_LAST; p++) {
            int n = SANITIZED ? 4 : p == LUTRA_POOL_MODEL ? N_TEXT : 5; /* how is chosen behind the passes */
            OK(lutra_embed(wide, text, n, p, together[0], err));
            OK(lutra_embed(small, text, n, p, narrow[0], err));
            for (int i = 0; i < n; i++) OK(lutra_embed(wide, &text[i], 1, p, apart[i], err));
            assert_memory_equal(together, apart, (size_t)n * sizeof *apart);
            assert_memory_equal(together, narrow, (size_t)n * sizeof *narrow);
            for (int i = 0; i < n; i++) {
                double squares = 0;
                for (int d = 0; d < D; d++) squares += (double)together[i][d] * together[i][d];
                assert_true(fabs(squares - 1) < 1e-5);
            }
        }
        lutra_session_close(&wide);
        lutra_session_close(&small);
        fixture_close(&f);
    }
}

static void scores_do_not_depend_on_the_batch(void **state)
{
    static const char *const rankers[] = {"tiny-bert-rank", "tiny-qwen3-rank"};
    struct lutra_rerank_pair pair[N_TEXT];
    const size_t each = sizeof *pair;
    (void)state;
    make_texts();
    for (int k = 0; k < 2; k++) {
        struct fixture f;
        float together[N_TEXT], narrow[N_TEXT], apart, other;
        fixture_open(&f, rankers[k], "Q8_0", 2);
        lutra_session *wide = open_session(&f, 16, 1024), *small = open_session(&f, 2, 24);
        for (int i = 0; i < N_TEXT; i++) pair[i] = (struct lutra_rerank_pair){token[i], length[i], length[i] / 2};
        OK(lutra_rerank(wide, pair, N_TEXT, each, together, err));
        OK(lutra_rerank(small, pair, N_TEXT, each, narrow, err));
        assert_memory_equal(together, narrow, sizeof narrow);
        for (int i = 0; i < N_TEXT; i++) {
            OK(lutra_rerank(wide, &pair[i], 1, each, &apart, err));
            assert_memory_equal(&apart, &together[i], sizeof apart);
            pair[i].n_first = length[i];
            OK(lutra_rerank(wide, &pair[i], 1, each, &other, err));
            assert_int_equal(other != apart, k == 0); /* BERT's second text is another one */
        }
        lutra_session_close(&wide);
        lutra_session_close(&small);
        fixture_close(&f);
    }
}

static void refused(int rc, int code, const struct lutra_error *why, const char *word)
{
    assert_int_equal(rc, code);
    if (!strstr(why->what, word)) fail_msg("no '%s' in: %s", word, why->what);
}

static void what_encoders_cannot_do_is_refused(void **state)
{
    static float out[D];
    struct fixture f;
    struct lutra_error why;
    struct lutra_request r;
    struct lutra_session_settings ss;
    struct lutra_embed_text longer = {token[10], MOST};
    int32_t seq, id;
    lutra_session *s, *other;
    (void)state;
    make_texts();
    fixture_open(&f, "tiny-bert", "Q8_0", 1);
    s = open_session(&f, 2, 64);
    lutra_request_init(&r, sizeof r);
    r.prompt = token[1], r.n_prompt = 4;
    refused(lutra_submit(s, &r, &id, &why), LUTRA_E_UNSUPPORTED, &why, "is an encoder");
    OK(lutra_seq_open(s, 0, &seq, err));
    struct lutra_row row[2] = {{5, 0, seq, -1, LUTRA_WANT_LOGITS, 0}, {6, 1, seq, 0, LUTRA_ROW_DRAFT, 0}};
    refused(lutra_forward(s, row, 1, sizeof *row, &why), LUTRA_E_UNSUPPORTED, &why, "no logits");
    row[0].want = LUTRA_WANT_HIDDEN;
    refused(lutra_forward(s, row, 2, sizeof *row, &why), LUTRA_E_ARGUMENT, &why, "a draft");
    OK(lutra_forward(s, row, 1, sizeof *row, err));
    row[1].parent = -1, row[1].want = 0;
    refused(lutra_forward(s, &row[1], 1, sizeof *row, &why), LUTRA_E_ARGUMENT, &why, "whole, in one pass");
    refused(lutra_rerank(s, NULL, 0, sizeof(struct lutra_rerank_pair), out, &why), LUTRA_E_UNSUPPORTED, &why, "ranks");
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 513;
    refused(lutra_session_open(&other, f.model, &ss, &why), LUTRA_E_ARGUMENT, &why, "positions for 512");
    ss.n_ctx = 100;
    ss.spec_type = "auto,calibrated"; /* nothing to speculate about */
    OK(lutra_session_open(&other, f.model, &ss, err));
    refused(lutra_embed(other, &longer, 1, LUTRA_POOL_MEAN, out, &why), LUTRA_E_CTX_FULL, &why, "256 tokens");
    lutra_session_close(&other);
    lutra_session_close(&s);
    fixture_close(&f);
}

static void pairs_become_tokens(void **state)
{
    struct fixture f;
    struct lutra_error why;
    struct lutra_model_info info;
    int32_t id[256], part[64];
    int n, n_first, n_part;
    (void)state;
    fixture_open(&f, "tiny-bert-rank", "F16", 1);
    lutra_model_info_get(f.model, &info, sizeof info);
    assert_true(info.encoder && info.ranks);
    OK(lutra_rerank_tokenize(f.model, "The query?", "one [SEP] doc", id, 256, &n, &n_first, err));
    OK(lutra_tokenize(f.model, "The query?", 10, LUTRA_ADD_SPECIAL, part, 64, &n_part, err));
    assert_int_equal(n_first, n_part); /* [CLS] query [SEP] */
    assert_memory_equal(id, part, (size_t)n_part * sizeof *id);
    assert_int_equal(id[0], 2);
    assert_int_equal(id[n_first - 1], 3);
    assert_int_equal(id[n - 1], 3);
    for (int i = n_first; i < n - 1; i++) assert_int_not_equal(id[i], 3); /* a stranger's text has no [SEP] */
    OK(lutra_tokenize(f.model, "one [SEP] doc", 13, 0, part, 64, &n_part, err));
    assert_int_equal(n - n_first, n_part + 1);
    fixture_close(&f);
    fixture_open(&f, "tiny-qwen3-rank", "F16", 1);
    OK(lutra_rerank_tokenize(f.model, "{document}<|im_end|>", "b", id, 256, &n, &n_first, err));
    char *text;
    OK(lutra_detokenize(f.model, id, n, true, &text, NULL, err));
    assert_non_null(strstr(text, "<Query>: {document}<|im_end|>\n<Document>: b<|im_end|>\n"));
    int n_end = 0;
    for (int i = 0; i < n; i++) n_end += id[i] == info.n_vocab - 2; /* <|im_end|> */
    assert_int_equal(n_end, 2);
    assert_int_equal(n_first, n);
    lutra_free(text);
    fixture_close(&f);
    fixture_open(&f, "tiny-bert", "F16", 1);
    refused(lutra_rerank_tokenize(f.model, "a", "b", id, 256, &n, &n_first, &why), LUTRA_E_UNSUPPORTED, &why, "ranks");
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_become_tokens),
        cmocka_unit_test(what_encoders_cannot_do_is_refused), cmocka_unit_test(vectors_do_not_depend_on_the_batch),
        cmocka_unit_test(scores_do_not_depend_on_the_batch), cmocka_unit_test(rows_depend_on_their_text_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
