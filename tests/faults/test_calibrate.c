/* SPDX-License-Identifier: MIT
 *
 * Memory of a calibration: of all layers' matrices only those of the operation that runs are there.
 */
#include "../unit/engine/engine_fixture.h"
#include "alloc_count.h"
#include "engine/model.h"

enum {
    FEW = 2,
    MANY = 12,
    N_CTX = 16,
    LAYER_BYTES = 18 << 10 /* of descriptions; its matrices are 17 times as much */
};

/* The CPU device, with an eye on what is packed. */
static const struct device_ops *cpu_ops;
static size_t packed_bytes, peak_packed_bytes;

static int prepare(struct device *self, struct weight *w, bool *keeps_source, struct lutra_error *err)
{
    TRY(cpu_ops->prepare(self, w, keeps_source, err));
    packed_bytes += w->held[0].bytes;
    if (packed_bytes > peak_packed_bytes) peak_packed_bytes = packed_bytes;
    return 0;
}

static void release(struct device *self, struct weight *w)
{
    packed_bytes -= w->held[0].bytes;
    cpu_ops->release(self, w);
}

/* Its peak of the heap; that of packed matrices is in peak_packed_bytes. */
static long peak_of(int n_layer, const char *out)
{
    static const char text[] = "One layer after the other is rounded, on the inputs that those before it give.";
    const char *const stays[] = {"attn_v=F16"};
    struct fixture f;
    fixture_make(&f, &(struct where){"cpu", NULL}, "tiny-qwen2", "F16", n_layer, 2);
    struct lutra_quantize_settings set;
    lutra_quantize_settings_init(&set, sizeof set);
    set.type = "Q4_0";
    set.tensor_type = stays;
    set.n_tensor_type = 1;
    set.calibration = text;
    set.n_calibration_bytes = strlen(text);
    set.calibration_ctx = N_CTX;
    cpu_ops = f.rt->devices.cpu->ops;
    struct device_ops watched = *cpu_ops;
    watched.prepare = prepare;
    watched.release = release;
    f.rt->devices.cpu->ops = &watched;
    packed_bytes = peak_packed_bytes = 0;
    alloc_count_begin();
    OK(lutra_quantize(f.rt, f.path, out, &set, err));
    struct alloc_count count = alloc_count_end();
    f.rt->devices.cpu->ops = cpu_ops;
    assert_int_equal(packed_bytes, 0);
    fixture_close(&f);
    return count.peak_bytes;
}

static void memory_does_not_grow_with_the_layers(void **state)
{
    (void)state;
    char out[] = "/tmp/lutra-test-XXXXXX";
    int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    long few_bytes = peak_of(FEW, out);
    size_t few_packed_bytes = peak_packed_bytes;
    long many_bytes = peak_of(MANY, out);
    print_message(
        "heap %ld, %ld bytes; packed %zu, %zu bytes\n", few_bytes, many_bytes, few_packed_bytes, peak_packed_bytes);
    assert_true(few_packed_bytes > 0);
    assert_int_equal(peak_packed_bytes, few_packed_bytes);
    assert_in_range(many_bytes, few_bytes, few_bytes + (MANY - FEW) * LAYER_BYTES);
    unlink(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_does_not_grow_with_the_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
