/* SPDX-License-Identifier: MIT
 *
 * FlashAttention [TTS Algorithm 1] over the paged cache, one tile of up to 32 rows after the other: the query heads of
 * one KV head times the rows of a group.  Everything up to the probabilities is transposed: keys down, rows across.
 * For each segment of 64 keys:
 *
 *     S^T = K Q^T   keys are the activations, so that a tile of them is pairs of keys interleaved; queries are the
 *                   weights, transposed once
 *     P^T           maxima and sums of a row run down the tile: one vector operation per vector, none across lanes
 *     O  += P V     probabilities are transposed in registers, 32 x 32 at a time; values are weights, interleaved as
 *                   keys are
 *
 * The output is f32 and rescaled as maxima grow.  Keys and values of the next segment are on their way meanwhile.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vexp.h"
#include "npu/dsp/vpart.h"

enum { ROWS = NPU_ATTENTION_ROWS, TILE_VECS = 16, MINUS_INFINITY = (int16_t)0xfc00 };

#define FOUR(i) 0x04040404u * (i), 0x04040404u * (i + 1), 0x04040404u * (i + 2), 0x04040404u * (i + 3)
/* Each byte's address without its place in the word. */
static const uint32_t word_of[32]
    __attribute__((aligned(128))) = {FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)};
#undef FOUR

struct job {
    const struct npu_op *op;
    struct npu_attention_plan plan;
    uint8_t *tcm;
    const uint8_t *table;                              /* of exponentials */
    const uint8_t *segments, *runs, *masks;            /* NPU pointers of the pass's tables */
    uint32_t n_heads, n_kv_heads;                      /* query heads of a KV head */
    uint32_t row, n_batch, n_rows, segment, n_segment; /* the group; n_rows = n_batch * n_heads rows of the tile */
    uint32_t kv_head;
    uint32_t n_tiles;       /* of 32 dimensions that hold anything */
    uint8_t batch_of[ROWS]; /* row of the group that a row of the tile belongs to: NPUs do not divide */
};

/* What a tile's rows know so far, one f32 lane per row. */
struct rows {
    vec most, sum;
};

/* Row r of the tile in a matrix of rows of heads. */
ISA_INLINE uint32_t place(const struct job *j, uint32_t r, uint32_t stride)
{
    uint32_t batch = j->batch_of[r], head = r - batch * j->n_heads;
    return (j->row + batch) * stride + 4 * j->op->n * (j->kv_head * j->n_heads + head);
}

/* Dimensions 32 t .. 32 t + 31 of row r of Q; those past the last and rows past the last are 0. */
ISA_INLINE vec query(struct isa *isa, const struct job *j, uint32_t r, uint32_t t)
{
    if (r >= j->n_rows || t >= j->n_tiles) return v_zero();
    const uint8_t *x = isa_ptr(j->op->src) + place(j, r, j->op->src_stride) + 128 * t;
    uint32_t left = 4 * j->op->n - 128 * t;
    if (j->op->n % 32 == 0) return v_load(x);
    return left < 128 ? v_mux(m_first(left), v_loadu(x), v_zero()) : v_loadu(x);
}

/* 32 vectors of 32 words to their transpose; x becomes scratch.  A stage interleaves vectors i and i + 16: it turns the
 * index (row, word) of ten bits left by one, and five of them exchange row and word. */
static void transpose(struct isa *isa, uint8_t *restrict dst, uint8_t *restrict x, uint8_t *restrict scratch)
{
    uint8_t *const at[] = {x, scratch, x, scratch, x, dst};
    for (int stage = 0; stage < 5; stage++)
        for (uint32_t i = 0; i < 16; i++) {
            vec2 w = v_shuff2(v_load(at[stage] + (i + 16) * 128), v_load(at[stage] + i * 128), -4);
            v_store(at[stage + 1] + 256 * i, v_lo(w));
            v_store(at[stage + 1] + 256 * i + 128, v_hi(w));
        }
    (void)isa;
}

/* Rows of Q times the scale, as weights: pairs of dimensions down, rows across. */
static void take_query(struct isa *isa, const struct job *j)
{
    const vec scale = v_splat_w((int32_t)j->op->param);
    uint8_t *rows = j->tcm + j->plan.scratch;
    for (uint32_t t = 0; t < j->n_tiles; t += 2) {
        for (uint32_t r = 0; r < ROWS; r++)
            v_store(rows + r * 128,
                v_halves(isa, f32_mul(query(isa, j, r, t + 1), scale), f32_mul(query(isa, j, r, t), scale)));
        transpose(isa, j->tcm + j->plan.query + t * TILE_BYTES, rows, rows + ROWS * 128);
    }
}

/* Rows a and b of 64 halves, next ones `stride` further, to two tiles: a pair interleaved is a vector of each. */
ISA_INLINE void interleave(struct isa *isa, uint8_t *restrict lo, uint8_t *restrict hi, const uint8_t *restrict a,
    const uint8_t *restrict b, uint32_t stride)
{
#pragma GCC unroll 2
    for (uint32_t i = 0; i < TILE_VECS; i++) {
        vec2 w = v_shuff2(v_load(b + i * stride), v_load(a + i * stride), -2);
        v_store(lo + 128 * i, v_lo(w));
        v_store(hi + 128 * i, v_hi(w));
    }
    (void)isa;
}

/* Raw keys and values of a segment to tiles.  Vector i of a tile holds keys i and i + 16, or values 2 i and 2 i + 1. */
static void make_tiles(struct isa *isa, const struct job *j, uint32_t buffer)
{
    uint32_t row = 2 * j->plan.n, tiles = j->plan.n / 32 * TILE_BYTES;
    for (uint32_t block = 0; block < 2; block++) {
        const uint8_t *keys = j->tcm + j->plan.keys[buffer] + block * 32 * row;
        const uint8_t *values = j->tcm + j->plan.values[buffer] + block * 32 * row;
        uint8_t *k = j->tcm + j->plan.key_tiles + block * tiles, *v = j->tcm + j->plan.value_tiles + block * TILE_BYTES;
        for (uint32_t c = 0; c < row; c += 128, k += 2 * TILE_BYTES, v += 4 * TILE_BYTES) {
            interleave(isa, k, k + TILE_BYTES, keys + c, keys + 16 * row + c, row);
            interleave(isa, v, v + 2 * TILE_BYTES, values + c, values + row + c, 2 * row);
        }
    }
}

static void product(struct isa *isa, uint8_t *out, const uint8_t *act, const uint8_t *weight, uint32_t n_tiles)
{
    tile_clear();
    tile_mac(act, weight, n_tiles);
    tile_store(out);
    (void)isa;
}

/* A segment's masks; the keys that any row of the group sees, and those that all see. */
static const uint8_t *masks_of(struct isa *isa, const struct job *j, uint32_t segment, uint64_t *any, uint64_t *all)
{
    const uint8_t *masks = j->masks + 8 * (size_t)s_load_u32(j->segments + segment * sizeof(struct npu_segment) + 8);
    *any = 0, *all = ~(uint64_t)0;
    for (uint32_t i = 0; i < j->n_batch; i++) {
        uint64_t mask = s_load_u64(masks + 8 * i);
        *any |= mask, *all &= mask;
    }
    (void)isa;
    return masks;
}

/* Values of keys that nobody sees become 0: what stands there may be no number, and its probability is 0. */
static void clear_unseen(struct isa *isa, const struct job *j, uint32_t buffer, uint64_t any)
{
    uint8_t *values = j->tcm + j->plan.values[buffer];
    for (uint32_t k = 0; k < NPU_SEGMENT; k++, values += 2 * j->plan.n)
        for (uint32_t c = 0; !(any >> k & 1) && c < 2 * j->plan.n; c += 128) v_store(values + c, v_zero());
    (void)isa;
}

/* Scores of keys that a row does not see become -inf.  The halves of a word are keys i and i + 16 of a row: its mask's
 * bits i and i + 16. */
static void mask_scores(struct isa *isa, const struct job *j, const uint8_t *masks)
{
    uint8_t *words = j->tcm + j->plan.scratch, *scores = j->tcm + j->plan.score_tiles;
    for (uint32_t r = 0; r < ROWS; r++) {
        uint64_t mask = r < j->n_rows ? s_load_u64(masks + 8 * j->batch_of[r]) : 0;
        s_store_u32(words + 4 * r, (uint32_t)mask);
        s_store_u32(words + 128 + 4 * r, (uint32_t)(mask >> 32));
    }
    for (uint32_t i = 0; i < 2 * TILE_VECS; i++) {
        const vec bit = v_splat_h(1 << i % TILE_VECS);
        vec seen = v_and(v_load(words + i / TILE_VECS * 128), bit);
        v_store(scores + i * 128, v_mux(v_eq_h(seen, bit), v_load(scores + i * 128), v_splat_h(MINUS_INFINITY)));
    }
    (void)isa;
}

/* cap * tanh(s / cap) of all scores. */
static void cap_scores(struct isa *isa, const struct job *j)
{
    const vec cap = v_splat_w((int32_t)j->op->param2), inverse = v_reciprocal(isa, cap);
    uint8_t *scores = j->tcm + j->plan.score_tiles;
    for (uint32_t i = 0; i < 2 * TILE_BYTES; i += 128) {
        vec2 w = q32_mul_f16(v_load(scores + i), v_splat_h(0x3c00));
        vec even = v_tanh(isa, f32_mul(f32_of_q32(v_lo(w)), inverse)),
            odd = v_tanh(isa, f32_mul(f32_of_q32(v_hi(w)), inverse));
        v_store(scores + i, f16_of_q32(v_pair(q32_mul(odd, cap), q32_mul(even, cap))));
    }
}

/* The larger of each row's largest score and `most`. */
static vec largest(struct isa *isa, const struct job *j, vec most)
{
    const uint8_t *scores = j->tcm + j->plan.score_tiles;
    vec m = v_load(scores);
#pragma GCC unroll 31
    for (uint32_t i = 1; i < 2 * TILE_VECS; i++) m = f16_max(m, v_load(scores + i * 128));
    vec2 w = q32_mul_f16(m, v_splat_h(0x3c00));
    (void)isa;
    return f32_max(most, f32_max(f32_of_q32(v_lo(w)), f32_of_q32(v_hi(w))));
}

/* Scores to probabilities, in the same places of their own buffer; four vectors at a time. */
static void exponentials(struct isa *isa, const struct job *j, vec most)
{
    const uint8_t *restrict scores = j->tcm + j->plan.score_tiles;
    uint8_t *restrict probs = j->tcm + j->plan.probs;
    const uint8_t *table = j->table;
    uint32_t way = j->op->kind;
    vec wide = q32_add(most, v_zero());
    const vec m = f16_of_q32(v_pair(wide, wide));
    for (uint32_t i = 0; i < TILE_VECS / 2; i++, scores += 512, probs += 512) {
        vec x[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) x[k] = f16_sub(v_load(scores + 128 * k), m);
        if (way == NPU_EXP_TABLE) {
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) /* by the bits without the sign, in bytes */
                v_gather_h(probs + 128 * k, table, EXP_TABLE_BYTES, v_add_h(x[k], x[k]));
            continue;
        }
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            v_store(probs + 128 * k, way == NPU_EXP_F16 ? v_exp_half(isa, x[k]) : v_exp_wide(isa, x[k]));
    }
}

/* A tile of probabilities to its transpose; returns each row's sum.
 *
 *     vector, half lane:   p3 p2 p1 p0, r4 r3 r2 r1 r0 h   of key 16 h + p and row r
 *     four exchanges:      r4 r3 r2 r1, p3 p2 p1 p0 r0 h
 *     v_deal_h:            r4 r3 r2 r1, h p3 p2 p1 p0 r0 */
static vec turn_tile(struct isa *isa, uint8_t *restrict tile, const uint8_t *restrict probs)
{
    const vec one = v_splat_h(0x3c00);
    vec x[TILE_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < TILE_VECS; i++) x[i] = v_load(probs + 128 * i);
    vec2 w = q32_mul_f16(x[0], one);
    vec sum = q32_add_qq(v_lo(w), v_hi(w));
#pragma GCC unroll 15
    for (int i = 1; i < TILE_VECS; i++) {
        w = q32_mul_f16(x[i], one);
        sum = q32_add_qq(sum, q32_add_qq(v_lo(w), v_hi(w)));
    }
#pragma GCC unroll 4
    for (int bit = 8; bit; bit >>= 1)
#pragma GCC unroll 16
        for (int i = 0; i < TILE_VECS; i++)
            if (!(i & bit)) {
                w = v_shuff2(x[i | bit], x[i], 8 * bit);
                x[i] = v_lo(w), x[i | bit] = v_hi(w);
            }
#pragma GCC unroll 16
    for (int i = 0; i < TILE_VECS; i++) v_store(tile + 128 * i, v_deal_h(x[i]));
    (void)isa;
    return f32_of_q32(sum);
}

/* Lane r in all lanes; words: word_of. */
ISA_INLINE vec spread(struct isa *isa, vec x, vec words, uint32_t r)
{
    (void)isa;
    return v_delta(x, v_xor(words, v_splat_w((int32_t)(0x04040404u * r))));
}

/* Output: times each row's factor, plus P V; 64 dimensions of two rows at a time. */
static void accumulate(struct isa *isa, const struct job *j, vec factor)
{
    const vec one = v_splat_h(0x3c00), words = v_const(word_of);
    uint32_t row = 4 * j->plan.n, n_rows = j->n_rows;
    for (uint32_t c = 0; c < row; c += 256) {
        uint8_t *even = j->tcm + j->plan.out + c;
        const uint8_t *tile = j->tcm + j->plan.out_tiles + c / 128 * TILE_BYTES;
        for (uint32_t r = 0; r < n_rows; r += 2, even += 2 * row, tile += 128) {
            uint8_t *odd = even + row;
            vec fe = spread(isa, factor, words, r), fo = spread(isa, factor, words, r + 1);
            vec2 a = q32_mul_f16(v_load(tile), one), b = q32_mul_f16(v_load(tile + TILE_BYTES), one);
            vec e0 = q32_mul(v_load(even), fe), e1 = q32_mul(v_load(even + 128), fe);
            vec o0 = q32_mul(v_load(odd), fo), o1 = q32_mul(v_load(odd + 128), fo);
            v_store(even, f32_of_q32(q32_add_qq(e0, v_lo(a))));
            v_store(odd, f32_of_q32(q32_add_qq(o0, v_hi(a))));
            v_store(even + 128, f32_of_q32(q32_add_qq(e1, v_lo(b))));
            v_store(odd + 128, f32_of_q32(q32_add_qq(o1, v_hi(b))));
        }
    }
}

/* n rows of halves from memory to rows of the plan's length. */
static uint32_t fetch_rows(struct isa *isa, const struct job *j, uint8_t *to, const uint8_t *from, uint32_t n)
{
    uint32_t bytes = 2 * j->op->n;
    if (j->plan.n == j->op->n) return dma_start_1d(to, from, n * bytes);
    return dma_start_2d(to, 2 * j->plan.n, from, bytes, bytes, n);
}

static uint32_t fetch(struct isa *isa, const struct job *j, uint32_t segment)
{
    const uint8_t *s = j->segments + segment * sizeof(struct npu_segment);
    const uint8_t *run = j->runs + s_load_u32(s) * sizeof(struct npu_run);
    uint32_t n_runs = s_load_u32(s + 4), buffer = segment % 2, ticket = 0, at = 0;
    for (uint32_t i = 0; i < n_runs; i++, run += sizeof(struct npu_run)) {
        uint32_t offset = j->op->k * s_load_u32(run + 8) + j->kv_head * s_load_u32(run + 12), n = s_load_u32(run + 16);
        if (n > NPU_SEGMENT - at) n = NPU_SEGMENT - at;
        if (!n) continue;
        fetch_rows(isa, j, j->tcm + j->plan.keys[buffer] + at * 2 * j->plan.n, isa_ptr(s_load_u32(run) + offset), n);
        ticket = fetch_rows(
            isa, j, j->tcm + j->plan.values[buffer] + at * 2 * j->plan.n, isa_ptr(s_load_u32(run + 4) + offset), n);
        at += n;
    }
    return ticket;
}

/* One segment: the rows' maxima and sums, and the output, become those with it. */
static void step(struct isa *isa, const struct job *j, uint32_t segment, struct rows *rows)
{
    uint32_t n_all = j->plan.n / 32, buffer = segment % 2;
    uint64_t any, all;
    const uint8_t *masks = masks_of(isa, j, segment, &any, &all);
    if (~any) clear_unseen(isa, j, buffer, any);
    make_tiles(isa, j, buffer);
    for (uint32_t i = 0; i < 2; i++)
        product(isa, j->tcm + j->plan.score_tiles + i * TILE_BYTES, j->tcm + j->plan.key_tiles + i * n_all * TILE_BYTES,
            j->tcm + j->plan.query, j->n_tiles);
    if (j->op->param2) cap_scores(isa, j);
    if (~all) mask_scores(isa, j, masks);
    vec most = largest(isa, j, rows->most), factor = v_exp(isa, f32_sub(rows->most, most)), sum = v_zero();
    exponentials(isa, j, most);
    for (uint32_t i = 0; i < 2; i++)
        sum = f32_add(
            sum, turn_tile(isa, j->tcm + j->plan.prob_tiles + i * TILE_BYTES, j->tcm + j->plan.probs + i * TILE_BYTES));
    for (uint32_t t = 0; t < n_all; t++)
        product(isa, j->tcm + j->plan.out_tiles + t * TILE_BYTES, j->tcm + j->plan.prob_tiles,
            j->tcm + j->plan.value_tiles + t * 2 * TILE_BYTES, 2);
    accumulate(isa, j, factor);
    /* Where nothing was seen before, the clamped exponential of a large difference is not 0 but meets sums of 0. */
    rows->sum = f32_add(f32_mul(rows->sum, factor), sum);
    rows->most = most;
}

/* What each row's output is to be multiplied with: 1 / sum, where a sink counts as one more key without a value. */
static vec last_factor(struct isa *isa, const struct job *j, const struct rows *rows)
{
    uint8_t *sink = j->tcm + j->plan.scratch;
    if (!j->op->bias) return v_mux(f32_gt(rows->sum, v_zero()), v_reciprocal(isa, rows->sum), v_zero());
    for (uint32_t r = 0; r < ROWS; r++)
        s_store_u32(sink + 4 * r, s_load_u32(isa_ptr(j->op->bias) + 4 * (j->kv_head * j->n_heads + r % j->n_heads)));
    vec s = v_load(sink), most = f32_max(rows->most, s), factor = v_exp(isa, f32_sub(rows->most, most));
    vec sum = f32_add(f32_mul(rows->sum, factor), v_exp(isa, f32_sub(s, most)));
    return f32_mul(factor, v_reciprocal(isa, sum));
}

/* Stores the rows, divided by their sums; a row that saw nothing is 0. */
static void finish(struct isa *isa, const struct job *j, const struct rows *rows)
{
    const vec factors = last_factor(isa, j, rows), words = v_const(word_of);
    for (uint32_t r = 0; r < j->n_rows; r++) {
        vec factor = spread(isa, factors, words, r);
        uint8_t *y = isa_ptr(j->op->dst) + place(j, r, j->op->dst_stride);
        for (uint32_t i = 0; i < 4 * j->op->n; i += 128)
            v_store_part(
                isa, y + i, f32_mul(v_load(j->tcm + j->plan.out + r * 4 * j->plan.n + i), factor), 4 * j->op->n - i);
    }
}

/* One KV head of one group. */
static void run_tile(struct isa *isa, const struct job *j)
{
    uint32_t ticket = j->n_segment ? fetch(isa, j, j->segment) : 0, end = j->segment + j->n_segment;
    struct rows rows = {.most = v_splat_w((int32_t)0xc77fe000), .sum = v_zero()}; /* -65504 */
    take_query(isa, j);
    for (uint32_t i = 0; i < ROWS * 4 * j->plan.n; i += 128) v_store(j->tcm + j->plan.out + i, v_zero());
    for (uint32_t s = j->segment; s < end; s++) {
        dma_wait(ticket);
        if (s + 1 < end) ticket = fetch(isa, j, s + 1);
        step(isa, j, s, &rows);
    }
    finish(isa, j, &rows);
}

/* Dimensions past the last are 0 and stay so: DMA never writes them. */
static void clear_padding(struct isa *isa, const struct job *j)
{
    uint32_t bytes = NPU_SEGMENT * 2 * j->plan.n;
    if (j->plan.n == j->op->n) return;
    for (uint32_t b = 0; b < 2; b++)
        for (uint32_t i = 0; i < bytes; i += 128) {
            v_store(j->tcm + j->plan.keys[b] + i, v_zero());
            v_store(j->tcm + j->plan.values[b] + i, v_zero());
        }
    (void)isa;
}

/* What threads share: their scratch areas follow one another in TCM. */
struct section {
    const struct npu_op *op;
    const struct npu_machine *machine;
    uint32_t area_bytes; /* of TCM for a thread */
    uint32_t status[NPU_THREADS_MAX];
};

/* Every n-th tile: the KV heads of a group one after the other. */
static void tiles_of_thread(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    struct section *s = user;
    const struct npu_op *op = s->op;
    const uint8_t *pass = isa_ptr(op->rows), *group = pass + s_load_u32(pass + 8);
    struct job j = {.op = op, .tcm = isa_ptr(s->machine->tcm_start), .table = isa_ptr(s->machine->tcm_start)};
    npu_attention_plan(op->n, s->machine->tcm_kept + thread * s->area_bytes, s->machine->tcm_bytes, &j.plan);
    j.n_tiles = (op->n + 31) / 32;
    j.segments = pass + s_load_u32(pass + 12), j.runs = pass + s_load_u32(pass + 16);
    j.masks = pass + s_load_u32(pass + 20);
    j.n_kv_heads = s_load_u32(pass + 24), j.n_heads = s_load_u32(pass + 28);
    for (uint32_t r = 0, batch = 0, head = 0; r < ROWS; r++) {
        j.batch_of[r] = (uint8_t)batch;
        if (++head == j.n_heads) head = 0, batch++;
    }
    clear_padding(isa, &j);
    uint32_t next = thread; /* tiles until this thread's next one */
    for (uint32_t g = s_load_u32(pass + 4); g; g--, group += sizeof(struct npu_group)) {
        j.row = s_load_u32(group), j.n_batch = s_load_u32(group + 4), j.n_rows = j.n_batch * j.n_heads;
        j.segment = s_load_u32(group + 8), j.n_segment = s_load_u32(group + 12);
        if (!j.n_batch || j.n_batch > ROWS || j.n_rows > ROWS) {
            s->status[thread] = NPU_BAD_SHAPE;
            return;
        }
        for (j.kv_head = 0; j.kv_head < j.n_kv_heads; j.kv_head++) {
            if (next) {
                next--;
                continue;
            }
            next = n - 1;
            run_tile(isa, &j);
        }
    }
}

uint32_t npu_attention(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct section s = {.op = op, .machine = machine};
    uint32_t n_heads = s_load_u32(isa_ptr(op->rows) + 28), n;
    if (op->kind > NPU_EXP_F32) return NPU_BAD_OP;
    if (op->kind == NPU_EXP_TABLE && machine->tcm_kept < EXP_TABLE_BYTES) return NPU_NO_ROOM;
    if (!op->n || op->n % 8 || op->n > 1024 || !n_heads || n_heads > ROWS) return NPU_BAD_SHAPE;
    n = npu_attention_threads(op->n, machine, &s.area_bytes);
    if (!n) return NPU_NO_ROOM;
    for (uint32_t t = 0; t < NPU_THREADS_MAX; t++) s.status[t] = NPU_OK;
    isa_threads(n, tiles_of_thread, &s);
    for (uint32_t t = 0; t < NPU_THREADS_MAX; t++)
        if (s.status[t] != NPU_OK) return s.status[t];
    return NPU_OK;
}
