/* SPDX-License-Identifier: MIT */
#include "sha.h"

#include <stdio.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
static const uint32_t constant[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7,
    0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c,
    0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void take_256(uint32_t state[8], uint32_t w[80])
{
    uint32_t s[8];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) +
                      constant[i] + w[i];
        uint32_t t2 =
            (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

/* 6.1.2 */
static void take_1(uint32_t state[8], uint32_t w[80])
{
    static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t s[5];
    for (int i = 16; i < 80; i++) w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 31);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 80; i++) {
        uint32_t parity = s[1] ^ s[2] ^ s[3], choice = (s[1] & s[2]) | (~s[1] & s[3]),
                 most = (s[1] & s[2]) | (s[1] & s[3]) | (s[2] & s[3]);
        uint32_t f = i < 20 ? choice : i >= 40 && i < 60 ? most : parity;
        uint32_t next = turn(s[0], 27) + f + s[4] + k[i / 20] + w[i];
        memmove(s + 1, s, 4 * sizeof *s);
        s[2] = turn(s[2], 2);
        s[0] = next;
    }
    for (int i = 0; i < 5; i++) state[i] += s[i];
}

static void take_block(struct sha *h, const uint8_t *p)
{
    uint32_t w[80];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    if (h->kind == SHA_256)
        take_256(h->state, w);
    else
        take_1(h->state, w);
}

void sha_begin(struct sha *h, enum sha_kind kind)
{
    /* 5.3.1; of the square roots of the first 8 primes (5.3.3). */
    static const uint32_t start_1[8] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    static const uint32_t start_256[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    *h = (struct sha){.kind = kind};
    memcpy(h->state, kind == SHA_256 ? start_256 : start_1, sizeof h->state);
}

void sha_add(struct sha *h, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    while (n > 0) {
        size_t have = h->n_bytes % 64, part = 64 - have < n ? 64 - have : n;
        if (part < 64) {
            memcpy(h->block + have, p, part);
            if (have + part == 64) take_block(h, h->block);
        } else {
            take_block(h, p);
        }
        h->n_bytes += part;
        p += part;
        n -= part;
    }
}

void sha_end(struct sha *h, char hex[SHA_256 + 1])
{
    uint64_t bits = h->n_bytes * 8;
    uint8_t end[72] = {0x80};
    size_t pad = 64 - (h->n_bytes + 8) % 64;
    for (int i = 0; i < 8; i++) end[pad + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    sha_add(h, end, pad + 8);
    for (int i = 0; i < (int)h->kind / 8; i++) snprintf(hex + 8 * i, 9, "%08x", (unsigned)h->state[i]);
}
