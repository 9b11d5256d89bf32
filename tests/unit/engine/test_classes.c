/* SPDX-License-Identifier: MIT
 *
 * Operations cut by class of rows: whole blocks of a prompt on one device, all other rows on another, in one pass.
 * Every row has the bits that it has where its device computes all rows.
 */
#include "engine/session_impl.h"
#include "engine_fixture.h"

enum { N_BULK = 128, N_PROMPT = 150, N_VOCAB_MOST = 4096 };

/* Attention is on the first device, and so is the cache. */
static void open_one(struct fixture *f, const char *device, const char *split, const char *type)
{
    fixture_open_split(f, &(struct where){.device = device}, split, "tiny-qwen2", type, 1);
    fixture_session(f, 1, 256);
}

static int rows_of(struct lutra_row *row, int32_t seq, int from, int to)
{
    for (int i = from; i < to; i++)
        row[i - from] = (struct lutra_row){.token = token_at(i),
            .pos = i,
            .seq = seq,
            .parent = i == from ? -1 : i - from - 1,
            .want = LUTRA_ROW_BULK};
    return to - from;
}

static int32_t feed_blocks(struct fixture *f)
{
    struct lutra_row row[N_BULK];
    int32_t seq;
    OK(lutra_seq_open(f->s, 256, &seq, err));
    OK(lutra_forward(f->s, row, rows_of(row, seq, 0, N_BULK), sizeof *row, err));
    return seq;
}

/* The rest of the prompt, and its logits. */
static void feed_tail(struct fixture *f, int32_t seq, int from, float *logits)
{
    struct lutra_row row[N_PROMPT];
    const int n = rows_of(row, seq, from, N_PROMPT);
    row[n - 1].want |= LUTRA_WANT_LOGITS;
    OK(lutra_forward(f->s, row, n, sizeof *row, err));
    memcpy(logits, lutra_forward_result(f->s, 0)->logits, (size_t)model_ops(f->model->model)->n_vocab * sizeof *logits);
}

static int n_of_class(const struct plan *plan, enum share_rows rows)
{
    int n = 0;
    for (int p = 0; p < plan->n_piece; p++) n += plan->piece[p].share.rows == rows;
    return n;
}

static void open_by_class(struct fixture *f, const char *device, const char *split, const char *type)
{
    print_message("%s -ts %s %s\n", device, split, type);
    open_one(f, device, split, type);
    const struct plan *plan = &f->model->plan;
    assert_true(plan->by_class && f->s->batch.bulk == PLAN_BULK_ROWS);
    const int n = n_of_class(plan, SHARE_BULK), n_layer = model_ops(f->model->model)->n_layer;
    assert_true(n == n_of_class(plan, SHARE_ORDINARY) ? n == n_layer : n > n_layer);
}

/* Whole blocks leave the cache that they leave with `other`, which says the same of all rows. */
static void check_blocks(const char *device, const char *by_class, const char *other, const char *type)
{
    struct fixture both, one;
    open_by_class(&both, device, by_class, type);
    open_one(&one, device, other, type);
    assert_int_equal(one.s->kv_memory.bytes, both.s->kv_memory.bytes);
    feed_blocks(&both), feed_blocks(&one);
    assert_memory_equal(one.s->kv_memory.host, both.s->kv_memory.host, one.s->kv_memory.bytes);
    fixture_close(&one);
    fixture_close(&both);
}

/* The tail over the same past is as with `first`, which says the same of all rows; and both classes in one pass give
 * what each gives in a pass of its own. */
static void check_tail(const char *device, const char *by_class, const char *first, const char *type)
{
    static float tail[N_VOCAB_MOST], want[N_VOCAB_MOST], whole[N_VOCAB_MOST];
    struct fixture both, one;
    open_by_class(&both, device, by_class, type);
    open_one(&one, device, first, type);
    int32_t seq = feed_blocks(&both), of_one = feed_blocks(&one);
    const size_t bytes = both.s->kv_memory.bytes;
    assert_int_equal(one.s->kv_memory.bytes, bytes);
    assert_true(memcmp(one.s->kv_memory.host, both.s->kv_memory.host, bytes) != 0);
    memcpy(one.s->kv_memory.host, both.s->kv_memory.host, bytes);
    feed_tail(&both, seq, N_BULK, tail);
    feed_tail(&one, of_one, N_BULK, want);
    assert_memory_equal(tail, want, sizeof tail);
    assert_memory_equal(one.s->kv_memory.host, both.s->kv_memory.host, bytes);
    fixture_close(&one);

    lutra_seq_close(both.s, seq);
    OK(lutra_seq_open(both.s, 256, &seq, err));
    feed_tail(&both, seq, 0, whole);
    assert_memory_equal(tail, whole, sizeof tail);
    fixture_close(&both);
}

/* All that one device has of the rows of a class, norms and sums, too, is in pieces from attention to attention. */
static void each_row_has_the_bits_of_its_device(void **state)
{
    (void)state;
    check_blocks("npu-sim,cpu", "1,0/0,1", "1,0/1,0", "Q4_0");
    check_blocks("npu-sim:lookup,cpu", "1,0/0,1", "1,0/1,0", "Q4_0");
    check_tail("cpu,npu-sim", "0,1/1,0", "1,0/1,0", "Q4_0");
    check_tail("cpu,npu-sim:lookup", "0,1/1,0", "1,0/1,0", "Q4_0");
    check_blocks("cpu,npu-sim", "1,2/1,0", "1,2/1,2", "Q4_K"); /* hybrid */
    check_tail("cpu,npu-sim", "1,2/1,0", "1,0/1,0", "Q4_K");
    check_blocks("cpu,npu-sim", "0,1/1,1", "0,1/0,1", "Q8_0");
    check_tail("cpu,npu-sim", "0,1/1,1", "1,1/1,1", "Q8_0");
}

static void clusters_have_the_bits_of_one(void **state)
{
    static const char *const splits[] = {"0,1/1,0", "1,1/1,0", "1,3/2,1"};
    static float one[N_VOCAB_MOST], two[N_VOCAB_MOST];
    struct fixture f;
    int cpu[2];
    (void)state;
    if (cpu_allowed(cpu, 2) < 2 || cpu[0] != 0 || cpu[1] != 1) skip();
    open_one(&f, "cpu", NULL, "Q4_0");
    feed_tail(&f, feed_blocks(&f), N_BULK, one);
    fixture_close(&f);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        int32_t seq;
        open_one(&f, "cpu:0,cpu:1", splits[i], "Q4_0");
        assert_true(n_of_class(&f.model->plan, SHARE_BULK) > 1);
        OK(lutra_seq_open(f.s, 256, &seq, err));
        feed_tail(&f, seq, 0, two);
        assert_memory_equal(one, two, sizeof one);
        fixture_close(&f);
    }
}

/* --plan class: whichever stands first, the NPU has the bulk rows. */
static void a_plan_has_the_name(void **state)
{
    static const char *const devices[] = {"cpu,npu-sim", "npu-sim,cpu"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        struct lutra_model_settings ms;
        fixture_make(&f, &(struct where){.device = devices[i]}, "tiny-qwen2", "Q4_0", 0, 1);
        lutra_model_settings_init(&ms, sizeof ms);
        ms.plan = "class";
        OK(lutra_model_open(&f.model, f.rt, f.path, &ms, err));
        const struct plan *plan = &f.model->plan;
        for (int p = 0; p < plan->n_piece; p++) {
            if (plan->piece[p].share.rows == SHARE_ALL_ROWS) continue;
            const bool npu = strcmp(plan->device[plan->piece[p].device]->name, "npu-sim") == 0;
            assert_int_equal(npu, plan->piece[p].share.rows == SHARE_BULK);
        }
        assert_true(plan->by_class && f.model->plan_many.by_class);
        fixture_close(&f);
    }
}

static void bad_splits_are_named(void **state)
{
    static const char *const bad[] = {"1,0/0,0", "1/1,1", "0,0/1,1", "1,1/1,1/1,1", "1,-1/1,1", "1,1/", "/1,1"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lutra_runtime_settings rs;
        struct lutra_error err = {0};
        lutra_runtime *rt = NULL;
        lutra_runtime_settings_init(&rs, sizeof rs);
        rs.device = "cpu,npu-sim", rs.split = bad[i];
        assert_int_equal(lutra_runtime_open(&rt, &rs, &err), LUTRA_E_ARGUMENT);
        assert_non_null(strstr(err.what, "split '"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_row_has_the_bits_of_its_device),
        cmocka_unit_test(clusters_have_the_bits_of_one), cmocka_unit_test(a_plan_has_the_name),
        cmocka_unit_test(bad_splits_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
