/* SPDX-License-Identifier: MIT
 *
 * The AMX matmul of K-quants for up to 8 rows: two groups of 16 or 32 inputs per product, so that every group's integer
 * sum comes out by itself and is multiplied by its scale, as gemm_super_avx512.c does.
 *
 * A product's 16 rows are 8 rows of the batch twice: in the first 8 the codes of one group beside zeros, in the others
 * zeros beside the codes of the next group (gemm_i8_amx_pairs_tmpl.h says why).
 *
 *     for two panels, half of the call's apart, each tile of 256 inputs: 4 runs of 8 vectors of codes, each one or
 *     (Q6_K) two pairs of groups, for each panel
 *
 * At step i, product i is scaled, that of i + STORE_AHEAD goes to memory, i + DOT_AHEAD begins, and codes of a later
 * run are unpacked.  A run's codes are kept where those of the run four before were: what is unpacked stays in L1.
 *
 * A group's integer sum nearly always fits 16 bits.  Whether it must, whatever the weights are, is seen from the
 * activations (their `reach`, act_amx.c); then scaling and adding it is one operation instead of three.
 *
 * Needs: the tiles and forms of gemm_super_amx.c, the only one that includes this.
 * Gives: run_few_rows.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_AMX_PAIRS_TMPL_H
#define LUTRA_CPU_X86_GEMM_SUPER_AMX_PAIRS_TMPL_H

enum { FEW = 8, RUNS = 4, SIDES = 2, DOT_AHEAD = 3, STORE_AHEAD = 1, SLOTS = 4, FEW_AHEAD_BYTES = 5120 };

/* Results on their way, codes of np panels, scales of their tile. */
struct few {
    LUTRA_ALIGNED(64) uint8_t dot[2][1024]; /* i32 [group of the pair][row][lane] */
    __m512i code[RUNS][SIDES][16];          /* below 32 and unsigned, or signed */
    struct unpacked tile[SIDES];            /* but for its codes */
    __m512 sum[SIDES][FEW];
};

/* A tile of np panels and the inputs it is multiplied with. */
struct pairs {
    const uint8_t *act, *w[SIDES];
};

/* Rows of tile B: the steps of a pair of groups. */
LUTRA_INLINE int pair_steps(struct form f)
{
    return f.codes == SIX_BITS ? 8 : 16;
}

/* Products that a run has codes for. */
LUTRA_INLINE int run_products(struct form f)
{
    return 16 / pair_steps(f);
}

/* Which pair of groups product q of run r is. */
LUTRA_INLINE int pair_of(struct form f, int r, int q)
{
    return step_of(f, r, 0, q) / pair_steps(f);
}

/* By how many runs unpacking is ahead: its stores are done when tiles are loaded. */
LUTRA_INLINE int unpack_ahead(struct form f)
{
    return f.codes == SIX_BITS ? 2 : 3;
}

/* Vectors first .. first + n - 1 of run r of a tile. */
LUTRA_INLINE void unpack_run(struct form f, const uint8_t *w, int r, int first, int n, __m512i code[16])
{
    UNROLL
    for (int v = first; v < first + n; v++) {
        __m512i c[4];
        expand(f, w, r, v, f.codes == SIX_BITS, c);
        code[v] = c[0];
        code[v + 8] = c[1];
    }
}

/* No sum of products of a group leaves 16 bits. */
LUTRA_INLINE bool is_narrow(struct form f, const uint8_t *tail)
{
    const short most = INT16_MAX / (f.codes == FOUR_BITS ? 15 : f.codes == FIVE_BITS ? 31 : 32);
    __m128i reach = _mm_load_si128((const __m128i *)(tail + AMX256_REACH_AT));
    return _mm_movemask_epi8(_mm_cmpgt_epi16(reach, _mm_set1_epi16(most))) == 0;
}

LUTRA_INLINE __m512i pair_scale(struct form f, const struct few *w, const uint8_t *packed, int p, int g)
{
    if (f.codes != SIX_BITS) return w->tile[p].scale[g];
    return _mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *)(packed + scales_at(f) + LANES * g)));
}

/* dot += a group's sums, scaled; narrow: of the sums and scales only the lower halves count. */
LUTRA_INLINE void add_group(struct form f, const uint8_t *from, __m512i scale, bool narrow, __m512i dot[FEW])
{
    if (narrow && f.codes == SIX_BITS) scale = _mm512_and_si512(scale, _mm512_set1_epi32(0xffff));
    UNROLL
    for (int r = 0; r < FEW; r++) {
        __m512i d = _mm512_load_si512(from + 64 * r);
        dot[r] =
            narrow ? _mm512_dpwssd_epi32(dot[r], d, scale) : _mm512_add_epi32(dot[r], _mm512_mullo_epi32(d, scale));
    }
}

/* Begins the product of step i of a tile. */
LUTRA_INLINE void begin_step(struct form f, const struct few *w, const uint8_t *act, int np, int i)
{
    const int r = i / np / run_products(f), q = i / np % run_products(f), rows = pair_steps(f);
    begin_dot(
        i % SLOTS, act + pair_of(f, r, q) * 64 * rows, (size_t)(4 * rows), &w->code[r][i % np][q * rows], np == 2);
}

LUTRA_INLINE void run_step(struct form f, struct few *w, int np, const struct pairs *now, const struct pairs *then,
    int i, bool narrow, __m512i dot[SIDES][FEW])
{
    const int n = RUNS * np * run_products(f), p = i % np, q = i / np % run_products(f), r = i / np / run_products(f);
    const int vectors = 8 / run_products(f), later = r + unpack_ahead(f), lines = (int)(8 * group_bytes(f) + 63) / 64;
    const int pair = pair_of(f, r, q);
    UNROLL
    for (int line = i * lines / n; line < (i + 1) * lines / n; line++) {
        UNROLL
        for (int s = 0; s < np; s++) LUTRA_PREFETCH(now->w[s] + FEW_AHEAD_BYTES + 64 * line);
    }
    unpack_run(f, (later < RUNS ? now : then)->w[p], later % RUNS, q * vectors, vectors, w->code[later % RUNS][p]);
    begin_step(f, w, (i + DOT_AHEAD < n ? now : then)->act, np, (i + DOT_AHEAD) % n);
    store_dot((i + STORE_AHEAD) % SLOTS, w->dot);
    UNROLL
    for (int h = 0; h < 2; h++)
        add_group(f, w->dot[i % 2] + 64 * FEW * h, pair_scale(f, w, now->w[p], p, 2 * pair + h), narrow, dot[p]);
}

/* Adds the products of `now`, whose first DOT_AHEAD are under way, and begins those of `then`. */
LUTRA_INLINE void run_pairs(
    struct form f, struct few *w, int np, const struct pairs *now, const struct pairs *then, bool narrow)
{
    const uint8_t *tail = now->act + 4096;
    __m512i dot[SIDES][FEW];
    UNROLL
    for (int p = 0; p < np; p++) {
        if (f.codes == SIX_BITS) {
            w->tile[p].d = load_f16(now->w[p] + d_at(f));
        } else {
            unpack_scales(f, &w->tile[p], now->w[p]);
        }
        UNROLL
        for (int r = 0; r < FEW; r++) dot[p][r] = _mm512_setzero_si512();
    }
    UNROLL
    for (int i = 0; i < RUNS * np * run_products(f); i++) run_step(f, w, np, now, then, i, narrow, dot);
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int r = 0; r < FEW; r++) {
            __m512 scale = _mm512_mul_ps(w->tile[p].d, broadcast_f32(tail + 4 * r));
            w->sum[p][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[p][r]), scale, w->sum[p][r]);
        }
        if (has_minima(f)) subtract_minima(&w->tile[p], 4, tail + 4 * FEW, tail, FEW, FEW, w->sum[p]);
    }
}

/* Panels panel .. panel + np * n_panel - 1 for all rows, np at a time, n_panel apart. */
LUTRA_INLINE void run_pair_panels(
    struct form f, struct few *w, const struct cpu_gemm_args *a, size_t panel, size_t n_panel, int np)
{
    size_t tiles = a->n_in / TILE_K, n_tile = n_panel * tiles, panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in);
    const uint8_t *packed = (const uint8_t *)a->packed + panel * panel_bytes;
    struct pairs now = {.act = a->act}, then;
    UNROLL
    for (size_t p = 0; p < (size_t)np; p++) {
        now.w[p] = packed + p * n_panel * panel_bytes;
        for (int r = 0; r < unpack_ahead(f); r++) unpack_run(f, now.w[p], r, 0, 8, w->code[r][p]);
    }
    UNROLL
    for (int i = 0; i < DOT_AHEAD; i++) begin_step(f, w, now.act, np, i);
    store_dot(0, w->dot);
    for (size_t t = 0; t < n_tile; t++, now = then) {
        size_t k = t % tiles, next_t = t + 1 < n_tile ? t + 1 : t, next_k = (t + 1) % tiles;
        then.act = (const uint8_t *)a->act + next_k * AMX256_PAIR_BYTES;
        UNROLL
        for (size_t p = 0; p < (size_t)np; p++) {
            then.w[p] = packed + (p * n_panel + next_t / tiles) * panel_bytes + next_t % tiles * 8 * group_bytes(f);
            for (int r = 0; k == 0 && r < FEW; r++) w->sum[p][r] = _mm512_setzero_ps();
            if (k + 2 == tiles) prefetch_outputs(a, panel + p * n_panel + t / tiles, 0, a->n_row);
        }
        if (is_narrow(f, now.act + 4096)) {
            run_pairs(f, w, np, &now, &then, true);
        } else {
            run_pairs(f, w, np, &now, &then, false);
        }
        if (k + 1 < tiles) continue;
        for (size_t p = 0; p < (size_t)np; p++)
            store_panel_avx512(a, panel + p * n_panel + t / tiles, 0, (int)a->n_row, w->sum[p]);
    }
}

LUTRA_INLINE void run_few_rows(struct form f, const struct cpu_gemm_args *a)
{
    struct few w;
    struct amx_shapes shapes = {0};
    size_t half = a->n_panel / 2;
    for (int i = 0; i < 8; i++) {
        if (i == 4 || i == 5) {
            amx_shape(&shapes, i, 16, 4 * pair_steps(f));
        } else {
            amx_shape(&shapes, i, i < 4 ? 16 : pair_steps(f), 64);
        }
    }
    amx_begin(&shapes);
    if (half > 0) run_pair_panels(f, &w, a, a->panel, half, 2);
    if (a->n_panel % 2) run_pair_panels(f, &w, a, a->panel + 2 * half, 1, 1);
    amx_end();
}

#endif
