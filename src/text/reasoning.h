/* SPDX-License-Identifier: MIT
 *
 * Reasoning told apart from the answer behind it, as text arrives.  Models write it first, between two tags, perhaps in
 * several blocks; gpt-oss divides its text into messages on channels ("harmony"), of which "analysis" is reasoning.
 *
 *     struct text_reasoning r;
 *     text_reasoning_begin(&r, text_reasoning_tags(chat_template), false);
 *     whenever text[n] grew:
 *         while ((k = text_reasoning_next(&r, text, n, false, &part)) > 0) give(text, k, part), text += k, n -= k;
 *
 * What may still become a tag is held back, at most TEXT_REASONING_HELD bytes.  The parts together are the text.
 */
#ifndef LUTRA_TEXT_REASONING_H
#define LUTRA_TEXT_REASONING_H

#include <stdbool.h>
#include <stddef.h>

#include "text/vocab.h"

enum { TEXT_REASONING_HELD = 64 };

struct text_tags {
    const char *open, *close;
    const char *mark;      /* what the source of a chat template mentions; NULL: close */
    const char *label;     /* text directly behind `open` that is no reasoning, or NULL */
    const char *to_answer; /* harmony: what leads from reasoning to the answer; NULL: close does */
    const char *answer;    /* harmony: the header of the answer; NULL: it has none */
};

/* The tags of the family whose mark the source of a chat template mentions; NULL: none, or no template. */
const struct text_tags *text_reasoning_tags(const char *chat_template);

/* What a model is made to write so that its reasoning ends and its answer begins. */
const char *text_reasoning_end(const struct text_tags *tags);

/* Whether a text, but for spaces, ends with the tag that opens: what follows is reasoning.  tags may be NULL. */
bool text_reasoning_opened(const struct text_tags *tags, const char *text, size_t n_bytes);

/* The same of tokens. */
bool text_opens_reasoning(
    const struct text_vocab *vocab, const struct text_tags *tags, const int32_t *token, int n_tok);

enum text_part { TEXT_ANSWER, TEXT_REASONING, TEXT_MARK /* a tag, and spaces around reasoning */ };

struct text_reasoning {
    const struct text_tags *tags;
    enum {
        REASONING_MAY_BEGIN,
        REASONING_BEGINS,
        REASONING_GOES_ON,
        REASONING_ENDED,
        REASONING_OVER,
        REASONING_HEADER,  /* harmony: up to <|message|> */
        REASONING_MESSAGE, /* harmony: a message of another channel */
    } state;
    bool thinks; /* harmony: the header names "analysis" */
    bool once;   /* to be set: no other block may follow */
};

/* tags NULL: all is answer.  inside: the prompt has opened it. */
void text_reasoning_begin(struct text_reasoning *r, const struct text_tags *tags, bool inside);

/* Whether what comes next is no answer yet: reasoning, or a header. */
bool text_reasoning_is_before(const struct text_reasoning *r);

/* Whether what comes next is reasoning, as far as the text given to text_reasoning_next() tells. */
bool text_reasoning_goes_on(const struct text_reasoning *r);

/* How many bytes at the start of text[n_bytes] are of one part, which is then behind it; 0: more has to come.  ended:
 * nothing will. */
size_t text_reasoning_next(
    struct text_reasoning *r, const char *text, size_t n_bytes, bool ended, enum text_part *part);

/* A control token that has no text itself may be a tag. */
void text_reasoning_token(struct text_reasoning *r, const char *spelt, size_t n_bytes);

#endif
