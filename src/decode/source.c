/* SPDX-License-Identifier: MIT */
#include "decode/source.h"

#include <stddef.h>

int draft_guess_check(const struct draft_guess *g, int i, int n_vocab, struct lutra_error *err)
{
    uint64_t at = (uint64_t)i;
    if (g->token < 0 || g->token >= n_vocab)
        return lutra_fail_at(
            err, LUTRA_E_ARGUMENT, at, "draft %d: token %d is outside 0..%d", i, g->token, n_vocab - 1);
    if (g->parent < -1 || g->parent >= i)
        return lutra_fail_at(
            err, LUTRA_E_ARGUMENT, at, "draft %d: parent %d is no draft before it, or -1", i, g->parent);
    if (!(g->p >= 0 && g->p <= 1))
        return lutra_fail_at(err, LUTRA_E_ARGUMENT, at, "draft %d: p is %g, outside 0..1", i, (double)g->p);
    if (g->kind < 0 || g->kind > GUESS_KINDS)
        return lutra_fail_at(err, LUTRA_E_ARGUMENT, at, "draft %d: kind %d is outside 0..%d", i, g->kind, GUESS_KINDS);
    if (g->kind && !(g->rate > 0 && g->rate <= 1))
        return lutra_fail_at(err, LUTRA_E_ARGUMENT, at, "draft %d: rate %g of kind %d, not above 0 and at most 1", i,
            (double)g->rate, g->kind);
    return 0;
}

/* ---- a pass ---- */

void pass_begin(struct pass *pass, struct batch *batch, struct row_tip *tip, int n_vocab, struct row_room room)
{
    batch->n_row = 0;
    *pass = (struct pass){.n_vocab = n_vocab, .batch = batch, .tip = tip, .left = room};
}

/* The caller has seen that there is room. */
static int32_t append(struct pass *pass, struct row row, uint64_t domain)
{
    pass->left.rows--;
    pass->left.outs -= (row.want & WANT_ALL) != 0;
    pass->left.drafts -= (row.want & ROW_DRAFT) != 0;
    if (pass->domain) pass->domain[pass->batch->n_row] = domain;
    pass->batch->row[pass->batch->n_row++] = row;
    if (row.want & ROW_DRAFT) pass->draft_end = pass->batch->n_row;
    return pass->batch->n_row - 1;
}

static uint32_t want_top(const struct pass *pass, bool too)
{
    return pass->want_top || too ? WANT_TOPK : WANT_NOTHING;
}

/* Draws from all logits, or from the best and what the list has now: the tip's own draw (not a draft's) by its mask. */
static void want_draw(const struct pass *pass, bool top, struct row *row, const struct sample_list *list)
{
    row->want = (list ? WANT_DRAW_BEST : WANT_DRAW) | want_top(pass, top);
    row->n_listed = list ? list->n : 0;
    row->listed = list ? list->token : NULL;
    row->allow = list ? list->allow : NULL;
}

int pass_tip(struct pass *pass, struct row row, struct row_tip tip)
{
    if (pass->left.rows < 1 || pass->left.outs < 1) return LUTRA_E_BUSY;
    want_draw(pass, tip.want_top, &row, tip.list.token ? &tip.list : NULL);
    tip.row = tip.taken = append(pass, row, tip.domain);
    tip.picked = -1;
    pass->tip[pass->n_tip++] = tip;
    return tip.row;
}

int32_t pass_draft(struct pass *pass, struct row_tip *tip, int32_t parent, int32_t token)
{
    const struct batch *b = pass->batch;
    if (token < 0 || token >= pass->n_vocab || parent < tip->row || parent >= b->n_row) return LUTRA_E_ARGUMENT;
    const struct row *up = &b->row[parent];
    if (up->seq != b->row[tip->row].seq) return LUTRA_E_ARGUMENT;
    if (up->pos + 1 >= tip->max_tok) return LUTRA_E_CTX_FULL;
    int32_t same = pass_child(pass, parent, token);
    if (same >= 0) return same;
    int block = b->bulk > 1 ? b->bulk : 1;
    if (pass->left.rows <= block || pass->left.outs <= 1 || pass->left.drafts < 1) return LUTRA_E_BUSY;
    struct row row = {.token = token, .pos = up->pos + 1, .seq = up->seq, .parent = parent};
    bool best = !(up->want & WANT_LOGITS) && !tip->list.allow && sample_list_add(&tip->list, token);
    want_draw(pass, tip->want_top, &row, best ? &tip->list : NULL);
    row.want |= ROW_DRAFT;
    tip->n_draft++;
    return append(pass, row, tip->domain);
}

void pass_cut(struct pass *pass, int n_row)
{
    struct batch *b = pass->batch;
    while (b->n_row > n_row) {
        int32_t seq = b->row[--b->n_row].seq;
        for (int i = 0; i < pass->n_tip; i++) pass->tip[i].n_draft -= b->row[pass->tip[i].row].seq == seq;
        pass->left.rows++;
        pass->left.outs++;
        pass->left.drafts++;
    }
    if (pass->draft_end > n_row) pass->draft_end = n_row;
}

int pass_text(struct pass *pass, const struct sequence *q, int most, bool top)
{
    int done = q->n_done, left = sequence_text(q) - done, last = q->n_prompt - 1;
    int room = pass->left.rows < most ? pass->left.rows : most;
    if (q->scored && last >= done && room > pass->left.outs) room = pass->left.outs;
    if (pass->left.outs < 1 && last >= done && room > last - done) room = last - done;
    int n = batch_fit(q->scored ? 0 : pass->batch->bulk, done, left, room);
    uint32_t each = q->scored ? WANT_LOGPROB | (top ? WANT_TOPK : WANT_NOTHING) : ROW_BULK;
    for (int pos = done; pos < done + n; pos++)
        append(pass,
            (struct row){.token = q->token[pos],
                .pos = pos,
                .seq = q->id,
                .parent = pos == done ? -1 : pass->batch->n_row - 1,
                .want = pos > last   ? WANT_NOTHING
                        : pos < last ? each
                                     : (each & ROW_BULK) | WANT_DRAW | want_top(pass, top),
                .n_listed = q->scored && pos < last,
                .listed = q->scored && pos < last ? &q->token[pos + 1] : NULL,
                .hints = q->hints && pos < last ? &q->hints[pos] : NULL},
            q->domain);
    return n;
}

int32_t pass_child(const struct pass *pass, int32_t row, int32_t token)
{
    const struct batch *b = pass->batch;
    for (int32_t r = row + 1; r < pass->draft_end; r++)
        if (b->row[r].parent == row && b->row[r].token == token && (b->row[r].want & ROW_DRAFT)) return r;
    return -1;
}

const struct row_result *pass_result(const struct pass *pass, int32_t row)
{
    int low = 0, high = pass->n_result;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (pass->result[mid].row < row)
            low = mid + 1;
        else
            high = mid;
    }
    return low < pass->n_result && pass->result[low].row == row ? &pass->result[low] : NULL;
}

/* ---- sources ---- */

void source_add(struct row_source **list, struct row_source *source)
{
    while (*list && (*list)->ops->rank <= source->ops->rank) list = &(*list)->next;
    source->next = *list;
    *list = source;
}

void source_remove(struct row_source **list, const struct row_source *source)
{
    while (*list && *list != source) list = &(*list)->next;
    if (*list) *list = source->next;
}

void sources_offer(const struct row_source *list, struct pass *pass)
{
    for (; list; list = list->next)
        if (list->ops->offer) list->ops->offer(list->self, pass);
}

int sources_take(const struct row_source *list, const struct pass *pass, struct lutra_error *err)
{
    for (; list; list = list->next)
        if (list->ops->take) TRY(list->ops->take(list->self, pass, err));
    return 0;
}
