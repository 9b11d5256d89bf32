/* SPDX-License-Identifier: MIT
 *
 * Every operation of isa.h on three vectors, results stored one after the other: what the emulator and a Hexagon binary
 * must agree on bit for bit.  Included by the guest and by the host's test.
 */
#ifndef LUTRA_TESTS_NPU_ISA_OPS_H
#define LUTRA_TESTS_NPU_ISA_OPS_H

#include "npu/dsp/isa.h"

enum { ISA_OPS_RESULTS = 192 };

#define put(v) v_store(dst, v), dst += 128
#define put2(w) (dst = isa_ops_put2(isa, dst, w))

static inline uint8_t *isa_ops_put2(struct isa *isa, uint8_t *dst, vec2 w)
{
    v_store(dst, v_lo(w));
    v_store(dst + 128, v_hi(w));
    (void)isa;
    return dst + 256;
}

static uint8_t *isa_ops_int(struct isa *isa, uint8_t *dst, vec a, vec b, vec c)
{
    put(v_and(a, b));
    put(v_or(a, b));
    put(v_xor(a, b));
    put(v_add_b(a, b));
    put(v_add_h(a, b));
    put(v_add_w(a, b));
    put(v_sub_b(a, b));
    put(v_sub_h(a, b));
    put(v_sub_w(a, b));
    put(v_sub_uh(a, b));
    put(v_max_h(a, b));
    put(v_max_w(a, b));
    put(v_min_h(a, b));
    put(v_min_w(a, b));
    put(v_max_ub(a, b));
    put(v_mpyi_h(a, b));
    put(v_mpyio_w(a, b));
    put(v_delta(a, b));
    put(v_rdelta(a, b));
    put(v_pack_h(a, b));
    put(v_pack_b(a, b));
    put(v_packe_h(a, b));
    put(v_packe_b(a, b));
    put(v_not(a));
    put(v_shuff_b(a));
    put(v_shuff_h(a));
    put(v_deal_b(a));
    put(v_deal_h(a));
    put2(v_sxt_b(a));
    put2(v_zxt_ub(a));
    put2(v_sxt_h(a));
    put2(v_zxt_uh(a));
    put2(v_unpack_b(a));
    put2(v_unpack_ub(a));
    put2(v_unpack_h(a));
    put2(v_unpack_uh(a));
    put(v_mux(v_gt_h(a, b), b, c));
    put(v_mux(v_gt_w(a, b), b, c));
    put(v_mux(v_gt_ub(a, b), b, c));
    put(v_mux(v_eq_h(a, b), b, c));
    put(v_mux(v_eq_w(a, b), b, c));
    put(v_splat_b(0x80)), put(v_splat_h(0x8001)), put(v_splat_w(0x80000001)), put(v_zero());
    put(v_mux(m_not(m_or(m_first(5), m_and(m_first(100), v_gt_h(a, b)))), a, b));
    put(v_splat_w((int32_t)v_get_w(a, 31)));
    for (int n = 0; n < 8; n += 7) put(v_lsr_ub(a, n));
    for (int n = 1; n < 16; n += 14) put(v_lsr_uh(a, n)), put(v_asr_h(a, n)), put(v_asl_h(a, n));
    for (int n = 1; n < 32; n += 15) put(v_lsr_uw(a, n)), put(v_asr_w(a, n)), put(v_asl_w(a, n));
    for (int n = 0; n < 128; n += 21) put(v_ror(a, n)), put(v_align(a, b, n)), put(v_lalign(a, b, n));
    for (int r = -64; r <= 64; r += 31) put2(v_shuff2(a, b, r)), put2(v_deal2(a, b, r));
    put2(v_shuffoe_h(a, b));
    put(v_lut32(a, b, 0)), put(v_lut32(a, b, 1)), put(v_lut32(a, b, 2)), put(v_lut32(a, b, 3));
    put2(v_lut16(a, b, 0)), put2(v_lut16(a, b, 1)), put2(v_lut16(a, b, 2)), put2(v_lut16(a, b, 3));
    put2(v_mpy_h(a, b));
    put(v_rmpy_ub_rb(a, 0x817f05f0)), put(v_rmpyacc_ub_rb(c, a, 0x80017ffe));
    put(v_rmpyacc_ub_b(c, a, b)), put(v_rmpyacc_b_b(c, a, b));
    put(v_dmpyacc_ub_rb(c, a, 0x80ff7f01)), put(v_dmpyacc_h(c, a, b));
    put2(v_addacc_h(v_pair(a, c), a, b)), put2(v_addacc_ub(v_pair(a, c), a, b));
    put(v_mpyf_rh(a, 2048)), put(v_mpyf_rh(a, 0x7fff));
    (void)isa;
    return dst;
}

static uint8_t *isa_ops_float(struct isa *isa, uint8_t *dst, vec a, vec b, vec c)
{
    put(f16_of_q16(q16_mul(a, b)));
    put(f16_of_q16(q16_add(a, b)));
    put(f16_of_q16(q16_sub(a, b)));
    put(f16_of_q16(q16_add_q(q16_mul(a, b), c)));
    put(f16_of_q16(q16_mul_qq(q16_add(a, b), q16_sub(b, c))));
    put(f32_of_q32(q32_mul(a, b)));
    put(f32_of_q32(q32_add(a, b)));
    put(f32_of_q32(q32_sub(a, b)));
    put(f32_of_q32(q32_add_q(q32_mul(a, b), c)));
    put(f32_of_q32(q32_add_qq(q32_mul(a, b), q32_mul(b, c))));
    put(f32_of_q32(q32_mul_qq(q32_add(a, b), q32_sub(b, c))));
    put(f16_max(a, b));
    put(f16_min(a, b));
    put(f32_max(a, b));
    put(f32_min(a, b));
    put(v_mux(f16_gt(a, b), b, c));
    put(v_mux(f32_gt(a, b), b, c));
    put(f32_of_i32(a));
    put(i32_of_f32(a));
    put(f16_of_i16(a));
    put(i16_of_f16(a));
    vec2 w = q32_mul_f16(a, b);
    put(f32_of_q32(v_lo(w))), put(f32_of_q32(v_hi(w)));
    put(f16_of_q32(v_pair(q32_add(a, b), q32_mul(b, c))));
    (void)isa;
    return dst;
}

/* src: vectors a, b, c.  tcm: at least 4 KiB, 128-byte aligned. */
static void isa_ops_run(struct isa *isa, uint8_t *dst, const uint8_t *src, uint8_t *tcm)
{
    vec a = v_load(src), b = v_load(src + 128), c = v_load(src + 256);
    dst = isa_ops_int(isa, dst, a, b, c);
    dst = isa_ops_float(isa, dst, a, b, c);
    put(v_loadu(src + 77)), put(v_loadu(src + 200));
    for (int i = 0; i < 4096; i += 128) v_store(tcm + i, v_zero());
    v_storeu(tcm + 13, a);
    v_store_if(v_gt_ub(a, b), tcm + 256, c);
    v_store(tcm + 512, b), v_store(tcm + 640, c);
    v_gather_h(tcm + 768, tcm + 512, 256, v_and(a, v_splat_h(254)));
    v_gather_w(tcm + 896, tcm + 512, 256, v_and(a, v_splat_w(252)));
    v_scatter_h(tcm + 1024, 128, v_and(v_splat_h(0), a), v_splat_h(3));
    v_scatter_w(tcm + 1152, 128, v_and(v_splat_w(124), a), v_splat_w(9));
    scatter_sync(tcm + 1024);
    scatter_sync(tcm + 1152);
    for (int i = 0; i < 1280; i += 128) put(v_load(tcm + i));
    put(v_splat_w((int32_t)(s_load_u32(src + 4) ^ s_load_u16(src + 10) ^ (uint32_t)s_load_u64(src + 16))));
}

#undef put
#undef put2

#endif
