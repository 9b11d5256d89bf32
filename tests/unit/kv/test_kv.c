/* SPDX-License-Identifier: MIT
 *
 * The cache against a model of itself: every sequence as a plain list of tokens.  A "pass" writes each row's token
 * into its slot; after every pass the whole visible context of every row and sequence must spell the right tokens, and
 * attention over it is that over the list.  Layers differ in heads and head size, share caches or have none.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kv/kv.h"
#include "ops/ref/ref.h"
#include "sanitized.h"

enum {
    N_LAYER = 6,
    MAX_HEAD = 3,
    MAX_D = 16,
    N_CTX = 400,
    N_BLOCK = 24,
    MAX_BLOCK = 64,
    N_SEQ = 8,
    N_PAST = 12,
    N_ROW = 96,
    N_DRAFT = 24,
    N_STATE = 14 /* too few for all sequences to grow */
};

struct fixture {
    struct kv_cache *kv;
    uint8_t *states;
    int n_refused, n_replayed,
        n_reused; /* cuts without a state; drafts replayed; sequences from a state inside another */
    struct buffer memory;
    int32_t token[N_SEQ][N_CTX]; /* the model */
    int32_t max_tok[N_SEQ];
    int domain[N_SEQ]; /* of its text; -1: it has none */
    struct {
        int32_t token[N_CTX];
        int n, domain;
    } past[N_PAST]; /* texts of sequences that were closed */
    int n_found;
    struct row row[N_ROW];
    int32_t mark[N_ROW];
    struct batch batch;
    uint32_t seed;
    int32_t next_token;
};

/* Its own, none, its own of another shape, that of the first, that of the third, its own. */
static const struct op_layer plain[N_LAYER] = {{0, 2, 8, 0, 0, 0}, {-1, 0, 0, 0, 0, 0}, {2, 3, 16, 0, 0, 0},
    {0, 2, 8, 0, 0, 0}, {2, 3, 16, 0, 0, 0}, {5, 1, 4, 0, 0, 0}};
/* The same with windows, which are freed. */
static const struct op_layer windowed[N_LAYER] = {{0, 2, 8, 0, 0, 0}, {-1, 0, 0, 0, 0, 0}, {2, 3, 16, 0, 33, 0},
    {0, 2, 8, 0, 0, 0}, {2, 3, 16, 0, 33, 0}, {5, 1, 4, 0, 20, 0}};
/* The first with states of two layers. */
static const struct op_layer recurrent[N_LAYER] = {{0, 2, 8, 0, 0, 0}, {-1, 0, 0, 64, 0, 64}, {2, 3, 16, 0, 0, 0},
    {0, 2, 8, 0, 0, 0}, {2, 3, 16, 0, 0, 0}, {5, 1, 4, 128, 0, 64}};
static const struct op_layer *layers = plain;

static const struct kv_settings settings = {.type = {QUANT_F32, QUANT_F32},
    .layer = plain,
    .n_layer = N_LAYER,
    .n_ctx = N_CTX,
    .n_block = N_BLOCK,
    .n_seq = N_SEQ,
    .n_row = N_ROW,
    .n_draft = N_DRAFT};

static uint32_t below(struct fixture *f, uint32_t n)
{
    f->seed = f->seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)f->seed * n) >> 32);
}

static int open_fixture(void **state, bool by_block, const struct op_layer *of)
{
    struct kv_settings s = settings;
    bool windows = of == windowed;
    s.layer = layers = of;
    s.swa_trim = windows;
    if (windows) s.n_block = MAX_BLOCK; /* of which those with windows need 35 */
    struct fixture *f = calloc(1, sizeof *f);
    f->memory.bytes = kv_bytes(&s);
    f->memory.host = aligned_alloc(64, (f->memory.bytes + 63) / 64 * 64);
    memset(f->memory.host, 0xff, f->memory.bytes);
    f->batch = (struct batch){.row = f->row, .mark = f->mark};
    f->seed = 1;
    *state = f;
    s.by_block = by_block;
    s.n_state = N_STATE;
    if (kv_state_bytes(&s, NULL)) s.state = f->states = calloc(1, kv_state_bytes(&s, NULL));
    if (f->memory.bytes == 0) return -1;
    return kv_open(&f->kv, &s, &f->memory, NULL);
}

static int setup(void **state)
{
    return open_fixture(state, false, plain);
}

static int setup_by_block(void **state)
{
    return open_fixture(state, true, plain);
}

static int setup_windows(void **state)
{
    return open_fixture(state, false, windowed);
}

static int setup_windows_by_block(void **state)
{
    return open_fixture(state, true, windowed);
}

static int setup_recurrent(void **state)
{
    return open_fixture(state, false, recurrent);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    kv_close(&f->kv);
    free(f->states);
    free(f->memory.host);
    free(f);
    return 0;
}

/* The first element of a vector: layer, side and head of whoever wrote it; the others follow from it. */
static float code(int32_t token, int layer, int side, int head)
{
    return (float)(token * 64 + layer * 8 + side * 4 + head);
}

/* Of a head's row: its code, then numbers between -1 and 1. */
static float element(float code, int d)
{
    uint32_t z = ((uint32_t)code * 64 + (uint32_t)d) * 2654435769u;
    z = (z ^ z >> 15) * 2246822519u;
    return d ? (float)(int32_t)(z ^ z >> 13) * 0x1p-31f : code;
}

static void write_rows(const struct kv_view *v, const struct batch *b)
{
    for (int layer = 0; layer < N_LAYER; layer++)
        for (int side = KV_K; side <= KV_V && kv_owns(v, layer); side++)
            for (int head = 0; head < layers[layer].n_kv_head; head++)
                for (int r = 0; r < b->n_row; r++) {
                    float *x = (float *)(void *)kv_slot_at(v, layer, side, head, r);
                    for (int d = 0; d < layers[layer].d_head; d++)
                        x[d] = element(code(b->row[r].token, layer, side, head), d);
                }
}

/* What row r should see at pos: its ancestors' tokens, else its sequence's. */
static int32_t expected(const struct fixture *f, int r, int pos)
{
    while (r >= 0 && f->row[r].pos > pos) r = f->row[r].parent;
    if (r >= 0 && f->row[r].pos == pos) return f->row[r].token;
    return -1;
}

static void check_view(struct fixture *f, const struct kv_view *v)
{
    for (int r = 0; r < f->batch.n_row; r++) {
        const struct kv_row *kr = &v->row[r];
        assert_int_equal(kr->n_paged + kr->n_path, f->row[r].pos + 1);
        for (int pos = 0; pos <= f->row[r].pos; pos++) {
            int32_t token = expected(f, r, pos);
            if (token < 0) token = f->token[f->row[r].seq][pos];
            const int layer = pos % N_LAYER, side = pos / 8 % 2, owner = layers[layer].cache;
            if (owner < 0) continue;
            if (layers[layer].window && pos < f->row[r].pos + 1 - layers[layer].window) continue;
            const int head = pos / 16 % layers[layer].n_kv_head;
            float x[MAX_D];
            ref_kv_read(v, layer, side, head, r, pos, x);
            for (int d = 0; d < layers[layer].d_head; d++)
                assert_true(x[d] == element(code(token, owner, side, head), d));
        }
    }
}

/* ref_attention of one row and head through the view, and from the tokens alone. */
static void check_attention(struct fixture *f, const struct kv_view *v, int r, int layer)
{
    const struct op_layer *l = &layers[layer];
    int window = l->window ? l->window : 90;
    struct op_attention a = {
        .n_head = 2 * l->n_kv_head, .n_kv_head = l->n_kv_head, .d_head = l->d_head, .scale = 1e-6f, .window = window};
    float q[2 * MAX_HEAD * MAX_D], out[2 * MAX_HEAD * MAX_D];
    double scratch[N_CTX + 2 * MAX_D], want[MAX_D] = {0}, sum = 0;
    int head = (int)below(f, 2u * (uint32_t)l->n_kv_head), n = f->row[r].pos + 1;
    for (int i = 0; i < a.n_head * a.d_head; i++) q[i] = (float)below(f, 100) * 0.01f;
    ref_attention(v, layer, &a, r, q, out, scratch);
    for (int pos = n > window ? n - window : 0; pos < n; pos++) {
        int32_t token = expected(f, r, pos);
        if (token < 0) token = f->token[f->row[r].seq][pos];
        double score = 0;
        for (int d = 0; d < l->d_head; d++)
            score += (double)q[head * l->d_head + d] * element(code(token, l->cache, KV_K, head / 2), d);
        sum += score = exp(score * (double)a.scale);
        for (int d = 0; d < l->d_head; d++) want[d] += score * element(code(token, l->cache, KV_V, head / 2), d);
    }
    for (int d = 0; d < l->d_head; d++)
        assert_true(fabs(out[head * l->d_head + d] - want[d] / sum) <= 1e-5 * (1 + fabs(want[d] / sum)));
}

/* Items: each block once, every row meets each of its whole segments once, in ascending position. */
static void check_items(struct fixture *f, const struct kv_view *v)
{
    int32_t next[N_ROW] = {0};
    char seen[MAX_BLOCK] = {0};
    for (int i = 0; i < v->n_item; i++) {
        assert_false(seen[v->item[i].block]);
        seen[v->item[i].block] = 1;
        for (int k = 0; k < v->item[i].n; k++) {
            int32_t r = v->item_row[v->item[i].first + k];
            assert_int_equal(next[r], v->item[i].pos);
            assert_int_equal(v->table[v->row[r].table + v->item[i].pos / KV_BLOCK], v->item[i].block);
            next[r] += KV_BLOCK;
        }
    }
    for (int r = 0; r < f->batch.n_row; r++) {
        const struct kv_row *kr = &v->row[r];
        int whole = kr->n_path ? kr->n_paged / KV_BLOCK * KV_BLOCK : (kr->n_paged + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK;
        assert_int_equal(next[r], whole);
    }
}

/* ---- states: of n tokens, (n, a hash of them) ---- */

struct hashed {
    uint64_t n, hash;
};

static void hash_token(struct hashed *h, int32_t token)
{
    h->n++;
    h->hash = (h->hash ^ (uint64_t)(uint32_t)token) * 0x9E3779B97F4A7C15u + h->n;
}

static struct hashed hash_of(const struct fixture *f, int32_t seq, int32_t n)
{
    struct hashed h = {0, 0};
    for (int32_t i = 0; i < n; i++) hash_token(&h, f->token[seq][i]);
    return h;
}

static void check_draft_state(
    struct fixture *f, const struct kv_view *v, int layer, int r, struct hashed chain, struct hashed *drafts)
{
    const struct kv_row *k = &v->row[r];
    struct hashed want = hash_of(f, f->row[r].seq, kv_seq_length(f->kv, f->row[r].seq)), *own = &drafts[k->slot];
    int32_t path[N_ROW], n = 0;
    *own = k->n_path > 1 ? drafts[v->row[k->up].slot] : chain;
    hash_token(own, f->row[r].token);
    for (int32_t i = r; i >= 0; i = f->row[i].parent) path[n++] = f->row[i].token;
    while (n > 0) hash_token(&want, path[--n]);
    assert_memory_equal(own, &want, sizeof want);
    *(int32_t *)(void *)kv_left_at(&v->state, layer, 0, k->slot) = f->row[r].token;
}

/* A pass over one layer's states: what it begins from is what its sequence's tokens say. */
static void check_run(struct fixture *f, const struct kv_view *v, const struct kv_run *run, int layer)
{
    const struct kv_states *st = &v->state;
    struct hashed h, drafts[N_DRAFT], want;
    int draft = 0, save = 0, any = run->n_row + run->n_draft ? st->row[run->first_row] : -1;
    memcpy(&h, kv_state_at(st, layer, 0, run->from), sizeof h);
    assert_int_equal(h.n, run->pos);
    if (any >= 0) want = hash_of(f, f->row[any].seq, run->pos);
    if (any >= 0) assert_memory_equal(&h, &want, sizeof want);
    for (int t = 0; t <= run->n_replay + run->n_row; t++) {
        if (t > 0 && t <= run->n_replay) {
            int32_t token =
                *(const int32_t *)(const void *)kv_left_before(st, layer, 0, st->replay[run->first_replay + t - 1]);
            if (any >= 0) assert_int_equal(token, f->token[f->row[any].seq][run->pos + t - 1]);
            hash_token(&h, token);
            f->n_replayed++;
        }
        if (t > run->n_replay) {
            int r = st->row[run->first_row + t - 1 - run->n_replay];
            assert_int_equal(f->row[r].pos, run->pos + t - 1);
            hash_token(&h, f->row[r].token);
        }
        for (; save < run->n_save && st->save[run->first_save + save].after == t; save++) {
            assert_true(st->save[run->first_save + save].slot != run->from);
            memcpy(kv_state_at(st, layer, 0, st->save[run->first_save + save].slot), &h, sizeof h);
        }
        for (; draft < run->n_draft && v->row[st->row[run->first_draft + draft]].n_paged - run->pos == t; draft++)
            check_draft_state(f, v, layer, st->row[run->first_draft + draft], h, drafts);
    }
    assert_int_equal(draft, run->n_draft);
    assert_int_equal(save, run->n_save);
}

static void check_states(struct fixture *f, const struct kv_view *v)
{
    int n = 0;
    if (layers != recurrent) return;
    for (int i = 0; i < v->state.n_run; i++) {
        for (int layer = 0; layer < N_LAYER; layer++)
            if (layers[layer].state_bytes) check_run(f, v, &v->state.run[i], layer);
        n += v->state.run[i].n_row + v->state.run[i].n_draft;
    }
    assert_int_equal(n, f->batch.n_row);
    for (int r = 0; r < n; r++) {
        const struct kv_run *run = &v->state.run[v->state.run_of[r]];
        assert_int_equal(f->row[v->state.row[run->first_row]].seq, f->row[r].seq);
    }
}

static int32_t length_of(const void *kv, int32_t seq)
{
    return kv_seq_length(kv, seq);
}

/* A pass of random rows over the open sequences. */
static void random_pass(struct fixture *f)
{
    int n = 0, n_draft = 0;
    for (int32_t s = 0; s < N_SEQ; s++) {
        int len = kv_seq_length(f->kv, s);
        if (len < 0 || below(f, 4) == 0) continue;
        int want = below(f, 3) ? 1 : (int)below(f, 40), first = n;
        for (int i = 0; i < want && len + i < f->max_tok[s] && n < N_ROW - 16; i++, n++)
            f->row[n] =
                (struct row){f->next_token++, len + i, s, n == first ? -1 : n - 1, WANT_NOTHING, 0, NULL, NULL, NULL};
        int root = n - 1, drafts = below(f, 2) ? 0 : (int)below(f, 6);
        if (root < first) continue;
        for (int i = 0; i < drafts && n_draft < N_DRAFT && n < N_ROW; i++) {
            int parent = root + (int)below(f, (uint32_t)(n - root));
            if (f->row[parent].pos + 1 >= f->max_tok[s]) continue;
            f->row[n] =
                (struct row){f->next_token++, f->row[parent].pos + 1, s, parent, ROW_DRAFT, 0, NULL, NULL, NULL};
            n++, n_draft++;
        }
    }
    if (n == 0) return;
    struct kv_view v;
    f->batch.n_row = n;
    assert_int_equal(batch_check(&f->batch, 1 << 30, length_of, f->kv, NULL), 0);
    assert_int_equal(kv_pass_begin(f->kv, &f->batch, &v, NULL), 0);
    write_rows(&v, &f->batch);
    check_view(f, &v);
    for (int layer = 0; layer < N_LAYER; layer++)
        if (layers[layer].cache >= 0) check_attention(f, &v, (int)below(f, (uint32_t)n), layer);
    check_items(f, &v);
    check_states(f, &v);
    bool ok = below(f, 5) != 0;
    kv_pass_end(f->kv, &f->batch, ok);
    if (!ok) return;
    for (int r = 0; r < n; r++)
        if (!(f->row[r].want & ROW_DRAFT)) f->token[f->row[r].seq][f->row[r].pos] = f->row[r].token;
    for (int r = 0; r < n; r++) {
        if (!(f->row[r].want & ROW_DRAFT) || below(f, 3)) continue;
        int before = kv_seq_length(f->kv, f->row[r].seq);
        if (kv_commit(f->kv, &f->batch, r, NULL) < 0) continue; /* another branch of its tree was taken */
        assert_int_equal(kv_seq_length(f->kv, f->row[r].seq), f->row[r].pos + 1);
        for (int a = r; a >= 0 && f->row[a].pos >= before; a = f->row[a].parent)
            f->token[f->row[a].seq][f->row[a].pos] = f->row[a].token;
    }
}

/* A length up to len that the sequence has a state behind; the others are refused. */
static int some_length(struct fixture *f, int32_t s, int len)
{
    int n = (int)below(f, (uint32_t)len + 1), near = kv_seq_reach(f->kv, s, n);
    struct lutra_error err;
    int32_t t;
    assert_true(near <= n && (near == n || layers == recurrent));
    if (near < n) {
        assert_int_equal(kv_seq_fork(f->kv, s, n, N_CTX, &t, &err), LUTRA_E_ARGUMENT);
        if (!strstr(err.what, "recurrent layers have no state")) fail_msg("says %s", err.what);
        assert_int_equal(kv_seq_truncate(f->kv, s, n, NULL), LUTRA_E_ARGUMENT);
        f->n_refused++;
    }
    f->n_reused += near > 0 && near < len;
    return near;
}

/* A sequence that begins with as much as there is of a text of before, or with nothing of another domain's. */
static void open_past(struct fixture *f)
{
    int k = (int)below(f, N_PAST), domain = below(f, 8) ? f->past[k].domain : 2, n = f->past[k].n;
    int max_tok = n + 1 + (int)below(f, (uint32_t)(N_CTX - n + 1));
    struct kv_past p = {f->past[k].token, n, n, 0, (uint64_t)domain};
    int32_t t, found;
    if (max_tok > N_CTX) max_tok = N_CTX;
    if (kv_seq_open_past(f->kv, &p, max_tok, &t, &found, NULL) < 0) return;
    assert_in_range(found, 0, domain == 2 ? 0 : n);
    assert_int_equal(kv_seq_length(f->kv, t), found);
    memcpy(f->token[t], f->past[k].token, sizeof f->token[t]);
    f->max_tok[t] = max_tok;
    f->domain[t] = domain == 2 ? -1 : domain; /* of this domain nothing is archived */
    f->n_found += found > 0;
}

static void close_one(struct fixture *f, int32_t s, int len)
{
    int k = (int)below(f, N_PAST);
    if (len > 0 && f->domain[s] >= 0) {
        memcpy(f->past[k].token, f->token[s], sizeof f->token[s]);
        f->past[k].n = len, f->past[k].domain = f->domain[s];
    }
    kv_seq_close(f->kv, s);
}

static void random_histories(void **state)
{
    struct fixture *f = *state;
    for (int k = 0; k < N_PAST; k++) f->past[k].domain = k % 2;
    for (int i = 0; i < (SANITIZED ? 10000 : 30000); i++) {
        int32_t s = (int32_t)below(f, N_SEQ), t;
        int len = kv_seq_length(f->kv, s);
        switch (below(f, 14)) {
        case 0: {
            int max_tok = 1 + (int)below(f, N_CTX);
            if (kv_seq_open(f->kv, max_tok, &t, NULL) == 0) f->max_tok[t] = max_tok, f->domain[t] = -1;
            break;
        }
        case 1:
        case 2: {
            if (len < 0) break;
            int n = some_length(f, s, len), max_tok = n + (int)below(f, (uint32_t)(N_CTX - n + 1));
            if (max_tok == 0 || kv_seq_fork(f->kv, s, n, max_tok, &t, NULL) < 0) break;
            f->max_tok[t] = max_tok;
            f->domain[t] = f->domain[s];
            memcpy(f->token[t], f->token[s], sizeof f->token[t]);
            break;
        }
        case 3: close_one(f, s, len); break;
        case 4: open_past(f); break;
        case 5:
            if (len > 0) kv_seq_truncate(f->kv, s, some_length(f, s, len), NULL);
            break;
        case 6: {
            int max_tok = 1 + (int)below(f, N_CTX);
            if (len < 0) break;
            if (kv_seq_grow(f->kv, s, max_tok, NULL) == 0 && max_tok > f->max_tok[s]) f->max_tok[s] = max_tok;
            break;
        }
        default: random_pass(f);
        }
        struct kv_usage u;
        kv_usage(f->kv, &u);
        assert_in_range(u.n_promised, 0, u.n_free + u.n_kept);
    }
    print_message("%d texts began with what was there\n", f->n_found);
    assert_true(f->n_found > (layers == recurrent ? 10 : SANITIZED ? 30 : 100));
    for (int32_t s = 0; s < N_SEQ; s++) kv_seq_close(f->kv, s);
    struct kv_usage u;
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_free + u.n_kept, u.n_block);
    assert_int_equal(u.n_swa, layers == windowed ? 35 : 0);
    assert_int_equal(u.n_promised, 0);
    assert_true(u.copied_blocks > (layers == recurrent ? 20 : 100));
    if (layers == recurrent) assert_true(f->n_refused > 300 && f->n_replayed > 300 && f->n_reused > 30);
}

/* Evaluates n rows in a chain. */
static void feed(struct fixture *f, int32_t seq, int n)
{
    while (n > 0) {
        struct kv_view v;
        int len = kv_seq_length(f->kv, seq), k = n < 64 ? n : 64;
        for (int i = 0; i < k; i++) f->row[i] = (struct row){7, len + i, seq, i - 1, 0, 0, NULL, NULL, NULL};
        f->batch.n_row = k;
        assert_int_equal(kv_pass_begin(f->kv, &f->batch, &v, NULL), 0);
        kv_pass_end(f->kv, &f->batch, true);
        n -= k;
    }
}

/* A prompt of 200 tokens in chunks, then ten more one by one. */
static void states_are_kept_where_they_serve(void **state)
{
    struct fixture *f = *state;
    int32_t a;
    assert_int_equal(kv_seq_open(f->kv, N_CTX, &a, NULL), 0);
    feed(f, a, 140);
    for (int i = 0; i < 60; i++)
        f->row[i] = (struct row){7, 140 + i, a, i - 1, i == 59 ? WANT_LOGITS : 0, 0, NULL, NULL, NULL};
    f->batch.n_row = 60;
    struct kv_view v;
    assert_int_equal(kv_pass_begin(f->kv, &f->batch, &v, NULL), 0);
    kv_pass_end(f->kv, &f->batch, true);
    assert_int_equal(kv_seq_reach(f->kv, a, 200), 200);
    assert_int_equal(kv_seq_reach(f->kv, a, 199), 199);
    assert_int_equal(kv_seq_reach(f->kv, a, 198), 192); /* the last block of the prompt */
    assert_int_equal(kv_seq_reach(f->kv, a, 191), 140); /* for one pass more */
    for (int i = 0; i < 10; i++) feed(f, a, 1);
    assert_int_equal(kv_seq_reach(f->kv, a, 209), 209);
    assert_int_equal(kv_seq_reach(f->kv, a, 208), 192);
    assert_int_equal(kv_seq_reach(f->kv, a, 191), 0);
    assert_int_equal(kv_seq_truncate(f->kv, a, 192, NULL), 0);
    assert_int_equal(kv_seq_length(f->kv, a), 192);
}

/* Two for each sequence. */
static void states_are_promised(void **state)
{
    struct fixture *f = *state;
    int32_t a[7], b;
    struct lutra_error err;
    for (int i = 0; i < 6; i++) assert_int_equal(kv_seq_open(f->kv, 40, &a[i], NULL), 0);
    assert_int_equal(kv_seq_open(f->kv, 40, &b, &err), LUTRA_E_CTX_FULL);
    assert_non_null(strstr(err.what, "6 sequences have all 13 states"));
    for (int i = 0; i < 6; i++) feed(f, a[i], 20);
    kv_seq_close(f->kv, a[0]);
    assert_int_equal(kv_seq_open(f->kv, 40, &b, NULL), 0);
    feed(f, b, 5);
    for (int i = 1; i < 6; i++) feed(f, a[i], 5);
    assert_int_equal(kv_seq_fork(f->kv, a[1], -1, 40, &a[6], &err), LUTRA_E_CTX_FULL);
    kv_seq_close(f->kv, a[1]);
    assert_int_equal(kv_seq_fork(f->kv, a[2], -1, 40, &a[6], NULL), 0);
}

static void forks_cost_one_block(void **state)
{
    struct fixture *f = *state;
    int32_t a, fork[6];
    struct kv_usage u;
    assert_int_equal(kv_seq_open(f->kv, 300, &a, NULL), 0);
    feed(f, a, 300); /* 4 whole blocks and a tail of 44 */
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_free, N_BLOCK - 5);
    for (int i = 0; i < 6; i++) assert_int_equal(kv_seq_fork(f->kv, a, -1, 320, &fork[i], NULL), 0);
    for (int i = 0; i < 6; i++) feed(f, fork[i], 10);
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_free, N_BLOCK - 5 - 6);
    assert_int_equal(u.copied_blocks, 6);
}

static void promises_are_kept_or_refused(void **state)
{
    struct fixture *f = *state;
    int32_t a, b, c;
    struct lutra_error err;
    assert_int_equal(kv_seq_open(f->kv, N_CTX + 1, &a, &err), LUTRA_E_CTX_FULL);
    for (int i = 0; i < 3; i++) assert_int_equal(kv_seq_open(f->kv, N_CTX, &a, NULL), 0); /* 21 of 24 blocks */
    assert_int_equal(kv_seq_open(f->kv, 4 * KV_BLOCK, &b, &err), LUTRA_E_CTX_FULL);
    assert_non_null(strstr(err.what, "4 blocks"));
    assert_int_equal(kv_seq_open(f->kv, 3 * KV_BLOCK, &b, NULL), 0);
    feed(f, b, 3 * KV_BLOCK);
    assert_int_equal(kv_seq_fork(f->kv, b, -1, 3 * KV_BLOCK + 1, &c, NULL), LUTRA_E_CTX_FULL);
    assert_int_equal(kv_seq_fork(f->kv, b, -1, 3 * KV_BLOCK, &c, NULL), 0);
    for (int s = 0; s < 3; s++) feed(f, s, N_CTX); /* the promise holds although the pool is now full */
    f->row[0] = (struct row){1, 3 * KV_BLOCK, b, -1, 0, 0, NULL, NULL, NULL};
    f->batch.n_row = 1;
    struct kv_view v;
    assert_int_equal(kv_pass_begin(f->kv, &f->batch, &v, &err), LUTRA_E_CTX_FULL);
}

/* ---- texts ---- */

/* Tokens base + 0, base + 1, ...: n more rows of a sequence, of a prompt of n_prompt, in passes of at most 64. */
static void say(struct fixture *f, int32_t seq, int base, int n, int n_prompt)
{
    while (n > 0) {
        struct kv_view v;
        int len = kv_seq_length(f->kv, seq), k = n < 64 ? n : 64;
        for (int i = 0; i < k; i++) {
            uint32_t want = len + i == n_prompt - 1 ? WANT_LOGITS : 0;
            f->row[i] = (struct row){base + len + i, len + i, seq, i - 1, want, 0, NULL, NULL, NULL};
            if (len + i < n_prompt) f->row[i].want |= ROW_BULK;
        }
        f->batch.n_row = k;
        assert_int_equal(batch_check(&f->batch, 1 << 30, length_of, f->kv, NULL), 0);
        assert_int_equal(kv_pass_begin(f->kv, &f->batch, &v, NULL), 0);
        kv_pass_end(f->kv, &f->batch, true);
        n -= k;
    }
}

static struct kv_past past_of(int32_t *token, int base, int n, int n_prompt, int bulk)
{
    for (int i = 0; i < n; i++) token[i] = base + i;
    return (struct kv_past){token, n, n_prompt, bulk, 0};
}

/* What is closed costs nobody anything and is found until its blocks are written: the oldest goes first, its end
 * before its beginning. */
static void closed_texts_stay_while_there_is_room(void **state)
{
    struct fixture *f = *state;
    int32_t token[N_CTX], a, n;
    struct kv_usage u;
    for (int i = 0; i < 3; i++) {
        struct kv_past p = past_of(token, 1000 * i, N_CTX, 0, 0);
        assert_int_equal(kv_seq_open_past(f->kv, &p, N_CTX, &a, &n, NULL), 0);
        assert_int_equal(n, 0);
        say(f, a, 1000 * i, N_CTX, 0);
        assert_int_equal(kv_find(f->kv, &p), N_CTX);
        kv_seq_close(f->kv, a);
    }
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_free + u.n_kept, N_BLOCK);
    assert_int_equal(kv_seq_open(f->kv, N_CTX, &a, NULL), 0);
    feed(f, a, 3 * KV_BLOCK); /* those that were free */
    for (int i = 0; i < 3; i++) {
        struct kv_past p = past_of(token, 1000 * i, N_CTX, 0, 0);
        assert_int_equal(kv_find(f->kv, &p), N_CTX);
    }
    feed(f, a, 2 * KV_BLOCK);
    struct kv_past p = past_of(token, 0, N_CTX, 0, 0);
    int left = kv_find(f->kv, &p);
    assert_int_equal(left, (N_CTX + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK - 2 * KV_BLOCK);
    int32_t b; /* what it begins with is used, and the last of all to go */
    assert_int_equal(kv_seq_open_past(f->kv, &p, N_CTX, &b, &n, NULL), 0);
    assert_int_equal(n, left);
    p = past_of(token, 1000, N_CTX, 0, 0);
    assert_int_equal(kv_find(f->kv, &p), N_CTX);
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_promised, (N_CTX + KV_BLOCK - 1) / KV_BLOCK - 5 + 2);
}

/* Two that begin alike, and a third: what it has in common with either; both stay whole. */
static void texts_branch(void **state)
{
    struct fixture *f = *state;
    int32_t token[N_CTX], a, b, n;
    struct kv_past p = past_of(token, 0, 150, 0, 0);
    assert_int_equal(kv_seq_open_past(f->kv, &p, 200, &a, &n, NULL), 0);
    say(f, a, 0, 150, 0);
    for (int i = 100; i < 150; i++) token[i] = 9000 + i;
    assert_int_equal(kv_seq_open_past(f->kv, &p, 200, &b, &n, NULL), 0);
    assert_int_equal(n, 100);
    say(f, b, 9000, 50, 0);
    kv_seq_close(f->kv, a);
    kv_seq_close(f->kv, b);
    assert_int_equal(kv_find(f->kv, &p), 150);
    token[149] = 1;
    assert_int_equal(kv_find(f->kv, &p), 149);
    assert_int_equal(kv_seq_open_past(f->kv, &p, 200, &a, &n, NULL), 0); /* which goes on with another token */
    say(f, a, 5, 1, 0);
    token[149] = 9149;
    assert_int_equal(kv_find(f->kv, &p), 150); /* and has left the text that it found as it was */
    p = past_of(token, 0, 150, 0, 0);
    assert_int_equal(kv_find(f->kv, &p), 150);
    p.domain = 1;
    assert_int_equal(kv_find(f->kv, &p), 0);
}

/* Rows are found in the class that the text would get: bulk where a prompt's whole blocks are. */
static void classes_are_told_apart(void **state)
{
    struct fixture *f = *state;
    int32_t token[N_CTX], a, n;
    f->batch.bulk = 32;
    struct kv_past p = past_of(token, 0, 160, 100, 32);
    p.n_token = 99;
    assert_int_equal(kv_seq_open_past(f->kv, &p, 300, &a, &n, NULL), 0);
    say(f, a, 0, 100, 100);                   /* a prompt: 96 rows in bulk */
    say(f, a, 0, 60, 100);                    /* an answer */
    assert_int_equal(kv_find(f->kv, &p), 96); /* the rest begins with a whole block, or is less than one */
    p.n_token = 160;
    assert_int_equal(kv_find(f->kv, &p), 160); /* the sample itself, once more */
    p = past_of(token, 0, 199, 200, 32);
    assert_int_equal(kv_find(f->kv, &p), 96); /* a prompt with the answer in it: its rows would be in bulk */
    p.bulk = 0;
    assert_int_equal(kv_find(f->kv, &p), 0);
    f->batch.bulk = 0;
}

static void sequences_grow_by_blocks(void **state)
{
    struct fixture *f = *state;
    int32_t a, b;
    struct kv_usage u;
    assert_int_equal(kv_seq_open(f->kv, 10, &a, NULL), 0);
    feed(f, a, 10);
    assert_int_equal(kv_seq_grow(f->kv, a, 64, NULL), 0);
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_promised, 0); /* it has the block */
    assert_int_equal(kv_seq_fork(f->kv, a, 10, 10, &b, NULL), 0);
    assert_int_equal(kv_seq_grow(f->kv, b, 65, NULL), 0);
    feed(f, b, 55);
    feed(f, a, 54);
    assert_int_equal(kv_seq_open(f->kv, N_CTX, &b, NULL), 0);
    assert_int_equal(kv_seq_open(f->kv, N_CTX, &b, NULL), 0);
    assert_int_equal(kv_seq_grow(f->kv, a, N_CTX, NULL), 0);
    assert_int_equal(kv_seq_grow(f->kv, b, N_CTX + 1, NULL), LUTRA_E_ARGUMENT);
    assert_int_equal(kv_seq_open(f->kv, 65, &b, NULL), LUTRA_E_CTX_FULL);
}

/* What is shared takes no memory; every layer that attends reads. */
static void layers_take_their_own(void **state)
{
    struct fixture *f = *state;
    struct kv_view v;
    int32_t a;
    size_t each = sizeof(float) * 2 * (2 * 8 + 3 * 16 + 4), read = sizeof(float) * 2 * (2 * 2 * 8 + 2 * 3 * 16 + 4);
    assert_int_equal(kv_token_bytes(settings.type, layers, N_LAYER), each);
    assert_int_equal(kv_bytes(&settings), each * (N_BLOCK * KV_BLOCK + (N_DRAFT + 1) / 2 * 2));
    assert_int_equal(kv_seq_open(f->kv, 10, &a, NULL), 0);
    f->row[0] = (struct row){1, 0, a, -1, 0, 0, NULL, NULL, NULL};
    f->batch.n_row = 1;
    assert_int_equal(kv_pass_begin(f->kv, &f->batch, &v, NULL), 0);
    assert_int_equal(kv_view_read_bytes(&v, 1), read * KV_BLOCK);
    assert_ptr_equal(kv_block_at(&v, 3, KV_V, 2), kv_block_at(&v, 0, KV_V, 2));
}

/* Of 300 tokens those with a window keep the last 33 and KV_SLACK more; what lies before is refused by name. */
static void windows_are_freed(void **state)
{
    struct fixture *f = *state;
    int32_t a, b;
    struct kv_usage u;
    struct lutra_error err;
    struct kv_view v;
    assert_int_equal(kv_seq_open(f->kv, N_CTX, &a, NULL), 0);
    feed(f, a, 300);
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_block - u.n_free, 5);
    assert_int_equal(u.n_swa - u.n_swa_free, 2); /* positions 204 .. 299: blocks 3 and 4 */
    assert_int_equal(kv_seq_fork(f->kv, a, 200, N_CTX, &b, &err), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(err.what, "window of 33"));
    assert_int_equal(kv_seq_truncate(f->kv, a, 200, &err), LUTRA_E_ARGUMENT);
    assert_int_equal(kv_seq_length(f->kv, a), 300);
    assert_int_equal(kv_seq_fork(f->kv, a, 300 - KV_SLACK, N_CTX, &b, NULL), 0);
    assert_int_equal(kv_seq_truncate(f->kv, a, 0, NULL), 0);
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_swa - u.n_swa_free, 1); /* b's: 203 .. 235 */
    feed(f, a, 10);
    kv_seq_close(f->kv, b);
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_swa - u.n_swa_free, 1);
    /* Reading: 310 positions in whole blocks where all are seen, else the last block. */
    feed(f, a, 299);
    f->row[0] = (struct row){1, 309, a, -1, 0, 0, NULL, NULL, NULL};
    f->batch.n_row = 1;
    assert_int_equal(kv_pass_begin(f->kv, &f->batch, &v, NULL), 0);
    assert_int_equal(kv_view_read_bytes(&v, 1), sizeof(float) * 2 * KV_BLOCK * (5 * 2 * 2 * 8 + 2 * 3 * 16 + 4));
    kv_pass_end(f->kv, &f->batch, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_histories, setup, teardown),
        cmocka_unit_test_setup_teardown(random_histories, setup_by_block, teardown),
        cmocka_unit_test_setup_teardown(random_histories, setup_windows, teardown),
        cmocka_unit_test_setup_teardown(random_histories, setup_windows_by_block, teardown),
        cmocka_unit_test_setup_teardown(random_histories, setup_recurrent, teardown),
        cmocka_unit_test_setup_teardown(states_are_kept_where_they_serve, setup_recurrent, teardown),
        cmocka_unit_test_setup_teardown(states_are_promised, setup_recurrent, teardown),
        cmocka_unit_test_setup_teardown(windows_are_freed, setup_windows, teardown),
        cmocka_unit_test_setup_teardown(forks_cost_one_block, setup, teardown),
        cmocka_unit_test_setup_teardown(layers_take_their_own, setup, teardown),
        cmocka_unit_test_setup_teardown(promises_are_kept_or_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(closed_texts_stay_while_there_is_room, setup, teardown),
        cmocka_unit_test_setup_teardown(texts_branch, setup, teardown),
        cmocka_unit_test_setup_teardown(classes_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(sequences_grow_by_blocks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
