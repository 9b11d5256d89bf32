/* SPDX-License-Identifier: MIT
 *
 * Made models: the tensors and keys an architecture needs, sane numbers, one model per seed whatever the type.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "quant/quant.h"
#include "unit/weights/build.h"
#include "make/make.h"
#include "weights/folder/folder.h"

static struct lutra_error err;

static struct weights *make(const struct weights_make_settings *s)
{
    struct weights *w;
    if (weights_make_model(in_folder("made.gguf"), s, &err) < 0) fail_msg("%s", err.what);
    if (weights_open(&w, in_folder("made.gguf"), &err) < 0) fail_msg("%s", err.what);
    return w;
}

static struct weights_make_settings settings(const char *shape, enum quant_type type)
{
    struct weights_make_settings s = weights_make_default();
    s.shape = shape;
    s.type = type;
    return s;
}

static float *floats(const struct weights *w, const char *name)
{
    const struct tensor *t = weights_tensor_find(w, name);
    size_t n = (size_t)(t->ne[0] * t->ne[1]);
    float *x = malloc(n * sizeof *x);
    quant_info_of(t->type)->dequantize(t->data, x, n);
    return x;
}

static uint32_t arch_u32(const struct weights *w, const char *arch, const char *name)
{
    char key[96];
    uint32_t v = 0;
    snprintf(key, sizeof key, "%s.%s", arch, name);
    if (weights_get_u32(w, key, &v, &err) < 0) fail_msg("%s", err.what);
    return v;
}

static void check_shape(const struct weights *w, const char *name, int64_t n_in, int64_t n_out)
{
    const struct tensor *t;
    if (weights_tensor_get(w, name, &t, &err) < 0) fail_msg("%s", err.what);
    assert_true(t->ne[0] == n_in && t->ne[1] == n_out);
}

/* ---- structure ---- */

static void check_tensors(const struct weights *w, const struct weights_shape *s)
{
    int64_t d = s->d_model, d_q = s->n_head * s->d_head, d_kv = s->n_kv_head * s->d_head;
    char name[64];
    check_shape(w, "token_embd.weight", d, s->n_vocab);
    bool first = !strncmp(s->arch, "lfm2", 4) || strstr(s->arch, "bert");
    check_shape(w, first ? "token_embd_norm.weight" : "output_norm.weight", d, 1);
    assert_int_equal(weights_tensor_find(w, "output.weight") == NULL, s->tied);
    assert_int_equal(
        weights_tensor_find(w, "rope_freqs.weight") == NULL, s->rope_factor == 0 && !weights_shape_mixed(s));
    static const char *const others[] = {"phi3", "starcoder2", "command-r", "cohere2", "gpt-oss", "gemma4", "qwen35",
        "qwen35moe", "lfm2", "lfm2moe", "granitehybrid", "bert", "nomic-bert",
        "gemma-embedding"}; /* their files open: tests/golden */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(s->arch, others[i])) return;
    for (uint32_t i = 0; i < s->n_layer; i++) {
        const struct {
            const char *name;
            int64_t n_in, n_out;
        } parts[] = {{"attn_norm", d, 1}, {"attn_q", d, d_q}, {"attn_k", d, d_kv}, {"attn_v", d, d_kv},
            {"attn_output", d_q, d}, {"ffn_norm", d, 1}, {"ffn_gate", d, s->d_ff}, {"ffn_up", d, s->d_ff},
            {"ffn_down", s->d_ff, d}};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            snprintf(name, sizeof name, "blk.%u.%s.weight", (unsigned)i, parts[k].name);
            if (weights_shape_experts(s) && (parts[k].n_in == s->d_ff || parts[k].n_out == s->d_ff)) continue;
            if (!strcmp(s->arch, "olmo2") && parts[k].n_out == 1) continue; /* has norms behind sub-layers only */
            check_shape(w, name, parts[k].n_in, parts[k].n_out);
        }
        snprintf(name, sizeof name, "blk.%u.attn_k.bias", (unsigned)i);
        assert_int_equal(weights_tensor_find(w, name) != NULL, strncmp(s->arch, "qwen2", 5) == 0);
        snprintf(name, sizeof name, "blk.%u.attn_q_norm.weight", (unsigned)i);
        bool normed = strstr(s->arch, "qwen3") || !strcmp(s->arch, "gemma3") || !strcmp(s->arch, "olmo2");
        assert_int_equal(weights_tensor_find(w, name) != NULL, normed);
    }
}

static void check_experts(const struct weights *w, const struct weights_shape *s)
{
    const struct weights_experts *e = weights_shape_experts(s);
    if (!e) return;
    const struct {
        const char *name;
        int64_t ne[3];
    } parts[] = {{"blk.1.ffn_gate_inp.weight", {s->d_model, e->n_expert, 1}},
        {"blk.1.ffn_gate_exps.weight", {s->d_model, e->d_ff, e->n_expert}},
        {"blk.1.ffn_up_exps.weight", {s->d_model, e->d_ff, e->n_expert}},
        {"blk.1.ffn_down_exps.weight", {e->d_ff, s->d_model, e->n_expert}}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        const struct tensor *t;
        bool joined =
            weights_shape_mixed(s) && (strstr(parts[k].name, "gate_exps") || strstr(parts[k].name, "up_exps"));
        if (joined) continue; /* ffn_gate_up_exps: tests/golden */
        if (weights_tensor_get(w, parts[k].name, &t, &err) < 0) fail_msg("%s", err.what);
        assert_memory_equal(t->ne, parts[k].ne, sizeof parts[k].ne);
    }
    assert_int_equal(arch_u32(w, s->arch, "expert_count"), e->n_expert);
    assert_int_equal(arch_u32(w, s->arch, "expert_used_count"), e->n_used);
}

static void check_keys(const struct weights *w, const struct weights_shape *s)
{
    struct gguf_str arch;
    assert_int_equal(weights_get_str(w, "general.architecture", &arch, NULL), 0);
    assert_memory_equal(arch.s, s->arch, arch.n);
    assert_int_equal(arch_u32(w, s->arch, "block_count"), s->n_layer);
    assert_int_equal(arch_u32(w, s->arch, "embedding_length"), s->d_model);
    assert_int_equal(arch_u32(w, s->arch, "attention.head_count"), s->n_head);
    assert_int_equal(arch_u32(w, s->arch, "context_length"), s->n_ctx);
    if (weights_shape_mixed(s)) return; /* arrays: model_open reads them in tests/unit/engine/test_rows.c */
    assert_int_equal(arch_u32(w, s->arch, "feed_forward_length"), s->d_ff);
    if (strncmp(s->arch, "lfm2", 4) != 0 && strcmp(s->arch, "granitehybrid") != 0)
        assert_int_equal(arch_u32(w, s->arch, "attention.head_count_kv"), s->n_kv_head);
    assert_int_equal(arch_u32(w, s->arch, "attention.key_length"), s->d_head);
}

static void tiny_shapes_have_all_their_tensors(void **state)
{
    (void)state;
    int n_tiny = 0;
    for (size_t i = 0; weights_shape_at(i); i++) {
        const struct weights_shape *shape = weights_shape_at(i);
        assert_ptr_equal(weights_shape_find(shape->name), shape);
        assert_true(shape->n_head % shape->n_kv_head == 0 && shape->d_head % 2 == 0);
        if (strncmp(shape->name, "tiny-", 5) != 0) continue;
        struct weights_make_settings s = settings(shape->name, QUANT_F16);
        struct weights *w = make(&s);
        check_tensors(w, shape);
        check_experts(w, shape);
        check_keys(w, shape);
        weights_close(&w);
        n_tiny++;
    }
    assert_true(n_tiny >= 6);
    assert_null(weights_shape_find("tiny"));
    assert_ptr_equal(weights_shape_find("QWEN2.5-1.5B"), weights_shape_find("qwen2.5-1.5b"));
}

/* Parameters per shape against the published counts: embeddings, layers and norms, in units of 1000. */
static void real_shapes_have_the_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double millions;
    } want[] = {{"qwen2.5-0.5b", 494.03}, {"qwen2.5-1.5b", 1543.71}, {"qwen2.5-3b", 3085.94}, {"qwen2.5-7b", 7615.62},
        {"llama3.2-1b", 1235.81}, {"llama3.2-3b", 3212.75}, {"llama3.1-8b", 8030.26}, {"qwen3-0.6b", 596.05},
        {"qwen3-1.7b", 1720.57}, {"qwen3-4b", 4022.47}, {"qwen3-8b", 8190.74}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct weights_shape *s = weights_shape_find(want[i].name);
        assert_non_null(s);
        double d = s->d_model, d_q = (double)s->n_head * s->d_head, d_kv = (double)s->n_kv_head * s->d_head;
        double layer = d * (2 * d_q + 2 * d_kv + 3.0 * s->d_ff + 2);
        if (strcmp(s->arch, "qwen2") == 0) layer += d_q + 2 * d_kv;
        if (strcmp(s->arch, "qwen3") == 0) layer += 2.0 * s->d_head;
        double total = s->n_layer * layer + d + d * s->n_vocab * (s->tied ? 1 : 2);
        if (fabs(total / 1e6 - want[i].millions) > 0.006) fail_msg("%s: %.3f M", want[i].name, total / 1e6);
    }
}

static void overrides_and_refusals(void **state)
{
    (void)state;
    struct weights_make_settings s = settings("tiny-qwen2", QUANT_Q8_0);
    s.n_layer = 3;
    s.n_vocab = 700;
    struct weights *w = make(&s);
    assert_int_equal(arch_u32(w, "qwen2", "block_count"), 3);
    check_shape(w, "token_embd.weight", 256, 700);
    assert_non_null(weights_tensor_find(w, "blk.2.ffn_up.weight"));
    weights_close(&w);
    s.n_vocab = 511;
    assert_int_equal(weights_make_model(in_folder("no"), &s, &err), LUTRA_E_ARGUMENT);
    s = settings("tiny-gpt", QUANT_F16);
    assert_int_equal(weights_make_model(in_folder("no"), &s, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "no shape 'tiny-gpt'"));
    s = settings("tiny-qwen2", QUANT_I32);
    assert_int_equal(weights_make_model(in_folder("no"), &s, &err), LUTRA_E_ARGUMENT);
    s = settings("tiny-qwen2", QUANT_F16);
    s.tokenizer = in_folder("absent.gguf");
    assert_int_equal(weights_make_model(in_folder("no"), &s, &err), LUTRA_E_IO);
    assert_int_equal(access(in_folder("no"), F_OK), -1);
}

/* ---- tokenizer ---- */

static void vocabulary_is_complete(void **state)
{
    (void)state;
    struct weights_make_settings s = settings("tiny-llama", QUANT_F16);
    struct weights *w = make(&s);
    const struct gguf_kv *tokens, *merges;
    int32_t types[512];
    uint64_t n;
    uint32_t bos = 0, eos = 0;
    assert_int_equal(weights_get_array(w, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, NULL), 0);
    assert_int_equal(weights_get_array(w, "tokenizer.ggml.merges", GGUF_STRING, &merges, NULL), 0);
    assert_int_equal(weights_copy_i32(w, "tokenizer.ggml.token_type", types, 512, &n, NULL), 0);
    assert_true(tokens->n == 512 && n == 512 && merges->n > 10);
    assert_int_equal(weights_get_u32(w, "tokenizer.ggml.bos_token_id", &bos, NULL), 0);
    assert_int_equal(weights_get_u32(w, "tokenizer.ggml.eos_token_id", &eos, NULL), 0);
    assert_memory_equal(gguf_kv_str(tokens, bos).s, "<|begin_of_text|>", 17);
    assert_memory_equal(gguf_kv_str(tokens, eos).s, "<|end_of_text|>", 15);
    assert_true(types[bos] == 3 && types[eos] == 3 && types[400] == 5 && types[0] == 1);
    assert_memory_equal(gguf_kv_str(tokens, 'A').s, "A", 1);
    assert_memory_equal(gguf_kv_str(tokens, ' ').s, "\xc4\xa0", 2);  /* U+0120 */
    assert_memory_equal(gguf_kv_str(tokens, '\n').s, "\xc4\x8a", 2); /* U+010A */
    assert_memory_equal(gguf_kv_str(tokens, 173).s, "\xc5\x83", 2);  /* the last that is moved: U+0143 */
    assert_memory_equal(gguf_kv_str(tokens, 174).s, "\xc2\xae", 2);
    assert_memory_equal(gguf_kv_str(tokens, 255).s, "\xc3\xbf", 2);
    for (uint64_t i = 0; i < 512; i++) { /* all different */
        struct gguf_str a = gguf_kv_str(tokens, i);
        for (uint64_t k = 0; k < i; k++) {
            struct gguf_str b = gguf_kv_str(tokens, k);
            assert_false(a.n == b.n && memcmp(a.s, b.s, a.n) == 0);
        }
    }
    for (uint64_t i = 0; i < merges->n; i++) { /* the result and both parts of every merge are tokens */
        struct gguf_str m = gguf_kv_str(merges, i), t = gguf_kv_str(tokens, 256 + i);
        const char *gap = memchr(m.s, ' ', m.n);
        size_t left = (size_t)(gap - m.s), right = m.n - left - 1, found = 0;
        assert_int_equal(t.n, left + right);
        assert_memory_equal(t.s, m.s, left);
        assert_memory_equal(t.s + left, gap + 1, right);
        for (uint64_t k = 0; k < 256 + i; k++) {
            struct gguf_str p = gguf_kv_str(tokens, k);
            found += p.n == left && memcmp(p.s, m.s, left) == 0;
            found += p.n == right && memcmp(p.s, gap + 1, right) == 0;
        }
        assert_true(found >= 2 || (found == 1 && left == right));
    }
    weights_close(&w);
}

static void tokenizer_of_another_file(void **state)
{
    (void)state;
    struct weights_make_settings s = settings("tiny-qwen2", QUANT_F16);
    s.n_vocab = 600;
    assert_int_equal(weights_make_model(in_folder("donor.gguf"), &s, NULL), 0);
    s = settings("tiny-qwen3", QUANT_F16);
    s.tokenizer = in_folder("donor.gguf");
    struct weights *w = make(&s);
    const struct gguf_kv *tokens;
    assert_int_equal(weights_get_array(w, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, NULL), 0);
    assert_int_equal(tokens->n, 600);
    check_shape(w, "token_embd.weight", 256, 600);
    weights_close(&w);
}

/* ---- numbers ---- */

static double deviation(const float *x, size_t n)
{
    double sum = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        square += (double)x[i] * x[i];
    }
    return sqrt(square / (double)n - sum * sum / (double)n / (double)n);
}

static void weights_are_normal_and_rows_differ(void **state)
{
    (void)state;
    struct weights_make_settings s = settings("qwen2.5-0.5b", QUANT_F32);
    s.n_layer = 1;
    s.n_vocab = 4096; /* rows of 896: drawn from the pool */
    struct weights *w = make(&s);
    const struct tensor *t = weights_tensor_find(w, "token_embd.weight");
    const float *x = t->data;
    assert_true(fabs(deviation(x, 896 * 4096) * sqrt(896) - 1) < 0.01);
    size_t equal = 0;
    for (int i = 0; i < 512; i++)
        for (int k = 0; k < i; k++) equal += memcmp(x + 896 * i, x + 896 * k, 896 * 4) == 0;
    assert_int_equal(equal, 0);
    float *norm = floats(w, "blk.0.attn_norm.weight"), *bias = floats(w, "blk.0.attn_q.bias");
    assert_true(fabs(deviation(norm, 896) - 0.1) < 0.02 && fabsf(norm[0] - 1) < 0.7f);
    assert_true(fabs(deviation(bias, 896) - 0.1) < 0.02);
    free(norm);
    free(bias);
    weights_close(&w);
}

/* The same seed in another type is the same model, rounded; another seed is another model. */
static void a_seed_is_a_model(void **state)
{
    (void)state;
    static const char *const shapes[] = {"tiny-qwen3", "qwen2.5-0.5b"}; /* made row by row, and from the pool */
    for (int k = 0; k < 2; k++) {
        struct weights_make_settings s = settings(shapes[k], QUANT_F32);
        s.n_layer = 1;
        s.n_vocab = 512;
        struct weights *w = make(&s);
        float *x = floats(w, "blk.0.ffn_down.weight");
        const struct tensor *t = weights_tensor_find(w, "blk.0.ffn_down.weight");
        size_t n = (size_t)(t->ne[0] * t->ne[1]);
        weights_close(&w);
        for (int type = 0; type < 3; type++) {
            s.type = (enum quant_type[]){QUANT_Q8_0, QUANT_Q4_K, QUANT_F32}[type];
            s.seed = type == 2 ? 2 : 1;
            w = make(&s);
            float *y = floats(w, "blk.0.ffn_down.weight");
            double e = 0, square = 0;
            for (size_t i = 0; i < n; i++) {
                e += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
                square += (double)x[i] * x[i];
            }
            assert_true(type == 2 ? e > square : e < 0.01 * square);
            free(y);
            weights_close(&w);
        }
        free(x);
    }
}

static void outliers_are_planted(void **state)
{
    (void)state;
    struct weights_make_settings s = settings("tiny-qwen2", QUANT_F32);
    struct weights *w = make(&s);
    float *up = floats(w, "blk.0.ffn_up.weight"), *down = floats(w, "blk.0.ffn_down.weight");
    weights_close(&w);
    s.outliers = true;
    w = make(&s);
    float *up2 = floats(w, "blk.0.ffn_up.weight"), *down2 = floats(w, "blk.0.ffn_down.weight");
    int rows = 0;
    for (int c = 0; c < 512; c++) {
        float row = up2[256 * c] / up[256 * c], column = down2[512 * 3 + c] / down[512 * 3 + c];
        assert_true(fabsf(row - 1) < 1e-5f || fabsf(row - 1000) < 0.01f);
        assert_true(fabsf(column - (row > 2 ? 1 / 32.f : 1.0f)) < 1e-6f);
        rows += row > 2;
    }
    assert_int_equal(rows, 4);
    weights_close(&w);
    free(up);
    free(down);
    free(up2);
    free(down2);
}

static void llama3_factors(void **state)
{
    (void)state;
    /* d_head 128, base 500000: wave length 2 pi 500000^(i/64); below 2048 up to i = 28, above 8192 from i = 35. */
    for (uint32_t i = 0; i < 64; i++) {
        float f = weights_llama3_rope_factor(i, 128, 5e5f, &(struct weights_llama3_rope){8, 1, 4, 8192});
        if (i <= 28)
            assert_true(f == 1);
        else if (i >= 35)
            assert_true(f == 8);
        else
            assert_true(f > 1 && f < 8);
    }
    struct weights_make_settings s = settings("tiny-llama", QUANT_F16);
    struct weights *w = make(&s);
    const float *f = weights_tensor_find(w, "rope_freqs.weight")->data;
    assert_true(f[0] == 1 && f[31] == 8);
    weights_close(&w);
}

static int stop(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    return done > total / 2;
}

static void cancelling_leaves_no_file(void **state)
{
    (void)state;
    struct weights_make_settings s = settings("tiny-qwen2", QUANT_F16);
    s.progress = stop;
    assert_int_equal(weights_make_model(in_folder("cancelled"), &s, &err), LUTRA_E_CANCELLED);
    assert_int_equal(access(in_folder("cancelled"), F_OK), -1);
}

/* ---- folders of groups ---- */

/* Every width and way: the tensors of the architecture, weights of the usual size, zeros whose storage can be told;
 * the differences of codes fill their range. */
static void groups_are_models(void **state)
{
    (void)state;
    static const char *const shapes[] = {"tiny-llama", "tiny-qwen2", "tiny-qwen3"};
    static const struct quant_group groups[] = {{2, 64, false}, {2, 128, true}, {3, 32, false}, {3, -1, true},
        {4, 64, false}, {4, 32, true}, {8, 64, true}, {8, 32, false}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct weights_make_settings s = settings(shapes[i % 3], QUANT_F16);
        s.group = &groups[i];
        char folder[32];
        snprintf(folder, sizeof folder, "made%u", (unsigned)i);
        struct weights *w;
        if (weights_make_model(in_folder(folder), &s, &err) < 0) fail_msg("%s", err.what);
        if (weights_open(&w, in_folder(folder), &err) < 0) fail_msg("%u: %s", (unsigned)i, err.what);
        check_tensors(w, weights_shape_find(s.shape));
        check_keys(w, weights_shape_find(s.shape));
        struct gguf_str zeros;
        assert_int_equal(weights_get_str(w, "lutra.zeros", &zeros, NULL), 0);
        assert_memory_equal(zeros.s, "v2; layers for v1 0", 19);
        const struct tensor *t = weights_tensor_find(w, "blk.1.ffn_down.weight");
        weights_fetch(w, t);
        float *x = floats(w, t->name);
        double square = 0; /* with the mean, which is half a code from 0 */
        for (int k = 0; k < 256 * 512; k++) square += (double)x[k] * x[k];
        if (!(fabs(square / 256 - 1) < 0.1))
            fail_msg("%u: squares %.3f of what they should be", (unsigned)i, square / 256);
        free(x);
        weights_close(&w);
        assert_int_equal(weights_make_model(in_folder(folder), &s, &err), LUTRA_E_ARGUMENT); /* there already */
    }
}

static void groups_that_are_refused(void **state)
{
    (void)state;
    static const struct quant_group wide = {4, 128, true};
    static const struct {
        const char *shape;
        bool outliers;
        const char *message;
    } cases[] = {{"tiny-gemma3", false, "not of gemma3"}, {"tiny-qwen2", true, "groups with outliers are not made"},
        {"no-such-shape", false, "no shape"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights_make_settings s = settings(cases[i].shape, QUANT_F16);
        s.group = &wide;
        s.n_layer = 1;
        s.outliers = cases[i].outliers;
        assert_true(weights_make_model(in_folder("no"), &s, &err) < 0);
        if (!strstr(err.what, cases[i].message)) fail_msg("%s", err.what);
        assert_int_equal(access(in_folder("no"), F_OK), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_shapes_have_all_their_tensors),
        cmocka_unit_test(real_shapes_have_the_published_sizes),
        cmocka_unit_test(overrides_and_refusals),
        cmocka_unit_test(vocabulary_is_complete),
        cmocka_unit_test(tokenizer_of_another_file),
        cmocka_unit_test(weights_are_normal_and_rows_differ),
        cmocka_unit_test(a_seed_is_a_model),
        cmocka_unit_test(outliers_are_planted),
        cmocka_unit_test(groups_are_models),
        cmocka_unit_test(groups_that_are_refused),
        cmocka_unit_test(llama3_factors),
        cmocka_unit_test(cancelling_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
