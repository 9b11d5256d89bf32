/* SPDX-License-Identifier: MIT */
#include "quantize/weighted.h"

#include <string.h>

#include "base/cpuinfo.h"
#include "base/f16.h"
#include "quant/arithmetic.h"
#include "quantize/solve_impl.h"

static const float iq4_nl[16] = QUANT_IQ4_NL_VALUES;

/* ---- one group: the best real scale and minimum ---- */

static int code_of(const struct solve_type *t, float v)
{
    if (!t->codebook) {
        float q = quant_nearest(v) - (float)t->lo;
        return q > 0 ? (q < (float)(t->n_code - 1) ? (int)q : t->n_code - 1) : 0; /* NaN: 0 */
    }
    int c = 0;
    for (int j = 0; j < 15; j++) c += v > (iq4_nl[j] + iq4_nl[j + 1]) / 2;
    return c;
}

static float value_of(const struct solve_type *t, int code)
{
    return t->codebook ? iq4_nl[code] : (float)(code + t->lo);
}

const struct quant_kernels *quant_kernels(void)
{
#if defined(__x86_64__)
    uint32_t isa = cpu_isa();
    if (isa & CPU_AVX512) return &quant_kernels_avx512;
    if (isa & CPU_AVX2) return &quant_kernels_avx2;
#endif
    return &quant_kernels_plain;
}

/* The best scale for the codes of a trial is xv / vv and lowers the error by xv^2 / vv. */
float quant_symmetric_scale(const struct solve_type *t, const struct quant_kernels *run, const float *x, const float *w)
{
    float max = quant_signed_max(x, t->group), best_gain = 0, best = 0;
    if (!(fabsf(max) > 0) || isinf(max)) return 0;
    for (int trial = 0; trial < 38; trial++) {
        float end = value_of(t, trial % 2 ? t->n_code - 1 : 0),
              inverse = end * (1 + 0.04f * (float)(trial / 2 - 9)) / max;
        for (int again = 0; again < 2; again++) {
            float xv, vv;
            run->symmetric(t, x, w, inverse, &xv, &vv);
            if (!(vv > 0) || xv == 0) break;
            if (xv * xv > best_gain * vv) {
                best_gain = xv * xv / vv;
                best = xv / vv;
            }
            inverse = vv / xv;
        }
    }
    return best;
}

struct affine {
    float scale, min; /* x = scale q - min */
};

/* The best for the codes of a trial. */
static struct affine fit(const struct solve_type *t, const struct search_sums *s)
{
    struct affine best = {0, 0};
    float det = s->w * s->qq - s->q * s->q;
    if (det > 0) best = (struct affine){(s->w * s->xq - s->x * s->q) / det, (s->q * s->xq - s->qq * s->x) / det};
    if (!t->any_min && best.min < 0) best = (struct affine){s->qq > 0 ? s->xq / s->qq : 0, 0};
    return best;
}

static struct affine affine_search(
    const struct solve_type *t, const struct quant_kernels *run, const float *x, const float *w)
{
    struct affine best = {0, 0};
    float lo, hi, best_error = INFINITY;
    quant_min_max(x, t->group, &lo, &hi);
    if (!t->any_min && lo > 0) lo = 0;
    best.min = isinf(lo) ? 0 : -lo;
    if (!(hi > lo) || isinf(hi - lo)) return best;
    for (int trial = -8; trial <= 12; trial++) {
        float range = (hi - lo) / (1 + 0.025f * (float)trial);
        struct affine a = {range / (float)(t->n_code - 1), -lo - (hi - lo - range) / 2};
        if (!t->any_min && a.min < 0) a.min = 0;
        for (int again = 0; again < 4 && a.scale > 0; again++) {
            struct search_sums sums;
            run->affine(t, x, w, a.scale, a.min, &sums);
            if (sums.error < best_error) best_error = sums.error, best = a;
            a = fit(t, &sums);
        }
    }
    return best;
}

/* ---- a block: integers and half floats ---- */

static float half(float x)
{
    return f16_to_f32(f32_to_f16(x));
}

/* The group's codes for its integers, and the error they leave. */
static float group_codes(const struct solve_type *t, const struct quant_kernels *run, struct solved *s, int g,
    const float *x, const float *w)
{
    int at = g * t->group;
    return run->codes(t, x + at, w + at, s->d * (float)s->sc[g], s->dmin * (float)s->mn[g], s->code + at);
}

static float all_codes(
    const struct solve_type *t, const struct quant_kernels *run, struct solved *s, const float *x, const float *w)
{
    float error = 0;
    for (int g = 0; g < t->n_group; g++) error += group_codes(t, run, s, g, x, w);
    return error;
}

static bool in_range(const struct solve_type *t, int sc, int mn)
{
    return sc >= t->sc_lo && sc <= t->sc_hi && mn >= 0 && mn <= t->sc_hi;
}

/* The neighbours of each group's integers. */
static float improve_integers(
    const struct solve_type *t, const struct quant_kernels *run, struct solved *s, const float *x, const float *w)
{
    float sum = 0;
    for (int g = 0; g < t->n_group; g++) {
        int sc = s->sc[g], mn = s->mn[g], best_sc = sc, best_mn = mn;
        float best = group_codes(t, run, s, g, x, w);
        for (int k = 0; k < 9; k++) {
            int ds = k % 3 - 1, dm = t->affine ? k / 3 - 1 : 0;
            if ((!t->affine && k >= 3) || (!ds && !dm) || !in_range(t, sc + ds, mn + dm)) continue;
            s->sc[g] = sc + ds, s->mn[g] = mn + dm;
            float error = group_codes(t, run, s, g, x, w);
            if (error < best) best = error, best_sc = sc + ds, best_mn = mn + dm;
        }
        s->sc[g] = best_sc, s->mn[g] = best_mn;
        sum += group_codes(t, run, s, g, x, w);
    }
    return sum;
}

/* d and dmin of least error for the codes: x = d (sc v) - dmin mn. */
static void refit(const struct solve_type *t, struct solved *s, const float *x, const float *w)
{
    double uu = 0, um = 0, mm = 0, xu = 0, xm = 0;
    for (int i = 0; i < t->n; i++) {
        double u = (double)s->sc[i / t->group] * (double)value_of(t, s->code[i]), m = s->mn[i / t->group],
               wi = (double)w[i];
        uu += wi * u * u, um += wi * u * m, mm += wi * m * m, xu += wi * (double)x[i] * u, xm += wi * (double)x[i] * m;
    }
    double det = uu * mm - um * um;
    if (t->affine && det > 1e-9 * uu * mm) {
        double d = (xu * mm - xm * um) / det, dmin = (xu * um - xm * uu) / det;
        if (!(d > 0) || (!t->any_min && !(dmin >= 0))) return;
        s->d = half((float)d), s->dmin = half((float)dmin);
    } else if (mm == 0 && uu > 0 && xu != 0) {
        s->d = half((float)(xu / uu));
    }
}

static void first_guess(
    const struct solve_type *t, const struct quant_kernels *run, struct solved *s, const float *x, const float *w)
{
    float scale[SOLVE_GROUPS], min[SOLVE_GROUPS], max_min = 0;
    for (int g = 0; g < t->n_group; g++) {
        struct affine a = {0, 0};
        if (t->affine)
            a = affine_search(t, run, x + g * t->group, w + g * t->group);
        else
            a.scale = quant_symmetric_scale(t, run, x + g * t->group, w + g * t->group);
        scale[g] = a.scale, min[g] = a.min;
        max_min = fmaxf(max_min, fabsf(a.min));
    }
    if (!t->sc_hi) {
        s->d = half(scale[0]), s->dmin = half(min[0]);
        s->sc[0] = 1, s->mn[0] = t->affine;
        return;
    }
    /* The scale of largest magnitude becomes the end of the range that is one longer. */
    float max = quant_signed_max(scale, t->n_group), d = max / (float)(t->sc_lo ? t->sc_lo : t->sc_hi);
    float dmin = max_min / (float)t->sc_hi;
    s->d = half(d), s->dmin = half(dmin);
    for (int g = 0; g < t->n_group; g++) {
        s->sc[g] = d != 0 ? quant_clamp(roundf(scale[g] / d), t->sc_lo, t->sc_hi) : 0;
        s->mn[g] = dmin > 0 ? quant_clamp(roundf(min[g] / dmin), 0, t->sc_hi) : 0;
    }
}

void quant_solve(
    const struct solve_type *t, const struct quant_kernels *run, const float *x, const float *w, struct solved *s)
{
    memset(s, 0, sizeof *s);
    first_guess(t, run, s, x, w);
    float best = all_codes(t, run, s, x, w);
    for (int round = 0; round < 4; round++) {
        struct solved next = *s;
        refit(t, &next, x, w);
        float error = t->sc_hi ? improve_integers(t, run, &next, x, w) : all_codes(t, run, &next, x, w);
        if (!(error < best)) break;
        best = error;
        *s = next;
    }
}

float quant_solved_value(const struct solve_type *t, const struct solved *s, int i, float x, uint8_t *code)
{
    int g = i / t->group;
    float scale = s->d * (float)s->sc[g], min = s->dmin * (float)s->mn[g];
    int c = code_of(t, scale != 0 ? (x + min) / scale : 0);
    *code = (uint8_t)c;
    return scale * value_of(t, c) - min;
}

quant_plain_fn quant_plain(enum quant_type type)
{
    const struct quant_info *q = quant_info_of(type);
    const struct book_writer *book = quant_book_writer(type);
    return book ? book->plain : q ? q->quantize : NULL;
}

bool quant_has_gptq(enum quant_type type)
{
    return quant_solve_type(type) != NULL;
}

bool quant_has_weighted(enum quant_type type)
{
    return quant_has_gptq(type) || quant_book_writer(type);
}

void quant_weighted(
    const struct quant_kernels *run, enum quant_type type, const float *x, const float *w, void *dst, size_t n)
{
    const struct solve_type *t = quant_solve_type(type);
    const struct quant_info *q = quant_info_of(type);
    const struct book_writer *book = quant_book_writer(type);
    struct solved s;
    if (book) book->weighted(x, w, dst, n);
    for (size_t at = 0; t && at < n; at += (size_t)t->n) {
        quant_solve(t, run, x + at, w + at, &s);
        t->pack(&s, (char *)dst + at / (size_t)t->n * q->block_bytes);
    }
}
