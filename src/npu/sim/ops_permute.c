/* SPDX-License-Identifier: MIT
 *
 * Operations that move lanes: rotations, interleavings, networks, packs and tables.
 */
#include "npu/sim/sim_impl.h"

#include <string.h>

vec sim_ror(struct sim_at at, vec a, int32_t n)
{
    vec r;
    r.form = a.form;
    sim_count(at, NPU_SIM_PERMUTE);
    for (int i = 0; i < 128; i++) r.ub[i] = a.ub[(i + n) & 127];
    return r;
}

/* Bytes n.. of lo followed by hi; from_low counts n from the top, as vlalign does. */
vec sim_align(struct sim_at at, vec hi, vec lo, int32_t n, int from_low)
{
    uint8_t both[256];
    vec r;
    sim_count(at, NPU_SIM_PERMUTE);
    if (hi.form != lo.form) sim_fault(at, NPU_SIM_QFLOAT_AS_FLOAT, 0);
    r.form = lo.form;
    n &= 127;
    memcpy(both, lo.ub, 128);
    memcpy(both + 128, hi.ub, 128);
    memcpy(r.ub, both + (from_low ? 128 - n : n), 128);
    return r;
}

/* X(name, source byte of byte i): single-vector interleavings; `l` bytes per lane. */
static vec deal(vec a, int l, int inverse)
{
    vec r = a;
    int half = 64 / l;
    for (int i = 0; i < half; i++)
        for (int b = 0; b < l; b++) {
            int even = 2 * i * l + b, odd = even + l, low = i * l + b, high = low + 64;
            if (inverse)
                r.ub[even] = a.ub[low], r.ub[odd] = a.ub[high];
            else
                r.ub[low] = a.ub[even], r.ub[high] = a.ub[odd];
        }
    return r;
}

vec sim_shuff_b(struct sim_at at, vec a)
{
    sim_count(at, NPU_SIM_PERMUTE);
    sim_bits(at, &a);
    return deal(a, 1, 1);
}

vec sim_shuff_h(struct sim_at at, vec a)
{
    sim_count(at, NPU_SIM_PERMUTE);
    return deal(a, 2, 1);
}

vec sim_deal_b(struct sim_at at, vec a)
{
    sim_count(at, NPU_SIM_PERMUTE);
    sim_bits(at, &a);
    return deal(a, 1, 0);
}

vec sim_deal_h(struct sim_at at, vec a)
{
    sim_count(at, NPU_SIM_PERMUTE);
    return deal(a, 2, 0);
}

static vec network(vec a, const vec *control, int stage)
{
    vec r = a;
    for (int i = 0; i < 128; i++) r.ub[i] = control->ub[i] & stage ? a.ub[i ^ stage] : a.ub[i];
    return r;
}

vec sim_delta(struct sim_at at, vec a, vec control)
{
    sim_count(at, NPU_SIM_PERMUTE);
    sim_bits(at, &control);
    for (int stage = 64; stage; stage >>= 1) a = network(a, &control, stage);
    return a;
}

vec sim_rdelta(struct sim_at at, vec a, vec control)
{
    sim_count(at, NPU_SIM_PERMUTE);
    sim_bits(at, &control);
    for (int stage = 1; stage < 128; stage <<= 1) a = network(a, &control, stage);
    return a;
}

static void swap_stage(vec2 *w, int offset)
{
    for (int i = 0; i < 128; i++) {
        if (i & offset) continue;
        uint8_t t = w->hi.ub[i];
        w->hi.ub[i] = w->lo.ub[i + offset], w->lo.ub[i + offset] = t;
    }
}

vec2 sim_shuff2(struct sim_at at, vec hi, vec lo, int32_t r)
{
    vec2 w = {lo, hi};
    sim_count(at, NPU_SIM_PERMUTE_SHIFT);
    if (hi.form != lo.form) sim_fault(at, NPU_SIM_QFLOAT_AS_FLOAT, 0);
    for (int offset = 1; offset < 128; offset <<= 1)
        if (r & offset) swap_stage(&w, offset);
    return w;
}

vec2 sim_deal2(struct sim_at at, vec hi, vec lo, int32_t r)
{
    vec2 w = {lo, hi};
    sim_count(at, NPU_SIM_PERMUTE_SHIFT);
    if (hi.form != lo.form) sim_fault(at, NPU_SIM_QFLOAT_AS_FLOAT, 0);
    for (int offset = 64; offset; offset >>= 1)
        if (r & offset) swap_stage(&w, offset);
    return w;
}

vec2 sim_shuffoe_h(struct sim_at at, vec hi, vec lo)
{
    vec2 w;
    sim_count(at, NPU_SIM_ALU_PAIR);
    if (hi.form != lo.form) sim_fault(at, NPU_SIM_QFLOAT_AS_FLOAT, 0);
    w.lo.form = w.hi.form = lo.form;
    for (int i = 0; i < 64; i += 2) {
        w.lo.uh[i] = lo.uh[i], w.lo.uh[i + 1] = hi.uh[i];
        w.hi.uh[i] = lo.uh[i + 1], w.hi.uh[i + 1] = hi.uh[i + 1];
    }
    return w;
}

static int16_t saturate_h(int32_t x)
{
    return (int16_t)(x > 32767 ? 32767 : x < -32768 ? -32768 : x);
}

static int8_t saturate_b(int32_t x)
{
    return (int8_t)(x > 127 ? 127 : x < -128 ? -128 : x);
}

/* X(name, field, half the lanes, value of lane i, value of lane i + half). */
#define PACKS(X)                                                                                                       \
    X(pack_h, h, 32, saturate_h(lo.w[i]), saturate_h(hi.w[i]))                                                         \
    X(pack_b, b, 64, saturate_b(lo.h[i]), saturate_b(hi.h[i]))                                                         \
    X(packe_h, uh, 32, lo.uh[2 * i], hi.uh[2 * i])                                                                     \
    X(packe_b, ub, 64, lo.ub[2 * i], hi.ub[2 * i])

#define WRITE_PACK(name, f, half, low, high)                                                                           \
    vec sim_##name(struct sim_at at, vec hi, vec lo)                                                                   \
    {                                                                                                                  \
        vec r;                                                                                                         \
        sim_count(at, NPU_SIM_PERMUTE);                                                                                \
        sim_bits(at, &hi);                                                                                             \
        sim_bits(at, &lo);                                                                                             \
        r.form = FORM_BITS;                                                                                            \
        for (int i = 0; i < half; i++) r.f[i] = low, r.f[i + half] = high;                                             \
        return r;                                                                                                      \
    }
PACKS(WRITE_PACK)

/* X(name, unit, field, half the lanes, low vector's lane i, high vector's lane i). */
#define WIDENINGS(X)                                                                                                   \
    X(sxt_b, ALU_PAIR, h, 64, a.b[2 * i], a.b[2 * i + 1])                                                              \
    X(zxt_ub, ALU_PAIR, uh, 64, a.ub[2 * i], a.ub[2 * i + 1])                                                          \
    X(sxt_h, ALU_PAIR, w, 32, a.h[2 * i], a.h[2 * i + 1])                                                              \
    X(zxt_uh, ALU_PAIR, uw, 32, a.uh[2 * i], a.uh[2 * i + 1])                                                          \
    X(unpack_b, PERMUTE_SHIFT, h, 64, a.b[i], a.b[i + 64])                                                             \
    X(unpack_ub, PERMUTE_SHIFT, uh, 64, a.ub[i], a.ub[i + 64])                                                         \
    X(unpack_h, PERMUTE_SHIFT, w, 32, a.h[i], a.h[i + 32])                                                             \
    X(unpack_uh, PERMUTE_SHIFT, uw, 32, a.uh[i], a.uh[i + 32])

#define WRITE_WIDENING(name, unit, f, lanes, low, high)                                                                \
    vec2 sim_##name(struct sim_at at, vec a)                                                                           \
    {                                                                                                                  \
        vec2 r;                                                                                                        \
        sim_count(at, NPU_SIM_##unit);                                                                                 \
        sim_bits(at, &a);                                                                                              \
        r.lo.form = r.hi.form = FORM_BITS;                                                                             \
        for (int i = 0; i < lanes; i++) r.lo.f[i] = low, r.hi.f[i] = high;                                             \
        return r;                                                                                                      \
    }
WIDENINGS(WRITE_WIDENING)

vec sim_lut32(struct sim_at at, vec index, vec table, int32_t sel)
{
    sim_count(at, NPU_SIM_PERMUTE);
    sim_bits(at, &index);
    sim_bits(at, &table);
    for (int i = 0; i < 128; i++) {
        uint32_t entry = (index.ub[i] & 31u) | (uint32_t)(sel & 7) << 5;
        index.ub[i] = table.ub[entry % 64 * 2 + (sel >> 1 & 1)];
    }
    return index;
}

vec2 sim_lut16(struct sim_at at, vec index, vec table, int32_t sel)
{
    vec2 r;
    sim_count(at, NPU_SIM_PERMUTE_SHIFT);
    sim_bits(at, &index);
    sim_bits(at, &table);
    r.lo.form = r.hi.form = FORM_BITS;
    for (int i = 0; i < 128; i++) {
        uint32_t entry = ((index.ub[i] & 15u) | (uint32_t)(sel & 15) << 4) % 32;
        (i & 1 ? &r.hi : &r.lo)->uh[i / 2] = table.uh[entry * 2 + (sel >> 1 & 1)];
    }
    return r;
}
