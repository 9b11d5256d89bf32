/* SPDX-License-Identifier: MIT
 *
 * Why a request is refused: an HTTP status and what the dialects' error objects say.
 */
#ifndef LUTRA_SERVER_PROBLEM_H
#define LUTRA_SERVER_PROBLEM_H

#include <stdbool.h>

#include "lutra.h"

struct problem {
    int status;       /* of HTTP; 0 = none */
    const char *code; /* "context_length_exceeded", ...; NULL = none */
    char param[96];   /* the field at fault; "" = none */
    char what[640];
    int retry_s;         /* Retry-After; 0 = none */
    int n_prompt, n_ctx; /* of context_length_exceeded */
    const char *allow;   /* the methods of a 405; NULL = none */
};

/* The first problem stays.  param may be NULL. */
void problem_set(struct problem *p, int status, const char *code, const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* An error of the library, as the status that fits it. */
void problem_from(struct problem *p, const char *param, const struct lutra_error *err);
/* The type of OpenAI's error object for a status. */
const char *problem_type(int status);

#endif
