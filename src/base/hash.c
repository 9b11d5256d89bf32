/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <string.h>

enum { LANES = 8, STRIPE = 8 * LANES };

static uint64_t word_at(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* For a given h a bijection of x, and the other way round: a lane forgets nothing.  The rotation takes high bits down,
 * which a product alone does not: two flips of bit 63 would cancel. */
static uint64_t step(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h << 29 | h >> 35;
}

/* Eight lanes hide the latency of their products. */
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t n_bytes)
{
    const uint8_t *p = bytes;
    uint64_t lane[LANES], h = step(seed, n_bytes);
    uint8_t rest[STRIPE] = {0};
    for (int i = 0; i < LANES; i++) lane[i] = step(seed, (uint64_t)i + 1);
    size_t n = n_bytes;
    for (; n >= STRIPE; n -= STRIPE, p += STRIPE)
        for (int i = 0; i < LANES; i++) lane[i] = step(lane[i], word_at(p + 8 * i));
    if (n) memcpy(rest, p, n);
    for (int i = 0; i < LANES; i++) h = step(h, step(lane[i], word_at(rest + 8 * i)));
    return step(h ^ h >> 32, 0);
}

uint64_t hash_part(const void *bytes, size_t n_bytes, size_t part)
{
    size_t at = part * HASH_PART, n = n_bytes - at < HASH_PART ? n_bytes - at : HASH_PART;
    return hash_bytes(part, (const uint8_t *)bytes + at, n);
}

uint64_t hash_parts(const void *bytes, size_t n_bytes)
{
    uint64_t sum = 0;
    for (size_t part = 0; part * HASH_PART < n_bytes; part++) sum += hash_part(bytes, n_bytes, part);
    return sum;
}
