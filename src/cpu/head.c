/* SPDX-License-Identifier: MIT
 *
 * OP_HEAD: results of the wanted rows, without a pass over all logits unless those are wanted.
 *
 * A unit of work is HEAD_OUTPUTS outputs for up to HEAD_ROWS rows: its logits stay in the thread's scratch while their
 * maximum, sum of exponentials and best entries are taken.  The sums are merged in ascending order of outputs, and the
 * best entries are ordered totally (logit, then lower id), so neither depends on the number of threads.  Where the
 * head is cut the device leaves both in pass.head, and ops/head.c merges them.
 */
#include <math.h>
#include <string.h>

#include "cpu/program_impl.h"
#include "ops/ref/ref.h"

static bool worse(struct top_entry a, struct top_entry b)
{
    return head_is_worse(a.logit, a.id, b.logit, b.id);
}

/* Restores the heap below `at`. */
static void sift(struct top_heap *h, int at)
{
    for (;;) {
        int least = at;
        for (int child = 2 * at + 1; child <= 2 * at + 2; child++) {
            if (child < h->n && worse(h->entry[child], h->entry[least])) least = child;
        }
        if (least == at) return;
        struct top_entry e = h->entry[at];
        h->entry[at] = h->entry[least];
        h->entry[least] = e;
        at = least;
    }
}

static void offer(struct top_heap *h, struct top_entry e)
{
    if (h->n == ROW_TOPK) {
        if (!worse(h->entry[0], e)) return;
        h->entry[0] = e;
        sift(h, 0);
        return;
    }
    int at = h->n++;
    for (; at > 0 && worse(e, h->entry[(at - 1) / 2]); at = (at - 1) / 2) h->entry[at] = h->entry[(at - 1) / 2];
    h->entry[at] = e;
}

/* Those of a unit's logits that are allowed (NULL: all); first is a multiple of HEAD_OUTPUTS. */
static void offer_all(struct top_heap *h, const uint64_t *allow, const float *logit, size_t first, size_t n)
{
    enum { WORD = 64 };
    for (size_t at = 0; at < n; at += WORD) {
        uint64_t word = allow ? allow[(first + at) / WORD] : UINT64_MAX;
        size_t end = n - at < WORD ? n : at + WORD;
        for (size_t i = at; word && i < end; i++) {
            float x = isnan(logit[i]) ? -INFINITY : logit[i];
            if ((h->n == ROW_TOPK && x <= h->entry[0].logit) || !(word >> (i - at) & 1)) continue;
            offer(h, (struct top_entry){x, (int32_t)(first + i)});
        }
    }
}

static uint32_t want_of(const struct pass_args *pass, int row)
{
    return pass->batch->row[pass->out_row[row]].want;
}

static bool is_cut(const struct worker *w)
{
    return !share_is_whole(w->run->segment->share);
}

/* The units of a row, which is number `slot` of its pass. */
static struct head_part *parts_of(const struct worker *w, int row, int slot, size_t n_part)
{
    struct head_part *all = is_cut(w) ? w->run->segment->pass->head->part : w->run->device->scratch.part;
    return all + (size_t)(is_cut(w) ? row : slot) * n_part;
}

/* Takes from a row's logits of a unit what it wants. */
static void reduce(struct worker *w, float *logit, int row, int slot, size_t unit, size_t n, const struct op *op,
    struct head_part *part)
{
    struct cpu_device *d = w->run->device;
    const struct pass_args *pass = w->run->segment->pass;
    struct row_result *result = &pass->result[row];
    const struct row *asked = &pass->batch->row[pass->out_row[row]];
    uint32_t want = want_of(pass, row);
    size_t first = unit * HEAD_OUTPUTS;
    for (size_t i = 0; op->head.scale != 0 && i < n; i++) logit[i] *= op->head.scale;
    if (op->head.softcap != 0) ref_softcap(logit, (int)n, op->head.softcap);
    if (want & WANT_LOGITS) memcpy(result->logits + first, logit, n * sizeof *logit);
    if (!(want & (WANT_TOPK | WANT_LOGPROB))) return;
    float max = d->kernels.max_row(logit, n);
    *part = (struct head_part){d->kernels.sum_exp(logit, n, isinf(max) ? 0 : max), max};
    for (int i = 0; want & WANT_LOGPROB && i < asked->n_listed; i++) {
        if ((size_t)asked->listed[i] - first < n) result->listed_logit[i] = logit[(size_t)asked->listed[i] - first];
    }
    if (!(want & WANT_TOPK)) return;
    struct top_heap *h = &d->scratch.heap[w->ith * HEAD_ROWS + slot];
    if (h->n == ROW_TOPK && max < h->entry[0].logit) return;
    offer_all(h, asked->allow, logit, first, n);
}

/* The best of all threads' entries, in order; returns how many. */
static int merge_top(const struct worker *w, int slot, int32_t *id, float *logit)
{
    struct top_heap *h = &w->run->device->scratch.heap[slot];
    for (int t = 1; t < w->nth; t++) {
        const struct top_heap *other = &w->run->device->scratch.heap[t * HEAD_ROWS + slot];
        for (int i = 0; i < other->n; i++) offer(h, other->entry[i]);
    }
    int n = h->n;
    while (h->n > 0) {
        struct top_entry worst = h->entry[0];
        h->entry[0] = h->entry[--h->n];
        sift(h, 0);
        id[h->n] = worst.id;
        logit[h->n] = worst.logit;
    }
    return n;
}

/* A row's results from the units of all threads, or what its share of them leaves. */
static void finish_row(const struct worker *w, int row, int slot, size_t n_part)
{
    const struct segment *s = w->run->segment;
    struct row_result *result = &s->pass->result[row];
    uint32_t want = want_of(s->pass, row);
    if (is_cut(w)) {
        struct head_top *top = &s->pass->head->top[row * HEAD_SHARES + s->place];
        top->n = want & WANT_TOPK ? merge_top(w, slot, top->id, top->logit) : 0;
        return;
    }
    if (want & (WANT_TOPK | WANT_LOGPROB))
        result->log_sum_exp = head_log_sum_exp(parts_of(w, row, slot, n_part), (int64_t)n_part);
    if (want & WANT_TOPK) result->n_top = merge_top(w, slot, result->top_id, result->top_logit);
}

/* Rows row .. row + n - 1, with no barrier after: the caller meets. */
static bool run_pass(struct worker *w, const struct instr *in, int row, int n)
{
    const struct segment *s = w->run->segment;
    struct cpu_scratch *scratch = &w->run->device->scratch;
    const struct op *op = in->op;
    const struct packed *p = cpu_packed_of(w->run->device, op->weight[0]);
    float *logits = scratch->logits + (size_t)w->ith * HEAD_ROWS * HEAD_OUTPUTS;
    const struct columns own = head_share(s->share, (int64_t)p->n_out);
    size_t n_part = (size_t)head_units((int64_t)p->n_out), mr = (size_t)p->gemm->mr;
    int first, last;
    cpu_worker_share(w, n, &first, &last);
    for (int r = first; r < last; r++) {
        p->gemm->act_row(cpu_value_row(w, op->in[0], row + r), p->n_in, (size_t)r, (size_t)n, 0, scratch->act[0]);
    }
    for (int r = 0; r < n; r++) scratch->heap[w->ith * HEAD_ROWS + r].n = 0;
    if (!cpu_worker_meet(w)) return false;
    for (size_t at = cpu_worker_next(w); at < (size_t)own.n; at = cpu_worker_next(w)) {
        size_t unit = (size_t)own.first + at, left = p->n_out - unit * HEAD_OUTPUTS,
               outs = left < HEAD_OUTPUTS ? left : HEAD_OUTPUTS;
        struct cpu_gemm_args a = {.gemm = p->gemm,
            .packed = p->data,
            .act = scratch->act[0],
            .out = logits,
            .out_stride = HEAD_OUTPUTS,
            .n_out = p->n_out,
            .n_in = p->n_in,
            .panel = unit * HEAD_OUTPUTS / mr,
            .n_panel = (outs + mr - 1) / mr,
            .n_row = (size_t)n};
        p->gemm->run(&a);
        for (int r = 0; r < n; r++) {
            struct head_part *part = parts_of(w, row + r, r, n_part) + unit;
            reduce(w, logits + (size_t)r * HEAD_OUTPUTS, row + r, r, unit, outs, op, part);
        }
    }
    if (!cpu_worker_meet(w)) return false;
    for (int r = first; r < last; r++) finish_row(w, row + r, r, n_part);
    return true;
}

bool cpu_run_head(struct worker *w, const struct instr *in)
{
    const struct segment *s = w->run->segment;
    const struct op *op = in->op;
    int n_out = w->run->n_rows[ROWS_OUT], first = w->share[ROWS_OUT].first, last = w->share[ROWS_OUT].last;
    bool logits_wanted = false;
    for (int r = 0; r < n_out; r++) {
        uint32_t want = want_of(s->pass, r);
        logits_wanted |= (want & (WANT_LOGITS | WANT_TOPK | WANT_LOGPROB)) != 0;
        if (want & WANT_HIDDEN && s->share.from == 0 && r >= first && r < last) {
            memcpy(s->pass->result[r].hidden, cpu_value_row(w, op->in[1], r),
                (size_t)s->list->value[op->in[1]].dim * sizeof(float));
        }
    }
    for (int r = 0; r < n_out && logits_wanted; r += HEAD_ROWS) {
        if (r > 0 && !cpu_worker_meet(w)) return false;
        if (!run_pass(w, in, r, n_out - r < HEAD_ROWS ? n_out - r : HEAD_ROWS)) return false;
    }
    return true;
}
