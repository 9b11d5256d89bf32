/* SPDX-License-Identifier: MIT
 *
 * The answer of a worked solution in a canonical spelling, so that answers can be compared and counted.
 */
#ifndef LUTRA_DECODE_SEARCH_ANSWER_H
#define LUTRA_DECODE_SEARCH_ANSWER_H

#include <stddef.h>

/* Finds the answer: what follows the last "####" (GSM8K), stands in the last \boxed{} (MATH), or follows the last
 * "answer is"; else the last number.  Writes its canonical form, NUL-terminated and cut to n_max bytes; returns its
 * length, 0 when there is none.  Allocates nothing. */
size_t search_answer(const char *text, char *answer, size_t n_max);

#endif
