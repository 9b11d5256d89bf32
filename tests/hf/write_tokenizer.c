/* SPDX-License-Identifier: MIT
 *
 * tokenizer.json and tokenizer_config.json of a folder.
 */
#include "hf/write_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gguf_str token_at(const struct weights *w, uint64_t id)
{
    return gguf_kv_str(weights_kv_find(w, "tokenizer.ggml.tokens"), id);
}

static int64_t token_type(const struct weights *w, uint64_t id)
{
    const struct gguf_kv *kv = weights_kv_find(w, "tokenizer.ggml.token_type");
    int64_t type = 1;
    if (kv) gguf_kv_i64(kv, id, &type);
    return type;
}

static bool string_is(const struct weights *w, const char *key, const char *value)
{
    struct gguf_str s = {"", 0};
    weights_opt_str(w, key, &s, NULL);
    return s.n == strlen(value) && memcmp(s.s, value, s.n) == 0;
}

static json_t *merge_of(const char *left, size_t n_left, const char *right, size_t n_right, bool pair)
{
    char text[2048];
    if (pair) return json_pack("[s%s%]", left, n_left, right, n_right);
    int n = snprintf(text, sizeof text, "%.*s %.*s", (int)n_left, left, (int)n_right, right);
    return json_stringn(text, (size_t)n);
}

static json_t *listed_merges(const struct weights *w, bool pair)
{
    const struct gguf_kv *kv = weights_kv_find(w, "tokenizer.ggml.merges");
    json_t *list = json_array();
    for (uint64_t i = 0; kv && i < kv->n; i++) {
        struct gguf_str s = gguf_kv_str(kv, i);
        const char *gap = memchr(s.s + 1, ' ', s.n - 1);
        size_t left = (size_t)(gap - s.s);
        json_array_append_new(list, merge_of(s.s, left, gap + 1, s.n - left - 1, pair));
    }
    return list;
}

struct scored {
    double score;
    int64_t left, right;
    json_t *merge;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return x->right < y->right ? -1 : x->right > y->right;
}

/* SentencePiece's: every way to put a token together from two others, best tokens first. */
static json_t *scored_merges(const struct weights *w, const json_t *vocab, bool pair)
{
    const struct gguf_kv *scores = weights_kv_find(w, "tokenizer.ggml.scores");
    size_t n = 0, room = 1 << 20;
    struct scored *all = malloc(room * sizeof *all);
    json_t *list = json_array();
    char half[2][1024];
    for (uint64_t id = 0; id < scores->n; id++) {
        struct gguf_str s = token_at(w, id);
        double score;
        if (token_type(w, id) != 1 || s.n >= sizeof half[0]) continue;
        gguf_kv_f64(scores, id, &score);
        for (size_t cut = 1; cut < s.n && n < room; cut++) {
            if ((s.s[cut] & 0xc0) == 0x80) continue;
            snprintf(half[0], sizeof half[0], "%.*s", (int)cut, s.s);
            snprintf(half[1], sizeof half[1], "%.*s", (int)(s.n - cut), s.s + cut);
            json_t *left = json_object_get(vocab, half[0]), *right = json_object_get(vocab, half[1]);
            if (!left || !right) continue;
            all[n++] = (struct scored){score, json_integer_value(left), json_integer_value(right),
                merge_of(s.s, cut, s.s + cut, s.n - cut, pair)};
        }
    }
    qsort(all, n, sizeof *all, by_score);
    for (size_t i = 0; i < n; i++) json_array_append_new(list, all[i].merge);
    free(all);
    return list;
}

#define ENGLISH "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static json_t *pre_tokenizer(const struct weights *w)
{
    const char *regex = NULL;
    json_t *bytes = json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 1);
    if (string_is(w, "tokenizer.ggml.pre", "llama-bpe"))
        regex = ENGLISH "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" REST;
    if (string_is(w, "tokenizer.ggml.pre", "qwen2")) regex = ENGLISH "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" REST;
    if (string_is(w, "tokenizer.ggml.pre", "starcoder"))
        return json_pack("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Digits",
            "individual_digits", 1, bytes);
    if (!regex) return bytes;
    json_object_set_new(bytes, "use_regex", json_false());
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
        "pattern", "Regex", regex, "behavior", "Isolated", "invert", 0, bytes);
}

static bool bool_of(const struct weights *w, const char *key, bool otherwise)
{
    weights_opt_bool(w, key, &otherwise, NULL);
    return otherwise;
}

static json_t *special_token(const struct weights *w, const char *key)
{
    uint32_t id = UINT32_MAX;
    weights_opt_u32(w, key, &id, NULL);
    if (id == UINT32_MAX) return NULL;
    struct gguf_str s = token_at(w, id);
    return json_stringn(s.s, s.n);
}

static json_t *post_processor(const struct weights *w, bool spm)
{
    json_t *bos = special_token(w, "tokenizer.ggml.bos_token_id");
    json_t *text = json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0), *single;
    if (bos && bool_of(w, "tokenizer.ggml.add_bos_token", spm))
        single = json_pack("[{s:{s:O, s:i}}, o]", "SpecialToken", "id", bos, "type_id", 0, text);
    else
        single = json_pack("[o]", text);
    json_decref(bos);
    return json_pack("{s:s, s:o}", "type", "TemplateProcessing", "single", single);
}

/* BERT's. */
static json_t *word_pieces(const struct weights *w)
{
    const struct gguf_kv *tokens = weights_kv_find(w, "tokenizer.ggml.tokens");
    json_t *vocab = json_object(), *added = json_array();
    for (uint64_t id = 0; id < tokens->n; id++) {
        struct gguf_str s = token_at(w, id);
        char name[1024];
        bool control = token_type(w, id) == 3, first = s.n >= 3 && memcmp(s.s, "▁", 3) == 0;
        size_t skip = first ? 3 : 0;
        snprintf(name, sizeof name, "%s%.*s", control || first ? "" : "##", (int)(s.n - skip), s.s + skip);
        json_object_set_new(vocab, name, json_integer((json_int_t)id));
        if (control)
            json_array_append_new(
                added, json_pack("{s:I, s:s, s:b}", "id", (json_int_t)id, "content", name, "special", 1));
    }
    json_t *single = json_pack("[{s:{s:s, s:i}}, {s:{s:s, s:i}}, {s:{s:s, s:i}}]", "SpecialToken", "id", "[CLS]",
        "type_id", 0, "Sequence", "id", "A", "type_id", 0, "SpecialToken", "id", "[SEP]", "type_id", 0);
    return json_pack("{s:s, s:o, s:{s:s, s:b, s:b, s:n, s:b}, s:{s:s}, s:{s:s, s:o}, s:{s:s, s:s, s:s, s:i, s:o}}",
        "version", "1.0", "added_tokens", added, "normalizer", "type", "BertNormalizer", "clean_text", 1,
        "handle_chinese_chars", 1, "strip_accents", "lowercase", 1, "pre_tokenizer", "type", "BertPreTokenizer",
        "post_processor", "type", "TemplateProcessing", "single", single, "model", "type", "WordPiece", "unk_token",
        "[UNK]", "continuing_subword_prefix", "##", "max_input_chars_per_word", 100, "vocab", vocab);
}

static json_t *tokenizer_of(const struct weights *w, const struct hf_form *form)
{
    if (string_is(w, "tokenizer.ggml.model", "bert")) return word_pieces(w);
    bool spm = string_is(w, "tokenizer.ggml.model", "llama");
    const struct gguf_kv *tokens = weights_kv_find(w, "tokenizer.ggml.tokens");
    json_t *vocab = json_object(), *added = json_array();
    for (uint64_t id = 0; id < tokens->n; id++) {
        struct gguf_str s = token_at(w, id);
        int64_t type = token_type(w, id);
        char name[1024];
        snprintf(name, sizeof name, "%.*s", (int)s.n, s.s);
        if (type != 3 && type != 4 && type != 5) json_object_set_new(vocab, name, json_integer((json_int_t)id));
        if (type == 2 || type == 3 || type == 4)
            json_array_append_new(
                added, json_pack("{s:I, s:s, s:b}", "id", (json_int_t)id, "content", name, "special", type != 4));
    }
    json_t *model = json_pack("{s:s, s:o, s:o, s:b, s:b}", "type", "BPE", "vocab", vocab, "merges",
        spm ? scored_merges(w, vocab, form->merge_pairs) : listed_merges(w, form->merge_pairs), "byte_fallback", spm,
        "ignore_merges", string_is(w, "tokenizer.ggml.pre", "llama-bpe"));
    if (spm) json_object_set_new(model, "unk_token", json_string("<unk>"));
    json_t *o = json_pack("{s:s, s:o, s:o, s:o}", "version", "1.0", "added_tokens", added, "post_processor",
        post_processor(w, spm), "model", model);
    if (spm) {
        json_object_set_new(o, "normalizer",
            json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:{s:s}, s:s}]}", "type", "Sequence", "normalizers", "type",
                "Prepend", "prepend", "▁", "type", "Replace", "pattern", "String", " ", "content", "▁"));
        json_object_set_new(o, "pre_tokenizer", json_null());
    } else {
        json_object_set_new(o, "normalizer", json_null());
        json_object_set_new(o, "pre_tokenizer", pre_tokenizer(w));
    }
    return o;
}

static json_t *tokenizer_config(const struct weights *w)
{
    static const char *const ids[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
        {"eos_token", "tokenizer.ggml.eos_token_id"}, {"pad_token", "tokenizer.ggml.padding_token_id"},
        {"unk_token", "tokenizer.ggml.unknown_token_id"}, {"cls_token", "tokenizer.ggml.cls_token_id"},
        {"sep_token", "tokenizer.ggml.seperator_token_id"}, {"mask_token", "tokenizer.ggml.mask_token_id"}};
    struct gguf_str chat = {NULL, 0};
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        json_t *token = special_token(w, ids[i][1]);
        if (token) json_object_set_new(o, ids[i][0], token);
    }
    weights_opt_str(w, "tokenizer.chat_template", &chat, NULL);
    if (chat.s) json_object_set_new(o, "chat_template", json_stringn(chat.s, chat.n));
    return o;
}

void hf_write_tokenizer(const struct weights *w, const char *folder, const struct hf_form *form)
{
    json_t *tokenizer = tokenizer_of(w, form), *beside = tokenizer_config(w);
    hf_save_json(tokenizer, folder, "tokenizer.json");
    hf_save_json(beside, folder, "tokenizer_config.json");
    json_decref(tokenizer);
    json_decref(beside);
}
