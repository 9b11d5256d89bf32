/* SPDX-License-Identifier: MIT
 *
 * Candidates of a draw: finding the best of a long row of logits without sorting it.
 * Pure functions of their arguments; nothing allocates.  "Best first" means larger logit, ties by lower id.
 */
#ifndef LUTRA_DECODE_SAMPLE_SELECT_IMPL_H
#define LUTRA_DECODE_SAMPLE_SELECT_IMPL_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/f16.h"

struct sample_cand {
    int32_t id;
    float logit;
};

enum { SELECT_BUCKETS = 2048 };

/* Working space of the histogram that narrows a row down. */
struct select_scratch {
    int32_t count[SELECT_BUCKETS];
};

/* The lesser of two floats, neither negative (-0 is) nor NaN.  As integers: gcc makes a branch of a float comparison
 * and no vectors. */
static inline float at_most(float x, float most)
{
    int32_t a = (int32_t)f32_bits(x), b = (int32_t)f32_bits(most);
    return f32_from_bits((uint32_t)(a < b ? a : b));
}

/* 2^-z for z >= 0, relative error below 3e-7; 2^-125 above 125.  Our own so that the bits do not depend on the C
 * library; few operations, since a draw takes it of every logit. */
static inline float exp2_minus(float z)
{
    z = at_most(z, 125);
    float t = 12582912.0f - z; /* 1.5 * 2^23: the low bits of t are round(-z) */
    float f = 12582912.0f - t - z;
    float p = 0x1.5ec866p-10f; /* (2^f - 1) / f, interpolated at Chebyshev nodes of [-0.5, 0.5] */
    p = p * f + 0x1.3cbf6p-7f;
    p = p * f + 0x1.c6afeep-5f;
    p = p * f + 0x1.ebfa4cp-3f;
    p = p * f + 0x1.62e43p-1f;
    p = p * f + 1;
    return f32_from_bits(f32_bits(p) + (f32_bits(t) << 23));
}

static const float LOG2_E = 1.44269504f;

static inline float heat_of(float temperature)
{
    float heat = LOG2_E / temperature;
    return heat < FLT_MAX ? heat : FLT_MAX;
}

/* What a logit weighs: exp((logit - max) / temperature).  LOG2_E is the heat of temperature 1. */
static inline float weight_of(float logit, float max, float heat)
{
    return exp2_minus((max - logit) * heat);
}

/* Integers in the order of floats; both zeros are one. */
static inline int32_t select_key(float x)
{
    int32_t bits = (int32_t)f32_bits(x + 0.0f);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

/* Whether a comes after b, best first. */
bool select_is_worse(struct sample_cand a, struct sample_cand b);

/* First index that holds the largest logit. */
int32_t select_argmax(const float *logits, int n, float max);

/* The k best of n logits, best first; cand has room for n entries.  Entries of -INFINITY are left out.
 * Returns how many.  0 < k <= n. */
int select_top_k(const float *logits, int n, int k, float max, struct sample_cand *cand, struct select_scratch *tmp);

/* Sorts n candidates best first, in place. */
void select_sort(struct sample_cand *cand, int n);

/* Taking the best of candidates one after another: O(n), then O(log n) for each. */
struct select_queue {
    struct sample_cand *cand;
    int n, n_left; /* a heap, best first, before n_left; behind it those taken, the first at the end */
};
struct select_queue select_queue(struct sample_cand *cand, int n);
struct sample_cand select_next(struct select_queue *queue); /* n_left > 0 */
/* Puts those taken in front, in the order in which they were; returns how many. */
int select_taken(struct select_queue *queue);

/* The length of the shortest prefix of best-first candidates that holds `mass` of `total`. */
int select_prefix(const struct sample_cand *cand, int n, float mass, float max, double total);

#endif
