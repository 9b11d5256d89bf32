/* SPDX-License-Identifier: MIT
 *
 * Operations of one element: gates, sums, and picking elements or rows.  Group (x, y): 64 elements of row y.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint KIND = 0; /* enum gpu_pointwise */

layout(push_constant) uniform Push {
    F32 a, b, result;
    I32 index; /* TAKE: rows; PERMUTE: elements */
    uint dim; /* of a row of the result */
    float by;
    uint in_dim; /* PERMUTE: of a row of a */
} p;

/* g / (1 + exp(-2 sqrt(2/pi) (g + 0.044715 g^3))) */
float gelu(float g)
{
    return g / (1 + exp_of(-1.5957691216057308 * fma(0.044715 * g * g, g, g)));
}

float swiglu_oai(float gate, float up)
{
    float g = min(gate, 7.0), u = clamp(up, -7.0, 7.0);
    return g / (1 + exp_of(-1.702 * g)) * (u + 1);
}

void main()
{
    uint i = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (i >= p.dim) return;
    uint at = row * p.dim + i;
    precise float y;
    switch (KIND) {
    case 0: y = p.a.at[at] / (1 + exp_of(-p.a.at[at])) * p.b.at[at]; break;
    case 1: y = gelu(p.a.at[at]) * p.b.at[at]; break;
    case 2: y = gelu(p.a.at[at]); break;
    case 3: y = max(p.a.at[at], 0.0) * max(p.a.at[at], 0.0) * p.b.at[at]; break;
    case 4: y = swiglu_oai(p.a.at[at], p.b.at[at]); break;
    case 5: y = p.a.at[at] + p.b.at[at]; break;
    case 6: y = p.a.at[at] * p.by; break;
    case 7: y = fma(p.by, p.b.at[at], p.a.at[at]); break;
    case 8: y = p.a.at[row * p.in_dim + uint(p.index.at[i])]; break;
    default: y = p.a.at[uint(p.index.at[row]) * p.dim + i]; break;
    }
    p.result.at[at] = y;
}
