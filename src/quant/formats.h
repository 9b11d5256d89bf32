/* SPDX-License-Identifier: MIT
 *
 * Weight formats as bytes: one struct per block with its bit layout.
 *
 * Freestanding: no function, no libc beyond <stdint.h>, so that kernels of every device (the NPU's own binary
 * included) compile this very file.  All fields are little-endian; `d`, `m`, `dmin` are IEEE half floats kept
 * as their bits.  Elements of a row are numbered e0, e1, ... within a block; rows are whole numbers of blocks.
 * In the drawings bit 7 is on the left and `x[i]` is the code of element i.   Text version: docs/FORMATS.md.
 */
#ifndef LUTRA_QUANT_FORMATS_H
#define LUTRA_QUANT_FORMATS_H

#include <stdint.h>

#include "quant/types.h"

/* Elements of the small blocks, of Q2_0's and Q1_0's, of the K-quant and ternary blocks; bytes of 6-bit scales. */
enum { QUANT_BLOCK = 32, QUANT_GROUP64 = 64, QUANT_GROUP128 = 128, QUANT_SUPER = 256, QUANT_K_SCALES_BYTES = 12 };

/* Q4_0, 18 bytes, 32 elements:  x = (q - 8) d
 *
 *   byte  0  1 | 2            3                 17
 *        [ d   ]|[x16 ][x0 ] [x17 ][x1 ]  ...  [x31 ][x15]      high nibble, low nibble
 */
struct quant_q4_0 {
    uint16_t d;
    uint8_t qs[16];
};

/* Q4_1, 20 bytes, 32 elements:  x = q d + m.    Nibbles as in Q4_0. */
struct quant_q4_1 {
    uint16_t d, m;
    uint8_t qs[16];
};

/* Q5_0, 22 bytes, 32 elements:  x = (q - 16) d
 *
 *   qs[i]  [ x(i+16) bits 3..0 ][ x(i) bits 3..0 ]       as in Q4_0
 *   qh     bit i (of a little-endian u32) = bit 4 of x(i)
 */
struct quant_q5_0 {
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
};

/* Q5_1, 24 bytes, 32 elements:  x = q d + m.    Bits as in Q5_0. */
struct quant_q5_1 {
    uint16_t d, m;
    uint8_t qh[4];
    uint8_t qs[16];
};

/* Q8_0, 34 bytes, 32 elements:  x = q d */
struct quant_q8_0 {
    uint16_t d;
    int8_t qs[32];
};

/* Q2_K, 84 bytes, 256 elements in 16 groups g of 16:  x = d sc(g) q - dmin mn(g)
 *
 *   scales[g]             [ mn(g) ][ sc(g) ]                 4 bits each
 *   qs[32h + l], h = 0..1, l = 0..31, e = 128h + l, 2 bits each:
 *                         [ x(e+96) ][ x(e+64) ][ x(e+32) ][ x(e) ]
 */
struct quant_q2_k {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d, dmin;
};

/* Q3_K, 110 bytes, 256 elements in 16 groups g of 16:  x = d (sc(g) - 32) (q - 4)
 *
 *   qs: the low 2 bits, as in Q2_K.   hmask[i], i = 0..31: bit b = bit 2 of the code of element 32b + i
 *   scales, 12 bytes: sc is 6 bits
 *     byte  j   (j = 0..7)  [ sc(j+8) bits 3..0 ][ sc(j) bits 3..0 ]
 *     byte 8+j  (j = 0..3)  [ sc(j+12) 5..4 ][ sc(j+8) 5..4 ][ sc(j+4) 5..4 ][ sc(j) 5..4 ]
 */
struct quant_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[QUANT_K_SCALES_BYTES];
    uint16_t d;
};

/* Q4_K, 144 bytes, 256 elements in 8 groups g of 32:  x = d sc(g) q - dmin mn(g)
 *
 *   scales, 12 bytes: sc and mn are 6 bits each
 *     byte  j   (j = 0..3)  [ sc(j+4) bits 5..4 ][ sc(j) bits 5..0 ]
 *     byte 4+j              [ mn(j+4) bits 5..4 ][ mn(j) bits 5..0 ]
 *     byte 8+j              [ mn(j+4) bits 3..0 ][ sc(j+4) bits 3..0 ]
 *   qs, 4 runs of 32 bytes; run r holds groups 2r (low nibbles) and 2r+1 (high nibbles):
 *     qs[32r + i]           [ x(64r+32+i) ][ x(64r+i) ]
 */
struct quant_q4_k {
    uint16_t d, dmin;
    uint8_t scales[QUANT_K_SCALES_BYTES];
    uint8_t qs[128];
};

/* Q5_K, 176 bytes, 256 elements:  x = d sc(g) q - dmin mn(g).  Scales and low 4 bits as in Q4_K.
 *
 *   qh[i], i = 0..31: bit g = bit 4 of the code of element 32g + i
 */
struct quant_q5_k {
    uint16_t d, dmin;
    uint8_t scales[QUANT_K_SCALES_BYTES];
    uint8_t qh[32];
    uint8_t qs[128];
};

/* Q6_K, 210 bytes, 256 elements in 16 groups of 16:  x = d scales[g] (q - 32)
 *
 *   two halves h of 128 elements, each 64 bytes of ql and 32 of qh; for l = 0..31, e = 128h + l:
 *     ql[64h + l]       [ x(e+64) bits 3..0 ][ x(e)    bits 3..0 ]
 *     ql[64h + 32 + l]  [ x(e+96) bits 3..0 ][ x(e+32) bits 3..0 ]
 *     qh[32h + l]       [ x(e+96) 5..4 ][ x(e+64) 5..4 ][ x(e+32) 5..4 ][ x(e) 5..4 ]
 */
struct quant_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
};

/* IQ4_NL, 18 bytes, 32 elements:  x = QUANT_IQ4_NL_VALUES[q] d.   Nibbles as in Q4_0. */
struct quant_iq4_nl {
    uint16_t d;
    uint8_t qs[16];
};
#define QUANT_IQ4_NL_VALUES                                                                                            \
    {                                                                                                                  \
        -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113                                       \
    }

/* IQ4_XS, 136 bytes, 256 elements in 8 groups g of 32:  x = d (sc(g) - 32) QUANT_IQ4_NL_VALUES[q]
 *
 *   scales_l[i], i = 0..3   [ sc(2i+1) bits 3..0 ][ sc(2i) bits 3..0 ]
 *   scales_h                bits 2g+1..2g = sc(g) bits 5..4
 *   qs[16g + i], i = 0..15  [ x(32g+i+16) ][ x(32g+i) ]      as in IQ4_NL
 */
struct quant_iq4_xs {
    uint16_t d, scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
};

/* Q1_0, 18 bytes, 128 elements of one bit:  x = (2 q - 1) d.   qs[i]: bit j = x(8i + j) */
struct quant_q1_0 {
    uint16_t d;
    uint8_t qs[16];
};

/* Q2_0, 18 bytes, 64 elements of 2 bits:  x = (q - 1) d
 *
 *   qs[i], i = 0..15        [ x(4i+3) ][ x(4i+2) ][ x(4i+1) ][ x(4i) ]
 */
struct quant_q2_0 {
    uint16_t d;
    uint8_t qs[16];
};

/* TQ1_0, 54 bytes, 256 ternary elements, 5 to a byte:  x = (t - 1) d, t in 0..2
 *
 *   A byte holds digits t0..t4 (t4 is 0 in qh) as ceil(256 (81 t0 + 27 t1 + 9 t2 + 3 t3 + t4) / 243),
 *   so that digit n is ((byte * 3^n mod 256) * 3) >> 8.
 *     qs[i], i = 0..31    digit n = element 32n + i             elements   0..159
 *     qs[32+i], i = 0..15 digit n = element 160 + 16n + i       elements 160..239
 *     qh[i], i = 0..3     digit n = element 240 + 4n + i, n < 4 elements 240..255
 */
struct quant_tq1_0 {
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d;
};

/* TQ2_0, 66 bytes, 256 elements of 2 bits:  x = (q - 1) d
 *
 *   qs[32h + l], h = 0..1, l = 0..31:  [ x(e+96) ][ x(e+64) ][ x(e+32) ][ x(e) ]   e = 128h + l
 */
struct quant_tq2_0 {
    uint8_t qs[64];
    uint16_t d;
};

/* MXFP4, 17 bytes, 32 elements:  x = QUANT_MXFP4_VALUES[q] / 2 * 2^(e - 127).   Nibbles as in Q4_0.
 * The table holds twice the values of FP4 E2M1, so that it is a table of integers. */
struct quant_mxfp4 {
    uint8_t e;
    uint8_t qs[16];
};
#define QUANT_MXFP4_VALUES                                                                                             \
    {                                                                                                                  \
        0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12                                                        \
    }

/* NVFP4, 36 bytes, 64 elements in 4 groups g of 16:  x = QUANT_MXFP4_VALUES[q] / 2 * d(g)
 *
 *   d[g]  [ unused ][ e 4 ][ m 3 ]      (1 + m/8) 2^(e-7), for e = 0 m 2^-9; 0x7f stands for 0
 *   qs[8g + i], i = 0..7                [ x(16g+i+8) ][ x(16g+i) ]
 */
struct quant_nvfp4 {
    uint8_t d[4], qs[32];
};

/* In memory only: the same times a float, which lies beside a matrix in its file. */
struct quant_nvfp4_scaled {
    uint8_t scale[4]; /* f32, as in memory */
    struct quant_nvfp4 b;
};

/* In memory only: W2, W3 and W4, 64 elements of 2, 3 and 4 bits:  x = (q - zero) d,  d as in a file.  Odd sizes.
 *
 *   W2, W3  qs[i], i = 0..15                   [ x(4i+3) ][ x(4i+2) ][ x(4i+1) ][ x(4i) ]     low 2 bits, as in Q2_0
 *   W3      qh[i], i = 0..7                    bit j = bit 2 of x(8i + j)
 *   W4      qs[16h + i], h = 0..1, i = 0..15   [ x(32h+i+16) ][ x(32h+i) ]                    as in Q4_0
 */
struct quant_w2 {
    uint8_t d[2], zero, qs[16];
};
struct quant_w3 {
    uint8_t d[2], zero, qh[8], qs[16];
};
struct quant_w4 {
    uint8_t d[2], zero, qs[32];
};

_Static_assert(sizeof(struct quant_q4_0) == 18, "Q4_0");
_Static_assert(sizeof(struct quant_q4_1) == 20, "Q4_1");
_Static_assert(sizeof(struct quant_q5_0) == 22, "Q5_0");
_Static_assert(sizeof(struct quant_q5_1) == 24, "Q5_1");
_Static_assert(sizeof(struct quant_q8_0) == 34, "Q8_0");
_Static_assert(sizeof(struct quant_q2_k) == 84, "Q2_K");
_Static_assert(sizeof(struct quant_q3_k) == 110, "Q3_K");
_Static_assert(sizeof(struct quant_q4_k) == 144, "Q4_K");
_Static_assert(sizeof(struct quant_q5_k) == 176, "Q5_K");
_Static_assert(sizeof(struct quant_q6_k) == 210, "Q6_K");
_Static_assert(sizeof(struct quant_iq4_nl) == 18, "IQ4_NL");
_Static_assert(sizeof(struct quant_iq4_xs) == 136, "IQ4_XS");
_Static_assert(sizeof(struct quant_q1_0) == 18, "Q1_0");
_Static_assert(sizeof(struct quant_q2_0) == 18, "Q2_0");
_Static_assert(sizeof(struct quant_tq1_0) == 54, "TQ1_0");
_Static_assert(sizeof(struct quant_tq2_0) == 66, "TQ2_0");
_Static_assert(sizeof(struct quant_mxfp4) == 17, "MXFP4");
_Static_assert(sizeof(struct quant_nvfp4) == 36, "NVFP4");
_Static_assert(sizeof(struct quant_nvfp4_scaled) == 40, "NVFP4, scaled");
_Static_assert(sizeof(struct quant_w2) == 19 && sizeof(struct quant_w3) == 27, "W2, W3");
_Static_assert(sizeof(struct quant_w4) == 35, "W4");

#endif
