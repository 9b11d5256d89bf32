/* SPDX-License-Identifier: MIT
 *
 * The canonical spelling of what stands at one place: answer.h lists the forms.
 *
 * A place is undressed first (LaTeX that only says how things look, currency, emphasis, digits of other scripts), then
 * spelt by what it is.  Nothing allocates; what does not fit is cut.
 */
#ifndef LUTRA_DECODE_SEARCH_ANSWER_SPELL_H
#define LUTRA_DECODE_SEARCH_ANSWER_SPELL_H

#include <stdbool.h>
#include <stddef.h>

#include "search/answer_find.h"

enum { ANSWER_CLEAN_BYTES = ANSWER_PLACE_BYTES + 1 };

/* What an answer is, and so how sure it is that a place holds one. */
enum answer_kind { ANSWER_NOTHING, ANSWER_IS_NUMBER, ANSWER_IS_CHOICE, ANSWER_IS_WORDS, ANSWER_IS_MATH };

struct answer_output {
    char *text;
    size_t n, room; /* room without the NUL */
};

void answer_put(struct answer_output *out, const char *p, size_t n);

/* Copies r without its dressing, NUL-terminated; returns what it wrote. */
struct answer_range answer_undress(struct answer_range r, char text[ANSWER_CLEAN_BYTES]);

struct answer_range answer_trim(struct answer_range r);

/* One of some words (NULL at their end) begins r, in any case. */
bool answer_begins(struct answer_range r, const char *const *words);

/* Appends the spelling of undressed text; depth 0. */
enum answer_kind answer_spell(struct answer_range r, int depth, struct answer_output *out);

/* Appends the last number in prose; false = none. */
bool answer_spell_last_number(struct answer_range r, struct answer_output *out);

#endif
