/* SPDX-License-Identifier: MIT
 *
 * The passes of a session as a file for trace viewers (Chrome's trace event format: complete events, microseconds).
 */
#ifndef LUTRA_SCHED_TIMELINE_H
#define LUTRA_SCHED_TIMELINE_H

#include "sched/waits.h"

struct timeline;

/* Sets waits->told.  LUTRA_E_IO, LUTRA_E_NO_MEMORY. */
int timeline_open(struct timeline **out, const char *path, struct waits *waits, struct lutra_error *err);

/* The file appears; sets *timeline to NULL.  LUTRA_E_IO: it does not. */
int timeline_close(struct timeline **timeline, struct lutra_error *err);

#endif
