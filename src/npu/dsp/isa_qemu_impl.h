/* SPDX-License-Identifier: MIT
 *
 * isa.h under qemu-hexagon, which runs integer HVX but no HVX float.
 *
 * Values (default): each float operation is a call of dsp/isa_qemu.c, lane by lane with dsp/soft.h, bit for bit as the
 * emulator.  Counting (ISA_COUNT): each is one integer instruction with the same number of operands and the same issue
 * resource, so that packets are those of the real program and values are meaningless; tests/npu/standins.txt lists the
 * pairs and a test compares their classes.
 *
 * DMA copies at once (counting: only writes a descriptor).  Tile operations are done by the host, through the mailbox.
 */
#ifndef LUTRA_NPU_DSP_ISA_QEMU_IMPL_H
#define LUTRA_NPU_DSP_ISA_QEMU_IMPL_H

#include "npu/wire/tile.h"

void npu_qemu_tile(struct isa *isa, uint32_t op, const void *a, const void *b, uint32_t n);
uint32_t npu_qemu_dma(struct isa *isa, uint8_t *dst, uint32_t dst_stride, const uint8_t *src, uint32_t src_stride,
    uint32_t width, uint32_t rows);
void npu_qemu_clean(const void *p, uint32_t bytes);

/* Packets so far are c20 under QEMU; the assembler does not know it. */
static inline uint64_t npu_qemu_packets(void)
{
    register uint32_t x __asm__("r0");
    __asm__ volatile(".word 0x6a14c000" : "=r"(x) : : "memory");
    return x;
}

#ifndef ISA_SILICON
/* One hardware thread does the work of all. */
#define isa_threads(n, fn, user)                                                                                       \
    for (uint32_t thread_ = 0; thread_ < (n); thread_++) fn(isa, user, thread_, n)
#define isa_phases(n, n_phases, lead, fn, user)                                                                        \
    for (uint32_t phase_ = 0; phase_ < (n_phases); phase_++)                                                           \
        for (uint32_t thread_ = 0; thread_ <= (n); thread_++) fn(isa, user, phase_, thread_, n)
#define dma_start_1d(dst, src, bytes) npu_qemu_dma(isa, dst, 0, src, 0, bytes, 1)
#define dma_start_2d(dst, ds, src, ss, w, rows) npu_qemu_dma(isa, dst, ds, src, ss, w, rows)
#define dma_poll(ticket) ((void)(ticket), 1)
#define dma_wait(ticket) ((void)(ticket))
#define cache_flush(p, bytes) npu_qemu_clean(p, bytes)
#define cache_invalidate(p, bytes) npu_qemu_clean(p, bytes)
#define isa_cycles() npu_qemu_packets()
#define tile_clear() npu_qemu_tile(isa, NPU_TILE_CLEAR, 0, 0, 0)
#define tile_mac(a, w, n) npu_qemu_tile(isa, NPU_TILE_MAC, a, w, n)
#define tile_store(dst) npu_qemu_tile(isa, NPU_TILE_STORE, dst, 0, 0)
#endif

#ifdef ISA_COUNT

#define q16_mul(a, b) Q6_Vh_vmpyi_VhVh(a, b)
#define q16_add(a, b) Q6_Vh_vasr_VhVh(a, b)
#define q16_sub(a, b) Q6_Vh_vlsr_VhVh(a, b)
#define q16_add_q(a, b) Q6_Vh_vasl_VhVh(a, b)
#define q16_mul_qq(a, b) Q6_Vh_vmpyi_VhVh(a, b)
#define f16_of_q16(a) Q6_Vuh_vcl0_Vuh(a)
#define q32_mul(a, b) Q6_Vw_vmpyie_VwVuh(a, b)
#define q32_add(a, b) Q6_Vw_vasr_VwVw(a, b)
#define q32_sub(a, b) Q6_Vw_vlsr_VwVw(a, b)
#define q32_add_q(a, b) Q6_Vw_vasl_VwVw(a, b)
#define q32_add_qq(a, b) Q6_Vh_vround_VwVw_sat(a, b)
#define q32_mul_qq(a, b) Q6_Vw_vmpyio_VwVh(a, b)
#define f32_of_q32(a) Q6_Vuw_vcl0_Vuw(a)
#define q32_mul_f16(a, b) Q6_Ww_vmpy_VhVh(a, b)
#define f16_of_q32(w) Q6_Vuh_vround_VwVw_sat(Q6_V_hi_W(w), Q6_V_lo_W(w))
#define f16_max(a, b) Q6_Vh_vmax_VhVh(a, b)
#define f16_min(a, b) Q6_Vh_vmin_VhVh(a, b)
#define f32_max(a, b) Q6_Vw_vmax_VwVw(a, b)
#define f32_min(a, b) Q6_Vw_vmin_VwVw(a, b)
#define f16_gt(a, b) Q6_Q_vcmp_gt_VhVh(a, b)
#define f32_gt(a, b) Q6_Q_vcmp_gt_VwVw(a, b)
#define f32_of_i32(a) Q6_Vw_vnormamt_Vw(a)
#define i32_of_f32(a) Q6_Vw_vnormamt_Vw(a)
#define f16_of_i16(a) Q6_Vh_vnormamt_Vh(a)
#define i16_of_f16(a) Q6_Vh_vnormamt_Vh(a)

#else

vec npu_qemu_mul16(vec a, vec b);
vec npu_qemu_add16(vec a, vec b);
vec npu_qemu_sub16(vec a, vec b);
vec npu_qemu_max16(vec a, vec b);
vec npu_qemu_min16(vec a, vec b);
vec npu_qemu_gt16(vec a, vec b); /* all ones or zero per lane */
vec npu_qemu_of_i16(vec a);
vec npu_qemu_to_i16(vec a);
vec npu_qemu_mul32(vec a, vec b);
vec npu_qemu_add32(vec a, vec b);
vec npu_qemu_sub32(vec a, vec b);
vec npu_qemu_max32(vec a, vec b);
vec npu_qemu_min32(vec a, vec b);
vec npu_qemu_gt32(vec a, vec b);
vec npu_qemu_of_i32(vec a);
vec npu_qemu_to_i32(vec a);
vec npu_qemu_mul_even(vec a, vec b); /* products of even halves as f32 */
vec npu_qemu_mul_odd(vec a, vec b);
vec npu_qemu_narrow(vec hi, vec lo); /* lo to even halves, hi to odd */

#define q16_mul(a, b) npu_qemu_mul16(a, b)
#define q16_add(a, b) npu_qemu_add16(a, b)
#define q16_sub(a, b) npu_qemu_sub16(a, b)
#define q16_add_q(a, b) npu_qemu_add16(a, b)
#define q16_mul_qq(a, b) npu_qemu_mul16(a, b)
#define f16_of_q16(a) (a)
#define q32_mul(a, b) npu_qemu_mul32(a, b)
#define q32_add(a, b) npu_qemu_add32(a, b)
#define q32_sub(a, b) npu_qemu_sub32(a, b)
#define q32_add_q(a, b) npu_qemu_add32(a, b)
#define q32_add_qq(a, b) npu_qemu_add32(a, b)
#define q32_mul_qq(a, b) npu_qemu_mul32(a, b)
#define f32_of_q32(a) (a)
#define f16_max(a, b) npu_qemu_max16(a, b)
#define f16_min(a, b) npu_qemu_min16(a, b)
#define f32_max(a, b) npu_qemu_max32(a, b)
#define f32_min(a, b) npu_qemu_min32(a, b)
#define f16_gt(a, b) Q6_Q_vcmp_gt_VubVub(npu_qemu_gt16(a, b), Q6_V_vzero())
#define f32_gt(a, b) Q6_Q_vcmp_gt_VubVub(npu_qemu_gt32(a, b), Q6_V_vzero())
#define f32_of_i32(a) npu_qemu_of_i32(a)
#define i32_of_f32(a) npu_qemu_to_i32(a)
#define f16_of_i16(a) npu_qemu_of_i16(a)
#define i16_of_f16(a) npu_qemu_to_i16(a)

ISA_INLINE vec2 q32_mul_f16(vec a, vec b)
{
    return Q6_W_vcombine_VV(npu_qemu_mul_odd(a, b), npu_qemu_mul_even(a, b));
}

ISA_INLINE vec f16_of_q32(vec2 w)
{
    return npu_qemu_narrow(Q6_V_hi_W(w), Q6_V_lo_W(w));
}

#endif

#endif
