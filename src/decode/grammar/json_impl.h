/* SPDX-License-Identifier: MIT
 *
 * Pieces of JSON text as expressions.
 */
#ifndef LUTRA_DECODE_GRAMMAR_JSON_IMPL_H
#define LUTRA_DECODE_GRAMMAR_JSON_IMPL_H

#include "decode/grammar/grammar_impl.h"

/* One character of a string as it is written between the quotes, escapes included. */
int32_t build_json_char(struct builder *b);

/* One character of a set, written plainly where JSON allows that and as an escape elsewhere.  At most 128 ranges. */
int32_t build_json_class(struct builder *b, const struct cp_range *range, int32_t n, bool negate);

/* White space between tokens: none, a blank, or a line end and up to 40 blanks or tabs. */
int32_t build_json_space(struct builder *b);

/* Numbers without bounds. */
int32_t build_json_integer(struct builder *b);
int32_t build_json_number(struct builder *b);

/* Integers lo..hi, |lo|, |hi| < 10^16; numbers between bounds (with `open`: not the bound itself), |bounds| <= 10^15,
 * as decimals without exponent. */
int32_t build_json_integers(struct builder *b, int64_t lo, int64_t hi);
int32_t build_json_numbers(struct builder *b, double lo, bool lo_open, double hi, bool hi_open);

#endif
