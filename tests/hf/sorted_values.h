/* SPDX-License-Identifier: MIT
 *
 * Matrices of a folder that are read sorted by group, against the same ones read as they are.
 */
#ifndef LUTRA_TESTS_HF_SORTED_VALUES_H
#define LUTRA_TESTS_HF_SORTED_VALUES_H

#include <stdio.h>
#include <stdlib.h>

#include "quant/quant.h"
#include "weights/weights.h"

static inline float *sorted_floats(const struct weights *w, const struct tensor *t)
{
    size_t n = (size_t)(t->ne[0] * t->ne[1]);
    float *x = malloc(n * sizeof *x);
    weights_fetch(w, t);
    quant_info_of(t->type)->dequantize(t->data, x, n);
    return x;
}

/* Whether the order has each input once, and not all where they were. */
static inline bool sorted_is_order(const int32_t *order, size_t n)
{
    bool *used = calloc(n, sizeof *used), moved = false, all = true;
    for (size_t i = 0; i < n && all; i++) {
        all = (size_t)(uint32_t)order[i] < n && !used[order[i]];
        if (all) used[order[i]] = true;
        moved |= order[i] != (int32_t)i;
    }
    free(used);
    return all && moved;
}

/* Column i of the sorted matrix is the other one's column order[i], which is F32. */
static inline bool sorted_is_same(
    const struct weights *sorted, const struct tensor *t, const struct weights *w, const struct tensor *u)
{
    const int32_t *order = weights_order(sorted, t);
    size_t n = (size_t)t->ne[0];
    if (!sorted_is_order(order, n) || t->type == QUANT_F32 || u->type != QUANT_F32) return false;
    float *x = sorted_floats(sorted, t), *y = sorted_floats(w, u);
    bool same = true;
    for (size_t r = 0; r < (size_t)t->ne[1]; r++)
        for (size_t i = 0; i < n; i++) same &= x[r * n + i] == y[r * n + (size_t)order[i]];
    free(x);
    free(y);
    return same;
}

/* How many matrices of a folder are sorted; -1: it does not open, or one is wrong, which is printed. */
static inline int sorted_count(const char *folder)
{
    struct weights *w, *sorted;
    struct lutra_error err;
    int n = 0;
    if (weights_open(&w, folder, &err) < 0) return printf("%s\n", err.what), -1;
    if (weights_open_as(&sorted, folder, (struct weights_how){.sorted = true}, &err) < 0)
        return printf("%s\n", err.what), weights_close(&w), -1;
    for (size_t i = 0; i < weights_tensor_count(sorted) && n >= 0; i++) {
        const struct tensor *t = weights_tensor_at(sorted, i), *u = weights_tensor_find(w, t->name);
        bool wrong = weights_order(w, u) || (!weights_order(sorted, t) && t->type != u->type);
        if (weights_order(sorted, t)) {
            wrong |= weights_f32_reason(sorted, t) || !weights_f32_reason(w, u) || !sorted_is_same(sorted, t, w, u);
            n++;
        }
        if (wrong) n = printf("%s: sorted, it is another matrix\n", t->name), n = -1;
    }
    weights_close(&w);
    weights_close(&sorted);
    return n;
}

#endif
