/* SPDX-License-Identifier: MIT */
#include "cpu/peaks.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "cpu/peaks_impl.h"

enum { STREAM_REPS = 8, LINE_WORDS = 8 };

struct peaks_job {
    const struct cpu_kernels *kernels;
    struct pool *pool;
    pthread_mutex_t lock;
    struct cpu_peaks sum;
};

static void measure_thread(void *arg, int ith, int nth)
{
    struct peaks_job *j = arg;
    struct cpu_peaks mine = {0};
    (void)ith, (void)nth;
    pool_barrier(j->pool);
    j->kernels->peaks(&mine);
    mine.bf16_name = j->kernels->bf16_name;
    if (mine.bf16_name) mine.bf16_gmac = j->kernels->bf16_peak();
    pthread_mutex_lock(&j->lock);
    j->sum.int8_name = mine.int8_name;
    j->sum.int8_gmac += mine.int8_gmac;
    j->sum.f32_gmac += mine.f32_gmac;
    j->sum.bf16_name = mine.bf16_name;
    j->sum.bf16_gmac += mine.bf16_gmac;
    pthread_mutex_unlock(&j->lock);
}

struct cpu_peaks cpu_peaks_measure(const struct cpu_kernels *kernels, struct pool *pool)
{
    struct peaks_job j = {.kernels = kernels, .pool = pool, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (kernels->peaks) pool_run(pool, measure_thread, &j);
    pthread_mutex_destroy(&j.lock);
    return j.sum;
}

struct stream_job {
    struct pool *pool;
    uint64_t *data; /* [nth][words] */
    size_t words;
    double seconds; /* best; thread 0's, like n_thread */
    int n_thread;
    volatile uint64_t sum; /* keeps the reads */
};

static void read_stream(void *arg, int ith, int nth)
{
    struct stream_job *j = arg;
    uint64_t *mine = j->data + (size_t)ith * j->words, x[LINE_WORDS] = {0};
    if (ith == 0) j->n_thread = nth;
    memset(mine, 1, j->words * sizeof *mine);
    for (int rep = 0; rep < STREAM_REPS; rep++) {
        pool_barrier(j->pool);
        double start = peak_now();
        for (size_t i = 0; i < j->words; i += LINE_WORDS)
            for (int k = 0; k < LINE_WORDS; k++) x[k] ^= mine[i + (size_t)k];
        pool_barrier(j->pool);
        double seconds = peak_now() - start;
        if (ith == 0 && (rep == 0 || seconds < j->seconds)) j->seconds = seconds;
    }
    for (int k = 0; k < LINE_WORDS; k++)
        if (ith == 0) j->sum ^= x[k];
}

double cpu_stream_measure(struct pool *pool, size_t bytes_per_thread)
{
    struct stream_job j = {.pool = pool, .words = bytes_per_thread / sizeof(uint64_t) / LINE_WORDS * LINE_WORDS};
    struct arena memory;
    size_t bytes;
    if (j.words == 0 || LUTRA_MUL_OVERFLOWS(j.words * sizeof(uint64_t), (size_t)pool_size(pool), &bytes)) return 0;
    if (arena_open(&memory, "stream", bytes, ARENA_HUGE_PAGES, NULL) < 0) return 0;
    j.data = (uint64_t *)(void *)memory.start;
    pool_run(pool, read_stream, &j);
    arena_close(&memory);
    return (double)(j.words * sizeof(uint64_t)) * j.n_thread / j.seconds * 1e-9;
}
