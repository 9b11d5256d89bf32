/* SPDX-License-Identifier: MIT
 *
 * Where the answer of a worked solution may stand.  Each kind of mark gives several places, the last in the text first:
 * a mark may be empty, a heading or a remark, and only the spelling of a place (answer.c) shows that.
 */
#ifndef LUTRA_DECODE_SEARCH_ANSWER_FIND_H
#define LUTRA_DECODE_SEARCH_ANSWER_FIND_H

#include <stdbool.h>

enum { ANSWER_PLACES = 32, ANSWER_PLACE_BYTES = 1000 };

enum answer_mark {
    ANSWER_HASH,   /* the line behind "####" and no fifth # */
    ANSWER_BOX,    /* \boxed{here}, <answer>here</answer> */
    ANSWER_PHRASE, /* the sentence behind "answer is", "answer:", a heading "Answer"; B in "B is correct" */
    ANSWER_LINE,   /* any line with a visible character */
    ANSWER_MARKS
};

struct answer_range {
    const char *from, *to;
};

/* Writes up to ANSWER_PLACES places of one mark and returns how many.  Allocates nothing. */
int answer_find(const char *text, enum answer_mark mark, struct answer_range place[ANSWER_PLACES]);

/* A line of a reply that is no part of its solution: a heading, "Let me know ...", "Note: ...", "I hope this helps". */
bool answer_is_remark(struct answer_range line);

#endif
