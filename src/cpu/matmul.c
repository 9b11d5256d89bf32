/* SPDX-License-Identifier: MIT
 *
 * OP_MATMUL: the parts of a fused matmul over all rows, shared out in units of panels.
 *
 * Rows come in stretches: side by side and of one class.  Bulk rows of prompts go to a weight's bulk kernels where it has
 * them, all others to its ordinary ones.  A unit of weights serves every stretch while it is in cache.
 *
 * Bulk rows of a gated feed-forward (gate and up, OP_SWIGLU or its like, down) skip their values in between: the gate's
 * kernel leaves the activations of the next matmul.  Other rows of the batch take the three operations one by one.
 */
#include <string.h>

#include "cpu/device_impl.h"

/* A unit of weights.  Up to ONE_PASS_ROWS rows read it once, so its length is a matter of balance; above that a kernel
 * may pass over it again, and it stays in L2. */
enum {
    UNIT_MIN_BYTES = 32 << 10,
    UNIT_MAX_BYTES = 192 << 10,
    UNITS_PER_THREAD = 6,
    UNIT_STREAMS = 4, /* panels of a unit are a multiple of it: kernels read as many of them side by side */
    ONE_PASS_ROWS = 64,
    GATHERED = 16 << 10 /* outputs of a unit, at most, that are gathered before they are stored */
};
_Static_assert((int)GATHERED <= (int)HEAD_ROWS * (int)HEAD_OUTPUTS, "what is gathered fits the scratch");

enum class { ORDINARY, BULK, CLASSES };

_Static_assert((int)ACT_FORMS >= (int)OP_WEIGHTS * (int)CLASSES, "find_form has room for all");

struct stretch {
    int first, n;
    enum class class;
    size_t act[ACT_FORMS]; /* where its activations begin in each form's scratch */
};

struct part_plan {
    size_t panels, unit, n_unit; /* panels in all and of a unit */
    int form[CLASSES];
};

/* What all threads find alike. */
struct plan {
    struct part_plan part[3];
    const struct cpu_gemm *form[ACT_FORMS]; /* kernels of that form of activations */
    int n_form;
    int first_form; /* of the scratch; the ones before belong to another plan */
    bool used[CLASSES][ACT_FORMS];
};

static const struct cpu_gemm *kernels_of(const struct packed *p, enum class class)
{
    return class == BULK && p->bulk ? p->bulk : p->gemm;
}

static int find_form(struct plan *plan, const struct cpu_gemm *gemm)
{
    for (int i = 0; i < plan->n_form; i++)
        if (plan->form[i]->act_row == gemm->act_row) return i;
    plan->form[plan->n_form] = gemm;
    return plan->n_form++;
}

/* Panels of one part per unit. */
static size_t unit_panels(
    const struct packed *p, size_t panels, size_t total_bytes, int nth, int n_row, bool bulk, bool gated)
{
    size_t most = bulk && p->bulk ? p->bulk->unit_panels * (size_t)nth >> gated : 0;
    if (most) { /* as near to it as equal shares for all threads can be */
        size_t shares = (panels + most - 1) / most * (size_t)nth;
        return (panels + shares - 1) / shares;
    }
    size_t want = total_bytes / ((size_t)nth * UNITS_PER_THREAD), panel_bytes = p->bytes / panels + 1;
    if (want < UNIT_MIN_BYTES) want = UNIT_MIN_BYTES;
    if (n_row > ONE_PASS_ROWS && want > UNIT_MAX_BYTES) want = UNIT_MAX_BYTES;
    return (want / panel_bytes + UNIT_STREAMS) / UNIT_STREAMS * UNIT_STREAMS;
}

/* gated: units are of two parts at once. */
static void make_plan(struct plan *plan, const struct op *op, int nth, int n_row, bool bulk, bool gated)
{
    size_t total_bytes = 0;
    *plan = (struct plan){0};
    for (int i = 0; i < op->n_weight; i++) total_bytes += op->weight[i]->packed->bytes;
    for (int i = 0; i < op->n_weight; i++) {
        const struct packed *p = op->weight[i]->packed;
        struct part_plan *part = &plan->part[i];
        part->panels = (p->n_out + (size_t)p->gemm->mr - 1) / (size_t)p->gemm->mr;
        part->unit = unit_panels(p, part->panels, total_bytes, nth, n_row, bulk, gated);
        part->n_unit = (part->panels + part->unit - 1) / part->unit;
        for (enum class c = ORDINARY; c < CLASSES; c++) {
            part->form[c] = find_form(plan, kernels_of(p, c));
            plan->used[c][part->form[c]] = true;
        }
    }
}

bool cpu_matmul_has_bulk(const struct op *op)
{
    for (int i = 0; i < op->n_weight; i++)
        if (op->weight[i]->packed->bulk) return true;
    return false;
}

/* Whether any row is bulk, and any weight has kernels for it. */
static bool has_bulk(const struct segment *s, const struct op *op, int n_row)
{
    if (!cpu_matmul_has_bulk(op) || s->list->value[op->in[0]].rows == ROWS_OUT) return false;
    for (int r = 0; r < n_row; r++)
        if (s->step->batch->row[r].want & ROW_BULK) return true;
    return false;
}

/* Up to STRETCHES stretches from row *at on, which moves behind them; returns how many. */
static int find_stretches(
    const struct segment *s, const struct plan *plan, size_t n_in, bool bulk, int n_row, int *at, struct stretch *out)
{
    const struct row *row = s->step->batch->row;
    size_t used[ACT_FORMS] = {0};
    int n = 0;
    for (; *at < n_row && n < STRETCHES; n++) {
        struct stretch *t = &out[n];
        *t = (struct stretch){.first = *at, .class = bulk && row[*at].want & ROW_BULK ? BULK : ORDINARY};
        for (; *at < n_row && (!bulk || !(row[*at].want & ROW_BULK) == (t->class == ORDINARY)); ++*at) t->n++;
        for (int f = 0; f < plan->n_form; f++) {
            t->act[f] = used[f];
            if (plan->used[t->class][f]) used[f] += plan->form[f]->act_bytes(n_in, (size_t)t->n);
        }
    }
    return n;
}

static uint8_t *act_of(const struct worker *w, const struct plan *plan, int form, const struct stretch *t)
{
    return (uint8_t *)w->run->device->scratch.act[plan->first_form + form] + t->act[form];
}

/* This thread's rows of a stretch. */
static void share_of(const struct worker *w, const struct stretch *t, int n_row, int *first, int *last)
{
    cpu_worker_share(w, n_row, first, last);
    if (*first < t->first) *first = t->first;
    if (*last > t->first + t->n) *last = t->first + t->n;
}

/* The activations of this thread's rows, in every form that a stretch needs. */
static void prepare_rows(
    const struct worker *w, const struct op *op, const struct plan *plan, const struct stretch *t, int n_row)
{
    const struct segment *s = w->run->segment;
    size_t n_in = (size_t)s->list->value[op->in[0]].dim;
    int first, last;
    share_of(w, t, n_row, &first, &last);
    for (int f = 0; f < plan->n_form; f++) {
        if (!plan->used[t->class][f]) continue;
        for (int r = first; r < last; r++)
            plan->form[f]->act_row(
                cpu_value_row(s, op->in[0], r), n_in, (size_t)(r - t->first), (size_t)t->n, act_of(w, plan, f, t));
    }
}

static struct cpu_gemm_args unit_args(const struct worker *w, const struct op *op, const struct plan *plan, size_t part,
    size_t unit, const struct stretch *t)
{
    const struct segment *s = w->run->segment;
    const struct cpu_scratch *scratch = &w->run->device->scratch;
    const struct packed *p = op->weight[part]->packed;
    const struct part_plan *plan_part = &plan->part[part];
    const struct cpu_gemm *gemm = kernels_of(p, t->class);
    int form = plan_part->form[t->class], out = op->out[part];
    size_t panel = unit * plan_part->unit, left = plan_part->panels - panel;
    return (struct cpu_gemm_args){.gemm = gemm,
        .packed = p->data,
        .act = act_of(w, plan, form, t),
        .out = cpu_value_row(s, out, t->first) + panel * (size_t)gemm->mr,
        .out_stride = (size_t)s->list->value[out].dim,
        .bias = op->matmul.bias[part],
        .n_out = p->n_out,
        .n_in = p->n_in,
        .panel = panel,
        .n_panel = left < plan_part->unit ? left : plan_part->unit,
        .n_row = (size_t)t->n,
        .work = scratch->work + (size_t)w->ith * scratch->work_bytes};
}

/* Outputs of few rows wait in the thread's own scratch until the unit is done.  Lines written one by one between weights,
 * which are in no near cache, would hold up the stream of weights (docs/SPEED_LOG.md). */
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

static void run_unit(const struct worker *w, const struct op *op, const struct plan *plan, size_t part, size_t unit,
    const struct stretch *t)
{
    struct cpu_gemm_args a = unit_args(w, op, plan, part, unit, t);
    size_t stride = a.n_panel * (size_t)a.gemm->mr;
    if (w->run->device->scratch.logits && stride * a.n_row <= GATHERED) {
        run_gathered(w, &a, stride);
    } else {
        a.gemm->run(&a);
    }
}

/* A few stretches, whose activations are ready, to their outputs.  No barrier after. */
static bool run_stretches(
    struct worker *w, const struct op *op, const struct plan *plan, const struct stretch *stretch, int n_stretch)
{
    if (!cpu_worker_meet(w)) return false;
    for (size_t unit = cpu_worker_next(w), part = 0, base = 0;; unit = cpu_worker_next(w)) {
        while (part < (size_t)op->n_weight && unit - base >= plan->part[part].n_unit) base += plan->part[part++].n_unit;
        if (part == (size_t)op->n_weight) break;
        for (int i = 0; i < n_stretch; i++) run_unit(w, op, plan, part, unit - base, &stretch[i]);
    }
    return true;
}

/* Before the activations of an operation: what they are made of is there. */
static bool begin(struct worker *w, const struct op *op)
{
    int rows = 1 + (int)w->run->segment->list->value[op->in[0]].rows;
    return !w->pending || w->pending == rows || cpu_worker_meet(w);
}

bool cpu_run_matmul(struct worker *w, const struct op *op)
{
    const struct segment *s = w->run->segment;
    int n_row = cpu_value_rows(s, op->in[0]);
    size_t n_in = (size_t)s->list->value[op->in[0]].dim;
    bool bulk = has_bulk(s, op, n_row);
    struct plan plan;
    make_plan(&plan, op, w->nth, n_row, bulk, false);
    if (!begin(w, op)) return false;
    for (int at = 0; at < n_row;) {
        struct stretch stretch[STRETCHES];
        if (at > 0 && !cpu_worker_meet(w)) return false;
        int n = find_stretches(s, &plan, n_in, bulk, n_row, &at, stretch);
        for (int i = 0; i < n; i++) prepare_rows(w, op, &plan, &stretch[i], n_row);
        if (!run_stretches(w, op, &plan, stretch, n)) return false;
    }
    return true;
}

/* ---- gates ---- */

/* Both matmuls of a gated feed-forward. */
struct gated {
    struct plan first, second;
    struct stretch in[STRETCHES], out[STRETCHES]; /* the same rows as the one's inputs and the other's */
    int n;
};

/* Whether the operations' weights and values allow a gate: of one shape and class. */
static bool can_gate(const struct segment *s, const struct op *op)
{
    const struct op *gate = op + 1, *next = op + 2;
    if (op->kind != OP_MATMUL || op->n_weight != 2 || next->kind != OP_MATMUL) return false;
    if (gate->in[0] != op->out[0] || gate->in[1] != op->out[1] || gate->out[0] != next->in[0]) return false;
    const struct packed *a = op->weight[0]->packed, *b = op->weight[1]->packed;
    if (!a->bulk || a->bulk != b->bulk || !a->bulk->takes_gate || a->n_out != b->n_out || a->n_out % 32) return false;
    for (int i = 0; i < next->n_weight; i++) {
        const struct packed *p = next->weight[i]->packed;
        if (!p->bulk || p->bulk->act_row != a->bulk->act_row || p->n_in != a->n_out) return false;
    }
    return s->list->value[gate->out[0]].rows == s->list->value[op->in[0]].rows;
}

/* False: the batch's rows do not allow it. */
static bool plan_gated(const struct worker *w, const struct op *op, struct gated *g)
{
    const struct segment *s = w->run->segment;
    const struct op *next = op + 2;
    int n_row = cpu_value_rows(s, op->in[0]), at = 0, again = 0;
    if (!has_bulk(s, op, n_row)) return false;
    make_plan(&g->first, op, w->nth, n_row, true, true);
    make_plan(&g->second, next, w->nth, n_row, true, false);
    g->second.first_form = g->first.n_form;
    if (g->first.n_form + g->second.n_form > ACT_FORMS) return false;
    g->n = find_stretches(s, &g->first, (size_t)s->list->value[op->in[0]].dim, true, n_row, &at, g->in);
    find_stretches(s, &g->second, (size_t)s->list->value[next->in[0]].dim, true, n_row, &again, g->out);
    return at == n_row;
}

/* Whether operations i, i + 1 and i + 2 may run as one, for these rows: then how. */
static bool gates(const struct worker *w, int i, struct gated *g)
{
    const struct segment *s = w->run->segment;
    const struct op *op = &s->op[i];
    if (i + 3 > s->n_op || !cpu_gate_of(&w->run->device->kernels, op[1].kind) || !can_gate(s, op)) return false;
    int behind = (int)(op + 3 - s->list->op);
    return op_list_is_dead(s->list, behind, op[1].in[0]) && op_list_is_dead(s->list, behind, op[1].in[1]) &&
           op_list_is_dead(s->list, behind, op[1].out[0]) && plan_gated(w, op, g);
}

/* A unit of both weights for one stretch. */
static void run_gated_unit(const struct worker *w, const struct op *op, const struct gated *g, size_t unit, int i)
{
    if (g->in[i].class != BULK) {
        for (size_t part = 0; part < 2; part++) run_unit(w, op, &g->first, part, unit, &g->in[i]);
        return;
    }
    struct cpu_gate gate = {.f = cpu_gate_of(&w->run->device->kernels, op[1].kind),
        .packed = op->weight[1]->packed->data,
        .bias = op->matmul.bias[1],
        .act = act_of(w, &g->second, g->second.part[0].form[BULK], &g->out[i])};
    struct cpu_gemm_args a = unit_args(w, op, &g->first, 0, unit, &g->in[i]);
    a.gate = &gate;
    a.gemm->run(&a);
}

static bool run_gated(struct worker *w, const struct op *op, const struct gated *g)
{
    int n_row = cpu_value_rows(w->run->segment, op->in[0]), first, last;
    if (!begin(w, op)) return false;
    for (int i = 0; i < g->n; i++) prepare_rows(w, op, &g->first, &g->in[i], n_row);
    if (!cpu_worker_meet(w)) return false;
    for (size_t unit; (unit = cpu_worker_next(w)) < g->first.part[0].n_unit;)
        for (int i = 0; i < g->n; i++) run_gated_unit(w, op, g, unit, i);
    if (!cpu_worker_meet(w)) return false;
    for (int i = 0; i < g->n; i++) {
        if (g->out[i].class == BULK) continue;
        share_of(w, &g->out[i], n_row, &first, &last);
        for (int r = first; r < last; r++) cpu_run_row(w, op + 1, r);
        prepare_rows(w, op + 2, &g->second, &g->out[i], n_row);
    }
    return run_stretches(w, op + 2, &g->second, g->out, g->n);
}

bool cpu_run_gated(struct worker *w, int i, bool *going)
{
    struct gated g;
    if (!gates(w, i, &g)) return false;
    *going = run_gated(w, &w->run->segment->op[i], &g);
    return true;
}
