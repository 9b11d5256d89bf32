/* SPDX-License-Identifier: MIT */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void bench_pass_init(struct bench_pass *p, struct engine *e, int n_batch)
{
    *p = (struct bench_pass){.e = e, .n_batch = n_batch, .state = 1};
    p->row = get_memory((size_t)n_batch * sizeof *p->row);
}

void bench_pass_free(struct bench_pass *p)
{
    free(p->row);
    *p = (struct bench_pass){0};
}

/* Any tokens do: the cost does not depend on them. */
static int32_t random_token(struct bench_pass *p)
{
    p->state = p->state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((p->state >> 33) % (uint64_t)p->e->info.n_vocab);
}

int bench_prompt(struct bench_pass *p, int32_t seq, int n, struct lutra_error *err)
{
    int pos = lutra_seq_length(p->e->session, seq);
    for (int done = 0; done < n;) {
        int m = n - done < p->n_batch ? n - done : p->n_batch;
        for (int i = 0; i < m; i++)
            p->row[i] = (struct lutra_row){
                .token = random_token(p), .pos = pos + i, .seq = seq, .parent = i - 1, .want = LUTRA_ROW_BULK};
        done += m;
        pos += m;
        if (done == n) p->row[m - 1].want |= LUTRA_WANT_LOGITS;
        int rc = lutra_forward(p->e->session, p->row, m, sizeof *p->row, err);
        if (rc < 0) return rc;
    }
    return 0;
}

int bench_decode(struct bench_pass *p, const int32_t *seq, int n_seq, int n, struct lutra_error *err)
{
    int pos = lutra_seq_length(p->e->session, seq[0]);
    for (int i = 0; i < n; i++, pos++)
        for (int first = 0; first < n_seq; first += p->n_batch) {
            int m = n_seq - first < p->n_batch ? n_seq - first : p->n_batch;
            for (int j = 0; j < m; j++)
                p->row[j] = (struct lutra_row){.token = random_token(p),
                    .pos = pos,
                    .seq = seq[first + j],
                    .parent = -1,
                    .want = LUTRA_WANT_LOGITS};
            int rc = lutra_forward(p->e->session, p->row, m, sizeof *p->row, err);
            if (rc < 0) return rc;
        }
    return 0;
}

struct lutra_peaks bench_peaks(const struct engine *e, const struct bench_options *o)
{
    struct lutra_peaks peaks = {0};
    if (o->peaks) {
        progress_show("measuring peaks", 0, 1);
        lutra_runtime_peaks_get(e->runtime, &peaks, sizeof peaks);
        progress_clear();
    }
    return peaks;
}

struct bench_rates bench_rates(
    const struct lutra_stats *stats, double seconds, const struct lutra_peaks *peaks, const char *file_type)
{
    static const char *const floats[] = {"F32", "F16", "BF16"};
    double peak = peaks->int8_gmac_s;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (file_type && strcmp(file_type, floats[i]) == 0) peak = peaks->f32_gmac_s;
    if (seconds <= 0) return (struct bench_rates){0};
    double gmac_s = (double)stats->mac / seconds * 1e-9;
    double gb_s = (double)(stats->weight_bytes + stats->cache_bytes) / seconds * 1e-9;
    return (struct bench_rates){.gmac_s = gmac_s,
        .gmac_share = peak > 0 ? gmac_s / peak : 0,
        .gb_s = gb_s,
        .gb_share = peaks->stream_gb_s > 0 ? gb_s / peaks->stream_gb_s : 0};
}

static int one_run(struct bench_pass *p, int32_t base, int n_prompt, int n_gen, uint64_t *ns, struct lutra_error *err)
{
    int32_t seq;
    int depth = lutra_seq_length(p->e->session, base), rc;
    if ((rc = lutra_seq_fork(p->e->session, base, -1, depth + n_prompt + n_gen, &seq, err)) < 0) return rc;
    uint64_t start = now_ns();
    rc = bench_prompt(p, seq, n_prompt, err);
    if (rc >= 0) rc = bench_decode(p, &seq, 1, n_gen, err);
    *ns = now_ns() - start;
    lutra_seq_close(p->e->session, seq);
    return rc;
}

static void summarise(struct bench_test *t)
{
    double n = t->n_rep, tokens = t->n_prompt + t->n_gen, ns = 0, ts = 0, ns2 = 0, ts2 = 0;
    for (int i = 0; i < t->n_rep; i++) {
        double a = (double)t->sample_ns[i];
        ns += a / n;
        ts += tokens * 1e9 / a / n;
    }
    for (int i = 0; i < t->n_rep; i++) {
        double a = (double)t->sample_ns[i], b = tokens * 1e9 / a;
        ns2 += (a - ns) * (a - ns);
        ts2 += (b - ts) * (b - ts);
    }
    t->avg_ns = ns;
    t->avg_ts = ts;
    t->stddev_ns = t->n_rep > 1 ? sqrt(ns2 / (n - 1)) : 0;
    t->stddev_ts = t->n_rep > 1 ? sqrt(ts2 / (n - 1)) : 0;
}

int bench_measure(struct bench_pass *p, struct bench_test *t, const struct bench_options *o, struct lutra_error *err)
{
    int32_t base;
    uint64_t ns;
    char stage[96];
    time_t now = time(NULL);
    struct tm utc;
    strftime(t->when, sizeof t->when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    snprintf(stage, sizeof stage, "pp%d tg%d d%d", t->n_prompt, t->n_gen, t->n_depth);
    int rc = lutra_seq_open(p->e->session, t->n_depth, &base, err);
    if (rc < 0) return rc;
    rc = bench_prompt(p, base, t->n_depth, err);
    if (rc >= 0 && o->warmup) rc = one_run(p, base, t->n_prompt, t->n_gen ? 1 : 0, &ns, err);
    lutra_session_stats_reset(p->e->session);
    for (int i = 0; rc >= 0 && i < o->reps; i++) {
        progress_show(stage, (uint64_t)i, (uint64_t)o->reps);
        rc = one_run(p, base, t->n_prompt, t->n_gen, &t->sample_ns[i], err);
        t->n_rep = i + 1;
    }
    progress_clear();
    lutra_session_stats_get(p->e->session, &t->stats, sizeof t->stats);
    lutra_seq_close(p->e->session, base);
    if (rc >= 0) summarise(t);
    return rc;
}
