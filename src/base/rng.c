/* SPDX-License-Identifier: MIT */
#include "base/rng.h"

/* Multipliers and Weyl increments of Philox4x32, section 4 of the paper. */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

enum { PHILOX_ROUNDS = 10 };

void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint32_t rng_u32(struct rng_key key, uint32_t counter)
{
    uint32_t block[4];
    rng_philox((uint32_t[4]){counter >> 2, key.position, key.sample, 0},
        (uint32_t[2]){(uint32_t)key.seed, (uint32_t)(key.seed >> 32)}, block);
    return block[counter & 3];
}

float rng_float(struct rng_key key, uint32_t counter)
{
    return (float)(rng_u32(key, counter) >> 8) * 0x1p-24f;
}

double rng_double(struct rng_key key, uint32_t counter)
{
    uint32_t high = rng_u32(key, 2 * counter), low = rng_u32(key, 2 * counter + 1);
    return (double)((uint64_t)(high >> 5) << 26 | low >> 6) * 0x1p-53;
}
