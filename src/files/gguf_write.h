/* SPDX-License-Identifier: MIT
 *
 * Writes a GGUF v3 file as a stream: metadata, tensor declarations, then the tensors' bytes in that order.
 *
 *     struct gguf_writer *w;
 *     TRY(gguf_writer_open(&w, path, err));
 *     gguf_writer_put_u32(w, "llama.block_count", 2);
 *     gguf_writer_add_tensor(w, "token_embd.weight", QUANT_F16, 2, ne);
 *     gguf_writer_data(w, bytes, n);                    as often as needed, over all tensors
 *     TRY(gguf_writer_commit(&w, err));
 *
 * The bytes go to a temporary file in the folder of `path`, which commit syncs and renames: a new file appears whole
 * or not at all, and an existing one is replaced only then.  A killed process leaves at most the temporary file
 * PATH.tmp-PID-N, which the next writer of PATH removes (temporary_impl.h).  Alignment 32 unless set; padding is zero.
 * Written in pieces of 8 MiB, so that a page cache with large folios keeps the file in huge pages.
 *
 * The first failure sticks: later calls do nothing and return its code, and commit describes it.  So the calls
 * between open and commit need not be checked one by one.  One thread at a time.
 * Errors: LUTRA_E_IO (disk full, short write, cannot create), LUTRA_E_NO_MEMORY, LUTRA_E_ARGUMENT (duplicate or bad
 * key or tensor, type not implemented, row not whole blocks, more or fewer data bytes than declared).
 */
#ifndef LUTRA_FILES_GGUF_WRITE_H
#define LUTRA_FILES_GGUF_WRITE_H

#include "files/gguf.h"
#include "ops/tensor.h"

enum { QUANTIZATION_VERSION = 2 /* general.quantization_version of the blocks that are written */ };

struct gguf_writer;

/* Creates the temporary file.  On failure *out is NULL. */
int gguf_writer_open(struct gguf_writer **out, const char *path, struct lutra_error *err);

/* A writer of metadata alone, in memory: no file; `label` begins its errors' texts.  Ends with gguf_writer_header,
 * which hands out the GGUF header (malloc'd, *n bytes), or with abort. */
int gguf_writer_open_header(struct gguf_writer **out, const char *label, struct lutra_error *err);
int gguf_writer_header(struct gguf_writer **w, uint8_t **bytes, size_t *n, struct lutra_error *err);

int gguf_writer_put_u32(struct gguf_writer *w, const char *key, uint32_t value);
int gguf_writer_put_f32(struct gguf_writer *w, const char *key, float value);
int gguf_writer_put_bool(struct gguf_writer *w, const char *key, bool value);
int gguf_writer_put_str(struct gguf_writer *w, const char *key, const char *value);
int gguf_writer_put_strs(struct gguf_writer *w, const char *key, const struct gguf_str *value, uint64_t n);
/* Any other value: `data` is one value of a scalar kind (not string), or n of them as an array. */
int gguf_writer_put_scalar(struct gguf_writer *w, const char *key, enum gguf_kind kind, const void *data);
int gguf_writer_put_array(struct gguf_writer *w, const char *key, enum gguf_kind elem, const void *data, uint64_t n);
/* A key of an opened file, as it is. */
int gguf_writer_copy(struct gguf_writer *w, const struct gguf_kv *kv);

/* Aligns the tensors' data to a power of two up to 4096 instead; puts general.alignment.  Before the first tensor. */
int gguf_writer_align(struct gguf_writer *w, uint32_t alignment);

/* ne: n_dim elements, ne[0] contiguous.  All tensors are declared before the first byte of data. */
int gguf_writer_add_tensor(struct gguf_writer *w, const char *name, enum quant_type type, int n_dim, const int64_t *ne);

/* Bytes of the file that the declarations so far make, metadata included. */
uint64_t gguf_writer_file_bytes(const struct gguf_writer *w);

/* The next n bytes of tensor data; may end inside a tensor, or run over several.  Padding is added between. */
int gguf_writer_data(struct gguf_writer *w, const void *bytes, size_t n);

/* 0, or the code of the failure that stuck. */
int gguf_writer_status(const struct gguf_writer *w);

/* Writes what is outstanding, syncs, renames, closes.  On failure the temporary file is gone and any older file at
 * `path` is untouched.  Sets *w to NULL either way. */
int gguf_writer_commit(struct gguf_writer **w, struct lutra_error *err);

/* Removes the temporary file and frees; sets *w to NULL; NULL is allowed. */
void gguf_writer_abort(struct gguf_writer **w);

#endif
