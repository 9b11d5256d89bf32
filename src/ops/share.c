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

struct row_run step_rows(const struct step *step, enum value_rows rows, struct share share, int at)
{
    const int n = count(step, rows);
    if (share.rows == SHARE_ALL_ROWS) return (struct row_run){at, n - at};
    while (at < n && !share_has(share, is_bulk(step, rows, at))) at++;
    int end = at;
    while (end < n && share_has(share, is_bulk(step, rows, end))) end++;
    return (struct row_run){at, end - at};
}

int step_count_rows(const struct step *step, enum value_rows rows, struct share share)
{
    int sum = 0;
    for (struct row_run r = step_rows(step, rows, share, 0); r.n; r = step_rows(step, rows, share, r.first + r.n))
        sum += r.n;
    return sum;
}
