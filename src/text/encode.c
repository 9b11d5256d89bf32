/* SPDX-License-Identifier: MIT
 *
 * text -> special tokens and the text between them -> well-formed and ill-formed runs -> words -> merges;
 * SentencePiece merges the text between special tokens as one word, WordPiece has its own words (wpm.c).
 */
#include "text/encode.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocab_impl.h"

enum { WORK_BYTES = 64 << 10 }; /* between two questions whether to go on */

struct encoder {
    const struct text_vocab *vocab;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    struct text_bpe bpe;
    struct text_tokens *out;
    const uint8_t *input; /* [the text's length] not 0: a stranger's byte; or NULL */
    const struct text_work *work;
    struct lutra_error *err;
    size_t n_since;         /* bytes since the work's owner was asked */
    unsigned char *letters; /* [room] a well-formed run as split patterns read it */
    size_t room;
};

int text_tokens_push(struct text_tokens *tokens, int32_t id)
{
    if (tokens->n == tokens->cap) {
        size_t cap = tokens->cap * 2 + 64;
        int32_t *ids = realloc(tokens->ids, cap * sizeof *ids);
        if (!ids) return LUTRA_E_NO_MEMORY;
        tokens->ids = ids;
        tokens->cap = cap;
    }
    tokens->ids[tokens->n++] = id;
    return 0;
}

void text_tokens_give(const struct text_tokens *tokens, int32_t *out, int n_max, int *n)
{
    size_t room = n_max > 0 ? (size_t)n_max : 0, k = tokens->n < room ? tokens->n : room;
    if (k > 0) memcpy(out, tokens->ids, k * sizeof *out);
    *n = (int)tokens->n;
}

void text_tokens_fini(struct text_tokens *tokens)
{
    free(tokens->ids);
    *tokens = (struct text_tokens){0};
}

/* The next match of a pattern from `at` on: text[*from .. *to), both n where there is none. */
static int find(struct encoder *e, const pcre2_code *pattern, const unsigned char *text, size_t n, size_t at,
    size_t *from, size_t *to)
{
    int rc = pcre2_jit_match(pattern, text, n, at, 0, e->match, e->limits);
    if (rc < PCRE2_ERROR_NOMATCH) /* no JIT, or its stack is full; the interpreter has no limit */
        rc = pcre2_match(pattern, text, n, at, PCRE2_NO_JIT, e->match, e->limits);
    if (rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT) return LUTRA_E_NO_MEMORY;
    if (rc < PCRE2_ERROR_NOMATCH) return LUTRA_E_INTERNAL;
    const PCRE2_SIZE *match = pcre2_get_ovector_pointer(e->match);
    bool found = rc > 0 && match[1] > match[0];
    *from = found ? match[0] : n;
    *to = found ? match[1] : n;
    return 0;
}

/* A piece of well-formed text, as characters' letters and as bytes. */
struct piece {
    const unsigned char *letters;
    size_t n; /* letters */
    const char *text;
    bool ascii; /* as many bytes as letters */
};

/* Takes the first n characters off. */
static struct piece take(struct piece *from, size_t n)
{
    struct piece first = {from->letters, n, from->text, from->ascii};
    if (from->ascii) from->text += n;
    for (size_t i = 0; !from->ascii && i < n; i++) from->text += text_utf8_length((unsigned char)*from->text);
    from->letters += n;
    from->n -= n;
    return first;
}

/* Asks now and then whether to go on. */
static int go_on(struct encoder *e, size_t n_bytes)
{
    e->n_since += n_bytes;
    if (e->n_since < WORK_BYTES) return 0;
    e->n_since = 0;
    return text_work_go_on(e->work, e->err);
}

/* Cuts a piece by the patterns from `level` on; what is left then is a word. */
static int encode_split(struct encoder *e, int level, struct piece piece, const char *end)
{
    if (level == TEXT_MAX_SPLITS || !e->vocab->split[level])
        return text_bpe_word(&e->bpe, e->vocab, piece.text, (size_t)(end - piece.text), e->out);
    const unsigned char *letters = piece.letters;
    for (size_t at = 0, n = piece.n, from, to; at < n; at = to) {
        TRY(find(e, e->vocab->split[level], letters, n, at, &from, &to));
        struct piece between = take(&piece, from - at);
        if (between.n > 0) TRY(encode_split(e, level + 1, between, piece.text));
        struct piece match = take(&piece, to - from);
        if (match.n > 0) TRY(encode_split(e, level + 1, match, piece.text));
        if (level == 0) TRY(go_on(e, to - at));
    }
    return 0;
}

/* The longest well-formed prefix, which is *n_used bytes long. */
static int encode_valid(struct encoder *e, const char *text, size_t n_bytes, size_t *n_used)
{
    if (n_bytes > e->room) {
        free(e->letters);
        e->letters = malloc(n_bytes);
        e->room = e->letters ? n_bytes : 0;
        if (!e->letters) return LUTRA_E_NO_MEMORY;
    }
    size_t n = text_classes_write(&e->vocab->classes, text, n_bytes, e->letters, n_used);
    return encode_split(e, 0, (struct piece){e->letters, n, text, n == *n_used}, text + *n_used);
}

/* The same in Normalization Form C. */
static int encode_nfc(struct encoder *e, const char *text, size_t n_bytes, size_t *n_used)
{
    char *other;
    size_t n, n_other;
    *n_used = text_utf8_valid(text, n_bytes);
    TRY(text_nfc(text, *n_used, &other, &n_other));
    int rc = encode_valid(e, other ? other : text, n_other, &n);
    free(other);
    return rc;
}

/* Where a stretch of text comes from. */
struct place {
    int stage;  /* 1: it is normalized */
    bool first; /* it begins where the whole text does */
};

/* Text of SentencePiece without special tokens. */
static int encode_spm(struct encoder *e, const char *text, size_t n_bytes, struct place place)
{
    enum text_spaces spaces = e->vocab->spaces;
    char first[3] = {0};
    text_spm_unspell(text, n_bytes < 3 ? n_bytes : 3, first);
    bool begins = first[0] == ' ';
    bool prefix = spaces == TEXT_SPACES_PREPEND
                      ? place.stage == 0
                      : !begins && (spaces == TEXT_SPACES_ALWAYS || (spaces == TEXT_SPACES_FIRST && place.first));
    return text_spm_text(&e->bpe, e->vocab, (struct text_bytes){text, n_bytes}, prefix, e->out);
}

/* Text without special tokens; where it is split, a run of ill-formed bytes is a word of its own. */
static int encode_plain(struct encoder *e, const char *text, size_t n_bytes, struct place place)
{
    if (e->vocab->chars) return encode_spm(e, text, n_bytes, place);
    if (e->vocab->wordpiece) return text_wpm_text(e->vocab, (struct text_bytes){text, n_bytes}, e->out);
    for (size_t at = 0; at < n_bytes;) {
        size_t n_valid;
        TRY((e->vocab->nfc && place.stage == 0 ? encode_nfc : encode_valid)(e, text + at, n_bytes - at, &n_valid));
        size_t from = at += n_valid;
        while (at < n_bytes) {
            int k = text_utf8_scan(text + at, n_bytes - at);
            if (k > 0) break;
            at = k < 0 ? at + (size_t)-k : n_bytes;
        }
        TRY(text_bpe_word(&e->bpe, e->vocab, text + from, at - from, e->out));
    }
    return 0;
}

/* Text as the normalizer makes it; *out is the caller's to free(). */
static int normalize(const struct text_vocab *v, struct text_bytes text, char **out, size_t *n_out)
{
    size_t n = 0;
    int rc = 0;
    char *to = malloc(3 * text.n + 1); /* NFC makes at most three of one */
    if (!to) return LUTRA_E_NO_MEMORY;
    if (v->chars && v->spaces == TEXT_SPACES_PREPEND) to[n++] = ' ';
    for (size_t at = 0, n_valid, n_other; rc == 0 && at < text.n; at += n_valid) {
        char *other = NULL;
        n_other = n_valid = v->nfc ? text_utf8_valid(text.p + at, text.n - at) : text.n;
        if (v->nfc) rc = text_nfc(text.p + at, n_valid, &other, &n_other);
        if (n_valid == 0) n_other = n_valid = 1; /* no text: left as it is */
        if (rc == 0) memcpy(to + n, other ? other : text.p + at, n_other);
        free(other);
        n += n_other;
    }
    *out = to;
    *n_out = n;
    if (rc < 0) free(to);
    return rc;
}

static int cut(struct encoder *e, struct text_bytes text, struct place place, unsigned flags);

/* A stretch between special tokens. */
static int between(struct encoder *e, struct text_bytes text, struct place place, unsigned flags)
{
    if (text.n == 0) return 0;
    if (place.stage == 1 || e->vocab->added[1].n == 0) return encode_plain(e, text.p, text.n, place);
    char *normal;
    size_t n;
    TRY(normalize(e->vocab, text, &normal, &n));
    int rc = cut(e, (struct text_bytes){normal, n}, (struct place){1, place.first}, flags);
    free(normal);
    return rc;
}

/* Special tokens, and what is between them. */
static int cut(struct encoder *e, struct text_bytes text, struct place place, unsigned flags)
{
    const struct text_vocab *v = e->vocab;
    const struct text_added *added = &v->added[place.stage];
    size_t from = 0;
    for (size_t at = 0, start, end; at < text.n;) {
        uint32_t id = 0;
        struct text_bytes rest = {text.p + at, text.n - at};
        size_t k = added->first[(unsigned char)text.p[at]]
                       ? text_added_find(v, place.stage, rest, flags, e->input && !place.stage ? e->input + at : NULL,
                             e->input != NULL, &id)
                       : 0;
        start = at;
        end = at + k;
        at += k > 0 ? k : 1;
        TRY(go_on(e, k > 0 ? k : 1));
        if (k == 0 || !text_added_around(v, id, text, from, &start, &end)) continue;
        struct text_bytes before = {text.p + from, start > from ? start - from : 0};
        TRY(between(e, before, (struct place){place.stage, place.first && from == 0}, flags));
        TRY(text_tokens_push(e->out, (int32_t)id));
        from = end; /* a token may begin with a space that this one has taken */
    }
    struct text_bytes last = {text.p + from, text.n - from};
    return between(e, last, (struct place){place.stage, place.first && from == 0}, flags);
}

static int encode_all(struct encoder *e, const char *text, size_t n_bytes, unsigned flags)
{
    const struct text_vocab *v = e->vocab;
    bool add = flags & TEXT_ADD_SPECIAL;
    if (add && v->add_bos && v->ids[TEXT_BOS] >= 0) TRY(text_tokens_push(e->out, v->ids[TEXT_BOS]));
    TRY(cut(e, (struct text_bytes){text, n_bytes}, (struct place){0, true}, flags));
    if (add && v->add_eos && v->ids[TEXT_EOS] >= 0) TRY(text_tokens_push(e->out, v->ids[TEXT_EOS]));
    return 0;
}

int text_encode_marked(const struct text_vocab *vocab, struct text_bytes text, const uint8_t *input, unsigned flags,
    const struct text_work *work, struct text_tokens *out, struct lutra_error *err)
{
    if (text.n > INT32_MAX) return lutra_fail(err, LUTRA_E_ARGUMENT, "%zu bytes of text are too many", text.n);
    struct encoder e = {.vocab = vocab, .out = out, .input = input, .work = work, .err = err};
    e.match = pcre2_match_data_create(1, NULL);
    e.limits = pcre2_match_context_create(NULL);
    int rc = e.match && e.limits ? 0 : LUTRA_E_NO_MEMORY;
    if (rc == 0) {
        /* A long run of spaces backtracks once per space: linear, but more than the default limit allows. */
        pcre2_set_match_limit(e.limits, UINT32_MAX);
        pcre2_set_depth_limit(e.limits, UINT32_MAX);
        pcre2_set_heap_limit(e.limits, UINT32_MAX);
        rc = encode_all(&e, text.p, text.n, flags);
    }
    text_bpe_fini(&e.bpe);
    free(e.letters);
    pcre2_match_data_free(e.match);
    pcre2_match_context_free(e.limits);
    bool ended = rc == LUTRA_E_CANCELLED || rc == LUTRA_E_DEADLINE; /* and said */
    return rc < 0 && !ended ? lutra_fail(err, rc, "tokenizing %zu bytes: %s", text.n, lutra_status_text(rc)) : rc;
}

int text_encode(const struct text_vocab *vocab, const char *text, size_t n_bytes, unsigned flags,
    struct text_tokens *out, struct lutra_error *err)
{
    return text_encode_marked(vocab, (struct text_bytes){text, n_bytes}, NULL, flags, NULL, out, err);
}
