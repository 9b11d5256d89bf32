/* SPDX-License-Identifier: MIT
 *
 * The emulator: runs kernels written against dsp/isa.h on the host, and is stricter than the hardware.
 *
 *     struct npu_sim *sim;
 *     TRY(npu_sim_open(&sim, &(struct npu_sim_settings){.tcm_bytes = 8 << 20, .ddr_bytes = 64 << 20}, err));
 *     uint32_t x = npu_sim_buffer(sim, n);                 offset of a buffer in shared memory
 *     memcpy(npu_sim_host(sim, x), data, n);               the host's view of it
 *     npu_sim_host_wrote(sim, x, n);                       the NPU's copies of these lines are now stale
 *     kernel(npu_sim_isa(sim), npu_sim_isa(sim)->base + x);
 *     npu_sim_host_reads(sim, y, n);                       checks that the NPU has written its lines back
 *     npu_sim_end(sim);                                    checks that nothing is left open
 *     const struct npu_sim_fault *f = npu_sim_faults(sim, &n_faults);
 *
 * Kernels see pointers into a reserved range without access rights, so that a plain C access to NPU memory stops the
 * program; every isa.h operation goes through here.  The window is one range of offsets: a mailbox page range that
 * belongs to the transport, then TCM, then shared memory (DDR).
 *
 * The rules that are checked, each an entry of NPU_SIM_FAULTS, are stricter than silicon where silicon is only lucky: a
 * line the host wrote counts as stale whether or not the NPU had it cached, since a prefetch may have.
 *
 * Reproducible: scatter order, poll results and poison derive from settings.seed.  Not thread-safe: one thread per
 * emulator.  Errors of kernels never stop the emulator; the first NPU_SIM_FAULTS_MAX are kept.
 */
#ifndef LUTRA_NPU_SIM_SIM_H
#define LUTRA_NPU_SIM_SIM_H

#include <stddef.h>
#include <stdint.h>

struct lutra_error;
struct npu_sim;
struct isa;

#define NPU_SIM_FAULTS(X)                                                                                              \
    X(OUT_OF_BOUNDS, "address outside of TCM and of every buffer")                                                     \
    X(MISALIGNED, "aligned access at an unaligned address")                                                            \
    X(UNINITIALIZED, "TCM read before anything was written there")                                                     \
    X(NOT_TCM, "gather, scatter or tile operand outside of TCM")                                                       \
    X(DMA_NOT_WAITED, "read of bytes that a DMA still has to deliver: dma_wait is missing before it")                  \
    X(DMA_OVERWRITE, "write to bytes that a running DMA reads or writes")                                              \
    X(DMA_FIELD, "DMA descriptor field out of range")                                                                  \
    X(DMA_RING, "more DMAs in flight than the ring holds")                                                             \
    X(DMA_LEFT, "DMA still running at the end of the operation: its dma_wait is missing")                              \
    X(DMA_FOREIGN, "wait for a DMA that another thread started")                                                       \
    X(DMA_STALE_SOURCE,                                                                                                \
        "DMA reads memory whose newest bytes are still in the cache: cache_flush is missing before it")                \
    X(DMA_DIRTY_TARGET, "DMA writes memory that a dirty cache line will overwrite: cache_flush is missing before it")  \
    X(STALE_READ, "read of a line that was written behind the cache's back: cache_invalidate is missing before it")    \
    X(STALE_MERGE, "partial write into a stale line: cache_invalidate is missing before it")                           \
    X(LOST_WRITE, "invalidation of a line with unwritten data: cache_flush is missing before it")                      \
    X(NOT_FLUSHED,                                                                                                     \
        "the host reads a line that the NPU has not written back: cache_flush is missing behind this write")           \
    X(SCATTER_OPEN, "read of scattered bytes: scatter_sync is missing before it")                                      \
    X(GATHER_LENGTH, "gather or scatter region out of range")                                                          \
    X(TILE_COUNT, "tile operation with no or too many pairs")                                                          \
    X(TILE_UNSET, "tile operation without a cleared accumulator: tile_clear is missing before it")                     \
    X(QFLOAT_STORED, "value stored in the float unit's own form: f16_of_q16 or its like is missing before it")         \
    X(QFLOAT_AS_BITS, "value in the float unit's own form used by an integer operation: f16_of_q16 or its like is "    \
                      "missing before it")                                                                             \
    X(QFLOAT_AS_FLOAT, "value in the wrong float form")                                                                \
    X(THREAD_RACE, "memory that another thread writes in the same section or phase")                                   \
    X(BAD_OPERAND, "scalar operand out of range")

enum npu_sim_fault_kind {
#define NPU_SIM_ENUM(name, text) NPU_SIM_##name,
    NPU_SIM_FAULTS(NPU_SIM_ENUM)
#undef NPU_SIM_ENUM
        NPU_SIM_FAULT_KINDS
};

enum { NPU_SIM_FAULTS_MAX = 16, NPU_SIM_BOX_BYTES = 65536, NPU_SIM_RING = 64 };

struct npu_sim_fault {
    enum npu_sim_fault_kind kind;
    const char *kernel; /* function that the operation stands in */
    int line;
    uint32_t offset; /* window offset of the address, where there is one */
};

/* Issue resources of an HVX packet, as the compiler's instruction types name them. */
#define NPU_SIM_UNITS(X)                                                                                               \
    X(ALU)      /* any of four pipes */                                                                                \
    X(ALU_PAIR) /* two of them */                                                                                      \
    X(SHIFT)                                                                                                           \
    X(PERMUTE)                                                                                                         \
    X(PERMUTE_SHIFT) /* both */                                                                                        \
    X(MULTIPLY)      /* one of two */                                                                                  \
    X(MULTIPLY_PAIR) /* both */                                                                                        \
    X(LOAD)                                                                                                            \
    X(STORE)                                                                                                           \
    X(LOAD_UNALIGNED)                                                                                                  \
    X(STORE_UNALIGNED)                                                                                                 \
    X(GATHER)                                                                                                          \
    X(SCATTER)                                                                                                         \
    X(SCALAR_LOAD)                                                                                                     \
    X(SCALAR_STORE)

enum npu_sim_unit {
#define NPU_SIM_ENUM(name) NPU_SIM_##name,
    NPU_SIM_UNITS(NPU_SIM_ENUM)
#undef NPU_SIM_ENUM
        NPU_SIM_UNIT_KINDS
};

struct npu_sim_counters {
    uint64_t issued[NPU_SIM_UNIT_KINDS];
    uint64_t ddr_read_bytes, ddr_write_bytes; /* by vector and scalar accesses */
    uint64_t tcm_read_bytes, tcm_write_bytes;
    uint64_t dma_read_bytes, dma_write_bytes; /* DDR to TCM, TCM to DDR */
    uint64_t dma_descriptors;
    uint64_t maintained_bytes;
    uint64_t tile_pairs, tile_calls;
};

struct npu_sim_settings {
    uint32_t tcm_bytes;     /* a multiple of 65536 */
    uint32_t ddr_bytes;     /* a multiple of 128; with TCM below 2^32 - 65536 */
    uint32_t dma_size_bits; /* widest 2D field: 0 = 16 (v73) */
    uint64_t seed;
};

/* Allocates everything an emulator ever needs.  On failure *out is NULL: LUTRA_E_ARGUMENT, LUTRA_E_NO_MEMORY. */
int npu_sim_open(struct npu_sim **out, const struct npu_sim_settings *settings, struct lutra_error *err);
void npu_sim_close(struct npu_sim **sim);

/* The thread context that kernels take; lives as long as the emulator. */
struct isa *npu_sim_isa(struct npu_sim *sim);

/* A buffer of shared memory, aligned to 128 bytes and followed by a gap that no access may touch.  0: none left. */
uint32_t npu_sim_buffer(struct npu_sim *sim, uint32_t bytes);

/* For an allocator of its own: accesses to [offset, offset + bytes), whole lines of shared memory, are allowed from now
 * on, or no longer. */
void npu_sim_own(struct npu_sim *sim, uint32_t offset, uint32_t bytes, int owned);

/* The host's pointer to a window offset. */
void *npu_sim_host(struct npu_sim *sim, uint32_t offset);

void npu_sim_host_wrote(struct npu_sim *sim, uint32_t offset, uint32_t bytes);
void npu_sim_host_reads(struct npu_sim *sim, uint32_t offset, uint32_t bytes);

/* Between operations: TCM from `keep_bytes` on is forgotten; DMAs must have been waited for. */
void npu_sim_end(struct npu_sim *sim, uint32_t keep_bytes);

const struct npu_sim_fault *npu_sim_faults(const struct npu_sim *sim, size_t *n);
void npu_sim_clear_faults(struct npu_sim *sim);
const char *npu_sim_fault_name(enum npu_sim_fault_kind kind); /* "STALE_READ" */
const char *npu_sim_fault_text(enum npu_sim_fault_kind kind);

struct npu_sim_counters *npu_sim_counts(struct npu_sim *sim);

/* What each thread did in each section, or phase of one: a timeline.  The last `thread` of a phase is the tile
 * thread. */
struct npu_sim_span {
    uint32_t section, thread, n; /* sections and phases are numbered through; thread of n */
    uint64_t packets;            /* npu_sim_packet_bound of it */
    uint64_t tile_pairs, dma_bytes;
    uint64_t tile_calls, dma_starts;
};
struct npu_sim_watch {
    struct npu_sim_span *span; /* [n_max], the caller's */
    size_t n, n_max;
};
void npu_sim_set_watch(struct npu_sim *sim, struct npu_sim_watch *watch); /* NULL: no longer */

/* Fewest packets that can issue what was counted: the most loaded resource of 4 slots, 1 shift, 1 permute, 2 multiply,
 * 1 vector load and 1 vector store per packet. */
uint64_t npu_sim_packet_bound(const struct npu_sim_counters *c);

#endif
