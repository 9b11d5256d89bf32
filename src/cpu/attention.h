/* SPDX-License-Identifier: MIT
 *
 * Attention over the paged cache, for 1 to 512 and more rows, scheduled by block (ops/kv_view.h).
 *
 *     scratch = 64-byte aligned, attention_scratch_bytes(op, max_rows, n_ctx, n_thread)
 *     every thread of the pool:   attention_run(&kernels->attention, &args, pool, ith, nth);
 *
 * Arithmetic of class f32; bf16x3 forms the two sums of products otherwise (docs/NUMERICS.md).  A query is one row
 * and head.  Its positions are cut into segments of 64, aligned to absolute position.  Per segment:
 *     score[j] = sum over ascending d of fma(q[d], k[j][d]), from 0, one f32 accumulator; times scale; softcap
 *     m_s = max;  p[j] = exp(score[j] - m_s), exactly 0 where masked;  l_s = sum of p in one fixed order
 *     o_s[d] = sum over ascending j of fma(p[j], v[j][d]), visible j only.
 * Where K is rotated (kv_is_rotated) so is q; where V is, `out` is rotated back at the end.
 * Segments are merged in ascending order into (m, l, o):  with M = max(m, m_s):
 *     l = fma(l, e^(m-M), l_s e^(m_s-M)),  o[d] = fma(o[d], e^(m-M), o_s[d] e^(m_s-M));   at the end out = o / l.
 * It starts at (-inf, 0, 0), or at (sink, 1, 0).  Nothing in this depends on the number of rows, on threads, on which
 * rows share a block, or on whether K and V lie in blocks or in the draft scratch.  Masked positions are never
 * multiplied in, so neither do other rows' values.
 *
 * Work.  A unit is (kv head, tile of rows).  It goes through the items once: K of a block is transposed once for
 * all its rows x heads of the group.  When there are fewer units than threads, threads take parts of the items
 * instead, leave each segment's (m, l, o) in scratch, and merge after a barrier: the same operations in the same order.
 */
#ifndef LUTRA_CPU_ATTENTION_H
#define LUTRA_CPU_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/kv_view.h"
#include "ops/params.h"

struct pool;

enum { ATTENTION_MAX_QUERY = 48, ATTENTION_MAX_D_HEAD = 512 };

/* Queries that `prepare` takes at once; bytes that a kernel needs during a segment. */
enum { ATTENTION_COLUMNS = 16, ATTENTION_WORK_BYTES = 42 << 10 };

/* Running (m, l, o) of a query: floats.  o is padded to whole vectors of 16. */
enum { ATTENTION_STATE_M = 0, ATTENTION_STATE_L = 1, ATTENTION_STATE_O = 16 };

/* d_head rounded up to whole vectors of 16: the length of a state's o. */
static inline int attention_padded(int d_head)
{
    return (d_head + 15) / 16 * 16;
}

/* Bytes of what a kernel makes of K or V of a segment, and of ATTENTION_COLUMNS queries. */
static inline size_t attention_tile_bytes(int d_head)
{
    return (size_t)((d_head + 63) / 64) * 64 * KV_BLOCK * sizeof(float);
}
static inline size_t attention_columns_bytes(int d_head)
{
    return (size_t)((d_head + 31) / 32) * 32 * ATTENTION_COLUMNS * sizeof(float);
}

/* Whether both types are F16: such a cache may be attended as it is, all others are widened to f32 first. */
static inline bool attention_is_f16(const enum quant_type type[2])
{
    return type[KV_K] == QUANT_F16 && type[KV_V] == QUANT_F16;
}

/* K and V of one segment and kv head, of which the first n_pos positions count. */
struct attention_load {
    enum quant_type type[2]; /* of K and of V in the cache */
    int d_head, n_pos;
    const void *k, *v;              /* [KV_BLOCK][d_head] */
    const uint8_t *next_k, *next_v; /* of the segment that follows, to prefetch; or k and v again */
    size_t bytes;                   /* of k or of v, whichever is more: to prefetch */
    void *kt, *vt;                  /* scratch of attention_tile_bytes(d_head) each, 64-byte aligned */
    void *work;                     /* scratch of ATTENTION_WORK_BYTES, 64-byte aligned */
};

/* One segment for some queries, at most max_query of the kernels: scores, softmax, values, merged into each query's
 * state.  type, kt, v and v_stride are what `load` left, here in the form that most kernels share. */
struct attention_segment {
    struct attention_load from;
    enum quant_type type; /* of kt and v: F32 or F16 */
    const void *kt;       /* [d_head][KV_BLOCK]: K transposed; columns from n_pos on are unspecified */
    const void *v;        /* [KV_BLOCK][v_stride]; elements d_head .. attention_padded(d_head) - 1 may be anything */
    size_t v_stride;      /* in elements, at least attention_padded(d_head) */
    int n_query;
    float scale, softcap;
    float *p;                            /* [ATTENTION_MAX_QUERY][KV_BLOCK] scratch, 64-byte aligned */
    const float *q[ATTENTION_MAX_QUERY]; /* [d_head] each */
    const void *prepared;                /* queries in columns, where the kernels prepare them ... */
    uint16_t index[ATTENTION_MAX_QUERY]; /* ... and which of those each query is, ascending */
    bool again, last;                    /* not the first, and the last call over what was loaded */
    float *state[ATTENTION_MAX_QUERY];   /* [ATTENTION_STATE_O + attention_padded(d_head)], 64-byte aligned */
    uint8_t lo[ATTENTION_MAX_QUERY];     /* sees slots lo <= j < hi of the segment, at least one */
    uint8_t hi[ATTENTION_MAX_QUERY];
};

/* The kernels of one ISA. */
struct cpu_attention {
    const char *name;
    const char *numerics; /* class of both products over an F16 cache: "f32" or "bf16x3" (docs/NUMERICS.md) */
    int max_query;        /* of a call of `segment` */
    /* Before the first and after the last call of a thread; or NULL. */
    void (*begin)(void);
    void (*end)(void);
    /* Where attention_is_f16: prepared [attention_columns_bytes], 64-byte aligned, from n <= ATTENTION_COLUMNS queries;
     * queries 16 i .. make columns i.  Or NULL: queries are taken as they are. */
    void (*prepare)(const float *const *q, int n, int d_head, void *prepared);
    /* Sets s->type, kt, v and v_stride: values unchanged, laid out and typed as `segment` likes them. */
    void (*load)(const struct attention_load *a, struct attention_segment *s);
    void (*segment)(const struct attention_segment *a);
    /* into = merge(into, from): the later segment is `from`. */
    void (*merge)(float *into, const float *from, int d_head);
};

struct attention_args {
    const struct op_attention *op; /* d_head even, 8 .. ATTENTION_MAX_D_HEAD */
    const struct kv_view *kv;
    int layer, n_row;
    const float *q; /* [n_row][n_head][d_head] */
    float *out;     /* the same shape; may be q */
    void *scratch;
    size_t scratch_bytes; /* at least attention_scratch_bytes of n_row rows */

    /* Hands out 0, 1, 2, ... over all threads of this operation, so that a slow thread takes fewer units; or NULL:
     * threads take turns.  The bits are the same. */
    size_t (*next)(void *context);
    void *next_context;
};

/* Bytes of scratch that attention_run needs; 0 if that overflows.  More than this is used when offered only by
 * callers that reserve for larger steps. */
size_t attention_scratch_bytes(const struct op_attention *op, int max_rows, int n_ctx, int n_thread);

/* Called by all nth threads of a pool_run with the same arguments.  The rows' K and V are in the cache (a barrier
 * after kv_append).  May use pool_barrier.  On return this thread's part is done; the caller's barrier ends the
 * operation.  pool may be NULL when nth is 1.  Allocates nothing. */
void attention_run(
    const struct cpu_attention *kernels, const struct attention_args *a, struct pool *pool, int ith, int nth);

/* Kernels: the scalar ones, and those of an ISA. */
void attention_init_ref(struct cpu_attention *out);
void attention_init_avx2(struct cpu_attention *out);
void attention_init_avx512(struct cpu_attention *out);
void attention_init_amx(struct cpu_attention *out);
void attention_init_neon(struct cpu_attention *out);

#endif
