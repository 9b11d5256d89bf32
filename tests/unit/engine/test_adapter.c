/* SPDX-License-Identifier: MIT
 *
 * LoRA adapters: a model with one is the model whose matrices it was merged into; without one, or with a scale of 0, it
 * has the bits it had; what does not fit is named.
 */
#include "engine/model_impl.h"
#include "engine_fixture.h"

#include "quant/quant.h"
#include "files/gguf_write.h"
#include "weights/weights.h"

enum { N_TOKEN = 40, N_PAIR_MOST = 8, RANK = 6 };

static float noise(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return ((float)(*state >> 8) / (1 << 24) - 0.5f) * 0.06f;
}

struct adapter {
    const char *arch, *type;
    const char *base[N_PAIR_MOST]; /* tensors it is for */
    int n, rank;
    float alpha;
    bool no_b, too_wide, flat /* of one expert */;
    enum quant_type kind;
};

/* A and B of pair i, as floats that halves hold exactly. */
static void make_pair(int i, float *a, int64_t n_in, float *b, int64_t n_out, int rank)
{
    uint32_t state = 77 + (uint32_t)i;
    for (int64_t k = 0; k < n_in * rank; k++) a[k] = roundf(noise(&state) * 8192) / 8192;
    for (int64_t k = 0; k < n_out * rank; k++) b[k] = roundf(noise(&state) * 8192) / 8192;
}

static void write_floats(struct gguf_writer *w, enum quant_type kind, const float *x, size_t n)
{
    void *half = malloc(n * 2);
    if (kind == QUANT_F16) quant_info_of(QUANT_F16)->quantize(x, half, n);
    gguf_writer_data(w, kind == QUANT_F16 ? half : x, kind == QUANT_F16 ? n * 2 : n * 4);
    free(half);
}

static void write_adapter(const char *path, const char *model, const struct adapter *d)
{
    struct weights *base;
    struct gguf_writer *w;
    OK(weights_open(&base, model, err));
    OK(gguf_writer_open(&w, path, err));
    gguf_writer_put_str(w, "general.type", "adapter");
    gguf_writer_put_str(w, "adapter.type", d->type ? d->type : "lora");
    gguf_writer_put_str(w, "general.architecture", d->arch);
    gguf_writer_put_f32(w, "adapter.lora.alpha", d->alpha);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < d->n; i++) {
            const struct tensor *t = weights_tensor_find(base, d->base[i]);
            int64_t n_in = (t ? t->ne[0] : 64) + d->too_wide, n_out = t ? t->ne[1] : 64, n = t ? t->ne[2] : 1;
            int n_dim = n > 1 && !d->flat ? 3 : 2;
            char name[96];
            float *a = malloc((size_t)(n * n_in * d->rank) * sizeof *a),
                  *b = malloc((size_t)(n * n_out * d->rank) * sizeof *b);
            if (d->flat) n = 1;
            make_pair(i, a, n * n_in, b, n * n_out, d->rank);
            snprintf(name, sizeof name, "%s.lora_a", d->base[i]);
            if (pass == 0) gguf_writer_add_tensor(w, name, d->kind, n_dim, (int64_t[]){n_in, d->rank, n});
            if (pass == 1) write_floats(w, d->kind, a, (size_t)(n * n_in * d->rank));
            snprintf(name, sizeof name, "%s.lora_b", d->base[i]);
            if (pass == 0 && !d->no_b) gguf_writer_add_tensor(w, name, d->kind, n_dim, (int64_t[]){d->rank, n_out, n});
            if (pass == 1 && !d->no_b) write_floats(w, d->kind, b, (size_t)(n * n_out * d->rank));
            free(a);
            free(b);
        }
    OK(gguf_writer_commit(&w, err));
    weights_close(&base);
}

/* The model of floats with what the adapter adds in its matrices. */
static void write_merged(const char *path, const char *model, const struct adapter *d, float scale)
{
    struct weights *base;
    FILE *f = fopen(model, "rb");
    static uint8_t all[64 << 20];
    size_t n = fread(all, 1, sizeof all, f);
    fclose(f);
    OK(weights_open(&base, model, err));
    for (int i = 0; i < d->n; i++) {
        const struct tensor *t = weights_tensor_find(base, d->base[i]);
        int64_t n_in = t->ne[0], n_out = t->ne[1] * t->ne[2]; /* experts lie below each other */
        float *a = malloc((size_t)(n_in * t->ne[2] * d->rank) * sizeof *a),
              *b = malloc((size_t)(n_out * d->rank) * sizeof *b);
        uint8_t *at = memmem(all, n, t->data, 256);
        assert_non_null(at);
        make_pair(i, a, n_in * t->ne[2], b, n_out, d->rank);
        for (int64_t o = 0; o < n_out; o++)
            for (int64_t k = 0; k < n_in; k++) {
                float w;
                double sum = 0;
                const float *own = a + o / t->ne[1] * d->rank * n_in;
                memcpy(&w, at + (o * n_in + k) * 4, 4);
                for (int r = 0; r < d->rank; r++) sum += (double)b[o * d->rank + r] * own[r * n_in + k];
                w = (float)(w + sum * scale * (d->alpha != 0 ? d->alpha / (float)d->rank : 1));
                memcpy(at + (o * n_in + k) * 4, &w, 4);
            }
        free(a);
        free(b);
    }
    weights_close(&base);
    f = fopen(path, "wb");
    assert_int_equal(fwrite(all, 1, n, f), n);
    fclose(f);
}

static int open_with(
    struct fixture *f, const char *path, const char *const *adapter, const float *scale, int n, struct lutra_error *why)
{
    struct lutra_model_settings set;
    struct lutra_adapter list[2];
    lutra_model_settings_init(&set, sizeof set);
    for (int i = 0; i < n; i++) list[i] = (struct lutra_adapter){adapter[i], scale[i]};
    set.adapter = list;
    set.n_adapter = n;
    lutra_session_close(&f->s);
    lutra_model_close(&f->model);
    return lutra_model_open(&f->model, f->rt, path, &set, why);
}

/* Logits of all positions; in one pass or token by token. */
static float *logits_of(struct fixture *f, int step, int *n_vocab)
{
    struct lutra_row row[N_TOKEN];
    struct lutra_model_info info;
    int32_t seq;
    lutra_model_info_get(f->model, &info, sizeof info);
    *n_vocab = info.n_vocab;
    float *out = malloc((size_t)N_TOKEN * (size_t)info.n_vocab * sizeof *out);
    struct lutra_session_settings set;
    lutra_session_settings_init(&set, sizeof set);
    set.n_ctx = 64;
    set.n_seq = 2;
    set.cache_type = "f32";
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &set, err));
    OK(lutra_seq_open(f->s, 0, &seq, err));
    for (int at = 0; at < N_TOKEN; at += step) {
        for (int i = 0; i < step; i++)
            row[i] = (struct lutra_row){token_at(at + i), at + i, seq, i - 1, LUTRA_WANT_LOGITS, 0};
        OK(lutra_forward(f->s, row, step, sizeof *row, err));
        for (int i = 0; i < step; i++)
            memcpy(out + (size_t)(at + i) * (size_t)info.n_vocab, lutra_forward_result(f->s, i)->logits,
                (size_t)info.n_vocab * sizeof *out);
    }
    return out;
}

static double distance(const float *a, const float *b, int n)
{
    double most = 0, sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        if (fabs((double)a[i] - b[i]) > most) most = fabs((double)a[i] - b[i]);
        sum += a[i];
        squares += (double)a[i] * a[i];
    }
    return most / sqrt(squares / n - sum / n * sum / n);
}

static char adapter_path[64], merged_path[64];

static void compare_on(const char *device, const char *shape, const struct adapter *d, float scale)
{
    struct fixture f;
    int n;
    fixture_make(&f, &(struct where){device, NULL}, shape, "F32", 0, 2);
    write_adapter(adapter_path, f.path, d);
    write_merged(merged_path, f.path, d, scale);
    OK(open_with(&f, f.path, NULL, NULL, 0, err));
    float *plain = logits_of(&f, N_TOKEN, &n);
    OK(open_with(&f, merged_path, NULL, NULL, 0, err));
    float *merged = logits_of(&f, N_TOKEN, &n);
    OK(open_with(&f, f.path, (const char *const[]){adapter_path}, (float[]){scale}, 1, err));
    float *adapted = logits_of(&f, N_TOKEN, &n), *by_row = logits_of(&f, 1, &n);
    assert_memory_equal(adapted, by_row, (size_t)N_TOKEN * (size_t)n * sizeof *adapted);
    double with = distance(merged, adapted, N_TOKEN * n), without = distance(merged, plain, N_TOKEN * n);
    print_message("%s: %.1e from the merged model, which is %.1e from the plain one\n", shape, with, without);
    assert_true(with < 1e-4);
    assert_true(without > 1e-2);
    OK(open_with(&f, f.path, (const char *const[]){adapter_path}, (float[]){0}, 1, err));
    float *none = logits_of(&f, N_TOKEN, &n);
    assert_memory_equal(none, plain, (size_t)N_TOKEN * (size_t)n * sizeof *none);
    free(plain);
    free(merged);
    free(adapted);
    free(by_row);
    free(none);
    fixture_close(&f);
}

static void compare(const char *shape, const struct adapter *d, float scale)
{
    compare_on(NULL, shape, d, scale);
}

static void an_adapter_is_what_merging_gives(void **state)
{
    (void)state;
    compare("tiny-qwen2",
        &(struct adapter){.arch = "qwen2",
            .n = 7,
            .rank = RANK,
            .alpha = 16,
            .kind = QUANT_F16,
            .base = {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight",
                "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight", "blk.1.ffn_down.weight"}},
        0.75f);
    compare("tiny-phi", /* slices of one tensor */
        &(struct adapter){.arch = "phi3",
            .n = 2,
            .rank = 16,
            .alpha = 0,
            .kind = QUANT_F32,
            .base = {"blk.0.attn_qkv.weight", "blk.1.ffn_up.weight"}},
        -0.5f);
    compare("tiny-qwen35", /* recurrent layers, gates */
        &(struct adapter){.arch = "qwen35",
            .n = 5,
            .rank = 8,
            .alpha = 8,
            .kind = QUANT_F32,
            .base = {"blk.0.attn_qkv.weight", "blk.0.ssm_out.weight", "blk.3.attn_q.weight", "blk.2.ffn_gate.weight",
                "blk.3.ffn_down.weight"}},
        1);
    compare("tiny-gpt-oss",
        &(struct adapter){.arch = "gpt-oss",
            .n = 2,
            .rank = 4,
            .alpha = 4,
            .kind = QUANT_F16,
            .base = {"blk.0.attn_q.weight", "blk.1.attn_output.weight"}},
        1);
}

static const struct adapter of_experts = {.arch = "qwen3moe",
    .n = 5,
    .rank = 8,
    .alpha = 16,
    .kind = QUANT_F16,
    .base = {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_down_exps.weight", "blk.1.ffn_up_exps.weight",
        "blk.1.ffn_down_exps.weight", "blk.1.attn_k.weight"}};

/* Ranks that are whole sixteens, and others; gates and ups together, and beside a shared expert. */
static void adapters_of_experts(void **state)
{
    int cpu[4];
    (void)state;
    compare("tiny-qwen3moe", &of_experts, 1.5f);
    if (cpu_allowed(cpu, 4) >= 2 && cpu[0] == 0 && cpu[1] == 1)
        compare_on("cpu:0,cpu:1", "tiny-qwen3moe", &of_experts, 1.5f);
    compare("tiny-gemma4-moe",
        &(struct adapter){.arch = "gemma4",
            .n = 3,
            .rank = 5,
            .alpha = 0,
            .kind = QUANT_F32,
            .base = {"blk.0.ffn_gate_up_exps.weight", "blk.2.ffn_down_exps.weight", "blk.1.ffn_up.weight"}},
        -2);
    compare("tiny-granitehybrid-moe",
        &(struct adapter){.arch = "granitehybrid",
            .n = 4,
            .rank = 16,
            .alpha = 32,
            .kind = QUANT_F32,
            .base = {"blk.0.ffn_up_exps.weight", "blk.0.ffn_up_shexp.weight", "blk.1.ssm_in.weight",
                "blk.2.ffn_gate_inp.weight"}},
        1);
}

/* Adapters of experts are packed whole; how many experts of the model are changes nothing. */
static void with_few_experts_packed(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_model_settings set;
    int n;
    fixture_make(&f, &(struct where){0}, "tiny-qwen3moe", "F32", 0, 2);
    write_adapter(adapter_path, f.path, &of_experts);
    OK(open_with(&f, f.path, (const char *const[]){adapter_path}, (float[]){1}, 1, err));
    float *all = logits_of(&f, N_TOKEN, &n);
    lutra_session_close(&f.s);
    lutra_model_close(&f.model);
    lutra_model_settings_init(&set, sizeof set);
    set.adapter = &(struct lutra_adapter){adapter_path, 1};
    set.n_adapter = 1;
    set.expert_ram = 1 << 20; /* of 9 MiB */
    OK(lutra_model_open(&f.model, f.rt, f.path, &set, err));
    float *few = logits_of(&f, 1, &n);
    assert_memory_equal(all, few, (size_t)N_TOKEN * (size_t)n * sizeof *all);
    free(all);
    free(few);
    fixture_close(&f);
}

static void two_add_up(void **state)
{
    (void)state;
    struct fixture f;
    int n;
    struct adapter d = {.arch = "qwen2",
        .n = 2,
        .rank = RANK,
        .alpha = 16,
        .kind = QUANT_F32,
        .base = {"blk.0.attn_q.weight", "blk.1.ffn_down.weight"}};
    fixture_make(&f, &(struct where){0}, "tiny-qwen2", "F32", 0, 2);
    write_adapter(adapter_path, f.path, &d);
    const char *const twice[] = {adapter_path, adapter_path};
    OK(open_with(&f, f.path, twice, (float[]){0.25f, 0.5f}, 2, err));
    float *two = logits_of(&f, N_TOKEN, &n);
    OK(open_with(&f, f.path, twice, (float[]){0.75f}, 1, err));
    float *one = logits_of(&f, N_TOKEN, &n);
    assert_true(distance(one, two, N_TOKEN * n) < 2e-5);
    free(one);
    free(two);
    fixture_close(&f);
}

/* A profile of a model with an adapter is that model's, whose file stays without one. */
static void a_profile_is_of_its_adapters(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_model_settings set;
    struct lutra_error why;
    const char *const path = adapter_path;
    char *text;
    int cpu[4] = {0};
    struct adapter d = {
        .arch = "qwen2", .n = 1, .rank = RANK, .alpha = 16, .kind = QUANT_F32, .base = {"blk.0.attn_q.weight"}};
    if (cpu_allowed(cpu, 4) < 2 || cpu[0] != 0 || cpu[1] != 1) skip();
    fixture_make(&f, &(struct where){"cpu:0,cpu:1", NULL}, "tiny-qwen2", "F32", 0, 2);
    write_adapter(adapter_path, f.path, &d);
    lutra_model_settings_init(&set, sizeof set);
    set.adapter = &(struct lutra_adapter){path, 1};
    set.n_adapter = 1;
    OK(lutra_profile(f.rt, f.path, NULL, &set, &text, err));
    assert_non_null(strstr(text, "matmul 6>256 F32")); /* the adapter's own matrix is measured */
    lutra_free(text);
    set.plan = "solved";
    OK(lutra_model_open(&f.model, f.rt, f.path, &set, err));
    char *beside = model_profile_path(f.model);
    lutra_model_close(&f.model);
    set.n_adapter = 0;
    assert_int_equal(lutra_model_open(&f.model, f.rt, f.path, &set, &why), LUTRA_E_IO);
    assert_int_equal(unlink(beside), 0);
    free(beside);
    fixture_close(&f);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        int code;
        struct adapter d;
    } cases[] = {
        {"'general.architecture' is 'llama', not 'qwen2'", LUTRA_E_UNSUPPORTED,
            {.arch = "llama", .n = 1, .base = {"blk.0.attn_q.weight"}}},
        {"'adapter.type' is 'ia3', not 'lora'", LUTRA_E_UNSUPPORTED,
            {.arch = "qwen2", .type = "ia3", .n = 1, .base = {"blk.0.attn_q.weight"}}},
        {"'blk.0.attn_q.weight' has no .lora_b", LUTRA_E_FORMAT,
            {.arch = "qwen2", .n = 1, .no_b = true, .base = {"blk.0.attn_q.weight"}}},
        {"'blk.0.attn_q.weight' of 256 x 256 x 1: .lora_a of 257 x 6 x 1", LUTRA_E_FORMAT,
            {.arch = "qwen2", .n = 1, .too_wide = true, .base = {"blk.0.attn_q.weight"}}},
        {"has no tensor 'blk.9.attn_q.weight'", LUTRA_E_FORMAT,
            {.arch = "qwen2", .n = 1, .base = {"blk.9.attn_q.weight"}}},
        {"'token_embd.weight': adapters of embeddings, heads and vectors", LUTRA_E_UNSUPPORTED,
            {.arch = "qwen2", .n = 1, .base = {"token_embd.weight"}}},
    };
    struct fixture f;
    struct lutra_error why = {0};
    fixture_make(&f, &(struct where){0}, "tiny-qwen2", "Q4_0", 0, 1);
    const char *const path[] = {adapter_path};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct adapter d = cases[i].d;
        d.rank = RANK;
        write_adapter(adapter_path, f.path, &d);
        assert_int_equal(open_with(&f, f.path, path, (float[]){1}, 1, &why), cases[i].code);
        if (!strstr(why.what, cases[i].says)) fail_msg("'%s' is not in '%s'", cases[i].says, why.what);
    }
    assert_int_equal(open_with(&f, f.path, path, (float[]){NAN}, 1, &why), LUTRA_E_ARGUMENT);
    assert_int_equal(open_with(&f, f.path, (const char *const[]){f.path}, (float[]){1}, 1, &why), LUTRA_E_UNSUPPORTED);
    assert_true(open_with(&f, f.path, (const char *const[]){"/nowhere"}, (float[]){1}, 1, &why) < 0);
    fixture_close(&f);
    struct adapter flat = of_experts;
    flat.flat = true;
    fixture_make(&f, &(struct where){0}, "tiny-qwen3moe", "F32", 0, 1);
    write_adapter(adapter_path, f.path, &flat);
    assert_int_equal(open_with(&f, f.path, path, (float[]){1}, 1, &why), LUTRA_E_FORMAT);
    assert_non_null(strstr(why.what, "'blk.0.ffn_gate_exps.weight' of 256 x 256 x 8: .lora_a of 256 x 8 x 1"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_adapter_is_what_merging_gives),
        cmocka_unit_test(adapters_of_experts),
        cmocka_unit_test(with_few_experts_packed),
        cmocka_unit_test(a_profile_is_of_its_adapters),
        cmocka_unit_test(two_add_up),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    snprintf(adapter_path, sizeof adapter_path, "/tmp/lutra-test-adapter-%d", (int)getpid());
    snprintf(merged_path, sizeof merged_path, "/tmp/lutra-test-merged-%d", (int)getpid());
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(adapter_path);
    unlink(merged_path);
    return rc;
}
