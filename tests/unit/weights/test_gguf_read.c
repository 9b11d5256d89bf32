/* SPDX-License-Identifier: MIT
 *
 * Opening files: what is read, and each malformed file with its status and message.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "unit/weights/build.h"
#include "weights/weights.h"

static struct build f;

/* Opens f and expects this status and this text somewhere in the message, which must begin with the path. */
static void expect(int status, const char *text)
{
    const char *path = in_folder("bad.gguf");
    struct lutra_error err = {0};
    struct weights *w = (struct weights *)1;
    save(path, f.b, f.n);
    int rc = weights_open(&w, path, &err);
    if (rc != status || !strstr(err.what, text)) fail_msg("want %d '%s', got %d '%s'", status, text, rc, err.what);
    assert_null(w);
    assert_int_equal(err.code, status);
    assert_int_equal(strncmp(err.what, path, strlen(path)), 0);
    assert_int_equal(weights_open(&w, path, NULL), status);
}

/* One tensor in front of `bytes` of data. */
static void one_tensor(uint32_t n_dim, const uint64_t *ne, uint32_t type, uint64_t offset, size_t bytes)
{
    add_head(&f, 3, 1, 0);
    add_tensor(&f, "w", n_dim, ne, type, offset);
    add_padding(&f, 32);
    add_zeros(&f, bytes);
}

/* ---- what is read ---- */

static void versions_2_and_3_open(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct weights *w;
        const struct tensor *t;
        uint64_t a[2] = {32, 3}, b[1] = {5};
        add_head(&f, version, 2, 1);
        add_kv_u32(&f, "general.alignment", 64);
        add_tensor(&f, "a", 2, a, 8, 0);
        add_tensor(&f, "b", 1, b, 0, 128);
        add_padding(&f, 64);
        size_t data = f.n;
        for (int i = 0; i < 148; i++) f.b[f.n++] = (uint8_t)i;
        save(in_folder("good.gguf"), f.b, f.n);
        assert_int_equal(weights_open(&w, in_folder("good.gguf"), NULL), 0);
        assert_int_equal(weights_tensor_count(w), 2);
        assert_int_equal(weights_file_bytes(w), f.n);
        assert_int_equal(weights_tensor_bytes(w), 102 + 20);
        t = weights_tensor_find(w, "a");
        assert_ptr_equal(t, weights_tensor_at(w, 0));
        assert_int_equal(t->type, QUANT_Q8_0);
        assert_int_equal(t->n_dim, 2);
        assert_true(t->ne[0] == 32 && t->ne[1] == 3 && t->ne[2] == 1 && t->ne[3] == 1);
        assert_int_equal(t->bytes, 102);
        assert_memory_equal(t->data, f.b + data, 102);
        t = weights_tensor_find(w, "b");
        assert_memory_equal(t->data, f.b + data + 128, 20);
        assert_null(weights_tensor_find(w, "c"));
        struct lutra_error err;
        assert_int_equal(weights_tensor_get(w, "c", &t, &err), LUTRA_E_NOT_FOUND);
        assert_non_null(strstr(err.what, "tensor 'c' is missing"));
        weights_prefetch(w, weights_tensor_at(w, 0));
        weights_drop_pages(w, weights_tensor_at(w, 0));
        assert_memory_equal(weights_tensor_at(w, 0)->data, f.b + data, 102);
        weights_close(&w);
        assert_null(w);
        weights_close(&w);
    }
}

static void nothing_but_a_header_opens(void **state)
{
    (void)state;
    struct weights *w;
    add_head(&f, 3, 0, 0);
    save(in_folder("empty.gguf"), f.b, f.n);
    assert_int_equal(weights_open(&w, in_folder("empty.gguf"), NULL), 0);
    assert_int_equal(weights_tensor_count(w), 0);
    assert_int_equal(weights_kv_count(w), 0);
    weights_close(&w);
}

/* ---- what is refused ---- */

static void not_a_file(void **state)
{
    (void)state;
    struct weights *w;
    struct lutra_error err;
    assert_int_equal(weights_open(&w, in_folder("none"), &err), LUTRA_E_IO);
    assert_non_null(strstr(err.what, "cannot open"));
    assert_int_equal(weights_open(&w, test_folder, &err), LUTRA_E_IO);
    f.n = 0;
    expect(LUTRA_E_FORMAT, "empty");
    add(&f, "GG", 2);
    expect(LUTRA_E_FORMAT, "not a GGUF file");
    f.n = 0;
    add(&f, "something else altogether, and longer", 30);
    expect(LUTRA_E_FORMAT, "not a GGUF file");
    f.n = 0;
    add(&f, "PK\3\4 something else altogether", 30);
    expect(LUTRA_E_FORMAT, "a zip archive");
}

static void versions(void **state)
{
    (void)state;
    add_head(&f, 1, 0, 0);
    expect(LUTRA_E_UNSUPPORTED, "version 1 is not supported");
    add_head(&f, 4, 0, 0);
    expect(LUTRA_E_UNSUPPORTED, "version 4 is not supported");
    add_head(&f, 0x03000000, 0, 0);
    expect(LUTRA_E_UNSUPPORTED, "big-endian");
    add_head(&f, 3, 0, 0);
    memcpy(f.b, "FUGG", 4);
    expect(LUTRA_E_UNSUPPORTED, "big-endian");
    for (size_t n = 5; n < 24; n++) {
        add_head(&f, 3, 0, 0);
        f.n = n;
        expect(LUTRA_E_FORMAT, "are left in the file");
    }
}

static void counts_beyond_the_file(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 1000, INT64_MAX, UINT64_MAX, UINT64_MAX / 40 + 1, UINT64_MAX / 64 + 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        add_head(&f, 3, 0, counts[i]);
        expect(LUTRA_E_FORMAT, "keys do not fit");
        add_head(&f, 3, counts[i], 0);
        expect(LUTRA_E_FORMAT, "tensors do not fit");
    }
    add_head(&f, 3, 4, 0); /* a tensor's entry has 33 bytes at least, a key's 14 */
    add_zeros(&f, 131);
    expect(LUTRA_E_FORMAT, "4 tensors do not fit in the 131 bytes left");
    add_head(&f, 3, 0, 4);
    add_zeros(&f, 55);
    expect(LUTRA_E_FORMAT, "4 keys do not fit in the 55 bytes left");
}

static void keys(void **state)
{
    (void)state;
    add_head(&f, 3, 0, 1);
    add_kv_u32(&f, "", 1);
    add_zeros(&f, 8);
    expect(LUTRA_E_FORMAT, "a key of 0 bytes");
    add_head(&f, 3, 0, 1);
    add_u64(&f, UINT64_MAX);
    add_zeros(&f, 16);
    expect(LUTRA_E_FORMAT, "a key of 18446744073709551615 bytes");
    add_head(&f, 3, 0, 1);
    add_u64(&f, 60);
    add_zeros(&f, 50);
    expect(LUTRA_E_FORMAT, "key needs 60 bytes, 50 are left");
    add_head(&f, 3, 0, 1);
    add_u64(&f, 3);
    add(&f, "a\0b", 3);
    add_u32(&f, 4);
    add_u32(&f, 4);
    expect(LUTRA_E_FORMAT, "'a?b' contains a NUL");
    add_head(&f, 3, 0, 3);
    add_kv_u32(&f, "same", 1);
    add_kv_u32(&f, "other", 1);
    add_kv_u32(&f, "same", 2);
    expect(LUTRA_E_FORMAT, "key 'same' occurs twice");
}

static void values(void **state)
{
    (void)state;
    add_head(&f, 3, 0, 1);
    add_str(&f, "key");
    add_u32(&f, 13);
    add_zeros(&f, 8);
    expect(LUTRA_E_FORMAT, "key 'key': value type 13 does not exist");
    add_head(&f, 3, 0, 1);
    add_str(&f, "key");
    add_u32(&f, 10);
    add_zeros(&f, 7);
    expect(LUTRA_E_FORMAT, "1 values of type u64 do not fit in the 7 bytes left");
    add_head(&f, 3, 0, 1);
    add_str(&f, "key");
    add_u32(&f, 7);
    add(&f, "\2\0\0\0", 4);
    expect(LUTRA_E_FORMAT, "a bool of value 2");
    add_head(&f, 3, 0, 1);
    add_str(&f, "key");
    add_u32(&f, 8);
    add_u64(&f, 1u << 30);
    add_zeros(&f, 9);
    expect(LUTRA_E_FORMAT, "key 'key': a string of 1073741824 bytes, 9 are left");
}

static void arrays(void **state)
{
    (void)state;
    static const uint64_t counts[] = {3, UINT64_MAX, UINT64_MAX / 4 + 2, (uint64_t)1 << 62};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (uint32_t elem = 0; elem <= 12; elem++) {
            if (elem == 9) continue;
            add_head(&f, 3, 0, 1);
            add_str(&f, "key");
            add_u32(&f, 9);
            add_u32(&f, elem);
            add_u64(&f, counts[i]);
            add_zeros(&f, 2);
            expect(LUTRA_E_FORMAT, "do not fit in the 2 bytes left");
        }
    }
    add_head(&f, 3, 0, 1);
    add_str(&f, "key");
    add_u32(&f, 9);
    add_u32(&f, 9);
    add_u64(&f, 0);
    add_zeros(&f, 32);
    expect(LUTRA_E_UNSUPPORTED, "key 'key': arrays of arrays");
    add_head(&f, 3, 0, 1);
    add_str(&f, "key");
    add_u32(&f, 9);
    add_u32(&f, 8);
    add_u64(&f, 2);
    add_str(&f, "fine");
    add_u64(&f, 5);
    add_zeros(&f, 4);
    expect(LUTRA_E_FORMAT, "a string of 5 bytes, 4 are left");
}

static void alignments(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {0, 1, 4, 7, 33, 48, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        add_head(&f, 3, 0, 1);
        add_kv_u32(&f, "general.alignment", wrong[i]);
        expect(LUTRA_E_FORMAT, "not a power of two from 8 on");
    }
    add_head(&f, 3, 0, 1);
    add_str(&f, "general.alignment");
    add_u32(&f, 6);
    add_u32(&f, 32);
    expect(LUTRA_E_FORMAT, "'general.alignment' is not an integer");
}

static void tensor_types(void **state)
{
    (void)state;
    uint64_t ne[1] = {256};
    static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38};
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
        char text[64];
        one_tensor(1, ne, removed[i], 0, 4096);
        snprintf(text, sizeof text, "tensor 'w' has type %u, which was removed", (unsigned)removed[i]);
        expect(LUTRA_E_UNSUPPORTED, text);
    }
    one_tensor(1, ne, 26, 0, 4096);
    expect(LUTRA_E_UNSUPPORTED, "tensor 'w' has type I32 (26), which is not supported");
    one_tensor(1, ne, 15, 0, 4096);
    expect(LUTRA_E_UNSUPPORTED, "type Q8_K (15)");
    one_tensor(1, ne, 157, 0, 4096);
    expect(LUTRA_E_UNSUPPORTED, "type IQ2_KL of ik_llama.cpp (157), which is not supported");
    one_tensor(1, ne, 142, 0, 4096);
    expect(LUTRA_E_UNSUPPORTED, "has PrismML's type 142, weights in a rotated basis, which is not supported");
    for (uint32_t type = 43; type < 48; type++) { /* those of W2, W3 and W4 among them */
        char text[32];
        snprintf(text, sizeof text, "unknown type %u", (unsigned)type);
        one_tensor(1, ne, type, 0, 4096);
        expect(LUTRA_E_UNSUPPORTED, text);
    }
    one_tensor(1, ne, 0xffffffff, 0, 4096);
    expect(LUTRA_E_UNSUPPORTED, "unknown type 4294967295");
}

/* A last dimension of 1 behind the second says nothing. */
static void matrices_may_be_written_with_four_dimensions(void **state)
{
    static const uint64_t shapes[][4] = {{64, 2, 1, 1}, {64, 1, 1, 1}, {64, 2, 3, 1}, {64, 2, 1, 3}};
    static const int n_dim[] = {2, 2, 3, 4};
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct weights *w;
        one_tensor(4, shapes[i], 0, 0, 4096);
        save(in_folder("four.gguf"), f.b, f.n);
        assert_int_equal(weights_open(&w, in_folder("four.gguf"), NULL), 0);
        const struct tensor *t = weights_tensor_find(w, "w");
        assert_int_equal(t->n_dim, n_dim[i]);
        for (int k = 0; k < 4; k++) assert_int_equal(t->ne[k], shapes[i][k]);
        weights_close(&w);
        f.n = 0;
    }
}

static void tensor_shapes(void **state)
{
    (void)state;
    uint64_t ne[6] = {256, 2, 1, 1, 1, 1};
    one_tensor(0, ne, 0, 0, 4096);
    expect(LUTRA_E_FORMAT, "has 0 dimensions");
    one_tensor(5, ne, 0, 0, 4096);
    expect(LUTRA_E_FORMAT, "has 5 dimensions");
    uint64_t zero[2] = {32, 0};
    one_tensor(2, zero, 0, 0, 4096);
    expect(LUTRA_E_FORMAT, "dimension 1 is 0");
    uint64_t negative[1] = {(uint64_t)-32};
    one_tensor(1, negative, 0, 0, 4096);
    expect(LUTRA_E_FORMAT, "dimension 0 is 18446744073709551584");
    uint64_t odd[2] = {33, 1};
    one_tensor(2, odd, 2, 0, 4096);
    expect(LUTRA_E_FORMAT, "a row of 33 is not whole Q4_0 blocks of 32");
    odd[0] = 128;
    one_tensor(2, odd, 12, 0, 4096);
    expect(LUTRA_E_FORMAT, "a row of 128 is not whole Q4_K blocks of 256");
    uint64_t huge[4] = {(uint64_t)1 << 32, (uint64_t)1 << 32, 1, 1};
    one_tensor(4, huge, 0, 0, 4096);
    expect(LUTRA_E_FORMAT, "more than 2^63 elements");
    uint64_t large[3] = {(uint64_t)1 << 31, (uint64_t)1 << 31, 2}; /* few enough bytes for 64 bits in a 2-bit type */
    one_tensor(3, large, 35, 0, 4096);
    expect(LUTRA_E_FORMAT, "more than 2^63 elements");
    uint64_t wide[1] = {INT64_MAX};
    one_tensor(1, wide, 0, 0, 4096);
    expect(LUTRA_E_FORMAT, "tensor 'w'");
    uint64_t tall[3] = {1u << 30, 1u << 30, 2};
    one_tensor(3, tall, 0, 0, 4096);
    expect(LUTRA_E_FORMAT, "tensor 'w'");
}

static void tensor_places(void **state)
{
    (void)state;
    uint64_t ne[1] = {64};
    one_tensor(1, ne, 0, 16, 4096);
    expect(LUTRA_E_FORMAT, "offset 16 is not a multiple of 32");
    one_tensor(1, ne, 0, 0, 255);
    expect(LUTRA_E_FORMAT, "(256 bytes at offset 0) ends outside the file");
    one_tensor(1, ne, 0, 4096, 4096);
    expect(LUTRA_E_FORMAT, "ends outside the file");
    one_tensor(1, ne, 0, UINT64_MAX - 31, 4096);
    expect(LUTRA_E_FORMAT, "ends outside the file");
    one_tensor(1, ne, 0, UINT64_MAX - 255 - 256, 4096);
    expect(LUTRA_E_FORMAT, "ends outside the file");
    add_head(&f, 3, 2, 0);
    add_tensor(&f, "a", 1, ne, 0, 0);
    add_tensor(&f, "b", 1, ne, 0, 224);
    add_padding(&f, 32);
    add_zeros(&f, 1024);
    expect(LUTRA_E_FORMAT, "tensor 'b' at offset 224 overlaps");
    add_head(&f, 3, 2, 0);
    add_tensor(&f, "a", 1, ne, 0, 0);
    add_tensor(&f, "a", 1, ne, 0, 256);
    add_padding(&f, 32);
    add_zeros(&f, 1024);
    expect(LUTRA_E_FORMAT, "tensor 'a' occurs twice");
    add_head(&f, 3, 1, 0);
    char name[300];
    memset(name, 'x', 299);
    name[299] = 0;
    add_tensor(&f, name, 1, ne, 0, 0);
    add_zeros(&f, 1024);
    expect(LUTRA_E_FORMAT, "a tensor name of 299 bytes");
}

static void every_truncation_fails(void **state)
{
    (void)state;
    uint64_t ne[2] = {32, 2};
    add_head(&f, 3, 1, 3);
    add_kv_u32(&f, "number", 7);
    add_str(&f, "text");
    add_u32(&f, 8);
    add_str(&f, "hello");
    add_str(&f, "list");
    add_u32(&f, 9);
    add_u32(&f, 8);
    add_u64(&f, 2);
    add_str(&f, "one");
    add_str(&f, "two");
    add_tensor(&f, "w", 2, ne, 2, 0);
    add_padding(&f, 32);
    add_zeros(&f, 36);
    size_t whole = f.n;
    struct weights *w;
    save(in_folder("whole.gguf"), f.b, whole);
    assert_int_equal(weights_open(&w, in_folder("whole.gguf"), NULL), 0);
    weights_close(&w);
    for (f.n = 0; f.n < whole; f.n++) expect(LUTRA_E_FORMAT, "");
}

/* ---- shards ---- */

static void save_shard(const char *name, uint32_t no, uint32_t count, uint32_t n_tensors, const char *tensor)
{
    uint64_t ne[1] = {8};
    add_head(&f, 3, 1, 4);
    add_kv_u32(&f, "split.no", no);
    add_kv_u32(&f, "split.count", count);
    add_kv_u32(&f, "split.tensors.count", n_tensors);
    add_kv_u32(&f, "mark", no);
    add_tensor(&f, tensor, 1, ne, 0, 0);
    add_padding(&f, 32);
    memset(f.b + f.n, (int)no + 1, 32);
    f.n += 32;
    save(in_folder(name), f.b, f.n);
}

static void expect_shards(const char *name, int status, const char *text)
{
    struct weights *w;
    struct lutra_error err = {0};
    int rc = weights_open(&w, in_folder(name), &err);
    if (rc != status || !strstr(err.what, text)) fail_msg("want %d '%s', got %d '%s'", status, text, rc, err.what);
}

static void shards_open_together(void **state)
{
    (void)state;
    struct weights *w;
    save_shard("m-00001-of-00003.gguf", 0, 3, 3, "a");
    save_shard("m-00002-of-00003.gguf", 1, 3, 3, "b");
    expect_shards("m-00001-of-00003.gguf", LUTRA_E_IO, "m-00003-of-00003.gguf: cannot open");
    save_shard("m-00003-of-00003.gguf", 2, 3, 3, "c");
    assert_int_equal(weights_open(&w, in_folder("m-00001-of-00003.gguf"), NULL), 0);
    assert_int_equal(weights_tensor_count(w), 3);
    assert_int_equal(*(const uint8_t *)weights_tensor_find(w, "c")->data, 3);
    uint32_t mark = 9;
    assert_int_equal(weights_get_u32(w, "mark", &mark, NULL), 0);
    assert_int_equal(mark, 0);
    weights_close(&w);

    for (int i = 2; i <= 3; i++) { /* from any of them: the same model */
        char name[40];
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i);
        assert_int_equal(weights_open(&w, in_folder(name), NULL), 0);
        assert_int_equal(weights_tensor_count(w), 3);
        assert_int_equal(weights_get_u32(w, "mark", &mark, NULL), 0);
        assert_int_equal(mark, 0);
        assert_non_null(strstr(weights_path(w), "m-00001-of-00003.gguf"));
        weights_close(&w);
    }
    save_shard("other.gguf", 1, 3, 3, "b");
    expect_shards("other.gguf", LUTRA_E_FORMAT, "does not end in '-00002-of-00003.gguf'");
    save_shard("n-00002-of-00003.gguf", 1, 3, 3, "b");
    expect_shards("n-00002-of-00003.gguf", LUTRA_E_IO, "n-00001-of-00003.gguf: cannot open");
    save_shard("m-00003-of-00003.gguf", 2, 3, 3, "a");
    expect_shards("m-00001-of-00003.gguf", LUTRA_E_FORMAT, "tensor 'a' occurs twice");
    save_shard("m-00003-of-00003.gguf", 1, 3, 3, "c");
    expect_shards("m-00001-of-00003.gguf", LUTRA_E_FORMAT, "says it is shard 2 of 3, not 3 of 3");
    save_shard("m-00003-of-00003.gguf", 2, 3, 3, "c");
    save_shard("m-00001-of-00003.gguf", 0, 3, 5, "a");
    expect_shards("m-00001-of-00003.gguf", LUTRA_E_FORMAT, "hold 3 tensors, split.tensors.count says 5");
    save_shard("plain.gguf", 0, 3, 3, "a");
    expect_shards("plain.gguf", LUTRA_E_FORMAT, "does not end in '-00001-of-00003.gguf'");
    save_shard("single.gguf", 0, 1, 1, "a");
    assert_int_equal(weights_open(&w, in_folder("single.gguf"), NULL), 0);
    weights_close(&w);
}

/* ---- real files beside the project ---- */

static void real_files_open(void **state)
{
    (void)state;
    static const char *const names[] = {"models/abacus-1m-f16.gguf", "models/abacus-3m-f16.gguf",
        "tokenizers/ggml-vocab-gpt-2.gguf", "tokenizers/ggml-vocab-llama-spm.gguf"};
    int found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        struct weights *w;
        struct lutra_error err = {0};
        snprintf(path, sizeof path, "%s/../shared/%s", LUTRA_SOURCE_DIR, names[i]);
        if (access(path, R_OK) != 0) continue;
        found++;
        if (weights_open(&w, path, &err) < 0) fail_msg("%s", err.what);
        struct gguf_str s;
        assert_int_equal(weights_get_str(w, "tokenizer.ggml.model", &s, NULL), 0);
        const struct gguf_kv *tokens;
        assert_int_equal(weights_get_array(w, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, NULL), 0);
        assert_true(tokens->n >= 1024);
        if (i < 2) assert_int_equal(weights_tensor_count(w), 2 + 4 * 12);
        weights_close(&w);
    }
    if (!found) {
        print_message("no ../shared beside the project\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_2_and_3_open),
        cmocka_unit_test(nothing_but_a_header_opens),
        cmocka_unit_test(not_a_file),
        cmocka_unit_test(versions),
        cmocka_unit_test(counts_beyond_the_file),
        cmocka_unit_test(keys),
        cmocka_unit_test(values),
        cmocka_unit_test(arrays),
        cmocka_unit_test(alignments),
        cmocka_unit_test(tensor_types),
        cmocka_unit_test(matrices_may_be_written_with_four_dimensions),
        cmocka_unit_test(tensor_shapes),
        cmocka_unit_test(tensor_places),
        cmocka_unit_test(every_truncation_fails),
        cmocka_unit_test(shards_open_together),
        cmocka_unit_test(real_files_open),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
