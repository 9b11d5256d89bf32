/* SPDX-License-Identifier: MIT */
#ifndef LUTRA_SERVER_LLAMA_H
#define LUTRA_SERVER_LLAMA_H

#include "dialect.h"

/* llama.cpp's error object. */
void llama_error(const struct problem *p, struct text *out);

#endif
