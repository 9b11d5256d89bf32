/* SPDX-License-Identifier: MIT
 *
 * The AMX matmul of K-quants for up to 8 rows: two groups of 16 or 32 inputs per product, so that every group's integer
 * sum comes out by itself and is multiplied by its scale, as gemm_super_avx512.c does.
 *
 * A product's 16 rows are 8 rows of the batch twice: in the first 8 the codes of one group beside zeros, in the others
 * zeros beside the codes of the next group (gemm_i8_amx_pairs_impl.h says why).
 *
 *     for two panels, half of the call's apart, each tile of 256 inputs: 4 or 8 pairs of groups, for each panel
 *
 * While product i is scaled, that of i + STORE_AHEAD goes to memory, i + DOT_AHEAD begins, and a part of the next tile is
 * unpacked.
 *
 * Included by gemm_super_amx.c only.
 */
#ifndef LUTRA_CPU_X86_GEMM_SUPER_AMX_PAIRS_IMPL_H
#define LUTRA_CPU_X86_GEMM_SUPER_AMX_PAIRS_IMPL_H

enum { FEW = 8, DOT_AHEAD = 3, STORE_AHEAD = 1, SLOTS = 4 };

/* Results on their way, and the tiles of np panels: this one and the next. */
struct few {
    LUTRA_ALIGNED(64) uint8_t dot[2][1024]; /* i32 [group of the pair][row][lane] */
    struct unpacked tile[2][PANELS];
    __m512 sum[PANELS][FEW];
};

LUTRA_INLINE int pair_steps(struct form f)
{
    return f.codes == SIX_BITS ? 8 : 16;
}

/* Part j of a tile, as many vectors as a pair of groups has codes for, to signed codes; prefetches. */
LUTRA_INLINE void unpack_part(struct form f, const uint8_t *w, size_t j, struct unpacked *to)
{
    const int pairs = 64 / pair_steps(f), vectors = 64 / vector_codes(f) / pairs;
    const size_t bytes = 8 * group_bytes(f) / (size_t)pairs;
    const __m512i offset = _mm512_set1_epi8(f.codes == SIX_BITS ? 32 : 0);
    const int lines = ((int)bytes + 63) / 64;
    const int r = (int)j * vectors / 8, first = (int)j * vectors % 8;
    __m512i *const at = to->code + step_of(f, r, first, 0);
    UNROLL
    for (int v = 0; v < vectors; v++) {
        __m512i code[4];
        UNROLL
        for (int line = v * lines / vectors; line < (v + 1) * lines / vectors; line++)
            LUTRA_PREFETCH(w + AHEAD_BYTES + j * bytes + 64 * (size_t)line);
        expand(f, w, r, first + v, code);
        UNROLL
        for (int q = 0; q < 2; q++)
            at[v + step_of(f, 0, 0, q)] =
                f.codes == SIX_BITS ? _mm512_sub_epi8(code[q], offset) : plain_code(f, code, q);
    }
}

/* dot += the pair's two groups, scaled. */
LUTRA_INLINE void add_pair(const struct unpacked *t, size_t j, const uint8_t *from, __m512i dot[FEW])
{
    UNROLL
    for (size_t h = 0; h < 2; h++) {
        UNROLL
        for (size_t r = 0; r < FEW; r++) {
            __m512i d = _mm512_load_si512(from + 64 * (FEW * h + r));
            dot[r] = _mm512_add_epi32(dot[r], _mm512_mullo_epi32(d, t->scale[2 * j + h]));
        }
    }
}

/* A tile of np panels and the inputs it is multiplied with. */
struct pairs {
    const uint8_t *act;
    struct unpacked *tile;
};

/* Adds the products of `now`, whose first DOT_AHEAD are under way, and begins those of `then`, unpacked meanwhile from
 * next[np]. */
LUTRA_INLINE void run_pairs(struct form f, struct few *w, int np, const struct pairs *now, const struct pairs *then,
    const uint8_t *next[PANELS])
{
    const size_t n = (size_t)(64 / pair_steps(f) * np), a_bytes = (size_t)(4 * pair_steps(f)),
                 step = SLOTS / (size_t)np;
    const uint8_t *tail = now->act + 4096;
    __m512i dot[PANELS][FEW];
    UNROLL
    for (int p = 0; p < np; p++) {
        unpack_scales(f, &then->tile[p], next[p]);
        UNROLL
        for (int r = 0; r < FEW; r++) dot[p][r] = _mm512_setzero_si512();
    }
    for (size_t base = 0, j0 = 0; base < n; base += SLOTS, j0 += step) {
        bool last = base + SLOTS == n;
        const uint8_t *act = now->act + j0 * 16 * a_bytes, *next_act = last ? then->act : act + step * 16 * a_bytes;
        const struct unpacked *tile = last ? then->tile : now->tile;
        size_t code = j0 * (size_t)pair_steps(f), next_code = last ? 0 : code + step * (size_t)pair_steps(f);
        UNROLL
        for (size_t u = 0; u < SLOTS; u++) {
            size_t j = j0 + u / (size_t)np, p = u % (size_t)np, b = (u + DOT_AHEAD) % SLOTS, k = b / (size_t)np;
            unpack_part(f, next[p], j, &then->tile[p]);
            if (u + DOT_AHEAD < SLOTS) {
                begin_dot((int)b, act + k * 16 * a_bytes, a_bytes,
                    &now->tile[b % (size_t)np].code[code + k * (size_t)pair_steps(f)], np == 2);
            } else {
                begin_dot((int)b, next_act + k * 16 * a_bytes, a_bytes,
                    &tile[b % (size_t)np].code[next_code + k * (size_t)pair_steps(f)], np == 2);
            }
            store_dot((int)((u + STORE_AHEAD) % SLOTS), w->dot);
            add_pair(&now->tile[p], j, w->dot[u % 2], dot[p]);
        }
    }
    UNROLL
    for (int p = 0; p < np; p++) {
        UNROLL
        for (int r = 0; r < FEW; r++) {
            __m512 scale = _mm512_mul_ps(now->tile[p].d, broadcast_f32(tail + 4 * r));
            w->sum[p][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[p][r]), scale, w->sum[p][r]);
        }
        if (f.codes != SIX_BITS) subtract_minima(&now->tile[p], tail + 4 * FEW, tail, FEW, FEW, w->sum[p]);
    }
}

/* Panels panel .. panel + np * n_panel - 1 for all rows, np at a time, n_panel apart. */
LUTRA_INLINE void run_pair_panels(
    struct form f, struct few *w, const struct cpu_gemm_args *a, size_t panel, size_t n_panel, int np)
{
    size_t tiles = a->n_in / TILE_K, n_tile = n_panel * tiles, panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in);
    const uint8_t *packed = (const uint8_t *)a->packed + panel * panel_bytes, *next[PANELS];
    struct pairs now = {a->act, w->tile[0]}, then;
    UNROLL
    for (size_t p = 0; p < (size_t)np; p++) {
        const uint8_t *from = packed + p * n_panel * panel_bytes;
        unpack_scales(f, &now.tile[p], from);
        for (size_t j = 0; j < (size_t)(64 / pair_steps(f)); j++) unpack_part(f, from, j, &now.tile[p]);
    }
    UNROLL
    for (int i = 0; i < DOT_AHEAD; i++)
        begin_dot(i, now.act + i / np * 64 * pair_steps(f), (size_t)(4 * pair_steps(f)),
            &now.tile[i % np].code[i / np * pair_steps(f)], np == 2);
    store_dot(0, w->dot);
    for (size_t t = 0; t < n_tile; t++, now = then) {
        size_t k = t % tiles, next_t = t + 1 < n_tile ? t + 1 : t, next_k = (t + 1) % tiles;
        then = (struct pairs){(const uint8_t *)a->act + next_k * AMX256_PAIR_BYTES, w->tile[(t + 1) % 2]};
        UNROLL
        for (size_t p = 0; p < (size_t)np; p++) {
            next[p] = packed + (p * n_panel + next_t / tiles) * panel_bytes + next_t % tiles * 8 * group_bytes(f);
            for (int r = 0; k == 0 && r < FEW; r++) w->sum[p][r] = _mm512_setzero_ps();
            if (k + 2 == tiles) prefetch_outputs(a, panel + p * n_panel + t / tiles, 0, a->n_row);
        }
        run_pairs(f, w, np, &now, &then, next);
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
