/* SPDX-License-Identifier: MIT
 *
 * The thin layer every NPU kernel is written against: 128-byte vectors, TCM, DMA, cache maintenance and the tile
 * machine.  A kernel is a C function with a parameter named `isa`, and uses nothing but these names:
 *
 *     static void add_rows(struct isa *isa, uint8_t *y, const uint8_t *x) { v_store(y, v_add_h(v_load(y), v_load(x)));
 *     }
 *
 * Three back ends, chosen by the compiler's target and one macro:
 *
 *     Hexagon, ISA_HEXAGON   intrinsics, real floats (v73; dsp/isa_hexagon_impl.h), threads and units of silicon
 *                            (dsp/silicon)
 *     Hexagon, otherwise     intrinsics for integers; floats in software, or with ISA_COUNT as integer instructions of
 *                            the same issue resource (dsp/isa_qemu_impl.h, tests/npu/standins.txt)
 *     anything else          the emulator with hazards (npu/sim/isa_sim.h), the only other header dsp/ may see
 *
 * Types: `vec` 128 bytes; `vec2` two of them, lo and hi; `vmask` one bit per byte; `struct isa` what a thread owns.
 * Pointers are the NPU's: under the emulator only these operations can follow them.
 *
 * Suffixes: b h w = signed 8 16 32 bits, ub uh uw unsigned.  Lane 0 is at the lowest address.
 *
 *   memory     v_load v_store (128-byte aligned)  v_loadu v_storeu (any)  v_store_if(mask, p, v)
 *              s_load_u16 s_load_u32 s_load_u64 s_store_u32 (scalar, aligned)  v_const(p): of the program's constants
 *              isa_ptr(offset): NPU pointer of a message's offset
 *   moves      v_zero v_splat_b v_splat_h v_splat_w   v_lo v_hi v_pair(hi, lo)   v_get_w(v, lane)
 *   logic      v_and v_or v_xor v_not  v_mux(mask, a, b)
 *   masks      m_first(n): first n bytes (n < 128)  m_and m_or m_not  v_gt_h v_gt_w v_gt_ub v_eq_h v_eq_w
 *   alu        v_add_b v_add_h v_add_w v_sub_b v_sub_h v_sub_w v_sub_uh (saturating: never below 0)
 *              v_max_h v_max_w v_min_h v_min_w v_max_ub
 *              v_sxt_b v_zxt_ub (even bytes to lo, odd to hi)  v_sxt_h v_zxt_uh
 *              v_shuffoe_h(b, a): lo = even halves of a and b in turn (a0 b0 a2 b2 ..), hi = their odd halves
 *   shifts     v_lsr_ub v_lsr_uh v_lsr_uw v_asr_h v_asr_w v_asl_h v_asl_w (by a scalar)
 *   permutes   v_ror(v, n)  v_align(hi, lo, n)  v_lalign(hi, lo, n)  v_shuff_b v_shuff_h v_deal_b v_deal_h
 *              v_delta v_rdelta(v, control)   v_pack_h(hi, lo) v_pack_b (saturating)  v_packe_h v_packe_b
 *              v_shuff2(hi, lo, r) v_deal2(hi, lo, r)  v_unpack_b v_unpack_ub v_unpack_h v_unpack_uh
 *   tables     v_lut32(index, table, sel)  v_lut16(index, table, sel): low 4 bits of each byte; even bytes to lo
 *   multiply   v_mpyi_h  v_mpyio_w(w, h): times the upper half of each word of h  v_mpy_h (even lanes to lo, odd to hi)
 *              v_rmpy_ub_rb v_rmpyacc_ub_rb(acc, ub, scalar quad)
 *              v_rmpyacc_ub_b(acc, ub, b) v_rmpyacc_b_b  v_dmpyacc_ub_rb v_dmpyacc_h(acc, a, b, saturating)
 *              v_addacc_h(pair of words, a, b): += a + b, even lanes to lo, odd to hi;
 *              v_addacc_ub(pair of halves, a, b) likewise
 *              v_mpyf_rh(h, r): the upper half of 2 h r, saturating; r is a half; r = 2^(15 - n) shifts right by n
 *   gather     v_gather_h(dst, base, bytes, offsets) v_gather_w  v_scatter_h(base, bytes, offsets, v) v_scatter_w
 *              scatter_sync(p): earlier scatters have landed.  TCM only; lanes out of range are dropped
 *   dma        dma_start_1d(dst, src, bytes)  dma_start_2d(dst, dst_stride, src, src_stride, width, rows): a ticket;
 *              dma_poll(ticket) dma_wait(ticket): it and all before it have landed
 *   cache      cache_flush(p, bytes)  cache_invalidate(p, bytes)
 *              l2_fetch(p, bytes): whole vectors, at most 65535, may come into the cache meanwhile
 *   threads    isa_threads(n, fn, user): fn(isa, user, thread, n) on n vector threads, done on return.  A section: what
 *              one thread writes no other may touch; a DMA is waited for by the thread that started it
 *              isa_phases(n, n_phases, lead, fn, user): fn(isa, user, phase, thread, n) on n vector threads and, as
 *              thread n, one more for the tile unit that has no vectors.  The tile thread begins a phase when all
 *              vector threads have ended the one before it, a vector thread when the tile thread has ended the one
 *              `lead` (1 or 2) before it.  So a vector thread may use what the tile thread did that many phases
 *              before, and what another vector thread did one more.  DMAs may fly on across phases
 *   clock      isa_cycles() isa_ticks(): 64 bits of the processor's cycles, of its 19.2 MHz timer; 0: there is none
 *   tiles      tile_clear()  tile_mac(act, weight, n_pairs)  tile_store(dst)   [npu/sim/tile.h]
 *
 * Floats.  An operation rounds once, to nearest even; denormals are kept; a NaN result is the canonical one (0x7e00,
 * 0x7fc00000).  Names with q16 / q32 give or take the unit's own form, which may only go into another such operation
 * or a conversion: never to memory, never to an integer operation.  (On silicon the q forms round differently in the
 * last place; equality with silicon is not claimed.)
 *
 *   q16_mul q16_add q16_sub(f16, f16)  q16_add_q(q16, f16)  q16_mul_qq(q16, q16)  f16_of_q16
 *   q32_mul q32_add q32_sub(f32, f32)  q32_add_q(q32, f32)  q32_add_qq q32_mul_qq(q32, q32)  f32_of_q32
 *   q32_mul_f16(f16, f16): exact; even lanes to lo, odd lanes to hi      f16_of_q32(pair): the way back
 *   f16_max f16_min f32_max f32_min (NaN if either is)  f16_gt f32_gt (mask; false for NaN)
 *   f32_of_i32  i32_of_f32 (toward zero, saturating, NaN: 0)  f16_of_i16  i16_of_f16 (likewise)
 *   f16_mul = f16_of_q16(q16_mul), and so f16_add f16_sub f32_mul f32_add f32_sub
 *
 * Thread-safety: one `struct isa` per thread.  Nothing allocates.
 */
#ifndef LUTRA_NPU_DSP_ISA_H
#define LUTRA_NPU_DSP_ISA_H

#include <stddef.h>
#include <stdint.h>

#ifdef LUTRA_SANITIZED
#define ISA_INLINE static inline __attribute__((unused))
#else
#define ISA_INLINE static inline __attribute__((always_inline, unused))
#endif

#if defined(__hexagon__)
#include "npu/dsp/isa_hexagon_impl.h"
#else
#include "npu/sim/isa_sim.h"
#endif

/* A machine without counters. */
#ifndef isa_cycles
#define isa_cycles() ((uint64_t)0)
#endif
#ifndef isa_ticks
#define isa_ticks() ((uint64_t)0)
#endif

enum { VEC_BYTES = 128, TILE_BYTES = 2048, TILE_PAIRS_MAX = 32 };

#define f16_mul(a, b) f16_of_q16(q16_mul(a, b))
#define f16_add(a, b) f16_of_q16(q16_add(a, b))
#define f16_sub(a, b) f16_of_q16(q16_sub(a, b))
#define f32_mul(a, b) f32_of_q32(q32_mul(a, b))
#define f32_add(a, b) f32_of_q32(q32_add(a, b))
#define f32_sub(a, b) f32_of_q32(q32_sub(a, b))

#endif
