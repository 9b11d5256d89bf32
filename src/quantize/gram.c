/* SPDX-License-Identifier: MIT */
#include "quantize/gram.h"

#include <string.h>

#include "quantize/gram_impl.h"
#include "quantize/solve_impl.h"
#include "quantize/weighted.h"

enum { SIDE = 192, DEPTH = 64 }; /* of a job: columns, and rows of doubles packed at a time; of floats twice as many */

struct gram {
    double *c, sign;
    const double *x;
    const float *xf;
    size_t ldc, ldx, n, n_row, blocks, width; /* of a tile: columns */
    gram_tile_fn tile;
};

void quant_parallel_run(const struct quant_parallel *on, void (*fn)(void *arg, int i), void *arg, int n)
{
    if (on) {
        on->run(on->user, fn, arg, n);
        return;
    }
    for (int i = 0; i < n; i++) fn(arg, i);
}

void gram_tile_plain(const void *a_panel, const void *b_panel, size_t n_row, double *c, size_t ldc)
{
    const double *a = a_panel, *b = b_panel;
    for (size_t i = 0; i < GRAM_I; i++) {
        double sum[GRAM_K] = {0};
        for (size_t p = 0; p < n_row; p++)
            for (size_t k = 0; k < GRAM_K; k++) sum[k] += a[p * GRAM_I + i] * b[p * GRAM_K + k];
        for (size_t k = 0; k < GRAM_K; k++) c[i * ldc + k] += sum[k];
    }
}

void gram_tile_f32_plain(const void *a_panel, const void *b_panel, size_t n_row, double *c, size_t ldc)
{
    const float *a = a_panel, *b = b_panel;
    for (size_t i = 0; i < GRAM_I; i++) {
        float sum[GRAM_KF] = {0};
        for (size_t p = 0; p < n_row; p++)
            for (size_t k = 0; k < GRAM_KF; k++) sum[k] += a[p * GRAM_I + i] * b[p * GRAM_KF + k];
        for (size_t k = 0; k < GRAM_KF; k++) c[i * ldc + k] += (double)sum[k];
    }
}

void gram_errors_plain(const float *a, size_t n, const float *e, float *sum)
{
    for (size_t j = 0; j < n; j++)
        for (int r = 0; r < GRAM_ROWS; r++) sum[r] += a[j] * e[j * GRAM_ROWS + (size_t)r];
}

/* Elements from..from + n - 1 of a row, and zeros up to width, as element `at` and on of a panel. */
static void pack_part(
    const struct gram *g, size_t row, size_t from, size_t width, double factor, void *panel, size_t at)
{
    size_t n = from >= g->n ? 0 : g->n - from < width ? g->n - from : width;
    if (g->x) {
        double *to = (double *)panel + at;
        for (size_t k = 0; k < n; k++) to[k] = factor * g->x[row * g->ldx + from + k];
        for (size_t k = n; k < width; k++) to[k] = 0;
    } else {
        float *to = (float *)panel + at;
        for (size_t k = 0; k < n; k++) to[k] = (float)factor * g->xf[row * g->ldx + from + k];
        for (size_t k = n; k < width; k++) to[k] = 0;
    }
}

/* SIDE columns of n_row rows, in panels of `width`. */
static void pack(const struct gram *g, size_t row, size_t n_row, size_t from, size_t width, double factor, void *to)
{
    for (size_t p = 0; p < n_row; p++)
        for (size_t k = 0; k < SIDE; k += width)
            pack_part(g, row + p, from + k, width, factor, to, k * n_row + p * width);
}

/* One that reaches beyond the last column is added up elsewhere. */
static void add_tile(const struct gram *g, const void *a, const void *b, size_t n_row, size_t i, size_t k)
{
    double edge[GRAM_I * GRAM_KF];
    if (i + GRAM_I <= g->n && k + g->width <= g->n) {
        g->tile(a, b, n_row, g->c + i * g->ldc + k, g->ldc);
        return;
    }
    memset(edge, 0, sizeof edge);
    g->tile(a, b, n_row, edge, g->width);
    for (size_t y = 0; y < GRAM_I && i + y < g->n; y++)
        for (size_t z = 0; z < g->width && k + z < g->n; z++) g->c[(i + y) * g->ldc + k + z] += edge[y * g->width + z];
}

/* SIDE x SIDE of c. */
static void add_block(void *arg, int job)
{
    const struct gram *g = arg;
    const size_t bytes = g->x ? sizeof(double) : sizeof(float), depth = DEPTH * sizeof(double) / bytes;
    double panel_a[SIDE * DEPTH], panel_b[SIDE * DEPTH];
    const char *a = (const char *)panel_a, *b = (const char *)panel_b;
    size_t first = 0, left = (size_t)job;
    while (left >= g->blocks - first) left -= g->blocks - first++;
    size_t from_i = first * SIDE, from_k = (first + left) * SIDE;
    for (size_t row = 0, n_row; row < g->n_row; row += n_row) {
        n_row = g->n_row - row < depth ? g->n_row - row : depth;
        pack(g, row, n_row, from_i, GRAM_I, g->sign, panel_a);
        pack(g, row, n_row, from_k, g->width, 1, panel_b);
        for (size_t k = 0; k < SIDE && from_k + k < g->n; k += g->width)
            for (size_t i = 0; i < SIDE && from_i + i < g->n && from_i + i < from_k + k + g->width; i += GRAM_I)
                add_tile(g, a + bytes * i * n_row, b + bytes * k * n_row, n_row, from_i + i, from_k + k);
    }
}

void quant_gram(double *c, size_t ldc, const double *x, const float *xf, size_t ldx, size_t n, size_t n_row,
    double sign, const struct quant_parallel *on)
{
    const struct quant_kernels *run = quant_kernels();
    struct gram g = {
        c, sign, x, xf, ldc, ldx, n, n_row, (n + SIDE - 1) / SIDE, x ? GRAM_K : GRAM_KF, x ? run->tile : run->tile_f32};
    quant_parallel_run(on, add_block, &g, (int)(g.blocks * (g.blocks + 1) / 2));
}
