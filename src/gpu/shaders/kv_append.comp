/* SPDX-License-Identifier: MIT
 *
 * Keys and values of the pass, rounded to the cache's type.  Group (x, y): 64 units of row y: first those of K, then
 * those of V; a unit is one element of F32, a pair of F16, a block of Q8_0.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#include "common.glsl"
#include "cache.glsl"

layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer U16 { uint16_t at[]; };

layout(push_constant) uniform Push {
    Cache cache;
    F32 k, v;
    uint d_head;
} p;

const uint UNIT = TYPE == 0 ? 1 : TYPE == 1 ? 2 : 32;

/* d = max|x| / 127, codes = nearest of x / d, ties away from zero as quant/ rounds them. */
void store_q8(U16 to, uint at, bool is_v, uint from)
{
    float most = 0;
    for (uint i = 0; i < 32; i++) most = max(most, abs(is_v ? p.v.at[from + i] : p.k.at[from + i]));
    precise float d = most / 127;
    precise float inverse = d != 0 ? 1 / d : 0;
    to.at[at] = uint16_t(half_of_float(d));
    for (uint i = 0; i < 32; i += 2) {
        precise float a = (is_v ? p.v.at[from + i] : p.k.at[from + i]) * inverse;
        precise float b = (is_v ? p.v.at[from + i + 1] : p.k.at[from + i + 1]) * inverse;
        int qa = clamp(int(sign(a) * floor(abs(a) + 0.5)), -127, 127);
        int qb = clamp(int(sign(b) * floor(abs(b) + 0.5)), -127, 127);
        to.at[at + 1 + i / 2] = uint16_t((qa & 255) | (qb & 255) << 8);
    }
}

void main()
{
    uint per_head = p.d_head / UNIT, per_side = per_head * p.cache.n_kv_head, row = gl_WorkGroupID.y;
    uint unit = gl_GlobalInvocationID.x;
    if (unit >= 2 * per_side) return;
    uint side = unit / per_side, head = unit % per_side / per_head, i = unit % per_head * UNIT;
    uint from = (row * p.cache.n_kv_head + head) * p.d_head + i;
    int block = row_field(p.cache, row, BLOCK);
    uint slot = uint(row_field(p.cache, row, SLOT));
    uint at = block < 0 ? draft_place(p.cache, side, head, slot) : block_place(p.cache, side, uint(block), head, slot);
    U32 to = block < 0 ? p.cache.draft : p.cache.pool;
    if (TYPE == 2) {
        store_q8(U16(to), (at + i / 32 * Q8_BYTES) / 2, side != 0, from);
        return;
    }
    float a = side != 0 ? p.v.at[from] : p.k.at[from];
    if (TYPE == 0) {
        to.at[at / 4 + i] = floatBitsToUint(a);
    } else {
        float b = side != 0 ? p.v.at[from + 1] : p.k.at[from + 1];
        to.at[(at + 2 * i) / 4] = half_of_float(a) | half_of_float(b) << 16;
    }
}
