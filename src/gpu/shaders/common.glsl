/* SPDX-License-Identifier: MIT
 *
 * Memory by address, half floats, and exp.
 *
 * Half floats are converted by integer arithmetic and exp is a polynomial: drivers may flush denormals and round their
 * own functions as they like, which would make results differ between GPUs for no gain.
 */
#extension GL_EXT_buffer_reference : require

layout(buffer_reference, std430, buffer_reference_align = 4) buffer F32 { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer U32 { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer I32 { int at[]; };

#define INFINITE uintBitsToFloat(0x7f800000)

bool is_nan(float x)
{
    return (floatBitsToUint(x) & 0x7fffffff) > 0x7f800000;
}

/* Four bytes at any byte offset.  Reads no word that holds none of them. */
uint bytes4(U32 p, uint at)
{
    uint shift = (at & 3) * 8, low = p.at[at >> 2];
    return shift == 0 ? low : (low >> shift) | (p.at[(at >> 2) + 1] << (32 - shift));
}

uint byte_at(U32 p, uint at)
{
    return (p.at[at >> 2] >> ((at & 3) * 8)) & 255;
}

/* Two bytes at an even offset. */
uint bytes2(U32 p, uint at)
{
    return (p.at[at >> 2] >> ((at & 2) * 8)) & 0xffff;
}

float half_to_float(uint h)
{
    uint sign = (h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
    if (e == 0) return uintBitsToFloat(sign | floatBitsToUint(float(m) * 5.9604644775390625e-8));
    return uintBitsToFloat(sign | ((e == 31 ? 255 : e + 112) << 23) | (m << 13));
}

/* To nearest, ties to even. */
uint half_of_float(float x)
{
    uint bits = floatBitsToUint(x), sign = (bits >> 16) & 0x8000, a = bits & 0x7fffffff;
    if (a > 0x7f800000) return sign | 0x7e00;
    if (a >= 0x477ff000) return sign | 0x7c00;
    if (a < 0x38800000) return sign | uint(roundEven(uintBitsToFloat(a) * 16777216.0));
    return sign | ((a + 0xfff + ((a >> 13) & 1) - 0x38000000) >> 13);
}

float half_at(U32 p, uint at)
{
    return half_to_float(bytes2(p, at));
}

/* Relative error below 2e-7; 0 below the smallest normal number. */
float exp_of(float x)
{
    if (is_nan(x)) return x;
    if (x < -87.3) return 0;
    if (x > 88.7) return INFINITE;
    float n = roundEven(x * 1.44269504), r = fma(-n, 0.693359375, x);
    r = fma(n, 2.12194440e-4, r);
    float p = 1.9875691500e-4;
    p = fma(p, r, 1.3981999507e-3);
    p = fma(p, r, 8.3334519073e-3);
    p = fma(p, r, 4.1665795894e-2);
    p = fma(p, r, 1.6666665459e-1);
    p = fma(p, r, 5.0000001201e-1);
    p = fma(p * r, r, r) + 1;
    int low = int(n) / 2, high = int(n) - low;
    return p * uintBitsToFloat(uint(low + 127) << 23) * uintBitsToFloat(uint(high + 127) << 23);
}

float tanh_of(float u)
{
    float s = u * u;
    if (abs(u) < 0.25)
        return u * fma(s, fma(s, fma(s, fma(s, 0.0218694885, -0.0539682540), 0.1333333333), -0.3333333333), 1.0);
    return u > 0 ? 1 - 2 / (exp_of(2 * u) + 1) : 2 / (exp_of(-2 * u) + 1) - 1;
}
