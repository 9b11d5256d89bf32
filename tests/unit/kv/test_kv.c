/* SPDX-License-Identifier: MIT
 *
 * The cache against a model of itself: every sequence as a plain list of tokens.  A "pass" writes each row's token
 * into its slot; after every step the whole visible context of every row and sequence must spell the right tokens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kv/kv.h"

enum { N_LAYER = 2, N_HEAD = 2, D_HEAD = 8, N_CTX = 400, N_BLOCK = 24, N_SEQ = 8, N_ROW = 96, N_DRAFT = 24 };

struct fixture {
    struct kv_cache *kv;
    struct buffer memory;
    int32_t token[N_SEQ][N_CTX]; /* the model */
    int32_t max_tok[N_SEQ];
    bool idle[N_SEQ];
    int n_closed; /* of the idle, for their room */
    struct row row[N_ROW];
    struct span span[N_ROW];
    struct batch batch;
    uint32_t seed;
    int32_t next_token;
};

static const struct kv_settings settings = {.type = QUANT_F32,
    .n_layer = N_LAYER,
    .n_kv_head = N_HEAD,
    .d_head = D_HEAD,
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

static bool close_idle(void *ctx)
{
    struct fixture *f = ctx;
    for (int32_t s = 0, first = (int32_t)below(f, N_SEQ); s < N_SEQ; s++) {
        int32_t i = (first + s) % N_SEQ;
        if (!f->idle[i]) continue;
        f->idle[i] = false;
        f->n_closed++;
        kv_seq_close(f->kv, i);
        return true;
    }
    return false;
}

static int open_fixture(void **state, bool by_block)
{
    struct kv_settings s = settings;
    struct fixture *f = calloc(1, sizeof *f);
    s.close_idle = close_idle;
    s.ctx = f;
    f->memory.bytes = kv_bytes(&settings);
    f->memory.host = aligned_alloc(64, (f->memory.bytes + 63) / 64 * 64);
    memset(f->memory.host, 0xff, f->memory.bytes);
    f->batch = (struct batch){.row = f->row, .span = f->span};
    f->seed = 1;
    *state = f;
    s.by_block = by_block;
    return kv_open(&f->kv, &s, &f->memory, NULL);
}

static int setup(void **state)
{
    return open_fixture(state, false);
}

static int setup_by_block(void **state)
{
    return open_fixture(state, true);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    kv_close(&f->kv);
    free(f->memory.host);
    free(f);
    return 0;
}

static float code(int32_t token, int layer, int side, int head)
{
    return (float)(token * 8 + layer * 4 + side * 2 + head);
}

static void write_rows(const struct kv_view *v, const struct batch *b)
{
    for (int layer = 0; layer < N_LAYER; layer++)
        for (int side = KV_K; side <= KV_V; side++)
            for (int head = 0; head < N_HEAD; head++)
                for (int r = 0; r < b->n_row; r++) {
                    float *x = (float *)(void *)kv_slot_at(v, layer, side, head, r);
                    for (int d = 0; d < D_HEAD; d++) x[d] = code(b->row[r].token, layer, side, head);
                }
}

static float read_pos(const struct kv_view *v, const struct kv_row *r, int pos, int layer, int side, int head)
{
    if (pos < r->n_paged) {
        int32_t block = v->table[r->table + pos / KV_BLOCK];
        const float *x = (const float *)(const void *)kv_block_at(v, layer, side, block);
        return x[(head * KV_BLOCK + pos % KV_BLOCK) * D_HEAD];
    }
    const float *x = (const float *)(const void *)kv_draft_at(v, layer, side, head);
    return x[v->path[r->path_first + pos - r->n_paged] * D_HEAD];
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
            int layer = pos % 2, side = pos / 2 % 2, head = pos / 4 % 2;
            assert_true(read_pos(v, kr, pos, layer, side, head) == code(token, layer, side, head));
        }
    }
}

/* Items: each block once, every row meets each of its whole segments once, in ascending position. */
static void check_items(struct fixture *f, const struct kv_view *v)
{
    int32_t next[N_ROW] = {0};
    char seen[N_BLOCK] = {0};
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

static int32_t length_of(const void *kv, int32_t seq)
{
    return kv_seq_length(kv, seq);
}

/* A pass of random rows over the open sequences. */
static void random_step(struct fixture *f)
{
    int n = 0, n_draft = 0;
    for (int32_t s = 0; s < N_SEQ; s++) {
        int len = kv_seq_length(f->kv, s);
        if (len < 0 || below(f, 4) == 0) continue;
        int want = below(f, 3) ? 1 : (int)below(f, 40), first = n;
        for (int i = 0; i < want && len + i < f->max_tok[s] && n < N_ROW - 16; i++, n++)
            f->row[n] = (struct row){f->next_token++, len + i, s, n == first ? -1 : n - 1, WANT_NOTHING, 0, NULL};
        int root = n - 1, drafts = below(f, 2) ? 0 : (int)below(f, 6);
        if (root < first) continue;
        for (int i = 0; i < drafts && n_draft < N_DRAFT && n < N_ROW; i++) {
            int parent = root + (int)below(f, (uint32_t)(n - root));
            if (f->row[parent].pos + 1 >= f->max_tok[s]) continue;
            f->row[n] = (struct row){f->next_token++, f->row[parent].pos + 1, s, parent, ROW_DRAFT, 0, NULL};
            n++, n_draft++;
        }
    }
    if (n == 0) return;
    struct kv_view v;
    f->batch.n_row = n;
    assert_int_equal(batch_check(&f->batch, 1 << 30, length_of, f->kv, NULL), 0);
    assert_int_equal(kv_step_begin(f->kv, &f->batch, &v, NULL), 0);
    write_rows(&v, &f->batch);
    check_view(f, &v);
    check_items(f, &v);
    bool ok = below(f, 5) != 0;
    kv_step_end(f->kv, &f->batch, ok);
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

static void random_histories(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 30000; i++) {
        int32_t s = (int32_t)below(f, N_SEQ), t;
        int len = kv_seq_length(f->kv, s);
        switch (below(f, 13)) {
        case 0: {
            int max_tok = 1 + (int)below(f, N_CTX);
            if (kv_seq_open(f->kv, max_tok, &t, NULL) == 0) f->max_tok[t] = max_tok;
            break;
        }
        case 1:
        case 2: {
            if (len < 0) break;
            int n = (int)below(f, (uint32_t)len + 1), max_tok = n + (int)below(f, (uint32_t)(N_CTX - n + 1));
            if (max_tok == 0 || kv_seq_fork(f->kv, s, n, max_tok, &t, NULL) < 0) break;
            f->max_tok[t] = max_tok;
            memcpy(f->token[t], f->token[s], sizeof f->token[t]);
            break;
        }
        case 3:
            if (f->idle[s] && below(f, 4)) break; /* they stay for long */
            kv_seq_close(f->kv, s);
            f->idle[s] = false;
            break;
        case 4:
            if (len < 200) break;
            kv_seq_idle(f->kv, s); /* it may still be forked, but not grow */
            f->idle[s] = true;
            f->max_tok[s] = len;
            break;
        case 5:
            if (len > 0 && f->idle[s])
                assert_int_equal(kv_seq_truncate(f->kv, s, len - 1, NULL), LUTRA_E_ARGUMENT);
            else if (len > 0)
                kv_seq_truncate(f->kv, s, (int)below(f, (uint32_t)len + 1), NULL);
            break;
        default: random_step(f);
        }
        struct kv_usage u;
        kv_usage(f->kv, &u);
        assert_in_range(u.n_promised, 0, u.n_free + u.n_idle);
    }
    assert_true(f->n_closed > 30);
    for (int32_t s = 0; s < N_SEQ; s++) kv_seq_close(f->kv, s);
    struct kv_usage u;
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_free, N_BLOCK);
    assert_int_equal(u.n_idle, 0);
    assert_int_equal(u.n_promised, 0);
    assert_true(u.copied_blocks > 100);
}

/* Evaluates n rows in a chain. */
static void feed(struct fixture *f, int32_t seq, int n)
{
    while (n > 0) {
        struct kv_view v;
        int len = kv_seq_length(f->kv, seq), k = n < 64 ? n : 64;
        for (int i = 0; i < k; i++) f->row[i] = (struct row){7, len + i, seq, i - 1, 0, 0, NULL};
        f->batch.n_row = k;
        assert_int_equal(kv_step_begin(f->kv, &f->batch, &v, NULL), 0);
        kv_step_end(f->kv, &f->batch, true);
        n -= k;
    }
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
    f->row[0] = (struct row){1, 3 * KV_BLOCK, b, -1, 0, 0, NULL};
    f->batch.n_row = 1;
    struct kv_view v;
    assert_int_equal(kv_step_begin(f->kv, &f->batch, &v, &err), LUTRA_E_CTX_FULL);
}

/* Idle sequences cost nobody anything: all they hold can be promised again, and goes when it is written, not before. */
static void the_idle_make_room(void **state)
{
    struct fixture *f = *state;
    int32_t old[3], a;
    struct kv_usage u;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kv_seq_open(f->kv, N_CTX, &old[i], NULL), 0);
        feed(f, old[i], N_CTX);
        kv_seq_idle(f->kv, old[i]);
        f->idle[old[i]] = true;
    }
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_free + u.n_idle, N_BLOCK);
    for (int i = 0; i < 3; i++) assert_int_equal(kv_seq_open(f->kv, N_CTX, &a, NULL), 0);
    assert_int_equal(f->n_closed, 0);
    assert_int_equal(kv_seq_fork(f->kv, old[0], -1, N_CTX, &a, NULL), LUTRA_E_CTX_FULL); /* 7 of them come into use */
    for (int32_t s = 3; s < 6; s++) {
        feed(f, s, N_CTX);
        assert_in_range(f->n_closed, s - 3, s - 2);
    }
    kv_usage(f->kv, &u);
    assert_int_equal(u.n_promised, 0);
}

static void q8_0_takes_34_bytes_where_f16_takes_64(void **state)
{
    (void)state;
    struct kv_settings s = settings;
    s.d_head = 64;
    s.type = QUANT_F16;
    size_t half = kv_bytes(&s);
    s.type = QUANT_Q8_0;
    assert_int_equal(kv_bytes(&s) * 64, half * 34);
    s.d_head = 40;
    assert_int_equal(kv_bytes(&s), 0);
    s.type = QUANT_Q4_0;
    s.d_head = 64;
    assert_int_equal(kv_bytes(&s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_histories, setup, teardown),
        cmocka_unit_test_setup_teardown(random_histories, setup_by_block, teardown),
        cmocka_unit_test_setup_teardown(forks_cost_one_block, setup, teardown),
        cmocka_unit_test(q8_0_takes_34_bytes_where_f16_takes_64),
        cmocka_unit_test_setup_teardown(promises_are_kept_or_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(the_idle_make_room, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
