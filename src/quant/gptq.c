/* SPDX-License-Identifier: MIT
 *
 * GPTQ (Frantar et al., arXiv:2210.17323) into the blocks of GGUF's types: columns are rounded one after the other, and
 * what is left of each error goes to those that follow, by the inverse Hessian's Cholesky factor.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/solve_impl.h"
#include "quant/weighted.h"

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

/* The Hessian in the columns' order read backwards becomes l l^T, lower triangle, in place.  False: not positive
 * definite. */
static bool factor(double *l, int n)
{
    for (int i = 0; i < n; i++) {
        double *row = l + (size_t)i * (size_t)n;
        for (int k = 0; k <= i; k++) {
            const double *other = l + (size_t)k * (size_t)n;
            double sum = row[k];
            for (int j = 0; j < k; j++) sum -= row[j] * other[j];
            if (k < i)
                row[k] = sum / other[k];
            else if (!(sum > 0))
                return false;
            else
                row[i] = sqrt(sum);
        }
    }
    return true;
}

/* l becomes l^-1, row by row. */
static void invert(double *l, int n, double *scratch)
{
    for (int i = 0; i < n; i++) {
        double *row = l + (size_t)i * (size_t)n, pivot = 1 / row[i];
        memset(scratch, 0, (size_t)i * sizeof *scratch);
        for (int k = 0; k < i; k++) {
            const double *done = l + (size_t)k * (size_t)n;
            double f = -row[k] * pivot;
            for (int j = 0; j <= k; j++) scratch[j] += f * done[j];
        }
        memcpy(row, scratch, (size_t)i * sizeof *scratch);
        row[i] = pivot;
    }
}

static int factor_all(struct quant_gptq *g, const double *h, double damp, double *l, struct lutra_error *err)
{
    int n = g->n;
    double mean = 0;
    for (int i = 0; i < n; i++) mean += element(h, n, i, i) / n;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++)
            l[(size_t)i * (size_t)n + (size_t)k] = element(h, n, g->order[n - 1 - i], g->order[n - 1 - k]);
        l[(size_t)i * (size_t)n + (size_t)i] += damp * mean;
    }
    if (!(mean > 0) || !factor(l, n))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "inputs' covariance of %d columns is not positive definite", n);
    return 0;
}

int quant_gptq_open(
    struct quant_gptq *g, enum quant_type type, const double *h, int n, double damp, struct lutra_error *err)
{
    size_t cells = (size_t)n * (size_t)n;
    *g = (struct quant_gptq){.n = n, .block = quant_solve_type(type)->n};
    g->order = malloc((size_t)n * sizeof *g->order);
    g->weight = malloc((size_t)n * sizeof *g->weight);
    g->u = malloc(cells * sizeof *g->u);
    double *l = malloc((cells + (size_t)n) * sizeof *l);
    int rc = g->order && g->weight && g->u && l ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for %d columns", n);
    if (rc == 0) {
        order_columns(g, h);
        rc = factor_all(g, h, damp, l, err);
    }
    if (rc == 0) {
        invert(l, n, l + cells);
        for (int i = 0; i < n; i++) {
            for (int k = i; k < n; k++)
                g->u[(size_t)i * (size_t)n + (size_t)k] =
                    (float)l[(size_t)(n - 1 - i) * (size_t)n + (size_t)(n - 1 - k)];
            g->weight[i] = (float)element(h, n, i, i);
        }
    }
    free(l);
    if (rc < 0) quant_gptq_close(g);
    return rc;
}

void quant_gptq_close(struct quant_gptq *g)
{
    free(g->order);
    free(g->weight);
    free(g->u);
    *g = (struct quant_gptq){0};
}

/* What column c of the order leaves goes to those behind it. */
static void hand_on(const struct quant_gptq *g, int c, float error, float *x)
{
    const float *u = g->u + (size_t)c * (size_t)g->n;
    error /= u[c];
    for (int k = c + 1; k < g->n; k++) x[g->order[k]] -= error * u[k];
}

void quant_gptq_row(const struct quant_gptq *g, enum quant_type type, float *x, void *dst)
{
    const struct solve_type *t = quant_solve_type(type);
    const struct quant_info *q = quant_info_of(type);
    struct solved s;
    for (int at = 0; at < g->n; at += g->block) {
        quant_solve(t, x + at, g->weight + at, &s);
        for (int c = at; c < at + g->block; c++) {
            int i = g->order[c];
            float value = quant_solved_value(t, &s, i - at, x[i], &s.code[i - at]);
            hand_on(g, c, x[i] - value, x);
        }
        t->pack(&s, (char *)dst + (size_t)(at / g->block) * q->block_bytes);
    }
}
