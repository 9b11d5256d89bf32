/* SPDX-License-Identifier: MIT
 *
 * Candidates of a draw: finding the best of a long row of logits without sorting it.
 * Pure functions of their arguments; nothing allocates.  "Best first" means larger logit, ties by lower id.
 */
#ifndef LUTRA_DECODE_SAMPLE_SELECT_IMPL_H
#define LUTRA_DECODE_SAMPLE_SELECT_IMPL_H

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

/* exp(-c) for 0 <= c <= 87, relative error below 2e-7.  Our own so that the bits do not depend on the C library. */
static inline float exp_minus(float c)
{
    float t = c * -1.44269504f + 12582912.0f; /* 1.5 * 2^23: the low bits of t are round(-c / ln 2) */
    float k = t - 12582912.0f;
    float r = k * 2.12194440e-4f - (c + k * 0.693359375f); /* ln 2 in two parts */
    float p = 1.9875691500e-4f;                            /* Cephes expf */
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * f32_from_bits((f32_bits(t) - 0x4b400000u + 127u) << 23);
}

/* exp(x) for x <= 0; exactly 0 below -87 and for NaN.  Compared as integers because gcc makes a branch of a float
 * comparison and no vectors. */
static inline float exp_nonpos(float x)
{
    const int32_t limit = 0x42ae0000; /* 87.0f */
    int32_t depth = (int32_t)(f32_bits(x) & 0x7fffffffu);
    uint32_t keep = 0u - (uint32_t)(depth < limit);
    return f32_from_bits(f32_bits(exp_minus(f32_from_bits((uint32_t)(depth < limit ? depth : limit)))) & keep);
}

/* Largest of n logits (-INFINITY for n = 0) and whether one of them is NaN. */
float select_max(const float *logits, int n, int *has_nan);

/* Whether a comes after b, best first. */
bool select_is_worse(struct sample_cand a, struct sample_cand b);

/* First index that holds the largest logit. */
int32_t select_argmax(const float *logits, int n, float max);

/* The k best of n logits, best first; cand has room for n entries.  Entries of -INFINITY are left out.
 * Returns how many.  0 < k <= n. */
int select_top_k(const float *logits, int n, int k, float max, struct sample_cand *cand, struct select_scratch *tmp);

/* Sorts n candidates best first, in place. */
void select_sort(struct sample_cand *cand, int n);

/* The length of the shortest prefix of best-first candidates that holds `mass` of `total`. */
int select_prefix(const struct sample_cand *cand, int n, float mass, float max, double total);

#endif
