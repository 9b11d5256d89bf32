/* SPDX-License-Identifier: MIT
 *
 * A ring of messages in shared memory [TTS 6]: the host puts messages of several operations, the NPU takes them in
 * order and answers each.  One writer per line of 128 bytes, so that no side's cache maintenance undoes the other's
 * words.
 *
 *     host:  fill cells, flush them, then store host.written with release and flush its line
 *     NPU:   invalidate the host's line, load host.written with acquire, invalidate the cells, copy, judge, execute,
 *            write the answer and flush it, then store npu.taken and npu.answered with release and flush their line
 *
 * Numbers only grow (modulo 2^32); a cell is its number modulo NPU_RING_CELLS.  A message is a header cell and its
 * operations; its check word makes cells that were not published, or not acquired, a refusal instead of a wrong
 * operation.
 *
 * A machine that keeps both views coherent leaves flush and invalidate NULL.
 */
#ifndef LUTRA_NPU_WIRE_RING_H
#define LUTRA_NPU_WIRE_RING_H

#include <stdint.h>

#include "npu/wire/message.h"

enum {
    NPU_RING_MAGIC = 0x4c555250, /* changes with the layout of anything in wire/ */
    NPU_RING_BYTES = 65536,      /* of the window, from offset 0 */
    NPU_RING_CELLS = 512,
    NPU_RING_ANSWERS = 64, /* messages in flight */
    NPU_MESSAGE_OPS = 255,
};

/* Why the NPU ended, or that it did not. */
enum npu_ring_state { NPU_RING_STARTING, NPU_RING_SERVING, NPU_RING_BROKEN, NPU_RING_ENDED, NPU_RING_NO_WINDOW };

struct npu_message {
    uint32_t magic;
    uint32_t number;  /* of the message: one more than the last */
    uint32_t n_op;    /* 1..NPU_MESSAGE_OPS */
    uint32_t follows; /* nonzero: skipped when the message before it failed */
    uint32_t check;   /* npu_ring_check of number, n_op, follows and the operations */
    uint32_t zero[11];
};

union npu_cell {
    struct npu_message message;
    struct npu_op op;
    uint32_t word[16];
};

struct npu_answer {
    uint32_t number;
    uint32_t status; /* enum npu_op_status, or NPU_OUT_OF_WINDOW, NPU_SKIPPED */
    uint32_t op;     /* the first that failed */
    uint32_t code;   /* its code */
};

/* Statuses that only a server gives. */
enum { NPU_OUT_OF_WINDOW = 64, NPU_SKIPPED, NPU_STOPPED };

struct npu_ring {
    struct { /* written by the host */
        uint32_t magic, window_bytes, n_threads, tcm_bytes;
        uint32_t written; /* cells */
        uint32_t quit;
        uint32_t zero[26];
    } host;
    struct { /* written by the NPU */
        uint32_t magic, state;
        uint32_t taken;    /* cells */
        uint32_t answered; /* messages */
        struct npu_machine machine;
        uint32_t zero[22];
    } npu;
    uint32_t tile[960];                         /* dsp/isa_qemu_impl.h */
    struct npu_answer answer[NPU_RING_ANSWERS]; /* written by the NPU */
    uint32_t zero[768];
    union npu_cell cell[NPU_RING_CELLS]; /* written by the host */
};

/* One side's view.  flush: my writes become visible; invalidate: my next reads see the other side's. */
struct npu_ring_view {
    struct npu_ring *ring;
    void (*flush)(void *user, void *p, uint32_t bytes);
    void (*invalidate)(void *user, void *p, uint32_t bytes);
    void *user;
};

static inline void npu_ring_flush(const struct npu_ring_view *v, void *p, uint32_t bytes)
{
    if (v->flush) v->flush(v->user, p, bytes);
}

static inline void npu_ring_invalidate(const struct npu_ring_view *v, void *p, uint32_t bytes)
{
    if (v->invalidate) v->invalidate(v->user, p, bytes);
}

/* A word that the other side publishes. */
static inline uint32_t npu_ring_load(const struct npu_ring_view *v, uint32_t *word)
{
    npu_ring_invalidate(v, word, 4);
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Publishes a word, and with it everything written and flushed before. */
static inline void npu_ring_store(const struct npu_ring_view *v, uint32_t *word, uint32_t x)
{
    __atomic_store_n(word, x, __ATOMIC_RELEASE);
    npu_ring_flush(v, word, 4);
}

static inline uint32_t npu_ring_check(const struct npu_message *m, const struct npu_op *op)
{
    const uint32_t *word = (const uint32_t *)op;
    uint32_t h = 2166136261u;
    h = (h ^ m->number) * 16777619u, h = (h ^ m->n_op) * 16777619u, h = (h ^ m->follows) * 16777619u;
    for (uint32_t i = 0; i < m->n_op * (sizeof *op / 4); i++) h = ((h ^ word[i]) * 16777619u) ^ h >> 15;
    return h;
}

#endif
