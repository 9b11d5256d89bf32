/* SPDX-License-Identifier: MIT
 *
 * OP_EXPERTS: rows go to the experts that OP_ROUTE has chosen for them, and an expert's weights are read once for all
 * its rows.
 *
 * A slot is one row's use of one expert.  Slots are sorted by expert (each thread sorts for itself, which is cheaper
 * than to meet), and an expert's slots are cut into runs of EXPERT_ROWS.  A unit is some panels of one expert, for all
 * its runs; outputs are gathered and stored where the slots' rows have them.  Who is in a run with whom never changes a
 * slot's bits: kernels promise that (docs/NUMERICS.md).
 */
#include <string.h>

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

/* Panels of a run's expert, for that run: gathered, then stored. */
static void run_some(const struct worker *w, const struct matmul *m, const struct part *part, const struct sorted *s,
    const struct run_of_slots *r, size_t panel, size_t n_panel)
{
    const struct cpu_scratch *scratch = &w->run->device->scratch;
    const struct cpu_gemm *gemm = part->gemm[ORDINARY];
    size_t n = n_panel * (size_t)gemm->mr, first = panel * (size_t)gemm->mr;
    struct cpu_gemm_args a = {.gemm = gemm,
        .packed = part->packed,
        .act = (uint8_t *)scratch->act[part->form[ORDINARY]] + r->act,
        .out = scratch->logits + (size_t)w->ith * HEAD_ROWS * HEAD_OUTPUTS,
        .out_stride = n,
        .bias = part->bias,
        .n_out = part->n_out * (size_t)s->n_expert,
        .n_in = m->n_in,
        .panel = (size_t)r->expert * part->panels + panel,
        .n_panel = n_panel,
        .n_row = (size_t)r->n,
        .work = scratch->work + (size_t)w->ith * scratch->work_bytes};
    gemm->run(&a);
    for (int i = 0; i < r->n; i++) {
        int slot = s->slot[r->first + i];
        float *out = cpu_value_row(w, part->out, slot / s->n_used) + (size_t)(slot % s->n_used) * part->n_out;
        memcpy(out + first, a.out + (size_t)i * n, n * sizeof *out);
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
            r = begin;
            do run_some(w, m, part, s, &r, panel, left < units->panels ? left : units->panels);
            while (r.first + r.n < s->start[e + 1] && next_run(s, m, part->form[ORDINARY], &r));
        }
        base += units->n;
    }
    return base;
}

bool cpu_run_experts(struct worker *w, const struct instr *in)
{
    const struct matmul *m = in->matmul;
    if (!w->run->n_rows[m->rows]) return true;
    struct sorted s = sort_slots(w, m);
    prepare_slots(w, m, &s);
    if (!cpu_worker_meet(w)) return false;
    size_t unit = cpu_worker_next(w), base = 0;
    for (int i = 0; i < m->n_part; i++) base = run_part(w, m, &m->part[i], &s, base, &unit);
    return true;
}
