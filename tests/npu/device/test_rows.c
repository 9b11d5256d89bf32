/* SPDX-License-Identifier: MIT
 *
 * Rows on the emulated NPU: drafts give the bits of committed rows, a row does not know its neighbours, every kind of
 * result agrees, forks and commits reach the NPU, refused types run on the CPU, and a lost NPU's answer goes on.
 */
#include "device_fixture.h"

static void open_on(struct fixture *f, const char *path, const char *device)
{
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    memset(f, 0, sizeof *f);
    rs.device = device;
    rs.n_threads = 2;
    ss.n_seq = 8;
    ss.n_ctx = 256;
    ss.n_batch = 64;
    OK(lutra_runtime_open(&f->rt, &rs, err));
    OK(lutra_model_open(&f->model, f->rt, path, NULL, err));
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

/* One token after the other; in chunks; as drafts behind a committed part; and committed from drafts: the same bits. */
static void drafts_have_the_bits_of_committed_rows(void **state)
{
    (void)state;
    enum { N = 70, START = 60 };
    struct fixture f;
    float one[N_VOCAB], next[N_VOCAB];
    int32_t a, b, c;
    open_on(&f, MODEL, "npu-sim");
    OK(lutra_seq_open(f.s, 0, &a, err));
    for (int i = 0; i < N; i++) memcpy(one, feed(f.s, a, i, 1, 0), sizeof one);
    memcpy(next, feed(f.s, a, N, 1, 0), sizeof next);
    OK(lutra_seq_open(f.s, 0, &b, err));
    feed(f.s, b, 0, START, 0);
    OK(lutra_seq_fork(f.s, b, -1, 0, &c, err));
    assert_memory_equal(feed(f.s, b, START, N - START, 0), one, sizeof one);
    assert_memory_equal(feed(f.s, c, START, N - START, LUTRA_ROW_DRAFT), one, sizeof one);
    OK(lutra_commit(f.s, N - START - 1, err));
    assert_int_equal(lutra_seq_length(f.s, c), N);
    assert_memory_equal(feed(f.s, c, N, 1, 0), next, sizeof next);
    shut(&f);
}

/* Two branches below one committed row see their own ancestors only. */
static void branches_of_a_tree(void **state)
{
    (void)state;
    struct fixture f;
    float want[N_VOCAB];
    int32_t a, b;
    open_on(&f, MODEL, "npu-sim");
    OK(lutra_seq_open(f.s, 0, &a, err));
    feed(f.s, a, 0, 10, 0);
    OK(lutra_seq_fork(f.s, a, -1, 0, &b, err));
    struct lutra_row line[] = {{500, 10, a, -1, 0, 0}, {501, 11, a, 0, LUTRA_WANT_LOGITS, 0}};
    OK(lutra_forward(f.s, line, 2, sizeof *line, err));
    memcpy(want, lutra_forward_result(f.s, 0)->logits, sizeof want);
    struct lutra_row tree[] = {{400, 10, b, -1, LUTRA_ROW_DRAFT, 0}, {500, 10, b, -1, LUTRA_ROW_DRAFT, 0},
        {401, 11, b, 0, LUTRA_ROW_DRAFT | LUTRA_WANT_LOGITS, 0},
        {501, 11, b, 1, LUTRA_ROW_DRAFT | LUTRA_WANT_LOGITS, 0}};
    OK(lutra_forward(f.s, tree, 4, sizeof *tree, err));
    assert_memory_not_equal(lutra_forward_result(f.s, 0)->logits, want, sizeof want);
    assert_memory_equal(lutra_forward_result(f.s, 1)->logits, want, sizeof want);
    shut(&f);
}

static void results_of_every_kind_agree(void **state)
{
    (void)state;
    struct fixture cpu, npu;
    int32_t a, b;
    open_on(&cpu, MODEL, "cpu");
    open_on(&npu, MODEL, "npu-sim");
    OK(lutra_seq_open(cpu.s, 0, &a, err));
    OK(lutra_seq_open(npu.s, 0, &b, err));
    uint32_t all = LUTRA_WANT_LOGITS | LUTRA_WANT_HIDDEN | LUTRA_WANT_TOPK | LUTRA_WANT_LOGPROB;
    struct lutra_row row[3] = {{5, 0, a, -1, all, 7}, {6, 1, a, 0, 0, 0}, {7, 2, a, 1, LUTRA_WANT_TOPK, 0}};
    OK(lutra_forward(cpu.s, row, 3, sizeof *row, err));
    for (int i = 0; i < 3; i++) row[i].seq = b;
    OK(lutra_forward(npu.s, row, 3, sizeof *row, err));
    const struct lutra_row_result *x = lutra_forward_result(cpu.s, 0), *y = lutra_forward_result(npu.s, 0);
    for (int i = 0; i < N_VOCAB; i++) assert_true(fabsf(x->logits[i] - y->logits[i]) < 0.1f);
    for (int i = 0; i < 128; i++) assert_true(fabsf(x->hidden[i] - y->hidden[i]) < 0.1f);
    assert_true(fabsf(x->log_sum_exp - y->log_sum_exp) < 0.05f);
    assert_true(y->target_logit == y->logits[7]);
    assert_int_equal(y->n_top, 64);
    for (int i = 0; i < y->n_top; i++) assert_true(y->top_logit[i] == y->logits[y->top_id[i]]);
    x = lutra_forward_result(cpu.s, 1), y = lutra_forward_result(npu.s, 1);
    assert_null(y->logits);
    assert_int_equal(x->top_id[0], y->top_id[0]);
    shut(&cpu);
    shut(&npu);
}

/* The NPU's attention reads halves: another cache is refused when the session opens, not in a pass. */
static void another_cache_type_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    lutra_session *other = NULL;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    struct lutra_error error = {0};
    open_on(&f, MODEL, "npu-sim");
    ss.cache_type = "q8_0";
    assert_int_equal(lutra_session_open(&other, f.model, &ss, &error), LUTRA_E_UNSUPPORTED);
    assert_null(other);
    assert_non_null(strstr(error.what, "npu-sim"));
    shut(&f);
}

/* Q5_0 has no layout: products run on the CPU, everything else on the NPU, and the log says so. */
static void what_the_npu_lacks_runs_on_the_cpu(void **state)
{
    (void)state;
    struct lines log = {""};
    struct fixture f;
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    char path[64];
    int32_t a, b;
    float want[N_VOCAB];
    memset(&f, 0, sizeof f);
    rs.device = "npu-sim";
    rs.log = keep_line, rs.log_user = &log;
    snprintf(path, sizeof path, "/tmp/lutra-npu-q5-%d.gguf", (int)getpid());
    quantize(path, MODEL, "Q5_0");
    OK(lutra_runtime_open(&f.rt, &rs, err));
    OK(lutra_model_open(&f.model, f.rt, path, NULL, err));
    assert_non_null(strstr(log.text, "because of npu: no weight layout for Q5_0"));
    assert_non_null(strstr(log.text, "4 attention"));
    fixture_session(&f, 2, 128);
    OK(lutra_seq_open(f.s, 0, &a, err));
    for (int i = 0; i < 5; i++) memcpy(want, feed(f.s, a, i, 1, 0), sizeof want);
    shut(&f);
    open_on(&f, path, "cpu");
    OK(lutra_seq_open(f.s, 0, &b, err));
    const float *got = feed(f.s, b, 0, 5, 0);
    for (int i = 0; i < N_VOCAB; i++) assert_true(fabsf(got[i] - want[i]) < 0.2f);
    shut(&f);
    remove(path);
}

/* A copy of the model whose layer 1 makes one input of ffn_down 4^shift times as large. */
static void write_massive(const char *path, int shift)
{
    static const char *const names[] = {"blk.1.ffn_gate.weight", "blk.1.ffn_up.weight"};
    struct weights *w;
    FILE *f = fopen(MODEL, "rb"), *out = fopen(path, "wb");
    OK(weights_open(&w, MODEL, err));
    size_t n = weights_file_bytes(w);
    uint8_t *all = malloc(n);
    assert_true(f && out && fread(all, 1, n, f) == n);
    for (int t = 0; t < 2; t++) {
        const struct tensor *source = weights_tensor_find(w, names[t]);
        uint8_t *at = memmem(all, n, source->data, source->bytes);
        for (int64_t i = 0; i < source->ne[0]; i++) { /* row 5: halves times 2^shift */
            uint16_t h;
            memcpy(&h, at + 2 * (5 * source->ne[0] + i), 2);
            if (h & 0x7c00) h = (uint16_t)(h + (shift << 10));
            memcpy(at + 2 * (5 * source->ne[0] + i), &h, 2);
        }
    }
    assert_int_equal(fwrite(all, 1, n, out), n);
    fclose(f), fclose(out), free(all);
    weights_close(&w);
}

/* What a half cannot hold at the input of ffn_down becomes no infinity: the CPU's logits, at one row and at many. */
static void massive_activations_stay_finite(void **state)
{
    (void)state;
    struct fixture cpu, npu;
    char path[64];
    int32_t a, b;
    snprintf(path, sizeof path, "/tmp/lutra-npu-massive-%d.gguf", (int)getpid());
    write_massive(path, 13);
    open_on(&cpu, path, "cpu");
    open_on(&npu, path, "npu-sim");
    OK(lutra_seq_open(cpu.s, 0, &a, err));
    OK(lutra_seq_open(npu.s, 0, &b, err));
    for (int i = 0; i < 4; i++) {
        const float *x = feed(cpu.s, a, i ? 20 * i - 19 : 0, i ? 20 : 1, 0),
                    *y = feed(npu.s, b, i ? 20 * i - 19 : 0, i ? 20 : 1, 0);
        for (int j = 0; j < N_VOCAB; j++) assert_true(fabsf(x[j] - y[j]) < 0.3f);
    }
    shut(&cpu);
    shut(&npu);
    remove(path);
}

/* The NPU goes away after six tokens: the pass is done again on the CPU and the answer goes on. */
static void a_lost_npu_is_followed_by_the_cpu(void **state)
{
    (void)state;
    struct fixture f, cpu;
    int32_t a, b;
    open_on(&f, MODEL, "npu-sim");
    open_on(&cpu, MODEL, "cpu");
    OK(lutra_seq_open(f.s, 0, &a, err));
    OK(lutra_seq_open(cpu.s, 0, &b, err));
    for (int i = 0; i < 6; i++) feed(f.s, a, i, 1, 0);
    npu_of(&f)->window[0].link->lost = true;
    feed(f.s, a, 6, 10, LUTRA_ROW_DRAFT);
    OK(lutra_commit(f.s, 4, err));
    const float *x = feed(f.s, a, 11, 3, 0), *y = feed(cpu.s, b, 0, 14, 0);
    for (int i = 0; i < N_VOCAB; i++) assert_true(fabsf(x[i] - y[i]) < 0.1f);
    assert_ptr_equal(runtime_first(f.rt), f.rt->devices.cpu);
    lutra_session *second; /* and others can still be opened */
    OK(lutra_session_open(&second, f.model, NULL, err));
    lutra_session_close(&second);
    shut(&f);
    shut(&cpu);
}

/* n rows of each of two sequences, the first in whole blocks of a prompt, the second not; one behind the other, or in
 * turns.  Their last logits, in that order. */
static int run_two(struct fixture *f, int n, bool in_turns, float out[2][N_VOCAB], struct lutra_error *why)
{
    static struct lutra_row row[320];
    int32_t seq[2], last[2] = {-1, -1};
    for (int i = 0; i < 2; i++) OK(lutra_seq_open(f->s, 0, &seq[i], err));
    for (int r = 0; r < 2 * n; r++) {
        const int which = in_turns ? r % 2 : r >= n, pos = in_turns ? r / 2 : r % n;
        const uint32_t want = (which ? 0 : LUTRA_ROW_BULK) | (pos == n - 1 ? LUTRA_WANT_LOGITS : 0);
        row[r] = (struct lutra_row){id_at(pos + which), pos, seq[which], last[which], want, 0};
        last[which] = r;
    }
    const int rc = lutra_forward(f->s, row, 2 * n, sizeof *row, why);
    for (int i = 0; rc == 0 && i < 2; i++) memcpy(out[i], lutra_forward_result(f->s, i)->logits, sizeof out[i]);
    for (int i = 0; i < 2; i++) lutra_seq_close(f->s, seq[i]);
    return rc;
}

/* Where the NPU and the CPU both have parts of both classes.  Turns that the NPU does not keep apart are refused by
 * name, and the session goes on. */
static void classes_of_rows_take_turns(void **state)
{
    static float apart[2][N_VOCAB], mixed[2][N_VOCAB];
    struct lutra_runtime_settings rs;
    struct lutra_session_settings ss;
    struct lutra_error why;
    struct fixture f = {0};
    (void)state;
    lutra_runtime_settings_init(&rs, sizeof rs);
    lutra_session_settings_init(&ss, sizeof ss);
    rs.device = "npu-sim,cpu", rs.split = "1,1/1,2", rs.n_threads = 1;
    ss.n_seq = 2, ss.n_ctx = 160, ss.n_batch = 320;
    OK(lutra_runtime_open(&f.rt, &rs, err));
    OK(lutra_model_open(&f.model, f.rt, MODEL, NULL, err));
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    OK(run_two(&f, 48, false, apart, err));
    OK(run_two(&f, 48, true, mixed, err));
    assert_memory_equal(apart, mixed, sizeof apart);
    assert_int_equal(run_two(&f, 160, true, mixed, &why), LUTRA_E_UNSUPPORTED);
    assert_string_equal(why.what, "npu-sim: rows of two classes take turns too often");
    OK(run_two(&f, 48, true, mixed, err));
    assert_memory_equal(apart, mixed, sizeof apart);
    shut(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_have_the_bits_of_committed_rows),
        cmocka_unit_test(branches_of_a_tree),
        cmocka_unit_test(results_of_every_kind_agree),
        cmocka_unit_test(another_cache_type_is_refused),
        cmocka_unit_test(what_the_npu_lacks_runs_on_the_cpu),
        cmocka_unit_test(massive_activations_stay_finite),
        cmocka_unit_test(a_lost_npu_is_followed_by_the_cpu),
        cmocka_unit_test(classes_of_rows_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
