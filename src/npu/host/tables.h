/* SPDX-License-Identifier: MIT
 *
 * What a pass's messages refer to: rotation tables, cache slots, who sees which keys (npu/wire/message.h).
 *
 * Pure functions over memory of the caller; nothing allocates.
 */
#ifndef LUTRA_NPU_HOST_TABLES_H
#define LUTRA_NPU_HOST_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "npu/wire/message.h"
#include "ops/kv_view.h"
#include "ops/op.h"

/* Elements after which a rotation's tables repeat: the least common multiple of a head and a vector. */
uint32_t npu_rope_period(const struct op_rope *p);

/* How far an element's partner lies. */
uint32_t npu_rope_distance(const struct op_rope *p);

/* mask [period], and for one position c and s [2 * period].  n_rot is at most NPU_ROPE_MAX. */
enum { NPU_ROPE_MAX = 1024 };
void npu_rope_mask(const struct op_rope *p, uint32_t *mask);
void npu_rope_row(const struct op_rope *p, int32_t pos, float *c_and_s);

/* Where rows of the batch put their own K and V; pool and draft are the window offsets of kv->pool and kv->draft. */
void npu_kv_slots(const struct kv_view *kv, uint32_t pool, uint32_t draft, int n_row, struct npu_slot *slot);

struct npu_attention_request {
    const struct kv_view *kv;
    uint32_t pool, draft; /* window offsets */
    int n_row;
    int n_heads; /* query heads per KV head, at most NPU_ATTENTION_ROWS */
    int window;  /* 0 = all */
};

/* Bytes that tables of n_row rows over n_ctx positions never exceed; SIZE_MAX on overflow. */
size_t npu_attention_bytes(int n_row, int n_ctx, int n_heads);

/* Tables at `out` (8-byte aligned, npu_attention_bytes long), whose first word becomes their length.  Rows that see the
 * same keys share them: each physical block once per group, a draft's path with those it is a part of. */
void npu_attention_tables(const struct npu_attention_request *r, void *out, size_t max_bytes);

#endif
