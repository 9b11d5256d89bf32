/* SPDX-License-Identifier: MIT
 *
 * exp and what is made of it.
 *
 * exp(x) = 2^n e^r with n = round(x / ln 2), r = x - n ln 2 (in two parts), e^r = 1 + r + r^2 q(r), q of degree 4
 * interpolated at Chebyshev nodes: error of the polynomial below 1e-8, of the result below 1e-7 relative
 * (7.5e-8 was the largest seen over the whole range, tests/unit/cpu).  exp is exactly 1 at 0.  Below -87.3 it is
 * exactly 0 and above 88.3 it is +infinity: results stay out of the subnormal range.  A NaN stays NaN.
 * Every lane is computed alike, so an element's bits do not depend on where it stands.
 *
 * Needs: the vectors of a vec_*_impl.h.
 * Gives: vec_exp, vec_tanh, vec_gate.
 */
#ifndef LUTRA_CPU_VEC_MATH_TMPL_H
#define LUTRA_CPU_VEC_MATH_TMPL_H

#include <math.h>

LUTRA_INLINE vec vec_exp(vec x)
{
    vec n = vec_round(vec_mul(x, vec_set1(0x1.715476p+0f)));
    vec r = vec_fnma(n, vec_set1(0.693359375f), x); /* exact: the constant has 9 bits */
    r = vec_fnma(n, vec_set1(-2.12194440e-4f), r);
    vec q = vec_fma(vec_set1(0x1.6d1606p-10f), r, vec_set1(0x1.12106cp-7f));
    q = vec_fma(q, r, vec_set1(0x1.555516p-5f));
    q = vec_fma(q, r, vec_set1(0x1.5554d8p-3f));
    q = vec_fma(q, r, vec_set1(0.5f));
    vec one = vec_set1(1);
    vec e = vec_scale2(vec_fma(vec_fma(q, r, one), r, one), n);
    e = vec_select(vec_less(x, vec_set1(-87.3f)), vec_zero(), e);
    return vec_select(vec_less(vec_set1(88.3f), x), vec_set1(INFINITY), e);
}

/* 1 - 2 / (e^2x + 1): absolute error below 2e-7. */
LUTRA_INLINE vec vec_tanh(vec x)
{
    vec one = vec_set1(1);
    return vec_sub(one, vec_div(vec_set1(2), vec_add(vec_exp(vec_add(x, x)), one)));
}

/* x / (1 + e^-u). */
LUTRA_INLINE vec vec_gate(vec x, vec u)
{
    return vec_div(x, vec_add(vec_set1(1), vec_exp(vec_sub(vec_zero(), u))));
}

#endif
