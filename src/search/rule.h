/* SPDX-License-Identifier: MIT
 *
 * Exact rules for worked solutions: where checking is easier than answering, they judge instead of a model.
 *
 * Pure functions of question and text: integers and fractions without rounding, any bytes allowed, no allocation.  What
 * cannot be read, or leaves 64 bits, does not hold.
 */
#ifndef LUTRA_SEARCH_RULE_H
#define LUTRA_SEARCH_RULE_H

#include <stdbool.h>

/* Countdown.  All integers of the question are the numbers, the last one is the target (at most 32 numbers).  Every
 * line of the text is one equation, `a + b = c` with + - * or / (exact, no remainder), of two numbers that are left;
 * its result is left instead of them.  Whole: at last nothing but the target is left.  Not whole: every line so far
 * holds. */
bool search_rule_countdown(const char *question, const char *text, bool whole);

/* Every line with a `=` is an equation (or several: a = b = c) of + - * / ( ) and decimal numbers whose sides are
 * equal; a full stop may end it.  Lines without a `=` may say anything; whole: at least one equation is written. */
bool search_rule_equation(const char *text, bool whole);

#endif
