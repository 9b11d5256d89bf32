/* SPDX-License-Identifier: MIT
 *
 * The packed cache: what was written is found again, and nothing is found in a file that does not fit.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "unit/weights/build.h"
#include "files/gguf_write.h"
#include "weights/packed.h"

static uint8_t first[4096 + 64], second[128];

static const struct packed_copy COPIES[3] = {{"panel.1", "a.weight", first, sizeof first},
    {"tile.1", "a.weight", second, 64}, {"panel.1", "b.weight", second, sizeof second}};

/* A model file of one tensor of n words. */
static void make_model(const char *name, const char *arch, int64_t n)
{
    struct gguf_writer *w;
    assert_int_equal(gguf_writer_open(&w, in_folder(name), NULL), 0);
    gguf_writer_put_str(w, "general.architecture", arch);
    gguf_writer_add_tensor(w, "a.weight", QUANT_F32, 1, &n);
    gguf_writer_data(w, first, (size_t)n * 4);
    assert_int_equal(gguf_writer_commit(&w, NULL), 0);
}

static struct weights *open_model(const char *name)
{
    struct weights *w;
    struct lutra_error err;
    if (weights_open(&w, in_folder(name), &err) < 0) fail_msg("%s", err.what);
    return w;
}

static void write_copies(const char *name, const struct weights *model)
{
    struct lutra_error err;
    if (packed_write(in_folder(name), model, "test", COPIES, 3, NULL, NULL, &err) < 0) fail_msg("%s", err.what);
}

static void copies_come_back(void **state)
{
    (void)state;
    uint64_t sum, other = 0;
    struct weights *packed;
    struct lutra_error err;
    make_model("m.gguf", "llama", 16);
    struct weights *model = open_model("m.gguf");
    for (size_t i = 0; i < sizeof first; i++) first[i] = (uint8_t)(i * 7);
    memset(second, 0xa5, sizeof second);
    write_copies("m.packed", model);
    if (packed_open(&packed, in_folder("m.packed"), model, &err) < 0) fail_msg("%s", err.what);
    for (int i = 0; i < 3; i++) {
        const struct packed_copy *c = &COPIES[i];
        const void *data = packed_find(packed, c->layout, c->name, c->bytes, &sum);
        assert_non_null(data);
        assert_true(sum == hash_parts(c->data, c->bytes) && sum != other);
        other = sum;
        assert_int_equal((uintptr_t)data % 4096, 0);
        assert_memory_equal(data, c->data, c->bytes);
        assert_null(packed_find(packed, c->layout, c->name, c->bytes + 4, &sum));
        assert_null(packed_find(packed, c->layout, c->name, c->bytes - 4, &sum));
    }
    assert_null(packed_find(packed, "panel.2", "a.weight", sizeof first, &sum));
    assert_null(packed_find(packed, "tile.1", "b.weight", sizeof second, &sum));
    weights_close(&packed);
    weights_close(&model);
}

static void expect_refused(const char *name, const struct weights *model, const char *text)
{
    struct weights *packed = NULL;
    struct lutra_error err = {0};
    int rc = packed_open(&packed, in_folder(name), model, &err);
    if (rc == 0 || !strstr(err.what, text)) fail_msg("%s: %d, '%s' instead of '%s'", name, rc, err.what, text);
    assert_null(packed);
}

static void another_model_is_refused(void **state)
{
    (void)state;
    make_model("m.gguf", "llama", 16);
    struct weights *model = open_model("m.gguf");
    write_copies("m.packed", model);
    make_model("longer.gguf", "llama", 32);
    struct weights *other = open_model("longer.gguf");
    expect_refused("m.packed", other, "packed from");
    weights_close(&other);

    /* The same size, another time. */
    struct stat st;
    assert_int_equal(stat(in_folder("m.gguf"), &st), 0);
    make_model("m.gguf", "llama", 16);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    times[1].tv_nsec ^= 1;
    assert_int_equal(utimensat(AT_FDCWD, in_folder("m.gguf"), times, 0), 0);
    other = open_model("m.gguf");
    expect_refused("m.packed", other, "modified or copied");
    weights_close(&other);

    /* The same size and time, another header. */
    make_model("m.gguf", "llamb", 16);
    times[1] = st.st_mtim;
    assert_int_equal(utimensat(AT_FDCWD, in_folder("m.gguf"), times, 0), 0);
    other = open_model("m.gguf");
    assert_int_equal(weights_file_bytes(other), weights_file_bytes(model));
    expect_refused("m.packed", other, "another header");
    weights_close(&other);
    weights_close(&model);
}

/* A packed copy of nothing with one key changed; version 0: without any.  sum: NULL, or [n]. */
static void write_wrong(const char *name, const char *kind, uint32_t version, const uint64_t *sum, uint64_t n)
{
    struct gguf_writer *w;
    uint64_t bytes = 1;
    assert_int_equal(gguf_writer_open(&w, in_folder(name), NULL), 0);
    gguf_writer_put_str(w, "general.architecture", kind);
    if (version) gguf_writer_put_u32(w, "lutra.packed.version", version);
    if (version) gguf_writer_put_scalar(w, "lutra.packed.source.bytes", GGUF_U64, &bytes);
    if (sum) gguf_writer_put_array(w, "lutra.packed.sums", GGUF_U64, sum, n);
    assert_int_equal(gguf_writer_commit(&w, NULL), 0);
}

static void what_is_no_packed_copy_is_refused(void **state)
{
    (void)state;
    make_model("m.gguf", "llama", 16);
    struct weights *model = open_model("m.gguf");
    expect_refused("m.gguf", model, "not a packed copy");
    expect_refused("none.packed", model, "cannot open");
    save(in_folder("junk.packed"), "GGUFjunkjunkjunkjunkjunk", 24);
    expect_refused("junk.packed", model, "version");
    write_wrong("w.packed", "lutra-packed", 0, NULL, 0);
    expect_refused("w.packed", model, "lutra.packed.version");
    write_wrong("w.packed", "lutra-packed", 1, NULL, 0);
    expect_refused("w.packed", model, "version 1, not 2");
    write_wrong("w.packed", "lutra-packed", 2, NULL, 0);
    expect_refused("w.packed", model, "lutra.packed.sums");
    const uint64_t sum = 5;
    write_wrong("w.packed", "lutra-packed", 2, &sum, 1);
    expect_refused("w.packed", model, "1 entries for 0 tensors");
    write_wrong("w.packed", "lutra-packed", 2, &sum, 0);
    expect_refused("w.packed", model, "modified_ns");
    weights_close(&model);
}

static void a_copy_inside_a_page_is_not_found(void **state)
{
    (void)state;
    struct gguf_writer *w;
    struct weights *packed;
    uint64_t sum;
    const int64_t ne[1] = {16};
    assert_int_equal(gguf_writer_open(&w, in_folder("odd.packed"), NULL), 0); /* alignment 32 */
    gguf_writer_add_tensor(w, "l.1/a", QUANT_F32, 1, ne);
    gguf_writer_data(w, first, 64);
    assert_int_equal(gguf_writer_commit(&w, NULL), 0);
    assert_int_equal(weights_open(&packed, in_folder("odd.packed"), NULL), 0);
    assert_int_equal(weights_tensor_at(packed, 0)->bytes, 64);
    assert_null(packed_find(packed, "l.1", "a", 64, &sum));
    weights_close(&packed);
}

static uint8_t *load(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 16);
    assert_true(f && bytes);
    *n = fread(bytes, 1, 1 << 16, f);
    fclose(f);
    return bytes;
}

/* Every kind of damage to the copies or their names is found, and told by the name of what it hit. */
static void damage_is_found(void **state)
{
    (void)state;
    struct lutra_error err = {0};
    make_model("m.gguf", "llama", 16);
    struct weights *model = open_model("m.gguf");
    for (size_t i = 0; i < sizeof first; i++) first[i] = (uint8_t)(i * 7 + 1);
    memset(second, 0xa5, sizeof second);
    write_copies("d.packed", model);
    weights_close(&model);
    if (packed_check(in_folder("d.packed"), &err) < 0) fail_msg("%s", err.what);
    size_t n;
    uint8_t *good = load(in_folder("d.packed"), &n), *bad = malloc(n);
    const size_t copy[3] = {4096, 3 * 4096, 4 * 4096}; /* where they begin */
    assert_memory_equal(good + copy[2], second, sizeof second);
    for (int i = 0; i < 3; i++)
        for (size_t bit = 0; bit < 8 * COPIES[i].bytes; bit += i ? 1 : 97) {
            memcpy(bad, good, n);
            bad[copy[i] + bit / 8] ^= (uint8_t)(1 << bit % 8);
            save(in_folder("bad.packed"), bad, n);
            assert_int_equal(packed_check(in_folder("bad.packed"), &err), LUTRA_E_FORMAT);
            if (!strstr(err.what, COPIES[i].name) || !strstr(err.what, "1 of 3")) fail_msg("%s", err.what);
        }
    /* Two equal copies whose names have changed places. */
    memcpy(bad, good, n);
    for (size_t i = 0; i < 4096; i++)
        if (!memcmp(bad + i, "/a.weight", 9) || !memcmp(bad + i, "/b.weight", 9)) bad[i + 1] ^= 'a' ^ 'b';
    save(in_folder("bad.packed"), bad, n);
    assert_true(packed_check(in_folder("bad.packed"), &err) < 0);
    assert_int_equal(packed_check(in_folder("m.gguf"), &err), LUTRA_E_UNSUPPORTED);
    assert_int_equal(packed_check(in_folder("none.packed"), &err), LUTRA_E_IO);
    free(good);
    free(bad);
}

static int stop_at_once(void *user, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return ++*(int *)user > 1;
}

static void a_cancelled_write_leaves_nothing(void **state)
{
    (void)state;
    int calls = 0;
    make_model("m.gguf", "llama", 16);
    struct weights *model = open_model("m.gguf");
    int rc = packed_write(in_folder("c.packed"), model, "test", COPIES, 3, stop_at_once, &calls, NULL);
    assert_int_equal(rc, LUTRA_E_CANCELLED);
    assert_int_equal(access(in_folder("c.packed"), F_OK), -1);
    char long_name[300];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    const struct packed_copy copy = {"l.1", long_name, first, 64};
    rc = packed_write(in_folder("c.packed"), model, "test", &copy, 1, NULL, NULL, NULL);
    assert_int_equal(rc, LUTRA_E_ARGUMENT);
    assert_int_equal(access(in_folder("c.packed"), F_OK), -1);
    weights_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_come_back),
        cmocka_unit_test(another_model_is_refused),
        cmocka_unit_test(what_is_no_packed_copy_is_refused),
        cmocka_unit_test(a_copy_inside_a_page_is_not_found),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(a_cancelled_write_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
