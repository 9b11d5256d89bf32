/* SPDX-License-Identifier: MIT
 *
 * Imatrix files: both kinds written and read again, and damage refused.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "unit/weights/build.h"
#include "quantize/convert.h"
#include "quantize/imatrix.h"
#include "quantize/mix.h"
#include "quantize/weighted.h"
#include "files/gguf_write.h"
#include "weights/weights.h"

static struct lutra_error err;

/* Two entries, and one that has seen nothing. */
static struct imatrix *make(void)
{
    struct imatrix *m;
    assert_int_equal(imatrix_new(&m, &err), 0);
    const char *const names[] = {"blk.1.ffn_up.weight", "blk.0.attn_q.weight", "blk.9.none.weight"};
    for (size_t i = 0; i < 3; i++) {
        struct imatrix_entry *e;
        assert_int_equal(imatrix_add(m, names[i], strlen(names[i]), 3 + i, &e, &err), 0);
        for (size_t k = 0; k < 3 + i; k++) e->sum2[k] = (double)(4 * (i + k)), e->sum[k] = -(double)k;
        e->count = i < 2 ? 32 : 0;
    }
    m->n_chunk = 2;
    m->chunk_tokens = 16;
    m->dataset = strdup("a.txt");
    return m;
}

static void written_and_read(void **state)
{
    (void)state;
    for (int dat = 0; dat < 2; dat++) {
        struct imatrix *m = make(), *r;
        assert_int_equal(imatrix_write(m, in_folder("m"), dat, &err), 0);
        if (imatrix_open(&r, in_folder("m"), &err) < 0) fail_msg("%s", err.what);
        assert_int_equal(r->n_entry, 2);
        assert_string_equal(r->dataset, "a.txt");
        assert_int_equal(r->n_chunk, 2);
        const struct imatrix_entry *e = imatrix_find(r, "blk.0.attn_q.weight");
        assert_int_equal(e->n, 4);
        for (size_t k = 0; k < 4; k++) {
            assert_true(e->sum2[k] / e->count == (double)(4 * (1 + k)) / 32);
            assert_true(e->sum[k] == (dat ? 0 : -(double)k));
        }
        assert_null(imatrix_find(r, "blk.9.none.weight"));
        imatrix_close(&r);
        imatrix_close(&m);
    }
}

static size_t slurp(const char *path, uint8_t bytes[4096])
{
    FILE *f = fopen(path, "rb");
    size_t n = fread(bytes, 1, 4096, f);
    fclose(f);
    return n;
}

static int open_bytes(const uint8_t *bytes, size_t n)
{
    struct imatrix *r;
    FILE *f = fopen(in_folder("damaged"), "wb");
    fwrite(bytes, 1, n, f);
    fclose(f);
    int rc = imatrix_open(&r, in_folder("damaged"), &err);
    assert_true(rc == 0 || (r == NULL && strstr(err.what, "damaged")));
    imatrix_close(&r);
    return rc;
}

/* Every length up to the whole, and every byte changed in three ways: refused or read, never worse. */
static void damage(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    for (int dat = 0; dat < 2; dat++) {
        struct imatrix *m = make();
        assert_int_equal(imatrix_write(m, in_folder("m"), dat, &err), 0);
        imatrix_close(&m);
        size_t n = slurp(in_folder("m"), bytes), entries = n - (dat ? 4 + 4 + 5 : 20);
        for (size_t cut = 0; cut < entries; cut++) assert_true(open_bytes(bytes, cut) < 0);
        for (size_t i = 0; i < n; i++) {
            for (int k = 0; k < 3; k++) {
                uint8_t was = bytes[i];
                bytes[i] = k == 0 ? 0 : k == 1 ? 255 : was ^ 1;
                open_bytes(bytes, n);
                bytes[i] = was;
            }
        }
    }
    assert_true(open_bytes((const uint8_t *)"", 0) < 0);
}

enum { EXPERTS = 3, COLUMNS = 256, OUTPUTS = 4 };

static void add_f32(struct gguf_writer *w, const char *name, int n_dim, const int64_t *ne)
{
    assert_int_equal(gguf_writer_add_tensor(w, name, QUANT_F32, n_dim, ne), 0);
}

/* What experts saw: 8 rows, 2 and none, of the same mean squares where there were any. */
static double mean_square(size_t expert, size_t column)
{
    return expert == 2 ? 0 : 1 + (double)((7 * column + 31 * expert) % 64);
}

/* llama-imatrix's file of a matrix of experts, or its .dat, which has one number of calls. */
static void write_experts(bool dat)
{
    static const float counts[EXPERTS] = {8, 2, 0};
    struct gguf_writer *w;
    if (dat) {
        struct imatrix *m;
        struct imatrix_entry *e;
        assert_int_equal(imatrix_new(&m, &err), 0);
        assert_int_equal(imatrix_add(m, "blk.0.x.weight", 14, EXPERTS * COLUMNS, &e, &err), 0);
        for (size_t i = 0; i < EXPERTS * COLUMNS; i++) e->sum2[i] = mean_square(i / COLUMNS, i % COLUMNS);
        e->count = 1;
        assert_int_equal(imatrix_write(m, in_folder("experts"), true, &err), 0);
        imatrix_close(&m);
        return;
    }
    assert_int_equal(gguf_writer_open(&w, in_folder("experts"), &err), 0);
    add_f32(w, "blk.0.x.weight.in_sum2", 2, (const int64_t[]){COLUMNS, EXPERTS});
    add_f32(w, "blk.0.x.weight.counts", 2, (const int64_t[]){1, EXPERTS});
    for (size_t i = 0; i < EXPERTS * COLUMNS; i++) {
        float sum = (float)mean_square(i / COLUMNS, i % COLUMNS) * counts[i / COLUMNS];
        gguf_writer_data(w, &sum, sizeof sum);
    }
    gguf_writer_data(w, counts, sizeof counts);
    assert_int_equal(gguf_writer_commit(&w, &err), 0);
}

static void write_matrix(float *x)
{
    struct gguf_writer *w;
    assert_int_equal(gguf_writer_open(&w, in_folder("model"), &err), 0);
    gguf_writer_put_str(w, "general.architecture", "llama");
    add_f32(w, "blk.0.x.weight", 3, (const int64_t[]){COLUMNS, OUTPUTS, EXPERTS});
    for (size_t i = 0; i < EXPERTS * OUTPUTS * COLUMNS; i++)
        x[i] = (float)((i * 2654435761u >> 8 & 0xffff) % 2001) / 1000 - 1;
    gguf_writer_data(w, x, EXPERTS * OUTPUTS * COLUMNS * sizeof *x);
    assert_int_equal(gguf_writer_commit(&w, &err), 0);
}

/* Each expert's rows are weighed by its own columns, whose means do not depend on how many rows it saw. */
static void experts_have_columns_of_their_own(void **state)
{
    (void)state;
    static float x[EXPERTS * OUTPUTS * COLUMNS], mean[EXPERTS * COLUMNS];
    uint8_t want[sizeof x];
    write_matrix(x);
    for (int dat = 0; dat < 2; dat++) {
        struct imatrix *m;
        struct weights *w;
        struct weights_quantize_settings set = weights_quantize_default();
        write_experts(dat);
        if (imatrix_open(&m, in_folder("experts"), &err) < 0) fail_msg("%s", err.what);
        assert_int_equal(m->entry[0].n_expert, dat ? 1 : EXPERTS);
        assert_true(imatrix_mean(&m->entry[0], EXPERTS, mean));
        assert_false(imatrix_mean(&m->entry[0], 5, mean));
        for (size_t e = 0; e < EXPERTS; e++) {
            double all = 0;
            for (size_t k = 0; k < COLUMNS; k++) all += mean_square(e, k) / COLUMNS;
            for (size_t k = 0; k < COLUMNS; k++)
                assert_true(fabs(mean[e * COLUMNS + k] - 1e-4 - (all > 0 ? mean_square(e, k) / all : 0)) < 1e-6);
        }
        set.mix = weights_mix_named("Q4_0");
        set.pure = true;
        set.imatrix = m;
        if (weights_quantize_file(in_folder("model"), in_folder("out"), &set, &err) < 0) fail_msg("%s", err.what);
        assert_int_equal(weights_open(&w, in_folder("out"), &err), 0);
        const struct tensor *t = weights_tensor_find(w, "blk.0.x.weight");
        assert_int_equal(t->type, QUANT_Q4_0);
        for (size_t e = 0; e < EXPERTS; e++)
            for (size_t r = 0; r < OUTPUTS; r++) {
                size_t row = e * OUTPUTS + r, bytes = COLUMNS / 32 * 18;
                quant_weighted(
                    quant_kernels(), QUANT_Q4_0, x + row * COLUMNS, mean + e * COLUMNS, want + row * bytes, COLUMNS);
                assert_memory_equal((const uint8_t *)t->data + row * bytes, want + row * bytes, bytes);
            }
        weights_close(&w);
        /* Written again, it says the same. */
        struct imatrix *again;
        static float same[EXPERTS * COLUMNS];
        assert_int_equal(imatrix_write(m, in_folder("again"), dat, &err), 0);
        assert_int_equal(imatrix_open(&again, in_folder("again"), &err), 0);
        assert_true(imatrix_mean(&again->entry[0], EXPERTS, same));
        for (size_t i = 0; i < EXPERTS * COLUMNS; i++) assert_true(fabsf(same[i] - mean[i]) < 1e-5f);
        imatrix_close(&again);
        imatrix_close(&m);
    }
}

static void sums_must_be_sums(void **state)
{
    (void)state;
    struct imatrix *m = make();
    imatrix_find(m, "blk.0.attn_q.weight")->sum2[2] = -1;
    assert_int_equal(imatrix_write(m, in_folder("never"), true, &err), LUTRA_E_FORMAT);
    assert_non_null(strstr(err.what, "entry 'blk.0.attn_q.weight' holds values that are no sums"));
    assert_int_equal(access(in_folder("never"), F_OK), -1);
    imatrix_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(damage),
        cmocka_unit_test(experts_have_columns_of_their_own),
        cmocka_unit_test(sums_must_be_sums),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
