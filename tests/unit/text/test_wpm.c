/* SPDX-License-Identifier: MIT
 *
 * WordPiece: what is cleaned, where words end, which tokens they are.  The ids are those of Hugging Face's
 * BertTokenizer over the same vocabulary; tests/hf/wordpiece.mjs compares many more texts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "text/encode.h"

#define W "\xE2\x96\x81"

static const char *const spelt[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", W "un", W "##x", "aff", "able", W "a",
    "a", "b", W ".", W "[", W "]", W "sep", W "e", W "\xE4\xB8\xAD", W "\xE1\x84\x80", "\xE1\x85\xA1", W "$",
    W "\xC3\xA9", W "i", W "\xCF\x83", "\xCF\x83", W "!", W "unaff"};
enum { N = sizeof spelt / sizeof *spelt };

static struct text_vocab *open_vocab(int lowercase, int strip)
{
    struct text_bytes token[N];
    int32_t type[N];
    struct text_vocab *v;
    struct lutra_error err = {0};
    for (int i = 0; i < N; i++) {
        token[i] = (struct text_bytes){spelt[i], strlen(spelt[i])};
        type[i] = i < 5 ? TEXT_TOKEN_CONTROL : TEXT_TOKEN_NORMAL;
    }
    struct text_vocab_source src = text_vocab_source_default();
    src.model = "bert";
    src.n_tok = N, src.tokens = token, src.types = type;
    src.pad = 0, src.unk = 1, src.bos = 2, src.sep = 3;
    src.lowercase = lowercase, src.strip_accents = strip;
    if (text_vocab_open(&v, &src, &err) < 0) fail_msg("%s", err.what);
    return v;
}

static void check(const struct text_vocab *v, const char *text, size_t n, unsigned flags, const char *want)
{
    struct text_tokens ids = {0};
    char got[512] = "";
    size_t at = 0;
    assert_int_equal(text_encode(v, text, n, flags, &ids, NULL), 0);
    for (size_t i = 0; i < ids.n; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, i ? " %d" : "%d", (int)ids.ids[i]);
    text_tokens_fini(&ids);
    if (strcmp(got, want) != 0) fail_msg("'%s' is %s, not %s", text, got, want);
}

#define CHECK(v, text, flags, want) check(v, text, sizeof text - 1, flags, want)

static void words_are_their_longest_tokens(void **state)
{
    (void)state;
    struct text_vocab *v = open_vocab(-1, -1);
    CHECK(v, "unaffable", 0, "26 8"); /* longest first */
    CHECK(v, "unable un aab", 0, "5 8 5 9 10 11");
    CHECK(v, "unx", 0, "1"); /* all of a word is unknown */
    CHECK(v, "un unx a", 0, "5 1 9");
    CHECK(v, "a", TEXT_ADD_SPECIAL, "2 9 3");
    CHECK(v, "", TEXT_ADD_SPECIAL, "2 3");
    CHECK(v, "", 0, "");
    char word[104];
    memset(word, 'a', sizeof word);
    struct text_tokens ids = {0};
    assert_int_equal(text_encode(v, word, 100, 0, &ids, NULL), 0);
    assert_int_equal(ids.n, 100);
    assert_int_equal(text_encode(v, word, 101, 0, &ids, NULL), 0);
    assert_int_equal(ids.n, 101); /* longer words are unknown */
    assert_int_equal(ids.ids[100], 1);
    text_tokens_fini(&ids);
    text_vocab_close(&v);
}

static void text_is_cleaned_and_cut(void **state)
{
    (void)state;
    struct text_vocab *v = open_vocab(-1, -1);
    CHECK(v, "UN  A\tAB\n", 0, "5 9 9 11");
    CHECK(v, "a.a$!", 0, "9 12 9 20 25");                   /* ASCII symbols are punctuation */
    CHECK(v, "\xC3\xA9 E\xCC\x81 \xC3\x89", 0, "16 16 16"); /* accents go */
    CHECK(v,
        "a\xE4\xB8\xAD"
        "a",
        0, "9 17 9");                     /* ideographs stand alone */
    CHECK(v, "\xEA\xB0\x80", 0, "18 19"); /* Hangul in Form D */
    CHECK(v,
        "a\xE2\x80\x8B"
        "b\x01\xEF\xBF\xBD"
        "a",
        0, "9 11 10"); /* format, control, U+FFFD go */
    CHECK(v,
        "a\xFF\xC3"
        "b",
        0, "9 11"); /* so do ill-formed bytes */
    CHECK(v,
        "a\xC2\xA0\xE3\x80\x80"
        "a",
        0, "9 9");                            /* spaces of any kind */
    CHECK(v, "\xC4\xB0", 0, "22");            /* I with a dot */
    CHECK(v, "\xCE\xA3\xCE\xA3", 0, "23 24"); /* no final sigma */
    CHECK(v, "[SEP]", 0, "13 15 14");
    CHECK(v, "a[SEP]a", TEXT_PARSE_SPECIAL, "9 3 9");
    text_vocab_close(&v);
    v = open_vocab(1, 0);
    CHECK(v, "\xC3\x89", 0, "21");
    text_vocab_close(&v);
    v = open_vocab(0, -1);
    CHECK(v, "UN un", 0, "1 5");
    text_vocab_close(&v);
}

static void capitals_in_the_vocabulary_stay(void **state)
{
    struct text_bytes token[] = {{"[UNK]", 5}, {W "The", 6}, {W "the", 6}};
    struct text_vocab *v;
    struct text_vocab_source src = text_vocab_source_default();
    (void)state;
    src.model = "bert", src.n_tok = 3, src.tokens = token, src.unk = 0;
    assert_int_equal(text_vocab_open(&v, &src, NULL), 0);
    CHECK(v, "The the THE", 0, "1 2 0");
    text_vocab_close(&v);
}

static void tokens_become_text(void **state)
{
    struct text_vocab *v = open_vocab(-1, -1);
    (void)state;
    struct text_bytes a = text_token_piece(v, 5, 0), b = text_token_piece(v, 7, 0), c = text_token_piece(v, 3, 0);
    assert_true(a.n == 3 && !memcmp(a.p, " un", 3) && b.n == 3 && !memcmp(b.p, "aff", 3) && c.n == 0);
    assert_true(text_vocab_adds_space(v) && text_vocab_adds_bos(v) && text_vocab_adds_eos(v));
    assert_false(text_vocab_adds_sep(v));
    text_vocab_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_their_longest_tokens),
        cmocka_unit_test(text_is_cleaned_and_cut), cmocka_unit_test(capitals_in_the_vocabulary_stay),
        cmocka_unit_test(tokens_become_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
