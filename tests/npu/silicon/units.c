/* SPDX-License-Identifier: MIT
 *
 * Stand-ins for the instructions of dsp/silicon/units.c: a DMA engine per thread that walks the descriptors that were
 * linked, late and by the rules of the emulator (sim/async.c), and the tile unit as sim/tile.c defines it.  A broken
 * rule is told by its line.
 */
#include "guest.h"
#include "npu/dsp/silicon/silicon.h"
#include "npu/sim/tile.h"

enum { THREADS = 16 };
#define RULE(holds, word)                                                                                              \
    do {                                                                                                               \
        if (!(holds) && !(word)) (word) = __LINE__;                                                                    \
    } while (0)

static struct engine {
    struct npu_dma_descriptor *at; /* the next to be done; NULL: idle */
    struct npu_dma_descriptor *last;
    uint32_t flight, polls, stopped, ready; /* ready: what its last user left is gone */
} engine[THREADS];

static struct npu_tile_acc acc;
static uint32_t user, scaled; /* who holds the tile unit, thread + 1 */
static uint32_t seed = 1;

static struct engine *mine(void)
{
    return &engine[firmware_thread()];
}

static int in_tcm(uint32_t at, uint32_t bytes)
{
    uint32_t size, tcm = firmware_tcm(&size);
    return tcm && at - tcm < size && bytes <= size - (at - tcm);
}

/* A descriptor as the engine first sees it. */
static void judge(const struct npu_dma_descriptor *d)
{
    uint32_t c = d->control, two = c >> 24 & 3, width = two ? d->rows & 0xffff : c & 0xffffff;
    RULE((uintptr_t)d % (two ? 32 : 16) == 0, box->dma_fault);
    RULE(firmware_holds(firmware_thread()) == FIRMWARE_BOTH, box->dma_fault);
    RULE(d->next % 16 == 0, box->dma_fault);
    RULE(!(c & NPU_DMA_DONE) && !(c & 3u << 26) && two <= 1, box->dma_fault);
    RULE(width && (!two || (d->rows >> 16 && !(c & 0xffffff))), box->dma_fault);
    RULE(d->kind == 0 && d->offsets == 0 && (two || (!d->rows && !d->strides)), box->dma_fault);
    RULE(in_tcm(d->src, width) ? !(c & NPU_DMA_SRC_MEMORY) : c & NPU_DMA_SRC_MEMORY, box->dma_fault);
    RULE(in_tcm(d->dst, width) ? !(c & NPU_DMA_DST_MEMORY) : c & NPU_DMA_DST_MEMORY, box->dma_fault);
    __atomic_add_fetch(two ? &box->dma_2d : &box->dma_descriptors, 1, __ATOMIC_SEQ_CST);
}

static void copy(const struct npu_dma_descriptor *d)
{
    uint32_t two = d->control >> 24 & 1, rows = two ? d->rows >> 16 : 1;
    uint32_t width = two ? d->rows & 0xffff : d->control & 0xffffff;
    const uint8_t *src = d->control & NPU_DMA_SRC_MEMORY ? cache_memory(d->src) : (const uint8_t *)d->src;
    uint8_t *dst = d->control & NPU_DMA_DST_MEMORY ? cache_memory(d->dst) : (uint8_t *)d->dst;
    for (uint32_t r = 0; r < rows; r++, src += d->strides & 0xffff, dst += d->strides >> 16)
        for (uint32_t i = 0; i < width; i++) dst[i] = src[i];
}

void npu_unit_dmstart(struct npu_dma_descriptor *first)
{
    struct engine *e = mine();
    RULE(e->ready && !e->at && !e->stopped && first->next == 0, box->dma_fault);
    judge(first);
    e->at = e->last = first, e->flight = 1;
}

void npu_unit_dmlink(struct npu_dma_descriptor *tail, struct npu_dma_descriptor *next)
{
    struct engine *e = mine();
    RULE(e->last == tail && tail->next == 0 && next->next == 0 && tail != next, box->dma_fault);
    RULE(!e->stopped, box->dma_fault);
    judge(next);
    tail->next = (uint32_t)(uintptr_t)next;
    if (!e->at) e->at = next, e->flight = 0;
    e->last = next;
    if (++e->flight > box->dma_flight) box->dma_flight = e->flight;
}

uint32_t npu_unit_dmpoll(void)
{
    struct engine *e = mine();
    if (e->stopped) return 2;
    if (!e->at) return 0;
    if (!e->polls) {
        seed = seed * 1664525 + 1013904223;
        e->polls = 1 + (seed >> 28) % 4;
    }
    if (--e->polls) return 1;
    if ((!box->fail_thread || box->fail_thread == firmware_thread()) && firmware_error(BOX_DMA)) return e->stopped = 2;
    struct npu_dma_descriptor *d = e->at;
    copy(d);
    __atomic_store_n(&d->control, d->control | NPU_DMA_DONE, __ATOMIC_RELEASE);
    e->at = (struct npu_dma_descriptor *)d->next, e->flight--;
    return e->at != 0;
}

uint32_t npu_unit_dmpause(void)
{
    RULE(mine()->stopped || !mine()->at, box->dma_fault);
    *mine() = (struct engine){.ready = 1};
    return 0;
}

void units_leave(void)
{
    RULE(!mine()->last, box->dma_fault); /* paused since it was started */
    mine()->ready = 0;
}

/* One range at a time, and by one thread: the serving one. */
static uintptr_t range_first, range_end;

void npu_unit_line(uintptr_t line)
{
    RULE(line % 64 == 0 && (line == range_end || !range_end), box->dma_fault);
    if (!range_end) range_first = line;
    range_end = line + 64;
    cache_line(line);
}

void npu_unit_settle(void)
{
    const uint32_t ring = firmware_window();
    const uintptr_t first = range_first, end = range_end;
    range_first = range_end = 0;
    if (!end) return;
    if (ring && first == ring && end - first == sizeof(struct npu_ring))
        __atomic_add_fetch(&box->head_lines, 1, __ATOMIC_SEQ_CST);
    if (ring && first >= ring && end - ring < sizeof(struct npu_ring))
        __atomic_add_fetch(&box->ring_lines, 1, __ATOMIC_SEQ_CST);
    if (end - first <= box->lines_bytes) return;
    box->lines_bytes = end - first, box->lines_first = first, box->lines_end = end;
}

/* ---- tiles ---- */

void npu_unit_scales(const uint8_t *scales)
{
    uint32_t t = firmware_thread();
    RULE(firmware_holds(t) & FIRMWARE_TILES && (uintptr_t)scales % 256 == 0 && in_tcm((uint32_t)scales, 256),
        box->tile_fault);
    RULE(!user, box->tile_fault);
    for (uint32_t i = 0; i < 64; i++) RULE(((const uint32_t *)scales)[i] == (i < 32 ? 0x3c00 : 0), box->tile_fault);
    user = t + 1, scaled = 1;
}

void npu_unit_clear(void)
{
    RULE(user == firmware_thread() + 1, box->tile_fault);
    npu_tile_clear(&acc);
}

void npu_unit_mac(const uint8_t *act, const uint8_t *weight, uint32_t last_byte)
{
    const uint32_t bank = 4 << 20;
    RULE(user == firmware_thread() + 1 && scaled, box->tile_fault);
    RULE((last_byte + 1) % 2048 == 0 && last_byte < 65536, box->tile_fault);
    for (int i = 0; i < 2; i++) {
        uint32_t at = (uint32_t)(i ? weight : act);
        RULE(at % 2048 == 0 && in_tcm(at, last_byte + 1) && at / bank == (at + last_byte) / bank, box->tile_fault);
    }
    npu_tile_mac(&acc, act, weight, (last_byte + 1) / 2048);
    box->tile_macs++;
}

void npu_unit_store(uint8_t *dst)
{
    RULE(user == firmware_thread() + 1 && in_tcm((uint32_t)dst, 2048) && (uint32_t)dst % 2048 == 0, box->tile_fault);
    npu_tile_store(&acc, dst);
    box->tile_stores++;
    user = scaled = 0;
}

/* Packets, as QEMU counts them; a timer that stands still says that this is no silicon. */
uint64_t npu_unit_cycles(void)
{
    return npu_qemu_packets();
}

uint64_t npu_unit_ticks(void)
{
    return 0;
}

void npu_unit_pause(void)
{
    __asm__ volatile("pause(#255)" : : : "memory");
}
