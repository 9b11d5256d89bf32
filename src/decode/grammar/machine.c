/* SPDX-License-Identifier: MIT
 *
 * The pushdown automaton: sets of derivations whose stacks are merged (a graph-structured stack, found by content).
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "decode/grammar/machine_impl.h"

struct united {
    int32_t a, b, sum;
};

static int no_memory(struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
}

/* ---- tables ---- */

static uint64_t hash_of(const void *p, size_t n, uint64_t seed)
{
    return n ? hash_bytes(seed, p, n) : seed;
}

/* Empties a table for n entries; the caller puts what there was back in. */
static int table_clear(struct table *t, int32_t n, struct lutra_error *err)
{
    int32_t n_slot = 256;
    while (n_slot < 2 * n) n_slot *= 2;
    int32_t *slot = malloc((size_t)n_slot * sizeof *slot);
    if (!slot) return no_memory(err);
    memset(slot, 0xff, (size_t)n_slot * sizeof *slot);
    free(t->slot);
    *t = (struct table){slot, n_slot};
    return 0;
}

static int32_t *free_slot(const struct table *t, uint64_t hash)
{
    uint32_t mask = (uint32_t)t->n_slot - 1, i = (uint32_t)hash & mask;
    while (t->slot[i] >= 0) i = (i + 1) & mask;
    return &t->slot[i];
}

static struct pair *pairs(const struct grammar_machine *m, int32_t first)
{
    return (struct pair *)m->pair.p + first;
}

static struct frame *frames(const struct grammar_machine *m, int32_t f)
{
    return (struct frame *)m->frame.p + f;
}

/* Finds or adds a frame of these pairs; pair: not in m->pair.  A frame too deep is -1. */
static int frame_of(
    struct grammar_machine *m, const struct pair *pair, int32_t n, int32_t *out, struct lutra_error *err)
{
    uint64_t hash = hash_of(pair, (size_t)n * sizeof *pair, 1);
    uint32_t mask = (uint32_t)m->frames.n_slot - 1;
    for (uint32_t i = (uint32_t)hash & mask; (*out = m->frames.slot[i]) >= 0; i = (i + 1) & mask) {
        const struct frame *f = frames(m, *out);
        if (f->n == n && !memcmp(pairs(m, f->first), pair, (size_t)n * sizeof *pair)) return 0;
    }
    int32_t depth = 0;
    for (int32_t i = 0; i < n; i++)
        if (pair[i].node >= 0 && frames(m, pair[i].frame)->depth >= depth) depth = frames(m, pair[i].frame)->depth + 1;
    *out = -1;
    if (depth > MACHINE_DEPTH) return 0;
    if (m->frame.n >= MACHINE_FRAMES)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "grammar: more than %d stacks", MACHINE_FRAMES);
    TRY(vec_reserve(&m->pair, n, sizeof *pair, err));
    TRY(vec_reserve(&m->frame, 1, sizeof(struct frame), err));
    memcpy(pairs(m, m->pair.n), pair, (size_t)n * sizeof *pair);
    *frames(m, m->frame.n) = (struct frame){m->pair.n, n, depth};
    m->pair.n += n;
    *out = m->frame.n++;
    if (2 * m->frame.n > m->frames.n_slot) {
        TRY(table_clear(&m->frames, 2 * m->frame.n, err));
        for (int32_t f = 0; f < m->frame.n; f++) {
            const struct frame *x = frames(m, f);
            *free_slot(&m->frames, hash_of(pairs(m, x->first), (size_t)x->n * sizeof *pair, 1)) = f;
        }
    } else
        *free_slot(&m->frames, hash) = *out;
    return 0;
}

/* Nodes of one state with those that only lead on, and callers of one frame: each byte costs work for each of them. */
enum { MAX_NODES = 16384, MAX_CALLERS = 1024 };

static int too_many_ways(struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_UNSUPPORTED,
        "grammar: too many ways to go on at one place (%d nodes or %d callers), as where what may be empty repeats",
        MAX_NODES, MAX_CALLERS);
}

static int unite(struct grammar_machine *m, int32_t a, int32_t b, int32_t *out, struct lutra_error *err);

/* By node, then by count. */
static int order(const struct pair *p, const struct pair *q)
{
    int by = (p->node > q->node) - (p->node < q->node);
    return by ? by : (p->count > q->count) - (p->count < q->count);
}

/* The pairs of both; pair: room for all. */
static int merge(
    struct grammar_machine *m, int32_t a, int32_t b, struct pair *pair, int32_t *n, struct lutra_error *err)
{
    struct frame x = *frames(m, a), y = *frames(m, b);
    for (int32_t i = 0, j = 0; i < x.n || j < y.n;) {
        struct pair p = i < x.n ? *pairs(m, x.first + i) : (struct pair){INT32_MAX, 0, 0};
        struct pair q = j < y.n ? *pairs(m, y.first + j) : (struct pair){INT32_MAX, 0, 0};
        int by = order(&p, &q);
        i += by <= 0;
        j += by >= 0;
        if (by == 0 && p.frame != q.frame) TRY(unite(m, p.frame, q.frame, &p.frame, err));
        pair[(*n)++] = by <= 0 ? p : q;
    }
    return 0;
}

/* A frame with the stacks of both: recursion goes down at most MACHINE_DEPTH frames. */
static int unite(struct grammar_machine *m, int32_t a, int32_t b, int32_t *out, struct lutra_error *err)
{
    *out = a;
    if (a == b) return 0;
    int32_t key[2] = {a < b ? a : b, a < b ? b : a};
    uint64_t hash = hash_of(key, sizeof key, 2);
    uint32_t mask = (uint32_t)m->unions.n_slot - 1;
    const struct united *u = m->united.p;
    for (uint32_t i = (uint32_t)hash & mask, k; (int32_t)(k = (uint32_t)m->unions.slot[i]) >= 0; i = (i + 1) & mask)
        if (u[k].a == key[0] && u[k].b == key[1]) return *out = u[k].sum, 0;
    struct pair *pair = malloc((size_t)(frames(m, a)->n + frames(m, b)->n) * sizeof *pair);
    int32_t n = 0;
    int rc = pair ? merge(m, a, b, pair, &n, err) : no_memory(err);
    if (rc >= 0) rc = n > MAX_CALLERS ? too_many_ways(err) : frame_of(m, pair, n, out, err);
    free(pair);
    TRY(rc);
    TRY(vec_reserve(&m->united, 1, sizeof *u, err));
    ((struct united *)m->united.p)[m->united.n++] = (struct united){key[0], key[1], *out};
    if (2 * m->united.n > m->unions.n_slot) {
        TRY(table_clear(&m->unions, 2 * m->united.n, err));
        u = m->united.p;
        for (int32_t i = 0; i < m->united.n; i++) {
            int32_t k[2] = {u[i].a, u[i].b};
            *free_slot(&m->unions, hash_of(k, sizeof k, 2)) = i;
        }
    } else
        *free_slot(&m->unions, hash) = m->united.n - 1;
    return 0;
}

/* ---- states ---- */

static uint64_t hash_state(const struct pair *pair, int32_t n, bool may_end, bool escaped)
{
    return hash_of(pair, (size_t)n * sizeof *pair, 3u + may_end + 2u * escaped);
}

static int state_of(struct grammar_machine *m, const struct pair *pair, int32_t n, bool may_end, bool escaped,
    int32_t *out, struct lutra_error *err)
{
    *out = GRAMMAR_DEAD;
    if (!n && !may_end && !escaped) return 0;
    uint64_t hash = hash_state(pair, n, may_end, escaped);
    uint32_t mask = (uint32_t)m->states.n_slot - 1;
    for (uint32_t i = (uint32_t)hash & mask; (*out = m->states.slot[i]) >= 0; i = (i + 1) & mask) {
        const struct state *s = machine_state(m, *out);
        if (s->n == n && s->may_end == may_end && s->escaped == escaped &&
            !memcmp(pairs(m, s->first), pair, (size_t)n * sizeof *pair))
            return 0;
    }
    if (m->state.n >= MACHINE_STATES)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "grammar: more than %d states", MACHINE_STATES);
    TRY(vec_reserve(&m->pair, n, sizeof *pair, err));
    TRY(vec_reserve(&m->state, 1, sizeof(struct state), err));
    if (n) memcpy(pairs(m, m->pair.n), pair, (size_t)n * sizeof *pair);
    *machine_state(m, m->state.n) =
        (struct state){.first = m->pair.n, .n = n, .core = -1, .far = -1, .may_end = may_end, .escaped = escaped};
    m->pair.n += n;
    *out = m->state.n++;
    if (2 * m->state.n > m->states.n_slot) {
        TRY(table_clear(&m->states, 2 * m->state.n, err));
        for (int32_t i = 0; i < m->state.n; i++) {
            const struct state *s = machine_state(m, i);
            *free_slot(&m->states, hash_state(pairs(m, s->first), s->n, s->may_end, s->escaped)) = i;
        }
    } else
        *free_slot(&m->states, hash) = *out;
    return 0;
}

/* ---- closures ---- */

static int add(struct grammar_machine *m, int32_t node, int32_t frame, struct lutra_error *err)
{
    if (frame < 0) return 0; /* too deep */
    if (m->frame_of[node] == frame) return 0;
    if (m->frame_of[node] < 0)
        m->member[m->n_member++] = node;
    else {
        int32_t sum;
        TRY(unite(m, m->frame_of[node], frame, &sum, err));
        if (sum < 0 || sum == m->frame_of[node]) return 0;
        frame = sum;
    }
    m->frame_of[node] = frame;
    if (!m->waits[node]) m->todo[m->n_todo++] = node;
    m->waits[node] = true;
    return 0;
}

static const struct edge *counted(const struct grammar_machine *m, int32_t node)
{
    return &m->g->edge[m->g->first[node]];
}

/* A call of a counted call begins. */
static int call_again(struct grammar_machine *m, struct pair p, struct lutra_error *err)
{
    int32_t called;
    TRY(frame_of(m, &p, 1, &called, err));
    return add(m, counted(m, p.node)->rule, called, err);
}

/* ... has ended: another one, or what follows them. */
static int count_on(struct grammar_machine *m, struct pair p, struct lutra_error *err)
{
    const struct edge *e = counted(m, p.node);
    bool far = p.count < 0, enough = far ? p.count == COUNT_ABOVE : p.count >= e->min;
    if (enough) TRY(add(m, e->to, p.frame, err));
    if (!far && e->max >= 0 && p.count >= e->max) return 0;
    p.count += !far && !(enough && e->max < 0);
    return call_again(m, p, err);
}

/* A rule is over: its callers go on. */
static int leave(struct grammar_machine *m, int32_t frame, struct lutra_error *err)
{
    for (int32_t i = 0; i < frames(m, frame)->n; i++) {
        struct pair p = *pairs(m, frames(m, frame)->first + i);
        if (p.node == RETURN_TEXT)
            m->may_end = true;
        else if (p.node == RETURN_UNKNOWN)
            m->escaped = true;
        else if (p.count)
            TRY(count_on(m, p, err));
        else
            TRY(add(m, p.node, p.frame, err));
    }
    return 0;
}

static int expand(struct grammar_machine *m, int32_t node, struct lutra_error *err)
{
    const struct grammar *g = m->g;
    int32_t frame = m->frame_of[node];
    if (g->is_end[node]) TRY(leave(m, frame, err));
    for (int32_t i = g->first[node]; i < g->first[node + 1]; i++) {
        const struct edge *e = &g->edge[i];
        if (e->kind == EDGE_EPS) TRY(add(m, e->to, frame, err));
        if (e->kind == EDGE_COUNT) TRY(call_again(m, (struct pair){node, frame, 1}, err));
        if (e->kind != EDGE_CALL) continue;
        int32_t called = frame;
        /* A call that ends its own rule leaves nothing to return to. */
        bool tail = g->is_end[e->to] && g->first[e->to] == g->first[e->to + 1];
        if (!tail) TRY(frame_of(m, &(struct pair){e->to, frame, 0}, 1, &called, err));
        TRY(add(m, e->rule, called, err));
    }
    return 0;
}

static int by_node(const void *x, const void *y)
{
    return order(x, y);
}

/* The state of all that the set of nodes leads to without a byte; empties the set. */
static int close_set(struct grammar_machine *m, int32_t *out, struct lutra_error *err)
{
    const struct grammar *g = m->g;
    int rc = 0;
    while (m->n_todo && rc >= 0) {
        int32_t node = m->todo[--m->n_todo];
        m->waits[node] = false;
        rc = expand(m, node, err);
        if (rc >= 0 && m->n_member > MAX_NODES) rc = too_many_ways(err);
    }
    int32_t n = 0;
    for (int32_t i = 0; i < m->n_member; i++) {
        int32_t node = m->member[i];
        bool reads = false;
        for (int32_t e = g->first[node]; e < g->first[node + 1]; e++) reads = reads || g->edge[e].kind == EDGE_BYTE;
        if (reads) m->sorted[n++] = (struct pair){node, m->frame_of[node], 0};
        m->frame_of[node] = -1;
        m->waits[node] = false;
    }
    m->n_member = m->n_todo = 0;
    qsort(m->sorted, (size_t)n, sizeof *m->sorted, by_node);
    if (rc >= 0) rc = state_of(m, m->sorted, n, m->may_end, m->escaped, out, err);
    m->may_end = m->escaped = false;
    return rc;
}

int machine_step(struct grammar_machine *m, int32_t state, uint8_t byte, int32_t *next, struct lutra_error *err)
{
    const struct grammar *g = m->g;
    struct state *s = machine_state(m, state);
    uint8_t class = g->class_of[byte];
    *next = GRAMMAR_DEAD;
    if (!s->n) return 0;
    if (!s->next) {
        s->next = malloc((size_t)g->n_class * sizeof *s->next);
        if (!s->next) return no_memory(err);
        m->counts.bytes += g->n_class * (int64_t)sizeof *s->next;
        for (int32_t i = 0; i < g->n_class; i++) s->next[i] = -2;
    }
    if (s->next[class] != -2) return *next = s->next[class], 0;
    int rc = 0;
    for (int32_t i = 0; i < s->n && rc >= 0; i++) {
        struct pair p = *pairs(m, s->first + i);
        for (int32_t e = g->first[p.node]; e < g->first[p.node + 1] && rc >= 0; e++)
            if (g->edge[e].kind == EDGE_BYTE && g->edge[e].lo <= byte && byte <= g->edge[e].hi)
                rc = add(m, g->edge[e].to, p.frame, err);
    }
    int closed = close_set(m, next, err); /* empties the set also after an error */
    if (rc < 0 || closed < 0) return rc < 0 ? rc : closed;
    machine_state(m, state)->next[class] = *next;
    return 0;
}

bool machine_is_free(const struct grammar_machine *m, int32_t state)
{
    const struct state *s = machine_state(m, state);
    bool is_free = false;
    for (int32_t i = 0; i < s->n; i++) is_free = is_free || m->g->is_free[pairs(m, s->first + i)->node];
    return is_free;
}

/* Bytes that a text may go on with before it matters which call of a counted call it is in: each call reads at least
 * one. */
static int32_t distance(const struct grammar_machine *m, struct pair p)
{
    const struct edge *e = counted(m, p.node);
    if (p.count < e->min) return e->min - p.count;
    return e->max < 0 ? INT32_MAX : e->max - p.count;
}

/* The state of the same nodes above what stays of their stacks. */
static int abstract(
    struct grammar_machine *m, int32_t state, bool far, int32_t *reach, int32_t *out, struct lutra_error *err)
{
    struct state s = *machine_state(m, state);
    *reach = INT32_MAX;
    for (int32_t i = 0; i < s.n; i++) {
        struct pair own = *pairs(m, s.first + i);
        struct frame f = *frames(m, own.frame);
        struct pair p = *pairs(m, f.first);
        own.frame = FRAME_UNKNOWN;
        if (f.n == 1 && p.count) {
            int32_t d = p.count < 0 ? INT32_MAX : distance(m, p);
            if (p.count > 0 && (far || d >= m->v->max_depth))
                p.count = p.count < counted(m, p.node)->min ? COUNT_BELOW : COUNT_ABOVE;
            else if (d < *reach)
                *reach = d;
            p.frame = FRAME_UNKNOWN;
            TRY(frame_of(m, &p, 1, &own.frame, err));
        }
        m->sorted[i] = own;
    }
    return state_of(m, m->sorted, s.n, false, false, out, err);
}

int machine_core(struct grammar_machine *m, int32_t state, int32_t *core, struct lutra_error *err)
{
    *core = machine_state(m, state)->core;
    if (*core >= 0) return 0;
    int32_t reach, far = -1, ignored;
    TRY(abstract(m, state, false, &reach, core, err));
    if (reach < INT32_MAX) TRY(abstract(m, *core, true, &ignored, &far, err));
    machine_state(m, *core)->reach = reach;
    machine_state(m, *core)->far = far;
    machine_state(m, state)->core = *core;
    return 0;
}

/* ---- the machine ---- */

static int fill(struct grammar_machine *m, struct lutra_error *err)
{
    size_t n_node = (size_t)m->g->n_node, depth = (size_t)m->v->max_depth + 1;
    TRY(table_clear(&m->frames, 0, err));
    TRY(table_clear(&m->states, 0, err));
    TRY(table_clear(&m->unions, 0, err));
    m->frame_of = malloc(n_node * sizeof *m->frame_of);
    m->waits = calloc(n_node, sizeof *m->waits);
    m->member = malloc(n_node * sizeof *m->member);
    m->todo = malloc(n_node * sizeof *m->todo);
    m->sorted = malloc(n_node * sizeof *m->sorted);
    m->at = malloc(depth * sizeof *m->at);
    m->open = malloc(depth * sizeof *m->open);
    if (!m->frame_of || !m->waits || !m->member || !m->todo || !m->sorted || !m->at || !m->open) return no_memory(err);
    for (size_t i = 0; i < n_node; i++) m->frame_of[i] = -1;
    int32_t frame;
    TRY(frame_of(m, &(struct pair){RETURN_TEXT, 0, 0}, 1, &frame, err));
    TRY(frame_of(m, &(struct pair){RETURN_UNKNOWN, 0, 0}, 1, &frame, err));
    TRY(add(m, m->g->start, FRAME_TEXT, err));
    return close_set(m, &m->start, err);
}

int grammar_machine_open(struct grammar_machine **out, const struct grammar *grammar, const struct grammar_vocab *vocab,
    struct lutra_error *err)
{
    struct grammar_machine *m = *out = calloc(1, sizeof *m);
    if (!m) return no_memory(err);
    m->g = grammar;
    m->v = vocab;
    m->n_word = (vocab->n_vocab + 63) / 64;
    int rc = fill(m, err);
    if (rc < 0) grammar_machine_close(out);
    return rc;
}

void grammar_machine_close(struct grammar_machine **machine)
{
    struct grammar_machine *m = *machine;
    if (!m) return;
    for (int32_t i = 0; i < m->state.n; i++) {
        struct state *s = machine_state(m, i);
        free(s->next);
        if (!s->mask) continue;
        free(s->mask->bits);
        free(s->mask->subtree);
        free(s->mask);
    }
    free(m->pair.p);
    free(m->frame.p);
    free(m->state.p);
    free(m->united.p);
    free(m->subtree.p);
    free(m->frames.slot);
    free(m->states.slot);
    free(m->unions.slot);
    free(m->frame_of);
    free(m->waits);
    free(m->member);
    free(m->todo);
    free(m->sorted);
    free(m->at);
    free(m->open);
    free(m);
    *machine = NULL;
}

int32_t grammar_start(const struct grammar_machine *machine)
{
    return machine->start;
}

bool grammar_may_end(const struct grammar_machine *machine, int32_t state)
{
    return state >= 0 && machine_state(machine, state)->may_end;
}

bool grammar_is_whole(const struct grammar_machine *machine, int32_t state)
{
    return grammar_may_end(machine, state) && !machine_state(machine, state)->n;
}

int grammar_read(
    struct grammar_machine *machine, int32_t state, const char *bytes, size_t n, int32_t *next, struct lutra_error *err)
{
    if (state == GRAMMAR_OVER && n) state = GRAMMAR_DEAD;
    for (size_t i = 0; i < n && state >= 0; i++) TRY(machine_step(machine, state, (uint8_t)bytes[i], &state, err));
    *next = state;
    return 0;
}

int grammar_follow(
    struct grammar_machine *machine, int32_t state, int32_t token, int32_t *next, struct lutra_error *err)
{
    const struct grammar_vocab *v = machine->v;
    int32_t i = token >= 0 && token < v->n_vocab ? v->token[token] : -1;
    if (i == -2)
        *next = grammar_may_end(machine, state) ? GRAMMAR_OVER : GRAMMAR_DEAD;
    else if (i < 0)
        *next = state >= 0 && machine_is_free(machine, state) ? state : GRAMMAR_DEAD;
    else
        return grammar_read(machine, state, v->pool + v->at[i], v->at[i + 1] - v->at[i], next, err);
    return 0;
}

struct grammar_counts grammar_counts(const struct grammar_machine *machine)
{
    struct grammar_counts c = machine->counts;
    c.states = machine->state.n;
    c.frames = machine->frame.n;
    c.bytes += (int64_t)machine->pair.room * (int64_t)sizeof(struct pair) +
               (int64_t)machine->frame.room * (int64_t)sizeof(struct frame) +
               (int64_t)machine->state.room * (int64_t)sizeof(struct state);
    c.is_large = machine->state.n > MACHINE_STATES / 2 || machine->frame.n > MACHINE_FRAMES / 2;
    return c;
}
