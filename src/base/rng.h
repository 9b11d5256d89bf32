/* SPDX-License-Identifier: MIT
 *
 * Random numbers as a pure function of (seed, sample, position, counter): no state to carry, fork or restore.
 *
 *     float u = rng_float((struct rng_key){seed, sample, position}, 0);
 *
 * Two samples of a prompt, or two draft paths that reach the same position, can be evaluated in any order and on any
 * thread and draw the same numbers.  Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
 * 1, 2, 3; SC 2011).  Pure; any thread; allocates nothing.
 */
#ifndef LUTRA_BASE_RNG_H
#define LUTRA_BASE_RNG_H

#include <stdint.h>

struct rng_key {
    uint64_t seed;
    uint32_t sample;   /* which of the N samples of a prompt, or any stream number */
    uint32_t position; /* of the token in its sequence */
};

/* One block: ten rounds on a 128-bit counter under a 64-bit key. */
void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The counter-th number of this key; four consecutive counters share one block. */
uint32_t rng_u32(struct rng_key key, uint32_t counter);

/* In [0, 1): a multiple of 2^-24. */
float rng_float(struct rng_key key, uint32_t counter);

/* In [0, 1): a multiple of 2^-53, from the numbers 2 x counter and 2 x counter + 1 of rng_u32; counter < 2^31. */
double rng_double(struct rng_key key, uint32_t counter);

#endif
