/* SPDX-License-Identifier: MIT
 *
 * A fast 64-bit hash that notices damage: changed, zeroed, moved or missing bytes.  Not cryptographic: it does not
 * resist those who want two inputs to collide.  The same value on every machine: packed files keep it
 * (docs/FORMATS.md).
 */
#ifndef LUTRA_BASE_HASH_H
#define LUTRA_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Two inputs that differ in one aligned 8-byte word never have the same hash, others with a chance of about 2^-64. */
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t n_bytes);

/* The hash of something large, for several threads: the sum, modulo 2^64, over its parts 0, 1, ... of HASH_PART bytes
 * (the last one shorter), in any order.  A part fits into a core's L2 cache: what was just copied is hashed from
 * there. */
enum { HASH_PART = 256 << 10 };
uint64_t hash_part(const void *bytes, size_t n_bytes, size_t part);
uint64_t hash_parts(const void *bytes, size_t n_bytes);

#endif
