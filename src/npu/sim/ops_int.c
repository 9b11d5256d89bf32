/* SPDX-License-Identifier: MIT
 *
 * Integer operations lane by lane: logic, additions, comparisons, shifts, multiplications.
 */
#include "npu/sim/sim_impl.h"

#include <string.h>

/* X(name, unit, field, lanes, value of lane i) of two vectors. */
#define LANES_2(X)                                                                                                     \
    X(and, ALU, uw, 32, a.uw[i] & b.uw[i])                                                                             \
    X(or, ALU, uw, 32, a.uw[i] | b.uw[i])                                                                              \
    X(xor, ALU, uw, 32, a.uw[i] ^ b.uw[i])                                                                             \
    X(add_b, ALU, ub, 128, a.ub[i] + b.ub[i])                                                                          \
    X(add_h, ALU, uh, 64, a.uh[i] + b.uh[i])                                                                           \
    X(add_w, ALU, uw, 32, a.uw[i] + b.uw[i])                                                                           \
    X(sub_b, ALU, ub, 128, a.ub[i] - b.ub[i])                                                                          \
    X(sub_h, ALU, uh, 64, a.uh[i] - b.uh[i])                                                                           \
    X(sub_w, ALU, uw, 32, a.uw[i] - b.uw[i])                                                                           \
    X(sub_uh, ALU, uh, 64, a.uh[i] > b.uh[i] ? a.uh[i] - b.uh[i] : 0)                                                  \
    X(max_h, ALU, h, 64, a.h[i] > b.h[i] ? a.h[i] : b.h[i])                                                            \
    X(max_w, ALU, w, 32, a.w[i] > b.w[i] ? a.w[i] : b.w[i])                                                            \
    X(min_h, ALU, h, 64, a.h[i] < b.h[i] ? a.h[i] : b.h[i])                                                            \
    X(min_w, ALU, w, 32, a.w[i] < b.w[i] ? a.w[i] : b.w[i])                                                            \
    X(max_ub, ALU, ub, 128, a.ub[i] > b.ub[i] ? a.ub[i] : b.ub[i])                                                     \
    X(mpyi_h, MULTIPLY_PAIR, uh, 64, (uint32_t)a.uh[i] * b.uh[i])                                                      \
    X(mpyio_w, MULTIPLY_PAIR, uw, 32, a.uw[i] * (uint32_t)b.h[2 * i + 1])

#define WRITE_2(name, unit, f, lanes, value)                                                                           \
    vec sim_##name(struct sim_at at, vec a, vec b)                                                                     \
    {                                                                                                                  \
        sim_count(at, NPU_SIM_##unit);                                                                                 \
        sim_bits(at, &a);                                                                                              \
        sim_bits(at, &b);                                                                                              \
        for (int i = 0; i < lanes; i++) a.f[i] = (__typeof__(a.f[0]))(value);                                          \
        return a;                                                                                                      \
    }
LANES_2(WRITE_2)

/* X(name, field, lanes, mask of the scalar, value): shifts by n. */
#define SHIFTS(X)                                                                                                      \
    X(lsr_ub, ub, 128, 7, a.ub[i] >> n)                                                                                \
    X(lsr_uh, uh, 64, 15, a.uh[i] >> n)                                                                                \
    X(lsr_uw, uw, 32, 31, a.uw[i] >> n)                                                                                \
    X(asr_h, h, 64, 15, a.h[i] >> n)                                                                                   \
    X(asr_w, w, 32, 31, a.w[i] >> n)                                                                                   \
    X(asl_h, uh, 64, 15, (uint32_t)a.uh[i] << n)                                                                       \
    X(asl_w, uw, 32, 31, a.uw[i] << n)

#define WRITE_SHIFT(name, f, lanes, most, value)                                                                       \
    vec sim_##name(struct sim_at at, vec a, int32_t n)                                                                 \
    {                                                                                                                  \
        sim_count(at, NPU_SIM_SHIFT);                                                                                  \
        sim_bits(at, &a);                                                                                              \
        if (n < 0 || n > most) sim_fault(at, NPU_SIM_BAD_OPERAND, 0);                                                  \
        n &= most;                                                                                                     \
        for (int i = 0; i < lanes; i++) a.f[i] = (__typeof__(a.f[0]))(value);                                          \
        return a;                                                                                                      \
    }
SHIFTS(WRITE_SHIFT)

/* X(name, field, lanes, bytes of a lane, condition). */
#define COMPARES(X)                                                                                                    \
    X(gt_h, 64, 2, a.h[i] > b.h[i])                                                                                    \
    X(gt_w, 32, 4, a.w[i] > b.w[i])                                                                                    \
    X(gt_ub, 128, 1, a.ub[i] > b.ub[i])                                                                                \
    X(eq_h, 64, 2, a.h[i] == b.h[i])                                                                                   \
    X(eq_w, 32, 4, a.w[i] == b.w[i])

#define WRITE_COMPARE(name, lanes, bytes, condition)                                                                   \
    vmask sim_##name(struct sim_at at, vec a, vec b)                                                                   \
    {                                                                                                                  \
        vmask m;                                                                                                       \
        sim_count(at, NPU_SIM_ALU);                                                                                    \
        sim_bits(at, &a);                                                                                              \
        sim_bits(at, &b);                                                                                              \
        for (int i = 0; i < lanes; i++) memset(m.set + i * bytes, condition, bytes);                                   \
        return m;                                                                                                      \
    }
COMPARES(WRITE_COMPARE)

vec sim_not(struct sim_at at, vec a)
{
    sim_count(at, NPU_SIM_ALU);
    sim_bits(at, &a);
    for (int i = 0; i < 32; i++) a.uw[i] = ~a.uw[i];
    return a;
}

vec sim_zero(struct sim_at at)
{
    sim_count(at, NPU_SIM_ALU);
    return (vec){.form = FORM_BITS};
}

vec sim_splat(struct sim_at at, uint32_t x, uint32_t lane_bytes)
{
    vec v;
    v.form = FORM_BITS;
    sim_count(at, NPU_SIM_MULTIPLY);
    for (uint32_t i = 0; i < 128; i += lane_bytes) memcpy(v.ub + i, &x, lane_bytes);
    return v;
}

uint32_t sim_get_w(struct sim_at at, vec v, uint32_t lane)
{
    sim_count(at, NPU_SIM_LOAD);
    sim_bits(at, &v);
    if (lane > 31) sim_fault(at, NPU_SIM_BAD_OPERAND, 0);
    return v.uw[lane & 31];
}

vec sim_mux(struct sim_at at, vmask m, vec a, vec b)
{
    sim_count(at, NPU_SIM_ALU);
    if (a.form != b.form) sim_fault(at, NPU_SIM_QFLOAT_AS_FLOAT, 0);
    for (int i = 0; i < 128; i++) a.ub[i] = m.set[i] ? a.ub[i] : b.ub[i];
    return a;
}

vmask sim_first(struct sim_at at, uint32_t n)
{
    vmask m;
    sim_count(at, NPU_SIM_PERMUTE);
    if (n > 127) sim_fault(at, NPU_SIM_BAD_OPERAND, 0); /* 128 means 0 to the hardware */
    for (uint32_t i = 0; i < 128; i++) m.set[i] = i < (n & 127);
    return m;
}

vmask sim_mask_op(struct sim_at at, vmask a, vmask b, int op)
{
    sim_count(at, NPU_SIM_ALU);
    for (int i = 0; i < 128; i++) a.set[i] = op == 0 ? a.set[i] & b.set[i] : op == 1 ? a.set[i] | b.set[i] : !a.set[i];
    return a;
}

vec2 sim_mpy_h(struct sim_at at, vec a, vec b)
{
    vec2 r;
    sim_count(at, NPU_SIM_MULTIPLY_PAIR);
    sim_bits(at, &a);
    sim_bits(at, &b);
    r.lo.form = r.hi.form = FORM_BITS;
    for (int i = 0; i < 32; i++) {
        r.lo.w[i] = a.h[2 * i] * b.h[2 * i];
        r.hi.w[i] = a.h[2 * i + 1] * b.h[2 * i + 1];
    }
    return r;
}

vec sim_rmpy_scalar(struct sim_at at, vec acc, vec a, uint32_t quad)
{
    sim_count(at, NPU_SIM_MULTIPLY);
    sim_bits(at, &acc);
    sim_bits(at, &a);
    for (int i = 0; i < 128; i++) acc.uw[i / 4] += (uint32_t)(a.ub[i] * (int8_t)(quad >> 8 * (i % 4)));
    return acc;
}

vec sim_rmpyacc_ub_b(struct sim_at at, vec acc, vec a, vec b)
{
    sim_count(at, NPU_SIM_MULTIPLY);
    sim_bits(at, &acc);
    sim_bits(at, &a);
    sim_bits(at, &b);
    for (int i = 0; i < 128; i++) acc.uw[i / 4] += (uint32_t)(a.ub[i] * b.b[i]);
    return acc;
}

vec sim_rmpyacc_b_b(struct sim_at at, vec acc, vec a, vec b)
{
    sim_count(at, NPU_SIM_MULTIPLY);
    sim_bits(at, &acc);
    sim_bits(at, &a);
    sim_bits(at, &b);
    for (int i = 0; i < 128; i++) acc.uw[i / 4] += (uint32_t)(a.b[i] * b.b[i]);
    return acc;
}

vec sim_dmpyacc_ub_rb(struct sim_at at, vec acc, vec a, uint32_t pairs)
{
    sim_count(at, NPU_SIM_MULTIPLY);
    sim_bits(at, &acc);
    sim_bits(at, &a);
    for (int i = 0; i < 128; i++) acc.uh[i / 2] = (uint16_t)(acc.uh[i / 2] + a.ub[i] * (int8_t)(pairs >> 8 * (i % 4)));
    return acc;
}

vec sim_dmpyacc_h(struct sim_at at, vec acc, vec a, vec b)
{
    sim_count(at, NPU_SIM_MULTIPLY_PAIR);
    sim_bits(at, &acc);
    sim_bits(at, &a);
    sim_bits(at, &b);
    for (int i = 0; i < 32; i++) {
        int64_t x = (int64_t)acc.w[i] + (int64_t)a.h[2 * i] * b.h[2 * i] + (int64_t)a.h[2 * i + 1] * b.h[2 * i + 1];
        acc.w[i] = (int32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
    }
    return acc;
}

vec2 sim_addacc_h(struct sim_at at, vec2 acc, vec a, vec b)
{
    sim_count(at, NPU_SIM_MULTIPLY_PAIR);
    sim_bits(at, &acc.lo);
    sim_bits(at, &acc.hi);
    sim_bits(at, &a);
    sim_bits(at, &b);
    for (int i = 0; i < 32; i++) {
        acc.lo.uw[i] += (uint32_t)(a.h[2 * i] + b.h[2 * i]);
        acc.hi.uw[i] += (uint32_t)(a.h[2 * i + 1] + b.h[2 * i + 1]);
    }
    return acc;
}

vec2 sim_addacc_ub(struct sim_at at, vec2 acc, vec a, vec b)
{
    sim_count(at, NPU_SIM_MULTIPLY_PAIR);
    sim_bits(at, &acc.lo);
    sim_bits(at, &acc.hi);
    sim_bits(at, &a);
    sim_bits(at, &b);
    for (int i = 0; i < 64; i++) {
        acc.lo.uh[i] = (uint16_t)(acc.lo.uh[i] + a.ub[2 * i] + b.ub[2 * i]);
        acc.hi.uh[i] = (uint16_t)(acc.hi.uh[i] + a.ub[2 * i + 1] + b.ub[2 * i + 1]);
    }
    return acc;
}

vec sim_mpyf_rh(struct sim_at at, vec a, int32_t r)
{
    sim_count(at, NPU_SIM_MULTIPLY);
    sim_bits(at, &a);
    if (r < 0 || r > INT16_MAX) sim_fault(at, NPU_SIM_BAD_OPERAND, 0); /* the counterpart repeats 16 bits */
    for (int i = 0; i < 64; i++) a.h[i] = (int16_t)((int64_t)a.h[i] * r * 2 >> 16);
    return a;
}
