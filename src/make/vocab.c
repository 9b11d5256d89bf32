/* SPDX-License-Identifier: MIT
 *
 * The tokenizer of made models: GPT-2's byte alphabet, a few merges, fillers, special tokens at the end.
 */
#include "make/make_impl.h"
#include "weights/folder/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, CONTROL = 3, UNUSED = 5 }; /* tokenizer.ggml.token_type */

/* Common pairs of English and digits, in rank order; every left and right part is a byte or an earlier result.
 * "\u0120" is how the byte alphabet writes a space. */
static const char *const merges[] = {"\u0120 t", "\u0120 a", "h e", "i n", "r e", "o n", "\u0120t he", "e r",
    "\u0120 s", "a t", "\u0120 w", "\u0120 o", "e n", "\u0120 c", "i t", "i s", "a n", "o r", "e s", "\u0120 b", "e d",
    "\u0120 f", "in g", "\u0120 p", "o u", "\u0120a n", "a l", "a r", "\u0120t o", "\u0120 m", "\u0120o f", "\u0120 in",
    "\u0120 d", "\u0120 h", "\u0120an d", "i c", "a s", "l e", "\u0120t h", "i on"};
enum { N_MERGES = sizeof merges / sizeof *merges };

/* Specials from the end of the vocabulary on; the first three of a family are bos, eos and eot. */
static const char *const qwen_specials[] = {"<|endoftext|>", "<|im_end|>", "<|im_start|>"};
static const char *const llama_specials[] = {
    "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", "<|im_start|>"};

static const char chat_template[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/* GPT-2's map: printable Latin-1 bytes stand for themselves, the others for U+0100 on, in ascending order. */
static unsigned byte_rune(int byte)
{
    unsigned next = 256;
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte) return printable ? (unsigned)b : next;
        next += !printable;
    }
    return 0;
}

static size_t put_rune(char *s, unsigned rune)
{
    if (rune < 128) {
        s[0] = (char)rune;
        return 1;
    }
    s[0] = (char)(0xc0 | rune >> 6);
    s[1] = (char)(0x80 | (rune & 63));
    return 2;
}

struct vocab {
    struct gguf_str *token; /* [n] */
    int32_t *type;          /* [n] */
    char *text;             /* of all tokens but the specials; TEXT_BYTES each */
    uint32_t n;
};
enum { TEXT_BYTES = 24 };

static void set(struct vocab *v, uint32_t i, const char *s, size_t n, int32_t type)
{
    char *text = v->text + (size_t)i * TEXT_BYTES;
    memcpy(text, s, n);
    v->token[i] = (struct gguf_str){text, n};
    v->type[i] = type;
}

static void fill(struct vocab *v, const char *const *special, uint32_t n_special)
{
    char s[TEXT_BYTES];
    for (uint32_t i = 0; i < 256; i++) set(v, i, s, put_rune(s, byte_rune((int)i)), NORMAL);
    for (uint32_t i = 0; i < N_MERGES; i++) {
        const char *gap = strchr(merges[i], ' ');
        int n = snprintf(s, sizeof s, "%.*s%s", (int)(gap - merges[i]), merges[i], gap + 1);
        set(v, 256 + i, s, (size_t)n, NORMAL);
    }
    for (uint32_t i = 256 + N_MERGES; i < v->n; i++)
        set(v, i, s, (size_t)snprintf(s, sizeof s, "<|filler%u|>", (unsigned)(i - 256 - N_MERGES)), UNUSED);
    for (uint32_t i = 0; i < n_special; i++) set(v, v->n - 1 - i, special[i], strlen(special[i]), CONTROL);
}

static void write_vocab(struct gguf_writer *w, const struct vocab *v, bool llama)
{
    struct gguf_str merge[N_MERGES];
    for (int i = 0; i < N_MERGES; i++) merge[i] = (struct gguf_str){merges[i], strlen(merges[i])};
    gguf_writer_put_str(w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_put_str(w, "tokenizer.ggml.pre", llama ? "llama-bpe" : "qwen2");
    gguf_writer_put_strs(w, "tokenizer.ggml.tokens", v->token, v->n);
    gguf_writer_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, v->type, v->n);
    gguf_writer_put_strs(w, "tokenizer.ggml.merges", merge, N_MERGES);
    gguf_writer_put_u32(w, "tokenizer.ggml.bos_token_id", v->n - 1);
    gguf_writer_put_u32(w, "tokenizer.ggml.eos_token_id", v->n - 2);
    if (llama) gguf_writer_put_u32(w, "tokenizer.ggml.eot_token_id", v->n - 3);
    gguf_writer_put_u32(w, "tokenizer.ggml.padding_token_id", v->n - 1);
    gguf_writer_put_bool(w, "tokenizer.ggml.add_bos_token", llama);
    gguf_writer_put_str(w, "tokenizer.chat_template", chat_template);
}

static void vocab_close(struct vocab *v)
{
    free(v->token);
    free(v->type);
    free(v->text);
}

static int vocab_open(struct vocab *v, bool llama, uint32_t n, struct lutra_error *err)
{
    *v = (struct vocab){.n = n};
    v->token = calloc(n, sizeof *v->token);
    v->type = calloc(n, sizeof *v->type);
    v->text = malloc((size_t)n * TEXT_BYTES);
    if (v->token && v->type && v->text) {
        fill(v, llama ? llama_specials : qwen_specials, llama ? 5 : 3);
        return 0;
    }
    vocab_close(v);
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "make-model: no memory for %u tokens", (unsigned)n);
}

/* ---- BERT's ---- */

enum { N_BERT = 5 };

/* Characters alone and behind others, some words and ends of words, unused tokens. */
static void fill_wordpiece(struct vocab *v)
{
    static const char *const special[N_BERT] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    static const char *const words[] = {"the", "of", "and", "in", "to", "is"}, *const ends[] = {"ing", "er", "ed", "es",
                                                                                   "on", "th", "re"};
    uint32_t n = 0;
    char s[TEXT_BYTES];
    for (; n < N_BERT; n++) set(v, n, special[n], strlen(special[n]), CONTROL);
    for (int c = '!'; c <= '~'; c++) {
        if (c >= 'A' && c <= 'Z') continue;
        set(v, n++, s, (size_t)snprintf(s, sizeof s, "\u2581%c", c), NORMAL);
        set(v, n++, s, (size_t)snprintf(s, sizeof s, "%c", c), NORMAL);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        set(v, n++, s, (size_t)snprintf(s, sizeof s, "\u2581%s", words[i]), NORMAL);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) set(v, n++, ends[i], strlen(ends[i]), NORMAL);
    for (uint32_t first = n; n < v->n; n++)
        set(v, n, s, (size_t)snprintf(s, sizeof s, "\u2581[unused%u]", (unsigned)(n - first)), NORMAL);
}

static void write_wordpiece(struct gguf_writer *w, const struct vocab *v)
{
    static const char *const keys[N_BERT] = {"padding", "unknown", "cls", "seperator", "mask"};
    char key[64];
    gguf_writer_put_str(w, "tokenizer.ggml.model", "bert");
    gguf_writer_put_strs(w, "tokenizer.ggml.tokens", v->token, v->n);
    gguf_writer_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, v->type, v->n);
    for (uint32_t i = 0; i < N_BERT; i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", keys[i]);
        gguf_writer_put_u32(w, key, i);
    }
    gguf_writer_put_u32(w, "tokenizer.ggml.bos_token_id", 2);
}

/* As Qwen3-Reranker's. */
static const char rerank_template[] =
    "<|im_start|>system\nIs the document an answer? yes or no<|im_end|>\n<|im_start|>user\n<Query>: {query}\n"
    "<Document>: {document}<|im_end|>\n<|im_start|>assistant\n";

int make_vocab(struct gguf_writer *w, const struct weights_shape *shape, struct lutra_error *err)
{
    const struct weights_pooling *p = weights_shape_pooling(shape);
    bool llama = strcmp(shape->arch, "llama") == 0, wordpiece = strstr(shape->arch, "bert") != NULL;
    struct vocab v;
    TRY(vocab_open(&v, llama, shape->n_vocab, err));
    if (wordpiece) {
        fill_wordpiece(&v);
        write_wordpiece(w, &v);
    } else {
        write_vocab(w, &v, llama);
    }
    if (p && p->n_class == 2) gguf_writer_put_str(w, "tokenizer.chat_template.rerank", rerank_template);
    vocab_close(&v);
    return 0;
}

int make_vocab_json(const char *arch, uint32_t n_vocab, json_t **tokenizer, json_t **config, struct lutra_error *err)
{
    bool llama = strcmp(arch, "llama") == 0;
    json_t *vocab = json_object(), *added = json_array(), *merge = json_array();
    struct vocab v;
    int rc = vocab_open(&v, llama, n_vocab, err);
    for (uint32_t i = 0; rc == 0 && i < n_vocab; i++) {
        json_t *text = json_stringn(v.token[i].s, v.token[i].n);
        if (v.type[i] != CONTROL)
            json_object_set_new(vocab, json_string_value(text), json_integer(i));
        else
            json_array_append_new(
                added, json_pack("{s:i, s:O, s:b, s:b}", "id", (int)i, "content", text, "special", 1, "normalized", 0));
        json_decref(text);
    }
    for (int i = 0; i < N_MERGES; i++) json_array_append_new(merge, json_string(merges[i]));
    *tokenizer = json_pack("{s:s, s:o, s:o, s:{s:s}, s:{s:s, s:b, s:o, s:o}}", "version", "1.0", "added_tokens", added,
        "pre_tokenizer", folder_split_json(llama ? "llama-bpe" : "qwen2"), "decoder", "type", "ByteLevel", "model",
        "type", "BPE", "ignore_merges", llama, "vocab", vocab, "merges", merge);
    const char *const *special = llama ? llama_specials : qwen_specials;
    *config = json_pack("{s:b, s:s, s:s, s:s}", "add_bos_token", llama, "bos_token", special[0], "eos_token",
        special[1], "chat_template", chat_template);
    if (rc == 0) vocab_close(&v);
    return rc;
}

int make_vocab_copy(struct gguf_writer *w, const struct weights *from)
{
    for (size_t i = 0; i < weights_kv_count(from); i++) {
        const struct gguf_kv *kv = weights_kv_at(from, i);
        if (strncmp(kv->key, "tokenizer.", 10) == 0) gguf_writer_copy(w, kv);
    }
    return gguf_writer_status(w);
}
