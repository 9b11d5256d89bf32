/* SPDX-License-Identifier: MIT
 *
 * Matmul of the formats with 32-element blocks by smmla: class i8x32, the arithmetic of x86/gemm_i8_avx512.c to the
 * bit.
 *
 * A tile is 8 rows x 5 to 8 columns or 16 rows x up to 4: 16 cells of sums and, of one quad at a time, 8 of products.
 */
#include "cpu/arm/gemm_i8_form_impl.h"
#include "cpu/arm/pairs_i8mm_impl.h"

/* 4 bytes of each of a quad's rows as a pair wants them, each twice: for inputs 0-3 and 4-7 of a step. */
LUTRA_INLINE uint8x16_t load_twice_4(const uint8_t *at, int quad, int pair)
{
    uint32x4_t four = vreinterpretq_u32_u8(vld1q_u8(at + 16 * quad));
    return vreinterpretq_u8_u32(pair ? vzip2q_u32(four, four) : vzip1q_u32(four, four));
}

/* Bit 4 of every byte: of single bits that of step u of a pair of rows.  In the file's order bits 2u and 2u + 1 of a
 * row's 4 bytes are those of inputs 0-3 and 4-7. */
LUTRA_INLINE uint8x16_t single_bits(const uint8_t *at, int u, int quad, int pair)
{
    static const int8_t ODD[16] = {0, 0, 0, 0, -1, -1, -1, -1, 0, 0, 0, 0, -1, -1, -1, -1};
    uint8x16_t two = vshlq_u8(load_twice_4(at, quad, pair), vld1q_s8(ODD));
    if (u == 2) return two;
    return u == 0 ? vshlq_n_u8(two, 4) : u == 1 ? vshlq_n_u8(two, 2) : vshrq_n_u8(two, 2);
}

/* Bits 3 and 4 of every byte: the same of two bits, where a row's 4 bytes have two steps. */
LUTRA_INLINE uint8x16_t double_bits(const uint8_t *at, int u, int quad, int pair)
{
    static const int8_t UP[2][16] = {{3, 3, 3, 3, 1, 1, 1, 1, 3, 3, 3, 3, 1, 1, 1, 1},
        {-1, -1, -1, -1, -3, -3, -3, -3, -1, -1, -1, -1, -3, -3, -3, -3}};
    return vshlq_u8(load_twice_4(at + STEP_BYTES * (u / 2), quad, pair), vld1q_s8(UP[u % 2]));
}

/* Codes of step u (8 inputs) of a quad's pair of rows, within int8. */
LUTRA_INLINE int8x16_t load_codes(struct form f, const struct group *g, int u, int quad, int pair, int8x16_t table)
{
    const uint8_t *at = g->code + 32 * quad + 16 * pair;
    if (f.codes == BYTES) return vld1q_s8((const int8_t *)at + PAIR_STEP_BYTES * u);
    if (f.codes == ONE_BIT) return vreinterpretq_s8_u8(vandq_u8(single_bits(g->code, u, quad, pair), vdupq_n_u8(16)));
    if (f.codes == TWO_BITS) return vreinterpretq_s8_u8(vandq_u8(double_bits(g->code, u, quad, pair), vdupq_n_u8(24)));
    uint8x16_t c = vld1q_u8(at + PAIR_STEP_BYTES * (u % 2));
    c = u < 2 ? vandq_u8(c, vdupq_n_u8(15)) : vshrq_n_u8(c, 4);
    if (f.codes == TABLE) return vqtbl1q_s8(table, c);
    if (f.codes == FIVE_BITS) c = vbslq_u8(vdupq_n_u8(16), single_bits(g->bits, u, quad, pair), c);
    return vreinterpretq_s8_u8(c);
}

/* Dot products of a quad and a group. */
LUTRA_INLINE void multiply_quad(struct form f, const struct group *g, struct columns in, int quad, int8x16_t table,
    int32x4_t dot[2 * MAX_CELL_COLUMNS])
{
    const uint8_t *start = in.x + 40 * in.width;
    const int n = in.n, n_cell = cell_columns(n);
    UNROLL
    for (int i = 0; i < n_cell; i++) {
        int32x4_t s = f.start_shift < 0 ? vdupq_n_s32(0)
                      : n == 1          ? start_single(start)
                                        : vld1q_s32((const int32_t *)(const void *)(start + 16 * i));
        if (f.start_shift > 0) s = vshlq_n_s32(s, 1);
        dot[cell_at(0, i, n)] = dot[cell_at(1, i, n)] = s;
    }
    UNROLL
    for (int step = 0; step < 4; step++) {
        int u = step / 2 + step % 2 * 2; /* both nibbles of the same bytes, one after the other */
        const int8x16_t rows[2] = {load_codes(f, g, u, quad, 0, table), load_codes(f, g, u, quad, 1, table)};
        multiply(rows, in.x + 8 * (size_t)u * in.width, n, false, dot);
    }
}

LUTRA_INLINE float32x4_t load_twice(const uint8_t *columns, int i)
{
    return vld1q_f32((const float *)(const void *)columns + 4 * i);
}

/* A group's dot products of quad q of the tile, scaled and added to the sums. */
LUTRA_INLINE void add_quad(struct form f, const struct group *g, struct columns in, int first, int q,
    const int32x4_t dot[2 * MAX_CELL_COLUMNS], float32x4_t sum[TILE_MAX_SUMS])
{
    const uint8_t *scales = in.x + 32 * in.width, *scaled_sums = scales + 16 * in.width;
    const int n = in.n, n_cell = cell_columns(n);
    float32x4_t d = load_scale(f, g->d, first + q), m = d;
    if (f.scales == F16_SCALE_AND_MIN) m = load_f16(g->m + 8 * (first + q));
    if (n == 1) {
        float32x4_t scale = vmulq_f32(d, broadcast_f32(scales));
        sum[q] = vfmaq_f32(sum[q], vcvtq_f32_s32(fold_quad(dot)), scale);
        if (f.scales == F16_SCALE_AND_MIN) sum[q] = vfmaq_f32(sum[q], m, broadcast_f32(scaled_sums));
        return;
    }
    UNROLL
    for (int pair = 0; pair < 2; pair++) {
        float32x4_t rows = pair_rows(d, pair), minima = pair_rows(m, pair);
        UNROLL
        for (int i = 0; i < n_cell; i++) {
            float32x4_t *s = &sum[cell_at(2 * q + pair, i, n)], scale = vmulq_f32(rows, load_twice(scales, i));
            *s = vfmaq_f32(*s, vcvtq_f32_s32(dot[cell_at(pair, i, n)]), scale);
            if (f.scales == F16_SCALE_AND_MIN) *s = vfmaq_f32(*s, minima, load_twice(scaled_sums, i));
        }
    }
}

/* All inputs of a tile's quads for the columns. */
LUTRA_INLINE void run_quads(
    struct form f, const struct cpu_gemm_args *a, size_t panel, size_t row, struct columns in, int first)
{
    const uint8_t *tile = (const uint8_t *)a->packed + panel * cpu_panel_bytes(a->gemm->type, a->n_in);
    int8x16_t table = code_table(f);
    const int n_quad = tile_quads(in.n);
    float32x4_t sum[TILE_MAX_SUMS];
    UNROLL
    for (int i = 0; i < TILE_MAX_SUMS; i++) sum[i] = vdupq_n_f32(0);
    for (size_t left = a->n_in / 32; left > 0;) {
        size_t groups = left < 8 ? left : 8;
        struct group g = group_at(f, tile, groups, 0);
        tile += groups * group_bytes(f);
        left -= groups;
        for (size_t i = 0; i < groups; i++) {
            UNROLL
            for (int q = 0; q < n_quad; q++) {
                int32x4_t dot[2 * MAX_CELL_COLUMNS];
                in.x = reload(in.x, in.n);
                multiply_quad(f, &g, in, first + q, table, dot);
                add_quad(f, &g, in, first, q, dot, sum);
            }
            in.x += PAIRS32_BYTES * in.width;
            next_group(f, &g, i + 1);
        }
    }
    store_cells(a, panel, row, first, in.n, sum);
}

LUTRA_INLINE void run_tile(const void *form, const struct cpu_gemm_args *a, size_t panel, size_t row, struct columns in)
{
    UNROLL
    for (int first = 0; first < QUADS; first += tile_quads(in.n)) {
        run_quads(*(const struct form *)form, a, panel, row, in, first);
    }
}

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    f = in_int8(f);
    run_rows(a, a->n_in / 32 * PAIRS32_BYTES, 8, ACT_COLUMNS, run_tile, &f);
}

#include "cpu/gemm_i8_runs_tmpl.h"

/* W2, W3 and W4 stay with sdot: their zero points start a sum in another way. */
static void run_q1_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q1_0, a);
}

static void run_q2_0(const struct cpu_gemm_args *a)
{
    run_all(FORM_Q2_0, a);
}

static void set_pairs(struct cpu_kernels *k, enum quant_type type, const char *name, cpu_gemm_run *run)
{
    k->gemm[type] = in_pairs(cpu_gemm_i8x32(type, name, run), act_bytes_q8x32_pairs, act_row_q8x32_pairs);
}

void cpu_gemm_init_i8_i8mm(struct cpu_kernels *k)
{
    FILL_I8X32(set_pairs, k, "8x8_i8mm");
    set_pairs(k, QUANT_Q1_0, "gemm_q1_0_q8x32_8x8_i8mm", run_q1_0);
    set_pairs(k, QUANT_Q2_0, "gemm_q2_0_q8x32_8x8_i8mm", run_q2_0);
}
