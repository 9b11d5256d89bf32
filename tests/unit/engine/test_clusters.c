/* SPDX-License-Identifier: MIT
 *
 * Clusters of CPUs share every product: whole models have the bits of one device.
 */
#include "engine/model_impl.h"
#include "engine/session_impl.h"
#include "engine_fixture.h"

enum { N_PROMPT = 150, N_SAID = 12, VOCAB_MOST = 4096 };

/* Logits behind the prompt in one pass, and behind each of some tokens more, several of them in one pass. */
struct heard {
    float logit[N_SAID + 1][VOCAB_MOST];
    int n_vocab, n_piece;
};

static void keep(struct fixture *f, int i, struct heard *out)
{
    memcpy(out->logit[i], lutra_forward_result(f->s, 0)->logits, (size_t)out->n_vocab * sizeof(float));
}

static void evaluate(struct fixture *f, struct heard *out)
{
    struct lutra_row row[N_PROMPT] = {0};
    int32_t seq;
    OK(lutra_seq_open(f->s, 0, &seq, err));
    for (int i = 0; i < N_PROMPT; i++)
        row[i] = (struct lutra_row){.token = token_at(i), .pos = i, .seq = seq, .parent = i - 1};
    row[N_PROMPT - 1].want = LUTRA_WANT_LOGITS;
    for (int i = 0; i < N_PROMPT - 1; i++) row[i].want = LUTRA_ROW_BULK;
    OK(lutra_forward(f->s, row, N_PROMPT, sizeof *row, err));
    keep(f, 0, out);
    for (int i = 0, n; i < N_SAID; i += n) {
        n = 1 + i % 3;
        for (int k = 0; k < n; k++)
            row[k] =
                (struct lutra_row){.token = token_at(i + k + 7), .pos = N_PROMPT + i + k, .seq = seq, .parent = k - 1};
        row[n - 1].want = LUTRA_WANT_LOGITS;
        OK(lutra_forward(f->s, row, n, sizeof *row, err));
        keep(f, 1 + i, out);
    }
}

static void run(const char *device, const char *split, const char *shape, const char *type, struct heard *out)
{
    struct fixture f;
    struct lutra_model_info info;
    memset(out, 0, sizeof *out);
    fixture_open_split(&f, &(struct where){device, NULL}, split, shape, type, 0);
    lutra_model_info_get(f.model, &info, sizeof info);
    out->n_vocab = info.n_vocab;
    fixture_session(&f, 1, 256);
    evaluate(&f, out);
    out->n_piece = f.model->plan.n_piece;
    fixture_close(&f);
}

static bool have_two(void)
{
    int cpu[4] = {0};
    return cpu_allowed(cpu, 4) >= 2 && cpu[0] == 0 && cpu[1] == 1;
}

static void clusters_have_the_bits_of_one(void **state)
{
    static const char *const shapes[] = {"tiny-qwen2", "tiny-llama", "tiny-gemma2"};
    static const char *const types[] = {"Q4_0", "Q8_0", "F16", "Q4_K"};
    static const struct {
        const char *device, *split;
    } cuts[] = {{"cpu:0,cpu:1", NULL}, {"cpu:1,cpu:0", "3,1"}, {"cpu:0,cpu:1*3,cpu:0-1", "1,2,1"}};
    static struct heard one, several;
    (void)state;
    if (!have_two()) skip();
    for (int i = 0; i < 12; i++) {
        const char *shape = shapes[i % 3], *type = types[i % 4];
        run("cpu", NULL, shape, type, &one);
        assert_int_equal(one.n_piece, 1);
        run(cuts[i / 4].device, cuts[i / 4].split, shape, type, &several);
        assert_true(several.n_piece > 4);
        if (memcmp(one.logit, several.logit, sizeof one.logit))
            fail_msg("%s of %s: other bits on %s", shape, type, cuts[i / 4].device);
    }
}

/* What rows say of a vocabulary that is cut: whole results, as a hash, and the best tokens. */
struct said {
    uint64_t logits;
    float log_sum_exp[4], target[4], top_logit[4][64];
    int32_t top_id[4][64];
    int n_top[4], n_cut;
};

static void say(const char *device, const char *split, struct said *out)
{
    struct fixture f;
    struct lutra_row row[4] = {{0}};
    struct lutra_model_info info;
    int32_t seq;
    memset(out, 0, sizeof *out);
    out->logits = 14695981039346656037u;
    fixture_make_split(&f, &(struct where){device, NULL}, split, "qwen2.5-0.5b", "Q4_0", 1, 0);
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    out->n_cut = f.model->plan.n_head;
    lutra_model_info_get(f.model, &info, sizeof info);
    fixture_session(&f, 1, 64);
    OK(lutra_seq_open(f.s, 0, &seq, err));
    for (int i = 0; i < 4; i++)
        row[i] = (struct lutra_row){.token = token_at(i),
            .pos = i,
            .seq = seq,
            .parent = i - 1,
            .want = LUTRA_WANT_LOGITS | LUTRA_WANT_TOPK | LUTRA_WANT_LOGPROB,
            .target = 40000 * i};
    OK(lutra_forward(f.s, row, 4, sizeof *row, err));
    for (int i = 0; i < 4; i++) {
        const struct lutra_row_result *r = lutra_forward_result(f.s, i);
        for (int k = 0; k < info.n_vocab; k++) {
            uint32_t bits;
            memcpy(&bits, &r->logits[k], sizeof bits);
            out->logits = (out->logits ^ bits) * 1099511628211u;
        }
        out->log_sum_exp[i] = r->log_sum_exp;
        out->target[i] = r->target_logit;
        out->n_top[i] = r->n_top;
        memcpy(out->top_id[i], r->top_id, sizeof out->top_id[i]);
        memcpy(out->top_logit[i], r->top_logit, sizeof out->top_logit[i]);
    }
    fixture_close(&f);
}

static void a_head_is_shared(void **state)
{
    static struct said one, several;
    int cpu[4];
    (void)state;
    if (!have_two()) skip();
    const int n_cpu = cpu_allowed(cpu, 4);
    say("cpu", NULL, &one);
    assert_int_equal(one.n_cut, 0);
    assert_true(one.n_top[3] == 64 && isfinite(one.log_sum_exp[3]));
    for (int i = 0; i < 2; i++) {
        say(i ? "cpu:0,cpu:1,cpu:0-1" : "cpu:0,cpu:1", i ? "3,1,2" : NULL, &several);
        assert_int_equal(several.n_cut, 2 + i);
        several.n_cut = 0;
        assert_memory_equal(&one, &several, sizeof one);
        assert_int_equal(cpu_allowed(cpu, 4), n_cpu); /* this thread is where it may be again */
    }
}

static void names_are_checked(void **state)
{
    static const struct {
        const char *device, *split, *says;
    } bad[] = {{"cpu:", NULL, "'cpu:'"}, {"cpu:x", NULL, "'cpu:x'"}, {"cpu:3-1", NULL, "'cpu:3-1'"},
        {"cpu:0-", NULL, "'cpu:0-'"}, {"cpu:0*", NULL, "'cpu:0*': behind '*'"}, {"cpu:0*0", NULL, "1 to 9999"},
        {"cpu:0*10000", NULL, "1 to 9999"}, {"cpu:0*3x", NULL, "1 to 9999"}, {"cpu:*3", NULL, "'cpu:*3'"},
        {"cpu:0,cpu:1023", NULL, "processor 1023"}, {"cpu,cpu:0", NULL, "all processors"}, {"cpu:0", "x", "split 'x'"},
        {"cpu:0", "0", "split '0'"}, {"cpu:0,cpu:0", "1", "no number for device 2"},
        {"cpu:0,cpu:0", "1,-2", "split '1,-2'"}, {"cpu:0,cpu:0", "1,1,1", "more numbers than the 2 devices"},
        {"cpu:0,cpu:0", "1,1/1,1,1", "more numbers than the 2 devices"}, {"cpu:0,cpu", NULL, "all processors"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lutra_runtime_settings rs;
        struct lutra_error why = {0};
        lutra_runtime *rt;
        lutra_runtime_settings_init(&rs, sizeof rs);
        rs.device = bad[i].device;
        rs.split = bad[i].split;
        assert_true(lutra_runtime_open(&rt, &rs, &why) < 0);
        if (!strstr(why.what, bad[i].says)) fail_msg("%s: %s", bad[i].device, why.what);
    }
}

/* ---- plans ---- */

static void open_with(struct fixture *f, const char *plan, int status)
{
    struct lutra_model_settings ms;
    struct lutra_error err = {.what = ""};
    lutra_session_close(&f->s);
    lutra_model_close(&f->model);
    lutra_model_settings_init(&ms, sizeof ms);
    ms.plan = plan;
    int rc = lutra_model_open(&f->model, f->rt, f->path, &ms, &err);
    if (rc != status) fail_msg("plan '%s': %d, %s", plan ? plan : "(none)", rc, err.what);
}

static const char *plan_of(const struct fixture *f)
{
    struct lutra_model_info info;
    lutra_model_info_get(f->model, &info, sizeof info);
    return info.plan;
}

static void hear(struct fixture *f, struct heard *out)
{
    struct lutra_model_info info;
    memset(out, 0, sizeof *out);
    lutra_model_info_get(f->model, &info, sizeof info);
    out->n_vocab = info.n_vocab;
    fixture_session(f, 1, 256);
    evaluate(f, out);
}

/* One line of the file, in place of what stands behind its key. */
static void rewrite(const char *path, const char *key, const char *value)
{
    static char text[1 << 20], other[1 << 20];
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    size_t n = fread(text, 1, sizeof text - 1, in);
    text[n] = 0;
    fclose(in);
    char *at = strstr(text, key);
    assert_non_null(at);
    at += strlen(key);
    int k = snprintf(other, sizeof other, "%.*s%s%s", (int)(at - text), text, value, at + strcspn(at, ",\n"));
    FILE *out = fopen(path, "wb");
    fwrite(other, 1, (size_t)k, out);
    fclose(out);
}

/* Whatever was measured: every plan has the bits of one device, and the file says which is taken. */
static void plans_have_the_bits_of_one(void **state)
{
    static struct heard one, other;
    static const char *const plans[] = {"one", "even", "solved", NULL};
    struct fixture f;
    char *text, beside[128];
    (void)state;
    if (!have_two()) skip();
    run("cpu", NULL, "tiny-llama", "Q4_0", &one);
    fixture_open_split(&f, &(struct where){"cpu:0,cpu:1", NULL}, NULL, "tiny-llama", "Q4_0", 0);
    assert_string_equal(plan_of(&f), "by speed (no profile)");
    open_with(&f, "solved", LUTRA_E_IO); /* there is none yet */
    OK(lutra_profile(f.rt, f.path, NULL, NULL, &text, err));
    assert_non_null(strstr(text, "\"many\""));
    lutra_free(text);
    snprintf(beside, sizeof beside, "%s.cpu-0cpu-1%s", f.path, LUTRA_PROFILE_SUFFIX);
    rewrite(beside, "\"part\": [\n     ", "17"); /* sixteenths */
    open_with(&f, "solved", LUTRA_E_FORMAT);
    OK(lutra_profile(f.rt, f.path, NULL, NULL, NULL, err));
    for (int i = 0; i < 4; i++) {
        open_with(&f, plans[i], 0);
        hear(&f, &other);
        if (memcmp(one.logit, other.logit, sizeof one.logit)) fail_msg("plan %d: other bits", i);
        if (i == 0) assert_int_equal(f.model->plan_many.n_piece, 1);
        if (i == 1) assert_true(f.model->plan_many.n_piece > 4);
    }
    assert_non_null(strstr(plan_of(&f), "from the profile"));
    open_with(&f, beside, 0); /* as a file that is named */
    rewrite(beside, "\"model\": ", "\"0\"");
    open_with(&f, beside, LUTRA_E_UNSUPPORTED);
    open_with(&f, NULL, 0); /* one that only lies there is left out */
    assert_string_equal(plan_of(&f), "by speed (no profile)");
    open_with(&f, "/tmp", LUTRA_E_FORMAT);
    unlink(beside);
    fixture_close(&f);
}

/* --plan one: the first that could share, beside whom and however parts are said. */
static void one_device_is_the_first(void **state)
{
    static const struct {
        const char *device, *split;
    } lists[] = {
        {"cpu:0,cpu:1", NULL}, {"cpu:0,cpu:1", "1,1/0,1"}, {"npu-sim,cpu:0,cpu:1", NULL}, {"npu-sim,cpu", "0,1/1,0"}};
    (void)state;
    if (!have_two()) skip();
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct fixture f;
        fixture_open_split(&f, &(struct where){lists[i].device, NULL}, lists[i].split, "tiny-llama", "Q4_0", 0);
        open_with(&f, "one", 0);
        assert_int_equal(f.model->plan.n_device, 1);
        assert_ptr_equal(f.model->plan.device[0], f.rt->devices.device[0]);
        fixture_close(&f);
    }
}

/* A profile is of the model with its overrides: it is found by that model, and by no other. */
static void a_profile_is_of_its_overrides(void **state)
{
    static struct heard one, other;
    struct fixture f;
    struct lutra_model_settings ms;
    struct lutra_error why;
    char *text;
    (void)state;
    if (!have_two()) skip();
    lutra_model_settings_init(&ms, sizeof ms);
    run("cpu", NULL, "tiny-llama", "Q4_0", &one);
    fixture_open_split(&f, &(struct where){"cpu:0,cpu:1", NULL}, NULL, "tiny-llama", "Q4_0", 0);
    lutra_model_close(&f.model);
    ms.override_tensor = "blk\\.0\\.ffn_(down|up|gate)=cpu:1,blk\\.1\\.ffn_down=cpu:0";
    OK(lutra_profile(f.rt, f.path, NULL, &ms, &text, err));
    assert_non_null(strstr(text, "\"cut\": false")); /* what is kept for a device is measured there */
    lutra_free(text);
    ms.plan = "solved";
    OK(lutra_model_open(&f.model, f.rt, f.path, &ms, err));
    hear(&f, &other);
    assert_memory_equal(one.logit, other.logit, sizeof one.logit);
    const struct profile *p = f.model->profile;
    int n_second = 0; /* kinds that only the second cluster runs */
    for (int k = 0; k < p->n_kind; k++)
        n_second += !p->kind[k].cut && p->kind[k].of[PASS_FEW].alone[1].us > 0 && !p->kind[k].of[PASS_FEW].alone[0].us;
    assert_true(n_second > 0);
    char *beside = model_profile_path(f.model);
    lutra_session_close(&f.s);
    lutra_model_close(&f.model);
    ms.override_tensor = NULL;
    assert_int_equal(lutra_model_open(&f.model, f.rt, f.path, &ms, &why), LUTRA_E_IO); /* it has none */
    ms.plan = beside;
    assert_int_equal(lutra_model_open(&f.model, f.rt, f.path, &ms, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, "-ot"));
    unlink(beside);
    free(beside);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(clusters_have_the_bits_of_one),
        cmocka_unit_test(a_head_is_shared), cmocka_unit_test(a_profile_is_of_its_overrides),
        cmocka_unit_test(names_are_checked), cmocka_unit_test(plans_have_the_bits_of_one),
        cmocka_unit_test(one_device_is_the_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
