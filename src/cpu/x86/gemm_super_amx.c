/* SPDX-License-Identifier: MIT
 *
 * AMX matmul of the formats with 256-element blocks, for more than 8 rows (ternary: AMX_MIN_ROWS_TERNARY and more): the
 * arithmetic and the bits of gemm_super_avx512.c.  K-quants up to 8 rows: gemm_super_amx_pairs_tmpl.h.
 *
 * The integer scales of a tile's groups are multiplied into its codes, so that one product per 64 inputs runs through
 * all 256 with no stop at groups.  code * scale does not fit a byte; code * digit does, where
 * scale = digit 0 + 8 digit 1 (+ 64 digit 2), the digits 0 .. 7, or -3 .. 4 for Q6_K's signed codes and scales.  So the
 * integer sum of a tile is one accumulator per digit, added with shifts: exact, and the integer of the VNNI kernel.
 */
#include "cpu/x86/gemm_amx_impl.h"
#include "cpu/x86/gemm_super_form_impl.h"

enum { MAX_DIGITS = 3, MAX_ROWS = 16, STEPS = 64 };

struct work {
    LUTRA_ALIGNED(64) uint8_t dot[MAX_DIGITS][1024]; /* i32 [row][lane] */
    __m512i code[MAX_DIGITS][STEPS];                 /* code * digit, of the current tile */
    struct unpacked tile;
    __m512 sum[AMX_MAX_BLOCKS][MAX_ROWS];
};

LUTRA_INLINE int n_digit(struct form f)
{
    return f.codes == TWO_BITS ? 1 : f.codes == SIX_BITS ? 3 : 2;
}

/* Digit d of 16 scales, in both halves of each lane. */
LUTRA_INLINE __m512i digit_of(struct form f, __m512i scale, int d)
{
    if (f.codes == SIX_BITS) {
        const __m512i three = _mm512_set1_epi32(3), seven = _mm512_set1_epi32(7);
        __m512i low = _mm512_setzero_si512();
        for (int i = 0; i <= d; i++) {
            scale = _mm512_srai_epi32(_mm512_sub_epi32(scale, low), i ? 3 : 0);
            low = _mm512_sub_epi32(_mm512_and_si512(_mm512_add_epi32(scale, three), seven), three);
        }
        scale = d == 2 ? scale : low;
    } else {
        scale = d ? _mm512_srli_epi32(scale, 3) : _mm512_and_si512(scale, _mm512_set1_epi32(7));
    }
    return _mm512_or_si512(_mm512_and_si512(scale, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(scale, 16));
}

/* Bytes times the 16-bit digits of their lanes, modulo 256. */
LUTRA_INLINE __m512i multiply(struct form f, __m512i code, __m512i digit)
{
    __m512i even = _mm512_mullo_epi16(code, digit);
    if (f.codes != SIX_BITS) return even; /* below 256: nothing is carried into the odd bytes */
    __m512i odd = _mm512_mullo_epi16(_mm512_and_si512(code, _mm512_set1_epi16((short)0xff00)), digit);
    return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, even, odd);
}

LUTRA_INLINE void unpack(struct form f, struct work *w, const uint8_t *packed)
{
    struct unpacked *u = &w->tile;
    const __m512i offset = _mm512_set1_epi8(f.codes == SIX_BITS ? 32 : 1);
    const int steps = f.codes == SIX_BITS ? 4 : 8;
    unpack_tile(f, u, packed);
    for (size_t i = 0; i < 8 * group_bytes(f); i += 64) LUTRA_PREFETCH(packed + 8 * group_bytes(f) + i);
    if (f.codes == TWO_BITS) {
        for (int i = 0; i < STEPS; i++) w->code[0][i] = _mm512_sub_epi8(u->code[i], offset);
        return;
    }
    for (int g = 0; g < STEPS / steps; g++) {
        __m512i digit[MAX_DIGITS];
        UNROLL
        for (int d = 0; d < n_digit(f); d++) digit[d] = digit_of(f, u->scale[g], d);
        UNROLL
        for (int i = 0; i < steps; i++) {
            __m512i c = u->code[g * steps + i];
            if (f.codes == SIX_BITS) c = _mm512_sub_epi8(c, offset);
            UNROLL
            for (int d = 0; d < n_digit(f); d++) w->code[d][g * steps + i] = multiply(f, c, digit[d]);
        }
    }
}

/* c[register] += a b, b signed or, for products of unsigned digits, unsigned. */
LUTRA_INLINE void add_product(struct form f, int c)
{
    bool is_signed = f.codes == TWO_BITS || f.codes == SIX_BITS;
    switch (c) {
    case 0:
        if (is_signed) {
            _tile_dpbssd(0, 6, 7);
        } else {
            _tile_dpbsud(0, 6, 7);
        }
        break;
    case 1:
        if (is_signed) {
            _tile_dpbssd(1, 6, 7);
        } else {
            _tile_dpbsud(1, 6, 7);
        }
        break;
    default: _tile_dpbssd(2, 6, 7); break;
    }
}

/* Products of a block of rows with the tile, to w->dot. */
LUTRA_INLINE void multiply_block(struct form f, struct work *w, const uint8_t *a, int rows)
{
    compiler_fence(w);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    UNROLL
    for (int q = 0; q < 4; q++) {
        _tile_loadd(6, a + q * rows * 64, 64);
        UNROLL
        for (int d = 0; d < n_digit(f); d++) {
            _tile_loadd(7, &w->code[d][16 * q], 64);
            add_product(f, d);
        }
    }
    _tile_stored(0, w->dot[0], 64);
    if (n_digit(f) > 1) _tile_stored(1, w->dot[1], 64);
    if (n_digit(f) > 2) _tile_stored(2, w->dot[2], 64);
}

/* sum += the products, scaled; tail: scales and sums of the record. */
LUTRA_INLINE void add_block(struct form f, const struct work *w, const uint8_t *tail, int rows, int n, __m512 *sum)
{
    UNROLL
    for (int r = 0; r < n; r++) {
        __m512i dot = _mm512_load_si512(w->dot[0] + 64 * r);
        UNROLL
        for (int d = 1; d < n_digit(f); d++) {
            __m512i digit = _mm512_load_si512(w->dot[d] + 64 * r);
            dot = _mm512_add_epi32(dot, _mm512_slli_epi32(digit, (unsigned)(3 * d)));
        }
        __m512 scale = _mm512_mul_ps(w->tile.d, broadcast_f32(tail + 4 * r));
        sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, sum[r]);
    }
    if (has_minima(f)) subtract_minima(&w->tile, 4, tail + 4 * rows, tail, (size_t)rows, n, sum);
}

/* Blocks first .. last - 1 of rows, for all panels of the call. */
LUTRA_INLINE void run_pass(
    struct form f, struct work *w, const struct cpu_gemm_args *a, int rows, size_t first, size_t last)
{
    const size_t record = (size_t)rows * AMX256_BYTES;
    size_t tiles = a->n_in / TILE_K, block = tiles * record, panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in);
    for (size_t t = 0; t < tiles * a->n_panel; t++) {
        size_t panel = a->panel + t / tiles, k = t % tiles;
        unpack(f, w, (const uint8_t *)a->packed + panel * panel_bytes + k * 8 * group_bytes(f));
        for (size_t b = first; b < last; b++) {
            const uint8_t *x = (const uint8_t *)a->act + b * block + k * record;
            int left = (int)(a->n_row - b * (size_t)rows);
            __m512 *sum = w->sum[b - first];
            for (int r = 0; k == 0 && r < rows; r++) sum[r] = _mm512_setzero_ps();
            if (k + 2 == tiles) prefetch_outputs(a, panel, b * (size_t)rows, (size_t)(left < rows ? left : rows));
            multiply_block(f, w, x, rows);
            add_block(f, w, x + 256 * rows, rows, rows, sum);
            if (k + 1 == tiles) store_panel_avx512(a, panel, b * (size_t)rows, left < rows ? left : rows, sum);
        }
    }
}

/* With tiles A and C of `rows` rows. */
LUTRA_INLINE void run_rows(struct form f, struct work *w, const struct cpu_gemm_args *a, int rows)
{
    size_t blocks = amx_blocks(a->n_row), pass = amx_pass_blocks(blocks, a->n_in / 256 * (size_t)rows * AMX256_BYTES);
    struct amx_shapes shapes = {0};
    for (int i = 0; i < 8; i++) amx_shape(&shapes, i, i < 7 ? rows : 16, 64);
    amx_begin(&shapes);
    for (size_t b = 0; b < blocks; b += pass) run_pass(f, w, a, rows, b, b + pass < blocks ? b + pass : blocks);
    amx_end();
}

#include "cpu/x86/gemm_super_amx_pairs_tmpl.h"

LUTRA_INLINE void run_all(struct form f, const struct cpu_gemm_args *a)
{
    const size_t least = f.codes == TWO_BITS ? AMX_MIN_ROWS_TERNARY : AMX_MIN_ROWS256;
    struct work w;
    if (a->n_row < least) {
        a->gemm->run_few(a);
    } else if (a->n_row > FEW) {
        run_rows(f, &w, a, MAX_ROWS);
    } else if (f.codes == TWO_BITS) {
        run_rows(f, &w, a, FEW);
    } else {
        run_few_rows(f, a);
    }
}

#include "cpu/gemm_super_runs_tmpl.h"

LUTRA_INLINE void put_over(struct cpu_kernels *k, enum quant_type type, const char *name, cpu_gemm_run *run)
{
    if (type == QUANT_TQ1_0 || type == QUANT_TQ2_0) {
        amx_over(&k->gemm[type], name, run, cpu_act_bytes_ternary_amx, cpu_act_row_ternary_amx);
    } else {
        amx_over(&k->gemm[type], name, run, cpu_act_bytes_q8x256_amx,
            type == QUANT_Q6_K ? cpu_act_row_q6_k_amx : cpu_act_row_q8x256_amx);
    }
}

void cpu_gemm_init_super_amx(struct cpu_kernels *k)
{
    FILL_I8X256(put_over, k, "16x16_amx");
}
