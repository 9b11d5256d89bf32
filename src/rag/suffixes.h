/* SPDX-License-Identifier: MIT
 *
 * A suffix array: the places of a sequence of symbols in the order of what stands from there to its end.  All that
 * begin alike stand side by side, and among them all that go on alike.  Pure functions of their input.
 *
 *     suffixes_sort(symbol, n, n_symbol, order);
 *     struct span s = {0, n};
 *     for (int d = 0; d < n_pattern; d++) s = suffixes_narrow(&t, s, d, pattern[d]);     s.to - s.from: how often it
 *     occurs
 */
#ifndef LUTRA_RAG_SUFFIXES_H
#define LUTRA_RAG_SUFFIXES_H

#include <stdint.h>

/* Writes the places 0 .. n-1 into order[n], a sequence that ends before a longer one that begins with it.  Symbols are
 * 0 .. n_symbol-1.  Time and memory are linear, whatever the input: induced sorting (Nong, Zhang, Chan, "Linear Suffix
 * Array Construction by Almost Pure Induced-Sorting", 2009), with n/8 + 4 * n_symbol bytes beside order[].  -1: no
 * memory. */
int suffixes_sort(const int32_t *symbol, int32_t n, int32_t n_symbol, int32_t *order);

struct suffixes {
    const int32_t *symbol; /* [n] */
    const int32_t *order;  /* [n], each 0 .. n-1 */
    int32_t n;
};

/* Entries from .. to-1 of order[]. */
struct span {
    int32_t from, to;
};

/* The symbol `depth` places behind the start of an entry; -1 past the end. */
static inline int32_t suffixes_symbol(const struct suffixes *t, int32_t entry, int32_t depth)
{
    int64_t at = (int64_t)t->order[entry] + depth;
    return at < t->n ? t->symbol[at] : -1;
}

/* Those of a span, alike in their first `depth` symbols, that go on with `next`.  Ends for any order[]. */
struct span suffixes_narrow(const struct suffixes *t, struct span span, int32_t depth, int32_t next);

#endif
