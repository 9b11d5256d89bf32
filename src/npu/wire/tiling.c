/* SPDX-License-Identifier: MIT */
#include "npu/wire/tiling.h"

#include "npu/wire/planes.h"

/* One end of the profile.  Cycles, and hundredths of a cycle. */
struct end {
    uint32_t threads;
    uint32_t packet;  /* hundredths */
    uint32_t dma, l2; /* hundredths for 256 bytes */
    uint32_t start, meet, call;
    int stalls; /* vector threads wait for what they load, else it runs beside them */
};
static const struct end ends[] = {{6, 100, 627, 1176, 30, 100, 10, 0}, {4, 204, 634, 1869, 230, 400, 48, 1}};
enum { ENDS = 2, NEAR = 40, TILE_CYCLES = 8, ROWS_MOST = (1 << 14) - 1, CHUNK_MOST = 1 << 16 /* of npu_gemm_tiling */ };

/* What a tiling asks of it. */
struct work {
    uint64_t packets; /* of the busiest thread */
    uint64_t dma_bytes, l2_bytes, tile_pairs, tile_calls;
    uint32_t starts, stages, hands, lead, meets;
};

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint32_t ceil_of(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Hundredths of a cycle: the longest stage hides the others but for one chunk; a phase is handed on twice. */
static uint64_t time_of(const struct end *e, const struct work *w)
{
    const uint64_t l2 = w->l2_bytes * e->l2 / 256, dma = w->dma_bytes * e->dma / 256;
    const uint64_t tiles = 100 * (w->tile_pairs * TILE_CYCLES + w->tile_calls * e->call);
    uint64_t vector = w->packets * e->packet + 100 * (uint64_t)w->starts * e->start;
    vector = e->stalls ? vector + l2 : more(vector, l2);
    uint64_t longest = more(more(vector, dma), tiles), sum = vector + dma + tiles;
    if (w->lead) longest = more(longest, (vector + tiles + 200 * (uint64_t)w->hands * e->meet) / (1 + w->lead));
    return longest + (sum > longest ? (sum - longest) / w->stages : 0) + 100 * (uint64_t)w->meets * e->meet;
}

/* ---- lookups ---- */

uint32_t npu_tiling_looked_up(uint32_t kind)
{
    const uint32_t minima = npu_planes_offset(kind) != 0, few = npu_planes_group(kind) == 32;
    return 55 * npu_planes_bits(kind) + npu_planes_groups(kind) * (10 + 9 * minima + 17 * few);
}

uint32_t npu_tiling_run(uint32_t kind)
{
    return 170 * npu_planes_groups(kind);
}

/* Of a thread: blocks in panels, of which the first and the last may be cut by its share. */
struct load {
    uint64_t packets;
    uint32_t chunks;
};

static void add_run(const struct npu_weights *w, uint32_t blocks, uint32_t times, struct load *load)
{
    if (!blocks || !times) return;
    load->chunks += times * ceil_of(w->n_units, npu_lookup_tiles(w, blocks));
    load->packets += (uint64_t)times * w->n_units * (blocks * npu_tiling_looked_up(w->kind) + npu_tiling_run(w->kind));
}

static struct load load_of(const struct npu_weights *w, uint32_t first, uint32_t end)
{
    struct load load = {0, 0};
    const uint32_t from = ceil_of(first, w->panel), to = end / w->panel; /* whole panels */
    if (from > to) {
        add_run(w, end - first, 1, &load);
        return load;
    }
    add_run(w, from * w->panel - first, 1, &load);
    add_run(w, w->panel, to - from, &load);
    add_run(w, end - to * w->panel, 1, &load);
    return load;
}

/* Packets of all threads and time, both ends together. */
struct cost {
    uint64_t packets, time;
};

static void add_end(const struct npu_weights *w, const struct end *e, struct cost *cost)
{
    const uint32_t blocks = npu_planes_blocks(w), n = e->threads < blocks ? e->threads : blocks;
    const struct npu_shares parts = npu_shares(blocks, n);
    struct work x = {.dma_bytes = w->bytes, .l2_bytes = 4 * (uint64_t)w->n, .meets = 1};
    for (uint32_t t = 0; t < n; t++) {
        struct load load = load_of(w, npu_share_start(parts, t), npu_share_start(parts, t + 1));
        x.packets = more(x.packets, load.packets);
        cost->packets += load.packets;
        x.starts = load.chunks > x.starts ? load.chunks : x.starts;
        x.stages = !t || load.chunks < x.stages ? load.chunks : x.stages;
    }
    cost->time += time_of(e, &x);
}

static struct cost cost_of(const struct npu_weights *w)
{
    struct cost cost = {0, 0};
    for (int i = 0; i < ENDS; i++) add_end(w, &ends[i], &cost);
    return cost;
}

static void start(struct npu_weights *w)
{
    const uint32_t blocks = npu_planes_blocks(w), most = NPU_PLANES_STRIDE / w->unit_bytes;
    w->panel = most < blocks ? most : blocks;
    w->chunk = NPU_LOOKUP_CHUNK / w->unit_bytes;
}

/* From the widest panel and the largest chunk to one unit; 0: that was the last. */
static int step(struct npu_weights *w)
{
    if (--w->chunk) return 1;
    w->chunk = NPU_LOOKUP_CHUNK / w->unit_bytes;
    return --w->panel != 0;
}

/* Of those that are hardly slower than the fastest the one with fewest packets: they are energy. */
void npu_tiling_of_lookups(struct npu_weights *w)
{
    uint64_t least = UINT64_MAX;
    uint32_t panel = 0, chunk = 0;
    struct cost best = {UINT64_MAX, UINT64_MAX}, cost;
    start(w);
    do {
        cost = cost_of(w);
        least = cost.time < least ? cost.time : least;
    } while (step(w));
    start(w);
    do {
        cost = cost_of(w);
        if (cost.time > least + least / NEAR || cost.packets > best.packets) continue;
        if (cost.packets == best.packets && cost.time >= best.time) continue;
        best = cost, panel = w->panel, chunk = w->chunk;
    } while (step(w));
    w->panel = panel, w->chunk = chunk;
}

/* ---- products on tiles ---- */

uint32_t npu_tiling_to_tiles(uint32_t kind)
{
    const uint32_t bits = npu_planes_bits(kind);
    if (npu_planes_form(kind) == NPU_PLANES_MINIMA) return 600 + 73 * bits;
    if (npu_planes_form(kind) == NPU_PLANES_ZEROS) return bits == 4 ? 850 : 584;
    return npu_planes_group(kind) == 128 && bits < 3 ? 250 + 41 * bits : 428 + 46 * bits;
}

static uint64_t tiles_time(const struct npu_weights *w, uint32_t m, const struct npu_gemm_plan *p, const struct end *e)
{
    const uint32_t units = p->chunk_blocks / 4 * w->n_units;
    const uint64_t packets = (uint64_t)npu_tiling_to_tiles(w->kind) * w->n_units * npu_planes_blocks(w) * p->n_passes +
                             (uint64_t)m * (w->k + w->n) / 16;
    const uint64_t pairs = (uint64_t)ceil_of(m, 32) * w->n_blocks;
    return time_of(e, &(struct work){.packets = packets * ceil_of(units, e->threads) / units,
                          .dma_bytes = (uint64_t)w->bytes * p->n_passes,
                          .l2_bytes = 4 * (uint64_t)m * (w->k + w->n),
                          .tile_pairs = pairs * (w->k / 32),
                          .tile_calls = pairs * (2 + ceil_of(w->k, 1024)),
                          .starts = p->n_chunks * p->n_passes,
                          .stages = p->n_chunks * p->n_passes,
                          .hands = (p->n_chunks + p->lead - 1) * p->n_passes,
                          .lead = p->lead,
                          .meets = 3 * p->n_passes});
}

int npu_tiling_of_tiles(
    const struct npu_weights *w, uint32_t m, uint32_t first_byte, uint32_t tcm_bytes, struct npu_gemm_plan *out)
{
    const uint32_t all = ceil_of(m, 32);
    struct npu_gemm_plan p;
    uint64_t least = UINT64_MAX;
    for (uint32_t lead = NPU_LEAD_MAX; lead; lead--)
        for (uint32_t rows = all < ROWS_MOST ? all : ROWS_MOST; rows; rows--) {
            if (rows != ceil_of(all, ceil_of(all, rows))) continue; /* as many passes as with fewer */
            for (uint32_t chunk = 4; chunk < w->n_blocks + 4 && chunk < CHUNK_MOST; chunk += 4) {
                if (npu_gemm_plan_of(w, m, npu_gemm_tiling(lead, rows, chunk), first_byte, tcm_bytes, &p)) break;
                uint64_t time = tiles_time(w, m, &p, &ends[0]) + tiles_time(w, m, &p, &ends[1]);
                if (time < least) least = time, *out = p;
            }
        }
    return least < UINT64_MAX ? 0 : -1;
}
