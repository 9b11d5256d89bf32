/* SPDX-License-Identifier: MIT
 *
 * Formats whose codes are indices of 4 or 8 elements at once, and their codebooks.  Freestanding, as quant/formats.h
 * is.
 *
 * All have 256 elements to a block; an element is d 2^-k (2 s(g) + 1) v with v an integer.  A codebook's entry has its
 * elements in order, the first in the lowest bits: 2 bits (8 elements) or 3 (4 elements) that say which of the format's
 * magnitudes.  Signs are bits apart: element j of 8 is negative where bit j is set.  Where only 7 are stored, the
 * eighth makes the number of negative ones even.  Tables end in an unused entry, so that reading 4 bytes of the last
 * is allowed.
 */
#ifndef LUTRA_QUANT_CODEBOOKS_H
#define LUTRA_QUANT_CODEBOOKS_H

#include <stdint.h>

extern const uint16_t quant_iq2_xxs_book[257], quant_iq2_xs_book[513], quant_iq2_s_book[1025];
extern const uint16_t quant_iq3_xxs_book[257], quant_iq3_s_book[513], quant_iq1_book[2049];

/* What the 2 or 3 bits of an entry stand for. */
#define QUANT_IQ2_MAGNITUDES                                                                                           \
    {                                                                                                                  \
        8, 25, 43                                                                                                      \
    }
#define QUANT_IQ3_XXS_MAGNITUDES                                                                                       \
    {                                                                                                                  \
        4, 12, 20, 28, 36, 44, 52, 62                                                                                  \
    }
#define QUANT_IQ3_S_MAGNITUDES                                                                                         \
    {                                                                                                                  \
        1, 3, 5, 7, 9, 11, 13, 15                                                                                      \
    }

/* IQ2_XXS, 66 bytes, 8 groups g of 32:  x = d / 8 (2 s(g) + 1) v
 *
 *   qs[8g + l], l = 0..3    index of elements 32g + 8l .. 32g + 8l + 7
 *   qs[8g + 4 .. 8g + 7]    u32: [ s(g) 4 ][ 7 signs of l = 3 ][ l = 2 ][ l = 1 ][ l = 0 ]
 */
struct quant_iq2_xxs {
    uint16_t d;
    uint8_t qs[64];
};

/* IQ2_XS, 74 bytes, 16 groups g of 16:  x = d / 8 (2 s(g) + 1) v
 *
 *   qs[i], i = 0..31        u16: [ 7 signs ][ index 9 ]  of elements 8i .. 8i + 7
 *   scales[i], i = 0..7     [ s(2i + 1) ][ s(2i) ]
 */
struct quant_iq2_xs {
    uint16_t d;
    uint8_t qs[64];
    uint8_t scales[8];
};

/* IQ2_S, 82 bytes, 16 groups g of 16:  x = d / 8 (2 s(g) + 1) v.  Scales as in IQ2_XS.
 *
 *   qs[i], signs[i], i = 0..31  bits 7..0 of the index, and the signs, of elements 8i .. 8i + 7
 *   qh[i], i = 0..7             [ bits 9..8 of index 4i + 3 ][ 4i + 2 ][ 4i + 1 ][ 4i ]
 */
struct quant_iq2_s {
    uint16_t d;
    uint8_t qs[32], signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
};

/* IQ3_XXS, 98 bytes, 8 groups g of 32:  x = d / 4 (2 s(g) + 1) v
 *
 *   qs[i], i = 0..63        index of elements 4i .. 4i + 3
 *   signs[4g .. 4g + 3]     u32 as in IQ2_XXS
 */
struct quant_iq3_xxs {
    uint16_t d;
    uint8_t qs[64];
    uint8_t signs[32];
};

/* IQ3_S, 110 bytes, 8 groups g of 32:  x = d (2 s(g) + 1) v
 *
 *   qs[i], i = 0..63        bits 7..0 of the index of elements 4i .. 4i + 3
 *   qh[g]                   bit j = bit 8 of index 8g + j
 *   signs[i], i = 0..31     of elements 8i .. 8i + 7
 *   scales[i], i = 0..3     [ s(2i + 1) ][ s(2i) ]
 */
struct quant_iq3_s {
    uint16_t d;
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
};

/* IQ1_S, 50 bytes, 8 groups g of 32:  x = d / 8 (2 s(g) + 1) (8 (q - 1) + delta), q the 2 bits of an entry
 *
 *   qs[i], i = 0..31        bits 7..0 of the index of elements 8i .. 8i + 7
 *   qh[g]                   [ delta 1: -1, 0: 1 ][ s(g) 3 ][ bits 10..8 of index 4g + 3 ][ 4g + 2 ][ 4g + 1 ][ 4g ]
 */
struct quant_iq1_s {
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
};

/* IQ1_M, 56 bytes, 16 groups g of 16:  x as in IQ1_S, delta for every 8 elements
 *
 *   qs as in IQ1_S
 *   qh[i], i = 0..15        [ delta of index 2i + 1 ][ bits 10..8 of it ][ delta of index 2i ][ bits 10..8 of it ]
 *   scales[i], i = 0..3     u16: [ bits 4i + 3 .. 4i of d ][ s(4i + 3) 3 ][ s(4i + 2) ][ s(4i + 1) ][ s(4i) ]
 */
struct quant_iq1_m {
    uint8_t qs[32];
    uint8_t qh[16];
    uint16_t scales[4];
};

_Static_assert(sizeof(struct quant_iq2_xxs) == 66, "IQ2_XXS");
_Static_assert(sizeof(struct quant_iq2_xs) == 74, "IQ2_XS");
_Static_assert(sizeof(struct quant_iq2_s) == 82, "IQ2_S");
_Static_assert(sizeof(struct quant_iq3_xxs) == 98, "IQ3_XXS");
_Static_assert(sizeof(struct quant_iq3_s) == 110, "IQ3_S");
_Static_assert(sizeof(struct quant_iq1_s) == 50, "IQ1_S");
_Static_assert(sizeof(struct quant_iq1_m) == 56, "IQ1_M");

#endif
