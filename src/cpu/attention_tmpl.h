/* SPDX-License-Identifier: MIT
 *
 * The attention kernels of one ISA (cpu/attention.h has the arithmetic).
 *
 * Both products are register tiles of TILE_Q queries x TILE_V vectors: for the scores a lane is a key (K comes
 * transposed), for the output a lane is an element of V.  So neither has a sum across lanes, and an accumulator's
 * order is the same in every tile shape.
 *
 * Needs: the vectors of a vec_*_impl.h and vec_math_tmpl.h; TILE_Q, TILE_V.
 * Gives: segment_of_f32 and its like for each cache type, attention_merge.
 */
#ifndef LUTRA_CPU_ATTENTION_TMPL_H
#define LUTRA_CPU_ATTENTION_TMPL_H

#include <string.h>

#include "base/f16.h"
#include "cpu/attention.h"

enum { KEY_VECS = KV_BLOCK / VEC };

LUTRA_INLINE vec load_cache(enum quant_type type, const void *p, size_t i)
{
    return type == QUANT_F16 ? vec_load_f16((const uint16_t *)p + i) : vec_load((const float *)p + i);
}

/* n <= VEC elements of a cache vector. */
LUTRA_INLINE vec load_cache_part(enum quant_type type, const void *p, size_t i, int n)
{
    if (type == QUANT_Q8_0) { /* rows are whole blocks, so no vector is partial */
        const struct quant_q8_0 *block = (const struct quant_q8_0 *)p + i / 32;
        return vec_mul(vec_load_i8(block->qs + i % 32), vec_set1(f16_to_f32(block->d)));
    }
    if (n >= VEC) return load_cache(type, p, i);
    return type == QUANT_F16 ? vec_load_f16_part((const uint16_t *)p + i, n) : vec_load_part((const float *)p + i, n);
}

/* The codes of 32 elements, and their scale and offset: an element is code * d + m, one rounding in all. */
LUTRA_INLINE void unpack_small(enum quant_type type, const uint8_t *block, int8_t code[32], float *d, float *m)
{
    const uint8_t *qs = block + (type == QUANT_Q4_0 ? 2 : type == QUANT_Q4_1 ? 4 : 6);
    int middle = type == QUANT_Q4_0 ? 8 : type == QUANT_Q5_0 ? 16 : 0;
    uint16_t half[2];
    uint32_t high = 0;
    memcpy(half, block, sizeof half);
    if (type == QUANT_Q5_0) memcpy(&high, block + 2, sizeof high);
    *d = f16_to_f32(half[0]);
    *m = type == QUANT_Q4_1 ? f16_to_f32(half[1]) : 0;
    for (int i = 0; i < 16; i++) {
        int low = qs[i] & 15, up = qs[i] >> 4;
        if (type == QUANT_Q5_0) low |= (int)(high >> i & 1) << 4, up |= (int)(high >> (i + 16) & 1) << 4;
        code[i] = (int8_t)(low - middle);
        code[i + 16] = (int8_t)(up - middle);
    }
}

/* Vectors of a small type as f32, [n_pos][d_head]. */
LUTRA_INLINE void expand_small(enum quant_type type, size_t block_bytes, const void *from, size_t n, float *to)
{
    const uint8_t *block = from;
    for (size_t i = 0; i < n; i += 32, block += block_bytes) {
        int8_t code[32];
        float d, m;
        unpack_small(type, block, code, &d, &m);
        for (int k = 0; k < 32; k += VEC)
            vec_store(to + i + k, vec_fma(vec_load_i8(code + k), vec_set1(d), vec_set1(m)));
    }
}

static LUTRA_NOINLINE void expand_to_f32(enum quant_type type, const void *from, size_t n, float *to)
{
    switch (type) {
    case QUANT_Q4_0: expand_small(QUANT_Q4_0, sizeof(struct quant_q4_0), from, n, to); return;
    case QUANT_Q4_1: expand_small(QUANT_Q4_1, sizeof(struct quant_q4_1), from, n, to); return;
    default: expand_small(QUANT_Q5_0, sizeof(struct quant_q5_0), from, n, to); return;
    }
}

/* K as f32, transposed: VEC keys x VEC elements at a time, and a last half tile where so few elements are left. */
LUTRA_INLINE void transpose_to_f32(const struct attention_load *a, const void *k, const enum quant_type type)
{
    for (int key = 0; key < a->n_pos; key += VEC) {
        for (int d = 0; d < a->d_head; d += VEC) {
            vec r[VEC];
            int n = a->d_head - d < VEC ? a->d_head - d : VEC;
            float *to = (float *)a->kt + d * KV_BLOCK + key;
            for (int i = 0; i < VEC; i++) r[i] = load_cache_part(type, k, (size_t)((key + i) * a->d_head + d), n);
            vec_transpose(r);
            for (int i = 0; i < 8; i++) vec_store(to + i * KV_BLOCK, r[i]);
            if (n > 8) {
                for (int i = 8; i < VEC; i++) vec_store(to + i * KV_BLOCK, r[i]);
            }
        }
    }
}

/* V as f32, in rows of whole vectors. */
LUTRA_INLINE void widen_to_f32(const struct attention_load *a, const enum quant_type type)
{
    int padded = attention_padded(a->d_head);
    for (int j = 0; j < a->n_pos; j++) {
        for (int d = 0; d < a->d_head; d += VEC) {
            vec x = load_cache_part(type, a->v, (size_t)(j * a->d_head + d), a->d_head - d);
            vec_store((float *)a->vt + j * padded + d, x);
        }
    }
}

static LUTRA_NOINLINE void load_as_f32(const struct attention_load *a, struct attention_segment *s)
{
    size_t padded = (size_t)attention_padded(a->d_head);
    size_t n = (size_t)a->n_pos * (size_t)a->d_head;
    bool whole = padded == (size_t)a->d_head;
    s->type = QUANT_F32;
    s->kt = a->kt;
    s->v = a->vt;
    s->v_stride = padded;
    switch (a->type[KV_K]) {
    case QUANT_F16: transpose_to_f32(a, a->k, QUANT_F16); break;
    case QUANT_F32: transpose_to_f32(a, a->k, QUANT_F32); break;
    case QUANT_Q8_0: transpose_to_f32(a, a->k, QUANT_Q8_0); break;
    default:
        expand_to_f32(a->type[KV_K], a->k, n, a->vt); /* where V comes behind */
        transpose_to_f32(a, a->vt, QUANT_F32);
    }
    switch (a->type[KV_V]) {
    case QUANT_F16: widen_to_f32(a, QUANT_F16); break;
    case QUANT_F32:
        if (whole) s->v = a->v;
        if (!whole) widen_to_f32(a, QUANT_F32);
        break;
    case QUANT_Q8_0: widen_to_f32(a, QUANT_Q8_0); break;
    default: expand_to_f32(a->type[KV_V], a->v, n, a->vt);
    }
}

/* While this segment is computed, K and V of the next one come closer, as evenly as can be: the lines that begin in
 * bytes at .. at + n - 1 of each.  Two streams at once read faster than one after the other. */
LUTRA_INLINE void prefetch_next(const struct attention_load *a, size_t at, size_t n)
{
    for (size_t line = (at + 63) & ~(size_t)63; line < at + n; line += 64) {
        LUTRA_PREFETCH_L2(a->next_k + line);
        LUTRA_PREFETCH_L2(a->next_v + line);
    }
}

/* p[r][j] = q[r] . k[j] for queries first .. first + n_q - 1, all 64 keys. */
LUTRA_INLINE void score_tile(const struct attention_segment *a, const enum quant_type type, int first, const int n_q)
{
    size_t step = a->from.bytes / 2 * TILE_V / KEY_VECS / (size_t)a->from.d_head, ahead = 0;
    for (int v0 = 0; v0 < KEY_VECS; v0 += TILE_V) {
        vec sum[TILE_Q][TILE_V];
        for (int r = 0; r < n_q; r++) {
            for (int v = 0; v < TILE_V; v++) sum[r][v] = vec_zero();
        }
        for (int d = 0; d < a->from.d_head; d++, ahead += step) {
            vec k[TILE_V];
            if (first == 0) prefetch_next(&a->from, ahead, step);
            for (int v = 0; v < TILE_V; v++) {
                k[v] = load_cache(type, a->kt, (size_t)(d * KV_BLOCK + (v0 + v) * VEC));
            }
            for (int r = 0; r < n_q; r++) {
                vec q = vec_set1(a->q[first + r][d]);
                for (int v = 0; v < TILE_V; v++) sum[r][v] = vec_fma(q, k[v], sum[r][v]);
            }
        }
        for (int r = 0; r < n_q; r++) {
            for (int v = 0; v < TILE_V; v++) vec_store(a->p + (first + r) * KV_BLOCK + (v0 + v) * VEC, sum[r][v]);
        }
    }
}

/* (m, l) of up to VEC queries: a segment's, and its state's.  After mix_sums: the merged state's, and the factors
 * `into` of the state and `from` of the segment. */
struct mix {
    float m[VEC], l[VEC], old_m[VEC], old_l[VEC], into[VEC], from[VEC];
};

LUTRA_INLINE void mix_sums(struct mix *x)
{
    vec m = vec_load(x->m), old = vec_load(x->old_m), top = vec_max(m, old);
    vec into = vec_exp(vec_sub(old, top)), from = vec_exp(vec_sub(m, top));
    vec_store(x->old_m, top);
    vec_store(x->old_l, vec_fma(vec_load(x->old_l), into, vec_mul(vec_load(x->l), from)));
    vec_store(x->into, into);
    vec_store(x->from, from);
}

/* Dot products -> scores, masked with -inf.  Returns the largest. */
LUTRA_INLINE float score_row(const struct attention_segment *a, float *p, int lo, int hi)
{
    vec scale = vec_set1(a->scale), low = vec_set1(-INFINITY), max = low;
    for (int v = 0; v < KEY_VECS; v++) {
        vec s = vec_mul(vec_load(p + v * VEC), scale);
        if (a->softcap != 0) s = vec_mul(vec_set1(a->softcap), vec_tanh(vec_div(s, vec_set1(a->softcap))));
        if (hi - lo < KV_BLOCK) s = vec_select(vec_lanes(lo - v * VEC, hi - v * VEC), s, low);
        max = vec_max(max, s);
        vec_store(p + v * VEC, s);
    }
    return vec_largest(max);
}

/* Scores -> probabilities relative to m, 0 where masked.  Returns their sum: first by halves of the keys down to one
 * vector, then its lanes. */
LUTRA_INLINE float exp_row(float *p, float m, int lo, int hi)
{
    vec e[KEY_VECS];
    for (int v = 0; v < KEY_VECS; v++) {
        e[v] = vec_exp(vec_sub(vec_load(p + v * VEC), vec_set1(m)));
        if (hi - lo < KV_BLOCK) e[v] = vec_select(vec_lanes(lo - v * VEC, hi - v * VEC), e[v], vec_zero());
        vec_store(p + v * VEC, e[v]);
    }
    for (int n = KEY_VECS / 2; n > 0; n /= 2) {
        for (int v = 0; v < n; v++) e[v] = vec_add(e[v], e[v + n]);
    }
    return vec_sum(e[0]);
}

LUTRA_INLINE void softmax_tile(const struct attention_segment *a, int first, const int n_q, struct mix *x)
{
    for (int r = 0; r < VEC; r++) x->m[r] = x->l[r] = x->old_m[r] = x->old_l[r] = 0;
    for (int r = 0; r < n_q; r++) {
        x->m[r] = score_row(a, a->p + (first + r) * KV_BLOCK, a->lo[first + r], a->hi[first + r]);
    }
    for (int r = 0; r < n_q; r++) {
        x->l[r] = exp_row(a->p + (first + r) * KV_BLOCK, x->m[r], a->lo[first + r], a->hi[first + r]);
        x->old_m[r] = a->state[first + r][ATTENTION_STATE_M];
        x->old_l[r] = a->state[first + r][ATTENTION_STATE_L];
    }
    mix_sums(x);
    for (int r = 0; r < n_q; r++) {
        a->state[first + r][ATTENTION_STATE_M] = x->old_m[r];
        a->state[first + r][ATTENTION_STATE_L] = x->old_l[r];
    }
}

/* Adds p[j] v[j] of positions from .. to - 1.  checked: only where a query sees j. */
LUTRA_INLINE void add_values(const struct attention_segment *a, const enum quant_type type, int first, const int n_q,
    const int n_v, int d, int from, int to, const bool checked, vec sum[TILE_Q][TILE_V])
{
    size_t half = a->from.bytes / 2, step = half * (size_t)(n_v * VEC) / (size_t)a->from.d_head / KV_BLOCK;
    size_t ahead = half + half / (size_t)a->from.d_head * (size_t)d + step * (size_t)from;
    for (int j = from; j < to; j++, ahead += step) {
        vec x[TILE_V];
        if (first == 0) prefetch_next(&a->from, ahead, step);
        for (int v = 0; v < n_v; v++) {
            x[v] = load_cache(type, a->v, (size_t)j * a->v_stride + (size_t)(d + v * VEC));
        }
        for (int r = 0; r < n_q; r++) {
            if (checked && (j < a->lo[first + r] || j >= a->hi[first + r])) continue;
            vec p = vec_set1(a->p[(first + r) * KV_BLOCK + j]);
            for (int v = 0; v < n_v; v++) sum[r][v] = vec_fma(p, x[v], sum[r][v]);
        }
    }
}

/* Positions of a tile: any query sees some of begin .. end - 1, and all see all of full .. full_end - 1. */
struct reach {
    int begin, full, full_end, end;
};

LUTRA_INLINE struct reach find_reach(const struct attention_segment *a, int first, int n_q)
{
    struct reach x = {KV_BLOCK, 0, KV_BLOCK, 0};
    for (int r = first; r < first + n_q; r++) {
        if (a->lo[r] < x.begin) x.begin = a->lo[r];
        if (a->lo[r] > x.full) x.full = a->lo[r];
        if (a->hi[r] < x.full_end) x.full_end = a->hi[r];
        if (a->hi[r] > x.end) x.end = a->hi[r];
    }
    if (x.full >= x.full_end) x.full = x.full_end = x.end;
    return x;
}

/* n_v vectors of output elements from d on.  Adding +0 turns a sum of -0 into +0, so that a segment merged into an
 * empty state and again into another is the same as one merged at once. */
LUTRA_INLINE void value_tile(const struct attention_segment *a, const enum quant_type type, int first, const int n_q,
    const int n_v, int d, const struct reach *x, const struct mix *mix)
{
    vec sum[TILE_Q][TILE_V];
    for (int r = 0; r < n_q; r++) {
        for (int v = 0; v < n_v; v++) sum[r][v] = vec_zero();
    }
    add_values(a, type, first, n_q, n_v, d, x->begin, x->full, true, sum);
    add_values(a, type, first, n_q, n_v, d, x->full, x->full_end, false, sum);
    add_values(a, type, first, n_q, n_v, d, x->full_end, x->end, true, sum);
    for (int r = 0; r < n_q; r++) {
        float *o = a->state[first + r] + ATTENTION_STATE_O + d;
        vec into = vec_set1(mix->into[r]), from = vec_set1(mix->from[r]);
        for (int v = 0; v < n_v; v++) {
            vec segment = vec_fma(sum[r][v], from, vec_zero());
            vec_store(o + v * VEC, vec_fma(vec_load(o + v * VEC), into, segment));
        }
    }
}

LUTRA_INLINE void segment_tile(const struct attention_segment *a, const enum quant_type type, int first, const int n_q)
{
    struct mix mix;
    score_tile(a, type, first, n_q);
    softmax_tile(a, first, n_q, &mix);
    struct reach x = find_reach(a, first, n_q);
    int padded = attention_padded(a->from.d_head), d = 0;
    for (; d + TILE_V * VEC <= padded; d += TILE_V * VEC) value_tile(a, type, first, n_q, TILE_V, d, &x, &mix);
    for (; d + 2 * VEC <= padded; d += 2 * VEC) value_tile(a, type, first, n_q, 2, d, &x, &mix);
    for (; d < padded; d += VEC) value_tile(a, type, first, n_q, 1, d, &x, &mix);
}

/* The tile of each number of queries; those that a narrow tile never asks for repeat the first. */
LUTRA_INLINE void segment_queries(const struct attention_segment *a, const enum quant_type type, int first, int n_q)
{
    const int wide = TILE_Q > 3;
    switch (n_q) {
    case 1: segment_tile(a, type, first, 1); return;
    case 2: segment_tile(a, type, first, 2); return;
    case 3: segment_tile(a, type, first, 3); return;
    case 4: segment_tile(a, type, first, wide ? 4 : 1); return;
    case 5: segment_tile(a, type, first, wide ? 5 : 1); return;
    case 6: segment_tile(a, type, first, wide ? 6 : 1); return;
    }
}

static LUTRA_NOINLINE void segment_of_f32(const struct attention_segment *a)
{
    for (int first = 0; first < a->n_query; first += TILE_Q) {
        int left = a->n_query - first;
        segment_queries(a, QUANT_F32, first, left < TILE_Q ? left : TILE_Q);
    }
}

static void attention_merge(float *into, const float *from, int d_head)
{
    struct mix x = {.m = {from[ATTENTION_STATE_M]},
        .l = {from[ATTENTION_STATE_L]},
        .old_m = {into[ATTENTION_STATE_M]},
        .old_l = {into[ATTENTION_STATE_L]}};
    mix_sums(&x);
    into[ATTENTION_STATE_M] = x.old_m[0];
    into[ATTENTION_STATE_L] = x.old_l[0];
    vec a = vec_set1(x.into[0]), b = vec_set1(x.from[0]);
    for (int d = ATTENTION_STATE_O; d < ATTENTION_STATE_O + attention_padded(d_head); d += VEC) {
        vec_store(into + d, vec_fma(vec_load(into + d), a, vec_mul(vec_load(from + d), b)));
    }
}

#endif
