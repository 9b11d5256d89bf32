/* SPDX-License-Identifier: MIT
 *
 * Rows: the layer below requests, for search, verification and evaluation by the program itself.
 *
 * Threads: these calls are for the thread that steps the session, between passes; not for callbacks.
 */
#ifndef LUTRA_ROWS_H
#define LUTRA_ROWS_H

#include "lutra/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A sequence in the cache that will hold at most max_tok tokens (0 = n_ctx).  LUTRA_E_CTX_FULL when the cache
 * cannot promise them. */
LUTRA_API int lutra_seq_open(lutra_session *session, int max_tok, int32_t *seq, struct lutra_error *err);
/* A new sequence sharing the first n_tok tokens (n_tok <= length; -1 = all); costs at most one block copy.
 * LUTRA_E_ARGUMENT: recurrent layers have no state behind n_tok tokens (lutra_seq_reach). */
LUTRA_API int lutra_seq_fork(
    lutra_session *session, int32_t seq, int n_tok, int max_tok, int32_t *fork, struct lutra_error *err);
/* The sequence forgets what lies behind its first n_tok tokens.  LUTRA_E_CTX_FULL: blocks that it shares with others
 * would have to be promised to it anew and cannot; LUTRA_E_ARGUMENT: what it would see has been freed (swa_trim),
 * or recurrent layers have no state there; nothing has changed. */
LUTRA_API int lutra_seq_truncate(lutra_session *session, int32_t seq, int n_tok, struct lutra_error *err);
/* The most tokens, up to n_tok (-1 = all), that the sequence can be forked at or cut to.  All of them, but for models
 * with recurrent layers (Qwen3.5, LFM2): these keep states at a sequence's end, one token before it, where the last
 * block of 64 of a prompt begins, and every 1,024 tokens, as far as there is memory for them.  -1: no such sequence. */
LUTRA_API int lutra_seq_reach(const lutra_session *session, int32_t seq, int n_tok);
LUTRA_API void lutra_seq_close(lutra_session *session, int32_t seq);
LUTRA_API int lutra_seq_length(const lutra_session *session, int32_t seq); /* committed tokens, or -1 */

enum lutra_want {
    LUTRA_WANT_LOGITS = 1,
    LUTRA_WANT_HIDDEN = 2,   /* the state after the last norm */
    LUTRA_WANT_TOPK = 4,     /* the 64 largest logits, and log_sum_exp */
    LUTRA_WANT_LOGPROB = 8,  /* target_logit and log_sum_exp */
    LUTRA_ROW_DRAFT = 256,   /* a guess: kept apart until lutra_commit(), like all rows below it */
    LUTRA_ROW_BULK = 512,    /* of a prompt: whole blocks of 32 may use a faster arithmetic (docs/NUMERICS.md) */
    LUTRA_ROW_SECOND = 1024, /* of the second of two texts, for encoders that tell them apart (token_types) */
};

struct lutra_row {
    int32_t token;
    int32_t pos; /* absolute position: length of the sequence, or parent's + 1 */
    int32_t seq;
    int32_t parent; /* earlier row of this pass that it continues, or -1 */
    uint32_t want;  /* set of enum lutra_want */
    int32_t target; /* token of LUTRA_WANT_LOGPROB */
};

struct lutra_row_result {
    int32_t row;
    const float *logits; /* [n_vocab] */
    const float *hidden; /* [d_model] */
    float log_sum_exp, target_logit;
    int n_top;
    const int32_t *top_id;
    const float *top_logit;
};

/* One forward pass.  Ordinary rows of a sequence form one chain from its end and are committed; draft rows (a chain
 * or a tree) wait for lutra_commit().  Encoders (lutra_model_info.encoder) evaluate a text whole: all its rows in one
 * pass, in a new sequence, without drafts, and leave hidden states alone.  row_size: sizeof *rows.  Results are valid
 * until the next pass.  On error no sequence has changed; LUTRA_E_INTERNAL: a wanted result is not a number, err names
 * its position. */
LUTRA_API int lutra_forward(
    lutra_session *session, const struct lutra_row *rows, int n_row, size_t row_size, struct lutra_error *err);
/* The i-th row that wanted something (0 .. n-1, in row order); NULL past the end. */
LUTRA_API const struct lutra_row_result *lutra_forward_result(const lutra_session *session, int i);
/* Accepts a draft row and its ancestors of the last pass; other drafts of that sequence are forgotten. */
LUTRA_API int lutra_commit(lutra_session *session, int32_t row, struct lutra_error *err);

/* ---- texts as vectors ---- */

enum lutra_pooling {
    LUTRA_POOL_MODEL, /* what the file says (pooling_type) */
    LUTRA_POOL_MEAN,  /* the mean of all tokens' states after the last norm */
    LUTRA_POOL_CLS,   /* the first token's */
    LUTRA_POOL_LAST,  /* the last token's */
};

struct lutra_embed_text {
    const int32_t *token; /* [n_token], as LUTRA_ADD_SPECIAL makes them */
    int n_token;          /* 1 .. the context */
};

/* out [n_text][d_model]: a vector of length 1 for each text, which does not depend on the other texts.  Dense layers of
 * the file (EmbeddingGemma's dense_2, dense_3) come behind the mean.  Evaluates many
 * texts in a pass, in sequences of its own.  LUTRA_E_UNSUPPORTED: the file names no pooling and the caller leaves it
 * open; LUTRA_E_CTX_FULL: a text is longer than the context. */
LUTRA_API int lutra_embed(lutra_session *session, const struct lutra_embed_text *text, int n_text,
    enum lutra_pooling pooling, float *out, struct lutra_error *err);

/* ---- documents by how well they answer ---- */

/* The tokens of a query and a document as the model wants them together: by its template `rerank`, or as BERT's pair
 * [CLS] query [SEP] document [SEP].  Writes at most n_max tokens; *n_tok is how many there are, of which the first
 * *n_first belong to the query (a template: all).  Nothing in query and document becomes a control token.
 * LUTRA_E_UNSUPPORTED: the model ranks nothing (lutra_model_info.ranks).  Thread-safe. */
LUTRA_API int lutra_rerank_tokenize(const lutra_model *model, const char *query, const char *document, int32_t *tokens,
    int n_max, int *n_tok, int *n_first, struct lutra_error *err);

struct lutra_rerank_pair {
    const int32_t *token; /* [n_token], as lutra_rerank_tokenize() makes them */
    int n_token, n_first;
};

/* score [n_pair]: what the model's head says of each pair, which does not depend on the other pairs.  More is better;
 * heads of two classes (Qwen3-Reranker's yes and no) give the probability of the first, others have a scale of their
 * own.  Evaluates many pairs in a pass.  pair_size: sizeof *pair.  Errors are those of lutra_embed(). */
LUTRA_API int lutra_rerank(lutra_session *session, const struct lutra_rerank_pair *pair, int n_pair, size_t pair_size,
    float *score, struct lutra_error *err);

#ifdef __cplusplus
}
#endif
#endif
