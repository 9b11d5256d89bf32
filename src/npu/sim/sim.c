/* SPDX-License-Identifier: MIT */
#include "npu/sim/sim_impl.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GAP_BYTES = 128 };

static int check(const struct npu_sim_settings *s, struct lutra_error *err)
{
    uint64_t end = (uint64_t)NPU_SIM_BOX_BYTES + s->tcm_bytes + s->ddr_bytes;
    if (s->tcm_bytes % 65536 || !s->tcm_bytes || s->ddr_bytes % 128)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "npu emulator: %u bytes of TCM, %u of memory: wrong granule",
            s->tcm_bytes, s->ddr_bytes);
    if (end > UINT32_MAX) return lutra_fail(err, LUTRA_E_ARGUMENT, "npu emulator: memory exceeds the 32-bit window");
    if (s->dma_size_bits && (s->dma_size_bits < 8 || s->dma_size_bits > 24))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "npu emulator: DMA fields of %u bits", s->dma_size_bits);
    return 0;
}

/* Zeroed pages, or NULL.  They are made when they are touched, which few are; an allocator under a sanitizer would
 * first mark all of them. */
static void *pages(struct npu_sim *sim, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return NULL;
    sim->pages[sim->n_pages].at = at;
    sim->pages[sim->n_pages++].bytes = bytes;
    return at;
}

int npu_sim_open(struct npu_sim **out, const struct npu_sim_settings *settings, struct lutra_error *err)
{
    *out = NULL;
    TRY(check(settings, err));
    struct npu_sim *sim = calloc(1, sizeof *sim);
    if (!sim) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu emulator: out of memory");
    sim->tcm_start = NPU_SIM_BOX_BYTES;
    sim->ddr_start = sim->tcm_start + settings->tcm_bytes;
    sim->end = sim->ddr_start + settings->ddr_bytes;
    sim->next_buffer = sim->ddr_start;
    sim->tcm_high = sim->ddr_start;
    sim->dma_limit = (1u << (settings->dma_size_bits ? settings->dma_size_bits : 16)) - 1;
    sim->random = settings->seed * 0x9e3779b97f4a7c15u + 1;
    sim->memory = pages(sim, sim->end);
    sim->cache = pages(sim, settings->ddr_bytes + 1);
    sim->tcm_state = pages(sim, settings->tcm_bytes);
    sim->tcm_writer = pages(sim, settings->tcm_bytes * sizeof *sim->tcm_writer);
    sim->tcm_reader = pages(sim, settings->tcm_bytes * sizeof *sim->tcm_reader);
    sim->ddr_writer = pages(sim, (settings->ddr_bytes / 4 + 1) * sizeof *sim->ddr_writer);
    sim->ddr_reader = pages(sim, (settings->ddr_bytes / 4 + 1) * sizeof *sim->ddr_reader);
    sim->lines = pages(sim, (settings->ddr_bytes / SIM_LINE_BYTES + 1) * sizeof *sim->lines);
    void *window = mmap(NULL, sim->end, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    sim->window = window == MAP_FAILED ? NULL : window;
    if (sim->n_pages < SIM_MAPPINGS || !sim->window) {
        npu_sim_close(&sim);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu emulator: out of memory");
    }
    sim->isa = (struct isa){.base = sim->window, .sim = sim};
    npu_sim_end(sim, 0);
    *out = sim;
    return 0;
}

void npu_sim_close(struct npu_sim **sim)
{
    if (!*sim) return;
    if ((*sim)->window) munmap((*sim)->window, (*sim)->end);
    for (int i = 0; i < (*sim)->n_pages; i++) munmap((*sim)->pages[i].at, (*sim)->pages[i].bytes);
    free(*sim);
    *sim = NULL;
}

struct isa *npu_sim_isa(struct npu_sim *sim)
{
    return &sim->isa;
}

void npu_sim_own(struct npu_sim *sim, uint32_t offset, uint32_t bytes, int owned)
{
    uint32_t first = offset - sim->ddr_start, whole = (bytes + 127) / 128 * 128;
    memset(sim->cache + first, SIM_POISON, whole);
    for (uint32_t i = 0; i < whole; i += SIM_LINE_BYTES)
        sim->lines[(first + i) / SIM_LINE_BYTES] = (struct sim_line){.state = owned ? LINE_OWNED : 0};
}

uint32_t npu_sim_buffer(struct npu_sim *sim, uint32_t bytes)
{
    uint64_t whole = ((uint64_t)bytes + 127) / 128 * 128;
    if (!bytes || sim->next_buffer + whole + GAP_BYTES > sim->end) return 0;
    uint32_t off = sim->next_buffer;
    npu_sim_own(sim, off, bytes, 1);
    sim->next_buffer += (uint32_t)whole + GAP_BYTES;
    return off;
}

void *npu_sim_host(struct npu_sim *sim, uint32_t offset)
{
    return sim->memory + offset;
}

void npu_sim_host_wrote(struct npu_sim *sim, uint32_t offset, uint32_t bytes)
{
    if (offset < sim->ddr_start || !bytes) return;
    uint32_t first = (offset - sim->ddr_start) / SIM_LINE_BYTES;
    uint32_t last = (offset - sim->ddr_start + bytes - 1) / SIM_LINE_BYTES;
    for (uint32_t i = first; i <= last; i++) sim->lines[i].state |= LINE_STALE;
}

void npu_sim_host_reads(struct npu_sim *sim, uint32_t offset, uint32_t bytes)
{
    if (offset < sim->ddr_start || !bytes) return;
    uint32_t first = (offset - sim->ddr_start) / SIM_LINE_BYTES;
    uint32_t last = (offset - sim->ddr_start + bytes - 1) / SIM_LINE_BYTES;
    for (uint32_t i = first; i <= last; i++) {
        struct sim_line *l = &sim->lines[i];
        if (!(l->state & LINE_DIRTY)) continue;
        struct sim_at at = {sim, l->kernel, l->line};
        sim_fault(at, NPU_SIM_NOT_FLUSHED, sim->ddr_start + i * SIM_LINE_BYTES);
        return;
    }
}

void npu_sim_end(struct npu_sim *sim, uint32_t keep_bytes)
{
    sim_dma_end(sim);
    uint32_t from = sim->tcm_start + keep_bytes;
    if (sim->tcm_high > from) {
        memset(sim->memory + from, SIM_POISON, sim->tcm_high - from);
        memset(sim->tcm_state + keep_bytes, 0, sim->tcm_high - from);
        sim->tcm_high = from;
    }
    sim->acc.set = 0;
}

const struct npu_sim_fault *npu_sim_faults(const struct npu_sim *sim, size_t *n)
{
    *n = sim->n_faults;
    return sim->faults;
}

void npu_sim_clear_faults(struct npu_sim *sim)
{
    sim->n_faults = 0;
}

void sim_fault(struct sim_at at, enum npu_sim_fault_kind kind, uint32_t offset)
{
    struct npu_sim *sim = at.sim;
    if (!sim || sim->n_faults == NPU_SIM_FAULTS_MAX) return;
    sim->faults[sim->n_faults++] = (struct npu_sim_fault){kind, at.kernel, at.line, offset};
}

uint64_t sim_random(struct npu_sim *sim)
{
    uint64_t x = sim->random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return sim->random = x;
}

struct name {
    const char *name, *text;
};

static const struct name *names(enum npu_sim_fault_kind kind)
{
    static const struct name table[] = {
#define NPU_SIM_NAME(name, text) {#name, text},
        NPU_SIM_FAULTS(NPU_SIM_NAME)
#undef NPU_SIM_NAME
    };
    return &table[(unsigned)kind < NPU_SIM_FAULT_KINDS ? kind : 0];
}

const char *npu_sim_fault_name(enum npu_sim_fault_kind kind)
{
    return names(kind)->name;
}

const char *npu_sim_fault_text(enum npu_sim_fault_kind kind)
{
    return names(kind)->text;
}

struct npu_sim_counters *npu_sim_counts(struct npu_sim *sim)
{
    return &sim->counts;
}

void npu_sim_set_watch(struct npu_sim *sim, struct npu_sim_watch *watch)
{
    sim->watch = watch;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t npu_sim_packet_bound(const struct npu_sim_counters *c)
{
    const uint64_t *n = c->issued;
    uint64_t unaligned = n[NPU_SIM_LOAD_UNALIGNED] + n[NPU_SIM_STORE_UNALIGNED];
    uint64_t shift = n[NPU_SIM_SHIFT] + n[NPU_SIM_PERMUTE_SHIFT];
    uint64_t permute = n[NPU_SIM_PERMUTE] + n[NPU_SIM_PERMUTE_SHIFT] + unaligned;
    uint64_t multiply = (n[NPU_SIM_MULTIPLY] + 1) / 2 + n[NPU_SIM_MULTIPLY_PAIR];
    uint64_t loads = n[NPU_SIM_LOAD] + n[NPU_SIM_LOAD_UNALIGNED] + n[NPU_SIM_GATHER];
    uint64_t stores = n[NPU_SIM_STORE] + n[NPU_SIM_STORE_UNALIGNED] + n[NPU_SIM_SCATTER] + n[NPU_SIM_GATHER];
    uint64_t memory = (loads + stores + unaligned + n[NPU_SIM_SCALAR_LOAD] + n[NPU_SIM_SCALAR_STORE] + 1) / 2;
    uint64_t all = n[NPU_SIM_ALU] + n[NPU_SIM_ALU_PAIR] + n[NPU_SIM_MULTIPLY] + n[NPU_SIM_MULTIPLY_PAIR] +
                   n[NPU_SIM_SHIFT] + n[NPU_SIM_PERMUTE] + n[NPU_SIM_PERMUTE_SHIFT] + loads + stores +
                   n[NPU_SIM_SCALAR_LOAD] + n[NPU_SIM_SCALAR_STORE];
    uint64_t most = larger(larger(shift, permute), larger(multiply, (all + 3) / 4));
    return larger(most, larger(memory, larger(loads, stores)));
}
