/* SPDX-License-Identifier: MIT
 *
 * What a pass costs by the number of its rows: counted at first, measured as passes go by.
 *
 *     row_cost_init(&c, 0.09, 1e-5);             a row beside the first, a position seen: in passes that only read the
 *     weights row_cost_learn(&c, n_row, n_seen, us);     after each pass of decoding
 *     row_cost_of(&c, 8, 8 * 1024)               to compare: microseconds once something was learnt
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
    double prompt_row_us;      /* of a prompt's row beside others; < 0: not yet */
    double all_us, missed_us;  /* of all passes; by how much those of new row counts were above their estimates */
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

/* What a pass of n_prompt rows of prompts and n_other others, which see n_seen positions, says of the former: a few
 * rows cost what one does, and say nothing. */
void row_cost_learn_prompt(struct row_cost *c, int n_prompt, int n_other, double n_seen, uint64_t us);

/* How many rows of prompts make a pass of n_other others take about `us`; `unknown` before any were learnt. */
double row_cost_prompt_rows(const struct row_cost *c, int n_other, double n_seen, uint64_t us, double unknown);

/* How many rows a pass holds at about the cost of one (1.6 of it, as device_caps.flat_rows is meant), at most `most`;
 * `known` until passes of different sizes were measured. */
int row_cost_flat(const struct row_cost *c, int known, int most);

#endif
