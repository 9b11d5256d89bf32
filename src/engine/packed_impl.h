/* SPDX-License-Identifier: MIT
 *
 * The packed copy of a model, found when it is opened, and what is kept beside it (packed.c).
 */
#ifndef LUTRA_ENGINE_PACKED_IMPL_H
#define LUTRA_ENGINE_PACKED_IMPL_H

#include "engine/model.h"

/* Opens the packed copy that was asked for.  It only saves time: one that does not fit is left out with a warning in
 * the log. */
int packed_cache_open(struct lutra_model *m, const struct lutra_model_settings *set, struct lutra_error *err);
/* Gives the weights what it holds of them for their devices; before they are prepared. */
void packed_cache_find(struct lutra_model *m);
/* After that: where all copies were compared and are good, this file need not be compared again. */
void packed_cache_known(const struct lutra_model *m);

/* What the rows of a pass cost, as earlier sessions have measured it on this machine: kept with the model and, where it
 * has a packed copy, in a file beside that. */
void packed_costs_read(lutra_session *s);
void packed_costs_write(const lutra_session *s);

#endif
