/* SPDX-License-Identifier: MIT
 *
 * The answer of a worked solution in a canonical spelling, so that answers can be compared and counted.
 *
 * Where it stands: behind the last "####" (GSM8K) that is no heading, else in the last \boxed{} that holds something
 * (MATH), else behind the last "answer is", "answer:" and their kin, else it is the last number of a line that is no
 * remark.  A box behind a "####" is worth more.  How it is spelt:
 *
 *     1,234.50  $1,234.5  1234.5 dollars     1234.5       numbers lose commas, currency, units and idle zeros
 *     50\%  50 %                             50
 *     \frac{2}{4}  \dfrac12  1/2  0.50       0.5          fractions: a decimal where that is exact,
 *     \frac{2}{6}  -\frac{1}{3}              1/3  -1/3    else in lowest terms
 *     3\frac{1}{2}  3 1/2                    3.5
 *     1.2e3  1.2 \times 10^{3}               1200
 *     1.234,50  12,34,567  1'234  1 234      1234.5 ...   thousands as other countries group them
 *     5 million  seven  ٤٢                   5000000  7  42   number words up to 99, digits of any script
 *     5 or 7  5 and 7  5, 7                  5,7          lists
 *     (B)  B.  option B  \text{(B)} 12       B            a choice is its letter
 *     \left( 3, \frac{\pi}{2} \right)        (3,\frac{\pi}{2})   other mathematics: no blanks, no dressing
 *     \text{Friday}.                         friday       words: lower case
 */
#ifndef LUTRA_SEARCH_ANSWER_H
#define LUTRA_SEARCH_ANSWER_H

#include <stddef.h>

/* Writes the canonical answer of a text, NUL-terminated and cut to n_max bytes; returns its length, 0 = none.
 * An answer longer than 1000 bytes is cut.  Allocates nothing; any bytes are allowed in text. */
size_t search_answer(const char *text, char *answer, size_t n_max);

#endif
