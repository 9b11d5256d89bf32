/* SPDX-License-Identifier: MIT
 *
 * UTF-8 as untrusted bytes: where the next character ends, and where ill-formed bytes end.
 *
 * Ill-formed input is cut into maximal subparts (Unicode 15, section 3.9, "U+FFFD substitution of maximal
 * subparts"), which is also how Python's decode(errors="replace") counts replacement characters.
 * Pure functions: no allocation, safe from any thread.
 */
#ifndef LUTRA_TEXT_UTF8_H
#define LUTRA_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define TEXT_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD, three bytes */

/* Looks at the n_bytes at p (n_bytes > 0).
 * Returns  k > 0  a well-formed character of k bytes (1..4);
 *          0      a proper prefix of a character: more bytes could complete it;
 *         -k      k ill-formed bytes (1..3), to be replaced by one U+FFFD. */
int text_utf8_scan(const char *p, size_t n_bytes);

/* Length of the well-formed character that begins with this byte. */
static inline int text_utf8_length(unsigned char lead)
{
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* Length of the longest well-formed prefix. */
size_t text_utf8_valid(const char *p, size_t n_bytes);

/* Code point of the well-formed character of k bytes at p, k as text_utf8_scan returned it. */
uint32_t text_utf8_get(const char *p, int k);

/* Writes the character and returns its length (1..4). */
int text_utf8_put(uint32_t cp, char out[4]);

#endif
