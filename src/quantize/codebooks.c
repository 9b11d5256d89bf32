/* SPDX-License-Identifier: MIT
 *
 * IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S from values.
 *
 * A group's real scale is the best of a few trials, each followed by least squares; the block's integers and half float
 * follow from these, and are mended by their neighbours and by least squares.  For a scale the values are rounded to
 * magnitudes one by one.  Where these are no entry of the codebook, the final codes take the entry of least weighted
 * error; trials the best of those whose magnitudes are next to the rounded ones, which takes a tenth of the time.
 * Where an even number of 8 signs must be negative, the sign that costs least is turned.
 */
#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "base/f16.h"
#include "quant/codebooks.h"
#include "quant/arithmetic.h"
#include "quantize/solve_impl.h"

enum { GROUPS = 16, GROUP = 32, KEYS = 3 * 3 * 3 * 3 * 3 * 3 * 3 * 3, COMBINATIONS = 16, TRIALS = 5 };

/* A group: entries and signs for a scale; sums of w v x and w v v over its elements, v the signed magnitudes. */
struct coded {
    uint16_t index[GROUP / 4];
    uint8_t signs[GROUP / 8];
    float xv, vv;
};

struct block {
    float d; /* as the half holds it */
    int s[GROUPS];
    struct coded group[GROUPS];
};

struct book {
    size_t block_bytes;
    const uint16_t *entry;
    int n_entry, elems, bits;
    int n_level, near; /* magnitudes; those of an element that are tried */
    int group;         /* elements that share a scale */
    bool even;         /* the number of negative ones among 8 */
    float unit;
    float level[8];
    void (*pack)(const struct block *b, void *dst);
};

/* 4 x 7 signs and a scale, of 32 elements. */
static void put_word(const struct block *b, int g, uint8_t out[4])
{
    uint32_t word = (uint32_t)b->s[g] << 28;
    for (int l = 0; l < 4; l++) word |= (uint32_t)(b->group[g].signs[l] & 127) << 7 * l;
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(word >> 8 * i);
}

static void pack_iq3_xxs(const struct block *b, void *dst)
{
    struct quant_iq3_xxs *out = dst;
    out->d = f32_to_f16(b->d);
    for (int i = 0; i < 64; i++) out->qs[i] = (uint8_t)b->group[i / 8].index[i % 8];
    for (int g = 0; g < 8; g++) put_word(b, g, out->signs + 4 * g);
}

static void pack_iq2_xxs(const struct block *b, void *dst)
{
    struct quant_iq2_xxs *out = dst;
    out->d = f32_to_f16(b->d);
    for (int g = 0; g < 8; g++) {
        for (int l = 0; l < 4; l++) out->qs[8 * g + l] = (uint8_t)b->group[g].index[l];
        put_word(b, g, out->qs + 8 * g + 4);
    }
}

static void put_nibbles(const struct block *b, int n, uint8_t *scales)
{
    for (int g = 0; g < n; g++) scales[g / 2] |= (uint8_t)(b->s[g] << g % 2 * 4);
}

static void pack_iq2_xs(const struct block *b, void *dst)
{
    struct quant_iq2_xs *out = dst;
    memset(out, 0, sizeof *out);
    out->d = f32_to_f16(b->d);
    for (int i = 0; i < 32; i++) {
        const struct coded *c = &b->group[i / 2];
        int q = c->index[i % 2] | (c->signs[i % 2] & 127) << 9;
        out->qs[2 * i] = (uint8_t)q;
        out->qs[2 * i + 1] = (uint8_t)(q >> 8);
    }
    put_nibbles(b, GROUPS, out->scales);
}

static void pack_iq2_s(const struct block *b, void *dst)
{
    struct quant_iq2_s *out = dst;
    memset(out, 0, sizeof *out);
    out->d = f32_to_f16(b->d);
    for (int i = 0; i < 32; i++) {
        const struct coded *c = &b->group[i / 2];
        out->signs[i] = c->signs[i % 2];
        out->qs[i] = (uint8_t)c->index[i % 2];
        out->qh[i / 4] |= (uint8_t)(c->index[i % 2] >> 8 << i % 4 * 2);
    }
    put_nibbles(b, GROUPS, out->scales);
}

static void pack_iq3_s(const struct block *b, void *dst)
{
    struct quant_iq3_s *out = dst;
    memset(out, 0, sizeof *out);
    out->d = f32_to_f16(b->d);
    for (int i = 0; i < 64; i++) {
        out->qs[i] = (uint8_t)b->group[i / 8].index[i % 8];
        out->qh[i / 8] |= (uint8_t)(b->group[i / 8].index[i % 8] >> 8 << i % 8);
    }
    for (int g = 0; g < 8; g++) memcpy(out->signs + 4 * g, b->group[g].signs, 4);
    put_nibbles(b, 8, out->scales);
}

static const struct book IQ3_XXS = {sizeof(struct quant_iq3_xxs), quant_iq3_xxs_book, 256, 4, 3, 8, 3, 32, true, 0.25f,
    QUANT_IQ3_XXS_MAGNITUDES, pack_iq3_xxs};
static const struct book IQ2_XXS = {sizeof(struct quant_iq2_xxs), quant_iq2_xxs_book, 256, 8, 2, 3, 2, 32, true, 0.125f,
    QUANT_IQ2_MAGNITUDES, pack_iq2_xxs};
static const struct book IQ2_XS = {sizeof(struct quant_iq2_xs), quant_iq2_xs_book, 512, 8, 2, 3, 2, 16, true, 0.125f,
    QUANT_IQ2_MAGNITUDES, pack_iq2_xs};
static const struct book IQ2_S = {sizeof(struct quant_iq2_s), quant_iq2_s_book, 1024, 8, 2, 3, 2, 16, false, 0.125f,
    QUANT_IQ2_MAGNITUDES, pack_iq2_s};

static const struct book IQ3_S = {
    sizeof(struct quant_iq3_s), quant_iq3_s_book, 512, 4, 3, 8, 3, 32, false, 1, QUANT_IQ3_S_MAGNITUDES, pack_iq3_s};

/* ---- the nearest entry ---- */

/* Entries by key, the levels of their elements as digits to the base n_level: index + 1, or 0. */
struct search {
    uint16_t at[KEYS];
};

static int level_of(const struct book *k, int entry, int element)
{
    return k->entry[entry] >> k->bits * element & ((1 << k->bits) - 1);
}

static void begin(const struct book *k, struct search *s)
{
    memset(s->at, 0, sizeof s->at);
    for (int e = 0; e < k->n_entry; e++) {
        int key = 0;
        for (int j = k->elems - 1; j >= 0; j--) key = key * k->n_level + level_of(k, e, j);
        s->at[key] = (uint16_t)(e + 1);
    }
}

static float square(float x)
{
    return x * x;
}

/* fminf is a call. */
LUTRA_INLINE float least_of(float x, float y)
{
    return x < y ? x : y;
}

/* Of the levels the nearest to u. */
LUTRA_INLINE int nearest_level(const struct book *k, float u)
{
    int l = 0;
    for (int i = 0; i + 1 < k->n_level; i++) l += u > (k->level[i] + k->level[i + 1]) / 2;
    return l;
}

struct part {
    float error;
    int key;
};

/* Combinations of levels near half of an entry's elements, the nearest ones first: their errors and part of the key. */
LUTRA_INLINE int combine(
    const struct book *k, const float *u, const float *w, const int *level, int digit, struct part out[COMBINATIONS])
{
    int n = 1;
    out[0] = (struct part){0, 0};
    for (int j = 0; j < k->elems / 2; j++, digit *= k->n_level) {
        int l[3] = {level[j], level[j] + (u[j] > k->level[level[j]] ? 1 : -1)};
        l[2] = 2 * l[0] - l[1];
        const int before = n;
        for (int t = k->near - 1; t >= 0; t--) {
            if (l[t] < 0 || l[t] >= k->n_level) continue;
            float error = w[j] * square(u[j] - k->level[l[t]]);
            struct part *to = t ? out + n : out;
            for (int i = 0; i < before; i++) to[i] = (struct part){out[i].error + error, out[i].key + l[t] * digit};
            n += t ? before : 0;
        }
    }
    return n;
}

/* By errors of all that halves of an entry can be.  odd: with the sign of one element turned, that costs least. */
LUTRA_INLINE int nearest_of_all(const struct book *k, const float *u, const float *w, const bool odd)
{
    const int half = k->elems / 2, bits = k->bits * half;
    float error[2][256] = {{0}}, turn[2][256] = {{0}}, least = INFINITY;
    int best = 0;
    for (int h = 0; h < 2; h++) {
        error[h][0] = 0, turn[h][0] = INFINITY;
        for (int j = 0; j < half; j++) {
            const float uj = u[h * half + j], wj = w[h * half + j];
            for (int l = k->n_level - 1; l >= 0; l--) {
                const float more = wj * square(uj - k->level[l]), turned = 4 * wj * uj * k->level[l];
                for (int i = 0; i < 1 << k->bits * j; i++) {
                    error[h][l << k->bits * j | i] = error[h][i] + more;
                    if (odd) turn[h][l << k->bits * j | i] = least_of(turn[h][i], turned);
                }
            }
        }
    }
    for (int e = 0; e < k->n_entry; e++) {
        const int low = k->entry[e] & ((1 << bits) - 1), high = k->entry[e] >> bits;
        float sum = error[0][low] + error[1][high];
        if (odd) sum += least_of(turn[0][low], turn[1][high]);
        best = sum < least ? e : best;
        least = sum < least ? sum : least;
    }
    return best;
}

/* The entry for the values u: the best, or one that is good enough for a trial. */
LUTRA_INLINE int nearest_entry(const struct book *k, const struct search *s, const float *u, const float *w, bool trial)
{
    int level[8], key = 0, half = k->elems / 2, digit = 1;
    for (int j = 0; j < k->elems; j++) level[j] = nearest_level(k, u[j]);
    for (int j = k->elems - 1; j >= 0; j--) key = key * k->n_level + level[j];
    if (s->at[key]) return s->at[key] - 1;
    if (!trial) return nearest_of_all(k, u, w, false);
    struct part a[COMBINATIONS], b[COMBINATIONS];
    for (int j = 0; j < half; j++) digit *= k->n_level;
    int na = combine(k, u, w, level, 1, a), nb = combine(k, u + half, w + half, level + half, digit, b), best = 0;
    float least = INFINITY;
    for (int i = 0; i < na; i++) {
        for (int j = 0; j < nb && a[i].error + b[0].error < least; j++) {
            int found = s->at[a[i].key + b[j].key];
            float error = found ? a[i].error + b[j].error : INFINITY;
            best = error < least ? found : best;
            least = error < least ? error : least;
        }
    }
    return best ? best - 1 : nearest_of_all(k, u, w, false);
}

/* ---- a group ---- */

/* Which of 8 elements, whose magnitudes are u, had best have the other sign: its magnitude is then the least one. */
LUTRA_INLINE int cheapest_flip(const struct book *k, const float *u, const float *w)
{
    int best = 0;
    float least = INFINITY;
    for (int j = 0; j < 8; j++) {
        float more = w[j] * (square(u[j] + k->level[0]) - square(u[j] - k->level[nearest_level(k, u[j])]));
        if (more < least) least = more, best = j;
    }
    return best;
}

/* The same where they have this entry. */
LUTRA_INLINE int cheapest_flip_of(const struct book *k, int entry, const float *u, const float *w)
{
    int best = 0;
    float least = INFINITY;
    for (int j = 0; j < 8; j++) {
        float more = w[j] * u[j] * k->level[level_of(k, entry, j)];
        if (more < least) least = more, best = j;
    }
    return best;
}

LUTRA_INLINE void code_group(const struct book *k, const struct search *s, const float *x, const float *w, float scale,
    bool trial, struct coded *out)
{
    memset(out, 0, sizeof *out);
    if (!(scale > 0)) return;
    const float inverse = 1 / scale;
    for (int i = 0; i < k->group; i += 8) {
        float u[8];
        int signs = 0, odd = 0;
        for (int j = 0; j < 8; j++) {
            int negative = x[i + j] < 0;
            u[j] = fabsf(x[i + j]) * inverse;
            signs |= negative << j;
            odd ^= negative;
        }
        /* One entry for all 8 is chosen together with the sign. */
        int whole = k->even && odd && !trial && k->elems == 8 ? nearest_of_all(k, u, w + i, true) : -1;
        if (k->even && odd) {
            int j = whole < 0 ? cheapest_flip(k, u, w + i) : cheapest_flip_of(k, whole, u, w + i);
            u[j] = -u[j];
            signs ^= 1 << j;
        }
        out->signs[i / 8] = (uint8_t)signs;
        for (int at = 0; at < 8; at += k->elems) {
            int e = whole < 0 ? nearest_entry(k, s, u + at, w + i + at, trial) : whole;
            out->index[(i + at) / k->elems] = (uint16_t)e;
            for (int j = 0; j < k->elems; j++) {
                float v = k->level[level_of(k, e, j)], wv = w[i + at + j] * v;
                out->xv += wv * u[at + j];
                out->vv += wv * v;
            }
        }
    }
    out->xv *= scale;
}

/* By how much less than sum w x^2 the error is. */
static float gain_of(const struct coded *c, float scale)
{
    return scale * (2 * c->xv - scale * c->vv);
}

/* The real scale of least error. */
LUTRA_INLINE float group_scale(const struct book *k, const struct search *s, const float *x, const float *w)
{
    float max = fabsf(quant_signed_max(x, k->group)), most = 0, best = 0;
    if (!(max > 0) || isinf(max)) return 0;
    for (int i = 0; i < TRIALS; i++) { /* the first for groups of one magnitude */
        struct coded c;
        float u = i ? (0.55f + 0.15f * (float)i) * k->level[k->n_level - 1] : k->level[0];
        code_group(k, s, x, w, max / u, true, &c);
        if (!(c.vv > 0) || !(c.xv > 0)) continue;
        float scale = c.xv / c.vv, gain = gain_of(&c, scale);
        if (gain > most) most = gain, best = scale;
    }
    return best;
}

/* ---- a block ---- */

/* Codes all groups by the best of their integers' neighbours up to `reach` away.  Their gain; in *d what would be the
 * best for these codes. */
LUTRA_INLINE float code_groups(const struct book *k, const struct search *s, struct block *b, int reach, bool trial,
    const float *x, const float *w, float *d)
{
    float sum = 0, xv = 0, vv = 0;
    for (int g = 0; g < QUANT_SUPER / k->group; g++, x += k->group, w += k->group) {
        const int from = b->s[g];
        float most = -INFINITY;
        for (int i = from - reach; i <= from + reach; i++) {
            if (i < 0 || i > 15) continue;
            struct coded c;
            const float scale = b->d * k->unit * (float)(2 * i + 1);
            code_group(k, s, x, w, scale, trial, &c);
            if (!(gain_of(&c, scale) > most)) continue;
            most = gain_of(&c, scale);
            b->s[g] = i;
            b->group[g] = c;
        }
        const float u = k->unit * (float)(2 * b->s[g] + 1);
        sum += most, xv += u * b->group[g].xv, vv += u * u * b->group[g].vv;
    }
    *d = vv > 0 ? xv / vv : 0;
    return sum;
}

static float half(float x)
{
    return f16_to_f32(f32_to_f16(fminf(x, 65504)));
}

LUTRA_INLINE void solve(const struct book *k, const struct search *s, const float *x, const float *w, struct block *b)
{
    float scale[GROUPS], max = 0, d;
    memset(b, 0, sizeof *b);
    for (int g = 0; g < QUANT_SUPER / k->group; g++) {
        scale[g] = group_scale(k, s, x + g * k->group, w + g * k->group);
        max = fmaxf(max, scale[g]);
    }
    b->d = half(max / (31 * k->unit));
    if (!(b->d > 0)) return;
    for (int g = 0; g < QUANT_SUPER / k->group; g++)
        b->s[g] = quant_clamp(roundf((scale[g] / (b->d * k->unit) - 1) / 2), 0, 15);
    code_groups(k, s, b, 0, true, x, w, &d);
    b->d = half(d);
    code_groups(k, s, b, 1, false, x, w, &d);
    b->d = half(d);
}

/* w: NULL: all alike. */
LUTRA_INLINE void write_blocks(const struct book *k, const float *x, const float *w, void *dst, size_t n)
{
    struct search s;
    struct block b;
    float even[QUANT_SUPER];
    for (int i = 0; i < QUANT_SUPER; i++) even[i] = 1;
    begin(k, &s);
    for (size_t at = 0; at < n; at += QUANT_SUPER) {
        solve(k, &s, x + at, w ? w + at : even, &b);
        k->pack(&b, (char *)dst + at / QUANT_SUPER * k->block_bytes);
    }
}

static void iq2_xxs_weighted(const float *x, const float *w, void *dst, size_t n)
{
    write_blocks(&IQ2_XXS, x, w, dst, n);
}

static void iq2_xxs_plain(const float *x, void *dst, size_t n)
{
    iq2_xxs_weighted(x, NULL, dst, n);
}

static void iq2_xs_weighted(const float *x, const float *w, void *dst, size_t n)
{
    write_blocks(&IQ2_XS, x, w, dst, n);
}

static void iq2_xs_plain(const float *x, void *dst, size_t n)
{
    iq2_xs_weighted(x, NULL, dst, n);
}

static void iq2_s_weighted(const float *x, const float *w, void *dst, size_t n)
{
    write_blocks(&IQ2_S, x, w, dst, n);
}

static void iq2_s_plain(const float *x, void *dst, size_t n)
{
    iq2_s_weighted(x, NULL, dst, n);
}

static void iq3_xxs_weighted(const float *x, const float *w, void *dst, size_t n)
{
    write_blocks(&IQ3_XXS, x, w, dst, n);
}

static void iq3_xxs_plain(const float *x, void *dst, size_t n)
{
    iq3_xxs_weighted(x, NULL, dst, n);
}

static void iq3_s_weighted(const float *x, const float *w, void *dst, size_t n)
{
    write_blocks(&IQ3_S, x, w, dst, n);
}

static void iq3_s_plain(const float *x, void *dst, size_t n)
{
    iq3_s_weighted(x, NULL, dst, n);
}

static const struct book_writer writers[] = {
    {QUANT_IQ2_XXS, iq2_xxs_weighted, iq2_xxs_plain},
    {QUANT_IQ2_XS, iq2_xs_weighted, iq2_xs_plain},
    {QUANT_IQ2_S, iq2_s_weighted, iq2_s_plain},
    {QUANT_IQ3_XXS, iq3_xxs_weighted, iq3_xxs_plain},
    {QUANT_IQ3_S, iq3_s_weighted, iq3_s_plain},
};

const struct book_writer *quant_book_writer(enum quant_type type)
{
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
        if (writers[i].type == type) return &writers[i];
    return NULL;
}
