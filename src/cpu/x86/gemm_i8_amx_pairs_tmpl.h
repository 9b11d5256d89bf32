/* SPDX-License-Identifier: MIT
 *
 * The AMX matmul of gemm_i8_amx.c for up to 8 rows: two groups of 32 inputs per product, two panels at a time.
 *
 * A result's way from its tile to memory holds port 5 for 16 cycles, whether 8 or 16 rows are in it.  So a product's 16
 * rows are 8 rows of the batch twice: in the first 8 the codes of one group beside zeros, in the others zeros beside
 * the codes of the next group.
 *
 *     for each panel of the first half of the unit with its fellow of the second half, each tile of 256 inputs: 4 pairs
 *     of groups, for each panel
 *
 * The pipeline is that of gemm_i8_amx.c, with products in the order of the line above.
 *
 * Needs: the tiles and forms of gemm_i8_amx.c, the only one that includes this.
 * Gives: run_few_rows.
 */
#ifndef LUTRA_CPU_X86_GEMM_I8_AMX_PAIRS_TMPL_H
#define LUTRA_CPU_X86_GEMM_I8_AMX_PAIRS_TMPL_H

enum { PAIRS = GROUPS / 2, FEW = 8 };

/* Results on their way, and the tiles of np panels: this one and the next. */
struct few {
    LUTRA_ALIGNED(64) uint8_t dot[2][1024]; /* i32 [group of the pair][row][lane] */
    struct unpacked tile[2][PANELS];
};

/* Begins product i of a tile: pair i / np of panel i % np. */
LUTRA_INLINE void begin_pair(int np, size_t i, const uint8_t *act, const struct unpacked *tile)
{
    size_t j = i / (size_t)np;
    begin_dot((int)(i % SLOTS), act + j * AMX32_PAIR_BYTES, 64, tile[i % (size_t)np].code[2 * j], np == 2);
}

/* Groups 2j and 2j + 1, those there are, of each panel's next tile. */
LUTRA_INLINE void unpack_pair(struct form f, const struct source *t, size_t j, struct unpacked *to)
{
    if (2 * j < t->groups) unpack_group(f, t, 2 * j, to);
    if (2 * j + 1 < t->groups) unpack_group(f, t, 2 * j + 1, to);
}

/* One tile of np panels, whose first DOT_AHEAD products are under way; begins those of the next and unpacks it. */
LUTRA_INLINE void run_pairs(struct form f, struct few *w, int np, const uint8_t *act, size_t groups,
    const uint8_t *next_act, const struct source *next, size_t now, __m512 out[PANELS][FEW])
{
    const struct unpacked *tile = w->tile[now];
    struct unpacked *to = w->tile[!now];
    const size_t n = PAIRS * (size_t)np;
    __m512 sum[PANELS][FEW];
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int r = 0; r < FEW; r++) sum[p][r] = out[p][r];
    }
    UNROLL
    for (size_t i = 0; i < n; i++) {
        size_t j = i / (size_t)np, p = i % (size_t)np;
        unpack_pair(f, &next[p], j, &to[p]);
        if (i + DOT_AHEAD < n) {
            begin_pair(np, i + DOT_AHEAD, act, tile);
        } else {
            begin_pair(np, i + DOT_AHEAD - n, next_act, to);
        }
        store_dot((int)((i + STORE_AHEAD) % SLOTS), w->dot);
        const uint8_t *tail = act + j * AMX32_PAIR_BYTES + 1024;
        UNROLL
        for (size_t h = 0; h < 2; h++) {
            if (2 * j + h < groups)
                add_dot(f, &tile[p], 2 * j + h, w->dot[i % 2] + h * 512, tail + h * 64, FEW, FEW, sum[p]);
        }
    }
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int r = 0; r < FEW; r++) out[p][r] = sum[p][r];
    }
}

/* Tile t of the p-th part of the run's panels, counted over all of the part; no groups after the last. */
LUTRA_INLINE struct source few_source(
    struct form f, const uint8_t *packed, size_t panel_bytes, size_t n_group, size_t t, size_t n_tile, size_t p)
{
    size_t tiles = (n_group + GROUPS - 1) / GROUPS, k = t % tiles, left = n_group - k * GROUPS;
    const uint8_t *w = packed + (t / tiles + p * (n_tile / tiles)) * panel_bytes + k * GROUPS * group_bytes(f);
    return (struct source){w, w + AHEAD_BYTES, t == n_tile ? 0 : left < GROUPS ? left : GROUPS};
}

/* Panels panel .. panel + n_panel - 1, in np equal parts side by side, for all rows. */
LUTRA_INLINE void run_few_panels(
    struct form f, struct few *w, const struct cpu_gemm_args *a, size_t panel, size_t n_panel, int np)
{
    size_t n_group = a->n_in / 32, tiles = (n_group + GROUPS - 1) / GROUPS, n_tile = n_panel / (size_t)np * tiles;
    size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in);
    const uint8_t *packed = (const uint8_t *)a->packed + panel * panel_bytes, *act = a->act;
    struct source next[PANELS];
    __m512 sum[PANELS][FEW];
    UNROLL
    for (int p = 0; p < np; p++) {
        next[p] = few_source(f, packed, panel_bytes, n_group, 0, n_tile, (size_t)p);
        for (size_t j = 0; j < PAIRS; j++) unpack_pair(f, &next[p], j, &w->tile[0][p]);
    }
    UNROLL
    for (size_t i = 0; i < DOT_AHEAD; i++) begin_pair(np, i, act, w->tile[0]);
    store_dot(0, w->dot);
    for (size_t t = 0; t < n_tile; t++) {
        size_t k = t % tiles, groups = next[0].groups, next_k = (t + 1) % tiles;
        UNROLL
        for (int p = 0; p < np; p++) {
            next[p] = few_source(f, packed, panel_bytes, n_group, t + 1, n_tile, (size_t)p);
            for (int r = 0; k == 0 && r < FEW; r++) sum[p][r] = _mm512_setzero_ps();
        }
        run_pairs(f, w, np, act + k * PAIRS * AMX32_PAIR_BYTES, groups, act + next_k * PAIRS * AMX32_PAIR_BYTES, next,
            t % 2, sum);
        if (k + 1 < tiles) continue;
        for (size_t p = 0; p < (size_t)np; p++)
            store_panel_avx512(a, panel + t / tiles + p * (n_panel / (size_t)np), 0, (int)a->n_row, sum[p]);
    }
}

LUTRA_INLINE void run_few_rows(struct form f, const struct cpu_gemm_args *a)
{
    struct few w;
    struct amx_shapes shapes = {0};
    size_t two = a->n_panel / 2 * 2;
    for (int i = 0; i < 8; i++) amx_shape(&shapes, i, 16, 64);
    amx_begin(&shapes);
    if (two > 0) run_few_panels(f, &w, a, a->panel, two, 2);
    if (two < a->n_panel) run_few_panels(f, &w, a, a->panel + two, 1, 1);
    amx_end();
}

#endif
