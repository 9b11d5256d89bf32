/* SPDX-License-Identifier: MIT
 *
 * Rows of activations to int8, one scale per 32, as the CPU's class i8x32 rounds them: d = max|x| / 127, codes = nearest
 * of x * (127 / max|x|), ties to even.  A group is 10 words: 8 of codes, d, d * sum of the codes.
 * Group (x, y): 64 groups of row y.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
    F32 x;
    U32 result;
    uint n_group;
} p;

void main()
{
    uint g = gl_GlobalInvocationID.x, at = gl_WorkGroupID.y * p.n_group + g;
    if (g >= p.n_group) return;
    float most = 0;
    for (uint i = 0; i < 32; i++) {
        float a = abs(p.x.at[at * 32 + i]);
        if (a > most) most = a;
    }
    bool usable = most > 1e-30 && most < 1e38;
    float d = usable ? divide_once(most, 127.0) : 0, inverse = usable ? divide_once(127.0, most) : 0;
    int sum = 0;
    for (uint w = 0; w < 8; w++) {
        uint four = 0;
        for (uint e = 0; e < 4; e++) {
            precise float scaled = p.x.at[at * 32 + 4 * w + e] * inverse;
            int q = clamp(int(roundEven(scaled)), -127, 127);
            sum += q;
            four |= (uint(q) & 255) << (8 * e);
        }
        p.result.at[at * 10 + w] = four;
    }
    precise float scaled_sum = d * float(sum);
    p.result.at[at * 10 + 8] = floatBitsToUint(d);
    p.result.at[at * 10 + 9] = floatBitsToUint(scaled_sum);
}
