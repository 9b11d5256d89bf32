/* SPDX-License-Identifier: MIT
 *
 * Products of 32-element formats with rows that round.comp has made int8: class i8x32.
 *
 * As matmul.comp: group (x, y) is outputs 32 x .. of rows 4 M y .., 64 inputs at a time.  Per 32 inputs an exact integer
 * dot product, then one fused multiply-add, ascending; with a minimum one more.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

const uint OUTS = 32, ROW_LANES = 4, CHUNK = 64, GROUPS = CHUNK / 32, ROUNDED_WORDS = 10;
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint TYPE = 2; /* enum quant_type */
layout(constant_id = 1) const uint M = 1;

layout(push_constant) uniform Push {
    U32 weight, x;
    F32 bias, result;
    uint skew; /* byte of `weight` at which the tensor begins */
    uint row_bytes, n_in, n_out, n_row, has_bias;
    uint result_stride;
} p;

#include "dequantize.glsl"

shared int w[OUTS][CHUNK / 4 + 1];
shared float d[OUTS][GROUPS], minimum[OUTS][GROUPS];

/* Lane t: 16 codes of output t / 4. */
void stage(uint first_out, uint k0)
{
    uint t = gl_LocalInvocationID.x, o = t / 4, i = t % 4 * 16, row = p.skew + (first_out + o) * p.row_bytes;
    if (first_out + o >= p.n_out || k0 + i >= p.n_in) return;
    for (uint part = 0; part < 2; part++) {
        int q[8];
        codes8(row, k0 + i + 8 * part, q);
        for (uint v = 0; v < 2; v++)
            w[o][i / 4 + 2 * part + v] = (q[4 * v] & 255) | (q[4 * v + 1] & 255) << 8 | (q[4 * v + 2] & 255) << 16 |
                                         q[4 * v + 3] << 24;
    }
    if (t % 2 == 0) {
        d[o][i / 32] = scale_of(row, k0 + i);
        minimum[o][i / 32] = minimum_of(row, k0 + i);
    }
}

int dot4(int a, int b)
{
    int sum = bitfieldExtract(a, 0, 8) * bitfieldExtract(b, 0, 8);
    sum += bitfieldExtract(a, 8, 8) * bitfieldExtract(b, 8, 8);
    sum += bitfieldExtract(a, 16, 8) * bitfieldExtract(b, 16, 8);
    return sum + (a >> 24) * (b >> 24);
}

/* Group g of the chunk for one row. */
float add_group(uint o, uint g, uint row, uint k0, float sum)
{
    uint at = (row * (p.n_in / 32) + k0 / 32 + g) * ROUNDED_WORDS;
    int total = 0;
    for (uint i = 0; i < 8; i++) total += dot4(w[o][8 * g + i], int(p.x.at[at + i]));
    precise float scale = d[o][g] * uintBitsToFloat(p.x.at[at + 8]);
    sum = fma_once(float(total), scale, sum);
    return HAS_MIN ? fma_once(minimum[o][g], uintBitsToFloat(p.x.at[at + 9]), sum) : sum;
}

void main()
{
    uint t = gl_LocalInvocationID.x, o = t % OUTS, r = t / OUTS;
    uint first_out = gl_WorkGroupID.x * OUTS, first_row = gl_WorkGroupID.y * ROW_LANES * M;
    float sum[M];
    for (uint m = 0; m < M; m++) sum[m] = 0;
    for (uint k0 = 0; k0 < p.n_in; k0 += CHUNK) {
        stage(first_out, k0);
        barrier();
        for (uint m = 0; m < M; m++) {
            uint row = first_row + m * ROW_LANES + r;
            if (row >= p.n_row) continue;
            for (uint g = 0; g < GROUPS && k0 + 32 * g < p.n_in; g++) sum[m] = add_group(o, g, row, k0, sum[m]);
        }
        barrier();
    }
    if (first_out + o >= p.n_out) return;
    for (uint m = 0; m < M; m++) {
        uint row = first_row + m * ROW_LANES + r;
        precise float y = sum[m];
        if (p.has_bias != 0) y = y + p.bias.at[first_out + o];
        if (row < p.n_row) p.result.at[row * p.result_stride + first_out + o] = y;
    }
}
