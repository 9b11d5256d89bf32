/* SPDX-License-Identifier: MIT
 *
 * Tokens that are cut out of text before it is split and merged: control, user-defined and unknown ones, found by a
 * binary search in their sorted spellings.  A tokenizer.json also says of each whether it takes the spaces before or
 * behind it, stands as a word of its own only, and is looked for in the normalized text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/status.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocab_impl.h"

struct sorting {
    const struct text_vocab *vocab;
    const struct text_added *added;
};

static uint32_t id_of(const struct text_added *added, uint32_t entry)
{
    return added->id ? added->id[entry] : entry;
}

static int by_bytes(uint32_t i, uint32_t j, const void *user)
{
    const struct sorting *sort = user;
    struct text_bytes x = text_pieces_get(sort->added->pieces, i), y = text_pieces_get(sort->added->pieces, j);
    int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    if (order) return order;
    if (x.n != y.n) return x.n < y.n ? -1 : 1;
    bool user_i = sort->vocab->types[id_of(sort->added, i)] == TEXT_TOKEN_USER_DEFINED;
    bool user_j = sort->vocab->types[id_of(sort->added, j)] == TEXT_TOKEN_USER_DEFINED;
    if (user_i != user_j) return user_i ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* Sorts the entries.  Of equal pieces the first stays: user-defined tokens, which are always recognised, come first. */
static void sort_entries(const struct text_vocab *vocab, struct text_added *added)
{
    struct sorting sort = {vocab, added};
    size_t n = 0;
    sort_ids(added->entry, added->n, by_bytes, &sort);
    for (size_t i = 0; i < added->n; i++) {
        struct text_bytes piece = text_pieces_get(added->pieces, added->entry[i]);
        struct text_bytes last = n ? text_pieces_get(added->pieces, added->entry[n - 1]) : (struct text_bytes){0};
        if (n && piece.n == last.n && memcmp(piece.p, last.p, piece.n) == 0) continue;
        added->first[(unsigned char)piece.p[0]] = true;
        added->entry[n++] = added->entry[i];
    }
    added->n = n;
}

/* A spelling as it stands in normalized text; *own: to be freed, or NULL. */
static int normalize(const struct text_vocab *vocab, struct text_bytes *piece, char **own)
{
    *own = NULL;
    if (vocab->nfc) {
        size_t n, n_valid = text_utf8_valid(piece->p, piece->n);
        if (n_valid < piece->n) return 0;
        TRY(text_nfc(piece->p, piece->n, own, &n));
        if (*own) *piece = (struct text_bytes){*own, n};
    } else if (vocab->chars && vocab->spaces == TEXT_SPACES_PREPEND) {
        *own = malloc(piece->n + 1);
        if (!*own) return LUTRA_E_NO_MEMORY;
        **own = ' ';
        memcpy(*own + 1, piece->p, piece->n);
        *piece = (struct text_bytes){*own, piece->n + 1};
    }
    return 0;
}

/* The tokens that are looked for in normalized text, spelt as there. */
static int open_normalized(struct text_vocab *vocab, struct text_added *added)
{
    size_t n = 0;
    for (size_t i = 0; i < vocab->n_tok; i++) n += (vocab->how[i] & TEXT_ADDED_NORMALIZED) != 0;
    added->pieces = &added->own;
    added->entry = malloc((n + 1) * sizeof *added->entry);
    added->id = malloc((n + 1) * sizeof *added->id);
    if (!added->entry || !added->id) return LUTRA_E_NO_MEMORY;
    for (size_t i = 0; i < vocab->n_tok; i++) {
        struct text_bytes piece = text_pieces_get(&vocab->pieces, i);
        char *own;
        if (!(vocab->how[i] & TEXT_ADDED_NORMALIZED) || piece.n == 0 || piece.n > TEXT_SPECIAL_MAX_BYTES) continue;
        TRY(normalize(vocab, &piece, &own));
        int rc = text_pieces_add(&added->own, piece.p, piece.n);
        free(own);
        TRY(rc);
        added->id[added->n] = (uint32_t)i;
        added->entry[added->n] = (uint32_t)added->n;
        added->n++;
    }
    sort_entries(vocab, added);
    return 0;
}

static bool is_special(uint8_t type)
{
    return type == TEXT_TOKEN_CONTROL || type == TEXT_TOKEN_USER_DEFINED || type == TEXT_TOKEN_UNKNOWN;
}

int text_added_open(struct text_vocab *vocab)
{
    struct text_added *raw = &vocab->added[0];
    size_t n = 0;
    bool any = false;
    for (size_t i = 0; i < vocab->n_tok; i++) n += is_special(vocab->types[i]);
    raw->pieces = &vocab->pieces;
    raw->entry = malloc((n + 1) * sizeof *raw->entry);
    if (!raw->entry) return LUTRA_E_NO_MEMORY;
    for (size_t i = 0; i < vocab->n_tok; i++) {
        size_t n_bytes = text_pieces_get(&vocab->pieces, i).n;
        bool merged = vocab->how && (vocab->how[i] & TEXT_ADDED_MERGED);
        if (!is_special(vocab->types[i]) || merged || n_bytes == 0 || n_bytes > TEXT_SPECIAL_MAX_BYTES) continue;
        raw->entry[raw->n++] = (uint32_t)i;
        any |= vocab->how && (vocab->how[i] & TEXT_ADDED_NORMALIZED);
    }
    sort_entries(vocab, raw);
    return any ? open_normalized(vocab, &vocab->added[1]) : 0;
}

void text_added_fini(struct text_vocab *vocab)
{
    for (int i = 0; i < 2; i++) {
        free(vocab->added[i].entry);
        free(vocab->added[i].id);
        text_pieces_fini(&vocab->added[i].own);
    }
}

void text_added_narrow(const struct text_added *added, size_t *low, size_t *high, size_t depth, unsigned char byte)
{
    for (int end = 0; end < 2; end++) { /* first the lower bound of byte, then of byte + 1 */
        size_t a = *low, b = *high;
        while (a < b) {
            size_t mid = a + (b - a) / 2;
            struct text_bytes piece = text_pieces_get(added->pieces, added->entry[mid]);
            bool less = piece.n <= depth || (unsigned char)piece.p[depth] < byte + end;
            if (less)
                a = mid + 1;
            else
                b = mid;
        }
        *(end ? high : low) = a;
    }
}

/* Tokens that a stranger's text never becomes: control tokens, also those that are typed user-defined to be seen. */
static bool is_guarded(const struct text_vocab *vocab, uint32_t id)
{
    bool user = vocab->types[id] == TEXT_TOKEN_USER_DEFINED;
    return !user || text_marker_known(text_pieces_get(&vocab->pieces, id));
}

/* Whether a token is looked for now.  In text that is marked, control tokens are found in the text itself only, where
 * the marks are. */
static bool takes_part(const struct text_vocab *vocab, uint32_t id, int stage, unsigned flags, bool marked)
{
    bool user = vocab->types[id] == TEXT_TOKEN_USER_DEFINED;
    if (!user && !(flags & TEXT_PARSE_SPECIAL)) return false;
    bool guarded = marked && is_guarded(vocab, id);
    bool late = vocab->how && (vocab->how[id] & TEXT_ADDED_NORMALIZED) && !guarded;
    return late == (stage == 1);
}

size_t text_added_find(const struct text_vocab *vocab, int stage, struct text_bytes text, unsigned flags,
    const uint8_t *input, bool marked, uint32_t *id)
{
    const struct text_added *added = &vocab->added[stage];
    size_t low = 0, high = added->n, best = 0;
    bool given = false; /* some byte so far is input */
    for (size_t depth = 0; depth < text.n && depth <= TEXT_SPECIAL_MAX_BYTES; depth++) {
        given |= input && input[depth];
        text_added_narrow(added, &low, &high, depth, (unsigned char)text.p[depth]);
        if (low == high) break;
        uint32_t token = id_of(added, added->entry[low]); /* a piece that ends here comes before the longer ones */
        if (text_pieces_get(added->pieces, added->entry[low]).n != depth + 1) continue;
        if (!takes_part(vocab, token, stage, flags, marked) || (given && is_guarded(vocab, token))) continue;
        best = depth + 1;
        *id = token;
    }
    return best;
}

/* ---- what is around them ---- */

/* The character before p (limit <= p), and where it begins; 0 where there is none that is well-formed. */
static uint32_t char_before(const char *limit, const char *p, const char **begin)
{
    for (int k = 1; k <= 4 && p - limit >= k; k++) {
        if (((unsigned char)p[-k] & 0xC0) == 0x80) continue;
        *begin = p - k;
        return text_utf8_scan(p - k, (size_t)k) == k ? text_utf8_get(p - k, k) : 0;
    }
    return 0;
}

static uint32_t char_at(const char *p, const char *end, int *k)
{
    *k = p < end ? text_utf8_scan(p, (size_t)(end - p)) : 0;
    return *k > 0 ? text_utf8_get(p, *k) : 0;
}

/* A character of words, Rust's \\w: letters, marks, digits, connectors, joiners, and circled letters. */
static bool is_word(uint32_t cp)
{
    const char *category = text_category_names[text_category_of(cp)];
    return category[0] == 'L' || category[0] == 'M' || !strcmp(category, "Nd") || !strcmp(category, "Nl") ||
           !strcmp(category, "Pc") || cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9) ||
           (cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
}

bool text_added_around(
    const struct text_vocab *vocab, uint32_t id, struct text_bytes text, size_t from, size_t *start, size_t *end)
{
    unsigned how = vocab->how ? vocab->how[id] : 0;
    const char *begin = text.p + *start, *limit = text.p + text.n, *before = NULL;
    int k;
    if (how & TEXT_ADDED_SINGLE_WORD) {
        if (is_word(char_before(text.p, begin, &before)) || is_word(char_at(text.p + *end, limit, &k))) return false;
    }
    if (how & TEXT_ADDED_LSTRIP)
        while (begin > text.p + from && text_is_space(char_before(text.p + from, begin, &before))) begin = before;
    *start = (size_t)(begin - text.p);
    if (how & TEXT_ADDED_RSTRIP)
        while (text_is_space(char_at(text.p + *end, limit, &k))) *end += (size_t)k;
    return true;
}
