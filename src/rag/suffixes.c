/* SPDX-License-Identifier: MIT
 *
 * Sorting by induction.  A place is of type S if what begins there is less than what begins one place further, else of
 * type L; a leftmost S is one behind an L.  Sorted leftmost S induce the order of all L, and these that of all S.
 * Pieces from one leftmost S to the next are sorted by the same induction and get names by their order; where two are
 * alike, the sequence of names, at most half as long, is sorted first.
 */
#include "rag/suffixes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct sorting {
    const int32_t *symbol;
    int32_t n, n_symbol;
    int32_t *order;
    uint8_t *is_s;   /* [n] bits */
    int32_t *bucket; /* [n_symbol] */
};

static bool is_s(const struct sorting *w, int32_t i)
{
    return w->is_s[i >> 3] >> (i & 7) & 1;
}

static bool is_leftmost(const struct sorting *w, int32_t i)
{
    return i > 0 && is_s(w, i) && !is_s(w, i - 1);
}

/* The last place is an L: behind it stands the end, less than all symbols. */
static void find_types(struct sorting *w)
{
    for (int32_t i = w->n - 2; i >= 0; i--) {
        int32_t a = w->symbol[i], b = w->symbol[i + 1];
        if (a < b || (a == b && is_s(w, i + 1))) w->is_s[i >> 3] |= (uint8_t)(1 << (i & 7));
    }
}

/* Where each symbol's places begin in order[], or (ends) where they end. */
static void find_buckets(struct sorting *w, bool ends)
{
    int32_t sum = 0;
    memset(w->bucket, 0, (size_t)w->n_symbol * sizeof *w->bucket);
    for (int32_t i = 0; i < w->n; i++) w->bucket[w->symbol[i]]++;
    for (int32_t c = 0; c < w->n_symbol; c++) {
        sum += w->bucket[c];
        w->bucket[c] = ends ? sum : sum - w->bucket[c];
    }
}

/* From leftmost S at the ends of their buckets, all else -1, the order of all. */
static void induce(struct sorting *w)
{
    find_buckets(w, false);
    w->order[w->bucket[w->symbol[w->n - 1]]++] = w->n - 1;
    for (int32_t i = 0; i < w->n; i++) {
        int32_t before = w->order[i] - 1;
        if (before >= 0 && !is_s(w, before)) w->order[w->bucket[w->symbol[before]]++] = before;
    }
    find_buckets(w, true);
    for (int32_t i = w->n - 1; i >= 0; i--) {
        int32_t before = w->order[i] - 1;
        if (before >= 0 && is_s(w, before)) w->order[--w->bucket[w->symbol[before]]] = before;
    }
}

/* Are the pieces that begin at two leftmost S alike?  Only the last piece reaches the end, and it is alike to none. */
static bool is_alike(const struct sorting *w, int32_t a, int32_t b)
{
    for (int32_t d = 0;; d++) {
        if (a + d >= w->n || b + d >= w->n || w->symbol[a + d] != w->symbol[b + d]) return false;
        bool end_a = d > 0 && is_leftmost(w, a + d), end_b = d > 0 && is_leftmost(w, b + d);
        if (end_a || end_b) return end_a && end_b;
    }
}

/* Names of the pieces, in the order of the sequence, at order[n - m ..]; m pieces stand sorted at order[0 .. m-1].  No
 * two leftmost S are neighbours, so place / 2 names them apart.  Returns how many names there are. */
static int32_t name_pieces(struct sorting *w, int32_t m)
{
    int32_t n_name = 0, *slot = w->order + m, at = w->n;
    for (int32_t i = m; i < w->n; i++) w->order[i] = -1;
    for (int32_t i = 0; i < m; i++) {
        if (i == 0 || !is_alike(w, w->order[i - 1], w->order[i])) n_name++;
        slot[w->order[i] / 2] = n_name - 1;
    }
    for (int32_t i = w->n - 1; i >= m; i--)
        if (w->order[i] >= 0) w->order[--at] = w->order[i];
    return n_name;
}

static int sort_pieces(struct sorting *w, int32_t m)
{
    int32_t n_name = name_pieces(w, m), *name = w->order + w->n - m;
    if (n_name < m) return suffixes_sort(name, m, n_name, w->order);
    for (int32_t i = 0; i < m; i++) w->order[name[i]] = i;
    return 0;
}

static int sort(struct sorting *w)
{
    int32_t m = 0, *order = w->order;
    find_types(w);
    find_buckets(w, true);
    for (int32_t i = 0; i < w->n; i++) order[i] = -1;
    for (int32_t i = 1; i < w->n; i++)
        if (is_leftmost(w, i)) order[--w->bucket[w->symbol[i]]] = i;
    induce(w);
    for (int32_t i = 0; i < w->n; i++)
        if (is_leftmost(w, order[i])) order[m++] = order[i];
    if (sort_pieces(w, m) < 0) return -1;
    int32_t *place = order + w->n - m; /* instead of the names: the places they stood for */
    for (int32_t i = 1, k = 0; i < w->n; i++)
        if (is_leftmost(w, i)) place[k++] = i;
    for (int32_t i = 0; i < m; i++) order[i] = place[order[i]];
    for (int32_t i = m; i < w->n; i++) order[i] = -1;
    find_buckets(w, true);
    for (int32_t i = m - 1; i >= 0; i--) {
        int32_t at = order[i];
        order[i] = -1;
        order[--w->bucket[w->symbol[at]]] = at;
    }
    induce(w);
    return 0;
}

int suffixes_sort(const int32_t *symbol, int32_t n, int32_t n_symbol, int32_t *order)
{
    struct sorting w = {.symbol = symbol, .n = n, .n_symbol = n_symbol, .order = order};
    if (n == 0) return 0;
    w.is_s = calloc(1, (size_t)n / 8 + 1);
    w.bucket = malloc((size_t)n_symbol * sizeof *w.bucket);
    int rc = w.is_s && w.bucket ? sort(&w) : -1;
    free(w.is_s);
    free(w.bucket);
    return rc;
}

/* The first entry from `low` on whose symbol is at least `least`. */
static int32_t seek(const struct suffixes *t, int32_t low, int32_t high, int32_t depth, int32_t least)
{
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (suffixes_symbol(t, middle, depth) < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct span suffixes_narrow(const struct suffixes *t, struct span span, int32_t depth, int32_t next)
{
    int32_t from = seek(t, span.from, span.to, depth, next);
    return (struct span){from, seek(t, from, span.to, depth, next + 1)};
}
