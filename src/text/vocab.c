/* SPDX-License-Identifier: MIT */
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/vocab_impl.h"

struct text_vocab_source text_vocab_source_default(void)
{
    return (struct text_vocab_source){.bos = -1,
        .eos = -1,
        .eot = -1,
        .eom = -1,
        .pad = -1,
        .unk = -1,
        .fim_pad = -1,
        .fim_rep = -1,
        .fim_sep = -1,
        .add_bos = -1,
        .add_eos = -1,
        .ignore_merges = -1,
        .add_space_prefix = -1};
}

static bool is_special(uint8_t type)
{
    return type == TEXT_TOKEN_CONTROL || type == TEXT_TOKEN_USER_DEFINED || type == TEXT_TOKEN_UNKNOWN;
}

static bool is_spm(const struct text_vocab_source *src)
{
    return strcmp(src->model, "llama") == 0;
}

static int check(const struct text_vocab_source *src, struct lutra_error *err)
{
    if (!src->model || (strcmp(src->model, "gpt2") != 0 && !is_spm(src))) {
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "tokenizer.ggml.model '%s' is not supported ('gpt2', byte-level BPE, and 'llama', SentencePiece, are)",
            src->model ? src->model : "(missing)");
    }
    if (src->n_tok == 0 || src->n_tok > INT32_MAX) {
        return lutra_fail(err, LUTRA_E_FORMAT, "tokenizer.ggml.tokens has %zu entries", src->n_tok);
    }
    if (!src->tokens) return lutra_fail(err, LUTRA_E_ARGUMENT, "tokens is NULL");
    if (is_spm(src) && !src->scores) {
        return lutra_fail(err, LUTRA_E_FORMAT,
            "tokenizer.ggml.scores is missing: the order of merging is unknown; convert the model again");
    }
    if (!is_spm(src) && !src->merges) {
        return lutra_fail(err, LUTRA_E_FORMAT,
            "tokenizer.ggml.merges is missing: text would become single bytes; convert the model again");
    }
    for (size_t i = 0; src->types && i < src->n_tok; i++) {
        if (src->types[i] < 0 || src->types[i] > TEXT_TOKEN_BYTE) {
            return lutra_fail_at(err, LUTRA_E_FORMAT, i, "tokenizer.ggml.token_type[%zu] is %d", i, (int)src->types[i]);
        }
    }
    return 0;
}

/* SentencePiece's usual ids stand in where the file names none. */
static void set_ids(struct text_vocab *vocab, const struct text_vocab_source *src)
{
    static const int32_t usual[TEXT_N_SPECIAL] = {[TEXT_BOS] = 1,
        [TEXT_EOS] = 2,
        [TEXT_UNK] = 0,
        [TEXT_EOT] = -1,
        [TEXT_EOM] = -1,
        [TEXT_PAD] = -1,
        [TEXT_FIM_PAD] = -1,
        [TEXT_FIM_REP] = -1,
        [TEXT_FIM_SEP] = -1};
    const int32_t ids[TEXT_N_SPECIAL] = {
        src->bos, src->eos, src->eot, src->eom, src->pad, src->unk, src->fim_pad, src->fim_rep, src->fim_sep};
    for (int i = 0; i < TEXT_N_SPECIAL; i++) {
        vocab->ids[i] = ids[i];
        if (ids[i] < 0 || (size_t)ids[i] >= vocab->n_tok)
            vocab->ids[i] = is_spm(src) && vocab->n_tok > 2 ? usual[i] : -1;
    }
}

/* What a token stands for, at most n bytes into out: special ones for their spelling. */
static size_t decode(struct text_bytes token, uint8_t type, bool spm, char *out)
{
    int byte = spm && type == TEXT_TOKEN_BYTE ? text_spm_byte(token) : -1;
    if (byte >= 0) {
        *out = (char)byte;
        return 1;
    }
    if (!is_special(type))
        return spm ? text_spm_unspell(token.p, token.n, out) : text_bytemap_decode(token.p, token.n, out);
    if (token.n) memcpy(out, token.p, token.n);
    return token.n;
}

/* Copies the tokens, undoing their spelling. */
static int copy_tokens(struct text_vocab *vocab, const struct text_vocab_source *src)
{
    size_t longest = 0;
    for (size_t i = 0; i < src->n_tok; i++) longest = src->tokens[i].n > longest ? src->tokens[i].n : longest;
    char *scratch = malloc(longest + 1);
    vocab->types = malloc(src->n_tok);
    int rc = scratch && vocab->types ? 0 : LUTRA_E_NO_MEMORY;
    for (size_t i = 0; i < src->n_tok && rc == 0; i++) {
        struct text_bytes token = src->tokens[i];
        vocab->types[i] = text_marker_type(token, src->types ? (uint8_t)src->types[i] : TEXT_TOKEN_NORMAL);
        size_t n = decode(token, vocab->types[i], is_spm(src), scratch);
        rc = text_pieces_add(&vocab->pieces, scratch, n);
        vocab->max_piece_bytes = n > vocab->max_piece_bytes ? n : vocab->max_piece_bytes;
    }
    free(scratch);
    return rc;
}

/* Enters the tokens whose bit is set in `types` into a table; the first of equal pieces wins.  spelt != NULL: only
 * those that spell bytes. */
static int enter(
    struct text_table *table, const struct text_vocab *vocab, unsigned types, const struct text_bytes *spelt)
{
    for (size_t i = 0; i < vocab->n_tok; i++) {
        if (!(types >> vocab->types[i] & 1) || (spelt && !text_bytemap_spells(spelt[i]))) continue;
        if (text_table_add(table, &vocab->pieces, (uint32_t)i) == TEXT_NO_SYMBOL) return LUTRA_E_NO_MEMORY;
    }
    return 0;
}

static int build_tables(struct text_vocab *vocab, const struct text_vocab_source *src)
{
    const unsigned user = 1u << TEXT_TOKEN_USER_DEFINED;
    const unsigned special = user | 1u << TEXT_TOKEN_CONTROL | 1u << TEXT_TOKEN_UNKNOWN;
    TRY(text_table_init(&vocab->symbols, vocab->n_tok));
    TRY(text_table_init(&vocab->found, vocab->n_tok));
    TRY(enter(&vocab->found, vocab, special, NULL));
    TRY(enter(&vocab->found, vocab, ~special, NULL));
    /* SentencePiece's byte tokens are what is left when merging is done. */
    if (is_spm(src)) return enter(&vocab->symbols, vocab, ~special & ~(1u << TEXT_TOKEN_BYTE), NULL);
    TRY(enter(&vocab->symbols, vocab, ~special, src->tokens));
    return enter(&vocab->symbols, vocab, user, NULL);
}

static int by_bytes(const void *a, const void *b, void *user)
{
    const struct text_vocab *vocab = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    struct text_bytes x = text_pieces_get(&vocab->pieces, i), y = text_pieces_get(&vocab->pieces, j);
    int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    if (order) return order;
    if (x.n != y.n) return x.n < y.n ? -1 : 1;
    bool user_i = vocab->types[i] == TEXT_TOKEN_USER_DEFINED, user_j = vocab->types[j] == TEXT_TOKEN_USER_DEFINED;
    if (user_i != user_j) return user_i ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* Of equal pieces the first stays: user-defined tokens, which are always recognised, come first. */
static void drop_equal_special(struct text_vocab *vocab)
{
    size_t n = 0;
    for (size_t i = 0; i < vocab->n_special; i++) {
        struct text_bytes piece = text_pieces_get(&vocab->pieces, vocab->special[i]);
        struct text_bytes last = n ? text_pieces_get(&vocab->pieces, vocab->special[n - 1]) : (struct text_bytes){0};
        if (piece.n == last.n && memcmp(piece.p, last.p, piece.n) == 0) continue;
        vocab->special[n++] = vocab->special[i];
    }
    vocab->n_special = n;
}

static int collect_special(struct text_vocab *vocab)
{
    size_t n = 0;
    for (size_t i = 0; i < vocab->n_tok; i++) n += is_special(vocab->types[i]);
    vocab->special = malloc((n + 1) * sizeof *vocab->special);
    if (!vocab->special) return LUTRA_E_NO_MEMORY;
    for (size_t i = 0; i < vocab->n_tok; i++) {
        struct text_bytes piece = text_pieces_get(&vocab->pieces, i);
        if (!is_special(vocab->types[i]) || piece.n == 0 || piece.n > TEXT_SPECIAL_MAX_BYTES) continue;
        vocab->special_first[(unsigned char)piece.p[0]] = true;
        vocab->special[vocab->n_special++] = (uint32_t)i;
    }
    qsort_r(vocab->special, vocab->n_special, sizeof *vocab->special, by_bytes, vocab);
    drop_equal_special(vocab);
    return 0;
}

static void add_eog(struct text_vocab *vocab, int32_t id)
{
    if (id < 0 || text_is_eog(vocab, id)) return;
    size_t at = vocab->n_eog++;
    for (; at > 0 && vocab->eog[at - 1] > id; at--) vocab->eog[at] = vocab->eog[at - 1];
    vocab->eog[at] = id;
}

static int collect_eog(struct text_vocab *vocab)
{
    static const enum text_special ends[] = {TEXT_EOS, TEXT_EOT, TEXT_EOM, TEXT_FIM_PAD, TEXT_FIM_REP, TEXT_FIM_SEP};
    const size_t n_ends = sizeof ends / sizeof *ends;
    int32_t spelt[TEXT_MAX_ENDS];
    size_t n_spelt = text_marker_ends(vocab, spelt);
    vocab->eog = malloc((n_spelt + n_ends) * sizeof *vocab->eog);
    if (!vocab->eog) return LUTRA_E_NO_MEMORY;
    for (size_t i = 0; i < n_ends; i++) add_eog(vocab, vocab->ids[ends[i]]);
    for (size_t i = 0; i < n_spelt; i++) add_eog(vocab, spelt[i]);
    return 0;
}

/* Of no key, but of the model's name, as in llama.cpp: files do not keep what their tokens do with spaces. */
static bool strips_right(const struct text_vocab_source *src)
{
    return src->name && (strcasestr(src->name, "phi-3") || strcasestr(src->name, "phi3"));
}

static int fill(struct text_vocab *vocab, const struct text_vocab_source *src, struct lutra_error *err)
{
    if (is_spm(src))
        vocab->add_bos = vocab->add_space_prefix = true;
    else
        TRY(text_presplit_open(vocab, src->pre, err));
    vocab->n_tok = src->n_tok;
    if (src->add_bos >= 0) vocab->add_bos = src->add_bos;
    if (src->add_eos >= 0) vocab->add_eos = src->add_eos;
    if (src->ignore_merges >= 0) vocab->ignore_merges = src->ignore_merges;
    vocab->nfc = src->nfc;
    if (is_spm(src) && src->add_space_prefix >= 0) vocab->add_space_prefix = src->add_space_prefix;
    vocab->strips_right = strips_right(src);
    set_ids(vocab, src);
    int rc = copy_tokens(vocab, src);
    if (rc == 0) rc = build_tables(vocab, src);
    if (rc == 0) rc = collect_eog(vocab);
    if (rc == 0) rc = collect_special(vocab);
    if (rc == 0 && is_spm(src)) rc = text_spm_open(vocab, src);
    if (rc < 0) return lutra_fail(err, rc, "out of memory for a vocabulary of %zu tokens", src->n_tok);
    return is_spm(src) ? 0 : text_merges_open(vocab, src, err);
}

int text_vocab_open(struct text_vocab **out, const struct text_vocab_source *src, struct lutra_error *err)
{
    *out = NULL;
    TRY(check(src, err));
    struct text_vocab *vocab = calloc(1, sizeof *vocab);
    if (!vocab) return lutra_fail(err, LUTRA_E_NO_MEMORY, "out of memory for a vocabulary");
    int rc = fill(vocab, src, err);
    if (rc < 0) {
        text_vocab_close(&vocab);
        return rc;
    }
    *out = vocab;
    return 0;
}

void text_vocab_close(struct text_vocab **vocab)
{
    struct text_vocab *v = *vocab;
    if (!v) return;
    text_presplit_fini(v);
    text_pieces_fini(&v->pieces);
    text_table_fini(&v->symbols);
    text_table_fini(&v->found);
    free(v->types);
    free(v->merges);
    free(v->rank);
    free(v->special);
    free(v->eog);
    free(v);
    *vocab = NULL;
}

size_t text_vocab_n_tok(const struct text_vocab *vocab)
{
    return vocab->n_tok;
}

size_t text_vocab_max_piece_bytes(const struct text_vocab *vocab)
{
    return vocab->max_piece_bytes;
}

bool text_vocab_adds_space(const struct text_vocab *vocab)
{
    return vocab->add_space_prefix;
}

int32_t text_vocab_special(const struct text_vocab *vocab, enum text_special which)
{
    return vocab->ids[which];
}

bool text_vocab_adds_bos(const struct text_vocab *vocab)
{
    return vocab->add_bos && vocab->ids[TEXT_BOS] >= 0;
}

bool text_is_eog(const struct text_vocab *vocab, int32_t id)
{
    for (size_t i = 0; i < vocab->n_eog; i++) {
        if (vocab->eog[i] == id) return true;
    }
    return false;
}

size_t text_vocab_n_eog(const struct text_vocab *vocab)
{
    return vocab->n_eog;
}

const int32_t *text_vocab_eog(const struct text_vocab *vocab)
{
    return vocab->eog;
}

enum text_token_type text_token_type(const struct text_vocab *vocab, int32_t id)
{
    return id >= 0 && (size_t)id < vocab->n_tok ? (enum text_token_type)vocab->types[id] : 0;
}

struct text_bytes text_token_piece(const struct text_vocab *vocab, int32_t id, unsigned flags)
{
    enum text_token_type type = text_token_type(vocab, id);
    bool hidden = type == TEXT_TOKEN_CONTROL || type == TEXT_TOKEN_UNKNOWN;
    if (id < 0 || (size_t)id >= vocab->n_tok || (hidden && !(flags & TEXT_PIECE_SPECIAL))) {
        return (struct text_bytes){"", 0};
    }
    return text_pieces_get(&vocab->pieces, (size_t)id);
}

int32_t text_token_find(const struct text_vocab *vocab, const char *bytes, size_t n_bytes)
{
    uint32_t i = text_table_find(&vocab->found, &vocab->pieces, bytes, n_bytes);
    return i == TEXT_NO_SYMBOL ? -1 : (int32_t)i;
}
