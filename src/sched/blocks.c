/* SPDX-License-Identifier: MIT
 *
 * Time of a plan, and the policies that make one.
 */
#include "sched/blocks.h"

#include <math.h>
#include <stdbool.h>

enum { DESCENT_SLOTS = 1 << 23 }; /* computed at most, from each start */

/* ---- the time of a plan ---- */

struct timeline {
    double computed_us, loaded_us;  /* what computes and what loads is free from then on */
    double free_us[BLOCKS_MAX];     /* the block has computed its last chunk before the switch */
    double switched_us[BLOCKS_MAX]; /* its load has ended */
};

static void load(const struct blocks_problem *p, struct timeline *t, int block, double from_us)
{
    t->loaded_us = fmax(t->loaded_us, from_us) + p->load_us[block];
    t->switched_us[block] = t->loaded_us;
}

struct blocks_time blocks_time(const struct blocks_problem *p, const struct blocks_plan *plan)
{
    struct timeline t = {0};
    for (int b = 0; b < p->n_block; b++)
        if (plan->before[b] == 0) load(p, &t, b, 0);
    for (int c = 0; c < p->n_chunk; c++)
        for (int b = 0; b < p->n_block; b++) {
            bool switched = c >= plan->before[b];
            if (switched) t.computed_us = fmax(t.computed_us, t.switched_us[b]);
            t.computed_us += switched ? p->decode_us[b] : p->prefill_us[b];
            if (c + 1 == plan->before[b] && plan->policy != BLOCKS_SYNCHRONOUS) load(p, &t, b, t.computed_us);
        }
    for (int b = 0; b < p->n_block && plan->policy == BLOCKS_SYNCHRONOUS; b++) load(p, &t, b, t.computed_us);
    return (struct blocks_time){t.computed_us, t.loaded_us, fmax(t.computed_us, t.loaded_us)};
}

/* ---- policies ---- */

static int check(const struct blocks_problem *p, struct lutra_error *err)
{
    if (p->n_block < 1 || p->n_block > BLOCKS_MAX)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "blocks: %d blocks; 1 to %d", p->n_block, BLOCKS_MAX);
    if (p->n_chunk < 1 || p->n_chunk > BLOCKS_CHUNKS_MAX)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "blocks: %d chunks; 1 to %d", p->n_chunk, BLOCKS_CHUNKS_MAX);
    for (int b = 0; b < p->n_block; b++) {
        const double us[] = {p->prefill_us[b], p->decode_us[b], p->load_us[b]};
        for (int i = 0; i < 3; i++)
            if (!isfinite(us[i]) || us[i] < 0)
                return lutra_fail(err, LUTRA_E_ARGUMENT, "blocks: block %d: a time of %g us", b, us[i]);
    }
    return 0;
}

/* The last block that is not switched and not among the k that compute next, first of them `next`; -1: none. */
static int last_outside(const struct blocks_problem *p, const bool *switched, int next, int k)
{
    for (int b = p->n_block - 1; b >= 0; b--)
        if (!switched[b] && (b - next + p->n_block) % p->n_block >= k) return b;
    return -1;
}

/* Equations 1 and 2, whose text is lost: the smallest k such that the next k blocks' computing, each under its current
 * graph, covers the load of the last block not switched outside those k.  Returns that block, and k; -1: there is none
 * before the prompt ends. */
static int next_round(const struct blocks_problem *p, const bool *switched, int slot, int *k)
{
    double us = 0;
    for (*k = 1; *k < p->n_block && slot + *k <= p->n_block * p->n_chunk; ++*k) {
        int next = (slot + *k - 1) % p->n_block;
        us += switched[next] ? p->decode_us[next] : p->prefill_us[next];
        int block = last_outside(p, switched, slot % p->n_block, *k);
        if (block < 0) return -1;
        if (us >= p->load_us[block]) return block;
    }
    return -1;
}

/* A slot is one block's computing of one chunk.  Loads that no computing covers follow the block's last chunk. */
static void plan_progressive(const struct blocks_problem *p, struct blocks_plan *out)
{
    bool switched[BLOCKS_MAX] = {0};
    for (int slot = 0, k; slot < p->n_block * p->n_chunk; slot += k) {
        int block = next_round(p, switched, slot, &k);
        if (block < 0) return;
        switched[block] = true;
        out->before[block] = slot / p->n_block + (block < slot % p->n_block ? 1 : 0);
    }
}

/* Moves the one switch whose move saves most.  Returns false: no move saves time, or `slots` are used up. */
static bool improve(const struct blocks_problem *p, struct blocks_plan *plan, long *slots)
{
    struct blocks_plan other = *plan;
    double start = blocks_time(p, plan).us, best = start;
    int best_block = 0, best_before = 0;
    for (int b = 0; b < p->n_block; b++) {
        for (int n = 0; n <= p->n_chunk && *slots > 0; n++, *slots -= (long)p->n_block * p->n_chunk) {
            other.before[b] = n;
            double us = blocks_time(p, &other).us;
            if (us < best) best = us, best_block = b, best_before = n;
        }
        other.before[b] = plan->before[b];
    }
    if (best < start) plan->before[best_block] = best_before;
    return best < start;
}

/* The plans that descent begins with: asynchronous, progressive, and switches spread over the prompt, the last block
 * first. */
enum { STARTS = 3 };

static int start_plan(const struct blocks_problem *p, int i, struct blocks_plan *out, struct lutra_error *err)
{
    TRY(blocks_plan_by(p, i == 1 ? BLOCKS_PROGRESSIVE : BLOCKS_ASYNCHRONOUS, out, err));
    out->policy = BLOCKS_DESCENT;
    for (int b = 0; i == 2 && b < p->n_block; b++) out->before[b] = p->n_chunk * (p->n_block - 1 - b) / p->n_block;
    return 0;
}

static int plan_descent(const struct blocks_problem *p, struct blocks_plan *out, struct lutra_error *err)
{
    double best = INFINITY;
    for (int i = 0; i < STARTS; i++) {
        struct blocks_plan plan;
        long slots = DESCENT_SLOTS;
        TRY(start_plan(p, i, &plan, err));
        while (improve(p, &plan, &slots)) continue;
        double us = blocks_time(p, &plan).us;
        if (us < best) best = us, *out = plan;
    }
    return 0;
}

/* Counts through all plans, the last block fastest. */
static bool next_plan(const struct blocks_problem *p, struct blocks_plan *plan)
{
    int b = p->n_block - 1;
    while (b >= 0 && plan->before[b] == p->n_chunk) plan->before[b--] = 0;
    if (b >= 0) plan->before[b]++;
    return b >= 0;
}

static int plan_exact(const struct blocks_problem *p, struct blocks_plan *out, struct lutra_error *err)
{
    if (p->n_block > BLOCKS_EXACT_BLOCKS || p->n_chunk > BLOCKS_EXACT_CHUNKS)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "blocks: exhaustive search takes at most %d blocks and %d chunks",
            BLOCKS_EXACT_BLOCKS, BLOCKS_EXACT_CHUNKS);
    struct blocks_plan plan = {.policy = BLOCKS_EXACT};
    double best = INFINITY;
    do {
        double us = blocks_time(p, &plan).us;
        if (us < best) best = us, *out = plan;
    } while (next_plan(p, &plan));
    return 0;
}

int blocks_plan_by(
    const struct blocks_problem *p, enum blocks_policy policy, struct blocks_plan *out, struct lutra_error *err)
{
    TRY(check(p, err));
    *out = (struct blocks_plan){.policy = policy};
    if (policy == BLOCKS_DESCENT) return plan_descent(p, out, err);
    if (policy == BLOCKS_EXACT) return plan_exact(p, out, err);
    for (int b = 0; b < p->n_block; b++) out->before[b] = p->n_chunk;
    if (policy == BLOCKS_PROGRESSIVE) plan_progressive(p, out);
    return 0;
}

int blocks_best(const struct blocks_problem *p, struct blocks_plan *out, struct lutra_error *err)
{
    double best = INFINITY;
    for (enum blocks_policy policy = BLOCKS_SYNCHRONOUS; policy <= BLOCKS_DESCENT; policy++) {
        struct blocks_plan plan;
        TRY(blocks_plan_by(p, policy, &plan, err));
        double us = blocks_time(p, &plan).us;
        if (us < best) best = us, *out = plan;
    }
    return 0;
}

const char *blocks_policy_name(enum blocks_policy policy)
{
    static const char *const names[] = {"synchronous", "asynchronous", "progressive", "descent", "exact"};
    return names[policy];
}
