/* SPDX-License-Identifier: MIT
 *
 * The table of weight formats: sizes, names, and the reference conversions from and to f32.
 *
 *     const struct quant_info *q = quant_info_of(QUANT_Q4_K);     NULL: known or unknown, but not implemented
 *     size_t bytes;
 *     TRY(quant_row_bytes(q->type, n, &bytes));
 *     q->dequantize(src, dst, n);
 *
 * dequantize is the definition of each format's values: x = f32 arithmetic as written in quant/formats.h, one
 * rounding per written operation.  Nothing here allocates; everything is a pure function, safe from any thread.
 */
#ifndef LUTRA_QUANT_QUANT_H
#define LUTRA_QUANT_QUANT_H

#include "quant/formats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quant_info {
    enum quant_type type;
    const char *name;     /* "Q4_K" */
    uint32_t block_elems; /* elements per block; 1 for plain floats */
    uint32_t block_bytes;
    uint32_t file_type; /* GGUF's general.file_type of a file that is mostly this type */

    /* src: n / block_elems blocks; dst: float[n].  n is a multiple of block_elems.  src needs the alignment of
     * the block's struct (at most 2; 4 for F32). */
    void (*dequantize)(const void *src, float *dst, size_t n);

    /* NULL: the format can be read only, or the room `quantize` writes it.  The inverse, nearest or best by its own
     * measure; same demands on n.  NaN and infinities in the source give unspecified codes, never undefined behaviour.
     * Bit for bit ggml's reference quantizers for F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q1_0, Q2_0, TQ1_0, TQ2_0,
     * MXFP4; own searches for the others. */
    void (*quantize)(const float *src, void *dst, size_t n);
};

/* NULL when the format is not implemented; any number may be asked.  Those in memory only are among them: a number from
 * a file must be asked first whether it is GGUF's. */
const struct quant_info *quant_info_of(uint32_t type);

/* Whether files may have this number, as far as is known. */
static inline bool quant_in_gguf(uint32_t type)
{
    return type < QUANT_GGUF_END;
}

/* Of GGUF's formats, by name, case-insensitive ("q4_k").  NULL when there is no such implemented one. */
const struct quant_info *quant_info_by_name(const char *name);

/* All implemented formats of GGUF in ascending id: i = 0, 1, ... until NULL. */
const struct quant_info *quant_info_at(size_t i);

/* n elements of random blocks of a format that can be read only: each has codes of all kinds and values of about this
 * standard deviation.  The same seed gives the same bytes everywhere. */
void quant_random_blocks(const struct quant_info *q, uint64_t seed, float deviation, void *dst, size_t n);

/* Name of any type number GGUF has assigned, implemented or not ("IQ2_XXS", "I32"), or of a format in memory only; NULL
 * for others. */
const char *quant_type_name(uint32_t type);

/* Bytes of a row of n_elems in *bytes.  LUTRA_E_UNSUPPORTED: format not implemented; LUTRA_E_ARGUMENT: n_elems is
 * not positive, not whole blocks, or overflows.  *bytes is set only on success. */
int quant_row_bytes(uint32_t type, int64_t n_elems, size_t *bytes);

bool quant_all_finite(const float *x, size_t n);

#endif
