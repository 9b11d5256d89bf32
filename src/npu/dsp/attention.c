/* SPDX-License-Identifier: MIT
 *
 * FlashAttention [TTS Algorithm 1], one block of 32 rows after the other.  For each segment of 64 keys: keys are
 * transposed into weight tiles, scores come out of the tile machine, the softmax runs row by row on vectors of 64 halves,
 * probabilities go back into tiles, and P V is added to an f32 output that was rescaled first.
 * Keys and values of the next segment are on their way meanwhile.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vexp.h"

enum { ROWS = 32, MINUS_INFINITY = (int16_t)0xfc00, LOWEST = (int16_t)0xfbff };

static const uint16_t ramp_h[64] __attribute__((aligned(128))) = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44,
    45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
static const uint32_t ramp_w[32] __attribute__((aligned(128))) = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
/* Bit i of a lane's 16 for lane i mod 16. */
static const uint16_t bit_h[64] __attribute__((aligned(128))) = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048,
    4096, 8192, 16384, 32768, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 1, 2, 4, 8,
    16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048,
    4096, 8192, 16384, 32768};

struct job {
    const struct npu_op *op;
    struct npu_attention_plan plan;
    uint8_t *tcm;
    const uint8_t *table;
    uint32_t first, n_rows; /* of this block */
    uint32_t n_tiles;       /* of 32 dimensions */
};

/* Rows of Q times the scale, as tiles. */
static void take_query(struct isa *isa, const struct job *j)
{
    const vec scale = v_splat_w((int32_t)j->op->param);
    for (uint32_t r = 0; r < ROWS; r += 2)
        for (uint32_t t = 0; t < j->n_tiles; t++) {
            const uint8_t *x = isa_ptr(j->op->src) + (size_t)(j->first + r) * j->op->src_stride + 128 * t;
            vec even = r < j->n_rows ? v_load(x) : v_zero();
            vec odd = r + 1 < j->n_rows ? v_load(x + j->op->src_stride) : v_zero();
            v_store(j->tcm + j->plan.query + t * TILE_BYTES + r / 2 * 128,
                f16_of_q32(v_pair(q32_mul(odd, scale), q32_mul(even, scale))));
        }
}

/* 32 rows of 32 words, `stride` apart, to their transpose.  A stage interleaves vectors i and i + 16: it turns the index
 * (row, word) of ten bits left by one, and five of them exchange row and word. */
static void transpose(struct isa *isa, uint8_t *dst, const uint8_t *src, uint32_t stride, uint8_t *scratch)
{
    for (int stage = 0; stage < 5; stage++) {
        uint8_t *to = stage == 4 ? dst : scratch + stage % 2 * 4096;
        for (uint32_t i = 0; i < 16; i++) {
            vec2 w = v_shuff2(v_load(src + (i + 16) * stride), v_load(src + i * stride), -4);
            v_store(to + 256 * i, v_lo(w));
            v_store(to + 256 * i + 128, v_hi(w));
        }
        src = to, stride = 128;
    }
    (void)isa;
}

/* Raw keys and values of a segment of n_keys to weight tiles; values past the last key become 0. */
static void make_tiles(struct isa *isa, const struct job *j, uint32_t buffer, uint32_t n_keys)
{
    const uint8_t *keys = j->tcm + j->plan.keys[buffer], *values = j->tcm + j->plan.values[buffer];
    uint32_t row = 2 * j->op->n, half = j->n_tiles * TILE_BYTES;
    for (uint32_t block = 0; block < 2; block++)
        for (uint32_t c = 0; c < row; c += 128)
            transpose(isa, j->tcm + j->plan.key_tiles + block * half + c * 32, keys + block * 32 * row + c, row,
                j->tcm + j->plan.scratch);
    for (uint32_t k = 0; k < NPU_SEGMENT; k += 2)
        for (uint32_t c = 0; c < row; c += 128) {
            vec even = k < n_keys ? v_load(values + k * row + c) : v_zero();
            vec odd = k + 1 < n_keys ? v_load(values + (k + 1) * row + c) : v_zero();
            vec2 w = v_shuff2(odd, even, -2);
            uint8_t *to =
                j->tcm + j->plan.value_tiles + c / 64 * 2 * TILE_BYTES + k / 32 * TILE_BYTES + k % 32 / 2 * 128;
            v_store(to, v_lo(w));
            v_store(to + 2 * TILE_BYTES, v_hi(w));
        }
}

static void product(struct isa *isa, uint8_t *out, const uint8_t *act, const uint8_t *weight, uint32_t n_tiles)
{
    tile_clear();
    tile_mac(act, weight, n_tiles);
    tile_store(out);
    (void)isa;
}

/* Which of the keys first .. first + 63 a row sees. */
ISA_INLINE vmask sees(struct isa *isa, const struct job *j, uint32_t row, uint32_t first)
{
    const vec lane = v_const(ramp_h), bit = v_const(bit_h);
    if (row >= j->n_rows) return v_gt_h(v_zero(), lane);
    const uint8_t *p = isa_ptr(j->op->rows) + (size_t)(j->first + row) * sizeof(struct npu_row);
    uint32_t limit = s_load_u32(p), base = s_load_u32(p + 4);
    limit = limit < j->op->k ? limit : j->op->k;
    uint64_t tree = s_load_u64(p + 8);
    /* The tree's bits for these 64 keys, and none past the last key. */
    if (base >= first)
        tree = base - first < 64 ? tree << (base - first) : 0;
    else
        tree = first - base < 64 ? tree >> (first - base) : 0;
    uint32_t left = j->op->k - first;
    if (left < 64) tree &= ((uint64_t)1 << left) - 1;
    uint32_t low = (uint32_t)tree, high = (uint32_t)(tree >> 32);
    vec bits =
        v_mux(m_first(64), v_mux(m_first(32), v_splat_h((int32_t)(low & 0xffff)), v_splat_h((int32_t)(low >> 16))),
            v_mux(m_first(96), v_splat_h((int32_t)(high & 0xffff)), v_splat_h((int32_t)(high >> 16))));
    uint32_t until = limit < first ? 0 : limit - first < 64 ? limit - first : 64;
    return m_or(v_gt_h(v_splat_h((int32_t)until), lane), v_eq_h(v_and(bits, bit), bit));
}

/* Does a row see all of the keys first .. first + 63?  The common case of long prompts needs no mask. */
ISA_INLINE int sees_all(struct isa *isa, const struct job *j, uint32_t row, uint32_t first)
{
    if (row >= j->n_rows || j->op->k - first < NPU_SEGMENT) return 0;
    uint32_t limit = s_load_u32(isa_ptr(j->op->rows) + (size_t)(j->first + row) * sizeof(struct npu_row));
    return limit >= first + NPU_SEGMENT;
}

/* Largest of 64 halves, in every lane. */
ISA_INLINE vec largest(struct isa *isa, vec x)
{
#pragma GCC unroll 6
    for (int n = 64; n >= 2; n >>= 1) x = f16_max(x, v_ror(x, n));
    (void)isa;
    return x;
}

/* Score tiles to masked rows; updates every row's maximum.  Returns the new maxima, one f32 lane per row. */
static vec mask_scores(struct isa *isa, const struct job *j, uint32_t first)
{
    const vec one = v_splat_h(0x3c00), lane = v_const(ramp_w);
    const uint8_t *tiles = j->tcm + j->plan.score_tiles;
    vec maxima = v_zero();
    for (uint32_t r = 0; r < ROWS; r += 2) {
        vec2 w = v_deal2(v_load(tiles + TILE_BYTES + r / 2 * 128), v_load(tiles + r / 2 * 128), -2);
        for (uint32_t i = 0; i < 2; i++) {
            uint8_t *most = j->tcm + j->plan.most + (r + i) * 128;
            vec s = i ? v_hi(w) : v_lo(w);
            if (!sees_all(isa, j, r + i, first)) s = v_mux(sees(isa, j, r + i, first), s, v_splat_h(MINUS_INFINITY));
            vec m = f16_max(v_load(most), largest(isa, s));
            v_store(j->tcm + j->plan.scores + (r + i) * 128, s);
            v_store(most, m);
            vec wide = f32_of_q32(v_lo(q32_mul_f16(m, one)));
            maxima = v_mux(v_eq_w(lane, v_splat_w((int32_t)(r + i))), wide, maxima);
        }
    }
    return maxima;
}

/* Scores to probabilities, row by row. */
static void exponentials(struct isa *isa, const struct job *j)
{
    const uint8_t *scores = j->tcm + j->plan.scores, *most = j->tcm + j->plan.most;
    uint8_t *probs = j->tcm + j->plan.probs;
    for (uint32_t i = 0; i < ROWS * 128; i += 128) {
        vec x = f16_sub(v_load(scores + i), v_load(most + i));
        if (j->op->kind == NPU_EXP_TABLE)
            v_gather_h(probs + i, j->table, EXP_TABLE_BYTES, v_asl_h(x, 1));
        else
            v_store(probs + i, j->op->kind == NPU_EXP_F16 ? v_exp_half(isa, x) : v_exp_wide(isa, x));
    }
}

/* Probabilities to tiles; returns their sums, one f32 lane per row. */
static vec pack_probs(struct isa *isa, const struct job *j)
{
    const vec one = v_splat_h(0x3c00), lane = v_const(ramp_w);
    const uint8_t *probs = j->tcm + j->plan.probs;
    uint8_t *tiles = j->tcm + j->plan.prob_tiles;
    vec sums = v_zero();
    for (uint32_t r = 0; r < ROWS; r += 2) {
        vec even = v_load(probs + r * 128), odd = v_load(probs + r * 128 + 128);
        vec2 w = v_shuff2(odd, even, -2), e = q32_mul_f16(even, one), o = q32_mul_f16(odd, one);
        v_store(tiles + r / 2 * 128, v_lo(w));
        v_store(tiles + TILE_BYTES + r / 2 * 128, v_hi(w));
        vec sum = v_sum_w(isa, f32_of_q32(q32_add_qq(v_lo(e), v_hi(e))));
        sums = v_mux(v_eq_w(lane, v_splat_w((int32_t)r)), sum, sums);
        sum = v_sum_w(isa, f32_of_q32(q32_add_qq(v_lo(o), v_hi(o))));
        sums = v_mux(v_eq_w(lane, v_splat_w((int32_t)r + 1)), sum, sums);
    }
    return sums;
}

/* Output of 32 dimensions: times each row's factor, plus P V. */
static void accumulate(struct isa *isa, const struct job *j, uint32_t t, const uint8_t *factors)
{
    const vec one = v_splat_h(0x3c00);
    const uint8_t *tile = j->tcm + j->plan.out_tile;
    for (uint32_t r = 0; r < ROWS; r += 2) {
        uint8_t *even = j->tcm + j->plan.out + r * 4 * j->op->n + 128 * t, *odd = even + 4 * j->op->n;
        vec2 add = q32_mul_f16(v_load(tile + r / 2 * 128), one);
        vec a = q32_mul(v_load(even), v_splat_w((int32_t)s_load_u32(factors + 4 * r)));
        vec b = q32_mul(v_load(odd), v_splat_w((int32_t)s_load_u32(factors + 4 * r + 4)));
        v_store(even, f32_of_q32(q32_add_qq(a, v_lo(add))));
        v_store(odd, f32_of_q32(q32_add_qq(b, v_hi(add))));
    }
    (void)isa;
}

static uint32_t fetch(struct isa *isa, const struct job *j, uint32_t segment)
{
    const uint8_t *s = isa_ptr(j->op->weights) + (size_t)segment * sizeof(struct npu_segment);
    uint32_t bytes = NPU_SEGMENT * 2 * j->op->n, buffer = segment % 2;
    dma_start_1d(j->tcm + j->plan.keys[buffer], isa_ptr(s_load_u32(s)), bytes);
    return dma_start_1d(j->tcm + j->plan.values[buffer], isa_ptr(s_load_u32(s + 4)), bytes);
}

/* One segment: returns the new maxima; *sums becomes the new sums. */
static vec step(struct isa *isa, const struct job *j, uint32_t segment, vec maxima, vec *sums)
{
    uint32_t first = segment * NPU_SEGMENT, half = j->n_tiles * TILE_BYTES;
    uint8_t *scores = j->tcm + j->plan.score_tiles, *factors = j->tcm + j->plan.scratch;
    make_tiles(isa, j, segment % 2, j->op->k - first);
    for (uint32_t i = 0; i < 2; i++)
        product(
            isa, scores + i * TILE_BYTES, j->tcm + j->plan.query, j->tcm + j->plan.key_tiles + i * half, j->n_tiles);
    vec next = mask_scores(isa, j, first), factor = v_exp(isa, f32_sub(maxima, next));
    /* Where nothing was seen before, the clamped exponential of a large difference is not 0 but meets sums of 0. */
    exponentials(isa, j);
    *sums = f32_add(f32_mul(*sums, factor), pack_probs(isa, j));
    v_store(factors, factor);
    for (uint32_t t = 0; t < j->n_tiles; t++) {
        product(isa, j->tcm + j->plan.out_tile, j->tcm + j->plan.prob_tiles,
            j->tcm + j->plan.value_tiles + t * 2 * TILE_BYTES, 2);
        accumulate(isa, j, t, factors);
    }
    return next;
}

/* Divides by the sums; a row that saw nothing is 0. */
static void finish(struct isa *isa, const struct job *j, vec sums)
{
    uint8_t *factors = j->tcm + j->plan.scratch;
    v_store(factors, v_mux(f32_gt(sums, v_zero()), v_reciprocal(isa, sums), v_zero()));
    for (uint32_t r = 0; r < j->n_rows; r++) {
        vec factor = v_splat_w((int32_t)s_load_u32(factors + 4 * r));
        uint8_t *y = isa_ptr(j->op->dst) + (size_t)(j->first + r) * j->op->dst_stride;
        for (uint32_t i = 0; i < 4 * j->op->n; i += 128)
            v_store(y + i, f32_mul(v_load(j->tcm + j->plan.out + r * 4 * j->op->n + i), factor));
    }
}

uint32_t npu_attention(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct job j = {
        .op = op, .tcm = isa_ptr(machine->tcm_start), .table = isa_ptr(machine->tcm_start), .n_tiles = op->n / 32};
    if (op->kind > NPU_EXP_F32) return NPU_BAD_OP;
    if (op->kind == NPU_EXP_TABLE && machine->tcm_kept < EXP_TABLE_BYTES) return NPU_NO_ROOM;
    if (!op->n || op->n % 64) return NPU_BAD_SHAPE;
    if (npu_attention_plan(op->n, machine->tcm_kept, machine->tcm_bytes, &j.plan)) return NPU_NO_ROOM;
    uint32_t n_segments = (op->k + NPU_SEGMENT - 1) / NPU_SEGMENT;
    for (j.first = 0; j.first < op->m; j.first += ROWS) {
        j.n_rows = op->m - j.first < ROWS ? op->m - j.first : ROWS;
        uint32_t ticket = fetch(isa, &j, 0);
        take_query(isa, &j);
        for (uint32_t i = 0; i < ROWS * 128; i += 128) v_store(j.tcm + j.plan.most + i, v_splat_h(LOWEST));
        for (uint32_t i = 0; i < ROWS * 4 * op->n; i += 128) v_store(j.tcm + j.plan.out + i, v_zero());
        vec maxima = v_splat_w((int32_t)0xc77fe000), sums = v_zero(); /* -65504 */
        for (uint32_t s = 0; s < n_segments; s++) {
            dma_wait(ticket);
            if (s + 1 < n_segments) ticket = fetch(isa, &j, s + 1);
            maxima = step(isa, &j, s, maxima, &sums);
        }
        finish(isa, &j, sums);
    }
    return NPU_OK;
}
