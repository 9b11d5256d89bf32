/* SPDX-License-Identifier: MIT
 *
 * isa.h on silicon: HVX's own floats (v73).  Compiled into liblutra_npu.so, run nowhere here.  Threads, DMA, cache and
 * tiles are in silicon/machine_impl.h.
 *
 * The last place of q16/q32 operations differs from isa.h's rounding.
 */
#ifndef LUTRA_NPU_DSP_ISA_REAL_IMPL_H
#define LUTRA_NPU_DSP_ISA_REAL_IMPL_H

#if __HVX_ARCH__ < 73
#error "the silicon back end needs HVX v73 (conversions between integers and floats)"
#endif

#define q16_mul(a, b) Q6_Vqf16_vmpy_VhfVhf(a, b)
#define q16_add(a, b) Q6_Vqf16_vadd_VhfVhf(a, b)
#define q16_sub(a, b) Q6_Vqf16_vsub_VhfVhf(a, b)
#define q16_add_q(a, b) Q6_Vqf16_vadd_Vqf16Vhf(a, b)
#define q16_mul_qq(a, b) Q6_Vqf16_vmpy_Vqf16Vqf16(a, b)
#define f16_of_q16(a) Q6_Vhf_equals_Vqf16(a)
#define q32_mul(a, b) Q6_Vqf32_vmpy_VsfVsf(a, b)
#define q32_add(a, b) Q6_Vqf32_vadd_VsfVsf(a, b)
#define q32_sub(a, b) Q6_Vqf32_vsub_VsfVsf(a, b)
#define q32_add_q(a, b) Q6_Vqf32_vadd_Vqf32Vsf(a, b)
#define q32_add_qq(a, b) Q6_Vqf32_vadd_Vqf32Vqf32(a, b)
#define q32_mul_qq(a, b) Q6_Vqf32_vmpy_Vqf32Vqf32(a, b)
#define f32_of_q32(a) Q6_Vsf_equals_Vqf32(a)
#define q32_mul_f16(a, b) Q6_Wqf32_vmpy_VhfVhf(a, b)
#define f16_of_q32(w) Q6_Vhf_equals_Wqf32(w)
#define f16_max(a, b) Q6_Vhf_vmax_VhfVhf(a, b)
#define f16_min(a, b) Q6_Vhf_vmin_VhfVhf(a, b)
#define f32_max(a, b) Q6_Vsf_vmax_VsfVsf(a, b)
#define f32_min(a, b) Q6_Vsf_vmin_VsfVsf(a, b)
#define f16_gt(a, b) Q6_Q_vcmp_gt_VhfVhf(a, b)
#define f32_gt(a, b) Q6_Q_vcmp_gt_VsfVsf(a, b)
#define f32_of_i32(a) __builtin_HEXAGON_V6_vconv_sf_w_128B(a)
#define i32_of_f32(a) __builtin_HEXAGON_V6_vconv_w_sf_128B(a)
#define f16_of_i16(a) __builtin_HEXAGON_V6_vconv_hf_h_128B(a)
#define i16_of_f16(a) __builtin_HEXAGON_V6_vconv_h_hf_128B(a)

#endif
