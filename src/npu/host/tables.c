/* SPDX-License-Identifier: MIT */
#include "npu/host/tables.h"

#include <string.h>

#include "base/compiler.h"
#include "ops/ref/ref.h"

/* ---- rotation ---- */

uint32_t npu_rope_period(const struct op_rope *p)
{
    uint32_t period = (uint32_t)p->d_head;
    while (period % 32) period += (uint32_t)p->d_head;
    return period;
}

uint32_t npu_rope_distance(const struct op_rope *p)
{
    return p->kind == ROPE_NORM ? 1 : (uint32_t)p->n_rot / 2;
}

/* Is element i of a head the first of its pair? */
static bool is_first(const struct op_rope *p, int i)
{
    return i < p->n_rot && (p->kind == ROPE_NORM ? i % 2 == 0 : i < p->n_rot / 2);
}

void npu_rope_mask(const struct op_rope *p, uint32_t *mask)
{
    for (uint32_t e = 0; e < npu_rope_period(p); e++) mask[e] = is_first(p, (int)e % p->d_head) ? UINT32_MAX : 0;
}

void npu_rope_row(const struct op_rope *p, int32_t pos, float *c_and_s)
{
    float cs[NPU_ROPE_MAX];
    uint32_t period = npu_rope_period(p);
    ref_rope_table(p, pos, cs);
    for (uint32_t e = 0; e < period; e++) {
        int i = (int)e % p->d_head, pair = p->kind == ROPE_NORM ? i / 2 : i % (p->n_rot / 2);
        bool stays = i >= p->n_rot;
        c_and_s[e] = stays ? 1 : cs[2 * pair];
        c_and_s[period + e] = stays ? 0 : is_first(p, i) ? -cs[2 * pair + 1] : cs[2 * pair + 1];
    }
}

/* ---- the cache ---- */

/* Slot `slot` of a block, or of the draft scratch for block -1: layer 0, head 0. */
static struct npu_slot slot_at(const struct kv_view *kv, uint32_t pool, uint32_t draft, int32_t block, int32_t slot)
{
    uint32_t vec = (uint32_t)kv->layer[0].vec_bytes[KV_K], heads = (uint32_t)kv->layer[0].n_kv_head;
    if (block < 0) {
        uint32_t head = (uint32_t)kv->n_draft * vec;
        return (struct npu_slot){
            draft + (uint32_t)slot * vec, draft + heads * head + (uint32_t)slot * vec, 2 * heads * head, head};
    }
    uint32_t head = KV_BLOCK * vec, at = pool + (uint32_t)block * 2 * heads * head + (uint32_t)slot * vec;
    return (struct npu_slot){at, at + heads * head, (uint32_t)kv->n_block * 2 * heads * head, head};
}

void npu_kv_slots(const struct kv_view *kv, uint32_t pool, uint32_t draft, int n_row, struct npu_slot *slot)
{
    for (int r = 0; r < n_row; r++) slot[r] = slot_at(kv, pool, draft, kv->row[r].block, kv->row[r].slot);
}

/* ---- attention ---- */

/* The keys of one segment of one list: where key i is, as block * 64 + slot, or ~slot of the draft scratch. */
struct keys {
    int64_t at[NPU_SEGMENT];
    int32_t n;
    uint64_t mask[NPU_ATTENTION_ROWS]; /* of the group's rows */
};

struct builder {
    const struct npu_attention_request *r;
    struct npu_segment *segment;
    struct npu_run *run;
    uint64_t *mask;
    uint32_t n_segment, n_run, n_mask;
};

static int32_t length(const struct kv_row *row)
{
    return row->n_paged + row->n_path;
}

/* What a row sees of segment b: keys in order, and which of them its window lets through. */
static uint64_t list_keys(const struct builder *b, const struct kv_row *row, int32_t segment, struct keys *out)
{
    const struct kv_view *kv = b->r->kv;
    int32_t first = segment * NPU_SEGMENT, n = length(row) - first;
    int32_t least = b->r->window > 0 ? length(row) - b->r->window : 0;
    uint64_t mask = 0;
    out->n = n < NPU_SEGMENT ? n : NPU_SEGMENT;
    int32_t last = first + out->n - 1;
    int32_t draft = last < row->n_paged ? -1 : kv_draft_row(kv, (int32_t)(row - kv->row), last);
    for (int32_t i = out->n - 1; i >= 0; i--) {
        if (first + i < row->n_paged) {
            out->at[i] = (int64_t)kv->table[row->table + segment] * KV_BLOCK + i;
        } else {
            out->at[i] = ~(int64_t)kv->row[draft].slot;
            draft = kv->row[draft].up;
        }
        mask |= (uint64_t)(first + i >= least) << i;
    }
    return mask;
}

/* The list that keys belong to, one being the beginning of the other; a new one where there is none. */
static struct keys *find_list(struct keys *list, int *n_list, const struct keys *keys)
{
    for (int i = 0; i < *n_list; i++) {
        int32_t n = list[i].n < keys->n ? list[i].n : keys->n;
        if (memcmp(list[i].at, keys->at, (size_t)n * sizeof *keys->at)) continue;
        if (keys->n > list[i].n) {
            memcpy(list[i].at, keys->at, (size_t)keys->n * sizeof *keys->at);
            list[i].n = keys->n;
        }
        return &list[i];
    }
    struct keys *new = &list[(*n_list)++];
    memcpy(new->at, keys->at, (size_t)keys->n * sizeof *keys->at);
    new->n = keys->n;
    memset(new->mask, 0, sizeof new->mask);
    return new;
}

/* Runs of keys that lie one behind another.  What follows the last key may be anything: any 64 keys of the pool do. */
static void add_segment(struct builder *b, const struct keys *list, uint32_t n_rows)
{
    const struct npu_attention_request *r = b->r;
    uint32_t first = b->n_run;
    for (int32_t i = 0, n; i < list->n; i += n) {
        int64_t at = list->at[i], step = at < 0 ? -1 : 1;
        for (n = 1; i + n < list->n && list->at[i + n] == at + step * n;) n++;
        struct npu_slot slot =
            at < 0 ? slot_at(r->kv, r->pool, r->draft, -1, (int32_t)~at)
                   : slot_at(r->kv, r->pool, r->draft, (int32_t)(at / KV_BLOCK), (int32_t)(at % KV_BLOCK));
        b->run[b->n_run++] = (struct npu_run){slot, (uint32_t)n};
    }
    if (list->n < NPU_SEGMENT)
        b->run[b->n_run++] = (struct npu_run){slot_at(r->kv, r->pool, r->draft, 0, 0), NPU_SEGMENT - (uint32_t)list->n};
    b->segment[b->n_segment++] = (struct npu_segment){first, b->n_run - first, b->n_mask};
    memcpy(b->mask + b->n_mask, list->mask, n_rows * sizeof *b->mask);
    b->n_mask += n_rows;
}

/* The segments of one group, in ascending position. */
static void add_group(struct builder *b, struct npu_group *group)
{
    const struct kv_row *row = b->r->kv->row + group->row;
    struct keys list[NPU_ATTENTION_ROWS], keys;
    int32_t longest = 0;
    group->segment = b->n_segment;
    for (uint32_t i = 0; i < group->n_rows; i++)
        if (length(&row[i]) > longest) longest = length(&row[i]);
    for (int32_t s = 0; s * NPU_SEGMENT < longest; s++) {
        int n_list = 0;
        for (uint32_t i = 0; i < group->n_rows; i++) {
            if (s * NPU_SEGMENT >= length(&row[i])) continue;
            uint64_t mask = list_keys(b, &row[i], s, &keys);
            if (mask) find_list(list, &n_list, &keys)->mask[i] = mask;
        }
        for (int i = 0; i < n_list; i++) add_segment(b, &list[i], group->n_rows);
    }
    group->n_segments = b->n_segment - group->segment;
}

struct places {
    size_t groups, segments, runs, masks, bytes;
};

/* Upper bounds: every row alone in every segment; a segment has at most 65 runs, but those of all drafts together have
 * no more than one per key of each row's last two segments. */
static int lay_out(int n_row, int n_ctx, int n_heads, struct places *out)
{
    size_t rows = (size_t)n_row, per = NPU_ATTENTION_ROWS / (size_t)n_heads, n_segment, n_mask;
    size_t blocks = (size_t)n_ctx / NPU_SEGMENT + 2;
    if (LUTRA_MUL_OVERFLOWS(rows, blocks, &n_segment) || LUTRA_MUL_OVERFLOWS(n_segment, per * 8, &n_mask)) return -1;
    if (n_segment > SIZE_MAX / 256 || rows > SIZE_MAX / (130 * sizeof(struct npu_run) * 2)) return -1;
    out->groups = sizeof(struct npu_attention);
    out->segments = out->groups + rows * sizeof(struct npu_group);
    out->runs = out->segments + n_segment * sizeof(struct npu_segment);
    out->masks = (out->runs + (2 * n_segment + rows * NPU_SEGMENT) * sizeof(struct npu_run) + 7) / 8 * 8;
    out->bytes = out->masks + n_mask;
    return 0;
}

size_t npu_attention_bytes(int n_row, int n_ctx, int n_heads)
{
    struct places p;
    return lay_out(n_row, n_ctx, n_heads, &p) ? SIZE_MAX : p.bytes;
}

void npu_attention_tables(const struct npu_attention_request *r, void *out, size_t max_bytes)
{
    struct places p;
    uint32_t per = NPU_ATTENTION_ROWS / (uint32_t)r->n_heads, n_row = (uint32_t)r->n_row, n_group = 0;
    int32_t longest = 0;
    for (int i = 0; i < r->n_row; i++)
        if (length(&r->kv->row[i]) > longest) longest = length(&r->kv->row[i]);
    if (lay_out(r->n_row, longest, r->n_heads, &p) || p.bytes > max_bytes) return;
    uint8_t *base = out;
    struct npu_group *group = (struct npu_group *)(void *)(base + p.groups);
    struct builder b = {.r = r,
        .segment = (struct npu_segment *)(void *)(base + p.segments),
        .run = (struct npu_run *)(void *)(base + p.runs),
        .mask = (uint64_t *)(void *)(base + p.masks)};
    for (uint32_t i = 0; i < n_row; i += per) {
        group[n_group] = (struct npu_group){.row = i, .n_rows = n_row - i < per ? n_row - i : per};
        add_group(&b, &group[n_group++]);
    }
    /* The bounds leave gaps: what follows moves up. */
    size_t segments = p.groups + n_group * sizeof *group, runs = segments + b.n_segment * sizeof *b.segment;
    size_t masks = (runs + b.n_run * sizeof *b.run + 7) / 8 * 8;
    memmove(base + segments, b.segment, b.n_segment * sizeof *b.segment);
    memmove(base + runs, b.run, b.n_run * sizeof *b.run);
    memmove(base + masks, b.mask, b.n_mask * sizeof *b.mask);
    *(struct npu_attention *)out = (struct npu_attention){(uint32_t)(masks + b.n_mask * sizeof *b.mask), n_group,
        (uint32_t)p.groups, (uint32_t)segments, (uint32_t)runs, (uint32_t)masks, (uint32_t)r->kv->layer[0].n_kv_head,
        (uint32_t)r->n_heads};
}
