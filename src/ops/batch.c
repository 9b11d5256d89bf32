/* SPDX-License-Identifier: MIT */
#include "ops/batch.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "quant/quant.h"

static int check_place(const struct batch *b, int i, int32_t (*committed)(const void *ctx, int32_t seq),
    const void *ctx, struct lutra_error *err)
{
    const struct row *r = &b->row[i];
    if (r->parent < -1 || r->parent >= i) {
        return lutra_fail_at(
            err, LUTRA_E_ARGUMENT, (uint64_t)i, "row %d: parent %d is not an earlier row or -1", i, (int)r->parent);
    }
    if (r->parent >= 0) {
        const struct row *parent = &b->row[r->parent];
        if (parent->seq != r->seq) {
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
                "row %d: sequence %d, but its parent row %d has sequence %d", i, (int)r->seq, (int)r->parent,
                (int)parent->seq);
        }
        if ((int64_t)r->pos != (int64_t)parent->pos + 1) {
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
                "row %d: position %d does not follow its parent's %d", i, (int)r->pos, (int)parent->pos);
        }
        return 0;
    }
    int32_t n = committed(ctx, r->seq);
    if (n < 0) {
        return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "row %d: there is no sequence %d", i, (int)r->seq);
    }
    if (r->pos != n) {
        return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
            "row %d: position %d does not continue sequence %d of %d tokens", i, (int)r->pos, (int)r->seq, (int)n);
    }
    return 0;
}

static int check_token(const struct row *r, int i, int n_vocab, struct lutra_error *err)
{
    if (r->token < 0 || r->token >= n_vocab) {
        return lutra_fail_at(
            err, LUTRA_E_ARGUMENT, (uint64_t)i, "row %d: token %d is outside 0..%d", i, (int)r->token, n_vocab - 1);
    }
    if (r->want & ~(uint32_t)(WANT_ALL | ROW_DRAFT | ROW_BULK | ROW_SECOND)) {
        return lutra_fail_at(
            err, LUTRA_E_ARGUMENT, (uint64_t)i, "row %d: unknown want flags 0x%x", i, (unsigned)r->want);
    }
    if (!(r->want & WANT_LOGPROB)) return 0;
    if (r->n_listed < 0 || r->n_listed > ROW_LISTED)
        return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "row %d: %d listed tokens, outside 0..%d", i,
            (int)r->n_listed, ROW_LISTED);
    for (int k = 0; k < r->n_listed; k++)
        if (r->listed[k] < 0 || r->listed[k] >= n_vocab)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i, "row %d: target token %d is outside 0..%d", i,
                (int)r->listed[k], n_vocab - 1);
    return 0;
}

static bool drafted(const struct batch *b, int i)
{
    return (b->row[i].want & ROW_DRAFT) != 0;
}

/* Ordinary rows of a sequence form one chain from its tip; below a draft there are only drafts.  mark[i]
 * counts row i's ordinary children. */
static int check_chain(struct batch *b, int i, struct lutra_error *err)
{
    int32_t parent = b->row[i].parent;
    b->mark[i] = 0;
    if (drafted(b, i)) return 0;
    if (parent >= 0 && drafted(b, parent))
        return lutra_fail_at(
            err, LUTRA_E_ARGUMENT, (uint64_t)i, "row %d: not a draft, but its parent row %d is", i, (int)parent);
    if (parent >= 0 && b->mark[parent]++ > 0)
        return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
            "row %d: a second continuation of row %d must be a draft", i, (int)parent);
    for (int k = 0; parent < 0 && k < i; k++) {
        if (b->row[k].parent < 0 && b->row[k].seq == b->row[i].seq && !drafted(b, k))
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
                "row %d: a second continuation of sequence %d must be a draft", i, (int)b->row[i].seq);
    }
    return 0;
}

/* mark[i] counts the rows of row i's block up to it, 0 where one is missing or may not be in bulk. */
static void find_bulk(struct batch *b)
{
    for (int i = 0; i < b->n_row; i++) {
        const struct row *r = &b->row[i];
        bool starts = b->bulk > 0 && r->pos % b->bulk == 0;
        bool goes_on = r->parent >= 0 && !(b->row[r->parent].want & WANT_ALL);
        int before = starts || !goes_on ? 0 : b->mark[r->parent];
        bool counts = (r->want & ROW_BULK) && !drafted(b, i) && (starts || before > 0);
        b->mark[i] = counts ? before + 1 : 0;
    }
    for (int i = b->n_row - 1; i >= 0; i--) {
        bool whole = b->mark[i] > 0 && b->mark[i] == b->bulk;
        if (whole && b->row[i].pos % b->bulk != 0) b->mark[b->row[i].parent] = b->bulk;
        b->mark[i] = whole;
    }
    for (int i = 0; i < b->n_row; i++)
        if (!b->mark[i] || b->row[i].want & WANT_ALL) b->row[i].want &= ~(uint32_t)ROW_BULK;
}

void row_hints_of(const struct row_result *r, struct row_hints *out)
{
    for (int k = 0; k < ROW_HINTS; k++) {
        bool is = k < r->n_top && isfinite(r->log_sum_exp);
        out->token[k] = is ? r->top_id[k] : 0;
        out->p[k] = is ? expf(r->top_logit[k] - r->log_sum_exp) : 0;
    }
}

int batch_fit(int bulk, int pos, int n, int room)
{
    if (n <= room || bulk == 0) return n < room ? n : room;
    int cut = pos + room, start = cut - cut % bulk;
    bool whole = start >= pos && start + bulk <= pos + n;
    return (whole ? start : cut) - pos;
}

int batch_check(struct batch *batch, int n_vocab, int32_t (*committed)(const void *ctx, int32_t seq), const void *ctx,
    struct lutra_error *err)
{
    if (batch->n_row <= 0 || !batch->row || !batch->mark) {
        return lutra_fail(err, LUTRA_E_ARGUMENT, "a batch needs at least one row");
    }
    for (int i = 0; i < batch->n_row; i++) {
        TRY(check_token(&batch->row[i], i, n_vocab, err));
        TRY(check_place(batch, i, committed, ctx, err));
        TRY(check_chain(batch, i, err));
    }
    find_bulk(batch);
    return 0;
}

bool row_result_is_number(const struct row_result *r, uint32_t want, int n_vocab, int d_model)
{
    if ((want & (WANT_TOPK | WANT_LOGPROB)) && !isfinite(r->log_sum_exp)) return false;
    if ((want & WANT_LOGPROB) && !isfinite(r->listed_logit[0])) return false;
    for (int i = 0; want & WANT_LOGITS && i < n_vocab; i++)
        if (isnan(r->logits[i]) || r->logits[i] == INFINITY) return false; /* -inf: a token that cannot come */
    return !(want & WANT_HIDDEN) || quant_all_finite(r->hidden, (size_t)d_model);
}
