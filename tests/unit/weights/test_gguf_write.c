/* SPDX-License-Identifier: MIT
 *
 * What the writer writes, the reader reads: every kind of key, every tensor type; and no file after any failure.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "quant/quant.h"
#include "unit/weights/build.h"
#include "files/gguf_write.h"
#include "weights/weights.h"

/* Files in the test's folder whose name begins with `prefix`. */
static int count_files(const char *prefix)
{
    DIR *d = opendir(test_folder);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    closedir(d);
    return n;
}

static struct gguf_writer *start(const char *name)
{
    struct gguf_writer *w;
    struct lutra_error err;
    if (gguf_writer_open(&w, in_folder(name), &err) < 0) fail_msg("%s", err.what);
    return w;
}

/* ---- metadata ---- */

static const int8_t i8[2] = {-128, 127};
static const uint16_t u16[2] = {0, 65535};
static const int16_t i16[1] = {-32768};
static const int32_t i32[3] = {INT32_MIN, 0, INT32_MAX};
static const uint64_t u64[2] = {0, UINT64_MAX};
static const int64_t i64[2] = {INT64_MIN, INT64_MAX};
static const double f64[2] = {DBL_MAX, -0.25};
static const float f32[3] = {1.5f, -INFINITY, 1e-45f};
static const uint8_t bools[3] = {1, 0, 1};
static const struct gguf_str strs[4] = {{"one", 3}, {"", 0}, {"thr\0ee", 6}, {"\xff\xfe", 2}};

static void put_all(struct gguf_writer *w)
{
    gguf_writer_put_u32(w, "u32", 4000000000u);
    gguf_writer_put_f32(w, "f32", 0.1f);
    gguf_writer_put_bool(w, "bool", true);
    gguf_writer_put_str(w, "str", "a string");
    gguf_writer_put_str(w, "str.empty", "");
    gguf_writer_put_scalar(w, "u8", GGUF_U8, "\xff");
    gguf_writer_put_scalar(w, "i8", GGUF_I8, i8);
    gguf_writer_put_scalar(w, "u16", GGUF_U16, u16 + 1);
    gguf_writer_put_scalar(w, "i16", GGUF_I16, i16);
    gguf_writer_put_scalar(w, "i32", GGUF_I32, i32);
    gguf_writer_put_scalar(w, "u64", GGUF_U64, u64 + 1);
    gguf_writer_put_scalar(w, "i64", GGUF_I64, i64);
    gguf_writer_put_scalar(w, "f64", GGUF_F64, f64);
    gguf_writer_put_array(w, "array.i8", GGUF_I8, i8, 2);
    gguf_writer_put_array(w, "array.i32", GGUF_I32, i32, 3);
    gguf_writer_put_array(w, "array.u64", GGUF_U64, u64, 2);
    gguf_writer_put_array(w, "array.f32", GGUF_F32, f32, 3);
    gguf_writer_put_array(w, "array.f64", GGUF_F64, f64, 2);
    gguf_writer_put_array(w, "array.bool", GGUF_BOOL, bools, 3);
    gguf_writer_put_array(w, "array.empty", GGUF_U32, NULL, 0);
    gguf_writer_put_strs(w, "array.str", strs, 4);
}

static void check_scalars(const struct weights *w)
{
    static const struct {
        const char *key;
        int64_t value;
    } integers[] = {{"u32", 4000000000}, {"u8", 255}, {"i8", -128}, {"u16", 65535}, {"i16", -32768}, {"i32", INT32_MIN},
        {"i64", INT64_MIN}, {"bool", 1}};
    int64_t v;
    uint64_t u;
    double d;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        assert_true(gguf_kv_i64(weights_kv_find(w, integers[i].key), 0, &v));
        assert_true(v == integers[i].value);
        assert_false(gguf_kv_f64(weights_kv_find(w, integers[i].key), 0, &d));
        assert_true(gguf_kv_u64(weights_kv_find(w, integers[i].key), 0, &u) == (v >= 0));
    }
    assert_false(gguf_kv_i64(weights_kv_find(w, "u64"), 0, &v));
    assert_true(gguf_kv_u64(weights_kv_find(w, "u64"), 0, &u) && u == UINT64_MAX);
    assert_true(gguf_kv_f64(weights_kv_find(w, "f32"), 0, &d) && d == (double)0.1f);
    assert_true(gguf_kv_f64(weights_kv_find(w, "f64"), 0, &d) && d == DBL_MAX);
    assert_false(gguf_kv_i64(weights_kv_find(w, "f32"), 0, &v));
    assert_false(gguf_kv_i64(weights_kv_find(w, "str"), 0, &v));
    struct gguf_str s = gguf_kv_str(weights_kv_find(w, "str"), 0);
    assert_int_equal(s.n, 8);
    assert_memory_equal(s.s, "a string", 8);
}

static void check_arrays(const struct weights *w)
{
    int32_t got[3];
    float real[3];
    uint64_t n;
    int64_t v;
    assert_int_equal(weights_copy_i32(w, "array.i32", got, 3, &n, NULL), 0);
    assert_int_equal(n, 3);
    assert_memory_equal(got, i32, sizeof i32);
    assert_int_equal(weights_copy_f32(w, "array.f32", real, 3, &n, NULL), 0);
    assert_memory_equal(real, f32, sizeof f32);
    assert_true(gguf_kv_i64(weights_kv_find(w, "array.i8"), 1, &v) && v == 127);
    assert_true(gguf_kv_i64(weights_kv_find(w, "array.bool"), 2, &v) && v == 1);
    assert_int_equal(weights_kv_find(w, "array.empty")->n, 0);
    const struct gguf_kv *kv;
    assert_int_equal(weights_get_array(w, "array.str", GGUF_STRING, &kv, NULL), 0);
    assert_int_equal(kv->n, 4);
    for (uint64_t i = 0; i < 4; i++) {
        struct gguf_str s = gguf_kv_str(kv, i);
        assert_int_equal(s.n, strs[i].n);
        assert_memory_equal(s.s, strs[i].s, s.n);
    }
}

static void every_kind_of_key_comes_back(void **state)
{
    (void)state;
    struct gguf_writer *out = start("keys.gguf");
    struct weights *w, *copy;
    put_all(out);
    assert_int_equal(gguf_writer_commit(&out, NULL), 0);
    assert_null(out);
    assert_int_equal(weights_open(&w, in_folder("keys.gguf"), NULL), 0);
    assert_int_equal(weights_kv_count(w), 21);
    check_scalars(w);
    check_arrays(w);

    out = start("copy.gguf"); /* and copied from file to file */
    for (size_t i = 0; i < weights_kv_count(w); i++) gguf_writer_copy(out, weights_kv_at(w, i));
    assert_int_equal(gguf_writer_commit(&out, NULL), 0);
    assert_int_equal(weights_open(&copy, in_folder("copy.gguf"), NULL), 0);
    check_scalars(copy);
    check_arrays(copy);
    assert_int_equal(weights_file_bytes(copy), weights_file_bytes(w));
    weights_close(&w);
    weights_close(&copy);
}

/* ---- tensors ---- */

static uint8_t pattern(size_t tensor, size_t i)
{
    return (uint8_t)(i * 31 + tensor * 7 + i / 251);
}

static void every_tensor_type_comes_back(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    struct gguf_writer *out = start("tensors.gguf");
    struct weights *w;
    int64_t ne[4] = {256, 3, 1, 2};
    gguf_writer_put_u32(out, "x", 1);
    size_t total = 0;
    for (size_t i = 0; quant_info_at(i); i++)
        gguf_writer_add_tensor(out, quant_info_at(i)->name, quant_info_at(i)->type, 1 + (int)i % 4, ne);
    uint64_t file_bytes = gguf_writer_file_bytes(out);
    for (size_t i = 0; quant_info_at(i); i++) {
        size_t rows = i % 4 == 0 ? 1 : i % 4 == 3 ? 6 : 3, row;
        quant_row_bytes(quant_info_at(i)->type, 256, &row);
        for (size_t k = 0; k < rows * row; k++) bytes[k] = pattern(i, k);
        for (size_t at = 0, part; at < rows * row; at += part) { /* in odd pieces */
            part = rows * row - at < 101 ? rows * row - at : 101;
            assert_int_equal(gguf_writer_data(out, bytes + at, part), 0);
        }
        total += rows * row;
    }
    assert_int_equal(gguf_writer_commit(&out, NULL), 0);
    assert_int_equal(weights_open(&w, in_folder("tensors.gguf"), NULL), 0);
    assert_int_equal(weights_file_bytes(w), file_bytes);
    assert_int_equal(weights_tensor_bytes(w), total);
    for (size_t i = 0; quant_info_at(i); i++) {
        const struct tensor *t = weights_tensor_find(w, quant_info_at(i)->name);
        assert_int_equal(t->type, quant_info_at(i)->type);
        assert_int_equal(t->n_dim, i % 4 == 2 ? 2 : 1 + (int)i % 4); /* 256 x 3 x 1 is a matrix */
        assert_int_equal((uintptr_t)t->data % 32, 0);
        for (size_t k = 0; k < t->bytes; k++) assert_int_equal(((const uint8_t *)t->data)[k], pattern(i, k));
    }
    weights_close(&w);
}

/* ---- failures ---- */

/* Commit fails so, and neither the file nor a temporary one is left. */
static void expect_failure(struct gguf_writer *w, int status, const char *text)
{
    struct lutra_error err = {0};
    int rc = gguf_writer_commit(&w, &err);
    if (rc != status || !strstr(err.what, text)) fail_msg("want %d '%s', got %d '%s'", status, text, rc, err.what);
    assert_null(w);
    assert_int_equal(count_files("fail"), 0);
}

static void tensors_lie_where_the_alignment_says(void **state)
{
    (void)state;
    static const float x[3] = {1, 2, 3};
    const int64_t one[1] = {1}, two[1] = {2};
    struct weights *in;
    struct gguf_writer *w = start("align.gguf");
    assert_int_equal(gguf_writer_align(w, 4096), 0);
    gguf_writer_add_tensor(w, "a", QUANT_F32, 1, one);
    gguf_writer_add_tensor(w, "b", QUANT_F32, 1, two);
    gguf_writer_data(w, x, sizeof x);
    assert_int_equal(gguf_writer_commit(&w, NULL), 0);
    assert_int_equal(weights_open(&in, in_folder("align.gguf"), NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        const struct tensor *t = weights_tensor_at(in, i);
        assert_int_equal((uintptr_t)t->data % 4096, 0);
        assert_memory_equal(t->data, x + i, t->bytes);
    }
    weights_close(&in);
    w = start("fail.gguf");
    assert_int_equal(gguf_writer_align(w, 48), LUTRA_E_ARGUMENT);
    gguf_writer_abort(&w);
}

static void misuse_is_reported_at_commit(void **state)
{
    (void)state;
    int64_t ne[2] = {32, 2}, zero[2] = {32, 0}, odd[1] = {33};
    uint8_t bytes[256] = {0};
    struct gguf_writer *w = start("fail.gguf");
    gguf_writer_put_u32(w, "a", 1);
    assert_int_equal(gguf_writer_put_u32(w, "a", 2), LUTRA_E_ARGUMENT);
    assert_int_equal(gguf_writer_put_u32(w, "b", 2), LUTRA_E_ARGUMENT); /* sticks */
    expect_failure(w, LUTRA_E_ARGUMENT, "key 'a' is put twice");
    w = start("fail.gguf");
    gguf_writer_add_tensor(w, "t", QUANT_Q4_0, 2, ne);
    gguf_writer_add_tensor(w, "t", QUANT_Q4_0, 2, ne);
    expect_failure(w, LUTRA_E_ARGUMENT, "tensor 't' is added twice");
    w = start("fail.gguf");
    gguf_writer_add_tensor(w, "t", QUANT_Q4_0, 1, odd);
    expect_failure(w, LUTRA_E_ARGUMENT, "no rows of 33 in type Q4_0");
    w = start("fail.gguf");
    gguf_writer_add_tensor(w, "t", QUANT_I32, 2, ne);
    expect_failure(w, LUTRA_E_ARGUMENT, "in type I32");
    w = start("fail.gguf");
    gguf_writer_add_tensor(w, "t", QUANT_W2, 1, (int64_t[]){64});
    expect_failure(w, LUTRA_E_ARGUMENT, "in type W2");
    w = start("fail.gguf");
    gguf_writer_add_tensor(w, "t", QUANT_F32, 2, zero);
    expect_failure(w, LUTRA_E_ARGUMENT, "dimension 1 is 0");
    w = start("fail.gguf");
    gguf_writer_add_tensor(w, "t", QUANT_F32, 2, ne);
    gguf_writer_data(w, bytes, 255);
    expect_failure(w, LUTRA_E_ARGUMENT, "data of tensor 't' is not complete");
    w = start("fail.gguf");
    gguf_writer_add_tensor(w, "t", QUANT_Q8_0, 1, ne);
    gguf_writer_data(w, bytes, 35);
    expect_failure(w, LUTRA_E_ARGUMENT, "1 bytes more data than declared");
    w = start("fail.gguf");
    gguf_writer_add_tensor(w, "t", QUANT_Q8_0, 1, ne);
    gguf_writer_data(w, bytes, 34);
    gguf_writer_put_u32(w, "late", 1);
    expect_failure(w, LUTRA_E_ARGUMENT, "comes after tensor data");
    w = start("fail.gguf");
    gguf_writer_add_tensor(w, "t", QUANT_Q8_0, 1, ne);
    gguf_writer_abort(&w);
    assert_int_equal(count_files("fail"), 0);
    struct lutra_error err;
    assert_int_equal(gguf_writer_open(&w, in_folder("no/such/folder.gguf"), &err), LUTRA_E_IO);
    assert_null(w);
    assert_non_null(strstr(err.what, "cannot create"));
}

/* A file size limit stands in for a full disk: the kernel then fails the reservation or cuts the write short. */
static void limit_file_size(rlim_t bytes, struct rlimit *before)
{
    getrlimit(RLIMIT_FSIZE, before);
    struct rlimit limit = {bytes, before->rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void full_disk_leaves_no_file(void **state)
{
    (void)state;
    static uint8_t bytes[9 << 20]; /* more than the writer keeps back */
    struct rlimit before;
    for (int late = 0; late < 3; late++) { /* noticed when the space is reserved, at a write, at the last write */
        struct gguf_writer *w = start("fail.gguf");
        size_t n = late < 2 ? sizeof bytes : 65536;
        int64_t ne[1] = {(int64_t)n / 4};
        gguf_writer_add_tensor(w, "t", QUANT_F32, 1, ne);
        if (late) gguf_writer_data(w, bytes, 16);
        limit_file_size(20000, &before);
        int rc = gguf_writer_data(w, bytes, n - (late ? 16 : 0));
        struct lutra_error err = {0};
        int committed = gguf_writer_commit(&w, &err);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(rc, late < 2 ? LUTRA_E_IO : 0);
        assert_int_equal(committed, LUTRA_E_IO);
        assert_non_null(strstr(err.what, late ? "cannot write: File too large" : "no room for"));
        assert_int_equal(count_files("fail"), 0);
    }
}

static void an_older_file_stays_until_the_new_one_is_whole(void **state)
{
    (void)state;
    char now[8] = {0};
    save(in_folder("old.gguf"), "old", 3);
    struct gguf_writer *w = start("old.gguf");
    gguf_writer_put_u32(w, "a", 1);
    gguf_writer_put_u32(w, "a", 1);
    assert_int_equal(gguf_writer_commit(&w, NULL), LUTRA_E_ARGUMENT);
    FILE *f = fopen(in_folder("old.gguf"), "rb");
    assert_int_equal(fread(now, 1, 8, f), 3);
    fclose(f);
    assert_string_equal(now, "old");
    w = start("old.gguf");
    assert_int_equal(gguf_writer_commit(&w, NULL), 0);
    struct weights *in;
    assert_int_equal(weights_open(&in, in_folder("old.gguf"), NULL), 0);
    weights_close(&in);
    assert_int_equal(count_files("old"), 1);
}

/* A process that has begun to write `name`. */
static pid_t begin_elsewhere(const char *name)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        static uint8_t bytes[65536];
        int64_t ne[1] = {1 << 20};
        struct gguf_writer *w;
        if (gguf_writer_open(&w, in_folder(name), NULL) < 0) _exit(1);
        gguf_writer_add_tensor(w, "t", QUANT_F32, 1, ne);
        gguf_writer_data(w, bytes, sizeof bytes);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char x;
    assert_int_equal(read(ready[0], &x, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void kill_it(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* The next writer removes what it left; not what somebody still writes, nor files of other names. */
static void a_killed_writer_leaves_no_output(void **state)
{
    (void)state;
    kill_it(begin_elsewhere("killed.gguf"));
    assert_int_equal(access(in_folder("killed.gguf"), F_OK), -1);
    assert_int_equal(count_files("killed.gguf.tmp-"), 1);
    pid_t alive = begin_elsewhere("killed.gguf");
    assert_int_equal(count_files("killed.gguf.tmp-"), 1);
    const char *others[] = {"killed.gguf.tmp-", "killed.gguf.tmp-1", "killed.gguf.tmp-1-", "killed.gguf.tmp-1-2x",
        "killed.gguf.tmp-a-1", "xkilled.gguf.tmp-1-0", "killed.gguf2.tmp-1-0"};
    enum { N_OTHERS = sizeof others / sizeof *others };
    for (int i = 0; i < N_OTHERS; i++) save(in_folder(others[i]), "x", 1);
    struct gguf_writer *w = start("killed.gguf");
    assert_int_equal(count_files("killed.gguf.tmp-"), 2 + 5);
    assert_int_equal(gguf_writer_commit(&w, NULL), 0);
    kill_it(alive);
    w = start("killed.gguf");
    assert_int_equal(gguf_writer_commit(&w, NULL), 0);
    assert_int_equal(count_files("killed.gguf.tmp-"), 5);
    for (int i = 0; i < N_OTHERS; i++) assert_int_equal(unlink(in_folder(others[i])), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_key_comes_back),
        cmocka_unit_test(every_tensor_type_comes_back),
        cmocka_unit_test(tensors_lie_where_the_alignment_says),
        cmocka_unit_test(misuse_is_reported_at_commit),
        cmocka_unit_test(full_disk_leaves_no_file),
        cmocka_unit_test(an_older_file_stays_until_the_new_one_is_whole),
        cmocka_unit_test(a_killed_writer_leaves_no_output),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
