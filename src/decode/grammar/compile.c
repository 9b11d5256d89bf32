/* SPDX-License-Identifier: MIT
 *
 * Expressions become nodes and edges over bytes (Thompson's construction, characters as UTF-8); then edges that lead to
 * no end go, and left recursion is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/grammar_impl.h"

struct raw_edge {
    int32_t from;
    struct edge e;
};
struct emitter {
    struct builder *b;
    struct vec edge; /* struct raw_edge */
    struct vec open; /* int32_t: nodes within free text */
    int32_t n_node;
    int depth;
};

static struct expr expr_at(const struct builder *b, int32_t e)
{
    return ((const struct expr *)b->expr.p)[e];
}

static struct rule *rule_at(const struct builder *b, int32_t r)
{
    return (struct rule *)b->rule.p + r;
}

static int put(struct emitter *em, int32_t from, struct edge e)
{
    if (em->edge.n >= GRAMMAR_EDGES)
        return lutra_fail(
            em->b->err, LUTRA_E_FORMAT, "grammar: more than %d edges (repetitions are written out)", GRAMMAR_EDGES);
    TRY(vec_reserve(&em->edge, 1, sizeof(struct raw_edge), em->b->err));
    ((struct raw_edge *)em->edge.p)[em->edge.n++] = (struct raw_edge){from, e};
    return 0;
}

static int put_byte(struct emitter *em, int32_t from, int lo, int hi, int32_t to)
{
    return put(em, from, (struct edge){.to = to, .kind = EDGE_BYTE, .lo = (uint8_t)lo, .hi = (uint8_t)hi});
}

static int utf8_put(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) return out[0] = (uint8_t)c, 1;
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (uint8_t)(0x80 | (c & 63));
    out[0] = (uint8_t)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

/* tail[k]: the node that k continuation bytes 80..BF lead from to `to`. */
struct tails {
    int32_t node[4];
};

static int tail_of(struct emitter *em, struct tails *t, int k, int32_t *out)
{
    if (t->node[k] < 0) {
        int32_t next;
        TRY(tail_of(em, t, k - 1, &next));
        t->node[k] = em->n_node++;
        TRY(put_byte(em, t->node[k], 0x80, 0xbf, next));
    }
    *out = t->node[k];
    return 0;
}

/* Characters lo..hi whose encodings have n bytes: lo and hi may differ in byte i only if all bytes behind span 80..BF;
 * otherwise the range is cut in up to three. */
static int put_span(struct emitter *em, struct tails *t, int32_t from, const uint8_t *lo, const uint8_t *hi, int n)
{
    if (n == 1) return put_byte(em, from, lo[0], hi[0], t->node[0]);
    if (lo[0] == hi[0]) {
        bool whole = true;
        for (int i = 1; i < n; i++) whole = whole && lo[i] == 0x80 && hi[i] == 0xbf;
        int32_t next;
        if (whole) {
            TRY(tail_of(em, t, n - 1, &next));
            return put_byte(em, from, lo[0], hi[0], next);
        }
        next = em->n_node++;
        TRY(put_byte(em, from, lo[0], lo[0], next));
        return put_span(em, t, next, lo + 1, hi + 1, n - 1);
    }
    uint8_t least[4] = {0, 0x80, 0x80, 0x80}, most[4] = {0, 0xbf, 0xbf, 0xbf};
    int first = lo[0], last = hi[0];
    if (memcmp(lo + 1, least + 1, (size_t)n - 1)) {
        most[0] = lo[0];
        TRY(put_span(em, t, from, lo, most, n));
        first++;
    }
    if (memcmp(hi + 1, most + 1, (size_t)n - 1)) {
        least[0] = hi[0];
        TRY(put_span(em, t, from, least, hi, n));
        last--;
    }
    if (first > last) return 0;
    int32_t next;
    TRY(tail_of(em, t, n - 1, &next));
    return put_byte(em, from, first, last, next);
}

static int put_class(struct emitter *em, const struct cp_range *range, int32_t n, int32_t from, int32_t to)
{
    static const uint32_t limit[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};
    struct tails t = {{to, -1, -1, -1}};
    for (int32_t i = 0; i < n; i++) {
        uint32_t lo = range[i].lo;
        for (int k = 0; k < 4; k++) {
            if (lo > limit[k] || lo > range[i].hi) continue;
            uint32_t hi = range[i].hi < limit[k] ? range[i].hi : limit[k];
            uint8_t a[4], z[4];
            utf8_put(lo, a);
            TRY(put_span(em, &t, from, a, z, utf8_put(hi, z)));
            lo = hi + 1;
        }
    }
    return 0;
}

static int emit(struct emitter *em, int32_t expr, int32_t from, int32_t to);

/* Nodes that a copy of the expression takes, roughly; at most `most`. */
static int32_t weight(const struct builder *b, int32_t e, int32_t most, int depth)
{
    struct expr x = expr_at(b, e);
    if (most <= 0 || depth > GRAMMAR_NEST) return most > 0 ? most : 0;
    switch (x.kind) {
    case EXPR_BYTES: return x.b;
    case EXPR_CLASS: return 1 + 2 * x.b;
    case EXPR_UNTIL: return 64 * (1 + x.b);
    case EXPR_SEQ:
    case EXPR_ALT: {
        int32_t w = weight(b, x.a, most, depth + 1);
        return w + weight(b, x.b, most - w, depth + 1);
    }
    case EXPR_REPEAT: {
        int64_t copies = x.max < 0 ? x.min + 1 : x.max;
        int64_t w = copies * (1 + weight(b, x.a, most, depth + 1));
        return w < most ? (int32_t)w : most;
    }
    default: return 1;
    }
}

/* Many copies of something large call a rule of their own. */
static int as_rule(struct emitter *em, struct expr *x)
{
    enum { INLINE = 8192 };
    int64_t copies = x->max < 0 ? x->min + 1 : x->max;
    if (copies < 3 || copies * weight(em->b, x->a, INLINE, 0) <= INLINE) return 0;
    int32_t rule = build_new_rule(em->b);
    TRY(build_define(em->b, rule, x->a));
    rule_at(em->b, rule)->start = em->n_node++;
    rule_at(em->b, rule)->end = em->n_node++;
    int32_t call = build_rule(em->b, rule);
    TRY(call);
    x->a = call;
    return 0;
}

/* Whether the empty text may match, as far as one can tell. */
static bool may_be_empty(const struct builder *b, int32_t e, int depth)
{
    struct expr x = expr_at(b, e);
    if (depth > 64) return true;
    switch (x.kind) {
    case EXPR_BYTES:
    case EXPR_CLASS:
    case EXPR_NEVER: return false;
    case EXPR_EMPTY: return true;
    case EXPR_SEQ: return may_be_empty(b, x.a, depth + 1) && may_be_empty(b, x.b, depth + 1);
    case EXPR_ALT: return may_be_empty(b, x.a, depth + 1) || may_be_empty(b, x.b, depth + 1);
    case EXPR_REPEAT: return x.min == 0 || may_be_empty(b, x.a, depth + 1);
    case EXPR_UNTIL: return x.min;
    case EXPR_RULE: {
        int32_t of = ((const struct rule *)b->rule.p)[x.a].expr;
        return of < 0 || may_be_empty(b, of, depth + 16);
    }
    }
    return true;
}

/* Repetitions with many places to be in count, so that what may follow is worked out once for nearly all of them. */
static int emit_counted(struct emitter *em, struct expr x, int32_t from, int32_t to)
{
    int32_t rule = build_new_rule(em->b), at = em->n_node++;
    TRY(build_define(em->b, rule, x.a));
    rule_at(em->b, rule)->start = em->n_node++;
    rule_at(em->b, rule)->end = em->n_node++;
    if (x.min == 0) TRY(put(em, from, (struct edge){.to = to}));
    TRY(put(em, from, (struct edge){.to = at}));
    return put(
        em, at, (struct edge){.to = to, .kind = EDGE_COUNT, .rule = rule, .min = x.min > 0 ? x.min : 1, .max = x.max});
}

static int emit_repeat(struct emitter *em, struct expr x, int32_t from, int32_t to)
{
    enum { COUNTED_FROM = 8 };
    if ((x.min >= COUNTED_FROM || x.max >= COUNTED_FROM) && x.max != 0 && !may_be_empty(em->b, x.a, 0))
        return emit_counted(em, x, from, to);
    TRY(as_rule(em, &x));
    for (int32_t i = 0; i < x.min; i++) {
        bool last = i + 1 == x.min && x.max == x.min;
        int32_t next = last ? to : em->n_node++;
        TRY(emit(em, x.a, from, next));
        from = next;
    }
    if (x.max == x.min) return 0;
    if (x.max < 0) {
        int32_t loop = em->n_node++;
        TRY(put(em, from, (struct edge){.to = loop}));
        TRY(emit(em, x.a, loop, loop));
        return put(em, loop, (struct edge){.to = to});
    }
    for (int32_t i = x.min; i < x.max; i++) {
        TRY(put(em, from, (struct edge){.to = to}));
        int32_t next = i + 1 == x.max ? to : em->n_node++;
        TRY(emit(em, x.a, from, next));
        from = next;
    }
    return 0;
}

/* Edges of one state; `base` is state 0's node, `done` mark 0's. */
static int put_state(struct emitter *em, const int32_t *next, int32_t from, int32_t base, int32_t done, bool plain)
{
    /* Text that must be followed by a mark is whole characters without NUL; free text any bytes.  Marks are ASCII. */
    int from_byte = plain ? 1 : 0, limit = plain ? 0x80 : 0x100;
    for (int lo = from_byte, hi; lo < limit; lo = hi + 1) {
        for (hi = lo; hi + 1 < limit && next[hi + 1] == next[lo]; hi++) continue;
        TRY(put_byte(em, from, lo, hi, next[lo] < 0 ? done + ~next[lo] : base + next[lo]));
    }
    static const struct cp_range others = {0x80, 0x10ffff};
    return plain ? put_class(em, &others, 1, from, base) : 0;
}

static int emit_until(struct emitter *em, struct expr x, int32_t from, int32_t to)
{
    struct until_table t;
    TRY(until_open(&t, em->b, (const struct until *)em->b->until.p + x.a, x.b));
    int32_t base = em->n_node, done = base + t.n_state;
    em->n_node = done + x.b;
    int rc = put(em, from, (struct edge){.to = base + t.start});
    if (x.min && rc >= 0) rc = vec_reserve(&em->open, t.n_state, sizeof base, em->b->err);
    for (int32_t s = 0; s < t.n_state && rc >= 0; s++) {
        if (x.min) {
            ((int32_t *)em->open.p)[em->open.n++] = base + s;
            rc = put(em, base + s, (struct edge){.to = to});
        }
        if (rc >= 0) rc = put_state(em, t.next + (size_t)s * 256, base + s, base, done, !x.min);
    }
    free(t.next);
    for (int32_t i = 0; i < x.b && rc >= 0; i++)
        rc = emit(em, ((const struct until *)em->b->until.p)[x.a + i].then, done + i, to);
    return rc;
}

/* Adds what leads from one node to another over the expression.  Only edges out of `from` and into `to` are added to
 * these two. */
static int emit_at(struct emitter *em, int32_t expr, int32_t from, int32_t to)
{
    struct expr x = expr_at(em->b, expr);
    while (x.kind == EXPR_SEQ || x.kind == EXPR_ALT) {
        int32_t mid = x.kind == EXPR_SEQ ? em->n_node++ : to;
        TRY(emit(em, x.a, from, mid));
        if (x.kind == EXPR_SEQ) from = mid;
        x = expr_at(em->b, x.b);
    }
    switch (x.kind) {
    case EXPR_NEVER: return 0;
    case EXPR_EMPTY: return put(em, from, (struct edge){.to = to});
    case EXPR_BYTES:
        for (int32_t i = 0; i < x.b; i++) {
            int32_t next = i + 1 == x.b ? to : em->n_node++;
            uint8_t c = ((const uint8_t *)em->b->pool.p)[x.a + i];
            TRY(put_byte(em, from, c, c, next));
            from = next;
        }
        return 0;
    case EXPR_CLASS: return put_class(em, (const struct cp_range *)em->b->range.p + x.a, x.b, from, to);
    case EXPR_REPEAT: return emit_repeat(em, x, from, to);
    case EXPR_UNTIL: return emit_until(em, x, from, to);
    default: return put(em, from, (struct edge){.to = to, .kind = EDGE_CALL, .rule = x.a});
    }
}

static int emit(struct emitter *em, int32_t expr, int32_t from, int32_t to)
{
    if (em->depth >= 2 * GRAMMAR_NEST) return lutra_fail(em->b->err, LUTRA_E_FORMAT, "grammar: nested too deeply");
    em->depth++;
    int rc = emit_at(em, expr, from, to);
    em->depth--;
    return rc;
}

static int by_from(struct grammar *g, const struct raw_edge *raw, int32_t n)
{
    for (int32_t i = 0; i < n; i++) g->first[raw[i].from + 1]++;
    for (int32_t v = 0; v < g->n_node; v++) g->first[v + 1] += g->first[v];
    int32_t *next = malloc(((size_t)g->n_node + 1) * sizeof *next);
    if (!next) return LUTRA_E_NO_MEMORY;
    memcpy(next, g->first, ((size_t)g->n_node + 1) * sizeof *next);
    for (int32_t i = 0; i < n; i++) g->edge[next[raw[i].from]++] = raw[i].e;
    free(next);
    return 0;
}

/* reaches[v]: a path leads from v to the end of its rule; over bytes, too, or over empty text alone. */
static int find_reaching(const struct grammar *g, const struct builder *b, bool over_bytes, bool *reaches)
{
    size_t n_node = (size_t)g->n_node, n_rule = (size_t)b->rule.n;
    int32_t *head = malloc((n_node + n_rule + 1) * sizeof *head); /* edges into a node; calls of a rule */
    int32_t *next = malloc(2 * ((size_t)g->n_edge + 1) * sizeof *next);
    int32_t *from = malloc(((size_t)g->n_edge + 1) * sizeof *from);
    int32_t *todo = malloc((n_node + 1) * sizeof *todo), n_todo = 0;
    int32_t *rule_of = malloc((n_node + 1) * sizeof *rule_of); /* whose start a node is; -1: none's */
    bool ok = head && next && from && todo && rule_of;
    if (!ok) goto done;
    for (size_t i = 0; i < n_node + n_rule; i++) head[i] = -1;
    for (size_t v = 0; v < n_node; v++) {
        rule_of[v] = -1;
        reaches[v] = g->is_end[v];
        if (reaches[v]) todo[n_todo++] = (int32_t)v;
        for (int32_t e = g->first[v]; e < g->first[v + 1]; e++) {
            from[e] = (int32_t)v;
            next[2 * e] = head[g->edge[e].to];
            head[g->edge[e].to] = 2 * e;
            if (g->edge[e].kind < EDGE_CALL) continue;
            next[2 * e + 1] = head[n_node + (size_t)g->edge[e].rule];
            head[n_node + (size_t)g->edge[e].rule] = 2 * e + 1;
        }
    }
    for (size_t r = 0; r < n_rule; r++) rule_of[rule_at(b, (int32_t)r)->start] = (int32_t)r;
    while (n_todo) {
        int32_t v = todo[--n_todo];
        for (int pass = 0; pass < 2; pass++) {
            if (pass && rule_of[v] < 0) break;
            for (int32_t i = head[pass ? g->n_node + rule_of[v] : v]; i >= 0; i = next[i]) {
                const struct edge *e = &g->edge[i / 2];
                if (reaches[from[i / 2]] || !reaches[e->to]) continue;
                if (e->kind == EDGE_BYTE && !over_bytes) continue;
                if (e->kind >= EDGE_CALL && !reaches[rule_at(b, e->rule)->start]) continue;
                reaches[from[i / 2]] = true;
                todo[n_todo++] = from[i / 2];
            }
        }
    }
done:
    free(head);
    free(next);
    free(from);
    free(todo);
    free(rule_of);
    return ok ? 0 : LUTRA_E_NO_MEMORY;
}

/* Edges that lead to no end go. */
static void prune(struct grammar *g, const struct builder *b, const bool *reaches)
{
    int32_t n = 0, e = 0;
    for (int32_t v = 0; v < g->n_node; v++) {
        for (int32_t end = g->first[v + 1]; e < end; e++) {
            const struct edge *x = &g->edge[e];
            if (!reaches[x->to] || (x->kind >= EDGE_CALL && !reaches[rule_at(b, x->rule)->start])) continue;
            g->edge[n++] = *x;
        }
        g->first[v + 1] = n;
    }
    g->n_edge = n;
}

/* Whether a rule can call itself before it has read a byte: a depth-first walk over what empty text leads to.  mark: 0
 * not seen, 1 on the way, 2 done; of rules on the way, and of nodes in turn. */
struct walk {
    int32_t node, edge, rule; /* rule: entered here; -1: none */
};

static int32_t find_left_recursion(const struct grammar *g, const struct builder *b, const bool *empty, uint8_t *mark,
    uint8_t *rule_mark, int32_t *rule_start, struct walk *stack)
{
    for (int32_t r = 0; r < b->rule.n; r++) rule_start[r] = rule_at(b, r)->start;
    for (int32_t r = 0; r < b->rule.n; r++) {
        if (rule_mark[r]) continue;
        int32_t n = 0;
        rule_mark[r] = 1;
        stack[n++] = (struct walk){rule_start[r], g->first[rule_start[r]], r};
        mark[rule_start[r]] = 1;
        while (n) {
            struct walk *w = &stack[n - 1];
            if (w->edge == g->first[w->node + 1]) {
                if (w->rule >= 0) rule_mark[w->rule] = 2;
                n--;
                continue;
            }
            const struct edge *e = &g->edge[w->edge];
            if (e->kind >= EDGE_CALL && rule_mark[e->rule] == 1) return e->rule;
            if (e->kind >= EDGE_CALL && !rule_mark[e->rule]) { /* this edge is looked at again behind it */
                rule_mark[e->rule] = 1;
                mark[rule_start[e->rule]] = 1;
                stack[n++] = (struct walk){rule_start[e->rule], g->first[rule_start[e->rule]], e->rule};
                continue;
            }
            w->edge++;
            if (e->kind == EDGE_BYTE || (e->kind >= EDGE_CALL && !empty[rule_start[e->rule]]) || mark[e->to]) continue;
            mark[e->to] = 1;
            stack[n++] = (struct walk){e->to, g->first[e->to], -1};
        }
    }
    return -1;
}

static int refuse_left_recursion(const struct grammar *g, const struct builder *b, const bool *empty)
{
    size_t n_node = (size_t)g->n_node, n_rule = (size_t)b->rule.n;
    uint8_t *mark = calloc(n_node + n_rule, 1);
    int32_t *start = malloc(n_rule * sizeof *start);
    struct walk *stack = malloc((n_node + n_rule + 1) * sizeof *stack);
    int32_t found = -1;
    bool ok = mark && start && stack;
    if (ok) found = find_left_recursion(g, b, empty, mark, mark + n_node, start, stack);
    free(mark);
    free(start);
    free(stack);
    if (!ok) return lutra_fail(b->err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    if (found < 0) return 0;
    const struct rule *r = rule_at(b, found);
    return lutra_fail_at(b->err, LUTRA_E_UNSUPPORTED, (uint64_t)r->line,
        "grammar: rule '%.*s' is left-recursive: it calls itself before it has read anything", r->n_name,
        (const char *)b->pool.p + r->name);
}

/* Bytes that every edge treats alike are one class. */
static void find_classes(struct grammar *g)
{
    bool begins[257] = {true};
    for (int32_t e = 0; e < g->n_edge; e++)
        if (g->edge[e].kind == EDGE_BYTE) begins[g->edge[e].lo] = begins[g->edge[e].hi + 1] = true;
    int n = 0;
    for (int c = 0; c < 256; c++) {
        if (begins[c]) g->byte_of[n++] = (uint8_t)c;
        g->class_of[c] = (uint8_t)(n - 1);
    }
    g->n_class = n;
}

static int finish(struct grammar *g, struct emitter *em, int32_t root)
{
    struct builder *b = em->b;
    int rc = LUTRA_E_NO_MEMORY;
    g->n_node = em->n_node;
    g->n_edge = em->edge.n;
    g->first = calloc((size_t)g->n_node + 1, sizeof *g->first);
    g->edge = malloc(((size_t)g->n_edge + 1) * sizeof *g->edge);
    g->is_end = calloc((size_t)g->n_node, sizeof *g->is_end);
    g->is_free = calloc((size_t)g->n_node, sizeof *g->is_free);
    bool *reaches = malloc((size_t)g->n_node * sizeof *reaches);
    if (!g->first || !g->edge || !g->is_end || !g->is_free || !reaches || by_from(g, em->edge.p, em->edge.n) < 0)
        goto out;
    for (int32_t i = 0; i < em->open.n; i++) g->is_free[((const int32_t *)em->open.p)[i]] = true;
    for (int32_t r = 0; r < b->rule.n; r++) g->is_end[rule_at(b, r)->end] = true;
    if (find_reaching(g, b, true, reaches) < 0) goto out;
    g->start = rule_at(b, root)->start;
    if (!reaches[g->start]) {
        free(reaches);
        return lutra_fail(b->err, LUTRA_E_FORMAT, "grammar: no text can match it");
    }
    prune(g, b, reaches);
    if (find_reaching(g, b, false, reaches) < 0) goto out;
    rc = refuse_left_recursion(g, b, reaches);
    for (int32_t e = 0; e < g->n_edge; e++)
        if (g->edge[e].kind >= EDGE_CALL) g->edge[e].rule = rule_at(b, g->edge[e].rule)->start;
    find_classes(g);
out:
    free(reaches);
    return rc == LUTRA_E_NO_MEMORY ? lutra_fail(b->err, rc, "grammar: out of memory") : rc;
}

int grammar_compile(struct grammar **out, struct builder *b, int32_t root)
{
    struct emitter em = {.b = b};
    struct grammar *g = calloc(1, sizeof *g);
    int rc = g ? 0 : lutra_fail(b->err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    for (int32_t r = 0; r < b->rule.n; r++) {
        rule_at(b, r)->start = em.n_node++;
        rule_at(b, r)->end = em.n_node++;
    }
    for (int32_t r = 0; r < b->rule.n && rc >= 0; r++) { /* repetitions add rules */
        struct rule x = *rule_at(b, r);
        if (x.expr >= 0) rc = emit(&em, x.expr, x.start, x.end);
    }
    if (rc >= 0) rc = finish(g, &em, root);
    free(em.edge.p);
    free(em.open.p);
    if (rc < 0) grammar_close(&g);
    *out = g;
    return rc < 0 ? rc : 0;
}

void grammar_close(struct grammar **grammar)
{
    if (!*grammar) return;
    free((*grammar)->first);
    free((*grammar)->edge);
    free((*grammar)->is_end);
    free((*grammar)->is_free);
    free((*grammar)->note);
    free(*grammar);
    *grammar = NULL;
}
