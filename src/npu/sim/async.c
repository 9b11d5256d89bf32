/* SPDX-License-Identifier: MIT
 *
 * What happens later or elsewhere: DMA, gather, scatter, the tile machine.
 */
#include "npu/sim/sim_impl.h"

#include <string.h>

/* Sets or clears a state bit of every byte (TCM) or line (shared memory) of a range, and checks it first. */
static void mark(struct npu_sim *sim, uint32_t off, uint32_t bytes, int on, int in)
{
    if (off < sim->ddr_start) {
        uint8_t bit = in ? BYTE_DMA_IN : BYTE_DMA_OUT, *state = sim->tcm_state + (off - sim->tcm_start);
        for (uint32_t i = 0; i < bytes; i++) state[i] = (uint8_t)(on ? state[i] | bit : state[i] & ~bit);
        return;
    }
    uint8_t bit = in ? LINE_DMA_IN : LINE_DMA_OUT;
    uint32_t first = (off - sim->ddr_start) / SIM_LINE_BYTES,
             last = (off - sim->ddr_start + bytes - 1) / SIM_LINE_BYTES;
    for (uint32_t i = first; i <= last; i++)
        sim->lines[i].state = (uint8_t)(on ? sim->lines[i].state | bit : sim->lines[i].state & ~bit);
}

/* Is this row of a DMA fit to be read or written?  Faults name what is wrong; 0 when it cannot be done at all. */
static int check_row(struct sim_at at, uint32_t off, uint32_t bytes, int in)
{
    struct npu_sim *sim = at.sim;
    if (off < sim->ddr_start) {
        const uint8_t *state = sim->tcm_state + (off - sim->tcm_start);
        if (!sim_in_tcm(sim, off, bytes)) return sim_fault(at, NPU_SIM_OUT_OF_BOUNDS, off), 0;
        uint8_t any = 0, all = 255;
        for (uint32_t i = 0; i < bytes; i++) any |= state[i], all &= state[i];
        if (in && any & (BYTE_DMA_IN | BYTE_DMA_OUT)) sim_fault(at, NPU_SIM_DMA_OVERWRITE, off);
        if (!in && any & BYTE_DMA_IN) sim_fault(at, NPU_SIM_DMA_NOT_WAITED, off);
        if (!in && any & BYTE_SCATTER) sim_fault(at, NPU_SIM_SCATTER_OPEN, off);
        if (!in && !(all & BYTE_SET)) sim_fault(at, NPU_SIM_UNINITIALIZED, off);
        return 1;
    }
    uint32_t first = (off - sim->ddr_start) / SIM_LINE_BYTES,
             last = (off - sim->ddr_start + bytes - 1) / SIM_LINE_BYTES;
    for (uint32_t i = first; i <= last; i++) {
        uint8_t state = sim->lines[i].state;
        if (!(state & LINE_OWNED)) return sim_fault(at, NPU_SIM_OUT_OF_BOUNDS, off), 0;
        if (state & LINE_DIRTY) {
            sim_fault(at, in ? NPU_SIM_DMA_DIRTY_TARGET : NPU_SIM_DMA_STALE_SOURCE, off);
            return 1;
        }
    }
    return 1;
}

/* The oldest descriptor in flight. */
static void land(struct sim_at at, struct sim_engine *e)
{
    struct npu_sim *sim = at.sim;
    const struct sim_dma *d = &e->ring[e->landed++ % NPU_SIM_RING];
    for (uint32_t r = 0; r < d->rows; r++) {
        uint32_t src = d->src + r * d->src_stride, dst = d->dst + r * d->dst_stride;
        memcpy(sim->memory + dst, sim->memory + src, d->width);
        mark(sim, src, d->width, 0, 0);
        mark(sim, dst, d->width, 0, 1);
        if (sim->thread) sim_check_threads(at, dst, d->width, 1); /* the others do not know that it has landed */
        if (dst < sim->ddr_start) {
            memset(sim->tcm_state + (dst - sim->tcm_start), BYTE_SET, d->width);
            if (dst + d->width > sim->tcm_high) sim->tcm_high = dst + d->width;
        } else {
            npu_sim_host_wrote(sim, dst, d->width);
        }
    }
}

uint32_t sim_dma_start(struct sim_at at, void *dst, uint32_t dst_stride, const void *src, uint32_t src_stride,
    uint32_t width, uint32_t rows, int two_d)
{
    struct npu_sim *sim = at.sim;
    struct sim_engine *e = &sim->engine[sim->thread];
    uint32_t limit = sim->dma_limit;
    if (two_d ? width > limit || rows > limit || dst_stride > limit || src_stride > limit : width >= 1u << 24)
        sim_fault(at, NPU_SIM_DMA_FIELD, 0);
    if (!width || !rows) {
        sim_fault(at, NPU_SIM_DMA_FIELD, 0);
        return 0;
    }
    if (e->started - e->landed == NPU_SIM_RING) {
        sim_fault(at, NPU_SIM_DMA_RING, 0);
        land(at, e);
    }
    uint64_t dst_span = (uint64_t)(rows - 1) * dst_stride + width, src_span = (uint64_t)(rows - 1) * src_stride + width;
    struct sim_dma d = {at, sim_offset(sim, dst, dst_span), dst_stride, sim_offset(sim, src, src_span), src_stride,
        width, rows, (uint32_t)(sim_random(sim) % 4)};
    if (d.dst == UINT32_MAX || d.src == UINT32_MAX) {
        sim_fault(at, NPU_SIM_OUT_OF_BOUNDS, 0);
        return 0;
    }
    for (uint32_t r = 0; r < rows; r++) {
        if (!check_row(at, d.src + r * src_stride, width, 0) || !check_row(at, d.dst + r * dst_stride, width, 1))
            return 0;
        if (!sim->thread) continue;
        sim_check_threads(at, d.src + r * src_stride, width, 0);
        sim_check_threads(at, d.dst + r * dst_stride, width, 1);
    }
    for (uint32_t r = 0; r < rows; r++) {
        mark(sim, d.src + r * src_stride, width, 1, 0);
        mark(sim, d.dst + r * dst_stride, width, 1, 1);
    }
    sim->counts.dma_descriptors++;
    if (d.src >= sim->ddr_start) sim->counts.dma_read_bytes += (uint64_t)width * rows;
    if (d.dst >= sim->ddr_start) sim->counts.dma_write_bytes += (uint64_t)width * rows;
    e->ring[e->started % NPU_SIM_RING] = d;
    return sim->thread << SIM_TICKET_BITS | ++e->started;
}

/* The calling thread's descriptor of a ticket, as its number; 0: none that it may wait for. */
static uint32_t number_of(struct sim_at at, uint32_t ticket)
{
    struct npu_sim *sim = at.sim;
    uint32_t number = ticket & ((1u << SIM_TICKET_BITS) - 1), thread = ticket >> SIM_TICKET_BITS;
    if (!ticket) return 0;
    if (thread < SIM_THREADS && number <= sim->engine[thread].started) {
        if (thread == sim->thread) return number;
        sim_fault(at, NPU_SIM_DMA_FOREIGN, thread);
    } else {
        sim_fault(at, NPU_SIM_BAD_OPERAND, 0);
    }
    return 0;
}

void sim_dma_wait(struct sim_at at, uint32_t ticket)
{
    struct sim_engine *e = &at.sim->engine[at.sim->thread];
    for (uint32_t number = number_of(at, ticket); e->landed < number;) land(at, e);
}

int sim_dma_poll(struct sim_at at, uint32_t ticket)
{
    struct sim_engine *e = &at.sim->engine[at.sim->thread];
    uint32_t number = number_of(at, ticket);
    if (number <= e->landed) return 1;
    struct sim_dma *d = &e->ring[(number - 1) % NPU_SIM_RING];
    if (d->polls_left) return d->polls_left--, 0;
    sim_dma_wait(at, ticket);
    return 1;
}

void sim_dma_end(struct npu_sim *sim)
{
    for (uint32_t t = 0; t < SIM_THREADS; t++) {
        struct sim_engine *e = &sim->engine[t];
        while (e->landed < e->started) {
            struct sim_dma *d = &e->ring[e->landed % NPU_SIM_RING];
            sim_fault(d->at, NPU_SIM_DMA_LEFT, d->dst);
            land(d->at, e);
        }
        e->landed = e->started = 0;
    }
}

/* A thread's share of a section, on the timeline. */
static void note(struct npu_sim *sim, uint32_t thread, uint32_t n, const struct npu_sim_counters *before)
{
    struct npu_sim_watch *w = sim->watch;
    struct npu_sim_counters c = sim->counts;
    if (!w || w->n == w->n_max) return;
    for (int i = 0; i < NPU_SIM_UNIT_KINDS; i++) c.issued[i] -= before->issued[i];
    w->span[w->n++] = (struct npu_sim_span){.section = sim->section,
        .thread = thread,
        .n = n,
        .packets = npu_sim_packet_bound(&c),
        .tile_pairs = c.tile_pairs - before->tile_pairs,
        .dma_bytes = c.dma_read_bytes - before->dma_read_bytes,
        .tile_calls = c.tile_calls - before->tile_calls,
        .dma_starts = c.dma_descriptors - before->dma_descriptors};
}

/* Shares 0 .. n_shares - 1 of `n` threads' work, in random order. */
static void section(
    struct npu_sim *sim, uint32_t n, uint32_t n_shares, isa_thread *fn, isa_phase *phased, void *user, uint32_t phase)
{
    uint32_t order[SIM_THREADS];
    for (uint32_t i = 0; i < n_shares; i++) order[i] = i;
    for (uint32_t i = n_shares - 1; i; i--) {
        uint32_t j = (uint32_t)(sim_random(sim) % (i + 1)), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    sim->section++;
    if (!phase) sim->first_phase = sim->section, sim->tile_thread = n + 1;
    for (uint32_t i = 0; i < n_shares; i++) {
        struct npu_sim_counters before = sim->counts;
        sim->thread = order[i] + 1;
        sim->acc.set = 0;
        if (phased)
            phased(&sim->isa, user, phase, order[i], n);
        else
            fn(&sim->isa, user, order[i], n);
        note(sim, order[i], n, &before);
    }
    sim->thread = 0;
}

void sim_threads(struct sim_at at, uint32_t n, isa_thread *fn, void *user)
{
    if (!n || n >= SIM_THREADS || at.sim->thread) {
        sim_fault(at, NPU_SIM_BAD_OPERAND, n);
        return;
    }
    section(at.sim, n, n, fn, NULL, user, 0);
    sim_dma_end(at.sim);
}

void sim_phases(struct sim_at at, uint32_t n, uint32_t n_phases, uint32_t lead, isa_phase *fn, void *user)
{
    if (!n || n + 1 >= SIM_THREADS || !lead || lead > 2 || at.sim->thread) {
        sim_fault(at, NPU_SIM_BAD_OPERAND, n);
        return;
    }
    at.sim->phase_lead = lead;
    for (uint32_t i = 0; i < n_phases; i++) section(at.sim, n, n + 1, NULL, fn, user, i);
    sim_dma_end(at.sim);
}

/* Offset of a gather's or scatter's region; UINT32_MAX when it is not one. */
static uint32_t region(struct sim_at at, const void *base, uint32_t bytes, uint32_t lane_bytes)
{
    uint32_t off = sim_offset(at.sim, base, bytes);
    if (!bytes || (lane_bytes == 2 && bytes > 65536)) sim_fault(at, NPU_SIM_GATHER_LENGTH, off);
    if ((uintptr_t)base % lane_bytes) sim_fault(at, NPU_SIM_MISALIGNED, off);
    if (off != UINT32_MAX && sim_in_tcm(at.sim, off, bytes)) return off;
    sim_fault(at, NPU_SIM_NOT_TCM, off);
    return UINT32_MAX;
}

static uint32_t lane_offset(const vec *off, uint32_t i, uint32_t lane_bytes)
{
    return (lane_bytes == 2 ? off->uh[i] : off->uw[i]) & ~(lane_bytes - 1);
}

void sim_gather(struct sim_at at, void *dst, const void *base, uint32_t bytes, vec off, uint32_t lane_bytes)
{
    struct npu_sim *sim = at.sim;
    sim_count(at, NPU_SIM_GATHER);
    sim_bits(at, &off);
    uint32_t from = region(at, base, bytes, lane_bytes), to = sim_offset(sim, dst, 128);
    if ((uintptr_t)dst % 128) sim_fault(at, NPU_SIM_MISALIGNED, to);
    if (to == UINT32_MAX || !sim_in_tcm(sim, to, 128)) {
        sim_fault(at, NPU_SIM_NOT_TCM, to);
        return;
    }
    if (from == UINT32_MAX) return;
    for (uint32_t i = 0; i < 128 / lane_bytes; i++) {
        uint32_t o = lane_offset(&off, i, lane_bytes), lane;
        if ((uint64_t)o + lane_bytes > bytes) continue;
        sim_read(at, (const uint8_t *)base + o, &lane, lane_bytes);
        sim_write(at, (uint8_t *)dst + i * lane_bytes, &lane, lane_bytes);
    }
}

void sim_scatter(struct sim_at at, void *base, uint32_t bytes, vec off, vec v, uint32_t lane_bytes)
{
    struct npu_sim *sim = at.sim;
    uint32_t n = 128 / lane_bytes, order[64];
    sim_count(at, NPU_SIM_SCATTER);
    sim_bits(at, &off);
    if (v.form != FORM_BITS) sim_fault(at, NPU_SIM_QFLOAT_STORED, 0);
    uint32_t to = region(at, base, bytes, lane_bytes);
    if (to == UINT32_MAX) return;
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint32_t i = n - 1; i; i--) {
        uint32_t j = (uint32_t)(sim_random(sim) % (i + 1)), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t lane = order[i], o = lane_offset(&off, lane, lane_bytes);
        if ((uint64_t)o + lane_bytes > bytes) continue;
        sim_write(at, (uint8_t *)base + o, v.ub + lane * lane_bytes, lane_bytes);
        for (uint32_t b = 0; b < lane_bytes; b++) sim->tcm_state[to - sim->tcm_start + o + b] |= BYTE_SCATTER;
    }
}

void sim_scatter_sync(struct sim_at at, const void *p)
{
    struct npu_sim *sim = at.sim;
    sim_count(at, NPU_SIM_STORE);
    sim_count(at, NPU_SIM_LOAD);
    uint32_t off = sim_offset(sim, p, 1);
    if (off == UINT32_MAX || !sim_in_tcm(sim, off, 1)) {
        sim_fault(at, NPU_SIM_NOT_TCM, off);
        return;
    }
    for (uint32_t i = 0; i < sim->tcm_high - sim->tcm_start; i++) sim->tcm_state[i] &= (uint8_t)~BYTE_SCATTER;
}

/* Checks a tile operand as a core access would be; NULL when it cannot be used. */
static uint8_t *operand(struct sim_at at, const void *p, uint32_t bytes)
{
    struct npu_sim *sim = at.sim;
    uint32_t off = sim_offset(sim, p, bytes);
    if ((uintptr_t)(off - sim->tcm_start) % 2048) sim_fault(at, NPU_SIM_MISALIGNED, off);
    if (off != UINT32_MAX && sim_in_tcm(sim, off, bytes)) return sim->memory + off;
    sim_fault(at, NPU_SIM_NOT_TCM, off);
    return NULL;
}

void sim_tile_clear(struct sim_at at)
{
    npu_tile_clear(&at.sim->acc);
    at.sim->counts.tile_calls++;
}

void sim_tile_mac(struct sim_at at, const void *act, const void *weight, uint32_t n_pairs)
{
    uint8_t a[2048], w[2048];
    if (!n_pairs || n_pairs > 32) {
        sim_fault(at, NPU_SIM_TILE_COUNT, n_pairs);
        return;
    }
    if (!at.sim->acc.set) sim_fault(at, NPU_SIM_TILE_UNSET, 0);
    if (!operand(at, act, n_pairs * 2048) || !operand(at, weight, n_pairs * 2048)) return;
    uint64_t read = at.sim->counts.tcm_read_bytes;
    for (uint32_t t = 0; t < n_pairs; t++) {
        sim_read(at, (const uint8_t *)act + 2048 * t, a, 2048);
        sim_read(at, (const uint8_t *)weight + 2048 * t, w, 2048);
        npu_tile_mac(&at.sim->acc, a, w, 1);
    }
    at.sim->counts.tcm_read_bytes = read;
    at.sim->counts.tile_pairs += n_pairs;
    at.sim->counts.tile_calls++;
}

void sim_tile_store(struct sim_at at, void *dst)
{
    uint8_t tile[2048];
    if (!at.sim->acc.set) sim_fault(at, NPU_SIM_TILE_UNSET, 0);
    if (!operand(at, dst, 2048)) return;
    npu_tile_store(&at.sim->acc, tile);
    uint64_t written = at.sim->counts.tcm_write_bytes;
    sim_write(at, dst, tile, 2048);
    at.sim->counts.tcm_write_bytes = written;
    at.sim->counts.tile_calls++;
}
