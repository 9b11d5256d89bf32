/* SPDX-License-Identifier: MIT
 *
 * What a pass costs by the number of its rows: counted at first, measured as passes go by.
 *
 *     row_cost_init(&c, 0.09, 1e-5);             a row beside the first, a position that a row's attention reads, where
 *                                                a pass that only reads the weights is 1
 *     row_cost_learn(&c, n_row, n_seen, us);     after each pass of decoding
 *     row_cost_of(&c, 8, 8 * 1024)               to compare: microseconds once something was learnt
 *
 *     row_cost_learn_mixed(&c, work, &others, us);               after each pass with rows of prompts
 *     work = row_cost_prompt_work(&c, &others, 100000);          how much of prompts takes a pass to 100 ms
 *     n = row_cost_rows(&c, pos, work);                          as rows from position pos on
 *
 * Times are those of a machine that has other work, too: an estimate follows faster passes at once and slower ones
 * slowly. Row counts that were not tried count as the cheapest that they may be, so that they are, until what proved
 * dearer has cost 3 % of the time: then they lie on the line between their neighbours.  More rows never cost less.
 * What was measured long ago and seems dear is doubted: else one slow pass could keep drafts away for good.
 *
 * What follows from a time is how many rows are drafted, never a text.
 */
#ifndef LUTRA_DECODE_ROW_COST_H
#define LUTRA_DECODE_ROW_COST_H

#include <stdbool.h>
#include <stdint.h>

enum { ROW_COST_KNOTS = 34 };

struct row_cost {
    double row, seen; /* of a pass that only reads the weights: a row; a position that a row's attention reads */
    double us[ROW_COST_KNOTS]; /* measured around so many rows (row_cost.c), per counted unit; 0: not yet */
    int idle[ROW_COST_KNOTS];  /* passes since */
    struct row_cost_mixed {    /* averages over passes with rows of prompts */
        double work, us;       /* work of the prompts; the whole pass.  work 0: there was none */
        double other_us;       /* row_cost_of the others */
    } mixed;
    double all_us, missed_us; /* of all passes; by how much those of new row counts were above their estimates */
};

/* A row beside the first, in passes that only read the weights: they are `bytes`, of which a row takes `mac`
 * multiply-accumulates.  flat_rows as the device has it, which means Q4_0: so many rows take 0.7 of the weights'
 * reading (on the 1.5B shape 8 rows take 1.6 of one row's time: measured, 2 threads).  With other types a MAC takes as
 * long, and the reading as long as its bytes. */
double row_cost_counted(int flat_rows, double mac, double bytes);

void row_cost_init(struct row_cost *c, double row, double seen);

/* What an earlier run has learnt: its us. */
void row_cost_know(struct row_cost *c, const double us[ROW_COST_KNOTS]);

/* Whether anything was measured: costs are microseconds. */
bool row_cost_known(const struct row_cost *c);

/* n_seen: positions that its rows see, added up. */
double row_cost_of(const struct row_cost *c, int n_row, double n_seen);

void row_cost_learn(struct row_cost *c, int n_row, double n_seen, uint64_t us);

/* The rows of a pass that are not of prompts. */
struct row_cost_others {
    int n_row;
    double n_seen; /* positions that they see, added up */
};

/* The work of n rows of a prompt from position pos on, in rows without a context: later rows read more of the cache. */
double row_cost_work(const struct row_cost *c, int pos, int n);
/* How many rows from position pos on come to at most so much work. */
int row_cost_rows(const struct row_cost *c, int pos, double work);

/* A pass with so much work of prompts took us.  That of few rows is lost in what the others take, and says nothing. */
void row_cost_learn_mixed(struct row_cost *c, double work, const struct row_cost_others *o, uint64_t us);

/* How much work of prompts takes a pass to `us`; at most 0: none, or nothing was measured.  It lies on the line through
 * the average pass: down from there as steep as the others' estimate leaves it, up as if the prompts were all that
 * takes time, so that no error of that estimate makes a pass long. */
double row_cost_prompt_work(const struct row_cost *c, const struct row_cost_others *o, uint64_t us);

/* How many rows a pass holds at about the cost of one (1.6 of it, as device_caps.flat_rows is meant), at most `most`;
 * `known` until passes of different sizes were measured. */
int row_cost_flat(const struct row_cost *c, int known, int most);

#endif
