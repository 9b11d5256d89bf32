/* SPDX-License-Identifier: MIT
 *
 * AMX matmul of the formats with 32-element blocks, for batches of AMX_MIN_ROWS rows and more: the arithmetic and the
 * bits of gemm_i8_avx512.c.
 *
 * Per 32 inputs one TDPBSSD gives the dot products of 16 rows of the batch with the 16 output rows of a panel, and
 * sum = fma(float(dot), scale_w * scale_x, sum) follows.  Codes are made signed when they are unpacked, so the integers
 * are those that the VNNI kernels get from an offset times sum(x).
 *
 *     for each pass of rows, each panel, each tile of 256 inputs, each block of 16 rows: 8 groups of 32 inputs
 *
 * The products run as one pipeline over all of that.  While group j is scaled, the product of group j + STORE_AHEAD
 * goes from its tile register to memory, that of group j + DOT_AHEAD begins, and in the first block of a tile the next
 * tile's group is unpacked.  Up to 8 rows: gemm_i8_amx_pairs_tmpl.h.
 */
#include "cpu/x86/gemm_amx_impl.h"
#include "cpu/x86/gemm_i8_form_impl.h"

enum { GROUPS = 8, DOT_AHEAD = 3, STORE_AHEAD = 1, SLOTS = 4, MAX_ROWS = 16, CODE_BYTES = 512 };

/* A panel's tile of weights: signed codes as the file orders them, 8 steps of 16 rows x 4 inputs; scales. */
struct unpacked {
    LUTRA_ALIGNED(64) uint8_t code[GROUPS][CODE_BYTES];
    __m512 scale[GROUPS], min[GROUPS];
};

/* One tile of the packed weights. */
struct source {
    const uint8_t *w, *ahead; /* ahead: to prefetch meanwhile */
    size_t groups;            /* 8 but for the last tile of a panel */
};

struct work {
    LUTRA_ALIGNED(64) uint8_t dot[2][1024]; /* i32 [row][lane] */
    struct unpacked tile[2];
    __m512 sum[AMX_MAX_BLOCKS][MAX_ROWS];
};

/* Group g of a tile, to signed codes and f32 scales; prefetches. */
LUTRA_INLINE void unpack_group(struct form f, const struct source *t, size_t g, struct unpacked *to)
{
    struct group group = group_at(f, t->w, t->groups, g);
    __m512i table = code_table(f), offset = _mm512_set1_epi8((char)(f.start_shift < 0 ? 0 : 8 << f.start_shift));
    UNROLL
    for (int v = 0; v < 8; v++) {
        __m512i c = load_codes(f, &group, v, table);
        _mm512_store_si512(to->code[g] + STEP_BYTES * v, f.start_shift < 0 ? c : _mm512_sub_epi8(c, offset));
    }
    to->scale[g] = load_scale(f, group.d);
    if (f.scales == F16_SCALE_AND_MIN) to->min[g] = load_f16(group.m);
    UNROLL
    for (size_t i = 0; i < group_bytes(f); i += 64) LUTRA_PREFETCH(t->ahead + g * group_bytes(f) + i);
}

/* sum += dot, scaled, for n rows of a block of `rows`; tail: scales and sums of the record. */
LUTRA_INLINE void add_dot(struct form f, const struct unpacked *t, size_t g, const uint8_t *dot, const uint8_t *tail,
    size_t rows, int n, __m512 *sum)
{
    UNROLL
    for (int r = 0; r < n; r++) {
        __m512 s = _mm512_mul_ps(t->scale[g], broadcast_f32(tail + 4 * r));
        sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(dot + 64 * r)), s, sum[r]);
    }
    if (f.scales != F16_SCALE_AND_MIN) return;
    UNROLL
    for (int r = 0; r < n; r++) {
        sum[r] = _mm512_fmadd_ps(t->min[g], broadcast_f32(tail + 4 * rows + 4 * (size_t)r), sum[r]);
    }
}

/* A block of rows and a tile of weights. */
struct product {
    const uint8_t *a;
    const struct unpacked *tile;
    size_t groups;
};

/* Adds the groups of `now`, whose first DOT_AHEAD products are under way, and begins those of `then`.  While at it,
 * unpacks `source`, if any, into `to`.  The pipeline does not pause at a tile with fewer groups than 8: those it lacks
 * are products that nobody uses. */
LUTRA_INLINE void run_block(struct form f, struct work *w, const struct product *now, const struct product *then, int n,
    const struct source *source, struct unpacked *to, __m512 *out)
{
    const size_t record = MAX_ROWS * AMX32_BYTES;
    size_t unpack = source ? source->groups : 0;
    __m512 sum[MAX_ROWS];
    UNROLL
    for (int r = 0; r < n; r++) sum[r] = out[r];
    for (size_t g = 0; g < GROUPS; g += SLOTS) {
        const uint8_t *a = now->a + g * record, *next_a = g == 0 ? a + SLOTS * record : then->a;
        const uint8_t *b = now->tile->code[g], *next_b = g == 0 ? now->tile->code[SLOTS] : then->tile->code[0];
        UNROLL
        for (size_t u = 0; u < SLOTS; u++) {
            if (g + u < unpack) unpack_group(f, source, g + u, to);
            if (u + DOT_AHEAD < SLOTS) {
                begin_dot(
                    (int)(u + DOT_AHEAD), a + (u + DOT_AHEAD) * record, 32, b + (u + DOT_AHEAD) * CODE_BYTES, false);
            } else {
                size_t d = u + DOT_AHEAD - SLOTS;
                begin_dot((int)d, next_a + d * record, 32, next_b + d * CODE_BYTES, false);
            }
            store_dot((int)((u + STORE_AHEAD) % SLOTS), w->dot);
            if (g + u < now->groups)
                add_dot(f, now->tile, g + u, w->dot[u % 2], a + u * record + 32 * MAX_ROWS, MAX_ROWS, n, sum);
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) out[r] = sum[r];
}

/* Blocks first .. last - 1 of rows, for all panels of the call. */
LUTRA_INLINE void run_pass(struct form f, struct work *w, const struct cpu_gemm_args *a, size_t first, size_t last)
{
    const size_t record = MAX_ROWS * AMX32_BYTES;
    size_t tiles = (a->n_in + TILE_K - 1) / TILE_K, n_tile = tiles * a->n_panel, block = a->n_in / 32 * record;
    size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in), tail_groups = (a->n_in - (tiles - 1) * TILE_K) / 32;
    const uint8_t *act = (const uint8_t *)a->act + first * block;
    const uint8_t *packed = (const uint8_t *)a->packed + a->panel * panel_bytes;
    struct source source = {packed, packed + GROUPS * group_bytes(f), tiles > 1 ? GROUPS : tail_groups};
    struct product now = {act, w->tile, source.groups}, then;
    for (size_t g = 0; g < source.groups; g++) unpack_group(f, &source, g, w->tile);
    UNROLL
    for (int g = 0; g < DOT_AHEAD; g++) begin_dot(g, now.a + (size_t)g * record, 32, now.tile->code[g], false);
    store_dot(0, w->dot);
    for (size_t t = 0; t < n_tile; t++) {
        size_t k = t % tiles, next = t + 1, next_k = next % tiles;
        struct unpacked *to = &w->tile[next % 2];
        source.w = packed + next / tiles * panel_bytes + next_k * GROUPS * group_bytes(f);
        source.ahead = source.w + GROUPS * group_bytes(f);
        source.groups = next == n_tile ? 0 : next_k + 1 < tiles ? GROUPS : tail_groups;
        for (size_t b = first; b < last; b++, now = then) {
            int left = (int)(a->n_row - b * MAX_ROWS);
            __m512 *sum = w->sum[b - first];
            const struct source *unpack = b == first ? &source : NULL;
            then = now;
            then.a += block;
            if (b + 1 == last) then = (struct product){act + next_k * GROUPS * record, to, source.groups};
            for (int r = 0; k == 0 && r < MAX_ROWS; r++) sum[r] = _mm512_setzero_ps();
            if (k + 2 == tiles)
                prefetch_outputs(a, a->panel + t / tiles, b * MAX_ROWS, (size_t)(left < MAX_ROWS ? left : MAX_ROWS));
            if (left <= 8) {
                run_block(f, w, &now, &then, 8, unpack, to, sum);
            } else {
                run_block(f, w, &now, &then, MAX_ROWS, unpack, to, sum);
            }
            if (k + 1 == tiles)
                store_panel_avx512(a, a->panel + t / tiles, b * MAX_ROWS, left < MAX_ROWS ? left : MAX_ROWS, sum);
        }
    }
}

LUTRA_INLINE void run_blocks(struct form f, const struct cpu_gemm_args *a)
{
    struct work w;
    size_t blocks = amx_blocks(a->n_row), pass = amx_pass_blocks(blocks, a->n_in / 32 * MAX_ROWS * AMX32_BYTES);
    struct amx_shapes shapes = {0};
    for (int i = 0; i < 8; i++) amx_shape(&shapes, i, i < 6 ? MAX_ROWS : 8, i == 4 || i == 5 ? 32 : 64);
    amx_begin(&shapes);
    for (size_t b = 0; b < blocks; b += pass) run_pass(f, &w, a, b, b + pass < blocks ? b + pass : blocks);
    amx_end();
}

#include "cpu/x86/gemm_i8_amx_pairs_tmpl.h"

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    if (a->n_row < AMX_MIN_ROWS) {
        a->gemm->run_few(a);
    } else if (a->n_row <= FEW) {
        run_few_rows(f, a);
    } else {
        run_blocks(f, a);
    }
}

#include "cpu/gemm_i8_runs_tmpl.h"

/* The descriptor in the slot, with AMX from AMX_MIN_ROWS rows on. */
static void add_amx(struct cpu_kernels *k, enum quant_type type, const char *name, cpu_gemm_run *run)
{
    amx_over(&k->gemm[type], name, run, cpu_act_bytes_q8x32_amx, cpu_act_row_q8x32_amx);
}

void cpu_gemm_init_i8_amx(struct cpu_kernels *k)
{
    FILL_I8X32(add_amx, k, "16x16_amx");
}
