/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

const char *lutra_status_text(int code)
{
    switch (code) {
#define STATUS_TEXT(name, value, text)                                                                                 \
    case name: return text;
        LUTRA_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

static void describe(struct lutra_error *err, int code, uint64_t where, const char *fmt, va_list ap)
{
    if (!err) return;
    err->code = code;
    err->where = where;
    vsnprintf(err->what, sizeof err->what, fmt, ap);
}

int lutra_fail(struct lutra_error *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    describe(err, code, 0, fmt, ap);
    va_end(ap);
    return code;
}

int lutra_fail_at(struct lutra_error *err, int code, uint64_t where, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    describe(err, code, where, fmt, ap);
    va_end(ap);
    return code;
}
