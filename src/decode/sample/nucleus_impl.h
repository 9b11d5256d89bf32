/* SPDX-License-Identifier: MIT
 *
 * A draw from a whole row (no top-k), without a sort of it.
 *
 * The definition: order all logits best first, keep the shortest prefix that holds top_p of softmax(logits) and of it
 * what min-p leaves; then, in order of id, weigh what is kept by exp((logit - max) / temperature) and take the token at
 * which the running sum of weights first exceeds u times their total.  Here one pass over the row sorts the mass under
 * softmax into buckets by the depth below the largest logit; only the bucket where top-p cuts is looked into, bucket by
 * finer bucket, until few enough are left to sort.  A second pass adds up weights per block of the row.  Sums are
 * doubles of the same f32 terms in another order.
 */
#ifndef LUTRA_DECODE_SAMPLE_NUCLEUS_IMPL_H
#define LUTRA_DECODE_SAMPLE_NUCLEUS_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "decode/sample/sampler.h"
#include "decode/sample/select_impl.h"

enum {
    NUCLEUS_BUCKETS = 512, /* the last holds all below the range */
    NUCLEUS_COPIES = 4,    /* neighbours in the row often share a bucket: with one copy each would wait for the last */
    NUCLEUS_BLOCK = 64,
};

/* One thread's working space. */
struct nucleus {
    double copy[NUCLEUS_COPIES][NUCLEUS_BUCKETS + 8]; /* of masses; 4096 bytes apart loads wait for others' stores */
    double mass[NUCLEUS_BUCKETS];                     /* their sums, or those of a finer division */
    double *weight;                                   /* [blocks of n_vocab] sums */
    uint16_t *bucket;                                 /* [n_vocab rounded up to NUCLEUS_BLOCK] */
    int32_t *id;  /* [n_vocab] those looked into, in order of id, and their logits */
    float *logit; /* [n_vocab] */
};

/* Over the numbers of a row; infinities the wrong way round where there are none. */
struct row_extent {
    float max, min;
    bool has_nan;
};

/* The row and how it is divided. */
struct nucleus_row {
    const float *logit; /* [n], none NaN or +infinity */
    int n;
    float max;     /* the largest, finite */
    float per_nat; /* buckets per nat below it */
    float heat;    /* of the draw, for weight_of() */
};

static inline int nucleus_bucket(const struct nucleus_row *row, float logit)
{
    return (int)at_most((row->max - logit) * row->per_nat, NUCLEUS_BUCKETS - 1);
}

/* What goes over whole rows, built once per instruction set; all give the same bits. */
struct nucleus_passes {
    struct row_extent (*extent)(const float *logit, int n);
    /* Masses per bucket, and the bucket of each logit. */
    void (*sort)(struct nucleus *out, const struct nucleus_row *row);
    /* Weights per block, of those not worse than `end`. */
    void (*weigh)(struct nucleus *out, const struct nucleus_row *row, struct sample_cand end);
};
extern const struct nucleus_passes nucleus_passes_base, nucleus_passes_avx2, nucleus_passes_avx512;

/* Those for a set of enum cpu_isa. */
const struct nucleus_passes *nucleus_passes_for(uint32_t isa);

/* Allocates for rows of n_vocab; LUTRA_E_NO_MEMORY, and then nucleus_fini() frees what there is. */
int nucleus_init(struct nucleus *tmp, int n_vocab);
void nucleus_fini(struct nucleus *tmp);

/* Takes the token for the random number u in [0, 1).  set: temperature > 0, top_k off.  logit [n_vocab]: their extent,
 * max finite, none NaN.  Allocates nothing. */
int32_t nucleus_draw(struct nucleus *tmp, const struct nucleus_passes *passes, const struct sample_settings *set,
    const float *logit, int n_vocab, struct row_extent extent, double u);

#endif
