/* SPDX-License-Identifier: MIT
 *
 * Numbers as people and LaTeX write them, read into one canonical spelling (answer.h lists the forms).
 */
#ifndef LUTRA_SEARCH_ANSWER_NUMBER_H
#define LUTRA_SEARCH_ANSWER_NUMBER_H

enum { ANSWER_NUMBER_BYTES = 128 };

/* Reads the longest number at p and writes its canonical spelling; returns its end, or NULL (out untouched) when no
 * number stands there or it has more than about 40 digits.  Allocates nothing. */
const char *answer_number_read(const char *p, const char *end, char out[ANSWER_NUMBER_BYTES]);

#endif
