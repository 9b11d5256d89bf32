/* SPDX-License-Identifier: MIT */
#include "sim/tables.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A ratio of two modelled times beside the published one. */
struct comparison {
    const char *table;
    char what[96];
    struct npu_work slow, fast;
    double published_low, published_high; /* low 0: "up to", the most of all rows of the table with the same ratio */
};

enum { COMPARISONS_MAX = 192 };

struct comparisons {
    struct comparison item[COMPARISONS_MAX];
    int n;
};

void npu_compare(struct comparisons *c, const char *table, double low, double high, const struct npu_work *slow,
    const struct npu_work *fast, const char *what, ...)
{
    va_list args;
    if (c->n == COMPARISONS_MAX) return;
    struct comparison *x = &c->item[c->n++];
    *x =
        (struct comparison){.table = table, .slow = *slow, .fast = *fast, .published_low = low, .published_high = high};
    va_start(args, what);
    vsnprintf(x->what, sizeof x->what, what, args);
    va_end(args);
}

/* The one-row product on tiles with another way to fill the tiles: packets of its dequantization exchanged. */
static struct npu_work product(const struct npu_count *gemm, const struct npu_count *own, const struct npu_count *other)
{
    struct npu_work w = gemm->work;
    w.packets += (other ? other->work.packets : 0) - own->work.packets;
    if (other) w.scatters = other->work.scatters, w.dma_bytes = other->work.dma_bytes;
    return w;
}

/* [TTS Figure 15]: GEMV by layout on 8 Gen 3. */
static void layouts(const struct npu_bench *b, struct comparisons *out)
{
    for (int i = 0; i < b->counts->n_row; i++) {
        const struct npu_count *gemm = &b->counts->row[i];
        if (strcmp(gemm->kernel, "gemm") != 0 || strcmp(gemm->kind, "Q4_0") != 0 || gemm->m != 1) continue;
        int k = gemm->k, n = gemm->n;
        const struct npu_count *tile = npu_count_of(b->counts, "dequant", "Q4_0", 1, k, n),
                               *super = npu_count_of(b->counts, "dequant", "supergroup", 1, k, n),
                               *groups = npu_count_of(b->counts, "dequant", "groups not coalesced", 1, k, n),
                               *scatter = npu_count_of(b->counts, "dequant", "conventional, scatter", 1, k, n);
        if (!tile || !super || !groups || !scatter) continue;
        struct npu_work ours = product(gemm, tile, super), none = product(gemm, tile, NULL),
                        by_group = product(gemm, tile, groups), scattered = product(gemm, tile, scatter);
        const char *table = "TTS Figure 15";
        npu_compare(out, table, 9.65, 19.04, &scattered, &ours, "%dx%d: conventional + scatter / supergroup", k, n);
        npu_compare(out, table, 1.82, 3.45, &by_group, &ours, "%dx%d: tile layout, groups alone / supergroup", k, n);
        npu_compare(out, table, 1.27, 1.27, &ours, &none, "%dx%d: supergroup / no dequantization", k, n);
        npu_compare(
            out, table, 1.27, 1.27, &gemm->work, &none, "%dx%d: tile32 (Lutra's default) / no dequantization", k, n);
    }
}

/* Both KV heads of Qwen2.5-1.5B, a thread each. */
static struct npu_work two_heads(const struct npu_count *c)
{
    struct npu_work w = c->work;
    w.packets *= 2, w.gathers *= 2;
    w.parts = 2;
    return w;
}

/* [TTS Figure 14]: softmax by way of exp on 8 Gen 3. */
static void softmax(const struct npu_bench *b, struct comparisons *out)
{
    for (int i = 0; i < b->counts->n_row; i++) {
        const struct npu_count *c = &b->counts->row[i];
        if (strcmp(c->kernel, "softmax") != 0 || strcmp(c->kind, "table") != 0) continue;
        const struct npu_count *f16 = npu_count_of(b->counts, "softmax", "f16", c->m, c->k, 0),
                               *f32 = npu_count_of(b->counts, "softmax", "f32", c->m, c->k, 0);
        if (!f16 || !f32) continue;
        struct npu_work table = two_heads(c), half = two_heads(f16), wide = two_heads(f32);
        const int rows = c->m / 6;
        npu_compare(out, "TTS Figure 14", 1.26, 2.19, &wide, &table, "query %d, KV %d: f32 / table", rows, c->k);
        npu_compare(out, "TTS Figure 14", 0, 1.60, &half, &table, "query %d, KV %d: f16 / table", rows, c->k);
    }
}

/* [TMAN 6.5.1, Figure 16]: weights of 4096x4096 to halves in TCM. */
static void preparation(const struct npu_bench *b, struct comparisons *out)
{
    enum { K = 4096 };
    const struct npu_count *ours = npu_count_of(b->counts, "dequant", "Q4_0", 1, K, K),
                           *planes = npu_count_of(b->counts, "dequant", "bit planes, lookups", 1, K, K),
                           *convert = npu_count_of(b->counts, "dequant", "convert", 1, K, K),
                           *slow = npu_count_of(b->counts, "dequant", "bit planes, convert", 1, K, K);
    if (!ours || !planes || !convert || !slow) return;
    struct npu_work table = ours->work, lookups = planes->work, nibbles = convert->work, bits = slow->work;
    struct npu_work full = {.dma_bytes = 2.0 * K * K}, loads = {.l2_bytes = 2.0 * K * K, .packets = K * K / 64.0};
    table.stages = lookups.stages = nibbles.stages = bits.stages = 64; /* chunks of 128 KiB or so */
    const char *table16 = "TMAN Figure 16";
    npu_compare(out, table16, 4.9, 4.9, &full, &table, "LoadFull by DMA / lookup");
    npu_compare(out, table16, 4.9, 4.9, &loads, &table, "LoadFull by vector loads / lookup");
    npu_compare(out, table16, 10.2, 10.2, &nibbles, &table, "ConvertDQ from nibbles / lookup");
    npu_compare(out, table16, 10.2, 10.2, &bits, &table, "ConvertDQ from bit planes / lookup");
    npu_compare(out, table16, 10.2, 10.2, &bits, &lookups, "ConvertDQ / two-level lookup, both from bit planes");
}

/* The profile of the papers' figures, or what there is. */
static const struct soc_profile *published_on(const struct npu_bench *b)
{
    for (int i = 0; i < b->n_profile; i++)
        if (strstr(b->profile[i]->name, "8gen3")) return b->profile[i];
    return b->n_profile ? b->profile[0] : NULL;
}

/* All of them, on the heap; NULL: no memory. */
static struct comparisons *all_comparisons(const struct npu_bench *b)
{
    struct comparisons *out = calloc(1, sizeof *out);
    if (!out) return NULL;
    layouts(b, out);
    softmax(b, out);
    preparation(b, out);
    npu_tman_ratios(b, out);
    return out;
}

/* Width from which an interval says nothing by containing a published value. */
#define DECIDED 2.0

static const char *verdict(struct npu_interval r, double low, double high)
{
    if (r.high < low) return "below";
    if (r.low > high) return "above";
    return r.high < DECIDED * r.low ? "overlaps" : "undecided";
}

/* What is compared with the published value: the ratio, or where that is a maximum, the largest of those with the same
 * name behind their shape. */
static struct npu_interval compared(const struct comparisons *all, int at, const struct soc_profile *p)
{
    const struct comparison *c = &all->item[at];
    struct npu_interval most = npu_cost_ratio(p, &c->slow, &c->fast);
    const char *name = strrchr(c->what, ':');
    for (int i = 0; i < all->n && c->published_low == 0 && name; i++) {
        const char *other = strrchr(all->item[i].what, ':');
        if (all->item[i].published_low != 0 || !other || strcmp(name, other) != 0) continue;
        struct npu_interval r = npu_cost_ratio(p, &all->item[i].slow, &all->item[i].fast);
        most.low = r.low > most.low ? r.low : most.low, most.high = r.high > most.high ? r.high : most.high;
    }
    return most;
}

static const char *verdict_of(const struct comparisons *all, int at, const struct soc_profile *p)
{
    const struct comparison *c = &all->item[at];
    return verdict(
        compared(all, at, p), c->published_low > 0 ? c->published_low : c->published_high, c->published_high);
}

static json_t *json_of_count(const struct npu_bench *b, const struct npu_count *c)
{
    json_t *times = json_object(), *row;
    for (int i = 0; i < b->n_profile; i++) {
        struct modelled t = model_work(b->profile[i], &c->work);
        json_object_set_new(times, b->profile[i]->name,
            json_pack("{s:f, s:f, s:s, s:s}", "low_us", t.low_us, "high_us", t.high_us, "longest_low", t.longest_low,
                "longest_high", t.longest_high));
    }
    row = json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:o}", "kernel", c->kernel, "kind", c->kind,
        "m", c->m, "k", c->k, "n", c->n, "packets_counted", c->work.packets + c->work.alone, "gathers", c->work.gathers,
        "scatters", c->work.scatters, "dma_bytes", c->work.dma_bytes, "tile_products", c->work.tile_pairs, "modelled",
        times);
    if (c->bound > 0) json_object_set_new(row, "emulator_bound", json_real(c->bound));
    return row;
}

json_t *npu_json_tables(const struct npu_bench *b)
{
    const struct soc_profile *p = published_on(b);
    struct comparisons *all = all_comparisons(b);
    json_t *rows = json_array(), *ratios = json_array();
    if (!all) return NULL;
    for (int i = 0; i < b->counts->n_row; i++) json_array_append_new(rows, json_of_count(b, &b->counts->row[i]));
    for (int i = 0; p && i < all->n; i++) {
        const struct comparison *c = &all->item[i];
        struct npu_interval r = npu_cost_ratio(p, &c->slow, &c->fast);
        json_array_append_new(
            ratios, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:s}", "table", c->table, "ratio", c->what,
                        "modelled_low", r.low, "modelled_high", r.high, "published_low", c->published_low,
                        "published_high", c->published_high, "verdict", verdict_of(all, i, p)));
    }
    free(all);
    json_t *out = json_pack("{s:s, s:s, s:s, s:o, s:o}", "compiler", b->counts->compiler, "cpu", b->counts->cpu,
        "ratios_on", p ? p->name : "", "kernels", rows, "ratios", ratios);
    npu_json_models(b, out);
    if (p) npu_json_tman(b, p, out);
    return out;
}
