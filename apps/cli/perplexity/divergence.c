/* SPDX-License-Identifier: MIT
 *
 * Two models over one text: Kullback-Leibler divergence of the base's predictions from this model's, and what became of
 * the probability of each token that came.
 */
#include <math.h>
#include <stdlib.h>

#include "perplexity/perplexity.h"

enum { LEAST = -16 /* natural log-probability: rarer tokens do not count, as in llama-perplexity */ };

void divergence_add(
    struct divergence *d, const float *logits, double log_sum_exp, const float *base, int n_vocab, int32_t token)
{
    if (d->n == d->room) {
        d->room = d->room * 2 + 1024;
        d->kl = grow_memory(d->kl, (size_t)d->room * sizeof *d->kl);
        d->diff = grow_memory(d->diff, (size_t)d->room * sizeof *d->diff);
    }
    int best = 0, best_base = 0;
    double kl = 0;
    for (int i = 0; i < n_vocab; i++) {
        if (logits[i] > logits[best]) best = i;
        if (base[i] > base[best_base]) best_base = i;
        if (base[i] > LEAST) kl += exp((double)base[i]) * ((double)base[i] - (double)logits[i] + log_sum_exp);
    }
    double nll = log_sum_exp - (double)logits[token], nll_base = -(double)base[token];
    d->kl[d->n] = kl;
    d->diff[d->n] = exp(-nll) - exp(-nll_base);
    d->n++;
    d->n_same += best == best_base;
    d->nll += nll;
    d->nll2 += nll * nll;
    d->base += nll_base;
    d->base2 += nll_base * nll_base;
    d->both += nll * nll_base;
}

/* Of the mean of n values, from their sum and the sum of their squares. */
static double variance(double sum, double squares, double n)
{
    double v = (squares / n - sum / n * (sum / n)) / (n - 1);
    return n > 1 && v > 0 ? v : 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which a share of the sorted ones lies. */
static double part(const double *sorted, int64_t n, double share)
{
    double at = share * (double)(n - 1);
    int64_t i = (int64_t)at, next = i + 1 < n ? i + 1 : i;
    return sorted[i] + (at - (double)i) * (sorted[next] - sorted[i]);
}

static void print_spread(const char *what, double *value, int64_t n, double factor, const char *unit)
{
    static const double shares[] = {0, 0.001, 0.01, 0.05, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1};
    qsort(value, (size_t)n, sizeof *value, by_value);
    printf("%s\n ", what);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        printf(" %g %%: %.6f%s", 100 * shares[i], factor * part(value, n, shares[i]), unit);
    putchar('\n');
}

/* A mean of values[n] and its standard error. */
static void print_mean(const char *what, const double *value, int64_t n, double factor, const char *unit)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += value[i], squares += value[i] * value[i];
    printf("%-42s %.6f +/- %.6f%s\n", what, factor * sum / (double)n, factor * sqrt(variance(sum, squares, (double)n)),
        unit);
}

void divergence_print(struct divergence *d)
{
    double n = (double)d->n, mean = d->nll / n, mean_base = d->base / n, rms = 0;
    double v = variance(d->nll, d->nll2, n), v_base = variance(d->base, d->base2, n);
    double covariance = n > 1 ? (d->both / n - mean * mean_base) / (n - 1) : 0;
    double v_ratio = v + v_base - 2 * covariance, same = (double)d->n_same / n;
    printf("%-42s %.6f +/- %.6f\n", "perplexity", exp(mean), exp(mean) * sqrt(v));
    printf("%-42s %.6f +/- %.6f\n", "perplexity of the base", exp(mean_base), exp(mean_base) * sqrt(v_base));
    printf("%-42s %.6f +/- %.6f\n", "logarithm of their ratio", mean - mean_base, sqrt(v_ratio > 0 ? v_ratio : 0));
    printf("%-42s %.4f %%\n", "correlation of the logarithms",
        v > 0 && v_base > 0 ? 100 * covariance / sqrt(v * v_base) : 100.0);
    print_mean("divergence (KL), mean", d->kl, d->n, 1, "");
    print_mean("probability of the token, difference", d->diff, d->n, 100, " %");
    for (int64_t i = 0; i < d->n; i++) rms += d->diff[i] * d->diff[i];
    printf("%-42s %.6f %%\n", "the same, root mean square", 100 * sqrt(rms / n));
    printf("%-42s %.4f +/- %.4f %%\n", "the same token is the likeliest", 100 * same,
        n > 1 ? 100 * sqrt(same * (1 - same) / (n - 1)) : 0);
    print_spread("divergence, by share of the positions:", d->kl, d->n, 1, "");
    print_spread("difference of the probability:", d->diff, d->n, 100, " %");
}

void divergence_free(struct divergence *d)
{
    free(d->kl);
    free(d->diff);
}
