/* SPDX-License-Identifier: MIT
 *
 * Speed of the weight kernels: GMAC/s and GB/s as shares of peaks measured in the same run, once with the weights in
 * L2 and once streamed from DRAM, for 1 to 32 columns, of bulk kernels for 32 to 1024.  With --threads=N each thread
 * takes its share of the panels.  Time is CPU time of the slowest thread, so that other programs on the machine cost
 * cache and bandwidth but not whole time slices.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpuinfo.h"
#include "checkkern.h"
#include "cpu/peaks.h"
#include "quant/quant.h"

enum { N_IN = 1536, L2_BYTES = 384 << 10, DRAM_BYTES = 256 << 20, MAX_THREADS = 64 };

struct work {
    const struct cpu_gemm *gemm;
    struct guarded packed, act, out, work; /* work: of each thread */
    size_t n_out, panels, n_row;
    int threads, reps;
};

struct share {
    struct work *w;
    int ith;
    double seconds;
    pthread_t thread;
};

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *run_share(void *arg)
{
    struct share *s = arg;
    struct work *w = s->w;
    double start = cpu_seconds();
    size_t first = w->panels * (size_t)s->ith / (size_t)w->threads,
           last = w->panels * (size_t)(s->ith + 1) / (size_t)w->threads;
    for (int rep = 0; rep < w->reps; rep++) {
        /* In units as large as the device's, and like them whole fours: few rows take four panels at once. */
        size_t unit = (192 << 10) / (w->packed.bytes / w->panels + 1) / 4 * 4 + 4;
        if (w->gemm->unit_panels) unit = w->gemm->unit_panels;
        for (size_t p = first; p < last; p += unit) {
            struct cpu_gemm_args a = {.gemm = w->gemm,
                .packed = w->packed.data,
                .act = w->act.data,
                .out = (float *)(void *)w->out.data + p * (size_t)w->gemm->mr,
                .out_stride = w->n_out,
                .n_out = w->n_out,
                .n_in = N_IN,
                .panel = p,
                .n_panel = last - p < unit ? last - p : unit,
                .n_row = w->n_row,
                .work = w->work.data + (size_t)s->ith * w->gemm->work_bytes};
            w->gemm->run(&a);
        }
    }
    s->seconds = cpu_seconds() - start;
    return NULL;
}

static double time_once(struct work *w)
{
    struct share share[MAX_THREADS];
    for (int i = 0; i < w->threads; i++) share[i] = (struct share){.w = w, .ith = i};
    for (int i = 1; i < w->threads; i++) {
        if (pthread_create(&share[i].thread, NULL, run_share, &share[i])) exit(2);
    }
    run_share(&share[0]);
    for (int i = 1; i < w->threads; i++) pthread_join(share[i].thread, NULL);
    double t = 0;
    for (int i = 0; i < w->threads; i++) t = fmax(t, share[i].seconds);
    return t / w->reps;
}

static double best_time(struct work *w)
{
    double best = 1e9;
    w->reps = 1;
    double once = time_once(w);
    /* Short samples, many of them: on a shared machine the best one is the undisturbed one. */
    w->reps = once < 0.001 ? (int)(0.001 / once) + 1 : 1;
    for (double end = now_seconds() + 0.15; now_seconds() < end;) best = fmin(best, time_once(w));
    return best;
}

static struct work open_work(const struct cpu_gemm *g, size_t weight_bytes, int threads)
{
    const struct quant_info *q = quant_info_of(g->type);
    struct work w = {.gemm = g, .threads = threads};
    size_t row_bytes = N_IN / q->block_elems * q->block_bytes;
    w.n_out = weight_bytes * (size_t)threads / row_bytes / 16 * 16;
    w.panels = w.n_out / (size_t)g->mr;
    uint8_t *src = malloc(row_bytes * 16);
    float x[N_IN];
    uint64_t seed = 7;
    if (!src) exit(2);
    for (size_t r = 0; r < 16; r++) {
        for (int i = 0; i < N_IN; i++) x[i] = random_normal(&seed);
        if (q->quantize) q->quantize(x, src + r * row_bytes, N_IN);
        if (!q->quantize) quant_random_blocks(q, r, 1, src + r * row_bytes, N_IN);
    }
    w.packed = guard(g->packed_bytes(g, w.n_out, N_IN), 0);
    g->pack(g, src, 16, N_IN, 0, 1, w.packed.data);
    for (size_t p = 1; p < w.panels; p++)
        memcpy(w.packed.data + p * (w.packed.bytes / w.panels), w.packed.data, w.packed.bytes / w.panels);
    w.work = guard(g->work_bytes * (size_t)threads, 0);
    free(src);
    return w;
}

static void set_rows(struct work *w, size_t n_row)
{
    float x[N_IN];
    uint64_t seed = 9;
    if (w->act.base) unguard(&w->act);
    if (w->out.base) unguard(&w->out);
    w->n_row = n_row;
    w->act = guard(w->gemm->act_bytes(N_IN, n_row), 0);
    w->out = guard(n_row * w->n_out * sizeof(float), 0);
    for (size_t r = 0; r < n_row; r++) {
        for (int i = 0; i < N_IN; i++) x[i] = random_normal(&seed);
        w->gemm->act_row(x, N_IN, r, n_row, 0, w->act.data);
    }
}

static void close_work(struct work *w)
{
    unguard(&w->packed);
    unguard(&w->act);
    unguard(&w->out);
    unguard(&w->work);
}

static void bench_one(
    const struct cpu_gemm *g, bool dram, struct cpu_peaks peaks, double stream, const struct options *o)
{
    static const size_t FEW[] = {1, 2, 4, 8, 16, 32}, BULK[] = {32, 64, 128, 256, 512, 1024};
    bool bulk = strcmp(g->numerics, "bf16") == 0;
    const size_t *rows = bulk ? BULK : FEW;
    struct work w = open_work(g, dram ? DRAM_BYTES : L2_BYTES, o->threads);
    double peak = bulk ? peaks.bf16_gmac : g->act_group ? peaks.int8_gmac : peaks.f32_gmac;
    if (!o->json) printf("%-32s %s", g->name, dram ? "dram" : "l2  ");
    for (size_t i = 0; i < sizeof FEW / sizeof *FEW; i++) {
        set_rows(&w, rows[i]);
        double t = best_time(&w), gmac = (double)w.n_out * N_IN * (double)rows[i] / t * 1e-9;
        double gbs = (double)w.packed.bytes / t * 1e-9;
        if (o->json) {
            printf("{\"kernel\":\"%s\",\"memory\":\"%s\",\"threads\":%d,\"columns\":%zu,\"gmac_s\":%.1f,\"peak_share\":"
                   "%.3f,"
                   "\"gb_s\":%.2f,\"stream_share\":%.3f}\n",
                g->name, dram ? "dram" : "l2", o->threads, rows[i], gmac, gmac / peak, gbs, gbs / stream);
        } else {
            printf(" | %2zu: %5.0f %3.0f%% %5.1f %3.0f%%", rows[i], gmac, 100 * gmac / peak, gbs, 100 * gbs / stream);
        }
    }
    if (!o->json) printf("\n");
    fflush(stdout);
    close_work(&w);
}

void bench_gemm(const struct cpu_kernels *k, const struct cpu_kernels *lower, const struct options *o)
{
    struct pool *pool;
    if (pool_open(&pool, &(struct pool_settings){.n_thread = o->threads}, NULL) < 0) exit(2);
    struct cpu_peaks peaks = cpu_peaks_measure(k, pool);
    double stream = cpu_stream_measure(pool, DRAM_BYTES);
    pool_close(&pool);
    if (o->json) {
        printf("{\"level\":\"%s\",\"threads\":%d,\"int8\":\"%s\",\"int8_gmac_s\":%.1f,\"f32_gmac_s\":%.1f,"
               "\"stream_gb_s\":%.2f}\n",
            k->name, o->threads, peaks.int8_name ? peaks.int8_name : "", peaks.int8_gmac, peaks.f32_gmac, stream);
    } else {
        printf("%s, %d threads: peaks: %s %.0f GMAC/s, fma %.0f GMAC/s, stream %.1f GB/s (%d MiB each).  Columns: "
               "GMAC/s, share of peak, GB/s of weights, share of stream\n",
            k->name, o->threads, peaks.int8_name ? peaks.int8_name : "none", peaks.int8_gmac, peaks.f32_gmac, stream,
            DRAM_BYTES >> 20);
    }
    for (int i = 0; i < QUANT_TYPE_END; i++) {
        const struct cpu_gemm *g = &k->gemm[i];
        if (!g->run || g->run == lower->gemm[i].run || (o->only && !strstr(g->name, o->only))) continue;
        bench_one(g, false, peaks, stream, o);
        bench_one(g, true, peaks, stream, o);
    }
    for (int i = 0; i < QUANT_TYPE_END; i++) {
        const struct cpu_gemm *g = &k->bulk[i];
        if (!g->run || g->run == lower->bulk[i].run || (o->only && !strstr(g->name, o->only))) continue;
        bench_one(g, false, peaks, stream, o);
        bench_one(g, true, peaks, stream, o);
    }
}
