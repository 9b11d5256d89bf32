/* SPDX-License-Identifier: MIT
 *
 * GPTQ (Frantar et al., arXiv:2210.17323) into the blocks of GGUF's types: columns are rounded one after the other, and
 * each is moved by what the errors of those before it ask for.
 *
 * With H = A^T A and A lower triangular, in the columns' order, an error e of the row costs |A e|^2.  Its term c has
 * the columns up to c only: its least is at x_c + sum over j < c of A_cj / A_cc e_j (Babai's nearest plane; Chen et
 * al., arXiv:2507.18553, show that it is GPTQ).  So no inverse is needed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/gram.h"
#include "quantize/gram_impl.h"
#include "quantize/solve_impl.h"
#include "quantize/weighted.h"

enum { ROWS = QUANT_GPTQ_ROWS, PANEL = 192 };
_Static_assert((int)QUANT_GPTQ_ROWS == (int)GRAM_ROWS, "the kernels' rows");

/* Blocks in their order, within one the largest diagonal first. */
static void order_columns(struct quant_gptq *g, const double *h)
{
    for (int i = 0; i < g->n; i++) {
        int first = i / g->block * g->block, at = i;
        double own = h[(size_t)i * (size_t)g->n + (size_t)i];
        for (; at > first; at--) {
            size_t before = (size_t)g->order[at - 1];
            if (h[before * (size_t)g->n + before] >= own) break;
            g->order[at] = g->order[at - 1];
        }
        g->order[at] = i;
    }
}

static double element(const double *h, int n, int i, int k)
{
    return i < k ? h[(size_t)i * (size_t)n + (size_t)k] : h[(size_t)k * (size_t)n + (size_t)i];
}

/* ---- the Hessian in the columns' order, read backwards, as u^T u: upper triangle, in place, panel by panel ---- */

struct factor {
    double *u;
    size_t n, first, end; /* the panel's rows */
};

static bool factor_corner(const struct factor *f)
{
    for (size_t i = f->first; i < f->end; i++) {
        double *row = f->u + i * f->n, pivot;
        if (!(row[i] > 0)) return false;
        pivot = 1 / (row[i] = sqrt(row[i]));
        for (size_t k = i + 1; k < f->end; k++) row[k] *= pivot;
        for (size_t j = i + 1; j < f->end; j++)
            for (size_t k = j; k < f->end; k++) f->u[j * f->n + k] -= row[j] * row[k];
    }
    return true;
}

/* Right of the corner, PANEL columns. */
static void solve_panel(void *arg, int job)
{
    const struct factor *f = arg;
    size_t from = f->end + (size_t)job * PANEL, to = from + PANEL < f->n ? from + PANEL : f->n;
    for (size_t i = f->first; i < f->end; i++) {
        double *row = f->u + i * f->n, pivot = 1 / row[i];
        for (size_t k = from; k < to; k++) row[k] *= pivot;
        for (size_t j = i + 1; j < f->end; j++) {
            double c = row[j], *below = f->u + j * f->n;
            for (size_t k = from; k < to; k++) below[k] -= c * row[k];
        }
    }
}

static bool factor_all(double *u, size_t n, const struct quant_parallel *on)
{
    struct factor f = {.u = u, .n = n};
    for (; f.first < n; f.first = f.end) {
        f.end = f.first + PANEL < n ? f.first + PANEL : n;
        if (!factor_corner(&f)) return false;
        if (f.end == n) break;
        quant_parallel_run(on, solve_panel, &f, (int)((n - f.end + PANEL - 1) / PANEL));
        const double *row = u + f.first * n + f.end;
        quant_gram(u + f.end * n + f.end, n, row, NULL, n, n - f.end, f.end - f.first, -1, on);
    }
    return true;
}

static int open_factor(struct quant_gptq *g, const double *h, double damp, double *u, const struct quant_parallel *on,
    struct lutra_error *err)
{
    int n = g->n;
    double mean = 0;
    for (int i = 0; i < n; i++) mean += element(h, n, i, i) / n;
    for (int i = 0; i < n; i++) {
        for (int k = i; k < n; k++)
            u[(size_t)i * (size_t)n + (size_t)k] = element(h, n, g->order[n - 1 - i], g->order[n - 1 - k]);
        u[(size_t)i * (size_t)n + (size_t)i] += damp * mean;
    }
    if (!(mean > 0) || !factor_all(u, (size_t)n, on))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "inputs' covariance of %d columns is not positive definite", n);
    return 0;
}

int quant_gptq_block(enum quant_type type)
{
    return quant_solve_type(type)->n;
}

void quant_gptq_weight(const double *h, int n, double damp, float *weight)
{
    double mean = 0;
    for (int i = 0; i < n; i++) mean += element(h, n, i, i) / n;
    for (int i = 0; i < n; i++) weight[i] = mean > 0 && isfinite(mean) ? (float)(element(h, n, i, i) / mean + damp) : 1;
}

int quant_gptq_open(struct quant_gptq *g, int block, const double *h, int n, double damp,
    const struct quant_parallel *on, struct lutra_error *err)
{
    size_t cells = (size_t)n * (size_t)n;
    *g = (struct quant_gptq){.n = n, .block = block, .run = quant_kernels()};
    g->order = malloc((size_t)n * sizeof *g->order);
    g->weight = malloc((size_t)n * sizeof *g->weight);
    g->a = malloc(cells * sizeof *g->a);
    double *u = malloc(cells * sizeof *u);
    int rc = g->order && g->weight && g->a && u ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for %d columns", n);
    if (rc == 0) {
        order_columns(g, h);
        rc = open_factor(g, h, damp, u, on, err);
    }
    if (rc == 0) {
        quant_gptq_weight(h, n, damp, g->weight);
        for (int c = 0; c < n; c++) {
            const double *last = u + (size_t)(n - 1 - c) * (size_t)n + n - 1; /* its row backwards */
            for (int j = 0; j < c; j++) g->a[(size_t)c * (size_t)n + (size_t)j] = (float)(last[-j] / last[-c]);
        }
    }
    free(u);
    if (rc < 0) quant_gptq_close(g);
    return rc;
}

void quant_gptq_close(struct quant_gptq *g)
{
    free(g->order);
    free(g->weight);
    free(g->a);
    *g = (struct quant_gptq){0};
}

/* ---- rows, ROWS at a time ---- */

/* to[r] = from[r] + sum over j in first..end-1 of column c's a[j] e[j][r] */
static void add_errors(
    const struct quant_gptq *g, int c, int first, int end, const float *e, const float *from, float *to)
{
    float sum[ROWS];
    memcpy(sum, from, sizeof sum);
    g->run->errors(g->a + (size_t)c * (size_t)g->n + first, (size_t)(end - first), e + (size_t)first * ROWS, sum);
    memcpy(to, sum, sizeof sum);
}

struct rows {
    const struct quant_gptq *g;
    const float *x; /* [n_row][n] */
    int n_row;
    float *e;     /* [n][ROWS] of the columns rounded so far, in their order */
    float *ask;   /* [n][ROWS] by how much those before a block move its columns */
    float *free;  /* [n][ROWS] minus that, if the block's own were not rounded */
    float *moved; /* [ROWS][n] the row as a block's scales are searched for */
};

static const float zeros[ROWS];

static void move_block(const struct rows *m, int at)
{
    const struct quant_gptq *g = m->g;
    for (int c = at; c < at + g->block; c++) {
        float *ask = m->ask + (size_t)c * ROWS, *free = m->free + (size_t)c * ROWS;
        add_errors(g, c, 0, at, m->e, zeros, ask);
        add_errors(g, c, at, c, m->free, ask, free);
        for (int r = 0; r < ROWS; r++) free[r] = -free[r];
        for (int r = 0, i = g->order[c]; r < m->n_row; r++) {
            size_t own = (size_t)r * (size_t)g->n + (size_t)i;
            m->moved[own] = m->x[own] - free[r];
        }
    }
}

static void round_block(const struct rows *m, struct quant_coder *coder, int at)
{
    const struct quant_gptq *g = m->g;
    float ask[ROWS];
    for (int c = at; c < at + g->block; c++) {
        int i = g->order[c];
        add_errors(g, c, at, c, m->e, m->ask + (size_t)c * ROWS, ask);
        for (int r = 0; r < m->n_row; r++) {
            float x = m->x[(size_t)r * (size_t)g->n + (size_t)i];
            m->e[(size_t)c * ROWS + (size_t)r] = x - quant_coder_round(&coder[r], i - at, x + ask[r]);
        }
    }
}

void quant_gptq_rows(const struct quant_gptq *g, enum quant_type type, const struct quant_group *group, const float *x,
    int n_row, float *scratch, uint8_t *dst, size_t row_bytes)
{
    size_t part = (size_t)g->n * ROWS;
    struct rows m = {g, x, n_row, scratch, scratch + part, scratch + 2 * part, scratch + 3 * part};
    struct quant_coder coder[ROWS];
    memset(scratch, 0, part * sizeof *scratch);
    for (int at = 0; at < g->n; at += g->block) {
        move_block(&m, at);
        for (int r = 0; r < n_row; r++)
            quant_coder_begin(&coder[r], g->run, type, group, m.moved + (size_t)r * (size_t)g->n + at, g->weight + at);
        round_block(&m, coder, at);
        for (int r = 0; r < n_row; r++) quant_coder_end(&coder[r], dst + (size_t)r * row_bytes, at);
    }
}
