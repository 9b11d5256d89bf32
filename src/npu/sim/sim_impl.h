/* SPDX-License-Identifier: MIT
 *
 * Inside of the emulator.
 */
#ifndef LUTRA_NPU_SIM_SIM_IMPL_H
#define LUTRA_NPU_SIM_SIM_IMPL_H

#include "npu/sim/isa_sim.h"
#include "npu/sim/sim.h"
#include "npu/sim/tile.h"

/* State of one byte of TCM. */
enum { BYTE_SET = 1, BYTE_DMA_IN = 2, BYTE_DMA_OUT = 4, BYTE_SCATTER = 8 };

/* State of one cache line of shared memory.  STALE: memory was written behind the cache's back. */
enum { LINE_OWNED = 1, LINE_CACHED = 2, LINE_DIRTY = 4, LINE_STALE = 8, LINE_DMA_IN = 16, LINE_DMA_OUT = 32 };
enum { SIM_LINE_BYTES = 64, SIM_POISON = 0xa5 };

struct sim_line {
    const char *kernel; /* who wrote it last, while DIRTY */
    int line;
    uint8_t state;
};

struct sim_dma {
    struct sim_at at;
    uint32_t dst, dst_stride, src, src_stride, width, rows;
    uint32_t polls_left;
};

/* A thread's descriptors.  A ticket is the thread in its upper and the descriptor's number in its lower bits. */
struct sim_engine {
    struct sim_dma ring[NPU_SIM_RING];
    uint32_t started, landed;
};
enum { SIM_THREADS = 16, SIM_TICKET_BITS = 24, SIM_MAPPINGS = 8 };

struct npu_sim {
    struct isa isa;
    uint8_t *window;                   /* reserved, no access */
    uint8_t *memory;                   /* host's view of every offset; TCM itself */
    uint8_t *cache;                    /* NPU's view of shared memory, indexed by offset - ddr_start */
    uint8_t *tcm_state;                /* [tcm_bytes] BYTE_* */
    uint32_t *tcm_writer, *tcm_reader; /* [tcm_bytes] section * 16 + thread that did it last */
    uint32_t *ddr_writer, *ddr_reader; /* the same of shared memory, of each word */
    struct sim_line *lines;
    struct {
        void *at;
        size_t bytes;
    } pages[SIM_MAPPINGS]; /* of memory to lines */
    int n_pages;
    uint32_t tcm_start, ddr_start, end;
    uint32_t next_buffer;
    uint32_t tcm_high; /* offset above the highest TCM byte written */
    uint32_t dma_limit;
    uint64_t random;
    uint32_t section, thread;          /* of isa_threads and isa_phases; thread 0: outside of them */
    uint32_t first_phase, tile_thread; /* the first section of these phases */
    uint32_t phase_lead;

    struct sim_engine engine[SIM_THREADS];
    struct npu_sim_watch *watch; /* NULL: nobody does */

    struct npu_tile_acc acc;
    struct npu_sim_counters counts;
    struct npu_sim_fault faults[NPU_SIM_FAULTS_MAX];
    size_t n_faults;
};

void sim_fault(struct sim_at at, enum npu_sim_fault_kind kind, uint32_t offset);
uint64_t sim_random(struct npu_sim *sim);

/* Offset of an NPU pointer, UINT32_MAX when [p, p + bytes) is not inside the window. */
uint32_t sim_offset(const struct npu_sim *sim, const void *p, uint64_t bytes);

static inline int sim_in_tcm(const struct npu_sim *sim, uint32_t off, uint64_t bytes)
{
    return off >= sim->tcm_start && off + bytes <= sim->ddr_start;
}

/* Inside of a section nobody may touch what another thread writes, nor write what another thread has read; of phases,
 * no vector thread may do so with what another does in the phase before. */
void sim_check_threads(struct sim_at at, uint32_t off, uint32_t bytes, int writes);

/* Lands what was started and not waited for, each a fault, and numbers tickets anew. */
void sim_dma_end(struct npu_sim *sim);

/* Core accesses with every check.  Faulty reads give what the hardware might: old bytes or poison. */
void sim_read(struct sim_at at, const void *p, void *dst, uint32_t bytes);
void sim_write(struct sim_at at, void *p, const void *src, uint32_t bytes);

static inline void sim_count(struct sim_at at, enum npu_sim_unit unit)
{
    if (at.sim) at.sim->counts.issued[unit]++;
}

/* An operand as bits: a value in the unit's own form is a fault, and its last places are spoilt. */
static inline void sim_bits(struct sim_at at, vec *v)
{
    if (v->form == FORM_BITS) return;
    sim_fault(at, NPU_SIM_QFLOAT_AS_BITS, 0);
    for (int i = 0; i < 64; i++) v->uh[i] ^= 0x15;
    v->form = FORM_BITS;
}

static inline void sim_form(struct sim_at at, const vec *v, uint32_t form)
{
    if (v->form != form) sim_fault(at, NPU_SIM_QFLOAT_AS_FLOAT, 0);
}

#endif
