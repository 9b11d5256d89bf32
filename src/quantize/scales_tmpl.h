/* SPDX-License-Identifier: MIT
 *
 * What searches for scales ask of one group again and again.  Compiled plainly and for the instruction sets of x86/.
 * The bits are the same: every product is rounded, and element i adds to sum i % 16, which are added up in one order.
 *
 * Needs: "#define ISA", a name, and "#define WIDTH", the floats of a register.
 * Gives: quant_kernels_ and that name, the table of its functions.
 */
#include <string.h>

#include "quant/arithmetic.h"
#include "quantize/solve_impl.h"

enum { LANES = SEARCH_LANES, PARTS = LANES / WIDTH };
typedef float vec __attribute__((vector_size(4 * WIDTH)));
typedef int32_t ivec __attribute__((vector_size(4 * WIDTH)));

static const float book[16] = QUANT_IQ4_NL_VALUES;

#define LOAD(to, from) memcpy(&(to), (from), sizeof(vec))

/* Of codes q, nearest to u: the values v = q + lo, or of the codebook.  NaN becomes the first. */
static inline void nearest(const struct solve_type *t, const vec *u, vec *v)
{
    if (t->codebook) {
        *v = (vec){0} + book[0];
        for (int j = 0; j < 15; j++)
            *v += (vec)((ivec)((vec){0} + (book[j + 1] - book[j])) & (*u > (book[j] + book[j + 1]) / 2));
        return;
    }
    const float lo = (float)t->lo, hi = (float)(t->lo + t->n_code - 1);
    vec q = (*u + 12582912.0f) - 12582912.0f; /* as quant_nearest */
    ivec above = q > lo;
    q = (vec)(((ivec)q & above) | ((ivec)((vec){0} + lo) & ~above));
    ivec below = q < hi;
    *v = (vec)(((ivec)q & below) | ((ivec)((vec){0} + hi) & ~below));
}

static inline float sum(const vec s[PARTS])
{
    float a[LANES];
    memcpy(a, s, sizeof a);
    for (int n = LANES / 2; n; n /= 2)
        for (int l = 0; l < n; l++) a[l] += a[l + n];
    return a[0];
}

static void symmetric(const struct solve_type *t, const float *x, const float *w, float inverse, float *xv, float *vv)
{
    vec a[PARTS] = {{0}}, b[PARTS] = {{0}};
    for (int i = 0; i < t->group; i += LANES)
        for (int p = 0; p < PARTS; p++) {
            vec xi, wi, u, v;
            LOAD(xi, x + i + p * WIDTH);
            LOAD(wi, w + i + p * WIDTH);
            u = xi * inverse;
            nearest(t, &u, &v);
            wi *= v;
            a[p] += wi * xi;
            b[p] += wi * v;
        }
    *xv = sum(a), *vv = sum(b);
}

static void affine(
    const struct solve_type *t, const float *x, const float *w, float scale, float min, struct search_sums *to)
{
    const float inverse = 1 / scale;
    vec s[6][PARTS] = {{{0}}};
    for (int i = 0; i < t->group; i += LANES)
        for (int p = 0; p < PARTS; p++) {
            vec xi, wi, u, q;
            LOAD(xi, x + i + p * WIDTH);
            LOAD(wi, w + i + p * WIDTH);
            u = (xi + min) * inverse;
            nearest(t, &u, &q);
            vec wq = wi * q, wx = wi * xi, e = scale * q - min - xi;
            s[0][p] += wi, s[1][p] += wq, s[2][p] += wq * q;
            s[3][p] += wx, s[4][p] += wx * q, s[5][p] += wi * e * e;
        }
    *to = (struct search_sums){sum(s[0]), sum(s[1]), sum(s[2]), sum(s[3]), sum(s[4]), sum(s[5])};
}

static float codes(const struct solve_type *t, const float *x, const float *w, float scale, float min, uint8_t *code)
{
    const float inverse = scale != 0 ? 1 / scale : 0;
    vec error[PARTS] = {{0}};
    for (int i = 0; i < t->group; i += LANES)
        for (int p = 0; p < PARTS; p++) {
            vec xi, wi, u, v;
            ivec c = {0};
            LOAD(xi, x + i + p * WIDTH);
            LOAD(wi, w + i + p * WIDTH);
            u = (xi + min) * inverse;
            nearest(t, &u, &v);
            vec e = scale * v - min - xi;
            error[p] += wi * e * e;
            if (t->codebook)
                for (int j = 1; j < 16; j++) c -= v >= book[j];
            else
                c = __builtin_convertvector(v, ivec) - t->lo;
            for (int l = 0; l < WIDTH; l++) code[i + p * WIDTH + l] = (uint8_t)c[l];
        }
    return sum(error);
}

#define PASTE(a, b) a##b
#define NAME(a, isa) PASTE(a, isa)
const struct quant_kernels NAME(quant_kernels_, ISA) = {
    NAME(gram_tile_, ISA), NAME(gram_tile_f32_, ISA), NAME(gram_errors_, ISA), symmetric, affine, codes};
