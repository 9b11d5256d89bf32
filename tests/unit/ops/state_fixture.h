/* SPDX-License-Identifier: MIT
 *
 * The part of a kv_view that recurrent operations see, built by hand behind a kv_fixture whose rows are placed:
 *
 *     state_fixture_open(&s, &kv, layer, n_layer, seed);      random states, accepted drafts and places to save
 *     state_fixture_close(&s);
 */
#ifndef TESTS_STATE_FIXTURE_H
#define TESTS_STATE_FIXTURE_H

#include "unit/ops/kv_fixture.h"

enum { SFIX_RUNS = 8, SFIX_SLOTS = 1 + SFIX_RUNS + 3 * SFIX_RUNS, SFIX_REPLAY = 3, SFIX_PLACES = 32 };

/* Bytes of the states of random_list.h's layers: of a convolution of 64 elements, then of a delta rule. */
enum { RL_CONV_STATE = 3 * 64 * 4, RL_DELTA_STATE = 2 * 16 * 16 * 4, RL_CONV_DRAFT = 64 * 4, RL_DELTA_DRAFT = 80 * 4 };

struct state_fixture {
    size_t layer_at[FIX_LAYERS], draft_at[FIX_LAYERS], pool_bytes, left_bytes;
    struct kv_run run[SFIX_RUNS];
    struct kv_save save[3 * SFIX_RUNS];
    int32_t row[FIX_ROWS], replay[SFIX_RUNS * SFIX_REPLAY], run_of[FIX_ROWS];
    struct kv_states *states;
};

static inline void state_fixture_noise(uint8_t *to, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes / sizeof(float); i++) ((float *)to)[i] = fixture_noise((uint32_t)i, seed, 77);
}

static inline void state_fixture_run(struct state_fixture *s, struct kv_fixture *f, int seq, int *n_row, uint32_t seed)
{
    struct kv_states *st = s->states;
    int i = st->n_run++, first = *n_row;
    struct kv_run *r = &s->run[i];
    *r = (struct kv_run){.from = seed % 4 ? 1 + i : 0, .first_row = first, .first_replay = i * SFIX_REPLAY};
    r->n_replay = (int32_t)(seed / 7 % (SFIX_REPLAY + 1));
    if (r->n_replay > f->committed[seq]) r->n_replay = f->committed[seq];
    r->pos = f->committed[seq] - r->n_replay;
    for (int k = 0; k < r->n_replay; k++) s->replay[r->first_replay + k] = (int32_t)((seed + 5u * (uint32_t)k) % 20);
    for (int row = 0; row < f->n_row; row++)
        if (f->row_seq[row] == seq && !f->row[row].n_path) s->row[(*n_row)++] = row, r->n_row++;
    r->first_draft = *n_row;
    for (int row = 0; row < f->n_row; row++)
        if (f->row_seq[row] == seq && f->row[row].n_path) s->row[(*n_row)++] = row, r->n_draft++;
    for (int k = first; k < *n_row; k++) s->run_of[s->row[k]] = i;
    r->first_save = 3 * i;
    int n = r->n_replay + r->n_row;
    if (n > 1) s->save[r->first_save + r->n_save++] = (struct kv_save){1 + (int)(seed % (uint32_t)(n - 1)), 20 + i};
    if (n > 0) s->save[r->first_save + r->n_save++] = (struct kv_save){n, 9 + i};
}

static inline void state_fixture_open(
    struct state_fixture *s, struct kv_fixture *f, const struct op_layer *layer, int n_layer, uint32_t seed)
{
    struct kv_states *st = s->states = &f->view.state;
    int n_row = 0;
    *st = (struct kv_states){0};
    for (int i = 0; i < n_layer; i++) {
        s->layer_at[i] = st->slot_bytes, s->draft_at[i] = st->left_bytes;
        st->slot_bytes += layer[i].state_bytes;
        st->left_bytes += layer[i].draft_bytes;
    }
    s->pool_bytes = SFIX_SLOTS * st->slot_bytes;
    s->left_bytes = SFIX_PLACES * st->left_bytes;
    st->pool = aligned_alloc(64, s->pool_bytes + 64);
    st->left = aligned_alloc(64, s->left_bytes + 64);
    uint8_t *before = aligned_alloc(64, s->left_bytes + 64);
    state_fixture_noise(st->pool, s->pool_bytes, seed);
    memset(st->pool, 0, st->slot_bytes);
    state_fixture_noise(before, s->left_bytes, seed + 1);
    fixture_fill_nan(st->left, s->left_bytes);
    st->left_before = before;
    st->layer_at = s->layer_at, st->draft_at = s->draft_at;
    st->run = s->run, st->row = s->row, st->replay = s->replay, st->save = s->save, st->run_of = s->run_of;
    for (int seq = 0; seq < f->n_seq; seq++)
        for (int row = 0; row < f->n_row; row++) {
            if (f->row_seq[row] != seq) continue;
            state_fixture_run(s, f, seq, &n_row, seed * 31u + (uint32_t)seq * 17u);
            break;
        }
}

static inline void state_fixture_close(struct state_fixture *s)
{
    free(s->states->pool);
    free(s->states->left);
    free((void *)(uintptr_t)s->states->left_before);
}

#endif
