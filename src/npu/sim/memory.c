/* SPDX-License-Identifier: MIT
 *
 * Loads, stores and cache maintenance.  The NPU's cache and the host's memory are two copies that only maintenance
 * brings together: one-way coherence at its least helpful [TTS 6].
 */
#include "npu/sim/sim_impl.h"

#include <string.h>

uint32_t sim_offset(const struct npu_sim *sim, const void *p, uint64_t bytes)
{
    uint64_t off = (uintptr_t)p - (uintptr_t)sim->window;
    if (off < sim->tcm_start || off >= sim->end || bytes > sim->end - off) return UINT32_MAX;
    return (uint32_t)off;
}

/* Is what another did at this mark possibly not done yet? */
static int beside(const struct npu_sim *sim, uint32_t mark)
{
    uint32_t section = mark / SIM_THREADS, thread = mark % SIM_THREADS;
    if (thread == sim->thread) return 0;
    if (section == sim->section) return 1;
    if (section < sim->first_phase || sim->thread == sim->tile_thread) return 0;
    return section + sim->phase_lead - (thread == sim->tile_thread) >= sim->section;
}

/* May all of these marks be passed?  Neighbours mostly have the same. */
static int all_done(const struct npu_sim *sim, const uint32_t *mark, uint32_t n)
{
    uint32_t differ = 0;
    for (uint32_t i = 0; i < n; i++) differ |= mark[i] ^ mark[0];
    for (uint32_t i = 0; i < (differ ? n : n > 0); i++)
        if (beside(sim, mark[i])) return 0;
    return 1;
}

/* Threads run one after another here, in random order.  TCM is remembered by bytes, shared memory by words. */
void sim_check_threads(struct sim_at at, uint32_t off, uint32_t bytes, int writes)
{
    struct npu_sim *sim = at.sim;
    int tcm = off < sim->ddr_start;
    uint32_t first = tcm ? off - sim->tcm_start : (off - sim->ddr_start) / 4;
    uint32_t last = tcm ? first + bytes : (off - sim->ddr_start + bytes + 3) / 4;
    uint32_t *writer = tcm ? sim->tcm_writer : sim->ddr_writer, *reader = tcm ? sim->tcm_reader : sim->ddr_reader;
    uint32_t mine = sim->section * SIM_THREADS + sim->thread;
    if (!all_done(sim, writer + first, last - first) || (writes && !all_done(sim, reader + first, last - first))) {
        sim_fault(at, NPU_SIM_THREAD_RACE, off);
        return;
    }
    for (uint32_t i = first; i < last; i++) (writes ? writer : reader)[i] = mine;
}

static void read_tcm(struct sim_at at, uint32_t off, void *dst, uint32_t bytes)
{
    const uint8_t *state = at.sim->tcm_state + (off - at.sim->tcm_start);
    uint8_t all = 255, any = 0;
    for (uint32_t i = 0; i < bytes; i++) all &= state[i], any |= state[i];
    if (any & BYTE_DMA_IN)
        sim_fault(at, NPU_SIM_DMA_NOT_WAITED, off);
    else if (any & BYTE_SCATTER)
        sim_fault(at, NPU_SIM_SCATTER_OPEN, off);
    else if (!(all & BYTE_SET))
        sim_fault(at, NPU_SIM_UNINITIALIZED, off);
    if (at.sim->thread) sim_check_threads(at, off, bytes, 0);
    memcpy(dst, at.sim->memory + off, bytes);
    at.sim->counts.tcm_read_bytes += bytes;
}

static void write_tcm(struct sim_at at, uint32_t off, const void *src, uint32_t bytes)
{
    uint8_t *state = at.sim->tcm_state + (off - at.sim->tcm_start), any = 0;
    for (uint32_t i = 0; i < bytes; i++) any |= state[i];
    if (any & (BYTE_DMA_IN | BYTE_DMA_OUT)) sim_fault(at, NPU_SIM_DMA_OVERWRITE, off);
    if (at.sim->thread) sim_check_threads(at, off, bytes, 1);
    memset(state, BYTE_SET, bytes);
    memcpy(at.sim->memory + off, src, bytes);
    if (off + bytes > at.sim->tcm_high) at.sim->tcm_high = off + bytes;
    at.sim->counts.tcm_write_bytes += bytes;
}

/* Brings a line into the cache, unless it is there (stale or not). */
static void fill(struct npu_sim *sim, uint32_t index)
{
    struct sim_line *l = &sim->lines[index];
    uint32_t at = index * SIM_LINE_BYTES;
    if (!(l->state & (LINE_CACHED | LINE_STALE)))
        memcpy(sim->cache + at, sim->memory + sim->ddr_start + at, SIM_LINE_BYTES);
    l->state |= LINE_CACHED;
}

/* Calls of `step` see one line's part of [off, off + bytes) at a time: this many bytes of it. */
static uint32_t part(uint32_t off, uint32_t bytes)
{
    uint32_t left = SIM_LINE_BYTES - off % SIM_LINE_BYTES;
    return left < bytes ? left : bytes;
}

static void read_ddr(struct sim_at at, uint32_t off, uint8_t *dst, uint32_t bytes)
{
    struct npu_sim *sim = at.sim;
    sim->counts.ddr_read_bytes += bytes;
    if (sim->thread) sim_check_threads(at, off, bytes, 0);
    for (uint32_t n; bytes; off += n, dst += n, bytes -= n) {
        uint32_t at_ddr = off - sim->ddr_start, index = at_ddr / SIM_LINE_BYTES;
        uint8_t state = sim->lines[index].state;
        n = part(at_ddr, bytes);
        if (!(state & LINE_OWNED))
            sim_fault(at, NPU_SIM_OUT_OF_BOUNDS, off);
        else if (state & LINE_DMA_IN)
            sim_fault(at, NPU_SIM_DMA_NOT_WAITED, off);
        else if (state & LINE_STALE)
            sim_fault(at, NPU_SIM_STALE_READ, off);
        fill(sim, index);
        memcpy(dst, sim->cache + at_ddr, n);
    }
}

static void write_ddr(struct sim_at at, uint32_t off, const uint8_t *src, uint32_t bytes)
{
    struct npu_sim *sim = at.sim;
    sim->counts.ddr_write_bytes += bytes;
    if (sim->thread) sim_check_threads(at, off, bytes, 1);
    for (uint32_t n; bytes; off += n, src += n, bytes -= n) {
        uint32_t at_ddr = off - sim->ddr_start, index = at_ddr / SIM_LINE_BYTES;
        struct sim_line *l = &sim->lines[index];
        n = part(at_ddr, bytes);
        if (!(l->state & LINE_OWNED)) {
            sim_fault(at, NPU_SIM_OUT_OF_BOUNDS, off);
            continue;
        }
        if (l->state & (LINE_DMA_IN | LINE_DMA_OUT)) sim_fault(at, NPU_SIM_DMA_OVERWRITE, off);
        if (n < SIM_LINE_BYTES) {
            if (l->state & LINE_STALE) sim_fault(at, NPU_SIM_STALE_MERGE, off);
            fill(sim, index);
        }
        l->state = (uint8_t)((l->state & ~LINE_STALE) | LINE_CACHED | LINE_DIRTY);
        l->kernel = at.kernel, l->line = at.line;
        memcpy(sim->cache + at_ddr, src, n);
    }
}

void sim_read(struct sim_at at, const void *p, void *dst, uint32_t bytes)
{
    uint32_t off = sim_offset(at.sim, p, bytes);
    if (off == UINT32_MAX || (off < at.sim->ddr_start && !sim_in_tcm(at.sim, off, bytes))) {
        sim_fault(at, NPU_SIM_OUT_OF_BOUNDS, off);
        memset(dst, SIM_POISON, bytes);
    } else if (off < at.sim->ddr_start) {
        read_tcm(at, off, dst, bytes);
    } else {
        read_ddr(at, off, dst, bytes);
    }
}

void sim_write(struct sim_at at, void *p, const void *src, uint32_t bytes)
{
    uint32_t off = sim_offset(at.sim, p, bytes);
    if (off == UINT32_MAX || (off < at.sim->ddr_start && !sim_in_tcm(at.sim, off, bytes)))
        sim_fault(at, NPU_SIM_OUT_OF_BOUNDS, off);
    else if (off < at.sim->ddr_start)
        write_tcm(at, off, src, bytes);
    else
        write_ddr(at, off, src, bytes);
}

/* An aligned access: like the hardware, the low address bits are dropped. */
static uintptr_t align(struct sim_at at, const void *p, uint32_t bytes)
{
    if ((uintptr_t)p % bytes) sim_fault(at, NPU_SIM_MISALIGNED, sim_offset(at.sim, p, bytes));
    return (uintptr_t)p & ~(uintptr_t)(bytes - 1);
}

static void check_stored(struct sim_at at, vec *v)
{
    if (v->form == FORM_BITS) return;
    sim_fault(at, NPU_SIM_QFLOAT_STORED, 0);
    for (int i = 0; i < 64; i++) v->uh[i] ^= 0x15;
    v->form = FORM_BITS;
}

vec sim_load(struct sim_at at, const void *p)
{
    vec v;
    v.form = FORM_BITS;
    sim_count(at, NPU_SIM_LOAD);
    sim_read(at, (const void *)align(at, p, 128), v.ub, 128);
    return v;
}

vec sim_const(struct sim_at at, const void *p)
{
    vec v;
    v.form = FORM_BITS;
    sim_count(at, NPU_SIM_LOAD);
    if ((uintptr_t)p % 128) sim_fault(at, NPU_SIM_MISALIGNED, 0);
    memcpy(v.ub, p, 128);
    return v;
}

vec sim_loadu(struct sim_at at, const void *p)
{
    vec v;
    v.form = FORM_BITS;
    sim_count(at, NPU_SIM_LOAD_UNALIGNED);
    sim_read(at, p, v.ub, 128);
    return v;
}

void sim_store(struct sim_at at, void *p, vec v)
{
    sim_count(at, NPU_SIM_STORE);
    check_stored(at, &v);
    sim_write(at, (void *)align(at, p, 128), v.ub, 128);
}

void sim_storeu(struct sim_at at, void *p, vec v)
{
    sim_count(at, NPU_SIM_STORE_UNALIGNED);
    check_stored(at, &v);
    sim_write(at, p, v.ub, 128);
}

void sim_store_if(struct sim_at at, vmask m, void *p, vec v)
{
    uint8_t *to = (uint8_t *)align(at, p, 128);
    sim_count(at, NPU_SIM_STORE);
    check_stored(at, &v);
    for (uint32_t i = 0, n; i < 128; i += n) {
        for (n = 1; i + n < 128 && m.set[i + n] == m.set[i];) n++;
        if (m.set[i]) sim_write(at, to + i, v.ub + i, n);
    }
}

uint64_t sim_scalar_load(struct sim_at at, const void *p, uint32_t bytes)
{
    uint64_t x = 0;
    sim_count(at, NPU_SIM_SCALAR_LOAD);
    sim_read(at, (const void *)align(at, p, bytes), &x, bytes);
    return x;
}

void sim_scalar_store(struct sim_at at, void *p, uint32_t x)
{
    sim_count(at, NPU_SIM_SCALAR_STORE);
    sim_write(at, (void *)align(at, p, 4), &x, 4);
}

/* First and last line of a range of shared memory; 0 where there is none. */
static int lines_of(struct sim_at at, const void *p, uint32_t bytes, uint32_t *first, uint32_t *last)
{
    uint32_t off = sim_offset(at.sim, p, bytes);
    if (!bytes) return 0;
    if (off == UINT32_MAX) {
        sim_fault(at, NPU_SIM_OUT_OF_BOUNDS, off);
        return 0;
    }
    if (off < at.sim->ddr_start) return 0;
    *first = (off - at.sim->ddr_start) / SIM_LINE_BYTES;
    *last = (off - at.sim->ddr_start + bytes - 1) / SIM_LINE_BYTES;
    at.sim->counts.maintained_bytes += (uint64_t)(*last - *first + 1) * SIM_LINE_BYTES;
    return 1;
}

void sim_flush(struct sim_at at, const void *p, uint32_t bytes)
{
    uint32_t first, last;
    if (!lines_of(at, p, bytes, &first, &last)) return;
    for (uint32_t i = first; i <= last; i++) {
        struct sim_line *l = &at.sim->lines[i];
        if (!(l->state & LINE_DIRTY)) continue;
        memcpy(at.sim->memory + at.sim->ddr_start + i * SIM_LINE_BYTES, at.sim->cache + i * SIM_LINE_BYTES,
            SIM_LINE_BYTES);
        l->state &= (uint8_t)~LINE_DIRTY;
    }
}

void sim_invalidate(struct sim_at at, const void *p, uint32_t bytes)
{
    uint32_t first, last;
    if (!lines_of(at, p, bytes, &first, &last)) return;
    for (uint32_t i = first; i <= last; i++) {
        struct sim_line *l = &at.sim->lines[i];
        if (l->state & LINE_DIRTY) sim_fault(at, NPU_SIM_LOST_WRITE, at.sim->ddr_start + i * SIM_LINE_BYTES);
        l->state &= (uint8_t) ~(LINE_DIRTY | LINE_CACHED | LINE_STALE);
    }
}
