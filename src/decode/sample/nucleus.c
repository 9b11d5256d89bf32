/* SPDX-License-Identifier: MIT */
#include "decode/sample/nucleus_impl.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "decode/sample/nucleus_fill_impl.h"

enum { FEW = 48 }; /* candidates that are sorted rather than divided */

void nucleus_fill_base(struct nucleus *out, const struct nucleus_row *row, float temperature)
{
    fill(out, row, temperature);
}

nucleus_fill *nucleus_fill_for(uint32_t isa)
{
#if defined(__x86_64__)
    if (isa & CPU_AVX512) return nucleus_fill_avx512;
    if (isa & CPU_AVX2) return nucleus_fill_avx2;
#endif
    (void)isa;
    return nucleus_fill_base;
}

int nucleus_init(struct nucleus *tmp, int n_vocab)
{
    tmp->bucket = calloc((size_t)n_vocab + NUCLEUS_BLOCK, sizeof *tmp->bucket);
    tmp->id = calloc((size_t)n_vocab, sizeof *tmp->id);
    tmp->logit = calloc((size_t)n_vocab, sizeof *tmp->logit);
    return tmp->bucket && tmp->id && tmp->logit ? 0 : LUTRA_E_NO_MEMORY;
}

void nucleus_fini(struct nucleus *tmp)
{
    free(tmp->bucket);
    free(tmp->id);
    free(tmp->logit);
}

/* Where a running sum, best first, passes `goal`. */
struct search {
    float max, heat; /* an element's mass is exp((logit - max) / heat) */
    double before;   /* mass of all that is better than what is looked into */
    double goal;
    bool above; /* passed when the sum is above the goal; else when it has reached it */
};

static float mass_of(const struct search *s, float logit)
{
    return exp_nonpos((logit - s->max) / s->heat);
}

static bool passes(const struct search *s, double sum)
{
    return s->above ? sum > s->goal : sum >= s->goal;
}

/* The part of part[0 .. n-1] in which the goal is passed, s->before advanced to it; where rounding keeps the sum below
 * the goal, the last that holds any mass. */
static int find_part(struct search *s, const double *part, int n, int stride)
{
    double sum = s->before;
    int found = 0;
    for (int i = 0; i < n; i++) {
        if (part[i * stride] <= 0) continue;
        found = i;
        s->before = sum;
        sum += part[i * stride];
        if (passes(s, sum)) break;
    }
    return found;
}

/* Equal logits, by id: the sum after i + 1 of them is known without adding up. */
static int find_equal(const struct search *s, float logit, int n)
{
    double mass = mass_of(s, logit), skip = mass > 0 ? (s->goal - s->before) / mass - 2 : 0;
    int i = skip > 0 ? (int)(skip < n ? skip : n - 1) : 0;
    while (i < n - 1 && !passes(s, s->before + (i + 1) * mass)) i++;
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
        float mass = mass_of(s, cand[i].logit);
        if (mass <= 0) break;
        last = i;
        if (passes(s, sum += mass)) break;
    }
    return cand[last];
}

/* Integers in the order of floats; both zeros are one. */
static int32_t order_key(float x)
{
    int32_t bits = (int32_t)f32_bits(x + 0.0f);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

struct division {
    int32_t high; /* the best key: part 0 begins there */
    int shift;
};

static uint32_t part_of(struct division d, float logit)
{
    return ((uint32_t)d.high - (uint32_t)order_key(logit)) >> d.shift;
}

/* All n are equal: false. */
static bool divide(const float *logit, int n, struct division *out)
{
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (int i = 0; i < n; i++) {
        int32_t key = order_key(logit[i]);
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
        sum_parts(&s, d, tmp->logit, n, tmp->part);
        n = keep_part(tmp, n, d, (uint32_t)find_part(&s, tmp->part, NUCLEUS_BUCKETS, 1));
    }
    return find_sorted(&s, tmp, n);
}

static bool any_of(const uint16_t *bucket, int n, uint16_t wanted)
{
    uint16_t any = 0;
    for (int i = 0; i < n; i++) any |= (uint16_t)(bucket[i] == wanted);
    return any != 0;
}

/* The logits of a bucket that are not worse than `end`, in order of id.  Returns how many. */
static int gather(struct nucleus *tmp, const struct nucleus_row *row, int bucket, struct sample_cand end)
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
            struct sample_cand c = {i, row->logit[i]};
            if (tmp->bucket[i] != wanted || c.logit == -INFINITY || select_is_worse(c, end)) continue;
            tmp->id[n] = c.id;
            tmp->logit[n++] = c.logit;
        }
    }
    return n;
}

static double sum_gathered(const struct search *s, const struct nucleus *tmp, int n)
{
    float mass[NUCLEUS_BLOCK];
    double sum = 0;
    for (int at = 0; at < n; at += NUCLEUS_BLOCK) {
        int m = n - at < NUCLEUS_BLOCK ? n - at : NUCLEUS_BLOCK;
        for (int i = 0; i < m; i++) mass[i] = mass_of(s, tmp->logit[at + i]);
        for (int i = 0; i < m; i++) sum += mass[i];
    }
    return sum;
}

/* The worst element that top-p and min-p keep; its id is that of no token where min-p's floor decides. */
static struct sample_cand find_end(
    struct nucleus *tmp, const struct nucleus_row *row, const struct sample_settings *set)
{
    struct sample_cand all = {INT32_MAX, -INFINITY}, floor = all;
    struct search s = {.max = row->max, .heat = 1};
    if (set->min_p > 0) floor.logit = row->max + logf(set->min_p);
    for (int b = 0; b < NUCLEUS_BUCKETS; b++) s.goal += tmp->mass[0][b][OF_MODEL];
    s.goal *= (double)set->top_p;
    int b = find_part(&s, &tmp->mass[0][0][OF_MODEL], NUCLEUS_BUCKETS, 2);
    if (nucleus_bucket(row, floor.logit) < b) return floor;
    struct sample_cand end = find_among(s, tmp, gather(tmp, row, b, all));
    return select_is_worse(end, floor) ? floor : end;
}

/* 16 buckets per nat reach 32 nats down; a flatter row is divided finer. */
static struct nucleus_row describe(const float *logit, int n, float max, float temperature)
{
    enum { LANES = 32 };
    float low[LANES];
    for (int j = 0; j < LANES; j++) low[j] = max;
    for (int i = 0; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) low[j] = logit[i + j] < low[j] ? logit[i + j] : low[j];
    for (int j = 1; j < LANES; j++) low[0] = low[j] < low[0] ? low[j] : low[0];
    for (int i = n - n % LANES; i < n; i++) low[0] = logit[i] < low[0] ? logit[i] : low[0];
    float depth = max - low[0];
    return (struct nucleus_row){
        .logit = logit,
        .n = n,
        .max = max,
        .flat = depth == 0,
        .per_nat = depth > 1e-3f && depth < 32 ? NUCLEUS_BUCKETS / depth : 16,
        .shallow = depth < 87 && depth / temperature < 87,
    };
}

/* n equal logits: of the first that hold top_p of all. */
static int32_t draw_flat(int n, float top_p, double u)
{
    struct search s = {.heat = 1, .goal = (double)top_p * n};
    int kept = find_equal(&s, 0, n) + 1;
    s = (struct search){.heat = 1, .goal = u * kept, .above = true};
    return find_equal(&s, 0, kept);
}

int32_t nucleus_draw(struct nucleus *tmp, nucleus_fill *fill_row, const struct sample_settings *set, const float *logit,
    int n_vocab, float max, double u)
{
    struct nucleus_row row = describe(logit, n_vocab, max, set->temperature);
    if (row.flat) return draw_flat(n_vocab, set->top_p, u);
    fill_row(tmp, &row, set->temperature);
    struct sample_cand end = find_end(tmp, &row, set);
    struct search s = {.max = max, .heat = set->temperature, .above = true};
    int last = nucleus_bucket(&row, end.logit), n = gather(tmp, &row, last, end);
    double *mass = &tmp->mass[0][0][OF_DRAW], total = 0;
    mass[2 * last] = sum_gathered(&s, tmp, n);
    for (int b = 0; b <= last; b++) total += mass[2 * b];
    s.goal = u * total;
    int b = find_part(&s, mass, last + 1, 2);
    if (b != last) n = gather(tmp, &row, b, end);
    return find_among(s, tmp, n).id;
}
