/* SPDX-License-Identifier: MIT
 *
 * isa.h on the host: operations are the emulator's, which knows where each was called from.  Kernels include dsp/isa.h.
 */
#ifndef LUTRA_NPU_SIM_ISA_SIM_H
#define LUTRA_NPU_SIM_ISA_SIM_H

#include <stdint.h>

struct npu_sim;
/* FORM_BITS: what memory holds (integers, IEEE floats).  The others exist only between float operations. */
enum { FORM_BITS, FORM_Q16, FORM_Q32 };

typedef struct sim_vec {
    union {
        uint8_t ub[128];
        int8_t b[128];
        uint16_t uh[64];
        int16_t h[64];
        uint32_t uw[32];
        int32_t w[32];
    };
    uint32_t form;
} vec;
typedef struct sim_vec2 {
    vec lo, hi;
} vec2;
typedef struct sim_mask {
    uint8_t set[128]; /* 0 or 1 per byte */
} vmask;
struct isa {
    uint8_t *base; /* where the window starts for the NPU; not readable */
    struct npu_sim *sim;
};
typedef void isa_thread(struct isa *isa, void *user, uint32_t thread, uint32_t n);
typedef void isa_phase(struct isa *isa, void *user, uint32_t phase, uint32_t thread, uint32_t n);

struct sim_at {
    struct npu_sim *sim;
    const char *kernel;
    int line;
};

#define ISA_AT ((struct sim_at){isa->sim, __func__, __LINE__})
#define isa_ptr(offset) (isa->base + (offset))
#define SIM_BINARY(X)                                                                                                  \
    X(and)                                                                                                             \
    X(or)                                                                                                              \
    X(xor) X(add_b) X(add_h) X(add_w) X(sub_b) X(sub_h) X(sub_w) X(sub_uh) X(max_h) X(max_w) X(min_h) X(min_w)         \
        X(max_ub) X(mpyi_h) X(mpyio_w) X(delta) X(rdelta) X(pack_h) X(pack_b) X(packe_h) X(packe_b) X(q16_mul)         \
            X(q16_add) X(q16_sub) X(q16_add_q) X(q16_mul_qq) X(q32_mul) X(q32_add) X(q32_sub) X(q32_add_q)             \
                X(q32_add_qq) X(q32_mul_qq) X(f16_max) X(f16_min) X(f32_max) X(f32_min)
#define SIM_UNARY(X)                                                                                                   \
    X(not )                                                                                                            \
    X(shuff_b)                                                                                                         \
    X(shuff_h) X(deal_b) X(deal_h) X(f16_of_q16) X(f32_of_q32) X(f32_of_i32) X(i32_of_f32) X(f16_of_i16) X(i16_of_f16)
#define SIM_BY_SCALAR(X) X(lsr_ub) X(lsr_uh) X(lsr_uw) X(asr_h) X(asr_w) X(asl_h) X(asl_w) X(ror) X(mpyf_rh)
#define SIM_WIDEN(X) X(sxt_b) X(zxt_ub) X(sxt_h) X(zxt_uh) X(unpack_b) X(unpack_ub) X(unpack_h) X(unpack_uh)
#define SIM_COMPARE(X) X(gt_h) X(gt_w) X(gt_ub) X(eq_h) X(eq_w) X(f16_gt) X(f32_gt)

#define SIM_DECLARE(name) vec sim_##name(struct sim_at at, vec a, vec b);
SIM_BINARY(SIM_DECLARE)
#undef SIM_DECLARE
#define SIM_DECLARE(name) vec sim_##name(struct sim_at at, vec a);
SIM_UNARY(SIM_DECLARE)
#undef SIM_DECLARE
#define SIM_DECLARE(name) vec sim_##name(struct sim_at at, vec a, int32_t n);
SIM_BY_SCALAR(SIM_DECLARE)
#undef SIM_DECLARE
#define SIM_DECLARE(name) vec2 sim_##name(struct sim_at at, vec a);
SIM_WIDEN(SIM_DECLARE)
#undef SIM_DECLARE
#define SIM_DECLARE(name) vmask sim_##name(struct sim_at at, vec a, vec b);
SIM_COMPARE(SIM_DECLARE)
#undef SIM_DECLARE

vec sim_load(struct sim_at at, const void *p);
vec sim_loadu(struct sim_at at, const void *p);
vec sim_const(struct sim_at at, const void *p);
void sim_store(struct sim_at at, void *p, vec v);
void sim_storeu(struct sim_at at, void *p, vec v);
void sim_store_if(struct sim_at at, vmask m, void *p, vec v);
uint64_t sim_scalar_load(struct sim_at at, const void *p, uint32_t bytes);
void sim_scalar_store(struct sim_at at, void *p, uint32_t x);
vec sim_splat(struct sim_at at, uint32_t x, uint32_t lane_bytes);
vec sim_zero(struct sim_at at);
uint32_t sim_get_w(struct sim_at at, vec v, uint32_t lane);
vec sim_mux(struct sim_at at, vmask m, vec a, vec b);
vmask sim_first(struct sim_at at, uint32_t n);
vmask sim_mask_op(struct sim_at at, vmask a, vmask b, int op);
vec sim_align(struct sim_at at, vec hi, vec lo, int32_t n, int from_low);
vec2 sim_shuff2(struct sim_at at, vec hi, vec lo, int32_t r), sim_deal2(struct sim_at at, vec hi, vec lo, int32_t r);
vec2 sim_shuffoe_h(struct sim_at at, vec hi, vec lo);
vec sim_lut32(struct sim_at at, vec index, vec table, int32_t sel);
vec2 sim_lut16(struct sim_at at, vec index, vec table, int32_t sel);
vec2 sim_mpy_h(struct sim_at at, vec a, vec b);
vec sim_rmpy_scalar(struct sim_at at, vec acc, vec a, uint32_t quad);
vec sim_rmpyacc_ub_b(struct sim_at at, vec acc, vec a, vec b), sim_rmpyacc_b_b(struct sim_at at, vec acc, vec a, vec b);
vec sim_dmpyacc_ub_rb(struct sim_at at, vec acc, vec a, uint32_t pairs);
vec sim_dmpyacc_h(struct sim_at at, vec acc, vec a, vec b);
vec2 sim_addacc_h(struct sim_at at, vec2 acc, vec a, vec b), sim_addacc_ub(struct sim_at at, vec2 acc, vec a, vec b);
vec2 sim_q32_mul_f16(struct sim_at at, vec a, vec b);
vec sim_f16_of_q32(struct sim_at at, vec2 w);
void sim_gather(struct sim_at at, void *dst, const void *base, uint32_t bytes, vec off, uint32_t lane_bytes);
void sim_scatter(struct sim_at at, void *base, uint32_t bytes, vec off, vec v, uint32_t lane_bytes);
void sim_scatter_sync(struct sim_at at, const void *p);
uint32_t sim_dma_start(struct sim_at at, void *dst, uint32_t dst_stride, const void *src, uint32_t src_stride,
    uint32_t width, uint32_t rows, int two_d);
int sim_dma_poll(struct sim_at at, uint32_t ticket);
void sim_dma_wait(struct sim_at at, uint32_t ticket);
void sim_flush(struct sim_at at, const void *p, uint32_t bytes);
void sim_invalidate(struct sim_at at, const void *p, uint32_t bytes);
void sim_threads(struct sim_at at, uint32_t n, isa_thread *fn, void *user);
void sim_phases(struct sim_at at, uint32_t n, uint32_t n_phases, uint32_t lead, isa_phase *fn, void *user);
void sim_tile_clear(struct sim_at at);
void sim_tile_mac(struct sim_at at, const void *act, const void *weight, uint32_t n_pairs);
void sim_tile_store(struct sim_at at, void *dst);
#define v_and(a, b) sim_and(ISA_AT, a, b)
#define v_or(a, b) sim_or(ISA_AT, a, b)
#define v_xor(a, b) sim_xor(ISA_AT, a, b)
#define v_add_b(a, b) sim_add_b(ISA_AT, a, b)
#define v_add_h(a, b) sim_add_h(ISA_AT, a, b)
#define v_add_w(a, b) sim_add_w(ISA_AT, a, b)
#define v_sub_b(a, b) sim_sub_b(ISA_AT, a, b)
#define v_sub_h(a, b) sim_sub_h(ISA_AT, a, b)
#define v_sub_w(a, b) sim_sub_w(ISA_AT, a, b)
#define v_sub_uh(a, b) sim_sub_uh(ISA_AT, a, b)
#define v_max_h(a, b) sim_max_h(ISA_AT, a, b)
#define v_max_w(a, b) sim_max_w(ISA_AT, a, b)
#define v_min_h(a, b) sim_min_h(ISA_AT, a, b)
#define v_min_w(a, b) sim_min_w(ISA_AT, a, b)
#define v_max_ub(a, b) sim_max_ub(ISA_AT, a, b)
#define v_mpyi_h(a, b) sim_mpyi_h(ISA_AT, a, b)
#define v_mpyio_w(a, b) sim_mpyio_w(ISA_AT, a, b)
#define v_delta(a, b) sim_delta(ISA_AT, a, b)
#define v_rdelta(a, b) sim_rdelta(ISA_AT, a, b)
#define v_gt_h(a, b) sim_gt_h(ISA_AT, a, b)
#define v_gt_w(a, b) sim_gt_w(ISA_AT, a, b)
#define v_gt_ub(a, b) sim_gt_ub(ISA_AT, a, b)
#define v_eq_h(a, b) sim_eq_h(ISA_AT, a, b)
#define v_eq_w(a, b) sim_eq_w(ISA_AT, a, b)
#define v_pack_h(hi, lo) sim_pack_h(ISA_AT, hi, lo)
#define v_pack_b(hi, lo) sim_pack_b(ISA_AT, hi, lo)
#define v_packe_h(hi, lo) sim_packe_h(ISA_AT, hi, lo)
#define v_packe_b(hi, lo) sim_packe_b(ISA_AT, hi, lo)
#define v_shuffoe_h(hi, lo) sim_shuffoe_h(ISA_AT, hi, lo)
#define q16_mul(a, b) sim_q16_mul(ISA_AT, a, b)
#define q16_add(a, b) sim_q16_add(ISA_AT, a, b)
#define q16_sub(a, b) sim_q16_sub(ISA_AT, a, b)
#define q16_add_q(a, b) sim_q16_add_q(ISA_AT, a, b)
#define q16_mul_qq(a, b) sim_q16_mul_qq(ISA_AT, a, b)
#define q32_mul(a, b) sim_q32_mul(ISA_AT, a, b)
#define q32_add(a, b) sim_q32_add(ISA_AT, a, b)
#define q32_sub(a, b) sim_q32_sub(ISA_AT, a, b)
#define q32_add_q(a, b) sim_q32_add_q(ISA_AT, a, b)
#define q32_add_qq(a, b) sim_q32_add_qq(ISA_AT, a, b)
#define q32_mul_qq(a, b) sim_q32_mul_qq(ISA_AT, a, b)
#define f16_max(a, b) sim_f16_max(ISA_AT, a, b)
#define f16_min(a, b) sim_f16_min(ISA_AT, a, b)
#define f32_max(a, b) sim_f32_max(ISA_AT, a, b)
#define f32_min(a, b) sim_f32_min(ISA_AT, a, b)
#define f16_gt(a, b) sim_f16_gt(ISA_AT, a, b)
#define f32_gt(a, b) sim_f32_gt(ISA_AT, a, b)
#define q32_mul_f16(a, b) sim_q32_mul_f16(ISA_AT, a, b)
#define v_not(a) sim_not(ISA_AT, a)
#define v_shuff_b(a) sim_shuff_b(ISA_AT, a)
#define v_shuff_h(a) sim_shuff_h(ISA_AT, a)
#define v_deal_b(a) sim_deal_b(ISA_AT, a)
#define v_deal_h(a) sim_deal_h(ISA_AT, a)
#define v_sxt_b(a) sim_sxt_b(ISA_AT, a)
#define v_zxt_ub(a) sim_zxt_ub(ISA_AT, a)
#define v_sxt_h(a) sim_sxt_h(ISA_AT, a)
#define v_zxt_uh(a) sim_zxt_uh(ISA_AT, a)
#define v_unpack_b(a) sim_unpack_b(ISA_AT, a)
#define v_unpack_ub(a) sim_unpack_ub(ISA_AT, a)
#define v_unpack_h(a) sim_unpack_h(ISA_AT, a)
#define v_unpack_uh(a) sim_unpack_uh(ISA_AT, a)
#define f16_of_q16(a) sim_f16_of_q16(ISA_AT, a)
#define f32_of_q32(a) sim_f32_of_q32(ISA_AT, a)
#define f32_of_i32(a) sim_f32_of_i32(ISA_AT, a)
#define i32_of_f32(a) sim_i32_of_f32(ISA_AT, a)
#define f16_of_i16(a) sim_f16_of_i16(ISA_AT, a)
#define i16_of_f16(a) sim_i16_of_f16(ISA_AT, a)
#define f16_of_q32(a) sim_f16_of_q32(ISA_AT, a)
#define v_lsr_ub(a, n) sim_lsr_ub(ISA_AT, a, n)
#define v_lsr_uh(a, n) sim_lsr_uh(ISA_AT, a, n)
#define v_lsr_uw(a, n) sim_lsr_uw(ISA_AT, a, n)
#define v_asr_h(a, n) sim_asr_h(ISA_AT, a, n)
#define v_asr_w(a, n) sim_asr_w(ISA_AT, a, n)
#define v_asl_h(a, n) sim_asl_h(ISA_AT, a, n)
#define v_asl_w(a, n) sim_asl_w(ISA_AT, a, n)
#define v_ror(a, n) sim_ror(ISA_AT, a, n)
#define v_load(p) sim_load(ISA_AT, p)
#define v_const(p) sim_const(ISA_AT, p)
#define v_loadu(p) sim_loadu(ISA_AT, p)
#define v_store(p, v) sim_store(ISA_AT, p, v)
#define v_storeu(p, v) sim_storeu(ISA_AT, p, v)
#define v_store_if(m, p, v) sim_store_if(ISA_AT, m, p, v)
#define s_load_u16(p) ((uint16_t)sim_scalar_load(ISA_AT, p, 2))
#define s_load_u32(p) ((uint32_t)sim_scalar_load(ISA_AT, p, 4))
#define s_load_u64(p) sim_scalar_load(ISA_AT, p, 8)
#define s_store_u32(p, x) sim_scalar_store(ISA_AT, p, x)
#define v_zero() sim_zero(ISA_AT)
#define v_splat_b(x) sim_splat(ISA_AT, (uint32_t)(x), 1)
#define v_splat_h(x) sim_splat(ISA_AT, (uint32_t)(x), 2)
#define v_splat_w(x) sim_splat(ISA_AT, (uint32_t)(x), 4)
#define v_lo(w) ((w).lo)
#define v_hi(w) ((w).hi)
#define v_pair(high, low) ((vec2){.lo = (low), .hi = (high)})
#define v_get_w(v, lane) sim_get_w(ISA_AT, v, lane)
#define v_mux(m, a, b) sim_mux(ISA_AT, m, a, b)
#define m_first(n) sim_first(ISA_AT, n)
#define m_and(a, b) sim_mask_op(ISA_AT, a, b, 0)
#define m_or(a, b) sim_mask_op(ISA_AT, a, b, 1)
#define m_not(a) sim_mask_op(ISA_AT, a, a, 2)
#define v_align(hi, lo, n) sim_align(ISA_AT, hi, lo, n, 0)
#define v_lalign(hi, lo, n) sim_align(ISA_AT, hi, lo, n, 1)
#define v_shuff2(hi, lo, r) sim_shuff2(ISA_AT, hi, lo, r)
#define v_deal2(hi, lo, r) sim_deal2(ISA_AT, hi, lo, r)
#define v_lut32(i, t, sel) sim_lut32(ISA_AT, i, t, sel)
#define v_lut16(i, t, sel) sim_lut16(ISA_AT, i, t, sel)
#define v_mpy_h(a, b) sim_mpy_h(ISA_AT, a, b)
#define v_rmpy_ub_rb(a, r) sim_rmpy_scalar(ISA_AT, sim_zero((struct sim_at){0}), a, r)
#define v_rmpyacc_ub_rb(acc, a, r) sim_rmpy_scalar(ISA_AT, acc, a, r)
#define v_rmpyacc_ub_b(acc, a, b) sim_rmpyacc_ub_b(ISA_AT, acc, a, b)
#define v_rmpyacc_b_b(acc, a, b) sim_rmpyacc_b_b(ISA_AT, acc, a, b)
#define v_dmpyacc_ub_rb(acc, a, r) sim_dmpyacc_ub_rb(ISA_AT, acc, a, r)
#define v_dmpyacc_h(acc, a, b) sim_dmpyacc_h(ISA_AT, acc, a, b)
#define v_addacc_h(acc, a, b) sim_addacc_h(ISA_AT, acc, a, b)
#define v_addacc_ub(acc, a, b) sim_addacc_ub(ISA_AT, acc, a, b)
#define v_mpyf_rh(a, r) sim_mpyf_rh(ISA_AT, a, r)
#define v_gather_h(dst, base, bytes, off) sim_gather(ISA_AT, dst, base, bytes, off, 2)
#define v_gather_w(dst, base, bytes, off) sim_gather(ISA_AT, dst, base, bytes, off, 4)
#define v_scatter_h(base, bytes, off, v) sim_scatter(ISA_AT, base, bytes, off, v, 2)
#define v_scatter_w(base, bytes, off, v) sim_scatter(ISA_AT, base, bytes, off, v, 4)
#define scatter_sync(p) sim_scatter_sync(ISA_AT, p)
#define dma_start_1d(dst, src, bytes) sim_dma_start(ISA_AT, dst, 0, src, 0, bytes, 1, 0)
#define dma_start_2d(dst, ds, src, ss, width, rows) sim_dma_start(ISA_AT, dst, ds, src, ss, width, rows, 1)
#define dma_poll(ticket) sim_dma_poll(ISA_AT, ticket)
#define dma_wait(ticket) sim_dma_wait(ISA_AT, ticket)
#define cache_flush(p, bytes) sim_flush(ISA_AT, p, bytes)
#define cache_invalidate(p, bytes) sim_invalidate(ISA_AT, p, bytes)
#define l2_fetch(p, bytes) ((void)(p), (void)(bytes))
#define isa_threads(n, fn, user) sim_threads(ISA_AT, n, fn, user)
#define isa_phases(n, n_phases, lead, fn, user) sim_phases(ISA_AT, n, n_phases, lead, fn, user)
#define tile_clear() sim_tile_clear(ISA_AT)
#define tile_mac(a, w, n) sim_tile_mac(ISA_AT, a, w, n)
#define tile_store(dst) sim_tile_store(ISA_AT, dst)

#endif
