/* SPDX-License-Identifier: MIT
 *
 * OP_MATMUL: the parts of a fused matmul over all rows, shared out in units of panels as program.c has cut them.
 *
 * Rows come in stretches: side by side and of one class.  Bulk rows of prompts go to a weight's bulk kernels where it
 * has them, all others to its ordinary ones.  A unit of weights serves every stretch while it is in cache.  A segment
 * may have a share of the rows of one class: then stretches of the other are left out.
 *
 * Bulk rows of a gated feed-forward (gate and up, OP_SWIGLU or its like, down) skip their values in between: the gate's
 * kernel leaves the activations of the next matmul.  Other rows of the batch take the three operations one by one.
 */
#include <string.h>

#include "cpu/layout.h"
#include "cpu/program_impl.h"

enum { GATHERED = 16 << 10 }; /* outputs of a unit, at most, that are gathered before they are stored */
_Static_assert((int)GATHERED <= (int)HEAD_ROWS * (int)HEAD_OUTPUTS, "what is gathered fits the scratch");

struct stretch {
    int first, n;
    enum row_class class;
    int first_form;        /* of the matmul in the scratch: the ones before belong to another */
    size_t act[ACT_FORMS]; /* where its activations begin in each form's scratch */
};

/* Whether a matmul's rows are of two classes. */
static bool in_bulk(const struct worker *w, const struct matmul *m)
{
    return m->bulk && w->run->bulk[m->rows];
}

static enum row_class class_of(const struct pass_args *pass, enum value_rows rows, int i)
{
    int row = rows == ROWS_ALL ? i : pass->out_row[i];
    return pass->batch->row[row].want & ROW_BULK ? BULK : ORDINARY;
}

static enum share_rows own_rows(const struct worker *w)
{
    return w->run->segment->share.rows;
}

/* From row `at` on the first that is of the segment's share. */
static int skip_others(const struct worker *w, enum value_rows rows, int at)
{
    struct row_run own = {at, 0};
    share_next_rows(w->run->segment->pass, rows, w->run->segment->share, &own);
    return own.first;
}

/* Up to STRETCHES stretches from row *at on, which moves behind them; returns how many. */
static int find_stretches(const struct worker *w, const struct matmul *m, int first_form, int *at, struct stretch *out)
{
    const struct pass_args *pass = w->run->segment->pass;
    size_t used[ACT_FORMS] = {0};
    int n = 0, n_row = w->run->n_rows[m->rows];
    *at = skip_others(w, m->rows, *at);
    for (; *at < n_row && n < STRETCHES; n++) {
        struct stretch *t = &out[n];
        *t = (struct stretch){.first = *at, .class = class_of(pass, m->rows, *at), .first_form = first_form};
        for (; *at < n_row && class_of(pass, m->rows, *at) == t->class; ++*at) t->n++;
        for (int f = 0; f < m->n_form; f++) {
            t->act[f] = used[f];
            if (m->form[f].used[t->class]) used[f] += m->form[f].gemm->act_bytes(m->n_in, (size_t)t->n);
        }
        *at = skip_others(w, m->rows, *at);
    }
    return n;
}

static uint8_t *act_of(const struct worker *w, int form, const struct stretch *t)
{
    return (uint8_t *)w->run->device->scratch.act[t->first_form + form] + t->act[form];
}

/* This thread's rows of a stretch. */
static void share_of(const struct worker *w, enum value_rows rows, const struct stretch *t, int *first, int *last)
{
    *first = w->share[rows].first > t->first ? w->share[rows].first : t->first;
    *last = w->share[rows].last < t->first + t->n ? w->share[rows].last : t->first + t->n;
}

/* The activations of this thread's rows, in every form that a stretch needs. */
static void prepare_rows(const struct worker *w, const struct matmul *m, const struct stretch *t)
{
    int first, last;
    share_of(w, m->rows, t, &first, &last);
    for (int f = 0; f < m->n_form; f++) {
        const struct act_form *form = &m->form[f];
        if (!form->used[t->class]) continue;
        for (int r = first; r < last; r++) {
            const float *x = cpu_value_row(w, m->in, r);
            float row_max = form->i8row ? cpu_row_max(x, m->n_in) : 0;
            form->gemm->act_row(x, m->n_in, (size_t)(r - t->first), (size_t)t->n, row_max, act_of(w, f, t));
        }
    }
}

static struct cpu_gemm_args unit_args(const struct worker *w, const struct matmul *m, const struct part *part,
    enum row_shape shape, size_t unit, const struct stretch *t)
{
    const struct cpu_scratch *scratch = &w->run->device->scratch;
    const struct cpu_gemm *gemm = part->gemm[t->class];
    size_t panels = part->units[shape].panels, at = unit * panels, panel = part->first_panel + at,
           left = part->panels - at;
    return (struct cpu_gemm_args){.gemm = gemm,
        .packed = part->packed,
        .act = act_of(w, part->form[t->class], t),
        .out = cpu_value_row(w, part->out, t->first) + part->first + panel * (size_t)gemm->mr,
        .out_stride = (size_t)part->out_stride,
        .bias = part->bias,
        .n_out = part->n_out,
        .n_in = m->n_in,
        .panel = panel,
        .n_panel = left < panels ? left : panels,
        .n_row = (size_t)t->n,
        .work = scratch->work + (size_t)w->ith * scratch->work_bytes};
}

/* Outputs of few rows wait in the thread's own scratch until the unit is done.  Lines written one by one between
 * weights, which are in no near cache, would hold up the stream of weights. */
static void run_gathered(const struct worker *w, struct cpu_gemm_args *a, size_t stride)
{
    float *out = a->out;
    size_t out_stride = a->out_stride, left = a->n_out - a->panel * (size_t)a->gemm->mr,
           n = left < stride ? left : stride;
    a->out = w->run->device->scratch.logits + (size_t)w->ith * HEAD_ROWS * HEAD_OUTPUTS;
    a->out_stride = stride;
    a->gemm->run(a);
    for (size_t r = 0; r < a->n_row; r++) memcpy(out + r * out_stride, a->out + r * stride, n * sizeof *out);
}

static void run_unit(const struct worker *w, const struct matmul *m, const struct part *part, enum row_shape shape,
    size_t unit, const struct stretch *t)
{
    struct cpu_gemm_args a = unit_args(w, m, part, shape, unit, t);
    size_t stride = a.n_panel * (size_t)a.gemm->mr;
    if (w->run->device->scratch.logits && stride * a.n_row <= GATHERED) {
        run_gathered(w, &a, stride);
    } else {
        a.gemm->run(&a);
    }
}

/* A few stretches, whose activations are ready, to their outputs.  No barrier after. */
static bool run_stretches(
    struct worker *w, const struct matmul *m, enum row_shape shape, const struct stretch *stretch, int n_stretch)
{
    if (!cpu_worker_meet(w)) return false;
    const struct part *part = m->part, *end = part + m->n_part;
    for (size_t unit = cpu_worker_next(w), base = 0;; unit = cpu_worker_next(w)) {
        while (part < end && unit - base >= part->units[shape].n) base += part++->units[shape].n;
        if (part == end) break;
        for (int i = 0; i < n_stretch; i++) run_unit(w, m, part, shape, unit - base, &stretch[i]);
    }
    return true;
}

/* By stretches: of both classes, or those of one. */
static bool run_by_class(struct worker *w, const struct matmul *m)
{
    const int n_own = own_rows(w) == SHARE_ORDINARY ? w->run->n_own : 0;
    const enum row_shape shape = !n_own ? SHAPE_BULK : n_own > ONE_PASS_ROWS ? SHAPE_MANY : SHAPE_FEW;
    for (int at = 0; at < w->run->n_rows[m->rows];) {
        struct stretch stretch[STRETCHES];
        if (at > 0 && !cpu_worker_meet(w)) return false;
        int n = find_stretches(w, m, 0, &at, stretch);
        if (!n) break;
        for (int i = 0; i < n; i++) prepare_rows(w, m, &stretch[i]);
        if (!run_stretches(w, m, shape, stretch, n)) return false;
    }
    return true;
}

bool cpu_run_matmul(struct worker *w, const struct instr *in)
{
    const struct matmul *m = in->matmul;
    if (in_bulk(w, m) || own_rows(w)) return run_by_class(w, m);
    struct stretch all = {.n = w->run->n_rows[m->rows], .class = ORDINARY};
    if (!all.n) return true;
    prepare_rows(w, m, &all);
    return run_stretches(w, m, all.n > ONE_PASS_ROWS ? SHAPE_MANY : SHAPE_FEW, &all, 1);
}

/* ---- gates ---- */

/* Both matmuls of a gated feed-forward. */
struct gated {
    const struct instr *gate;
    const struct matmul *first, *second;
    struct stretch in[STRETCHES], out[STRETCHES]; /* the same rows as the one's inputs and the other's */
    int n;
};

/* False: there are too many stretches. */
static bool find_gated(const struct worker *w, const struct instr *in, struct gated *g)
{
    int at = 0, again = 0;
    g->gate = &in[1];
    g->first = in->matmul;
    g->second = in[2].matmul;
    g->n = find_stretches(w, g->first, 0, &at, g->in);
    find_stretches(w, g->second, g->first->n_form, &again, g->out);
    return at == w->run->n_rows[g->first->rows];
}

/* A unit of both weights for one stretch. */
static void run_gated_unit(const struct worker *w, const struct gated *g, size_t unit, int i)
{
    const struct part *part = g->first->part;
    if (g->in[i].class != BULK) {
        for (int k = 0; k < 2; k++) run_unit(w, g->first, &part[k], SHAPE_GATED, unit, &g->in[i]);
        return;
    }
    struct cpu_gate gate = {.f = g->gate->pointwise,
        .packed = part[1].packed,
        .bias = part[1].bias,
        .act = act_of(w, g->second->part[0].form[BULK], &g->out[i])};
    struct cpu_gemm_args a = unit_args(w, g->first, &part[0], SHAPE_GATED, unit, &g->in[i]);
    a.gate = &gate;
    a.gemm->run(&a);
}

static bool run_gated(struct worker *w, const struct gated *g)
{
    int first, last;
    for (int i = 0; i < g->n; i++) prepare_rows(w, g->first, &g->in[i]);
    if (!cpu_worker_meet(w)) return false;
    for (size_t unit; (unit = cpu_worker_next(w)) < g->first->part[0].units[SHAPE_GATED].n;)
        for (int i = 0; i < g->n; i++) run_gated_unit(w, g, unit, i);
    if (!cpu_worker_meet(w)) return false;
    for (int i = 0; i < g->n; i++) {
        if (g->out[i].class == BULK) continue;
        share_of(w, g->first->rows, &g->out[i], &first, &last);
        for (int r = first; r < last; r++) g->gate->row(w, g->gate, r);
        prepare_rows(w, g->second, &g->out[i]);
    }
    return run_stretches(w, g->second, SHAPE_BULK, g->out, g->n);
}

bool cpu_run_gated(struct worker *w, const struct instr *in, bool *going)
{
    struct gated g;
    if (in->op->kind != OP_MATMUL || !in->matmul->gated || !in_bulk(w, in->matmul) || !find_gated(w, in, &g))
        return false;
    *going = run_gated(w, &g);
    return true;
}
