/* SPDX-License-Identifier: MIT
 *
 * A segment of operations as dispatches.  Between two of them stands a barrier where one needs what the other wrote, or
 * writes what the other reads.
 */
#include <string.h>

#include "gpu/device_impl.h"

enum { LANES = 64, OUTS = 32, FEW_ROWS = 4, MANY_ROWS = 16, ROUNDED_BYTES = 40 /* of a group of 32 */ };

/* What operations touch beside values, whose bits are their numbers. */
#define CACHES (1ull << VALUE_MAX)
#define ROUNDED (2ull << VALUE_MAX)

struct program {
    struct gpu_device *d;
    const struct segment *s;
    const struct gpu_constants *constants;
    struct gpu_tables tables;
    uint64_t value[VALUE_MAX]; /* addresses */
    uint64_t reads, writes;    /* since the last barrier */
};

static uint32_t rows_of(const struct segment *s, int value)
{
    return (uint32_t)(s->list->value[value].rows == ROWS_OUT ? s->pass->n_out : s->pass->batch->n_row);
}

static uint32_t dim_of(const struct program *p, int value)
{
    return (uint32_t)p->s->list->value[value].dim;
}

static uint64_t row_at(const struct program *p, int value, int row)
{
    return p->value[value] + (uint64_t)row * dim_of(p, value) * sizeof(float);
}

static uint32_t groups_of(uint32_t n, uint32_t each)
{
    return (n + each - 1) / each;
}

/* ---- barriers ---- */

static int order(struct program *p, uint64_t reads, uint64_t writes, struct lutra_error *err)
{
    if (p->writes & (reads | writes) || p->reads & writes) {
        TRY(gpu_queue_barrier(p->d, err));
        p->reads = p->writes = 0;
    }
    p->reads |= reads;
    p->writes |= writes;
    return 0;
}

static int order_op(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct op_info *info = op_info_of(op->kind);
    uint64_t reads = info->reads_cache ? CACHES : 0, writes = info->writes_cache ? CACHES : 0;
    for (int i = 0; i < op->n_in; i++) reads |= 1ull << op->in[i];
    for (int i = 0; i < op->n_out; i++) writes |= 1ull << op->out[i];
    return order(p, reads, writes, err);
}

/* ---- kernels ---- */

/* constant_id 1 is of products alone. */
static int run(struct program *p, enum gpu_shader shader, uint32_t variant, const void *push, size_t push_bytes,
    uint32_t x, uint32_t y, double mac, struct lutra_error *err)
{
    struct gpu_dispatch g = {.push = push, .push_bytes = (uint32_t)push_bytes, .x = x, .y = y, .mac = mac};
    TRY(gpu_pipeline(p->d, shader, variant, false, &g.pipeline, err));
    return gpu_queue_dispatch(p->d, &g, err);
}

static const enum gpu_pointwise pointwise_of[OP_COUNT] = {[OP_SWIGLU] = GPU_SWIGLU,
    [OP_GEGLU] = GPU_GEGLU,
    [OP_GELU] = GPU_GELU,
    [OP_RELU2] = GPU_RELU2,
    [OP_SWIGLU_OAI] = GPU_SWIGLU_OAI,
    [OP_ADD] = GPU_ADD,
    [OP_SCALE] = GPU_SCALE,
    [OP_ADD_SCALED] = GPU_ADD_SCALED,
    [OP_PERMUTE] = GPU_PERMUTE,
    [OP_TAKE] = GPU_TAKE};

static int run_pointwise(struct program *p, const struct op *op, struct row_run rows, struct lutra_error *err)
{
    const struct {
        uint64_t a, b, result, index;
        uint32_t dim;
        float by;
        uint32_t in_dim;
    } push = {.a = row_at(p, op->in[0], op->kind == OP_TAKE ? 0 : rows.first),
        .b = op->n_in > 1 ? row_at(p, op->in[1], rows.first) : 0,
        .result = row_at(p, op->out[0], rows.first),
        .index = op->kind == OP_TAKE      ? p->tables.out_rows
                 : op->kind == OP_PERMUTE ? gpu_constant_at(p->constants, op->permute.order)
                                          : 0,
        .dim = dim_of(p, op->out[0]),
        .by = op->kind == OP_SCALE        ? op->scale.by
              : op->kind == OP_ADD_SCALED ? op->add.scale
                                          : 0,
        .in_dim = dim_of(p, op->in[0])};
    return run(p, GPU_POINTWISE, pointwise_of[op->kind], &push, sizeof push, groups_of(push.dim, LANES),
        (uint32_t)rows.n, (double)push.dim * rows.n, err);
}

static int run_embed(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct packed *packed = weight_packed(op->weight[0], &p->d->base);
    const struct {
        uint64_t weight, token, result;
        uint32_t skew, row_bytes, n_in, first, dim;
        float scale;
    } push = {.weight = packed->address,
        .token = p->tables.tokens,
        .result = p->value[op->out[0]],
        .skew = packed->skew,
        .row_bytes = packed->row_bytes,
        .n_in = (uint32_t)op->weight[0]->tensor.ne[0],
        .first = (uint32_t)op->embed.first,
        .dim = dim_of(p, op->out[0]),
        .scale = op->embed.scale};
    uint32_t rows = rows_of(p->s, op->out[0]);
    return run(p, GPU_EMBED, (uint32_t)op->weight[0]->tensor.type, &push, sizeof push, groups_of(push.dim, 8 * LANES),
        rows, (double)push.dim * rows, err);
}

static int run_norm(struct program *p, const struct op *op, struct row_run rows, struct lutra_error *err)
{
    const struct {
        uint64_t x, weight, bias, result;
        uint32_t dim, n_norm;
        float eps;
        uint32_t has_bias;
    } push = {.x = row_at(p, op->in[0], rows.first),
        .weight = gpu_constant_at(p->constants, op->norm.weight),
        .bias = gpu_constant_at(p->constants, op->norm.bias),
        .result = row_at(p, op->out[0], rows.first),
        .dim = dim_of(p, op->out[0]),
        .n_norm = (uint32_t)op->norm.n_norm,
        .eps = op->norm.eps,
        .has_bias = op->norm.bias != NULL};
    return run(p, GPU_NORM, op->kind == OP_LAYER_NORM, &push, sizeof push, push.dim / push.n_norm, (uint32_t)rows.n,
        2.0 * push.dim * rows.n, err);
}

static int run_rope(struct program *p, const struct op *op, struct row_run rows, struct lutra_error *err)
{
    const struct op_rope *rope = &op->rope;
    const struct {
        uint64_t x, result, table;
        uint32_t n_head, d_head, n_rot, neox;
    } push = {.x = row_at(p, op->in[0], rows.first),
        .result = row_at(p, op->out[0], rows.first),
        .table = gpu_tables_rope(&p->tables, rope) + (uint64_t)rows.first * (uint32_t)rope->n_rot * sizeof(float),
        .n_head = (uint32_t)rope->n_head,
        .d_head = (uint32_t)rope->d_head,
        .n_rot = (uint32_t)rope->n_rot,
        .neox = rope->kind == ROPE_NEOX};
    uint32_t units = push.n_head * (push.d_head - push.n_rot / 2);
    return run(
        p, GPU_ROPE, 0, &push, sizeof push, groups_of(units, LANES), (uint32_t)rows.n, 2.0 * units * rows.n, err);
}

/* As cache.glsl has it. */
struct cache {
    uint64_t pool, draft, rows;
    uint32_t vec_bytes, side_bytes, block_bytes, n_draft, n_kv_head;
};

static uint32_t cache_variant(enum quant_type type)
{
    return type == QUANT_F32 ? 0 : type == QUANT_F16 ? 1 : 2;
}

static int find_cache(const struct program *p, int layer, struct cache *out, struct lutra_error *err)
{
    const struct kv_view *kv = p->s->pass->kv;
    const struct kv_layer *l = &kv->layer[layer];
    const struct gpu_buffer *pool = gpu_buffer_of(p->d, kv->pool);
    const struct gpu_buffer *draft = kv->n_draft ? gpu_buffer_of(p->d, kv->draft) : pool;
    size_t pool_bytes = (size_t)kv->n_block * l->block_bytes;
    size_t draft_bytes = 2 * (size_t)l->n_kv_head * (size_t)kv->n_draft * l->vec_bytes[KV_K];
    if (!pool || !draft)
        return lutra_fail(err, LUTRA_E_INTERNAL, "vulkan: the cache of layer %d is in no memory of the GPU", layer);
    if (l->swa) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: layer %d: windows that are freed", layer);
    if (pool_bytes > UINT32_MAX || draft_bytes > UINT32_MAX)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: a cache above 4 GiB in layer %d", layer);
    *out = (struct cache){.pool = pool->address + (uint64_t)(kv->pool - pool->host) + l->pool,
        .draft = kv->n_draft ? draft->address + (uint64_t)(kv->draft - draft->host) + l->draft : 0,
        .rows = p->tables.kv_rows,
        .vec_bytes = (uint32_t)l->vec_bytes[KV_K],
        .side_bytes = (uint32_t)l->side_bytes[KV_K],
        .block_bytes = (uint32_t)l->block_bytes,
        .n_draft = (uint32_t)kv->n_draft,
        .n_kv_head = (uint32_t)l->n_kv_head};
    return 0;
}

static int run_kv_append(struct program *p, const struct op *op, struct lutra_error *err)
{
    static const uint32_t unit[] = {1, 2, QUANT_BLOCK};
    const struct kv_view *kv = p->s->pass->kv;
    uint32_t variant = cache_variant(kv->type[KV_K]), rows = rows_of(p->s, op->in[0]);
    struct {
        struct cache cache;
        uint64_t k, v;
        uint32_t d_head;
    } push = {.k = p->value[op->in[0]], .v = p->value[op->in[1]], .d_head = (uint32_t)kv->layer[op->layer].d_head};
    TRY(find_cache(p, op->layer, &push.cache, err));
    uint32_t units = 2 * push.cache.n_kv_head * push.d_head / unit[variant];
    return run(p, GPU_KV_APPEND, variant, &push, sizeof push, groups_of(units, LANES), rows,
        2.0 * push.cache.n_kv_head * push.d_head * rows, err);
}

/* Multiply-accumulates of all rows. */
static double attention_mac(const struct pass_args *pass, const struct op_attention *a)
{
    double seen = 0;
    for (int r = 0; r < pass->batch->n_row; r++) {
        int n = pass->kv->row[r].n_paged + pass->kv->row[r].n_path;
        seen += a->window > 0 && a->window < n ? a->window : n;
    }
    return 2 * seen * a->n_head * a->d_head;
}

static int run_attention(struct program *p, const struct op *op, struct lutra_error *err)
{
    const struct op_attention *a = &op->attention;
    struct {
        struct cache cache;
        uint64_t table, q, result, sinks;
        uint32_t n_head, d_head, window, has_sinks;
        float scale, softcap;
    } push = {.table = p->tables.kv_table,
        .q = p->value[op->in[0]],
        .result = p->value[op->out[0]],
        .sinks = gpu_constant_at(p->constants, a->sinks),
        .n_head = (uint32_t)a->n_head,
        .d_head = (uint32_t)a->d_head,
        .window = (uint32_t)a->window,
        .has_sinks = a->sinks != NULL,
        .scale = a->scale,
        .softcap = a->softcap};
    TRY(find_cache(p, op->layer, &push.cache, err));
    return run(p, GPU_ATTENTION, cache_variant(p->s->pass->kv->type[KV_K]), &push, sizeof push, push.n_head,
        rows_of(p->s, op->in[0]), attention_mac(p->s->pass, a), err);
}

size_t gpu_program_rounded_bytes(const struct tensor *t, int n_row)
{
    return (size_t)n_row * (size_t)(t->ne[0] / QUANT_BLOCK) * ROUNDED_BYTES;
}

int gpu_program_round(struct gpu_device *d, const struct gpu_product *product, struct lutra_error *err)
{
    const struct {
        uint64_t x, result;
        uint32_t n_group;
    } push = {product->x, product->rounded, (uint32_t)product->weight->tensor.ne[0] / QUANT_BLOCK};
    struct gpu_dispatch g = {.push = &push,
        .push_bytes = sizeof push,
        .x = groups_of(push.n_group, LANES),
        .y = (uint32_t)product->n_row,
        .mac = 2.0 * QUANT_BLOCK * push.n_group * product->n_row};
    TRY(gpu_pipeline(d, GPU_ROUND, 0, false, &g.pipeline, err));
    return gpu_queue_dispatch(d, &g, err);
}

int gpu_program_product(struct gpu_device *d, const struct gpu_product *product, struct lutra_error *err)
{
    const struct weight *w = product->weight;
    const struct packed *packed = weight_packed(w, &d->base);
    const struct columns own = product->own.n ? product->own : (struct columns){0, w->tensor.ne[1]};
    const uint64_t at = (uint64_t)own.first * sizeof(float);
    const struct {
        uint64_t weight, x, bias, result;
        uint32_t skew, row_bytes, n_in, n_out, n_row, has_bias, result_stride;
    } push = {.weight = packed->address,
        .x = packed->i8 ? product->rounded : product->x,
        .bias = product->bias ? product->bias + at : 0,
        .result = product->result + at,
        .skew = packed->skew + (uint32_t)(own.first - packed->first) * packed->row_bytes,
        .row_bytes = packed->row_bytes,
        .n_in = (uint32_t)w->tensor.ne[0],
        .n_out = (uint32_t)own.n,
        .n_row = (uint32_t)product->n_row,
        .has_bias = product->bias != 0,
        .result_stride = (uint32_t)w->tensor.ne[1]};
    const bool wide = push.n_row > FEW_ROWS;
    struct gpu_dispatch g = {.push = &push,
        .push_bytes = sizeof push,
        .x = groups_of(push.n_out, OUTS),
        .y = groups_of(push.n_row, wide ? MANY_ROWS : FEW_ROWS),
        .mac = (double)push.n_in * push.n_out * push.n_row};
    enum gpu_shader shader = packed->i8 ? GPU_MATMUL_I8 : GPU_MATMUL;
    TRY(gpu_pipeline(d, shader, (uint32_t)w->tensor.type, wide, &g.pipeline, err));
    return gpu_queue_dispatch(d, &g, err);
}

/* Products with the same input, which is rounded once. */
static int run_products(
    struct program *p, struct weight *const *weight, const struct gpu_product *product, int n, struct lutra_error *err)
{
    bool rounded = false;
    for (int i = 0; i < n; i++) {
        struct gpu_product one = product[i];
        one.weight = weight[i];
        one.rounded = p->d->rounded.address;
        const bool i8 = weight_packed(weight[i], &p->d->base)->i8;
        if (i8 && !rounded) {
            TRY(order(p, 0, ROUNDED, err));
            TRY(gpu_program_round(p->d, &one, err));
            rounded = true;
        }
        if (i8) TRY(order(p, ROUNDED, 0, err));
        TRY(gpu_program_product(p->d, &one, err));
    }
    return 0;
}

static int run_matmul(struct program *p, const struct op *op, struct row_run rows, struct lutra_error *err)
{
    struct gpu_product product[OP_WEIGHTS];
    for (int i = 0; i < op->n_weight; i++)
        product[i] = (struct gpu_product){.x = row_at(p, op->in[0], rows.first),
            .bias = gpu_constant_at(p->constants, op->matmul.bias[i]),
            .result = row_at(p, op->out[i], rows.first),
            .own = share_columns(p->s->share, op->weight[i]->tensor.ne[1]),
            .n_row = rows.n};
    return run_products(p, op->weight, product, op->n_weight, err);
}

/* Logits of all wanted rows, and hidden states, to the scratch: wait takes them from there. */
static int run_head(struct program *p, const struct op *op, struct lutra_error *err)
{
    struct gpu_device *d = p->d;
    const struct pass_args *pass = p->s->pass;
    uint32_t all = 0;
    for (int i = 0; i < pass->n_out; i++) all |= pass->batch->row[pass->out_row[i]].want;
    d->head = (struct gpu_head){.op = op, .pass = pass, .n_vocab = p->s->list->n_vocab};
    if (all & WANT_HIDDEN) {
        const struct gpu_buffer *b = gpu_buffer_of(d, pass->value[op->in[1]].host);
        d->head.hidden_dim = dim_of(p, op->in[1]);
        TRY(gpu_queue_copy(d, &b->memory, (size_t)(b->address - b->memory.address), &d->hidden, 0,
            d->head.hidden_dim * sizeof(float) * (size_t)pass->n_out, err));
    }
    if (!(all & (WANT_LOGITS | WANT_TOPK | WANT_LOGPROB))) return 0;
    const struct gpu_product product = {.x = p->value[op->in[0]], .result = d->logits.address, .n_row = pass->n_out};
    return run_products(p, op->weight, &product, 1, err);
}

static int run_rows(struct program *p, const struct op *op, struct row_run rows, struct lutra_error *err)
{
    switch (op->kind) {
    case OP_MATMUL: return run_matmul(p, op, rows, err);
    case OP_RMS_NORM:
    case OP_LAYER_NORM: return run_norm(p, op, rows, err);
    case OP_ROPE: return run_rope(p, op, rows, err);
    default: return run_pointwise(p, op, rows, err);
    }
}

/* Where it has a share, rows of it that lie side by side at once. */
static int run_op(struct program *p, const struct op *op, struct lutra_error *err)
{
    TRY(order_op(p, op, err));
    switch (op->kind) {
    case OP_EMBED: return run_embed(p, op, err);
    case OP_KV_APPEND: return run_kv_append(p, op, err);
    case OP_ATTENTION: return run_attention(p, op, err);
    case OP_HEAD: return run_head(p, op, err);
    default: break;
    }
    const enum value_rows rows = p->s->list->value[op->out[0]].rows;
    for (struct row_run r = {0}; share_next_rows(p->s->pass, rows, p->s->share, &r);) TRY(run_rows(p, op, r, err));
    return 0;
}

/* ---- values ---- */

/* Where values lie; bytes that only the host has are brought. */
static int find_values(struct program *p, struct lutra_error *err)
{
    const struct segment *s = p->s;
    for (int v = 0; v < s->list->n_value; v++) {
        bool used = false;
        for (int i = 0; i < s->n_op; i++) used |= op_reads(&s->op[i], v) || op_writes(&s->op[i], v);
        if (!used) continue;
        struct gpu_buffer *b = gpu_buffer_of(p->d, s->pass->value[v].host);
        size_t bytes = (size_t)rows_of(s, v) * (size_t)s->list->value[v].dim * sizeof(float);
        if (!b || bytes > b->bytes)
            return lutra_fail(err, LUTRA_E_INTERNAL, "vulkan: value %d has no room in the GPU's memory", v);
        p->value[v] = b->address;
        if (b->stale) memcpy(b->memory.mapped, b->host, bytes);
        b->stale = false;
        b->used = bytes;
    }
    return 0;
}

static int record(struct program *p, struct lutra_error *err)
{
    TRY(find_values(p, err));
    TRY(gpu_tables_write(p->d, p->s, &p->tables, err));
    for (int i = 0; i < p->s->n_op; i++) {
        const atomic_bool *cancel = p->s->pass->cancel;
        if (cancel && atomic_load_explicit(cancel, memory_order_relaxed))
            return lutra_fail(err, LUTRA_E_CANCELLED, "vulkan: the pass was cancelled");
        TRY(run_op(p, &p->s->op[i], err));
    }
    return gpu_queue_flush(p->d, err);
}

int gpu_program_submit(struct gpu_device *d, const struct segment *segment, struct lutra_error *err)
{
    struct program p = {.d = d, .s = segment, .constants = gpu_constants_of(d, segment->list)};
    int rc = record(&p, err);
    if (rc < 0) {
        d->head.op = NULL;
        gpu_queue_drain(d); /* nothing of the pass is under way */
        return rc;
    }
    d->tables_ticket[d->tables_at] = d->submitted;
    d->tables_at = (d->tables_at + 1) % GPU_TABLES;
    d->head.ticket = d->submitted;
    return 0;
}

/* ---- before a pass ---- */

static int prepare_product(struct gpu_device *d, const struct weight *w, struct lutra_error *err)
{
    VkPipeline made;
    const struct packed *packed = weight_packed(w, &d->base);
    const bool i8 = packed && packed->i8;
    if (i8) TRY(gpu_pipeline(d, GPU_ROUND, 0, false, &made, err));
    for (int wide = 0; wide < 2; wide++)
        TRY(gpu_pipeline(d, i8 ? GPU_MATMUL_I8 : GPU_MATMUL, (uint32_t)w->tensor.type, wide, &made, err));
    return 0;
}

/* Kernels of a list's operations.  Those over the cache, whose type is not known yet, are made for each type. */
static int prepare_op(struct gpu_device *d, const struct op *op, struct lutra_error *err)
{
    VkPipeline made;
    switch (op->kind) {
    case OP_EMBED: return gpu_pipeline(d, GPU_EMBED, (uint32_t)op->weight[0]->tensor.type, false, &made, err);
    case OP_MATMUL:
    case OP_HEAD:
        for (int i = 0; i < op->n_weight; i++) TRY(prepare_product(d, op->weight[i], err));
        return 0;
    case OP_RMS_NORM:
    case OP_LAYER_NORM: return gpu_pipeline(d, GPU_NORM, op->kind == OP_LAYER_NORM, false, &made, err);
    case OP_ROPE: return gpu_pipeline(d, GPU_ROPE, 0, false, &made, err);
    case OP_KV_APPEND:
    case OP_ATTENTION: return 0; /* by the cache's type, at the first pass */
    default: return gpu_pipeline(d, GPU_POINTWISE, pointwise_of[op->kind], false, &made, err);
    }
}

int gpu_program_prepare(struct gpu_device *d, const struct op_list *list, struct lutra_error *err)
{
    for (int i = 0; i < list->n_op; i++) {
        if (d->base.ops->supports(&d->base, list, &list->op[i], NULL) < 0) continue;
        TRY(prepare_op(d, &list->op[i], err));
    }
    return 0;
}
