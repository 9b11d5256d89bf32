/* SPDX-License-Identifier: MIT
 *
 * Times of sampler_pick() on a whole row of normally distributed logits: top_k 0, min_p 0, temperature 2.
 *
 *     lutra-bench-sample [N_VOCAB] [N_DRAWS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cpuinfo.h"
#include "base/rng.h"
#include "decode/sample/sampler_impl.h"

enum { N_VOCAB = 151936, N_DRAWS = 201 };

static const float sigma[] = {0, 1, 3, 6}, nucleus[] = {0.9f, 1};
static const struct {
    const char *name;
    uint32_t isa;
} sets[] = {{"AVX-512", CPU_AVX512}, {"AVX2", CPU_AVX2}, {"baseline", 0}};

static void fill_row(float *row, int n, float deviation)
{
    for (int i = 0; i < n; i++) {
        struct rng_key key = {.seed = 1, .position = (uint32_t)i};
        double size = sqrt(-2 * log(1 - rng_double(key, 0))), angle = 6.283185307179586 * rng_double(key, 1);
        row[i] = deviation * (float)(size * cos(angle));
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int time_draws(struct sampler *s, float *row, double *ms, int n, struct lutra_error *err)
{
    struct row_result result = {.logits = row};
    struct sample_pick pick;
    for (int i = 0; i < n; i++) {
        uint64_t start = clock_now_us(clock_real());
        TRY(sampler_pick(s, 0, 0, &result, i, &pick, err));
        ms[i] = (double)(clock_now_us(clock_real()) - start) * 1e-3;
    }
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    printf(" %.3f (%.3f) |", ms[n / 2], ms[0]);
    return 0;
}

static int time_row(struct sampler *s, float *row, float top_p, double *ms, int n, struct lutra_error *err)
{
    struct sample_settings set = sample_settings_default();
    set.temperature = 2;
    set.top_k = 0;
    set.top_p = top_p;
    set.min_p = 0;
    TRY(sampler_init_sequence(s, 0, &set, 0, err));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (sets[i].isa & ~cpu_isa()) continue;
        s->scratch[0].passes = nucleus_passes_for(sets[i].isa);
        TRY(time_draws(s, row, ms, n, err));
    }
    printf("\n");
    return 0;
}

int main(int argc, char **argv)
{
    int n_vocab = argc > 1 ? atoi(argv[1]) : N_VOCAB, n = argc > 2 ? atoi(argv[2]) : N_DRAWS, rc = 0;
    struct sampler_limits limits = {.n_vocab = n_vocab, .n_seq = 1, .n_thread = 1};
    struct lutra_error err = {0};
    struct sampler *s = NULL;
    if (n < 1 || sampler_open(&s, &limits, &err) < 0) return fprintf(stderr, "%s\n", err.what), 1;
    float *row = malloc((size_t)n_vocab * sizeof *row);
    double *ms = malloc((size_t)n * sizeof *ms);
    printf("%d logits, median (least) of %d draws in ms\n\n| deviation | top-p |", n_vocab, n);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (!(sets[i].isa & ~cpu_isa())) printf(" %s |", sets[i].name);
    printf("\n");
    for (size_t i = 0; row && ms && i < sizeof sigma / sizeof *sigma; i++) {
        fill_row(row, n_vocab, sigma[i]);
        for (size_t j = 0; rc == 0 && j < sizeof nucleus / sizeof *nucleus; j++) {
            printf("| %g | %g |", (double)sigma[i], (double)nucleus[j]);
            rc = time_row(s, row, nucleus[j], ms, n, &err);
        }
    }
    if (rc < 0) fprintf(stderr, "%s\n", err.what);
    free(row);
    free(ms);
    sampler_close(&s);
    return rc < 0;
}
