/* SPDX-License-Identifier: MIT
 *
 * OP_EXPERTS: rows go to the experts that OP_ROUTE has chosen for them, and an expert's weights are read once for all
 * its rows.
 *
 * A slot is one row's use of one expert.  Slots are sorted by expert (each thread sorts for itself, which is cheaper
 * than to meet), and an expert's slots are cut into runs of EXPERT_ROWS.  A unit is some panels of one expert, for all
 * its runs; outputs are gathered and stored where the slots' rows have them.  Which slots share a run never changes a
 * slot's bits: kernels promise that (docs/NUMERICS.md).
 */
#include <string.h>

#include "base/pages.h"
#include "cpu/layout.h"
#include "cpu/program_impl.h"

/* Slots in the order of their experts: those of expert e are slot[start[e]] .. slot[start[e + 1] - 1]. */
struct sorted {
    int n_expert, n_used, n_slot;
    int32_t *start; /* [n_expert + 1] */
    int32_t *slot;  /* [n_slot] row * n_used + its number in the row; ascending within an expert */
};

/* Some slots of one expert. */
struct run_of_slots {
    int expert, first, n; /* in sorted.slot */
    size_t act;           /* where its activations begin */
};

static int expert_of(const struct worker *w, const struct matmul *m, const struct sorted *s, int slot)
{
    return (int)cpu_value_row(w, m->route, slot / s->n_used)[slot % s->n_used];
}

static struct sorted sort_slots(const struct worker *w, const struct matmul *m)
{
    struct cpu_scratch *scratch = &w->run->device->scratch;
    struct sorted s = {.n_expert = m->experts->n_expert,
        .n_used = m->experts->n_used,
        .n_slot = w->run->n_rows[m->rows] * m->experts->n_used,
        .start = scratch->expert_rows + (size_t)w->ith * scratch->n_expert_rows};
    s.slot = s.start + s.n_expert + 1;
    memset(s.start, 0, ((size_t)s.n_expert + 1) * sizeof *s.start);
    for (int i = 0; i < s.n_slot; i++) s.start[expert_of(w, m, &s, i) + 1]++;
    for (int e = 0; e < s.n_expert; e++) s.start[e + 1] += s.start[e];
    for (int i = 0; i < s.n_slot; i++) s.slot[s.start[expert_of(w, m, &s, i)]++] = i;
    memmove(s.start + 1, s.start, (size_t)s.n_expert * sizeof *s.start); /* each had moved to its end */
    s.start[0] = 0;
    return s;
}

/* The run behind *r, whose activations follow; r->n == 0: before the first.  False: there is none. */
static bool next_run(const struct sorted *s, const struct matmul *m, int form, struct run_of_slots *r)
{
    int at = r->first + r->n;
    if (at == s->n_slot) return false;
    if (r->n) r->act += m->form[form].gemm->act_bytes(m->n_in, (size_t)r->n);
    while (s->start[r->expert + 1] <= at) r->expert++;
    int left = s->start[r->expert + 1] - at;
    r->first = at;
    r->n = left < EXPERT_ROWS ? left : EXPERT_ROWS;
    return true;
}

/* What a slot reads. */
static const float *input_of(const struct worker *w, const struct matmul *m, const struct sorted *s, int slot)
{
    const float *row = cpu_value_row(w, m->in, slot / s->n_used);
    return m->experts->by_slot ? row + (size_t)(slot % s->n_used) * m->n_in : row;
}

/* This thread's share of the slots' activations, in every form. */
static void prepare_slots(const struct worker *w, const struct matmul *m, const struct sorted *s)
{
    int first, last;
    cpu_worker_share(w, s->n_slot, &first, &last);
    for (int f = 0; f < m->n_form; f++) {
        const struct act_form *form = &m->form[f];
        if (!form->used[ORDINARY]) continue;
        struct run_of_slots r = {0};
        while (next_run(s, m, f, &r) && r.first < last) {
            uint8_t *act = (uint8_t *)w->run->device->scratch.act[f] + r.act;
            for (int i = r.first > first ? r.first : first; i < r.first + r.n && i < last; i++) {
                const float *x = input_of(w, m, s, s->slot[i]);
                float row_max = form->i8row ? cpu_row_max(x, m->n_in) : 0;
                form->gemm->act_row(x, m->n_in, (size_t)(i - r.first), (size_t)r.n, row_max, act);
            }
        }
    }
}

/* Panels of an expert, packed now if they are not. */
static struct cpu_gemm_args panels_of(const struct worker *w, const struct matmul *m, const struct part *part,
    const struct sorted *s, int expert, size_t panel, size_t n_panel)
{
    const struct cpu_scratch *scratch = &w->run->device->scratch;
    struct cpu_gemm_args a = {.gemm = part->gemm[ORDINARY],
        .packed = part->packed,
        .out = scratch->logits + (size_t)w->ith * HEAD_ROWS * HEAD_OUTPUTS,
        .out_stride = n_panel * (size_t)part->gemm[ORDINARY]->mr,
        .bias = part->bias,
        .n_out = part->n_out * (size_t)s->n_expert,
        .n_in = m->n_in,
        .panel = (size_t)expert * part->panels + panel,
        .n_panel = n_panel,
        .work = scratch->work + (size_t)w->ith * scratch->work_bytes};
    if (!part->packed)
        expert_cache_at(
            part->cache, expert, panel, n_panel, scratch->panels + (size_t)w->ith * scratch->panel_bytes, &a);
    return a;
}

/* They, for one run of their expert: gathered, then stored from output `first` on. */
static void run_some(const struct worker *w, const struct part *part, const struct sorted *s,
    const struct run_of_slots *r, size_t first, struct cpu_gemm_args *a)
{
    a->act = (uint8_t *)w->run->device->scratch.act[part->form[ORDINARY]] + r->act;
    a->n_row = (size_t)r->n;
    a->gemm->run(a);
    for (int i = 0; i < r->n; i++) {
        int slot = s->slot[r->first + i];
        float *out = cpu_value_row(w, part->out, slot / s->n_used) + (size_t)(slot % s->n_used) * part->n_out;
        memcpy(out + first, a->out + (size_t)i * a->out_stride, a->out_stride * sizeof *out);
    }
}

/* Units of one part: those of the first expert that has slots, then of the next, ...; *unit is the thread's next of all
 * parts', `base` the first of this one's, and what lies behind the part's is returned. */
static size_t run_part(struct worker *w, const struct matmul *m, const struct part *part, const struct sorted *s,
    size_t base, size_t *unit)
{
    const struct units *units = &part->units[SHAPE_MANY];
    struct run_of_slots r = {0}, begin = r;
    for (int e = 0; e < s->n_expert; e++) {
        if (s->start[e] == s->start[e + 1]) continue;
        while (next_run(s, m, part->form[ORDINARY], &r) && r.expert < e) {
        }
        begin = r;
        for (; *unit < base + units->n; *unit = cpu_worker_next(w)) {
            size_t panel = (*unit - base) * units->panels, left = part->panels - panel;
            size_t n = left < units->panels ? left : units->panels;
            struct cpu_gemm_args a = panels_of(w, m, part, s, e, panel, n);
            r = begin;
            do run_some(w, part, s, &r, panel * (size_t)a.gemm->mr, &a);
            while (r.first + r.n < s->start[e + 1] && next_run(s, m, part->form[ORDINARY], &r));
        }
        base += units->n;
    }
    return base;
}

/* ---- experts that are packed as they are used ---- */

/* Whether passes have waited for the file lately: reading ahead costs time where nothing has to be read. */
static bool waits(struct ahead *ahead)
{
    uint64_t waited = pages_waited();
    if (waited != ahead->waited) ahead->left = AHEAD_OPS;
    ahead->waited = waited;
    return ahead->left > 0 && ahead->left-- > 0;
}

/* Asks for experts of an operation: those that rows have chosen, or likely ones. */
static void want(const struct worker *w, const struct op *op, const struct sorted *s, const bool *likely)
{
    for (int k = 0; k < op->n_weight; k++) {
        const struct packed *p = cpu_packed_of(w->run->device, op->weight[k]);
        for (int e = 0; p && p->cache && e < s->n_expert && e < p->cache->n_expert; e++)
            if (likely ? likely[e] : s->start[e] < s->start[e + 1]) expert_cache_want(p->cache, e);
    }
}

/* Asks for the chosen experts of all of the layer's operations, and for likely ones of the next layer's. */
static void read_ahead(const struct worker *w, const struct instr *in, const struct sorted *s)
{
    const struct op_list *list = w->run->segment->list;
    const struct ahead *ahead = &w->run->device->ahead;
    struct expert_cache *next = NULL;
    int layer = in->op->layer, n = ahead->n_row * ahead->n_used, most = 0;
    for (int e = 0; e < s->n_expert; e++) most += s->start[e] < s->start[e + 1];
    for (const struct op *op = in->op; op < list->op + list->n_op; op++) {
        if (op->kind != OP_EXPERTS) continue;
        if (op->layer != layer && next) return;
        if (op->layer != layer) {
            const struct packed *p = cpu_packed_of(w->run->device, op->weight[0]);
            if (!p || !p->cache || p->cache->n_expert != s->n_expert) return;
            next = p->cache;
            layer = op->layer;
            expert_cache_likely(next, ahead->id, n, most);
        }
        want(w, op, s, next ? next->likely : NULL);
    }
}

/* What follows what, of passes of few rows; then this layer is the one before. */
static void learn(const struct worker *w, const struct instr *in, const struct sorted *s)
{
    struct ahead *ahead = &w->run->device->ahead;
    struct expert_cache *cache = in->matmul->part[0].cache;
    int32_t id[AHEAD_IDS];
    int n_row = s->n_slot <= AHEAD_IDS ? s->n_slot / s->n_used : 0;
    for (int i = 0; i < n_row * s->n_used; i++) id[i] = expert_of(w, in->matmul, s, i);
    bool same = ahead->list == w->run->segment->list && ahead->layer < in->op->layer &&
                ahead->n_expert == s->n_expert && ahead->n_row == n_row;
    if (same) expert_cache_learn(cache, ahead->id, ahead->n_used, id, s->n_used, n_row);
    ahead->list = w->run->segment->list;
    ahead->layer = in->op->layer;
    ahead->n_expert = s->n_expert;
    ahead->n_row = n_row;
    ahead->n_used = s->n_used;
    memcpy(ahead->id, id, (size_t)(n_row * s->n_used) * sizeof *id);
}

/* One thread's, before the others need it. */
static void begin(const struct worker *w, const struct instr *in, const struct sorted *s)
{
    const struct matmul *m = in->matmul;
    for (int i = 0; i < m->n_part; i++)
        if (m->part[i].cache) expert_cache_begin(m->part[i].cache, s->start);
    if (!m->part[0].cache || m->experts->by_slot) return;
    learn(w, in, s);
    if (waits(&w->run->device->ahead)) read_ahead(w, in, s);
}

bool cpu_run_experts(struct worker *w, const struct instr *in)
{
    const struct matmul *m = in->matmul;
    if (!w->run->n_rows[m->rows]) return true;
    struct sorted s = sort_slots(w, m);
    if (w->ith == 0) begin(w, in, &s);
    prepare_slots(w, m, &s);
    if (!cpu_worker_meet(w)) return false;
    for (int i = 0; w->ith == 0 && i < m->n_part; i++)
        if (m->part[i].cache) expert_cache_end(m->part[i].cache);
    size_t unit = cpu_worker_next(w), base = 0;
    for (int i = 0; i < m->n_part; i++) base = run_part(w, m, &m->part[i], &s, base, &unit);
    return true;
}
