/* SPDX-License-Identifier: MIT
 *
 * What is known of one SoC's NPU: a JSON file of figures, each an interval with its source.
 *
 *     struct npu_profile p;
 *     TRY(npu_profile_load(&p, "profiles/snapdragon-8gen3.json", err));
 *     p.figure[NPU_CLOCK_MHZ].low
 *
 * The file is one object: "name", "soc", "npu", "schedule" (texts) and "figures", an object with every name below, each
 * {"low": number, "high": number, "source": text}.  Missing, unknown, doubled and impossible figures are errors that
 * name the figure and the file.  Nothing here keeps state; any thread.
 */
#ifndef LUTRA_NPU_TABLES_PROFILE_H
#define LUTRA_NPU_TABLES_PROFILE_H

#include <stddef.h>

struct lutra_error;

/* X(id, name in the file, least, most possible) */
#define NPU_FIGURE_LIST(X)                                                                                             \
    X(CLOCK_MHZ, "clock_mhz", 100, 10000)           /* of vector threads and the tile unit */                          \
    X(VECTOR_THREADS, "vector_threads", 1, 32)      /* that run vector packets at a time */                            \
    X(CYCLES_PER_PACKET, "cycles_per_packet", 1, 8) /* of one thread, stalls of an average kernel included */          \
    X(TILE_CYCLES, "tile_cycles", 1, 256)           /* per product of two 32x32 tiles of halves */                     \
    X(GATHER_CYCLES, "gather_cycles", 1, 1024)      /* of the one gather unit, per instruction */                      \
    X(SCATTER_CYCLES, "scatter_cycles", 1, 4096)                                                                       \
    X(DMA_GBS, "dma_gbs", 1, 1000) /* memory to TCM, 10^9 bytes per second */                                          \
    X(L2_GBS, "l2_gbs", 1, 1000)   /* memory to vector registers through the cache, all threads */                     \
    X(TCM_MIB, "tcm_mib", 1, 64)                                                                                       \
    X(MEET_CYCLES, "meet_cycles", 1, 100000) /* until all threads know that all have arrived */                        \
    X(DMA_START_CYCLES, "dma_start_cycles", 1,                                                                         \
        100000) /* to start a transfer and to wait for it, besides counted packets */                                  \
    X(TILE_CALL_CYCLES, "tile_call_cycles", 1,                                                                         \
        100000)                           /* to clear, to multiply or to store, besides counted packets */             \
    X(MESSAGE_US, "message_us", 1, 10000) /* from the host to the NPU and back, per message */                         \
    X(BASE_MW, "base_mw", 1, 20000)       /* of the whole device while a model runs, besides what follows */           \
    X(VECTOR_MW, "vector_mw", 1, 10000)   /* of one busy vector thread */                                              \
    X(TILES_MW, "tiles_mw", 1, 20000)     /* of the busy tile unit */                                                  \
    X(MEMORY_PJ, "memory_pj", 1, 1000)    /* per byte between memory and the NPU, 10^-12 J */                          \
    X(CPU_MW, "cpu_mw", 1, 20000)         /* of one busy core */

enum npu_figure {
#define NPU_FIGURE_ENUM(id, name, least, most) NPU_##id,
    NPU_FIGURE_LIST(NPU_FIGURE_ENUM)
#undef NPU_FIGURE_ENUM
        NPU_FIGURES
};

struct npu_interval {
    double low, high;
};

struct npu_profile {
    char name[64], soc[64], npu[16];
    char schedule[256]; /* which schedules the counted packets are from */
    struct npu_interval figure[NPU_FIGURES];
    char source[NPU_FIGURES][256];
};

/* Parses n bytes; `file` names them in errors: LUTRA_E_FORMAT.  *out is undefined on failure. */
int npu_profile_parse(struct npu_profile *out, const char *text, size_t n, const char *file, struct lutra_error *err);

/* The same of a file of at most 64 KiB.  LUTRA_E_IO too. */
int npu_profile_load(struct npu_profile *out, const char *path, struct lutra_error *err);

#endif
