/* SPDX-License-Identifier: MIT
 *
 * W2, W3 and W4: groups of 64 codes of 2, 3 and 4 bits with a scale and a zero point each, x = (code - zero) scale, as
 * GPTQ and its kin make them (groups of 128, or whole rows, repeat theirs).
 *
 * They are in memory only, for folders whose layers no GGUF type of that width holds; their numbers are no file's.  In
 * a file the values lie in the type that quant_gguf_type names.
 */
#ifndef LUTRA_QUANT_ZERO_POINT_H
#define LUTRA_QUANT_ZERO_POINT_H

#include "quant/quant.h"

/* A block of W2, W3 or W4.  d: a half; zero and code[QUANT_GROUP64]: less than 2^bits. */
void quant_zero_point_pack(enum quant_type type, uint16_t d, int zero, const uint8_t *code, void *block);

/* Its fields. */
void quant_zero_point_unpack(enum quant_type type, const void *block, uint16_t *d, int *zero, uint8_t *code);

/* A block of Q4_0 or Q5_0 with the same values, code - zero of 32 codes, which fit. */
void quant_zero_point_pack_wide(enum quant_type type, uint16_t d, int zero, const uint8_t *code, void *block);

/* The type of GGUF that holds the same values: the type itself, or of W2 and W3 Q4_0, of W4 Q5_0.  Of other types in
 * memory only there is none: themselves. */
enum quant_type quant_gguf_type(enum quant_type type);

/* n elements of W2, W3 or W4, whole blocks, in blocks of that type. */
void quant_zero_point_widen(enum quant_type type, const void *src, void *dst, size_t n);

#endif
