/* SPDX-License-Identifier: MIT
 *
 * Operands of AMX attention: queries, keys and values of f32 and f16 split into bf16 tiles, the next block fetched
 * meanwhile.  attention_amx.c says how tiles lie and why.
 *
 * Needs: the vectors and sizes of that file, the only one that includes this.
 * Gives: prepare, split_keys, split_values.
 */
#ifndef LUTRA_CPU_X86_ATTENTION_AMX_SPLIT_TMPL_H
#define LUTRA_CPU_X86_ATTENTION_AMX_SPLIT_TMPL_H

/* Bytes of a tile; of hi and lo, a piece of K.  Tiles of queries that share a pass over K and V. */
enum { CHUNK = 32, SIDE = 16, TILE = 1024, BOTH = 2 * TILE, GROUP = 4, KEY_TILES = KV_BLOCK / SIDE };
enum { HALVES = KV_BLOCK / CHUNK, V_PIECE = HALVES * BOTH };

/* The upper halves of a's and b's lanes, as words: a's below. */
LUTRA_INLINE __m512i join(__m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, _mm512_set1_epi32((int)0xffff0000), 0xf8);
}

/* Rounded to nearest: hi, and lo in the upper halves of the lanes. */
LUTRA_INLINE void split_words(__m512 x, __m512 part[2])
{
    const __m512i half = _mm512_set1_epi32(0x8000), mask = _mm512_set1_epi32((int)0xffff0000);
    __m512i hi = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), mask);
    __m512i lo = _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(hi)));
    part[0] = _mm512_castsi512_ps(hi);
    part[1] = _mm512_castsi512_ps(_mm512_add_epi32(lo, half));
}

/* 32 values as words, both parts rounded to nearest. */
LUTRA_INLINE void split_rounded(__m512 a, __m512 b, void *hi, void *lo)
{
    __m512 x[2], y[2];
    split_words(a, x);
    split_words(b, y);
    _mm512_store_si512(hi, join(_mm512_castps_si512(x[0]), _mm512_castps_si512(y[0])));
    _mm512_store_si512(lo, join(_mm512_castps_si512(x[1]), _mm512_castps_si512(y[1])));
}

/* How much of the next segment's K and V has been fetched while this one is computed: `step` more bytes of each with
 * every two vectors that are split, SOFTMAX_STEPS as many with two vectors of scores.  Fetched during splits alone,
 * memory would bound those and idle in between. */
enum { SOFTMAX_STEPS = 3 };
struct ahead {
    size_t at, step;
};

LUTRA_INLINE void fetch_ahead(const struct attention_load *a, struct ahead *x, size_t n_step)
{
    if (x->at >= a->bytes) return;
    prefetch_next(a, x->at, n_step * x->step);
    x->at += n_step * x->step;
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

static int head_chunks(int d_head)
{
    return (d_head + CHUNK - 1) / CHUNK;
}

static int clip(int n, int most)
{
    return n < 0 ? 0 : n < most ? n : most;
}

/* Columns of queries: [chunk][hi, lo][16 words][16 queries].  Columns from n on are zero. */
static void prepare(const float *const *q, int n, int d_head, void *tiles)
{
    uint8_t *to = tiles;
    for (int d = 0; d < d_head; d += CHUNK, to += BOTH) {
        vec part[2][SIDE];
        for (int r = 0; r < SIDE; r++) {
            int left = r < n ? d_head - d : 0;
            const float *from = q[r < n ? r : 0] + d;
            split_rounded(quiet(vec_load_part(from, clip(left, SIDE))),
                quiet(vec_load_part(from + SIDE, clip(left - SIDE, SIDE))), &part[0][r], &part[1][r]);
        }
        for (int i = 0; i < 2; i++) {
            vec_transpose(part[i]);
            for (int r = 0; r < SIDE; r++) vec_store((float *)(void *)(to + i * TILE + r * 64), part[i][r]);
        }
    }
}

/* Keys 16 t .. of chunk c, a row each. */
static LUTRA_NOINLINE void split_keys(const struct attention_load *a, int t, int c, uint8_t *to, struct ahead *next)
{
    int stride = a->d_head, left = a->d_head - c * CHUNK;
    const uint16_t *k = (const uint16_t *)a->k + t * SIDE * stride + c * CHUNK;
    struct ahead ahead = *next;
    if (left >= CHUNK) {
        for (int i = 0; i < SIDE; i++, k += stride) {
            fetch_ahead(a, &ahead, 1);
            split_exact(vec_load_f16(k), vec_load_f16(k + SIDE), to + 64 * i, to + TILE + 64 * i);
        }
        *next = ahead;
        return;
    }
    for (int i = 0; i < SIDE; i++, k += stride) {
        split_exact(vec_load_f16_part(k, clip(left, SIDE)), vec_load_f16_part(k + SIDE, clip(left - SIDE, SIDE)),
            to + 64 * i, to + TILE + 64 * i);
    }
}

/* Elements 16 t .. of V in slots lo .. hi - 1, zero in the others: [half][hi, lo]. */
static LUTRA_NOINLINE void split_values(
    const struct attention_load *a, int t, int lo, int hi, uint8_t *to, struct ahead *next)
{
    int stride = a->d_head, n = clip(a->d_head - t * SIDE, SIDE);
    const uint16_t *v = (const uint16_t *)a->v + t * SIDE;
    struct ahead ahead = *next;
    if (lo == 0 && hi == KV_BLOCK && n == SIDE) {
        for (int h = 0; h < HALVES; h++, to += BOTH, v += CHUNK * stride) {
            for (int i = 0; i < SIDE; i++) {
                const uint16_t *x = v + i * stride;
                fetch_ahead(a, &ahead, 1);
                split_exact(vec_load_f16(x), vec_load_f16(x + SIDE * stride), to + 64 * i, to + TILE + 64 * i);
            }
        }
        *next = ahead;
        return;
    }
    for (int h = 0; h < HALVES; h++, to += BOTH) {
        for (int j = h * CHUNK; j < h * CHUNK + SIDE; j++) {
            vec x = j >= lo && j < hi ? vec_load_f16_part(v + j * stride, n) : vec_zero();
            int other = j + SIDE;
            vec y = other >= lo && other < hi ? vec_load_f16_part(v + other * stride, n) : vec_zero();
            split_exact(x, y, to + 64 * (j % CHUNK), to + TILE + 64 * (j % CHUNK));
        }
    }
}

#endif
