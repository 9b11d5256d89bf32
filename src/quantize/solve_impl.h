/* SPDX-License-Identifier: MIT
 *
 * The search for a block's scales, what it asks of the instruction sets, and a block as GPTQ codes it.
 */
#ifndef LUTRA_QUANTIZE_SOLVE_IMPL_H
#define LUTRA_QUANTIZE_SOLVE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/parts.h"
#include "quantize/gram_impl.h"

/* ---- the kernels of an instruction set: gram_impl.h's, and what searches for scales ask of one group ---- */

enum { SEARCH_LANES = 16 }; /* groups have multiples of so many elements */

/* Weighted by w, over the codes q nearest to (x + min) / scale: w, w q, w q q, w x, w x q, and the squared error. */
struct search_sums {
    float w, q, qq, x, xq, error;
};

struct quant_kernels {
    gram_tile_fn tile, tile_f32;
    gram_errors_fn errors;
    /* Of the t->group elements at x, with the values v nearest to x times inverse: sums of w x v and w v v. */
    void (*symmetric)(const struct solve_type *t, const float *x, const float *w, float inverse, float *xv, float *vv);
    void (*affine)(
        const struct solve_type *t, const float *x, const float *w, float scale, float min, struct search_sums *to);
    /* The codes of x = scale v - min, and their weighted squared error. */
    float (*codes)(const struct solve_type *t, const float *x, const float *w, float scale, float min, uint8_t *code);
};

extern const struct quant_kernels quant_kernels_plain, quant_kernels_avx2, quant_kernels_avx512;

/* ---- a block ---- */

/* The codebooks' blocks (codebooks.c); NULL: another type. */
struct book_writer {
    enum quant_type type;
    void (*weighted)(const float *x, const float *w, void *dst, size_t n); /* by quant_weighted's weights */
    void (*plain)(const float *x, void *dst, size_t n);                    /* all alike */
};
const struct book_writer *quant_book_writer(enum quant_type type);

void quant_solve(
    const struct solve_type *t, const struct quant_kernels *run, const float *x, const float *w, struct solved *s);

/* The value nearest to x that element i of the block can have, and its code. */
float quant_solved_value(const struct solve_type *t, const struct solved *s, int i, float x, uint8_t *code);

/* Of one group, t->group elements without minima: the scale of least error. */
float quant_symmetric_scale(
    const struct solve_type *t, const struct quant_kernels *run, const float *x, const float *w);

/* ---- as coded by GPTQ ---- */

/* One block of a type, or one group: its scales for x [block], the value of element i nearest to x, its bytes at
 * element `at` of a row. */
struct quant_group;
struct quant_coder {
    const struct quant_group *group; /* NULL: a block of t */
    const struct solve_type *t;
    struct solve_type own; /* of a group */
    struct solved s;
    float *x; /* the caller's; of a group it holds the codes, less their zero, from now on */
};
void quant_coder_begin(struct quant_coder *c, const struct quant_kernels *run, enum quant_type type,
    const struct quant_group *group, float *x, const float *w);
float quant_coder_round(struct quant_coder *c, int i, float x);
void quant_coder_end(const struct quant_coder *c, uint8_t *row, int at);

#endif
