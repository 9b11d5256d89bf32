/* SPDX-License-Identifier: MIT
 *
 * Builds a kv_view by hand, straight from the rules of ops/kv_view.h, for tests of ops/ and of attention kernels.
 *
 *     struct kv_fixture f;
 *     fixture_open(&f, QUANT_F16, n_kv_head, d_head);        one layer; fixture_open_layers: more
 *     int s = fixture_sequence(&f, 100, -1, 0);               100 committed tokens of its own
 *     int t = fixture_sequence(&f, 130, s, 1);                shares the first block of s
 *     int r = fixture_row(&f, t, -1, false);                  the next token, straight into its block
 *     fixture_row(&f, s, -1, true);                           a draft row; the parent of others
 *     fixture_finish(&f);                                     items; f.view is ready
 *
 * Memory beyond what a row has been given is filled with NaN: a kernel that lets it through is found out.
 */
#ifndef TESTS_KV_FIXTURE_H
#define TESTS_KV_FIXTURE_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ref/ref.h"
#include "quant/quant.h"

enum { FIX_BLOCKS = 160, FIX_SEQS = 80, FIX_TABLE = 80, FIX_ROWS = 600, FIX_ITEM_ROWS = 50000, FIX_LAYERS = 8 };

struct kv_fixture {
    struct kv_view view;
    struct kv_layer layer[FIX_LAYERS];
    size_t pool_bytes, draft_bytes; /* of the view's */
    int n_row, n_seq, next_block;
    int32_t committed[FIX_SEQS], direct[FIX_SEQS]; /* tokens before the batch, and written straight by it */
    int row_seq[FIX_ROWS];
    struct kv_row row[FIX_ROWS];
    int32_t table[FIX_SEQS * FIX_TABLE];
    struct kv_item item[FIX_BLOCKS];
    int32_t item_row[FIX_ITEM_ROWS];
};

/* A hash, so that the content of a position depends on nothing else: uniform in [-1, 1). */
static inline float fixture_noise(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t x = a * 0x9E3779B1u ^ b * 0x85EBCA77u ^ c * 0xC2B2AE3Du;
    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    x ^= x >> 12;
    x *= 0x297A2D39u;
    x ^= x >> 15;
    return (float)(x >> 8) * 0x1p-23f - 1;
}

static inline void fixture_fill_nan(uint8_t *p, size_t bytes)
{
    memset(p, 0xff, bytes); /* all ones is a NaN in f16 and f32 */
}

static inline void fixture_open_types(struct kv_fixture *f, enum quant_type k, enum quant_type v,
    const struct op_layer *layer, int n_layer, int32_t n_block)
{
    memset(f, 0, sizeof *f);
    for (int i = 0; i < n_layer; i++) {
        size_t vec[2] = {0}, each, heads = (size_t)layer[i].n_kv_head;
        if (layer[i].cache != i) {
            f->layer[i] = layer[i].cache < 0 ? (struct kv_layer){.cache = -1} : f->layer[layer[i].cache];
            continue;
        }
        if (quant_row_bytes(k, layer[i].d_head, &vec[KV_K]) < 0) abort();
        if (quant_row_bytes(v, layer[i].d_head, &vec[KV_V]) < 0) abort();
        each = vec[KV_K] + vec[KV_V];
        f->layer[i] = (struct kv_layer){.cache = i,
            .n_kv_head = layer[i].n_kv_head,
            .d_head = layer[i].d_head,
            .vec_bytes = {vec[KV_K], vec[KV_V]},
            .side_bytes = {heads * KV_BLOCK * vec[KV_K], heads * KV_BLOCK * vec[KV_V]},
            .pool = f->pool_bytes,
            .block_bytes = heads * KV_BLOCK * each,
            .draft = f->draft_bytes};
        f->pool_bytes += (size_t)n_block * f->layer[i].block_bytes;
        f->draft_bytes += heads * FIX_ROWS * each;
    }
    f->view = (struct kv_view){
        .type = {k, v}, .n_layer = n_layer, .n_block = n_block, .n_draft = FIX_ROWS, .layer = f->layer};
    f->view.pool = aligned_alloc(64, (f->pool_bytes + 63) / 64 * 64);
    f->view.draft = aligned_alloc(64, (f->draft_bytes + 63) / 64 * 64);
    fixture_fill_nan(f->view.pool, f->pool_bytes);
    fixture_fill_nan(f->view.draft, f->draft_bytes);
    f->view.row = f->row;
    f->view.table = f->table;
    f->view.item = f->item;
    f->view.item_row = f->item_row;
}

static inline void fixture_open_layers(
    struct kv_fixture *f, enum quant_type type, const struct op_layer *layer, int n_layer, int32_t n_block)
{
    fixture_open_types(f, type, type, layer, n_layer, n_block);
}

static inline void fixture_open(struct kv_fixture *f, enum quant_type type, int n_kv_head, int d_head)
{
    fixture_open_layers(f, type, &(struct op_layer){.n_kv_head = n_kv_head, .d_head = d_head}, 1, FIX_BLOCKS);
}

static inline void fixture_close(struct kv_fixture *f)
{
    free(f->view.pool);
    free(f->view.draft);
}

/* K and V of one position: a function of (content, position), so that equal tokens have equal vectors. */
static inline void fixture_store(struct kv_fixture *f, uint32_t content, int32_t pos, int row)
{
    for (int layer = 0; layer < f->view.n_layer; layer++) {
        int n = f->layer[layer].n_kv_head * f->layer[layer].d_head;
        if (!kv_owns(&f->view, layer)) continue;
        float *k = malloc(2 * sizeof(float) * (size_t)n);
        float *v = k + n;
        for (int i = 0; i < n; i++) {
            k[i] = fixture_noise(content, (uint32_t)pos, (uint32_t)(2 * i + 100000 * layer));
            v[i] = fixture_noise(content, (uint32_t)pos, (uint32_t)(2 * i + 1 + 100000 * layer));
        }
        ref_kv_append(&f->view, layer, row, k, v);
        free(k);
    }
}

static inline int32_t fixture_block(struct kv_fixture *f, int seq, int32_t pos)
{
    int32_t *entry = &f->table[seq * FIX_TABLE + pos / KV_BLOCK];
    if (*entry < 0) *entry = f->next_block++;
    if (*entry >= f->view.n_block) abort();
    return *entry;
}

/* A sequence of n committed tokens, its first n_shared blocks being those of sequence `from`. */
static inline int fixture_sequence_of(struct kv_fixture *f, int32_t n, int from, int n_shared, uint32_t content)
{
    int s = f->n_seq++;
    for (int i = 0; i < FIX_TABLE; i++) f->table[s * FIX_TABLE + i] = -1;
    for (int i = 0; i < n_shared; i++) f->table[s * FIX_TABLE + i] = f->table[from * FIX_TABLE + i];
    f->committed[s] = n;
    for (int32_t pos = n_shared * KV_BLOCK; pos < n; pos++) {
        f->row[f->n_row] = (struct kv_row){.block = fixture_block(f, s, pos), .slot = pos % KV_BLOCK};
        fixture_store(f, content, pos, f->n_row);
    }
    return s;
}

static inline int fixture_sequence(struct kv_fixture *f, int32_t n, int from, int n_shared)
{
    return fixture_sequence_of(f, n, from, n_shared, (uint32_t)f->n_seq);
}

/* The next row.  A draft row's parent is another draft row or -1; a direct row continues its sequence's tip. */
static inline int fixture_row_of(struct kv_fixture *f, int seq, int parent, bool draft, uint32_t content)
{
    int i = f->n_row++;
    struct kv_row *r = &f->row[i];
    f->row_seq[i] = seq;
    *r = (struct kv_row){.table = seq * FIX_TABLE};
    if (draft) {
        r->n_paged = f->committed[seq];
        r->block = -1;
        r->slot = i;
        r->up = parent;
        r->n_path = parent < 0 ? 1 : f->row[parent].n_path + 1;
    } else {
        int32_t pos = f->committed[seq] + f->direct[seq]++;
        r->block = fixture_block(f, seq, pos);
        r->slot = pos % KV_BLOCK;
        r->n_paged = pos + 1;
    }
    fixture_store(f, content, r->n_paged + r->n_path - 1, i);
    return i;
}

static inline int fixture_row(struct kv_fixture *f, int seq, int parent, bool draft)
{
    return fixture_row_of(f, seq, parent, draft, (uint32_t)(1000 + f->n_row));
}

/* Segments of a row that the items cover. */
static inline int32_t fixture_item_segments(const struct kv_row *r)
{
    return r->n_path ? r->n_paged / KV_BLOCK : (r->n_paged + KV_BLOCK - 1) / KV_BLOCK;
}

static inline void fixture_finish(struct kv_fixture *f)
{
    int n_entry = 0;
    f->view.n_item = 0;
    for (int32_t segment = 0; segment < FIX_TABLE; segment++) {
        bool done[FIX_BLOCKS] = {false};
        for (int i = 0; i < f->n_row; i++) {
            if (segment >= fixture_item_segments(&f->row[i])) continue;
            int32_t block = f->table[f->row[i].table + segment];
            if (done[block]) continue;
            done[block] = true;
            struct kv_item *item = &f->item[f->view.n_item++];
            *item = (struct kv_item){.block = block, .pos = segment * KV_BLOCK, .first = n_entry};
            for (int j = i; j < f->n_row; j++) {
                if (segment < fixture_item_segments(&f->row[j]) && f->table[f->row[j].table + segment] == block) {
                    f->item_row[n_entry++] = j;
                }
            }
            item->n = n_entry - item->first;
        }
    }
}

#endif
