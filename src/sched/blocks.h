/* SPDX-License-Identifier: MIT
 *
 * When to switch the blocks of a model from the prefill graph to the decoding graph [SDNPU 4.2]: a pure function of
 * costs.
 *
 *     struct blocks_problem p = {.n_block = 4, .n_chunk = 2, .prefill_us = {..}, .decode_us = {..}, .load_us = {..}};
 *     TRY(blocks_best(&p, &plan, &err));
 *     blocks_time(&p, &plan).us;                                  until the first token can be decoded
 *
 * An NPU computes static graphs.  Prefill uses one for many rows, decoding one for few; memory holds one of them per
 * block.  The prompt's chunks go through the blocks in order, chunk by chunk, and one block computes at a time.  Each
 * block is switched once: its prefill graph is dropped and its decoding graph loaded, and until that is over the block
 * has neither and its next chunk waits.  One block loads at a time, beside the computing of other blocks; so memory
 * never holds more than the model.  After its switch a block computes a chunk as several sub-chunks of the decoding
 * graph's rows.
 *
 * A plan is the number of chunks that each block computes before its switch.  All else follows: computing and loading
 * start as early as they can, and loads go in the order in which their blocks become free.  No other order is better:
 * of two loads the block that became free first is also needed first, so exchanging them delays nothing.
 *
 * How a model is cut into blocks, a prompt into chunks, and the rows of the decoding graph are the caller's choice: it
 * solves a problem for each and takes the least time.
 */
#ifndef LUTRA_SCHED_BLOCKS_H
#define LUTRA_SCHED_BLOCKS_H

#include "base/status.h"

enum { BLOCKS_MAX = 64, BLOCKS_CHUNKS_MAX = 4096, BLOCKS_EXACT_BLOCKS = 6, BLOCKS_EXACT_CHUNKS = 4 };

/* Times in us, finite, not negative. */
struct blocks_problem {
    int n_block, n_chunk;
    double prefill_us[BLOCKS_MAX]; /* of a chunk under the prefill graph: p_i */
    double decode_us[BLOCKS_MAX];  /* of a chunk, all its sub-chunks, under the decoding graph: q_i */
    double load_us[BLOCKS_MAX];    /* of the decoding graph: l_i */
};

enum blocks_policy {
    BLOCKS_SYNCHRONOUS,  /* all loads after the prompt */
    BLOCKS_ASYNCHRONOUS, /* each load after the block's last chunk */
    BLOCKS_PROGRESSIVE,  /* [SDNPU Equations 1, 2] */
    BLOCKS_DESCENT,      /* several plans, those two among them, improved one block at a time; the best */
    BLOCKS_EXACT,        /* exhaustive search; at most BLOCKS_EXACT_BLOCKS and BLOCKS_EXACT_CHUNKS */
};

struct blocks_plan {
    enum blocks_policy policy;
    int before[BLOCKS_MAX]; /* chunks that the block computes under the prefill graph, 0..n_chunk */
};

struct blocks_time {
    double prefill_us; /* the last block has computed the last chunk */
    double load_us;    /* the last load has ended */
    double us;         /* the later of both: what a plan minimizes */
};

/* LUTRA_E_ARGUMENT: sizes or times out of range. */
int blocks_plan_by(
    const struct blocks_problem *p, enum blocks_policy policy, struct blocks_plan *out, struct lutra_error *err);

/* The plan with the least time of all policies but exhaustive search: never later than synchronous. */
int blocks_best(const struct blocks_problem *p, struct blocks_plan *out, struct lutra_error *err);

/* The plan must be of this problem. */
struct blocks_time blocks_time(const struct blocks_problem *p, const struct blocks_plan *plan);

const char *blocks_policy_name(enum blocks_policy policy);

#endif
