/* SPDX-License-Identifier: MIT
 *
 * Figures in a file: what was written comes back, and anything else is as none.
 */
#include "weights/figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

enum { N = 18, KEY = 77 };

static char path[64];
static double x[N];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/lutra-figures-XXXXXX");
    int fd = mkstemp(path);
    for (int i = 0; i < N; i++) x[i] = 1000.5 * i;
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_bytes(const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void what_was_written_comes_back(void **state)
{
    (void)state;
    double y[N] = {0};
    assert_false(figures_read(path, KEY, y, N)); /* empty */
    assert_int_equal(figures_write(path, KEY, x, N, NULL), 0);
    assert_true(figures_read(path, KEY, y, N));
    assert_memory_equal(x, y, sizeof x);
    x[3] = 7;
    assert_int_equal(figures_write(path, KEY, x, N, NULL), 0);
    assert_true(figures_read(path, KEY, y, N));
    assert_memory_equal(x, y, sizeof x);
}

static void anything_else_is_none(void **state)
{
    (void)state;
    unsigned char file[400], bad[401];
    double y[N], before[N];
    memset(before, 1, sizeof before);
    memcpy(y, before, sizeof y);
    assert_int_equal(figures_write(path, KEY, x, N, NULL), 0);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(file, 1, sizeof file, f);
    fclose(f);
    assert_int_equal(n, (4 + N + 1) * 8);
    assert_false(figures_read(path, KEY + 1, y, N));
    assert_false(figures_read(path, KEY, y, N - 1));
    for (size_t bit = 0; bit < 8 * n; bit++) {
        memcpy(bad, file, n);
        bad[bit / 8] ^= (unsigned char)(1 << bit % 8);
        write_bytes(bad, n);
        assert_false(figures_read(path, KEY, y, N));
    }
    memcpy(bad, file, n);
    for (size_t k = 0; k <= n + 1; k++) {
        write_bytes(bad, k);
        assert_int_equal(figures_read(path, KEY, y, N), k == n);
        memcpy(y, before, sizeof y);
    }
    double nan[N] = {NAN};
    assert_int_equal(figures_write(path, KEY, nan, N, NULL), 0); /* whole, but no figure */
    assert_false(figures_read(path, KEY, y, N));
    assert_memory_equal(y, before, sizeof y);
}

static void errors_have_names(void **state)
{
    (void)state;
    struct lutra_error err;
    assert_int_equal(figures_write("/nowhere/at/all", KEY, x, N, &err), LUTRA_E_IO);
    assert_non_null(strstr(err.what, "/nowhere/at/all"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_comes_back),
        cmocka_unit_test(anything_else_is_none),
        cmocka_unit_test(errors_have_names),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
