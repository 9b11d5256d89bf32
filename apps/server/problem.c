/* SPDX-License-Identifier: MIT */
#include "problem.h"

#include <stdarg.h>
#include <stdio.h>

void problem_set(struct problem *p, int status, const char *code, const char *param, const char *format, ...)
{
    va_list args;
    if (p->status) return;
    p->status = status;
    p->code = code;
    snprintf(p->param, sizeof p->param, "%s", param ? param : "");
    va_start(args, format);
    vsnprintf(p->what, sizeof p->what, format, args);
    va_end(args);
    if (status == 429 || status == 503) p->retry_s = 1;
}

void problem_from(struct problem *p, const char *param, const struct lutra_error *err)
{
    static const struct {
        int code, status;
        const char *name;
    } known[] = {
        {LUTRA_E_FORMAT, 400, "invalid_value"},
        {LUTRA_E_ARGUMENT, 400, "invalid_value"},
        {LUTRA_E_UNSUPPORTED, 400, "unsupported_value"},
        {LUTRA_E_CTX_FULL, 400, "context_length_exceeded"},
        {LUTRA_E_NOT_FOUND, 404, "not_found"},
        {LUTRA_E_BUSY, 429, "queue_full"},
        {LUTRA_E_DEADLINE, 503, "deadline"},
        {LUTRA_E_NO_MEMORY, 503, "out_of_memory"},
    };
    int status = 500;
    const char *name = "internal_error";
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == err->code) {
            status = known[i].status;
            name = known[i].name;
        }
    problem_set(p, status, name, param, "%s", err->what[0] ? err->what : lutra_status_text(err->code));
}

const char *problem_type(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
    }
}
