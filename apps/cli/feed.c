/* SPDX-License-Identifier: MIT */
#include "feed.h"

#include <stdlib.h>

void feed_open(struct feed *f, lutra_session *session, int n_batch)
{
    *f = (struct feed){.session = session, .n_batch = n_batch};
    f->row = get_memory((size_t)n_batch * sizeof *f->row);
}

void feed_close(struct feed *f)
{
    free(f->row);
}

int feed_flush(struct feed *f, struct lutra_error *err)
{
    if (f->n == 0) return 0;
    int rc = lutra_forward(f->session, f->row, f->n, sizeof *f->row, err);
    for (int i = 0; rc >= 0 && i < f->n_want; i++) {
        const struct lutra_row_result *r = lutra_forward_result(f->session, i);
        *f->sink[i] += (double)r->target_logit - (double)r->log_sum_exp;
    }
    f->n = f->n_want = 0;
    return rc;
}

int feed_tokens(struct feed *f, int32_t seq, const int32_t *ids, int n, int from, int to, int scored, double *sink,
    struct lutra_error *err)
{
    for (int i = from; i < to; i++) {
        bool want = i + 1 >= scored && i + 1 < n;
        if (f->n == f->n_batch || (want && f->n_want == FEED_WANTED_MAX)) {
            int rc = feed_flush(f, err);
            if (rc < 0) return rc;
        }
        bool chained = f->n > 0 && f->row[f->n - 1].seq == seq;
        f->row[f->n] = (struct lutra_row){
            ids[i], i, seq, chained ? f->n - 1 : -1, want ? LUTRA_WANT_LOGPROB : 0, want ? ids[i + 1] : 0};
        f->n++;
        if (want) f->sink[f->n_want++] = sink;
    }
    return 0;
}
