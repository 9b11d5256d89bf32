/* SPDX-License-Identifier: MIT
 *
 * The tables of an attention operation over one list of segments: rows in groups of as many as a tile holds, every
 * group with all segments.
 */
#ifndef LUTRA_TESTS_NPU_ATTENTION_BOX_H
#define LUTRA_TESTS_NPU_ATTENTION_BOX_H

#include <stddef.h>
#include <string.h>

#include "npu/wire/message.h"

enum { BOX_GROUPS = 16, BOX_SEGMENTS = 256, BOX_MASKS = 8192 };

struct attention_box {
    struct npu_attention head;
    struct npu_group groups[BOX_GROUPS];
    struct npu_segment segments[BOX_SEGMENTS];
    struct npu_run runs[BOX_SEGMENTS];
    uint64_t masks[BOX_MASKS];
};

/* m rows, n_segments segments at keys[i], values[i]; mask(user, row, segment) says what a row sees.  A group has its
 * own segments: n_segments * groups is at most BOX_SEGMENTS. */
static inline void attention_box_fill(struct attention_box *box, uint32_t m, uint32_t n_kv_heads, uint32_t n_heads,
    uint32_t n_segments, const struct npu_slot *at, uint64_t (*mask)(const void *user, uint32_t row, uint32_t segment),
    const void *user)
{
    uint32_t each = NPU_ATTENTION_ROWS / n_heads, n_mask = 0, n_segment = 0, g = 0;
    memset(box, 0, sizeof *box);
    for (uint32_t r = 0; r < m; r += each, g++) {
        uint32_t n = m - r < each ? m - r : each;
        box->groups[g] = (struct npu_group){r, n, n_segment, n_segments};
        for (uint32_t s = 0; s < n_segments; s++, n_mask += n) {
            box->runs[n_segment] = (struct npu_run){at[s], NPU_SEGMENT};
            box->segments[n_segment] = (struct npu_segment){n_segment, 1, n_mask};
            n_segment++;
            for (uint32_t i = 0; i < n; i++) box->masks[n_mask + i] = mask(user, r + i, s);
        }
    }
    box->head = (struct npu_attention){(uint32_t)offsetof(struct attention_box, masks) + 8 * n_mask, g,
        offsetof(struct attention_box, groups), offsetof(struct attention_box, segments),
        offsetof(struct attention_box, runs), offsetof(struct attention_box, masks), n_kv_heads, n_heads};
}

#endif
