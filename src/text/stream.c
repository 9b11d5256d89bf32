/* SPDX-License-Identifier: MIT
 *
 * Text out of tokens as it grows: whole UTF-8 characters only, held back where a stop string may have begun
 * (text/stream.h).
 */
#include "text/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/utf8.h"

#define TAIL_BYTES 3 /* the longest proper prefix of a character */

struct text_stream {
    size_t max_piece_bytes;
    size_t n_tail; /* bytes of `in` carried over from earlier pieces */
    char *in;      /* [TAIL_BYTES + max_piece_bytes] tail, then the new piece */
    char *out;     /* three times as much: every byte may become a U+FFFD */
};

int text_stream_open(struct text_stream **out, size_t max_piece_bytes, struct lutra_error *err)
{
    *out = NULL;
    size_t n_in, bytes;
    if (LUTRA_ADD_OVERFLOWS(max_piece_bytes, (size_t)TAIL_BYTES, &n_in) ||
        LUTRA_MUL_OVERFLOWS(n_in, (size_t)4, &bytes) || LUTRA_ADD_OVERFLOWS(bytes, sizeof **out, &bytes)) {
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "a piece of %zu bytes is too long", max_piece_bytes);
    }
    struct text_stream *s = malloc(bytes);
    if (!s) return lutra_fail(err, LUTRA_E_NO_MEMORY, "out of memory for streaming text");
    *s = (struct text_stream){max_piece_bytes, 0, (char *)(s + 1), (char *)(s + 1) + n_in};
    *out = s;
    return 0;
}

void text_stream_close(struct text_stream **stream)
{
    free(*stream);
    *stream = NULL;
}

struct text_bytes text_stream_push(struct text_stream *stream, struct text_bytes piece)
{
    size_t n_new = piece.n < stream->max_piece_bytes ? piece.n : stream->max_piece_bytes;
    if (n_new) memcpy(stream->in + stream->n_tail, piece.p, n_new);
    size_t n_in = stream->n_tail + n_new, at = 0, n_out = 0;
    while (at < n_in) {
        int k = text_utf8_scan(stream->in + at, n_in - at);
        if (k == 0) break;
        const char *from = k > 0 ? stream->in + at : TEXT_UTF8_REPLACEMENT;
        size_t n = k > 0 ? (size_t)k : sizeof TEXT_UTF8_REPLACEMENT - 1;
        memcpy(stream->out + n_out, from, n);
        n_out += n;
        at += (size_t)(k > 0 ? k : -k);
    }
    stream->n_tail = n_in - at;
    memmove(stream->in, stream->in + at, stream->n_tail);
    return (struct text_bytes){stream->out, n_out};
}

struct text_bytes text_stream_flush(struct text_stream *stream)
{
    size_t n = stream->n_tail ? sizeof TEXT_UTF8_REPLACEMENT - 1 : 0;
    stream->n_tail = 0;
    return (struct text_bytes){TEXT_UTF8_REPLACEMENT, n};
}

bool text_stream_waits(const struct text_stream *stream)
{
    return stream->n_tail > 0;
}

void text_stream_copy(struct text_stream *to, const struct text_stream *from)
{
    to->n_tail = from->n_tail;
    memcpy(to->in, from->in, from->n_tail);
}
