/* SPDX-License-Identifier: MIT
 *
 * Memory that the stand-in for libcdsprpc.so (cdsprpc.c) shares with the Hexagon program that plays the NPU: one call
 * of FastRPC at a time, what the firmware's stand-ins are to do, and what they saw.  The window follows at BOX_BYTES.
 */
#ifndef LUTRA_TESTS_NPU_SILICON_BOX_H
#define LUTRA_TESTS_NPU_SILICON_BOX_H

#include <stdint.h>

enum { BOX_BYTES = 65536, BOX_FILE_BYTES = 640 << 20 /* sparse */, BOX_ARGS = 4, BOX_DATA = 1024, BOX_POWER = 16 };

/* Functions of the firmware that can be told to fail. */
enum box_function {
    BOX_MMAP,
    BOX_POWER_CLASS, /* by kind of request: 3, 12, 2, 13, 14 */
    BOX_POWER_CLOCKS,
    BOX_POWER_VECTORS,
    BOX_POWER_TILES,
    BOX_POWER_TILES_CLOCK,
    BOX_TCM_ATTRIBUTES,
    BOX_TCM_ACQUIRE, /* gives no context */
    BOX_TCM_POINTER,
    BOX_THREAD_CREATE,
    BOX_VECTORS_LOCK,
    BOX_TILES_LOCK,
    BOX_DMA, /* the engine stops */
    BOX_FUNCTIONS
};

/* A call that is not the library's: the test of rings (rings.c). */
#define BOX_RINGS 0xffffffffu

struct box {
    uint32_t asked, answered, quit; /* calls */
    uint64_t handle;
    uint32_t scalars, n_args, null_args;
    int32_t rc;
    struct {
        uint32_t at, bytes; /* in data; at: UINT32_MAX is NULL */
        uint64_t handle;
    } arg[BOX_ARGS];
    uint8_t data[BOX_DATA];

    /* what to do */
    int32_t fail[BOX_FUNCTIONS];        /* the error; 0: none */
    uint32_t fail_after[BOX_FUNCTIONS]; /* calls that succeed before */
    uint32_t fail_thread;               /* whose DMA engine stops; 0: any's */
    uint32_t again;                     /* a second call while one is served: asked for */
    uint32_t tcm_bytes, units;          /* zeros: 1 MiB, 6 */
    uint32_t fd, window_bytes, mapped;  /* by the host's library */

    /* what was seen */
    uint32_t call[BOX_FUNCTIONS];
    uint32_t n_maps, n_contexts, n_vectors, n_tiles, n_clients, n_threads; /* alive */
    uint32_t most_vectors, most_tiles;
    uint32_t n_power;
    uint8_t power[BOX_POWER][120];                           /* requests */
    uint32_t dma_descriptors, dma_2d, dma_flight, dma_fault; /* most in flight; first broken rule by its line */
    uint32_t tile_macs, tile_stores, tile_fault;
    uint32_t lines_bytes, lines_first, lines_end; /* the longest range */
    uint32_t head_lines, ring_lines;              /* ranges that are the ring's head; parts of the ring */
    uint32_t lines_lost;                          /* offset + 1 of the first line that both sides had written */
    uint32_t left_asleep;                         /* threads that a change of their word did not wake */
    uint32_t lines_dropped;                       /* behind the ring, that memory had others of */
    uint32_t sleeps;
    int32_t again_rc;
};

#endif
