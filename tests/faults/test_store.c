/* SPDX-License-Identifier: MIT
 *
 * Drafts and hints of a store: from the prompt on, decoding with them takes no memory.
 */
#include "../unit/engine/engine_fixture.h"
#include "alloc_count.h"

enum { N_CTX = 1024, N_SAID = 200 };

static struct {
    lutra_drafts *drafts;
    lutra_recall *recall;
    int n_asked, n_guessed, n_hints, n_said;
} told;

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    (void)user;
    int n = lutra_drafts_guess(told.drafts, tip, draft, n_max);
    told.n_asked++;
    told.n_guessed += n;
    return n;
}

static void on_hints(void *user, int32_t request, int first, const struct lutra_hints *hints, int n)
{
    (void)user, (void)request;
    lutra_recall_take(told.recall, first, hints, n);
    told.n_hints += n;
}

static int on_text(void *user, const struct lutra_piece *piece)
{
    (void)user;
    told.n_said += piece->token >= 0;
    return 0;
}

static int tokens_of(const lutra_model *model, const char *text, int32_t *token, int n_max)
{
    int n;
    OK(lutra_tokenize(model, text, strlen(text), 0, token, n_max, &n, err));
    return n < n_max ? n : n_max;
}

static void no_allocation_with_a_store(void **state)
{
    (void)state;
    char folder[] = "/tmp/lutra-faults-XXXXXX", path[64], command[64], text[4000] = "";
    int32_t prompt[N_CTX], said[N_SAID];
    struct fixture f = {0};
    struct lutra_error why;
    struct lutra_document d;
    struct lutra_session_settings ss;
    struct lutra_session_experiment cost;
    struct lutra_request_experiment x;
    struct lutra_request r;
    lutra_store *store = NULL;
    lutra_passages *found = NULL;
    char *message = NULL;
    int active = 1;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.db", folder);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (lutra_store_open(&store, path, NULL, &why) == LUTRA_E_UNSUPPORTED) {
        print_message("%s\n", why.what);
        assert_int_equal(system(command), 0);
        skip();
    }
    for (int i = 0; i < 40; i++) sprintf(text + strlen(text), "Box %d has %d cards and %d coins. ", i, i * 7, 90 - i);
    lutra_document_init(&d, sizeof d);
    d.name = "boxes";
    d.bytes = text;
    d.n_bytes = strlen(text);
    OK(lutra_store_add(store, &d, NULL, err));
    OK(lutra_runtime_open(&f.rt, NULL, err));
    OK(lutra_model_open(&f.model, f.rt, LUTRA_SOURCE_DIR "/models/abacus-1m-f16.gguf", NULL, err));
    OK(lutra_drafts_open(&told.drafts, store, f.model, NULL, NULL, err));
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = N_CTX;
    ss.spec_type = "calibrated";
    lutra_session_experiment_init(&cost, sizeof cost);
    ss.experiment = &cost;
    cost.draft_row_cost = 0.05f; /* what is drafted does not depend on the machine */
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    OK(lutra_store_find(store, "cards", 5, 1, &found, err));
    OK(lutra_passages_message(found, NULL, 0, 1, "How many?", 9, &message, err));
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.n_prompt = tokens_of(f.model, message, prompt, N_CTX - N_SAID - 1);
    OK(lutra_recall_open(&told.recall, store, f.model, lutra_session_hints(f.s), found, prompt, r.n_prompt, err));
    lutra_request_experiment_init(&x, sizeof x);
    r.experiment = &x;
    x.forced = said; /* what the store says: its drafts are right */
    x.n_forced = tokens_of(f.model, text, said, N_SAID);
    x.known_hints = lutra_recall_known(told.recall);
    r.on_draft = on_draft;
    x.on_hints = on_hints;
    r.on_text = on_text;
    OK(lutra_submit(f.s, &r, NULL, err));
    alloc_count_begin();
    while (active) OK(lutra_step(f.s, &active, err));
    struct alloc_count count = alloc_count_end();
    struct lutra_stats st;
    lutra_session_stats_get(f.s, &st, sizeof st);
    print_message("%d times asked, %d guesses, %llu accepted, %d hints\n", told.n_asked, told.n_guessed,
        (unsigned long long)st.rows_accepted, told.n_hints);
    assert_int_equal(told.n_said, N_SAID);
    assert_true(told.n_guessed > 100 && st.rows_accepted > 100);
    assert_int_equal(told.n_hints, r.n_prompt - 1);
    assert_int_equal(count.n_alloc, 0);
    assert_int_equal(count.n_map, 0);
    lutra_free(message);
    lutra_recall_close(&told.recall);
    lutra_drafts_close(&told.drafts);
    lutra_passages_close(&found);
    lutra_store_close(&store);
    lutra_session_close(&f.s);
    lutra_model_close(&f.model);
    lutra_runtime_close(&f.rt);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_allocation_with_a_store)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
