/* SPDX-License-Identifier: MIT
 *
 * Counts packets of every kernel and shape under qemu-hexagon and writes them as JSON on stdout: the file that
 * `lutra sim --papers` shows (bench/npu/counts.json).  Where the emulator can follow in good time, its lower bound
 * stands beside the packets, and the bytes, tile products, gathers and scatters computed here are compared with its
 * counters.
 *
 *     lutra-npu-count > bench/npu/counts.json        77 and a reason on stderr where the tools are missing
 *     lutra-npu-count --kernel NAME [KIND]           all rows of one kernel (and kind), to be merged into the file
 *     lutra-npu-count --list                         names of all rows, counting none: kernel|kind|m|k|n, one a line
 *     lutra-npu-count --only < NAMES                 rows of these names
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ablation.h"
#include "attention_box.h"
#include "bench.h"
#include "npu/wire/planes.h"
#include "sim/kinds.h"
#include "npu/wire/layout.h"

enum { MEMORY_BYTES = 160 << 20, KEPT = 65536, EMULATED_WEIGHTS = 1536 * 8960, ROWS_MAX = 128, NAME_MAX_BYTES = 96 };
enum way { COUNT, LIST, ONLY };

/* One row of the file. */
struct row {
    const char *kernel, *kind;
    struct npu_op op;
    uint64_t gathers, scatters, dma_bytes, tile_pairs;
    uint32_t shown_m, shown_k; /* where the operation's own fields mean something else; 0: they do not */
    uint32_t alone;            /* packets without those that overlap with no DMA and no tiles; 0: there are none */
    int emulate;
};

struct run {
    struct bench b;
    uint32_t weights, src, dst, tables, scratch;
    int n_rows;
    enum way way;
    const char *kernel, *kind; /* of the rows to count; NULL: any */
    char *only;                /* names of the rows to count, each between newlines */
};

/* k x n of the matrices of Qwen2.5 1.5B, 3B, 7B and Llama 3.2 1B, 3B [TTS 7.1], and T-MAN's [TMAN 6.5]. */
static const uint32_t shapes[][2] = {{1536, 1536}, {1536, 8960}, {8960, 1536}, {2048, 2048}, {2048, 11008},
    {11008, 2048}, {3584, 3584}, {3584, 18944}, {18944, 3584}, {2048, 8192}, {8192, 2048}, {3072, 3072}, {3072, 8192},
    {8192, 3072}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* What a pass of a model needs beside these: the papers' keys and values, this project's small models; heads and their
 * size [n_head / n_kv_head, n_kv_head, d_head]. */
static const uint32_t kv_shapes[][2] = {{1536, 256}, {2048, 256}, {3584, 512}, {2048, 512}, {3072, 1024}};
static const uint32_t small_shapes[][2] = {{64, 64}, {64, 32}, {64, 192}, {192, 64}, {128, 128}, {128, 64}, {128, 384},
    {384, 128}, {256, 256}, {256, 128}, {256, 768}, {768, 256}};
static const uint32_t heads[][3] = {{6, 2, 128}, {8, 2, 128}, {7, 4, 128}, {4, 8, 64}, {3, 8, 128}, {2, 2, 16},
    {2, 2, 32}, {2, 2, 64}, {4, 5, 128}, {4, 8, 128}};
static const uint32_t widths[] = {1536, 2048, 2560, 3072, 3584, 4096, 64, 128, 256}; /* of rows that the head takes */
static const uint32_t batches[] = {1, 2, 4, 8, 16};
enum { N_KV_SHAPES = 5, N_SMALL_SHAPES = 12, N_HEADS = 10, N_WIDTHS = 9, N_BATCHES = 5, HEAD_OUTPUTS = 8192 };

static void same(const char *what, const struct row *r, uint64_t emulator, uint64_t computed)
{
    if (emulator == computed) return;
    fprintf(stderr, "%s %s %ux%u: emulator counts %llu %s, computed %llu\n", r->kernel, r->kind, r->op.k, r->op.n,
        (unsigned long long)emulator, what, (unsigned long long)computed);
    fail();
}

/* The emulator's bound, after comparing what was computed. */
static uint64_t bound_of(struct run *u, const struct row *r)
{
    size_t n;
    struct npu_sim_counters *c = npu_sim_counts(u->b.sim);
    memset(c, 0, sizeof *c);
    assert_int_equal(ablation_execute(npu_sim_isa(u->b.sim), &u->b.machine, &r->op), NPU_OK);
    npu_sim_end(u->b.sim, KEPT);
    const struct npu_sim_fault *f = npu_sim_faults(u->b.sim, &n);
    for (size_t i = 0; i < n; i++)
        if (f[i].kind != NPU_SIM_UNINITIALIZED) fail_msg("%s: %s", r->kernel, npu_sim_fault_name(f[i].kind));
    npu_sim_clear_faults(u->b.sim);
    same("gathers", r, c->issued[NPU_SIM_GATHER], r->gathers);
    same("scatters", r, c->issued[NPU_SIM_SCATTER], r->scatters);
    if (c->dma_read_bytes) same("bytes by DMA", r, c->dma_read_bytes, r->dma_bytes);
    if (c->tile_pairs) same("tile products", r, c->tile_pairs, r->tile_pairs);
    return npu_sim_packet_bound(c);
}

static uint32_t shown_m(const struct row *r)
{
    return r->shown_m ? r->shown_m : r->op.m;
}

static uint32_t shown_k(const struct row *r)
{
    return r->shown_k ? r->shown_k : r->op.k;
}

static int wanted(const struct run *u, const struct row *r)
{
    char name[NAME_MAX_BYTES];
    if (u->way == LIST) return 0;
    if (u->way == ONLY) {
        snprintf(name, sizeof name, "\n%s|%s|%u|%u|%u\n", r->kernel, r->kind, shown_m(r), shown_k(r), r->op.n);
        return strstr(u->only, name) != NULL;
    }
    return (!u->kernel || strcmp(u->kernel, r->kernel) == 0) && (!u->kind || strcmp(u->kind, r->kind) == 0);
}

static void add(struct run *u, const struct row *r)
{
    if (u->way == LIST) printf("%s|%s|%u|%u|%u\n", r->kernel, r->kind, shown_m(r), shown_k(r), r->op.n);
    if (!wanted(u, r)) return;
    uint32_t packets = bench_count(&u->b, &r->op);
    printf(
        "%s\n  {\"kernel\": \"%s\", \"kind\": \"%s\", \"m\": %u, \"k\": %u, \"n\": %u, \"packets\": %u, \"hvx\": %u, "
        "\"gathers\": %llu, \"scatters\": %llu, \"dma_bytes\": %llu, \"tile_pairs\": %llu",
        u->n_rows++ ? "," : "", r->kernel, r->kind, shown_m(r), shown_k(r), r->op.n, packets, u->b.hvx,
        (unsigned long long)r->gathers, (unsigned long long)r->scatters, (unsigned long long)r->dma_bytes,
        (unsigned long long)r->tile_pairs);
    if (r->alone) printf(", \"alone\": %u", packets - r->alone);
    if (r->emulate) printf(", \"bound\": %llu", (unsigned long long)bound_of(u, r));
    printf("}");
    fflush(stdout);
}

static struct row row_of(struct run *u, const char *kernel, const char *kind, uint32_t code, uint32_t k, uint32_t n)
{
    struct row r = {.kernel = kernel, .kind = kind};
    r.op = (struct npu_op){.code = code, .m = 1, .k = k, .n = n, .src = u->src, .weights = u->weights, .dst = u->dst};
    r.emulate = (uint64_t)k * n <= EMULATED_WEIGHTS && (k == 1536 || n == 1536); /* the rest is alike */
    return r;
}

/* Dequantization into TCM, where a product's tiles are. */
static void dequant(struct run *u, int i, uint32_t k, uint32_t n)
{
    struct npu_weights w;
    if (i == KIND_F16 || npu_weights_layout(npu_kinds[i].kind, k, n, &w)) return;
    struct row r = row_of(u, "dequant", npu_kinds[i].name, NPU_OP_DEQUANT, k, n);
    r.op.kind = w.kind;
    r.op.dst = u->b.machine.tcm_start + KEPT;
    r.dma_bytes = w.bytes;
    add(u, &r);
}

static void gemm(struct run *u, int i, uint32_t m, uint32_t k, uint32_t n)
{
    struct npu_weights w;
    struct npu_gemm_plan p;
    if (npu_weights_layout(npu_kinds[i].kind, k, n, &w)) return;
    assert_int_equal(npu_gemm_plan(&w, m, KEPT, BENCH_TCM_BYTES, &p), 0);
    struct row r = row_of(u, "gemm", npu_kinds[i].name, NPU_OP_GEMM, k, n);
    r.op.kind = w.kind;
    r.op.m = m;
    r.op.src_stride = 4 * k;
    r.op.dst_stride = 128 * w.n_blocks;
    if (w.panel) r.op.param = npu_gemm_tiling(p.lead, p.row_blocks, p.chunk_blocks);
    r.dma_bytes = (uint64_t)w.bytes * p.n_passes;
    r.tile_pairs = (uint64_t)(m + 31) / 32 * (k / 32) * w.n_blocks;
    r.emulate = r.emulate && m == 1 && k * n <= 1536 * 1536;
    add(u, &r);
}

static void ablation(struct run *u, const char *name, uint32_t code, double bytes_per_weight, uint32_t k, uint32_t n)
{
    struct row r = row_of(u, "dequant", name, code, k, n);
    r.dma_bytes = (uint64_t)(bytes_per_weight * k * n + 0.5);
    if (code == ABLATION_CONVERT || code == ABLATION_PLANES || code == ABLATION_PLANES_LUT) r.emulate = 0;
    if (code == ABLATION_SCATTER) r.scatters = (uint64_t)k * n / 64;
    add(u, &r);
}

static struct row tables(struct run *u, uint32_t k)
{
    return row_of(u, "tables", "lut16", NPU_OP_TABLES, k, 0);
}

static void tables8(struct run *u, uint32_t k)
{
    struct row r = row_of(u, "tables", "lut8", ABLATION_VLUT32_TABLES, k, 0);
    add(u, &r);
}

/* One row by table lookup over bit planes, and by masks [TMAN 4.3]. */
static void lookup(struct run *u, int i, uint32_t k, uint32_t n)
{
    struct npu_weights w;
    struct row before = tables(u, k), r = row_of(u, "lookup", npu_kinds[i].name, NPU_OP_LOOKUP, k, n);
    assert_int_equal(npu_weights_layout(npu_kinds[i].kind, k, n, &w), 0);
    r.op.kind = w.kind;
    r.dma_bytes = w.bytes;
    if (wanted(u, &r)) bench_count(&u->b, &before.op);
    add(u, &r);
    r.kernel = "masks";
    r.op.code = ABLATION_FIELDS;
    const int zeros = npu_planes_form(w.kind) == NPU_PLANES_ZEROS; /* what follows has minima in their place */
    if (!zeros && npu_planes_bits(w.kind) != 3 && npu_planes_group(w.kind) > 32) add(u, &r); /* others are not built */
    r.kernel = "vlut32";
    r.op.code = ABLATION_VLUT32;
    if (!zeros && npu_planes_group(w.kind) > 32) add(u, &r);
}

/* Those of every kind, and the tables of a row [TMAN 5]. */
static void lookups(struct run *u)
{
    const uint32_t k = 1536;
    struct row r = tables(u, k);
    add(u, &r);
    tables8(u, k);
    for (int i = KIND_Q1_0_PLANES; i < N_NPU_KINDS; i++) {
        lookup(u, i, k, 1536);
        lookup(u, i, k, 8960);
    }
}

/* Counted for every kind there. */
static int counted(uint32_t k, uint32_t n)
{
    return k == 1536 && (n == 1536 || n == 8960);
}

static const uint32_t rows_of_gemm[] = {1, 4, 16, ROWS_MAX};

static void weights(struct run *u)
{
    for (uint32_t s = 0; s < N_SHAPES; s++) {
        uint32_t k = shapes[s][0], n = shapes[s][1];
        for (int i = 0; i < N_NPU_KINDS; i++) {
            int every = k == 1536 && n == 8960; /* all kinds on one shape; elsewhere what the papers run */
            if (every || i == KIND_Q4_0 || i == KIND_SUPERGROUP || (i == KIND_Q8_0 && k > n)) dequant(u, i, k, n);
        }
        for (int i = 0; i < 4; i++) {
            gemm(u, KIND_Q4_0, rows_of_gemm[i], k, n);
            if (k > n) gemm(u, KIND_Q8_0, rows_of_gemm[i], k, n);
        }
        ablation(u, "conventional, scatter", ABLATION_SCATTER, 18 / 32.0, k, n);
        ablation(u, "groups not coalesced", ABLATION_GROUPS, 18 / 32.0, k, n);
    }
    const uint32_t k = 4096;
    dequant(u, KIND_Q4_0, k, k);
    ablation(u, "convert", ABLATION_CONVERT, 18 / 32.0, k, k);
    ablation(u, "bit planes, convert", ABLATION_PLANES, 0.5, k, k);
    ablation(u, "bit planes, lookups", ABLATION_PLANES_LUT, 0.5, k, k);
    ablation(u, "2 bit g64 asym, finished", ABLATION_FINISHED_2, 2.5 / 8, 1536, 8960);
    ablation(u, "4 bit g128 asym, finished", ABLATION_FINISHED_4, 4.25 / 8, 1536, 8960);
}

/* Nearly every kind once more, on so few outputs that npu/counts can count it afresh each time. */
static void few_outputs(struct run *u)
{
    const uint32_t k = 1536, n = 256;
    for (int i = 0; i < N_NPU_KINDS; i++) dequant(u, i, k, n);
    gemm(u, KIND_Q8_0, 1, k, n);
    ablation(u, "convert", ABLATION_CONVERT, 18 / 32.0, k, n);
    ablation(u, "bit planes, convert", ABLATION_PLANES, 0.5, k, n);
    ablation(u, "bit planes, lookups", ABLATION_PLANES_LUT, 0.5, k, n);
    ablation(u, "2 bit g64 asym, finished", ABLATION_FINISHED_2, 2.5 / 8, k, n);
    ablation(u, "4 bit g128 asym, finished", ABLATION_FINISHED_4, 4.25 / 8, k, n);
}

static uint64_t every_key(const void *user, uint32_t row, uint32_t segment)
{
    (void)user, (void)row, (void)segment;
    return ~(uint64_t)0;
}

/* Attention of one layer for a batch that shares its keys: all KV heads, as it runs; m is rows of the batch. */
static void attention_pass(struct run *u, const uint32_t head[3], uint32_t m, uint32_t keys)
{
    static struct attention_box box;
    static struct npu_slot at[BOX_SEGMENTS];
    uint32_t per = NPU_ATTENTION_ROWS / head[0], groups = (m + per - 1) / per, n_segments = keys / NPU_SEGMENT;
    char name[64];
    for (uint32_t i = 0; i < n_segments; i++) at[i] = (struct npu_slot){u->weights, u->weights + 16384, 0, 0};
    attention_box_fill(&box, m, head[1], head[0], n_segments, at, every_key, NULL);
    snprintf(name, sizeof name, "%u x %u heads", head[0], head[1]);
    struct row r = row_of(u, "attention pass", name, NPU_OP_ATTENTION, 0, head[2]);
    r.op.kind = NPU_EXP_TABLE;
    r.op.m = m;
    r.op.src_stride = r.op.dst_stride = 4 * head[0] * head[1] * head[2];
    r.op.rows = u->tables;
    memcpy(npu_sim_host(u->b.sim, u->tables), &box, sizeof box);
    r.dma_bytes = (uint64_t)groups * head[1] * keys * head[2] * 4;
    r.tile_pairs = (uint64_t)groups * head[1] * n_segments * 4 * ((head[2] + 31) / 32);
    if (head[2] % 64) r.tile_pairs += (uint64_t)groups * head[1] * n_segments * 2; /* value tiles come in pairs */
    r.gathers = (uint64_t)groups * head[1] * n_segments * 32;
    r.shown_k = keys;
    r.emulate = 0;
    add(u, &r);
}

/* The vocabulary head without its insertions among the largest: 8192 outputs of the streamed vocabulary. */
static void head(struct run *u, int i, uint32_t m, uint32_t k)
{
    struct npu_weights w;
    struct npu_head_row rows[16] = {0};
    assert_int_equal(npu_weights_layout(npu_kinds[i].kind, k, HEAD_OUTPUTS, &w), 0);
    struct row r = row_of(u, "head", npu_kinds[i].name, NPU_OP_HEAD, k, HEAD_OUTPUTS);
    r.op.kind = w.kind;
    r.op.m = m;
    r.op.src_stride = 4 * k;
    r.op.rows = u->tables;
    r.op.scratch = u->scratch;
    r.dma_bytes = w.bytes;
    r.tile_pairs = (uint64_t)(k / 32) * w.n_blocks;
    r.emulate = 0;
    memcpy(npu_sim_host(u->b.sim, u->tables), rows, sizeof rows);
    if (wanted(u, &r)) r.alone = bench_count(&u->b, &r.op); /* nothing wanted: products */
    for (uint32_t j = 0; j < m; j++) rows[j].want = NPU_HEAD_TOPK | NPU_HEAD_SUM;
    memcpy(npu_sim_host(u->b.sim, u->tables), rows, sizeof rows);
    add(u, &r);
}

/* Layers of 1, 2 and 4 bits, one row: tiles from codes and from planes, lookups, masks; BitNet's prompt. */
static void low_bits(struct run *u)
{
    static const uint32_t models[2][4][2] = {{{1536, 1536}, {1536, 256}, {1536, 8960}, {8960, 1536}},
        {{2560, 2560}, {2560, 640}, {2560, 6912}, {6912, 2560}}};
    for (int bitnet = 0; bitnet < 2; bitnet++)
        for (int s = 0; s < 4; s++) {
            const uint32_t k = models[bitnet][s][0], n = models[bitnet][s][1];
            if (!bitnet) gemm(u, KIND_W2, 1, k, n);
            gemm(u, KIND_TQ2_0, 1, k, n);
            for (int i = bitnet ? KIND_TQ2_0_PLANES : KIND_Q1_0_PLANES; i <= KIND_TQ2_0_PLANES; i++) {
                gemm(u, i, 1, k, n);
                if (!counted(k, n)) lookup(u, i, k, n);
            }
            if (bitnet) gemm(u, KIND_TQ2_0_PLANES, ROWS_MAX, k, n);
            if (!bitnet) gemm(u, KIND_Q4_0_PLANES, 1, k, n);
            if (!bitnet && !counted(k, n)) lookup(u, KIND_Q4_0_PLANES, k, n);
        }
    const uint32_t others[] = {8960, 2560, 6912};
    for (int i = 0; i < 3; i++) {
        struct row r = tables(u, others[i]);
        add(u, &r);
    }
}

/* [TMAN 6.1]: Qwen3-8B and Llama-3.1-8B as folders of 2 and 4 bits in groups of 64 are packed, and as F16 with
 * BitNet's.  Of the last matrices of their sub-layers 128 outputs do not fit into TCM as tiles: tiles are made of half
 * of k. */
static void eight_billion(struct run *u)
{
    static const uint32_t all[][2] = {{4096, 4096}, {4096, 1024}, {4096, 12288}, {4096, 14336}, {12288, 4096},
        {14336, 4096}, {2560, 2560}, {2560, 640}, {2560, 6912}, {6912, 2560}};
    static const int few_bits[] = {KIND_W2_PLANES, KIND_W4_PLANES};
    enum { WIDE = 4, BITNET = 6, N_ALL = 10 };
    for (int s = 0; s < N_ALL; s++) {
        const uint32_t k = all[s][0], n = all[s][1];
        for (int i = 0; i < 2 && s < BITNET; i++) {
            lookup(u, few_bits[i], k, n);
            gemm(u, few_bits[i], 1, s < WIDE ? k : k / 2, n);
            gemm(u, few_bits[i], ROWS_MAX, s < WIDE ? k : k / 2, n);
        }
        gemm(u, KIND_F16, 1, k, n);
        gemm(u, KIND_F16, ROWS_MAX, k, n);
    }
    for (int i = 0; i < 2; i++) dequant(u, few_bits[i], all[0][0], all[0][1]);
    const uint32_t inputs[] = {4096, 12288, 14336};
    for (int i = 0; i < 3; i++) {
        struct row r = tables(u, inputs[i]);
        add(u, &r);
    }
}

/* What a whole pass needs that the papers' tables do not. */
static void passes(struct run *u)
{
    for (int s = 0; s < N_KV_SHAPES; s++) {
        for (int m = 0; m < 4; m++) gemm(u, KIND_Q4_0, rows_of_gemm[m], kv_shapes[s][0], kv_shapes[s][1]);
    }
    for (int s = 0; s < N_SMALL_SHAPES; s++)
        for (int m = 0; m < 4; m++) gemm(u, KIND_F16, rows_of_gemm[m], small_shapes[s][0], small_shapes[s][1]);
    for (int s = 0; s < N_HEADS; s++)
        for (int m = 0; m <= N_BATCHES; m++) {
            uint32_t full = NPU_ATTENTION_ROWS / heads[s][0]; /* a tile's rows: what prefill fills */
            uint32_t n = m < N_BATCHES ? batches[m] : full;
            int twice = m == N_BATCHES && (full == 1 || full == 2 || full == 4 || full == 8 || full == 16);
            if (!twice) attention_pass(u, heads[s], n, 1024), attention_pass(u, heads[s], n, 4096);
        }
    for (int w = 0; w < N_WIDTHS; w++)
        for (int m = 0; m < N_BATCHES; m++) head(u, widths[w] < 1024 ? KIND_F16 : KIND_Q8_0, batches[m], widths[w]);
    low_bits(u);
    eight_billion(u);
}

/* One KV head of Qwen2.5-1.5B: 6 query heads. */
static void softmax(struct run *u)
{
    static const char *const ways[] = {"table", "f16", "f32"};
    static const uint32_t queries[] = {1, 4, 16}, keys[] = {1024, 4096, 16384};
    struct npu_op table = {.code = NPU_OP_EXP_TABLE};
    for (int q = 0; q < 3; q++)
        for (int j = 0; j < 3; j++)
            for (uint32_t way = 0; way < 3; way++) {
                struct row r = row_of(u, "softmax", ways[way], ABLATION_SOFTMAX, keys[j], 0);
                r.op.m = 6 * queries[q];
                r.op.kind = way;
                if (way == NPU_EXP_TABLE) r.gathers = (uint64_t)r.op.m * keys[j] / 64;
                r.emulate = keys[j] <= 4096;
                assert_int_equal(npu_execute(npu_sim_isa(u->b.sim), &u->b.machine, &table), NPU_OK);
                add(u, &r);
            }
}

/* Attention of one KV head and 32 rows over 4096 keys, head 128: whole, and its stages [TTS Figure 8]. */
static void attention(struct run *u)
{
    static const char *const stages[ABLATION_STAGES] = {
        "loop", "tiles of K and V", "masks", "maxima", "exp", "sums", "output"};
    static const char *const ways[] = {"table", "f16", "f32"};
    enum { KEYS = 4096, HEAD = 128 };
    static struct attention_box box;
    static struct npu_slot at[KEYS / NPU_SEGMENT];
    for (int i = 0; i < KEYS / NPU_SEGMENT; i++) at[i] = (struct npu_slot){u->weights, u->weights + 16384, 0, 0};
    attention_box_fill(&box, 32, 1, 1, KEYS / NPU_SEGMENT, at, every_key, NULL);
    for (uint32_t way = 0; way < 3; way++) {
        struct row r = row_of(u, "attention", ways[way], NPU_OP_ATTENTION, 0, HEAD);
        r.op.kind = way;
        r.op.m = 32;
        r.op.src_stride = r.op.dst_stride = 4 * HEAD;
        r.op.rows = u->tables;
        memcpy(npu_sim_host(u->b.sim, u->tables), &box, sizeof box);
        r.dma_bytes = (uint64_t)KEYS * HEAD * 4;
        r.tile_pairs = KEYS / NPU_SEGMENT * (2 * HEAD / 32 + 2 * HEAD / 32);
        r.gathers = way ? 0 : KEYS / NPU_SEGMENT * 32;
        r.shown_k = KEYS;
        r.emulate = 0;
        add(u, &r);
    }
    for (uint32_t stage = 0; stage < ABLATION_STAGES; stage++)
        for (uint32_t way = 0; way < (stage == ABLATION_STAGE_EXP ? 3 : 1); way++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s%s", stages[stage], stage == ABLATION_STAGE_EXP ? " by " : "",
                stage == ABLATION_STAGE_EXP ? ways[way] : "");
            struct row r = row_of(u, "attention stage", name, ABLATION_ATTENTION_STAGE, KEYS, HEAD);
            r.op.m = stage;
            r.op.kind = way;
            r.shown_m = 32;
            r.gathers = stage == ABLATION_STAGE_EXP && !way ? KEYS / NPU_SEGMENT * 32 : 0;
            r.op.rows = u->tables;
            memset(npu_sim_host(u->b.sim, u->tables), 0xff, 256);
            r.emulate = 0;
            add(u, &r);
        }
}

static void rows(struct run *u)
{
    static const struct {
        const char *name, *kind;
        uint32_t code, way;
    } list[] = {{"add", "f32", NPU_OP_ADD, 0}, {"swiglu", "f32", NPU_OP_SWIGLU, 0}, {"relu2", "f32", NPU_OP_RELU2, 0},
        {"rms_norm", "f32", NPU_OP_RMS_NORM, 0}, {"rope", "f32", NPU_OP_ROPE, 0}, {"fit", "f32", NPU_OP_FIT, 0},
        {"unfit", "f32", NPU_OP_UNFIT, 0}, {"quantize", "act8", ABLATION_ACT8, 0},
        {"exp16", "table", NPU_OP_EXP16, NPU_EXP_TABLE}, {"exp16", "f16", NPU_OP_EXP16, NPU_EXP_F16},
        {"exp16", "f32", NPU_OP_EXP16, NPU_EXP_F32}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        uint32_t n = 8192;
        struct row r = row_of(u, list[i].name, list[i].kind, list[i].code, n, n);
        r.op.kind = list[i].way;
        r.op.weights = u->scratch; /* fit writes its factors there, and matrices must stay as the host wrote them */
        r.emulate = 1;
        if (r.op.code == NPU_OP_ROPE) r.op.param = 128, r.op.k = 64, r.shown_k = n; /* heads of 128, halves as pairs */
        if (list[i].code == NPU_OP_EXP16 && !list[i].way) r.gathers = n / 64;
        struct npu_op table = {.code = NPU_OP_EXP_TABLE};
        assert_int_equal(npu_execute(npu_sim_isa(u->b.sim), &u->b.machine, &table), NPU_OK);
        add(u, &r);
    }
}

static void compiler(char *text, size_t n)
{
    FILE *p = popen(NPU_CLANG " --version", "r");
    if (!p || !fgets(text, (int)n, p)) snprintf(text, n, "unknown");
    if (p) pclose(p);
    text[strcspn(text, "\n(")] = 0;
}

/* All of stdin, behind a newline. */
static char *names_to_count(void)
{
    size_t n = 1, got, room = 1 << 20;
    char *text = malloc(room + 1);
    assert_non_null(text);
    text[0] = '\n';
    while (n < room && (got = fread(text + n, 1, room - n, stdin)) > 0) n += got;
    text[n] = 0;
    return text;
}

int main(int argc, char **argv)
{
    struct run u = {0};
    if ((argc == 3 || argc == 4) && strcmp(argv[1], "--kernel") == 0)
        u.kernel = argv[2], u.kind = argv[3];
    else if (argc == 2 && (strcmp(argv[1], "--list") == 0 || strcmp(argv[1], "--only") == 0))
        u.way = argv[1][2] == 'l' ? LIST : ONLY;
    else if (argc > 1) {
        fprintf(stderr, "usage: lutra-npu-count [--kernel NAME [KIND] | --list | --only < NAMES]\n");
        return strcmp(argv[1], "--help") != 0;
    }
    if (u.way == ONLY) u.only = names_to_count();
    char name[128];
    if (bench_missing()) {
        fprintf(stderr, "lutra-npu-count: %s\n", bench_missing());
        return 77;
    }
    bench_open(&u.b, MEMORY_BYTES);
    u.b.machine.tcm_kept = KEPT;
    u.weights = npu_sim_buffer(u.b.sim, 112 << 20);
    u.src = npu_sim_buffer(u.b.sim, ROWS_MAX * 4 * 18944);
    u.dst = npu_sim_buffer(u.b.sim, ROWS_MAX * 4 * 18944);
    u.tables = npu_sim_buffer(u.b.sim, sizeof(struct attention_box));
    u.scratch = npu_sim_buffer(u.b.sim, 16 * (NPU_HEAD_SCRATCH + 8192));
    assert_true(u.weights && u.src && u.dst && u.tables && u.scratch);
    compiler(name, sizeof name);
    if (u.way != LIST) printf("{\"compiler\": \"%s\", \"cpu\": \"v73\", \"flags\": \"-O2\", \"rows\": [", name);
    weights(&u), few_outputs(&u), lookups(&u), softmax(&u), attention(&u), rows(&u), passes(&u);
    if (u.way != LIST) printf("\n]}\n");
    free(u.only);
    bench_close(&u.b);
    return 0;
}
