/* SPDX-License-Identifier: MIT
 *
 * Operations with a state per sequence: the tokens of a run one after the other, drafts from copies.
 */
#include "ops/ref/ref.h"

#include <math.h>
#include <string.h>

void ref_mul(const float *a, const float *b, float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = a[i] * b[i];
}

void ref_gate(const float *gate, int n_gate, const float *x, float *out, int n)
{
    for (int i = 0; i < n; i++) out[i] = (float)(x[i] / (1 + exp(-(double)gate[n_gate == 1 ? 0 : i])));
}

void ref_conv(const struct op_conv *p, const float *const *x, float *out, int n)
{
    for (int i = 0; i < n; i++) {
        double sum = p->bias ? p->bias[i] : 0;
        for (int j = 0; j < p->n_tap; j++) sum += (double)p->weight[(size_t)j * (size_t)n + (size_t)i] * x[j][i];
        out[i] = (float)(p->silu ? sum / (1 + exp(-sum)) : sum);
    }
}

void ref_delta_gates(const struct op_delta *p, int head, float decay_in, float step_in, float *decay, float *step)
{
    double x = (double)decay_in + p->dt[head], soft = x > 40 ? x : log1p(exp(x));
    *decay = (float)exp(p->a[head] * soft);
    *step = (float)(p->skip ? soft : 1 / (1 + exp(-(double)step_in)));
}

void ref_l2_norm(const float *x, float eps, float scale, float *out, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
    for (int i = 0; i < n; i++) out[i] = (float)(x[i] * (scale / sqrt(sum + (double)eps)));
}

void ref_delta_step(
    float *state, int d_k, const float *k, const float *q, const float *v, float decay, float step, float *out)
{
    for (int c = 0; c < DELTA_TILE; c++) {
        double read = 0, sum = 0;
        for (int i = 0; i < d_k; i++) read += (double)state[i * DELTA_TILE + c] * k[i];
        double more = step * (v[c] - decay * read);
        for (int i = 0; i < d_k; i++) {
            float *s = &state[i * DELTA_TILE + c];
            *s = (float)((double)*s * decay + k[i] * more);
            sum += (double)*s * q[i];
        }
        out[c] = (float)sum;
    }
}

/* The same of Mamba-2. */
static void plain_step(float *state, int d_k, const float *k, const float *q, const float *v, float decay, float step,
    float skip, float *out)
{
    for (int c = 0; c < DELTA_TILE; c++) {
        double sum = (double)skip * v[c];
        for (int i = 0; i < d_k; i++) {
            float *s = &state[i * DELTA_TILE + c];
            *s = (float)((double)*s * decay + k[i] * ((double)step * v[c]));
            sum += (double)*s * q[i];
        }
        out[c] = (float)sum;
    }
}

struct ref_delta_parts ref_delta_parts(const struct op_delta *p, int head, const float *x)
{
    size_t n_key = (size_t)p->n_k_head * (size_t)p->d_k, n_v = (size_t)p->n_v_head * (size_t)p->d_v;
    size_t key = (size_t)(p->neighbours ? head / (p->n_v_head / p->n_k_head) : head % p->n_k_head) * (size_t)p->d_k;
    size_t v = (size_t)head * (size_t)p->d_v;
    if (p->skip) return (struct ref_delta_parts){x + n_v + n_key + key, x + n_v + key, x + v};
    return (struct ref_delta_parts){x + key, x + n_key + key, x + 2 * n_key + v};
}

/* One token of all heads: x, decay and step as OP_DELTA_NET's inputs. */
static void delta_token(
    const struct op_delta *p, float *state, const float *x, const float *decay_in, const float *step_in, float *out)
{
    float q[DELTA_MOST], k[DELTA_MOST];
    for (int h = 0; h < p->n_v_head; h++, out += p->d_v) {
        struct ref_delta_parts of = ref_delta_parts(p, h, x);
        float decay, step;
        memcpy(q, of.q, (size_t)p->d_k * sizeof *q);
        memcpy(k, of.k, (size_t)p->d_k * sizeof *k);
        if (!p->skip) ref_l2_norm(of.q, p->eps, (float)(1 / sqrt(p->d_k)), q, p->d_k);
        if (!p->skip) ref_l2_norm(of.k, p->eps, 1, k, p->d_k);
        ref_delta_gates(p, h, decay_in[h], step_in[h], &decay, &step);
        for (int c = 0; c < p->d_v; c += DELTA_TILE, state += (size_t)DELTA_TILE * (size_t)p->d_k)
            if (p->skip)
                plain_step(state, p->d_k, k, q, of.v + c, decay, step, p->skip[h], out + c);
            else
                ref_delta_step(state, p->d_k, k, q, of.v + c, decay, step, out + c);
    }
}

/* ---- runs ---- */

/* One operation of a pass: what its tokens read and write. */
struct scan {
    const struct op_list *list;
    const struct op *op;
    const struct kv_view *kv;
    float *const *value;
    struct op_share share;
    int n_in[OP_INS], n_out;
    float *none; /* [n_out] */
};

static const float *input(const struct scan *s, int i, int row)
{
    return s->value[s->op->in[i]] + (size_t)row * (size_t)s->n_in[i];
}

/* Advances a state by one token; out NULL: only that. */
static void advance(const struct scan *s, float *state, const float *const *in, float *out)
{
    size_t n = (size_t)s->n_in[0];
    if (s->op->kind == OP_CONV) {
        const float *x[CONV_TAPS];
        int n_tap = s->op->conv.n_tap;
        for (int j = 0; j < n_tap - 1; j++) x[j] = state + (size_t)j * n;
        x[n_tap - 1] = in[0];
        if (out) ref_conv(&s->op->conv, x, out, (int)n);
        memmove(state, state + n, (size_t)(n_tap - 2) * n * sizeof *state);
        memcpy(state + (size_t)(n_tap - 2) * n, in[0], n * sizeof *state);
        return;
    }
    delta_token(&s->op->delta, state, in[0], in[1], in[2], out ? out : s->none);
}

static void row_token(const struct scan *s, float *state, int row)
{
    const float *in[OP_INS] = {NULL};
    for (int i = 0; i < s->op->n_in; i++) in[i] = input(s, i, row);
    advance(s, state, in, s->value[s->op->out[0]] + (size_t)row * (size_t)s->n_out);
}

static void replayed_token(const struct scan *s, float *state, int32_t place)
{
    const float *in[OP_INS], *x = kv_left_before(&s->kv->state, s->op->layer, s->share.draft, place);
    for (int i = 0; i < s->op->n_in; x += s->n_in[i++]) in[i] = x;
    advance(s, state, in, NULL);
}

/* A draft: its state, from the chain's or its parent's, and the inputs that it leaves. */
static void draft_token(const struct scan *s, const float *chain, float *drafts, int row)
{
    const struct kv_row *r = &s->kv->row[row];
    size_t n = s->share.state_bytes / sizeof(float);
    float *state = drafts + (size_t)r->slot * n,
          *left = kv_left_at(&s->kv->state, s->op->layer, s->share.draft, r->slot);
    memcpy(state, r->n_path > 1 ? drafts + (size_t)s->kv->row[r->up].slot * n : chain, s->share.state_bytes);
    row_token(s, state, row);
    for (int i = 0; i < s->op->n_in; left += s->n_in[i++])
        memcpy(left, input(s, i, row), (size_t)s->n_in[i] * sizeof *left);
}

static void run_tokens(const struct scan *s, const struct kv_run *run, float *state, float *drafts)
{
    const struct kv_states *st = &s->kv->state;
    int layer = s->op->layer, draft = run->first_draft, save = run->first_save;
    memcpy(state, kv_state_at(st, layer, s->share.state, run->from), s->share.state_bytes);
    for (int32_t t = 0; t <= run->n_replay + run->n_row; t++) {
        if (t > 0 && t <= run->n_replay) replayed_token(s, state, st->replay[run->first_replay + t - 1]);
        if (t > run->n_replay) row_token(s, state, st->row[run->first_row + t - 1 - run->n_replay]);
        for (; save < run->first_save + run->n_save && st->save[save].after == t; save++)
            memcpy(kv_state_at(st, layer, s->share.state, st->save[save].slot), state, s->share.state_bytes);
        for (; draft < run->first_draft + run->n_draft && s->kv->row[st->row[draft]].n_paged - run->pos == t; draft++)
            draft_token(s, state, drafts, st->row[draft]);
    }
}

size_t ref_recurrent_floats(const struct op_list *list, const struct op *op, int n_draft)
{
    return op_share_of(list, op).state_bytes / sizeof(float) * ((size_t)n_draft + 1) +
           (size_t)list->value[op->out[0]].dim;
}

void ref_recurrent(
    const struct op_list *list, const struct op *op, const struct kv_view *kv, float *const *value, float *scratch)
{
    struct scan s = {.list = list,
        .op = op,
        .kv = kv,
        .value = value,
        .share = op_share_of(list, op),
        .n_out = list->value[op->out[0]].dim};
    float *state = s.none = scratch;
    state += s.n_out;
    for (int i = 0; i < op->n_in; i++) s.n_in[i] = list->value[op->in[i]].dim;
    for (int i = 0; i < kv->state.n_run; i++)
        run_tokens(&s, &kv->state.run[i], state, state + s.share.state_bytes / sizeof *state);
}
