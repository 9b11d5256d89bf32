/* SPDX-License-Identifier: MIT
 *
 * lutra-npu-phone: one afternoon with one NPU (docs/PHONE.md).  The emulator's vectors through the device within stated
 * tolerances, then nine small measurements by the NPU's own counters, as JSON for narrow.py.
 *
 *     lutra-npu-phone [--device npu|npu-qemu|npu-sim] [--threads N] [--runs N] > phone.json
 *
 * Exit status: 0 all vectors hold, 1 some do not, 2 the device cannot be opened or the usage is wrong.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_box.h"
#include "base/clock.h"
#include "base/f16.h"
#include "base/rng.h"
#include "npu/host/transport.h"
#include "npu/wire/layout.h"

enum {
    MEMORY = 24 << 20,
    RUNS = 15,
    RUNS_MAX = 1000,
    BOTH = NPU_FROM_HOST | NPU_TO_HOST,
    HALVES = 1,
    FLOATS = 2,
    READ_BYTES = 4 << 20
};

/* ---- operations on random rows; the same offsets wherever a fresh transport is ---- */

struct work {
    struct npu_op op;
    uint32_t bytes;
    int form; /* of what it writes */
};

static uint32_t put(struct npu_transport *npu, const void *data, uint32_t bytes)
{
    uint32_t at = npu_transport_alloc(npu, bytes);
    if (!at) return 0;
    if (data)
        memcpy(npu->base + at, data, bytes);
    else
        memset(npu->base + at, 0, bytes);
    npu_transport_publish(npu, at, bytes);
    return at;
}

static float uniform(uint64_t seed, uint32_t i)
{
    return 2 * rng_float((struct rng_key){.seed = seed}, i) - 1;
}

static uint32_t put_floats(struct npu_transport *npu, uint32_t n, uint64_t seed, float scale)
{
    float *x = malloc(4 * (size_t)n);
    uint32_t at = 0;
    for (uint32_t i = 0; x && i < n; i++) x[i] = scale * uniform(seed, i);
    if (x) at = put(npu, x, 4 * n);
    free(x);
    return at;
}

static uint32_t put_halves(struct npu_transport *npu, uint32_t n, uint64_t seed, float first, float scale)
{
    uint16_t *x = malloc(2 * (size_t)n);
    uint32_t at = 0;
    for (uint32_t i = 0; x && i < n; i++) x[i] = f32_to_f16(first + scale * uniform(seed, i));
    if (x) at = put(npu, x, 2 * n);
    free(x);
    return at;
}

/* Random codes under scales of about 2^-6. */
static uint32_t put_weights(struct npu_transport *npu, const struct npu_weights *w)
{
    uint32_t bytes = w->n_blocks * w->block_bytes, at = put_floats(npu, bytes / 4, 5, 1);
    for (uint32_t i = 0; at && i < bytes; i++) {
        npu->base[at + i] = (uint8_t)rng_u32((struct rng_key){.seed = 6}, i);
        if (i % w->unit_bytes >= w->code_bytes && i % 2) npu->base[at + i] = 0x24;
    }
    if (at) npu_transport_publish(npu, at, bytes);
    return at;
}

static uint32_t bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}

static struct work rows(struct npu_transport *npu, uint32_t code, uint32_t m, uint32_t n)
{
    struct work w = {.op = {.code = code, .flags = BOTH, .m = m, .n = n}, .bytes = 4 * m * n, .form = FLOATS};
    w.op.src = put_floats(npu, m * n, 1, 4), w.op.weights = put_floats(npu, m * n, 2, 2);
    w.op.dst = put(npu, NULL, 4 * m * n), w.op.src_stride = w.op.dst_stride = 4 * n, w.op.param = bits(1e-5f);
    return w;
}

static struct work exponential(struct npu_transport *npu, uint32_t way, uint32_t n)
{
    struct work w = {.op = {.code = NPU_OP_EXP16, .flags = BOTH, .kind = way, .n = n}, .bytes = 2 * n, .form = HALVES};
    w.op.src = put_halves(npu, n, 3, -4, 4), w.op.dst = put(npu, NULL, 2 * n);
    return w;
}

static struct work product(struct npu_transport *npu, uint32_t kind, uint32_t m, uint32_t k, uint32_t n)
{
    struct npu_weights l;
    struct work w = {.op = {.code = NPU_OP_GEMM, .flags = BOTH, .kind = kind, .m = m, .k = k, .n = n}, .form = FLOATS};
    if (npu_weights_layout(kind, k, n, &l)) return w;
    w.bytes = 4 * m * n;
    w.op.src = put_floats(npu, m * k, 4, 1), w.op.weights = put_weights(npu, &l), w.op.dst = put(npu, NULL, w.bytes);
    w.op.src_stride = 4 * k, w.op.dst_stride = 4 * n;
    return w;
}

static struct work dequantization(struct npu_transport *npu, uint32_t kind)
{
    enum { K = 256, N = 64 };
    struct npu_weights l;
    struct work w = {.op = {.code = NPU_OP_DEQUANT, .flags = BOTH, .kind = kind, .k = K, .n = N}, .form = HALVES};
    if (npu_weights_layout(kind, K, N, &l)) return w;
    w.bytes = l.n_blocks * K * 64, w.op.dst_stride = K * 64;
    w.op.weights = put_weights(npu, &l), w.op.dst = put(npu, NULL, w.bytes);
    return w;
}

static uint64_t before_row(const void *user, uint32_t row, uint32_t segment)
{
    (void)user;
    return segment ? (UINT64_C(1) << (row + 1)) - 1 : ~UINT64_C(0);
}

static struct work attention(struct npu_transport *npu, uint32_t way)
{
    enum { M = 12, N = 64 };
    static struct attention_box box;
    struct npu_slot at[2] = {{0}};
    struct work w = {.op = {.code = NPU_OP_ATTENTION, .flags = BOTH, .kind = way, .m = M, .n = N}, .form = FLOATS};
    for (int i = 0; i < 2; i++) at[i].keys = put_halves(npu, 64 * N, 7 + (uint64_t)i, 0, 1);
    for (int i = 0; i < 2; i++) at[i].values = put_halves(npu, 64 * N, 9 + (uint64_t)i, 0, 1);
    attention_box_fill(&box, M, 1, 1, 2, at, before_row, NULL);
    w.bytes = 4 * M * N, w.op.param = bits(0.125f), w.op.src_stride = w.op.dst_stride = 4 * N;
    w.op.src = put_floats(npu, M * N, 11, 4), w.op.rows = put(npu, &box, sizeof box),
    w.op.dst = put(npu, NULL, w.bytes);
    return w;
}

/* ---- vectors ---- */

/* What may differ from the emulator, as part of the largest result: the unit's own form of floats rounds differently in
 * the last place, and results that are halves are one of two neighbours. */
static const struct vector {
    const char *name;
    double tolerance;
} vectors[] = {{"add", 0}, {"dequantize Q4_0", 0x1p-10}, {"dequantize Q8_0", 0x1p-10}, {"swiglu", 1e-5},
    {"rms_norm", 1e-5}, {"exp by table", 0x1p-10}, {"exp by half polynomial", 0.01}, {"exp by f32", 0x1p-10},
    {"product Q4_0", 0x1p-9}, {"product Q8_0", 0x1p-9}, {"attention by table", 0.01}, {"attention by f32", 0.01}};
enum { N_VECTORS = sizeof vectors / sizeof *vectors };

static struct work vector_work(struct npu_transport *npu, int i)
{
    switch (i) {
    case 0: return rows(npu, NPU_OP_ADD, 3, 96);
    case 1: return dequantization(npu, NPU_W_Q4_0);
    case 2: return dequantization(npu, NPU_W_Q8_0);
    case 3: return rows(npu, NPU_OP_SWIGLU, 3, 96);
    case 4: return rows(npu, NPU_OP_RMS_NORM, 3, 96);
    case 5: return exponential(npu, NPU_EXP_TABLE, 1024);
    case 6: return exponential(npu, NPU_EXP_F16, 1024);
    case 7: return exponential(npu, NPU_EXP_F32, 1024);
    case 8: return product(npu, NPU_W_Q4_0, 40, 256, 96);
    case 9: return product(npu, NPU_W_Q8_0, 5, 320, 96);
    case 10: return attention(npu, NPU_EXP_TABLE);
    default: return attention(npu, NPU_EXP_F32);
    }
}

static int run(struct npu_transport *npu, const struct npu_op *op, uint32_t n, struct lutra_error *err)
{
    uint64_t ticket;
    TRY(npu_transport_submit(npu, op, n, &ticket, err));
    return npu_transport_wait(npu, ticket, CLOCK_NEVER_US, err);
}

static double value(const uint8_t *p, int form, uint32_t i)
{
    uint16_t half;
    float x;
    memcpy(&half, p + 2 * i, form == HALVES ? 2 : 0);
    if (form == HALVES) return f16_to_f32(half);
    memcpy(&x, p + 4 * (size_t)i, 4);
    return x;
}

/* The largest difference as part of the largest result; infinite where one is no number and the other is. */
static double difference(const uint8_t *a, const uint8_t *b, const struct work *w)
{
    double most = 0, worst = 0;
    for (uint32_t i = 0; i < w->bytes / (w->form == HALVES ? 2u : 4u); i++) {
        double x = value(a, w->form, i), y = value(b, w->form, i);
        if (isnan(x) != isnan(y)) return INFINITY;
        if (isnan(x)) continue;
        most = fmax(most, fabs(y)), worst = fmax(worst, fabs(x - y));
    }
    return most > 0 ? worst / most : worst > 0 ? INFINITY : 0;
}

/* Returns how many vectors do not hold, or a negative error. */
static int run_vectors(struct npu_transport *npu, struct npu_transport *sim, struct lutra_error *err)
{
    int bad = 0;
    printf(" \"vectors\": [");
    for (int i = 0; i < N_VECTORS; i++) {
        struct work a = vector_work(npu, i), b = vector_work(sim, i);
        TRY(run(npu, &a.op, 1, err));
        TRY(run(sim, &b.op, 1, err));
        npu_transport_acquire(npu, a.op.dst, a.bytes);
        npu_transport_acquire(sim, b.op.dst, b.bytes);
        double d = difference(npu->base + a.op.dst, sim->base + b.op.dst, &a);
        int holds = d <= vectors[i].tolerance;
        bad += !holds;
        fprintf(stderr, "%-24s %s: %.3g of the largest result, at most %.3g\n", vectors[i].name,
            holds ? "holds" : "FAILS", d, vectors[i].tolerance);
        printf("%s\n  {\"name\": \"%s\", \"difference\": %.6g, \"tolerance\": %.6g, \"holds\": %s}", i ? "," : "",
            vectors[i].name, isinf(d) ? 1e30 : d, vectors[i].tolerance, holds ? "true" : "false");
    }
    printf("],\n");
    return bad;
}

/* ---- measurements ---- */

static int runs = RUNS;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* An operation `n` times between two readings of the counters; least and median of the runs, and the timer's. */
static int measure(struct npu_transport *npu, const char *name, const struct npu_op *op, uint32_t n, uint32_t threads,
    const char *before, struct lutra_error *err)
{
    struct npu_op list[66];
    uint32_t at[2] = {put(npu, NULL, 128), put(npu, NULL, 128)};
    double cycles[RUNS_MAX], ticks[RUNS_MAX];
    for (uint32_t i = 0; i <= n + 1; i++) list[i] = *op;
    list[0] = (struct npu_op){.code = NPU_OP_CLOCK, .flags = BOTH, .dst = at[0]};
    list[n + 1] = (struct npu_op){.code = NPU_OP_CLOCK, .flags = BOTH, .dst = at[1]};
    for (int i = -1; i < runs; i++) { /* once to warm up */
        uint64_t clock[2][2];
        TRY(run(npu, list, n + 2, err));
        for (int j = 0; j < 2; j++) {
            npu_transport_acquire(npu, at[j], 16);
            memcpy(clock[j], npu->base + at[j], 16);
        }
        if (i < 0) continue;
        cycles[i] = (double)(clock[1][0] - clock[0][0]) / n, ticks[i] = (double)(clock[1][1] - clock[0][1]) / n;
    }
    qsort(cycles, (size_t)runs, sizeof *cycles, by_size), qsort(ticks, (size_t)runs, sizeof *ticks, by_size);
    fprintf(stderr, "%-24s %u threads: %.0f cycles, median %.0f; %.2f us\n", name, threads, cycles[0], cycles[runs / 2],
        ticks[runs / 2] / 19.2);
    printf("%s\n  {\"name\": \"%s\", \"threads\": %u, \"cycles\": %.1f, \"median\": %.1f, \"ticks\": %.3f}", before,
        name, threads, cycles[0], cycles[runs / 2], ticks[runs / 2]);
    return 0;
}

/* Memory by one of [TMAN Table 2]'s ways: more than the cache holds; its lines are not dropped between. */
static struct work reading(struct npu_transport *npu, uint32_t way, uint32_t src)
{
    struct work w = {.op = {.code = NPU_OP_READ, .flags = NPU_TO_HOST, .kind = way, .k = READ_BYTES, .src = src}};
    w.op.dst = put(npu, NULL, 128 * (1 + NPU_THREADS_MAX));
    return w;
}

/* The nine: packets alone; gathers; a meeting of all threads and little else; packets on all threads; loads and stores
 * of vectors, more than the cache holds; DMA, packets and tiles as a pipeline; memory in three ways. */
static int measure_all(struct npu_transport *npu, const char *before, struct lutra_error *err)
{
    uint32_t t = npu->machine.n_threads;
    struct work w = exponential(npu, NPU_EXP_F16, 8192);
    TRY(measure(npu, "exp16 half polynomial", &w.op, 8, t, before, err));
    w = exponential(npu, NPU_EXP_TABLE, 8192);
    TRY(measure(npu, "exp16 table", &w.op, 8, t, ",", err));
    w = rows(npu, NPU_OP_ADD, 1, 32 * t);
    TRY(measure(npu, "add a vector a thread", &w.op, 64, t, ",", err));
    w = rows(npu, NPU_OP_SWIGLU, 1, 8192);
    TRY(measure(npu, "swiglu", &w.op, 4, t, ",", err));
    w = rows(npu, NPU_OP_ADD, 1, 1 << 18);
    TRY(measure(npu, "add 3 MiB", &w.op, 1, t, ",", err));
    w = product(npu, NPU_W_Q4_0, 1, 1536, 1536);
    TRY(measure(npu, "gemm Q4_0", &w.op, 1, t, ",", err));
    const uint32_t src = put(npu, NULL, READ_BYTES);
    TRY(run(npu, &(struct npu_op){.code = NPU_OP_INVALIDATE, .src = src, .k = READ_BYTES}, 1, err));
    w = reading(npu, NPU_READ_LOADS, src);
    TRY(measure(npu, "read by loads", &w.op, 1, t, ",", err));
    w = reading(npu, NPU_READ_FETCHED, src);
    TRY(measure(npu, "read by l2fetch", &w.op, 1, t, ",", err));
    w = reading(npu, NPU_READ_DMA, src);
    return measure(npu, "read by DMA", &w.op, 1, t, ",", err);
}

/* From the host and back, in us. */
static int measure_message(struct npu_transport *npu, struct lutra_error *err)
{
    double us[RUNS_MAX];
    for (int i = -1; i < runs; i++) {
        uint64_t begin = clock_now_us(clock_real());
        for (int j = 0; j < 20; j++) TRY(run(npu, &(struct npu_op){.code = NPU_OP_NOP}, 1, err));
        if (i >= 0) us[i] = (double)(clock_now_us(clock_real()) - begin) / 20;
    }
    qsort(us, (size_t)runs, sizeof *us, by_size);
    printf(" \"message_us\": {\"low\": %.2f, \"median\": %.2f},\n", us[0], us[runs / 2]);
    return 0;
}

/* ---- the afternoon ---- */

static npu_transport_open *const opens[] = {npu_fastrpc_open, npu_child_open, npu_local_open};
static const char *const names[] = {"npu", "npu-qemu", "npu-sim"};

static int open_device(int device, uint32_t threads, struct npu_transport **npu, struct lutra_error *err)
{
    struct npu_transport_settings s = {.memory_bytes = MEMORY, .n_threads = threads};
    s.qemu = getenv("LUTRA_QEMU"), s.program = getenv("LUTRA_NPU_PROGRAM"), s.library = getenv("LUTRA_CDSPRPC");
    TRY(opens[device](npu, &s, err));
    int rc = run(*npu, &(struct npu_op){.code = NPU_OP_EXP_TABLE}, 1, err);
    if (rc < 0) npu_transport_close(npu);
    return rc;
}

/* One session with all threads, one with one: what meetings cost is the difference. */
static int afternoon(int device, uint32_t threads, struct lutra_error *err)
{
    struct npu_transport *npu = NULL, *sim = NULL;
    int bad = 0, rc = open_device(2, 1, &sim, err);
    for (int i = 0; rc >= 0 && i < 2; i++) {
        rc = open_device(device, i ? 1 : threads, &npu, err);
        if (rc < 0) break;
        if (!i) {
            printf("{\"device\": \"%s\", \"threads\": %u, \"tcm_bytes\": %u,\n", names[device], npu->machine.n_threads,
                npu->machine.tcm_bytes);
            rc = bad = run_vectors(npu, sim, err);
            if (rc >= 0) rc = measure_message(npu, err);
            if (rc >= 0) printf(" \"kernels\": [");
        }
        if (rc >= 0) rc = measure_all(npu, i ? "," : "", err);
        npu_transport_close(&npu);
    }
    npu_transport_close(&sim);
    if (rc >= 0) printf("]}\n");
    return rc < 0 ? rc : bad;
}

int main(int argc, char **argv)
{
    int device = 0;
    uint32_t threads = NPU_THREADS_MAX;
    for (int i = 1; i < argc; i += 2) {
        int known = -1;
        for (int j = 0; j < 3 && i + 1 < argc; j++)
            if (!strcmp(argv[i], "--device") && !strcmp(argv[i + 1], names[j])) known = device = j;
        if (i + 1 < argc && !strcmp(argv[i], "--threads"))
            known = 0, threads = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        if (i + 1 < argc && !strcmp(argv[i], "--runs")) known = 0, runs = atoi(argv[i + 1]);
        if (known < 0 || !threads || threads > NPU_THREADS_MAX || runs < 1 || runs > RUNS_MAX) {
            fprintf(stderr, "usage: lutra-npu-phone [--device npu|npu-qemu|npu-sim] [--threads 1..%d] [--runs 1..%d]\n",
                NPU_THREADS_MAX, RUNS_MAX);
            return 2;
        }
    }
    struct lutra_error err;
    int rc = afternoon(device, threads, &err);
    if (rc < 0) fprintf(stderr, "lutra-npu-phone: %s\n", err.what);
    return rc < 0 ? 2 : rc > 0;
}
