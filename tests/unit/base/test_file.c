/* SPDX-License-Identifier: MIT
 *
 * A small file read whole, one that is written beside its place, and a library that is opened when it is wanted.
 */
#include "base/file.h"
#include "base/library.h"
#include "base/temporary.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>

static void write_bytes(const char *path, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) fputc((int)(i & 0xff), f);
    assert_int_equal(fclose(f), 0);
}

static void reads_whole(void **state)
{
    (void)state;
    char path[] = "/tmp/lutra-file-XXXXXX", *text;
    struct lutra_error err;
    size_t n;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t bytes = 0; bytes <= 2048; bytes += 1024) {
        write_bytes(path, bytes);
        assert_int_equal(file_read(path, 2048, &text, &n, &err), 0);
        assert_int_equal(n, bytes);
        for (size_t i = 0; i < n; i++) assert_int_equal((unsigned char)text[i], i & 0xff);
        assert_int_equal(text[n], 0);
        free(text);
    }
    write_bytes(path, 2049);
    assert_int_equal(file_read(path, 2048, &text, &n, &err), LUTRA_E_FORMAT);
    assert_null(text);
    assert_non_null(strstr(err.what, "more than 2 KiB"));
    unlink(path);
    assert_int_equal(file_read(path, 2048, &text, &n, &err), LUTRA_E_IO);
    assert_int_equal(strncmp(err.what, path, strlen(path)), 0);
    assert_int_equal(file_read("/tmp", 2048, &text, &n, &err), LUTRA_E_IO); /* a folder */
    assert_null(text);
}

static void reads_pipes(void **state)
{
    (void)state;
    char path[32], *text;
    struct lutra_error err;
    size_t n;
    int end[2];
    assert_int_equal(pipe(end), 0);
    assert_int_equal(write(end[1], "several", 7), 7);
    close(end[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", end[0]);
    assert_int_equal(file_read(path, 1024, &text, &n, &err), 0);
    assert_string_equal(text, "several");
    free(text);
    close(end[0]);
}

struct table {
    double (*cos)(double x);
    void *nobody;
};

static void opens_libraries(void **state)
{
    (void)state;
    struct library_call calls[] = {
        {"cos", offsetof(struct table, cos), false}, {"lutra_nobody", offsetof(struct table, nobody), true}};
    struct table t = {NULL, &t};
    const char *lacks = "";
    void *library = library_open("libm.so.6", calls, 2, &t, &lacks);
    assert_non_null(library);
    assert_null(lacks);
    assert_true(t.cos(0) == 1);
    assert_null(t.nobody);
    dlclose(library);
    calls[1].optional = false;
    assert_null(library_open("libm.so.6", calls, 2, &t, &lacks));
    assert_string_equal(lacks, "lutra_nobody");
    assert_null(library_open("liblutra-nobody.so.1", calls, 2, &t, &lacks));
    assert_null(lacks);
    assert_non_null(strstr(dlerror(), "liblutra-nobody"));
}

/* A rename would put a file in the place of a device, a pipe or a folder. */
static void replaces_plain_files_only(void **state)
{
    static const struct {
        const char *path;
        int why;
    } bad[] = {{"/dev/null", ENOTSUP}, {"/tmp", EISDIR}};
    char folder[] = "/tmp/lutra-temporary-XXXXXX", path[64], *name;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(temporary_create(bad[i].path, &name), -1);
        assert_int_equal(errno, bad[i].why);
        assert_string_equal(name, bad[i].path);
        free(name);
    }
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x", folder);
    for (int i = 0; i < 2; i++) { /* a new one, and one that is there */
        int fd = temporary_create(path, &name);
        assert_true(fd >= 0 && temporary_write(fd, "abc", 3));
        assert_int_equal(rename(name, path), 0);
        close(fd);
        free(name);
    }
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_whole), cmocka_unit_test(reads_pipes),
        cmocka_unit_test(opens_libraries), cmocka_unit_test(replaces_plain_files_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
