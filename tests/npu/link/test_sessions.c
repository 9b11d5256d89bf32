/* SPDX-License-Identifier: MIT
 *
 * Weights that exceed a window, spread over sessions [TTS 8]: each product runs where its weights found room, the row
 * in between goes through the host.  Windows are small here; the result is that of one large window, bit for bit.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "link.h"

enum { LAYERS = 6, SIZE = 512, MOST = 4 };

/* One product, in the session that took its weights. */
struct layer {
    struct npu_transport *npu;
    uint32_t x, weights, y;
};

static int put_layer(struct layer *l, struct npu_transport *npu, uint64_t seed)
{
    struct npu_weights w;
    npu_weights_layout(NPU_W_Q8_0, SIZE, SIZE, &w);
    uint32_t bytes = w.n_blocks * w.block_bytes, need = bytes + 8 * SIZE + 4 * 256;
    if (npu_transport_free_bytes(npu) < need) return 0;
    *l = (struct layer){.npu = npu,
        .x = npu_transport_alloc(npu, 4 * SIZE),
        .weights = put_random(npu, bytes, seed, 0),
        .y = npu_transport_alloc(npu, 4 * SIZE)};
    for (uint32_t u = 0; u < w.n_blocks * w.n_units; u++)
        for (uint32_t i = w.code_bytes; i < w.unit_bytes; i += 2) /* scales: halves of about 2^-10, of either sign */
            npu->base[l->weights + u * w.unit_bytes + i + 1] =
                (npu->base[l->weights + u * w.unit_bytes + i] & 0x80) | 0x14;
    npu_transport_publish(npu, l->weights, bytes);
    return 1;
}

/* Row in, row out, by way of the host. */
static void run_layer(const struct layer *l, float *row)
{
    struct lutra_error err;
    uint64_t ticket;
    struct npu_op op = {.code = NPU_OP_GEMM,
        .flags = NPU_FROM_HOST | NPU_TO_HOST,
        .m = 1,
        .n = SIZE,
        .k = SIZE,
        .kind = NPU_W_Q8_0,
        .src = l->x,
        .weights = l->weights,
        .dst = l->y,
        .src_stride = 4 * SIZE,
        .dst_stride = 4 * SIZE};
    memcpy(l->npu->base + l->x, row, 4 * SIZE);
    npu_transport_publish(l->npu, l->x, 4 * SIZE);
    assert_int_equal(npu_transport_submit(l->npu, &op, 1, &ticket, &err), 0);
    if (npu_transport_wait(l->npu, ticket, CLOCK_NEVER_US, &err)) fail_msg("%s", err.what);
    npu_transport_acquire(l->npu, l->y, 4 * SIZE);
    memcpy(row, l->npu->base + l->y, 4 * SIZE);
}

/* All layers over windows of `memory` bytes; returns how many sessions it took. */
static uint32_t run_all(npu_transport_open *open, uint32_t memory, float *row)
{
    struct npu_transport *npu[MOST];
    struct layer layer[LAYERS];
    struct lutra_error err;
    uint32_t n = 0;
    for (uint32_t i = 0; i < LAYERS; i++) {
        if (n && put_layer(&layer[i], npu[n - 1], i)) continue;
        assert_true(n < MOST);
        struct npu_transport_settings s = {.tcm_bytes = 1 << 20, .memory_bytes = memory, .session = n};
        s.program = NPU_PROGRAM;
        if (open(&npu[n++], &s, &err)) fail_msg("%s", err.what);
        assert_true(put_layer(&layer[i], npu[n - 1], i));
    }
    for (uint32_t i = 0; i < SIZE; i++) row[i] = (float)(i % 7) - 3;
    for (uint32_t i = 0; i < LAYERS; i++) run_layer(&layer[i], row);
    for (uint32_t i = 0; i < n; i++) npu_transport_close(&npu[i]);
    return n;
}

static void spread_as_in_one_window(void **state)
{
    static float one[SIZE], many[SIZE];
    struct npu_transport *probe;
    struct lutra_error err;
    (void)state;
    assert_int_equal(run_all(npu_local_open, 4 << 20, one), 1);
    assert_int_equal(run_all(npu_local_open, 700 << 10, many), 3);
    assert_true(one[0] != 0 && one[0] == one[0]);
    assert_memory_equal(one, many, sizeof one);
    struct npu_transport_settings small = {.memory_bytes = 1 << 20, .program = NPU_PROGRAM};
    if (npu_child_open(&probe, &small, &err)) {
        print_message("not under QEMU: %s\n", err.what);
        return;
    }
    npu_transport_close(&probe);
    assert_int_equal(run_all(npu_child_open, 700 << 10, many), 3);
    assert_memory_equal(one, many, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spread_as_in_one_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
