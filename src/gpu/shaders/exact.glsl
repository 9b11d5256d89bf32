/* SPDX-License-Identifier: MIT
 *
 * A fused multiply-add and a division, rounded once, of exact sums and products of floats: what the CPU's class i8x32
 * is made of, on GPUs that round twice.  Not exact where a partial product is below the smallest normal number.
 */
layout(constant_id = 2) const bool FUSED = true; /* fma() of the driver is one */

/* x + y = a + b exactly, x the rounded sum (Knuth). */
vec2 two_sum(float a, float b)
{
    precise float x = a + b;
    precise float t = x - a;
    precise float u = x - t;
    precise float ea = a - u, eb = b - t;
    precise float y = ea + eb;
    return vec2(x, y);
}

/* x + y = a b exactly, x the rounded product (Dekker). */
vec2 two_product(float a, float b)
{
    precise float ta = 4097.0 * a, tb = 4097.0 * b;
    precise float ua = ta - a, ub = tb - b;
    precise float ah = ta - ua, bh = tb - ub;
    precise float al = a - ah, bl = b - bh;
    precise float x = a * b;
    precise float hh = ah * bh, hl = ah * bl, lh = al * bh, ll = al * bl;
    precise float y = hh - x;
    y = y + hl;
    y = y + lh;
    y = y + ll;
    return vec2(x, y);
}

/* a b + c: the two small parts are added with rounding to odd, so that the last sum rounds as if once (Boldo, Melquiond:
 * Emulation of FMA and correctly rounded sums). */
float fma_once(float a, float b, float c)
{
    if (FUSED) return fma(a, b, c);
    vec2 ab = two_product(a, b);
    if ((floatBitsToUint(ab.y) & 0x7f800000) == 0x7f800000) return ab.x + c; /* infinite, or not a number */
    vec2 u = two_sum(c, ab.y), t = two_sum(ab.x, u.x), v = two_sum(t.y, u.y);
    uint bits = floatBitsToUint(v.x);
    if (v.y != 0 && (bits & 1) == 0) bits = (v.y > 0) == (v.x > 0) ? bits + 1 : bits - 1;
    precise float sum = t.x + uintBitsToFloat(bits);
    return sum;
}

float divide_once(float a, float b)
{
    precise float q = a / b;
    vec2 qb = two_product(q, b);
    precise float rest = a - qb.x;
    rest = rest - qb.y;
    precise float more = rest / b;
    precise float sum = q + more;
    return sum;
}
