/* SPDX-License-Identifier: MIT
 *
 * The cache of past tokens: paged, shared by prefixes, forked by samples, committed by moving a tip.
 *
 *     kv_open(&kv, &settings, buffer, &err);               all memory reserved here
 *     kv_seq_open(kv, max_tok, &a, &err);                  the cache promises max_tok positions to a
 *     kv_pass_begin(kv, &batch, &view, &err);              blocks allocated, shared tails copied, view built
 *       ... the forward pass ...
 *     kv_pass_end(kv, &batch, true);                       ordinary rows of the batch are now committed
 *     kv_seq_fork(kv, a, -1, max_tok, &b, &err);           b shares a's blocks
 *     kv_commit(kv, &batch, row, &err);                    an accepted draft row and its ancestors
 *
 * Blocks are counted by reference.  A block that more than one sequence holds is never written: the tail block of a
 * fork is copied by whoever writes first.  Admission: opening or forking a sequence promises the blocks it may still
 * need (copies of a shared tail included), and is refused when the free blocks cannot cover all promises; so a pass
 * never runs out of blocks half way.  One block of at most KV_BLOCK tokens is the most a fork costs by itself.
 * A sequence opened with kv_seq_open_past() has a text: its blocks are found by later ones that begin alike, while it
 * runs and, as long as nobody needs their memory, after it was closed; blocks that nobody holds count as free.
 *
 * Recurrent layers keep a state of fixed size instead of blocks (ops/kv_view.h): a sequence that grows is promised two,
 * so that a pass writes beside what it reads.
 *
 * The pass may fail at any point: until kv_pass_end(..., true) no length has changed, and what was written lies
 * beyond every committed length.  After opening nothing here allocates.  Not thread-safe.
 */
#ifndef LUTRA_KV_KV_H
#define LUTRA_KV_KV_H

#include <stdbool.h>

#include "base/status.h"
#include "ops/batch.h"
#include "ops/device.h"
#include "ops/kv_view.h"

struct kv_cache;

/* How far a sequence whose windows are freed can be cut back, always. */
enum { KV_SLACK = 64 };

/* The fewest states of recurrent layers: zero, and two of each of two sequences. */
enum { KV_STATES_LEAST = 5 };

struct kv_settings {
    enum quant_type type[2];      /* of K and of V: kv_is_type (ops/kv_view.h) */
    const struct op_layer *layer; /* [n_layer], of a list that op_list_check accepts; only read when opening */
    int n_layer;
    int n_ctx;      /* longest sequence */
    int n_block;    /* blocks of the pool */
    int n_seq;      /* sequences alive at once */
    int n_row;      /* rows of a batch */
    int n_draft;    /* draft rows of a batch */
    bool by_block;  /* order of the pool (ops/kv_view.h) */
    bool whole;     /* rows see all rows of their sequence, which one pass writes (op_list.whole) */
    bool swa_trim;  /* layers with a window keep what a next row can see, and KV_SLACK positions more */
    int n_state;    /* states of recurrent layers: 1, 2 for each sequence that grows, others for reuse */
    uint8_t *state; /* kv_state_bytes(), zero, 64-byte aligned, borrowed until kv_close; or NULL */
};

/* Sequences beside those of n_seq samples and their prompts. */
enum { KV_SPARE = 4 };

/* Settings of types [2] for n_seq samples, their prompts and KV_SPARE more, in n_block blocks: not order and memory. */
struct kv_settings kv_settings_for(const struct op_list *list, const enum quant_type *type, int n_ctx, int64_t n_block,
    int n_seq, int n_row, int n_draft, bool swa_trim);

/* Bytes of K/V memory (pool and draft scratch) that kv_open wants in its buffer; 0 on overflow. */
size_t kv_bytes(const struct kv_settings *settings);

/* Bytes of one position in all layers, types [2]; 0: heads of a layer are no whole blocks of one, or it overflows. */
size_t kv_token_bytes(const enum quant_type *type, const struct op_layer *layer, int n_layer);

/* The same of settings, but for layers whose windows are freed: *fixed is what those take at most, however many blocks
 * there are. */
size_t kv_growing_bytes(const struct kv_settings *settings, size_t *fixed);

/* Bytes of settings.state: n_state states and what drafts leave; 0: no layer is recurrent, SIZE_MAX: overflow.
 * *each: one state (may be NULL). */
size_t kv_state_bytes(const struct kv_settings *settings, size_t *each);

/* memory: kv_bytes() long, borrowed until kv_close. */
int kv_open(
    struct kv_cache **out, const struct kv_settings *settings, const struct buffer *memory, struct lutra_error *err);
void kv_close(struct kv_cache **kv);

/* Errors: LUTRA_E_BUSY, all n_seq sequences are open; LUTRA_E_CTX_FULL, max_tok beyond n_ctx or not to be promised
 * now.  max_tok 0 = n_ctx. */
int kv_seq_open(struct kv_cache *kv, int max_tok, int32_t *seq, struct lutra_error *err);

/* Promises n blocks that belong to no sequence yet; n < 0 gives so many back.  LUTRA_E_CTX_FULL: the free blocks do not
 * cover them. */
int kv_reserve(struct kv_cache *kv, int32_t n, struct lutra_error *err);

/* Blocks that these sequences hold, each once, and their promises. */
int32_t kv_held(const struct kv_cache *kv, const int32_t *seq, int n);

/* The most tokens, up to n_tok, that the sequence may be forked at or cut to: all, unless layers are recurrent.  Their
 * states are kept at the sequence's end, one token before, where a prompt's last block begins, and every 1,024 tokens,
 * while there is room.  -1: there is no such sequence. */
int32_t kv_seq_reach(const struct kv_cache *kv, int32_t seq, int32_t n_tok);

/* A new sequence of the first n_tok tokens of seq (-1 = all).  Its errors are those of kv_seq_open, and
 * LUTRA_E_ARGUMENT where what its next row would see has been freed, or recurrent layers have no such state. */
int kv_seq_fork(struct kv_cache *kv, int32_t seq, int n_tok, int max_tok, int32_t *fork, struct lutra_error *err);

/* The sequence forgets what lies beyond n_tok (<= its length); it may grow to max_tok again.  LUTRA_E_CTX_FULL: what
 * it shares with others would have to be promised anew and cannot; LUTRA_E_ARGUMENT: what its next row would see has
 * been freed, or recurrent layers have no such state; nothing has changed. */
int kv_seq_truncate(struct kv_cache *kv, int32_t seq, int n_tok, struct lutra_error *err);

/* A text whose beginning the cache may hold. */
struct kv_past {
    const int32_t *token; /* [n_token] the most that may be found */
    int32_t n_token;
    int32_t n_prompt; /* its first tokens that are a prompt: their rows are in bulk where they fill blocks of `bulk` */
    int32_t bulk;     /* batch.bulk */
    uint64_t domain;  /* what is evaluated in one domain is found in it only */
};

/* A sequence with a text, of as many of the past's tokens as are found in rows of the class that they would get, and
 * can be promised beside max_tok: *n_found.  The rest of a prompt begins with a whole block of bulk rows.  Errors are
 * those of kv_seq_open. */
int kv_seq_open_past(struct kv_cache *kv, const struct kv_past *past, int max_tok, int32_t *seq, int32_t *n_found,
    struct lutra_error *err);
/* How many tokens of it are found. */
int32_t kv_find(struct kv_cache *kv, const struct kv_past *past);

/* The sequence may hold max_tok tokens, if that is more than now.  LUTRA_E_CTX_FULL: the free blocks do not cover
 * them; nothing has changed. */
int kv_seq_grow(struct kv_cache *kv, int32_t seq, int max_tok, struct lutra_error *err);

/* The block that holds tokens b KV_BLOCK and on of a sequence, 0 .. n_block - 1; -1: none. */
int32_t kv_seq_block(const struct kv_cache *kv, int32_t seq, int32_t b);

/* Gives its blocks and promises back. */
void kv_seq_close(struct kv_cache *kv, int32_t seq);

/* Committed tokens, or -1 when there is no such sequence. */
int32_t kv_seq_length(const struct kv_cache *kv, int32_t seq);

/* For a batch that passed batch_check(): reserves the slots of its rows, copies shared tails, fills *view (borrowed
 * until the next kv_ call).  LUTRA_E_CTX_FULL: a row lies beyond its sequence's max_tok; nothing has changed. */
int kv_pass_begin(struct kv_cache *kv, const struct batch *batch, struct kv_view *view, struct lutra_error *err);

/* ok: the batch's ordinary rows become committed.  Not ok: the lengths stay. */
void kv_pass_end(struct kv_cache *kv, const struct batch *batch, bool ok);

/* Commits draft row `row` of the last finished pass and its ancestors that are drafts: their K/V are copied to
 * position order.  The other drafts of its sequence are void afterwards.  LUTRA_E_ARGUMENT: not such a row;
 * LUTRA_E_CTX_FULL: beyond max_tok. */
int kv_commit(struct kv_cache *kv, const struct batch *batch, int32_t row, struct lutra_error *err);

/* A device will read what it has nothing of yet: until the next good pass, the host has written all that is in use
 * (kv_view.host_wrote). */
void kv_host_wrote_all(struct kv_cache *kv);

struct kv_usage {
    int n_block, n_free, n_kept, n_promised; /* blocks; kept: held by nobody, but found */
    uint64_t copied_blocks;                  /* copy-on-write copies since open */
    int n_swa, n_swa_free;                   /* blocks of layers whose windows are freed */
};
void kv_usage(const struct kv_cache *kv, struct kv_usage *out);

/* K/V bytes that attention reads in a pass with this view, shared blocks once (all layers).  Counted. */
uint64_t kv_view_read_bytes(const struct kv_view *view, int n_row);

#endif
