/* SPDX-License-Identifier: MIT
 *
 * Parts of an operation: ranges of its outputs, and the columns of values that these are; rows of one class.
 */
#ifndef LUTRA_OPS_SHARE_H
#define LUTRA_OPS_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* Outputs of a weight, or columns of a value's rows: first .. first + n - 1. */
struct columns {
    int64_t first, n;
};

/* Rows by class (ROW_BULK, batch.h).  Wanted rows are ordinary. */
enum share_rows { SHARE_ALL_ROWS, SHARE_ORDINARY, SHARE_BULK };

/* A range of an operation's outputs, in SHARE_WHOLE-ths of however many there are: what begins at share_at(n, from) and
 * ends before share_at(n, to).  Bounds are multiples of 32, but for the last.  {0, 0} and {0, SHARE_WHOLE}: all.
 * rows: whose outputs. */
enum { SHARE_WHOLE = 4096, SHARE_OUTPUTS = 32 };
struct share {
    int16_t from, to;
    enum share_rows rows;
};

/* All outputs, maybe of some rows. */
static inline bool share_is_whole(struct share p)
{
    return p.to == 0 || (p.from == 0 && p.to == SHARE_WHOLE);
}

/* All outputs of all rows. */
static inline bool share_is_all(struct share p)
{
    return share_is_whole(p) && p.rows == SHARE_ALL_ROWS;
}

static inline bool share_has(struct share p, bool bulk)
{
    return p.rows == SHARE_ALL_ROWS || (p.rows == SHARE_BULK) == bulk;
}

static inline bool share_is_same(struct share a, struct share b)
{
    return a.from == b.from && a.to == b.to && a.rows == b.rows;
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

/* Columns of a value in one pass, of rows side by side. */
struct area {
    struct columns columns;
    int64_t dim;    /* of the value */
    int rows;       /* so many ... */
    int first;      /* ... from this one on */
    bool some_rows; /* not all that the pass has of the value */
};

static inline struct area area_of_all(int64_t dim, int rows)
{
    return (struct area){.columns = {0, dim}, .dim = dim, .rows = rows};
}

static inline bool area_is_whole(const struct area *a)
{
    return a->columns.n == a->dim && !a->some_rows;
}

static inline bool area_meets(const struct area *a, const struct area *b)
{
    return a->columns.first < b->columns.first + b->columns.n && b->columns.first < a->columns.first + a->columns.n &&
           a->first < b->first + b->rows && b->first < a->first + a->rows;
}

#endif
