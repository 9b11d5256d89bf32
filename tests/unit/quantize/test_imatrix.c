/* SPDX-License-Identifier: MIT
 *
 * Imatrix files: both kinds written and read again, and damage refused.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/weights/build.h"
#include "quantize/imatrix.h"

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
        cmocka_unit_test(sums_must_be_sums),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
