/* SPDX-License-Identifier: MIT
 *
 * The cache's insides, shared by blocks.c (blocks, sequences, promises) and step.c (views and commits).
 */
#ifndef LUTRA_KV_KV_IMPL_H
#define LUTRA_KV_KV_IMPL_H

#include "kv/kv.h"

struct kv_seq {
    bool open, idle;
    int32_t n_tok; /* committed */
    int32_t max_tok;
    int32_t n_table;   /* blocks held: enough for n_tok, more during a step */
    int32_t promised;  /* blocks it may still take */
    bool tail_promise; /* one of them is for copying its shared tail */
    int32_t n_passed;  /* first blocks that layers with a window do not see any more (free_windows) */
    int32_t *table;    /* [ceil(n_ctx / KV_BLOCK)] block ids */
};

struct kv_cache {
    struct kv_settings set;
    struct kv_view shape;   /* pool, draft and sizes; the per-step part is set by kv_step_begin */
    struct kv_layer *layer; /* [n_layer] */
    struct kv_seq *seq;     /* [n_seq] */
    int32_t *refs;          /* [n_block] holders of each block */
    int32_t *used;          /* [n_block] those of them that are not idle */
    int32_t *free_list;     /* [n_block] a stack */
    int32_t n_free, n_promised;
    int32_t n_idle; /* blocks that only idle sequences hold */
    int32_t max_table;
    uint64_t copied_blocks;

    int32_t window;      /* the widest of the layers whose windows are freed; 0: none is */
    int32_t *seen;       /* [n_block] sequences whose windows reach a block */
    int32_t *near_block; /* [n_block] where it lies in the pool of these layers; -1: nowhere */
    int32_t *near_free;  /* [n_near] a stack */
    int32_t n_near, n_near_free;

    struct kv_row *row;   /* [n_row] of the current step */
    int32_t *table;       /* [min(n_row, n_seq)][max_table] */
    int32_t *seq_table;   /* [n_seq] offset of a sequence's copy in `table`, or -1 */
    struct kv_item *item; /* [n_block] */
    int32_t *block_item;  /* [n_block] item of a block in this step, or -1 */
    int32_t *item_row;    /* [n_row * max_table] */
    uint8_t *host_wrote;  /* [n_block] blocks written here since the last good step */
};

/* Makes the block that holds position pos writable by seq: allocates it if it is the next one, copies it if it is
 * shared.  Never fails for pos < max_tok (the promise). */
int kv_block_own(struct kv_cache *kv, struct kv_seq *s, int32_t pos, struct lutra_error *err);

/* The sequence has n_tok tokens: blocks that its windows have passed may go. */
void kv_seq_pass(struct kv_cache *kv, struct kv_seq *s);

/* Gives back the blocks of a sequence beyond its tokens, and promises them again: of a failed step. */
void kv_seq_trim(struct kv_cache *kv, struct kv_seq *s);

#endif
