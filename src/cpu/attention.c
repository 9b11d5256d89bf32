/* SPDX-License-Identifier: MIT
 *
 * Which thread computes which part of an attention, and in which order parts are merged (cpu/attention.h).
 */
#include "cpu/attention.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "cpu/attention_heads.h"

/* QUERIES: rows x heads of a group that one unit may hold; above it rows are cut into tiles of about TILE_QUERIES,
 * and further, down to MIN_ROWS, when threads would be idle.  SPLIT_BYTES bounds what splitting by segments stores. */
enum { QUERIES = 384, TILE_QUERIES = 192, MIN_ROWS = 4, MAX_HEADS = 4096, SPLIT_BYTES = 16 << 20 };

/* One thread's view of the scratch. */
struct lane {
    const struct cpu_attention *kernels;
    const struct attention_args *a;
    void *kt, *vt, *work; /* of struct attention_load */
    float *p;
    uint8_t *query; /* of a unit's queries: [attention_columns_bytes] of each ATTENTION_COLUMNS, when prepared; [d_head]
                     * f32 each, when rotated */
    int query_row;  /* row of the first */
    uint8_t *k, *v; /* [KV_BLOCK][d_head] in the cache's type: a segment put together from block and drafts */
    float *state;   /* [QUERIES or one row's group][state_floats] */
    float *part;    /* [entry][n_head][state_floats] of all threads, when splitting */
    size_t n_part;  /* entries that fit */
    int first_kv_head, n_kv_head; /* that are computed */
    int group;                    /* query heads per kv head */
    size_t vec_bytes[2];          /* of K and V in the cache */
    size_t state_floats;
};

static size_t pad(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static size_t state_size(const struct op_attention *op)
{
    return ATTENTION_STATE_O + (size_t)attention_padded(op->d_head);
}

static int tile_rows(const struct op_attention *op, int n_row)
{
    int group = op->n_head / op->n_kv_head;
    if ((size_t)n_row * (size_t)group <= QUERIES) return n_row;
    return group < TILE_QUERIES ? TILE_QUERIES / group : 1;
}

/* Queries whose states one thread holds at a time. */
static size_t lane_queries(const struct op_attention *op, int max_rows)
{
    size_t group = (size_t)(op->n_head / op->n_kv_head), rows = (size_t)max_rows;
    return rows * group <= QUERIES ? rows * group : group > QUERIES ? group : QUERIES;
}

static size_t query_bytes(const struct op_attention *op, size_t queries)
{
    return (queries + ATTENTION_COLUMNS - 1) / ATTENTION_COLUMNS * attention_columns_bytes(op->d_head);
}

static size_t lane_bytes(const struct op_attention *op, int max_rows)
{
    size_t d = (size_t)op->d_head, f = sizeof(float), queries = lane_queries(op, max_rows);
    return 2 * attention_tile_bytes(op->d_head) + ATTENTION_WORK_BYTES + pad(ATTENTION_MAX_QUERY * KV_BLOCK * f) +
           query_bytes(op, queries) + 2 * pad(d * KV_BLOCK * f) + pad(queries * state_size(op) * f);
}

/* Splitting serves few rows: at most so many entries (row, segment). */
static size_t part_entries(const struct op_attention *op, int max_rows, int n_ctx)
{
    size_t entry = state_size(op) * (size_t)op->n_head * sizeof(float);
    size_t want = (size_t)max_rows * ((size_t)n_ctx / KV_BLOCK + 1), most = SPLIT_BYTES / entry;
    return want < most ? want : most;
}

size_t attention_scratch_bytes(const struct op_attention *op, int max_rows, int n_ctx, int n_thread)
{
    if (op->n_head > MAX_HEADS || op->d_head > ATTENTION_MAX_D_HEAD || max_rows <= 0 || n_thread <= 0) return 0;
    size_t lanes, entry = state_size(op) * (size_t)op->n_head * sizeof(float);
    if (LUTRA_MUL_OVERFLOWS((size_t)n_thread, lane_bytes(op, max_rows), &lanes)) return 0;
    size_t parts = n_thread > 1 ? part_entries(op, max_rows, n_ctx) * entry : 0, total;
    return LUTRA_ADD_OVERFLOWS(lanes, parts, &total) ? 0 : total;
}

static void *carve(uint8_t **at, size_t bytes)
{
    void *p = *at;
    *at += pad(bytes);
    return p;
}

static struct lane open_lane(const struct cpu_attention *kernels, const struct attention_args *a, int ith, int nth)
{
    const struct op_attention *op = a->op;
    size_t d = (size_t)op->d_head, f = sizeof(float), queries = lane_queries(op, a->n_row);
    size_t each = lane_bytes(op, a->n_row), entry = state_size(op) * (size_t)op->n_head * f;
    uint8_t *at = (uint8_t *)a->scratch + each * (size_t)ith;
    struct lane x = {.kernels = kernels, .a = a, .group = op->n_head / op->n_kv_head, .state_floats = state_size(op)};
    memcpy(x.vec_bytes, a->kv->layer[a->layer].vec_bytes, sizeof x.vec_bytes);
    x.kt = carve(&at, attention_tile_bytes(op->d_head));
    x.vt = carve(&at, attention_tile_bytes(op->d_head));
    x.work = carve(&at, ATTENTION_WORK_BYTES);
    x.query = carve(&at, query_bytes(op, queries));
    x.p = carve(&at, ATTENTION_MAX_QUERY * KV_BLOCK * f);
    x.k = carve(&at, d * KV_BLOCK * f);
    x.v = carve(&at, d * KV_BLOCK * f);
    x.state = carve(&at, queries * x.state_floats * f);
    size_t lanes = each * (size_t)nth;
    x.part = (float *)(void *)((uint8_t *)a->scratch + lanes);
    x.n_part = a->scratch_bytes > lanes ? (a->scratch_bytes - lanes) / entry : 0;
    return x;
}

/* ---- states ---- */

/* Empty, or holding only the head's sink. */
static void start_state(const struct lane *x, float *state, int head, bool with_sink)
{
    const float *sinks = with_sink ? x->a->op->sinks : NULL;
    memset(state, 0, x->state_floats * sizeof *state);
    state[ATTENTION_STATE_M] = sinks ? sinks[head] : -INFINITY;
    state[ATTENTION_STATE_L] = sinks ? 1.0f : 0.0f;
}

/* A row's outputs of a kv head's group, from states that lie as run_unit has them. */
static void write_row(const struct lane *x, int kv_head, int row, int base, size_t stride)
{
    const struct op_attention *op = x->a->op;
    size_t head = (size_t)row * (size_t)op->n_head + (size_t)(kv_head * x->group);
    for (int g = 0; g < x->group; g++, head++) {
        const float *state = x->state + (size_t)(row - base) * stride + (size_t)g * x->state_floats;
        float *out = x->a->out + head * (size_t)op->d_head, l = state[ATTENTION_STATE_L];
        for (int d = 0; d < op->d_head; d++) out[d] = state[ATTENTION_STATE_O + d] / l;
        if (kv_is_rotated(x->a->kv->type[KV_V])) kv_rotate(out, op->d_head);
    }
}

/* ---- one segment ---- */

/* Slots lo .. hi - 1 of the segment at pos that the row sees, when it sees n_pos positions from there on.  False:
 * none. */
static bool visible(const struct lane *x, int row, int32_t pos, int32_t n_pos, uint8_t *lo, uint8_t *hi)
{
    int32_t first, end;
    kv_row_sees(&x->a->kv->row[row], x->a->op->window, &first, &end);
    first -= pos;
    n_pos = n_pos < end - pos ? n_pos : end - pos;
    *lo = first <= 0 ? 0 : first > KV_BLOCK ? KV_BLOCK : (uint8_t)first;
    *hi = n_pos > KV_BLOCK ? KV_BLOCK : n_pos < 0 ? 0 : (uint8_t)n_pos;
    return *lo < *hi;
}

/* A segment, without queries yet, of K and V [KV_BLOCK][d_head], of which n_pos positions count. */
static void open_segment(const struct lane *x, const uint8_t *k, const uint8_t *v, const uint8_t *next_k,
    const uint8_t *next_v, int n_pos, struct attention_segment *s)
{
    const struct op_attention *op = x->a->op;
    s->from = (struct attention_load){.type = {x->a->kv->type[KV_K], x->a->kv->type[KV_V]},
        .d_head = op->d_head,
        .n_pos = n_pos,
        .k = k,
        .v = v,
        .next_k = next_k,
        .next_v = next_v,
        .bytes = KV_BLOCK * (x->vec_bytes[KV_K] > x->vec_bytes[KV_V] ? x->vec_bytes[KV_K] : x->vec_bytes[KV_V]),
        .kt = x->kt,
        .vt = x->vt,
        .work = x->work};
    s->scale = op->scale;
    s->softcap = op->softcap;
    s->p = x->p;
    s->prepared = x->query;
    s->n_query = 0;
    s->again = false;
    x->kernels->load(&s->from, s);
}

static float *rotated_query(const struct lane *x, int row, int g)
{
    size_t i = (size_t)(row - x->query_row) * (size_t)x->group + (size_t)g;
    return (float *)(void *)x->query + i * (size_t)x->a->op->d_head;
}

static const float *query_at(const struct lane *x, int kv_head, int row, int g)
{
    const struct op_attention *op = x->a->op;
    size_t head = (size_t)row * (size_t)op->n_head + (size_t)(kv_head * x->group + g);
    return x->a->q + head * (size_t)op->d_head;
}

/* Makes the queries of rows row .. end - 1 ready for the kernels. */
static void prepare_queries(struct lane *x, int kv_head, int row, int end)
{
    const struct op_attention *op = x->a->op;
    uint8_t *to = x->query;
    const float *q[ATTENTION_COLUMNS];
    int n = (end - row) * x->group, k = 0;
    x->query_row = row;
    for (int i = 0; i < n && kv_is_rotated(x->a->kv->type[KV_K]); i++) {
        float *rotated = rotated_query(x, row + i / x->group, i % x->group);
        memcpy(rotated, query_at(x, kv_head, row + i / x->group, i % x->group), (size_t)op->d_head * sizeof *rotated);
        kv_rotate(rotated, op->d_head);
    }
    if (!x->kernels->prepare || !attention_is_f16(x->a->kv->type)) return;
    for (int i = 0; i < n; i++) {
        q[k++] = query_at(x, kv_head, row + i / x->group, i % x->group);
        if (k < ATTENTION_COLUMNS && i < n - 1) continue;
        x->kernels->prepare(q, k, op->d_head, to);
        to += attention_columns_bytes(op->d_head);
        k = 0;
    }
}

/* Runs the queries gathered so far; more of them follow, or not. */
static void flush(const struct lane *x, struct attention_segment *s, bool last)
{
    s->last = last;
    if (s->n_query > 0) x->kernels->segment(s);
    s->again = true;
    s->n_query = 0;
}

/* Appends the row's queries of a kv head; runs the segment when there is no room for one.  states: of the row's
 * group. */
static void add_queries(
    const struct lane *x, struct attention_segment *s, int kv_head, int row, uint8_t lo, uint8_t hi, float *states)
{
    bool rotated = kv_is_rotated(x->a->kv->type[KV_K]);
    for (int g = 0; g < x->group; g++) {
        if (s->n_query == x->kernels->max_query) flush(x, s, false);
        s->q[s->n_query] = rotated ? rotated_query(x, row, g) : query_at(x, kv_head, row, g);
        s->index[s->n_query] = (uint16_t)((row - x->query_row) * x->group + g);
        s->state[s->n_query] = states + (size_t)g * x->state_floats;
        s->lo[s->n_query] = lo;
        s->hi[s->n_query++] = hi;
    }
}

static const uint8_t *block_head(const struct lane *x, enum kv_side side, int32_t block, int kv_head)
{
    const struct kv_view *kv = x->a->kv;
    return kv_block_at(kv, x->a->layer, side, block) + (size_t)kv_head * KV_BLOCK * x->vec_bytes[side];
}

/* Positions of an item's block that any of its rows first .. last - 1 (indexes of item_row) sees; 0: none. */
static int item_reach(const struct lane *x, const struct kv_item *item, int first, int last)
{
    int reach = 0;
    for (int i = first; i < last; i++) {
        uint8_t lo, hi;
        int row = x->a->kv->item_row[i];
        if (visible(x, row, item->pos, x->a->kv->row[row].n_paged - item->pos, &lo, &hi) && hi > reach) reach = hi;
    }
    return reach;
}

/* One block for some of its rows.  state_of row r is states + (r - base) * stride, or that of entry i when base < 0. */
static void run_item(const struct lane *x, int kv_head, const struct kv_item *item, int first, int last, float *states,
    int base, size_t stride)
{
    const struct kv_view *kv = x->a->kv;
    int reach = item_reach(x, item, first, last);
    if (reach == 0) return;
    struct attention_segment s;
    const struct kv_item *next = item + 1 < kv->item + kv->n_item ? item + 1 : item;
    open_segment(x, block_head(x, KV_K, item->block, kv_head), block_head(x, KV_V, item->block, kv_head),
        block_head(x, KV_K, next->block, kv_head), block_head(x, KV_V, next->block, kv_head), reach, &s);
    for (int i = first; i < last; i++) {
        uint8_t lo, hi;
        int row = kv->item_row[i];
        if (!visible(x, row, item->pos, kv->row[row].n_paged - item->pos, &lo, &hi)) continue;
        add_queries(x, &s, kv_head, row, lo, hi, states + (size_t)(base < 0 ? i : row - base) * stride);
    }
    flush(x, &s, true);
}

/* ---- drafts ---- */

/* Rows that see the same path of drafts as far as each sees, ascending; a row that is no draft is a chain by itself. */
struct chain {
    int n, row[QUERIES];
};

/* Cuts rows row .. end - 1 into chains, from the last on: for a row that no chain has yet, those above it that none
 * has. */
struct chains {
    int row, at; /* rows at .. have been looked at */
    bool done[QUERIES];
};

static struct chains begin_chains(int row, int end)
{
    return (struct chains){.row = row, .at = end};
}

static bool next_chain(const struct kv_view *kv, struct chains *c, struct chain *out)
{
    while (c->at > c->row && c->done[c->at - 1 - c->row]) c->at--;
    if (c->at == c->row) return false;
    int n = 0;
    for (int r = c->at - 1; r >= c->row && !c->done[r - c->row]; r = kv->row[r].up) {
        c->done[r - c->row] = true;
        out->row[n++] = r;
        if (kv->row[r].n_path <= 1) break;
    }
    for (int i = 0; i < n / 2; i++) {
        int r = out->row[i];
        out->row[i] = out->row[n - 1 - i];
        out->row[n - 1 - i] = r;
    }
    out->n = n;
    return true;
}

/* Positions pos .. pos + n - 1 as the row sees them, put together: the block's part, then the drafts'. */
static void assemble(const struct lane *x, int kv_head, int row, int32_t pos, int n)
{
    const struct kv_view *kv = x->a->kv;
    const struct kv_row *r = &kv->row[row];
    int paged = r->n_paged > pos ? r->n_paged - pos : 0, last = kv_draft_row(kv, row, pos + n - 1);
    for (int side = KV_K; side <= KV_V; side++) {
        uint8_t *dst = side == KV_K ? x->k : x->v;
        const uint8_t *draft = kv_draft_at(kv, x->a->layer, side, kv_head);
        size_t vec = x->vec_bytes[side];
        if (paged > 0) {
            int32_t block = kv->table[r->table + pos / KV_BLOCK];
            memcpy(dst, block_head(x, side, block, kv_head), (size_t)paged * vec);
        }
        for (int j = n - 1, at = last; j >= paged; j--, at = kv->row[at].up)
            memcpy(dst + (size_t)j * vec, draft + (size_t)kv->row[at].slot * vec, vec);
    }
}

static bool any_drafts(const struct kv_view *kv, int row, int end)
{
    while (row < end && kv->row[row].n_path == 0) row++;
    return row < end;
}

/* The segments in which a chain sees draft slots, each once.  Rows' states lie `stride` apart, from row `base` on. */
static void run_drafts(const struct lane *x, int kv_head, const struct chain *chain, int base, size_t stride)
{
    const struct kv_row *kv_row = x->a->kv->row;
    int leaf = chain->row[chain->n - 1];
    int32_t n = kv_row[leaf].n_paged + kv_row[leaf].n_path;
    if (kv_row[leaf].n_path == 0) return;
    for (int32_t pos = kv_row[leaf].n_paged / KV_BLOCK * KV_BLOCK; pos < n; pos += KV_BLOCK) {
        uint8_t lo[QUERIES], hi[QUERIES], reach = 0;
        for (int i = 0; i < chain->n; i++) {
            const struct kv_row *r = &kv_row[chain->row[i]];
            if (!visible(x, chain->row[i], pos, r->n_paged + r->n_path - pos, &lo[i], &hi[i])) hi[i] = 0;
            if (hi[i] > reach) reach = hi[i];
        }
        if (reach == 0) continue;
        assemble(x, kv_head, leaf, pos, reach);
        struct attention_segment s;
        open_segment(x, x->k, x->v, x->k, x->v, reach, &s);
        for (int i = 0; i < chain->n; i++)
            if (hi[i] > 0)
                add_queries(
                    x, &s, kv_head, chain->row[i], lo[i], hi[i], x->state + (size_t)(chain->row[i] - base) * stride);
        flush(x, &s, true);
    }
}

/* ---- units: (kv head, tile of rows) ---- */

/* The first index of item_row within the item whose row is >= row. */
static int find_row(const struct kv_view *kv, const struct kv_item *item, int row)
{
    int lo = item->first, hi = item->first + item->n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (kv->item_row[mid] < row) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static void run_unit(struct lane *x, int kv_head, int row, int end)
{
    const struct kv_view *kv = x->a->kv;
    size_t stride = (size_t)x->group * x->state_floats;
    for (int r = row; r < end; r++) {
        for (int g = 0; g < x->group; g++) {
            float *state = x->state + (size_t)(r - row) * stride + (size_t)g * x->state_floats;
            start_state(x, state, kv_head * x->group + g, true);
        }
    }
    prepare_queries(x, kv_head, row, end);
    for (int i = 0; i < kv->n_item; i++) {
        int first = find_row(kv, &kv->item[i], row), last = find_row(kv, &kv->item[i], end);
        if (first < last) run_item(x, kv_head, &kv->item[i], first, last, x->state, row, stride);
    }
    if (any_drafts(kv, row, end)) {
        struct chain chain;
        for (struct chains c = begin_chains(row, end); next_chain(kv, &c, &chain);)
            run_drafts(x, kv_head, &chain, row, stride);
    }
    for (int r = row; r < end; r++) write_row(x, kv_head, r, row, stride);
}

/* The unit that this thread computes after `turn` others: handed out, or in turns of alternating order. */
static size_t take_unit(const struct lane *x, int ith, int nth, int turn)
{
    if (x->a->next) return x->a->next(x->a->next_context);
    return (size_t)turn * (size_t)nth + (size_t)(turn & 1 ? nth - 1 - ith : ith);
}

/* Later tiles of a prompt chunk see more, so they come first. */
static void run_units(struct lane *x, int ith, int nth, int n_tile, int rows)
{
    size_t n_head = (size_t)x->n_kv_head, n_unit = (size_t)n_tile * n_head;
    int turn = 0;
    for (size_t u = take_unit(x, ith, nth, turn); u < n_unit; u = take_unit(x, ith, nth, ++turn)) {
        int row = (n_tile - 1 - (int)(u / n_head)) * rows, end = row + rows;
        run_unit(x, x->first_kv_head + (int)(u % n_head), row, end < x->a->n_row ? end : x->a->n_row);
    }
}

/* ---- split by segments ---- */

/* Items i0 .. of (kv head, item), numbered head-major, each entry's states from empty. */
static void run_split(struct lane *x, int ith, int nth)
{
    const struct kv_view *kv = x->a->kv;
    int64_t n = (int64_t)kv->n_item * x->n_kv_head;
    size_t stride = (size_t)x->a->op->n_head * x->state_floats;
    for (int64_t w = n * ith / nth, ready = -1; w < n * (ith + 1) / nth; w++) {
        int kv_head = x->first_kv_head + (int)(w / kv->n_item);
        if (kv_head != ready) prepare_queries(x, kv_head, 0, x->a->n_row);
        ready = kv_head;
        const struct kv_item *item = &kv->item[w % kv->n_item];
        float *part = x->part + (size_t)kv_head * (size_t)x->group * x->state_floats;
        for (int i = item->first; i < item->first + item->n; i++) {
            for (int g = 0; g < x->group; g++) {
                start_state(x, part + (size_t)i * stride + (size_t)g * x->state_floats, 0, false);
            }
        }
        run_item(x, kv_head, item, item->first, item->first + item->n, part, -1, stride);
    }
}

/* Merges the parts of one row and kv head in ascending position into `states`. */
static void merge_row(const struct lane *x, int kv_head, int row, float *states)
{
    const struct kv_view *kv = x->a->kv;
    size_t stride = (size_t)x->a->op->n_head * x->state_floats;
    const float *part = x->part + (size_t)kv_head * (size_t)x->group * x->state_floats;
    for (int g = 0; g < x->group; g++)
        start_state(x, states + (size_t)g * x->state_floats, kv_head * x->group + g, true);
    for (int i = 0; i < kv->n_item; i++) {
        uint8_t lo, hi;
        int entry = find_row(kv, &kv->item[i], row);
        if (entry == kv->item[i].first + kv->item[i].n || kv->item_row[entry] != row) continue;
        if (!visible(x, row, kv->item[i].pos, kv->row[row].n_paged - kv->item[i].pos, &lo, &hi)) continue;
        for (int g = 0; g < x->group; g++) {
            size_t at = (size_t)g * x->state_floats;
            x->kernels->merge(states + at, part + (size_t)entry * stride + at, x->a->op->d_head);
        }
    }
}

/* What run_split left, chain by chain: merged, then the chain's drafts. */
static void merge_split(struct lane *x, int ith, int nth)
{
    const struct kv_view *kv = x->a->kv;
    size_t stride = (size_t)x->group * x->state_floats;
    struct chain chain;
    int turn = 0;
    int first = x->first_kv_head, end = first + x->n_kv_head;
    for (int kv_head = first; kv_head < end; kv_head++)
        for (struct chains c = begin_chains(0, x->a->n_row); next_chain(kv, &c, &chain);) {
            if (turn++ % nth != ith) continue;
            int root = chain.row[0], last = chain.row[chain.n - 1];
            for (int i = 0; i < chain.n; i++)
                merge_row(x, kv_head, chain.row[i], x->state + (size_t)chain.row[i] * stride);
            if (kv->row[last].n_path > 0) prepare_queries(x, kv_head, root, last + 1);
            run_drafts(x, kv_head, &chain, 0, stride);
            for (int i = 0; i < chain.n; i++) write_row(x, kv_head, chain.row[i], 0, stride);
        }
}

/* Whether equal units leave threads without work for more than a fifth of the time. */
static bool idle(int n_unit, int nth)
{
    int rounds = (n_unit + nth - 1) / nth;
    return n_unit * 5 < rounds * nth * 4;
}

/* Splitting pays when whole units would leave threads idle and there is something to share out. */
static bool splits(const struct lane *x, int nth, int n_tile)
{
    const struct kv_view *kv = x->a->kv;
    if ((size_t)x->a->n_row * (size_t)x->group > QUERIES) return false;
    if (kv->n_item < 2 * nth || !idle(n_tile * x->n_kv_head, nth)) return false;
    const struct kv_item *last = &kv->item[kv->n_item - 1];
    return (size_t)last->first + (size_t)last->n <= x->n_part;
}

static void run_lane(struct lane *x, struct pool *pool, int ith, int nth)
{
    const struct attention_args *a = x->a;
    int rows = tile_rows(a->op, a->n_row), n_tile = (a->n_row + rows - 1) / rows;
    if (!splits(x, nth, n_tile)) {
        while (rows > MIN_ROWS && idle(n_tile * x->n_kv_head, nth)) {
            rows = (rows + 1) / 2;
            n_tile = (a->n_row + rows - 1) / rows;
        }
        run_units(x, ith, nth, n_tile, rows);
        return;
    }
    run_split(x, ith, nth);
    pool_barrier(pool);
    merge_split(x, ith, nth);
}

void attention_run_heads(const struct cpu_attention *kernels, const struct attention_args *a, int first, int n,
    struct pool *pool, int ith, int nth)
{
    struct lane x = open_lane(kernels, a, ith, nth);
    x.first_kv_head = first;
    x.n_kv_head = n;
    if (kernels->begin) kernels->begin();
    run_lane(&x, pool, ith, nth);
    if (kernels->end) kernels->end();
}

void attention_run(
    const struct cpu_attention *kernels, const struct attention_args *a, struct pool *pool, int ith, int nth)
{
    attention_run_heads(kernels, a, 0, a->op->n_kv_head, pool, ith, nth);
}
