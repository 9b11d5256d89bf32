/* SPDX-License-Identifier: MIT */
#include "decode/sample/select_impl.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    HEAP_MAX = 256, /* up to here a heap beats the histogram */
    SKIP_BLOCK = 32,
};

/* Histogram buckets below the largest logit, per nat. */
static const float BUCKETS_PER_NAT = 64.0f;

int32_t select_argmax(const float *logits, int n, float max)
{
    for (int i = 0; i < n; i++)
        if (logits[i] == max) return i;
    return -1;
}

bool select_is_worse(struct sample_cand a, struct sample_cand b)
{
    return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
}

/* Heap with the worst candidate at the root. */
static void sift_down(struct sample_cand *heap, int n, int at)
{
    struct sample_cand moving = heap[at];
    for (int child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && select_is_worse(heap[child + 1], heap[child])) child++;
        if (!select_is_worse(heap[child], moving)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void make_heap(struct sample_cand *heap, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(heap, n, i);
}

/* Best first.  In place: the C library's qsort may allocate. */
static void sort_heap(struct sample_cand *heap, int n)
{
    for (int last = n - 1; last > 0; last--) {
        struct sample_cand worst = heap[0];
        heap[0] = heap[last];
        heap[last] = worst;
        sift_down(heap, last, 0);
    }
}

void select_sort(struct sample_cand *cand, int n)
{
    make_heap(cand, n);
    sort_heap(cand, n);
}

/* ---- one after another ---- */

static void sink(struct sample_cand *heap, int n, int at)
{
    struct sample_cand moving = heap[at];
    for (int child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && select_is_worse(heap[child], heap[child + 1])) child++;
        if (!select_is_worse(moving, heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

struct select_queue select_queue(struct sample_cand *cand, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--) sink(cand, n, i);
    return (struct select_queue){cand, n, n};
}

static void swap(struct sample_cand *a, struct sample_cand *b)
{
    struct sample_cand was = *a;
    *a = *b;
    *b = was;
}

struct sample_cand select_next(struct select_queue *q)
{
    swap(&q->cand[0], &q->cand[--q->n_left]);
    sink(q->cand, q->n_left, 0);
    return q->cand[q->n_left];
}

int select_taken(struct select_queue *q)
{
    int n = q->n - q->n_left;
    struct sample_cand *taken = q->cand + q->n_left;
    for (int i = 0; i < n / 2; i++) swap(&taken[i], &taken[n - 1 - i]);
    memmove(q->cand, taken, (size_t)n * sizeof *taken);
    return n;
}

/* ---- of a row ---- */

static int drop_forbidden(const struct sample_cand *cand, int n)
{
    while (n > 0 && cand[n - 1].logit == -INFINITY) n--;
    return n;
}

/* Ids come in ascending order, so a later equal logit never displaces an earlier one. */
static int top_k_by_heap(const float *logits, int n, int k, struct sample_cand *cand)
{
    for (int i = 0; i < k; i++) cand[i] = (struct sample_cand){i, logits[i]};
    make_heap(cand, k);
    int i = k;
    while (i < n) {
        if (i + SKIP_BLOCK <= n) {
            float floor = cand[0].logit;
            int any = 0;
            for (int j = 0; j < SKIP_BLOCK; j++) any |= logits[i + j] > floor;
            if (!any) {
                i += SKIP_BLOCK;
                continue;
            }
        }
        int end = i + SKIP_BLOCK < n ? i + SKIP_BLOCK : n;
        for (; i < end; i++) {
            if (logits[i] <= cand[0].logit) continue;
            cand[0] = (struct sample_cand){i, logits[i]};
            sift_down(cand, k, 0);
        }
    }
    sort_heap(cand, k);
    return drop_forbidden(cand, k);
}

static int bucket_of(float x, float max)
{
    float depth = (max - x) * BUCKETS_PER_NAT;
    return depth < SELECT_BUCKETS - 1 ? (int)depth : SELECT_BUCKETS - 1;
}

/* All logits of buckets 0 .. last, best first. */
static int gather(const float *logits, int n, int last, float max, struct sample_cand *cand)
{
    int m = 0;
    for (int i = 0; i < n; i++)
        if (bucket_of(logits[i], max) <= last && logits[i] > -INFINITY) cand[m++] = (struct sample_cand){i, logits[i]};
    select_sort(cand, m);
    return m;
}

int select_top_k(const float *logits, int n, int k, float max, struct sample_cand *cand, struct select_scratch *tmp)
{
    if (k <= HEAP_MAX) return top_k_by_heap(logits, n, k, cand);
    memset(tmp->count, 0, sizeof tmp->count);
    for (int i = 0; i < n; i++) tmp->count[bucket_of(logits[i], max)]++;
    int last = 0;
    for (int seen = tmp->count[0]; seen < k && last < SELECT_BUCKETS - 1;) seen += tmp->count[++last];
    int m = gather(logits, n, last, max, cand);
    return m < k ? m : k;
}

int select_prefix(const struct sample_cand *cand, int n, float mass, float max, double total)
{
    double sum = 0, goal = (double)mass * total;
    for (int i = 0; i < n; i++) {
        sum += (double)weight_of(cand[i].logit, max, LOG2_E);
        if (sum >= goal) return i + 1;
    }
    return n;
}
