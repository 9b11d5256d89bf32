/* SPDX-License-Identifier: MIT
 *
 * Importance matrices: for each weight matrix the sums of its inputs' squares over a text, column by column, as
 * llama-imatrix keeps them.  Read from and written to its GGUF file and its older .dat.
 *
 *     struct imatrix *m;
 *     TRY(imatrix_open(&m, "imatrix.gguf", err));
 *     float *mean = ...;                                          [n_in]
 *     if (imatrix_mean(imatrix_find(m, "blk.0.ffn_down.weight"), 1, mean)) ...
 *     imatrix_close(&m);
 *
 * Collecting: imatrix_new, imatrix_add for each matrix, sums and counts added up in its entries, imatrix_write.
 *
 * GGUF: tensors NAME.in_sum2 [n_in], NAME.in_sum [n_in] (plain sums; newer files) and NAME.counts [1], all F32; keys
 * general.type = "imatrix", imatrix.datasets, imatrix.chunk_count, imatrix.chunk_size.  Of a matrix of experts in_sum2
 * and in_sum are [n_expert][n_in] and counts [n_expert].  The .dat: a count of entries, then for each the length of its
 * name, the name, calls, n_in and n_in floats (mean square times calls), those of all experts in one; then the number
 * of chunks, and the text's name with its length; all numbers of 4 bytes.   Source: llama.cpp's tools/imatrix.
 */
#ifndef LUTRA_QUANTIZE_IMATRIX_H
#define LUTRA_QUANTIZE_IMATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lutra/status.h"

struct imatrix_entry {
    char *name;
    size_t n;           /* columns, of all experts */
    size_t n_expert;    /* as the file says, at least 1; a .dat does not */
    double *sum2, *sum; /* [n] of squares, and of inputs; sum is 0 where a file has none */
    double count;       /* rows seen; sums of experts that saw more or fewer are scaled to it when they are read */
};

struct imatrix {
    struct imatrix_entry *entry; /* [n_entry], sorted by name once read or written */
    size_t n_entry, room;
    char *dataset; /* the text's name, or NULL */
    uint32_t n_chunk, chunk_tokens;
};

/* LUTRA_E_FORMAT names file and entry: damaged, sums that are no finite numbers of at least 0. */
int imatrix_open(struct imatrix **out, const char *path, struct lutra_error *err);
int imatrix_new(struct imatrix **out, struct lutra_error *err);
void imatrix_close(struct imatrix **m); /* sets *m to NULL; NULL is allowed */

/* An entry of zeros; the pointer holds until the next one is added. */
int imatrix_add(
    struct imatrix *m, const char *name, size_t n_name, size_t n, struct imatrix_entry **out, struct lutra_error *err);
struct imatrix_entry *imatrix_find(const struct imatrix *m, const char *name); /* NULL: none */

/* Mean squares of the columns, [n], in units of their mean over each expert's n / n_expert, and a little for what the
 * text never used.  False: e is NULL, has seen nothing, or has no whole columns of so many experts. */
bool imatrix_mean(const struct imatrix_entry *e, size_t n_expert, float *mean);

/* The file appears whole or not at all.  Entries that have seen nothing are left out. */
int imatrix_write(struct imatrix *m, const char *path, bool dat, struct lutra_error *err);

#endif
