/* SPDX-License-Identifier: MIT
 *
 * Bit planes' tiling is a rule: panels (npu_planes_layout), chunks of lookups (npu_lookup_tiles) and of products on
 * tiles (npu_gemm_plan).  Here it is compared with the best of all choices within [TMAN 4.1]'s constraints, over random
 * widths, groups and shapes: modelled time from counted packets, of 6 threads at the better end of the profile and 4 at
 * the worse one, since one copy of the weights serves both.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "division.h"
#include "npu/wire/planes.h"

enum { SHAPES = 1000, TCM = 8 << 20, KEPT = 65536, TILE = 2048, STRIDE_MOST = 65535 /* of DMA */ };

static uint64_t seed;

static uint32_t draw(uint32_t least, uint32_t most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return least + (uint32_t)(seed >> 33) % (most - least + 1);
}

/* Packets of one row by lookup for 128x128 weights, and for each group's run of blocks; of 128x128 weights to tiles:
 * lines through what bench/npu/counts.json has. */
struct shape {
    struct npu_weights w;
    uint32_t m;
    double looked_up, run, to_tiles;
};

static struct shape draw_shape(void)
{
    struct shape s = {.run = 170};
    uint32_t bits = draw(1, 4), group = bits == 4 ? 32u << draw(0, 2) : 64u << draw(0, 1), minima = draw(0, 1);
    assert_int_equal(
        npu_planes_layout(NPU_PLANES(bits, group, minima), 128 * draw(4, 112), 128 * draw(2, 112), &s.w), 0);
    s.m = draw(0, 1) ? draw(1, 8) : draw(9, 256);
    s.looked_up = 55 * bits + 15 * npu_planes_groups(s.w.kind);
    s.to_tiles = 64 * (3.5 + bits + minima * (group == 128 ? 5 : 6));
    return s;
}

/* Both ends together; [0]: of 6 threads. */
static double time_of(const struct npu_profile *profile, const struct npu_work work[2])
{
    struct npu_profile p = *profile;
    p.figure[NPU_VECTOR_THREADS] = (struct npu_interval){6, 6};
    double better = npu_cost_time(&p, &work[0]).us.low;
    p.figure[NPU_VECTOR_THREADS] = (struct npu_interval){4, 4};
    return better + npu_cost_time(&p, &work[1]).us.high;
}

/* Of the rule over the best. */
struct result {
    int n, close; /* within 3 % */
    double most, sum;
};

static void add(struct result *r, double ratio)
{
    r->n++, r->close += ratio <= 1.03, r->sum += ratio;
    if (ratio > r->most) r->most = ratio;
}

/* ---- lookups ---- */

/* One row on n threads: the busiest one's packets; DMA brings chunk_bytes at a time, 0: what the rule says. */
static struct npu_work lookup_work(const struct shape *s, uint32_t panel, uint32_t chunk_bytes, uint32_t n)
{
    const struct npu_weights *w = &s->w;
    const uint32_t blocks = npu_planes_blocks(w), threads = n < blocks ? n : blocks;
    const struct npu_shares parts = npu_shares(blocks, threads);
    struct npu_work x = {.dma_bytes = w->bytes, .l2_bytes = 4.0 * w->n, .meets = 1};
    for (uint32_t t = 0; t < threads; t++) {
        uint32_t end = npu_share_start(parts, t + 1), chunks = 0;
        double packets = 0;
        for (uint32_t at = npu_share_start(parts, t), next; at < end; at = next) {
            next = (at / panel + 1) * panel < end ? (at / panel + 1) * panel : end;
            uint32_t each = chunk_bytes ? chunk_bytes / ((next - at) * w->unit_bytes) : npu_lookup_tiles(w, next - at);
            each = each ? each : 1;
            chunks += (w->n_units + each - 1) / each;
            packets += w->n_units * ((next - at) * s->looked_up + npu_planes_groups(w->kind) * s->run);
        }
        if (chunks > x.stages) x.stages = chunks;
        if (packets * n > x.packets) x.packets = packets * n;
    }
    x.starts = x.stages;
    return x;
}

static double lookup_time(const struct npu_profile *p, const struct shape *s, uint32_t panel, uint32_t chunk_bytes)
{
    const struct npu_work work[2] = {lookup_work(s, panel, chunk_bytes, 6), lookup_work(s, panel, chunk_bytes, 4)};
    return time_of(p, work);
}

/* (1) leaves no choice: 16 tables are in 4 registers.  (2), (3): a unit is 128 k x 128 outputs in both products. */
static double best_lookup(const struct npu_profile *p, const struct shape *s)
{
    double best = 0;
    for (uint32_t panel = 1; panel * s->w.unit_bytes <= STRIDE_MOST; panel++)
        for (uint32_t bytes = 8192; bytes <= NPU_LOOKUP_CHUNK; bytes *= 2) {
            double us = lookup_time(p, s, panel, bytes);
            if (!best || us < best) best = us;
        }
    return best;
}

/* ---- products on tiles ---- */

static double tiles_time(const struct npu_profile *p, const struct shape *s, const struct npu_gemm_plan *plan)
{
    const struct npu_weights *w = &s->w;
    struct npu_work x = {.dma_bytes = (double)w->bytes * plan->n_passes, .l2_bytes = 4.0 * s->m * (w->k + w->n)};
    x.packets = s->to_tiles * w->n_units * npu_planes_blocks(w) * plan->n_passes + s->m * (w->k + w->n) / 16.0;
    x.tile_pairs = (double)((s->m + 31) / 32) * (w->k / 32) * w->n_blocks;
    npu_divide_plan(w, plan, s->m, &x);
    return time_of(p, (const struct npu_work[]){x, x});
}

/* (4), of all stages' buffers. */
static int fits(const struct npu_weights *w, uint32_t rows, uint32_t chunk, uint32_t lead)
{
    uint64_t packed = ((uint64_t)chunk / 4 * w->block_bytes + TILE - 1) / TILE * TILE;
    return KEPT + (uint64_t)rows * w->k * 64 + (lead + 2) * packed +
               (lead + 1) * ((uint64_t)chunk * w->k * 64 + (uint64_t)chunk * rows * TILE) <=
           TCM;
}

static double best_tiles(const struct npu_profile *p, const struct shape *s)
{
    double best = 0;
    uint32_t all = (s->m + 31) / 32;
    for (uint32_t lead = 1; lead <= NPU_LEAD_MAX; lead++)
        for (uint32_t rows = 1; rows <= all; rows++)
            for (uint32_t chunk = 4; chunk < s->w.n_blocks + 4 && fits(&s->w, rows, chunk, lead); chunk += 4) {
                struct npu_gemm_plan plan = {.lead = lead, .row_blocks = rows, .chunk_blocks = chunk};
                plan.n_passes = (all + rows - 1) / rows, plan.n_chunks = (s->w.n_blocks + chunk - 1) / chunk;
                double us = tiles_time(p, s, &plan);
                if (!best || us < best) best = us;
            }
    return best;
}

static void the_rule_is_close_to_the_best_choice(void **state)
{
    (void)state;
    static struct npu_profile p;
    struct lutra_error err = {0};
    struct result lookup = {0}, tiles = {0};
    if (npu_profile_load(&p, LUTRA_SOURCE_DIR "/profiles/snapdragon-8gen3.json", &err)) fail_msg("%s", err.what);
    seed = 17;
    for (int i = 0; i < SHAPES; i++) {
        struct shape s = draw_shape();
        struct npu_gemm_plan plan;
        add(&lookup, lookup_time(&p, &s, s.w.panel, 0) / best_lookup(&p, &s));
        double best = best_tiles(&p, &s);
        assert_int_equal(npu_gemm_plan(&s.w, s.m, KEPT, TCM, &plan) == 0, best > 0);
        if (best > 0) add(&tiles, tiles_time(&p, &s, &plan) / best);
    }
    printf(
        "within 3 %% of the best: lookups %d of %d (mean %.3f, worst %.2f), tiles %d of %d (mean %.3f, worst %.2f)\n",
        lookup.close, lookup.n, lookup.sum / lookup.n, lookup.most, tiles.close, tiles.n, tiles.sum / tiles.n,
        tiles.most);
    assert_true(lookup.close >= 0.93 * lookup.n && lookup.sum <= 1.01 * lookup.n && lookup.most <= 1.25);
    assert_true(tiles.close >= 0.93 * tiles.n && tiles.sum <= 1.01 * tiles.n && tiles.most <= 1.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_rule_is_close_to_the_best_choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
