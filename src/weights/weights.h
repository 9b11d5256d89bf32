/* SPDX-License-Identifier: MIT
 *
 * An opened model: named read-only tensors and metadata.  GGUF v2 and v3, one file or all shards of a split; or a
 * Hugging Face folder, which reads as the GGUF file that converting it would make.
 *
 *     struct weights *w;
 *     TRY(weights_open(&w, path, err));
 *     uint32_t n_layer;
 *     TRY(weights_get_u32(w, "llama.block_count", &n_layer, err));
 *     const struct tensor *t;
 *     TRY(weights_tensor_get(w, "token_embd.weight", &t, err));
 *     ...
 *     weights_close(&w);
 *
 * The files are mapped, never read whole; every size in them is checked before it is used, and the heap used is
 * bounded by a multiple of the header's size.  All pointers handed out (tensors, data, keys, strings) belong to
 * `w` and live until weights_close.  After opening, everything but close is read-only and safe from any thread.
 * A file that is cut short by someone else while mapped raises SIGBUS: that cannot be checked for (docs/EMBEDDING.md).
 *
 * Failure: LUTRA_E_IO (cannot open or map), LUTRA_E_FORMAT (malformed), LUTRA_E_UNSUPPORTED (well-formed, but a
 * version, byte order or tensor type that is refused by name), LUTRA_E_NO_MEMORY.  Texts begin with the path.
 */
#ifndef LUTRA_WEIGHTS_WEIGHTS_H
#define LUTRA_WEIGHTS_WEIGHTS_H

#include "files/gguf.h"
#include "lutra/status.h"
#include "ops/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weights;

/* On failure *out is NULL and nothing stays open.  A path that names shard 1 of a split ("-00001-of-00003.gguf")
 * opens all shards beside it; metadata comes from the first. */
int weights_open(struct weights **out, const char *path, struct lutra_error *err);

/* How GPTQ's layers store their zeros (docs/FORMATS.md). */
enum weights_zeros {
    WEIGHTS_ZEROS_BY_DATA, /* as their codes say; LUTRA_E_UNSUPPORTED where these do not */
    WEIGHTS_ZEROS_V1,      /* less one */
    WEIGHTS_ZEROS_V2,      /* as they are */
    WEIGHTS_ZEROS_ANY,     /* by the data, else by the label: to be looked at, not to be run */
};
/* Of "v1" and "v2"; NULL: by the data.  LUTRA_E_ARGUMENT. */
int weights_zeros_named(const char *name, enum weights_zeros *out, struct lutra_error *err);

/* How layers that others have quantized are read. */
struct weights_how {
    enum weights_zeros zeros;
    bool sorted; /* reorder columns so that act-order groups are contiguous (weights_order); for multiplying */
};

/* The same, read as told.  LUTRA_E_ARGUMENT: V1 or V2, and the model has no layers of GPTQ. */
int weights_open_as(struct weights **out, const char *path, struct weights_how how, struct lutra_error *err);

/* Unmaps and frees; sets *w to NULL; NULL is allowed. */
void weights_close(struct weights **w);

/* The path as given to open. */
const char *weights_path(const struct weights *w);
/* Bytes of all mapped files, and of all tensors' data. */
uint64_t weights_file_bytes(const struct weights *w);
uint64_t weights_tensor_bytes(const struct weights *w);

/* ---- tensors ---- */

size_t weights_tensor_count(const struct weights *w);
/* In file order; i < weights_tensor_count. */
const struct tensor *weights_tensor_at(const struct weights *w, size_t i);
/* NULL when there is none.  Binary search. */
const struct tensor *weights_tensor_find(const struct weights *w, const char *name);
/* The same for a tensor that must exist: LUTRA_E_NOT_FOUND names file and tensor. */
int weights_tensor_get(const struct weights *w, const char *name, const struct tensor **out, struct lutra_error *err);

/* Makes the bytes at t->data what they are: to be called before a tensor of two or more dimensions is read, by one
 * thread at a time.  A file's tensors are always there; some of a folder's are computed, here.  Never fails. */
void weights_fetch(const struct weights *w, const struct tensor *t);
/* Whether that computes it: its bytes are no mapping of a file. */
bool weights_is_derived(const struct weights *w, const struct tensor *t);

/* The reason (a phrase) why a folder's quantized layer is expanded to F32, 4 (8 bits) to 15 times (2 bits) as large:
 * no type of blocks holds its values.  NULL: any other tensor. */
const char *weights_f32_reason(const struct weights *w, const struct tensor *t);

/* The means of code - zero of a GPTQ layer, with its zeros read as v1 and as v2.  False: any other tensor. */
bool weights_zeros_means(const struct weights *w, const struct tensor *t, double mean[2]);

/* What may be wrong with how the model is read, though it opened: a sentence each, for whoever computes with it. */
void weights_tell_warnings(const struct weights *w, void (*tell)(void *user, const char *sentence), void *user);

/* The order of a sorted matrix: its column i is for input order[i].  [t->ne[0]], each once; it lives as long as w.
 * NULL: any other tensor, whose inputs are where they were. */
const int32_t *weights_order(const struct weights *w, const struct tensor *t);

/* Hints about the pages of a tensor, or of a part of one (base/pages.h): drop them once packed (to be fetched again
 * before they are read), or start reading them. */
void weights_drop_pages(const struct weights *w, const struct tensor *t);
void weights_prefetch(const struct weights *w, const struct tensor *t);
/* The same of what has been read of the files: metadata, once it is understood, and of_tensors, unless they are being
 * read ahead, norms and what lies around them. */
void weights_drop_read_pages(const struct weights *w, bool of_tensors);

/* ---- metadata: keys and values of files/gguf.h ---- */

/* In file order; i < weights_kv_count. */
size_t weights_kv_count(const struct weights *w);
const struct gguf_kv *weights_kv_at(const struct weights *w, size_t i);
/* NULL when there is none.  Binary search. */
const struct gguf_kv *weights_kv_find(const struct weights *w, const char *key);
/* weights_get_X: the value must be there.  LUTRA_E_NOT_FOUND: no such key.  LUTRA_E_FORMAT: it has another type, or
 * is out of range.  Both describe file and key in *err; *out is set only on success.
 * Any integer type is accepted for an integer that fits; f32 and f64 for a float; bool only for bool.
 *
 * weights_opt_X: a missing key is success and leaves *out as it is (put the default there first). */
int weights_get_u32(const struct weights *w, const char *key, uint32_t *out, struct lutra_error *err);
int weights_opt_u32(const struct weights *w, const char *key, uint32_t *out, struct lutra_error *err);
int weights_get_u64(const struct weights *w, const char *key, uint64_t *out, struct lutra_error *err);
int weights_get_f32(const struct weights *w, const char *key, float *out, struct lutra_error *err);
int weights_opt_f32(const struct weights *w, const char *key, float *out, struct lutra_error *err);
int weights_get_bool(const struct weights *w, const char *key, bool *out, struct lutra_error *err);
int weights_opt_bool(const struct weights *w, const char *key, bool *out, struct lutra_error *err);
int weights_get_str(const struct weights *w, const char *key, struct gguf_str *out, struct lutra_error *err);
int weights_opt_str(const struct weights *w, const char *key, struct gguf_str *out, struct lutra_error *err);

/* An integer that is one value for all layers or an array with one per layer (attention.head_count_kv).
 * An array shorter than `layer` + 1 is LUTRA_E_FORMAT. */
int weights_get_layer_u32(
    const struct weights *w, const char *key, uint32_t layer, uint32_t *out, struct lutra_error *err);
int weights_opt_layer_u32(
    const struct weights *w, const char *key, uint32_t layer, uint32_t *out, struct lutra_error *err);

/* Arrays.  weights_get_array: the key as an array whose elements are `elem` exactly (walk strings with
 * gguf_kv_str).  weights_copy_X: n_max values at most are converted into out[], *n gets how many the file has;
 * more than n_max is LUTRA_E_FORMAT; pass out = NULL, n_max = UINT64_MAX to learn *n only. */
int weights_get_array(
    const struct weights *w, const char *key, enum gguf_kind elem, const struct gguf_kv **out, struct lutra_error *err);
int weights_copy_i32(
    const struct weights *w, const char *key, int32_t *out, uint64_t n_max, uint64_t *n, struct lutra_error *err);
int weights_copy_f32(
    const struct weights *w, const char *key, float *out, uint64_t n_max, uint64_t *n, struct lutra_error *err);

/* The first tensor of the file with a value that is no number; NULL: none, or out of memory. */
const char *weights_not_finite(const struct weights *w);

#endif
