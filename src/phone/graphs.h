/* SPDX-License-Identifier: MIT
 *
 * The static graphs of a phone's NPU: each block of a model's layers has one for many rows or one for few, never both,
 * and is switched while a prompt is evaluated [SDNPU 4.2].
 *
 *     graphs_open(&g, list);                              every block has the graph for many rows
 *     if (graphs_begin(&g, n_row, n_ahead)) {             a pass; true: a prompt begins
 *         ... g.cost.prefill_us, decode_us, load_us of each block for n_row rows
 *         TRY(graphs_prompt(&g, now_us, err));
 *     }
 *     b = graphs_block(&g, op);  begin = max(begin, g.block[b].ready_us);  rows = graphs_rows(&g, b, n_row, &runs);
 *     graphs_computed(&g, first, n, n_row, end_us);       what was submitted; the block may switch behind it
 *
 * sched/blocks.h decides when.  A block that was switched computes a chunk as several runs of the graph for few rows.
 * Loads follow each other, and do not disturb what computes.  A prompt that begins when all blocks have graphs for few
 * rows gets the others back where that is predicted to be faster.  Times in us; no device is known here.
 */
#ifndef LUTRA_PHONE_GRAPHS_H
#define LUTRA_PHONE_GRAPHS_H

#include "ops/op.h"
#include "sched/blocks.h"

enum { GRAPHS_BLOCKS = 4, GRAPHS_MANY = 256, GRAPHS_FEW = 32 };

struct graphs_count {
    int n_prompt;
    int many, few, runs; /* blocks' passes in prompts by the graph for many rows, and for few, in so many runs */
    int decoding;        /* blocks' passes behind prompts */
    double load_us;      /* of all loads */
    uint64_t wait_us;    /* that computing waited for them */
    uint64_t loaded_us;  /* the last one is over */
    double predicted_us, synchronous_us; /* of prompts, with their loads: as planned; loads behind the prompt */
};

struct graphs {
    const struct op_list *list;
    bool synchronous; /* the caller's: loads behind the prompt */
    struct blocks_problem cost;
    struct blocks_plan plan;
    int chunk;      /* passes of the prompt that have begun, of cost.n_chunk; 0 of 0: no prompt yet */
    bool in_prompt; /* the pass is one of them */
    struct graphs_block {
        int last; /* its last product */
        bool few; /* which graph it has, or will have */
        uint64_t ready_us;
    } block[GRAPHS_BLOCKS]; /* [cost.n_block] */
    struct graphs_count count;
};

/* False: the list has no products in layers, and there is nothing to hold. */
bool graphs_open(struct graphs *g, const struct op_list *list);

/* A pass of n_row rows begins, behind which n_ahead rows of prompts wait.  True: a prompt begins with it. */
bool graphs_begin(struct graphs *g, int n_row, int n_ahead);
int graphs_prompt(struct graphs *g, uint64_t now_us, struct lutra_error *err);

/* -1: in none. */
int graphs_block(const struct graphs *g, const struct op *op);

/* Rows of the graph that a block has, and how often it runs. */
int graphs_rows(const struct graphs *g, int block, int n_row, int *runs);

/* Operations first .. first + n - 1 of the list are over at end_us. */
void graphs_computed(struct graphs *g, int first, int n, int n_row, uint64_t end_us);

/* Line 0, 1, ...: what was counted.  False: there is no such line. */
bool graphs_text(const struct graphs *g, int line, const char *name, char *text, size_t size);

#endif
