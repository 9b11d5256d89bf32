/* SPDX-License-Identifier: MIT */
#include "make/make_impl.h"

#include "base/rng.h"
#include "base/status.h"
#include "quant/quant.h"

#include <stdlib.h>

/* 12 uniforms of 16 bits: variance 1 after the shift by the mean, range +-6.  Six Philox words per number. */
void make_normals(uint64_t seed, uint32_t stream, uint64_t first, float *x, size_t n)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, counter[4] = {0, 0, stream, 0}, word[12], sum[2];
    for (size_t i = 0; i < n; i += 2) {
        counter[0] = (uint32_t)(first + i), counter[1] = (uint32_t)((first + i) >> 32);
        for (counter[3] = 0; counter[3] < 3; counter[3]++) rng_philox(counter, key, word + 4 * counter[3]);
        sum[0] = sum[1] = 0;
        for (int k = 0; k < 12; k++) sum[k / 6] += (word[k] & 0xffff) + (word[k] >> 16);
        for (size_t k = 0; k < 2 && i + k < n; k++)
            x[i + k] = ((float)sum[k] + 6.0f) * (1.0f / 65536) - 6.0f; /* each uniform is (u + 0.5) / 65536 */
    }
}

int make_pool_open(struct make_pool *pool, uint64_t seed, float deviation, enum quant_type type)
{
    const struct quant_info *q = quant_info_of(type);
    size_t bytes;
    *pool = (struct make_pool){.deviation = deviation, .type = type};
    TRY(quant_row_bytes(type, POOL_ELEMS, &bytes));
    pool->f32 = malloc(POOL_ELEMS * sizeof *pool->f32);
    pool->raw = malloc(bytes);
    if (!pool->f32 || !pool->raw) {
        make_pool_close(pool);
        return LUTRA_E_NO_MEMORY;
    }
    if (!quant_plain(type)) {
        quant_random_blocks(q, seed, deviation, pool->raw, POOL_ELEMS);
        q->dequantize(pool->raw, pool->f32, POOL_ELEMS);
        return 0;
    }
    make_normals(seed, 0, 0, pool->f32, POOL_ELEMS);
    for (size_t i = 0; i < POOL_ELEMS; i++) pool->f32[i] *= deviation;
    quant_plain(type)(pool->f32, pool->raw, POOL_ELEMS);
    return 0;
}

void make_pool_close(struct make_pool *pool)
{
    free(pool->f32);
    free(pool->raw);
    *pool = (struct make_pool){0};
}

/* splitmix64's finalizer over the three numbers. */
uint32_t make_pool_pick(uint64_t seed, uint32_t tensor, uint64_t at)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u * (at + 1) + ((uint64_t)tensor << 40);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) % POOL_RUNS);
}
