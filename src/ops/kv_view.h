/* SPDX-License-Identifier: MIT
 *
 * What attention, kv_append and recurrent operations see of the past during one pass.  Built by kv/ before the pass,
 * read-only in it.
 *
 * A block holds KV_BLOCK consecutive positions, aligned: position p of a sequence lies in slot p % KV_BLOCK of the
 * block table[p / KV_BLOCK].  Layers may differ in heads and head size, share another's cache or have none (struct
 * op_layer).  Per layer with a cache of its own, and for K and V apart, a block is [n_kv_head][KV_BLOCK][d_head]
 * contiguous:
 *
 *     pool: [layer][n_block][K,V][n_kv_head][KV_BLOCK][d_head], or by block: [n_block][layer][K,V]...
 *
 * Where windows are freed (kv.h), layers with a window have pools of their own behind the others', of fewer blocks.
 *
 * By block, memory is touched as the context grows, in one place: huge pages fit.  By layer, parts of the layers can
 * lie in different memories.
 *
 * Ordinary rows continue the tip of their sequence: they write straight into its own (never shared) tail block and
 * are committed by moving the tip.  Draft rows (ROW_DRAFT) keep their K/V in the pass scratch
 *
 *     draft: [layer][K,V][n_kv_head][n_draft][d_head]
 *
 * and the accepted ones are copied to position order at commit.  So row r sees, in ascending position:
 *     positions 0 .. n_paged-1 from its blocks, then the draft slots of n_path rows: itself last, before it row `up`,
 *     ...
 * A row that writes straight into its block has n_paged = pos + 1 and n_path = 0.  Rows of encoders (op_list.whole) see
 * `ahead` positions behind their own, which other rows of the pass fill: n_paged = pos + 1 + ahead.
 *
 * Segments.  Softmax statistics are computed per segment of KV_BLOCK positions aligned to absolute position and merged
 * in ascending order, at every row count: that makes a row's bits independent of the batch (docs/NUMERICS.md).
 *
 * Work items.  items[] lists each physical block once with every row that sees it, in ascending position for every
 * row: N samples over one prompt read the prompt's blocks once.  A segment in which a row also sees draft slots is
 * not in the items: such a row handles its segments from n_paged / KV_BLOCK on by itself (block part, then path).
 */
#ifndef LUTRA_OPS_KV_VIEW_H
#define LUTRA_OPS_KV_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/formats.h"

enum { KV_BLOCK = 64, KV_MOST_D_HEAD = 512 };
enum kv_side { KV_K, KV_V };

/* Vectors of small types are rotated before they are rounded, so that an element much larger than the others does not
 * take the codes of its 32. */
static inline bool kv_is_rotated(enum quant_type type)
{
    return type == QUANT_Q4_0 || type == QUANT_Q4_1 || type == QUANT_Q5_0;
}

static inline bool kv_is_type(enum quant_type type)
{
    return type == QUANT_F16 || type == QUANT_F32 || type == QUANT_Q8_0 || kv_is_rotated(type);
}

/* x [d_head] in place, in stretches of the largest power of two that divides d_head: the Walsh-Hadamard transform over
 * the root of its length.  It is its own inverse and keeps dot products.  One order of sums: the same bits. */
void kv_rotate(float *x, int d_head);

/* One vector as a cache of this type holds it: rotated, if the type is, and rounded.  d_head at most KV_MOST_D_HEAD
 * where it is rotated. */
void kv_round(enum quant_type type, const float *x, void *to, int d_head);

struct kv_row {
    int32_t n_paged; /* positions read from blocks */
    int32_t n_path;  /* positions behind them, read from draft slots; 0: it is no draft */
    int32_t up;      /* the row of the draft before it, when n_path > 1 */
    int32_t table;   /* first entry of the row's block table in kv_view.table */
    int32_t block;   /* destination block of the row's own K/V, or -1: draft scratch */
    int32_t slot;    /* destination slot in the block, or in the draft scratch */
    int32_t ahead;   /* positions behind its own that it sees, of encoders; 0 otherwise */
};

/* The positions [*first, *end) that a row sees of layers with a window (0: none). */
static inline void kv_row_sees(const struct kv_row *r, int window, int32_t *first, int32_t *end)
{
    int32_t n = r->n_paged + r->n_path, pos = n - 1 - r->ahead;
    *first = window > 0 && pos >= window ? pos - window + 1 : 0;
    *end = window > 0 && r->ahead >= window ? pos + window : n;
}

struct kv_item {
    int32_t block;
    int32_t pos;      /* absolute position of the block's slot 0 */
    int32_t first, n; /* rows item_row[first .. first + n - 1], ascending */
};

/* Where a layer's keys and values lie.  Layers that share a cache have the same entry. */
struct kv_layer {
    int cache;  /* the layer whose memory it is; -1: none, and all is 0 */
    int window; /* op_layer's */
    bool swa;   /* the layer uses the sliding-window pool: block b is stored at swa_block[b] */
    int n_kv_head, d_head;
    size_t vec_bytes[2];  /* of K and of V: one [d_head] vector */
    size_t side_bytes[2]; /* of a block: n_kv_head * KV_BLOCK vectors */
    size_t pool;          /* in kv_view.pool: K of block 0 */
    size_t block_bytes;   /* from a block to the next */
    size_t draft;         /* in kv_view.draft: K of head 0 */
};

/* The tokens of one sequence that a pass evaluates, in order: first `n_replay` drafts that were accepted behind an
 * earlier pass, by the inputs they left; then rows.  The state before them is that of slot `from`, which stays as is;
 * `save` says where the states behind them go.  Drafts lie beside this chain: each begins from the state behind
 * `n_paged - pos` of its tokens, or from that of the draft `up`. */
struct kv_run {
    int32_t from;
    int32_t pos;                    /* tokens of the sequence before the first one */
    int32_t first_replay, n_replay; /* kv_states.replay[]: places in `left_before` */
    int32_t first_row, n_row;       /* kv_states.row[]: rows */
    int32_t first_draft, n_draft;   /* kv_states.row[]: drafts, in the order of their n_paged, parents first */
    int32_t first_save, n_save;     /* kv_states.save[], ascending */
};

struct kv_save {
    int32_t after; /* so many of a run's tokens, 1 .. n_replay + n_row */
    int32_t slot;
};

/* States of recurrent layers.  A slot is one state of every layer, [layer][op_layer.state_bytes]; slots are never
 * changed, a pass writes new ones.  Slot 0 is zero, the state before the first token.  A draft's inputs stay in
 * `left`, [draft slot][layer][op_layer.draft_bytes], and are read from there in the next pass, if the draft was
 * accepted. */
struct kv_states {
    uint8_t *pool;
    size_t slot_bytes, left_bytes;     /* of one slot, of one draft */
    const size_t *layer_at, *draft_at; /* [n_layer] where a layer's part of these begins */
    uint8_t *left;                     /* of this pass's drafts */
    const uint8_t *left_before;        /* of the pass before */
    const struct kv_run *run;
    int n_run;
    const int32_t *row, *replay;
    const struct kv_save *save;
    const int32_t *run_of; /* [n_row] the run that a row belongs to */
};

struct kv_view {
    enum quant_type type[2]; /* of K and of V: kv_is_type; d_head is whole blocks of it */
    int n_layer, n_block, n_draft;
    const struct kv_layer *layer; /* [n_layer] */
    const int32_t *swa_block;     /* [n_block] of layers that are `swa`; -1: freed.  NULL: no layer is */
    uint8_t *pool;                /* layout above */
    uint8_t *draft;               /* layout above */
    const struct kv_row *row;     /* [n_row] of the batch */
    const int32_t *table;         /* block ids, several tables one after another */
    const struct kv_item *item;
    const int32_t *item_row;
    int n_item;
    const uint8_t
        *host_wrote; /* [n_block] nonzero: copied or committed to by the host since the last good pass; NULL: none */
    struct kv_states state; /* all zero where no layer has one */
};

/* An operation's part of a state (op_share.state), and of what a draft left (op_share.draft). */
static inline float *kv_state_at(const struct kv_states *s, int layer, size_t share, int32_t slot)
{
    return (float *)(s->pool + (size_t)slot * s->slot_bytes + s->layer_at[layer] + share);
}

static inline const float *kv_left_before(const struct kv_states *s, int layer, size_t share, int32_t place)
{
    return (const float *)(s->left_before + (size_t)place * s->left_bytes + s->draft_at[layer] + share);
}

static inline float *kv_left_at(const struct kv_states *s, int layer, size_t share, int32_t place)
{
    return (float *)(s->left + (size_t)place * s->left_bytes + s->draft_at[layer] + share);
}

/* Whether a layer's cache is its own: loops over all of the cache skip the others. */
static inline bool kv_owns(const struct kv_view *v, int layer)
{
    return v->layer[layer].cache == layer;
}

/* The row whose draft slot lies at position pos >= n_paged of what `row` sees. */
static inline int32_t kv_draft_row(const struct kv_view *v, int32_t row, int32_t pos)
{
    for (int32_t at = v->row[row].n_paged + v->row[row].n_path - 1; at > pos; at--) row = v->row[row].up;
    return row;
}

/* [n_kv_head][KV_BLOCK][d_head] of one layer and side; of a freed block some other one's, to be left alone. */
static inline uint8_t *kv_block_at(const struct kv_view *v, int layer, enum kv_side side, int32_t block)
{
    const struct kv_layer *l = &v->layer[layer];
    if (l->swa) block = v->swa_block[block] > 0 ? v->swa_block[block] : 0;
    return v->pool + l->pool + (size_t)block * l->block_bytes + (side == KV_V ? l->side_bytes[KV_K] : 0);
}

/* [n_draft][d_head] of one layer, side and head. */
static inline uint8_t *kv_draft_at(const struct kv_view *v, int layer, enum kv_side side, int head)
{
    const struct kv_layer *l = &v->layer[layer];
    size_t before = side == KV_V ? (size_t)l->n_kv_head * v->n_draft * l->vec_bytes[KV_K] : 0;
    return v->draft + l->draft + before + (size_t)head * v->n_draft * l->vec_bytes[side];
}

/* Where a row's own K or V vector of one head goes. */
static inline uint8_t *kv_slot_at(const struct kv_view *v, int layer, enum kv_side side, int head, int row)
{
    const struct kv_row *r = &v->row[row];
    size_t bytes = v->layer[layer].vec_bytes[side];
    if (r->block < 0) return kv_draft_at(v, layer, side, head) + r->slot * bytes;
    return kv_block_at(v, layer, side, r->block) + ((size_t)head * KV_BLOCK + r->slot) * bytes;
}

#endif
