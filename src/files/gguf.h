/* SPDX-License-Identifier: MIT
 *
 * GGUF's header: its keys, each a value or an array of them; and its tensors.  The file is hostile: every size in it is
 * checked before it is used, and the heap used is bounded by a multiple of the header's size.
 *
 *     struct model_file file = {0};
 *     int rc = model_file_map(&file, path, err);
 *     if (rc == 0) rc = gguf_parse(&file, err);
 *     const struct gguf_kv *kv = gguf_kv_find(&file, "general.architecture");
 *     ...
 *     model_file_close(&file);
 */
#ifndef LUTRA_FILES_GGUF_H
#define LUTRA_FILES_GGUF_H

#include "lutra/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_file;

/* GGUF's value types by their numbers. */
enum gguf_kind {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12
};

enum {
    GGUF_VERSION = 3,
    GGUF_ALIGNMENT = 32,    /* default of general.alignment */
    GGUF_MAX_KEY = 65535,   /* bytes, by the format's specification */
    GGUF_MIN_KV_BYTES = 14, /* key length, one byte of key, type, one byte of value */
    GGUF_MIN_TENSOR_BYTES = 33
};

/* Tensors' types that are none of GGUF's: other engines' (weights/foreign.c). */
enum {
    GGUF_I2_S = 36,               /* a tensor's type until it is read as one of GGUF's */
    GGUF_Q2_0_128 = 1 << 16 | 42, /* the same, of type 42 with blocks of 128 */
    Q2_0_128_BYTES = 34,          /* of such a block */
    GGUF_I8_S = 37,               /* of bitnet.cpp's files; ... */
    GGUF_TL1 = 38,
    GGUF_TL2 = 39,      /* ... MXFP4 elsewhere */
    I2S_FILE_TYPE = 40, /* general.file_type of bitnet.cpp's files; those of TL1 and TL2 have the tensors' type */
    I2S_TAIL = 32       /* bytes behind a tensor's codes */
};

/* Bytes that are not NUL-terminated: they lie in the mapped file.  Any byte may occur in them. */
struct gguf_str {
    const char *s;
    size_t n;
};

/* One key.  A scalar is an array of one: `elem` is its type and n is 1. */
struct gguf_kv {
    const char *key;        /* NUL-terminated, not empty */
    enum gguf_kind kind;    /* GGUF_ARRAY, or the scalar's type */
    enum gguf_kind elem;    /* type of the elements; == kind for scalars */
    uint64_t n;             /* elements */
    const void *data;       /* first value in the file, any alignment; strings: see gguf_kv_str */
    const uint64_t *offset; /* string arrays: element i's length field is at data + offset[i]; else NULL */
};

/* Parses the header at file->base: fills everything below `names`.  On failure the caller still calls
 * model_file_fini.  LUTRA_E_FORMAT (malformed), LUTRA_E_UNSUPPORTED (well-formed, but a version, byte order or tensor
 * type that is refused by name), LUTRA_E_NO_MEMORY; texts begin with the label. */
int gguf_parse(struct model_file *file, struct lutra_error *err);

/* NULL when there is none.  Binary search. */
const struct gguf_kv *gguf_kv_find(const struct model_file *file, const char *key);
/* General integer of a file's key, 0 when the key is missing; LUTRA_E_FORMAT when it is no integer in 0..max. */
int gguf_get_uint(const struct model_file *file, const char *key, uint64_t max, uint64_t *out, struct lutra_error *err);

/* "u32", "string", ...; "?" for numbers that are no type. */
const char *gguf_kind_name(uint32_t kind);
/* Bytes of a value of this kind in the file; 0 for strings, arrays and unknown kinds. */
size_t gguf_kind_bytes(uint32_t kind);

/* Element i < kv->n of any string key or array.  kv->elem must be GGUF_STRING. */
struct gguf_str gguf_kv_str(const struct gguf_kv *kv, uint64_t i);
/* Element i < kv->n as an integer or a float; false when the element is of another kind (or, for u64, negative).
 * Integers of every width and bool (0, 1) are integers here; f32 and f64 are floats. */
bool gguf_kv_i64(const struct gguf_kv *kv, uint64_t i, int64_t *out);
bool gguf_kv_u64(const struct gguf_kv *kv, uint64_t i, uint64_t *out);
bool gguf_kv_f64(const struct gguf_kv *kv, uint64_t i, double *out);
/* A number of either kind, or one written as text: files have all three.  False: it is none. */
bool gguf_kv_number(const struct gguf_kv *kv, double *out);

#endif
