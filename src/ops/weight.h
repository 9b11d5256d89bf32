/* SPDX-License-Identifier: MIT
 *
 * A weight, and which of its outputs each device has prepared.
 */
#ifndef LUTRA_OPS_WEIGHT_H
#define LUTRA_OPS_WEIGHT_H

#include <stdbool.h>

#include "base/status.h"
#include "ops/share.h"
#include "ops/tensor.h"

enum { WEIGHT_MATMUL = 1, WEIGHT_GATHER = 2 };

struct device;

/* What one device has of a weight. */
struct held {
    struct device *device; /* that prepares it; NULL: none does */
    struct columns want;   /* outputs that it is to have */
    struct columns has;    /* outputs that it has prepared */
    struct packed *packed; /* the device's own; NULL: none are */
    size_t bytes;          /* that a product with all that it has reads */
};

enum { WEIGHT_HOLDERS = 8 };

/* A matrix, or a slice of its rows.  Several devices may have prepared it, or disjoint outputs of it. */
struct weight {
    struct tensor tensor; /* source: [n_out][n_in] */
    int64_t first_row;    /* of a slice: in the file's tensor */
    int use;              /* set of WEIGHT_*: a tied embedding is both */
    int n_expert;         /* it is so many experts' matrices below each other; 0: one matrix ... */
    int n_packed;         /* ... of which so many are packed at a time, the others when they are used; n_expert: all */
    bool copied;          /* the source is a copy in memory, which nothing could bring back */
    bool i8row;           /* no floats: what OP_MATMUL multiplies it with is rounded first, by ref_round_row */
    struct held held[WEIGHT_HOLDERS];
    struct device *only; /* no other may prepare it; NULL: any */
    const void *stored;  /* a packed copy of all of it in a device's layout, borrowed from a file; or NULL */
    uint64_t stored_sum; /* hash_parts of that copy, if it is undamaged */
    bool copy_stored;    /* that file is mapped in small pages, which read slower than a copy in huge ones */
    bool check_stored;   /* compare the sum even where the copy is used in place */
};

/* What a device has, or is to have, of a weight; NULL: nothing. */
struct held *weight_held(struct weight *w, const struct device *d);

/* What it has prepared; NULL: nothing. */
const struct packed *weight_packed(const struct weight *w, const struct device *d);

/* A device is to have these outputs, and all between them and what it was to have before.  LUTRA_E_UNSUPPORTED: more
 * than WEIGHT_HOLDERS devices have something of it. */
int weight_give(struct weight *w, struct device *d, struct columns outputs, struct lutra_error *err);

/* For prepare: what the device is to have, all outputs where nothing was said.  NULL: weight_give fails. */
struct held *weight_to_prepare(struct weight *w, struct device *d, struct lutra_error *err);

/* For release: nothing is prepared any more. */
void weight_forget(struct held *h);

/* Whether a device has prepared all that it is to have; d NULL: whether each has, and one at least has something. */
bool weight_is_ready(const struct weight *w, const struct device *d);

/* Every device that has not prepared all that it is to have does.  *keeps_source: one of them reads the tensor's own
 * bytes from now on.  Errors as device_ops.prepare. */
int weight_prepare(struct weight *w, bool *keeps_source, struct lutra_error *err);

/* Whether any device is to have something of it. */
bool weight_is_given(const struct weight *w);

/* In the file's bytes, how much devices have prepared: what two have counts twice. */
uint64_t weight_prepared_bytes(const struct weight *w);

/* Bytes that a product with all of it reads. */
size_t weight_bytes(const struct weight *w);

#endif
