/* SPDX-License-Identifier: MIT
 *
 * Work that a transport carries, and what must come back: a layer's worth of operations on random rows.
 */
#ifndef LUTRA_TESTS_NPU_LINK_LINK_H
#define LUTRA_TESTS_NPU_LINK_LINK_H

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "npu/dsp/kernels.h"
#include "npu/host/transport.h"

struct work {
    uint32_t x, gain, normed, act, weights, y, z; /* offsets */
    struct npu_op op[6];
};

enum { WORK_K = 256, WORK_N = 96, WORK_OPS = 6 };

/* Opens with the paths that the environment names. */
static inline int open_as_told(npu_transport_open *open, const struct npu_transport_settings *settings,
    struct npu_transport **npu, struct lutra_error *err)
{
    struct npu_transport_settings set = *settings;
    set.qemu = getenv("LUTRA_QEMU"), set.program = getenv("LUTRA_NPU_PROGRAM"), set.library = getenv("LUTRA_CDSPRPC");
    return open(npu, &set, err);
}

static inline struct npu_transport *open_by(
    npu_transport_open *open, const struct npu_transport_settings *settings, struct lutra_error *err)
{
    struct npu_transport *npu;
    return open_as_told(open, settings, &npu, err) < 0 ? NULL : npu;
}

static inline uint32_t put_random(struct npu_transport *npu, uint32_t bytes, uint64_t seed, int floats)
{
    uint32_t at = npu_transport_alloc(npu, bytes);
    for (uint32_t i = 0; i < bytes / 4; i++) {
        float f = rng_float((struct rng_key){.seed = seed}, i) - 0.5f;
        uint32_t bits = rng_u32((struct rng_key){.seed = seed}, i);
        memcpy(npu->base + at + 4 * i, floats ? (void *)&f : (void *)&bits, 4);
    }
    npu_transport_publish(npu, at, bytes);
    return at;
}

/* rms_norm, swiglu, products of both with Q8_0 on tiles, add. */
static inline void put_work(struct work *w, struct npu_transport *npu, uint64_t seed)
{
    struct npu_weights layout;
    npu_weights_layout(NPU_W_Q8_0, WORK_K, WORK_N, &layout);
    w->x = put_random(npu, 4 * WORK_K, seed, 1), w->gain = put_random(npu, 4 * WORK_K, seed + 1, 1);
    w->normed = npu_transport_alloc(npu, 4 * WORK_K), w->act = npu_transport_alloc(npu, 4 * WORK_K);
    w->weights = put_random(npu, layout.n_blocks * layout.block_bytes, seed + 2, 0);
    for (uint32_t b = 0; b < layout.n_blocks * layout.n_units; b++) /* scales: halves in 0.25 .. 0.5 */
        for (uint32_t i = layout.code_bytes; i < layout.unit_bytes; i += 2)
            npu->base[w->weights + b * layout.unit_bytes + i + 1] = 0x34;
    npu_transport_publish(npu, w->weights, layout.n_blocks * layout.block_bytes);
    w->y = npu_transport_alloc(npu, 4 * WORK_N), w->z = npu_transport_alloc(npu, 4 * WORK_N);
    const struct npu_op rows = {.flags = NPU_FROM_HOST, .m = 1, .src_stride = 4 * WORK_K, .dst_stride = 4 * WORK_K};
    struct npu_op *op = w->op;
    for (int i = 0; i < WORK_OPS; i++) op[i] = rows;
    op[0].code = NPU_OP_RMS_NORM, op[0].n = WORK_K, op[0].src = w->x, op[0].weights = w->gain, op[0].dst = w->normed;
    op[0].param = 0x3727c5ac; /* 1e-5 */
    op[1].code = NPU_OP_SWIGLU, op[1].n = WORK_K, op[1].src = w->normed, op[1].weights = w->x, op[1].dst = w->act;
    op[1].flags = 0;
    op[2].code = NPU_OP_GEMM, op[2].k = WORK_K, op[2].n = WORK_N, op[2].kind = NPU_W_Q8_0, op[2].src = w->act;
    op[2].weights = w->weights, op[2].dst = w->y, op[2].flags = 0;
    op[3] = op[2], op[3].src = w->normed, op[3].dst = w->z;
    op[4] = (struct npu_op){.code = NPU_OP_ADD,
        .flags = NPU_TO_HOST,
        .m = 1,
        .n = WORK_N,
        .src = w->y,
        .weights = w->z,
        .dst = w->z,
        .src_stride = 4 * WORK_N,
        .dst_stride = 4 * WORK_N};
    op[5] = (struct npu_op){.code = NPU_OP_FLUSH, .src = w->y, .k = 4 * WORK_N};
}

static inline int run_work(
    struct npu_transport *npu, const struct work *w, uint64_t deadline_us, struct lutra_error *err)
{
    uint64_t ticket;
    int rc = npu_transport_submit(npu, w->op, WORK_OPS, &ticket, err);
    if (rc == 0) rc = npu_transport_wait(npu, ticket, deadline_us, err);
    if (rc < 0) return rc;
    npu_transport_acquire(npu, w->y, 4 * WORK_N);
    npu_transport_acquire(npu, w->z, 4 * WORK_N);
    return 0;
}

/* Do two transports hold the same results, and any at all? */
static inline int same_results(
    struct npu_transport *a, const struct work *wa, struct npu_transport *b, const struct work *wb)
{
    float first;
    memcpy(&first, a->base + wa->z, 4);
    return first != 0 && first == first && !memcmp(a->base + wa->y, b->base + wb->y, 4 * WORK_N) &&
           !memcmp(a->base + wa->z, b->base + wb->z, 4 * WORK_N);
}

#endif
