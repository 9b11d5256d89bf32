/* SPDX-License-Identifier: MIT
 *
 * The head: logits of some rows, a slice of the vocabulary at a time, and what is asked of them taken from each slice while
 * it is near: the largest with their ids, the sum of exponentials, one token's logit.  Logits leave the NPU only for rows
 * that want them all [TTS 9: the head on the CPU limits larger batches].
 *
 * Sums run over fixed groups of 256 outputs, lane by lane, so that a row's bits do not depend on the slices.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vmath.h"

enum { GROUP = 8 /* vectors */, LOWEST = (int32_t)0xff7fffff, MOST = NPU_HEAD_SLICE * 4, SUM = MOST + 128 };

struct slice {
    const struct npu_op *op;
    uint8_t *logits; /* f32, then a vector of the lanes' largest and one of their sums */
    uint32_t first;  /* output */
    uint32_t n;      /* vectors */
};

/* Larger floats have larger keys; NaN has the least. */
static uint32_t key_of(uint32_t bits)
{
    if ((bits & 0x7fffffff) > 0x7f800000) return 0;
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

/* Soft cap, and the lanes past the last output out of the way. */
static void prepare(struct isa *isa, const struct slice *s)
{
    const vec cap = v_splat_w((int32_t)s->op->param2);
    uint32_t left = 4 * (s->op->n - s->first);
    for (uint32_t i = 0; s->op->param2 && i < 128 * s->n; i += 128) {
        vec x = f32_mul(v_load(s->logits + i), v_reciprocal(isa, cap));
        v_store(s->logits + i, f32_mul(v_tanh(isa, x), cap));
    }
    if (left >= 128 * s->n) return;
    uint8_t *last = s->logits + 128 * (s->n - 1);
    v_store(last, v_mux(m_first(left % 128), v_load(last), v_splat_w(LOWEST)));
}

/* Puts a logit into its place among the largest; equal ones that came earlier stay in front. */
static void insert(struct isa *isa, uint8_t *result, uint32_t *n_top, uint32_t id, uint32_t bits)
{
    uint8_t *ids = result + 16, *logits = ids + 4 * NPU_HEAD_TOP;
    uint32_t at = *n_top < NPU_HEAD_TOP ? (*n_top)++ : NPU_HEAD_TOP - 1;
    for (; at; at--) {
        uint32_t before = s_load_u32(logits + 4 * at - 4);
        if (key_of(bits) <= key_of(before)) break;
        s_store_u32(logits + 4 * at, before);
        s_store_u32(ids + 4 * at, s_load_u32(ids + 4 * at - 4));
    }
    s_store_u32(logits + 4 * at, bits);
    s_store_u32(ids + 4 * at, id);
    (void)isa;
}

/* Is anything of n vectors above the limit? */
static uint32_t any_above(struct isa *isa, const uint8_t *x, uint32_t n, vec limit)
{
    const vec ones = v_splat_w(-1);
    vec any = v_zero();
    for (uint32_t i = 0; i < n; i++) any = v_or(any, v_mux(f32_gt(v_load(x + 128 * i), limit), ones, v_zero()));
    for (int r = 64; r >= 4; r >>= 1) any = v_or(any, v_ror(any, r));
    (void)isa;
    return v_get_w(any, 0);
}

static void take_largest(struct isa *isa, const struct slice *s, uint8_t *result)
{
    uint8_t *least = result + 16 + 8 * NPU_HEAD_TOP - 4;
    uint32_t n_top = s_load_u32(result + 12), end = s->op->n - s->first < 32 * s->n ? s->op->n - s->first : 32 * s->n;
    for (uint32_t v = 0; v < s->n; v += GROUP) {
        uint32_t n = s->n - v < GROUP ? s->n - v : GROUP;
        int full = n_top == NPU_HEAD_TOP;
        if (full && !any_above(isa, s->logits + 128 * v, n, v_splat_w((int32_t)s_load_u32(least)))) continue;
        for (uint32_t i = 32 * v; i < 32 * (v + n) && i < end; i++) {
            uint32_t bits = s_load_u32(s->logits + 4 * i);
            if (n_top == NPU_HEAD_TOP && key_of(bits) <= key_of(s_load_u32(least))) continue;
            insert(isa, result, &n_top, s->first + i, bits);
        }
    }
    s_store_u32(result + 12, n_top);
}

static void take_sum(struct isa *isa, const struct slice *s)
{
    vec most = v_load(s->logits + MOST), sum = v_load(s->logits + SUM);
    for (uint32_t v = 0; v < s->n; v += GROUP) {
        const uint8_t *x = s->logits + 128 * v;
        uint32_t n = s->n - v < GROUP ? s->n - v : GROUP;
        vec next = most;
        for (uint32_t i = 0; i < n; i++) next = f32_max(next, v_load(x + 128 * i));
        sum = f32_mul(sum, v_exp(isa, f32_sub(most, next)));
        for (uint32_t i = 0; i < n; i++) sum = f32_add(sum, v_exp(isa, f32_sub(v_load(x + 128 * i), next)));
        most = next;
    }
    v_store(s->logits + MOST, most);
    v_store(s->logits + SUM, sum);
}

/* What one row wants of a slice. */
static void take_row(struct isa *isa, const struct slice *s, const uint8_t *row, uint8_t *result)
{
    uint32_t want = s_load_u32(row), target = s_load_u32(row + 4), logits = s_load_u32(row + 8);
    prepare(isa, s);
    for (uint32_t i = 0; logits && i < 128 * s->n; i += 128)
        v_store(isa_ptr(logits) + 4 * s->first + i, v_load(s->logits + i));
    if (target >= s->first && target - s->first < 32 * s->n)
        s_store_u32(result + 8, s_load_u32(s->logits + 4 * (target - s->first)));
    if (want & NPU_HEAD_TOPK) take_largest(isa, s, result);
    if (want & NPU_HEAD_SUM) take_sum(isa, s);
}

void npu_head_begin(struct isa *isa, uint8_t *scratch, uint8_t *result)
{
    v_store(scratch + MOST, v_splat_w(LOWEST));
    v_store(scratch + SUM, v_zero());
    for (uint32_t i = 0; i < sizeof(struct npu_head_result); i += 128) v_store(result + i, v_zero());
    (void)isa;
}

void npu_head_slice(struct isa *isa, const struct npu_op *op, uint32_t first, uint32_t n_blocks)
{
    for (uint32_t r = 0; r < op->m; r++) {
        struct slice s = {op, isa_ptr(op->scratch) + (size_t)r * NPU_HEAD_SCRATCH, first, n_blocks};
        take_row(isa, &s, isa_ptr(op->rows) + r * sizeof(struct npu_head_row),
            isa_ptr(op->dst) + r * sizeof(struct npu_head_result));
    }
}

void npu_head_end(struct isa *isa, const uint8_t *scratch, uint8_t *result)
{
    vec lanes = v_load(scratch + MOST), most = lanes;
    for (int n = 64; n >= 4; n >>= 1) most = f32_max(most, v_ror(most, n));
    vec sum = v_sum_w(isa, f32_mul(v_load(scratch + SUM), v_exp(isa, f32_sub(lanes, most))));
    s_store_u32(result, v_get_w(most, 0));
    s_store_u32(result + 4, v_get_w(sum, 0));
}
