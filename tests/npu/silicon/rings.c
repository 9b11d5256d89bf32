/* SPDX-License-Identifier: MIT
 *
 * Transfers at the limits of a descriptor's fields, more of them than a ring has, by two threads that lead and follow;
 * what has landed when a ticket says so.  Who waits for whom in phases, with each thread the slow one in turn.  Lines
 * of ranges that begin within one.  Returns 0 or the line of what was wrong.
 */
#include "guest.h"
#include "npu/dsp/silicon/silicon.h"

enum { SPACE = 40 << 20, SMALL = 300, BYTES = 96, STEP = 128 };

static struct npu_pool pool;
static uint8_t *space;
static uint32_t wrong, landed_late;

#define CHECK(holds)                                                                                                   \
    do {                                                                                                               \
        if (!(holds) && !wrong) wrong = __LINE__;                                                                      \
    } while (0)

static void fill(uint8_t *p, uint32_t bytes, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i += 61) p[i] = (uint8_t)(seed + i / 61);
}

static int filled(const uint8_t *p, uint32_t bytes, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i += 61)
        if (p[i] != (uint8_t)(seed + i / 61)) return 0;
    return 1;
}

/* More than the ring holds; waiting for one is waiting for all before it. */
static void many(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    uint8_t *src = space + (thread << 20), *dst = pool.tcm + (thread << 17);
    uint32_t ticket[SMALL];
    (void)user, (void)n;
    for (uint32_t i = 0; i < SMALL; i++) fill(src + i * STEP, BYTES, i + thread);
    for (uint32_t i = 0; i < SMALL; i++) {
        ticket[i] = dma_start_1d(dst + i * STEP, src + i * STEP, BYTES);
        CHECK(i == 0 || ticket[i] == ticket[i - 1] + 1);
        CHECK(isa->thread->dma.started - isa->thread->dma.landed <= NPU_DMA_FLIGHT);
        landed_late += !dma_poll(ticket[i]);
    }
    dma_wait(ticket[SMALL / 2]);
    for (uint32_t i = 0; i <= SMALL / 2; i++) CHECK(filled(dst + i * STEP, BYTES, i + thread));
    dma_wait(ticket[SMALL - 1]);
    for (uint32_t i = 0; i < SMALL; i++) CHECK(filled(dst + i * STEP, BYTES, i + thread) && dma_poll(ticket[i]));
}

/* Rows with gaps on both sides; widths and strides at the limit; the longest single row; both directions. */
static void boxes(struct isa *isa)
{
    static const struct {
        uint32_t width, rows, from, to;
    } shape[] = {{1, 2, 1, 1}, {32, 64, 32, 128}, {128, 33, 65535, 128}, {65535, 2, 65535, 65535}, {2, 65535, 2, 3}};
    uint8_t *src = space, *dst = space + (20 << 20);
    for (uint32_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        for (uint32_t r = 0; r < shape[i].rows; r++) {
            fill(src + r * shape[i].from, shape[i].width, r + i);
            dst[r * shape[i].to + shape[i].width] = 0xa5;
        }
        dma_wait(dma_start_2d(dst, shape[i].to, src, shape[i].from, shape[i].width, shape[i].rows));
        for (uint32_t r = 0; r < shape[i].rows; r++) {
            uint32_t gap = shape[i].from != shape[i].width && shape[i].to > shape[i].width;
            CHECK(filled(dst + r * shape[i].to, shape[i].width, r + i));
            CHECK(!gap || dst[r * shape[i].to + shape[i].width] == 0xa5);
        }
    }
    fill(src, NPU_DMA_1D_MOST, 9);
    dma_wait(dma_start_1d(dst, src, NPU_DMA_1D_MOST));
    CHECK(filled(dst, NPU_DMA_1D_MOST, 9));
    fill(pool.tcm, 4096, 3);
    dma_wait(dma_start_1d(dst, pool.tcm, 4096));
    CHECK(filled(dst, 4096, 3));
}

/* Vector threads are at most `lead` phases before the tile thread, which waits for all of them. */
struct order {
    uint32_t lead, slow, ended[3];
};

static void ordered(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n)
{
    struct order *o = user;
    (void)isa;
    for (uint32_t t = 0; thread == n && t < n; t++) CHECK(__atomic_load_n(&o->ended[t], __ATOMIC_ACQUIRE) >= phase);
    if (thread < n) CHECK(__atomic_load_n(&o->ended[n], __ATOMIC_ACQUIRE) + o->lead >= phase + 1);
    if (thread == o->slow) guest_sleep(2000);
    __atomic_store_n(&o->ended[thread], phase + 1, __ATOMIC_RELEASE);
}

static void phases(struct isa *isa)
{
    enum { PHASES = 7 };
    for (uint32_t i = 0; i < 6; i++) {
        struct order o = {1 + i / 3, i % 3, {0, 0, 0}};
        isa_phases(2, PHASES, o.lead, ordered, &o);
        for (uint32_t t = 0; t < 3; t++) CHECK(o.ended[t] == PHASES);
    }
}

static void lines(void)
{
    const uint32_t at = (uint32_t)(uintptr_t)space;
    box->lines_bytes = 0;
    npu_cache_clean(space + 60, 8);
    CHECK(box->lines_first == at && box->lines_end > at + 64);
}

/* What the compiler calls for (dsp/runtime.c). */
static void divisions(void)
{
    static const volatile uint32_t number[] = {1, 7, 64, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            const uint32_t a = number[i], b = number[j];
            const uint64_t wide = (uint64_t)a << 32 | b;
            volatile uint32_t q = a / b, r = a % b; /* what the compiler knows of quotients is not asked */
            volatile uint64_t long_q = wide / b;
            CHECK(r < b && q * b + r == a && wide - long_q * b < b);
        }
}

static void lead(struct isa *isa, void *user)
{
    (void)user;
    divisions();
    lines();
    phases(isa);
    isa_threads(2, many, 0);
    boxes(isa);
}

int guest_rings(void)
{
    space = guest_map(0, SPACE, 0, -1);
    wrong = landed_late = 0;
    if (npu_tcm_take(&pool)) return __LINE__;
    pool.n = 2, pool.base = space, pool.lead = lead;
    int error = npu_pool_run(&pool);
    npu_tcm_give(&pool);
    return error ? error : !landed_late ? __LINE__ : (int)wrong;
}
