/* SPDX-License-Identifier: MIT
 *
 * An op list compiled for the CPU: kernels, forms of activations, units of work, barriers and fusions of every
 * operation.
 */
#include "cpu/program_impl.h"

#include <stdlib.h>
#include <string.h>

#include "ops/ref/ref.h"

/* A unit of weights.  Few rows read it once, so its length is a matter of balance; with more a kernel may pass over it
 * again, and it stays in L2. */
_Static_assert((int)EXPERT_ROWS <= (int)HEAD_ROWS, "an expert's outputs fit the scratch they are gathered in");

enum {
    UNIT_MIN_BYTES = 32 << 10,
    UNIT_MAX_BYTES = 192 << 10,
    UNITS_PER_THREAD = 6,
    UNIT_STREAMS = 4, /* panels of a unit are a multiple of it: kernels read as many of them side by side */
};

/* ---- matmuls ---- */

static int find_form(struct matmul *m, const struct cpu_gemm *gemm, bool i8row, struct lutra_error *err)
{
    for (int i = 0; i < m->n_form; i++)
        if (m->form[i].gemm->act_row == gemm->act_row && m->form[i].i8row == i8row) return i;
    if (m->n_form == ACT_FORMS)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "cpu: a matmul with more than %d forms of activations", ACT_FORMS);
    m->form[m->n_form].gemm = gemm;
    m->form[m->n_form].i8row = i8row;
    return m->n_form++;
}

/* Panels of one part per unit, for all threads of the pool: a smaller team just takes more units each. */
static size_t unit_panels(
    const struct packed *p, size_t panels, size_t whole, size_t total_bytes, size_t n_thread, enum row_shape shape)
{
    bool bulk = shape == SHAPE_BULK || shape == SHAPE_GATED;
    size_t most = bulk && p->bulk ? p->bulk->unit_panels * n_thread >> (shape == SHAPE_GATED) : 0;
    if (most) { /* as near to it as equal shares for all threads can be */
        size_t shares = (panels + most - 1) / most * n_thread;
        return (panels + shares - 1) / shares;
    }
    size_t want = total_bytes / (n_thread * UNITS_PER_THREAD), panel_bytes = p->bytes / whole + 1;
    if (want < UNIT_MIN_BYTES) want = UNIT_MIN_BYTES;
    if (shape != SHAPE_FEW && want > UNIT_MAX_BYTES) want = UNIT_MAX_BYTES;
    return (want / panel_bytes + UNIT_STREAMS) / UNIT_STREAMS * UNIT_STREAMS;
}

static int compile_part(struct matmul *m, const struct weight *w, const struct packed *p, struct share share,
    size_t total_bytes, size_t n_thread, struct lutra_error *err)
{
    struct part *part = &m->part[m->n_part++];
    const size_t n_expert = (size_t)(m->experts ? m->experts->n_expert : 1);
    struct columns own = share_columns(share, w->tensor.ne[1] / (int64_t)n_expert);
    if (own.first < (int64_t)p->first || own.first + own.n > (int64_t)(p->first + p->n_out / n_expert))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "cpu: tensor '%s': outputs %lld to %lld are not prepared",
            w->tensor.name, (long long)own.first, (long long)(own.first + own.n - 1));
    part->packed = p->data;
    part->cache = p->cache;
    part->first = p->first;
    part->n_out = p->n_out / n_expert;
    size_t mr = (size_t)p->gemm->mr, whole = (part->n_out + mr - 1) / mr;
    part->first_panel = ((size_t)own.first - p->first) / mr;
    part->panels = ((size_t)own.n + mr - 1) / mr;
    if (part->panels < whole) total_bytes = total_bytes / whole * part->panels;
    for (enum row_shape s = SHAPE_FEW; s < SHAPES; s++) {
        size_t panels = unit_panels(p, part->panels, whole, total_bytes, n_thread, m->experts ? SHAPE_MANY : s);
        size_t most = HEAD_OUTPUTS / mr; /* whose outputs for EXPERT_ROWS rows are gathered */
        if (p->cache && most > expert_cache_panels(p->gemm, m->n_in)) most = expert_cache_panels(p->gemm, m->n_in);
        if (m->experts && panels > most) panels = most;
        part->units[s] = (struct units){(uint32_t)panels, (uint32_t)((part->panels + panels - 1) / panels)};
    }
    for (enum row_class c = ORDINARY; c < CLASSES; c++) {
        part->gemm[c] = c == BULK && p->bulk ? p->bulk : p->gemm;
        int form = part->form[c] = find_form(m, part->gemm[c], p->i8row, err);
        if (form < 0) return form;
        m->form[form].used[c] = true;
    }
    return 0;
}

bool cpu_matmul_has_bulk(const struct cpu_device *d, const struct op *op)
{
    for (int i = 0; i < op->n_weight; i++) {
        const struct packed *p = cpu_packed_of(d, op->weight[i]);
        if (p && p->bulk) return true;
    }
    return false;
}

static int compile_matmul(const struct cpu_device *d, const struct op_list *list, const struct op *op,
    struct share share, struct matmul *m, struct lutra_error *err)
{
    size_t total_bytes = 0;
    *m = (struct matmul){.in = op->in[0],
        .rows = list->value[op->in[0]].rows,
        .n_in = (size_t)list->value[op->in[0]].dim,
        .experts = op->kind == OP_EXPERTS ? &op->matmul.experts : NULL,
        .route = op->in[1],
        .bulk = op->kind == OP_MATMUL && cpu_matmul_has_bulk(d, op)};
    if (m->experts && m->experts->by_slot) m->n_in /= (size_t)m->experts->n_used;
    for (int i = 0; i < op->n_weight; i++)
        total_bytes += cpu_packed_of(d, op->weight[i])->bytes / (size_t)(m->experts ? m->experts->n_expert : 1);
    for (int i = 0; i < op->n_weight; i++) {
        const struct packed *p = cpu_packed_of(d, op->weight[i]);
        TRY(compile_part(m, op->weight[i], p, share, total_bytes, (size_t)pool_size(d->pool), err));
        if (op->kind == OP_HEAD) continue;
        m->part[i].bias = op->matmul.bias[i] ? op->matmul.bias[i] + p->first : NULL;
        m->part[i].out = op->out[i];
        m->part[i].out_stride = list->value[op->out[i]].dim;
    }
    return 0;
}

/* ---- gates ---- */

/* out = f(a, b) of OP_SWIGLU and its like; NULL: it is none. */
static cpu_pointwise *gate_of(const struct cpu_kernels *k, enum op_kind kind)
{
    switch (kind) {
    case OP_SWIGLU: return k->swiglu;
    case OP_GEGLU: return k->geglu;
    case OP_RELU2: return k->relu2;
    case OP_SWIGLU_OAI: return k->swiglu_oai;
    default: return NULL;
    }
}

/* Whether weights and values of a matmul, a gate and a matmul allow them to be one: of one shape and class. */
static bool can_gate(const struct cpu_device *d, const struct op_list *list, const struct op *op)
{
    const struct op *gate = op + 1, *next = op + 2;
    if (op->n_weight != 2 || gate->in[0] != op->out[0] || gate->in[1] != op->out[1] || gate->out[0] != next->in[0])
        return false;
    const struct packed *a = cpu_packed_of(d, op->weight[0]), *b = cpu_packed_of(d, op->weight[1]);
    if (!a->bulk || a->bulk != b->bulk || !a->bulk->takes_gate || a->n_out != b->n_out || a->n_out % 32) return false;
    for (int i = 0; i < next->n_weight; i++) {
        const struct packed *p = cpu_packed_of(d, next->weight[i]);
        if (!p->bulk || p->bulk->act_row != a->bulk->act_row || p->n_in != a->n_out) return false;
    }
    if (list->value[gate->out[0]].rows != list->value[op->in[0]].rows) return false;
    int behind = (int)(op + 3 - list->op);
    return op_list_is_dead(list, behind, gate->in[0]) && op_list_is_dead(list, behind, gate->in[1]) &&
           op_list_is_dead(list, behind, gate->out[0]);
}

/* Joins an operation and the two behind it, which are compiled, where that can be. */
static void join_gate(const struct cpu_device *d, const struct op_list *list, struct instr *in)
{
    const struct op *op = in->op;
    if (op->kind != OP_MATMUL || !gate_of(&d->kernels, op[1].kind) || op[2].kind != OP_MATMUL) return;
    struct matmul *first = in->matmul;
    first->gated = first->bulk && first->n_form + in[2].matmul->n_form <= ACT_FORMS && can_gate(d, list, op);
}

/* ---- programs ---- */

/* Rotations whose cosines and sines are the same numbers. */
static bool same_table(const struct op_rope *a, const struct op_rope *b)
{
    return a->n_rot == b->n_rot && a->freq_base == b->freq_base && a->freq_scale == b->freq_scale &&
           a->factors == b->factors && a->long_factors == b->long_factors && a->short_ctx == b->short_ctx &&
           a->magnitude == b->magnitude && a->growth == b->growth && a->growth_every == b->growth_every;
}

static int find_rope(struct program *p, const struct op_rope *rope, struct lutra_error *err)
{
    for (int i = 0; i < ROPE_TABLES; i++) {
        struct rope_table *t = &p->rope[i];
        if (t->params && same_table(t->params, rope)) return i;
        if (t->params) continue;
        t->params = rope;
        ref_rope_powers(rope, t->power);
        return i;
    }
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "cpu: more than %d different rotations in one model", ROPE_TABLES);
}

/* out = f(a, b) of any kind; NULL: it is none. */
static cpu_pointwise *pointwise_of(const struct cpu_kernels *k, enum op_kind kind)
{
    switch (kind) {
    case OP_ADD: return k->add;
    case OP_MUL: return k->mul;
    case OP_GATE: return k->gate;
    default: return gate_of(k, kind);
    }
}

static bool multiplies(const struct op *op)
{
    return (op_info_of(op->kind)->use & WEIGHT_MATMUL) != 0;
}

static int check_prepared(const struct cpu_device *d, const struct op *op, struct lutra_error *err)
{
    for (int i = 0; i < op->n_weight; i++) {
        const struct packed *p = cpu_packed_of(d, op->weight[i]);
        if (p && (p->gemm || !multiplies(op))) continue;
        return lutra_fail(err, LUTRA_E_ARGUMENT, "cpu: %s of layer %d: tensor '%s' is not prepared for it",
            op_name(op->kind), op->layer, op->weight[i]->tensor.name);
    }
    return 0;
}

static int compile_op(
    struct cpu_device *d, struct program *p, struct instr *in, struct share share, struct lutra_error *err)
{
    const struct op *op = in->op;
    TRY(check_prepared(d, op, err));
    if (multiplies(op)) {
        TRY(compile_matmul(d, p->list, op, share, in->matmul, err));
    } else if (op->kind == OP_ROPE) {
        in->rope = find_rope(p, &op->rope, err);
        if (in->rope < 0) return in->rope;
    } else {
        in->pointwise = pointwise_of(&d->kernels, op->kind);
    }
    in->columns = share_columns(share, p->list->value[op->n_out ? op->out[0] : op->in[0]].dim);
    cpu_run_bind(in);
    return 0;
}

/* The segments that operations first .. first + n - 1 are compiled for are so no more. */
static void make_room(struct compiled *c, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        int owner = c->owner[i];
        if (owner < 0) continue;
        for (int k = owner; k < owner + c->span[owner].n_op; k++) c->owner[k] = -1;
        c->span[owner].n_op = 0;
    }
}

static int compile(struct cpu_device *d, struct program *p, struct compiled *c, int first, int n, struct share share,
    struct lutra_error *err)
{
    struct span span = {.n_op = n, .share = share, .instr = &c->instr[first]};
    double part = share_is_whole(share) ? 1 : (double)(share.to - share.from) / SHARE_WHOLE;
    make_room(c, first, n);
    p->n_compiled++;
    for (int i = first; i < first + n; i++) {
        const struct op *op = &p->list->op[i];
        struct instr *in = &c->instr[i];
        TRY(compile_op(d, p, in, share, err));
        if (op->kind == OP_ROPE) span.ropes |= 1u << in->rope;
        for (int k = 0; multiplies(op) && k < op->n_weight; k++) {
            const struct packed *w = cpu_packed_of(d, op->weight[k]);
            *(in->matmul->rows == ROWS_OUT ? &span.out_row_bytes : &span.all_row_bytes) +=
                (double)w->bytes * part * (double)op->weight[k]->tensor.ne[1] / (double)w->n_out;
        }
    }
    for (int i = first; i + 2 < first + n; i++) join_gate(d, p->list, &c->instr[i]);
    for (int i = first; i < first + n; i++) c->owner[i] = first;
    c->span[first] = span;
    return 0;
}

static void close_program(struct program *p)
{
    for (int i = 0; i < PROGRAM_PLANS; i++) {
        free(p->plan[i].instr);
        free(p->plan[i].span);
        free(p->plan[i].owner);
        free(p->plan[i].matmul);
    }
    for (int i = 0; i < ROPE_TABLES; i++) free(p->rope[i].power);
    free(p);
}

void cpu_program_forget(struct device *self, const struct op_list *list)
{
    struct cpu_device *d = (struct cpu_device *)self;
    for (struct program **at = &d->programs; *at;) {
        struct program *p = *at;
        if (list && p->list != list) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        close_program(p);
    }
}

static int allocate(struct program *p, struct lutra_error *err)
{
    bool ok = true;
    for (int i = 0; i < ROPE_TABLES; i++) {
        p->rope[i].power = calloc((size_t)p->rope_pairs + 1, sizeof(double));
        ok &= p->rope[i].power != NULL;
    }
    for (int i = 0; i < PROGRAM_PLANS; i++) {
        struct compiled *c = &p->plan[i];
        c->instr = calloc((size_t)p->n_op + 1, sizeof *c->instr);
        c->span = calloc((size_t)p->n_op + 1, sizeof *c->span);
        c->owner = calloc((size_t)p->n_op + 1, sizeof *c->owner);
        c->matmul = calloc((size_t)p->n_matmul + 1, sizeof *c->matmul);
        ok &= c->instr && c->span && c->owner && c->matmul;
    }
    if (ok) return 0;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "cpu: no memory for a program of %d operations", p->n_op);
}

/* What depends on the list alone.  Threads have to meet before they read what others have written.  Row operations
 * leave rows that only their own thread may read: `pending`, 0 none, or 1 + enum value_rows.  All others end in a
 * barrier. */
static void lay_out(const struct program *p, struct compiled *c)
{
    int pending = 0, n_matmul = 0;
    for (int i = 0; i < p->n_op; i++) {
        struct instr *in = &c->instr[i];
        c->owner[i] = -1;
        const struct op *op = in->op = &p->list->op[i];
        int reads = op->n_in ? 1 + (int)p->list->value[op->in[0]].rows : 0;
        in->rows = p->list->value[op->n_out ? op->out[0] : op->in[0]].rows;
        if (multiplies(op)) in->matmul = &c->matmul[n_matmul++];
        if (op_info_of(op->kind)->by_row) {
            int rows = 1 + (int)in->rows;
            in->meets = pending && (op->kind == OP_TAKE ? pending == reads : pending != rows);
            pending = rows;
        } else {
            in->meets = pending && (op->kind != OP_MATMUL || pending != reads);
            pending = 0;
        }
    }
}

int cpu_program_reserve(struct cpu_device *d, const struct op_list *list, struct lutra_error *err)
{
    struct program *p = calloc(1, sizeof *p);
    if (!p) return lutra_fail(err, LUTRA_E_NO_MEMORY, "cpu: no memory for a program");
    *p = (struct program){.list = list, .n_op = list->n_op, .n_change = cpu_store(d)->n_change};
    for (int i = 0; i < list->n_op; i++) {
        const struct op *op = &list->op[i];
        p->n_matmul += multiplies(op);
        if (op->kind == OP_ROPE && op->rope.n_rot / 2 > p->rope_pairs) p->rope_pairs = op->rope.n_rot / 2;
    }
    int rc = allocate(p, err);
    if (rc < 0) {
        close_program(p);
        return rc;
    }
    for (int i = 0; i < PROGRAM_PLANS; i++) lay_out(p, &p->plan[i]);
    cpu_program_forget(&d->base, list);
    p->next = d->programs;
    d->programs = p;
    return 0;
}

/* What depended on weights as they were. */
static void start_anew(struct cpu_device *d, struct program *p)
{
    for (int i = 0; i < PROGRAM_PLANS; i++) make_room(&p->plan[i], 0, p->n_op);
    for (int i = 0; i < ROPE_TABLES; i++) p->rope[i].params = NULL;
    p->n_change = cpu_store(d)->n_change;
}

static bool is_free(const struct compiled *c, int first, int n)
{
    while (n > 0 && c->owner[first] < 0) first++, n--;
    return n == 0;
}

/* Where a segment is to be compiled: where nothing is in the way, or in place of all that was used longer ago, so that
 * the segments of one plan end up together. */
static struct compiled *place_for(struct program *p, int first, int n)
{
    struct compiled *oldest = p->plan;
    for (struct compiled *c = p->plan; c < p->plan + PROGRAM_PLANS; c++) {
        if (is_free(c, first, n)) return c;
        if (c->used < oldest->used) oldest = c;
    }
    make_room(oldest, 0, p->n_op);
    return oldest;
}

int cpu_program_find(struct cpu_device *d, const struct segment *segment, const struct program **out,
    const struct span **found, struct lutra_error *err)
{
    struct program *p = d->programs;
    while (p && p->list != segment->list) p = p->next;
    ptrdiff_t at = segment->op - segment->list->op;
    if (!p || at < 0 || at + segment->n_op > p->n_op)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "cpu: no scratch was reserved for these operations");
    if (p->n_change != cpu_store(d)->n_change) start_anew(d, p);
    int first = (int)at, n = segment->n_op;
    struct compiled *c = p->plan, *end = p->plan + PROGRAM_PLANS;
    for (; c < end; c++) {
        const struct span *s = &c->span[first];
        if (s->n_op == n && s->share.from == segment->share.from && s->share.to == segment->share.to) break;
    }
    if (c == end) {
        c = place_for(p, first, n);
        TRY(compile(d, p, c, first, n, segment->share, err));
    }
    c->used = ++p->n_found;
    *out = p;
    *found = &c->span[first];
    return 0;
}
