/* SPDX-License-Identifier: MIT
 *
 * Peak of one core's matrix unit: TDPBF16PS on full tiles, in four chains (its integer form does twice as many).
 * The factors are varied numbers, not zeros.
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

/* bf16 of magnitude 1 to 2, both signs and all mantissas. */
static void load_factors(void)
{
    LUTRA_ALIGNED(64) uint16_t x[ROWS][2 * PAIRS];
    uint32_t state = 1;
    for (int i = 0; i < ROWS * 2 * PAIRS; i++) {
        state = state * 1664525u + 1013904223u;
        x[i / (2 * PAIRS)][i % (2 * PAIRS)] = (uint16_t)(0x3f80 | (state >> 31) << 15 | (state >> 20 & 0x7f));
    }
    compiler_fence(x);
    _tile_loadd(4, x, 64);
    _tile_loadd(5, x, 64);
    _tile_loadd(6, x, 64);
    _tile_loadd(7, x, 64);
}

static double bf16_peak(void)
{
    struct amx_shapes shapes = {0};
    double best = 0;
    for (int t = 0; t < TILES; t++) amx_shape(&shapes, t, ROWS, 64);
    amx_begin(&shapes);
    load_factors();
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
