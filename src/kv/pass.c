/* SPDX-License-Identifier: MIT
 *
 * One pass: slots for the batch's rows, the view attention works from, and the commit.
 */
#include "kv/kv_impl.h"

#include <string.h>

/* Checks that every row lies within its sequence, before anything changes. */
static int check_room(const struct kv_cache *kv, const struct batch *batch, struct lutra_error *err)
{
    int n_draft = 0;
    for (int r = 0; r < batch->n_row; r++) {
        const struct row *row = &batch->row[r];
        const struct kv_seq *s = &kv->seq[row->seq];
        n_draft += (row->want & ROW_DRAFT) != 0;
        if (row->pos >= s->max_tok)
            return lutra_fail_at(err, LUTRA_E_CTX_FULL, (uint64_t)r,
                "row %d: position %d is beyond the %d tokens of sequence %d", r, row->pos, s->max_tok, row->seq);
    }
    if (n_draft > kv->set.n_draft)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%d draft rows in a pass, at most %d", n_draft, kv->set.n_draft);
    if (batch->n_row > kv->set.n_row)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%d rows in a pass, at most %d", batch->n_row, kv->set.n_row);
    return 0;
}

static void place_draft(struct kv_cache *kv, const struct batch *batch, int r, int32_t slot)
{
    const struct row *row = &batch->row[r];
    bool below = row->parent >= 0 && batch->row[row->parent].want & ROW_DRAFT;
    const struct kv_row *up = below ? &kv->row[row->parent] : NULL;
    kv->row[r] = (struct kv_row){.n_paged = up ? up->n_paged : row->pos,
        .n_path = up ? up->n_path + 1 : 1,
        .up = row->parent,
        .block = -1,
        .slot = slot};
}

static int place_rows(struct kv_cache *kv, const struct batch *batch, struct lutra_error *err)
{
    int32_t n_draft = 0;
    for (int r = 0; r < batch->n_row; r++) {
        const struct row *row = &batch->row[r];
        if (row->want & ROW_DRAFT) {
            place_draft(kv, batch, r, n_draft++);
            continue;
        }
        struct kv_seq *s = &kv->seq[row->seq];
        TRY(kv_block_own(kv, s, row->pos, err));
        kv->row[r] = (struct kv_row){
            .n_paged = row->pos + 1, .block = s->table[row->pos / KV_BLOCK], .slot = row->pos % KV_BLOCK};
    }
    return 0;
}

/* Rows of encoders see up to the last row of their sequence.  Rows are in order: the last of a sequence comes first
 * from behind. */
static void look_ahead(struct kv_cache *kv, const struct batch *batch)
{
    for (int r = 0; r < batch->n_row; r++) kv->seq_table[batch->row[r].seq] = -1;
    for (int r = batch->n_row - 1; r >= 0; r--) {
        int32_t *last = &kv->seq_table[batch->row[r].seq];
        if (*last < 0) *last = batch->row[r].pos;
        kv->row[r].n_paged = *last + 1;
        kv->row[r].ahead = *last - batch->row[r].pos;
    }
}

/* One copy of each sequence's block table, after its blocks are settled. */
static void copy_tables(struct kv_cache *kv, const struct batch *batch)
{
    int32_t n = 0;
    for (int r = 0; r < batch->n_row; r++) kv->seq_table[batch->row[r].seq] = -1;
    for (int r = 0; r < batch->n_row; r++) {
        int32_t seq = batch->row[r].seq;
        const struct kv_seq *s = &kv->seq[seq];
        if (kv->seq_table[seq] < 0) {
            memcpy(&kv->table[n], s->table, (size_t)s->n_table * sizeof *kv->table);
            kv->seq_table[seq] = n;
            n += s->n_table;
        }
        kv->row[r].table = kv->seq_table[seq];
    }
}

/* Blocks whose segment the row takes wholly from the pool. */
static int32_t whole_blocks(const struct kv_row *r)
{
    return r->n_path ? r->n_paged / KV_BLOCK : (r->n_paged + KV_BLOCK - 1) / KV_BLOCK;
}

/* Each block once, with its rows; blocks in ascending position, so every row meets its own in order. */
static int list_items(struct kv_cache *kv, int n_row)
{
    int32_t n_item = 0, n_ref = 0, deepest = 0;
    for (int r = 0; r < n_row; r++)
        if (whole_blocks(&kv->row[r]) > deepest) deepest = whole_blocks(&kv->row[r]);
    for (int32_t b = 0; b < deepest; b++) {
        int32_t first_item = n_item;
        for (int r = 0; r < n_row; r++) {
            if (b >= whole_blocks(&kv->row[r])) continue;
            int32_t block = kv->table[kv->row[r].table + b];
            if (kv->block_item[block] < 0) {
                kv->block_item[block] = n_item;
                kv->item[n_item++] = (struct kv_item){.block = block, .pos = b * KV_BLOCK};
            }
            kv->item[kv->block_item[block]].n++;
        }
        for (int32_t i = first_item; i < n_item; i++) {
            kv->item[i].first = n_ref;
            n_ref += kv->item[i].n;
            kv->item[i].n = 0;
        }
        for (int r = 0; r < n_row; r++) {
            if (b >= whole_blocks(&kv->row[r])) continue;
            struct kv_item *item = &kv->item[kv->block_item[kv->table[kv->row[r].table + b]]];
            kv->item_row[item->first + item->n++] = r;
        }
        for (int32_t i = first_item; i < n_item; i++) kv->block_item[kv->item[i].block] = -1;
    }
    return n_item;
}

int kv_pass_begin(struct kv_cache *kv, const struct batch *batch, struct kv_view *view, struct lutra_error *err)
{
    TRY(check_room(kv, batch, err));
    TRY(place_rows(kv, batch, err));
    if (kv->set.whole) look_ahead(kv, batch);
    copy_tables(kv, batch);
    *view = kv->shape;
    view->row = kv->row;
    view->table = kv->table;
    view->item = kv->item;
    view->item_row = kv->item_row;
    view->n_item = list_items(kv, batch->n_row);
    view->host_wrote = kv->host_wrote;
    return kv_state_begin(kv, batch, &view->state, err);
}

void kv_pass_end(struct kv_cache *kv, const struct batch *batch, bool ok)
{
    if (ok) memset(kv->host_wrote, 0, (size_t)kv->set.n_block);
    for (int r = 0; r < batch->n_row; r++) {
        struct kv_seq *s = &kv->seq[batch->row[r].seq];
        const struct row *row = &batch->row[r];
        if (!ok || row->want & ROW_DRAFT) continue;
        s->n_tok = row->pos + 1;
        if (!kv->set.whole) kv_text_write(kv, s, row->pos, row->token, (row->want & ROW_BULK) != 0);
    }
    kv_state_end(kv, ok);
    for (int r = 0; r < batch->n_row; r++)
        if (ok)
            kv_seq_pass(kv, &kv->seq[batch->row[r].seq]);
        else
            kv_seq_trim(kv, &kv->seq[batch->row[r].seq]);
}

/* Copies the keys and values of a draft row and the drafts above it from the draft scratch to position order. */
static void commit_layer(const struct kv_cache *kv, const struct kv_seq *s, const struct kv_row *row, int layer)
{
    const struct kv_view *v = &kv->shape;
    int32_t pos = row->n_paged + row->n_path;
    for (int32_t left = row->n_path; left > 0; left--) {
        pos--;
        for (int side = KV_K; side <= KV_V; side++) {
            size_t vec = v->layer[layer].vec_bytes[side];
            for (int head = 0; head < v->layer[layer].n_kv_head; head++) {
                uint8_t *to = kv_block_at(v, layer, side, s->table[pos / KV_BLOCK]);
                memcpy(to + ((size_t)head * KV_BLOCK + pos % KV_BLOCK) * vec,
                    kv_draft_at(v, layer, side, head) + (size_t)row->slot * vec, vec);
            }
        }
        if (left > 1) row = &kv->row[row->up]; /* above the first draft there may be no row */
    }
}

/* The blocks' texts, from the first draft on: a row knows the one above it. */
static void commit_text(struct kv_cache *kv, const struct kv_seq *s, const struct batch *batch, int32_t row)
{
    const struct kv_row *from = &kv->row[row];
    for (int32_t i = 0; i < from->n_path; i++) {
        int32_t r = row;
        for (int32_t up = from->n_path - 1; up > i; up--) r = kv->row[r].up;
        kv_text_write(kv, s, from->n_paged + i, batch->row[r].token, false);
    }
}

int kv_commit(struct kv_cache *kv, const struct batch *batch, int32_t row, struct lutra_error *err)
{
    if (row < 0 || row >= batch->n_row || !(batch->row[row].want & ROW_DRAFT))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "row %d is not a draft row of the last pass", row);
    const struct kv_row *from = &kv->row[row];
    struct kv_seq *s = &kv->seq[batch->row[row].seq];
    if (!s->open || s->n_tok != from->n_paged)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "row %d: its sequence has moved since the pass", row);
    for (int32_t i = 0; i < from->n_path; i++) {
        TRY(kv_block_own(kv, s, from->n_paged + i, err));
        kv->host_wrote[s->table[(from->n_paged + i) / KV_BLOCK]] = 1;
    }
    for (int layer = 0; layer < kv->shape.n_layer; layer++)
        if (kv_owns(&kv->shape, layer)) commit_layer(kv, s, from, layer);
    commit_text(kv, s, batch, row);
    kv_state_commit(kv, s, from);
    s->n_tok = from->n_paged + from->n_path;
    kv_seq_pass(kv, s);
    return 0;
}

/* Positions that attention reads in layers with a window (0: all): whole blocks, of which some row sees something. */
static uint64_t read_positions(const struct kv_view *v, int n_row, int32_t window)
{
    uint64_t n_block = 0, positions = 0;
    for (int i = 0; i < v->n_item; i++) {
        bool any = window == 0;
        for (int k = 0; k < v->item[i].n && !any; k++) {
            int32_t first, end;
            kv_row_sees(&v->row[v->item_row[v->item[i].first + k]], window, &first, &end);
            any = v->item[i].pos + KV_BLOCK > first && v->item[i].pos < end;
        }
        n_block += any;
    }
    for (int r = 0; r < n_row; r++)
        if (v->row[r].n_path) positions += (uint64_t)(v->row[r].n_paged % KV_BLOCK + v->row[r].n_path);
    return positions + n_block * KV_BLOCK;
}

uint64_t kv_view_read_bytes(const struct kv_view *v, int n_row)
{
    uint64_t all = read_positions(v, n_row, 0), swa = 0, sum = 0;
    for (int i = 0, window = 0; i < v->n_layer; i++) {
        const struct kv_layer *l = &v->layer[i];
        if (l->window > 0 && l->window != window) swa = read_positions(v, n_row, window = l->window);
        sum += (l->window > 0 ? swa : all) * (l->side_bytes[KV_K] + l->side_bytes[KV_V]) / KV_BLOCK;
    }
    return sum;
}
