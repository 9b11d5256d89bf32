/* SPDX-License-Identifier: MIT
 *
 * Stores of less than a vector, to any address: neighbours of the bytes written are not touched, not even read.
 */
#ifndef LUTRA_NPU_DSP_VPART_H
#define LUTRA_NPU_DSP_VPART_H

#include "npu/dsp/isa.h"

/* The first `bytes` bytes of v (all 128 where there are more) to p. */
ISA_INLINE void v_store_part(struct isa *isa, uint8_t *p, vec v, uint32_t bytes)
{
    uint32_t at = (uint32_t)((uintptr_t)p & 127), end = at + (bytes < 128 ? bytes : 128);
    uint8_t *line = p - at;
    if (!at && end == 128) {
        v_store(p, v);
        return;
    }
    vec turned = v_ror(v, (int32_t)((128 - at) & 127));
    vmask from = m_not(m_first(at));
    v_store_if(end < 128 ? m_and(from, m_first(end)) : from, line, turned);
    if (end > 128) v_store_if(m_first(end - 128), line + 128, turned);
    (void)isa;
}

/* 64 floats, lo and hi, to 64 halves in their order. */
ISA_INLINE vec v_halves(struct isa *isa, vec hi, vec lo)
{
    const vec zero = v_zero();
    vec2 pairs = v_deal2(hi, lo, -4);
    (void)isa;
    return f16_of_q32(v_pair(q32_add(v_hi(pairs), zero), q32_add(v_lo(pairs), zero)));
}

/* 64 halves to 64 floats in their order. */
ISA_INLINE vec2 v_floats(struct isa *isa, vec halves)
{
    vec2 w = q32_mul_f16(halves, v_splat_h(0x3c00));
    (void)isa;
    return v_shuff2(f32_of_q32(v_hi(w)), f32_of_q32(v_lo(w)), -4);
}

#endif
