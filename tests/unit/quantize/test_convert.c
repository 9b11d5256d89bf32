/* SPDX-License-Identifier: MIT
 *
 * Quantizing files: which tensor gets which type, the values, the metadata, and no file after failure or cancel.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "quant/quant.h"
#include "quantize/weighted.h"
#include "unit/weights/build.h"
#include "quantize/convert.h"
#include "make/make.h"
#include "sanitized.h"
#include "quantize/mix.h"

static struct lutra_error err;

static const char *make(const char *name, const char *shape, enum quant_type type)
{
    static char path[512]; /* of the latest */
    struct weights_make_settings s = weights_make_default();
    s.shape = shape;
    s.type = type;
    snprintf(path, sizeof path, "%s", in_folder(name));
    if (weights_make_model(path, &s, &err) < 0) fail_msg("%s", err.what);
    return path;
}

static struct weights *quantize(const char *in, const struct weights_quantize_settings *s)
{
    struct weights *w;
    if (weights_quantize_file(in, in_folder("out.gguf"), s, &err) < 0) fail_msg("%s", err.what);
    if (weights_open(&w, in_folder("out.gguf"), &err) < 0) fail_msg("%s", err.what);
    return w;
}

static enum quant_type type_of(const struct weights *w, const char *name)
{
    return weights_tensor_find(w, name)->type;
}

/* ---- types ---- */

static void matrices_change_and_vectors_stay(void **state)
{
    (void)state;
    const char *in = make("in.gguf", "tiny-qwen3", QUANT_F16);
    struct weights *from;
    assert_int_equal(weights_open(&from, in, NULL), 0);
    for (size_t i = 0; quant_info_at(i); i += SANITIZED ? 3 : 1) {
        struct weights_quantize_settings s = weights_quantize_default();
        s.mix = weights_mix_of(quant_info_at(i)->type);
        s.pure = true;
        assert_int_equal(!s.mix, !quant_plain(quant_info_at(i)->type));
        if (!s.mix) continue;
        struct weights *w = quantize(in, &s);
        uint32_t file_type = 999, version = 0;
        assert_int_equal(weights_get_u32(w, "general.file_type", &file_type, NULL), 0);
        assert_int_equal(file_type, quant_info_at(i)->file_type);
        assert_int_equal(weights_get_u32(w, "general.quantization_version", &version, NULL), 0);
        assert_int_equal(version, 2);
        assert_int_equal(weights_kv_count(w), weights_kv_count(from));
        assert_int_equal(weights_tensor_count(w), weights_tensor_count(from));
        for (size_t k = 0; k < weights_tensor_count(w); k++) {
            const struct tensor *a = weights_tensor_at(from, k), *b = weights_tensor_at(w, k);
            assert_string_equal(a->name, b->name);
            assert_memory_equal(a->ne, b->ne, sizeof a->ne);
            assert_int_equal(b->type, a->n_dim == 2 ? s.mix->type : QUANT_F32);
            if (a->type == b->type) assert_memory_equal(a->data, b->data, a->bytes);
        }
        weights_close(&w);
    }
    weights_close(&from);
}

/* The file holds what the quantizer makes of each row, whatever the chunks. */
static void values_are_the_quantizers(void **state)
{
    (void)state;
    const char *in = make("in.gguf", "tiny-qwen2", QUANT_F32);
    struct weights *from;
    struct weights_quantize_settings s = weights_quantize_default();
    s.mix = weights_mix_of(QUANT_Q4_K);
    s.pure = true;
    struct weights *w = quantize(in, &s);
    assert_int_equal(weights_open(&from, in, NULL), 0);
    const struct tensor *a = weights_tensor_find(from, "token_embd.weight");
    const struct tensor *b = weights_tensor_find(w, "token_embd.weight");
    assert_true(a->ne[0] * a->ne[1] > 65536);
    uint8_t *want = malloc(b->bytes);
    quant_info_of(QUANT_Q4_K)->quantize(a->data, want, (size_t)(a->ne[0] * a->ne[1]));
    assert_memory_equal(b->data, want, b->bytes);
    free(want);
    weights_close(&w);
    weights_close(&from);
}

static void exceptions_follow_llama_quantize(void **state)
{
    (void)state;
    struct weights_quantize_settings s = weights_quantize_default();
    s.mix = weights_mix_of(QUANT_Q4_0);
    struct weights *w = quantize(make("in.gguf", "tiny-qwen2", QUANT_F16), &s); /* tied: the embedding is the output */
    assert_int_equal(type_of(w, "token_embd.weight"), QUANT_Q6_K);
    assert_int_equal(type_of(w, "blk.0.ffn_down.weight"), QUANT_Q4_0);
    weights_close(&w);
    w = quantize(make("in2.gguf", "tiny-llama", QUANT_F16), &s);
    assert_int_equal(type_of(w, "token_embd.weight"), QUANT_Q4_0);
    assert_int_equal(type_of(w, "output.weight"), QUANT_Q6_K);
    assert_int_equal(type_of(w, "rope_freqs.weight"), QUANT_F32);
    weights_close(&w);
    s.mix = weights_mix_of(QUANT_Q8_0);
    w = quantize(in_folder("in2.gguf"), &s);
    assert_int_equal(type_of(w, "output.weight"), QUANT_Q8_0);
    weights_close(&w);
    s.mix = weights_mix_of(QUANT_TQ2_0);
    w = quantize(in_folder("in2.gguf"), &s);
    assert_int_equal(type_of(w, "token_embd.weight"), QUANT_Q4_K);
    weights_close(&w);
    s.mix = weights_mix_of(QUANT_BF16);
    w = quantize(in_folder("in2.gguf"), &s);
    assert_int_equal(type_of(w, "output.weight"), QUANT_BF16);
    weights_close(&w);
}

static void rules_and_overrides_come_first(void **state)
{
    (void)state;
    static const struct weights_type_rule rules[] = {
        {"blk\\.1\\.ffn_", QUANT_Q8_0}, {"ffn_down", QUANT_Q5_1}, {"norm", QUANT_F16}};
    struct weights_quantize_settings s = weights_quantize_default();
    s.mix = weights_mix_of(QUANT_Q4_1);
    s.rule = rules;
    s.n_rule = 3;
    s.token_embd_type = QUANT_BF16;
    s.output_type = QUANT_Q5_0;
    struct weights *w = quantize(make("in.gguf", "tiny-llama", QUANT_F16), &s);
    assert_int_equal(type_of(w, "blk.1.ffn_down.weight"), QUANT_Q8_0);
    assert_int_equal(type_of(w, "blk.0.ffn_down.weight"), QUANT_Q5_1);
    assert_int_equal(type_of(w, "blk.0.ffn_up.weight"), QUANT_Q4_1);
    assert_int_equal(type_of(w, "blk.0.ffn_norm.weight"), QUANT_F32);
    assert_int_equal(type_of(w, "token_embd.weight"), QUANT_BF16);
    assert_int_equal(type_of(w, "output.weight"), QUANT_Q5_0);
    weights_close(&w);
}

static int warnings;
static void count_warnings(void *user, enum lutra_log_level level, const char *line)
{
    (void)user;
    if (level == LUTRA_LOG_WARN) warnings++;
    assert_non_null(strstr(line, " -> "));
}

static void types_fall_back_with_a_warning(void **state)
{
    (void)state;
    static const enum quant_type table[][3] = {/* wanted, rows of 96, rows of 40 */
        {QUANT_Q4_K, QUANT_Q5_0, QUANT_F16}, {QUANT_Q5_K, QUANT_Q5_1, QUANT_F16}, {QUANT_Q6_K, QUANT_Q8_0, QUANT_F16},
        {QUANT_TQ1_0, QUANT_Q4_0, QUANT_F16}, {QUANT_TQ2_0, QUANT_Q4_0, QUANT_F16}, {QUANT_Q4_0, QUANT_Q4_0, QUANT_F16},
        {QUANT_BF16, QUANT_BF16, QUANT_BF16}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(weights_legal_type(table[i][0], 512), table[i][0]);
        assert_int_equal(weights_legal_type(table[i][0], 96), table[i][1]);
        assert_int_equal(weights_legal_type(table[i][0], 40), table[i][2]);
    }
    struct weights_quantize_settings s = weights_quantize_default();
    s.mix = weights_mix_of(QUANT_Q4_K);
    s.pure = true;
    s.log = count_warnings;
    warnings = 0;
    struct weights *w = quantize(make("in.gguf", "tiny-llama-24", QUANT_F16), &s);
    assert_int_equal(type_of(w, "blk.0.ffn_down.weight"), QUANT_Q5_0); /* rows of 160 */
    assert_int_equal(warnings, 1 + 2 * 7);
    weights_close(&w);
}

/* ---- refusals ---- */

static void quantized_input_needs_leave(void **state)
{
    (void)state;
    const char *in = make("in.gguf", "tiny-qwen2", QUANT_Q8_0);
    struct weights_quantize_settings s = weights_quantize_default();
    s.mix = weights_mix_of(QUANT_Q4_0);
    unlink(in_folder("none.gguf"));
    assert_int_equal(weights_quantize_file(in, in_folder("none.gguf"), &s, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "is Q8_0 already"));
    assert_int_equal(access(in_folder("none.gguf"), F_OK), -1);
    s.allow_requantize = true;
    struct weights *w = quantize(in, &s);
    assert_int_equal(type_of(w, "blk.0.attn_q.weight"), QUANT_Q4_0);
    weights_close(&w);
    s = weights_quantize_default();
    s.mix = weights_mix_of(QUANT_Q8_0); /* its own type is no second quantization */
    w = quantize(in, &s);
    weights_close(&w);
    s.copy = true;
    s.mix = weights_mix_of(QUANT_F16);
    w = quantize(in, &s);
    uint32_t file_type = 0;
    assert_int_equal(type_of(w, "token_embd.weight"), QUANT_Q8_0);
    assert_int_equal(weights_get_u32(w, "general.file_type", &file_type, NULL), 0);
    assert_int_equal(file_type, 7);
    weights_close(&w);
}

static void wrong_arguments(void **state)
{
    (void)state;
    const char *in = make("in.gguf", "tiny-qwen2", QUANT_F16);
    struct weights_quantize_settings s = weights_quantize_default();
    assert_int_equal(weights_quantize_file(in, in, &s, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "the same file"));
    assert_int_equal(weights_quantize_file(in_folder("nothing"), in_folder("o"), &s, &err), LUTRA_E_IO);
    const struct weights_type_rule bad[] = {{"ffn_down", QUANT_Q8_0}, {"(attn", QUANT_Q8_0}};
    s.rule = bad;
    s.n_rule = 2;
    assert_int_equal(weights_quantize_file(in, in_folder("o"), &s, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "'(attn' is no regular expression"));
    s.n_rule = 0;
    s.output_type = QUANT_IQ1_M;
    assert_int_equal(weights_quantize_file(in, in_folder("o"), &s, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "'token_embd.weight' would become IQ1_M"));
    assert_int_equal(access(in_folder("o"), F_OK), -1);
}

static void non_finite_weights_are_refused(void **state)
{
    (void)state;
    const char *in = make("in.gguf", "tiny-qwen2", QUANT_F32);
    struct weights *w;
    assert_int_equal(weights_open(&w, in, NULL), 0);
    const struct tensor *t = weights_tensor_find(w, "blk.1.ffn_up.weight");
    long at = (long)((const char *)t->data + t->bytes / 2 - (const char *)weights_tensor_at(w, 0)->data);
    long first = (long)(weights_file_bytes(w) - weights_tensor_bytes(w)) / 32 * 32; /* all sizes are multiples of 32 */
    weights_close(&w);
    float nan = NAN;
    FILE *f = fopen(in, "r+b");
    fseek(f, first + at, SEEK_SET);
    fwrite(&nan, 4, 1, f);
    fclose(f);
    struct weights_quantize_settings s = weights_quantize_default();
    unlink(in_folder("o"));
    assert_int_equal(weights_quantize_file(in, in_folder("o"), &s, &err), LUTRA_E_FORMAT);
    assert_non_null(strstr(err.what, "tensor 'blk.1.ffn_up.weight' holds a value that is NaN"));
    assert_int_equal(access(in_folder("o"), F_OK), -1);
}

/* ---- callbacks ---- */

static uint64_t last_done, last_total;
static int stop_at; /* calls until cancel; 0: never */
static int on_progress(void *user, uint64_t done, uint64_t total)
{
    assert_ptr_equal(user, &stop_at);
    assert_true(done >= last_done && done <= total);
    last_done = done;
    last_total = total;
    return stop_at && --stop_at == 0;
}

static int parallel_calls;
static void backwards(void *user, void (*fn)(void *, int), void *arg, int n)
{
    (void)user;
    parallel_calls++;
    for (int i = n - 1; i >= 0; i--) fn(arg, i);
}

static void progress_cancel_and_parallel(void **state)
{
    (void)state;
    const char *in = make("in.gguf", "tiny-qwen2", QUANT_F16);
    struct weights_quantize_settings s = weights_quantize_default();
    s.mix = weights_mix_of(QUANT_Q5_0);
    struct weights *w = quantize(in, &s), *parallel;
    s.progress = on_progress;
    s.progress_user = &stop_at;
    s.parallel = backwards;
    last_done = 0;
    assert_int_equal(weights_quantize_file(in, in_folder("parallel.gguf"), &s, &err), 0);
    assert_true(last_done == last_total && parallel_calls > 0);
    assert_int_equal(weights_open(&parallel, in_folder("parallel.gguf"), NULL), 0);
    for (size_t i = 0; i < weights_tensor_count(w); i++)
        assert_memory_equal(
            weights_tensor_at(w, i)->data, weights_tensor_at(parallel, i)->data, weights_tensor_at(w, i)->bytes);
    weights_close(&w);
    weights_close(&parallel);
    last_done = 0;
    stop_at = 5;
    assert_int_equal(weights_quantize_file(in, in_folder("cancelled.gguf"), &s, &err), LUTRA_E_CANCELLED);
    assert_int_equal(access(in_folder("cancelled.gguf"), F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_change_and_vectors_stay),
        cmocka_unit_test(values_are_the_quantizers),
        cmocka_unit_test(exceptions_follow_llama_quantize),
        cmocka_unit_test(rules_and_overrides_come_first),
        cmocka_unit_test(types_fall_back_with_a_warning),
        cmocka_unit_test(quantized_input_needs_leave),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(non_finite_weights_are_refused),
        cmocka_unit_test(progress_cancel_and_parallel),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
