/* SPDX-License-Identifier: MIT
 *
 * A model under construction: hparams.c reads the sizes, load.c finds and checks tensors, transformer.c writes the
 * op list.
 */
#ifndef LUTRA_MODEL_MODEL_IMPL_H
#define LUTRA_MODEL_MODEL_IMPL_H

#include "base/arena.h"
#include "model/model.h"

/* What distinguishes the architectures; one row each in hparams.c. */
struct arch {
    const char *name;
    enum rope_kind rope;
    bool qkv_bias; /* must be there (others: optional, used when there) */
    bool qk_norm;  /* per-head norms of q and k before rope */
    bool gemma2;   /* scaled embeddings, GEGLU, norms behind sub-layers, too, capped scores and logits, windows */
};

/* Where sentences about what is not implemented go; tell == NULL: the first one is an error and reading ends. */
struct listener {
    model_tell_fn tell;
    void *user;
};

struct model {
    struct hparams hp;
    const struct arch *arch;
    const struct weights *weights;
    struct listener listener;
    struct op_list list;
    struct op_layer *layer; /* [n_layer] the list's */
    struct weight *weight;  /* [n_weight] */
    int n_weight, max_weight, max_op;
    const struct tensor **used; /* [n_used] tensors of the file that the model reads */
    int n_used, max_used;
    const float *value_weight, *value_bias; /* NULL: none */
    struct arena arena;                     /* ops, weights, vectors converted to f32 */
};

/* What the file needs and Lutra lacks: told, or LUTRA_E_UNSUPPORTED. */
int model_lack(const struct listener *to, struct lutra_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* *arch is NULL where it is unknown (only with a listener): then only what every architecture may ask for was read. */
int hparams_read(struct hparams *hp, const struct arch **arch, const struct weights *w, const struct listener *to,
    struct lutra_error *err);

/* The tensor as a matrix [n_out][n_in]; the same name gives the same weight, whose use is extended. */
int model_matrix(struct model *m, const char *name, int64_t n_in, int64_t n_out, int use, struct weight **out,
    struct lutra_error *err);

/* The tensor as n floats (converted when it is F16 or BF16); *out = NULL when it is absent and optional. */
int model_vector(
    struct model *m, const char *name, int64_t n, bool optional, const float **out, struct lutra_error *err);

/* Writes the op list of a dense pre-norm transformer. */
int transformer_build(struct model *m, struct lutra_error *err);

#endif
