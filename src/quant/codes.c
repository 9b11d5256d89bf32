/* SPDX-License-Identifier: MIT
 *
 * Formats whose codes index a small set of values: one bit Q1_0, ternary TQ1_0, TQ2_0 and Q2_0, FP4 MXFP4 and NVFP4,
 * and the 16-value codebook of IQ4_NL and IQ4_XS.
 */
#include "base/f16.h"
#include "quant/formats_impl.h"
#include "quant/parts.h"

#include <string.h>

/* ---- ternary: digits 0, 1, 2 stand for -d, 0, d ---- */

static float ternary_digits(const float *x, int n, uint8_t *digit)
{
    float d = fabsf(quant_signed_max(x, n)), id = d != 0 ? 1.0f / d : 0.0f;
    for (int i = 0; i < n; i++) digit[i] = (uint8_t)(quant_clamp(roundf(x[i] * id), -1, 1) + 1);
    return d;
}

/* Digit 0 of the byte is the most significant.  Scaling to 256/243, rounded up, lets a decoder get each digit with
 * one multiplication and the top bits, without division. */
static uint8_t pack3(const uint8_t *digit, int stride, int n)
{
    unsigned v = 0;
    for (int i = 0; i < 5; i++) v = v * 3 + (i < n ? digit[i * stride] : 0);
    return (uint8_t)((v * 256 + 242) / 243);
}

static const uint8_t power3[5] = {1, 3, 9, 27, 81};

static int digit3(uint8_t byte, int i)
{
    return (uint8_t)(byte * power3[i]) * 3 >> 8;
}

void quant_tq1_0_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_tq1_0 *b = src;
    for (size_t k = 0; k < n / QUANT_SUPER; k++, dst += QUANT_SUPER) {
        float d = f16_to_f32(b[k].d);
        for (int i = 0; i < 32; i++)
            for (int t = 0; t < 5; t++) dst[32 * t + i] = (float)(digit3(b[k].qs[i], t) - 1) * d;
        for (int i = 0; i < 16; i++)
            for (int t = 0; t < 5; t++) dst[160 + 16 * t + i] = (float)(digit3(b[k].qs[32 + i], t) - 1) * d;
        for (int i = 0; i < 4; i++)
            for (int t = 0; t < 4; t++) dst[240 + 4 * t + i] = (float)(digit3(b[k].qh[i], t) - 1) * d;
    }
}

void quant_tq1_0_quantize(const float *src, void *dst, size_t n)
{
    struct quant_tq1_0 *b = dst;
    uint8_t digit[QUANT_SUPER];
    for (size_t k = 0; k < n / QUANT_SUPER; k++, src += QUANT_SUPER) {
        b[k].d = f32_to_f16(ternary_digits(src, QUANT_SUPER, digit));
        for (int i = 0; i < 32; i++) b[k].qs[i] = pack3(digit + i, 32, 5);
        for (int i = 0; i < 16; i++) b[k].qs[32 + i] = pack3(digit + 160 + i, 16, 5);
        for (int i = 0; i < 4; i++) b[k].qh[i] = pack3(digit + 240 + i, 4, 4);
    }
}

void quant_tq2_0_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_tq2_0 *b = src;
    for (size_t k = 0; k < n / QUANT_SUPER; k++, dst += QUANT_SUPER) {
        float d = f16_to_f32(b[k].d);
        for (int i = 0; i < QUANT_SUPER; i++) {
            int byte = b[k].qs[i / 128 * 32 + i % 32], shift = i % 128 / 32 * 2;
            dst[i] = (float)((byte >> shift & 3) - 1) * d;
        }
    }
}

void quant_tq2_0_quantize(const float *src, void *dst, size_t n)
{
    struct quant_tq2_0 *b = dst;
    uint8_t digit[QUANT_SUPER];
    for (size_t k = 0; k < n / QUANT_SUPER; k++, src += QUANT_SUPER) {
        b[k].d = f32_to_f16(ternary_digits(src, QUANT_SUPER, digit));
        memset(b[k].qs, 0, sizeof b[k].qs);
        for (int i = 0; i < QUANT_SUPER; i++) b[k].qs[i / 128 * 32 + i % 32] |= (uint8_t)(digit[i] << i % 128 / 32 * 2);
    }
}

/* ---- Q1_0 and Q2_0: codes side by side ---- */

void quant_q1_0_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q1_0 *b = src;
    for (size_t k = 0; k < n / QUANT_GROUP128; k++, dst += QUANT_GROUP128) {
        float d = f16_to_f32(b[k].d);
        for (int i = 0; i < QUANT_GROUP128; i++) dst[i] = b[k].qs[i / 8] >> i % 8 & 1 ? d : -d;
    }
}

void quant_q1_0_quantize(const float *src, void *dst, size_t n)
{
    struct quant_q1_0 *b = dst;
    for (size_t k = 0; k < n / QUANT_GROUP128; k++, src += QUANT_GROUP128) {
        float sum = 0;
        for (int i = 0; i < QUANT_GROUP128; i++) sum += fabsf(src[i]);
        b[k].d = f32_to_f16(sum / QUANT_GROUP128);
        memset(b[k].qs, 0, sizeof b[k].qs);
        for (int i = 0; i < QUANT_GROUP128; i++) b[k].qs[i / 8] |= (uint8_t)((src[i] >= 0) << i % 8);
    }
}

void quant_q2_0_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_q2_0 *b = src;
    for (size_t k = 0; k < n / QUANT_GROUP64; k++, dst += QUANT_GROUP64) {
        float d = f16_to_f32(b[k].d);
        for (int i = 0; i < QUANT_GROUP64; i++) dst[i] = (float)((b[k].qs[i / 4] >> i % 4 * 2 & 3) - 1) * d;
    }
}

/* Of the four values -d .. 2d the last stays unused: the format is made for ternary weights. */
void quant_q2_0_quantize(const float *src, void *dst, size_t n)
{
    struct quant_q2_0 *b = dst;
    uint8_t digit[QUANT_GROUP64];
    for (size_t k = 0; k < n / QUANT_GROUP64; k++, src += QUANT_GROUP64) {
        b[k].d = f32_to_f16(ternary_digits(src, QUANT_GROUP64, digit));
        for (int i = 0; i < 16; i++) {
            const uint8_t *q = digit + 4 * i;
            b[k].qs[i] = (uint8_t)(q[0] | q[1] << 2 | q[2] << 4 | q[3] << 6);
        }
    }
}

/* ---- MXFP4: FP4 E2M1 with a power-of-two scale ---- */

static const int8_t mxfp4_values[16] = QUANT_MXFP4_VALUES;

/* First of the nearest values: ties go to the smaller magnitude. */
static uint8_t nearest_mxfp4(float x, float d)
{
    int best = 0;
    float best_error = fabsf(x);
    for (int i = 1; i < 16; i++) {
        float error = fabsf((float)mxfp4_values[i] * d - x);
        if (error < best_error) {
            best = i;
            best_error = error;
        }
    }
    return (uint8_t)best;
}

/* The largest magnitude gets the exponent of FP4's largest binade, 4..6 (OCP MX v1.0, section 6.3). */
static uint8_t mxfp4_exponent(float amax)
{
    int power;
    if (!(amax > 0) || isinf(amax)) return amax > 0 ? 254 : 0;
    frexpf(amax, &power); /* amax = f 2^power, f in [0.5, 1) */
    int e = power - 1 - 2 + 127;
    return (uint8_t)(e < 0 ? 0 : e > 254 ? 254 : e);
}

void quant_mxfp4_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_mxfp4 *b = src;
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, dst += QUANT_BLOCK) {
        float d = e8m0_half_to_f32(b[k].e);
        for (int i = 0; i < 16; i++) {
            dst[i] = (float)mxfp4_values[b[k].qs[i] & 15] * d;
            dst[i + 16] = (float)mxfp4_values[b[k].qs[i] >> 4] * d;
        }
    }
}

/* Half of a group's scale: the table has twice the values. */
static float nvfp4_scale(uint8_t d)
{
    int e = d >> 3 & 15, m = d & 7;
    if (d == 0x7f) return 0;
    return 0.5f * (e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9));
}

static void nvfp4_block(const struct quant_nvfp4 *b, float *dst)
{
    for (int g = 0; g < 4; g++, dst += 16) {
        float d = nvfp4_scale(b->d[g]);
        for (int i = 0; i < 8; i++) {
            dst[i] = (float)mxfp4_values[b->qs[8 * g + i] & 15] * d;
            dst[i + 8] = (float)mxfp4_values[b->qs[8 * g + i] >> 4] * d;
        }
    }
}

void quant_nvfp4_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_nvfp4 *b = src;
    for (size_t k = 0; k < n / QUANT_GROUP64; k++, dst += QUANT_GROUP64) nvfp4_block(&b[k], dst);
}

void quant_nvfp4_scaled_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_nvfp4_scaled *b = src;
    for (size_t k = 0; k < n / QUANT_GROUP64; k++, dst += QUANT_GROUP64) {
        float scale;
        memcpy(&scale, b[k].scale, sizeof scale);
        nvfp4_block(&b[k].b, dst);
        for (int i = 0; i < QUANT_GROUP64; i++) dst[i] *= scale;
    }
}

void quant_mxfp4_quantize(const float *src, void *dst, size_t n)
{
    struct quant_mxfp4 *b = dst;
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, src += QUANT_BLOCK) {
        b[k].e = mxfp4_exponent(fabsf(quant_signed_max(src, QUANT_BLOCK)));
        float d = e8m0_half_to_f32(b[k].e);
        for (int i = 0; i < 16; i++)
            b[k].qs[i] = (uint8_t)(nearest_mxfp4(src[i], d) | nearest_mxfp4(src[i + 16], d) << 4);
    }
}

/* ---- IQ4_NL: a codebook denser around zero ---- */

static const int8_t iq4_nl_values[16] = QUANT_IQ4_NL_VALUES;

/* Halfway between neighbours of the codebook. */
static const float iq4_nl_between[15] = {
    -115.5f, -93.5f, -74, -57, -42, -28.5f, -16, -4.5f, 7, 19, 31.5f, 45.5f, 61, 79, 101};

/* The codes nearest to x / d in code[]; returns the sums of x v and v v over them, v being the codebook's values. */
static void fit_iq4_nl(const float *x, float id, int code[QUANT_BLOCK], float *xv, float *vv)
{
    float t[QUANT_BLOCK];
    for (int i = 0; i < QUANT_BLOCK; i++) {
        t[i] = x[i] * id;
        code[i] = 0;
    }
    for (int j = 0; j < 15; j++)
        for (int i = 0; i < QUANT_BLOCK; i++) code[i] += t[i] > iq4_nl_between[j];
    *xv = *vv = 0;
    for (int i = 0; i < QUANT_BLOCK; i++) {
        float v = iq4_nl_values[code[i]];
        *xv += x[i] * v;
        *vv += v * v;
    }
}

/* Tries inverse scales that put the largest element near either end of the codebook; for each, the best scale for
 * the codes it gives is xv / vv and the squared error falls by xv^2 / vv: keep the largest fall. */
static float search_iq4_nl(const float *x)
{
    int code[QUANT_BLOCK];
    float max = quant_signed_max(x, QUANT_BLOCK), best_gain = 0, best_d = 0;
    if (!(fabsf(max) > 0) || isinf(max)) return 0;
    for (int step = -6; step <= 6; step++) {
        for (int end = 0; end < 2; end++) {
            float xv, vv, target = (float)iq4_nl_values[end ? 15 : 0];
            fit_iq4_nl(x, target * (1.0f + 0.035f * (float)step) / max, code, &xv, &vv);
            if (vv > 0 && xv * xv > best_gain * vv) {
                best_gain = xv * xv / vv;
                best_d = xv / vv;
            }
        }
    }
    return best_d;
}

void quant_iq4_nl_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_iq4_nl *b = src;
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, dst += QUANT_BLOCK) {
        float d = f16_to_f32(b[k].d);
        for (int i = 0; i < 16; i++) {
            dst[i] = (float)iq4_nl_values[b[k].qs[i] & 15] * d;
            dst[i + 16] = (float)iq4_nl_values[b[k].qs[i] >> 4] * d;
        }
    }
}

void quant_iq4_nl_quantize(const float *src, void *dst, size_t n)
{
    struct quant_iq4_nl *b = dst;
    int code[QUANT_BLOCK];
    for (size_t k = 0; k < n / QUANT_BLOCK; k++, src += QUANT_BLOCK) {
        float xv, vv;
        b[k].d = f32_to_f16(search_iq4_nl(src));
        float d = f16_to_f32(b[k].d); /* codes for the scale as it will be read back */
        fit_iq4_nl(src, d != 0 ? 1.0f / d : 0.0f, code, &xv, &vv);
        for (int i = 0; i < 16; i++) b[k].qs[i] = (uint8_t)(code[i] | code[i + 16] << 4);
    }
}

/* ---- IQ4_XS: the same codes, 8 groups whose scales are integers of -32 .. 31 times d ---- */

static int iq4_xs_scale(const struct quant_iq4_xs *b, int g)
{
    return ((b->scales_l[g / 2] >> g % 2 * 4 & 15) | (b->scales_h >> 2 * g & 3) << 4) - 32;
}

void quant_iq4_xs_dequantize(const void *src, float *dst, size_t n)
{
    const struct quant_iq4_xs *b = src;
    for (size_t k = 0; k < n / QUANT_SUPER; k++) {
        float d = f16_to_f32(b[k].d);
        for (int g = 0; g < QUANT_SUPER / QUANT_BLOCK; g++, dst += QUANT_BLOCK) {
            float scale = d * (float)iq4_xs_scale(&b[k], g);
            for (int i = 0; i < 16; i++) {
                dst[i] = scale * (float)iq4_nl_values[b[k].qs[16 * g + i] & 15];
                dst[i + 16] = scale * (float)iq4_nl_values[b[k].qs[16 * g + i] >> 4];
            }
        }
    }
}

/* Codes of the whole block for its scales; returns the best d for them. */
static float iq4_xs_codes(const float *x, float d, const int sc[8], int code[QUANT_SUPER])
{
    double xu = 0, uu = 0;
    for (int g = 0; g < 8; g++) {
        float xv, vv, scale = d * (float)sc[g];
        fit_iq4_nl(x + QUANT_BLOCK * g, scale != 0 ? 1 / scale : 0, code + QUANT_BLOCK * g, &xv, &vv);
        xu += sc[g] * (double)xv;
        uu += sc[g] * (double)sc[g] * vv;
    }
    return uu > 0 ? (float)(xu / uu) : d;
}

void quant_iq4_xs_quantize(const float *src, void *dst, size_t n)
{
    struct quant_iq4_xs *b = dst;
    struct solved s = {0};
    for (size_t k = 0; k < n / QUANT_SUPER; k++, src += QUANT_SUPER) {
        float scale[8];
        int code[QUANT_SUPER];
        for (int g = 0; g < 8; g++) scale[g] = search_iq4_nl(src + QUANT_BLOCK * g);
        float d = quant_signed_max(scale, 8) / -32, id = d != 0 ? 1 / d : 0;
        for (int g = 0; g < 8; g++) s.sc[g] = quant_clamp(roundf(scale[g] * id), -32, 31);
        s.d = f16_to_f32(f32_to_f16(iq4_xs_codes(src, f16_to_f32(f32_to_f16(d)), s.sc, code)));
        iq4_xs_codes(src, s.d, s.sc, code);
        for (int i = 0; i < QUANT_SUPER; i++) s.code[i] = (uint8_t)code[i];
        quant_solve_type(QUANT_IQ4_XS)->pack(&s, &b[k]);
    }
}
