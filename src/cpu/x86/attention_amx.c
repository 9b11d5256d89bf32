/* SPDX-License-Identifier: MIT
 *
 * Attention on AMX: both products in bf16 tiles, each f32 factor split into two bf16 (class bf16x3, docs/NUMERICS.md).
 *
 *     x = hi + lo:  hi = x rounded to 8 significant bits, lo = the rest rounded to 8 (a half float's lo is exact)
 *     x y = hi hi' + hi lo' + lo hi' + lo lo'
 *
 * Scores take all four products: their errors are exponentiated.  Values leave lo lo' out, at most 2^-16 |p v|.
 * The left factor (queries, then probabilities) is split where it is made; the right one (K, then V) once per block
 * for all its queries.  Per 32 inputs a tile sum takes the products in the order above; inputs ascend.
 *
 * Left factor:   [query][chunk of 32][hi, lo][32]: word i of 16 = inputs i (low half) and 16 + i of the chunk.
 * Right factor:  tiles of 16 words (as above) x 16 columns, see tile_at.
 *
 * F32 and Q8_0 caches have more bits than two bf16 keep: they are attended in f32.
 */
#include "cpu/attention.h"

#include <string.h>

#include "cpu/x86/amx_impl.h"
#include "cpu/x86/vec_avx512_impl.h"
#include "cpu/vec_math_impl.h"
#include "cpu/attention_body_impl.h"
#include "cpu/x86/transpose_avx512_impl.h"

enum { CHUNK = 32, CHUNK_BYTES = 2 * CHUNK * 2, TILE_N = 16, TILE_BYTES = 1024, GROUP = 4, LO = TILE_BYTES };
enum { P_CHUNKS = KV_BLOCK / CHUNK, P_BYTES = P_CHUNKS * CHUNK_BYTES, TILE_M = 16 };

/* ---- splitting ---- */

/* The upper halves of a's and b's lanes, as words: a's below. */
LUTRA_INLINE __m512i join(__m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, _mm512_set1_epi32((int)0xffff0000), 0xf8);
}

/* 32 values as words, both parts rounded to nearest. */
LUTRA_INLINE void split_rounded(__m512 a, __m512 b, void *hi, void *lo)
{
    const __m512i half = _mm512_set1_epi32(0x8000), mask = _mm512_set1_epi32((int)0xffff0000);
    __m512i ha = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(a), half), mask);
    __m512i hb = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(b), half), mask);
    __m512i la = _mm512_castps_si512(_mm512_sub_ps(a, _mm512_castsi512_ps(ha)));
    __m512i lb = _mm512_castps_si512(_mm512_sub_ps(b, _mm512_castsi512_ps(hb)));
    _mm512_store_si512(hi, join(ha, hb));
    _mm512_store_si512(lo, join(_mm512_add_epi32(la, half), _mm512_add_epi32(lb, half)));
}

/* Any NaN as one that rounding does not turn into a number. */
LUTRA_INLINE vec quiet(vec x)
{
    return vec_select(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), vec_set1(NAN), x);
}

/* Of half floats: hi cut off, so that lo is exact. */
LUTRA_INLINE void split_exact(__m512 a, __m512 b, void *hi, void *lo)
{
    const __m512i mask = _mm512_set1_epi32((int)0xffff0000);
    __m512i ha = _mm512_and_si512(_mm512_castps_si512(a), mask), hb = _mm512_and_si512(_mm512_castps_si512(b), mask);
    __m512i la = _mm512_castps_si512(_mm512_sub_ps(a, _mm512_castsi512_ps(ha)));
    __m512i lb = _mm512_castps_si512(_mm512_sub_ps(b, _mm512_castsi512_ps(hb)));
    _mm512_store_si512(hi, join(ha, hb));
    _mm512_store_si512(lo, join(la, lb));
}

static void prepare(const float *q, int d_head, enum quant_type type, void *prepared)
{
    if (type != QUANT_F16) {
        memcpy(prepared, q, (size_t)d_head * sizeof *q);
        return;
    }
    uint8_t *to = prepared;
    for (int d = 0; d < d_head; d += CHUNK, to += CHUNK_BYTES) {
        int left = d_head - d;
        split_rounded(vec_load_part(q + d, left < 16 ? left : 16),
            vec_load_part(q + d + 16, left < 16   ? 0
                                      : left < 32 ? left - 16
                                                  : 16),
            to, to + CHUNK_BYTES / 2);
    }
}

/* Tile of chunk c and columns 16 t ..: [column group][chunk][4 of the group][hi, lo], so that a product reads on. */
LUTRA_INLINE uint8_t *tile_at(void *tiles, int n_chunk, int c, int t)
{
    return (uint8_t *)tiles + (size_t)((t / GROUP * n_chunk + c) * GROUP + t % GROUP) * 2 * TILE_BYTES;
}

/* m[first .. end - 1][n_column] half floats -> tiles of n_chunk chunks; other rows count as zero.  Meanwhile as many bytes
 * are prefetched from `ahead` on. */
LUTRA_INLINE void split_rows(const uint16_t *m, int stride, int first, int end, int n_column, int n_chunk, void *tiles,
    const uint8_t *ahead, const bool whole)
{
    for (int c = 0; c < n_chunk; c++) {
        for (int t = 0; 16 * t < n_column; t++) {
            uint8_t *to = tile_at(tiles, n_chunk, c, t);
            for (int i = 0; i < 16; i++, ahead += 64) {
                LUTRA_PREFETCH(ahead);
                const uint16_t *a = m + (c * CHUNK + i) * stride + 16 * t;
                if (whole) {
                    split_exact(vec_load_f16(a), vec_load_f16(a + 16 * stride), to + 64 * i, to + LO + 64 * i);
                    continue;
                }
                int row = c * CHUNK + i, n = n_column - 16 * t < 16 ? n_column - 16 * t : 16;
                vec x = row >= first && row < end ? vec_load_f16_part(a, n) : vec_zero();
                vec y = row + 16 >= first && row + 16 < end ? vec_load_f16_part(a + 16 * stride, n) : vec_zero();
                split_exact(x, y, to + 64 * i, to + LO + 64 * i);
            }
        }
    }
}

static LUTRA_NOINLINE void split_f16(
    const uint16_t *m, int stride, int first, int end, int n_column, int n_chunk, void *tiles, const uint8_t *ahead)
{
    if (first == 0 && end == n_chunk * CHUNK && n_column % 16 == 0) {
        split_rows(m, stride, first, end, n_column, n_chunk, tiles, ahead, true);
    } else {
        split_rows(m, stride, first, end, n_column, n_chunk, tiles, ahead, false);
    }
}

/* V of slots lo .. hi - 1; the others are zero. */
static void split_values(const struct attention_load *a, int lo, int hi)
{
    split_f16(a->v, a->d_head, lo, hi, a->d_head, P_CHUNKS, a->vt, a->next_v);
}

static int head_chunks(int d_head)
{
    return (d_head + CHUNK - 1) / CHUNK;
}

static void load(const struct attention_load *a, struct attention_segment *s)
{
    if (a->type != QUANT_F16) {
        load_as_f32(a, s);
        return;
    }
    transpose_f16(a->k, a->d_head, a->n_pos, a->work);
    split_f16(a->work, KV_BLOCK, 0, a->d_head, KV_BLOCK, head_chunks(a->d_head), a->kt, a->next_k);
    split_values(a, 0, a->n_pos);
    s->type = QUANT_F16;
}

/* ---- products ---- */

/* c[n_row <= 16][16 columns x n_tile] = left x right; strides in bytes; the tile shapes are set for n_row.
 * all: with lo lo'. */
static void product(const uint8_t *left, size_t left_stride, void *right, int n_chunk, int n_tile, float *c,
    size_t c_stride, const bool all)
{
    compiler_fence(left);
    for (int t = 0; t < n_tile; t += GROUP) {
        int n = n_tile - t;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int k = 0; k < n_chunk; k++) {
            const uint8_t *b = tile_at(right, n_chunk, k, t);
            _tile_loadd(4, left + k * CHUNK_BYTES, left_stride);
            _tile_loadd(5, left + k * CHUNK_BYTES + CHUNK_BYTES / 2, left_stride);
#define COLUMNS(u)                                                                                                     \
    _tile_loadd(6, b + (u)*2 * TILE_BYTES, 64);                                                                        \
    _tile_loadd(7, b + (u)*2 * TILE_BYTES + LO, 64);                                                                   \
    _tile_dpbf16ps(u, 4, 6);                                                                                           \
    _tile_dpbf16ps(u, 4, 7);                                                                                           \
    _tile_dpbf16ps(u, 5, 6);                                                                                           \
    if (all) _tile_dpbf16ps(u, 5, 7)
            COLUMNS(0);
            if (n > 1) {
                COLUMNS(1);
            }
            if (n > 2) {
                COLUMNS(2);
            }
            if (n > 3) {
                COLUMNS(3);
            }
#undef COLUMNS
        }
        float *to = c + 16 * t;
        _tile_stored(0, to, c_stride);
        if (n > 1) _tile_stored(1, to + 16, c_stride);
        if (n > 2) _tile_stored(2, to + 32, c_stride);
        if (n > 3) _tile_stored(3, to + 48, c_stride);
    }
    compiler_fence(c);
}

static void shape_for(int n_row)
{
    struct amx_shapes s = {0};
    for (int i = 0; i < 6; i++) amx_shape(&s, i, n_row, 64);
    amx_shape(&s, 6, 16, 64);
    amx_shape(&s, 7, 16, 64);
    amx_begin(&s);
}

/* ---- a segment ---- */

/* The prepared queries at equal distance: where they are, or copied together. */
static const uint8_t *queries_of(const struct attention_segment *a, uint8_t *copy, size_t bytes)
{
    const uint8_t *q = a->q[0];
    int n = 1;
    while (n < a->n_query && a->q[n] == q + (size_t)n * bytes) n++;
    if (n == a->n_query) return q;
    for (int r = 0; r < a->n_query; r++) memcpy(copy + (size_t)r * bytes, a->q[r], bytes);
    return copy;
}

/* Probabilities [n_q][64] as a left factor. */
LUTRA_INLINE void split_probabilities(const float *p, int n_q, uint8_t *to)
{
    for (int i = 0; i < n_q * P_CHUNKS; i++, p += CHUNK, to += CHUNK_BYTES) {
        split_rounded(vec_load(p), vec_load(p + 16), to, to + CHUNK_BYTES / 2);
    }
}

/* A query's state = state * into + o * from. */
LUTRA_INLINE void add_output(const struct attention_segment *a, int query, const float *o, float into, float from)
{
    float *state = a->state[query] + ATTENTION_STATE_O;
    vec x = vec_set1(into), y = vec_set1(from);
    for (int d = 0; d < attention_padded(a->from.d_head); d += VEC) {
        vec_store(state + d, vec_fma(vec_load(state + d), x, vec_fma(vec_load(o + d), y, vec_zero())));
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

/* Scratch of a segment. */
struct room {
    const uint8_t *q;
    uint8_t *p; /* [query][P_BYTES] */
    float *o;   /* [TILE_M][o_stride] */
    size_t query_bytes;
    int o_stride;
};

static void run_scores(const struct attention_segment *a, const struct room *x, int first)
{
    size_t bytes = x->query_bytes;
    product(x->q + (size_t)first * bytes, bytes, a->from.kt, head_chunks(a->from.d_head), KV_BLOCK / TILE_N,
        a->p + first * KV_BLOCK, KV_BLOCK * sizeof(float), true);
}

static void run_values(const struct attention_segment *a, const struct room *x, int first, int n, const struct mix *mix)
{
    int n_tile = attention_padded(a->from.d_head) / TILE_N;
    product(x->p + first * P_BYTES, P_BYTES, a->from.vt, P_CHUNKS, n_tile, x->o, (size_t)x->o_stride * sizeof(float),
        false);
    for (int r = first; r < first + n; r++) {
        add_output(a, r, x->o + (r - first) * x->o_stride, mix->into[r % TILE_M], mix->from[r % TILE_M]);
    }
}

static LUTRA_NOINLINE void segment_of_tiles(const struct attention_segment *a)
{
    int d = a->from.d_head;
    struct room x = {.p = a->from.work, .query_bytes = attention_query_bytes(d), .o_stride = (d + 63) / 64 * 64};
    uint8_t *copy = x.p + ATTENTION_MAX_QUERY * P_BYTES;
    x.o = (float *)(void *)(copy + ATTENTION_MAX_QUERY * x.query_bytes);
    x.q = queries_of(a, copy, x.query_bytes);
    struct mix mix[ATTENTION_MAX_QUERY / TILE_M];
    for (int first = 0, n; first < a->n_query; first += n) {
        n = a->n_query - first < TILE_M ? a->n_query - first : TILE_M;
        if (first == 0 || n < TILE_M) shape_for(n);
        run_scores(a, &x, first);
    }
    for (int first = 0, n; first < a->n_query; first += n) {
        n = a->n_query - first < TILE_M ? a->n_query - first : TILE_M;
        softmax_tile(a, first, n, &mix[first / TILE_M]);
        split_probabilities(a->p + first * KV_BLOCK, n, x.p + first * P_BYTES);
    }
    bool alone = poisoned(a);
    int step = alone ? 1 : TILE_M;
    for (int first = 0, n; first < a->n_query; first += n) {
        n = a->n_query - first < step ? a->n_query - first : step;
        if (first == 0 || n < step) shape_for(n);
        if (alone) split_values(&a->from, a->lo[first], a->hi[first]);
        run_values(a, &x, first, n, &mix[first / TILE_M]);
    }
    if (alone) split_values(&a->from, 0, a->from.n_pos);
    amx_end();
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
        .prepare = prepare,
        .load = load,
        .segment = segment,
        .merge = attention_merge};
}
