/* SPDX-License-Identifier: MIT
 *
 * The rows of a share.
 */
#include "ops/share.h"

#include "ops/device.h"

static int count(const struct step *step, enum value_rows rows)
{
    return rows == ROWS_ALL ? step->batch->n_row : step->n_out;
}

static bool is_bulk(const struct step *step, enum value_rows rows, int i)
{
    return (step->batch->row[rows == ROWS_ALL ? i : step->out_row[i]].want & ROW_BULK) != 0;
}

bool step_next_rows(const struct step *step, enum value_rows rows, struct share share, struct row_run *r)
{
    const int n = count(step, rows);
    int at = r->first + r->n, end = n;
    if (share.rows != SHARE_ALL_ROWS) {
        while (at < n && !share_has(share, is_bulk(step, rows, at))) at++;
        for (end = at; end < n && share_has(share, is_bulk(step, rows, end));) end++;
    }
    *r = (struct row_run){at, end - at};
    return r->n > 0;
}

int step_count_rows(const struct step *step, enum value_rows rows, struct share share)
{
    int sum = 0;
    for (struct row_run r = {0}; step_next_rows(step, rows, share, &r);) sum += r.n;
    return sum;
}
