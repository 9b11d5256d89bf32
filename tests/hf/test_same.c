/* SPDX-License-Identifier: MIT
 *
 * A folder and the GGUF file of the same weights: the same metadata, tensors, tokens and logits, bit for bit.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hf/write_folder.h"
#include "lutra.h"
#include "quant/quant.h"
#include "sanitized.h"
#include "unit/weights/build.h"
#include "quantize/groups.h"
#include "quantize/mix.h"
#include "make/make.h"
#include "files/gguf_write.h"
#include "weights/weights.h"

static struct lutra_error err;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) < 0) fail_msg("%s: %s", #call, err.what);                                                           \
    } while (0)

static void remake_folder(void)
{
    char command[320];
    snprintf(command, sizeof command, "rm -rf '%s'; mkdir '%s'", in_folder("hf"), in_folder("hf"));
    assert_int_equal(system(command), 0);
}

/* A matrix of experts as MXFP4, or the tensor as it is. */
static void write_rewritten(struct gguf_writer *w, const struct tensor *t, bool mxfp4)
{
    int64_t n = t->ne[0] * t->ne[1] * t->ne[2];
    if (!mxfp4 || t->n_dim != 3) {
        gguf_writer_data(w, t->data, t->bytes);
        return;
    }
    void *x = malloc((size_t)n / 32 * 17);
    quant_plain(QUANT_MXFP4)(t->data, x, (size_t)n);
    gguf_writer_data(w, x, (size_t)n / 32 * 17);
    free(x);
}

/* made.gguf with one more key (the makers' order of value heads, which is the folder's), or with its experts, which are
 * F32, in MXFP4. */
static void rewrite(const char *key, bool mxfp4)
{
    struct weights *from;
    struct gguf_writer *w;
    OK(weights_open(&from, in_folder("made.gguf"), &err));
    OK(gguf_writer_open(&w, in_folder("said.gguf"), &err));
    for (size_t i = 0; i < weights_kv_count(from); i++) gguf_writer_copy(w, weights_kv_at(from, i));
    if (key) gguf_writer_put_u32(w, key, 1);
    for (size_t i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor *t = weights_tensor_at(from, i);
        gguf_writer_add_tensor(w, t->name, mxfp4 && t->n_dim == 3 ? QUANT_MXFP4 : t->type, t->n_dim, t->ne);
    }
    for (size_t i = 0; i < weights_tensor_count(from); i++) write_rewritten(w, weights_tensor_at(from, i), mxfp4);
    OK(gguf_writer_commit(&w, &err));
    weights_close(&from);
    assert_int_equal(rename(in_folder("said.gguf"), in_folder("made.gguf")), 0);
}

/* made.gguf, and hf/ of it; type MXFP4: of its experts, the rest is F32. */
static void make(const char *shape, enum quant_type type, const struct hf_form *form)
{
    struct weights *w;
    struct weights_make_settings s = weights_make_default();
    s.shape = shape;
    s.type = type == QUANT_MXFP4 ? QUANT_F32 : type;
    s.seed = 3;
    OK(weights_make_model(in_folder("made.gguf"), &s, &err));
    if (type == QUANT_MXFP4) rewrite(NULL, true);
    OK(weights_open(&w, in_folder("made.gguf"), &err));
    remake_folder();
    hf_write_folder(w, in_folder("hf"), form);
    weights_close(&w);
    if (!strcmp(shape, "tiny-qwen35")) rewrite("qwen35.ssm.lutra.key_neighbours", false);
    if (!strcmp(shape, "tiny-qwen35moe")) rewrite("qwen35moe.ssm.lutra.key_neighbours", false);
}

/* ---- metadata and tensors ---- */

/* Keys that a folder has no counterpart of, or spells in its own way. */
static bool is_free(const char *key)
{
    return !strncmp(key, "general.", 8) || !strcmp(key, "tokenizer.ggml.tokens") ||
           !strcmp(key, "tokenizer.ggml.token_type") || !strcmp(key, "tokenizer.ggml.scores") ||
           !strcmp(key, "tokenizer.ggml.add_bos_token") || !strcmp(key, "tokenizer.ggml.eot_token_id") ||
           !strcmp(key, "tokenizer.ggml.padding_token_id") || strstr(key, ".vocab_size") != NULL;
}

static void same_value(const struct gguf_kv *a, const struct gguf_kv *b, const char *shape)
{
    if (!b) fail_msg("%s: key '%s' is missing", shape, a->key);
    if (a->kind != b->kind || a->elem != b->elem || a->n != b->n) fail_msg("%s: key '%s' differs", shape, a->key);
    for (uint64_t i = 0; i < a->n; i++) {
        int64_t x = 0, y = 0;
        double f = 0, g = 0;
        if (a->elem == GGUF_STRING) {
            struct gguf_str s = gguf_kv_str(a, i), t = gguf_kv_str(b, i);
            if (s.n != t.n || memcmp(s.s, t.s, s.n) != 0) fail_msg("%s: key '%s' differs", shape, a->key);
        }
        if (gguf_kv_i64(a, i, &x) && (!gguf_kv_i64(b, i, &y) || x != y))
            fail_msg("%s: key '%s' is %lld, not %lld", shape, a->key, (long long)y, (long long)x);
        if (gguf_kv_f64(a, i, &f) && (!gguf_kv_f64(b, i, &g) || f != g))
            fail_msg("%s: key '%s' is %.9g, not %.9g", shape, a->key, g, f);
    }
}

static void same_tokens(const struct weights *a, const struct weights *b, const char *shape)
{
    const struct gguf_kv *x = weights_kv_find(a, "tokenizer.ggml.tokens"),
                         *y = weights_kv_find(b, "tokenizer.ggml.tokens");
    const struct gguf_kv *t = weights_kv_find(a, "tokenizer.ggml.token_type"),
                         *u = weights_kv_find(b, "tokenizer.ggml.token_type");
    assert_int_equal(x->n, y->n);
    for (uint64_t i = 0; i < x->n; i++) {
        struct gguf_str p = gguf_kv_str(x, i), q = gguf_kv_str(y, i);
        int64_t v = 0, w = 0;
        gguf_kv_i64(t, i, &v);
        gguf_kv_i64(u, i, &w);
        if (v != w) fail_msg("%s: token %d has type %d, not %d", shape, (int)i, (int)w, (int)v);
        if (v != 5 && (p.n != q.n || memcmp(p.s, q.s, p.n) != 0)) fail_msg("%s: token %d differs", shape, (int)i);
    }
}

static void same_tensor(const struct tensor *t, const struct tensor *u, const char *shape)
{
    if (!u) fail_msg("%s: tensor '%s' is missing", shape, t->name);
    if (t->type != u->type || t->bytes != u->bytes || memcmp(t->ne, u->ne, sizeof t->ne) != 0)
        fail_msg("%s: tensor '%s' has another shape or type", shape, t->name);
    bool log = strstr(t->name, ".ssm_a") && !strstr(t->name, ".ssm_alpha"); /* the folder has its logarithm */
    for (int64_t i = 0; log && i < t->ne[0] * t->ne[1]; i++)
        if (fabsf(((const float *)t->data)[i] / ((const float *)u->data)[i] - 1) > 1e-6f)
            fail_msg("%s: tensor '%s' differs", shape, t->name);
    if (!log && memcmp(t->data, u->data, t->bytes) != 0) fail_msg("%s: tensor '%s' differs", shape, t->name);
}

static void same_weights(const char *shape)
{
    struct weights *a, *b;
    OK(weights_open(&a, in_folder("made.gguf"), &err));
    OK(weights_open(&b, in_folder("hf"), &err));
    for (size_t i = 0; i < weights_kv_count(a); i++) {
        const struct gguf_kv *kv = weights_kv_at(a, i);
        if (!is_free(kv->key)) same_value(kv, weights_kv_find(b, kv->key), shape);
    }
    same_tokens(a, b, shape);
    assert_int_equal(weights_tensor_count(a), weights_tensor_count(b));
    for (size_t i = 0; i < weights_tensor_count(a); i++) {
        const struct tensor *t = weights_tensor_at(a, i), *u = weights_tensor_find(b, t->name);
        if (u) weights_fetch(b, u);
        same_tensor(t, u, shape);
        if (weights_is_grouped(b, u) && (strstr(u->name, "conv1d") || strstr(u->name, "conv.conv") || t->ne[0] == 1))
            fail_msg("%s: tensor '%s' is no layer to round", shape, u->name);
        weights_drop_pages(b, u); /* and once more: it is read or computed again */
        weights_fetch(b, u);
        same_tensor(t, u, shape);
    }
    weights_close(&a);
    weights_close(&b);
}

/* ---- logits ---- */

enum { N_ROWS = 5, MAX_VOCAB = 1024 };

static int logits_of(lutra_runtime *rt, const char *path, float *out)
{
    lutra_model *model;
    lutra_session *s;
    struct lutra_session_settings ss;
    struct lutra_model_info info;
    struct lutra_row row[N_ROWS];
    int32_t seq;
    OK(lutra_model_open(&model, rt, path, NULL, &err));
    lutra_model_info_get(model, &info, sizeof info);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 1;
    ss.n_ctx = 64;
    OK(lutra_session_open(&s, model, &ss, &err));
    OK(lutra_seq_open(s, 64, &seq, &err));
    for (int i = 0; i < N_ROWS; i++)
        row[i] = (struct lutra_row){40 + 31 * i, i, seq, i - 1, i == N_ROWS - 1 ? LUTRA_WANT_LOGITS : 0, 0};
    OK(lutra_forward(s, row, N_ROWS, sizeof *row, &err));
    assert_in_range(info.n_vocab, 1, MAX_VOCAB);
    memcpy(out, lutra_forward_result(s, 0)->logits, (size_t)info.n_vocab * sizeof *out);
    lutra_session_close(&s);
    lutra_model_close(&model);
    return info.n_vocab;
}

static void same_logits(lutra_runtime *rt, const char *shape)
{
    static float a[MAX_VOCAB], b[MAX_VOCAB];
    int n = logits_of(rt, in_folder("made.gguf"), a);
    assert_int_equal(logits_of(rt, in_folder("hf"), b), n);
    float most = !strncmp(shape, "tiny-qwen35", 11) || strstr(shape, "hybrid")
                     ? 1e-4f
                     : 0; /* decays by way of their logarithms */
    for (int i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= most)) fail_msg("%s: logits differ", shape);
}

/* ---- vectors ---- */

static void vectors_of(lutra_runtime *rt, const char *path, float *out, int room)
{
    static const char *const texts[] = {"a cat sat on the mat", "the dog, and its bones!", "one"};
    lutra_model *model;
    struct lutra_model_info info;
    OK(lutra_model_open(&model, rt, path, NULL, &err));
    lutra_model_info_get(model, &info, sizeof info);
    assert_in_range(3 * info.d_model, 1, room);
    struct lutra_session_settings ss;
    struct lutra_embed_text text[3];
    int32_t token[3][64];
    lutra_session *s;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 3;
    ss.n_ctx = 64;
    OK(lutra_session_open(&s, model, &ss, &err));
    for (int i = 0; i < 3; i++) {
        text[i].token = token[i];
        OK(lutra_tokenize(model, texts[i], strlen(texts[i]), LUTRA_ADD_SPECIAL, token[i], 64, &text[i].n_token, &err));
    }
    OK(lutra_embed(s, text, 3, LUTRA_POOL_MODEL, out, &err));
    lutra_session_close(&s);
    lutra_model_close(&model);
}

static void same_vectors(lutra_runtime *rt, const char *shape)
{
    enum { ROOM = 3 * 1024 };
    static float a[ROOM], b[ROOM];
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    vectors_of(rt, in_folder("made.gguf"), a, ROOM);
    vectors_of(rt, in_folder("hf"), b, ROOM);
    assert_true(a[0] != 0 && a[0] != a[256]);
    if (memcmp(a, b, sizeof a) != 0) fail_msg("%s: vectors differ", shape);
}

/* weights_open refuses their folders' classes; 1bitLLM's BitNet is a class of its own. */
static bool is_file_only(const char *shape)
{
    return !strcmp(shape, "tiny-bitnet") || strstr(shape, "rank");
}

static void test_every_architecture(void **state)
{
    static const enum quant_type types[] = {QUANT_F32, QUANT_F16, QUANT_BF16};
    lutra_runtime *rt;
    struct lutra_runtime_settings rs;
    (void)state;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = 1;
    OK(lutra_runtime_open(&rt, &rs, &err));
    int n = 0;
    for (const char *shape; (shape = lutra_make_model_shape(n)); n++) {
        if (strncmp(shape, "tiny-", 5) != 0 || is_file_only(shape)) continue;
        bool experts = strstr(shape, "moe") || strstr(shape, "gpt-oss");
        for (int k = 0; k < (SANITIZED ? 1 : n % 6 == 0 ? 3 : experts ? 2 : 1); k++) { /* the same code for all types */
            bool inside =
                strstr(shape, "mistral3") || strstr(shape, "vl") || strstr(shape, "qwen35") || strstr(shape, "gemma4");
            struct hf_form form = {.n_shard = 1 + (n + k) % 3,
                .rope_v5 = (n + k) % 2,
                .merge_pairs = n % 2,
                .text_config = inside,
                .together = (k + (strstr(shape, "qwen35moe") != NULL)) % 2};
            make(shape, types[(n + k) % 3], &form);
            same_weights(shape);
            if (strstr(shape, "bert") || strstr(shape, "embedding"))
                same_vectors(rt, shape);
            else
                same_logits(rt, shape);
        }
    }
    lutra_runtime_close(&rt);
}

/* Granite 4 without Mamba-2: a file of the architecture granite, with names of its own. */
static void test_granite4_that_attends(void **state)
{
    lutra_runtime *rt;
    struct lutra_runtime_settings rs;
    (void)state;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = 1;
    OK(lutra_runtime_open(&rt, &rs, &err));
    make("tiny-granite", QUANT_F16, &(struct hf_form){.n_shard = 1, .granite4 = true});
    same_weights("tiny-granite as Granite 4");
    same_logits(rt, "tiny-granite as Granite 4");
    make("tiny-granitemoe-shared", QUANT_BF16, &(struct hf_form){.n_shard = 1, .granite4 = true});
    same_weights("tiny-granitemoe-shared as Granite 4");
    same_logits(rt, "tiny-granitemoe-shared as Granite 4");
    lutra_runtime_close(&rt);
}

/* gpt-oss as it is published: experts in MXFP4. */
static void test_mxfp4(void **state)
{
    lutra_runtime *rt;
    struct lutra_runtime_settings rs;
    (void)state;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = 1;
    OK(lutra_runtime_open(&rt, &rs, &err));
    make("tiny-gpt-oss", QUANT_MXFP4, &(struct hf_form){.n_shard = 2, .rope_v5 = true});
    same_weights("tiny-gpt-oss in MXFP4");
    same_logits(rt, "tiny-gpt-oss in MXFP4");
    lutra_runtime_close(&rt);
}

/* ---- what a folder is written as ---- */

static void test_quantize_writes_the_same_file(void **state)
{
    struct weights *a, *b;
    struct weights_quantize_settings q = weights_quantize_default();
    (void)state;
    make("tiny-llama", QUANT_BF16, &(struct hf_form){.n_shard = 2, .rope_v5 = true, .merge_pairs = true});
    q.mix = weights_mix_of(QUANT_Q4_0);
    OK(weights_quantize_file(in_folder("made.gguf"), in_folder("a.gguf"), &q, &err));
    OK(weights_quantize_file(in_folder("hf"), in_folder("b.gguf"), &q, &err));
    OK(weights_open(&a, in_folder("a.gguf"), &err));
    OK(weights_open(&b, in_folder("b.gguf"), &err));
    for (size_t i = 0; i < weights_tensor_count(a); i++) {
        const struct tensor *t = weights_tensor_at(a, i);
        same_tensor(t, weights_tensor_find(b, t->name), "quantized");
    }
    weights_close(&a);
    weights_close(&b);
}

/* ---- tokenizers that are not made ---- */

/* What merges first is the same: SentencePiece's tokens fall in score as they rise in id. */
static void same_order(const struct weights *a, const struct weights *b)
{
    const struct gguf_kv *x = weights_kv_find(a, "tokenizer.ggml.scores"),
                         *y = weights_kv_find(b, "tokenizer.ggml.scores");
    double last = 0, last_made = 0, score, made;
    int n = 0;
    for (uint64_t i = 0; i < x->n; i++) {
        assert_true(gguf_kv_f64(x, i, &score) && gguf_kv_f64(y, i, &made));
        if (made <= -1e9 || made == 0) continue; /* no merge makes it */
        if (n++ && (score < last) != (made < last_made)) fail_msg("token %d is out of order", (int)i);
        last = score;
        last_made = made;
    }
    assert_true(n > 20000);
}

/* A vocabulary of llama.cpp's as a tokenizer.json, read again: the same tokens, types and merges, and for
 * SentencePiece's kind the same order of scores. */
static void same_vocabulary(const char *name)
{
    char path[512];
    struct weights *a, *b;
    struct hf_form form = {.n_shard = 1, .merge_pairs = name[0] == 's'};
    snprintf(path, sizeof path, "%s/../shared/tokenizers/ggml-vocab-%s.gguf", LUTRA_SOURCE_DIR, name);
    if (access(path, R_OK) < 0) {
        print_message("%s is not here: skipped\n", path);
        skip();
    }
    OK(weights_open(&a, path, &err));
    remake_folder();
    hf_write_tokenizer(a, in_folder("hf"), &form);
    json_t *config = json_pack("{s:[s], s:i, s:i, s:i, s:i, s:i, s:f}", "architectures", "LlamaForCausalLM",
        "hidden_size", 64, "num_attention_heads", 2, "num_hidden_layers", 1, "intermediate_size", 64,
        "max_position_embeddings", 64, "rms_norm_eps", 1e-5);
    hf_save_json(config, in_folder("hf"), "config.json");
    json_decref(config);
    OK(weights_open(&b, in_folder("hf"), &err));
    same_tokens(a, b, name);
    const struct gguf_kv *merges = weights_kv_find(a, "tokenizer.ggml.merges");
    if (merges)
        same_value(merges, weights_kv_find(b, "tokenizer.ggml.merges"), name);
    else
        same_order(a, b);
    weights_close(&a);
    weights_close(&b);
}

static void test_vocabulary_gpt2(void **state)
{
    (void)state;
    same_vocabulary("gpt-2");
}

static void test_vocabulary_starcoder(void **state)
{
    (void)state;
    same_vocabulary("starcoder");
}

static void test_vocabulary_llama(void **state)
{
    (void)state;
    same_vocabulary("llama-spm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_architecture),
        cmocka_unit_test(test_granite4_that_attends),
        cmocka_unit_test(test_mxfp4),
        cmocka_unit_test(test_quantize_writes_the_same_file),
        cmocka_unit_test(test_vocabulary_gpt2),
        cmocka_unit_test(test_vocabulary_starcoder),
        cmocka_unit_test(test_vocabulary_llama),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
