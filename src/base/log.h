/* SPDX-License-Identifier: MIT
 *
 * Log lines on their way to the callback that the runtime was given.  The library itself never prints.
 *
 * Owned by the runtime and passed down; a NULL log, or one without a callback, drops everything.  log_line may be
 * called from any thread: lines arrive whole, one call at a time.  Allocates nothing.
 */
#ifndef LUTRA_BASE_LOG_H
#define LUTRA_BASE_LOG_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

struct log {
    lutra_log_fn fn; /* may be NULL */
    void *user;
    enum lutra_log_level level; /* lines above it (less important) are dropped */
    pthread_mutex_t mutex;
};

void log_init(struct log *log, lutra_log_fn fn, void *user, enum lutra_log_level level);
void log_fini(struct log *log);

/* Whether a line of this level would arrive: ask before doing work for a message. */
bool log_wants(const struct log *log, enum lutra_log_level level);

/* One line, no newline at its end; cut after 1023 bytes. */
void log_line(struct log *log, enum lutra_log_level level, const char *fmt, ...) LUTRA_PRINTF(3, 4);

#endif
