/* SPDX-License-Identifier: MIT
 *
 * How GPTQ's zeros are stored is found out from the codes: 1,000 random matrices, rounded as GPTQ's programs do, in
 * folders that say it wrong.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "unit/weights/build.h"
#include "weights/weights.h"

enum { K = 128, N = 64, MOST_GROUPS = K / 32, MATRICES = 1000 };

struct form {
    int bits, group, version, spread;
    bool symmetric;
};

/* [K][N], [groups][N] */
static int code[K][N], zero[MOST_GROUPS][N];

static uint64_t state;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

/* Weights as they are spread: normally, with heavy tails, with a few that are far out. */
static double weight(int spread)
{
    double normal = sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
    if (spread == 1) return normal * fabs(normal);
    return spread == 2 && uniform() < 0.01 ? 8 * normal : normal;
}

/* One group of an output: codes between its least and its largest weight, and zero among them. */
static void round_group(const struct form *f, int n, int g)
{
    double w[K], low = 0, high = 0, most = (1 << f->bits) - 1;
    for (int i = 0; i < f->group; i++) {
        w[i] = weight(f->spread);
        low = fmin(low, w[i]);
        high = fmax(high, w[i]);
    }
    if (f->symmetric) high = fmax(high, -low), low = -high;
    double scale = (high - low) / most;
    zero[g][n] = f->symmetric ? 1 << (f->bits - 1) : (int)lround(-low / scale);
    for (int i = 0; i < f->group; i++)
        code[g * f->group + i][n] = (int)fmin(fmax((double)lround(w[i] / scale) + zero[g][n], 0), most);
}

/* n codes `stride` apart as words that lie `step` apart. */
static void pack(uint32_t *to, int step, const int *from, int stride, int n, int bits, int less)
{
    for (int i = 0; i < n; i++) {
        uint64_t v = (uint64_t)((from[i * stride] - less) & ((1 << bits) - 1)) << (i * bits % 32);
        to[i * bits / 32 * step] |= (uint32_t)v;
        if (v >> 32) to[(i * bits / 32 + 1) * step] |= (uint32_t)(v >> 32);
    }
}

static void save_matrix(const struct form *f)
{
    static struct build file;
    static uint32_t words[K * N];
    char header[512];
    int groups = K / f->group, n_code = K * N * f->bits / 8, n_zero = groups * N * f->bits / 8,
        n_scale = 2 * groups * N;
    int n = snprintf(header, sizeof header,
        "{\"model.layers.0.mlp.up_proj.qweight\":{\"dtype\":\"I32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
        "\"model.layers.0.mlp.up_proj.qzeros\":{\"dtype\":\"I32\",\"shape\":[%d,%d],\"data_offsets\":[%d,%d]},"
        "\"model.layers.0.mlp.up_proj.scales\":{\"dtype\":\"F16\",\"shape\":[%d,%d],\"data_offsets\":[%d,%d]}}",
        K * f->bits / 32, N, n_code, groups, N * f->bits / 32, n_code, n_code + n_zero, groups, N, n_code + n_zero,
        n_code + n_zero + n_scale);
    uint64_t length = (uint64_t)n;
    file.n = 0;
    add(&file, &length, sizeof length);
    add(&file, header, (size_t)n);
    memset(words, 0, sizeof words);
    for (int j = 0; j < N; j++) pack(words + j, N, &code[0][j], N, K, f->bits, 0);
    add(&file, words, (size_t)n_code);
    memset(words, 0, sizeof words);
    for (int g = 0; g < groups; g++) pack(words + g * N * f->bits / 32, 1, zero[g], 1, N, f->bits, f->version == 1);
    add(&file, words, (size_t)n_zero);
    memset(words, 0x2c, sizeof words);
    add(&file, words, (size_t)n_scale);
    save(in_folder("hf/model.safetensors"), file.b, file.n);
}

static void save_text(const char *name, const char *text)
{
    save(in_folder(name), text, strlen(text));
}

/* The folder without its tensors; what it says of zeros is not so. */
static void save_folder(int version)
{
    char text[512];
    mkdir(in_folder("hf"), 0700);
    snprintf(text, sizeof text,
        "{\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":%d,\"num_attention_heads\":2,"
        "\"num_hidden_layers\":1,\"intermediate_size\":%d,\"max_position_embeddings\":64,\"rms_norm_eps\":1e-6,"
        "\"tie_word_embeddings\":true,\"quantization_config\":{\"quant_method\":\"gptq\",\"checkpoint_format\":\"%s\"}"
        "}",
        K, N, version == 1 ? "gptq_v2" : "gptq");
    save_text("hf/config.json", text);
    save_text("hf/tokenizer.json",
        "{\"added_tokens\":[],\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0},\"merges\":[]}}");
}

/* 8 bits with zeros of their own are left out: a code is too little of their spread, and the label counts. */
static void wrong_labels(void **unused)
{
    static const int bits[] = {2, 3, 4, 8}, group[] = {32, 64, 128};
    int right = 0;
    (void)unused;
    state = 1;
    for (int i = 0; i < MATRICES; i++) {
        struct form f = {bits[i % 4], group[i / 16 % 3], 1 + i / 8 % 2, i / 48 % 3, i % 4 == 3 || i / 4 % 2};
        struct weights *w;
        struct lutra_error err;
        struct gguf_str found;
        bool wrong = false;
        for (int n = 0; n < N; n++)
            for (int g = 0; g < K / f.group; g++) round_group(&f, n, g);
        save_folder(f.version);
        save_matrix(&f);
        if (weights_open(&w, in_folder("hf"), &err) < 0) fail_msg("matrix %d: %s", i, err.what);
        assert_int_equal(weights_get_str(w, "lutra.zeros", &found, &err), 0);
        assert_int_equal(weights_opt_bool(w, "lutra.zeros.label_is_wrong", &wrong, &err), 0);
        bool so = found.n > 1 && found.s[0] == 'v' && found.s[1] == '0' + f.version && wrong;
        if (!so) print_message("matrix %d, %d bits: %.*s\n", i, f.bits, (int)found.n, found.s);
        right += so;
        weights_close(&w);
    }
    assert_int_equal(right, MATRICES);
}

/* What is asked for counts, whatever the data say; not where there is no such layer. */
static void asked_for(void **unused)
{
    static const struct form f = {4, 32, 2, 0, false};
    enum weights_zeros zeros;
    struct lutra_error err;
    (void)unused;
    for (int n = 0; n < N; n++)
        for (int g = 0; g < K / f.group; g++) round_group(&f, n, g);
    save_folder(f.version);
    save_matrix(&f);
    for (int i = 1; i <= 2; i++) {
        struct weights *w;
        struct gguf_str found;
        assert_int_equal(weights_zeros_named(i == 1 ? "v1" : "v2", &zeros, &err), 0);
        struct weights_how how = {zeros, false};
        if (weights_open_as(&w, in_folder("hf"), how, &err) < 0) fail_msg("%s", err.what);
        assert_int_equal(weights_get_str(w, "lutra.zeros", &found, &err), 0);
        assert_true(found.n > 1 && found.s[1] == '0' + i);
        weights_close(&w);
    }
    assert_int_equal(weights_zeros_named(NULL, &zeros, &err), 0);
    assert_int_equal(zeros, WEIGHTS_ZEROS_BY_DATA);
    assert_int_equal(weights_zeros_named("v3", &zeros, &err), LUTRA_E_ARGUMENT);
    assert_string_equal(err.what, "zeros 'v3'; there are v1 and v2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_labels), cmocka_unit_test(asked_for)};
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
