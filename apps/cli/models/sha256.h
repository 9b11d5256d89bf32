/* SPDX-License-Identifier: MIT
 *
 * SHA-256 (FIPS 180-4), for whether a file is the one that was announced.  A page of C, so that no cryptographic library is needed.
 */
#ifndef LUTRA_CLI_MODELS_SHA256_H
#define LUTRA_CLI_MODELS_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    uint8_t block[64];
};

enum { SHA256_HEX = 64 };

void sha256_begin(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *bytes, size_t n);
/* Lower-case digits and a NUL; h is used up. */
void sha256_end(struct sha256 *h, char hex[SHA256_HEX + 1]);

#endif
