/* SPDX-License-Identifier: MIT
 *
 * The public layer of rows (lutra/rows.h): sequences, and passes that the program itself fills.
 */
#include "engine/session_impl.h"

int lutra_seq_open(lutra_session *s, int max_tok, int32_t *seq, struct lutra_error *err)
{
    TRY(handle_check(s, "session", err));
    return kv_seq_open(s->kv, max_tok, seq, err);
}

int lutra_seq_fork(lutra_session *s, int32_t seq, int n_tok, int max_tok, int32_t *fork, struct lutra_error *err)
{
    TRY(handle_check(s, "session", err));
    return kv_seq_fork(s->kv, seq, n_tok, max_tok, fork, err);
}

int lutra_seq_truncate(lutra_session *s, int32_t seq, int n_tok, struct lutra_error *err)
{
    TRY(handle_check(s, "session", err));
    return kv_seq_truncate(s->kv, seq, n_tok, err);
}

int lutra_seq_reach(const lutra_session *s, int32_t seq, int n_tok)
{
    if (!s) return -1;
    int n = kv_seq_length(s->kv, seq);
    return kv_seq_reach(s->kv, seq, n_tok < n && n_tok >= 0 ? n_tok : n);
}

void lutra_seq_close(lutra_session *s, int32_t seq)
{
    if (s) kv_seq_close(s->kv, seq);
}

int lutra_seq_length(const lutra_session *s, int32_t seq)
{
    return s ? kv_seq_length(s->kv, seq) : -1;
}

static const struct element_kind row_kind = {
    "row", offsetof(struct lutra_row, target) + sizeof(int32_t), sizeof(struct lutra_row)};

/* Handed on as they are. */
_Static_assert((int)LUTRA_WANT_LOGITS == WANT_LOGITS && (int)LUTRA_WANT_HIDDEN == WANT_HIDDEN &&
                   (int)LUTRA_WANT_TOPK == WANT_TOPK && (int)LUTRA_WANT_LOGPROB == WANT_LOGPROB,
    "what a row wants");

int lutra_forward(lutra_session *s, const struct lutra_row *rows, int n_row, size_t row_size, struct lutra_error *err)
{
    TRY(handle_check(s, "session", err));
    if (n_row < 1 || n_row > s->n_batch)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%d rows in a pass, outside 1..%d", n_row, s->n_batch);
    struct pass none; /* nobody asks for more */
    session_pass_begin(s, &none);
    for (int r = 0; r < n_row; r++) {
        struct lutra_row row;
        TRY(element_copy(&row_kind, &row, rows, r, row_size, err));
        const void *target = (const char *)rows + (size_t)r * row_size + offsetof(struct lutra_row, target);
        s->batch.row[r] = (struct row){row.token, row.pos, row.seq, row.parent, row.want, 1, target, NULL, NULL};
    }
    int rc = session_forward(s, n_row, true, err);
    if (rc == LUTRA_E_CANCELLED) atomic_store_explicit(&s->cancel, false, memory_order_relaxed);
    TRY(rc);
    for (int i = 0; i < s->n_result; i++) {
        const struct row_result *r = &s->result[i];
        uint32_t want = s->batch.row[r->row].want;
        bool top = (want & WANT_TOPK) != 0;
        s->public_result[i] = (struct lutra_row_result){.row = r->row,
            .logits = r->logits,
            .hidden = r->hidden,
            .log_sum_exp = r->log_sum_exp,
            .target_logit = want & WANT_LOGPROB ? r->listed_logit[0] : 0,
            .n_top = top ? r->n_top : 0,
            .top_id = top ? r->top_id : NULL,
            .top_logit = top ? r->top_logit : NULL};
    }
    return 0;
}

const struct lutra_row_result *lutra_forward_result(const lutra_session *s, int i)
{
    return s && i >= 0 && i < s->n_result ? &s->public_result[i] : NULL;
}

int lutra_commit(lutra_session *s, int32_t row, struct lutra_error *err)
{
    TRY(handle_check(s, "session", err));
    int32_t before = row >= 0 && row < s->batch.n_row ? kv_seq_length(s->kv, s->batch.row[row].seq) : 0;
    TRY(kv_commit(s->kv, &s->batch, row, err));
    uint64_t n = (uint64_t)(kv_seq_length(s->kv, s->batch.row[row].seq) - before);
    s->stats.rows_valid += n;
    s->stats.rows_wasted -= n;
    s->stats.rows_accepted += n;
    return 0;
}
