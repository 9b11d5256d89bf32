/* SPDX-License-Identifier: MIT */
#include "rag/query.h"

#include <string.h>

#include "rag/rag_impl.h"
#include "text/utf8.h"

/* Letters of ASCII in lower case: so that "The" and "the" are one phrase (FTS5 folds the rest itself). */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static void add_phrase(struct query *q, const char *word, size_t n)
{
    size_t begin = q->text.n;
    if (n == 0 || q->n == QUERY_PHRASES_MAX) return;
    text_add(&q->text, "\"", 1);
    for (size_t i = 0; i < n; i++) text_add(&q->text, (char[]){lower(word[i])}, 1);
    text_add(&q->text, "\"", 2); /* with the NUL */
    if (q->text.failed) return;
    for (int i = 0; i < q->n; i++)
        if (strcmp(q->text.bytes + q->phrase[i], q->text.bytes + begin) == 0) {
            q->text.n = begin;
            return;
        }
    q->phrase[q->n++] = begin;
}

/* A word: its runs of other scripts, and pairs of characters of those that have no blanks. */
static void add_word(struct query *q, const char *word, size_t n)
{
    size_t from = 0, before = 0; /* where the run begins; bytes of the split character before this one */
    bool alone = false;          /* that one is in no pair yet */
    for (size_t at = 0; at < n;) {
        int k = text_utf8_scan(word + at, n - at);
        size_t len = k > 0 ? (size_t)k : 1;
        if (k > 1 && tokenizer_splits(text_utf8_get(word + at, k))) {
            if (before == 0) add_phrase(q, word + from, at - from);
            if (before) add_phrase(q, word + at - before, before + len);
            alone = before == 0;
            before = len;
            from = at + len;
        } else {
            if (alone) add_phrase(q, word + at - before, before);
            before = 0;
            alone = false;
        }
        at += len;
    }
    if (alone) add_phrase(q, word + n - before, before);
    if (before == 0) add_phrase(q, word + from, n - from);
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || (unsigned char)c >= 0x80;
}

/* Bytes of the word that begins at text[0]: letters and digits, and of "file_name.txt", "utf-8", "don't" what joins
 * them. */
static size_t word_length(const char *text, size_t n)
{
    size_t len = 0;
    while (len < n && len < QUERY_WORD_BYTES) {
        bool joins = len > 0 && len + 1 < n && text[len] && strchr("._-'", text[len]) && is_word(text[len + 1]);
        if (!is_word(text[len]) && !joins) break;
        len++;
    }
    while (len > 1 && len < n && ((unsigned char)text[len] & 0xC0) == 0x80) len--;
    return len;
}

bool query_read(struct query *q, const char *text, size_t n)
{
    struct text clean = {0};
    *q = (struct query){0};
    text_add_utf8(&clean, text, n);
    for (size_t at = 0; at < clean.n && q->n < QUERY_PHRASES_MAX && !clean.failed;) {
        size_t len = word_length(clean.bytes + at, clean.n - at);
        add_word(q, clean.bytes + at, len);
        at += len ? len : 1;
    }
    bool good = !clean.failed && !q->text.failed;
    text_fini(&clean);
    return good;
}

void query_fini(struct query *q)
{
    text_fini(&q->text);
}
