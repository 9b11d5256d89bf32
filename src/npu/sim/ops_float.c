/* SPDX-License-Identifier: MIT
 *
 * Float operations: dsp/soft.h on every lane.  A value in the unit's own form keeps the bits of the nearest IEEE value
 * and is marked, so that what is computed agrees with the QEMU back end and what is misused is found.
 */
#include "npu/sim/sim_impl.h"

#include "npu/dsp/soft.h"

#include <string.h>

/* X(name, unit, field, lanes, form of a, form of b, form of the result, value) */
#define FLOAT_2(X)                                                                                                     \
    X(q16_mul, MULTIPLY_PAIR, uh, 64, FORM_BITS, FORM_BITS, FORM_Q16, soft_mul16(a.uh[i], b.uh[i]))                    \
    X(q16_add, SHIFT, uh, 64, FORM_BITS, FORM_BITS, FORM_Q16, soft_add16(a.uh[i], b.uh[i]))                            \
    X(q16_sub, SHIFT, uh, 64, FORM_BITS, FORM_BITS, FORM_Q16, soft_sub16(a.uh[i], b.uh[i]))                            \
    X(q16_add_q, SHIFT, uh, 64, FORM_Q16, FORM_BITS, FORM_Q16, soft_add16(a.uh[i], b.uh[i]))                           \
    X(q16_mul_qq, MULTIPLY_PAIR, uh, 64, FORM_Q16, FORM_Q16, FORM_Q16, soft_mul16(a.uh[i], b.uh[i]))                   \
    X(q32_mul, MULTIPLY_PAIR, uw, 32, FORM_BITS, FORM_BITS, FORM_Q32, soft_mul32(a.uw[i], b.uw[i]))                    \
    X(q32_add, SHIFT, uw, 32, FORM_BITS, FORM_BITS, FORM_Q32, soft_add32(a.uw[i], b.uw[i]))                            \
    X(q32_sub, SHIFT, uw, 32, FORM_BITS, FORM_BITS, FORM_Q32, soft_sub32(a.uw[i], b.uw[i]))                            \
    X(q32_add_q, SHIFT, uw, 32, FORM_Q32, FORM_BITS, FORM_Q32, soft_add32(a.uw[i], b.uw[i]))                           \
    X(q32_add_qq, SHIFT, uw, 32, FORM_Q32, FORM_Q32, FORM_Q32, soft_add32(a.uw[i], b.uw[i]))                           \
    X(q32_mul_qq, MULTIPLY_PAIR, uw, 32, FORM_Q32, FORM_Q32, FORM_Q32, soft_mul32(a.uw[i], b.uw[i]))                   \
    X(f16_max, ALU, uh, 64, FORM_BITS, FORM_BITS, FORM_BITS, soft_max16(a.uh[i], b.uh[i]))                             \
    X(f16_min, ALU, uh, 64, FORM_BITS, FORM_BITS, FORM_BITS, soft_min16(a.uh[i], b.uh[i]))                             \
    X(f32_max, ALU, uw, 32, FORM_BITS, FORM_BITS, FORM_BITS, soft_max32(a.uw[i], b.uw[i]))                             \
    X(f32_min, ALU, uw, 32, FORM_BITS, FORM_BITS, FORM_BITS, soft_min32(a.uw[i], b.uw[i]))

#define WRITE_2(name, unit, f, lanes, form_a, form_b, form_r, value)                                                   \
    vec sim_##name(struct sim_at at, vec a, vec b)                                                                     \
    {                                                                                                                  \
        sim_count(at, NPU_SIM_##unit);                                                                                 \
        sim_form(at, &a, form_a);                                                                                      \
        sim_form(at, &b, form_b);                                                                                      \
        for (int i = 0; i < lanes; i++) a.f[i] = value;                                                                \
        a.form = form_r;                                                                                               \
        return a;                                                                                                      \
    }
FLOAT_2(WRITE_2)

#define FLOAT_1(X)                                                                                                     \
    X(f16_of_q16, uh, 64, FORM_Q16, a.uh[i])                                                                           \
    X(f32_of_q32, uw, 32, FORM_Q32, a.uw[i])                                                                           \
    X(f32_of_i32, uw, 32, FORM_BITS, soft_of_i32(a.uw[i]))                                                             \
    X(i32_of_f32, uw, 32, FORM_BITS, soft_to_i32(a.uw[i]))                                                             \
    X(f16_of_i16, uh, 64, FORM_BITS, soft_of_i16(a.uh[i]))                                                             \
    X(i16_of_f16, uh, 64, FORM_BITS, soft_to_i16(a.uh[i]))

#define WRITE_1(name, f, lanes, form_a, value)                                                                         \
    vec sim_##name(struct sim_at at, vec a)                                                                            \
    {                                                                                                                  \
        sim_count(at, NPU_SIM_SHIFT);                                                                                  \
        sim_form(at, &a, form_a);                                                                                      \
        for (int i = 0; i < lanes; i++) a.f[i] = value;                                                                \
        a.form = FORM_BITS;                                                                                            \
        return a;                                                                                                      \
    }
FLOAT_1(WRITE_1)

vmask sim_f16_gt(struct sim_at at, vec a, vec b)
{
    vmask m;
    sim_count(at, NPU_SIM_ALU);
    sim_form(at, &a, FORM_BITS);
    sim_form(at, &b, FORM_BITS);
    for (int i = 0; i < 64; i++) memset(m.set + 2 * i, soft_gt16(a.uh[i], b.uh[i]), 2);
    return m;
}

vmask sim_f32_gt(struct sim_at at, vec a, vec b)
{
    vmask m;
    sim_count(at, NPU_SIM_ALU);
    sim_form(at, &a, FORM_BITS);
    sim_form(at, &b, FORM_BITS);
    for (int i = 0; i < 32; i++) memset(m.set + 4 * i, soft_gt32(a.uw[i], b.uw[i]), 4);
    return m;
}

vec2 sim_q32_mul_f16(struct sim_at at, vec a, vec b)
{
    vec2 r;
    sim_count(at, NPU_SIM_MULTIPLY_PAIR);
    sim_form(at, &a, FORM_BITS);
    sim_form(at, &b, FORM_BITS);
    r.lo.form = r.hi.form = FORM_Q32;
    for (int i = 0; i < 32; i++) {
        r.lo.uw[i] = soft_mul_f16(a.uh[2 * i], b.uh[2 * i]);
        r.hi.uw[i] = soft_mul_f16(a.uh[2 * i + 1], b.uh[2 * i + 1]);
    }
    return r;
}

vec sim_f16_of_q32(struct sim_at at, vec2 w)
{
    vec r;
    sim_count(at, NPU_SIM_SHIFT);
    sim_form(at, &w.lo, FORM_Q32);
    sim_form(at, &w.hi, FORM_Q32);
    r.form = FORM_BITS;
    for (int i = 0; i < 32; i++) {
        r.uh[2 * i] = soft_narrow(w.lo.uw[i]);
        r.uh[2 * i + 1] = soft_narrow(w.hi.uw[i]);
    }
    return r;
}
