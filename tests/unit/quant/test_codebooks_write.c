/* SPDX-License-Identifier: MIT
 *
 * IQ2_S, IQ3_XXS and IQ3_S from values, against a search among all entries of the codebook.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "quant/codebooks.h"
#include "quant/weighted.h"

enum { N = QUANT_SUPER, BLOCKS = 24 };

static const struct format {
    enum quant_type type;
    const uint16_t *book;
    int n_entry, elems, bits, group, top;
    float unit, level[8];
} formats[] = {{QUANT_IQ2_S, quant_iq2_s_book, 1024, 8, 2, 16, 2, 0.125f, QUANT_IQ2_MAGNITUDES},
    {QUANT_IQ3_XXS, quant_iq3_xxs_book, 256, 4, 3, 32, 7, 0.25f, QUANT_IQ3_XXS_MAGNITUDES},
    {QUANT_IQ3_S, quant_iq3_s_book, 512, 4, 3, 32, 7, 1, QUANT_IQ3_S_MAGNITUDES}};
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

/* The least error of a group with this scale; any signs. */
static double best_of(const struct format *f, float scale, const float *x, const float *w)
{
    double sum = 0;
    for (int i = 0; i < f->group; i += f->elems) {
        double least = INFINITY;
        for (int e = 0; e < f->n_entry; e++) {
            double error = 0;
            for (int j = 0; j < f->elems; j++) {
                double d = (double)fabsf(x[i + j]) - (double)(scale * f->level[level_of(f, e, j)]);
                error += (double)w[i + j] * d * d;
            }
            least = fmin(least, error);
        }
        sum += least;
    }
    return sum;
}

/* A group's scale in a block. */
static float scale_in(const struct format *f, const void *block, int g)
{
    const struct quant_iq2_s *a = block;
    const struct quant_iq3_xxs *b = block;
    const struct quant_iq3_s *c = block;
    int s = f->type == QUANT_IQ2_S     ? a->scales[g / 2] >> g % 2 * 4 & 15
            : f->type == QUANT_IQ3_XXS ? b->signs[4 * g + 3] >> 4
                                       : c->scales[g / 2] >> g % 2 * 4 & 15;
    return f16_to_f32(a->d) * f->unit * (float)(2 * s + 1);
}

/* For a block's scales no other entries are better, but where signs come in even numbers.  Scales that are not searched
 * for, though a float for each group, are worse, even with signs that do not. */
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
        assert_true(error <= (f->type == QUANT_IQ3_XXS ? 1.2 : 1.001) * best);
        assert_true(error < naive);
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
            block.byte[(int)sizeof block.s2.d + g * f->group / f->elems] = (uint8_t)e; /* qs, in all three formats */
            if (f->type == QUANT_IQ2_S) block.s2.qh[g / 2] &= (uint8_t) ~(3 << g % 2 * 4);
            if (f->type == QUANT_IQ3_S) block.s3.qh[g] &= (uint8_t)~1;
        }
        if (f->type == QUANT_IQ2_S) block.s2.scales[7] |= 15;
        if (f->type == QUANT_IQ3_XXS) block.xxs.signs[7] |= 15 << 4;
        if (f->type == QUANT_IQ3_S) block.s3.scales[2] |= 15;
        q->dequantize(&block, x, N);
        memset(&again, 0xa5, sizeof again);
        q->quantize(x, &again, N);
        assert_memory_equal(block.byte, again.byte, q->block_bytes);
        assert_int_equal(again.byte[q->block_bytes], 0xa5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_the_best),
        cmocka_unit_test(exact_values_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
