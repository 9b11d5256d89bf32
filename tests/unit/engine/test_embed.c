/* SPDX-License-Identifier: MIT
 *
 * Texts as vectors: what is pooled, and that a text's vector does not depend on the texts beside it.
 */
#include "engine_fixture.h"

enum { N_TEXT = 9, MOST = 200, D = 256 };

static int32_t token[N_TEXT][MOST];
static struct lutra_embed_text text[N_TEXT];

static void make_texts(void)
{
    static const int length[N_TEXT] = {1, 40, 3, 70, 129, 2, 200, 5, 64};
    for (int i = 0; i < N_TEXT; i++) {
        for (int k = 0; k < length[i]; k++) token[i][k] = token_at(k + 13 * i);
        text[i] = (struct lutra_embed_text){token[i], length[i]};
    }
}

static lutra_session *open_session(const struct fixture *f, int n_seq, int n_batch, int n_out)
{
    lutra_session *s;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = n_seq, ss.n_batch = n_batch, ss.n_out = n_out, ss.n_ctx = 256;
    OK(lutra_session_open(&s, f->model, &ss, err));
    return s;
}

/* From the states of all tokens, as one pass leaves them. */
static void pool_by_hand(lutra_session *s, int i, enum lutra_pooling pooling, double want[D])
{
    static struct lutra_row row[MOST];
    int n = text[i].n_token;
    int32_t seq;
    double squares = 0;
    OK(lutra_seq_open(s, n, &seq, err));
    for (int k = 0; k < n; k++) row[k] = (struct lutra_row){token[i][k], k, seq, k - 1, LUTRA_WANT_HIDDEN, 0};
    OK(lutra_forward(s, row, n, sizeof *row, err));
    memset(want, 0, D * sizeof *want);
    for (int k = 0; k < n; k++) {
        if (pooling == LUTRA_POOL_CLS && k > 0) continue;
        if (pooling == LUTRA_POOL_LAST && k < n - 1) continue;
        for (int d = 0; d < D; d++) want[d] += (double)lutra_forward_result(s, k)->hidden[d];
    }
    for (int d = 0; d < D; d++) squares += want[d] * want[d];
    for (int d = 0; d < D; d++) want[d] /= sqrt(squares);
    lutra_seq_close(s, seq);
}

static void vectors_do_not_depend_on_the_batch(void **state)
{
    static const char *const shapes[] = {"tiny-qwen3", "tiny-qwen35"};
    static float together[N_TEXT][D], apart[N_TEXT][D], narrow[N_TEXT][D];
    (void)state;
    make_texts();
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct fixture f;
        fixture_open(&f, shapes[k], "Q8_0", 2);
        lutra_session *wide = open_session(&f, 8, 512, 512), *small = open_session(&f, 2, 24, 16);
        for (enum lutra_pooling p = LUTRA_POOL_MEAN; p <= LUTRA_POOL_LAST; p++) {
            OK(lutra_embed(wide, text, N_TEXT, p, together[0], err));
            OK(lutra_embed(small, text, N_TEXT, p, narrow[0], err));
            for (int i = 0; i < N_TEXT; i++) OK(lutra_embed(wide, &text[i], 1, p, apart[i], err));
            assert_memory_equal(together, apart, sizeof apart);
            assert_memory_equal(together, narrow, sizeof narrow);
            for (int i = 0; i < N_TEXT; i++) {
                double want[D];
                pool_by_hand(wide, i, p, want);
                for (int d = 0; d < D; d++) assert_true(fabs(together[i][d] - want[d]) < 1e-6);
            }
        }
        lutra_session_close(&wide);
        lutra_session_close(&small);
        fixture_close(&f);
    }
}

/* Cosine to the scalar reference, F32. */
static void vectors_are_the_reference(void **state)
{
    static float fast[N_TEXT][D], slow[N_TEXT][D];
    struct fixture f;
    (void)state;
    make_texts();
    for (int ref = 0; ref < 2; ref++) {
        fixture_open_on(&f, &(struct where){ref ? "cpu-ref" : NULL, NULL}, "tiny-qwen3", "F32", 2);
        lutra_session *s = open_session(&f, 4, 256, 256);
        OK(lutra_embed(s, text, N_TEXT, LUTRA_POOL_LAST, ref ? slow[0] : fast[0], err));
        lutra_session_close(&s);
        fixture_close(&f);
    }
    for (int i = 0; i < N_TEXT; i++) {
        double cosine = 0;
        for (int d = 0; d < D; d++) cosine += (double)fast[i][d] * slow[i][d];
        assert_true(cosine > 0.99999);
    }
}

static void what_cannot_be_pooled_is_said(void **state)
{
    static float out[D];
    struct fixture f;
    struct lutra_error why;
    struct lutra_embed_text bad = {token[0], 0}, longer = {token[0], 300};
    (void)state;
    make_texts();
    fixture_open(&f, "tiny-qwen3", "F16", 1);
    lutra_session *s = open_session(&f, 2, 64, 64);
    assert_int_equal(lutra_embed(s, text, 1, LUTRA_POOL_MODEL, out, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "names no pooling"));
    assert_int_equal(lutra_embed(s, text, 1, (enum lutra_pooling)7, out, &why), LUTRA_E_ARGUMENT);
    assert_int_equal(lutra_embed(s, &bad, 1, LUTRA_POOL_LAST, out, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "text 0 has no tokens"));
    assert_int_equal(lutra_embed(s, &longer, 1, LUTRA_POOL_LAST, out, &why), LUTRA_E_CTX_FULL);
    token[1][20] = 1 << 20;
    assert_int_equal(lutra_embed(s, text, N_TEXT, LUTRA_POOL_MEAN, out, &why), LUTRA_E_ARGUMENT);
    OK(lutra_embed(s, text, 1, LUTRA_POOL_MEAN, out, err)); /* nothing of it has stayed open */
    int32_t seq[4];
    for (int i = 0; i < 2; i++) OK(lutra_seq_open(s, 256, &seq[i], err));
    lutra_session_close(&s);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_do_not_depend_on_the_batch),
        cmocka_unit_test(vectors_are_the_reference), cmocka_unit_test(what_cannot_be_pooled_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
