/* SPDX-License-Identifier: MIT
 *
 * What the files of this room share: the mapped file and its parsed header.
 */
#ifndef LUTRA_WEIGHTS_WEIGHTS_IMPL_H
#define LUTRA_WEIGHTS_WEIGHTS_IMPL_H

#include "base/status.h"
#include "weights/names.h"
#include "weights/weights.h"

/* Copies of names, NUL-terminated, in chunks that never move. */
struct names {
    struct names_chunk *last;
};

/* One file in memory.  Everything points into it or into `names`. */
struct model_file {
    char label[160]; /* the path for messages, its tail if long */
    const uint8_t *base;
    size_t bytes;
    size_t header_bytes;  /* what comes before tensors' data */
    bool composed;        /* base is from malloc(): what a folder says, as a GGUF header; else it is mapped */
    uint64_t modified_ns; /* since 1970 */
    struct names names;
    struct weights_kv *kv; /* [n_kv] in file order */
    size_t n_kv;
    struct tensor *tensor; /* [n_tensor] in file order */
    size_t n_tensor;
    const struct weights_kv **kv_by_name; /* [n_kv] sorted by key */
};

/* A tensor whose bytes are not those of a file: computed into memory of its own when weights_fetch asks for it. */
struct derived {
    void *data; /* mapped, and not touched before */
    size_t bytes;
    bool there;
    const void *from; /* what `fill` reads, in a mapped file; or */
    bool owns_from;   /* a list of that, folder_free_stack's */
    float scale;      /* of all values, where `fill` wants one */
    int n_row, n_head;
    int first_row; /* of what is computed: its rows before are another tensor's */
    size_t row_bytes;
    const char *loose;                     /* weights_loose */
    const int32_t *order;                  /* weights_order */
    void (*fill)(const struct derived *d); /* NULL: there from the beginning, and kept */
};

struct safetensors;

struct weights {
    char *path;
    struct model_file *file; /* [n_file]: shards, or a folder's header and shards; metadata is file[0]'s */
    size_t n_file;
    struct derived *derived;    /* [n_derived] */
    void *packed_layers;        /* what some of them are computed from: folder/packed_linear.c */
    struct safetensors *source; /* a folder's own tensors; NULL: no folder */
    size_t n_derived;
    const struct tensor **tensor;         /* [n_tensor] in file order over all shards */
    const struct tensor **tensor_by_name; /* [n_tensor] sorted by name */
    size_t n_tensor;
    uint64_t tensor_bytes;
};

enum {
    GGUF_VERSION = 3,
    GGUF_ALIGNMENT = 32,    /* default of general.alignment */
    GGUF_MAX_KEY = 65535,   /* bytes, by the format's specification */
    GGUF_MIN_KV_BYTES = 14, /* key length, one byte of key, type, one byte of value */
    GGUF_MIN_TENSOR_BYTES = 33,
    GGUF_I2_S = 36,               /* a tensor's type until foreign_open */
    GGUF_Q2_0_128 = 1 << 16 | 42, /* the same, of type 42 with blocks of 128 */
    Q2_0_128_BYTES = 34,          /* of such a block */
    GGUF_I8_S = 37,               /* of bitnet.cpp's files; ... */
    GGUF_TL1 = 38,
    GGUF_TL2 = 39,      /* ... MXFP4 elsewhere */
    I2S_FILE_TYPE = 40, /* general.file_type of bitnet.cpp's files; those of TL1 and TL2 have the tensors' type */
    I2S_TAIL = 32       /* bytes behind a tensor's codes */
};

/* Memory for another derived tensor: the next of w->derived, whose array has room. */
int weights_derive(struct weights *w, size_t bytes, struct derived **out, struct lutra_error *err);

/* The one that t, or a part of it, lies in; NULL: t is a view of a file. */
struct derived *weights_derived_of(const struct weights *w, const struct tensor *t);

/* Whether the nearest float of 16 bits is off by no more than its last bit's half: x is 0, or neither tiny nor huge. */
bool weights_near_f16(float x);

/* Makes tensors of TQ2_0 of those of GGUF_I2_S, of Q2_0 of those of GGUF_Q2_0_128 (foreign.c). */
int foreign_open(struct weights *w, struct lutra_error *err);

/* Whether it is one of the former. */
bool foreign_is_i2s(const struct derived *d);

/* Multiplies matrices of NVFP4 by the tensors `.scale` beside them, which then are tensors no more, nor `.input_scale`,
 * which is for activations of 4 bits (foreign.c).  When tensors are indexed. */
int foreign_scale(struct weights *w, struct lutra_error *err);

/* Bytes of a value of this kind in the file; 0 for strings, arrays and unknown kinds. */
size_t gguf_kind_bytes(uint32_t kind);

/* Maps a file and sets its label.  LUTRA_E_IO, LUTRA_E_FORMAT (empty), LUTRA_E_NO_MEMORY. */
int model_file_map(struct model_file *file, const char *path, struct lutra_error *err);
void model_file_close(struct model_file *file);

/* Fills in w->file and w->derived from the Hugging Face folder w->path (folder/). */
int folder_open(struct weights *w, struct weights_how how, struct lutra_error *err);
void folder_close(struct weights *w);
bool folder_zeros_means(const struct derived *d, double mean[2]); /* weights_zeros_means */
void folder_free_stack(const void *from);                         /* derived.from where it owns that */

/* Parses the header at file->base: fills everything below `names`.  On failure the caller still calls
 * model_file_fini, which frees what was filled (not the mapping). */
int gguf_parse(struct model_file *file, struct lutra_error *err);
void model_file_fini(struct model_file *file);

const struct weights_kv *gguf_kv_find(const struct model_file *file, const char *key);
/* General integer of a file's key, 0 when the key is missing; LUTRA_E_FORMAT when it is no integer in 0..max. */
int gguf_get_uint(const struct model_file *file, const char *key, uint64_t max, uint64_t *out, struct lutra_error *err);

/* Copy of n bytes; NULL when out of memory. */
const char *names_add(struct names *names, const char *s, size_t n);
void names_fini(struct names *names);

#endif
