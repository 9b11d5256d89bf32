/* SPDX-License-Identifier: MIT
 *
 * Nothing after sampler_open() allocates: malloc and its relatives are replaced by counting ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "decode/sample/sampler.h"

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);

static int n_alloc;

#ifndef __SANITIZE_ADDRESS__
void *malloc(size_t n)
{
    n_alloc++;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    n_alloc++;
    return __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
    n_alloc++;
    return __libc_realloc(p, n);
}
#endif

static void nothing_after_open_allocates(void **state)
{
    (void)state;
    enum { V = 30000, SEQS = 16 };
    static float row[V];
    static struct sample_bias bias[4] = {{1, 1}, {2, -1}, {3, 0.5f}, {4, -0.5f}};
    for (uint32_t i = 0; i < V; i++) row[i] = 4 * rng_float((struct rng_key){.seed = 3}, i);
    struct sampler *s;
    assert_int_equal(sampler_open(&s, &(struct sampler_limits){V, SEQS, 512, 4, 1}, NULL), 0);
    int before = n_alloc;
#ifndef __SANITIZE_ADDRESS__
    assert_true(before > 0); /* the counter works */
#endif
    const int ks[] = {0, 40, 5000};
    const float ps[] = {0.5f, 0.95f, 1};
    for (int round = 0; round < 9; round++) {
        struct sample_settings set = sample_settings_default();
        set.top_k = ks[round % 3];
        set.top_p = ps[round / 3];
        set.repeat_penalty = 1.1f;
        set.penalty_last_n = -1;
        if (round % 2) set.dry_multiplier = 1, set.typical_p = 0.9f, set.dynatemp_range = 0.3f;
        if (round == 8) set.mirostat = 2, set.dynatemp_range = 0;
        set.bias = bias;
        set.n_bias = 4;
        int bad = sampler_init_sequence(s, 0, &set, 0, NULL);
        for (int q = 1; q < SEQS; q++) sampler_fork(s, q, 0, (uint32_t)q);
        for (int q = 0; q < SEQS; q++) {
            struct sample_pick pick;
            struct row_result result = {.logits = row};
            bad |= sampler_pick(s, q, 0, &result, 5, &pick, NULL);
            sampler_accept(s, q, pick.token);
        }
        int counted = n_alloc - before;
        assert_int_equal(bad, 0);
        assert_int_equal(counted, 0);
    }
    sampler_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_after_open_allocates)};
    return cmocka_run_group_tests_name("decode/alloc", tests, NULL, NULL);
}
