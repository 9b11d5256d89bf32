/* SPDX-License-Identifier: MIT
 *
 * RMS norm and layer norm.  Group (x, y): elements x n_norm .. of row y.  Each lane adds every 64th element, then the
 * 64 sums are added in pairs.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const bool LAYER = false;

layout(push_constant) uniform Push {
    F32 x, weight, bias, result;
    uint dim, n_norm;
    float eps;
    uint has_bias;
} p;

shared float part[64];

float sum_of(float mine)
{
    uint lane = gl_LocalInvocationID.x;
    part[lane] = mine;
    barrier();
    for (uint n = 32; n > 0; n >>= 1) {
        if (lane < n) part[lane] += part[lane + n];
        barrier();
    }
    float sum = part[0];
    barrier();
    return sum;
}

void main()
{
    uint lane = gl_LocalInvocationID.x, first = gl_WorkGroupID.y * p.dim + gl_WorkGroupID.x * p.n_norm;
    float mean = 0, mine = 0;
    if (LAYER) {
        for (uint i = lane; i < p.n_norm; i += 64) mine += p.x.at[first + i];
        mean = sum_of(mine) / float(p.n_norm);
        mine = 0;
    }
    for (uint i = lane; i < p.n_norm; i += 64) {
        float d = p.x.at[first + i] - mean;
        mine = fma(d, d, mine);
    }
    float scale = 1 / sqrt(sum_of(mine) / float(p.n_norm) + p.eps);
    for (uint i = lane; i < p.n_norm; i += 64) {
        precise float y = (p.x.at[first + i] - mean) * scale * p.weight.at[i];
        if (LAYER && p.has_bias != 0) y += p.bias.at[i];
        p.result.at[first + i] = y;
    }
}
