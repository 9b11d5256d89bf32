/* SPDX-License-Identifier: MIT
 *
 * The head: logits of some rows, a slice of the vocabulary at a time, and what is asked of them taken from each slice
 * while it is near: the largest with their ids, the sum of exponentials, one token's logit.  Logits leave the NPU only
 * for rows that want them all [TTS 9: the head on the CPU limits larger batches].
 *
 * A slice is looked at in groups of 256 outputs, which threads share; then what they found is taken over row by row.
 * Groups are fixed, so that a row's bits do not depend on the threads.
 */
#include "npu/dsp/kernels.h"
#include "npu/dsp/vmath.h"

enum { GROUP = NPU_HEAD_SLICE / 32 / NPU_HEAD_GROUPS /* vectors */, LOWEST = (int32_t)0xff7fffff };

/* A row's scratch: f32 logits, then of each group the lanes' largest so far, the sums of their exponentials, and
 * whether any logit of this slice is above the least of those listed. */
enum { FOUND = NPU_HEAD_SLICE * 4, FOUND_BYTES = 384, FOUND_SUM = 128, FOUND_ABOVE = 256 };

struct slice {
    const struct npu_op *op;
    uint8_t *logits; /* a row's scratch */
    uint32_t first;  /* output */
    uint32_t n;      /* vectors */
};

/* Larger floats have larger keys; NaN has the least. */
static uint32_t key_of(uint32_t bits)
{
    if ((bits & 0x7fffffff) > 0x7f800000) return 0;
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

/* Vectors of group g: from the first to the one before the last. */
static uint32_t group_end(const struct slice *s, uint32_t g)
{
    return (g + 1) * GROUP < s->n ? (g + 1) * GROUP : s->n;
}

/* Soft cap, and the lanes past the last output out of the way. */
static void prepare(struct isa *isa, const struct slice *s, uint32_t from, uint32_t end)
{
    const vec cap = v_splat_w((int32_t)s->op->param2);
    uint32_t left = 4 * (s->op->n - s->first);
    for (uint32_t i = 128 * from; s->op->param2 && i < 128 * end; i += 128) {
        vec x = f32_mul(v_load(s->logits + i), v_reciprocal(isa, cap));
        v_store(s->logits + i, f32_mul(v_tanh(isa, x), cap));
    }
    if (end < s->n || left >= 128 * s->n) return;
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

/* What one row wants of a group. */
static void look(struct isa *isa, const struct slice *s, const uint8_t *row, const uint8_t *result, uint32_t g)
{
    uint32_t want = s_load_u32(row), logits = s_load_u32(row + 8), from = g * GROUP, end = group_end(s, g);
    const uint8_t *x = s->logits + 128 * from, *least = result + 16 + 8 * NPU_HEAD_TOP - 4;
    uint8_t *found = s->logits + FOUND + g * FOUND_BYTES;
    if (from >= end) return;
    prepare(isa, s, from, end);
    for (uint32_t i = 128 * from; logits && i < 128 * end; i += 128)
        v_store(isa_ptr(logits) + 4 * s->first + i, v_load(s->logits + i));
    if (want & NPU_HEAD_TOPK) {
        int full = s_load_u32(result + 12) == NPU_HEAD_TOP;
        s_store_u32(
            found + FOUND_ABOVE, !full || any_above(isa, x, end - from, v_splat_w((int32_t)s_load_u32(least))) ? 1 : 0);
    }
    if (want & NPU_HEAD_SUM) {
        vec before = v_load(found), most = before;
        for (uint32_t i = 0; i < end - from; i++) most = f32_max(most, v_load(x + 128 * i));
        vec sum = f32_mul(v_load(found + FOUND_SUM), v_exp(isa, f32_sub(before, most)));
        for (uint32_t i = 0; i < end - from; i++) sum = f32_add(sum, v_exp(isa, f32_sub(v_load(x + 128 * i), most)));
        v_store(found, most);
        v_store(found + FOUND_SUM, sum);
    }
}

/* Groups in order; the least grows meanwhile. */
static void take_largest(struct isa *isa, const struct slice *s, uint8_t *result)
{
    uint8_t *least = result + 16 + 8 * NPU_HEAD_TOP - 4;
    uint32_t n_top = s_load_u32(result + 12), end = s->op->n - s->first < 32 * s->n ? s->op->n - s->first : 32 * s->n;
    for (uint32_t g = 0; g * GROUP < s->n; g++) {
        uint32_t n = group_end(s, g) - g * GROUP;
        const uint8_t *x = s->logits + 128 * g * GROUP;
        if (!s_load_u32(s->logits + FOUND + g * FOUND_BYTES + FOUND_ABOVE)) continue;
        if (n_top == NPU_HEAD_TOP && !any_above(isa, x, n, v_splat_w((int32_t)s_load_u32(least)))) continue;
        for (uint32_t i = 32 * GROUP * g; i < 32 * group_end(s, g) && i < end; i++) {
            uint32_t bits = s_load_u32(s->logits + 4 * i);
            if (n_top == NPU_HEAD_TOP && key_of(bits) <= key_of(s_load_u32(least))) continue;
            insert(isa, result, &n_top, s->first + i, bits);
        }
    }
    s_store_u32(result + 12, n_top);
}

/* What the groups of one row have found. */
static void take_row(struct isa *isa, const struct slice *s, const uint8_t *row, uint8_t *result)
{
    uint32_t want = s_load_u32(row), target = s_load_u32(row + 4);
    if (target >= s->first && target - s->first < 32 * s->n)
        s_store_u32(result + 8, s_load_u32(s->logits + 4 * (target - s->first)));
    if (want & NPU_HEAD_TOPK) take_largest(isa, s, result);
}

/* What threads share: groups of rows in the first section, rows in the second. */
struct section {
    const struct npu_op *op;
    uint32_t first, n_blocks;
    struct npu_shares parts;
};

static struct slice slice_of(struct isa *isa, const struct section *s, uint32_t r)
{
    return (struct slice){s->op, isa_ptr(s->op->scratch) + (size_t)r * NPU_HEAD_SCRATCH, s->first, s->n_blocks};
}

static void share_of_groups(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct section *s = user;
    (void)n;
    for (uint32_t i = npu_share_start(s->parts, thread); i < npu_share_start(s->parts, thread + 1); i++) {
        uint32_t r = i / NPU_HEAD_GROUPS;
        struct slice x = slice_of(isa, s, r);
        look(isa, &x, isa_ptr(s->op->rows) + r * sizeof(struct npu_head_row),
            isa_ptr(s->op->dst) + r * sizeof(struct npu_head_result), i % NPU_HEAD_GROUPS);
    }
}

static void share_of_results(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct section *s = user;
    (void)n;
    for (uint32_t r = npu_share_start(s->parts, thread); r < npu_share_start(s->parts, thread + 1); r++) {
        struct slice x = slice_of(isa, s, r);
        take_row(isa, &x, isa_ptr(s->op->rows) + r * sizeof(struct npu_head_row),
            isa_ptr(s->op->dst) + r * sizeof(struct npu_head_result));
    }
}

void npu_head_begin(struct isa *isa, uint8_t *scratch, uint8_t *result)
{
    for (uint8_t *found = scratch + FOUND; found < scratch + NPU_HEAD_SCRATCH; found += FOUND_BYTES) {
        v_store(found, v_splat_w(LOWEST));
        v_store(found + FOUND_SUM, v_zero());
    }
    for (uint32_t i = 0; i < sizeof(struct npu_head_result); i += 128) v_store(result + i, v_zero());
    (void)isa;
}

void npu_head_slice(
    struct isa *isa, const struct npu_machine *machine, const struct npu_op *op, uint32_t first, uint32_t n_blocks)
{
    uint32_t n = npu_op_threads(op, machine), n_rows = n < op->m ? n : op->m;
    struct section s = {op, first, n_blocks, npu_shares(npu_op_parts(op), n)};
    isa_threads(n, share_of_groups, &s);
    s.parts = npu_shares(op->m, n_rows);
    isa_threads(n_rows, share_of_results, &s);
}

void npu_head_end(struct isa *isa, const uint8_t *scratch, uint8_t *result)
{
    const uint8_t *first = scratch + FOUND, *end = scratch + NPU_HEAD_SCRATCH;
    vec most = v_splat_w(LOWEST), sum = v_zero();
    for (const uint8_t *found = first; found < end; found += FOUND_BYTES) most = f32_max(most, v_load(found));
    for (int n = 64; n >= 4; n >>= 1) most = f32_max(most, v_ror(most, n));
    for (const uint8_t *found = first; found < end; found += FOUND_BYTES)
        sum = f32_add(sum, f32_mul(v_load(found + FOUND_SUM), v_exp(isa, f32_sub(v_load(found), most))));
    s_store_u32(result, v_get_w(most, 0));
    s_store_u32(result + 4, v_get_w(v_sum_w(isa, sum), 0));
}
