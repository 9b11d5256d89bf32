/* SPDX-License-Identifier: MIT
 *
 * The cache's insides, shared by blocks.c (blocks, sequences, promises) and pass.c (views and commits).
 */
#ifndef LUTRA_KV_KV_IMPL_H
#define LUTRA_KV_KV_IMPL_H

#include "kv/kv.h"

/* A state of recurrent layers that a sequence holds: that behind its first `pos` tokens (state.c). */
struct kv_mark {
    int32_t pos, slot;
    bool passing; /* it goes with the sequence's next pass */
    bool found;   /* by its text: it stays, for others that begin so */
};

enum { KV_MARKS = 24 };

/* What a block holds (past.c): listed where its rows belong to a text. */
struct kv_text {
    uint64_t parent, node; /* what it continues, 0: nothing; what it ends, 0: it is not whole */
    uint64_t domain;
    uint64_t bulk; /* a bit for each row: evaluated in bulk */
    int32_t token[KV_BLOCK];
    int32_t n;
    bool listed;
    int32_t next;         /* of those in its bucket; -1 */
    int32_t older, newer; /* of those that nobody holds; -1 */
};

struct kv_texts {
    struct kv_text *text; /* [n_block] */
    int32_t *bucket, n_bucket;
    int32_t *path; /* [max_table] the blocks that were found last */
    uint64_t n_node;
    int32_t oldest, newest, n_kept; /* blocks that nobody holds */
};

struct kv_seq {
    bool open;
    bool has_text; /* its blocks are listed, in its domain */
    uint64_t domain;
    int32_t n_tok; /* committed */
    int32_t max_tok;
    int32_t n_table;   /* blocks held: enough for n_tok, more during a pass */
    int32_t promised;  /* blocks it may still take */
    bool tail_promise; /* one of them is for copying its shared tail */
    int32_t n_passed;  /* first blocks that layers with a window do not see any more (swa_trim) */
    int32_t *table;    /* [ceil(n_ctx / KV_BLOCK)] block ids */
    struct kv_mark mark[KV_MARKS];
    int32_t n_mark;
    int32_t parts;              /* whole blocks' tokens that another's text has, too, without a state there; 0: none */
    int32_t n_pending, pending; /* accepted drafts that are in no state yet, and the place of the last one's inputs */
};

struct made;

/* States of recurrent layers (state.c); all zero where there is none. */
struct kv_state_pool {
    uint8_t *pool, *left[2];
    size_t slot_bytes, left_bytes;
    size_t *layer_at, *draft_at; /* [n_layer] */
    int32_t n_slot, n_live;      /* slots; sequences that may grow */
    int32_t *refs;               /* [n_slot] marks that hold each slot */
    int32_t *block,
        *pos; /* [n_slot] where the state's last token lies, and how many it has seen; block -1: in no text */
    uint64_t *used, now;        /* [n_slot] the pass that marked it last; this pass */
    bool *needed;               /* [n_slot] by this pass */
    int32_t *free_list, n_free; /* a stack */
    int half;                   /* of `left`: where this pass's drafts leave their inputs */
    int32_t *up[2];             /* [n_draft] the draft before each; -1: none */

    struct kv_run *run; /* of the current pass */
    int n_run;
    int32_t *run_seq, *seq_run;     /* the sequence of each run, and back; -1: it has none */
    bool *keeps_tip;                /* of each run: the state that it begins from is one of the kept */
    int32_t *row, *run_of, *replay; /* kv_states */
    struct kv_save *save;
    struct made *made; /* beside each save */
};

struct kv_cache {
    struct kv_settings set;
    struct kv_view shape;   /* pool, draft and sizes; the per-pass part is set by kv_pass_begin */
    struct kv_layer *layer; /* [n_layer] */
    struct kv_seq *seq;     /* [n_seq] */
    int32_t *refs;          /* [n_block] holders of each block */
    int32_t *free_list;     /* [n_block] a stack */
    int32_t n_free, n_promised;
    int32_t max_table;
    uint64_t copied_blocks;

    int32_t window;     /* the widest of the layers whose windows are freed; 0: none is */
    int32_t *seen;      /* [n_block] sequences whose windows reach a block */
    int32_t *swa_block; /* [n_block] where it lies in the pool of these layers; -1: nowhere */
    int32_t *swa_free;  /* [n_swa] a stack */
    int32_t n_swa, n_swa_free;

    struct kv_row *row;   /* [n_row] of the current pass */
    int32_t *table;       /* [min(n_row, n_seq)][max_table] */
    int32_t *seq_table;   /* [n_seq] offset of a sequence's copy in `table`, or -1 */
    struct kv_item *item; /* [n_block] */
    int32_t *block_item;  /* [n_block] item of a block in this pass, or -1 */
    int32_t *item_row;    /* [n_row * max_table] */
    uint8_t *host_wrote;  /* [n_block] blocks written here since the last good pass */

    struct kv_state_pool states;
    struct kv_texts texts;
};

/* Makes the block that holds position pos writable by seq: allocates it if it is the next one, copies it if it is
 * shared.  Never fails for pos < max_tok (the promise). */
int kv_block_own(struct kv_cache *kv, struct kv_seq *s, int32_t pos, struct lutra_error *err);

/* The sequence has n_tok tokens: blocks that its windows have passed may go. */
void kv_seq_pass(struct kv_cache *kv, struct kv_seq *s);

/* Gives back the blocks of a sequence beyond its tokens, and promises them again: of a failed pass. */
void kv_seq_trim(struct kv_cache *kv, struct kv_seq *s);

/* ---- past.c ---- */

int kv_text_open(struct kv_cache *kv);
void kv_text_close(struct kv_cache *kv);
/* A row of a block has been evaluated; a block will be written behind its first n rows; its copy has these. */
void kv_text_write(struct kv_cache *kv, const struct kv_seq *s, int32_t pos, int32_t token, bool bulk);
void kv_text_cut(struct kv_cache *kv, int32_t block, int32_t n);
void kv_text_copy(struct kv_cache *kv, int32_t to, int32_t from, int32_t n);
/* Whether two blocks hold the same text in their first n rows, what is before them included. */
bool kv_text_same(const struct kv_cache *kv, int32_t a, int32_t b, int32_t n);
/* keep: no sequence holds the block any more; it stays listed with its text, or false.  use: a sequence holds it again.
 * evict: the oldest block that no sequence holds, listed no more; -1: there is none. */
bool kv_text_keep(struct kv_cache *kv, int32_t block);
void kv_text_use(struct kv_cache *kv, int32_t block);
int32_t kv_text_evict(struct kv_cache *kv);
/* Tokens of the text that blocks hold: those of texts.path. */
int32_t kv_text_find(const struct kv_cache *kv, const struct kv_past *past);

/* ---- state.c; all do nothing where no layer is recurrent ---- */

int kv_state_open(struct kv_cache *kv, const struct kv_settings *settings, struct lutra_error *err);
void kv_state_close(struct kv_cache *kv);

/* Whether one more sequence may grow: LUTRA_E_CTX_FULL.  So many more do. */
int kv_state_admit(struct kv_cache *kv, struct lutra_error *err);
void kv_state_live(struct kv_cache *kv, int more);

/* The most tokens, up to n_tok, behind which the sequence has a state; whether n_tok is: LUTRA_E_ARGUMENT. */
int32_t kv_state_reach(const struct kv_cache *kv, const struct kv_seq *s, int32_t n_tok);
int kv_state_check(const struct kv_cache *kv, const struct kv_seq *s, int32_t n_tok, struct lutra_error *err);

/* The most tokens, up to n_tok, behind which a state is found for the text of these blocks. */
int32_t kv_state_reach_past(const struct kv_cache *kv, const int32_t *table, int32_t n_tok);
/* A new sequence, whose blocks and n_tok are set, gets the states that are found. */
void kv_state_take_past(struct kv_cache *kv, struct kv_seq *to);
/* What a block holds behind its first n rows will go. */
void kv_state_forget(struct kv_cache *kv, int32_t block, int32_t n);

/* A new sequence, whose n_tok is set, gets the states of another; a sequence is cut to n_tok, which is not set yet. */
void kv_state_fork(struct kv_cache *kv, const struct kv_seq *from, struct kv_seq *to);
void kv_state_cut(struct kv_cache *kv, struct kv_seq *s, int32_t n_tok);
void kv_state_drop(struct kv_cache *kv, struct kv_seq *s);

/* Drafts up to this one's are accepted: before n_tok changes. */
void kv_state_commit(const struct kv_cache *kv, struct kv_seq *s, const struct kv_row *row);

/* The runs of a pass whose rows are placed; then what it has written is kept, or not. */
int kv_state_begin(struct kv_cache *kv, const struct batch *batch, struct kv_states *view, struct lutra_error *err);
void kv_state_end(struct kv_cache *kv, bool ok);

#endif
