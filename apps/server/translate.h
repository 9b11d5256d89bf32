/* SPDX-License-Identifier: MIT
 *
 * From the engine's events to the dialect's bytes, in exchange.out.
 */
#ifndef LUTRA_SERVER_TRANSLATE_H
#define LUTRA_SERVER_TRANSLATE_H

#include "exchange.h"

void translate_events(struct exchange *x, const struct text *events);
/* No more events will come. */
void translate_end(struct exchange *x);

#endif
