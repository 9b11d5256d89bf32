/* SPDX-License-Identifier: MIT
 *
 * What the files of this room share: an opened model, and its tensors that are computed.
 */
#ifndef LUTRA_WEIGHTS_WEIGHTS_IMPL_H
#define LUTRA_WEIGHTS_WEIGHTS_IMPL_H

#include "base/status.h"
#include "files/file.h"
#include "files/safetensors.h"
#include "weights/weights.h"

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
    const char *f32_reason;                /* weights_f32_reason */
    const int32_t *order;                  /* weights_order */
    void (*fill)(const struct derived *d); /* NULL: there from the beginning, and kept */
};

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

/* Fills in w->file and w->derived from the Hugging Face folder w->path (folder/). */
int folder_open(struct weights *w, struct weights_how how, struct lutra_error *err);
void folder_close(struct weights *w);
bool folder_zeros_means(const struct derived *d, double mean[2]); /* weights_zeros_means */
void folder_free_stack(const void *from);                         /* derived.from where it owns that */

#endif
