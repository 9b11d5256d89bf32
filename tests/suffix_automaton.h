/* SPDX-License-Identifier: MIT
 *
 * A suffix automaton of a text that grows token by token (Blumer et al., 1985), with the latest ends of what its states
 * stand for: oracle and baseline of draft_matches(), which scans.
 *
 *     automaton_open(&a, cap, most);             matches of up to cap tokens, in texts of up to most
 *     automaton_push(&a, token);
 *     n = automaton_matches(&a, room, end, &len);         as draft_matches()
 *     automaton_close(&a);
 *
 * The longest end of the text that stood there before is its suffix link.  Ends are kept for the states of up to cap
 * tokens alone: at most cap of them change with a token.
 */
#ifndef LUTRA_TESTS_SUFFIX_AUTOMATON_H
#define LUTRA_TESTS_SUFFIX_AUTOMATON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { AUTOMATON_ENDS = 33 /* 32 and the text's own */ };

struct automaton_state {
    int len, link, edge;     /* of its longest string; of the longest of its ends that is another state; first edge */
    int n_end;               /* ends so far */
    int end[AUTOMATON_ENDS]; /* the latest, a ring */
};

struct automaton_edge {
    int32_t token;
    int from, to, next; /* next: of `from`'s; -1 */
};

struct automaton {
    int cap, n_state, n_edge, n_token;
    int last, near; /* states of the text, and of its last cap tokens */
    struct automaton_state *state;
    struct automaton_edge *edge;
    int *slot, n_slot; /* edges by state and token, hashed; -1: none */
};

static inline int automaton_slot(const struct automaton *a, int from, int32_t token)
{
    uint32_t h = ((uint32_t)from * 0x9E3779B1u) ^ ((uint32_t)token * 0x85EBCA6Bu);
    int i = (int)((h ^ h >> 15) & (uint32_t)(a->n_slot - 1));
    while (a->slot[i] >= 0 && (a->edge[a->slot[i]].from != from || a->edge[a->slot[i]].token != token))
        i = (i + 1) & (a->n_slot - 1);
    return i;
}

static inline struct automaton_edge *automaton_edge_of(const struct automaton *a, int from, int32_t token)
{
    int e = a->slot[automaton_slot(a, from, token)];
    return e < 0 ? NULL : &a->edge[e];
}

static inline void automaton_add_edge(struct automaton *a, int from, int32_t token, int to)
{
    a->slot[automaton_slot(a, from, token)] = a->n_edge;
    a->edge[a->n_edge] = (struct automaton_edge){token, from, to, a->state[from].edge};
    a->state[from].edge = a->n_edge++;
}

static inline bool automaton_open(struct automaton *a, int cap, int most)
{
    *a = (struct automaton){.cap = cap, .n_state = 1, .n_slot = 16};
    while (a->n_slot < 6 * most) a->n_slot *= 2;
    a->state = calloc(2 * (size_t)most + 1, sizeof *a->state);
    a->edge = calloc(3 * (size_t)most + 1, sizeof *a->edge);
    a->slot = calloc((size_t)a->n_slot, sizeof *a->slot);
    if (!a->state || !a->edge || !a->slot) return false;
    a->state[0] = (struct automaton_state){.link = -1, .edge = -1};
    for (int i = 0; i < a->n_slot; i++) a->slot[i] = -1;
    return true;
}

static inline void automaton_close(struct automaton *a)
{
    free(a->state);
    free(a->edge);
    free(a->slot);
}

/* State q has strings of p's and the token, and longer ones that have ended elsewhere: it becomes two. */
static inline int automaton_split(struct automaton *a, int p, int q, int32_t token)
{
    int half = a->n_state++;
    a->state[half] = a->state[q];
    a->state[half].len = a->state[p].len + 1;
    a->state[half].edge = -1;
    for (int e = a->state[q].edge; e >= 0; e = a->edge[e].next)
        automaton_add_edge(a, half, a->edge[e].token, a->edge[e].to);
    for (struct automaton_edge *e; p >= 0 && (e = automaton_edge_of(a, p, token)) && e->to == q; p = a->state[p].link)
        e->to = half;
    a->state[q].link = half;
    return half;
}

/* The state of the last n tokens, from one whose longest string has them as its end. */
static inline int automaton_cut(const struct automaton *a, int at, int n)
{
    while (at > 0 && a->state[a->state[at].link].len >= n) at = a->state[at].link;
    return at;
}

static inline void automaton_push(struct automaton *a, int32_t token)
{
    int p = a->last, now = a->n_state++, n_near = a->n_token < a->cap ? a->n_token : a->cap;
    struct automaton_edge *e = NULL;
    a->n_token++;
    a->state[now] = (struct automaton_state){.len = a->n_token, .edge = -1};
    for (; p >= 0 && !(e = automaton_edge_of(a, p, token)); p = a->state[p].link) automaton_add_edge(a, p, token, now);
    int to = p < 0 ? 0 : e->to;
    if (p >= 0 && a->state[to].len > a->state[p].len + 1) to = automaton_split(a, p, to, token);
    a->state[now].link = to;
    a->last = now;
    a->near = automaton_edge_of(a, automaton_cut(a, a->near, n_near), token)->to;
    a->near = automaton_cut(a, a->near, a->n_token < a->cap ? a->n_token : a->cap);
    for (int s = a->near; s > 0; s = a->state[s].link)
        a->state[s].end[a->state[s].n_end++ % AUTOMATON_ENDS] = a->n_token;
}

static inline int automaton_matches(const struct automaton *a, int room, int *end, int *len)
{
    int at = a->state[a->last].link, n = 0;
    *len = at > 0 ? a->state[at].len : 0;
    if (*len >= a->cap) *len = a->cap, at = a->near;
    const struct automaton_state *s = &a->state[at > 0 ? at : 0];
    for (int k = s->n_end - 2; *len > 0 && k >= 0 && k > s->n_end - 1 - AUTOMATON_ENDS && n < room; k--)
        end[n++] = s->end[k % AUTOMATON_ENDS];
    return n;
}

/* Bytes in use, tables as large as they have to be. */
static inline size_t automaton_bytes(const struct automaton *a)
{
    return (size_t)a->n_state * sizeof *a->state + (size_t)a->n_edge * sizeof *a->edge +
           (size_t)a->n_slot * sizeof *a->slot;
}

#endif
