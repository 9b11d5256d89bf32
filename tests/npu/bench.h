/* SPDX-License-Identifier: MIT
 *
 * Runs operations in the emulator and as Hexagon binaries under qemu-hexagon, over the same window offsets.
 *
 *     struct bench b;
 *     bench_open(&b, 32 << 20);                       77 and a reason printed by bench_skip() where tools are missing
 *     uint32_t x = bench_put(&b, data, bytes), y = npu_sim_buffer(b.sim, out_bytes);
 *     bench_run(&b, &op, y, out_bytes);               both; asserts no fault and equal bytes
 *     uint32_t packets = bench_count(&b, &op);        the counting binary: values are meaningless
 */
#ifndef LUTRA_TESTS_NPU_BENCH_H
#define LUTRA_TESTS_NPU_BENCH_H

#include <stdint.h>
#include <sys/types.h>

#include "npu/sim/sim.h"
#include "npu/wire/message.h"

struct guest {
    pid_t pid;
    char path[64];
    uint32_t *box; /* the shared file */
    uint32_t bytes;
};

struct bench {
    struct npu_sim *sim;
    struct npu_machine machine;
    struct guest values, count;
    uint32_t bytes;        /* of the window */
    uint32_t hvx, packets; /* of the last run of a guest */
    uint32_t n_threads;    /* in the emulator; 0, as opened: each operation with 4 and with 1, and the same bits */
};

enum { BENCH_TCM_BYTES = 8 << 20 };

/* Why Hexagon binaries cannot be run here, or NULL. */
const char *bench_missing(void);

/* Prints the reason and returns 77 where something is missing, otherwise 0. */
int bench_skip(void);

void bench_open(struct bench *b, uint32_t ddr_bytes);
void bench_close(struct bench *b);

/* A buffer with a copy of data (NULL: zeros), as written by the host. */
uint32_t bench_put(struct bench *b, const void *data, uint32_t bytes);

/* The same operation in the emulator and, where it can be run, as a Hexagon binary; compares [out, out + bytes). */
void bench_run(struct bench *b, const struct npu_op *op, uint32_t out, uint32_t bytes);

/* The emulator alone.  What [out, out + bytes) holds before is there again for the run with one thread. */
void bench_sim(struct bench *b, const struct npu_op *op, uint32_t out, uint32_t bytes);

/* isa_ops_run of the guest: inputs at src, results at dst. */
void bench_isa_ops(struct bench *b, uint32_t dst, uint32_t src);

/* Packets of an operation. */
uint32_t bench_count(struct bench *b, const struct npu_op *op);

#endif
