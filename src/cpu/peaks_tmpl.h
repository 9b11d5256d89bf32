/* SPDX-License-Identifier: MIT
 *
 * Peaks of one core at one instruction set: its int8 dot product and its fma, on registers, in independent chains.
 *
 * Needs:
 *     enum { CHAINS, INT8_MACS, F32_MACS };            chains; multiply-accumulates of one step
 *     vec_i, vec_f                                     its vectors
 *     vec_i int_all(int x); vec_f float_all(float x);  x in every byte or lane
 *     vec_i dot(vec_i acc, vec_i w, vec_i x);          the step; vec_f fma_all(acc, a, b) likewise
 * Gives: measure_peaks.
 */
#ifndef LUTRA_CPU_PEAKS_TMPL_H
#define LUTRA_CPU_PEAKS_TMPL_H

#include <string.h>

#include "cpu/kernels.h"
#include "cpu/peaks_impl.h"

enum { PEAK_LOOPS = 100000, PEAK_SAMPLES = 40 };

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

static double seconds_of_dot(volatile int *seed)
{
    vec_i a[CHAINS], w = int_all(*seed), x = int_all(*seed + 1);
    for (int c = 0; c < CHAINS; c++) a[c] = int_all(c); /* chains differ, or the compiler would run one for all */
    double start = peak_now();
    for (int i = 0; i < PEAK_LOOPS; i++) UNROLL
    for (int c = 0; c < CHAINS; c++) a[c] = dot(a[c], w, x);
    double seconds = peak_now() - start;
    for (int c = 0; c < CHAINS; c++) {
        int some;
        memcpy(&some, &a[c], sizeof some);
        *seed ^= some & 1;
    }
    return seconds;
}

static double seconds_of_fma(volatile int *seed)
{
    vec_f a[CHAINS], x = float_all((float)*seed * 1e-9f);
    for (int c = 0; c < CHAINS; c++) a[c] = float_all((float)c);
    double start = peak_now();
    for (int i = 0; i < PEAK_LOOPS; i++) UNROLL
    for (int c = 0; c < CHAINS; c++) a[c] = fma_all(a[c], x, x);
    double seconds = peak_now() - start;
    for (int c = 0; c < CHAINS; c++) {
        int some;
        memcpy(&some, &a[c], sizeof some);
        *seed ^= some & 1;
    }
    return seconds;
}

static void measure_peaks(struct cpu_peaks *out, const char *int8_name)
{
    volatile int seed = 3;
    *out = (struct cpu_peaks){.int8_name = int8_name};
    for (int i = 0; i < PEAK_SAMPLES; i++) {
        double int8 = (double)INT8_MACS * CHAINS * PEAK_LOOPS / seconds_of_dot(&seed) * 1e-9;
        double f32 = (double)F32_MACS * CHAINS * PEAK_LOOPS / seconds_of_fma(&seed) * 1e-9;
        if (int8 > out->int8_gmac) out->int8_gmac = int8;
        if (f32 > out->f32_gmac) out->f32_gmac = f32;
    }
}

#endif
