/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void log_init(struct log *log, lutra_log_fn fn, void *user, enum lutra_log_level level)
{
    *log = (struct log){.fn = fn, .user = user, .level = level};
    pthread_mutex_init(&log->mutex, NULL);
}

void log_fini(struct log *log)
{
    pthread_mutex_destroy(&log->mutex);
}

bool log_wants(const struct log *log, enum lutra_log_level level)
{
    return log && log->fn && level <= log->level;
}

void log_line(struct log *log, enum lutra_log_level level, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    if (!log_wants(log, level)) return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&log->mutex);
    log->fn(log->user, level, line);
    pthread_mutex_unlock(&log->mutex);
}
