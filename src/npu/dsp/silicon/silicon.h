/* SPDX-License-Identifier: MIT
 *
 * The insides of liblutra_npu.so: what a process of the NPU owns while it serves, and the functions between its files.
 *
 *     skel.c     FastRPC's calls              serve.c    the steps of serving, undone in reverse
 *     power.c    votes                        memory.c   the window and TCM
 *     threads.c  vector threads               machine.c  cache lines and the tile unit, as kernels use them
 *     dma.c      rings of descriptors         units.c    the instructions that no compiler's builtin gives
 *
 * Functions return 0 or npu_serve_error.  Nothing allocates.
 */
#ifndef LUTRA_NPU_DSP_SILICON_SILICON_H
#define LUTRA_NPU_DSP_SILICON_SILICON_H

#include "npu/dsp/kernels.h"
#include "npu/dsp/server.h"
#include "npu/dsp/silicon/firmware.h"
#include "npu/wire/serve.h"

enum { NPU_STACK_BYTES = 32768, NPU_DMA_RING = 128, NPU_DMA_FLIGHT = NPU_DMA_RING / 2 };

/* A descriptor of the user DMA engine; a line of 16 bytes is enough for one dimension.
 *
 *     next      address of the next, 0: the last
 *     control   done 31 | after the one before 30 | past caches: source 29, target 28 | compressed 27:26 | 2-D 25:24 |
 *               bytes 23:0
 *     rows      rows 31:16 | bytes of a row 15:0
 *     strides   of the target 31:16 | of the source 15:0
 */
struct npu_dma_descriptor {
    uint32_t next, control, src, dst;
    uint32_t kind, rows, strides, offsets;
};
#define NPU_DMA_DONE (1u << 31)
#define NPU_DMA_SRC_MEMORY (1u << 29)
#define NPU_DMA_DST_MEMORY (1u << 28)
#define NPU_DMA_2D (1u << 24)
enum { NPU_DMA_1D_MOST = (1 << 24) - 1, NPU_DMA_STATE = 3, NPU_DMA_STOPPED = 2 };

/* A thread's engine. */
struct npu_dma {
    _Alignas(64) struct npu_dma_descriptor descriptor[NPU_DMA_RING];
    struct npu_dma_descriptor *tail; /* the last that was started; NULL: none yet */
    uint32_t started, landed;        /* tickets */
    uint32_t stopped;                /* the engine's state when it stopped by itself; 0: it did not */
};

/* A word that threads wait on.  Whoever changes it wakes those that sleep. */
struct npu_event {
    uint32_t word, sleepers;
};

struct npu_thread {
    struct npu_dma dma;
    struct isa isa;
    struct npu_pool *pool;
    uint32_t number, id, held; /* held: 1 vectors, 2 tiles */
    int error;
};

struct npu_pool {
    uint32_t n;       /* threads */
    uint32_t context; /* of the tile unit */
    uint8_t *base;    /* of the window */
    uint8_t *tcm;     /* [tcm_bytes] */
    uint32_t tcm_bytes;
    uint8_t *scales; /* 256 bytes of TCM: the tile unit's output scales, all 1 */
    uint32_t owner;  /* of the tile unit: a thread's number + 1; 0: nobody's */
    uint32_t n_all;  /* with the one for tiles, where there is one */
    struct npu_event ready, go, section, done;
    struct npu_event ended[3], tiled; /* every third phase by vector threads, phases by the tile thread */
    int leave;
    isa_thread *fn;   /* the section at work, */
    isa_phase *phase; /* or one of phases */
    void *user;
    uint32_t n_shares, n_phases, phase_lead;
    uint32_t ended_before[3], tiled_before;    /* the section */
    void (*lead)(struct isa *isa, void *user); /* what thread 0 does */
    void *lead_user;
    struct npu_thread thread[NPU_THREADS_MAX + 1];
    _Alignas(128) uint8_t stack[NPU_THREADS_MAX + 1][NPU_STACK_BYTES];
};

struct npu_silicon {
    struct npu_serve ask;
    uint8_t *window;
    struct npu_machine machine;
    struct npu_memory memory;
    struct npu_server server;
    struct npu_pool pool;
    uint32_t busy;
    int error;
};

int npu_power_up(void *client, const struct npu_power *power);
void npu_power_down(void *client);

int npu_window_map(struct npu_silicon *s);
void npu_window_unmap(struct npu_silicon *s);
int npu_tcm_take(struct npu_pool *pool);
void npu_tcm_give(struct npu_pool *pool);

/* Vector contexts there are, at most n. */
uint32_t npu_vector_contexts(uint32_t n);
/* Starts the pool's threads; when each has its contexts, thread 0 runs pool->lead and the others serve its sections.
 * Returns when all have ended. */
int npu_pool_run(struct npu_pool *pool);

void npu_dma_open(struct npu_dma *dma);
void npu_dma_close(struct npu_dma *dma);
uint32_t npu_dma_failed(const struct npu_pool *pool); /* a stopped engine's state; 0: none stopped */

/* Serves a window until the host or a fault ends it; one call at a time. */
int npu_serve(struct npu_silicon *s, const struct npu_serve *ask);

/* ---- units.c ---- */

void npu_unit_dmstart(struct npu_dma_descriptor *first);
void npu_unit_dmlink(struct npu_dma_descriptor *tail, struct npu_dma_descriptor *next);
uint32_t npu_unit_dmpoll(void);     /* the engine's state: 0 idle, 1 running, 2 stopped by an error */
uint32_t npu_unit_dmpause(void);    /* the same, after it has come to rest */
void npu_unit_line(uintptr_t line); /* of 64 bytes: is written back and dropped */
void npu_unit_settle(void);         /* after the last of them */
void npu_unit_scales(const uint8_t *scales);
void npu_unit_clear(void);
void npu_unit_mac(const uint8_t *act, const uint8_t *weight, uint32_t last_byte); /* of both operands */
void npu_unit_store(uint8_t *dst);
void npu_unit_pause(void);

#endif
