/* SPDX-License-Identifier: MIT
 *
 * K-quants: 256 elements in groups whose scales (and minima) are small integers times one half float.
 *
 * Dequantizing follows quant/formats.h.  Quantizing minimises the plain squared error in three steps: a search per
 * group for its best real scale and minimum, rounding of these to the block's integers, and a least-squares fit of
 * the block's half floats to the codes, after which the codes are chosen once more.
 */
#include "base/f16.h"
#include "quant/formats_impl.h"
#include "quant/quant.h"
#include "quant/parts.h"

#include <string.h>

enum { GROUPS = 8, GROUP = 32 }; /* Q4_K, Q5_K */

enum { SMALL_GROUPS = 16, SMALL_GROUP = 16 }; /* Q2_K, Q3_K, Q6_K */

/* The byte that holds two bits of element e, and their place in it: Q2_K, Q3_K's low bits, Q6_K's high ones. */
static int pair_byte(int e)
{
    return e / 128 * 32 + e % 32;
}

static int pair_shift(int e)
{
    return e % 128 / 32 * 2;
}

void quant_q2_k_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q2_k *b = src;
    for (size_t k = 0; k < n / QUANT_SUPER; k++, dst += QUANT_SUPER) {
        float d = f16_to_f32(b[k].d), dmin = f16_to_f32(b[k].dmin);
        for (int e = 0; e < QUANT_SUPER; e++) {
            uint8_t s = b[k].scales[e / SMALL_GROUP];
            int q = b[k].qs[pair_byte(e)] >> pair_shift(e) & 3;
            dst[e] = d * (float)(s & 15) * (float)q - dmin * (float)(s >> 4);
        }
    }
}

/* Scale g of Q3_K's 12 packed bytes. */
static int q3_scale(const uint8_t s[QUANT_K_SCALES_BYTES], int g)
{
    return (s[g % 8] >> g / 8 * 4 & 15) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4;
}

void quant_q3_k_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q3_k *b = src;
    for (size_t k = 0; k < n / QUANT_SUPER; k++, dst += QUANT_SUPER) {
        float d = f16_to_f32(b[k].d);
        for (int e = 0; e < QUANT_SUPER; e++) {
            int q = (b[k].qs[pair_byte(e)] >> pair_shift(e) & 3) | (b[k].hmask[e % 32] >> e / 32 & 1) << 2;
            dst[e] = d * (float)(q3_scale(b[k].scales, e / SMALL_GROUP) - 32) * (float)(q - 4);
        }
    }
}

/* The 12 packed bytes as 8 scales and 8 minima of 6 bits. */
static void unpack_scales(const uint8_t s[QUANT_K_SCALES_BYTES], uint8_t sc[GROUPS], uint8_t mn[GROUPS])
{
    for (int j = 0; j < 4; j++) {
        sc[j] = s[j] & 63;
        mn[j] = s[j + 4] & 63;
        sc[j + 4] = (uint8_t)((s[j + 8] & 15) | (s[j] >> 6) << 4);
        mn[j + 4] = (uint8_t)((s[j + 8] >> 4) | (s[j + 4] >> 6) << 4);
    }
}

void quant_q4_k_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q4_k *b = src;
    uint8_t sc[GROUPS], mn[GROUPS];
    for (size_t k = 0; k < n / QUANT_SUPER; k++) {
        float d = f16_to_f32(b[k].d), dmin = f16_to_f32(b[k].dmin);
        unpack_scales(b[k].scales, sc, mn);
        for (int g = 0; g < GROUPS; g++, dst += GROUP) {
            float scale = d * sc[g], min = dmin * mn[g];
            for (int i = 0; i < GROUP; i++) {
                int q = b[k].qs[g / 2 * 32 + i] >> (g & 1) * 4 & 15;
                dst[i] = scale * (float)q - min;
            }
        }
    }
}

void quant_q5_k_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q5_k *b = src;
    uint8_t sc[GROUPS], mn[GROUPS];
    for (size_t k = 0; k < n / QUANT_SUPER; k++) {
        float d = f16_to_f32(b[k].d), dmin = f16_to_f32(b[k].dmin);
        unpack_scales(b[k].scales, sc, mn);
        for (int g = 0; g < GROUPS; g++, dst += GROUP) {
            float scale = d * sc[g], min = dmin * mn[g];
            for (int i = 0; i < GROUP; i++) {
                int q = (b[k].qs[g / 2 * 32 + i] >> (g & 1) * 4 & 15) | (b[k].qh[i] >> g & 1) << 4;
                dst[i] = scale * (float)q - min;
            }
        }
    }
}

void quant_q6_k_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q6_k *b = src;
    for (size_t k = 0; k < n / QUANT_SUPER; k++, dst += QUANT_SUPER) {
        float d = f16_to_f32(b[k].d);
        for (int e = 0; e < QUANT_SUPER; e++) {
            int half = e / 128, quarter = e % 128 / 32, l = e % 32;
            int low = b[k].ql[64 * half + quarter % 2 * 32 + l] >> quarter / 2 * 4 & 15;
            int high = b[k].qh[32 * half + l] >> quarter * 2 & 3;
            dst[e] = d * b[k].scales[e / 16] * (float)((low | high << 4) - 32);
        }
    }
}

/* ---- x = scale q - min, q in 0..q_max, min >= 0 ---- */

struct affine {
    float scale, min; /* both >= 0 */
};

/* Codes nearest to (x + min) * inverse, as floats, clamped to 0..q_max. */
static void affine_codes(const float *x, int n, float min, float inverse, float q_max, float *q)
{
    for (int i = 0; i < n; i++) {
        float t = (x[i] + min) * inverse;
        t = t > 0 ? t : 0; /* NaN too */
        q[i] = quant_nearest(t < q_max ? t : q_max);
    }
}

/* The scale and minimum of least squared error for given codes; *error gets that error. */
static struct affine affine_solve(const float *x, int n, const float *q, float *error)
{
    float sq = 0, sqq = 0, sx = 0, sxq = 0;
    for (int i = 0; i < n; i++) {
        sq += q[i];
        sqq += q[i] * q[i];
        sx += x[i];
        sxq += x[i] * q[i];
    }
    struct affine a = {0, 0};
    float det = (float)n * sqq - sq * sq;
    if (det > 0) {
        a.scale = ((float)n * sxq - sx * sq) / det;
        a.min = (sq * sxq - sqq * sx) / det;
    }
    if (!(a.min >= 0) || !(det > 0)) {
        a.min = 0;
        a.scale = sqq > 0 ? sxq / sqq : 0;
    }
    if (!(a.scale >= 0)) a.scale = 0;
    *error = 0;
    for (int i = 0; i < n; i++) {
        float e = a.scale * q[i] - a.min - x[i];
        *error += e * e;
    }
    return a;
}

/* Starts from a range slightly narrower or wider than the data's, then alternates codes and fit. */
static struct affine affine_search(const float *x, int n, float q_max)
{
    struct affine best = {0, 0};
    float lo, hi, q[GROUP], error, best_error = INFINITY;
    quant_min_max(x, n, &lo, &hi);
    if (lo > 0) lo = 0;
    if (!(hi > lo) || isinf(hi - lo)) {
        best.min = isinf(lo) ? 0 : -lo; /* constant group: all codes 0 */
        return best;
    }
    for (int step = -6; step <= 6; step++) {
        affine_codes(x, n, -lo, (q_max + 0.25f * (float)step) / (hi - lo), q_max, q);
        struct affine a = affine_solve(x, n, q, &error);
        for (int again = 0; again < 2 && a.scale > 0; again++) {
            if (error < best_error) {
                best_error = error;
                best = a;
            }
            affine_codes(x, n, a.min, 1 / a.scale, q_max, q);
            a = affine_solve(x, n, q, &error);
        }
        if (error < best_error) {
            best_error = error;
            best = a;
        }
    }
    return best;
}

/* One block: integers sc, mn and half floats d, dmin, and the codes that go with them. */
struct affine_block {
    uint16_t d, dmin;
    uint8_t sc[SMALL_GROUPS], mn[SMALL_GROUPS];
    float q[QUANT_SUPER];
};

static void block_codes(const float *x, const struct solve_type *t, struct affine_block *b)
{
    float d = f16_to_f32(b->d), dmin = f16_to_f32(b->dmin);
    for (int i = 0; i < QUANT_SUPER; i += t->group) {
        float scale = d * b->sc[i / t->group], min = dmin * b->mn[i / t->group];
        affine_codes(x + i, t->group, min, scale > 0 ? 1 / scale : 0, (float)(t->n_code - 1), b->q + i);
    }
}

/* d and dmin of least squared error: two unknowns, x = d (sc q) - dmin mn over all 256 elements. */
static void block_refit(const float *x, const struct solve_type *t, struct affine_block *b)
{
    double uu = 0, um = 0, mm = 0, xu = 0, xm = 0;
    for (int i = 0; i < QUANT_SUPER; i++) {
        double u = b->sc[i / t->group] * (double)b->q[i], m = b->mn[i / t->group];
        uu += u * u;
        um += u * m;
        mm += m * m;
        xu += x[i] * u;
        xm += x[i] * m;
    }
    double det = uu * mm - um * um, d, dmin;
    if (det > 1e-9 * uu * mm) {
        d = (xu * mm - xm * um) / det;
        dmin = (xu * um - xm * uu) / det;
    } else {
        d = uu > 0 ? xu / uu : 0;
        dmin = 0;
        if (mm > 0) return; /* degenerate: keep the rounded values */
    }
    if (!(d > 0) || !(dmin >= 0)) return;
    b->d = f32_to_f16((float)d);
    b->dmin = f32_to_f16((float)dmin);
}

static float squared_error(const float *x, const struct solve_type *t, const struct affine_block *b)
{
    float d = f16_to_f32(b->d), dmin = f16_to_f32(b->dmin), sum = 0;
    for (int i = 0; i < QUANT_SUPER; i++) {
        float e = d * b->sc[i / t->group] * b->q[i] - dmin * b->mn[i / t->group] - x[i];
        sum += e * e;
    }
    return sum;
}

static void block_search(const float *x, const struct solve_type *t, struct affine_block *b)
{
    struct affine a[SMALL_GROUPS];
    float max_scale = 0, max_min = 0, s_max = (float)t->sc_hi;
    for (int g = 0; g < QUANT_SUPER / t->group; g++) {
        a[g] = affine_search(x + t->group * g, t->group, (float)(t->n_code - 1));
        max_scale = fmaxf(max_scale, a[g].scale);
        max_min = fmaxf(max_min, a[g].min);
    }
    float to_sc = max_scale > 0 ? s_max / max_scale : 0, to_mn = max_min > 0 ? s_max / max_min : 0;
    b->d = f32_to_f16(max_scale / s_max);
    b->dmin = f32_to_f16(max_min / s_max);
    for (int g = 0; g < QUANT_SUPER / t->group; g++) {
        b->sc[g] = (uint8_t)quant_clamp(a[g].scale * to_sc + 0.5f, 0, t->sc_hi);
        b->mn[g] = (uint8_t)quant_clamp(a[g].min * to_mn + 0.5f, 0, t->sc_hi);
    }
    block_codes(x, t, b);
    struct affine_block refit = *b;
    block_refit(x, t, &refit);
    block_codes(x, t, &refit);
    if (squared_error(x, t, &refit) < squared_error(x, t, b)) *b = refit;
}

static void affine_quantize(enum quant_type type, const float *src, void *dst, size_t n)
{
    const struct solve_type *t = quant_solve_type(type);
    struct affine_block b;
    struct solved s = {0};
    for (size_t k = 0; k < n / QUANT_SUPER; k++, src += QUANT_SUPER) {
        block_search(src, t, &b);
        s.d = f16_to_f32(b.d);
        s.dmin = f16_to_f32(b.dmin);
        for (int g = 0; g < t->n_group; g++) s.sc[g] = b.sc[g], s.mn[g] = b.mn[g];
        for (int i = 0; i < QUANT_SUPER; i++) s.code[i] = (uint8_t)b.q[i];
        t->pack(&s, (char *)dst + k * quant_info_of(type)->block_bytes);
    }
}

void quant_q2_k_quantize(const float *src, void *dst, size_t n)
{
    affine_quantize(QUANT_Q2_K, src, dst, n);
}

void quant_q4_k_quantize(const float *src, void *dst, size_t n)
{
    affine_quantize(QUANT_Q4_K, src, dst, n);
}

void quant_q5_k_quantize(const float *src, void *dst, size_t n)
{
    affine_quantize(QUANT_Q5_K, src, dst, n);
}

/* ---- Q3_K and Q6_K: x = d sc q, codes and scales of -max - 1 .. max ---- */

static void symmetric_codes(const float *x, float inverse, int q_max, float q[SMALL_GROUP])
{
    float lo = (float)(-q_max - 1), hi = (float)q_max;
    for (int i = 0; i < SMALL_GROUP; i++) {
        float t = x[i] * inverse;
        t = t > lo ? t : lo; /* NaN too */
        q[i] = quant_nearest(t < hi ? t : hi);
    }
}

/* The best scale for the codes of a trial scale is xq / qq and lowers the squared error by xq^2 / qq. */
static float symmetric_search(const float *x, int q_max)
{
    float max = quant_signed_max(x, SMALL_GROUP), best_gain = 0, best = 0, q[SMALL_GROUP];
    if (!(fabsf(max) > 0) || isinf(max)) return 0;
    for (int step = -8; step <= 8; step++) {
        symmetric_codes(x, ((float)(-q_max - 1) + 0.125f * (float)step) / max, q_max, q);
        float xq = 0, qq = 0;
        for (int i = 0; i < SMALL_GROUP; i++) {
            xq += x[i] * q[i];
            qq += q[i] * q[i];
        }
        if (qq > 0 && xq * xq > best_gain * qq) {
            best_gain = xq * xq / qq;
            best = xq / qq;
        }
    }
    return best;
}

/* One block: half float d, integers sc, and the codes that go with them. */
struct symmetric_block {
    uint16_t d;
    int8_t sc[SMALL_GROUPS];
    float q[QUANT_SUPER];
};

/* Codes of the whole block; returns the best d for them: x = d (sc q). */
static float symmetric_block_codes(const float *x, int q_max, struct symmetric_block *b)
{
    double xu = 0, uu = 0;
    float d = f16_to_f32(b->d);
    for (int g = 0; g < SMALL_GROUPS; g++) {
        float scale = d * b->sc[g];
        symmetric_codes(x + SMALL_GROUP * g, scale != 0 ? 1 / scale : 0, q_max, b->q + SMALL_GROUP * g);
        for (int i = SMALL_GROUP * g; i < SMALL_GROUP * (g + 1); i++) {
            double u = b->sc[g] * (double)b->q[i];
            xu += x[i] * u;
            uu += u * u;
        }
    }
    return uu > 0 ? (float)(xu / uu) : d;
}

static void symmetric_block_search(const float *x, const struct solve_type *t, struct symmetric_block *b)
{
    float scale[SMALL_GROUPS];
    int q_max = t->n_code / 2 - 1;
    for (int g = 0; g < SMALL_GROUPS; g++) scale[g] = symmetric_search(x + SMALL_GROUP * g, q_max);
    /* The scale of largest magnitude takes the end of the integers' range that is one longer. */
    float d = quant_signed_max(scale, SMALL_GROUPS) / (float)t->sc_lo, id = d != 0 ? 1 / d : 0;
    for (int g = 0; g < SMALL_GROUPS; g++) b->sc[g] = (int8_t)quant_clamp(roundf(scale[g] * id), t->sc_lo, t->sc_hi);
    b->d = f32_to_f16(d);
    b->d = f32_to_f16(symmetric_block_codes(x, q_max, b));
    symmetric_block_codes(x, q_max, b);
}

static void symmetric_quantize(enum quant_type type, const float *src, void *dst, size_t n)
{
    const struct solve_type *t = quant_solve_type(type);
    struct symmetric_block b;
    struct solved s = {0};
    for (size_t k = 0; k < n / QUANT_SUPER; k++, src += QUANT_SUPER) {
        symmetric_block_search(src, t, &b);
        s.d = f16_to_f32(b.d);
        for (int g = 0; g < SMALL_GROUPS; g++) s.sc[g] = b.sc[g];
        for (int i = 0; i < QUANT_SUPER; i++) s.code[i] = (uint8_t)((int)b.q[i] - t->lo);
        t->pack(&s, (char *)dst + k * quant_info_of(type)->block_bytes);
    }
}

void quant_q3_k_quantize(const float *src, void *dst, size_t n)
{
    symmetric_quantize(QUANT_Q3_K, src, dst, n);
}

void quant_q6_k_quantize(const float *src, void *dst, size_t n)
{
    symmetric_quantize(QUANT_Q6_K, src, dst, n);
}
