/* SPDX-License-Identifier: MIT
 *
 * SentencePiece vocabularies (`tokenizer.ggml.model` = "llama") [Kudo and Richardson 2018]: characters merge into the
 * token of the best score, leftmost first; what no token spells becomes bytes.  U+2581 stands for a space, in tokens
 * and in text, and each stretch of text may begin with one that is not in it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/status.h"
#include "text/vocab_impl.h"

#define SPELT_SPACE "\xE2\x96\x81"

size_t text_spm_unspell(const char *spelt, size_t n_bytes, char *out)
{
    size_t n_out = 0;
    for (size_t at = 0; at < n_bytes; n_out++) {
        bool space = n_bytes - at >= 3 && memcmp(spelt + at, SPELT_SPACE, 3) == 0;
        out[n_out] = space ? ' ' : spelt[at];
        at += space ? 3 : 1;
    }
    return n_out;
}

static int hex(char c)
{
    const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

int text_spm_byte(struct text_bytes spelt)
{
    if (spelt.n != 6 || memcmp(spelt.p, "<0x", 3) != 0 || spelt.p[5] != '>') return -1;
    int high = hex(spelt.p[3]), low = hex(spelt.p[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static float score_of(const float *scores, uint32_t id)
{
    return isnan(scores[id]) ? -INFINITY : scores[id];
}

static int by_score(uint32_t a, uint32_t b, const void *scores)
{
    float x = score_of(scores, a), y = score_of(scores, b);
    return (x < y) - (x > y);
}

int text_spm_open(struct text_vocab *vocab, const struct text_vocab_source *src)
{
    bool listed = src->exact && src->merges;
    uint32_t *order = malloc(vocab->n_tok * sizeof *order), rank = 0;
    if (!listed) vocab->rank = malloc(vocab->n_tok * sizeof *vocab->rank);
    int rc = order && (listed || vocab->rank) ? 0 : LUTRA_E_NO_MEMORY;
    for (size_t i = 0; rc == 0 && i < vocab->n_tok; i++) order[i] = (uint32_t)i;
    if (rc == 0 && !listed) sort_ids(order, vocab->n_tok, by_score, src->scores);
    for (size_t i = 0; rc == 0 && !listed && i < vocab->n_tok; i++) {
        if (i > 0 && score_of(src->scores, order[i]) < score_of(src->scores, order[i - 1])) rank++;
        vocab->rank[order[i]] = rank;
    }
    free(order);
    memset(vocab->byte_symbol, 0xFF, sizeof vocab->byte_symbol);
    for (size_t i = vocab->n_tok; rc == 0 && i-- > 0;) { /* the first of equal ones wins */
        int byte = text_spm_byte(src->tokens[i]);
        if (byte >= 0) vocab->byte_symbol[byte] = (uint32_t)i;
    }
    return rc;
}

int text_spm_text(
    struct text_bpe *work, const struct text_vocab *vocab, struct text_bytes text, bool prefix, struct text_tokens *out)
{
    if (text.n == 0) return 0;
    char *word = malloc(text.n + 1);
    if (!word) return LUTRA_E_NO_MEMORY;
    size_t n = 0;
    if (prefix) word[n++] = ' ';
    n += text_spm_unspell(text.p, text.n, word + n);
    int rc = 0;
    for (size_t from = 0, to; rc == 0 && from < n; from = to) {
        const char *space = vocab->split_spaces ? memchr(word + from + 1, ' ', n - from - 1) : NULL;
        to = space ? (size_t)(space - word) : n;
        rc = text_bpe_word(work, vocab, word + from, to - from, out);
    }
    free(word);
    return rc;
}
