/* SPDX-License-Identifier: MIT
 *
 * Store files with bytes changed at random: every call succeeds or names the error; nothing crashes or hangs.
 * 300 files, 5,000 with LUTRA_TEST_LONG=1.
 */
#include "rag_fixture.h"

#include "lutra.h"

static uint64_t random_state = 3;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static char *whole;
static long n_whole;
static lutra_runtime *runtime;
static lutra_model *model; /* its vocabulary */

/* A prompt of the passages, with hints from the store and into it. */
static int recall(lutra_store *s, const lutra_passages *found, struct lutra_error *err)
{
    static int32_t token[20000];
    static struct lutra_hints hints[20000];
    lutra_recall *r = NULL;
    char *text = NULL;
    int n = 0, rc = lutra_passages_message(found, NULL, 0, 1, "?", 1, &text, err);
    assert_int_equal(rc, 0);
    assert_int_equal(lutra_tokenize(model, text, strlen(text), 0, token, 20000, &n, err), 0);
    lutra_free(text);
    n = n < 20000 ? n : 20000;
    rc = lutra_recall_open(&r, s, model, 5, found, token, n, err);
    for (int i = 0; i < n; i++) hints[i] = (struct lutra_hints){{token[i], 9}, {0.7f, 0.1f}};
    lutra_recall_take(r, 0, hints, n);
    if (rc == 0) rc = lutra_recall_save(r, err);
    lutra_recall_close(&r);
    return rc;
}

static void make_store(void)
{
    struct lutra_error err = {0};
    lutra_store *s = open_store();
    struct lutra_exchange e;
    for (int d = 0; d < 12; d++) {
        char name[16], text[4000] = "";
        for (int i = 0; i < 300; i++) sprintf(text + strlen(text), "w%u ", random_below(1u << random_below(9)));
        sprintf(name, "d%d", d);
        add_text(s, name, text);
    }
    lutra_exchange_init(&e, sizeof e);
    e.question = e.answer = "w1 w2";
    e.n_question = e.n_answer = 5;
    OK(lutra_store_commit(s, &e, &err));
    OK(lutra_store_remove(s, "d3", NULL, &err));
    lutra_passages *p = find_text(s, "w1 w2 w7", 5);
    OK(recall(s, p, &err));
    lutra_passages_close(&p);
    lutra_store_close(&s);
    FILE *f = fopen(store_path, "rb");
    fseek(f, 0, SEEK_END);
    n_whole = ftell(f);
    rewind(f);
    whole = malloc((size_t)n_whole);
    assert_int_equal(fread(whole, 1, (size_t)n_whole, f), n_whole);
    fclose(f);
}

/* A few bytes, a run of one byte, a page on another's place, or the end cut off. */
static void write_damaged(void)
{
    char *copy = malloc((size_t)n_whole);
    long n = n_whole;
    uint32_t kind = random_below(8), at = random_below((uint32_t)n_whole);
    memcpy(copy, whole, (size_t)n_whole);
    if (kind < 4) {
        for (uint32_t i = 0; i <= kind * 4; i++) copy[random_below((uint32_t)n_whole)] ^= (char)(1u << random_below(8));
    } else if (kind == 4) {
        memset(copy + at, (int)random_below(256), (size_t)(n_whole - at < 100 ? n_whole - at : 100));
    } else if (kind == 5) {
        memcpy(copy + random_below((uint32_t)n_whole / 4096) * 4096,
            copy + random_below((uint32_t)n_whole / 4096) * 4096, 4096);
    } else if (kind == 6) {
        n = at;
    } else { /* the header and the schema */
        for (int i = 0; i < 4; i++) copy[random_below(4096)] = (char)random_below(256);
    }
    FILE *f = fopen(store_path, "wb");
    assert_int_equal(fwrite(copy, 1, (size_t)n, f), n);
    fclose(f);
    free(copy);
}

static int ignore_document(void *user, const struct lutra_stored *d)
{
    (void)user;
    assert_non_null(d->name);
    return 0;
}

static int ignore_exchange(void *user, const struct lutra_stored_exchange *e)
{
    (void)user;
    assert_true(strlen(e->question) <= e->n_question);
    return 0;
}

static int n_good, n_bad;
static void judge(int rc, const struct lutra_error *err)
{
    n_good += rc == 0;
    n_bad += rc < 0;
    if (rc < 0 && !strstr(err->what, "store.db")) fail_msg("an error without the file: %s", err->what);
}

static void use_store(void)
{
    struct lutra_error err = {0};
    struct lutra_store_stats st;
    struct lutra_document d;
    lutra_store *s = NULL;
    int rc = lutra_store_open(&s, store_path, NULL, &err);
    judge(rc, &err);
    if (rc < 0) return;
    static const char *const queries[] = {"w0", "w1 w2 w7", "w100-w3", "nothing"};
    for (int i = 0; i < 4; i++) {
        lutra_passages *p = NULL;
        judge(lutra_store_find(s, queries[i], strlen(queries[i]), 5, &p, &err), &err);
        if (p) judge(recall(s, p, &err), &err);
        lutra_passages_close(&p);
    }
    judge(lutra_store_list(s, ignore_document, NULL, &err), &err);
    judge(lutra_store_history(s, ignore_exchange, NULL, &err), &err);
    judge(lutra_store_stats_get(s, &st, sizeof st, &err), &err);
    judge(lutra_store_check(s, &err), &err);
    lutra_document_init(&d, sizeof d);
    d.name = "d5";
    d.bytes = "w1 other words w2";
    d.n_bytes = 17;
    judge(lutra_store_add(s, &d, NULL, &err), &err);
    judge(lutra_store_remove(s, "d1", NULL, &err), &err);
    judge(lutra_store_compact(s, NULL, NULL, &err), &err);
    lutra_store_close(&s);
}

static void damaged_stores_do_no_harm(void **state)
{
    (void)state;
    int n = getenv("LUTRA_TEST_LONG") ? 5000 : 300;
    char other[128];
    struct lutra_error err;
    struct lutra_model_settings set;
    lutra_model_settings_init(&set, sizeof set);
    set.vocab_only = true;
    OK(lutra_runtime_open(&runtime, NULL, &err));
    OK(lutra_model_open(&model, runtime, LUTRA_SOURCE_DIR "/models/abacus-1m-f16.gguf", &set, &err));
    make_store();
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            snprintf(other, sizeof other, "%s%s", store_path, k ? "-wal" : "-shm");
            unlink(other);
        }
        write_damaged();
        use_store();
    }
    print_message("%d calls succeeded, %d named an error\n", n_good, n_bad);
    assert_true(n_good > n / 2 && n_bad > n / 2);
    free(whole);
    lutra_model_close(&model);
    lutra_runtime_close(&runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damaged_stores_do_no_harm, make_folder, drop_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
