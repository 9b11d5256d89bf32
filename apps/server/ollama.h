/* SPDX-License-Identifier: MIT */
#ifndef LUTRA_SERVER_OLLAMA_H
#define LUTRA_SERVER_OLLAMA_H

#include "dialect.h"

void ollama_error(const struct problem *p, struct text *out); /* Ollama's error object */
void ollama_time(int64_t seconds, struct text *out);          /* as a JSON string */

#endif
