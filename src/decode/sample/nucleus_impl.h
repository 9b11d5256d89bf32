/* SPDX-License-Identifier: MIT
 *
 * A draw from the nucleus of a whole row (top-p without top-k), without a sort of it.
 *
 * The definition: order all logits best first, keep the shortest prefix that holds top_p of softmax(logits) and of it
 * what min-p leaves, weigh by exp((logit - max) / temperature), and take the token at which the running sum of weights
 * first exceeds u times their total.  Here one pass over the row sorts both kinds of mass into buckets by the depth
 * below the largest logit; then only the bucket where a running sum passes its goal is looked into, bucket by finer
 * bucket, until few enough are left to sort.  Sums are doubles of the same f32 terms in another order.
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
    OF_MODEL = 0, /* mass under softmax(logits): what top-p cuts */
    OF_DRAW = 1,  /* mass at the draw's temperature */
};

/* One thread's working space. */
struct nucleus {
    double mass[NUCLEUS_COPIES][NUCLEUS_BUCKETS][2]; /* copy 0 holds the sum of all after the pass */
    double part[NUCLEUS_BUCKETS];
    uint16_t *bucket; /* [n_vocab rounded up to NUCLEUS_BLOCK] */
    int32_t *id;      /* [n_vocab] those looked into, in order of id, and their logits */
    float *logit;     /* [n_vocab] */
};

/* The row and how it is divided. */
struct nucleus_row {
    const float *logit; /* [n], none NaN or +infinity */
    int n;
    float max;     /* the largest, finite */
    float per_nat; /* buckets per nat below it */
    bool flat;     /* all are equal */
    bool shallow;  /* no logit is 87 or more below it, at the draw's temperature neither */
};

static inline int nucleus_bucket(const struct nucleus_row *row, float logit)
{
    float depth = (row->max - logit) * row->per_nat;
    return depth < NUCLEUS_BUCKETS - 1 ? (int)depth : NUCLEUS_BUCKETS - 1;
}

/* The pass: adds up the masses of all logits and notes their buckets. */
typedef void nucleus_fill(struct nucleus *out, const struct nucleus_row *row, float temperature);
nucleus_fill nucleus_fill_base, nucleus_fill_avx2, nucleus_fill_avx512;

/* That for a set of enum cpu_isa.  All give the same bits. */
nucleus_fill *nucleus_fill_for(uint32_t isa);

/* Allocates for rows of n_vocab; LUTRA_E_NO_MEMORY, and then nucleus_fini() frees what there is. */
int nucleus_init(struct nucleus *tmp, int n_vocab);
void nucleus_fini(struct nucleus *tmp);

/* Takes the token for the random number u in [0, 1).  set: temperature > 0, top_p < 1, top_k off.  row [n_vocab], its largest
 * is max, finite. */
int32_t nucleus_draw(struct nucleus *tmp, nucleus_fill *fill, const struct sample_settings *set, const float *row,
    int n_vocab, float max, double u);

#endif
