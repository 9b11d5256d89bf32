/* SPDX-License-Identifier: MIT
 *
 * Inside of a pass (phone.h): the engine's own plans, and what both kinds of plans add up.
 */
#ifndef LUTRA_SIM_PIECES_H
#define LUTRA_SIM_PIECES_H

#include "sim/phone.h"

/* One pass by SIM_ONE, SIM_CLASS or SIM_HYBRID; adds to r. */
int sim_add_pieces(const struct sim_question *q, struct sim_result *r, struct lutra_error *err);

/* Of each product of a layer the outputs that SIM_HYBRID's processors have of whole blocks, in SIM_GRIDths: as solved
 * for a whole pass of them, so that no row's values depend on the prompt's length. */
int sim_cut_blocks(const struct sim_question *q, int part[SIM_OPS][SIM_UNITS], struct lutra_error *err);

/* `times` over: us in which processors are busy, the host waits, and bytes go through memory. */
void sim_add_work(struct sim_result *r, const struct soc_profile *p, enum sim_end end, double times, double us,
    const double busy_us[SIM_UNITS], double wait_us, double bytes);

#endif
