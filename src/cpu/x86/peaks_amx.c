/* SPDX-License-Identifier: MIT
 *
 * Peak of one core's matrix unit: TDPBF16PS on full tiles, in four chains (its integer form does twice as many).
 */
#include "cpu/kernels.h"
#include "cpu/peaks_impl.h"
#include "cpu/x86/amx_impl.h"

enum { TILES = 8, ROWS = 16, PAIRS = 16, LANES = 16, CHAINS = 4, LOOPS = 20000, SAMPLES = 40 };

static double seconds_of_products(void)
{
    double start = peak_now();
    for (int i = 0; i < LOOPS; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    return peak_now() - start;
}

static double bf16_peak(void)
{
    struct amx_shapes shapes = {0};
    double best = 0;
    for (int t = 0; t < TILES; t++) amx_shape(&shapes, t, ROWS, 64);
    amx_begin(&shapes);
    for (int i = 0; i < SAMPLES; i++) {
        double gmac = (double)ROWS * LANES * PAIRS * 2 * CHAINS * LOOPS / seconds_of_products() * 1e-9;
        if (gmac > best) best = gmac;
    }
    amx_end();
    return best;
}

void cpu_peaks_init_amx(struct cpu_kernels *out)
{
    out->bf16_name = "tdpbf16ps";
    out->bf16_peak = bf16_peak;
}
