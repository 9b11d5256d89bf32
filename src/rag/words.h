/* SPDX-License-Identifier: MIT
 *
 * The words of a text, in the form in which texts and queries are compared: what two spellings of a word share.
 */
#ifndef LUTRA_RAG_WORDS_H
#define LUTRA_RAG_WORDS_H

#include "rag/text.h"

/* Adds the folded form of a text: NFKC_Casefold (Unicode 15, section 5.18: compatibility forms, case and default
 * ignorable code points do not count), without accents: marks of the canonical combining classes 1, 10 .. 36 and 200
 * and above, which are those of Latin, Greek and Cyrillic, Hebrew points and Arabic vowel signs.  Vowel signs of Indic
 * and Southeast Asian scripts stay, and so do the voiced kana and the Cyrillic letter U+0439.  Folding twice changes
 * nothing.  Ill-formed bytes become U+FFFD. */
void text_add_folded(struct text *out, const char *text, size_t n);

struct word {
    size_t begin, n; /* bytes of the folded text */
    bool split;      /* one character, with its marks, of a script that is searched by characters */
    bool hangul;     /* a syllable of it */
};

/* The next word of a folded text from *at on: letters, digits and the marks behind them.  Scripts that write words
 * without blanks between them, and Korean, which writes particles behind its nouns, come character by character.
 * False: none is left. */
bool word_next(const char *folded, size_t n, size_t *at, struct word *out);

/* Bytes at the end of a run of Korean syllables that are particles or endings ("서울에서는": "에서는"); n where all of
 * it is.  At least one syllable is left before them, two before a particle of one syllable. */
size_t word_particles(const char *run, size_t n);

#endif
