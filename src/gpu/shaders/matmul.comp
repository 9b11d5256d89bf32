/* SPDX-License-Identifier: MIT
 *
 * Products with weights of any type, dequantized: class gpu-f32.
 *
 * Group (x, y): outputs 32 x .. of rows 4 M y .. : lane (o, r) has output o of M rows.  64 inputs at a time go through
 * shared memory, so that neighbouring lanes read neighbouring bytes.  Each output is one chain of multiply-adds, inputs
 * ascending, whatever M is: a row's bits do not depend on how many rows there are.  Where the driver fuses fma(), F32,
 * F16 and BF16 have the bits of the CPU's class f32.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

const uint OUTS = 32, ROW_LANES = 4, LANES = OUTS * ROW_LANES, CHUNK = 64;
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint TYPE = 0; /* enum quant_type */
layout(constant_id = 1) const uint M = 1;

layout(push_constant) uniform Push {
    U32 weight;
    F32 x, bias, result;
    uint skew; /* byte of `weight` at which the tensor begins */
    uint row_bytes, n_in, n_out, n_row, has_bias;
    uint result_stride;
} p;

#include "dequantize.glsl"

shared float w[OUTS][CHUNK + 1];
shared float x[ROW_LANES * M][CHUNK + 1];

void stage(uint first_out, uint first_row, uint k0)
{
    uint t = gl_LocalInvocationID.x, o = t / ROW_LANES;
    for (uint part = 0; part < CHUNK / 32; part++) {
        uint i = part * 32 + t % ROW_LANES * 8;
        float v[8];
        for (uint e = 0; e < 8; e++) v[e] = 0;
        if (first_out + o < p.n_out && k0 + i < p.n_in) dequantize8(p.skew + (first_out + o) * p.row_bytes, k0 + i, v);
        for (uint e = 0; e < 8; e++) w[o][i + e] = v[e];
    }
    for (uint i = t; i < ROW_LANES * M * CHUNK; i += LANES) {
        uint row = first_row + i / CHUNK, k = k0 + i % CHUNK;
        x[i / CHUNK][i % CHUNK] = row < p.n_row && k < p.n_in ? p.x.at[row * p.n_in + k] : 0;
    }
}

void main()
{
    uint t = gl_LocalInvocationID.x, o = t % OUTS, r = t / OUTS;
    uint first_out = gl_WorkGroupID.x * OUTS, first_row = gl_WorkGroupID.y * ROW_LANES * M;
    bool busy = first_row + r < p.n_row;
    precise float sum[M];
    for (uint m = 0; m < M; m++) sum[m] = 0;
    for (uint k0 = 0; k0 < p.n_in; k0 += CHUNK) {
        stage(first_out, first_row, k0);
        barrier();
        if (busy) {
            for (uint k = 0; k < CHUNK; k++) {
                float v = w[o][k];
                for (uint m = 0; m < M; m++) sum[m] = fma(v, x[m * ROW_LANES + r][k], sum[m]);
            }
        }
        barrier();
    }
    if (first_out + o >= p.n_out) return;
    for (uint m = 0; m < M; m++) {
        uint row = first_row + m * ROW_LANES + r;
        precise float y = sum[m];
        if (p.has_bias != 0) y += p.bias.at[first_out + o];
        if (row < p.n_row) p.result.at[row * p.result_stride + first_out + o] = y;
    }
}
