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
        .sep = -1,
        .lowercase = -1,
        .strip_accents = -1,
        .add_bos = -1,
        .add_eos = -1,
        .ignore_merges = -1,
        .add_space_prefix = -1,
        .unknown = -1};
}

static bool is_special(uint8_t type)
{
    return type == TEXT_TOKEN_CONTROL || type == TEXT_TOKEN_USER_DEFINED || type == TEXT_TOKEN_UNKNOWN;
}

static bool is_spm(const struct text_vocab_source *src)
{
    return strcmp(src->model, "llama") == 0;
}

static bool is_wpm(const struct text_vocab_source *src)
{
    return strcmp(src->model, "bert") == 0;
}

/* Whether tokens are spelt with U+2581 for spaces, not with letters for bytes. */
static bool spells_spaces(const struct text_vocab_source *src)
{
    return is_spm(src) || is_wpm(src);
}

static int check(const struct text_vocab_source *src, struct lutra_error *err)
{
    if (!src->model || (strcmp(src->model, "gpt2") != 0 && !spells_spaces(src))) {
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "tokenizer.ggml.model '%s' is not supported ('gpt2', byte-level BPE, 'llama', SentencePiece, and 'bert', "
            "WordPiece, are)",
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
    if (!spells_spaces(src) && !src->merges) {
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

/* SentencePiece's and BERT's usual ids stand in where the file names none. */
static int32_t usual_id(const struct text_vocab_source *src, enum text_special which)
{
    bool wpm = is_wpm(src);
    if (!spells_spaces(src)) return -1;
    switch (which) {
    case TEXT_BOS: return wpm ? 101 : 1;
    case TEXT_EOS:
    case TEXT_SEP: return wpm ? 102 : which == TEXT_EOS ? 2 : -1;
    case TEXT_UNK: return wpm ? 100 : 0;
    case TEXT_PAD: return wpm ? 0 : -1;
    default: return -1;
    }
}

static void set_ids(struct text_vocab *vocab, const struct text_vocab_source *src)
{
    int32_t sep = src->sep, eos = is_wpm(src) ? sep : src->eos;
    const int32_t ids[TEXT_N_SPECIAL] = {
        src->bos, eos, src->eot, src->eom, src->pad, src->unk, src->fim_pad, src->fim_rep, src->fim_sep, sep};
    for (int i = 0; i < TEXT_N_SPECIAL; i++) {
        vocab->ids[i] = ids[i];
        if (ids[i] >= 0 && (size_t)ids[i] < vocab->n_tok) continue;
        int32_t usual = usual_id(src, (enum text_special)i);
        vocab->ids[i] = vocab->n_tok > 2 && (size_t)usual < vocab->n_tok ? usual : -1;
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
        size_t n = decode(token, vocab->types[i], spells_spaces(src), scratch);
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
    if (spells_spaces(src)) TRY(enter(&vocab->symbols, vocab, ~special & ~(1u << TEXT_TOKEN_BYTE), NULL));
    if (spells_spaces(src) && !src->exact) return 0;
    if (!is_spm(src)) TRY(enter(&vocab->symbols, vocab, ~special, src->tokens));
    return enter(&vocab->symbols, vocab, user, NULL);
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

/* Phi-3's special tokens take the spaces behind them, but for three.  That follows from the model's name, as in
 * llama.cpp: GGUF files do not keep what tokens do with spaces. */
static unsigned implied(const struct text_vocab_source *src, struct text_bytes token, uint8_t type)
{
    static const char *const keep[] = {"<unk>", "<s>", "<|endoftext|>"};
    if (!src->name || src->exact || !is_special(type)) return 0;
    if (!strcasestr(src->name, "phi-3") && !strcasestr(src->name, "phi3")) return 0;
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++)
        if (strlen(keep[i]) == token.n && !memcmp(keep[i], token.p, token.n)) return 0;
    return TEXT_ADDED_RSTRIP;
}

/* What special tokens do with the text around them. */
static int read_added(struct text_vocab *vocab, const struct text_vocab_source *src)
{
    bool any = false;
    vocab->how = calloc(vocab->n_tok, 1);
    if (!vocab->how) return LUTRA_E_NO_MEMORY;
    for (size_t i = 0; i < vocab->n_tok; i++) vocab->how[i] = (uint8_t)implied(src, src->tokens[i], vocab->types[i]);
    for (size_t i = 0; src->exact && i < src->n_added; i++) {
        int32_t id = src->added[2 * i];
        if (id >= 0 && (size_t)id < vocab->n_tok && is_special(vocab->types[id]))
            vocab->how[id] = (uint8_t)(src->added[2 * i + 1] & 31);
    }
    for (size_t i = 0; i < vocab->n_tok; i++) any |= vocab->how[i] != 0;
    if (any) return 0;
    free(vocab->how);
    vocab->how = NULL;
    return 0;
}

static void set_rules(struct text_vocab *vocab, const struct text_vocab_source *src)
{
    bool prepend = src->add_space_prefix != 0;
    vocab->chars = is_spm(src);
    vocab->wordpiece = is_wpm(src);
    vocab->add_sep = src->add_sep && !vocab->wordpiece;
    if (src->add_bos >= 0 && !vocab->wordpiece) vocab->add_bos = src->add_bos;
    if (src->add_eos >= 0 && !vocab->wordpiece) vocab->add_eos = src->add_eos;
    if (vocab->wordpiece) vocab->lowercase = src->lowercase >= 0 ? src->lowercase : text_wpm_is_lower(src);
    vocab->no_accents = src->strip_accents >= 0 ? src->strip_accents : vocab->lowercase;
    if (src->ignore_merges >= 0) vocab->ignore_merges = src->ignore_merges;
    vocab->nfc = src->nfc;
    vocab->spaces = src->exact ? src->spaces : prepend ? TEXT_SPACES_PREPEND : TEXT_SPACES_NONE;
    vocab->add_space_prefix = vocab->wordpiece || (vocab->chars && vocab->spaces != TEXT_SPACES_NONE);
    vocab->split_spaces = src->exact && src->split_spaces;
    vocab->no_bytes = src->exact && src->no_bytes;
    vocab->fuse_unknown = src->exact && src->fuse_unknown;
    set_ids(vocab, src);
    vocab->unknown = vocab->chars && !src->exact ? vocab->ids[TEXT_UNK] : -1;
    if (src->exact && src->unknown >= 0 && (size_t)src->unknown < vocab->n_tok) vocab->unknown = src->unknown;
}

static int fill(struct text_vocab *vocab, const struct text_vocab_source *src, struct lutra_error *err)
{
    bool listed = !spells_spaces(src) || (is_spm(src) && src->exact && src->merges);
    vocab->add_eos = is_wpm(src);
    if (spells_spaces(src))
        vocab->add_bos = true;
    else
        TRY(text_presplit_open(vocab, src->pre, err));
    vocab->n_tok = src->n_tok;
    set_rules(vocab, src);
    int rc = copy_tokens(vocab, src);
    if (rc == 0) rc = build_tables(vocab, src);
    if (rc == 0) rc = collect_eog(vocab);
    if (rc == 0) rc = read_added(vocab, src);
    if (rc == 0) rc = text_added_open(vocab);
    if (rc == 0 && is_spm(src)) rc = text_spm_open(vocab, src);
    if (rc < 0) return lutra_fail(err, rc, "out of memory for a vocabulary of %zu tokens", src->n_tok);
    return listed ? text_merges_open(vocab, src, err) : 0;
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
    text_added_fini(v);
    free(v->how);
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

bool text_vocab_adds_eos(const struct text_vocab *vocab)
{
    return vocab->add_eos && vocab->ids[TEXT_EOS] >= 0;
}

bool text_vocab_adds_sep(const struct text_vocab *vocab)
{
    return vocab->add_sep && vocab->ids[TEXT_SEP] >= 0;
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

static bool is_unused(const struct text_vocab *a, const struct text_vocab *b, int32_t id)
{
    return text_token_type(a, id) == TEXT_TOKEN_UNUSED || text_token_type(b, id) == TEXT_TOKEN_UNUSED;
}

int32_t text_vocab_common(const struct text_vocab *a, const struct text_vocab *b, int32_t except, int32_t *differs)
{
    size_t n_a = text_vocab_n_tok(a), n_b = text_vocab_n_tok(b);
    int32_t n = (int32_t)(n_a < n_b ? n_a : n_b);
    *differs = -1;
    while (n > 0 && is_unused(a, b, n - 1)) n--;
    for (int32_t i = 0; i < n && *differs < 0; i++) {
        struct text_bytes x = text_token_piece(a, i, TEXT_PIECE_SPECIAL),
                          y = text_token_piece(b, i, TEXT_PIECE_SPECIAL);
        bool same = x.n == y.n && (x.n == 0 || memcmp(x.p, y.p, x.n) == 0);
        if (!same && i != except && !is_unused(a, b, i)) *differs = i;
    }
    return n;
}

int32_t text_token_find(const struct text_vocab *vocab, const char *bytes, size_t n_bytes)
{
    uint32_t i = text_table_find(&vocab->found, &vocab->pieces, bytes, n_bytes);
    return i == TEXT_NO_SYMBOL ? -1 : (int32_t)i;
}
