/* SPDX-License-Identifier: MIT
 *
 * OP_CONV and OP_DELTA_NET (Mamba-2 is a plain one): operations whose rows advance a state of their sequence (kv_run
 * of ops/kv_view.h).
 *
 * A convolution's row needs no state but the inputs of the tokens before it, wherever they lie, so rows are shared out.
 * The delta rule goes through a run's tokens in order; heads are independent: a unit of work is one head of one run.
 * Within it a tile of DELTA_TILE columns stays in L1 over TOKENS tokens, whose q and k are normalised first.
 * The arithmetic of a token never depends on how many there are (docs/NUMERICS.md).
 */
#include <math.h>
#include <string.h>

#include "cpu/program_impl.h"
#include "ops/ref/ref.h"

static const struct kv_states *states_of(const struct worker *w)
{
    return &w->run->segment->pass->kv->state;
}

static size_t dim_of(const struct worker *w, int value)
{
    return (size_t)w->run->segment->list->value[value].dim;
}

/* A draft leaves its inputs for the pass behind its commit; this thread's share of the rows. */
static void leave_inputs(const struct worker *w, const struct op *op, size_t share)
{
    const struct kv_row *row = w->run->segment->pass->kv->row;
    for (int r = w->share[ROWS_ALL].first; r < w->share[ROWS_ALL].last; r++) {
        if (!row[r].n_path) continue;
        float *to = kv_left_at(states_of(w), op->layer, share, row[r].slot);
        for (int i = 0; i < op->n_in; to += dim_of(w, op->in[i++]))
            memcpy(to, cpu_value_row(w, op->in[i], r), dim_of(w, op->in[i]) * sizeof *to);
    }
}

/* ---- convolution ---- */

/* The input of token `at` of a run: of one before it (at < 0), of a replayed draft or of a row. */
static const float *token_input(const struct worker *w, const struct op *op, const struct kv_run *run, int at)
{
    const struct kv_states *s = states_of(w);
    if (at < 0)
        return kv_state_at(s, op->layer, op->conv.state, run->from) +
               (size_t)(op->conv.n_tap - 1 + at) * dim_of(w, op->in[0]);
    if (at < run->n_replay) return kv_left_before(s, op->layer, op->conv.draft, s->replay[run->first_replay + at]);
    return cpu_value_row(w, op->in[0], s->row[run->first_row + at - run->n_replay]);
}

static void conv_row(const struct worker *w, const struct op *op, int row)
{
    const struct kv_view *kv = w->run->segment->pass->kv;
    const struct kv_run *run = &kv->state.run[kv->state.run_of[row]];
    const struct kv_row *r = &kv->row[row];
    const float *x[CONV_TAPS];
    int tap = op->conv.n_tap - 1, at = r->n_paged - run->pos - 1;
    for (int32_t left = r->n_path, draft = row; left > 0 && tap >= 0; left--, draft = kv->row[draft].up)
        x[tap--] = cpu_value_row(w, op->in[0], draft);
    for (; tap >= 0; at--) x[tap--] = token_input(w, op, run, at);
    w->run->device->kernels.conv(&op->conv, x, dim_of(w, op->in[0]), cpu_value_row(w, op->out[0], row));
}

/* The inputs before a saved state's place, of every nth run. */
static void save_tails(const struct worker *w, const struct op *op)
{
    const struct kv_states *s = states_of(w);
    size_t n = dim_of(w, op->in[0]);
    for (int i = w->ith; i < s->n_run; i += w->nth) {
        const struct kv_run *run = &s->run[i];
        for (const struct kv_save *save = s->save + run->first_save; save < s->save + run->first_save + run->n_save;
             save++) {
            float *to = kv_state_at(s, op->layer, op->conv.state, save->slot);
            for (int j = 0; j < op->conv.n_tap - 1; j++)
                memcpy(to + (size_t)j * n, token_input(w, op, run, save->after - (op->conv.n_tap - 1) + j),
                    n * sizeof *to);
        }
    }
}

bool cpu_run_conv(struct worker *w, const struct instr *in)
{
    const struct op *op = in->op;
    for (int r = w->share[ROWS_ALL].first; r < w->share[ROWS_ALL].last; r++) conv_row(w, op, r);
    leave_inputs(w, op, op->conv.draft);
    save_tails(w, op);
    return true;
}

/* ---- gated delta rule ---- */

enum { TOKENS = 16 };

struct token {
    const float *v; /* [d_v] */
    float *out;     /* [d_v]; NULL: replayed */
    float decay, step;
    int row;      /* -1: replayed */
    int32_t save; /* slot of the state behind it; -1: none */
};

/* One head of one run, and the tokens of it that are under way. */
struct head {
    const struct worker *w;
    const struct op *op;
    const struct kv_run *run;
    int head;
    int32_t slot;  /* where the chain's state is advanced: that of its end, or run->from where it has no tokens */
    bool begun;    /* it has been copied there */
    float *drafts; /* [n_draft][d_k][DELTA_TILE] states behind drafts, of one tile */
    int n;
    struct token token[TOKENS];
    float q[TOKENS][DELTA_MOST], k[TOKENS][DELTA_MOST];
};

/* x, decay and step: OP_DELTA_NET's inputs of the token. */
static void push_token(struct head *h, const float *x, const float *decay, const float *step, int row, int32_t save)
{
    const struct op_delta *d = &h->op->delta;
    const struct cpu_kernels *kernels = &h->w->run->device->kernels;
    struct token *t = &h->token[h->n];
    struct ref_delta_parts of = ref_delta_parts(d, h->head, x);
    size_t d_k = (size_t)d->d_k, at = (size_t)h->head * (size_t)d->d_v;
    if (d->skip) {
        memcpy(h->q[h->n], of.q, d_k * sizeof *of.q);
        memcpy(h->k[h->n], of.k, d_k * sizeof *of.k);
    } else {
        kernels->l2_norm(of.q, d_k, d->eps, (float)(1 / sqrt(d->d_k)), h->q[h->n]);
        kernels->l2_norm(of.k, d_k, d->eps, 1, h->k[h->n]);
    }
    *t = (struct token){
        .v = of.v, .out = row < 0 ? NULL : cpu_value_row(h->w, h->op->out[0], row) + at, .row = row, .save = save};
    ref_delta_gates(d, h->head, decay[h->head], step[h->head], &t->decay, &t->step);
    h->n++;
}

static void push_row(struct head *h, int row, int32_t save)
{
    const int *in = h->op->in;
    push_token(h, cpu_value_row(h->w, in[0], row), cpu_value_row(h->w, in[1], row), cpu_value_row(h->w, in[2], row),
        row, save);
}

static void push_replayed(struct head *h, int32_t place, int32_t save)
{
    const float *x = kv_left_before(states_of(h->w), h->op->layer, h->op->delta.draft, place);
    const float *decay = x + dim_of(h->w, h->op->in[0]);
    push_token(h, x, decay, decay + h->op->delta.n_v_head, -1, save);
}

static float *state_tile(const struct head *h, int32_t slot, int tile)
{
    const struct op_delta *d = &h->op->delta;
    size_t at = ((size_t)h->head * (size_t)d->d_v + (size_t)tile * DELTA_TILE) * (size_t)d->d_k;
    return kv_state_at(states_of(h->w), h->op->layer, d->state, slot) + at;
}

/* The state that a token advances: the chain's, or a draft's, which begins as a copy. */
static float *state_of(const struct head *h, const struct token *t, float *chain, size_t n)
{
    const struct kv_row *row = h->w->run->segment->pass->kv->row, *r = t->row < 0 ? NULL : &row[t->row];
    if (!r || !r->n_path) return chain;
    float *own = h->drafts + (size_t)r->slot * n;
    memcpy(own, r->n_path > 1 ? h->drafts + (size_t)row[r->up].slot * n : chain, n * sizeof *own);
    return own;
}

/* One token of DELTA_TILE columns of Mamba-2.  No operation is fused, so the bits are the same everywhere. */
static void plain_step(float *state, int d_k, const float *k, const float *q, const float *v, float decay, float step,
    float skip, float *out)
{
    float more[DELTA_TILE], sum[DELTA_TILE] = {0};
    for (int c = 0; c < DELTA_TILE; c++) more[c] = step * v[c];
    for (int i = 0; i < d_k; i++, state += DELTA_TILE)
        for (int c = 0; c < DELTA_TILE; c++) {
            state[c] = state[c] * decay + k[i] * more[c];
            sum[c] += state[c] * q[i];
        }
    for (int c = 0; c < DELTA_TILE; c++) out[c] = sum[c] + skip * v[c];
}

/* The tokens under way through one tile. */
static void run_tile(const struct head *h, int tile)
{
    const struct cpu_kernels *kernels = &h->w->run->device->kernels;
    const float *skip = h->op->delta.skip;
    int d_k = h->op->delta.d_k, c = tile * DELTA_TILE;
    size_t n = (size_t)d_k * DELTA_TILE;
    float *chain = state_tile(h, h->slot, tile), none[DELTA_TILE];
    if (!h->begun) memcpy(chain, state_tile(h, h->run->from, tile), n * sizeof *chain);
    for (int i = 0; i < h->n; i++) {
        const struct token *t = &h->token[i];
        float *s = state_of(h, t, chain, n);
        float *out = t->out ? t->out + c : none;
        if (skip)
            plain_step(s, d_k, h->k[i], h->q[i], t->v + c, t->decay, t->step, skip[h->head], out);
        else
            kernels->delta_step(s, d_k, h->k[i], h->q[i], t->v + c, t->decay, t->step, out);
        if (t->save >= 0) memcpy(state_tile(h, t->save, tile), s, n * sizeof *s);
    }
}

/* The tokens under way through all tiles. */
static void flush(struct head *h)
{
    if (!h->n) return;
    for (int tile = 0; tile < h->op->delta.d_v / DELTA_TILE; tile++) run_tile(h, tile);
    h->begun = true;
    h->n = 0;
}

/* Drafts that begin from the same state of the chain, and those below them: tile by tile, as a tile of each draft's
 * state is all there is room for. */
static void run_drafts(struct head *h, const int32_t *row, int n)
{
    if (!n) return;
    flush(h);
    for (int tile = 0; tile < h->op->delta.d_v / DELTA_TILE; tile++) {
        for (int i = 0; i < n; i += TOKENS) {
            if (n > TOKENS) h->n = 0;
            for (int k = i; h->n < TOKENS && k < n && (tile == 0 || n > TOKENS); k++) push_row(h, row[k], -1);
            run_tile(h, tile);
        }
    }
    h->n = 0;
}

static void run_head(struct head *h)
{
    const struct kv_states *s = states_of(h->w);
    const struct kv_row *row = h->w->run->segment->pass->kv->row;
    const struct kv_run *run = h->run;
    int draft = 0, n = run->n_replay + run->n_row;
    const struct kv_save *save = s->save + run->first_save, *last = save + run->n_save - 1;
    h->slot = run->n_save ? last->slot : run->from;
    h->begun = h->slot == run->from;
    for (int t = 0; t <= n; t++) {
        int32_t slot = -1;
        if (t > 0 && run->n_save && save < last && save->after == t) slot = save++->slot;
        if (t > 0 && t <= run->n_replay) push_replayed(h, s->replay[run->first_replay + t - 1], slot);
        if (t > run->n_replay) push_row(h, s->row[run->first_row + t - 1 - run->n_replay], slot);
        if (h->n == TOKENS) flush(h);
        int first = draft;
        while (draft < run->n_draft && row[s->row[run->first_draft + draft]].n_paged - run->pos == t) draft++;
        run_drafts(h, s->row + run->first_draft + first, draft - first);
    }
    flush(h);
}

bool cpu_run_delta(struct worker *w, const struct instr *in)
{
    const struct op *op = in->op;
    const struct kv_states *s = states_of(w);
    const struct cpu_scratch *scratch = &w->run->device->scratch;
    struct head h = {.w = w, .op = op, .drafts = scratch->delta + (size_t)w->ith * scratch->delta_floats};
    leave_inputs(w, op, op->delta.draft);
    for (size_t unit; (unit = cpu_worker_next(w)) < (size_t)s->n_run * (size_t)op->delta.n_v_head;) {
        h.run = &s->run[unit / (size_t)op->delta.n_v_head];
        h.head = (int)(unit % (size_t)op->delta.n_v_head);
        if (h.run->n_row + h.run->n_draft > 0 || h.run->n_save > 0) run_head(&h);
    }
    return true;
}
