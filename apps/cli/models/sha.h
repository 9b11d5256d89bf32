/* SPDX-License-Identifier: MIT
 *
 * SHA-256 and SHA-1 (FIPS 180-4), for whether a file is the one that was announced.  A page of C, so that no
 * cryptographic library is needed.
 */
#ifndef LUTRA_CLI_MODELS_SHA_H
#define LUTRA_CLI_MODELS_SHA_H

#include <stddef.h>
#include <stdint.h>

/* By the digits of their sums. */
enum sha_kind { SHA_1 = 40, SHA_256 = 64 };

struct sha {
    enum sha_kind kind;
    uint32_t state[8];
    uint64_t n_bytes;
    uint8_t block[64];
};

void sha_begin(struct sha *h, enum sha_kind kind);
void sha_add(struct sha *h, const void *bytes, size_t n);
/* Lower-case digits, as many as the kind says, and a NUL; h is used up. */
void sha_end(struct sha *h, char hex[SHA_256 + 1]);

#endif
