/* SPDX-License-Identifier: MIT
 *
 * The public text functions: tokens.  Chat templates are in chat.c.
 */
#include "engine/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "text/encode.h"
#include "text/stream.h"

int lutra_tokenize(const lutra_model *model, const char *text, size_t n_bytes, int flags, int32_t *tokens, int n_max,
    int *n_tok, struct lutra_error *err)
{
    TRY(handle_check(model, "model", err));
    struct text_tokens list = {0};
    unsigned how =
        (flags & LUTRA_ADD_SPECIAL ? TEXT_ADD_SPECIAL : 0) | (flags & LUTRA_PARSE_SPECIAL ? TEXT_PARSE_SPECIAL : 0);
    int rc = text_encode(model->vocab, text, n_bytes, how, &list, err);
    if (rc == 0) text_tokens_give(&list, tokens, n_max, n_tok);
    text_tokens_fini(&list);
    return rc;
}

int lutra_token_text(
    const lutra_model *model, int32_t token, bool show_special, char *text, size_t n_max, size_t *n_bytes)
{
    TRY(handle_check(model, "model", NULL));
    if (token < 0 || (size_t)token >= text_vocab_n_tok(model->vocab)) return LUTRA_E_ARGUMENT;
    struct text_bytes piece = text_token_piece(model->vocab, token, show_special ? TEXT_PIECE_SPECIAL : 0);
    *n_bytes = piece.n;
    size_t n = piece.n < n_max ? piece.n : n_max;
    if (n > 0) memcpy(text, piece.p, n);
    return 0;
}

/* Appends to a growing text. */
static int append(char **text, size_t *n, size_t *cap, struct text_bytes add)
{
    if (*n + add.n + 1 > *cap) {
        size_t want = (*n + add.n + 1) * 2;
        char *more = realloc(*text, want);
        if (!more) return LUTRA_E_NO_MEMORY;
        *text = more;
        *cap = want;
    }
    if (add.n > 0) memcpy(*text + *n, add.p, add.n);
    *n += add.n;
    (*text)[*n] = 0;
    return 0;
}

int lutra_detokenize(const lutra_model *model, const int32_t *tokens, int n_tok, bool show_special, char **text,
    size_t *n_bytes, struct lutra_error *err)
{
    TRY(handle_check(model, "model", err));
    struct text_stream *stream = NULL;
    char *all = NULL;
    size_t n = 0, cap = 0;
    *text = NULL;
    if (n_bytes) *n_bytes = 0;
    TRY(text_stream_open(&stream, text_vocab_max_piece_bytes(model->vocab), err));
    int rc = append(&all, &n, &cap, (struct text_bytes){"", 0});
    bool starts = true; /* text that the tokenizer may have given a space */
    for (int i = 0; i < n_tok && rc == 0; i++) {
        struct text_bytes piece = text_token_piece(model->vocab, tokens[i], show_special ? TEXT_PIECE_SPECIAL : 0);
        enum text_token_type type = text_token_type(model->vocab, tokens[i]);
        bool special = type >= TEXT_TOKEN_UNKNOWN && type <= TEXT_TOKEN_USER_DEFINED;
        if (starts && !special && text_vocab_adds_space(model->vocab) && piece.n && piece.p[0] == ' ')
            piece = (struct text_bytes){piece.p + 1, piece.n - 1};
        starts = special;
        rc = append(&all, &n, &cap, text_stream_push(stream, piece));
    }
    if (rc == 0) rc = append(&all, &n, &cap, text_stream_flush(stream));
    text_stream_close(&stream);
    if (rc < 0) {
        free(all);
        return lutra_fail(err, rc, "detokenize: out of memory");
    }
    *text = all;
    if (n_bytes) *n_bytes = n;
    return 0;
}

bool lutra_token_is_end(const lutra_model *model, int32_t token)
{
    return model && text_is_eog(model->vocab, token);
}
