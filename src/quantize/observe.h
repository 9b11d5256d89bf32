/* SPDX-License-Identifier: MIT
 *
 * A text through a model with a look at the inputs of every matmul, layer by layer: all chunks up to a matmul, then all
 * up to the next, so that its weights may be exchanged once their inputs have been seen.
 */
#ifndef LUTRA_QUANTIZE_OBSERVE_H
#define LUTRA_QUANTIZE_OBSERVE_H

#include "engine/model.h"

struct observer {
    /* Inputs of an OP_MATMUL in the order of the file's matrix: x[n_row][n_in], the rows of one chunk. */
    int (*inputs)(void *user, const struct op *op, const float *x, int n_row, struct lutra_error *err);
    /* All chunks have come so far; the operation is about to run, and runs with what its weights are then.  NULL:
     * nothing. */
    int (*seen)(void *user, const struct op *op, struct lutra_error *err);
    void *user;
};

/* Whole chunks of n_ctx among n tokens, at most `most` (0: all).  LUTRA_E_ARGUMENT: there is none. */
int observe_chunks(int n, int n_ctx, int most, int *n_chunk, struct lutra_error *err);

/* A session for it, of one sequence: every row of a chunk is wanted.  LUTRA_E_UNSUPPORTED: the model runs on more than
 * the CPU. */
int observe_open(lutra_session **out, lutra_model *model, int n_ctx, struct lutra_error *err);

/* Chunks of n_ctx tokens, each from an empty cache; the model's first token, where it has one, takes the place of a
 * chunk's first.  Beside the session's memory it takes what the model has at a matmul (state and input) for all tokens,
 * where there are several chunks. */
int observe_run(lutra_session *s, const int32_t *ids, int n_chunk, const struct observer *o, struct lutra_error *err);

/* The tensor that a weight is, or is a slice of ("NAME[first row]"). */
const struct tensor *observe_tensor(const lutra_model *model, const struct weight *w, size_t *first_row);

/* From now on the device computes with `to`, of the same shape, in place of what w was; its data stay the caller's, and
 * are there until the weight is released. */
int observe_exchange(lutra_session *s, struct weight *w, const struct tensor *to, struct lutra_error *err);

#endif
