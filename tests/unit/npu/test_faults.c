/* SPDX-License-Identifier: MIT
 *
 * Planted kernel bugs: each must be caught by the emulator with the right name, function and line, and its first fault
 * must be that one.  The same kernels without the bug must run clean.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "npu/dsp/isa.h"
#include "npu/sim/sim.h"

enum { TCM_BYTES = 1 << 20, N_BYTES = 4096 };

/* What every bug gets: two buffers the host wrote (x, and y to be overwritten) and TCM. */
struct place {
    uint8_t *x, *y, *tcm;
};

/* Each returns the line its bug stands on. */

static int misaligned_load(struct isa *isa, const struct place *p)
{
    cache_invalidate(p->x, N_BYTES);
    int line = __LINE__ + 1;
    v_store(p->tcm, v_load(p->x + 64));
    return line;
}

static int misaligned_store(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    v_store(p->tcm + 32, v_zero());
    return line;
}

static int misaligned_scalar(struct isa *isa, const struct place *p)
{
    v_store(p->tcm, v_zero());
    int line = __LINE__ + 1;
    s_store_u32(p->tcm + 128, s_load_u32(p->tcm + 2));
    return line;
}

static int input_not_invalidated(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    v_store(p->tcm, v_load(p->x));
    return line;
}

static int partly_invalidated(struct isa *isa, const struct place *p)
{
    int line = 0;
    cache_invalidate(p->x, N_BYTES - 128);
    for (int i = 0; i < N_BYTES; i += 128) {
        line = __LINE__ + 1;
        v_store(p->tcm + i, v_load(p->x + i));
    }
    return line;
}

static int scalar_tail_on_stale_line(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    s_store_u32(p->y, 1);
    cache_flush(p->y, 4);
    return line;
}

static int output_not_flushed(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    v_store(p->y, v_zero());
    return line;
}

static int invalidated_instead_of_flushed(struct isa *isa, const struct place *p)
{
    v_store(p->y, v_zero());
    int line = __LINE__ + 1;
    cache_invalidate(p->y, 128);
    return line;
}

static int wrong_tail(struct isa *isa, const struct place *p)
{
    int line = 0;
    for (int i = 0; i <= N_BYTES; i += 128) {
        line = __LINE__ + 1;
        v_store(p->y + i, v_zero());
    }
    cache_flush(p->y, N_BYTES);
    return line;
}

static int null_operand(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    v_store(p->tcm, v_load(isa_ptr(0)));
    return line;
}

static int unwritten_tcm(struct isa *isa, const struct place *p)
{
    v_store(p->tcm, v_zero());
    int line = __LINE__ + 1;
    v_store(p->tcm, v_loadu(p->tcm + 4));
    return line;
}

static int dma_not_waited_for(struct isa *isa, const struct place *p)
{
    uint32_t t = dma_start_1d(p->tcm, p->x, N_BYTES);
    int line = __LINE__ + 1;
    v_store(p->tcm + N_BYTES, v_load(p->tcm));
    dma_wait(t);
    return line;
}

static int waits_for_the_wrong_dma(struct isa *isa, const struct place *p)
{
    uint32_t first = dma_start_1d(p->tcm, p->x, 1024);
    uint32_t second = dma_start_1d(p->tcm + 1024, p->x + 1024, 1024);
    dma_wait(first);
    int line = __LINE__ + 1;
    v_store(p->tcm + 2048, v_load(p->tcm + 1024));
    dma_wait(second);
    return line;
}

static int polls_once(struct isa *isa, const struct place *p)
{
    int line = 0;
    for (int i = 0; i < 64 && !line; i++) { /* of 64 DMAs at least one is not done at the first poll */
        uint32_t t = dma_start_1d(p->tcm, p->x, 128);
        if (!dma_poll(t)) {
            line = __LINE__ + 1;
            v_store(p->tcm + 128, v_load(p->tcm));
        }
        dma_wait(t);
    }
    return line;
}

static int buffer_reused_too_early(struct isa *isa, const struct place *p)
{
    for (int i = 0; i < 1024; i += 128) v_store(p->tcm + i, v_zero());
    cache_invalidate(p->y, N_BYTES);
    uint32_t t = dma_start_1d(p->y, p->tcm, 1024);
    int line = __LINE__ + 1;
    v_store(p->tcm + 512, v_zero());
    dma_wait(t);
    return line;
}

static int two_dmas_into_one_buffer(struct isa *isa, const struct place *p)
{
    dma_start_1d(p->tcm, p->x, 1024);
    int line = __LINE__ + 1;
    uint32_t t = dma_start_1d(p->tcm + 896, p->x, 1024);
    dma_wait(t);
    return line;
}

static int dma_left_running(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    dma_start_1d(p->tcm, p->x, 128);
    return line;
}

static int dma_stride_field(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    uint32_t t = dma_start_2d(p->tcm, 1 << 16, p->x, 128, 128, 2);
    dma_wait(t);
    return line;
}

static int dma_of_nothing(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    uint32_t t = dma_start_1d(p->tcm, p->x, 0);
    dma_wait(t);
    return line;
}

static int dma_ring_overrun(struct isa *isa, const struct place *p)
{
    int line = 0;
    uint32_t t = 0;
    for (int i = 0; i <= NPU_SIM_RING; i++) {
        line = __LINE__ + 1;
        t = dma_start_1d(p->tcm + 128 * i, p->x, 128);
    }
    dma_wait(t);
    return line;
}

static int dma_past_the_buffer(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    uint32_t t = dma_start_1d(p->tcm, p->x, N_BYTES + 1);
    dma_wait(t);
    return line;
}

static int dma_of_unflushed_output(struct isa *isa, const struct place *p)
{
    v_store(p->y, v_zero());
    int line = __LINE__ + 1;
    uint32_t t = dma_start_1d(p->tcm, p->y, 128);
    dma_wait(t);
    cache_flush(p->y, 128);
    return line;
}

static int dma_under_a_dirty_line(struct isa *isa, const struct place *p)
{
    v_store(p->tcm, v_zero());
    v_store(p->y, v_zero());
    int line = __LINE__ + 1;
    uint32_t t = dma_start_1d(p->y, p->tcm, 128);
    dma_wait(t);
    cache_flush(p->y, 128);
    return line;
}

static int reads_its_own_dma_from_cache(struct isa *isa, const struct place *p)
{
    cache_invalidate(p->y, 128);
    v_store(p->tcm, v_load(p->y));
    uint32_t t = dma_start_1d(p->y, p->tcm, 128);
    dma_wait(t);
    int line = __LINE__ + 1;
    v_store(p->tcm, v_load(p->y));
    return line;
}

static int gather_from_ddr(struct isa *isa, const struct place *p)
{
    cache_invalidate(p->x, N_BYTES);
    int line = __LINE__ + 1;
    v_gather_h(p->tcm, p->x, N_BYTES, v_zero());
    return line;
}

static int gather_into_ddr(struct isa *isa, const struct place *p)
{
    v_store(p->tcm, v_zero());
    int line = __LINE__ + 1;
    v_gather_h(p->y, p->tcm, 128, v_zero());
    return line;
}

static int gather_region_too_long(struct isa *isa, const struct place *p)
{
    for (int i = 0; i < 65536; i += 128) v_store(p->tcm + i, v_zero());
    int line = __LINE__ + 1;
    v_gather_h(p->tcm + 131072, p->tcm, 65536 + 128, v_zero());
    return line;
}

static int gathers_unwritten_table(struct isa *isa, const struct place *p)
{
    v_store(p->tcm, v_zero());
    int line = __LINE__ + 1;
    v_gather_h(p->tcm + 256, p->tcm, 256, v_splat_h(130));
    return line;
}

static int scatter_to_ddr(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    v_scatter_h(p->y, 128, v_zero(), v_zero());
    return line;
}

static int scatter_without_sync(struct isa *isa, const struct place *p)
{
    v_store(p->tcm, v_zero());
    v_scatter_w(p->tcm, 128, v_zero(), v_zero());
    int line = __LINE__ + 1;
    v_store(p->tcm + 128, v_load(p->tcm));
    return line;
}

static int tile_in_ddr(struct isa *isa, const struct place *p)
{
    for (int i = 0; i < TILE_BYTES; i += 128) v_store(p->tcm + i, v_zero());
    cache_invalidate(p->x, N_BYTES);
    tile_clear();
    int line = __LINE__ + 1;
    tile_mac(p->tcm, isa_ptr((uint32_t)(p->x - isa->base) / 2048 * 2048), 1);
    return line;
}

static int off_by_one_tile(struct isa *isa, const struct place *p)
{
    for (int i = 0; i < 4 * TILE_BYTES; i += 128) v_store(p->tcm + i, v_zero());
    tile_clear();
    int line = __LINE__ + 1;
    tile_mac(p->tcm, p->tcm + 2 * TILE_BYTES, 3);
    return line;
}

static int misaligned_tile(struct isa *isa, const struct place *p)
{
    for (int i = 0; i < 4 * TILE_BYTES; i += 128) v_store(p->tcm + i, v_zero());
    tile_clear();
    int line = __LINE__ + 1;
    tile_mac(p->tcm, p->tcm + 128, 1);
    return line;
}

static int too_many_tiles(struct isa *isa, const struct place *p)
{
    for (int i = 0; i < 33 * TILE_BYTES; i += 128) v_store(p->tcm + i, v_zero());
    tile_clear();
    int line = __LINE__ + 1;
    tile_mac(p->tcm, p->tcm, 33);
    return line;
}

static int accumulator_not_cleared(struct isa *isa, const struct place *p)
{
    for (int i = 0; i < TILE_BYTES; i += 128) v_store(p->tcm + i, v_zero());
    int line = __LINE__ + 1;
    tile_mac(p->tcm, p->tcm, 1);
    return line;
}

static int stored_qfloat(struct isa *isa, const struct place *p)
{
    vec one = v_splat_h(0x3c00);
    int line = __LINE__ + 1;
    v_store(p->tcm, q16_mul(one, one));
    return line;
}

static int qfloat_as_gather_index(struct isa *isa, const struct place *p)
{
    v_store(p->tcm, v_zero());
    vec one = v_splat_h(0);
    int line = __LINE__ + 1;
    v_gather_h(p->tcm + 128, p->tcm, 128, q16_sub(one, one));
    return line;
}

static int qfloat_shifted(struct isa *isa, const struct place *p)
{
    vec one = v_splat_h(0x3c00), q = q16_add(one, one);
    int line = __LINE__ + 1;
    v_store(p->tcm, v_asl_h(q, 1));
    return line;
}

static int wrong_qfloat_form(struct isa *isa, const struct place *p)
{
    vec one = v_splat_w(0x3f800000), q = q32_add(one, one);
    int line = __LINE__ + 1;
    v_store(p->tcm, f32_mul(q, one));
    return line;
}

static int full_mask_of_128(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    v_store_if(m_first(128), p->tcm, v_zero());
    return line;
}

static int shift_by_eight(struct isa *isa, const struct place *p)
{
    int line = __LINE__ + 1;
    v_store(p->tcm, v_lsr_ub(v_zero(), 8));
    return line;
}

struct bug {
    const char *name;
    int (*run)(struct isa *, const struct place *);
    enum npu_sim_fault_kind kind;
};

#define BUG(name, kind)                                                                                                \
    {                                                                                                                  \
#name, name, NPU_SIM_##kind                                                                                    \
    }
static const struct bug bugs[] = {
    BUG(misaligned_load, MISALIGNED),
    BUG(misaligned_store, MISALIGNED),
    BUG(misaligned_scalar, MISALIGNED),
    BUG(input_not_invalidated, STALE_READ),
    BUG(partly_invalidated, STALE_READ),
    BUG(scalar_tail_on_stale_line, STALE_MERGE),
    BUG(output_not_flushed, NOT_FLUSHED),
    BUG(invalidated_instead_of_flushed, LOST_WRITE),
    BUG(wrong_tail, OUT_OF_BOUNDS),
    BUG(null_operand, OUT_OF_BOUNDS),
    BUG(unwritten_tcm, UNINITIALIZED),
    BUG(dma_not_waited_for, DMA_NOT_WAITED),
    BUG(waits_for_the_wrong_dma, DMA_NOT_WAITED),
    BUG(polls_once, DMA_NOT_WAITED),
    BUG(buffer_reused_too_early, DMA_OVERWRITE),
    BUG(two_dmas_into_one_buffer, DMA_OVERWRITE),
    BUG(dma_left_running, DMA_LEFT),
    BUG(dma_stride_field, DMA_FIELD),
    BUG(dma_of_nothing, DMA_FIELD),
    BUG(dma_ring_overrun, DMA_RING),
    BUG(dma_past_the_buffer, OUT_OF_BOUNDS),
    BUG(dma_of_unflushed_output, DMA_STALE_SOURCE),
    BUG(dma_under_a_dirty_line, DMA_DIRTY_TARGET),
    BUG(reads_its_own_dma_from_cache, STALE_READ),
    BUG(gather_from_ddr, NOT_TCM),
    BUG(gather_into_ddr, NOT_TCM),
    BUG(gather_region_too_long, GATHER_LENGTH),
    BUG(gathers_unwritten_table, UNINITIALIZED),
    BUG(scatter_to_ddr, NOT_TCM),
    BUG(scatter_without_sync, SCATTER_OPEN),
    BUG(tile_in_ddr, NOT_TCM),
    BUG(off_by_one_tile, UNINITIALIZED),
    BUG(misaligned_tile, MISALIGNED),
    BUG(too_many_tiles, TILE_COUNT),
    BUG(accumulator_not_cleared, TILE_UNSET),
    BUG(stored_qfloat, QFLOAT_STORED),
    BUG(qfloat_as_gather_index, QFLOAT_AS_BITS),
    BUG(qfloat_shifted, QFLOAT_AS_BITS),
    BUG(wrong_qfloat_form, QFLOAT_AS_FLOAT),
    BUG(full_mask_of_128, BAD_OPERAND),
    BUG(shift_by_eight, BAD_OPERAND),
};

struct bench {
    struct npu_sim *sim;
    struct place place;
    uint32_t x, y;
};

static void set_up(struct bench *b, uint64_t seed)
{
    struct npu_sim_settings s = {.tcm_bytes = TCM_BYTES, .ddr_bytes = 1 << 20, .seed = seed};
    assert_int_equal(npu_sim_open(&b->sim, &s, NULL), 0);
    struct isa *isa = npu_sim_isa(b->sim);
    b->x = npu_sim_buffer(b->sim, N_BYTES);
    b->y = npu_sim_buffer(b->sim, N_BYTES);
    assert_true(b->x && b->y);
    for (int i = 0; i < N_BYTES; i++) ((uint8_t *)npu_sim_host(b->sim, b->x))[i] = (uint8_t)(i * 7);
    npu_sim_host_wrote(b->sim, b->x, N_BYTES);
    npu_sim_host_wrote(b->sim, b->y, N_BYTES);
    b->place = (struct place){isa_ptr(b->x), isa_ptr(b->y), isa_ptr(NPU_SIM_BOX_BYTES)};
}

static void every_bug_is_caught_by_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        struct bench b;
        size_t n;
        set_up(&b, i + 1);
        int line = bugs[i].run(npu_sim_isa(b.sim), &b.place);
        npu_sim_host_reads(b.sim, b.y, N_BYTES);
        npu_sim_end(b.sim, 0);
        const struct npu_sim_fault *f = npu_sim_faults(b.sim, &n);
        if (!n || f->kind != bugs[i].kind || strcmp(f->kernel, bugs[i].name) || f->line != line)
            fail_msg("%s line %d: wanted %s, got %s in %s line %d", bugs[i].name, line,
                npu_sim_fault_name(bugs[i].kind), n ? npu_sim_fault_name(f->kind) : "nothing", n ? f->kernel : "-",
                n ? f->line : 0);
        npu_sim_close(&b.sim);
    }
}

/* ---- threads of a section ---- */

static void write_one_area(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct place *p = user;
    (void)thread, (void)n;
    v_store(p->tcm, v_zero());
}

/* Thread 0 makes what thread 1 reads: right only if it happens to come first. */
static void read_without_waiting(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct place *p = user;
    (void)n;
    if (thread == 0) v_store(p->tcm, v_zero());
    if (thread == 1) v_store(p->tcm + 128, v_load(p->tcm));
}

static void write_one_line(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct place *p = user;
    (void)thread, (void)n;
    v_store(p->y, v_zero());
}

/* Words of one line: the NPU's threads share a cache. */
static void write_words(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct place *p = user;
    (void)n;
    s_store_u32(p->y + 4 * thread, thread);
}

static void leave_a_dma(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct place *p = user;
    (void)n;
    dma_start_1d(p->tcm + 128 * thread, p->x, 128);
}

static void keep_apart(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct place *p = user;
    dma_wait(dma_start_1d(p->tcm + 256 * thread, p->x, 128));
    v_store(p->tcm + 256 * thread + 128, v_load(p->tcm + 256 * thread));
    (void)n;
}

static void threads_that_meet_are_caught(void **state)
{
    (void)state;
    static const struct {
        isa_thread *run;
        const char *name;
        int kind; /* -1: none */
    } cases[] = {{write_one_area, "write_one_area", NPU_SIM_THREAD_RACE},
        {read_without_waiting, "read_without_waiting", NPU_SIM_THREAD_RACE},
        {write_one_line, "write_one_line", NPU_SIM_THREAD_RACE}, {write_words, "write_words", -1},
        {leave_a_dma, "leave_a_dma", NPU_SIM_DMA_LEFT}, {keep_apart, "keep_apart", -1}};
    for (int i = 0; i < 6; i++)
        for (uint64_t seed = 1; seed < 20; seed++) {
            struct bench b;
            size_t n;
            set_up(&b, seed);
            struct isa *isa = npu_sim_isa(b.sim);
            v_store(b.place.tcm, v_zero()); /* before the section: anybody may read it */
            cache_invalidate(b.place.y, N_BYTES);
            isa_threads(4, cases[i].run, &b.place);
            npu_sim_end(b.sim, 0);
            const struct npu_sim_fault *f = npu_sim_faults(b.sim, &n);
            /* A reader that comes first reads old bytes, as on silicon: then the writer is the one that is caught. */
            assert_int_equal(n > 0, cases[i].kind >= 0);
            if (n) assert_int_equal((int)f->kind, cases[i].kind);
            if (n) assert_string_equal(f->kernel, cases[i].name);
            npu_sim_close(&b.sim);
        }
}

/* ---- phases: what one thread has made the others see in the next ---- */

struct relay {
    const struct place *place;
    uint32_t lead, ticket;
};

static void hand_over(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n)
{
    struct relay *r = user;
    uint8_t *tcm = r->place->tcm;
    if (phase == 0 && thread == 0) r->ticket = dma_start_1d(tcm, r->place->x, 128);
    if (phase == 1 && thread == 0) dma_wait(r->ticket);
    if (phase == 2 + r->lead && thread < n) v_store(tcm + 128 + 128 * thread, v_load(tcm));
    if (phase == 2 && thread == n) tile_clear(), tile_store(tcm + 4096);
    if (phase == 2 + r->lead && thread < n) v_load(tcm + 4096);
}

/* Another may still be `lead` phases before. */
static void read_a_phase_early(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n)
{
    struct relay *r = user;
    uint8_t *tcm = r->place->tcm;
    (void)n;
    if (phase == 0 && thread == 0) r->ticket = dma_start_1d(tcm, r->place->x, 128);
    if (phase == 1 && thread == 0) dma_wait(r->ticket);
    if (phase == 1 + r->lead && thread == 1) v_store(tcm + 4096, v_load(tcm));
}

static void write_a_phase_early(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n)
{
    struct relay *r = user;
    uint8_t *tcm = r->place->tcm;
    (void)n;
    if (phase == 1 && thread == 0) v_store(tcm + 4096, v_load(tcm));
    if (phase == 1 + r->lead && thread == 1) v_store(tcm, v_zero());
}

/* And the tile thread in a phase less far before. */
static void read_tiles_early(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n)
{
    struct relay *r = user;
    uint8_t *tcm = r->place->tcm;
    if (phase == 1 && thread == n) tile_clear(), tile_store(tcm + 4096);
    if (phase == r->lead && thread < n) v_load(tcm + 4096);
}

static void wait_for_another(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n)
{
    struct relay *r = user;
    (void)n;
    if (phase == 0 && thread == 0) r->ticket = dma_start_1d(r->place->tcm, r->place->x, 128);
    if (phase == 1 && thread == 1) dma_wait(r->ticket);
    if (phase == 2 && thread == 0) dma_wait(r->ticket);
}

/* Landed, but known to thread 0 alone until all have met. */
static void read_too_early(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n)
{
    struct relay *r = user;
    uint8_t *tcm = r->place->tcm;
    (void)n;
    if (phase == 0 && thread == 0) dma_wait(dma_start_1d(tcm, r->place->x, 128));
    if (phase == 0 && thread == 1) v_store(tcm + 4096, v_load(tcm));
}

static void phases_hand_over(void **state)
{
    (void)state;
    static const struct {
        isa_phase *run;
        const char *name;
        int kind; /* -1: none */
    } cases[] = {{hand_over, "hand_over", -1}, {wait_for_another, "wait_for_another", NPU_SIM_DMA_FOREIGN},
        {read_too_early, "read_too_early", NPU_SIM_THREAD_RACE},
        {read_a_phase_early, "read_a_phase_early", NPU_SIM_THREAD_RACE},
        {write_a_phase_early, "write_a_phase_early", NPU_SIM_THREAD_RACE},
        {read_tiles_early, "read_tiles_early", NPU_SIM_THREAD_RACE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t seed = 1; seed < 20; seed++) {
            struct bench b;
            size_t n;
            set_up(&b, seed);
            struct isa *isa = npu_sim_isa(b.sim);
            struct relay relay = {&b.place, 1 + (uint32_t)seed % 2, 0};
            v_store(b.place.tcm, v_zero());
            v_store(b.place.tcm + 4096, v_zero());
            isa_phases(3, 5, relay.lead, cases[i].run, &relay);
            npu_sim_end(b.sim, 0);
            const struct npu_sim_fault *f = npu_sim_faults(b.sim, &n);
            assert_int_equal(n > 0, cases[i].kind >= 0);
            if (n) assert_int_equal((int)f->kind, cases[i].kind);
            if (n) assert_string_equal(f->kernel, cases[i].name);
            npu_sim_close(&b.sim);
        }
}

/* The careful way through all of it: not one fault. */
static void careful(struct isa *isa, const struct place *p)
{
    uint32_t t = dma_start_2d(p->tcm, 256, p->x, 128, 128, 8), u = dma_start_1d(p->tcm + 4096, p->x, N_BYTES);
    while (!dma_poll(t)) {
    }
    cache_invalidate(p->x, N_BYTES);
    for (int i = 0; i < 8; i++) v_store(p->tcm + 256 * i + 128, v_load(p->tcm + 256 * i));
    dma_wait(u);
    tile_clear();
    tile_mac(p->tcm, p->tcm + 4096, 1);
    tile_store(p->tcm + 8192);
    v_gather_h(p->tcm + 16384, p->tcm, 256, v_lsr_uh(v_load(p->x), 9));
    v_scatter_h(p->tcm, 256, v_splat_h(4), v_load(p->x));
    scatter_sync(p->tcm);
    vec one = v_splat_h(0x3c00);
    v_store(p->y, f16_add(f16_mul(one, one), v_load(p->tcm)));
    v_store(p->y + 128, v_load(p->tcm + 16384));
    cache_flush(p->y, 256);
    cache_invalidate(p->y, N_BYTES);
    u = dma_start_1d(p->y + 256, p->tcm + 8192, TILE_BYTES);
    dma_wait(u);
}

static void careful_code_runs_clean(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct bench b;
        size_t n;
        set_up(&b, seed);
        careful(npu_sim_isa(b.sim), &b.place);
        npu_sim_host_reads(b.sim, b.y, N_BYTES);
        npu_sim_end(b.sim, 0);
        const struct npu_sim_fault *f = npu_sim_faults(b.sim, &n);
        if (n) fail_msg("%s in %s line %d", npu_sim_fault_name(f->kind), f->kernel, f->line);
        npu_sim_close(&b.sim);
    }
}

static void wrong_values_reach_the_host(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 3);
    struct isa *isa = npu_sim_isa(b.sim);
    uint8_t *host = npu_sim_host(b.sim, b.y);
    memset(host, 1, N_BYTES);
    v_store(b.place.y, v_zero());
    assert_int_equal(host[0], 1); /* in the NPU's cache only */
    cache_flush(b.place.y, 128);
    assert_int_equal(host[0], 0);
    host[0] = 9;
    npu_sim_host_wrote(b.sim, b.y, 1);
    assert_int_equal(s_load_u32(b.place.y), 0); /* stale */
    cache_invalidate(b.place.y, 1);
    assert_int_equal(s_load_u32(b.place.y), 9);
    npu_sim_close(&b.sim);
}

static void conflicting_scatters_land_in_any_order(void **state)
{
    (void)state;
    int seen[2] = {0};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct bench b;
        set_up(&b, seed);
        struct isa *isa = npu_sim_isa(b.sim);
        vec v = v_mux(m_first(64), v_splat_h(1), v_splat_h(2));
        v_store(b.place.tcm, v_zero());
        v_scatter_h(b.place.tcm, 128, v_zero(), v);
        scatter_sync(b.place.tcm);
        seen[(s_load_u32(b.place.tcm) & 0xffff) == 2] = 1;
        npu_sim_close(&b.sim);
    }
    assert_true(seen[0] && seen[1]);
}

static void lanes_out_of_range_are_dropped(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 3);
    struct isa *isa = npu_sim_isa(b.sim);
    v_store(b.place.tcm, v_splat_h(7));
    v_store(b.place.tcm + 128, v_splat_h(5));
    v_gather_h(b.place.tcm + 128, b.place.tcm, 64, v_mux(m_first(4), v_splat_h(62), v_splat_h(64)));
    vec r = v_load(b.place.tcm + 128);
    assert_int_equal(r.uh[0], 7);
    assert_int_equal(r.uh[1], 7);
    assert_int_equal(r.uh[2], 5);
    npu_sim_close(&b.sim);
}

static void settings_are_checked(void **state)
{
    (void)state;
    struct npu_sim *sim;
    struct lutra_error err;
    struct npu_sim_settings bad[] = {{.tcm_bytes = 0, .ddr_bytes = 128}, {.tcm_bytes = 65537, .ddr_bytes = 128},
        {.tcm_bytes = 65536, .ddr_bytes = 1}, {.tcm_bytes = 65536, .ddr_bytes = 0xffffff80u},
        {.tcm_bytes = 65536, .ddr_bytes = 128, .dma_size_bits = 3}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(npu_sim_open(&sim, &bad[i], &err), LUTRA_E_ARGUMENT);
        assert_null(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bug_is_caught_by_its_name),
        cmocka_unit_test(threads_that_meet_are_caught),
        cmocka_unit_test(phases_hand_over),
        cmocka_unit_test(careful_code_runs_clean),
        cmocka_unit_test(wrong_values_reach_the_host),
        cmocka_unit_test(conflicting_scatters_land_in_any_order),
        cmocka_unit_test(lanes_out_of_range_are_dropped),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
