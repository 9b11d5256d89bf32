/* SPDX-License-Identifier: MIT
 *
 * Rotation by position.  The host has computed cosines and sines in double: table[row][n_rot / 2][2].
 * Group (x, y): 64 units of row y; a head has n_rot / 2 pairs, then the elements that stay.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
    F32 x, result, table;
    uint n_head, d_head, n_rot, neox;
} p;

void main()
{
    uint half_rot = p.n_rot / 2, units = p.d_head - half_rot;
    uint unit = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y, head = unit / units, i = unit % units;
    if (head >= p.n_head) return;
    uint first = (row * p.n_head + head) * p.d_head;
    if (i >= half_rot) {
        uint at = first + half_rot + i;
        p.result.at[at] = p.x.at[at];
        return;
    }
    uint ia = first + (p.neox != 0 ? i : 2 * i), ib = p.neox != 0 ? ia + half_rot : ia + 1;
    uint at = (row * half_rot + i) * 2;
    float c = p.table.at[at], s = p.table.at[at + 1], a = p.x.at[ia], b = p.x.at[ib];
    precise float ya = a * c - b * s, yb = a * s + b * c;
    p.result.at[ia] = ya;
    p.result.at[ib] = yb;
}
