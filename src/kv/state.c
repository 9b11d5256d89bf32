/* SPDX-License-Identifier: MIT
 *
 * States of recurrent layers: slots, the states that sequences keep of them, and the runs of a pass.
 *
 * A slot is written once, by a pass, and read from then on; it is counted by the marks that hold it.  A mark says that
 * a slot is the state of a sequence behind its first `pos` tokens.  The last mark is the one that the next pass begins
 * from; the others let the sequence be forked at or cut to their positions.  A sequence that grows is promised two
 * slots, for its last state and the next one; all other marks are kept while nobody needs their slots, the least
 * recently used go first.  A state whose last token lies in a block of a text outlives its marks: later sequences find
 * it by the text (past.c) until its slot or the block is needed.  So a pass that fails has changed nothing, and a fork
 * copies nothing.
 *
 * An accepted draft is not in a slot yet: its inputs are where the draft left them, and the next good pass replays
 * them, of every sequence.  Two places for drafts' inputs take turns, so that a pass writes beside what it replays.
 */
#include "kv/kv_impl.h"

#include <stdlib.h>
#include <string.h>

enum { SAVE_EVERY = 1024, SAVES = 4 /* of a run, beside every 1,024th position */ };

struct made {
    int32_t pos;
    bool passing;
};

/* ---- sizes ---- */

/* Bytes of a slot and of what a draft leaves; where layers begin in both (NULL: sizes alone).  False: overflow. */
static bool lay_out(const struct kv_settings *s, size_t *slot, size_t *left, size_t *layer_at, size_t *draft_at)
{
    *slot = *left = 0;
    for (int i = 0; i < s->n_layer; i++) {
        if (layer_at) layer_at[i] = *slot, draft_at[i] = *left;
        if (LUTRA_ADD_OVERFLOWS(*slot, s->layer[i].state_bytes, slot)) return false;
        if (LUTRA_ADD_OVERFLOWS(*left, s->layer[i].draft_bytes, left)) return false;
    }
    return true;
}

size_t kv_state_bytes(const struct kv_settings *s, size_t *each)
{
    size_t slot, left, slots, drafts, sum;
    if (each) *each = 0;
    if (!lay_out(s, &slot, &left, NULL, NULL)) return SIZE_MAX;
    if (each) *each = slot;
    if (!slot) return 0;
    if (LUTRA_MUL_OVERFLOWS(slot, (size_t)s->n_state, &slots) ||
        LUTRA_MUL_OVERFLOWS(left, 2 * (size_t)s->n_draft, &drafts) || LUTRA_ADD_OVERFLOWS(slots, drafts, &sum))
        return SIZE_MAX;
    return sum;
}

int kv_state_open(struct kv_cache *kv, const struct kv_settings *s, struct lutra_error *err)
{
    struct kv_state_pool *p = &kv->states;
    size_t each, bytes = kv_state_bytes(s, &each), n_draft = (size_t)s->n_draft + 1;
    if (!each) return 0;
    if (bytes == SIZE_MAX || s->n_state < KV_STATES_LEAST || !s->state)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "cache: %d states of recurrent layers, at least %d", s->n_state, KV_STATES_LEAST);
    size_t n_seq = (size_t)s->n_seq,
           n_save = n_seq * (SAVES + n_draft / SAVE_EVERY) + (size_t)s->n_row / SAVE_EVERY + 1;
    p->n_slot = s->n_state;
    p->refs = calloc((size_t)s->n_state, sizeof *p->refs);
    p->used = calloc((size_t)s->n_state, sizeof *p->used);
    p->block = malloc((size_t)s->n_state * sizeof *p->block);
    p->pos = calloc((size_t)s->n_state, sizeof *p->pos);
    p->needed = calloc((size_t)s->n_state, sizeof *p->needed);
    p->free_list = malloc((size_t)s->n_state * sizeof *p->free_list);
    p->layer_at = malloc((size_t)s->n_layer * sizeof *p->layer_at);
    p->draft_at = malloc((size_t)s->n_layer * sizeof *p->draft_at);
    p->up[0] = malloc(n_draft * sizeof *p->up[0]);
    p->up[1] = malloc(n_draft * sizeof *p->up[1]);
    p->run = malloc(n_seq * sizeof *p->run);
    p->run_seq = malloc(n_seq * sizeof *p->run_seq);
    p->seq_run = malloc(n_seq * sizeof *p->seq_run);
    p->keeps_tip = calloc(n_seq, sizeof *p->keeps_tip);
    p->row = malloc((size_t)s->n_row * sizeof *p->row);
    p->run_of = malloc((size_t)s->n_row * sizeof *p->run_of);
    p->replay = malloc(n_seq * n_draft * sizeof *p->replay);
    p->save = malloc(n_save * sizeof *p->save);
    p->made = malloc(n_save * sizeof *p->made);
    if (!p->refs || !p->used || !p->block || !p->pos || !p->needed || !p->free_list || !p->layer_at || !p->draft_at ||
        !p->up[0] || !p->up[1] || !p->run || !p->run_seq || !p->seq_run || !p->keeps_tip || !p->row || !p->run_of ||
        !p->replay || !p->save || !p->made)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "cache: out of memory for its tables");
    lay_out(s, &p->slot_bytes, &p->left_bytes, p->layer_at, p->draft_at);
    for (int i = 0; i < s->n_state; i++) p->block[i] = -1;
    p->pool = s->state;
    p->left[0] = s->state + p->slot_bytes * (size_t)s->n_state;
    p->left[1] = p->left[0] + p->left_bytes * (size_t)s->n_draft;
    for (int i = s->n_state - 1; i > 0; i--) p->free_list[p->n_free++] = i; /* lowest first; 0 is the zero state */
    return 0;
}

void kv_state_close(struct kv_cache *kv)
{
    struct kv_state_pool *p = &kv->states;
    free(p->refs);
    free(p->used);
    free(p->block);
    free(p->pos);
    free(p->needed);
    free(p->free_list);
    free(p->layer_at);
    free(p->draft_at);
    free(p->up[0]);
    free(p->up[1]);
    free(p->run);
    free(p->run_seq);
    free(p->seq_run);
    free(p->keeps_tip);
    free(p->row);
    free(p->run_of);
    free(p->replay);
    free(p->save);
    free(p->made);
}

/* ---- marks ---- */

/* Tokens that the last mark has to have seen. */
static int32_t base_of(const struct kv_seq *s)
{
    return s->n_tok - s->n_pending;
}

/* The slot of the state behind the base; 0 where there is no token. */
static int32_t tip_of(const struct kv_seq *s)
{
    if (s->n_mark > 0 && s->mark[s->n_mark - 1].pos == base_of(s)) return s->mark[s->n_mark - 1].slot;
    return base_of(s) == 0 ? 0 : -1;
}

static void give_slot(struct kv_state_pool *p, int32_t slot)
{
    p->block[slot] = -1;
    p->free_list[p->n_free++] = slot;
}

/* keep: its state stays, if it can be found. */
static void let_go(struct kv_state_pool *p, struct kv_seq *s, int i, bool keep)
{
    int32_t slot = s->mark[i].slot;
    memmove(&s->mark[i], &s->mark[i + 1], (size_t)(s->n_mark - i - 1) * sizeof *s->mark);
    s->n_mark--;
    if (--p->refs[slot] > 0) return;
    if (keep && p->block[slot] >= 0)
        p->used[slot] = p->now;
    else
        give_slot(p, slot);
}

static void drop_mark(struct kv_state_pool *p, struct kv_seq *s, int i)
{
    let_go(p, s, i, false);
}

/* Behind all others.  Of too many marks the one goes whose neighbours are closest. */
static void add_mark(struct kv_state_pool *p, struct kv_seq *s, struct kv_mark m)
{
    int least = 0;
    int32_t gap = INT32_MAX;
    for (int i = 0; s->n_mark == KV_MARKS && i < KV_MARKS; i++) {
        int32_t next = i + 1 < KV_MARKS ? s->mark[i + 1].pos : m.pos, before = i ? s->mark[i - 1].pos : 0;
        if (next - before < gap) gap = next - before, least = i;
    }
    if (s->n_mark == KV_MARKS) drop_mark(p, s, least);
    s->mark[s->n_mark++] = m;
    p->refs[m.slot]++;
    p->used[m.slot] = p->now;
    if (!s->has_text || m.pos < 1) return;
    p->block[m.slot] = s->table[(m.pos - 1) / KV_BLOCK];
    p->pos[m.slot] = m.pos;
}

/* Slots that the pass may not write: where sequences that grow and runs begin from. */
static void find_needed(struct kv_cache *kv)
{
    struct kv_state_pool *p = &kv->states;
    memset(p->needed, 0, (size_t)p->n_slot * sizeof *p->needed);
    for (int32_t i = 0; i < kv->set.n_seq; i++)
        if (kv->seq[i].open && tip_of(&kv->seq[i]) > 0) p->needed[tip_of(&kv->seq[i])] = true;
    for (int i = 0; i < p->n_run; i++)
        if (p->run[i].from > 0) p->needed[p->run[i].from] = true;
}

/* Nobody holds the slot any more. */
static void evict(struct kv_cache *kv, int32_t slot)
{
    if (kv->states.refs[slot] == 0) give_slot(&kv->states, slot);
    for (int32_t i = 0; i < kv->set.n_seq; i++)
        for (int m = kv->seq[i].open ? kv->seq[i].n_mark - 1 : -1; m >= 0; m--)
            if (kv->seq[i].mark[m].slot == slot) drop_mark(&kv->states, &kv->seq[i], m);
}

/* A slot to write; -1: all are needed. */
static int32_t take_slot(struct kv_cache *kv)
{
    struct kv_state_pool *p = &kv->states;
    while (p->n_free == 0) {
        int32_t oldest = -1;
        for (int32_t i = 1; i < p->n_slot; i++)
            if ((p->refs[i] > 0 || p->block[i] >= 0) && !p->needed[i] && (oldest < 0 || p->used[i] < p->used[oldest]))
                oldest = i;
        if (oldest < 0) return -1;
        evict(kv, oldest);
    }
    return p->free_list[--p->n_free];
}

/* ---- sequences ---- */

int kv_state_admit(struct kv_cache *kv, struct lutra_error *err)
{
    const struct kv_state_pool *p = &kv->states;
    if (!p->n_slot || 2 * (p->n_live + 1) <= p->n_slot - 1) return 0;
    return lutra_fail(
        err, LUTRA_E_CTX_FULL, "cache: %d sequences have all %d states of recurrent layers", p->n_live, p->n_slot - 1);
}

void kv_state_live(struct kv_cache *kv, int more)
{
    kv->states.n_live += more;
}

int32_t kv_state_reach(const struct kv_cache *kv, const struct kv_seq *s, int32_t n_tok)
{
    if (!kv->states.n_slot) return n_tok;
    if (n_tok >= base_of(s) && tip_of(s) >= 0) return n_tok;
    for (int i = s->n_mark - 1; i >= 0; i--)
        if (s->mark[i].pos <= n_tok) return s->mark[i].pos;
    return 0;
}

int kv_state_check(const struct kv_cache *kv, const struct kv_seq *s, int32_t n_tok, struct lutra_error *err)
{
    int32_t near = kv_state_reach(kv, s, n_tok);
    if (near == n_tok) return 0;
    return lutra_fail(err, LUTRA_E_ARGUMENT,
        "cache: recurrent layers have no state behind token %d of %d; the last one before is behind %d", n_tok,
        s->n_tok, near);
}

/* The draft so many tokens before the last that was accepted. */
static int32_t pending_before(const struct kv_state_pool *p, const struct kv_seq *s, int32_t n)
{
    int32_t place = s->pending;
    while (n-- > 0) place = p->up[!p->half][place];
    return place;
}

void kv_state_fork(struct kv_cache *kv, const struct kv_seq *from, struct kv_seq *to)
{
    struct kv_state_pool *p = &kv->states;
    int32_t base = base_of(from);
    to->n_mark = to->n_pending = 0;
    if (!p->n_slot) return;
    for (int i = 0; i < from->n_mark; i++)
        if (from->mark[i].pos <= to->n_tok) add_mark(p, to, from->mark[i]);
    if (to->n_tok <= base) return;
    to->n_pending = to->n_tok - base;
    to->pending = pending_before(p, from, from->n_tok - to->n_tok);
}

void kv_state_cut(struct kv_cache *kv, struct kv_seq *s, int32_t n_tok)
{
    struct kv_state_pool *p = &kv->states;
    int32_t base = base_of(s), last = n_tok > base ? pending_before(p, s, s->n_tok - n_tok) : 0;
    s->pending = last;
    s->n_pending = n_tok > base ? n_tok - base : 0;
    while (s->n_mark > 0 && s->mark[s->n_mark - 1].pos > n_tok) drop_mark(p, s, s->n_mark - 1);
}

void kv_state_drop(struct kv_cache *kv, struct kv_seq *s)
{
    while (s->n_mark > 0) let_go(&kv->states, s, s->n_mark - 1, true);
}

/* ---- states of texts ---- */

void kv_state_forget(struct kv_cache *kv, int32_t block, int32_t n)
{
    struct kv_state_pool *p = &kv->states;
    for (int i = 1; i < p->n_slot; i++) {
        if (p->block[i] != block || (p->pos[i] - 1) % KV_BLOCK < n) continue;
        if (p->refs[i] == 0)
            give_slot(p, i);
        else
            p->block[i] = -1;
    }
}

/* The slot of the state with the most tokens, up to `most`, of the text of these blocks; 0: none. */
static int32_t find_state(const struct kv_cache *kv, const int32_t *table, int32_t most)
{
    const struct kv_state_pool *p = &kv->states;
    int32_t best = 0;
    for (int i = 1; i < p->n_slot; i++) {
        int32_t pos = p->pos[i], b = (pos - 1) / KV_BLOCK;
        if (p->block[i] < 0 || pos > most || (best && pos <= p->pos[best])) continue;
        if (kv_text_same(kv, p->block[i], table[b], pos - b * KV_BLOCK)) best = i;
    }
    return best;
}

int32_t kv_state_reach_past(const struct kv_cache *kv, const int32_t *table, int32_t n_tok)
{
    if (!kv->states.n_slot) return n_tok;
    int32_t slot = find_state(kv, table, n_tok);
    return slot ? kv->states.pos[slot] : 0;
}

/* The last one is where the sequence goes on; the others, from the end. */
void kv_state_take_past(struct kv_cache *kv, struct kv_seq *to)
{
    struct kv_state_pool *p = &kv->states;
    int32_t found[KV_MARKS], n = 0, most = to->n_tok;
    if (!p->n_slot) return;
    while (n < KV_MARKS && most > 0 && (found[n] = find_state(kv, to->table, most)) > 0) most = p->pos[found[n++]] - 1;
    while (n-- > 0) add_mark(p, to, (struct kv_mark){p->pos[found[n]], found[n], false, true});
}

void kv_state_commit(const struct kv_cache *kv, struct kv_seq *s, const struct kv_row *row)
{
    if (!kv->states.n_slot) return;
    s->pending = row->slot;
    s->n_pending = row->n_path;
}

/* ---- a pass ---- */

static struct kv_run *run_of(struct kv_cache *kv, int32_t seq)
{
    struct kv_state_pool *p = &kv->states;
    if (p->seq_run[seq] < 0) {
        const struct kv_seq *s = &kv->seq[seq];
        p->seq_run[seq] = p->n_run;
        p->run_seq[p->n_run] = seq;
        p->run[p->n_run++] = (struct kv_run){.from = tip_of(s), .pos = base_of(s), .n_replay = s->n_pending};
    }
    return &p->run[p->seq_run[seq]];
}

/* One run for each sequence that has rows or accepted drafts, with counts. */
static void count_runs(struct kv_cache *kv, const struct batch *batch)
{
    struct kv_state_pool *p = &kv->states;
    p->n_run = 0;
    memset(p->seq_run, -1, (size_t)kv->set.n_seq * sizeof *p->seq_run);
    for (int r = 0; r < batch->n_row; r++) {
        struct kv_run *run = run_of(kv, batch->row[r].seq);
        ++*(batch->row[r].want & ROW_DRAFT ? &run->n_draft : &run->n_row);
        p->run_of[r] = p->seq_run[batch->row[r].seq];
    }
    for (int32_t i = 0; i < kv->set.n_seq; i++)
        if (kv->seq[i].open && kv->seq[i].n_pending && tip_of(&kv->seq[i]) >= 0) run_of(kv, i);
}

/* Into a run's drafts, by their n_paged; parents stay before their children. */
static void insert_draft(struct kv_cache *kv, struct kv_run *run, int32_t row)
{
    int32_t *first = &kv->states.row[run->first_draft], at = run->n_draft++;
    for (; at > 0 && kv->row[first[at - 1]].n_paged > kv->row[row].n_paged; at--) first[at] = first[at - 1];
    first[at] = row;
}

static void fill_runs(struct kv_cache *kv, const struct batch *batch)
{
    struct kv_state_pool *p = &kv->states;
    int32_t n_row = 0, n_replay = 0;
    for (int i = 0; i < p->n_run; i++) {
        struct kv_run *run = &p->run[i];
        const struct kv_seq *s = &kv->seq[p->run_seq[i]];
        run->first_row = n_row;
        run->first_draft = n_row + run->n_row;
        n_row += run->n_row + run->n_draft;
        run->n_row = run->n_draft = 0;
        run->first_replay = n_replay;
        for (int32_t k = 0; k < run->n_replay; k++)
            p->replay[n_replay + k] = pending_before(p, s, run->n_replay - 1 - k);
        n_replay += run->n_replay;
    }
    for (int r = 0; r < batch->n_row; r++) {
        struct kv_run *run = &p->run[p->run_of[r]];
        const struct kv_row *k = &kv->row[r];
        if (batch->row[r].want & ROW_DRAFT) {
            p->up[p->half][k->slot] = k->n_path > 1 ? kv->row[k->up].slot : -1;
            insert_draft(kv, run, r);
        } else {
            p->row[run->first_row + run->n_row++] = r;
        }
    }
}

static bool save(struct kv_cache *kv, struct kv_run *run, int32_t pos, bool passing)
{
    struct kv_state_pool *p = &kv->states;
    int32_t slot = take_slot(kv);
    if (slot < 0) return false;
    int at = run->first_save + run->n_save++;
    p->save[at] = (struct kv_save){pos - run->pos, slot};
    p->made[at] = (struct made){pos, passing};
    return true;
}

static bool wants_result(const struct kv_cache *kv, const struct batch *batch, const struct kv_run *run)
{
    int32_t last = run->n_row ? kv->states.row[run->first_row + run->n_row - 1] : -1;
    return last >= 0 && (batch->row[last].want & WANT_ALL);
}

/* States inside a run, ascending: every 1,024th; where the text parts from an earlier one, which a third may share as
 * well (a system prompt before turns that were left out); at the end of a prompt the last block's beginning, and one
 * token before the end, so that the last token may be evaluated once more. */
static void save_inside(struct kv_cache *kv, const struct batch *batch, struct kv_run *run, int32_t end)
{
    bool prompt = run->n_row > 1 && wants_result(kv, batch, run);
    int32_t block = prompt ? (end - 1) / KV_BLOCK * KV_BLOCK : 0;
    int32_t parts = kv->seq[kv->states.run_seq[run - kv->states.run]].parts;
    kv->states.keeps_tip[run - kv->states.run] = block && block == run->pos;
    for (int32_t pos = run->pos + 1; pos < end; pos++) {
        bool kept = pos % SAVE_EVERY == 0 || pos == block || pos == parts;
        if (kept || (prompt && pos == end - 1)) save(kv, run, pos, !kept);
    }
}

/* Slots for the states behind all runs first: they are promised.  Others take what nobody needs. */
static int save_runs(struct kv_cache *kv, const struct batch *batch, struct lutra_error *err)
{
    struct kv_state_pool *p = &kv->states;
    int32_t n_save = 0;
    find_needed(kv);
    for (int i = 0; i < p->n_run; i++) {
        struct kv_run *run = &p->run[i];
        struct kv_seq *s = &kv->seq[p->run_seq[i]];
        int32_t n = run->n_replay + run->n_row;
        run->first_save = n_save;
        p->keeps_tip[i] = false;
        if (n == 0) continue;
        for (int m = s->n_mark - 1; m >= 0; m--)
            if (s->mark[m].passing && m < s->n_mark - 1) drop_mark(p, s, m);
        if (!save(kv, run, run->pos + n, false))
            return lutra_fail(err, LUTRA_E_INTERNAL, "cache: a promise of states was broken");
        n_save += SAVES + n / SAVE_EVERY;
    }
    for (int i = 0; i < p->n_run; i++) {
        struct kv_run *run = &p->run[i];
        if (!run->n_save) continue;
        struct kv_save last = p->save[run->first_save];
        struct made made = p->made[run->first_save];
        run->n_save = 0;
        save_inside(kv, batch, run, made.pos);
        p->save[run->first_save + run->n_save] = last;
        p->made[run->first_save + run->n_save++] = made;
    }
    return 0;
}

static void give_saved(struct kv_state_pool *p)
{
    for (int i = 0; i < p->n_run; i++)
        for (int k = 0; k < p->run[i].n_save; k++) give_slot(p, p->save[p->run[i].first_save + k].slot);
    p->n_run = 0;
}

int kv_state_begin(struct kv_cache *kv, const struct batch *batch, struct kv_states *view, struct lutra_error *err)
{
    struct kv_state_pool *p = &kv->states;
    *view = (struct kv_states){0};
    if (!p->n_slot) return 0;
    p->now++;
    count_runs(kv, batch);
    fill_runs(kv, batch);
    int rc = save_runs(kv, batch, err);
    if (rc < 0) {
        give_saved(p);
        return rc;
    }
    *view = (struct kv_states){.pool = p->pool,
        .slot_bytes = p->slot_bytes,
        .left_bytes = p->left_bytes,
        .layer_at = p->layer_at,
        .draft_at = p->draft_at,
        .left = p->left[p->half],
        .left_before = p->left[!p->half],
        .run = p->run,
        .n_run = p->n_run,
        .row = p->row,
        .replay = p->replay,
        .save = p->save,
        .run_of = p->run_of};
    return 0;
}

/* The marks of a run's sequence: those of this pass behind those it had, whose last one stays for one pass more, or
 * for good at a kept position or where it was found by its text. */
static void take_run(struct kv_cache *kv, int i)
{
    struct kv_state_pool *p = &kv->states;
    const struct kv_run *run = &p->run[i];
    struct kv_seq *s = &kv->seq[p->run_seq[i]];
    s->n_pending = 0;
    int32_t end = run->pos + run->n_replay + run->n_row;
    struct kv_mark *tip = s->n_mark ? &s->mark[s->n_mark - 1] : NULL;
    if (tip && tip->pos == run->pos && end > run->pos) {
        tip->passing = run->pos % SAVE_EVERY && !p->keeps_tip[i] && !tip->found;
    }
    for (int k = 0; k < run->n_save; k++) {
        const struct made *m = &p->made[run->first_save + k];
        add_mark(p, s, (struct kv_mark){m->pos, p->save[run->first_save + k].slot, m->passing, false});
    }
}

void kv_state_end(struct kv_cache *kv, bool ok)
{
    struct kv_state_pool *p = &kv->states;
    if (!p->n_slot) return;
    if (!ok) {
        give_saved(p);
        return;
    }
    for (int i = 0; i < p->n_run; i++) take_run(kv, i);
    p->n_run = 0;
    p->half = !p->half;
    for (int32_t i = 0; i < kv->set.n_seq; i++)
        if (kv->seq[i].open && p->seq_run[i] < 0) kv->seq[i].n_pending = 0;
}
