/* SPDX-License-Identifier: MIT
 *
 * The rows of a share.
 */
#include "ops/share.h"

#include "ops/device.h"

static int count(const struct pass_args *pass, enum value_rows rows)
{
    return rows == ROWS_ALL ? pass->batch->n_row : pass->n_out;
}

static bool is_bulk(const struct pass_args *pass, enum value_rows rows, int i)
{
    return (pass->batch->row[rows == ROWS_ALL ? i : pass->out_row[i]].want & ROW_BULK) != 0;
}

bool share_next_rows(const struct pass_args *pass, enum value_rows rows, struct share share, struct row_run *r)
{
    const int n = count(pass, rows);
    int at = r->first + r->n, end = n;
    if (share.rows != SHARE_ALL_ROWS) {
        while (at < n && !share_has(share, is_bulk(pass, rows, at))) at++;
        for (end = at; end < n && share_has(share, is_bulk(pass, rows, end));) end++;
    }
    *r = (struct row_run){at, end - at};
    return r->n > 0;
}

int share_count_rows(const struct pass_args *pass, enum value_rows rows, struct share share)
{
    int sum = 0;
    for (struct row_run r = {0}; share_next_rows(pass, rows, share, &r);) sum += r.n;
    return sum;
}
