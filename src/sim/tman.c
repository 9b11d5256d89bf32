/* SPDX-License-Identifier: MIT
 *
 * What [TMAN 6] compares, from counts: products of one and of 128 rows at 2 and 4 bits (Figures 12, 13), decoding and
 * prompts of three models (Figures 14, 15, Table 3), the parts of one product (Figure 5), shared tables (Figure 11).
 *
 * Others are modelled, not run.  QNN: products take per-channel 4-bit or F16 weights as they are, without
 * dequantization; everything else is this project's.  llm.npu: prompts so with INT8 weights, tokens on the CPU from an
 * INT4 copy.  No instruction for integer tiles is public, so their cycles are an interval of those of F16 tiles.
 */
#include "sim/tables.h"

#include <stdio.h>
#include <string.h>

#include "npu/wire/planes.h"

enum { PROMPT = 1024, TOKENS = 128, KEYS = PROMPT + TOKENS / 2, ELEMENTS = 8192, CPU_CORES = 4 };

/* Memory to one processor while it decodes, 8 Gen 3 [HETERO 3.3]: 10^9 bytes per second. */
static const struct npu_interval cpu_gbs = {40, 45};
enum { INT4_BITS_X10 = 45, HEAD_BITS_X10 = 85 }; /* the CPU's copy: blocks of 32 with a scale */

static const struct mode {
    const char *name, *weights;
    enum npu_way way;
    double bytes_per_weight, tiles[2];
    int cpu, of_bitnet; /* of_bitnet: 1 of BitNet alone, 0 of the others alone, -1 of all */
} modes[] = {
    {"2 bit", "W2 planes", NPU_WAY_LOOKUP, .of_bitnet = 0},
    {"4 bit", "W4 planes", NPU_WAY_LOOKUP, .of_bitnet = 0},
    {"ternary", "TQ2_0 planes", NPU_WAY_LOOKUP, .of_bitnet = 1},
    {"QNN, 4 bit per channel", "F16", NPU_WAY_TILES, 0.5, {0.5, 1}, .of_bitnet = -1},
    {"QNN, F16", "F16", NPU_WAY_TILES, 2, {1, 1}, .of_bitnet = -1},
    {"llm.npu", "F16", NPU_WAY_TILES, 1, {0.25, 1}, .cpu = 1, .of_bitnet = -1},
};
enum { N_MODES = 6, FOUR_BITS = 1, TERNARY = 2, PER_CHANNEL = 3, F16 = 4 };

/* A model in a mode; end 0: integer tiles at their fastest. */
static struct npu_model model_in(const struct npu_model *base, const struct mode *mode, int end)
{
    struct npu_model m = *base;
    m.weights = m.down = mode->weights, m.way = mode->way;
    m.bytes_per_weight = mode->bytes_per_weight, m.tile_share = mode->tiles[end];
    return m;
}

/* ---- kernels ---- */

static const int shapes[][2] = {{4096, 4096}, {4096, 1024}, {4096, 12288}, {12288, 4096}, {4096, 14336}, {14336, 4096},
    {2560, 2560}, {2560, 640}, {2560, 6912}, {6912, 2560}};
enum { N_SHAPES = 10, FIRST_OF_BITNET = 6 };

/* What makes a row ready for a product comes before it. */
static struct npu_work prepared(const struct npu_count *c, const struct npu_count *before, double times)
{
    struct npu_work w = c->work;
    if (before) w.alone = times * before->work.packets, w.alone_parts = before->work.parts;
    if (before) w.l2_bytes += times * before->work.l2_bytes;
    return w;
}

/* One row by lookups with its tables, and by masks with its quantization.  -1: not counted. */
static int one_row(const struct npu_bench *b, const char *kernel, const char *kind, int k, int n, struct npu_work *w)
{
    const struct npu_count *c = npu_count_of(b->counts, kernel, kind, 1, k, n);
    int masks = !strcmp(kernel, "masks");
    const struct npu_count *before = masks ? npu_count_of(b->counts, "quantize", "act8", 1, ELEMENTS, ELEMENTS)
                                           : npu_count_of(b->counts, "tables", "lut16", 1, k, 0);
    if (!c || !before) return -1;
    *w = prepared(c, before, masks ? (double)k / ELEMENTS : 1);
    return 0;
}

/* m rows on tiles; *times: as often, of a part of k. */
static const struct npu_count *on_tiles(const struct npu_bench *b, const char *kind, int m, int k, int n, int *times)
{
    *times = npu_fits_tiles(npu_kind_of(kind), k, n) ? 1 : 2;
    return npu_count_of(b->counts, "gemm", kind, m, k / *times, n);
}

static struct npu_work of_mode(const struct npu_count *f16, const struct mode *mode, int end)
{
    struct npu_work w = f16->work;
    w.dma_bytes *= mode->bytes_per_weight / 2, w.tile_pairs *= mode->tiles[end];
    return w;
}

static const char *weights_of(int shape, int i) /* i 0: fewer bits */
{
    return shape >= FIRST_OF_BITNET ? (i ? NULL : modes[TERNARY].weights) : modes[i].weights;
}

/* [TMAN Figure 16] in the paper's groups, tiles of 4096x4096. */
static void full_weights(const struct npu_bench *b, struct comparisons *out)
{
    enum { K = 4096, STAGES = 64 };
    const struct npu_work full = {.dma_bytes = 2.0 * K * K};
    for (int i = 0; i <= FOUR_BITS; i++) {
        const struct npu_count *c = npu_count_of(b->counts, "dequant", modes[i].weights, 1, K, K);
        if (!c) continue;
        struct npu_work tiles = c->work;
        tiles.stages = STAGES;
        npu_compare(out, "TMAN Figure 16", 4.9, 4.9, &full, &tiles, "LoadFull by DMA / lookup of %s, groups of 64",
            modes[i].name);
    }
}

void npu_tman_ratios(const struct npu_bench *b, struct comparisons *out)
{
    full_weights(b, out);
    for (int s = 0; s < N_SHAPES; s++) {
        const int k = shapes[s][0], n = shapes[s][1];
        const struct npu_count *f16 = npu_count_of(b->counts, "gemm", "F16", 1, k, n),
                               *many = npu_count_of(b->counts, "gemm", "F16", TOKENS, k, n);
        for (int i = 0; i < 2 && weights_of(s, i) && f16 && many; i++) {
            struct npu_work ours, half = of_mode(f16, &modes[F16], 1), four = of_mode(f16, &modes[PER_CHANNEL], 1);
            const int bits = i ? 4 : 2;
            if (one_row(b, "lookup", weights_of(s, i), k, n, &ours)) continue;
            if (!i)
                npu_compare(
                    out, "TMAN Figure 12", 0, 8, &half, &ours, "%dx%d: QNN F16 / lookup of %d bits", k, n, bits);
            npu_compare(out, "TMAN Figure 12", i ? 1 : 1.8, i ? 1 : 2.5, &four, &ours,
                "%dx%d: QNN 4 bits per channel / lookup of %d bits", k, n, bits);
        }
        for (int i = 0; i < 2 && weights_of(s, i) && many; i++) {
            int times;
            const struct npu_count *tiles = on_tiles(b, weights_of(s, i), TOKENS, k, n, &times);
            if (!tiles || times > 1) continue;
            npu_compare(out, "TMAN Figure 13", 1, 1, &many->work, &tiles->work,
                "%dx%d: QNN F16 / tiles of %d bits, 128 rows", k, n, i ? 4 : 2);
        }
    }
}

static void put_time(json_t *to, const char *name, const struct soc_profile *p, const struct npu_work w[2], int times)
{
    struct modelled low = model_work(p, &w[0]), high = model_work(p, &w[1]);
    json_object_set_new(
        to, name, json_pack("{s:f, s:f}", "low_us", times * low.low_us, "high_us", times * high.high_us));
}

/* Figures 12 and 13: a row for each shape and width, m rows of activations. */
static json_t *json_of_kernels(const struct npu_bench *b, const struct soc_profile *p, int m)
{
    json_t *all = json_array();
    for (int s = 0; s < N_SHAPES; s++)
        for (int i = 0; i < 2 && weights_of(s, i); i++) {
            const int k = shapes[s][0], n = shapes[s][1];
            const char *kind = weights_of(s, i);
            const struct npu_count *f16 = npu_count_of(b->counts, "gemm", "F16", m, k, n);
            int times;
            const struct npu_count *tiles = on_tiles(b, kind, m, k, n, &times);
            if (!f16 || !tiles) continue;
            json_t *row =
                json_pack("{s:i, s:i, s:i, s:s, s:i}", "m", m, "k", k, "n", n, "weights", kind, "products", times);
            struct npu_work two[2] = {tiles->work, tiles->work};
            put_time(row, "tiles", p, two, times);
            json_object_set_new(row, "tiles_packets", json_real(times * (tiles->work.packets + tiles->work.alone)));
            static const char *const one[] = {"lookup", "masks"};
            for (int j = 0; m == 1 && j < 2; j++) {
                if (one_row(b, one[j], kind, k, n, &two[0])) continue;
                char name[32];
                snprintf(name, sizeof name, "%s_packets", one[j]);
                json_object_set_new(row, name, json_real(two[0].packets));
                two[1] = two[0];
                put_time(row, one[j], p, two, 1);
            }
            for (int j = PER_CHANNEL; j < N_MODES; j++) {
                for (int end = 0; end < 2; end++) two[end] = of_mode(f16, &modes[j], end);
                if (m > 1 || !modes[j].cpu) put_time(row, modes[j].name, p, two, 1);
            }
            json_array_append_new(all, row);
        }
    return all;
}

/* ---- whole models ---- */

static double layer_weights(const struct npu_model *m)
{
    double d = m->d_model, kv = m->n_kv_head * m->d_head;
    return m->n_layer * (2 * d * d + 2 * d * kv + 3 * d * m->d_ff);
}

/* Power of cores while the rest of the device idles. */
static void add_cores(const struct soc_profile *p, struct modelled *t)
{
    t->low_mj += CPU_CORES * p->figure[NPU_CPU_MW].low * t->low_us * 1e-6;
    t->high_mj += CPU_CORES * p->figure[NPU_CPU_MW].high * t->high_us * 1e-6;
}

/* A token on the CPU, from what memory alone takes: at least that. */
static struct modelled on_cpu(const struct soc_profile *p, const struct npu_model *m)
{
    double head = (double)m->d_model * m->n_vocab,
           bytes = (layer_weights(m) * INT4_BITS_X10 + head * HEAD_BITS_X10) / 80;
    struct modelled t = {.low_us = bytes / cpu_gbs.high * 1e-3, .high_us = bytes / cpu_gbs.low * 1e-3};
    t.low_mj = p->figure[NPU_BASE_MW].low * t.low_us * 1e-6, t.high_mj = p->figure[NPU_BASE_MW].high * t.high_us * 1e-6;
    add_cores(p, &t);
    return t;
}

/* Layers, a second copy, head and embedding, cache. */
static double memory_of(const struct npu_model *m, const struct mode *mode)
{
    double bytes[3];
    npu_memory(m, PROMPT + TOKENS, bytes);
    if (mode->bytes_per_weight) bytes[0] = layer_weights(m) * mode->bytes_per_weight;
    if (mode->cpu) bytes[0] += layer_weights(m) * INT4_BITS_X10 / 80;
    return bytes[0] + bytes[1] + bytes[2];
}

/* Both ends of what is modelled twice. */
static struct modelled joined(const struct modelled *low, const struct modelled *high)
{
    return (struct modelled){low->low_us, high->high_us, low->low_mj, high->high_mj, "", ""};
}

static json_t *json_of_modes(const struct npu_bench *b, const struct soc_profile *p)
{
    json_t *all = json_array();
    for (int i = 0; i < NPU_TMAN_MODELS; i++)
        for (int j = 0; j < N_MODES; j++) {
            const struct mode *mode = &modes[j];
            struct npu_pass decode[2], prompt[2];
            int bad = mode->of_bitnet >= 0 && mode->of_bitnet != (i == NPU_TMAN_BITNET);
            for (int end = 0; end < 2 && !bad; end++) {
                struct npu_model m = model_in(&npu_tman_models[i], mode, end);
                bad = npu_decode_pass(b->counts, p, &m, 1, KEYS, &decode[end]) ||
                      npu_prefill(b->counts, p, &m, PROMPT, &prompt[end]);
            }
            if (bad) continue;
            struct npu_model m = model_in(&npu_tman_models[i], mode, 0);
            struct modelled token = joined(&decode[0].whole, &decode[1].whole),
                            whole = joined(&prompt[0].whole, &prompt[1].whole);
            if (mode->cpu) token = on_cpu(p, &m), add_cores(p, &whole);
            json_array_append_new(
                all, json_pack("{s:s, s:s, s:b, s:o, s:o, s:i, s:f}", "model", m.name, "mode", mode->name, "on_cpu",
                         mode->cpu, "decode", npu_json_time(&token), "prompt", npu_json_time(&whole), "prompt_tokens",
                         PROMPT, "memory_bytes", memory_of(&m, mode)));
        }
    return all;
}

/* ---- one product's parts, and shared tables ---- */

/* [TMAN Figure 5]: 4096x4096, one row, 4 bits in groups of 64. */
static json_t *json_of_parts(const struct npu_bench *b, const struct soc_profile *p)
{
    enum { K = 4096 };
    json_t *all = json_array(), *row = json_object();
    const struct npu_count *tiles = npu_count_of(b->counts, "gemm", modes[FOUR_BITS].weights, 1, K, K),
                           *lookup = npu_count_of(b->counts, "dequant", modes[FOUR_BITS].weights, 1, K, K),
                           *convert = npu_count_of(b->counts, "dequant", "bit planes, convert", 1, K, K),
                           *nibbles = npu_count_of(b->counts, "dequant", "convert", 1, K, K),
                           *direct = npu_count_of(b->counts, "lookup", modes[FOUR_BITS].weights, 1, K, K);
    json_array_append_new(all, row);
    if (!tiles || !lookup || !convert || !nibbles || !direct) return all;
    const struct {
        const char *name;
        struct npu_work work;
    } parts[] = {{"memory by DMA", {.dma_bytes = tiles->work.dma_bytes}},
        {"memory by vector loads", {.l2_bytes = tiles->work.dma_bytes}},
        {"dequantization, planes by moving bits", {.packets = convert->work.packets}},
        {"dequantization, nibbles by conversion", {.packets = nibbles->work.packets}},
        {"dequantization, planes by lookup", {.packets = lookup->work.packets}},
        {"tiles", {.tile_pairs = tiles->work.tile_pairs, .tile_calls = tiles->work.tile_calls}},
        {"lookups, without dequantization", {.packets = direct->work.packets}}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct npu_work both[2] = {parts[i].work, parts[i].work};
        put_time(row, parts[i].name, p, both, 1);
    }
    return all;
}

/* [TMAN Figure 11]: tables of a layer, made for each product or once for those that share rows. */
static json_t *json_of_sharing(const struct npu_bench *b)
{
    json_t *all = json_array();
    for (int i = 0; i < NPU_TMAN_MODELS; i++)
        for (int j = 0; j <= TERNARY; j++) {
            if (modes[j].of_bitnet != (i == NPU_TMAN_BITNET)) continue;
            const struct npu_model *m = &npu_tman_models[i];
            const int d = m->d_model, kv = m->n_kv_head * m->d_head;
            const int products[][3] = {{d, d, 2}, {d, kv, 2}, {d, m->d_ff, 2}, {m->d_ff, d, 1}};
            const struct npu_count *narrow = npu_count_of(b->counts, "tables", "lut16", 1, d, 0),
                                   *wide = npu_count_of(b->counts, "tables", "lut16", 1, m->d_ff, 0);
            double lookups = 0;
            for (int q = 0; q < 4; q++) {
                const struct npu_count *c =
                    npu_count_of(b->counts, "lookup", modes[j].weights, 1, products[q][0], products[q][1]);
                lookups += c ? products[q][2] * c->work.packets : 0;
            }
            if (!narrow || !wide || lookups <= 0) continue;
            json_array_append_new(
                all, json_pack("{s:s, s:s, s:f, s:f, s:f, s:i}", "model", m->name, "mode", modes[j].name,
                         "lookups_packets", lookups, "tables_packets", 6 * narrow->work.packets + wide->work.packets,
                         "shared_packets", 3 * narrow->work.packets + wide->work.packets, "tables_bytes",
                         (int)npu_lut_bytes((uint32_t)(m->d_ff + NPU_PLANES_K - 1) / NPU_PLANES_K)));
        }
    return all;
}

void npu_json_tman(const struct npu_bench *b, const struct soc_profile *p, json_t *all)
{
    json_object_set_new(all, "mpgemv_modelled", json_of_kernels(b, p, 1));
    json_object_set_new(all, "mpgemm_modelled", json_of_kernels(b, p, TOKENS));
    json_object_set_new(all, "modes_modelled", json_of_modes(b, p));
    json_object_set_new(all, "parts_modelled", json_of_parts(b, p));
    json_object_set_new(all, "tables_counted", json_of_sharing(b));
}
