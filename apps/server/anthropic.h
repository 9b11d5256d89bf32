/* SPDX-License-Identifier: MIT */
#ifndef LUTRA_SERVER_ANTHROPIC_H
#define LUTRA_SERVER_ANTHROPIC_H

#include "dialect.h"

void anthropic_error(const struct problem *p, struct text *out); /* Anthropic's error object */

#endif
