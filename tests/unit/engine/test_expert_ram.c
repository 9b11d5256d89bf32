/* SPDX-License-Identifier: MIT
 *
 * Experts of which only some are packed at a time: any budget, the same bits; what is packed fits the budget.
 */
#include "cpu/device_impl.h"
#include "base/hash.h"
#include "engine/session_impl.h"
#include "engine_fixture.h"

enum { N_PROMPT = 40, N_TEXT = 54, N_FORK = 8 };

struct opened {
    lutra_model *model;
    lutra_session *session;
};

static void open_with(struct fixture *f, struct opened *o, int64_t bytes, const char *packed)
{
    struct lutra_model_settings ms;
    struct lutra_session_settings ss;
    lutra_model_settings_init(&ms, sizeof ms);
    assert_int_equal(ms.expert_ram, -1);
    ms.expert_ram = bytes;
    ms.packed = packed;
    OK(lutra_model_open(&o->model, f->rt, f->path, &ms, err));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = N_FORK + 1;
    ss.n_ctx = 128;
    OK(lutra_session_open(&o->session, o->model, &ss, err));
}

static void close_it(struct opened *o)
{
    lutra_session_close(&o->session);
    lutra_model_close(&o->model);
}

/* Bytes of all experts, packed. */
static int64_t expert_bytes(const lutra_model *m)
{
    int64_t sum = 0;
    for (int i = 0; i < model_n_weight(m->model); i++) {
        const struct weight *w = model_weight(m->model, i);
        if (w->n_expert) sum += (int64_t)w->held[0].bytes;
    }
    return sum;
}

/* Logits of a prompt's last row, of tokens one by one, and of N_FORK sequences at once: hashed, pass by pass. */
static void run(struct opened *o, int n_vocab, uint64_t *out)
{
    struct lutra_row row[N_PROMPT];
    int32_t seq;
    OK(lutra_seq_open(o->session, 128, &seq, err));
    for (int i = 0; i < N_PROMPT; i++)
        row[i] = (struct lutra_row){token_at(i), i, seq, i - 1, i == N_PROMPT - 1 ? LUTRA_WANT_LOGITS : 0, 0};
    OK(lutra_forward(o->session, row, N_PROMPT, sizeof *row, err));
    *out++ = hash_bytes(1, lutra_forward_result(o->session, 0)->logits, (size_t)n_vocab * sizeof(float));
    for (int i = N_PROMPT; i < N_TEXT; i++) {
        row[0] = (struct lutra_row){token_at(i), i, seq, -1, LUTRA_WANT_LOGITS, 0};
        OK(lutra_forward(o->session, row, 1, sizeof *row, err));
        *out++ = hash_bytes(1, lutra_forward_result(o->session, 0)->logits, (size_t)n_vocab * sizeof(float));
    }
    for (int k = 0; k < N_FORK; k++) {
        row[k] = (struct lutra_row){token_at(3 * k), N_TEXT, 0, -1, LUTRA_WANT_LOGITS, 0};
        OK(lutra_seq_fork(o->session, seq, N_TEXT, 128, &row[k].seq, err));
    }
    OK(lutra_forward(o->session, row, N_FORK, sizeof *row, err));
    for (int k = 0; k < N_FORK; k++)
        *out++ = hash_bytes(1, lutra_forward_result(o->session, k)->logits, (size_t)n_vocab * sizeof(float));
}

/* What is packed, and what happened to it. */
static struct expert_cache count(const lutra_model *m, int64_t *bytes)
{
    struct expert_cache sum = {0};
    for (int i = 0; i < model_n_weight(m->model); i++) {
        const struct weight *w = model_weight(m->model, i);
        if (!w->n_expert || !w->held[0].packed->cache) continue;
        const struct expert_cache *c = w->held[0].packed->cache;
        *bytes += (int64_t)((size_t)c->n_place * c->place_bytes);
        sum.n_use += c->n_use, sum.n_hit += c->n_hit, sum.n_pack += c->n_pack;
        int n_in = 0;
        for (int e = 0; e < c->n_expert; e++) n_in += c->place_of[e] >= 0;
        assert_true(n_in <= c->n_place);
    }
    return sum;
}

static void check_on(const struct where *where, const char *shape, const char *type, int n_threads)
{
    enum { PASSES = 1 + N_TEXT - N_PROMPT + N_FORK };
    uint64_t want[PASSES], got[PASSES];
    struct fixture f;
    struct opened o;
    fixture_make(&f, where, shape, type, 0, n_threads);
    open_with(&f, &o, -1, "");
    struct lutra_model_info info;
    lutra_model_info_get(o.model, &info, sizeof info);
    int64_t total = expert_bytes(o.model);
    assert_true(total > 0);
    run(&o, info.n_vocab, want);
    close_it(&o);
    const int64_t budget[] = {0, total / 3, total - 1, total};
    size_t n_budget = sizeof budget / sizeof *budget;
    if (where->isa || where->device) n_budget = 2; /* what the others pack does not depend on the place */
    for (size_t b = 0; b < n_budget; b++) {
        int64_t bytes = 0;
        open_with(&f, &o, budget[b], "");
        run(&o, info.n_vocab, got);
        for (int i = 0; i < PASSES; i++)
            if (want[i] != got[i])
                fail_msg("%s %s, %lld of %lld bytes packed: bits of pass %d differ", shape, type, (long long)budget[b],
                    (long long)total, i);
        struct expert_cache sum = count(o.model, &bytes);
        assert_true(bytes <= budget[b]);
        if (budget[b] == 0) assert_true(sum.n_use > 0 && sum.n_hit == 0 && sum.n_pack == 0);
        if (budget[b] == total / 3) assert_true(bytes > 0 && sum.n_hit > 0 && sum.n_pack > 0 && sum.n_hit < sum.n_use);
        if (budget[b] == total) assert_true(sum.n_use == 0); /* packed as without a budget */
        close_it(&o);
    }
    fixture_close(&f);
}

static void everywhere(const struct where *where)
{
    if (where->device && !strncmp(where->device, "npu", 3)) return; /* it leaves experts to the CPU */
    check_on(where, "tiny-gpt-oss", "MXFP4", 1);                    /* with biases */
    if (!where->device || strcmp(where->device, "cpu-ref") != 0) check_on(where, "tiny-lfm2moe", "Q4_K", 2);
}

static void any_budget_gives_the_same_bits(void **state)
{
    (void)state;
    fixture_everywhere(everywhere);
    check_on(&(struct where){0}, "tiny-qwen3moe", "F32", 2);
    check_on(&(struct where){0}, "tiny-qwen35moe", "Q6_K", 3);
    check_on(&(struct where){0}, "tiny-gemma4-moe", SANITIZED ? "Q5_1" : "IQ4_XS", 2); /* a slow one to round to */
    check_on(&(struct where){0}, "tiny-granitehybrid-moe", "TQ1_0", 2);
    check_on(&(struct where){"cpu:0,cpu:1", NULL}, "tiny-qwen3moe", "Q4_0", 2);
}

/* All in the mapping of the packed copy, and no bytes packed. */
static void a_packed_copy_is_used_in_its_mapping(void **state)
{
    enum { PASSES = 1 + N_TEXT - N_PROMPT + N_FORK };
    uint64_t want[PASSES], got[PASSES];
    char packed[96];
    struct fixture f;
    struct opened o;
    struct lutra_model_settings ms;
    int64_t bytes = 0;
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-qwen3moe", "Q4_0", 0, 2);
    snprintf(packed, sizeof packed, "%s.packed", f.path);
    lutra_model_settings_init(&ms, sizeof ms);
    ms.expert_ram = 0; /* of no meaning to who packs */
    OK(lutra_pack(f.rt, f.path, packed, &ms, err));
    open_with(&f, &o, -1, "");
    run(&o, 512, want);
    close_it(&o);
    open_with(&f, &o, 1 << 20, packed);
    run(&o, 512, got);
    assert_memory_equal(want, got, sizeof want);
    struct expert_cache sum = count(o.model, &bytes);
    assert_true(bytes == 0 && sum.n_use > 0 && sum.n_hit == sum.n_use && sum.n_pack == 0);
    close_it(&o);
    unlink(packed);
    fixture_close(&f);
}

static char told[4096];

static void keep(void *user, enum lutra_log_level level, const char *text)
{
    (void)user, (void)level;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", text);
}

static void what_happened_is_told(void **state)
{
    uint64_t hash[1 + N_TEXT - N_PROMPT + N_FORK];
    struct lutra_runtime_settings rs;
    struct fixture f;
    struct opened o;
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-qwen3moe", "Q4_0", 0, 2);
    lutra_runtime_close(&f.rt);
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.log = keep;
    OK(lutra_runtime_open(&f.rt, &rs, err));
    open_with(&f, &o, 800000, "");
    run(&o, 512, hash);
    close_it(&o);
    if (!strstr(told, "experts: 3 of 8 of each layer packed, others in the file's mapping")) fail_msg("%s", told);
    if (!strstr(told, "packed while running") || !strstr(told, "experts: used ")) fail_msg("%s", told);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_budget_gives_the_same_bits),
        cmocka_unit_test(a_packed_copy_is_used_in_its_mapping), cmocka_unit_test(what_happened_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
