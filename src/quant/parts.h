/* SPDX-License-Identifier: MIT
 *
 * A block taken apart, x = d sc v(code) - dmin mn by groups, and how each type puts one together.
 */
#ifndef LUTRA_QUANT_PARTS_H
#define LUTRA_QUANT_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "quant/formats.h"

enum { SOLVE_GROUPS = 16 };

struct solved {
    float d, dmin; /* as the half floats hold them */
    int sc[SOLVE_GROUPS], mn[SOLVE_GROUPS];
    uint8_t code[QUANT_SUPER];
};

struct solve_type {
    enum quant_type type;
    int n, group, n_group;          /* elements of a block, of a group; groups */
    int lo, n_code;                 /* v(code) = code + lo, or of a codebook IQ4_NL's */
    bool codebook, affine, any_min; /* affine: with minima, which are >= 0 unless any_min */
    int sc_lo, sc_hi;               /* of sc; of mn 0..sc_hi.  sc_hi = 0: no integers, sc and mn are 1 */
    void (*pack)(const struct solved *s, void *block);
};

/* NULL: not one of these. */
const struct solve_type *quant_solve_type(enum quant_type type);

#endif
