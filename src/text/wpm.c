/* SPDX-License-Identifier: MIT
 *
 * WordPiece vocabularies (`tokenizer.ggml.model` = "bert") [Wu et al. 2016; Devlin et al. 2018, BasicTokenizer]: text
 * is cleaned, its accents and capitals go where the model was trained so, it is cut at spaces, around punctuation and
 * around Chinese characters, and a word is the longest tokens from its left end on.  A word that is no such row of
 * tokens, or is longer than 100 characters, is the unknown token.
 *
 * Files spell a token that begins a word with U+2581 in front, in place of the "##" before the others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocab_impl.h"

enum { WORD_CHARS = 100, GROWTH = 3 /* of a text's bytes when it is cleaned or its capitals go, at most */ };

struct chars {
    char *text;
    size_t n;
};

static void put(struct chars *to, uint32_t cp)
{
    to->n += (size_t)text_utf8_put(cp, to->text + to->n);
}

static bool is_category(uint32_t cp, const char *letters)
{
    const char *name = text_category_names[text_category_of(cp)];
    return name[0] == letters[0] && (!letters[1] || name[1] == letters[1]);
}

/* Control characters, format characters, private ones; unassigned ones stay. */
static bool is_control(uint32_t cp)
{
    if (cp == '\t' || cp == '\n' || cp == '\r') return false;
    return is_category(cp, "Cc") || is_category(cp, "Cf") || is_category(cp, "Co");
}

/* The blocks of CJK ideographs that BERT knows. */
static bool is_chinese(uint32_t cp)
{
    static const uint32_t block[][2] = {{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
        {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        if (cp >= block[i][0] && cp <= block[i][1]) return true;
    return false;
}

static bool is_punctuation(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '@') || (cp >= '[' && cp <= '`') ||
               (cp >= '{' && cp <= '~');
    return is_category(cp, "P");
}

/* Every space becomes ' ', ideographs stand alone; ill-formed bytes go like control characters. */
static void clean(struct text_bytes text, struct chars *to)
{
    for (size_t at = 0; at < text.n;) {
        int k = text_utf8_scan(text.p + at, text.n - at);
        if (k <= 0) {
            at += k < 0 ? (size_t)-k : text.n - at;
            continue;
        }
        uint32_t cp = text_utf8_get(text.p + at, k);
        at += (size_t)k;
        if (cp == 0 || cp == 0xFFFD || is_control(cp)) continue;
        bool alone = is_chinese(cp);
        if (alone) put(to, ' ');
        put(to, text_is_space(cp) ? ' ' : cp);
        if (alone) put(to, ' ');
    }
}

/* Marks go; then capitals become small, one by one (no final sigma). */
static void simplify(const struct text_vocab *v, const struct chars *from, struct chars *to)
{
    for (size_t at = 0; at < from->n;) {
        int k = text_utf8_length((unsigned char)from->text[at]);
        uint32_t cp = text_utf8_get(from->text + at, k);
        at += (size_t)k;
        if (v->no_accents && is_category(cp, "Mn")) continue;
        put(to, v->lowercase ? text_lower(cp) : cp);
        if (v->lowercase && cp == 0x130 && !v->no_accents) put(to, 0x307); /* its one lower case of two characters */
    }
}

/* The end of the longest token from `at` on, and its id; TEXT_NO_SYMBOL: there is none.  A space within the word is
 * U+2581 of the text, and no token that begins a word is meant by it. */
static size_t longest(const struct text_vocab *v, const char *word, size_t n, size_t at, uint32_t *id)
{
    size_t end = n - at > v->max_piece_bytes ? at + v->max_piece_bytes : n;
    if (at > 0 && word[at] == ' ') end = at + 1;
    for (; end > at; end--) {
        bool within = end < n && ((unsigned char)word[end] & 0xC0) == 0x80; /* a character */
        if (within || end == 1) continue;                                   /* 1: the space alone */
        *id = text_table_find(&v->symbols, &v->pieces, word + at, end - at);
        if (*id != TEXT_NO_SYMBOL) return end;
    }
    *id = TEXT_NO_SYMBOL;
    return end;
}

/* Appends the tokens of a word, which begins with a space. */
static int push_word(const struct text_vocab *v, const char *word, size_t n, size_t n_char, struct text_tokens *out)
{
    size_t n_before = out->n;
    bool known = n_char <= WORD_CHARS;
    for (size_t at = 0; known && at < n;) {
        uint32_t id;
        at = longest(v, word, n, at, &id);
        known = id != TEXT_NO_SYMBOL;
        if (known) TRY(text_tokens_push(out, (int32_t)id));
    }
    if (known) return 0;
    out->n = n_before;
    return v->ids[TEXT_UNK] >= 0 ? text_tokens_push(out, v->ids[TEXT_UNK]) : 0;
}

/* Cuts into words: word has room for all of the text and a space. */
static int push_words(const struct text_vocab *v, const struct chars *text, char *word, struct text_tokens *out)
{
    size_t n = 1, n_char = 0;
    word[0] = ' ';
    for (size_t at = 0; at <= text->n;) {
        bool ends = at == text->n;
        int k = ends ? 1 : text_utf8_length((unsigned char)text->text[at]);
        uint32_t cp = ends ? ' ' : text_utf8_get(text->text + at, k);
        bool space = cp == ' ' || (cp >= 0x80 && text_is_space(cp)), alone = !space && is_punctuation(cp);
        if ((space || alone) && n_char > 0) {
            TRY(push_word(v, word, n, n_char, out));
            n = 1, n_char = 0;
        }
        if (!space) n += text_spm_unspell(text->text + at, (size_t)k, word + n), n_char++;
        if (alone) {
            TRY(push_word(v, word, n, n_char, out));
            n = 1, n_char = 0;
        }
        at += (size_t)k;
    }
    return 0;
}

int text_wpm_text(const struct text_vocab *vocab, struct text_bytes text, struct text_tokens *out)
{
    struct chars cleaned = {malloc(GROWTH * text.n + 1), 0}, simple = {NULL, 0};
    char *word = NULL, *decomposed = NULL;
    int rc = cleaned.text ? 0 : LUTRA_E_NO_MEMORY;
    if (rc == 0) clean(text, &cleaned);
    if (rc == 0 && vocab->no_accents) {
        rc = text_nfd(cleaned.text, cleaned.n, &decomposed, &cleaned.n);
        if (rc == 0) free(cleaned.text), cleaned.text = decomposed;
    }
    simple.text = malloc(GROWTH * cleaned.n + 1);
    if (rc == 0 && !simple.text) rc = LUTRA_E_NO_MEMORY;
    if (rc == 0) simplify(vocab, &cleaned, &simple);
    word = malloc(simple.n + 2);
    if (rc == 0 && !word) rc = LUTRA_E_NO_MEMORY;
    if (rc == 0) rc = push_words(vocab, &simple, word, out);
    free(cleaned.text);
    free(simple.text);
    free(word);
    return rc;
}

bool text_wpm_is_lower(const struct text_vocab_source *src)
{
    static const char space[] = "\xE2\x96\x81";
    for (size_t i = 0; i < src->n_tok; i++) {
        struct text_bytes t = src->tokens[i];
        if (t.n > 3 && memcmp(t.p, space, 3) == 0 && t.p[3] >= 'A' && t.p[3] <= 'Z') return false;
    }
    return true;
}
