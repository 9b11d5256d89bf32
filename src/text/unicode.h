/* SPDX-License-Identifier: MIT
 *
 * Properties of characters in Unicode 17.0.0, which token ids depend on; private to text/.
 *
 * The tables are compiled in (tools/unicode_tables.py wrote them), so that a text has the same ids on every system,
 * whatever Unicode its libraries know.
 */
#ifndef LUTRA_TEXT_UNICODE_H
#define LUTRA_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/vocab.h"

#define TEXT_UNICODE_END 0x110000u /* one more than the last code point */

/* General_Category: its name is text_category_names[number]; "Cn", unassigned, is 0. */
enum { TEXT_N_CATEGORY = 30 };
extern const char text_category_names[][3];

/* first code point << 8 | category, wherever the category changes; ascending. */
extern const uint32_t text_category_runs[];
extern const size_t text_n_category_runs;

/* The category of a character, by a search; whether it is White_Space. */
uint32_t text_category_of(uint32_t cp);
bool text_is_space(uint32_t cp);

/* code point << 9 | look << 8 | Canonical_Combining_Class, wherever that changes; look = 1: NFC may not leave the
 * character as it is (NFC_Quick_Check is not Yes). */
extern const uint32_t text_nfc_runs[];
extern const size_t text_n_nfc_runs;

/* {character, first, second} of each canonical decomposition, by character; second = 0: of one character.  Hangul's
 * are computed. */
extern const uint32_t text_decompositions[];
extern const size_t text_n_decompositions; /* of numbers: three each */

/* The decompositions that are composed again, by first and second: their numbers. */
extern const uint16_t text_compositions[];
extern const size_t text_n_compositions;

/* {first, last, step, lower} of characters first, first + step, .. last, which have a lower case: lower, lower + step,
 * ... (UnicodeData's simple mapping); ascending. */
extern const uint32_t text_lower_runs[];
extern const size_t text_n_lower_runs; /* of numbers: four each */

/* The lower case of a character, by a search: itself where it has none. */
uint32_t text_lower(uint32_t cp);

/* Normalization Form C of well-formed text [Unicode Standard Annex 15].  Where that is the text itself, *out = NULL;
 * otherwise *out is the caller's to free().  LUTRA_E_NO_MEMORY. */
int text_nfc(const char *text, size_t n_bytes, char **out, size_t *n_out);
/* Form D; *out is the caller's to free(). */
int text_nfd(const char *text, size_t n_bytes, char **out, size_t *n_out);

#endif
