/* SPDX-License-Identifier: MIT
 *
 * A row of f32 to act8 (ablation.h): what the product by masks reads.  One scale per 256 inputs, never one per row:
 * outliers.
 */
#include "ablation.h"

#include "npu/dsp/vmath.h"

/* Largest magnitude of n_vectors vectors, in every lane. */
ISA_INLINE vec largest(struct isa *isa, const uint8_t *restrict x, uint32_t n_vectors)
{
    const vec magnitude = v_splat_w(0x7fffffff);
    vec most = v_zero();
    for (uint32_t i = 0; i < n_vectors; i++) most = v_max_w(most, v_and(v_load(x + 128 * i), magnitude));
#pragma GCC unroll 5
    for (int n = 64; n >= 4; n >>= 1) most = v_max_w(most, v_ror(most, n));
    (void)isa;
    return most;
}

/* Nearest integers of x * inverse, ties to even, as int32. */
ISA_INLINE vec codes_of(struct isa *isa, const uint8_t *restrict x, vec inverse)
{
    const vec magic = v_splat_w(0x4b400000); /* 1.5 * 2^23: the sum's last place is 1 */
    (void)isa;
    return v_sub_w(f32_add(f32_mul(v_load(x), inverse), magic), magic);
}

/* Bytes 1 and 2 of every word change places, as in the weights. */
ISA_INLINE vec swap_middle(struct isa *isa, vec c)
{
    vec up = v_and(v_asl_w(c, 8), v_splat_w(0x00ff0000)), down = v_and(v_lsr_uw(c, 8), v_splat_w(0x0000ff00));
    (void)isa;
    return v_or(v_and(c, v_splat_w((int32_t)0xff0000ff)), v_or(up, down));
}

/* 128 codes from 4 vectors. */
ISA_INLINE vec pack_codes(struct isa *isa, const uint8_t *restrict x, vec inverse)
{
    vec low = v_pack_h(codes_of(isa, x + 128, inverse), codes_of(isa, x, inverse));
    vec high = v_pack_h(codes_of(isa, x + 384, inverse), codes_of(isa, x + 256, inverse));
    return swap_middle(isa, v_pack_b(high, low));
}

/* The sum of each 32 codes, in word 8 i of the result for i = 0 .. 3. */
ISA_INLINE vec tile_sums(struct isa *isa, vec codes)
{
    vec s = v_rmpyacc_b_b(v_zero(), codes, v_splat_b(1));
#pragma GCC unroll 3
    for (int n = 16; n >= 4; n >>= 1) s = v_add_w(s, v_ror(s, n));
    (void)isa;
    return s;
}

/* Up to 256 inputs: n is 64, 128, 192 or 256.  x beyond n is not read. */
ISA_INLINE void block(struct isa *isa, uint8_t *restrict quads, uint8_t *restrict sums, uint8_t *restrict scale,
    const uint8_t *restrict x, uint32_t n)
{
    vec most = largest(isa, x, n / 32);
    /* Below 2^-100 everything is 0: the reciprocal stays finite. */
    vmask some = v_gt_w(most, v_splat_w(27 << 23));
    vec inverse = v_mux(some, f32_mul(v_reciprocal(isa, most), v_splat_w(0x42fe0000)), v_zero());
    vec d = v_mux(some, f32_mul(most, v_splat_w(0x3c010204)), v_zero()); /* 1/127 */
    for (uint32_t i = 0; i < n; i += 128) {
        vec c;
        if (n - i >= 128) {
            c = pack_codes(isa, x + 4 * i, inverse);
            v_store(quads + i, c);
        } else {
            vec low = v_pack_h(codes_of(isa, x + 4 * i + 128, inverse), codes_of(isa, x + 4 * i, inverse));
            c = swap_middle(isa, v_pack_b(v_zero(), low));
            for (uint32_t j = 0; j < 16; j++) s_store_u32(quads + i + 4 * j, v_get_w(c, j));
        }
        vec s = tile_sums(isa, c);
        for (uint32_t t = 0; t < 4 && i + 32 * t < n; t++) s_store_u32(sums + i / 8 + 4 * t, v_get_w(s, 8 * t));
    }
    s_store_u32(scale, v_get_w(d, 0));
}

void ablation_act8_layout(uint32_t k, struct ablation_act8 *out)
{
    out->sums = k;
    out->scales = out->sums + k / 32 * 4;
    out->bytes =
        (out->scales + (k + ABLATION_ACT8_BLOCK - 1) / ABLATION_ACT8_BLOCK * 4 + NPU_LINE - 1) & ~(NPU_LINE - 1u);
}

uint32_t ablation_act8(struct isa *isa, const struct npu_op *op)
{
    struct ablation_act8 a;
    const uint8_t *x = isa_ptr(op->src);
    uint8_t *act8 = isa_ptr(op->dst);
    if (!op->k || op->k % NPU_UNIT_K) return NPU_BAD_SHAPE;
    ablation_act8_layout(op->k, &a);
    if (op->flags & NPU_FROM_HOST) cache_invalidate(isa_ptr(op->src), 4 * op->k);
    if (op->flags & NPU_FROM_HOST) cache_invalidate(isa_ptr(op->dst), a.bytes); /* its lines are written in parts */
    for (uint32_t i = 0; i < op->k; i += ABLATION_ACT8_BLOCK) {
        uint32_t n = op->k - i < ABLATION_ACT8_BLOCK ? op->k - i : ABLATION_ACT8_BLOCK;
        block(isa, act8 + i, act8 + a.sums + i / 8, act8 + a.scales + i / ABLATION_ACT8_BLOCK * 4, x + 4 * i, n);
    }
    if (op->flags & NPU_TO_HOST) cache_flush(isa_ptr(op->dst), a.bytes);
    return NPU_OK;
}
