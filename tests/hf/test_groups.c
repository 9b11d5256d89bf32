/* SPDX-License-Identifier: MIT
 *
 * Folders of groups that Lutra writes: opened again, they hold the bytes that were meant; what is refused leaves
 * nothing behind.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hf/write_folder.h"
#include "quant/quant.h"
#include "unit/weights/build.h"
#include "quantize/groups.h"
#include "make/make.h"
#include "quantize/mix.h"

static struct lutra_error err;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) < 0) fail_msg("%s: %s", #call, err.what);                                                           \
    } while (0)

static void run(const char *command)
{
    char line[1024];
    snprintf(line, sizeof line, "cd '%s' && %s", in_folder("."), command);
    assert_int_equal(system(line), 0);
}

/* made.gguf, and hf/ of it. */
static void make(const char *shape)
{
    struct weights *w;
    struct weights_make_settings s = weights_make_default();
    s.shape = shape;
    s.type = QUANT_F16;
    s.n_layer = 1;
    OK(weights_make_model(in_folder("made.gguf"), &s, &err));
    OK(weights_open(&w, in_folder("made.gguf"), &err));
    run("rm -rf hf out && mkdir hf");
    hf_write_folder(w, in_folder("hf"), &(struct hf_form){.n_shard = 2});
    weights_close(&w);
}

/* ---- what a calibration would give: rows rounded by themselves ---- */

enum { MAX_LAYERS = 64, DISTINCT = 48 };

static struct meant {
    struct quant_group group;
    const struct weights *w;
    int n;
    struct {
        char name[64];
        uint8_t *bytes;
    } layer[MAX_LAYERS];
} meant;

static int round_tensor(
    void *user, const struct tensor *as, enum quant_type type, const void **bytes, struct lutra_error *e)
{
    const struct tensor *t = weights_tensor_find(meant.w, as->name);
    struct quant_group f = meant.group;
    int n = (int)t->ne[0];
    size_t from_bytes = t->bytes / (size_t)t->ne[1], to_bytes = (size_t)n / 32 * quant_info_of(type)->block_bytes;
    uint8_t *out = malloc((size_t)t->ne[1] * to_bytes);
    float *x = malloc((size_t)n * sizeof *x), *w = malloc((size_t)n * sizeof *w);
    (void)user, (void)e;
    weights_fetch(meant.w, t);
    if (f.size < 0) f.size = n;
    for (int i = 0; i < n; i++) w[i] = 1;
    for (int64_t r = 0; r < t->ne[1]; r++) {
        if (r >= DISTINCT) { /* the search takes its time, and neighbours differ */
            memcpy(out + (size_t)r * to_bytes, out + (size_t)(r * 37 % DISTINCT) * to_bytes, to_bytes);
            continue;
        }
        quant_info_of(t->type)->dequantize((const uint8_t *)t->data + (size_t)r * from_bytes, x, (size_t)n);
        for (int i = 0; i < n && r == 1; i++) x[i] = fabsf(x[i]); /* zeros far from the middle */
        for (int i = 0; i < n && r == 2; i++) x[i] = 0;
        quant_group_row(quant_kernels(), &f, w, x, n, out + (size_t)r * to_bytes);
    }
    free(x);
    free(w);
    assert_in_range(meant.n, 0, MAX_LAYERS - 1);
    snprintf(meant.layer[meant.n].name, sizeof meant.layer->name, "%s", t->name);
    meant.layer[meant.n++].bytes = out;
    *bytes = out;
    return 0;
}

static int write_groups(struct quant_group group, const char *in, const char *out, weights_progress_fn progress)
{
    struct weights_quantize_settings q = weights_quantize_default();
    struct weights *w;
    OK(weights_open(&w, in_folder(in), &err));
    meant = (struct meant){.group = group, .w = w};
    q.group = &meant.group;
    q.ready = round_tensor;
    q.progress = progress;
    int rc = weights_quantize_file(in_folder(in), in_folder(out), &q, &err);
    weights_close(&w);
    return rc;
}

/* Layers have the values that were meant, in the type that their form becomes; what is meant has the wider one. */
static void same_layer(const struct tensor *t, const uint8_t *want, enum quant_type wide)
{
    const struct quant_group *f = &meant.group;
    size_t n = (size_t)(t->ne[0] * t->ne[1]);
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    bool whole = f->size < 0 ? t->ne[0] % 64 == 0 : f->size % 64 == 0, narrow = whole && f->bits < 4;
    bool two = t->type == QUANT_Q2_0 || (t->type == QUANT_W2 && !f->symmetric);
    if (narrow ? (f->bits == 3 ? t->type != QUANT_W3 : !two) : t->type != wide)
        fail_msg("'%s' is %s", t->name, quant_info_of(t->type)->name);
    quant_info_of(t->type)->dequantize(t->data, x, n);
    quant_info_of(wide)->dequantize(want, y, n);
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i]) fail_msg("'%s' differs at %zu", t->name, i);
    free(x);
    free(y);
}

/* What is not grouped is bit for bit the source's. */
static void same_tensors(enum quant_type type)
{
    struct weights *a, *b;
    int n = 0;
    OK(weights_open(&a, in_folder("hf"), &err));
    OK(weights_open(&b, in_folder("out"), &err));
    assert_int_equal(weights_tensor_count(a), weights_tensor_count(b));
    for (size_t i = 0; i < weights_tensor_count(a); i++) {
        const struct tensor *t = weights_tensor_at(a, i), *u = weights_tensor_find(b, t->name);
        const uint8_t *want = NULL;
        assert_non_null(u);
        weights_fetch(a, t);
        weights_fetch(b, u);
        for (int k = 0; k < meant.n; k++)
            if (strcmp(meant.layer[k].name, t->name) == 0) want = meant.layer[k].bytes, n++;
        if (want)
            same_layer(u, want, type);
        else if (memcmp(u->data, t->data, u->bytes) != 0)
            fail_msg("'%s' differs", t->name);
    }
    assert_int_equal(n, meant.n);
    assert_true(n >= 7);
    weights_close(&a);
    weights_close(&b);
    for (int k = 0; k < meant.n; k++) free(meant.layer[k].bytes);
}

static void come_back(void **state)
{
    static const struct quant_group forms[] = {
        {4, 32, true}, {4, 32, false}, {2, 64, true}, {3, 128, true}, {4, -1, true}, {2, 128, false}, {3, -1, false}};
    static const char *const shapes[] = {"tiny-llama", "tiny-qwen3", "tiny-olmo2"};
    (void)state;
    for (int shape = 0; shape < 3; shape++) {
        make(shapes[shape]);
        for (int i = 0; i < (shape ? 2 : 7); i++) {
            run("rm -rf out");
            OK(write_groups(forms[i], "hf", "out", NULL));
            same_tensors(quant_group_type(&forms[i]));
            run("test -f out/tokenizer.json && test -f out/config.json && test ! -e out/model.safetensors.index.json");
        }
    }
}

static void refuses(const char *in, const char *out, struct quant_group f, const char *why)
{
    if (write_groups(f, in, out, NULL) == 0) fail_msg("%s: not refused", why);
    if (!strstr(err.what, why)) fail_msg("'%s', not '%s'", err.what, why);
    run("test -z \"$(ls -d *.tmp-* 2>/dev/null)\"");
}

static int no_tensor(
    void *user, const struct tensor *t, enum quant_type type, const void **bytes, struct lutra_error *e)
{
    (void)user, (void)t, (void)type, (void)e;
    *bytes = NULL;
    return 0;
}

static int cancel(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    return done > total / 2;
}

static void refused(void **state)
{
    const struct quant_group f = {4, 32, true};
    struct weights_quantize_settings q = weights_quantize_default();
    (void)state;
    make("tiny-qwen2");
    refuses("made.gguf", "out", f, "written from a Hugging Face folder");
    run("mkdir full && touch full/file && touch taken");
    refuses("hf", "full", f, "full: exists already");
    refuses("hf", "taken", f, "taken: exists already");
    refuses("hf", "hf", f, "hf: exists already");
    refuses("hf", "no/such", f, "no/such: cannot create a folder beside it");
    OK(write_groups(f, "hf", "out/", NULL));
    same_tensors(QUANT_Q4_0);
    refuses("out", "again", f, "out: its layers are quantized already");
    run("rm -rf out && mkdir out"); /* an empty folder is no other's */
    OK(write_groups(f, "hf", "out", NULL));
    same_tensors(QUANT_Q4_0);
    run("rm -rf out");
    q.group = &f;
    q.ready = no_tensor;
    assert_int_equal(weights_quantize_file(in_folder("hf"), in_folder("out"), &q, &err), LUTRA_E_UNSUPPORTED);
    assert_int_equal(write_groups(f, "hf", "out", cancel), LUTRA_E_CANCELLED);
    for (int k = 0; k < meant.n; k++) free(meant.layer[k].bytes);
    run("test ! -e out && test -z \"$(ls -d *.tmp-* 2>/dev/null)\"");
    run("mkdir out.tmp-1-0 && touch out.tmp-1-0/model.safetensors"); /* of a writer that was killed */
    OK(write_groups(f, "hf", "out", NULL));
    same_tensors(QUANT_Q4_0);
    run("test ! -e out.tmp-1-0");
}

/* Rows that are no whole groups. */
static void odd_sizes(void **state)
{
    (void)state;
    make("tiny-gemma3");
    refuses("hf", "out", (struct quant_group){4, 96, true}, "down_proj.weight': rows of 512 are no whole groups of 96");
    refuses("hf", "out", (struct quant_group){4, 16, true}, "no whole groups of 32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(come_back),
        cmocka_unit_test(refused),
        cmocka_unit_test(odd_sizes),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
