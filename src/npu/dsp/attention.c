/* SPDX-License-Identifier: MIT
 *
 * FlashAttention [TTS Algorithm 1] over the paged cache, one tile of up to 32 rows after the other: the query heads of one
 * KV head times the rows of a group.  For each segment of 64 keys: keys are
 * transposed into weight tiles, scores come out of the tile machine, the softmax runs row by row on vectors of 64 halves,
 * probabilities go back into tiles, and P V is added to an f32 output that was rescaled first.
 * Keys and values of the next segment are on their way meanwhile.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vexp.h"
#include "npu/dsp/vpart.h"

enum { ROWS = NPU_ATTENTION_ROWS, MINUS_INFINITY = (int16_t)0xfc00, LOWEST = (int16_t)0xfbff };

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
    const uint8_t *table;                              /* of exponentials */
    const uint8_t *segments, *runs, *masks;            /* NPU pointers of the step's tables */
    uint32_t n_heads, n_kv_heads;                      /* query heads of a KV head */
    uint32_t row, n_batch, n_rows, segment, n_segment; /* the group; n_rows = n_batch * n_heads rows of the tile */
    uint32_t kv_head;
    uint32_t n_tiles;       /* of 32 dimensions that hold anything */
    uint8_t batch_of[ROWS]; /* row of the group that a row of the tile belongs to: NPUs do not divide */
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
    if (r >= j->n_rows) return v_zero();
    const uint8_t *x = isa_ptr(j->op->src) + place(j, r, j->op->src_stride) + 128 * t;
    uint32_t left = 4 * j->op->n - 128 * t;
    if (j->op->n % 32 == 0) return v_load(x);
    return left < 128 ? v_mux(m_first(left), v_loadu(x), v_zero()) : v_loadu(x);
}

/* Rows of Q times the scale, as tiles. */
static void take_query(struct isa *isa, const struct job *j)
{
    const vec scale = v_splat_w((int32_t)j->op->param);
    for (uint32_t r = 0; r < ROWS; r += 2)
        for (uint32_t t = 0; t < j->n_tiles; t++) {
            vec even = query(isa, j, r, t), odd = query(isa, j, r + 1, t);
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

/* Raw keys and values of a segment to weight tiles; values of keys from n_keys on become 0. */
static void make_tiles(struct isa *isa, const struct job *j, uint32_t buffer, uint32_t n_keys)
{
    const uint8_t *keys = j->tcm + j->plan.keys[buffer], *values = j->tcm + j->plan.values[buffer];
    uint32_t row = 2 * j->plan.n, half = j->plan.n / 32 * TILE_BYTES;
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

/* The keys of the segment that row r of the tile sees. */
ISA_INLINE uint64_t mask_of(struct isa *isa, const struct job *j, const uint8_t *masks, uint32_t r)
{
    (void)isa;
    return r < j->n_rows ? s_load_u64(masks + 8 * j->batch_of[r]) : 0;
}

/* A segment's masks and how many of its keys count: the last that any row sees, and those before. */
static const uint8_t *masks_of(struct isa *isa, const struct job *j, uint32_t segment, uint32_t *n_keys)
{
    const uint8_t *masks = j->masks + 8 * (size_t)s_load_u32(j->segments + segment * sizeof(struct npu_segment) + 8);
    uint64_t any = 0;
    for (uint32_t i = 0; i < j->n_batch; i++) any |= s_load_u64(masks + 8 * i);
    *n_keys = any ? 64 - (uint32_t)__builtin_clzll(any) : 0;
    (void)isa;
    return masks;
}

/* 64 lanes of halves as a mask. */
ISA_INLINE vmask lanes_of(struct isa *isa, uint64_t bits)
{
    const vec bit = v_const(bit_h);
    uint32_t low = (uint32_t)bits, high = (uint32_t)(bits >> 32);
    vec all =
        v_mux(m_first(64), v_mux(m_first(32), v_splat_h((int32_t)(low & 0xffff)), v_splat_h((int32_t)(low >> 16))),
            v_mux(m_first(96), v_splat_h((int32_t)(high & 0xffff)), v_splat_h((int32_t)(high >> 16))));
    (void)isa;
    return v_eq_h(v_and(all, bit), bit);
}

/* cap * tanh(s / cap) of 64 halves. */
ISA_INLINE vec soft_cap(struct isa *isa, vec s, uint32_t cap_bits)
{
    const vec cap = v_splat_w((int32_t)cap_bits), inverse = v_reciprocal(isa, cap);
    vec2 w = q32_mul_f16(s, v_splat_h(0x3c00));
    vec even = v_tanh(isa, f32_mul(f32_of_q32(v_lo(w)), inverse)),
        odd = v_tanh(isa, f32_mul(f32_of_q32(v_hi(w)), inverse));
    return f16_of_q32(v_pair(q32_mul(odd, cap), q32_mul(even, cap)));
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
static vec mask_scores(struct isa *isa, const struct job *j, const uint8_t *masks)
{
    const vec one = v_splat_h(0x3c00), lane = v_const(ramp_w);
    const uint8_t *tiles = j->tcm + j->plan.score_tiles;
    vec maxima = v_zero();
    for (uint32_t r = 0; r < ROWS; r += 2) {
        vec2 w = v_deal2(v_load(tiles + TILE_BYTES + r / 2 * 128), v_load(tiles + r / 2 * 128), -2);
        for (uint32_t i = 0; i < 2; i++) {
            uint8_t *most = j->tcm + j->plan.most + (r + i) * 128;
            uint64_t bits = mask_of(isa, j, masks, r + i);
            vec s = i ? v_hi(w) : v_lo(w);
            if (j->op->param2) s = soft_cap(isa, s, j->op->param2);
            if (~bits) s = v_mux(lanes_of(isa, bits), s, v_splat_h(MINUS_INFINITY)); /* most see all */
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
        uint8_t *even = j->tcm + j->plan.out + r * 4 * j->plan.n + 128 * t, *odd = even + 4 * j->plan.n;
        vec2 add = q32_mul_f16(v_load(tile + r / 2 * 128), one);
        vec a = q32_mul(v_load(even), v_splat_w((int32_t)s_load_u32(factors + 4 * r)));
        vec b = q32_mul(v_load(odd), v_splat_w((int32_t)s_load_u32(factors + 4 * r + 4)));
        v_store(even, f32_of_q32(q32_add_qq(a, v_lo(add))));
        v_store(odd, f32_of_q32(q32_add_qq(b, v_hi(add))));
    }
    (void)isa;
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

/* One segment: returns the new maxima; *sums becomes the new sums. */
static vec step(struct isa *isa, const struct job *j, uint32_t segment, vec maxima, vec *sums)
{
    uint32_t half = j->plan.n / 32 * TILE_BYTES, n_keys;
    uint8_t *scores = j->tcm + j->plan.score_tiles, *factors = j->tcm + j->plan.scratch;
    const uint8_t *masks = masks_of(isa, j, segment, &n_keys);
    make_tiles(isa, j, segment % 2, n_keys);
    for (uint32_t i = 0; i < 2; i++)
        product(
            isa, scores + i * TILE_BYTES, j->tcm + j->plan.query, j->tcm + j->plan.key_tiles + i * half, j->n_tiles);
    vec next = mask_scores(isa, j, masks), factor = v_exp(isa, f32_sub(maxima, next));
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

/* What each row's output is to be multiplied with: 1 / sum, where a sink counts as one more key without a value. */
static vec last_factor(struct isa *isa, const struct job *j, vec maxima, vec sums)
{
    uint8_t *sink = j->tcm + j->plan.scratch;
    if (!j->op->bias) return v_mux(f32_gt(sums, v_zero()), v_reciprocal(isa, sums), v_zero());
    for (uint32_t r = 0; r < ROWS; r++)
        s_store_u32(sink + 4 * r, s_load_u32(isa_ptr(j->op->bias) + 4 * (j->kv_head * j->n_heads + r % j->n_heads)));
    vec s = v_load(sink), most = f32_max(maxima, s), factor = v_exp(isa, f32_sub(maxima, most));
    vec sum = f32_add(f32_mul(sums, factor), v_exp(isa, f32_sub(s, most)));
    return f32_mul(factor, v_reciprocal(isa, sum));
}

/* Stores the rows, divided by their sums; a row that saw nothing is 0. */
static void finish(struct isa *isa, const struct job *j, vec maxima, vec sums)
{
    uint8_t *factors = j->tcm + j->plan.scratch;
    v_store(factors, last_factor(isa, j, maxima, sums));
    for (uint32_t r = 0; r < j->n_rows; r++) {
        vec factor = v_splat_w((int32_t)s_load_u32(factors + 4 * r));
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
    take_query(isa, j);
    for (uint32_t i = 0; i < ROWS * 128; i += 128) v_store(j->tcm + j->plan.most + i, v_splat_h(LOWEST));
    for (uint32_t i = 0; i < ROWS * 4 * j->plan.n; i += 128) v_store(j->tcm + j->plan.out + i, v_zero());
    vec maxima = v_splat_w((int32_t)0xc77fe000), sums = v_zero(); /* -65504 */
    for (uint32_t s = j->segment; s < end; s++) {
        dma_wait(ticket);
        if (s + 1 < end) ticket = fetch(isa, j, s + 1);
        maxima = step(isa, j, s, maxima, &sums);
    }
    finish(isa, j, maxima, sums);
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
    const uint8_t *step = isa_ptr(op->rows), *group = step + s_load_u32(step + 8);
    struct job j = {.op = op, .tcm = isa_ptr(s->machine->tcm_start), .table = isa_ptr(s->machine->tcm_start)};
    npu_attention_plan(op->n, s->machine->tcm_kept + thread * s->area_bytes, s->machine->tcm_bytes, &j.plan);
    j.n_tiles = (op->n + 31) / 32;
    j.segments = step + s_load_u32(step + 12), j.runs = step + s_load_u32(step + 16);
    j.masks = step + s_load_u32(step + 20);
    j.n_kv_heads = s_load_u32(step + 24), j.n_heads = s_load_u32(step + 28);
    for (uint32_t r = 0, batch = 0, head = 0; r < ROWS; r++) {
        j.batch_of[r] = (uint8_t)batch;
        if (++head == j.n_heads) head = 0, batch++;
    }
    clear_padding(isa, &j);
    uint32_t next = thread; /* tiles until this thread's next one */
    for (uint32_t g = s_load_u32(step + 4); g; g--, group += sizeof(struct npu_group)) {
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
    struct npu_attention_plan plan;
    struct section s = {.op = op, .machine = machine};
    uint32_t n = machine->n_threads < NPU_THREADS_MAX ? machine->n_threads : NPU_THREADS_MAX;
    uint32_t n_heads = s_load_u32(isa_ptr(op->rows) + 28),
             start = (machine->tcm_kept + NPU_TILE - 1) / NPU_TILE * NPU_TILE;
    if (op->kind > NPU_EXP_F32) return NPU_BAD_OP;
    if (op->kind == NPU_EXP_TABLE && machine->tcm_kept < EXP_TABLE_BYTES) return NPU_NO_ROOM;
    if (!op->n || op->n % 8 || op->n > 1024 || !n_heads || n_heads > ROWS) return NPU_BAD_SHAPE;
    if (npu_attention_plan(op->n, machine->tcm_kept, machine->tcm_bytes, &plan)) return NPU_NO_ROOM;
    s.area_bytes = plan.bytes - start;
    while (n > 1 && start + (uint64_t)n * s.area_bytes > machine->tcm_bytes) n--;
    for (uint32_t t = 0; t < NPU_THREADS_MAX; t++) s.status[t] = NPU_OK;
    isa_threads(n, tiles_of_thread, &s);
    for (uint32_t t = 0; t < NPU_THREADS_MAX; t++)
        if (s.status[t] != NPU_OK) return s.status[t];
    return NPU_OK;
}
