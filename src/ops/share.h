/* SPDX-License-Identifier: MIT
 *
 * Parts of an operation: ranges of its outputs, and the columns of values that these are.
 */
#ifndef LUTRA_OPS_SHARE_H
#define LUTRA_OPS_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* Outputs of a weight, or columns of a value's rows: first .. first + n - 1. */
struct columns {
    int64_t first, n;
};

/* A range of an operation's outputs, in SHARE_WHOLE-ths of however many there are: what begins at share_at(n, from) and
 * ends before share_at(n, to).  Bounds are multiples of 32, but for the last.  {0, 0} and {0, SHARE_WHOLE}: all. */
enum { SHARE_WHOLE = 4096, SHARE_OUTPUTS = 32 };
struct share {
    int16_t from, to;
};

static inline bool share_is_whole(struct share p)
{
    return p.to == 0 || (p.from == 0 && p.to == SHARE_WHOLE);
}

static inline int64_t share_at(int64_t n, int at)
{
    return at >= SHARE_WHOLE ? n : n * at / SHARE_WHOLE / SHARE_OUTPUTS * SHARE_OUTPUTS;
}

static inline struct columns share_columns(struct share p, int64_t dim)
{
    if (share_is_whole(p)) return (struct columns){0, dim};
    int64_t first = share_at(dim, p.from);
    return (struct columns){first, share_at(dim, p.to) - first};
}

/* Columns of a value in one pass. */
struct area {
    struct columns columns;
    int64_t dim; /* of the value */
    int rows;    /* of the pass, from the first on */
};

static inline bool area_is_whole(const struct area *a)
{
    return a->columns.n == a->dim;
}

#endif
