/* SPDX-License-Identifier: MIT
 *
 * What is known of one SoC: a JSON file of figures, each an interval with its source.
 *
 *     struct soc_profile p;
 *     TRY(soc_profile_load(&p, "profiles/snapdragon-8gen3.json", err));
 *     p.figure[NPU_CLOCK_MHZ].low
 *
 * The file is one object: "name", "soc", "npu", "schedule" (texts) and "figures", an object with every name below, each
 * {"low": number, "high": number, "source": text}.  Missing, unknown, doubled and impossible figures are errors that
 * name the figure and the file; so are figures that contradict each other.  Nothing here keeps state; any thread.
 */
#ifndef LUTRA_PHONE_PROFILE_H
#define LUTRA_PHONE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

struct lutra_error;

/* X(id, name in the file, least, most possible) */
#define SOC_FIGURE_LIST(X)                                                                                             \
    X(NPU_CLOCK_MHZ, "clock_mhz", 100, 10000)           /* of vector threads and the tile unit */                      \
    X(NPU_VECTOR_THREADS, "vector_threads", 1, 32)      /* that run vector packets at a time */                        \
    X(NPU_CYCLES_PER_PACKET, "cycles_per_packet", 1, 8) /* of one thread, stalls of an average kernel included */      \
    X(NPU_TILE_CYCLES, "tile_cycles", 1, 256)           /* per product of two 32x32 tiles of halves */                 \
    X(NPU_GATHER_CYCLES, "gather_cycles", 1, 1024)      /* of the one gather unit, per instruction */                  \
    X(NPU_SCATTER_CYCLES, "scatter_cycles", 1, 4096)                                                                   \
    X(NPU_DMA_GBS, "dma_gbs", 1, 1000) /* memory to TCM, 10^9 bytes per second */                                      \
    X(NPU_L2_GBS, "l2_gbs", 1, 1000)   /* memory to vector registers through the cache, all threads */                 \
    X(NPU_TCM_MIB, "tcm_mib", 1, 64)                                                                                   \
    X(NPU_MEET_CYCLES, "meet_cycles", 1, 100000) /* until all threads know that all have arrived */                    \
    X(NPU_DMA_START_CYCLES, "dma_start_cycles", 1,                                                                     \
        100000) /* to start a transfer and to wait for it, besides counted packets */                                  \
    X(NPU_TILE_CALL_CYCLES, "tile_call_cycles", 1,                                                                     \
        100000)                               /* to clear, to multiply or to store, besides counted packets */         \
    X(NPU_MESSAGE_US, "message_us", 1, 10000) /* from the host to the NPU and back, per message */                     \
    X(NPU_BASE_MW, "base_mw", 1, 20000)       /* of the whole device while a model runs, besides what follows */       \
    X(NPU_VECTOR_MW, "vector_mw", 1, 10000)   /* of one busy vector thread */                                          \
    X(NPU_TILES_MW, "tiles_mw", 1, 20000)     /* of the busy tile unit */                                              \
    X(NPU_MEMORY_PJ, "memory_pj", 1, 1000)    /* per byte between memory and the NPU, 10^-12 J */                      \
    X(NPU_CPU_MW, "cpu_mw", 1, 20000)         /* of one busy core */                                                   \
    /* Several processors [HETERO].  The GPU's law is linear: through one row, which memory decides, 128 and 256. */   \
    X(SOC_GPU_US_128, "gpu_us_128", 1, 100000) /* the GPU, 128 rows: us per 10^6 weights */                            \
    X(SOC_GPU_US_256, "gpu_us_256", 1, 100000)                                                                         \
    X(SOC_QNN_TFLOPS, "qnn_tflops", 1, 1000) /* the NPU by QNN's graphs, weights as rows, as many outputs as inputs */ \
    X(SOC_QNN_ROW, "qnn_row", 1, 100)        /* one row: the NPU's time over the GPU's, as many outputs as inputs */   \
    X(SOC_ONE_GBS, "one_gbs", 1, 1000)       /* memory to one processor that decodes */                                \
    X(SOC_TWO_GBS, "two_gbs", 1, 1000)       /* memory to two at once */                                               \
    X(SOC_SYNC_US, "sync_us", 1, 100000)     /* T_sync by the driver (clFinish) */                                     \
    X(SOC_FAST_SYNC_US, "fast_sync_us", 1, 100000) /* T_sync by a predicted wait and a flag, submission included */    \
    X(SOC_COPY_GBS, "copy_gbs", 1, 1000)           /* T_copy where memory is not shared */                             \
    X(SOC_PREPARE_US, "prepare_us", 1, 1000000)    /* to generate an NPU's graphs: per 10^6 weights of a layer */      \
    X(SOC_PREPARE_ROW_US, "prepare_row_us", 1, 100000) /* and for each row beyond */                                   \
    X(SOC_STORAGE_MBS, "storage_mbs", 1, 1000000)      /* files to memory, 10^6 bytes per second */                    \
    X(SOC_CPU_US_128, "cpu_us_128", 1, 100000)         /* the big cores, 128 rows: us per 10^6 weights */              \
    X(SOC_BIG_CORES_MW, "big_cores_mw", 1, 50000)      /* of the big cores, busy with products */                      \
    X(SOC_GPU_MW, "gpu_mw", 1, 50000)                  /* of the busy GPU */                                           \
    X(SOC_QNN_MW, "qnn_mw", 1, 50000)                  /* of the NPU busy with QNN's graphs */

enum soc_figure {
#define SOC_FIGURE_ENUM(id, name, least, most) id,
    SOC_FIGURE_LIST(SOC_FIGURE_ENUM)
#undef SOC_FIGURE_ENUM
        SOC_FIGURES
};

struct npu_interval {
    double low, high;
};

struct soc_profile {
    char name[64], soc[64], npu[16];
    char schedule[256]; /* which schedules the counted packets are from */
    struct npu_interval figure[SOC_FIGURES];
    char source[SOC_FIGURES][256];
};

/* Parses n bytes; `file` names them in errors: LUTRA_E_FORMAT.  *out is undefined on failure. */
int soc_profile_parse(struct soc_profile *out, const char *text, size_t n, const char *file, struct lutra_error *err);

/* The same of a file of at most 64 KiB.  LUTRA_E_IO too. */
int soc_profile_load(struct soc_profile *out, const char *path, struct lutra_error *err);

/* A profile of the library by name ("8gen3", "snapdragon-8gen3"), else a file (a path, or NAME.json).
 * LUTRA_E_NOT_FOUND lists the names. */
int soc_profile_open(struct soc_profile *out, const char *name, struct lutra_error *err);
bool soc_profile_is_file(const char *name);

#endif
