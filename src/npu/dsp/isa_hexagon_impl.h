/* SPDX-License-Identifier: MIT
 *
 * isa.h on a Hexagon compiler: integer operations as intrinsics.  Floats, DMA, cache and tiles come from
 * isa_real_impl.h and silicon/machine_impl.h
 * (ISA_HEXAGON) or isa_qemu_impl.h; its software floats with silicon's machine where tests run that on QEMU
 * (ISA_SILICON).
 */
#ifndef LUTRA_NPU_DSP_ISA_HEXAGON_IMPL_H
#define LUTRA_NPU_DSP_ISA_HEXAGON_IMPL_H

#include <hexagon_types.h>
#include <hvx_hexagon_protos.h>
#include <stdint.h>

typedef HVX_Vector vec;
typedef HVX_VectorPair vec2;
typedef HVX_VectorPred vmask;
typedef HVX_UVector isa_uvec;

/* What a thread owns.  `base` is where offset 0 of the shared window is mapped. */
struct isa {
    uint8_t *base;
    volatile uint32_t *mailbox; /* QEMU: words through which the host does tile operations */
    struct npu_thread *thread;  /* silicon: dsp/silicon/silicon.h */
};

typedef void isa_thread(struct isa *isa, void *user, uint32_t thread, uint32_t n);
typedef void isa_phase(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n);

#define isa_ptr(offset) (isa->base + (offset))

#define v_load(p) (*(const vec *)(const void *)(p))
#define v_const(p) v_load(p)
#define v_loadu(p) (*(const isa_uvec *)(const void *)(p))
#define v_store(p, v) ((void)(*(vec *)(void *)(p) = (v)))
#define v_storeu(p, v) ((void)(*(isa_uvec *)(void *)(p) = (v)))
#define v_store_if(m, p, v) Q6_vmem_QRIV(m, (vec *)(void *)(p), v)
/* Direction 48, stride 47:32, width 31:16, height 15:0: rows of one vector. */
#define l2_fetch(p, bytes)                                                                                             \
    __builtin_HEXAGON_Y5_l2fetch((void *)(uintptr_t)(p), (long long)(0x0000008000800000u | (bytes) / 128u))
#define s_load_u16(p) (*(const uint16_t *)(const void *)(p))
#define s_load_u32(p) (*(const uint32_t *)(const void *)(p))
#define s_load_u64(p) (*(const uint64_t *)(const void *)(p))
#define s_store_u32(p, x) ((void)(*(uint32_t *)(void *)(p) = (x)))

#define v_zero() Q6_V_vzero()
#define v_splat_b(x) Q6_Vb_vsplat_R(x)
#define v_splat_h(x) Q6_Vh_vsplat_R(x)
#define v_splat_w(x) Q6_V_vsplat_R(x)
#define v_lo(w) Q6_V_lo_W(w)
#define v_hi(w) Q6_V_hi_W(w)
#define v_pair(hi, lo) Q6_W_vcombine_VV(hi, lo)
#define v_get_w(v, lane) ((uint32_t)Q6_R_vextract_VR(v, (lane)*4))

#define v_and(a, b) Q6_V_vand_VV(a, b)
#define v_or(a, b) Q6_V_vor_VV(a, b)
#define v_xor(a, b) Q6_V_vxor_VV(a, b)
#define v_not(a) Q6_V_vnot_V(a)
#define v_mux(m, a, b) Q6_V_vmux_QVV(m, a, b)
#define m_first(n) Q6_Q_vsetq_R(n)
#define m_and(a, b) Q6_Q_and_QQ(a, b)
#define m_or(a, b) Q6_Q_or_QQ(a, b)
#define m_not(a) Q6_Q_not_Q(a)
#define v_gt_h(a, b) Q6_Q_vcmp_gt_VhVh(a, b)
#define v_gt_w(a, b) Q6_Q_vcmp_gt_VwVw(a, b)
#define v_gt_ub(a, b) Q6_Q_vcmp_gt_VubVub(a, b)
#define v_eq_h(a, b) Q6_Q_vcmp_eq_VhVh(a, b)
#define v_eq_w(a, b) Q6_Q_vcmp_eq_VwVw(a, b)

#define v_add_b(a, b) Q6_Vb_vadd_VbVb(a, b)
#define v_add_h(a, b) Q6_Vh_vadd_VhVh(a, b)
#define v_add_w(a, b) Q6_Vw_vadd_VwVw(a, b)
#define v_sub_b(a, b) Q6_Vb_vsub_VbVb(a, b)
#define v_sub_h(a, b) Q6_Vh_vsub_VhVh(a, b)
#define v_sub_w(a, b) Q6_Vw_vsub_VwVw(a, b)
#define v_sub_uh(a, b) Q6_Vuh_vsub_VuhVuh_sat(a, b)
#define v_max_h(a, b) Q6_Vh_vmax_VhVh(a, b)
#define v_max_w(a, b) Q6_Vw_vmax_VwVw(a, b)
#define v_min_h(a, b) Q6_Vh_vmin_VhVh(a, b)
#define v_min_w(a, b) Q6_Vw_vmin_VwVw(a, b)
#define v_max_ub(a, b) Q6_Vub_vmax_VubVub(a, b)
#define v_sxt_b(a) Q6_Wh_vsxt_Vb(a)
#define v_zxt_ub(a) Q6_Wuh_vzxt_Vub(a)
#define v_sxt_h(a) Q6_Ww_vsxt_Vh(a)
#define v_zxt_uh(a) Q6_Wuw_vzxt_Vuh(a)

#define v_lsr_ub(a, n) Q6_Vub_vlsr_VubR(a, n)
#define v_lsr_uh(a, n) Q6_Vuh_vlsr_VuhR(a, n)
#define v_lsr_uw(a, n) Q6_Vuw_vlsr_VuwR(a, n)
#define v_asr_h(a, n) Q6_Vh_vasr_VhR(a, n)
#define v_asr_w(a, n) Q6_Vw_vasr_VwR(a, n)
#define v_asl_h(a, n) Q6_Vh_vasl_VhR(a, n)
#define v_asl_w(a, n) Q6_Vw_vasl_VwR(a, n)

#define v_ror(a, n) Q6_V_vror_VR(a, n)
#define v_align(hi, lo, n) Q6_V_valign_VVR(hi, lo, n)
#define v_lalign(hi, lo, n) Q6_V_vlalign_VVR(hi, lo, n)
#define v_shuff_b(a) Q6_Vb_vshuff_Vb(a)
#define v_shuff_h(a) Q6_Vh_vshuff_Vh(a)
#define v_deal_b(a) Q6_Vb_vdeal_Vb(a)
#define v_deal_h(a) Q6_Vh_vdeal_Vh(a)
#define v_delta(a, c) Q6_V_vdelta_VV(a, c)
#define v_rdelta(a, c) Q6_V_vrdelta_VV(a, c)
#define v_pack_h(hi, lo) Q6_Vh_vpack_VwVw_sat(hi, lo)
#define v_pack_b(hi, lo) Q6_Vb_vpack_VhVh_sat(hi, lo)
#define v_packe_h(hi, lo) Q6_Vh_vpacke_VwVw(hi, lo)
#define v_packe_b(hi, lo) Q6_Vb_vpacke_VhVh(hi, lo)
#define v_shuff2(hi, lo, r) Q6_W_vshuff_VVR(hi, lo, r)
#define v_deal2(hi, lo, r) Q6_W_vdeal_VVR(hi, lo, r)
#define v_shuffoe_h(hi, lo) Q6_Wh_vshuffoe_VhVh(hi, lo)
#define v_unpack_b(a) Q6_Wh_vunpack_Vb(a)
#define v_unpack_ub(a) Q6_Wuh_vunpack_Vub(a)
#define v_unpack_h(a) Q6_Ww_vunpack_Vh(a)
#define v_unpack_uh(a) Q6_Wuw_vunpack_Vuh(a)
#define v_lut32(i, t, sel) Q6_Vb_vlut32_VbVbR_nomatch(i, t, sel)
#define v_lut16(i, t, sel) Q6_Wh_vlut16_VbVhR_nomatch(i, t, sel)

#define v_mpyi_h(a, b) Q6_Vh_vmpyi_VhVh(a, b)
#define v_mpyio_w(a, b) Q6_Vw_vmpyio_VwVh(a, b)
#define v_mpy_h(a, b) Q6_Ww_vmpy_VhVh(a, b)
#define v_rmpy_ub_rb(a, r) Q6_Vw_vrmpy_VubRb(a, r)
#define v_rmpyacc_ub_rb(acc, a, r) Q6_Vw_vrmpyacc_VwVubRb(acc, a, r)
#define v_rmpyacc_ub_b(acc, a, b) Q6_Vw_vrmpyacc_VwVubVb(acc, a, b)
#define v_rmpyacc_b_b(acc, a, b) Q6_Vw_vrmpyacc_VwVbVb(acc, a, b)
#define v_dmpyacc_ub_rb(acc, a, r) Q6_Vh_vdmpyacc_VhVubRb(acc, a, r)
#define v_dmpyacc_h(acc, a, b) Q6_Vw_vdmpyacc_VwVhVh_sat(acc, a, b)
#define v_addacc_h(acc, a, b) Q6_Ww_vaddacc_WwVhVh(acc, a, b)
#define v_addacc_ub(acc, a, b) Q6_Wh_vaddacc_WhVubVub(acc, a, b)
#define v_mpyf_rh(a, r) Q6_Vh_vmpy_VhRh_s1_sat(a, (int)((uint32_t)(r)*0x10001u))

/* The gather's result is stored by the same packet; reading `dst` afterwards waits for it. */
#define v_gather_h(dst, base, bytes, off) Q6_vgather_ARMVh((vec *)(void *)(dst), (int)(uintptr_t)(base), (bytes)-1, off)
#define v_gather_w(dst, base, bytes, off) Q6_vgather_ARMVw((vec *)(void *)(dst), (int)(uintptr_t)(base), (bytes)-1, off)
#define v_scatter_h(base, bytes, off, v) Q6_vscatter_RMVhV((int)(uintptr_t)(base), (bytes)-1, off, v)
#define v_scatter_w(base, bytes, off, v) Q6_vscatter_RMVwV((int)(uintptr_t)(base), (bytes)-1, off, v)
#define scatter_sync(p)                                                                                                \
    __asm__ volatile("vmem(%0+#0):scatter_release\n\t{ v31 = vmem(%0+#0) }" : : "r"(p) : "v31", "memory")

#ifdef ISA_HEXAGON
#include "npu/dsp/isa_real_impl.h"
#else
#include "npu/dsp/isa_qemu_impl.h"
#endif
#if defined(ISA_HEXAGON) || defined(ISA_SILICON)
#include "npu/dsp/silicon/machine_impl.h"
#endif

#endif
