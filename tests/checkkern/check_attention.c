/* SPDX-License-Identifier: MIT
 *
 * The attention kernels alone, one segment at a time: against the definition in double, between canaries, and a
 * query's bits the same whichever queries share its call.  Blocks, windows, drafts and threads: tests/unit/cpu.
 * Their speed: GMAC/s (scores and values), as a share of the measured f32 peak.
 *
 * Bound for unit-normal q, k and v at scale 1/sqrt(d_head): 3e-6 (6.4e-7 was the largest seen); of class bf16x3 4e-5
 * (1.3e-5 was the largest seen), and 3e-6 over all others.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpuinfo.h"
#include "checkkern.h"
#include "quant/quant.h"

enum { SEGMENTS = 3, BENCH_SEGMENTS = 64 };

/* Memory of a call: SEGMENTS blocks of K and V, queries and their states. */
struct bench_set {
    enum quant_type type[2]; /* of K and V */
    int d_head, n_query;
    size_t block_bytes[2], state_floats;
    struct guarded k, v, kt, vt, work, p, q, prepared, state;
};

static void fill_cache(struct guarded *g, enum quant_type type, uint64_t *seed)
{
    const struct quant_info *info = quant_info_of(type);
    for (size_t at = 0; at < g->bytes; at += info->block_bytes) {
        float x[32];
        for (uint32_t i = 0; i < info->block_elems; i++) x[i] = random_normal(seed);
        info->quantize(x, g->data + at, info->block_elems);
    }
}

static struct bench_set open_set(
    enum quant_type k, enum quant_type v, int d_head, int n_query, int n_segment, uint64_t *seed)
{
    struct bench_set s = {.type = {k, v}, .d_head = d_head, .n_query = n_query};
    if (quant_row_bytes(k, (int64_t)KV_BLOCK * d_head, &s.block_bytes[KV_K]) < 0) exit(2);
    if (quant_row_bytes(v, (int64_t)KV_BLOCK * d_head, &s.block_bytes[KV_V]) < 0) exit(2);
    s.state_floats = (size_t)(ATTENTION_STATE_O + attention_padded(d_head));
    s.k = guard(s.block_bytes[KV_K] * (size_t)n_segment, 0);
    s.v = guard(s.block_bytes[KV_V] * (size_t)n_segment, 0);
    s.kt = guard(attention_tile_bytes(d_head), 0xff);
    s.vt = guard(attention_tile_bytes(d_head), 0xff);
    s.work = guard(ATTENTION_WORK_BYTES, 0xff);
    s.p = guard(ATTENTION_MAX_QUERY * KV_BLOCK * 4, 0xff);
    s.q = guard((size_t)n_query * (size_t)d_head * 4, 0);
    size_t columns = (size_t)(n_query + ATTENTION_COLUMNS - 1) / ATTENTION_COLUMNS;
    s.prepared = guard(columns * attention_columns_bytes(d_head), 0xff);
    s.state = guard((size_t)n_query * s.state_floats * 4, 0);
    fill_cache(&s.k, k, seed);
    fill_cache(&s.v, v, seed);
    fill_cache(&s.q, QUANT_F32, seed);
    return s;
}

static bool close_set(struct bench_set *s)
{
    bool whole = unguard(&s->k);
    whole &= unguard(&s->v);
    whole &= unguard(&s->kt);
    whole &= unguard(&s->vt);
    whole &= unguard(&s->work);
    whole &= unguard(&s->p);
    whole &= unguard(&s->q);
    whole &= unguard(&s->prepared);
    whole &= unguard(&s->state);
    return whole;
}

static float *state_of(const struct bench_set *s, int query)
{
    return (float *)(void *)s->state.data + (size_t)query * s->state_floats;
}

static const float *query_of(const struct bench_set *s, int r)
{
    return (const float *)(void *)s->q.data + (size_t)r * (size_t)s->d_head;
}

static void prepare_queries(const struct cpu_attention *a, const struct bench_set *s)
{
    if (!a->prepare || !attention_is_f16(s->type)) return;
    for (int r = 0, n; r < s->n_query; r += n) {
        const float *q[ATTENTION_COLUMNS];
        n = s->n_query - r < ATTENTION_COLUMNS ? s->n_query - r : ATTENTION_COLUMNS;
        for (int i = 0; i < n; i++) q[i] = query_of(s, r + i);
        a->prepare(
            q, n, s->d_head, s->prepared.data + (size_t)(r / ATTENTION_COLUMNS) * attention_columns_bytes(s->d_head));
    }
}

static void start_states(const struct cpu_attention *a, const struct bench_set *s)
{
    prepare_queries(a, s);
    memset(s->state.data, 0, s->state.bytes);
    for (int r = 0; r < s->n_query; r++) state_of(s, r)[ATTENTION_STATE_M] = -INFINITY;
}

/* The slots that query r sees of segment i: all, the first few, the last few, a stretch. */
static void reach_of(int r, int i, uint8_t *lo, uint8_t *hi)
{
    int kind = (r + 2 * i) % 4;
    *lo = kind == 2 ? 50 : kind == 3 ? 7 : 0;
    *hi = (uint8_t)(kind == 1 ? 1 + 9 * (r % 7) : kind == 3 ? 33 : KV_BLOCK);
}

/* Queries first .. first + n - 1 over segment i, in calls of at most ATTENTION_MAX_QUERY; masked: as reach_of says. */
static void run_segment(
    const struct cpu_attention *a, const struct bench_set *s, int i, int first, int n, bool masked, float softcap)
{
    struct attention_load load = {.type = {s->type[KV_K], s->type[KV_V]},
        .d_head = s->d_head,
        .n_pos = KV_BLOCK,
        .k = s->k.data + (size_t)i * s->block_bytes[KV_K],
        .v = s->v.data + (size_t)i * s->block_bytes[KV_V],
        .kt = s->kt.data,
        .vt = s->vt.data,
        .work = s->work.data};
    struct attention_segment x = {.from = load,
        .scale = 1 / sqrtf((float)s->d_head),
        .softcap = softcap,
        .p = (float *)(void *)s->p.data,
        .prepared = s->prepared.data};
    if (a->begin) a->begin();
    a->load(&x.from, &x);
    for (int r = first; r < first + n;) {
        for (x.n_query = 0; x.n_query < a->max_query && r < first + n; x.n_query++, r++) {
            x.q[x.n_query] = query_of(s, r);
            x.index[x.n_query] = (uint16_t)r;
            x.state[x.n_query] = state_of(s, r);
            x.lo[x.n_query] = 0;
            x.hi[x.n_query] = KV_BLOCK;
            if (masked) reach_of(r, i, &x.lo[x.n_query], &x.hi[x.n_query]);
        }
        x.last = r == first + n;
        a->segment(&x);
        x.again = true;
    }
    if (a->end) a->end();
}

static double read_at(const struct guarded *g, enum quant_type type, size_t i)
{
    const struct quant_info *info = quant_info_of(type);
    float x[32];
    info->dequantize(g->data + i / info->block_elems * info->block_bytes, x, info->block_elems);
    return (double)x[i % info->block_elems];
}

/* Largest error of o / l over queries and elements. */
static double worst_error(const struct bench_set *s, float softcap)
{
    double worst = 0;
    for (int r = 0; r < s->n_query; r++) {
        double sum = 0, o[ATTENTION_MAX_D_HEAD] = {0};
        for (int i = 0; i < SEGMENTS; i++) {
            uint8_t lo, hi;
            reach_of(r, i, &lo, &hi);
            for (size_t j = lo; j < hi; j++) {
                size_t at = ((size_t)i * KV_BLOCK + j) * (size_t)s->d_head;
                double score = 0;
                for (int d = 0; d < s->d_head; d++) {
                    double q = (double)((float *)(void *)s->q.data)[r * s->d_head + d];
                    score += q * read_at(&s->k, s->type[KV_K], at + (size_t)d);
                }
                score /= sqrt(s->d_head);
                if (softcap != 0) score = (double)softcap * tanh(score / (double)softcap);
                sum += exp(score);
                for (int d = 0; d < s->d_head; d++) o[d] += exp(score) * read_at(&s->v, s->type[KV_V], at + (size_t)d);
            }
        }
        const float *state = state_of(s, r);
        for (int d = 0; d < s->d_head; d++) {
            double got = (double)(state[ATTENTION_STATE_O + d] / state[ATTENTION_STATE_L]);
            worst = fmax(worst, isnan(got) ? INFINITY : fabs(got - o[d] / sum));
        }
    }
    return worst;
}

static void check_shape(struct tally *t, const struct cpu_attention *a, enum quant_type k, enum quant_type v,
    int d_head, int n_query, uint64_t *seed)
{
    struct bench_set s = open_set(k, v, d_head, n_query, SEGMENTS, seed);
    float softcap = n_query % 3 == 2 ? 3.0f : 0.0f;
    start_states(a, &s);
    for (int i = 0; i < SEGMENTS; i++) run_segment(a, &s, i, 0, n_query, true, softcap);
    double worst = worst_error(&s, softcap),
           bound = !attention_is_f16(s.type) || !strcmp(a->numerics, "f32") ? 3e-6 : 4e-5;
    expect(t, a->name, worst <= bound, "d_head %d, %d queries: error %g", d_head, n_query, worst);
    float *together = malloc(s.state.bytes);
    if (!together) exit(2);
    memcpy(together, s.state.data, s.state.bytes);
    start_states(a, &s);
    for (int r = 0; r < n_query; r++) {
        for (int i = 0; i < SEGMENTS; i++) run_segment(a, &s, i, r, 1, true, softcap);
    }
    bool same = true;
    for (int r = 0; r < n_query; r++) {
        size_t bytes = (size_t)(ATTENTION_STATE_O + d_head) * 4;
        same &= memcmp(state_of(&s, r), together + (size_t)r * s.state_floats, bytes) == 0;
    }
    expect(t, a->name, same, "d_head %d: %d queries alone have other bits than together", d_head, n_query);
    free(together);
    expect(t, a->name, close_set(&s), "d_head %d, %d queries: wrote outside", d_head, n_query);
}

struct attention_job {
    struct tally *t;
    const struct cpu_attention *kernels;
    bool quick;
    uint64_t seed;
};

static void check_job(void *arg)
{
    struct attention_job *j = arg;
    static const int sizes[] = {8, 16, 24, 40, 64, 80, 100, 128, 200, 256};
    static const enum quant_type types[][2] = {{QUANT_F32, QUANT_F32}, {QUANT_F16, QUANT_F16}, {QUANT_F32, QUANT_F16},
        {QUANT_Q8_0, QUANT_Q8_0}, {QUANT_Q4_0, QUANT_Q4_1}, {QUANT_Q5_0, QUANT_Q5_0}, {QUANT_Q4_0, QUANT_F16}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (j->quick && i % 2 == 1 && i < 9) continue;
        for (int n = 1; n <= 14; n += n < 8 ? 1 : 6) {
            for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
                if ((types[k][0] != QUANT_F32 && types[k][0] != QUANT_F16) && sizes[i] % 32) continue;
                check_shape(j->t, j->kernels, types[k][n & 1], types[k][!(n & 1)], sizes[i], n, &j->seed);
            }
        }
    }
}

void check_attention(
    struct tally *t, const struct cpu_kernels *k, const struct cpu_kernels *lower, const struct options *o)
{
    const char *name = k->attention.name;
    if (k->attention.segment == lower->attention.segment || (o->only && !strstr(name, o->only))) return;
    struct attention_job job = {t, &k->attention, o->quick, o->seed};
    t->kernels++;
    survive(t, name, check_job, &job);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Best CPU time of one segment, load included. */
static double time_segment(const struct cpu_attention *a, const struct bench_set *s)
{
    double best = 1e9;
    start_states(a, s);
    for (double end = now_seconds() + 0.1; now_seconds() < end;) {
        double start = cpu_seconds();
        for (int i = 0; i < BENCH_SEGMENTS; i++) run_segment(a, s, i, 0, s->n_query, false, 0);
        best = fmin(best, (cpu_seconds() - start) / BENCH_SEGMENTS);
    }
    return best;
}

void bench_attention(const struct cpu_kernels *k, const struct cpu_kernels *lower, const struct options *o)
{
    static const int sizes[] = {64, 128}, queries[] = {1, 6, 8, 48, 192};
    const char *name = k->attention.name;
    if (k->attention.segment == lower->attention.segment || (o->only && !strstr(name, o->only))) return;
    struct cpu_peaks peaks = {0};
    if (k->peaks) k->peaks(&peaks);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!o->json) printf("%-20s f16 d_head %3d queries:", name, sizes[i]);
        for (size_t n = 0; n < sizeof queries / sizeof *queries; n++) {
            uint64_t seed = 3;
            struct bench_set s = open_set(QUANT_F16, QUANT_F16, sizes[i], queries[n], BENCH_SEGMENTS, &seed);
            double gmac = 2.0 * KV_BLOCK * sizes[i] * queries[n] / time_segment(&k->attention, &s) * 1e-9;
            if (o->json) {
                printf("{\"kernel\":\"%s\",\"d_head\":%d,\"queries\":%d,\"gmac_s\":%.1f,\"peak\":%.3f}\n", name,
                    sizes[i], queries[n], gmac, gmac / peaks.f32_gmac);
            } else {
                printf("  %d: %.1f (%.0f %%)", queries[n], gmac, 100 * gmac / peaks.f32_gmac);
            }
            close_set(&s);
        }
        if (!o->json) printf("  GMAC/s, measured\n");
    }
}
