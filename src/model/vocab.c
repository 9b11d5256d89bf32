/* SPDX-License-Identifier: MIT
 *
 * The vocabulary of a GGUF file: its `tokenizer.ggml` keys, handed to the text room.
 */
#include "model/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A string key as a NUL-terminated copy in buf; the fallback when it is absent. */
static int short_string(
    const struct weights *w, const char *key, const char *fallback, char *buf, size_t n_buf, struct lutra_error *err)
{
    struct gguf_str s = {fallback, strlen(fallback)};
    TRY(weights_opt_str(w, key, &s, err));
    if (s.n >= n_buf || memchr(s.s, 0, s.n))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' is not a name", weights_path(w), key);
    memcpy(buf, s.s, s.n);
    buf[s.n] = 0;
    return 0;
}

static int special_id(const struct weights *w, const char *key, int32_t *id, struct lutra_error *err)
{
    uint32_t value = UINT32_MAX; /* some writers use it for none */
    TRY(weights_opt_u32(w, key, &value, err));
    *id = value > INT32_MAX ? -1 : (int32_t)value;
    return 0;
}

/* A bool key; *out stays -1, nothing said, where it is absent. */
static int said(const struct weights *w, const char *key, int *out, struct lutra_error *err)
{
    bool value = false;
    TRY(weights_opt_bool(w, key, &value, err));
    if (weights_kv_find(w, key)) *out = value;
    return 0;
}

static int string_array(const struct weights *w, const char *key, bool optional, struct text_bytes **out, size_t *n,
    struct lutra_error *err)
{
    *out = NULL;
    *n = 0;
    if (optional && !weights_kv_find(w, key)) return 0;
    const struct gguf_kv *kv;
    TRY(weights_get_array(w, key, GGUF_STRING, &kv, err));
    struct text_bytes *list = malloc((kv->n ? kv->n : 1) * sizeof *list);
    if (!list) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory for '%s'", weights_path(w), key);
    for (uint64_t i = 0; i < kv->n; i++) {
        struct gguf_str s = gguf_kv_str(kv, i);
        list[i] = (struct text_bytes){s.s, s.n};
    }
    *out = list;
    *n = kv->n;
    return 0;
}

struct vocab_arrays {
    struct text_bytes *tokens, *merges;
    int32_t *types, *added;
    float *scores;
};

static int read_types(const struct weights *w, size_t n_tok, struct vocab_arrays *a, struct lutra_error *err)
{
    static const char key[] = "tokenizer.ggml.token_type";
    if (!weights_kv_find(w, key)) return 0;
    uint64_t n;
    a->types = malloc((n_tok ? n_tok : 1) * sizeof *a->types);
    if (!a->types) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory for '%s'", weights_path(w), key);
    TRY(weights_copy_i32(w, key, a->types, n_tok, &n, err));
    if (n != n_tok)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' has %llu entries for %zu tokens", weights_path(w), key,
            (unsigned long long)n, n_tok);
    return 0;
}

static int read_scores(const struct weights *w, size_t n_tok, struct vocab_arrays *a, struct lutra_error *err)
{
    static const char key[] = "tokenizer.ggml.scores";
    if (!weights_kv_find(w, key)) return 0;
    uint64_t n;
    a->scores = malloc((n_tok ? n_tok : 1) * sizeof *a->scores);
    if (!a->scores) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory for '%s'", weights_path(w), key);
    TRY(weights_copy_f32(w, key, a->scores, n_tok, &n, err));
    if (n != n_tok)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' has %llu entries for %zu tokens", weights_path(w), key,
            (unsigned long long)n, n_tok);
    return 0;
}

/* bitnet.cpp's files do not say how text is split; their models have Llama 3's vocabulary. */
static int read_split(const struct weights *w, char *out, size_t room, struct lutra_error *err)
{
    char arch[64];
    TRY(short_string(w, "general.architecture", "", arch, sizeof arch, err));
    bool as_llama3 = strncmp(arch, "bitnet-", 7) == 0;
    return short_string(w, "tokenizer.ggml.pre", as_llama3 ? "llama-bpe" : "", out, room, err);
}

static int read_spaces(const struct weights *w, struct text_vocab_source *src, struct lutra_error *err)
{
    static const char *const names[] = {"prepend", "none", "first", "always"}; /* enum text_spaces */
    char spaces[16];
    TRY(short_string(w, "tokenizer.lutra.spaces", "prepend", spaces, sizeof spaces, err));
    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i], spaces) != 0) continue;
        src->spaces = (enum text_spaces)i;
        return 0;
    }
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "%s: tokenizer.lutra.spaces '%s' is not implemented", weights_path(w), spaces);
}

static int read_exact(
    const struct weights *w, struct text_vocab_source *src, struct vocab_arrays *a, struct lutra_error *err)
{
    static const char key[] = "tokenizer.lutra.added";
    const struct gguf_kv *kv = weights_kv_find(w, key);
    uint64_t n = 0;
    bool bytes = true;
    TRY(read_spaces(w, src, err));
    TRY(special_id(w, "tokenizer.lutra.unknown_token_id", &src->unknown, err));
    TRY(weights_opt_bool(w, "tokenizer.lutra.fuse_unknown", &src->fuse_unknown, err));
    TRY(weights_opt_bool(w, "tokenizer.lutra.split_spaces", &src->split_spaces, err));
    TRY(weights_opt_bool(w, "tokenizer.lutra.byte_fallback", &bytes, err));
    src->no_bytes = !bytes;
    if (!kv) return 0;
    TRY(weights_get_array(w, key, GGUF_I32, &kv, err));
    a->added = malloc((kv->n + 1) * sizeof *a->added);
    if (!a->added) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory for '%s'", weights_path(w), key);
    TRY(weights_copy_i32(w, key, a->added, kv->n, &n, err));
    src->added = a->added;
    src->n_added = n / 2;
    return 0;
}

/* What a folder's tokenizer.json says and GGUF has no key for (weights/folder/tokenizer.c). */
static int read_own(
    const struct weights *w, struct text_vocab_source *src, struct vocab_arrays *a, struct lutra_error *err)
{
    char normalizer[16];
    TRY(short_string(w, "tokenizer.lutra.normalizer", "", normalizer, sizeof normalizer, err));
    if (*normalizer && strcmp(normalizer, "NFC") != 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: tokenizer.lutra.normalizer '%s' is not implemented",
            weights_path(w), normalizer);
    src->nfc = *normalizer;
    TRY(said(w, "tokenizer.lutra.ignore_merges", &src->ignore_merges, err));
    src->exact = src->ignore_merges >= 0; /* a folder always says it */
    return src->exact ? read_exact(w, src, a, err) : 0;
}

static int read_vocab(
    struct text_vocab **vocab, const struct weights *w, struct vocab_arrays *a, struct lutra_error *err)
{
    struct text_vocab_source src = text_vocab_source_default();
    char name[64], pre[64], model[128];
    struct gguf_str called = {"", 0};
    TRY(short_string(w, "tokenizer.ggml.model", "", name, sizeof name, err));
    TRY(read_split(w, pre, sizeof pre, err));
    TRY(weights_opt_str(w, "general.name", &called, err));
    snprintf(model, sizeof model, "%.*s", (int)(called.n < sizeof model ? called.n : sizeof model - 1), called.s);
    src.name = model;
    src.model = name;
    src.pre = pre;
    TRY(string_array(w, "tokenizer.ggml.tokens", false, &a->tokens, &src.n_tok, err));
    TRY(string_array(w, "tokenizer.ggml.merges", true, &a->merges, &src.n_merge, err));
    TRY(read_types(w, src.n_tok, a, err));
    if (!strcmp(name, "llama")) TRY(read_scores(w, src.n_tok, a, err));
    src.tokens = a->tokens;
    src.merges = a->merges;
    src.types = a->types;
    src.scores = a->scores;
    TRY(special_id(w, "tokenizer.ggml.bos_token_id", &src.bos, err));
    TRY(special_id(w, "tokenizer.ggml.eos_token_id", &src.eos, err));
    TRY(special_id(w, "tokenizer.ggml.eot_token_id", &src.eot, err));
    TRY(special_id(w, "tokenizer.ggml.eom_token_id", &src.eom, err));
    TRY(special_id(w, "tokenizer.ggml.padding_token_id", &src.pad, err));
    TRY(special_id(w, "tokenizer.ggml.unknown_token_id", &src.unk, err));
    TRY(special_id(w, "tokenizer.ggml.fim_pad_token_id", &src.fim_pad, err));
    TRY(special_id(w, "tokenizer.ggml.fim_rep_token_id", &src.fim_rep, err));
    TRY(special_id(w, "tokenizer.ggml.fim_sep_token_id", &src.fim_sep, err));
    TRY(special_id(w, "tokenizer.ggml.seperator_token_id", &src.sep, err));
    if (!strcmp(name, "bert") && src.bos < 0) TRY(special_id(w, "tokenizer.ggml.cls_token_id", &src.bos, err));
    TRY(weights_opt_bool(w, "tokenizer.ggml.add_sep_token", &src.add_sep, err));
    TRY(said(w, "tokenizer.ggml.normalizer.lowercase", &src.lowercase, err));
    TRY(said(w, "tokenizer.ggml.normalizer.strip_accents", &src.strip_accents, err));
    TRY(said(w, "tokenizer.ggml.add_bos_token", &src.add_bos, err));
    TRY(said(w, "tokenizer.ggml.add_eos_token", &src.add_eos, err));
    TRY(said(w, "tokenizer.ggml.add_space_prefix", &src.add_space_prefix, err));
    TRY(read_own(w, &src, a, err));
    struct lutra_error why = {0};
    int rc = text_vocab_open(vocab, &src, &why);
    if (rc < 0) return lutra_fail_at(err, rc, why.where, "%s: tokenizer: %s", weights_path(w), why.what);
    return 0;
}

int vocab_read(struct text_vocab **out, const struct weights *w, struct lutra_error *err)
{
    struct vocab_arrays a = {0};
    *out = NULL;
    int rc = read_vocab(out, w, &a, err);
    free(a.tokens);
    free(a.merges);
    free(a.types);
    free(a.added);
    free(a.scores);
    return rc;
}
