/* SPDX-License-Identifier: MIT
 *
 * Products cut by class of rows: whole blocks of a prompt on one device, all other rows on another, in one pass.  Every
 * row has the bits that it has where its device computes the products of all rows.
 */
#include "engine/session_impl.h"
#include "engine_fixture.h"

enum { N_BULK = 128, N_PROMPT = 150, N_VOCAB_MOST = 4096 };

/* Everything but the products is on the first device, and so is the cache. */
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

/* by_class: bulk rows as with `other` all rows, the rest as with `first`. */
static void check(const char *device, const char *by_class, const char *first, const char *other, const char *type)
{
    static float tail[N_VOCAB_MOST], want[N_VOCAB_MOST], whole[N_VOCAB_MOST];
    struct fixture both, one;
    print_message("%s %s\n", device, type);
    open_one(&both, device, by_class, type);
    assert_true(both.model->plan.by_class && both.s->batch.bulk == PLAN_BULK_ROWS);
    assert_true(n_of_class(&both.model->plan, SHARE_BULK) > 4 && n_of_class(&both.model->plan, SHARE_ORDINARY) > 4);
    int32_t seq = feed_blocks(&both), of_one;
    const size_t bytes = both.s->kv_memory.bytes;

    open_one(&one, device, other, type); /* whole blocks: the other device's */
    assert_int_equal(one.s->kv_memory.bytes, bytes);
    feed_blocks(&one);
    assert_memory_equal(one.s->kv_memory.host, both.s->kv_memory.host, bytes);
    fixture_close(&one);

    open_one(&one, device, first, type); /* the tail over the same past: the first's */
    of_one = feed_blocks(&one);
    assert_true(memcmp(one.s->kv_memory.host, both.s->kv_memory.host, bytes) != 0);
    memcpy(one.s->kv_memory.host, both.s->kv_memory.host, bytes);
    feed_tail(&both, seq, N_BULK, tail);
    feed_tail(&one, of_one, N_BULK, want);
    assert_memory_equal(tail, want, sizeof tail);
    assert_memory_equal(one.s->kv_memory.host, both.s->kv_memory.host, bytes);
    fixture_close(&one);

    lutra_seq_close(both.s, seq); /* both classes in one pass */
    OK(lutra_seq_open(both.s, 256, &seq, err));
    feed_tail(&both, seq, 0, whole);
    assert_memory_equal(tail, whole, sizeof tail);
    fixture_close(&both);
}

static void each_row_has_the_bits_of_its_device(void **state)
{
    (void)state;
    check("cpu,npu-sim", "0,1/1,0", "1,0/1,0", "0,1/0,1", "Q4_0");
    check("cpu,npu-sim:lookup", "0,1/1,0", "1,0/1,0", "0,1/0,1", "Q4_0");
    check("cpu,npu-sim", "1,2/1,0", "1,0/1,0", "1,2/1,2", "Q4_K"); /* hybrid */
    check("cpu,npu-sim", "0,1/1,1", "1,1/1,1", "0,1/0,1", "Q8_0");
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
        assert_true(n_of_class(&f.model->plan, SHARE_BULK) > 4);
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
