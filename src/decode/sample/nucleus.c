/* SPDX-License-Identifier: MIT
 *
 * The fewest likeliest tokens that hold a share of the probability (top-p), without sorting the vocabulary
 * (nucleus_impl.h).
 */
#include "decode/sample/nucleus_impl.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "decode/sample/nucleus_passes_impl.h"

enum { FEW = 48 }; /* candidates that are sorted rather than divided */

static struct row_extent extent(const float *logit, int n)
{
    return extent_of(logit, n);
}

static void sort(struct nucleus *out, const struct nucleus_row *row)
{
    sort_row(out, row);
}

static void weigh(struct nucleus *out, const struct nucleus_row *row, struct sample_cand end)
{
    weigh_row(out, row, end);
}

const struct nucleus_passes nucleus_passes_base = {extent, sort, weigh};

const struct nucleus_passes *nucleus_passes_for(uint32_t isa)
{
#if defined(__x86_64__)
    if (isa & CPU_AVX512) return &nucleus_passes_avx512;
    if (isa & CPU_AVX2) return &nucleus_passes_avx2;
#endif
    (void)isa;
    return &nucleus_passes_base;
}

int nucleus_init(struct nucleus *tmp, int n_vocab)
{
    tmp->weight = calloc((size_t)n_vocab / NUCLEUS_BLOCK + 1, sizeof *tmp->weight);
    tmp->bucket = calloc((size_t)n_vocab + NUCLEUS_BLOCK, sizeof *tmp->bucket);
    tmp->id = calloc((size_t)n_vocab, sizeof *tmp->id);
    tmp->logit = calloc((size_t)n_vocab, sizeof *tmp->logit);
    return tmp->weight && tmp->bucket && tmp->id && tmp->logit ? 0 : LUTRA_E_NO_MEMORY;
}

void nucleus_fini(struct nucleus *tmp)
{
    free(tmp->weight);
    free(tmp->bucket);
    free(tmp->id);
    free(tmp->logit);
}

/* Where the running mass, best first, reaches `goal`. */
struct search {
    float max;     /* a logit's mass is exp(logit - max) */
    double before; /* mass of all that is better than what is looked into */
    double goal;
};

static float mass_of(const struct search *s, float logit)
{
    return weight_of(logit, s->max, LOG2_E);
}

/* The part of part[0 .. n-1] in which the goal is reached, s->before advanced to it; where rounding keeps the sum below
 * the goal, the last that holds any mass. */
static int find_part(struct search *s, const double *part, int n)
{
    double sum = s->before;
    int found = 0;
    for (int i = 0; i < n; i++) {
        if (part[i] <= 0) continue;
        found = i;
        s->before = sum;
        sum += part[i];
        if (sum >= s->goal) break;
    }
    return found;
}

/* Equal logits, by id: the sum after i + 1 of them is known without adding up. */
static int find_equal(const struct search *s, float logit, int n)
{
    double mass = mass_of(s, logit), skip = (s->goal - s->before) / mass - 2;
    int i = skip > 0 ? (int)(skip < n ? skip : n - 1) : 0;
    while (i < n - 1 && s->before + (i + 1) * mass < s->goal) i++;
    return i;
}

static struct sample_cand find_sorted(const struct search *s, const struct nucleus *tmp, int n)
{
    struct sample_cand cand[FEW];
    double sum = s->before;
    int last = 0;
    for (int i = 0; i < n; i++) cand[i] = (struct sample_cand){tmp->id[i], tmp->logit[i]};
    select_sort(cand, n);
    for (int i = 0; i < n; i++) {
        last = i;
        sum += (double)mass_of(s, cand[i].logit);
        if (sum >= s->goal) break;
    }
    return cand[last];
}

struct division {
    int32_t high; /* the best key: part 0 begins there */
    int shift;
};

static uint32_t part_of(struct division d, float logit)
{
    return ((uint32_t)d.high - (uint32_t)select_key(logit)) >> d.shift;
}

/* All n are equal: false. */
static bool divide(const float *logit, int n, struct division *out)
{
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (int i = 0; i < n; i++) {
        int32_t key = select_key(logit[i]);
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    *out = (struct division){high, 0};
    while (((uint32_t)high - (uint32_t)low) >> out->shift >= NUCLEUS_BUCKETS) out->shift++;
    return low != high;
}

static void sum_parts(const struct search *s, struct division d, const float *logit, int n, double *part)
{
    float mass[NUCLEUS_BLOCK];
    memset(part, 0, NUCLEUS_BUCKETS * sizeof *part);
    for (int at = 0; at < n; at += NUCLEUS_BLOCK) {
        int m = n - at < NUCLEUS_BLOCK ? n - at : NUCLEUS_BLOCK;
        for (int i = 0; i < m; i++) mass[i] = mass_of(s, logit[at + i]);
        for (int i = 0; i < m; i++) part[part_of(d, logit[at + i])] += mass[i];
    }
}

static int keep_part(struct nucleus *tmp, int n, struct division d, uint32_t part)
{
    int left = 0;
    for (int i = 0; i < n; i++) {
        if (part_of(d, tmp->logit[i]) != part) continue;
        tmp->id[left] = tmp->id[i];
        tmp->logit[left++] = tmp->logit[i];
    }
    return left;
}

/* Among the n >= 1 gathered.  Each round divides the range of their keys by NUCLEUS_BUCKETS: at most four. */
static struct sample_cand find_among(struct search s, struct nucleus *tmp, int n)
{
    struct division d;
    while (n > FEW) {
        if (!divide(tmp->logit, n, &d)) {
            int at = find_equal(&s, tmp->logit[0], n);
            return (struct sample_cand){tmp->id[at], tmp->logit[at]};
        }
        sum_parts(&s, d, tmp->logit, n, tmp->mass);
        n = keep_part(tmp, n, d, (uint32_t)find_part(&s, tmp->mass, NUCLEUS_BUCKETS));
    }
    return find_sorted(&s, tmp, n);
}

static bool any_of(const uint16_t *bucket, int n, uint16_t wanted)
{
    uint16_t any = 0;
    for (int i = 0; i < n; i++) any |= (uint16_t)(bucket[i] == wanted);
    return any != 0;
}

/* The logits of a bucket, in order of id.  Returns how many. */
static int gather(struct nucleus *tmp, const struct nucleus_row *row, int bucket)
{
    enum { FIRST = NUCLEUS_BLOCK, THEN = 16 };
    uint16_t wanted = (uint16_t)bucket;
    int n = 0;
    for (int at = 0; at < row->n; at += THEN) {
        if (at % FIRST == 0 && !any_of(tmp->bucket + at, FIRST, wanted)) {
            at += FIRST - THEN;
            continue;
        }
        if (!any_of(tmp->bucket + at, THEN, wanted)) continue;
        int stop = at + THEN < row->n ? at + THEN : row->n;
        for (int i = at; i < stop; i++) {
            if (tmp->bucket[i] != wanted || row->logit[i] == -INFINITY) continue;
            tmp->id[n] = i;
            tmp->logit[n++] = row->logit[i];
        }
    }
    return n;
}

/* The worst element that top-p keeps, but none worse than the floor. */
static struct sample_cand find_end(struct nucleus *tmp, const struct nucleus_passes *passes, struct nucleus_row *row,
    float depth, float top_p, struct sample_cand floor)
{
    struct search s = {.max = row->max};
    if (depth == 0) {
        s.goal = (double)top_p * row->n;
        return (struct sample_cand){find_equal(&s, row->max, row->n), row->max};
    }
    row->per_nat = depth > 1e-3f && depth < 32 ? NUCLEUS_BUCKETS / depth : 16;
    passes->sort(tmp, row);
    for (int b = 0; b < NUCLEUS_BUCKETS; b++) s.goal += tmp->mass[b];
    s.goal *= (double)top_p;
    int b = find_part(&s, tmp->mass, NUCLEUS_BUCKETS);
    if (nucleus_bucket(row, floor.logit) < b) return floor;
    struct sample_cand end = find_among(s, tmp, gather(tmp, row, b));
    return select_is_worse(end, floor) ? floor : end;
}

/* The token whose weight takes the running sum above u times the total. */
static int32_t draw_by_weight(
    const struct nucleus *tmp, const struct nucleus_row *row, struct sample_cand end, double u)
{
    int n_block = (row->n + NUCLEUS_BLOCK - 1) / NUCLEUS_BLOCK, block = 0;
    double total = 0, sum = 0, before = 0;
    for (int b = 0; b < n_block; b++) total += tmp->weight[b];
    for (int b = 0; b < n_block && sum <= u * total; b++) {
        if (tmp->weight[b] <= 0) continue;
        block = b;
        before = sum;
        sum += tmp->weight[b];
    }
    float weight[NUCLEUS_BLOCK];
    weigh_block(row, block * NUCLEUS_BLOCK, end, weight);
    int last = 0;
    for (int i = 0; i < NUCLEUS_BLOCK && before <= u * total; i++) {
        if (weight[i] <= 0) continue;
        last = i;
        before += (double)weight[i];
    }
    return block * NUCLEUS_BLOCK + last;
}

int32_t nucleus_draw(struct nucleus *tmp, const struct nucleus_passes *passes, const struct sample_settings *set,
    const float *logit, int n_vocab, struct row_extent extent, double u)
{
    float max = extent.max, floor = set->min_p > 0 ? max + logf(set->min_p) : -FLT_MAX;
    struct nucleus_row row = {.logit = logit, .n = n_vocab, .max = max, .heat = heat_of(set->temperature)};
    struct sample_cand end = {INT32_MAX, fmaxf(floor, -FLT_MAX)};
    if (set->top_p < 1) end = find_end(tmp, passes, &row, max - extent.min, set->top_p, end);
    passes->weigh(tmp, &row, end);
    return draw_by_weight(tmp, &row, end, u);
}
