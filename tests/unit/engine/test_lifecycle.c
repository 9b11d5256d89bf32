/* SPDX-License-Identifier: MIT
 *
 * Opening and closing in any order, cancels that come early, handles that are NULL, samples that fail beside others.
 */
#include "engine_fixture.h"
#include "engine/session_impl.h"

enum { N_SAMPLE = 3 };

struct heard {
    int n_end[N_SAMPLE], n_tok[N_SAMPLE];
    enum lutra_stop reason[N_SAMPLE];
    lutra_session *s; /* on_end submits to it */
    int submitted;
};

static void on_end(void *user, const struct lutra_end *e)
{
    struct heard *h = user;
    h->n_end[e->sample]++;
    h->n_tok[e->sample] = e->n_tok;
    h->reason[e->sample] = e->reason;
    static const int32_t prompt[] = {1, 2};
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt, r.n_prompt = 2;
    if (h->s) h->submitted = lutra_submit(h->s, &r, NULL, NULL);
}

static struct lutra_request request(struct heard *h, int max_tokens)
{
    static const int32_t prompt[] = {5, 6, 7, 8};
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    memset(h, 0, sizeof *h);
    r.prompt = prompt, r.n_prompt = 4, r.n_samples = N_SAMPLE, r.max_tokens = max_tokens, r.ignore_end = true;
    r.on_end = on_end, r.user = h;
    return r;
}

static void a_cancel_before_submit_holds(void **state)
{
    (void)state;
    struct fixture f;
    struct heard h;
    struct lutra_error why = {0};
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, N_SAMPLE, 64);
    struct lutra_request r = request(&h, 8);
    lutra_cancel(f.s);
    OK(lutra_step(f.s, NULL, err)); /* nothing to cancel yet */
    assert_int_equal(lutra_generate(f.s, &r, &why), LUTRA_E_CANCELLED);
    assert_non_null(strstr(why.what, "request 0 was cancelled"));
    for (int i = 0; i < N_SAMPLE; i++) {
        assert_int_equal(h.n_end[i], 1);
        assert_int_equal(h.n_tok[i], 0);
        assert_int_equal(h.reason[i], LUTRA_STOP_CANCELLED);
    }
    r = request(&h, 8); /* once */
    OK(lutra_generate(f.s, &r, err));
    assert_int_equal(h.reason[0], LUTRA_STOP_LENGTH);
    fixture_close(&f);
}

/* Closed before the first pass, in a prompt, between tokens, while samples wait for a slot: each sample ends once. */
static void a_closed_session_ends_its_samples(void **state)
{
    (void)state;
    for (int steps = 0; steps < 5; steps++) {
        struct fixture f;
        struct heard h, waits;
        fixture_open(&f, "tiny-llama", "F16", 1);
        fixture_session(&f, N_SAMPLE - 1, 64);
        struct lutra_request r = request(&h, 40), r2 = request(&waits, 40);
        OK(lutra_submit(f.s, &r, NULL, err));
        OK(lutra_submit(f.s, &r2, NULL, err));
        for (int i = 0; i < steps; i++) OK(lutra_step(f.s, NULL, err));
        h.s = f.s;
        lutra_session_close(&f.s);
        assert_null(f.s);
        for (int i = 0; i < N_SAMPLE; i++) {
            assert_int_equal(h.n_end[i], 1);
            assert_int_equal(h.reason[i], LUTRA_STOP_CANCELLED);
            assert_int_equal(waits.n_end[i], 1);
            assert_int_equal(waits.reason[i], LUTRA_STOP_CANCELLED);
        }
        assert_int_equal(h.n_tok[0], steps); /* what it had said, it had said */
        assert_int_equal(h.submitted, LUTRA_E_BUSY);
        fixture_close(&f);
    }
}

static void what_is_in_use_stays_open(void **state)
{
    (void)state;
    struct fixture f;
    lutra_session *draft;
    struct lutra_session_settings ss;
    lutra_verifier *v;
    struct lutra_verifier_settings vs;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, 1, 64);
    assert_int_equal(lutra_runtime_close(&f.rt), LUTRA_E_BUSY);
    assert_int_equal(lutra_model_close(&f.model), LUTRA_E_BUSY);
    assert_non_null(f.model);
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 64, ss.n_seq = 0;
    assert_int_equal(lutra_session_open(&draft, f.model, &ss, NULL), LUTRA_E_ARGUMENT); /* counts for nothing */
    ss.n_seq = 1, ss.draft_model = f.model;
    OK(lutra_session_open(&draft, f.model, &ss, err));
    lutra_session_close(&f.s);
    assert_int_equal(lutra_model_close(&f.model), LUTRA_E_BUSY);
    lutra_session_close(&draft);
    lutra_verifier_settings_init(&vs, sizeof vs);
    vs.model = f.model;
    for (vs.n_seq = 0; vs.n_seq < 2; vs.n_seq++) { /* without and with a cache of its own */
        vs.n_ctx = 64;
        OK(lutra_verifier_open(&v, "likelihood", &vs, err));
        assert_int_equal(lutra_model_close(&f.model), LUTRA_E_BUSY);
        lutra_verifier_close(&v);
    }
    assert_int_equal(lutra_model_close(&f.model), 0);
    assert_null(f.model);
    assert_int_equal(lutra_runtime_close(&f.rt), 0);
    assert_null(f.rt);
    assert_int_equal(lutra_model_close(&f.model), 0);
    assert_int_equal(lutra_runtime_close(&f.rt), 0);
    fixture_close(&f);
}

static void null_is_no_handle(void **state)
{
    (void)state;
    struct lutra_error why;
    struct heard h;
    struct lutra_request r = request(&h, 1);
    struct lutra_row row = {0};
    lutra_model *model;
    lutra_session *s;
    lutra_verifier *v;
    lutra_search_run *run;
    struct lutra_search search;
    struct lutra_stats stats;
    struct lutra_model_info info;
    struct lutra_peaks peaks;
    struct lutra_sampling sampling, plain;
    struct lutra_message message = {"user", "hello", 0};
    struct lutra_chat chat;
    struct lutra_check check;
    char *text, bytes[8];
    size_t n_bytes;
    int32_t id = 0;
    int n = 7;
    double reward;
    lutra_search_init(&search, sizeof search);
    lutra_check_init(&check, sizeof check);
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &message, chat.n_message = 1;
#define REFUSED(call, name)                                                                                            \
    do {                                                                                                               \
        memset(&why, 0, sizeof why);                                                                                   \
        assert_int_equal(call, LUTRA_E_ARGUMENT);                                                                      \
        assert_int_equal(why.code, LUTRA_E_ARGUMENT);                                                                  \
        assert_non_null(strstr(why.what, "no " name));                                                                 \
    } while (0)
    REFUSED(lutra_model_open(&model, NULL, "x", NULL, &why), "runtime");
    REFUSED(lutra_quantize(NULL, "x", "y", NULL, &why), "runtime");
    REFUSED(lutra_make_model(NULL, "x", NULL, &why), "runtime");
    REFUSED(lutra_pack(NULL, "x", "y", NULL, &why), "runtime");
    REFUSED(lutra_imatrix(NULL, &id, 1, "y", NULL, &why), "model");
    REFUSED(lutra_session_open(&s, NULL, NULL, &why), "model");
    REFUSED(lutra_tokenize(NULL, "a", 1, 0, &id, 1, &n, &why), "model");
    REFUSED(lutra_detokenize(NULL, &id, 1, false, &text, NULL, &why), "model");
    REFUSED(lutra_chat_tokenize(NULL, &chat, &id, 1, &n, &why), "model");
    REFUSED(lutra_chat_render(NULL, &chat, &text, NULL, &why), "model");
    REFUSED(lutra_chat_template(NULL, NULL, &text, &why), "model");
    REFUSED(lutra_verifier_open(&v, NULL, NULL, &why), "model");
    REFUSED(lutra_submit(NULL, &r, &id, &why), "session");
    REFUSED(lutra_step(NULL, &n, &why), "session");
    assert_int_equal(n, 0);
    REFUSED(lutra_generate(NULL, &r, &why), "session");
    REFUSED(lutra_search_submit(&run, NULL, &r, &search, &why), "session");
    REFUSED(lutra_seq_open(NULL, 0, &id, &why), "session");
    REFUSED(lutra_seq_fork(NULL, 0, -1, 0, &id, &why), "session");
    REFUSED(lutra_seq_truncate(NULL, 0, 0, &why), "session");
    REFUSED(lutra_forward(NULL, &row, 1, sizeof row, &why), "session");
    REFUSED(lutra_commit(NULL, 0, &why), "session");
    REFUSED(lutra_verifier_score(NULL, &id, 1, &id, &n, 0, &reward, &why), "verifier");
    REFUSED(lutra_verifier_check(NULL, &check, &reward, &why), "verifier");
    assert_int_equal(lutra_token_text(NULL, 0, false, bytes, sizeof bytes, &n_bytes), LUTRA_E_ARGUMENT);
    assert_int_equal(lutra_request_cancel(NULL, 0), LUTRA_E_ARGUMENT);

    lutra_cancel(NULL);
    lutra_seq_close(NULL, 0);
    lutra_session_stats_reset(NULL);
    assert_int_equal(lutra_seq_length(NULL, 0), -1);
    assert_int_equal(lutra_seq_reach(NULL, 0, 0), -1);
    assert_null(lutra_forward_result(NULL, 0));
    assert_null(lutra_search_done(NULL));
    assert_false(lutra_token_is_end(NULL, 0));
    assert_true(lutra_session_hints(NULL) == 0);
    assert_int_equal(lutra_runtime_n_threads(NULL), 0);
    assert_string_equal(lutra_runtime_device_text(NULL), "");
    lutra_session_sizes_get(NULL, &n, NULL, NULL);
    assert_int_equal(n, 0);
    lutra_session_stats_get(NULL, &stats, sizeof stats);
    assert_true(stats.size == sizeof stats && stats.n_pass == 0);
    lutra_model_info_get(NULL, &info, sizeof info);
    assert_true(info.n_vocab == 0 && info.bos == -1 && !*info.name);
    lutra_runtime_peaks_get(NULL, &peaks, sizeof peaks);
    assert_true(peaks.stream_gb_s == 0);
    lutra_sampling_init(&plain, sizeof plain);
    lutra_model_sampling_get(NULL, &sampling, sizeof sampling);
    assert_true(sampling.temperature == plain.temperature && sampling.top_k == plain.top_k);
    lutra_runtime_close(NULL);
    lutra_model_close(NULL);
    lutra_session_close(NULL);
    lutra_verifier_close(NULL);
    lutra_search_close(NULL);
}

/* One sample's grammar goes wrong; the two others do not notice. */
static void a_failure_is_one_samples(void **state)
{
    (void)state;
    struct fixture f;
    struct heard h;
    fixture_open(&f, "tiny-llama", "F16", 1);
    fixture_session(&f, N_SAMPLE, 64);
    struct lutra_request r = request(&h, 12);
    r.grammar = "root ::= \"q\" [a-f]+";
    OK(lutra_submit(f.s, &r, NULL, err));
    int n_active = N_SAMPLE;
    for (int i = 0; n_active > 0; i++) {
        OK(lutra_step(f.s, &n_active, err));
        struct sample *slot = &f.s->sample[1];
        if (i == 4) slot->grammar_state = grammar_start(slot->request->machine); /* where no [a-f] can follow */
    }
    assert_int_equal(h.reason[0], LUTRA_STOP_LENGTH);
    assert_int_equal(h.reason[1], LUTRA_STOP_ERROR);
    assert_in_range(h.n_tok[1], 5, 7);
    assert_int_equal(h.reason[2], LUTRA_STOP_LENGTH);
    for (int i = 0; i < N_SAMPLE; i++) assert_int_equal(h.n_end[i], 1);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancel_before_submit_holds),
        cmocka_unit_test(a_closed_session_ends_its_samples),
        cmocka_unit_test(what_is_in_use_stays_open),
        cmocka_unit_test(null_is_no_handle),
        cmocka_unit_test(a_failure_is_one_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
