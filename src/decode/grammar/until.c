/* SPDX-License-Identifier: MIT
 *
 * Text up to the first of several marks: an automaton over bytes that has read as much of a mark as may be one
 * (Aho and Corasick, Efficient string matching, CACM 18, 1975).
 */
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/grammar_impl.h"

enum { MARKS_BYTES = 1024 };

/* While it is built: a trie of the marks that may come anywhere (states 0 ..), then one of those that may come at the
 * start only. */
struct tries {
    int32_t *next; /* [room][256] -1: none */
    int32_t *mark; /* [room] that is complete here; -1: none */
    int32_t *fail; /* [room] the longest end of what was read that begins a mark */
    int32_t n;
};

static int32_t *row(int32_t *next, int32_t state)
{
    return next + (size_t)state * 256;
}

static int32_t new_state(struct tries *t)
{
    for (int c = 0; c < 256; c++) row(t->next, t->n)[c] = -1;
    t->mark[t->n] = -1;
    t->fail[t->n] = 0;
    return t->n++;
}

static void insert(struct tries *t, int32_t root, const uint8_t *p, int32_t n, int32_t mark)
{
    int32_t s = root;
    for (int32_t i = 0; i < n; i++) {
        int32_t next = row(t->next, s)[p[i]];
        if (next < 0) next = row(t->next, s)[p[i]] = new_state(t); /* new_state() moves no row */
        s = next;
    }
    if (t->mark[s] < 0) t->mark[s] = mark;
}

/* Completes the trie from state 0: where it ends, what was read is looked at as the beginning of another mark. */
static void complete(struct tries *t, int32_t *queue)
{
    int32_t n = 0;
    for (int c = 0; c < 256; c++) {
        int32_t *to = &row(t->next, 0)[c];
        if (*to < 0)
            *to = 0;
        else
            queue[n++] = *to;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t s = queue[i], fail = t->fail[s];
        if (t->mark[s] < 0) t->mark[s] = t->mark[fail];
        for (int c = 0; c < 256; c++) {
            int32_t *to = &row(t->next, s)[c], other = row(t->next, fail)[c];
            if (*to < 0) {
                *to = other;
            } else {
                t->fail[*to] = other;
                queue[n++] = *to;
            }
        }
    }
}

/* The same for the trie of marks at the start: behind it the other one goes on. */
static void complete_start(struct tries *t, int32_t start, int32_t *queue)
{
    int32_t n = 0;
    queue[n++] = start;
    for (int32_t i = 0; i < n; i++) {
        int32_t s = queue[i], beside = t->fail[s]; /* where the other trie is after the same bytes */
        for (int c = 0; c < 256; c++) {
            int32_t *to = &row(t->next, s)[c], other = row(t->next, beside)[c];
            if (*to >= 0 && t->mark[other] < 0) {
                t->fail[*to] = other;
                queue[n++] = *to;
            } else {
                *to = other;
            }
        }
    }
}

int until_open(struct until_table *out, const struct builder *b, const struct until *mark, int32_t n)
{
    size_t room = 2;
    for (int32_t i = 0; i < n; i++) room += (size_t)mark[i].n_text;
    *out = (struct until_table){0};
    if (room > MARKS_BYTES) return lutra_fail(b->err, LUTRA_E_FORMAT, "grammar: marks of more than 1024 bytes");
    struct tries t = {
        malloc(room * 256 * sizeof *t.next), malloc(room * sizeof *t.mark), malloc(room * sizeof *t.fail), 0};
    int32_t *queue = malloc(room * sizeof *queue);
    int rc = t.next && t.mark && t.fail && queue ? 0 : lutra_fail(b->err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    if (rc == 0) {
        new_state(&t);
        for (int pass = 0; pass < 2; pass++) {
            if (pass) out->start = new_state(&t);
            for (int32_t i = 0; i < n; i++)
                if (mark[i].at_start == pass)
                    insert(&t, pass ? out->start : 0, (const uint8_t *)b->pool.p + mark[i].text, mark[i].n_text, i);
            if (pass)
                complete_start(&t, out->start, queue);
            else
                complete(&t, queue);
        }
        for (int32_t s = 0; s < t.n * 256; s++) {
            if (t.next[s] < 0) t.next[s] = 0; /* of a state behind a mark: nothing leads there */
            if (t.mark[t.next[s]] >= 0) t.next[s] = ~t.mark[t.next[s]];
        }
        out->n_state = t.n;
        out->next = t.next;
        t.next = NULL;
    }
    free(t.next);
    free(t.mark);
    free(t.fail);
    free(queue);
    return rc;
}
