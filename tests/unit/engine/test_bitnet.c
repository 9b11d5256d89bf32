/* SPDX-License-Identifier: MIT
 *
 * BitNet's `.scale` tensors: a file whose matrices have them gives the logits of one whose weights are multiplied by
 * them, bit for bit where the scales are powers of two.  And files that do not say how text is split.
 */
#include "engine_fixture.h"
#include "files/gguf_write.h"
#include "make/make.h"
#include "weights/weights.h"

enum { N_TOK = 9, N_VOCAB = 512, MAX_FLOATS = 1 << 18 };

static const struct {
    const char *base;
    float scale;
} scaled[] = {{"attn_q", 0.5f}, {"attn_k", 4}, {"attn_v", 0.25f}, {"attn_output", 2}, {"ffn_gate", 0.5f}, {"ffn_up", 8},
    {"ffn_down", 0.125f}};
enum { N_SCALED = sizeof scaled / sizeof *scaled };

static char plain[64], other[64];

static float scale_of(const char *tensor)
{
    for (size_t i = 0; i < N_SCALED; i++) {
        const char *at = strstr(tensor, scaled[i].base);
        if (at && !strcmp(at + strlen(scaled[i].base), ".weight")) return scaled[i].scale;
    }
    return 1;
}

/* `plain` with its weights multiplied, or with scales beside them; gate: that of ffn_gate; without a key or two. */
static void write_without(bool beside, float gate, const char *key, const char *key2)
{
    static float x[MAX_FLOATS];
    struct weights *from;
    struct gguf_writer *w;
    char name[64];
    const int64_t one = 1;
    OK(weights_open(&from, plain, err));
    OK(gguf_writer_open(&w, other, err));
    for (size_t i = 0; i < weights_kv_count(from); i++) {
        const struct gguf_kv *kv = weights_kv_at(from, i);
        if (strcmp(kv->key, key) != 0 && strcmp(kv->key, key2) != 0) gguf_writer_copy(w, kv);
    }
    for (size_t i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor *t = weights_tensor_at(from, i);
        gguf_writer_add_tensor(w, t->name, t->type, t->n_dim, t->ne);
    }
    for (size_t i = 0; beside && i < 2 * N_SCALED; i++) {
        snprintf(name, sizeof name, "blk.%zu.%s.scale", i / N_SCALED, scaled[i % N_SCALED].base);
        gguf_writer_add_tensor(w, name, QUANT_F32, 1, &one);
    }
    for (size_t i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor *t = weights_tensor_at(from, i);
        assert_true(t->bytes <= sizeof x);
        memcpy(x, t->data, t->bytes);
        for (size_t k = 0; !beside && k < t->bytes / sizeof *x; k++) x[k] *= scale_of(t->name);
        gguf_writer_data(w, x, t->bytes);
    }
    for (size_t i = 0; beside && i < 2 * N_SCALED; i++) {
        bool is_gate = !strcmp(scaled[i % N_SCALED].base, "ffn_gate");
        gguf_writer_data(w, is_gate ? &gate : &scaled[i % N_SCALED].scale, sizeof(float));
    }
    OK(gguf_writer_commit(&w, err));
    weights_close(&from);
}

static void write_file(bool beside, float gate)
{
    write_without(beside, gate, "", "");
}

static void make_plain(const char *shape)
{
    struct weights_make_settings s = weights_make_default();
    s.shape = shape;
    s.type = QUANT_F32;
    OK(weights_make_model(plain, &s, err));
}

static void run(float *logits)
{
    struct fixture f = {0};
    struct lutra_runtime_settings rs;
    struct lutra_session_settings ss;
    int32_t seq;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = 1;
    OK(lutra_runtime_open(&f.rt, &rs, err));
    OK(lutra_model_open(&f.model, f.rt, other, NULL, err));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    ss.cache_type = "f32";
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    OK(lutra_seq_open(f.s, 0, &seq, err));
    struct lutra_row row[N_TOK];
    for (int i = 0; i < N_TOK; i++)
        row[i] = (struct lutra_row){token_at(i), i, seq, i - 1, i == N_TOK - 1 ? LUTRA_WANT_LOGITS : 0, 0};
    OK(lutra_forward(f.s, row, N_TOK, sizeof *row, err));
    memcpy(logits, lutra_forward_result(f.s, 0)->logits, N_VOCAB * sizeof *logits);
    lutra_session_close(&f.s);
    lutra_model_close(&f.model);
    lutra_runtime_close(&f.rt);
}

static void scales_beside_are_scales_inside(void **state)
{
    (void)state;
    float inside[N_VOCAB], beside[N_VOCAB];
    make_plain("tiny-bitnet-b1.58");
    write_file(false, 0.5f);
    run(inside);
    write_file(true, 0.5f);
    run(beside);
    assert_memory_equal(inside, beside, sizeof inside);
    write_file(true, 1);
    run(beside);
    assert_memory_not_equal(inside, beside, sizeof inside);
}

static void refuse(const char *shape, float gate, int status, const char *word)
{
    lutra_runtime *rt;
    lutra_model *model;
    struct lutra_error why = {0};
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = 1;
    make_plain(shape);
    write_file(true, gate);
    OK(lutra_runtime_open(&rt, &rs, err));
    assert_int_equal(lutra_model_open(&model, rt, other, NULL, &why), status);
    if (!strstr(why.what, word)) fail_msg("%s", why.what);
    lutra_runtime_close(&rt);
}

static void others_are_refused(void **state)
{
    (void)state;
    refuse("tiny-bitnet-b1.58", -1, LUTRA_E_FORMAT, "blk.0.ffn_gate.scale' is -1");
    refuse("tiny-bitnet-b1.58", NAN, LUTRA_E_FORMAT, "blk.0.ffn_gate.scale' is nan");
    refuse("tiny-bitnet", 0.5f, LUTRA_E_UNSUPPORTED, "'blk.0.ffn_gate.scale': a scale inside");
    refuse("tiny-qwen3", 0.5f, LUTRA_E_UNSUPPORTED, "scale' is not part of architecture");
}

/* bitnet.cpp's files: Llama 3's split, which puts a token before the text; others': the default, which does not. */
static void a_split_that_is_not_said_is_llama3_s(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        int n_tok;
    } cases[] = {{"tiny-bitnet-b1.58", 2}, {"tiny-bitnet", 1}, {"tiny-qwen3", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lutra_runtime *rt;
        lutra_model *model;
        struct lutra_runtime_settings rs;
        int32_t token[4];
        int n_tok;
        lutra_runtime_settings_init(&rs, sizeof rs);
        rs.n_threads = 1;
        make_plain(cases[i].shape);
        write_without(false, 1, "tokenizer.ggml.pre", "tokenizer.ggml.add_bos_token");
        OK(lutra_runtime_open(&rt, &rs, err));
        OK(lutra_model_open(&model, rt, other, NULL, err));
        OK(lutra_tokenize(model, "x", 1, LUTRA_ADD_SPECIAL, token, 4, &n_tok, err));
        assert_int_equal(n_tok, cases[i].n_tok);
        assert_true(n_tok == 1 || token[0] == N_VOCAB - 1);
        lutra_model_close(&model);
        lutra_runtime_close(&rt);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_beside_are_scales_inside),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(a_split_that_is_not_said_is_llama3_s),
    };
    snprintf(plain, sizeof plain, "/tmp/lutra-scales-%d.gguf", (int)getpid());
    snprintf(other, sizeof other, "/tmp/lutra-scales-%d-other.gguf", (int)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(plain);
    unlink(other);
    return failed;
}
