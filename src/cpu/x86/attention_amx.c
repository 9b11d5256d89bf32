/* SPDX-License-Identifier: MIT
 *
 * Attention on AMX: both products in bf16 tiles, each f32 factor split into two bf16 (class bf16x3, docs/NUMERICS.md).
 *
 *     x = hi + lo:  hi = x rounded to 8 significant bits, lo = the rest rounded to 8 (a half float's lo is exact)
 *     x y = hi hi' + hi lo' + lo hi' + lo lo'
 *
 * Scores take all four products: their errors are exponentiated.  Values leave lo lo' out, at most 2^-16 |p v|.
 * Per 32 inputs a tile sum takes the products in the order above; inputs ascend.
 *
 * Queries stand in columns, 16 to a tile: scores^T = K q^T, so that K is the left factor, whose rows lie as in the
 * cache, and the softmax has a query per lane.  Then o = p V: V is the right factor, its rows in pairs, as in the
 * cache, too; only p is transposed.  A word holds inputs i (low half) and 16 + i of a chunk of 32.
 *
 * K and V are split in pieces that stay in L1 until the tile unit has used them; in memory only when other calls
 * will want them.  (Splitting some pieces ahead, while tiles are at work, gains nothing: with real data the two share
 * one power budget, docs/PITFALLS.md.)
 *
 * F32 and Q8_0 caches have more bits than two bf16 keep: they are attended in f32.
 */
#include "cpu/attention.h"

#include <string.h>

#include "cpu/x86/amx_impl.h"
#include "cpu/x86/vec_avx512_impl.h"
#include "cpu/vec_math_tmpl.h"
#include "cpu/attention_tmpl.h"
#include "cpu/x86/attention_amx_split_tmpl.h"

/* ---- a segment for up to GROUP tiles of queries ---- */

/* Queries first .. first + n - 1 of the segment, in columns of one tile. */
struct columns {
    const uint8_t *q; /* what `prepare` left */
    int first, n;
    uint8_t column[SIDE]; /* of query first + i */
    uint8_t *scores;      /* [KV_BLOCK][16] f32 */
    uint8_t *p;           /* [half][hi, lo][16 queries][16 words] */
    struct mix mix;       /* by column */
};

struct group {
    const struct attention_segment *a;
    struct columns x[GROUP];
    int n;
    bool fresh; /* K and V are not split yet */
    bool keep;  /* for another group what is split */
    struct ahead *ahead;
    uint8_t *tmp; /* [hi, lo] */
    uint8_t *o;   /* [2][GROUP][16 queries][16] f32 */
};

static void open_tiles(void)
{
    struct amx_shapes s = {0};
    for (int i = 0; i < 8; i++) amx_shape(&s, i, SIDE, 64);
    amx_begin(&s);
}

/* Where chunk c of key tile t lies, split: all side by side, or those of a chunk. */
static uint8_t *key_piece(const struct group *g, int c, int t)
{
    bool keep = g->keep || g->n > 1;
    return (uint8_t *)g->a->from.kt + (size_t)((keep ? c * KEY_TILES : 0) + t) * BOTH;
}

/* Scores of the queries of tile u, unscaled. */
static void score_columns(const struct group *g, int u)
{
    const struct attention_load *f = &g->a->from;
    const uint8_t *q = g->x[u].q;
    int n_key_tile = (f->n_pos + SIDE - 1) / SIDE;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int c = 0; c < head_chunks(f->d_head); c++, q += BOTH) {
        for (int t = 0; g->fresh && u == 0 && t < n_key_tile; t++) split_keys(f, t, c, key_piece(g, c, t), g->ahead);
        compiler_fence(q);
        _tile_loadd(6, q, 64);
        _tile_loadd(7, q + TILE, 64);
#define KEYS(t)                                                                                                        \
    _tile_loadd(4, key_piece(g, c, t), 64);                                                                            \
    _tile_loadd(5, key_piece(g, c, t) + TILE, 64);                                                                     \
    _tile_dpbf16ps(t, 4, 6);                                                                                           \
    _tile_dpbf16ps(t, 4, 7);                                                                                           \
    _tile_dpbf16ps(t, 5, 6);                                                                                           \
    _tile_dpbf16ps(t, 5, 7)
        KEYS(0);
        if (n_key_tile > 1) {
            KEYS(1);
        }
        if (n_key_tile > 2) {
            KEYS(2);
        }
        if (n_key_tile > 3) {
            KEYS(3);
        }
#undef KEYS
    }
    uint8_t *scores = g->x[u].scores;
    _tile_stored(0, scores, 64);
    if (n_key_tile > 1) _tile_stored(1, scores + TILE, 64);
    if (n_key_tile > 2) _tile_stored(2, scores + 2 * TILE, 64);
    if (n_key_tile > 3) _tile_stored(3, scores + 3 * TILE, 64);
    compiler_fence(scores);
}

/* What the queries of a tile see, by column. */
struct sight {
    __m512i lo, hi;
    bool whole;
};

static struct sight sight_of(const struct attention_segment *a, const struct columns *x)
{
    int32_t lo[SIDE] = {0}, hi[SIDE];
    bool whole = true;
    for (int i = 0; i < x->n; i++) whole &= a->lo[x->first + i] == 0 && a->hi[x->first + i] == KV_BLOCK;
    if (whole) return (struct sight){.whole = true};
    for (int i = 0; i < SIDE; i++) hi[i] = KV_BLOCK;
    for (int i = 0; i < x->n; i++) {
        lo[x->column[i]] = a->lo[x->first + i];
        hi[x->column[i]] = a->hi[x->first + i];
    }
    return (struct sight){_mm512_loadu_si512(lo), _mm512_loadu_si512(hi), false};
}

LUTRA_INLINE vmask sees(const struct sight *s, int j)
{
    __m512i slot = _mm512_set1_epi32(j);
    return _mm512_cmple_epi32_mask(s->lo, slot) & _mm512_cmplt_epi32_mask(slot, s->hi);
}

/* Dot products of n_key keys -> scores, masked with -inf.  Returns the largest of each query. */
LUTRA_INLINE vec scale_scores(const struct attention_segment *a, const struct sight *s, float *scores, int n_key)
{
    vec scale = vec_set1(a->scale), low = vec_set1(-INFINITY), max = low;
    for (int j = 0; j < n_key; j++, scores += SIDE) {
        vec x = vec_mul(vec_load(scores), scale);
        if (a->softcap != 0) x = vec_mul(vec_set1(a->softcap), vec_tanh(vec_div(x, vec_set1(a->softcap))));
        if (!s->whole) x = vec_select(sees(s, j), x, low);
        max = vec_max(max, x);
        vec_store(scores, x);
    }
    return max;
}

/* e^(score - max), given max log2(e): 2^y = 2^floor(y) 2^f, the latter 1 + f q(f) with q of degree 4 interpolated at
 * Chebyshev nodes: error below 3e-7, where rounding to two bf16 makes 7.6e-6.  0 at -inf. */
LUTRA_INLINE vec probability(vec score, vec max_log2)
{
    vec y = _mm512_fmsub_ps(score, vec_set1(0x1.715476p+0f), max_log2);
    vec f = _mm512_reduce_ps(y, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vec q = vec_fma(vec_set1(0x1.d4cf66p-10f), f, vec_set1(0x1.2d720ep-7f));
    q = vec_fma(q, f, vec_set1(0x1.c7f14ep-5f));
    q = vec_fma(q, f, vec_set1(0x1.ebf1c0p-3f));
    q = vec_fma(q, f, vec_set1(0x1.62e43cp-1f));
    return vec_scale2(vec_fma(q, f, vec_set1(1)), y);
}

/* tmp [16 words of key pairs][16 queries] -> a row per query. */
LUTRA_INLINE void transpose_words(const uint8_t *tmp, vec r[SIDE])
{
    for (int i = 0; i < SIDE; i++) r[i] = vec_load((const float *)(const void *)(tmp + 64 * i));
    vec_transpose(r);
}

/* Scores -> probabilities relative to the largest, transposed and split.  Returns their sums: of the lower and of the
 * upper 16 keys of each half, then of the two. */
LUTRA_INLINE vec take_exp(const struct group *g, const struct columns *x, const struct sight *s, int n_key, vec max)
{
    const float *row = (const float *)(const void *)x->scores;
    vec lower = vec_zero(), upper = vec_zero();
    struct ahead ahead = *g->ahead;
    for (int h = 0; h < n_key; h += CHUNK, row += CHUNK * SIDE) {
        for (int i = 0; i < SIDE; i++) {
            fetch_ahead(&g->a->from, &ahead, SOFTMAX_STEPS);
            vec a = probability(vec_load(row + i * SIDE), max), b = vec_zero();
            if (!s->whole) a = vec_select(sees(s, h + i), a, vec_zero());
            if (h + SIDE < n_key) b = probability(vec_load(row + (i + SIDE) * SIDE), max);
            if (!s->whole) b = vec_select(sees(s, h + SIDE + i), b, vec_zero());
            lower = vec_add(lower, a);
            upper = vec_add(upper, b);
            split_rounded(a, b, g->tmp + 64 * i, g->tmp + TILE + 64 * i);
        }
        for (int part = 0; part < BOTH; part += TILE) {
            vec r[SIDE];
            transpose_words(g->tmp + part, r);
            for (int i = 0; i < SIDE; i++) {
                vec_store((float *)(void *)(x->p + h / CHUNK * BOTH + part + 64 * i), r[i]);
            }
        }
    }
    *g->ahead = ahead;
    return vec_add(lower, upper);
}

/* a's lower half below b's; the upper halves. */
LUTRA_INLINE vec lower_halves(vec a, vec b)
{
    return _mm512_shuffle_f32x4(a, b, 0x44);
}
LUTRA_INLINE vec upper_halves(vec a, vec b)
{
    return _mm512_shuffle_f32x4(a, b, 0xee);
}

/* The same values for eight columns from `first` on: a vector holds a key's and below it the 16th before's. */
LUTRA_INLINE vec take_exp_8(
    const struct group *g, const struct columns *x, int first, const struct sight *s, int n_key, vec max)
{
    const float *row = (const float *)(const void *)x->scores + first;
    vec sum = vec_zero();
    struct ahead ahead = *g->ahead;
    max = first ? upper_halves(max, max) : lower_halves(max, max);
    for (int h = 0; h < n_key; h += CHUNK, row += CHUNK * SIDE) {
        for (int i = 0; i < SIDE; i++) {
            fetch_ahead(&g->a->from, &ahead, SOFTMAX_STEPS);
            __m256 a = _mm256_loadu_ps(row + i * SIDE), b = _mm256_loadu_ps(row + (i + SIDE) * SIDE);
            vec e = probability(_mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1), max);
            if (!s->whole) {
                unsigned seen = (sees(s, h + i) >> first & 0xffu) | (sees(s, h + SIDE + i) >> first & 0xffu) << 8;
                e = vec_select((vmask)seen, e, vec_zero());
            }
            sum = vec_add(sum, e);
            vec part[2];
            split_words(e, part);
            _mm512_store_si512(g->tmp + 64 * i, join(_mm512_castps_si512(lower_halves(part[0], part[1])),
                                                    _mm512_castps_si512(upper_halves(part[0], part[1]))));
        }
        vec r[SIDE];
        transpose_words(g->tmp, r);
        uint8_t *p = x->p + h / CHUNK * BOTH + 64 * first;
        for (int i = 0; i < SIDE; i++) vec_store((float *)(void *)(p + i / 8 * TILE + 64 * (i % 8)), r[i]);
    }
    *g->ahead = ahead;
    return vec_add(sum, upper_halves(sum, lower_halves(sum, sum)));
}

static LUTRA_NOINLINE void softmax_columns(const struct group *g, struct columns *x)
{
    const struct attention_segment *a = g->a;
    struct mix *mix = &x->mix;
    vec_store(mix->old_m, vec_zero());
    vec_store(mix->old_l, vec_zero());
    for (int i = 0; i < x->n; i++) {
        mix->old_m[x->column[i]] = a->state[x->first + i][ATTENTION_STATE_M];
        mix->old_l[x->column[i]] = a->state[x->first + i][ATTENTION_STATE_L];
    }
    struct sight s = sight_of(a, x);
    int n_key = (a->from.n_pos + SIDE - 1) / SIDE * SIDE, first = x->column[0] / 8 * 8;
    vec max = scale_scores(a, &s, (float *)(void *)x->scores, n_key);
    vec max_log2 = vec_mul(max, vec_set1(0x1.715476p+0f));
    vec_store(mix->m, max);
    if (x->column[x->n - 1] < first + 8) {
        vec_store(mix->l, take_exp_8(g, x, first, &s, n_key, max_log2));
    } else {
        vec_store(mix->l, take_exp(g, x, &s, n_key, max_log2));
    }
    mix_sums(mix);
    for (int i = 0; i < x->n; i++) {
        a->state[x->first + i][ATTENTION_STATE_M] = mix->old_m[x->column[i]];
        a->state[x->first + i][ATTENTION_STATE_L] = mix->old_l[x->column[i]];
    }
}

/* Tiles t and, where n is 2, t + 1 of the outputs of queries first .. end - 1, merged into their states. */
static void add_outputs(const struct group *g, int t, int n, int first, int end)
{
    for (int u = 0; u < g->n; u++) {
        const struct columns *x = &g->x[u];
        for (int i = 0; i < x->n; i++) {
            if (x->first + i < first || x->first + i >= end) continue;
            int column = x->column[i];
            const float *o = (const float *)(const void *)(g->o + u * TILE + 64 * column);
            float *state = g->a->state[x->first + i] + ATTENTION_STATE_O + t * SIDE;
            vec into = vec_set1(x->mix.into[column]), from = vec_set1(x->mix.from[column]);
            for (int k = 0; k < n; k++, state += SIDE, o += GROUP * SIDE * SIDE) {
                vec segment = vec_fma(vec_load(o), from, vec_zero());
                vec_store(state, vec_fma(vec_load(state), into, segment));
            }
        }
    }
}

/* Elements 16 t .. of the outputs. */
static void value_products(const struct group *g, int t, const uint8_t *piece, int n_half)
{
    const struct columns *x = g->x;
    uint8_t *o = g->o + (t & 1) * GROUP * TILE;
    compiler_fence(piece);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int at = 0; at < n_half * BOTH; at += BOTH) {
        _tile_loadd(6, piece + at, 64);
        _tile_loadd(7, piece + at + TILE, 64);
#define QUERIES(u)                                                                                                     \
    _tile_loadd(4, x[u].p + at, 64);                                                                                   \
    _tile_loadd(5, x[u].p + at + TILE, 64);                                                                            \
    _tile_dpbf16ps(u, 4, 6);                                                                                           \
    _tile_dpbf16ps(u, 4, 7);                                                                                           \
    _tile_dpbf16ps(u, 5, 6)
        QUERIES(0);
        if (g->n > 1) {
            QUERIES(1);
        }
        if (g->n > 2) {
            QUERIES(2);
        }
        if (g->n > 3) {
            QUERIES(3);
        }
#undef QUERIES
    }
    _tile_stored(0, o, 64);
    if (g->n > 1) _tile_stored(1, o + TILE, 64);
    if (g->n > 2) _tile_stored(2, o + 2 * TILE, 64);
    if (g->n > 3) _tile_stored(3, o + 3 * TILE, 64);
    compiler_fence(o);
}

static uint8_t *value_piece(const struct group *g, int t)
{
    return (uint8_t *)g->a->from.vt + (size_t)(g->keep ? t : 0) * V_PIECE;
}

/* Of queries first .. end - 1, over slots lo .. hi - 1. */
static void run_values(const struct group *g, int lo, int hi, bool fresh, int first, int end)
{
    const struct attention_load *f = &g->a->from;
    int n_tile = attention_padded(f->d_head) / SIDE, n_half = (hi + CHUNK - 1) / CHUNK;
    for (int t = 0; t < n_tile; t++) {
        if (fresh) split_values(f, t, lo, hi, value_piece(g, t), g->ahead);
        value_products(g, t, value_piece(g, t), n_half);
        if ((t & 1) || t == n_tile - 1) add_outputs(g, t & ~1, 1 + (t & 1), first, end);
    }
}

/* Whether a query does not see all of what was loaded, and what it does not see holds an infinity or a NaN. */
static bool poisoned(const struct attention_segment *a)
{
    const struct attention_load *f = &a->from;
    bool part = false;
    for (int r = 0; r < a->n_query; r++) part |= a->lo[r] > 0 || a->hi[r] < f->n_pos;
    if (!part) return false;
    __m512i most = _mm512_setzero_si512();
    const uint16_t *v = f->v;
    int n = f->n_pos * f->d_head;
    for (int i = 0; i < n; i += 32) {
        __mmask32 valid = n - i < 32 ? 0xffffffffu >> (32 - (n - i)) : 0xffffffffu;
        most = _mm512_max_epu16(most, _mm512_slli_epi16(_mm512_maskz_loadu_epi16(valid, v + i), 1));
    }
    return _mm512_cmpge_epu16_mask(most, _mm512_set1_epi16((short)0xf800)) != 0;
}

/* Each query by itself, so that nothing is multiplied by a value that it does not see. */
static void run_values_alone(const struct group *g)
{
    const struct attention_segment *a = g->a;
    for (int u = 0; u < g->n; u++) {
        for (int r = g->x[u].first; r < g->x[u].first + g->x[u].n; r++) {
            run_values(g, a->lo[r], a->hi[r], true, r, r + 1);
        }
    }
    int n_tile = g->keep ? attention_padded(a->from.d_head) / SIDE : 0;
    for (int t = 0; t < n_tile; t++) split_values(&a->from, t, 0, a->from.n_pos, value_piece(g, t), g->ahead);
}

static void run_group(struct group *g)
{
    const struct attention_segment *a = g->a;
    for (int u = 0; u < g->n; u++) { /* in turns: after some 1600 idle cycles the tile unit starts slowly */
        score_columns(g, u);
        softmax_columns(g, &g->x[u]);
    }
    if (poisoned(a)) {
        run_values_alone(g);
    } else {
        run_values(g, 0, a->from.n_pos, g->fresh, 0, a->n_query);
    }
}

/* The tiles in which queries from `first` on stand, as many as a group holds.  Returns the first query not taken. */
static int take_queries(struct group *g, int first)
{
    const struct attention_segment *a = g->a;
    const size_t tile_bytes = attention_columns_bytes(a->from.d_head);
    int r = first, tile = -1;
    for (g->n = 0; r < a->n_query; r++) {
        if (a->index[r] / SIDE != tile) {
            if (g->n == GROUP) break;
            tile = a->index[r] / SIDE;
            g->x[g->n].q = (const uint8_t *)a->prepared + (size_t)tile * tile_bytes;
            g->x[g->n].first = r;
            g->x[g->n++].n = 0;
        }
        struct columns *x = &g->x[g->n - 1];
        x->column[x->n++] = (uint8_t)(a->index[r] % SIDE);
    }
    return r;
}

/* What makes all of the next segment come while n tiles of queries are computed. */
static size_t step_ahead(const struct attention_segment *a, int n)
{
    int d = a->from.d_head, splits = KV_BLOCK * head_chunks(d) + KV_BLOCK / 2 * attention_padded(d) / SIDE;
    size_t steps = (size_t)(splits + n * SOFTMAX_STEPS * KV_BLOCK / 2);
    return (a->from.bytes + steps - 1) / steps;
}

static LUTRA_NOINLINE void segment_of_tiles(const struct attention_segment *a)
{
    struct ahead ahead = {0};
    struct group g = {.a = a, .fresh = !a->again, .ahead = &ahead};
    uint8_t *work = a->from.work;
    for (int u = 0; u < GROUP; u++) {
        g.x[u].scores = work + u * KV_BLOCK * 64;
        g.x[u].p = work + (GROUP + u) * KV_BLOCK * 64;
    }
    g.o = work + 2 * GROUP * KV_BLOCK * 64;
    g.tmp = g.o + 2 * GROUP * TILE;
    for (int next, r = 0; r < a->n_query; r = next, g.fresh = false) {
        next = take_queries(&g, r);
        ahead.step = g.fresh ? step_ahead(a, g.n) : 0;
        g.keep = !g.fresh || next < a->n_query || !a->last;
        run_group(&g);
    }
}

static void load(const struct attention_load *a, struct attention_segment *s)
{
    s->type = QUANT_F16;
    if (!attention_is_f16(a->type)) load_as_f32(a, s);
}

static void segment(const struct attention_segment *a)
{
    if (a->type == QUANT_F32) {
        segment_of_f32(a);
    } else {
        segment_of_tiles(a);
    }
}

void attention_init_amx(struct cpu_attention *out)
{
    *out = (struct cpu_attention){.name = "attention_amx",
        .numerics = "bf16x3",
        .max_query = ATTENTION_MAX_QUERY,
        .begin = open_tiles,
        .end = amx_end,
        .prepare = prepare,
        .load = load,
        .segment = segment,
        .merge = attention_merge};
}
