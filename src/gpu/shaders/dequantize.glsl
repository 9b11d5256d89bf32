/* SPDX-License-Identifier: MIT
 *
 * Weights by 8 elements k .. k + 7 (k a multiple of 8) of the row that begins at byte `row` of p.weight: as floats of any
 * type, and for types of class i8x32 as codes with what a group of 32 has besides.  Layouts: quant/formats.h.
 * TYPE is a specialization constant, a number of enum quant_type: a pipeline keeps one case.
 */
const uint T_F32 = 0, T_F16 = 1, T_Q4_0 = 2, T_Q4_1 = 3, T_Q5_0 = 6, T_Q5_1 = 7, T_Q8_0 = 8, T_Q2_K = 10, T_Q3_K = 11,
           T_Q4_K = 12, T_Q5_K = 13, T_Q6_K = 14, T_IQ4_NL = 20, T_IQ4_XS = 23, T_BF16 = 30, T_TQ2_0 = 35, T_MXFP4 = 39,
           T_Q1_0 = 41, T_Q2_0 = 42;

const int IQ4_NL_VALUE[16] = int[16](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
const int MXFP4_VALUE[16] = int[16](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

const bool HAS_MIN = TYPE == T_Q4_1 || TYPE == T_Q5_1;
const bool IS_FLOAT = TYPE == T_F32 || TYPE == T_F16 || TYPE == T_BF16;
const bool IS_K_QUANT = TYPE >= T_Q2_K && TYPE <= T_Q6_K;
const bool HAS_SUPER = IS_K_QUANT || TYPE == T_IQ4_XS || TYPE == T_TQ2_0; /* blocks of 256 */
const uint BLOCK = TYPE == T_Q1_0 ? 128 : TYPE == T_Q2_0 ? 64 : 32;
const uint BLOCK_BYTES = TYPE == T_Q4_1 ? 20 : TYPE == T_Q5_0 ? 22 : TYPE == T_Q5_1 ? 24 : TYPE == T_Q8_0 ? 34
                         : TYPE == T_MXFP4 ? 17 : 18;

/* ---- class i8x32: x = code scale + minimum ---- */

float scale_of(uint row, uint k)
{
    uint at = row + k / BLOCK * BLOCK_BYTES;
    if (TYPE != T_MXFP4) return half_at(p.weight, at);
    uint e = byte_at(p.weight, at);
    return uintBitsToFloat(e < 2 ? 0x00200000 << e : (e - 1) << 23);
}

float minimum_of(uint row, uint k)
{
    return HAS_MIN ? half_at(p.weight, row + k / BLOCK * BLOCK_BYTES + 2) : 0;
}

/* Nibbles of 16 bytes: elements 0 .. 15 low, 16 .. 31 high. */
void nibbles8(uint at, uint i, out int q[8])
{
    for (uint w = 0; w < 2; w++) {
        uint four = bytes4(p.weight, at + (i & 8) + 4 * w) >> (i >= 16 ? 4 : 0);
        for (uint e = 0; e < 4; e++) q[4 * w + e] = int((four >> (8 * e)) & 15);
    }
}

void codes8(uint row, uint k, out int q[8])
{
    uint i = k % BLOCK, at = row + k / BLOCK * BLOCK_BYTES;
    if (TYPE == T_Q8_0) {
        for (uint e = 0; e < 8; e++)
            q[e] = bitfieldExtract(int(bytes4(p.weight, at + 2 + i + (e & 4))), 8 * int(e & 3), 8);
    } else if (TYPE == T_Q1_0) {
        uint bits = byte_at(p.weight, at + 2 + i / 8);
        for (uint e = 0; e < 8; e++) q[e] = int(2 * ((bits >> e) & 1)) - 1;
    } else if (TYPE == T_Q2_0) {
        uint pairs = bytes2(p.weight, at + 2 + i / 4);
        for (uint e = 0; e < 8; e++) q[e] = int((pairs >> (2 * e)) & 3) - 1;
    } else if (TYPE == T_Q5_0 || TYPE == T_Q5_1) {
        uint high = bytes4(p.weight, at + BLOCK_BYTES - 20) >> i;
        nibbles8(at + BLOCK_BYTES - 16, i, q);
        for (uint e = 0; e < 8; e++) q[e] = (q[e] | int((high >> e) & 1) << 4) - (HAS_MIN ? 0 : 16);
    } else {
        nibbles8(at + BLOCK_BYTES - 16, i, q);
        for (uint e = 0; e < 8; e++)
            q[e] = TYPE == T_IQ4_NL ? IQ4_NL_VALUE[q[e]] : TYPE == T_MXFP4 ? MXFP4_VALUE[q[e]] : q[e] - (HAS_MIN ? 0 : 8);
    }
}

/* ---- 256 elements ---- */

/* Scale and minimum of group g of Q4_K and Q5_K, 6 bits each, from the 12 bytes at `at`. */
uvec2 six_bits(uint at, uint g)
{
    uint a = byte_at(p.weight, at + g), b = byte_at(p.weight, at + 4 + g);
    if (g < 4) return uvec2(a & 63, b & 63);
    uint low = byte_at(p.weight, at + g - 4);
    return uvec2((b & 15) | (low >> 6) << 4, (b >> 4) | (a >> 6) << 4);
}

/* 2 bits of 64 bytes: element 128h + 32q + l at bits 2q of byte 32h + l. */
uint two_bits(uint at, uint i)
{
    return (byte_at(p.weight, at + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2)) & 3;
}

float q2_k(uint at, uint i)
{
    uint s = byte_at(p.weight, at + i / 16);
    precise float a = half_at(p.weight, at + 80) * float(s & 15) * float(two_bits(at + 16, i));
    precise float b = half_at(p.weight, at + 82) * float(s >> 4);
    precise float y = a - b;
    return y;
}

float q3_k(uint at, uint i)
{
    uint g = i / 16, s = (byte_at(p.weight, at + 96 + g % 8) >> (g / 8 * 4)) & 15;
    s |= ((byte_at(p.weight, at + 104 + g % 4) >> (g / 4 * 2)) & 3) << 4;
    uint q = two_bits(at + 32, i) | ((byte_at(p.weight, at + i % 32) >> (i / 32)) & 1) << 2;
    precise float y = half_at(p.weight, at + 108) * float(int(s) - 32) * float(int(q) - 4);
    return y;
}

float q45_k(uint at, uint i)
{
    uint g = i / 32, qs = at + (TYPE == T_Q4_K ? 16 : 48);
    uvec2 s = six_bits(at + 4, g);
    uint q = (byte_at(p.weight, qs + g / 2 * 32 + i % 32) >> ((g & 1) * 4)) & 15;
    if (TYPE == T_Q5_K) q |= ((byte_at(p.weight, at + 16 + i % 32) >> g) & 1) << 4;
    precise float scale = half_at(p.weight, at) * float(s.x), low = half_at(p.weight, at + 2) * float(s.y);
    precise float y = scale * float(q);
    y = y - low;
    return y;
}

float q6_k(uint at, uint i)
{
    uint h = i / 128, quarter = i % 128 / 32, l = i % 32;
    uint low = (byte_at(p.weight, at + 64 * h + quarter % 2 * 32 + l) >> (quarter / 2 * 4)) & 15;
    uint high = (byte_at(p.weight, at + 128 + 32 * h + l) >> (quarter * 2)) & 3;
    int s = int(byte_at(p.weight, at + 192 + i / 16) << 24) >> 24;
    precise float y = half_at(p.weight, at + 208) * float(s) * float(int(low | high << 4) - 32);
    return y;
}

float iq4_xs(uint at, uint i)
{
    uint g = i / 32, s = (byte_at(p.weight, at + 4 + g / 2) >> (g % 2 * 4)) & 15;
    s |= ((bytes2(p.weight, at + 2) >> (2 * g)) & 3) << 4;
    uint q = (byte_at(p.weight, at + 8 + 16 * g + i % 16) >> (i % 32 / 16 * 4)) & 15;
    precise float y = half_at(p.weight, at) * float(int(s) - 32) * float(IQ4_NL_VALUE[q]);
    return y;
}

float super_of(uint row, uint k)
{
    uint b = k / 256, i = k % 256;
    switch (TYPE) {
    case T_Q2_K: return q2_k(row + 84 * b, i);
    case T_Q3_K: return q3_k(row + 110 * b, i);
    case T_Q4_K: return q45_k(row + 144 * b, i);
    case T_Q5_K: return q45_k(row + 176 * b, i);
    case T_Q6_K: return q6_k(row + 210 * b, i);
    case T_IQ4_XS: return iq4_xs(row + 136 * b, i);
    default: return float(int(two_bits(row + 66 * b, i)) - 1) * half_at(p.weight, row + 66 * b + 64);
    }
}

/* ---- any type ---- */

float float_of(uint row, uint k)
{
    if (TYPE == T_F32) return uintBitsToFloat(bytes4(p.weight, row + k * 4));
    if (TYPE == T_F16) return half_at(p.weight, row + k * 2);
    return uintBitsToFloat(bytes2(p.weight, row + k * 2) << 16);
}

void dequantize8(uint row, uint k, inout float v[8])
{
    if (IS_FLOAT) {
        for (uint e = 0; e < 8 && k + e < p.n_in; e++) v[e] = float_of(row, k + e);
    } else if (HAS_SUPER) {
        for (uint e = 0; e < 8; e++) v[e] = super_of(row, k + e);
    } else {
        int q[8];
        float d = scale_of(row, k), m = minimum_of(row, k);
        codes8(row, k, q);
        for (uint e = 0; e < 8; e++) {
            precise float y = float(q[e]) * d;
            if (HAS_MIN) y = y + m;
            v[e] = y;
        }
    }
}
