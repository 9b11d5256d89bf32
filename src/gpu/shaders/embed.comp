/* SPDX-License-Identifier: MIT
 *
 * Rows of a weight of any type, dequantized, times a scale.  Group (x, y): 512 elements of row y, 8 to a lane.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint TYPE = 0; /* enum quant_type */

layout(push_constant) uniform Push {
    U32 weight;
    I32 token;
    F32 result;
    uint skew; /* byte of `weight` at which the tensor begins */
    uint row_bytes, n_in, first, dim;
    float scale;
} p;

#include "dequantize.glsl"

void main()
{
    uint i = gl_GlobalInvocationID.x * 8, row = gl_WorkGroupID.y;
    float v[8];
    if (i >= p.dim) return;
    for (uint e = 0; e < 8; e++) v[e] = 0;
    dequantize8(p.skew + uint(p.token.at[row]) * p.row_bytes, p.first + i, v);
    for (uint e = 0; e < 8 && i + e < p.dim; e++) p.result.at[row * p.dim + i + e] = v[e] * p.scale;
}
