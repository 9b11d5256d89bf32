/* SPDX-License-Identifier: MIT
 *
 * Memory: decoding takes none, and running out of it anywhere before is a status.
 */
#include "../unit/engine/engine_fixture.h"
#include "../unit/engine/guess_source.h"
#include "alloc_count.h"

static int count_text(void *user, const struct lutra_piece *p)
{
    (void)p;
    ++*(int *)user;
    return 0;
}

/* 16 sequences, every sampler stage at work, stop strings watched, blocks allocated and tails copied on the way; with
 * trees of drafts, too. */
static void no_allocation_while_decoding(void **state)
{
    struct guesser *drafts = *state;
    struct fixture f;
    int32_t prompt[90];
    int n_text = 0, active = 16;
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    fixture_session(&f, 16, 256);
    if (drafts) guess_begin(drafts, f.s);
    for (int i = 0; i < 90; i++) prompt[i] = token_at(i);
    const char *const stop[] = {"\x01never\x02"};
    struct lutra_logit_bias bias = {3, 0.5f};
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = 90;
    r.n_samples = 16;
    r.max_tokens = 120;
    r.ignore_end = true;
    struct lutra_sampling sampling;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.repeat_penalty = 1.1f;
    sampling.frequency_penalty = 0.1f;
    sampling.bias = &bias;
    sampling.n_bias = 1;
    r.sampling = &sampling;
    r.stop = stop;
    r.n_stop = 1;
    r.on_text = count_text;
    r.user = &n_text;
    OK(lutra_submit(f.s, &r, NULL, err));
    OK(lutra_step(f.s, &active, err)); /* the prompt */
    alloc_count_begin();
    for (int i = 0; i < 110; i++) OK(lutra_step(f.s, &active, err));
    struct alloc_count count = alloc_count_end();
    assert_int_equal(active, 16);
    assert_in_range(n_text, 16 * 111, drafts ? 16 * 115 : 16 * 111); /* a random guess may be right */
    if (drafts) assert_true(drafts->n_tree > 200);
    assert_int_equal(count.n_alloc, 0);
    assert_int_equal(count.n_map, 0);
    while (active) OK(lutra_step(f.s, &active, err));
    fixture_close(&f);
}

/* Every architecture, beyond the windows of those that have some; what they cannot see kept or freed. */
static void no_allocation_in_any_shape(void **state)
{
    const char *shape;
    int32_t prompt[90];
    for (int i = 0; i < 90; i++) prompt[i] = token_at(i);
    for (int i = 0; (shape = lutra_make_model_shape(i)); i++) {
        if (SANITIZED && i % 4 != 0) continue; /* what is counted is the same there, and takes five times as long */
        if (!is_tiny_generator(shape)) continue;
        struct fixture f;
        struct lutra_session_settings ss;
        struct lutra_request r;
        int active = 0;
        fixture_open(&f, shape, "F16", 2);
        lutra_session_settings_init(&ss, sizeof ss);
        ss.n_seq = 3;
        ss.n_ctx = 256;
        ss.swa_trim = *state != NULL;
        OK(lutra_session_open(&f.s, f.model, &ss, err));
        lutra_request_init(&r, sizeof r);
        r.prompt = prompt;
        r.n_prompt = 90;
        r.n_samples = 3;
        r.max_tokens = 60;
        r.ignore_end = true;
        OK(lutra_submit(f.s, &r, NULL, err));
        OK(lutra_step(f.s, &active, err)); /* the prompt */
        alloc_count_begin();
        for (int k = 0; k < 55; k++) OK(lutra_step(f.s, &active, err));
        struct alloc_count count = alloc_count_end();
        assert_int_equal(active, 3);
        if (count.n_alloc || count.n_map) fail_msg("%s: %ld allocations, %ld maps", shape, count.n_alloc, count.n_map);
        fixture_close(&f);
    }
}

static bool have_two(void)
{
    int cpu[4] = {0};
    return cpu_allowed(cpu, 4) >= 2 && cpu[0] == 0 && cpu[1] == 1;
}

/* Where devices share passes, by outputs and by class of rows: from the second pass on, with whole blocks of the prompt
 * and then decoding. */
static void no_allocation_where_devices_share(void **state)
{
    static const struct {
        const char *device, *split;
    } lists[] = {{"cpu:0,cpu:1", NULL}, {"cpu:0,cpu:1", "1,2/2,1"}, {"npu-sim,cpu", "1,1"}, {"cpu,npu-sim", "1,2/1,0"}};
    int32_t prompt[150];
    (void)state;
    for (int i = 0; i < 150; i++) prompt[i] = token_at(i);
    for (size_t i = have_two() ? 0 : 2; i < sizeof lists / sizeof *lists; i++) {
        struct fixture f;
        struct lutra_session_settings ss;
        struct lutra_request r;
        int active = 0;
        fixture_open_split(&f, &(struct where){lists[i].device, NULL}, lists[i].split, "tiny-qwen2", "Q4_0", 1);
        lutra_session_settings_init(&ss, sizeof ss);
        ss.n_seq = 2, ss.n_ctx = 256, ss.n_batch = 64;
        OK(lutra_session_open(&f.s, f.model, &ss, err));
        lutra_request_init(&r, sizeof r);
        r.prompt = prompt, r.n_prompt = 150, r.max_tokens = 14, r.ignore_end = true;
        for (int k = 0; k < 2; k++) OK(lutra_submit(f.s, &r, NULL, err));
        OK(lutra_step(f.s, &active, err));
        alloc_count_begin();
        for (int k = 0; k < 14; k++) OK(lutra_step(f.s, &active, err));
        const struct alloc_count count = alloc_count_end();
        struct lutra_stats s;
        lutra_session_stats_get(f.s, &s, sizeof s);
        assert_true(active == 2 && s.n_pass == 15);
        if (count.n_alloc || count.n_map)
            fail_msg("%s: %ld allocations, %ld maps", lists[i].device, count.n_alloc, count.n_map);
        fixture_close(&f);
    }
}

/* Texts of two tokens at random: drafters have much to propose, often wrong.  From the prompt on, hints of it
 * included. */
static void no_allocation_while_speculating(void **state)
{
    const char *spec = *state;
    struct fixture f;
    int32_t prompt[90];
    int n_text = 0, active = 4;
    struct lutra_session_settings ss;
    struct virtual_time stopped = {0}; /* no pass is measured: what is drafted does not depend on the machine */
    fixture_open(&f, "tiny-qwen2", "Q4_0", 2);
    f.rt->clock = clock_virtual(&stopped);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 4;
    ss.n_ctx = 256;
    ss.spec_type = spec;
    if (strstr(spec, "draft")) ss.draft_model = f.model;
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    for (int i = 0; i < 90; i++) prompt[i] = token_at(i);
    struct lutra_logit_bias bias[] = {{30, 1000}, {31, 1000}};
    struct lutra_sampling sampling;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.bias = bias;
    sampling.n_bias = 2;
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.sampling = &sampling;
    r.prompt = prompt;
    r.n_prompt = 90;
    r.n_samples = 4;
    r.ignore_end = true;
    r.on_text = count_text;
    r.user = &n_text;
    OK(lutra_submit(f.s, &r, NULL, err));
    alloc_count_begin();
    while (active == 4) OK(lutra_step(f.s, &active, err));
    struct alloc_count count = alloc_count_end();
    struct lutra_stats s;
    lutra_session_stats_get(f.s, &s, sizeof s);
    print_message("%s: %llu drafted, %llu accepted, %d tokens in %llu passes\n", spec,
        (unsigned long long)s.rows_drafted, (unsigned long long)s.rows_accepted, n_text, (unsigned long long)s.n_pass);
    assert_true(s.rows_accepted > 50 && (ss.draft_model || s.rows_drafted > s.rows_accepted + 50));
    assert_int_equal(count.n_alloc, 0);
    assert_int_equal(count.n_map, 0);
    fixture_close(&f);
}

/* Everything from the file to the first pass, as one call that may run out of memory at any point. */
static int open_all(void *path)
{
    lutra_runtime *rt = NULL;
    lutra_model *model = NULL;
    lutra_session *s = NULL;
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = 1;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    ss.spec_type = "auto";
    int32_t prompt[] = {1, 2, 3};
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = 3;
    r.max_tokens = 2;
    int rc = lutra_runtime_open(&rt, &rs, NULL);
    if (rc == 0) rc = lutra_model_open(&model, rt, path, NULL, NULL);
    ss.draft_model = model; /* its own */
    if (rc == 0) rc = lutra_session_open(&s, model, &ss, NULL);
    if (rc == 0) rc = lutra_generate(s, &r, NULL);
    lutra_session_close(&s);
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
    return rc;
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-qwen3-40", "F16", 1);
    assert_int_equal(open_all(f.path), 0);
    long n = alloc_fail_each(open_all, f.path, 100000);
    if (n <= 0) fail_msg("allocation %ld failed without LUTRA_E_NO_MEMORY, or leaked", -n);
    print_message("%ld allocations failed in turn\n", n);
    fixture_close(&f);
}

static void note_error(void *user, const struct lutra_end *e)
{
    if (e->reason == LUTRA_STOP_ERROR) *(int *)user = LUTRA_E_NO_MEMORY;
}

/* All that a request can point to; `forced` and a grammar exclude one another. */
static int submit_all(void *arg)
{
    static const int32_t prompt[] = {1, 2, 3}, said[] = {4, 5}, likely[] = {6}, ends[] = {7};
    static const char *const stop[] = {"one", "another"};
    static const struct lutra_logit_bias bias = {3, 0.5f};
    struct lutra_request r;
    struct lutra_request_experiment x;
    struct lutra_sampling sampling;
    lutra_session *s = arg;
    int ended = 0, rc = 0;
    lutra_request_init(&r, sizeof r);
    lutra_request_experiment_init(&x, sizeof x);
    r.on_end = note_error, r.user = &ended;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.bias = &bias, sampling.n_bias = 1, sampling.dry_multiplier = 1;
    r.prompt = prompt, r.n_prompt = 3, r.stop = stop, r.n_stop = 2;
    x.likely = likely, x.n_likely = 1, r.experiment = &x;
    r.stop_tokens = ends, r.n_stop_tokens = 1, r.min_tokens = 2, r.max_tokens = 2, r.sampling = &sampling;
    for (int i = 0; i < 2 && rc == 0; i++) {
        x.forced = i ? said : NULL, x.n_forced = i ? 2 : 0;
        r.grammar = i ? NULL : "root ::= [a-z]+";
        rc = lutra_submit(s, &r, NULL, NULL);
    }
    for (int n_active = 1; n_active;)
        if (lutra_step(s, &n_active, NULL) < 0) ended = LUTRA_E_NO_MEMORY;
    return rc < 0 ? rc : ended; /* a mask is made in a pass: its failure ends the sample */
}

static void a_request_that_fails_frees_its_own(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64;
    ss.spec_type = "calibrated";
    fixture_open(&f, "tiny-qwen2", "F16", 1);
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    assert_int_equal(submit_all(f.s), 0); /* what is opened once is open */
    long n = alloc_fail_each(submit_all, f.s, 100000);
    if (n <= 0) fail_msg("allocation %ld failed without LUTRA_E_NO_MEMORY, or leaked", -n);
    print_message("%ld allocations failed in turn\n", n);
    fixture_close(&f);
}

int main(void)
{
    static struct guesser drafts = {.most = 8};
    static char freed[] = "freed", suffix[] = "suffix,ngram-simple", all[] = "auto", draft[] = "draft",
                calibrated[] = "calibrated,suffix";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_allocation_while_decoding),
        cmocka_unit_test_prestate(no_allocation_while_decoding, &drafts),
        cmocka_unit_test(no_allocation_in_any_shape),
        cmocka_unit_test_prestate(no_allocation_in_any_shape, freed),
        cmocka_unit_test(no_allocation_where_devices_share),
        cmocka_unit_test_prestate(no_allocation_while_speculating, suffix),
        cmocka_unit_test_prestate(no_allocation_while_speculating, all),
        cmocka_unit_test_prestate(no_allocation_while_speculating, draft),
        cmocka_unit_test_prestate(no_allocation_while_speculating, calibrated),
        cmocka_unit_test(every_failed_allocation_is_a_status),
        cmocka_unit_test(a_request_that_fails_frees_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
