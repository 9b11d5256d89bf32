/* SPDX-License-Identifier: MIT
 *
 * Blocks, sequences and promises.
 */
#include "kv/kv_impl.h"

#include <stdlib.h>
#include <string.h>

#include "quant/quant.h"

static int32_t blocks_for(int32_t n_tok)
{
    return (n_tok + KV_BLOCK - 1) / KV_BLOCK;
}

/* What a cache takes: bytes of one position, K and V of all layers (of [1] those whose windows are freed), and of the
 * whole. */
struct sizes {
    size_t each[2], pool, draft, sum;
    int32_t window; /* the widest that is freed; 0: none is */
    int32_t n_swa;  /* blocks of those layers */
};

static bool is_swa(const struct kv_settings *s, const struct op_layer *l)
{
    return s->swa_trim && l->window > 0;
}

/* The most blocks that layers with a window can need.  A sequence sees its window and KV_SLACK positions, which touch
 * two blocks more than they fill, and the rows of a pass; one block is for a copy whose original is still there. */
static void size_swa(const struct kv_settings *s, struct sizes *z)
{
    for (int i = 0; i < s->n_layer; i++)
        if (is_swa(s, &s->layer[i]) && s->layer[i].window > z->window) z->window = s->layer[i].window;
    int64_t n = (int64_t)s->n_seq * (blocks_for(z->window) + 3) + blocks_for(s->n_row) + 1;
    z->n_swa = z->window == 0 ? 0 : n < s->n_block ? (int32_t)n : s->n_block;
}

/* Slots of the draft scratch: an even number, so that vectors of f32 are aligned behind others. */
static size_t draft_slots(const struct kv_settings *s)
{
    return ((size_t)s->n_draft + 1) & ~(size_t)1;
}

/* Lays the layers out; out: [n_layer], or NULL for the sizes alone.  False: the settings make no sense or overflow. */
static bool lay_out(const struct kv_settings *s, struct sizes *z, struct kv_layer *out)
{
    *z = (struct sizes){0};
    if (!kv_is_type(s->type[KV_K]) || !kv_is_type(s->type[KV_V])) return false;
    if (s->n_layer < 1 || s->n_block < 1 || s->n_draft < 0) return false;
    size_swa(s, z);
    for (int i = 0; i < s->n_layer; i++) {
        const struct op_layer *l = &s->layer[i];
        struct kv_layer at = {.cache = l->cache, .window = l->window, .n_kv_head = l->n_kv_head, .d_head = l->d_head};
        at.swa = is_swa(s, l);
        if (l->cache != i) {
            if (out) out[i] = l->cache < 0 ? (struct kv_layer){.cache = -1} : out[l->cache];
            continue;
        }
        if (l->n_kv_head < 1 || l->d_head < 1) return false;
        for (int side = KV_K; side <= KV_V; side++) {
            if (quant_row_bytes(s->type[side], l->d_head, &at.vec_bytes[side]) < 0) return false;
            at.side_bytes[side] = at.vec_bytes[side] * (size_t)l->n_kv_head * KV_BLOCK;
        }
        size_t both, *each = &z->each[at.swa];
        if (LUTRA_MUL_OVERFLOWS(at.vec_bytes[KV_K] + at.vec_bytes[KV_V], (size_t)l->n_kv_head, &both)) return false;
        at.block_bytes = both * KV_BLOCK;
        at.pool = *each * KV_BLOCK * (s->by_block ? 1 : (size_t)(at.swa ? z->n_swa : s->n_block));
        at.draft = (z->each[0] + z->each[1]) * draft_slots(s);
        if (out) out[i] = at;
        if (LUTRA_ADD_OVERFLOWS(*each, both, each)) return false;
    }
    size_t swa, all;
    if (LUTRA_MUL_OVERFLOWS(z->each[0], (size_t)s->n_block * KV_BLOCK, &z->pool)) return false;
    if (LUTRA_MUL_OVERFLOWS(z->each[1], (size_t)z->n_swa * KV_BLOCK, &swa)) return false;
    for (int i = 0; out && i < s->n_layer; i++) {
        if (out[i].cache == i && out[i].swa) out[i].pool += z->pool; /* behind the others */
        if (out[i].cache == i && s->by_block) out[i].block_bytes = z->each[out[i].swa] * KV_BLOCK;
        if (out[i].cache >= 0 && out[i].cache != i) out[i] = out[out[i].cache];
    }
    if (LUTRA_ADD_OVERFLOWS(z->pool, swa, &z->pool) || LUTRA_ADD_OVERFLOWS(z->each[0], z->each[1], &all)) return false;
    if (LUTRA_MUL_OVERFLOWS(all, draft_slots(s), &z->draft)) return false;
    return !LUTRA_ADD_OVERFLOWS(z->pool, z->draft, &z->sum);
}

size_t kv_bytes(const struct kv_settings *s)
{
    struct sizes z;
    return lay_out(s, &z, NULL) ? z.sum : 0;
}

size_t kv_token_bytes(const enum quant_type *type, const struct op_layer *layer, int n_layer)
{
    struct sizes z;
    struct kv_settings one = {.type = {type[KV_K], type[KV_V]}, .layer = layer, .n_layer = n_layer, .n_block = 1};
    return lay_out(&one, &z, NULL) ? z.each[0] : 0;
}

size_t kv_growing_bytes(const struct kv_settings *s, size_t *fixed)
{
    struct sizes z;
    *fixed = 0;
    if (!lay_out(s, &z, NULL)) return 0;
    *fixed = z.each[1] * KV_BLOCK * (size_t)z.n_swa;
    return z.each[0];
}

static int allocate(struct kv_cache *kv)
{
    const struct kv_settings *s = &kv->set;
    size_t rows = (size_t)s->n_row, tables = (size_t)(s->n_row < s->n_seq ? s->n_row : s->n_seq);
    kv->layer = calloc((size_t)s->n_layer, sizeof *kv->layer);
    kv->seq = calloc((size_t)s->n_seq, sizeof *kv->seq);
    kv->refs = calloc((size_t)s->n_block, sizeof *kv->refs);
    kv->free_list = malloc((size_t)s->n_block * sizeof *kv->free_list);
    kv->row = calloc(rows, sizeof *kv->row);
    kv->table = malloc(tables * (size_t)kv->max_table * sizeof *kv->table);
    kv->seq_table = malloc((size_t)s->n_seq * sizeof *kv->seq_table);
    kv->item = malloc((size_t)s->n_block * sizeof *kv->item);
    kv->block_item = malloc((size_t)s->n_block * sizeof *kv->block_item);
    kv->item_row = malloc(rows * (size_t)kv->max_table * sizeof *kv->item_row);
    kv->host_wrote = calloc((size_t)s->n_block, 1);
    size_t n_seen = kv->window ? (size_t)s->n_block : 1;
    kv->seen = calloc(n_seen, sizeof *kv->seen);
    kv->swa_block = malloc(n_seen * sizeof *kv->swa_block);
    kv->swa_free = malloc(((size_t)kv->n_swa + 1) * sizeof *kv->swa_free);
    int32_t *tables_all = malloc((size_t)s->n_seq * (size_t)kv->max_table * sizeof *tables_all);
    if (kv->seq) kv->seq[0].table = tables_all; /* so that kv_close frees it */
    if (!kv->layer || !kv->seq || !kv->refs || !kv->free_list || !kv->row || !kv->table || !kv->seq_table ||
        !kv->item || !kv->block_item || !kv->item_row || !kv->host_wrote || !kv->seen || !kv->swa_block ||
        !kv->swa_free || !tables_all) {
        if (!kv->seq) free(tables_all);
        return LUTRA_E_NO_MEMORY;
    }
    for (int i = 0; i < s->n_seq; i++) kv->seq[i].table = tables_all + (size_t)i * kv->max_table;
    for (int i = 0; i < s->n_block; i++) {
        kv->free_list[i] = s->n_block - 1 - i; /* lowest ids first */
        kv->block_item[i] = -1;
    }
    kv->n_free = s->n_block;
    for (size_t i = 0; i < n_seen; i++) kv->swa_block[i] = -1;
    for (int32_t i = 0; i < kv->n_swa; i++) kv->swa_free[i] = kv->n_swa - 1 - i;
    kv->n_swa_free = kv->n_swa;
    return kv_text_open(kv);
}

int kv_open(
    struct kv_cache **out, const struct kv_settings *settings, const struct buffer *memory, struct lutra_error *err)
{
    *out = NULL;
    struct sizes z;
    if (!lay_out(settings, &z, NULL) || !z.sum || settings->n_ctx < 1 || settings->n_seq < 1 || settings->n_row < 1)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "cache: sizes out of range");
    if (memory->bytes < z.sum)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "cache: %zu bytes needed, %zu given", z.sum, memory->bytes);
    struct kv_cache *kv = calloc(1, sizeof *kv);
    if (!kv) return lutra_fail(err, LUTRA_E_NO_MEMORY, "cache: out of memory");
    kv->set = *settings;
    kv->max_table = blocks_for(settings->n_ctx);
    kv->window = z.window;
    kv->n_swa = z.n_swa;
    if (allocate(kv) < 0) {
        kv_close(&kv);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "cache: out of memory for its tables");
    }
    int rc = kv_state_open(kv, settings, err);
    if (rc < 0) {
        kv_close(&kv);
        return rc;
    }
    lay_out(settings, &z, kv->layer);
    kv->set.layer = NULL;
    kv->shape = (struct kv_view){.type = {settings->type[KV_K], settings->type[KV_V]},
        .n_layer = settings->n_layer,
        .n_block = settings->n_block,
        .n_draft = (int)draft_slots(settings),
        .layer = kv->layer,
        .swa_block = kv->window ? kv->swa_block : NULL,
        .pool = memory->host,
        .draft = (uint8_t *)memory->host + z.pool};
    *out = kv;
    return 0;
}

void kv_close(struct kv_cache **kvp)
{
    struct kv_cache *kv = *kvp;
    if (!kv) return;
    kv_state_close(kv);
    kv_text_close(kv);
    if (kv->seq) free(kv->seq[0].table);
    free(kv->seq);
    free(kv->layer);
    free(kv->refs);
    free(kv->free_list);
    free(kv->row);
    free(kv->table);
    free(kv->seq_table);
    free(kv->item);
    free(kv->block_item);
    free(kv->item_row);
    free(kv->host_wrote);
    free(kv->seen);
    free(kv->swa_block);
    free(kv->swa_free);
    free(kv);
    *kvp = NULL;
}

static struct kv_seq *find(const struct kv_cache *kv, int32_t seq)
{
    if (seq < 0 || seq >= kv->set.n_seq || !kv->seq[seq].open) return NULL;
    return &kv->seq[seq];
}

int32_t kv_seq_length(const struct kv_cache *kv, int32_t seq)
{
    const struct kv_seq *s = find(kv, seq);
    return s ? s->n_tok : -1;
}

/* ---- who holds a block ---- */

/* Blocks that may still be promised. */
static int32_t unpromised(const struct kv_cache *kv)
{
    return kv->n_free + kv->texts.n_kept - kv->n_promised;
}

/* Of the first n blocks of a table, those that nobody holds. */
static int32_t count_kept(const struct kv_cache *kv, const int32_t *table, int32_t n)
{
    int32_t kept = 0;
    for (int32_t b = 0; b < n; b++) kept += kv->refs[table[b]] == 0;
    return kept;
}

static void hold(struct kv_cache *kv, int32_t block)
{
    if (kv->refs[block]++ == 0) kv_text_use(kv, block);
}

static void release(struct kv_cache *kv, int32_t block)
{
    if (--kv->refs[block] == 0 && !kv_text_keep(kv, block)) kv->free_list[kv->n_free++] = block;
}

/* ---- windows ---- */

static void free_swa(struct kv_cache *kv, int32_t block)
{
    if (kv->swa_block[block] < 0) return;
    kv->swa_free[kv->n_swa_free++] = kv->swa_block[block];
    kv->swa_block[block] = -1;
}

/* What these layers hold of kept blocks goes, the oldest first. */
static int32_t take_swa(struct kv_cache *kv)
{
    for (int32_t b = kv->texts.oldest; kv->n_swa_free == 0; b = kv->texts.text[b].newer) free_swa(kv, b);
    return kv->swa_free[--kv->n_swa_free];
}

static void see(struct kv_cache *kv, int32_t block)
{
    if (kv->window && kv->seen[block]++ == 0 && kv->swa_block[block] < 0) kv->swa_block[block] = take_swa(kv);
}

/* keep: as long as the block is. */
static void unsee(struct kv_cache *kv, int32_t block, bool keep)
{
    if (kv->window && --kv->seen[block] == 0 && !keep) free_swa(kv, block);
}

/* The first block that a row behind n_tok tokens sees in layers with a window, or one `slack` positions before it. */
static int32_t first_seen(const struct kv_cache *kv, int32_t n_tok, int32_t slack)
{
    int32_t from = n_tok + 1 - kv->window - slack;
    return kv->window && from > 0 ? from / KV_BLOCK : 0;
}

void kv_seq_pass(struct kv_cache *kv, struct kv_seq *s)
{
    int32_t first = first_seen(kv, s->n_tok, KV_SLACK);
    for (; s->n_passed < first; s->n_passed++) unsee(kv, s->table[s->n_passed], false);
}

/* Whether the sequence still has what a row behind its first n_tok tokens sees. */
static int check_seen(const struct kv_cache *kv, const struct kv_seq *s, int32_t n_tok, struct lutra_error *err)
{
    if (n_tok == 0 || s->n_passed <= first_seen(kv, n_tok, 0)) return 0;
    return lutra_fail(err, LUTRA_E_ARGUMENT,
        "cache: layers with a window of %d have freed what lies before token %d (swa_trim): no cut to %d tokens",
        kv->window, s->n_passed * KV_BLOCK, n_tok);
}

/* ---- sequences ---- */

static int check_blocks(const struct kv_cache *kv, int32_t n, struct lutra_error *err)
{
    if (n <= unpromised(kv)) return 0;
    return lutra_fail(err, LUTRA_E_CTX_FULL, "cache: %d blocks of %d tokens needed, %d of %d are free and unpromised",
        n, KV_BLOCK, unpromised(kv), kv->set.n_block);
}

/* An unused sequence with a promise of `blocks`, where `kept` others come into use; or an error, and nothing has
 * changed. */
static int admit(
    struct kv_cache *kv, int32_t max_tok, int32_t blocks, int32_t kept, int32_t *seq, struct lutra_error *err)
{
    if (max_tok < 0 || max_tok > kv->set.n_ctx)
        return lutra_fail(err, LUTRA_E_CTX_FULL, "cache: a sequence of %d tokens does not fit the context of %d",
            max_tok, kv->set.n_ctx);
    TRY(check_blocks(kv, blocks + kept, err));
    TRY(kv_state_admit(kv, err));
    for (int32_t i = 0; i < kv->set.n_seq; i++) {
        struct kv_seq *s = &kv->seq[i];
        if (s->open) continue;
        kv_state_live(kv, 1);
        *s = (struct kv_seq){.open = true, .max_tok = max_tok, .promised = blocks, .table = s->table};
        kv->n_promised += blocks;
        *seq = i;
        return 0;
    }
    return lutra_fail(err, LUTRA_E_BUSY, "cache: all %d sequences are in use", kv->set.n_seq);
}

int kv_seq_open(struct kv_cache *kv, int max_tok, int32_t *seq, struct lutra_error *err)
{
    if (max_tok == 0) max_tok = kv->set.n_ctx;
    return admit(kv, max_tok, blocks_for(max_tok), 0, seq, err);
}

int kv_reserve(struct kv_cache *kv, int32_t n, struct lutra_error *err)
{
    TRY(check_blocks(kv, n, err));
    kv->n_promised += n;
    return 0;
}

/* Blocks that two tables share: forks share what is before their first difference. */
static int32_t n_shared(const struct kv_seq *a, const struct kv_seq *b)
{
    int32_t n = 0;
    while (n < a->n_table && n < b->n_table && a->table[n] == b->table[n]) n++;
    return n;
}

int32_t kv_held(const struct kv_cache *kv, const int32_t *seq, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++) {
        const struct kv_seq *s = find(kv, seq[i]);
        int32_t most = 0;
        for (int k = 0; s && k < i; k++) {
            const struct kv_seq *other = find(kv, seq[k]);
            int32_t shared = other ? n_shared(s, other) : 0;
            if (shared > most) most = shared;
        }
        if (s) sum += s->promised + s->n_table - most;
    }
    return sum;
}

/* The sequence that writes the block, the b-th of its table, next, and has no promise for a copy; NULL: none.  All
 * others that share it have one. */
static struct kv_seq *writer_of(struct kv_cache *kv, int32_t block, int32_t b)
{
    for (int32_t i = 0; i < kv->set.n_seq && kv->refs[block] > 0; i++) {
        struct kv_seq *s = &kv->seq[i];
        bool writes = s->open && s->n_table == b + 1 && s->table[b] == block && s->n_tok / KV_BLOCK == b;
        if (writes && s->max_tok > s->n_tok && !s->tail_promise) return s;
    }
    return NULL;
}

static void promise(struct kv_cache *kv, struct kv_seq *s, int32_t n)
{
    s->promised += n;
    kv->n_promised += n;
}

/* A new sequence of the first n_tok tokens of these blocks, without its states; layers with a window have freed what
 * lies before block n_passed.  The whole blocks are shared for good; a part-filled tail will be copied by whoever
 * writes it first. */
static int share(struct kv_cache *kv, const int32_t *table, int32_t n_tok, int32_t n_passed, int max_tok, int32_t *seq,
    struct lutra_error *err)
{
    bool part = n_tok % KV_BLOCK != 0;
    struct kv_seq *writer = part ? writer_of(kv, table[n_tok / KV_BLOCK], n_tok / KV_BLOCK) : NULL;
    if (writer && unpromised(kv) < 1)
        return lutra_fail(err, LUTRA_E_CTX_FULL, "cache: no free block for the tail that a fork shares");
    if (writer) promise(kv, writer, 1), writer->tail_promise = true;
    int32_t kept = count_kept(kv, table, blocks_for(n_tok));
    int rc = admit(kv, max_tok, blocks_for(max_tok) - n_tok / KV_BLOCK, kept, seq, err);
    if (rc < 0) {
        if (writer) promise(kv, writer, -1), writer->tail_promise = false;
        return rc;
    }
    struct kv_seq *to = &kv->seq[*seq];
    to->n_tok = n_tok;
    to->n_table = blocks_for(n_tok);
    to->tail_promise = part;
    int32_t passed = first_seen(kv, n_tok, KV_SLACK);
    to->n_passed = n_tok == 0 ? 0 : passed > n_passed ? passed : n_passed;
    for (int32_t b = 0; b < to->n_table; b++) hold(kv, to->table[b] = table[b]);
    for (int32_t b = to->n_passed; b < to->n_table; b++) see(kv, to->table[b]);
    return 0;
}

int kv_seq_fork(struct kv_cache *kv, int32_t seq, int n_tok, int max_tok, int32_t *fork, struct lutra_error *err)
{
    struct kv_seq *from = find(kv, seq);
    if (!from) return lutra_fail(err, LUTRA_E_ARGUMENT, "cache: there is no sequence %d", seq);
    if (n_tok == -1) n_tok = from->n_tok;
    if (max_tok == 0) max_tok = kv->set.n_ctx;
    if (n_tok < 0 || n_tok > from->n_tok || max_tok < n_tok)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "cache: cannot fork %d of %d tokens with room for %d", n_tok, from->n_tok, max_tok);
    TRY(check_seen(kv, from, n_tok, err));
    TRY(kv_state_check(kv, from, n_tok, err));
    TRY(share(kv, from->table, n_tok, from->n_passed, max_tok, fork, err));
    struct kv_seq *to = &kv->seq[*fork];
    to->has_text = from->has_text;
    to->domain = from->domain;
    kv_state_fork(kv, from, to);
    return 0;
}

/* The first of the n blocks such that layers with a window have all from there on. */
static int32_t first_swa(const struct kv_cache *kv, const int32_t *table, int32_t n)
{
    while (kv->window && n > 0 && kv->swa_block[table[n - 1]] >= 0) n--;
    return kv->window ? n : 0;
}

/* The most of the first n tokens of a past that is found that a sequence can begin with. */
static int32_t usable(const struct kv_cache *kv, const struct kv_past *p, int32_t n)
{
    const int32_t *table = kv->texts.path;
    for (bool cut = true; cut && n > 0;) {
        int32_t before = n;
        if (p->bulk && n < p->n_prompt) n -= n % p->bulk;
        n = kv_state_reach_past(kv, table, n);
        while (n > 0 && first_swa(kv, table, blocks_for(n)) > first_seen(kv, n, 0)) n = (n - 1) / KV_BLOCK * KV_BLOCK;
        cut = n < before;
    }
    return n;
}

int kv_seq_open_past(
    struct kv_cache *kv, const struct kv_past *p, int max_tok, int32_t *seq, int32_t *n_found, struct lutra_error *err)
{
    const int32_t *table = kv->texts.path;
    int32_t n = kv_text_find(kv, p);
    if (max_tok == 0) max_tok = kv->set.n_ctx;
    if (n > max_tok) n = max_tok;
    const int32_t common = n / KV_BLOCK * KV_BLOCK; /* whole blocks, which are shared and not copied */
    /* A part-filled block takes one more while both hold it: without it, if that is too much, or with nothing. */
    for (int rc = LUTRA_E_CTX_FULL; rc == LUTRA_E_CTX_FULL; n = n % KV_BLOCK ? n - n % KV_BLOCK : 0) {
        n = usable(kv, p, n);
        rc = share(kv, table, n, first_swa(kv, table, blocks_for(n)), max_tok, seq, err);
        if (rc < 0 && (n == 0 || rc != LUTRA_E_CTX_FULL)) return rc;
        *n_found = n;
    }
    kv->seq[*seq].has_text = true;
    kv->seq[*seq].domain = p->domain;
    kv->seq[*seq].parts = *n_found < common ? common : 0;
    kv_state_take_past(kv, &kv->seq[*seq]);
    return 0;
}

int32_t kv_find(struct kv_cache *kv, const struct kv_past *p)
{
    return usable(kv, p, kv_text_find(kv, p));
}

int kv_seq_grow(struct kv_cache *kv, int32_t seq, int max_tok, struct lutra_error *err)
{
    struct kv_seq *s = find(kv, seq);
    if (!s || max_tok > kv->set.n_ctx)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "cache: sequence %d cannot grow to %d tokens", seq, max_tok);
    if (max_tok <= s->max_tok) return 0;
    /* One that was full and may now write in a tail that others share has to copy it. */
    bool copies = s->max_tok == s->n_tok && s->n_tok % KV_BLOCK && !s->tail_promise &&
                  kv->refs[s->table[s->n_tok / KV_BLOCK]] > 1;
    int32_t more = blocks_for(max_tok) - blocks_for(s->max_tok) + copies;
    TRY(check_blocks(kv, more, err));
    promise(kv, s, more);
    s->tail_promise |= copies;
    s->max_tok = max_tok;
    return 0;
}

int32_t kv_seq_block(const struct kv_cache *kv, int32_t seq, int32_t b)
{
    const struct kv_seq *s = find(kv, seq);
    return s && b >= 0 && b < s->n_table ? s->table[b] : -1;
}

/* Lets go of all blocks of a table from `keep` on. */
static void drop_from(struct kv_cache *kv, struct kv_seq *s, int32_t keep)
{
    while (s->n_table > keep) {
        int32_t block = s->table[--s->n_table];
        bool kept = kv->refs[block] == 1 && kv->texts.text[block].listed;
        if (s->n_table >= s->n_passed) unsee(kv, block, kept);
        release(kv, block);
    }
}

void kv_seq_trim(struct kv_cache *kv, struct kv_seq *s)
{
    int32_t more = s->n_table - blocks_for(s->n_tok);
    drop_from(kv, s, blocks_for(s->n_tok));
    s->promised += more;
    kv->n_promised += more;
}

int kv_seq_truncate(struct kv_cache *kv, int32_t seq, int n_tok, struct lutra_error *err)
{
    struct kv_seq *s = find(kv, seq);
    if (!s || n_tok < 0 || n_tok > s->n_tok)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "cache: cannot cut sequence %d to %d tokens", seq, n_tok);
    TRY(check_seen(kv, s, n_tok, err));
    TRY(kv_state_check(kv, s, n_tok, err));
    int32_t keep = blocks_for(n_tok), own = 0;
    for (int32_t b = keep; b < s->n_table; b++) own += kv->refs[s->table[b]] == 1;
    /* Every block dropped is promised again; those of our own come back. */
    bool tail = n_tok % KV_BLOCK && kv->refs[s->table[keep - 1]] > 1;
    int32_t more = s->n_table - keep + (tail && !s->tail_promise) - (!tail && s->tail_promise);
    if (more > unpromised(kv) + own)
        return lutra_fail(err, LUTRA_E_CTX_FULL, "cache: no free blocks to cut a shared sequence");
    drop_from(kv, s, keep);
    if (s->n_passed > keep) s->n_passed = keep;
    s->promised += more;
    kv->n_promised += more;
    s->tail_promise = tail;
    kv_state_cut(kv, s, n_tok);
    s->n_tok = n_tok;
    return 0;
}

void kv_seq_close(struct kv_cache *kv, int32_t seq)
{
    struct kv_seq *s = find(kv, seq);
    if (!s) return;
    kv_state_drop(kv, s);
    drop_from(kv, s, 0);
    kv->n_promised -= s->promised;
    kv_state_live(kv, -1);
    s->open = false;
}

int32_t kv_seq_reach(const struct kv_cache *kv, int32_t seq, int32_t n_tok)
{
    const struct kv_seq *s = find(kv, seq);
    return s ? kv_state_reach(kv, s, n_tok) : -1;
}

static int take_block(struct kv_cache *kv, struct kv_seq *s, int32_t *block, struct lutra_error *err)
{
    int32_t kept = kv->n_free < 1 ? kv_text_evict(kv) : -1;
    if (kept >= 0) {
        if (kv->window) free_swa(kv, kept);
        kv->free_list[kv->n_free++] = kept;
    }
    if (s->promised < 1 || kv->n_free < 1)
        return lutra_fail(
            err, LUTRA_E_INTERNAL, "cache: a promise was broken (promised %d, free %d)", s->promised, kv->n_free);
    promise(kv, s, -1);
    *block = kv->free_list[--kv->n_free];
    kv->refs[*block] = 1;
    see(kv, *block);
    return 0;
}

static void copy_block(struct kv_cache *kv, int32_t to, int32_t from)
{
    const struct kv_view *v = &kv->shape;
    for (int layer = 0; layer < v->n_layer; layer++)
        if (kv_owns(v, layer)) /* K and V lie together */
            memcpy(kv_block_at(v, layer, KV_K, to), kv_block_at(v, layer, KV_K, from),
                v->layer[layer].side_bytes[KV_K] + v->layer[layer].side_bytes[KV_V]);
    kv->host_wrote[to] = 1;
    kv->copied_blocks++;
}

int kv_block_own(struct kv_cache *kv, struct kv_seq *s, int32_t pos, struct lutra_error *err)
{
    int32_t b = pos / KV_BLOCK;
    if (b == s->n_table) {
        TRY(take_block(kv, s, &s->table[b], err));
        s->n_table++;
        return 0;
    }
    int32_t old = s->table[b], n = s->n_tok - b * KV_BLOCK;
    bool longer = kv->texts.text[old].n > pos % KV_BLOCK; /* what was found and is not gone on with stays to be found */
    if (kv->refs[old] > 1 || (longer && s->tail_promise)) {
        TRY(take_block(kv, s, &s->table[b], err));
        copy_block(kv, s->table[b], old);
        kv_text_copy(kv, s->table[b], old, n < pos % KV_BLOCK ? n : pos % KV_BLOCK);
        unsee(kv, old, false);
        release(kv, old);
    } else if (s->tail_promise) { /* the others copied or left: the block is ours, the promise not needed */
        s->promised--;
        kv->n_promised--;
    }
    s->tail_promise = false;
    kv_text_cut(kv, s->table[b], pos % KV_BLOCK);
    return 0;
}

void kv_host_wrote_all(struct kv_cache *kv)
{
    for (int32_t b = 0; b < kv->set.n_block; b++)
        if (kv->refs[b] > 0) kv->host_wrote[b] = 1;
}

void kv_usage(const struct kv_cache *kv, struct kv_usage *out)
{
    *out = (struct kv_usage){
        kv->set.n_block, kv->n_free, kv->texts.n_kept, kv->n_promised, kv->copied_blocks, kv->n_swa, kv->n_swa_free};
}
