/* SPDX-License-Identifier: MIT
 *
 * The values of a file's tensors.  A matrix is looked at in pieces: the root mean square of most of them says how large
 * its values are, and one piece far beyond that is damage.  Zeros are looked for as they come to be: a hole that a
 * download has left begins where a page of the file does, and not where a row of the matrix does.
 */
#include "check/check_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/quant.h"

enum { PIECE = 1 << 14, PAGE = 4096, SPARE_BYTES = 4, QUICK_STRIDE = 8, PIECES_MOST = 1 << 16 };
static const double ABSURD = 2000; /* times the usual size of a matrix's values; outliers of real ones stay below 300 */
static const double HUGE_NUMBER = 1e6;

struct look {
    struct checker *c;
    const struct weights *w;
    const struct tensor *t;
    const struct quant_info *q;
    float *value;     /* [2][PIECE]: values, and what they are made of */
    double *rms;      /* [n] of each piece with a value that is not 0 */
    size_t n, n_elem; /* pieces in rms; elements of the tensor */
    double most;
    size_t most_at, n_bad, bad_at;
};

static void look_at_piece(struct look *l, size_t at, size_t n)
{
    const struct quant_info *q = l->q;
    double sum = 0;
    memcpy(l->value + PIECE, (const char *)l->t->data + at / q->block_elems * q->block_bytes,
        n / q->block_elems * q->block_bytes);
    q->dequantize(l->value + PIECE, l->value, n);
    for (size_t i = 0; i < n; i++) {
        double x = l->value[i];
        if (!isfinite(x)) {
            if (l->n_bad++ == 0) l->bad_at = at + i;
            continue;
        }
        if (fabs(x) > l->most) l->most = fabs(x), l->most_at = at + i;
        sum += x * x;
    }
    if (sum > 0 && l->n < PIECES_MOST) l->rms[l->n++] = sqrt(sum / (double)n);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void place(const struct tensor *t, size_t at, char out[64])
{
    size_t n_in = (size_t)t->ne[0];
    if (t->n_dim > 1)
        snprintf(out, 64, "row %zu, column %zu", at / n_in, at % n_in);
    else
        snprintf(out, 64, "element %zu", at);
}

static bool is_layer_matrix(const struct tensor *t)
{
    return t->n_dim > 1 && strncmp(t->name, "blk.", 4) == 0;
}

static void judge_values(struct look *l)
{
    const struct tensor *t = l->t;
    char where[64];
    if (l->n_bad) {
        place(t, l->bad_at, where);
        check_found(l->c, "tensor '%s': %zu values are no numbers, the first at %s", t->name, l->n_bad, where);
    }
    qsort(l->rms, l->n, sizeof *l->rms, by_size);
    double usual = l->n ? l->rms[l->n / 2] : 0;
    double limit = t->n_dim > 1 && l->n > 2 ? ABSURD * usual : HUGE_NUMBER;
    place(t, l->most_at, where);
    bool divides = strncmp(t->name, "rope_", 5) == 0; /* factors of angles: the largest mean no rotation */
    if ((l->most > limit || l->most > HUGE_NUMBER) && !divides)
        check_found(l->c, "tensor '%s': %g at %s is absurd where %g is usual", t->name, l->most, where, usual);
    bool norm = t->n_dim == 1 && strstr(t->name, "norm.weight");
    if (!l->n && !l->n_bad && (is_layer_matrix(t) || norm)) check_found(l->c, "tensor '%s': all zeros", t->name);
}

static bool all_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* A run of whole pages of zeros that does not begin and end with rows. */
static void look_for_holes(struct look *l)
{
    const struct tensor *t = l->t;
    const uint8_t *p = t->data;
    size_t row_bytes = l->n_elem ? t->bytes / (l->n_elem / (size_t)t->ne[0]) : 0, first = 0;
    size_t to_page = (PAGE - (uintptr_t)p % PAGE) % PAGE;
    if (t->n_dim < 2 || !row_bytes) return;
    for (size_t at = to_page; at + PAGE <= t->bytes; at += PAGE) {
        if (!all_zero(p + at, PAGE)) continue;
        size_t begin = at, end = at + PAGE;
        while (begin > first && p[begin - 1] == 0) begin--;
        while (end < t->bytes && p[end] == 0) end++;
        first = end;
        size_t begin_row = (begin + row_bytes - 1) / row_bytes * row_bytes;
        /* zero rows: the run may take in zeros at the end of the row before and at the beginning of the one after */
        bool rows = begin_row - begin < SPARE_BYTES && end % row_bytes < SPARE_BYTES;
        bool spares = !is_layer_matrix(t) && end - begin >= row_bytes; /* embeddings of tokens that are none */
        if (!rows && !spares && end - begin < t->bytes)
            check_found(l->c, "tensor '%s': %zu bytes of zeros from byte %zu on, as a hole in the file leaves them",
                t->name, end - begin, begin);
        at = (end - to_page) / PAGE * PAGE + to_page - PAGE;
    }
}

static int look_at_tensor(struct look *l)
{
    const struct tensor *t = l->t;
    l->q = quant_info_of(t->type);
    l->n = l->n_bad = l->most_at = 0;
    l->most = 0;
    l->n_elem = 1;
    for (int d = 0; d < t->n_dim; d++) l->n_elem *= (size_t)t->ne[d];
    if (!l->q || !t->data || l->n_elem == 0) return 0;
    if (t->n_dim > 1) weights_fetch(l->w, t);
    size_t stride = l->c->set.quick && l->n_elem > 16 * PIECE ? QUICK_STRIDE : 1;
    for (size_t at = 0; at < l->n_elem; at += PIECE * stride)
        look_at_piece(l, at, l->n_elem - at < PIECE ? l->n_elem - at : PIECE);
    judge_values(l);
    look_for_holes(l);
    return 1;
}

int check_tensors(struct checker *c, const struct weights *w, struct lutra_error *err)
{
    struct look l = {
        .c = c, .w = w, .value = malloc(2 * PIECE * sizeof(float)), .rms = malloc(PIECES_MOST * sizeof(double))};
    int rc = l.value && l.rms ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "check: out of memory"), n = 0;
    uint64_t done = 0;
    for (size_t i = 0; rc == 0 && i < weights_tensor_count(w); i++) {
        l.t = weights_tensor_at(w, i);
        n += look_at_tensor(&l);
        done += l.t->bytes;
        rc = check_progress(c, done, weights_tensor_bytes(w), err);
    }
    free(l.value);
    free(l.rms);
    if (rc == 0) check_passed(c, "%d tensors, %s of their values", n, c->set.quick ? "an eighth" : "all");
    return rc;
}
