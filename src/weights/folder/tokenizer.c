/* SPDX-License-Identifier: MIT
 *
 * tokenizer.json and what lies beside it as `tokenizer.` keys.
 *
 * BERT's words and their parts (WordPiece), whose first part GGUF marks, where tokenizer.json marks the others; and
 * two kinds of BPE: over bytes, with a split before (GPT-2's kind), and over characters with bytes for what is not in
 * the vocabulary (SentencePiece's kind).  GGUF keeps the second by scores: a merge's rank is that of its product's
 * first one.
 */
#include "weights/folder/folder_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 }; /* tokenizer.ggml.token_type */
#define NO_SCORE (-1e9f)                                                               /* of what no merge makes */

struct tokenizer {
    struct folder *f;
    json_t *root, *config, *generation; /* tokenizer.json; tokenizer_config.json, generation_config.json or NULL */
    const json_t *model, *vocab, *merges, *added;
    bool spm;               /* SentencePiece's kind */
    bool words;             /* BERT's */
    bool normalizes;        /* the normalizer changes text */
    struct gguf_str *token; /* [n] */
    int32_t *type;          /* [n] */
    float *score;           /* [n] */
    size_t n;
    struct names names; /* spellings made here */
};

static int wrong(const struct tokenizer *t, const char *what, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s/tokenizer.json: %s", t->f->label, what);
}

static int lacks(const struct tokenizer *t, const char *what, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s/tokenizer.json: %s: not implemented", t->f->label, what);
}

static int no_memory(const struct tokenizer *t, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s/tokenizer.json: out of memory", t->f->label);
}

static bool is(const json_t *object, const char *key, const char *value)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s && strcmp(s, value) == 0;
}

static const char *name_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "?";
}

/* ---- tokens ---- */

/* The id of an entry of vocab or added_tokens; -1: none that can be. */
static int64_t id_of(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < INT32_MAX ? json_integer_value(v)
                                                                                                 : -1;
}

/* Control tokens that makers forgot to call special. */
static bool looks_special(const char *s)
{
    size_t n = strlen(s);
    return n > 4 && ((memcmp(s, "<|", 2) == 0 && memcmp(s + n - 2, "|>", 2) == 0) || strncmp(s, "<unused", 7) == 0 ||
                        (n > 8 && memcmp(s, "<｜", 4) == 0 && memcmp(s + n - 4, "｜>", 4) == 0) ||
                        !strcmp(s, "<pad>") || !strcmp(s, "<mask>") || !strcmp(s, "<2mass>") || !strcmp(s, "[@BOS@]"));
}

static bool spells_byte(const char *s)
{
    unsigned byte;
    return strlen(s) == 6 && sscanf(s, "<0x%2X>", &byte) == 1 && s[5] == '>';
}

static void set(struct tokenizer *t, size_t id, const char *s, size_t n, int32_t type)
{
    t->token[id] = (struct gguf_str){s, n};
    t->type[id] = type;
}

/* How many ids there are: the embeddings' rows, or without them one more than the greatest. */
static int count_tokens(struct tokenizer *t, struct lutra_error *err)
{
    const char *key;
    json_t *v;
    size_t i, entries = json_object_size(t->vocab) + json_array_size(t->added);
    int64_t last = -1;
    json_object_foreach((json_t *)t->vocab, key, v)
    {
        if (id_of(v) < 0) return wrong(t, "a token without an id", err);
        if (id_of(v) > last) last = id_of(v);
    }
    json_array_foreach(t->added, i, v)
    {
        if (id_of(json_object_get(v, "id")) < 0 || !json_is_string(json_object_get(v, "content")))
            return wrong(t, "an added token without 'id' or 'content'", err);
        if (id_of(json_object_get(v, "id")) > last) last = id_of(json_object_get(v, "id"));
    }
    const struct safetensors_tensor *embd = folder_embeddings(t->f);
    uint64_t rows = embd ? embd->dim[0] : 0;
    if (last < 0) return wrong(t, "no tokens", err);
    if (rows && (uint64_t)last >= rows)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s/tokenizer.json: token %lld, and only %llu embeddings", t->f->label,
            (long long)last, (unsigned long long)rows);
    if (!rows && (uint64_t)last > 2 * entries + 1024) return wrong(t, "ids far beyond the number of tokens", err);
    if (rows > INT32_MAX) return wrong(t, "too many embeddings", err);
    t->n = rows ? (size_t)rows : (size_t)last + 1;
    return 0;
}

/* "##ing" is "ing" in GGUF, and "word" is "▁word". */
static int word_part(struct tokenizer *t, const char *s, const char **out, struct lutra_error *err)
{
    const char *start = strncmp(s, "##", 2) == 0 ? "" : "▁";
    size_t n = strlen(s) + 4;
    char *text = malloc(n);
    if (text) snprintf(text, n, "%s%s", start, *start ? s : s + 2);
    *out = text ? names_add(&t->names, text, strlen(text)) : NULL;
    free(text);
    return *out ? 0 : no_memory(t, err);
}

static int take_vocab(struct tokenizer *t, struct lutra_error *err)
{
    const char *s, *unknown = json_string_value(json_object_get(t->model, "unk_token"));
    json_t *v;
    json_object_foreach((json_t *)t->vocab, s, v)
    {
        size_t id = (size_t)id_of(v);
        if (t->token[id].s) return wrong(t, "two tokens of one id", err);
        const char *as = s;
        if (t->words) TRY(word_part(t, s, &as, err));
        bool is_unknown = t->spm && unknown && strcmp(s, unknown) == 0;
        set(t, id, as, strlen(as), is_unknown ? UNKNOWN : t->spm && spells_byte(s) ? BYTE : NORMAL);
    }
    return 0;
}

/* SentencePiece's spaces in tokens that are taken as they are spelt: "▁" becomes " ". */
static int plain_spaces(struct tokenizer *t, const char *s, const char **out, size_t *n, struct lutra_error *err)
{
    char *copy = malloc(strlen(s) + 1);
    if (!copy) return no_memory(t, err);
    for (*n = 0; *s; s += memcmp(s, "▁", strnlen(s, 3)) == 0 ? 3 : 1) copy[(*n)++] = strncmp(s, "▁", 3) == 0 ? ' ' : *s;
    *out = names_add(&t->names, copy, *n);
    free(copy);
    return *out ? 0 : no_memory(t, err);
}

static int take_added(struct tokenizer *t, struct lutra_error *err)
{
    size_t i, n;
    json_t *v;
    json_array_foreach(t->added, i, v)
    {
        size_t id = (size_t)id_of(json_object_get(v, "id"));
        const char *s = json_string_value(json_object_get(v, "content"));
        bool special = json_is_true(json_object_get(v, "special")) || looks_special(s);
        if (t->type[id] == UNKNOWN) continue;
        n = strlen(s);
        if (!special) TRY(plain_spaces(t, s, &s, &n, err));
        set(t, id, s, n, special ? CONTROL : USER_DEFINED);
    }
    return 0;
}

/* What an added token does with the text around it (enum text_added_how). */
static int32_t how_of(const struct tokenizer *t, const json_t *token)
{
    static const char *const flag[] = {"lstrip", "rstrip", "single_word"};
    const char *s = json_string_value(json_object_get(token, "content"));
    const json_t *normalized = json_object_get(token, "normalized"), *special = json_object_get(token, "special");
    int32_t how = 0;
    for (int i = 0; i < 3; i++) how |= json_is_true(json_object_get(token, flag[i])) << i;
    if (t->normalizes && (normalized ? json_is_true(normalized) : !json_is_true(special))) how |= 8;
    /* in text a space is not "▁" before it is normalized: merges make such a token */
    if (t->spm && !json_is_true(special) && strstr(s, "▁") && json_object_get(t->vocab, s)) how |= 16;
    return how;
}

static int put_added(struct tokenizer *t, struct lutra_error *err)
{
    size_t i, n = 0;
    json_t *v;
    int32_t *list = malloc((2 * json_array_size(t->added) + 1) * sizeof *list);
    if (!list) return no_memory(t, err);
    json_array_foreach(t->added, i, v)
    {
        int32_t how = how_of(t, v);
        if (how == 0) continue;
        list[n++] = (int32_t)id_of(json_object_get(v, "id"));
        list[n++] = how;
    }
    if (n > 0) gguf_writer_put_array(t->f->keys, "tokenizer.lutra.added", GGUF_I32, list, n);
    free(list);
    return 0;
}

/* Rows of the embeddings that have no token. */
static int pad(struct tokenizer *t, struct lutra_error *err)
{
    char text[32];
    for (size_t i = 0; i < t->n; i++) {
        if (t->token[i].s) continue;
        int n = snprintf(text, sizeof text, "[PAD%zu]", i);
        const char *s = names_add(&t->names, text, (size_t)n);
        if (!s) return no_memory(t, err);
        set(t, i, s, (size_t)n, UNUSED);
    }
    return 0;
}

/* ---- merges ---- */

/* The halves of a merge: "left right", parted at the first space that is not the first byte, or a pair. */
static bool halves(const json_t *merge, struct gguf_str half[2])
{
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_is_array(merge)) {
        if (json_array_size(merge) != 2 || !json_is_string(left) || !json_is_string(right)) return false;
        half[0] = (struct gguf_str){json_string_value(left), json_string_length(left)};
        half[1] = (struct gguf_str){json_string_value(right), json_string_length(right)};
    } else {
        const char *s = json_string_value(merge), *gap = s && *s ? strchr(s + 1, ' ') : NULL;
        if (!gap) return false;
        half[0] = (struct gguf_str){s, (size_t)(gap - s)};
        half[1] = (struct gguf_str){gap + 1, json_string_length(merge) - half[0].n - 1};
    }
    return half[0].n > 0 && half[1].n > 0;
}

static int bad_merge(const struct tokenizer *t, size_t i, struct lutra_error *err)
{
    return lutra_fail_at(err, LUTRA_E_FORMAT, i, "%s/tokenizer.json: merge %zu is not of two tokens", t->f->label, i);
}

/* The two halves one after the other with `gap` between, NUL-terminated; to be freed. */
static char *join(const struct gguf_str half[2], const char *gap)
{
    size_t n = half[0].n + strlen(gap) + half[1].n;
    char *text = malloc(n + 1);
    if (text) snprintf(text, n + 1, "%.*s%s%.*s", (int)half[0].n, half[0].s, gap, (int)half[1].n, half[1].s);
    return text;
}

static int score_merges(struct tokenizer *t, struct lutra_error *err)
{
    struct gguf_str half[2];
    size_t i;
    json_t *merge;
    for (i = 0; i < t->n; i++) t->score[i] = t->type[i] == NORMAL ? NO_SCORE : 0;
    json_array_foreach(t->merges, i, merge)
    {
        if (!halves(merge, half) || half[0].n > INT32_MAX || half[1].n > INT32_MAX) return bad_merge(t, i, err);
        char *product = join(half, "");
        if (!product) return no_memory(t, err);
        int64_t id = id_of(json_object_get(t->vocab, product));
        free(product);
        if (id < 0) return bad_merge(t, i, err);
        if (t->score[id] == NO_SCORE) t->score[id] = -(float)(i + 1);
    }
    return 0;
}

/* As "left right"; a space inside a half becomes its letter in the byte alphabet, as the converter has it. */
static int merge_text(struct tokenizer *t, const json_t *merge, size_t i, struct gguf_str *out, struct lutra_error *err)
{
    struct gguf_str half[2];
    if (!halves(merge, half) || half[0].n > INT32_MAX || half[1].n > INT32_MAX) return bad_merge(t, i, err);
    if (json_is_string(merge)) {
        *out = (struct gguf_str){json_string_value(merge), json_string_length(merge)};
        return 0;
    }
    if (memchr(half[0].s, ' ', half[0].n) || memchr(half[1].s, ' ', half[1].n)) return bad_merge(t, i, err);
    char *text = join(half, " ");
    size_t n = half[0].n + 1 + half[1].n;
    out->s = text ? names_add(&t->names, text, n) : NULL;
    out->n = n;
    free(text);
    return out->s ? 0 : no_memory(t, err);
}

static int put_merges(struct tokenizer *t, struct lutra_error *err)
{
    size_t i, n = json_array_size(t->merges);
    json_t *merge;
    struct gguf_str *list = malloc((n + 1) * sizeof *list);
    int rc = list ? 0 : no_memory(t, err);
    for (i = 0; rc == 0 && i < n; i++) {
        merge = json_array_get(t->merges, i);
        rc = merge_text(t, merge, i, &list[i], err);
    }
    if (rc == 0) gguf_writer_put_strs(t->f->keys, "tokenizer.ggml.merges", list, n);
    free(list);
    return rc;
}

/* ---- what kind it is ---- */

static bool has_byte_level(const json_t *step)
{
    size_t i;
    json_t *part;
    if (is(step, "type", "ByteLevel")) return true;
    json_array_foreach(json_object_get(step, "pretokenizers"), i, part) if (is(part, "type", "ByteLevel")) return true;
    return false;
}

static bool replaces_spaces(const json_t *step)
{
    return is(step, "type", "Replace") && is(step, "content", "▁") &&
           is(json_object_get(step, "pattern"), "String", " ");
}

/* What a Metaspace step does with spaces in front. */
static const char *metaspace_scheme(const json_t *step)
{
    const json_t *scheme = json_object_get(step, "prepend_scheme");
    if (json_is_false(json_object_get(step, "add_prefix_space")) || is(step, "prepend_scheme", "never")) return "none";
    return is(step, "prepend_scheme", "first")               ? "first"
           : !scheme || is(step, "prepend_scheme", "always") ? "always"
                                                             : NULL;
}

/* Of SentencePiece's kind: "▁" for spaces, maybe one more in front.  false: something else, too. */
static bool read_spaces(struct tokenizer *t, const char **scheme, bool *split)
{
    const json_t *normalizer = json_object_get(t->root, "normalizer"), *pre = json_object_get(t->root, "pre_tokenizer");
    const json_t *list = json_object_get(normalizer, "normalizers"), *part;
    bool replaced = false;
    *scheme = "none";
    *split = false;
    for (size_t i = 0, n = list ? json_array_size(list) : json_is_object(normalizer); i < n; i++) {
        part = list ? json_array_get(list, i) : normalizer;
        if (is(part, "type", "Prepend") && is(part, "prepend", "▁"))
            *scheme = "prepend";
        else if (replaces_spaces(part))
            replaced = true;
        else
            return false;
        t->normalizes = true;
    }
    if (is(pre, "type", "Metaspace")) {
        if (strcmp(*scheme, "prepend") != 0) *scheme = metaspace_scheme(pre);
        *split = !json_is_false(json_object_get(pre, "split")); /* a missing one is true */
        return *scheme && is(pre, "replacement", "▁");
    }
    /* Gemma's splits at spaces that its normalizer has left none of. */
    bool idle = is(pre, "type", "Split") && is(json_object_get(pre, "pattern"), "String", " ");
    return replaced && (idle || !json_is_object(pre));
}

/* Of byte-level BPE: none, or NFC, maybe in lists. */
static int read_normalizer(const struct tokenizer *t, const json_t *normalizer, bool *nfc, struct lutra_error *err)
{
    size_t i;
    json_t *part;
    if (!json_is_object(normalizer)) return 0;
    if (is(normalizer, "type", "NFC"))
        *nfc = true;
    else if (!is(normalizer, "type", "Sequence"))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s/tokenizer.json: normalizer '%s' is not implemented",
            t->f->label, show_name(name_of(normalizer, "type")).s);
    json_array_foreach(json_object_get(normalizer, "normalizers"), i, part)
    {
        if (is(part, "type", "Sequence")) return lacks(t, "a normalizer in lists of lists", err);
        TRY(read_normalizer(t, part, nfc, err));
    }
    return 0;
}

/* Whether each byte's letter is a token: of the 256, the bytes that are no part of UTF-8 may lack. */
static bool spells_all_bytes(const struct tokenizer *t)
{
    char letter[3];
    for (unsigned i = 0; i < 256; i++) {
        unsigned next = i < 33 ? 256 + i : i < 127 ? i : i < 161 ? 256 + 33 + i - 127 : i == 173 ? 256 + 67 : i;
        if (i >= 0xF5 || i == 0xC0 || i == 0xC1) continue;
        snprintf(letter, sizeof letter, next < 128 ? "%c" : "%c%c", next < 128 ? (int)next : (int)(0xC0 | next >> 6),
            (int)(0x80 | (next & 63)));
        if (!json_object_get(t->vocab, letter)) return false;
    }
    return true;
}

/* Byte-level BPE. */
static int put_byte_level(struct tokenizer *t, const json_t *pre_tokenizer, struct lutra_error *err)
{
    bool nfc = false, ignore = json_is_true(json_object_get(t->model, "ignore_merges"));
    const char *pre = NULL;
    TRY(read_normalizer(t, json_object_get(t->root, "normalizer"), &nfc, err));
    TRY(folder_split_name(t->f, pre_tokenizer, ignore, &pre, err));
    if (json_is_true(json_object_get(t->model, "byte_fallback")) && !spells_all_bytes(t))
        return lacks(t, "'byte_fallback' beside a byte-level alphabet that is not whole", err);
    t->normalizes = nfc;
    if (nfc) gguf_writer_put_str(t->f->keys, "tokenizer.lutra.normalizer", "NFC");
    return gguf_writer_put_str(t->f->keys, "tokenizer.ggml.pre", pre);
}

/* What both kinds have, and GGUF no key for. */
static void put_rules(struct tokenizer *t)
{
    const char *unknown = json_string_value(json_object_get(t->model, "unk_token"));
    int64_t id = unknown ? id_of(json_object_get(t->vocab, unknown)) : -1;
    bool ignore = json_is_true(json_object_get(t->model, "ignore_merges"));
    gguf_writer_put_bool(t->f->keys, "tokenizer.lutra.ignore_merges", ignore);
    if (id >= 0) gguf_writer_put_u32(t->f->keys, "tokenizer.lutra.unknown_token_id", (uint32_t)id);
    if (id >= 0 && json_is_true(json_object_get(t->model, "fuse_unk")))
        gguf_writer_put_bool(t->f->keys, "tokenizer.lutra.fuse_unknown", true);
}

/* BERT's: what its normalizer does is GGUF's, but for two choices. */
static int put_words(struct tokenizer *t, struct lutra_error *err)
{
    const json_t *normalizer = json_object_get(t->root, "normalizer");
    const json_t *accents = json_object_get(normalizer, "strip_accents");
    const json_t *longest = json_object_get(t->model, "max_input_chars_per_word");
    bool lower = json_is_true(json_object_get(normalizer, "lowercase"));
    if (!is(normalizer, "type", "BertNormalizer") || json_is_false(json_object_get(normalizer, "clean_text")) ||
        json_is_false(json_object_get(normalizer, "handle_chinese_chars")))
        return lacks(t, "another normalizer than BERT's", err);
    if (!is(json_object_get(t->root, "pre_tokenizer"), "type", "BertPreTokenizer"))
        return lacks(t, "another pre_tokenizer than BERT's", err);
    if (longest && json_integer_value(longest) != 100) return lacks(t, "'max_input_chars_per_word'", err);
    gguf_writer_put_str(t->f->keys, "tokenizer.ggml.model", "bert");
    gguf_writer_put_bool(t->f->keys, "tokenizer.ggml.normalizer.lowercase", lower);
    return gguf_writer_put_bool(t->f->keys, "tokenizer.ggml.normalizer.strip_accents",
        json_is_boolean(accents) ? json_is_true(accents) : lower);
}

static int put_kind(struct tokenizer *t, struct lutra_error *err)
{
    const json_t *pre_tokenizer = json_object_get(t->root, "pre_tokenizer");
    const json_t *told = json_object_get(t->config, "add_prefix_space");
    const char *scheme;
    bool split;
    if (t->words) return put_words(t, err);
    t->spm = !has_byte_level(pre_tokenizer);
    put_rules(t);
    gguf_writer_put_str(t->f->keys, "tokenizer.ggml.model", t->spm ? "llama" : "gpt2");
    if (!t->spm) return put_byte_level(t, pre_tokenizer, err);
    if (!read_spaces(t, &scheme, &split)) return lacks(t, "its normalizer or pre_tokenizer", err);
    if (json_is_false(told)) scheme = "none";
    if (json_is_true(told) && strcmp(scheme, "none") == 0) scheme = "prepend";
    gguf_writer_put_bool(t->f->keys, "tokenizer.ggml.add_space_prefix", strcmp(scheme, "none") != 0);
    gguf_writer_put_str(t->f->keys, "tokenizer.lutra.spaces", scheme);
    if (split) gguf_writer_put_bool(t->f->keys, "tokenizer.lutra.split_spaces", true);
    if (!json_is_true(json_object_get(t->model, "byte_fallback")))
        gguf_writer_put_bool(t->f->keys, "tokenizer.lutra.byte_fallback", false);
    return gguf_writer_put_str(t->f->keys, "tokenizer.ggml.pre", "default");
}

static int find_parts(struct tokenizer *t, struct lutra_error *err)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    t->words = t->f->family->flags & FAMILY_WORDS;
    t->model = json_object_get(t->root, "model");
    t->vocab = json_object_get(t->model, "vocab");
    t->merges = json_object_get(t->model, "merges");
    t->added = json_object_get(t->root, "added_tokens");
    if (t->words) {
        const json_t *prefix = json_object_get(t->model, affixes[0]);
        if (!is(t->model, "type", "WordPiece") || !json_is_object(t->vocab)) return lacks(t, "no WordPiece", err);
        return !prefix || is(t->model, affixes[0], "##") ? 0 : lacks(t, "parts of words without '##'", err);
    }
    if (json_object_get(t->model, "type") && !is(t->model, "type", "BPE"))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s/tokenizer.json: a vocabulary of kind '%s' is not implemented",
            t->f->label, show_name(name_of(t->model, "type")).s);
    if (!json_is_object(t->vocab) || !json_is_array(t->merges)) return wrong(t, "no 'vocab' or no 'merges'", err);
    for (int i = 0; i < 2; i++) {
        const char *affix = json_string_value(json_object_get(t->model, affixes[i]));
        if (affix && *affix) return lacks(t, "marks at the borders of words", err);
    }
    return 0;
}

/* ---- special ids ---- */

/* The id of a token that tokenizer_config.json spells, or that the other files number; -1: none. */
static int64_t special_id(const struct tokenizer *t, const char *spelt, const char *numbered)
{
    json_t *v = json_object_get(t->config, spelt), *part;
    const char *text = json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
    size_t i;
    int64_t id = -1;
    json_array_foreach(t->added, i, part) if (text && is(part, "content", text)) return id_of(
        json_object_get(part, "id"));
    if (text) id = id_of(json_object_get(t->vocab, text));
    v = json_object_get(t->generation, numbered);
    if (id < 0 && (!v || json_is_null(v))) v = config_get(t->f, numbered);
    if (json_is_array(v)) v = json_array_get(v, 0);
    if (id < 0) id = id_of(v);
    return id < (int64_t)t->n ? id : -1;
}

static void put_id(struct tokenizer *t, const char *name, int64_t id)
{
    char key[64];
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    if (id >= 0) gguf_writer_put_u32(t->f->keys, key, (uint32_t)id);
}

/* generation_config.json may name several ends; GGUF has a key for the end of a turn and one for that of a message. */
static void put_ends(struct tokenizer *t, int64_t eos)
{
    static const char *const more[] = {"eot", "eom"};
    const json_t *list = json_object_get(t->generation, "eos_token_id");
    size_t n_put = 0;
    if (!json_is_array(list)) list = config_get(t->f, "eos_token_id");
    put_id(t, "eos", eos);
    for (size_t i = 0; i < json_array_size(list) && n_put < 2; i++) {
        int64_t id = id_of(json_array_get(list, i));
        if (id >= 0 && id < (int64_t)t->n && id != eos) put_id(t, more[n_put++], id);
    }
}

/* How its makers sample, as llama.cpp's keys have it; greedy (`do_sample` false) is nobody's wish for chat, and has
 * none. */
static void put_sampling(struct tokenizer *t)
{
    static const struct {
        const char *from, *to;
    } settings[] = {{"temperature", "temp"}, {"top_k", "top_k"}, {"top_p", "top_p"}, {"min_p", "min_p"},
        {"repetition_penalty", "penalty_repeat"}};
    char key[64];
    if (json_is_false(json_object_get(t->generation, "do_sample"))) return;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const json_t *v = json_object_get(t->generation, settings[i].from);
        double x = json_number_value(v);
        snprintf(key, sizeof key, "general.sampling.%s", settings[i].to);
        if (!(x >= 0 && x <= 1e6)) continue;
        if (json_is_integer(v) && strcmp(settings[i].to, "top_k") == 0)
            gguf_writer_put_u32(t->f->keys, key, (uint32_t)x);
        else if (json_is_number(v))
            gguf_writer_put_f32(t->f->keys, key, (float)x);
    }
}

static const json_t *find_template(const json_t *step)
{
    size_t i;
    json_t *part;
    if (is(step, "type", "TemplateProcessing")) return json_object_get(step, "single");
    json_array_foreach(json_object_get(step, "processors"), i, part)
    {
        const json_t *found = find_template(part);
        if (found) return found;
    }
    return NULL;
}

/* The id of a template's special token; -1: it is the text. */
static int64_t template_id(const struct tokenizer *t, const json_t *item)
{
    const char *text = json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
    size_t i;
    json_t *part;
    json_array_foreach(t->added, i, part) if (text && is(part, "content", text)) return id_of(
        json_object_get(part, "id"));
    return text ? INT32_MAX : -1;
}

/* What is put around text: as the post-processor says, or else tokenizer_config.json. */
static int put_around(struct tokenizer *t, int64_t bos, int64_t eos, struct lutra_error *err)
{
    const json_t *single = find_template(json_object_get(t->root, "post_processor"));
    bool before = json_is_true(json_object_get(t->config, "add_bos_token")), behind = false, text = false;
    if (t->spm && !json_object_get(t->config, "add_bos_token")) before = true;
    behind = json_is_true(json_object_get(t->config, "add_eos_token"));
    if (single) before = behind = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        int64_t id = template_id(t, json_array_get(single, i));
        if (id < 0)
            text = true;
        else if (id == bos && !text)
            before = true;
        else if (id == eos && text)
            behind = true;
        else
            return lacks(t, "a post_processor that adds other tokens than bos and eos", err);
    }
    gguf_writer_put_bool(t->f->keys, "tokenizer.ggml.add_bos_token", before);
    return gguf_writer_put_bool(t->f->keys, "tokenizer.ggml.add_eos_token", behind);
}

/* BERT's: [CLS] text [SEP], always. */
static int put_word_ids(struct tokenizer *t, struct lutra_error *err)
{
    static const char *const names[][3] = {{"padding", "pad_token", "pad_token_id"}, {"unknown", "unk_token", ""},
        {"cls", "cls_token", ""}, {"seperator", "sep_token", ""}, {"mask", "mask_token", ""}};
    const json_t *post = json_object_get(t->root, "post_processor"), *single = find_template(post);
    int64_t id[5];
    for (int i = 0; i < 5; i++) put_id(t, names[i][0], id[i] = special_id(t, names[i][1], names[i][2]));
    bool usual = json_array_size(single) == 3 && template_id(t, json_array_get(single, 0)) == id[2] &&
                 template_id(t, json_array_get(single, 1)) == -1 && template_id(t, json_array_get(single, 2)) == id[3];
    if (id[1] < 0 || id[2] < 0 || id[3] < 0)
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s/tokenizer_config.json: no 'unk_token', 'cls_token' or 'sep_token'", t->f->label);
    if (!usual && !is(post, "type", "BertProcessing")) return lacks(t, "a post_processor other than BERT's", err);
    put_id(t, "bos", id[2]);
    return 0;
}

/* ---- templates ---- */

/* A string, or a list of named ones. */
static void put_templates(struct tokenizer *t, const json_t *v)
{
    size_t i;
    json_t *part;
    char key[96];
    if (json_is_string(v)) gguf_writer_put_str(t->f->keys, "tokenizer.chat_template", json_string_value(v));
    json_array_foreach(v, i, part)
    {
        const char *name = name_of(part, "name"), *text = json_string_value(json_object_get(part, "template"));
        bool usual = strcmp(name, "default") == 0;
        snprintf(key, sizeof key, "tokenizer.chat_template%s%s", usual ? "" : ".", usual ? "" : name);
        if (text && strlen(name) < 64) gguf_writer_put_str(t->f->keys, key, text);
    }
}

static int read_template(struct tokenizer *t, struct lutra_error *err)
{
    json_t *text, *file = NULL;
    TRY(folder_text(t->f, "chat_template.jinja", &text, err));
    int rc = text ? 0 : folder_json(t->f, "chat_template.json", true, &file, err);
    if (rc == 0 && text)
        put_templates(t, text);
    else if (rc == 0)
        put_templates(t, json_object_get(file ? file : t->config, "chat_template"));
    json_decref(text);
    json_decref(file);
    return rc;
}

/* ---- all of it ---- */

static int put_tokens(struct tokenizer *t, struct lutra_error *err)
{
    t->token = calloc(t->n, sizeof *t->token);
    t->type = calloc(t->n, sizeof *t->type);
    t->score = calloc(t->n, sizeof *t->score);
    if (!t->token || !t->type || !t->score) return no_memory(t, err);
    TRY(take_vocab(t, err));
    TRY(take_added(t, err));
    TRY(pad(t, err));
    gguf_writer_put_strs(t->f->keys, "tokenizer.ggml.tokens", t->token, t->n);
    gguf_writer_put_array(t->f->keys, "tokenizer.ggml.token_type", GGUF_I32, t->type, t->n);
    if (t->words) return 0;
    TRY(put_added(t, err));
    TRY(put_merges(t, err));
    if (!t->spm) return 0;
    TRY(score_merges(t, err));
    return gguf_writer_put_array(t->f->keys, "tokenizer.ggml.scores", GGUF_F32, t->score, t->n);
}

static int read_all(struct tokenizer *t, struct lutra_error *err)
{
    struct folder *f = t->f;
    TRY(folder_json(f, "tokenizer.json", false, &t->root, err));
    TRY(folder_json(f, "tokenizer_config.json", true, &t->config, err));
    TRY(folder_json(f, "generation_config.json", true, &t->generation, err));
    TRY(find_parts(t, err));
    TRY(put_kind(t, err));
    TRY(count_tokens(t, err));
    TRY(put_tokens(t, err));
    if (t->words) return put_word_ids(t, err);
    int64_t bos = special_id(t, "bos_token", "bos_token_id"), eos = special_id(t, "eos_token", "eos_token_id");
    put_id(t, "bos", bos);
    put_ends(t, eos);
    put_sampling(t);
    put_id(t, "padding", special_id(t, "pad_token", "pad_token_id"));
    if (t->spm) put_id(t, "unknown", special_id(t, "unk_token", "unk_token_id"));
    TRY(put_around(t, bos, eos, err));
    return read_template(t, err);
}

int folder_read_tokenizer(struct folder *f, struct lutra_error *err)
{
    struct tokenizer t = {.f = f};
    int rc = read_all(&t, err);
    json_decref(t.root);
    json_decref(t.config);
    json_decref(t.generation);
    names_fini(&t.names);
    free(t.token);
    free(t.type);
    free(t.score);
    return rc;
}
