/* SPDX-License-Identifier: MIT
 *
 * Layers whose groups' inputs are not neighbours (desc_act): their matrices sorted by group hold the values that
 * reading them as they are gives, the model permutes what they multiply, and its results are those of the same model
 * in floats, and bit for bit those of the same model without shuffled groups.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../sanitized.h"
#include "hf/sorted_values.h"
#include "hf/write_folder.h"
#include "lutra.h"
#include "model/model.h"
#include "unit/weights/build.h"
#include "quantize/convert.h"
#include "quantize/imatrix.h"
#include "make/make.h"
#include "quantize/mix.h"

static struct lutra_error err;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) < 0) fail_msg("%s: %s", #call, err.what);                                                           \
    } while (0)

/* made.gguf of F32. */
static void make(const char *shape, uint32_t n_layer)
{
    struct weights_make_settings s = weights_make_default();
    s.shape = shape;
    s.type = QUANT_F32;
    s.n_layer = n_layer;
    OK(weights_make_model(in_folder("made.gguf"), &s, &err));
}

/* made.gguf as a folder. */
static void write_as(const char *folder, struct hf_form form)
{
    char command[640];
    struct weights *w;
    snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", in_folder(folder), in_folder(folder));
    assert_int_equal(system(command), 0);
    OK(weights_open(&w, in_folder("made.gguf"), &err));
    form.n_shard = 1;
    hf_write_folder(w, in_folder(folder), &form);
    weights_close(&w);
}

static void to_floats(const char *from, const char *to)
{
    struct weights_quantize_settings q = weights_quantize_default();
    q.mix = weights_mix_of(QUANT_F32);
    q.allow_requantize = true;
    OK(weights_quantize_file(in_folder(from), in_folder(to), &q, &err));
}

/* ---- values ---- */

static int count(const struct op_list *list, enum op_kind kind)
{
    int n = 0;
    for (int i = 0; i < list->n_op; i++) n += list->op[i].kind == kind;
    return n;
}

/* Every matrix of a layer is sorted, and matrices of one order share what they read. */
static void sorted_folder(const char *shape, int n_permute, int n_matmul)
{
    struct weights *w, *sorted;
    struct model *m;
    OK(weights_open(&w, in_folder("hf"), &err));
    OK(weights_open_as(&sorted, in_folder("hf"), (struct weights_how){.sorted = true}, &err));
    int n_layer = strstr(shape, "phi") ? 4 : strstr(shape, "starcoder2") ? 6 : 7;
    assert_int_equal(sorted_count(in_folder("hf")), 2 * n_layer + (weights_tensor_find(w, "output.weight") != NULL));
    OK(model_open(&m, sorted, &err));
    if (count(model_ops(m), OP_PERMUTE) != n_permute || count(model_ops(m), OP_MATMUL) != n_matmul)
        fail_msg(
            "%s: %d permutations, %d products", shape, count(model_ops(m), OP_PERMUTE), count(model_ops(m), OP_MATMUL));
    model_close(&m);
    OK(model_open(&m, w, &err));
    assert_int_equal(count(model_ops(m), OP_PERMUTE), 0);
    model_close(&m);
    weights_close(&w);
    weights_close(&sorted);
}

/* ---- results ---- */

enum { N_ROWS = 40, MAX_VOCAB = 1024, MAX_D = 512 };

struct result {
    int n_vocab, d_model;
    float logits[N_ROWS][MAX_VOCAB], hidden[N_ROWS][MAX_D];
};

/* All rows but the last in one pass. */
static void run(const char *device, int n_threads, const char *path, struct result *out)
{
    lutra_runtime *rt;
    lutra_model *model;
    lutra_session *s;
    struct lutra_runtime_settings rs;
    struct lutra_session_settings ss;
    struct lutra_model_info info;
    struct lutra_row row[N_ROWS];
    int32_t seq;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = n_threads;
    rs.device = device;
    OK(lutra_runtime_open(&rt, &rs, &err));
    OK(lutra_model_open(&model, rt, path, NULL, &err));
    lutra_model_info_get(model, &info, sizeof info);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 1;
    ss.n_ctx = 64;
    ss.n_out = N_ROWS;
    OK(lutra_session_open(&s, model, &ss, &err));
    OK(lutra_seq_open(s, 64, &seq, &err));
    out->n_vocab = info.n_vocab, out->d_model = info.d_model;
    assert_true(info.n_vocab <= MAX_VOCAB && info.d_model <= MAX_D);
    for (int i = 0; i < N_ROWS; i++)
        row[i] = (struct lutra_row){
            40 + 31 * i % 200, i, seq, i == N_ROWS - 1 ? -1 : i - 1, LUTRA_WANT_LOGITS | LUTRA_WANT_HIDDEN, 0};
    for (int first = 0, n = N_ROWS - 1; first < N_ROWS; first += n, n = 1) {
        OK(lutra_forward(s, row + first, n, sizeof *row, &err));
        for (int i = 0; i < n; i++) {
            const struct lutra_row_result *r = lutra_forward_result(s, i);
            memcpy(out->logits[first + i], r->logits, (size_t)info.n_vocab * sizeof *r->logits);
            memcpy(out->hidden[first + i], r->hidden, (size_t)info.d_model * sizeof *r->hidden);
        }
    }
    lutra_session_close(&s);
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
}

/* Root mean square of x - y over that of y. */
static double apart(const float *x, const float *y, int n)
{
    double sum = 0, all = 0;
    for (int i = 0; i < n; i++) {
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)y[i] * (double)y[i];
    }
    return sqrt(sum / all);
}

/* The reference multiplies floats in double: sums in another order are the same floats.  The CPU rounds activations to
 * 8 bits; the NPU's are of 16. */
static const struct {
    const char *device;
    int n_threads;
    double most; /* apart from the reference in floats */
} on[] = {{"cpu", 1, 0.06}, {"cpu", 2, 0.06}, {"cpu-ref", 1, 1e-6}, {"npu-sim", 1, 0.006}};

static double worst_of(const struct result *a, const struct result *b)
{
    double worst = 0;
    for (int r = 0; r < N_ROWS; r++) {
        worst = fmax(worst, apart(a->logits[r], b->logits[r], b->n_vocab));
        worst = fmax(worst, apart(a->hidden[r], b->hidden[r], b->d_model));
    }
    return worst;
}

/* hf/ on all devices against its values in floats. */
static void near_its_floats(const char *shape)
{
    static struct result floats, result;
    to_floats("hf", "floats.gguf");
    run("cpu-ref", 1, in_folder("floats.gguf"), &floats);
    for (size_t k = 0; k < sizeof on / sizeof *on; k++) {
        run(on[k].device, on[k].n_threads, in_folder("hf"), &result);
        double far = worst_of(&result, &floats);
        print_message("%s on %s, %d threads: %g\n", shape, on[k].device, on[k].n_threads, far);
        assert_true(far < on[k].most);
    }
}

static void near_the_floats(void **state)
{
    static const struct {
        const char *shape;
        int n_permute, n_matmul; /* of two layers and the head */
    } cases[] = {{"tiny-llama", 11, 10}, {"tiny-qwen2", 10, 10}, {"tiny-phi", 8, 8}, {"tiny-starcoder2", 10, 10},
        {"tiny-olmo2", 11, 10}, {"tiny-command-r", 10, 10}};
    (void)state;
    for (size_t i = 0; i < (SANITIZED ? 2 : sizeof cases / sizeof *cases); i++) {
        make(cases[i].shape, 2);
        write_as("hf", (struct hf_form){.layers = HF_SHUFFLED});
        sorted_folder(cases[i].shape, cases[i].n_permute, cases[i].n_matmul);
        near_its_floats(cases[i].shape);
    }
}

/* They are looked up, not multiplied: they stay in their own order, here also as the head. */
static void embeddings_are_not_sorted(void **state)
{
    (void)state;
    make("tiny-qwen2", 2);
    write_as("hf", (struct hf_form){.layers = HF_SHUFFLED, .embeddings = true});
    sorted_folder("tiny-qwen2", 10, 10);
    near_its_floats("tiny-qwen2, embeddings");
}

/* ---- the same bits ---- */

static void the_same_bits(void **state)
{
    static const char *const shapes[] = {"tiny-llama", "tiny-qwen2"};
    static struct result a, b;
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        make(shapes[i], 2);
        write_as("plain", (struct hf_form){.layers = HF_GROUPS});
        write_as("hf", (struct hf_form){.layers = HF_MIRRORED});
        for (size_t k = 0; k < sizeof on / sizeof *on; k++) {
            run(on[k].device, on[k].n_threads, in_folder("plain"), &a);
            run(on[k].device, on[k].n_threads, in_folder("hf"), &b);
            for (int r = 0; r < N_ROWS; r++)
                if (memcmp(a.logits[r], b.logits[r], (size_t)a.n_vocab * sizeof **a.logits) != 0)
                    fail_msg("%s on %s: row %d: logits are %g apart", shapes[i], on[k].device, r,
                        apart(b.logits[r], a.logits[r], a.n_vocab));
        }
    }
}

/* ---- who looks at a model's inputs ---- */

static void importance_of(const char *path, const char *out)
{
    lutra_runtime *rt;
    lutra_model *model;
    struct lutra_imatrix_settings set;
    int32_t ids[64];
    for (int i = 0; i < 64; i++) ids[i] = 7 * i % 200;
    lutra_imatrix_settings_init(&set, sizeof set);
    set.n_ctx = 32;
    OK(lutra_runtime_open(&rt, NULL, &err));
    OK(lutra_model_open(&model, rt, path, NULL, &err));
    OK(lutra_imatrix(model, ids, 64, out, &set, &err));
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
}

static void inputs_are_seen_in_the_usual_order(void **state)
{
    struct imatrix *a, *b;
    (void)state;
    make("tiny-llama", 2);
    write_as("hf", (struct hf_form){.layers = HF_SHUFFLED});
    to_floats("hf", "floats.gguf");
    importance_of(in_folder("floats.gguf"), in_folder("a.imatrix"));
    importance_of(in_folder("hf"), in_folder("b.imatrix"));
    OK(imatrix_open(&a, in_folder("a.imatrix"), &err));
    OK(imatrix_open(&b, in_folder("b.imatrix"), &err));
    assert_int_equal(a->n_entry, 2 * 7);
    assert_int_equal(b->n_entry, 2 * 7);
    for (size_t i = 0; i < a->n_entry; i++) {
        const struct imatrix_entry *e = &a->entry[i], *f = imatrix_find(b, e->name);
        double sum = 0, all = 0;
        for (size_t k = 0; k < e->n; k++) {
            sum += (e->sum2[k] - f->sum2[k]) * (e->sum2[k] - f->sum2[k]);
            all += e->sum2[k] * e->sum2[k];
        }
        if (sqrt(sum / all) > (strstr(e->name, "blk.0.attn_q") ? 0 : 0.03))
            fail_msg("%s: %g apart", e->name, sqrt(sum / all));
    }
    imatrix_close(&a);
    imatrix_close(&b);
}

/* ---- who rounds a model's matrices ---- */

static void rounded(const char *from, const char *to, const char *type, float budget)
{
    static char text[600];
    lutra_runtime *rt;
    struct lutra_runtime_settings one;
    struct lutra_quantize_settings set;
    lutra_runtime_settings_init(&one, sizeof one);
    one.n_threads = 1;
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = (char)('a' + i * i % 23);
    lutra_quantize_settings_init(&set, sizeof set);
    set.type = type;
    set.budget = budget;
    set.allow_requantize = true; /* of a folder whose layers became F32 */
    set.calibration = text;
    set.n_calibration_bytes = sizeof text - 1;
    set.calibration_ctx = 32;
    set.calibration_chunks = 1;
    OK(lutra_runtime_open(&rt, &one, &err));
    OK(lutra_quantize(rt, in_folder(from), in_folder(to), &set, &err));
    lutra_runtime_close(&rt);
}

/* A folder is rounded as the floats that it becomes in a file. */
static void rounded_as_its_floats(void **state)
{
    static const struct {
        const char *type;
        float budget;
    } ways[] = {{"Q4_0", 0}, {NULL, 6}};
    (void)state;
    make("tiny-llama", 1);
    write_as("hf", (struct hf_form){.layers = HF_SHUFFLED});
    to_floats("hf", "floats.gguf");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct weights *a, *b;
        rounded("hf", "a.gguf", ways[i].type, ways[i].budget);
        rounded("floats.gguf", "b.gguf", ways[i].type, ways[i].budget);
        OK(weights_open(&a, in_folder("a.gguf"), &err));
        OK(weights_open(&b, in_folder("b.gguf"), &err));
        assert_int_equal(weights_tensor_count(a), weights_tensor_count(b));
        for (size_t k = 0; k < weights_tensor_count(a); k++) {
            const struct tensor *t = weights_tensor_at(a, k), *u = weights_tensor_find(b, t->name);
            if (t->type != u->type || memcmp(t->data, u->data, t->bytes) != 0)
                fail_msg("%s, rounded to %s, is another matrix", t->name, ways[i].type ? ways[i].type : "a budget");
        }
        weights_close(&a);
        weights_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(near_the_floats), cmocka_unit_test(embeddings_are_not_sorted),
        cmocka_unit_test(the_same_bits), cmocka_unit_test(rounded_as_its_floats),
        cmocka_unit_test(inputs_are_seen_in_the_usual_order)};
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
