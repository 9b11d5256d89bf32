/* SPDX-License-Identifier: MIT
 *
 * IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S from values, against a search among all entries of the codebook.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/f16.h"
#include "quant/codebooks.h"
#include "quantize/weighted.h"

enum { N = QUANT_SUPER, BLOCKS = 24 };

static const struct format {
    enum quant_type type;
    const uint16_t *book;
    int n_entry, elems, bits, group, top;
    bool even; /* negative ones among 8 */
    int apart; /* bytes from a group's first index to the next group's */
    float unit, level[8];
} formats[] = {{QUANT_IQ2_S, quant_iq2_s_book, 1024, 8, 2, 16, 2, false, 2, 0.125f, QUANT_IQ2_MAGNITUDES},
    {QUANT_IQ2_XS, quant_iq2_xs_book, 512, 8, 2, 16, 2, true, 4, 0.125f, QUANT_IQ2_MAGNITUDES},
    {QUANT_IQ2_XXS, quant_iq2_xxs_book, 256, 8, 2, 32, 2, true, 8, 0.125f, QUANT_IQ2_MAGNITUDES},
    {QUANT_IQ3_XXS, quant_iq3_xxs_book, 256, 4, 3, 32, 7, true, 8, 0.25f, QUANT_IQ3_XXS_MAGNITUDES},
    {QUANT_IQ3_S, quant_iq3_s_book, 512, 4, 3, 32, 7, false, 8, 1, QUANT_IQ3_S_MAGNITUDES}};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static uint32_t seed;
static uint32_t random_byte(void)
{
    return (seed = seed * 1664525u + 1013904223u) >> 24;
}

static float normal(void)
{
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += (float)random_byte() / 255;
    return sum - 6;
}

static int level_of(const struct format *f, int entry, int element)
{
    return f->book[entry] >> f->bits * element & ((1 << f->bits) - 1);
}

static double error_of(const struct format *f, const void *block, const float *x, const float *w)
{
    float y[N];
    double sum = 0;
    quant_info_of(f->type)->dequantize(block, y, N);
    for (int i = 0; i < N; i++) sum += (double)w[i] * (double)(x[i] - y[i]) * (double)(x[i] - y[i]);
    return sum;
}

/* The least error of the elements of one entry with this scale; turned: with one sign that is not the value's. */
static double best_entry(const struct format *f, float scale, const float *x, const float *w, bool turned)
{
    double least = INFINITY;
    for (int e = 0; e < f->n_entry; e++) {
        double error = 0, more = INFINITY;
        for (int j = 0; j < f->elems; j++) {
            double u = (double)fabsf(x[j]), v = (double)(scale * f->level[level_of(f, e, j)]);
            error += (double)w[j] * (u - v) * (u - v);
            more = fmin(more, (double)w[j] * ((u + v) * (u + v) - (u - v) * (u - v)));
        }
        least = fmin(least, error + (turned ? more : 0));
    }
    return least;
}

/* Of a group. */
static double best_of(const struct format *f, float scale, const float *x, const float *w)
{
    double sum = 0;
    for (int i = 0; i < f->group; i += 8) {
        bool odd = false;
        double least = INFINITY;
        for (int j = i; j < i + 8; j++) odd ^= x[j] < 0;
        for (int j = i; j < i + 8; j += f->elems) {
            double kept = best_entry(f, scale, x + j, w + j, false);
            sum += kept;
            least = fmin(least, best_entry(f, scale, x + j, w + j, true) - kept);
        }
        if (f->even && odd) sum += least;
    }
    return sum;
}

/* A group's scale in a block. */
static float scale_in(const struct format *f, const void *block, int g)
{
    const struct quant_iq2_xxs *xxs = block;
    const struct quant_iq2_xs *xs = block;
    const struct quant_iq2_s *s2 = block;
    const struct quant_iq3_xxs *xxs3 = block;
    const struct quant_iq3_s *s3 = block;
    int s = f->type == QUANT_IQ2_XXS   ? xxs->qs[8 * g + 7] >> 4
            : f->type == QUANT_IQ2_XS  ? xs->scales[g / 2] >> g % 2 * 4 & 15
            : f->type == QUANT_IQ2_S   ? s2->scales[g / 2] >> g % 2 * 4 & 15
            : f->type == QUANT_IQ3_XXS ? xxs3->signs[4 * g + 3] >> 4
                                       : s3->scales[g / 2] >> g % 2 * 4 & 15;
    return f16_to_f32(s2->d) * f->unit * (float)(2 * s + 1);
}

/* For a block's scales no other entries and signs are better; little of IQ3_XXS, where the sign that is turned is
 * chosen before the entries.  Scales that are not searched for, though a float for each group, are worse. */
static void entries_are_the_best(void **state)
{
    (void)state;
    for (const struct format *f = formats; f < formats + N_FORMATS; f++) {
        double error = 0, best = 0, naive = 0;
        seed = 3;
        for (int b = 0; b < BLOCKS; b++) {
            float x[N], w[N];
            uint8_t block[256];
            for (int i = 0; i < N; i++) x[i] = 0.1f * normal(), w[i] = expf(b % 2 ? 1.5f * normal() : 0);
            quant_weighted(quant_kernels(), f->type, x, w, block, N);
            error += error_of(f, block, x, w);
            for (int g = 0; g < N / f->group; g++) {
                float max = 0, *at = x + g * f->group;
                for (int i = 0; i < f->group; i++) max = fmaxf(max, fabsf(at[i]));
                best += best_of(f, scale_in(f, block, g), at, w + g * f->group);
                naive += best_of(f, max / f->level[f->top], at, w + g * f->group);
            }
        }
        print_message(
            "%s: %.4f of the best, %.3f of the naive\n", quant_type_name(f->type), error / best, error / naive);
        assert_true(error <= (f->type == QUANT_IQ3_XXS ? 1.006 : 1.002) * best);
        assert_true(error < naive);
    }
}

/* Signs are the values', but that of one of 8 where an odd number would be negative and the format has no such. */
static void one_sign_is_turned(void **state)
{
    (void)state;
    seed = 11;
    for (int b = 0; b < BLOCKS * N_FORMATS; b++) {
        const struct format *f = &formats[b % N_FORMATS];
        float x[N], w[N], y[N];
        uint8_t block[256];
        for (int i = 0; i < N; i++) x[i] = normal(), w[i] = expf(normal());
        quant_weighted(quant_kernels(), f->type, x, w, block, N);
        quant_info_of(f->type)->dequantize(block, y, N);
        for (int i = 0; i < N; i += 8) {
            int odd = 0, turned = 0;
            for (int j = i; j < i + 8; j++) odd ^= x[j] < 0, turned += (x[j] < 0) != (y[j] < 0);
            assert_int_equal(turned, f->even && odd);
        }
    }
}

/* Blocks of random codes, each group with a largest magnitude and one with the largest scale, come back bit by bit. */
static void exact_values_come_back(void **state)
{
    (void)state;
    seed = 5;
    for (int b = 0; b < BLOCKS * N_FORMATS; b++) {
        const struct format *f = &formats[b % N_FORMATS];
        const struct quant_info *q = quant_info_of(f->type);
        union {
            uint8_t byte[128];
            struct quant_iq2_xxs xxs2;
            struct quant_iq2_xs xs;
            struct quant_iq2_s s2;
            struct quant_iq3_xxs xxs;
            struct quant_iq3_s s3;
        } block, again;
        float x[N];
        for (uint32_t i = 0; i < q->block_bytes; i++) block.byte[i] = (uint8_t)random_byte();
        block.s2.d = f32_to_f16(0.0625f);
        for (int g = 0; g < N / f->group; g++) {
            int e = (int)random_byte();
            while (level_of(f, e, 0) != f->top) e = (e + 1) % 256;
            block.byte[(int)sizeof block.s2.d + g * f->apart] = (uint8_t)e; /* qs, in all formats */
            if (f->type == QUANT_IQ2_XS) block.xs.qs[4 * g + 1] &= (uint8_t)~1;
            if (f->type == QUANT_IQ2_S) block.s2.qh[g / 2] &= (uint8_t) ~(3 << g % 2 * 4);
            if (f->type == QUANT_IQ3_S) block.s3.qh[g] &= (uint8_t)~1;
        }
        if (f->type == QUANT_IQ2_XXS) block.xxs2.qs[63] |= 15 << 4;
        if (f->type == QUANT_IQ2_XS) block.xs.scales[7] |= 15;
        if (f->type == QUANT_IQ2_S) block.s2.scales[7] |= 15;
        if (f->type == QUANT_IQ3_XXS) block.xxs.signs[7] |= 15 << 4;
        if (f->type == QUANT_IQ3_S) block.s3.scales[2] |= 15;
        q->dequantize(&block, x, N);
        memset(&again, 0xa5, sizeof again);
        quant_plain(q->type)(x, &again, N);
        assert_memory_equal(block.byte, again.byte, q->block_bytes);
        assert_int_equal(again.byte[q->block_bytes], 0xa5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_the_best),
        cmocka_unit_test(one_sign_is_turned),
        cmocka_unit_test(exact_values_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
