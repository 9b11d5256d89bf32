/* SPDX-License-Identifier: MIT
 *
 * What the host writes for a segment: wanted rows, the cache as the rows see it, cosines and sines of the positions.
 * A few segments may be under way, each with tables of its own.
 */
#include <string.h>

#include "gpu/device_impl.h"
#include "ops/ref/ref.h"

/* Whether two rotations have the same tables. */
static bool same_turns(const struct op_rope *a, const struct op_rope *b)
{
    return a->n_rot == b->n_rot && a->freq_base == b->freq_base && a->freq_scale == b->freq_scale &&
           a->factors == b->factors && a->magnitude == b->magnitude && a->growth == b->growth &&
           a->growth_every == b->growth_every && a->long_factors == b->long_factors && a->short_ctx == b->short_ctx;
}

/* Its place among the rotations; n: it is a new one. */
static int find(const struct gpu_tables *t, const struct op_rope *rope)
{
    int i = 0;
    while (i < t->n_rope && !same_turns(&t->rope[i].rope, rope)) i++;
    return i;
}

static size_t turns_bytes(const struct op_rope *p, size_t n_row)
{
    return n_row * (size_t)p->n_rot * sizeof(float);
}

int gpu_tables_ropes(const struct op_list *list, int n_row, size_t *bytes, struct lutra_error *err)
{
    struct gpu_tables t = {0};
    *bytes = 0;
    for (int i = 0; i < list->n_op; i++) {
        const struct op_rope *rope = &list->op[i].rope;
        if (list->op[i].kind != OP_ROPE || find(&t, rope) < t.n_rope) continue;
        if (t.n_rope == GPU_ROPES)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: more than %d distinct rotations", GPU_ROPES);
        t.rope[t.n_rope++].rope = *rope;
        *bytes += turns_bytes(rope, (size_t)n_row);
    }
    return 0;
}

static size_t table_entries(const struct gpu_reserved *most)
{
    return (size_t)most->max_rows * ((size_t)most->n_ctx / KV_BLOCK + 1);
}

size_t gpu_tables_bytes(const struct gpu_reserved *most)
{
    return (size_t)most->max_out * sizeof(int32_t) +
           (size_t)most->max_rows * (sizeof(int32_t) + sizeof(struct kv_row)) + table_entries(most) * sizeof(int32_t) +
           most->rope_bytes;
}

/* Entries of kv_view.table that some row reads. */
static size_t entries_used(const struct pass_args *pass)
{
    size_t most = 0;
    for (int r = 0; r < pass->batch->n_row; r++) {
        const struct kv_row *row = &pass->kv->row[r];
        size_t end = (size_t)row->table + ((size_t)row->n_paged + KV_BLOCK - 1) / KV_BLOCK;
        if (end > most) most = end;
    }
    return most;
}

struct writer {
    const struct gpu_memory *memory;
    size_t used;
};

/* Room for `bytes`, whose address goes to *at; NULL: none, which reserve has not foreseen. */
static void *take(struct writer *w, size_t bytes, uint64_t *at)
{
    uint8_t *to = w->memory->mapped + w->used;
    if (bytes > w->memory->bytes - w->used) return NULL;
    *at = w->memory->address + w->used;
    w->used += bytes;
    return to;
}

static bool put(struct writer *w, const void *from, size_t bytes, uint64_t *at)
{
    void *to = take(w, bytes, at);
    if (to && bytes) memcpy(to, from, bytes);
    return to;
}

static bool put_turns(struct writer *w, const struct op_rope *rope, const struct pass_args *pass, uint64_t *at)
{
    double power[GPU_ROT_MAX / 2];
    const struct op_rope now = ref_rope_in(rope, pass->n_ctx);
    float *cs = take(w, turns_bytes(rope, (size_t)pass->batch->n_row), at);
    if (!cs) return false;
    ref_rope_powers(&now, power);
    for (int r = 0; r < pass->batch->n_row; r++, cs += now.n_rot)
        ref_rope_turns(&now, power, pass->batch->row[r].pos, cs);
    return true;
}

static bool put_tokens(struct writer *w, const struct batch *batch, uint64_t *at)
{
    int32_t *to = take(w, (size_t)batch->n_row * sizeof *to, at);
    for (int r = 0; to && r < batch->n_row; r++) to[r] = batch->row[r].token;
    return to;
}

static bool put_all(struct writer *w, const struct segment *s, struct gpu_tables *out)
{
    bool cache = false;
    for (int i = 0; i < s->n_op; i++) {
        const struct op *op = &s->op[i];
        cache |= op_info_of(op->kind)->reads_cache || op_info_of(op->kind)->writes_cache;
        if (op->kind != OP_ROPE || find(out, &op->rope) < out->n_rope) continue;
        out->rope[out->n_rope].rope = op->rope;
        if (!put_turns(w, &op->rope, s->pass, &out->rope[out->n_rope++].at)) return false;
    }
    if (!put_tokens(w, s->pass->batch, &out->tokens)) return false;
    if (!put(w, s->pass->out_row, (size_t)s->pass->n_out * sizeof(int32_t), &out->out_rows)) return false;
    if (!cache) return true;
    const struct kv_view *kv = s->pass->kv;
    return put(w, kv->row, (size_t)s->pass->batch->n_row * sizeof *kv->row, &out->kv_rows) &&
           put(w, kv->table, entries_used(s->pass) * sizeof *kv->table, &out->kv_table);
}

int gpu_tables_write(
    struct gpu_device *d, const struct segment *segment, struct gpu_tables *out, struct lutra_error *err)
{
    struct writer w = {&d->tables[d->tables_at], 0};
    *out = (struct gpu_tables){0};
    TRY(gpu_queue_wait(d, d->tables_ticket[d->tables_at], err));
    if (put_all(&w, segment, out)) return 0;
    return lutra_fail(err, LUTRA_E_INTERNAL, "vulkan: the tables of a pass do not fit into %zu bytes", w.memory->bytes);
}

uint64_t gpu_tables_rope(const struct gpu_tables *t, const struct op_rope *rope)
{
    return t->rope[find(t, rope)].at;
}
