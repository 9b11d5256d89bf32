/* SPDX-License-Identifier: MIT
 *
 * Which experts are packed, what a pass that was cancelled leaves, and which are read ahead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/cpuinfo.h"
#include "cpu/device.h"
#include "cpu/expert_cache.h"

enum { N_EXPERT = 8, N_OUT = 32, N_IN = 64, BYTES = N_OUT * N_IN * 4 };

struct fixture {
    struct cpu_kernels kernels;
    struct pool *pool;
    float *source;
    struct weight weight;
    struct expert_cache *cache;
    uint8_t scratch[BYTES];
};

static struct fixture *open_cache(int n_packed)
{
    struct lutra_error err;
    struct fixture *f = calloc(1, sizeof *f);
    cpu_kernels_init(&f->kernels, cpu_isa());
    assert_int_equal(pool_open(&f->pool, &(struct pool_settings){.n_thread = 2}, &err), 0);
    f->source = mmap(NULL, N_EXPERT * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* as a file */
    assert_true(f->source != MAP_FAILED);
    for (int i = 0; i < N_EXPERT * N_OUT * N_IN; i++) f->source[i] = (float)i;
    f->weight = (struct weight){.tensor = {.name = "experts",
                                    .type = QUANT_F32,
                                    .n_dim = 2,
                                    .ne = {N_IN, N_EXPERT * N_OUT, 1, 1},
                                    .data = f->source,
                                    .bytes = N_EXPERT * BYTES},
        .n_expert = N_EXPERT,
        .n_packed = n_packed};
    const struct cpu_gemm *gemm = &f->kernels.gemm[QUANT_F32];
    assert_int_equal(expert_cache_open(&f->cache, gemm, &f->weight, NULL, f->pool, &err), 0);
    return f;
}

static void close_cache(struct fixture *f)
{
    expert_cache_close(&f->cache);
    pool_close(&f->pool);
    munmap(f->source, N_EXPERT * BYTES);
    free(f);
}

/* A pass over experts that are bits of `used`: packs as a pass does, and compares every panel with a whole packing. */
static void pass(struct fixture *f, unsigned used)
{
    struct expert_cache *c = f->cache;
    int32_t start[N_EXPERT + 1] = {0};
    uint8_t *whole = aligned_alloc(64, c->place_bytes);
    for (int e = 0; e < N_EXPERT; e++) start[e + 1] = start[e] + (int)(used >> e & 1);
    expert_cache_begin(c, start);
    expert_cache_end(c);
    for (int e = 0; e < N_EXPERT; e++) {
        if (!(used >> e & 1)) continue;
        memset(whole, 0, c->place_bytes);
        c->gemm->pack(c->gemm, c->source + (size_t)e * c->source_bytes, c->n_out, c->n_in, 0, c->panels, whole);
        size_t panel_bytes = c->place_bytes / c->panels;
        for (size_t p = 0; p < c->panels; p++) {
            struct cpu_gemm_args a = {.gemm = c->gemm};
            expert_cache_at(c, e, p, 1, f->scratch, &a);
            assert_memory_equal(
                (const uint8_t *)a.packed + a.panel * panel_bytes, whole + p * panel_bytes, panel_bytes);
            assert_int_equal(a.packed == f->scratch, c->place_of[e] < 0);
        }
    }
    free(whole);
}

static unsigned packed(const struct fixture *f)
{
    unsigned set = 0;
    for (int e = 0; e < N_EXPERT; e++) set |= (unsigned)(f->cache->place_of[e] >= 0) << e;
    return set;
}

static void those_used_most_are_packed(void **state)
{
    struct fixture *f = open_cache(2);
    (void)state;
    assert_int_equal(packed(f), 1 << 0 | 1 << 1);
    pass(f, 1 << 5); /* nobody has used 0 and 1 */
    assert_int_equal(packed(f) & 1 << 5, 1 << 5);
    for (int i = 0; i < 20; i++) pass(f, 1 << 5 | 1 << 6);
    assert_int_equal(packed(f), 1 << 5 | 1 << 6);
    for (int i = 0; i < 20; i++) pass(f, 1 << (i % 5)); /* less often each */
    assert_int_equal(packed(f), 1 << 5 | 1 << 6);
    for (int i = 0; i < 40; i++) pass(f, 1 << 7);
    assert_int_equal(packed(f) & 1 << 7, 1 << 7);
    close_cache(f);
}

static void equals_do_not_take_turns(void **state)
{
    struct fixture *f = open_cache(2);
    (void)state;
    for (int i = 0; i < 400; i++) pass(f, 1 << (i % 4));
    assert_true(f->cache->n_pack <= 4);
    close_cache(f);
}

/* Used all at once, an expert has no place to take. */
static void a_pass_of_all_experts_changes_nothing(void **state)
{
    struct fixture *f = open_cache(3);
    (void)state;
    for (int i = 0; i < 5; i++) pass(f, 0xff);
    assert_int_equal(packed(f), 7);
    assert_int_equal(f->cache->n_pack, 0);
    assert_int_equal(f->cache->n_use, 5 * N_EXPERT);
    assert_int_equal(f->cache->n_hit, 5 * 3);
    close_cache(f);
}

static void what_a_cancelled_pass_began_is_packed_again(void **state)
{
    struct fixture *f = open_cache(1);
    int32_t start[N_EXPERT + 1] = {0, 0, 0, 0, 1, 1, 1, 1, 1};
    (void)state;
    expert_cache_begin(f->cache, start); /* of expert 3; its threads did not meet: nothing was packed */
    assert_int_equal(packed(f), 1 << 3);
    pass(f, 1 << 3); /* which compares bytes */
    assert_int_equal(packed(f), 1 << 3);
    assert_int_equal(f->cache->n_pack, 2);
    pass(f, 1 << 2 | 1 << 3);
    assert_int_equal(packed(f), 1 << 3);
    close_cache(f);
}

static void what_followed_is_likely(void **state)
{
    struct fixture *f = open_cache(1);                           /* expert 0 */
    const int32_t before[] = {1, 2, 1, 3}, now[] = {4, 5, 4, 0}; /* two rows */
    struct expert_cache *c = f->cache;
    (void)state;
    for (int i = 0; i < 3; i++) expert_cache_learn(c, before, 2, now, 2, 2);
    expert_cache_likely(c, (const int32_t[]){1}, 1, 2);
    for (int e = 0; e < N_EXPERT; e++) assert_int_equal(c->likely[e], e == 4 || e == 0 ? e == 4 : 0);
    assert_int_equal(c->n_ahead, 1); /* 0 is packed; 4 followed twice as often as 5 */
    pass(f, 1 << 4 | 1 << 5);
    assert_int_equal(c->n_ahead_used, 1);
    expert_cache_likely(c, (const int32_t[]){2, 3}, 2, N_EXPERT);
    for (int e = 0; e < N_EXPERT; e++)
        assert_int_equal(c->likely[e], (e == 0 || e == 4 || e == 5) && c->place_of[e] < 0);
    pass(f, 0);
    for (int i = 0; i < 1000; i++) expert_cache_learn(c, before, 2, now, 2, 2); /* counts do not run over */
    assert_true(c->follows[1 * N_EXPERT + 4] > c->follows[1 * N_EXPERT + 5]);
    assert_true(c->follows[1 * N_EXPERT + 5] > 20);
    expert_cache_likely(c, NULL, 0, 1); /* a prompt: all */
    for (int e = 0; e < N_EXPERT; e++) assert_int_equal(c->likely[e], c->place_of[e] < 0);
    close_cache(f);
}

/* Pages that are in memory. */
static size_t resident(const void *data, size_t bytes)
{
    size_t n = 0, pages = bytes / 4096;
    unsigned char in[256];
    assert_true(pages <= sizeof in);
    assert_int_equal(mincore((void *)(uintptr_t)data, bytes, in), 0);
    for (size_t i = 0; i < pages; i++) n += in[i] & 1;
    return n;
}

/* A source that is a copy in memory goes as it is packed: both are never there as a whole. */
static void a_source_goes_as_it_is_packed(void **state)
{
    struct lutra_error err;
    struct pool *pool;
    struct device *cpu;
    bool keeps = true;
    (void)state;
    for (int n_expert = 0; n_expert <= N_EXPERT; n_expert += N_EXPERT) {
        uint8_t *source =
            mmap(NULL, N_EXPERT * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        struct weight w = {.tensor = {.name = "w",
                               .type = QUANT_F32,
                               .n_dim = 2,
                               .ne = {N_IN, N_EXPERT * N_OUT, 1, 1},
                               .data = source,
                               .bytes = N_EXPERT * BYTES},
            .use = WEIGHT_MATMUL,
            .n_expert = n_expert,
            .n_packed = n_expert};
        memset(source, 1, N_EXPERT * BYTES);
        assert_int_equal(pool_open(&pool, &(struct pool_settings){.n_thread = 2}, &err), 0);
        assert_int_equal(cpu_device_open(&cpu, pool, &(struct cpu_device_settings){.isa = cpu_isa()}, &err), 0);
        assert_int_equal(cpu->ops->prepare(cpu, &w, &keeps, &err), 0);
        assert_false(keeps);
        assert_int_equal(resident(source, N_EXPERT * BYTES), n_expert ? 0 : N_EXPERT * BYTES / 4096);
        cpu->ops->release(cpu, &w);
        cpu->ops->close(cpu);
        pool_close(&pool);
        munmap(source, N_EXPERT * BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(those_used_most_are_packed),
        cmocka_unit_test(equals_do_not_take_turns), cmocka_unit_test(a_pass_of_all_experts_changes_nothing),
        cmocka_unit_test(what_a_cancelled_pass_began_is_packed_again), cmocka_unit_test(what_followed_is_likely),
        cmocka_unit_test(a_source_goes_as_it_is_packed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
