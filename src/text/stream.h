/* SPDX-License-Identifier: MIT
 *
 * Turns token pieces into text as they arrive, never splitting a character.
 *
 *     TRY(text_stream_open(&s, text_vocab_max_piece_bytes(vocab), err));
 *     for each token:  struct text_bytes text = text_stream_push(s, piece);   // whole characters, maybe none
 *     struct text_bytes rest = text_stream_flush(s);                          // what an unfinished tail becomes
 *     text_stream_close(&s);
 *
 * The output is always well-formed UTF-8: ill-formed bytes become U+FFFD exactly as Python's
 * decode(errors="replace") of the concatenated pieces would have it, wherever the pieces are cut.
 * Push and flush allocate nothing.  One stream belongs to one sequence; not thread-safe.
 */
#ifndef LUTRA_TEXT_STREAM_H
#define LUTRA_TEXT_STREAM_H

#include "text/vocab.h"

struct text_stream;

/* max_piece_bytes: the longest piece that will be pushed.  Errors: LUTRA_E_NO_MEMORY (then *out is NULL). */
int text_stream_open(struct text_stream **out, size_t max_piece_bytes, struct lutra_error *err);
void text_stream_close(struct text_stream **stream);

/* Text completed by this piece: borrowed, valid until the next call.  Bytes beyond max_piece_bytes are dropped. */
struct text_bytes text_stream_push(struct text_stream *stream, struct text_bytes piece);

/* Ends the text: an unfinished character becomes one U+FFFD.  The stream is then empty and can be used again. */
struct text_bytes text_stream_flush(struct text_stream *stream);

/* Whether a part of a character waits for its rest. */
bool text_stream_waits(const struct text_stream *stream);

/* A copy of the state for a forked sequence; `to` was opened with at least the same size. */
void text_stream_copy(struct text_stream *to, const struct text_stream *from);

#endif
