/* SPDX-License-Identifier: MIT
 *
 * Hints of passages: kept, found again at any place of a prompt, and gone with what they may have words of.
 */
#include "rag_fixture.h"

#include <dirent.h>
#include <sqlite3.h>

#include "lutra.h"

enum { MODEL = 11, OTHER_MODEL = 12, N_MOST = 4096, TOP = 8 };

static lutra_runtime *runtime;
static lutra_model *model;
static int n_vocab;
static struct lutra_error err;

static int open_model(void **state)
{
    (void)state;
    struct lutra_model_settings set;
    struct lutra_model_info info;
    lutra_model_settings_init(&set, sizeof set);
    set.vocab_only = true;
    if (lutra_runtime_open(&runtime, NULL, &err) < 0) return -1;
    if (lutra_model_open(&model, runtime, LUTRA_SOURCE_DIR "/models/abacus-1m-f16.gguf", &set, &err) < 0) return -1;
    lutra_model_info_get(model, &info, sizeof info);
    n_vocab = info.n_vocab;
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    lutra_model_close(&model);
    lutra_runtime_close(&runtime);
    return 0;
}

/* ---- a prompt and its hints ---- */

static struct {
    int32_t token[N_MOST];
    int n;
    lutra_passages *found;
    lutra_recall *recall;
} p;

/* The best n passages for a question, behind a text and numbered from `first`. */
static void begin_prompt(lutra_store *s, const char *before, int first, const char *question, int n, uint64_t of)
{
    char *message = NULL, all[20000];
    p.found = find_text(s, question, n);
    OK(lutra_passages_message(p.found, NULL, 0, first, question, strlen(question), &message, &err));
    snprintf(all, sizeof all, "%s%s", before, message);
    lutra_free(message);
    OK(lutra_tokenize(model, all, strlen(all), 0, p.token, N_MOST, &p.n, &err));
    assert_true(p.n <= N_MOST);
    OK(lutra_recall_open(&p.recall, s, model, of, p.found, p.token, p.n, &err));
}

static void end_prompt(void)
{
    lutra_recall_close(&p.recall);
    lutra_passages_close(&p.found);
}

/* What a model might say of a token: a function of it, so that it is known again anywhere. */
static struct lutra_hints hints_of(int32_t token)
{
    struct lutra_hints h;
    for (int k = 0; k < TOP; k++) {
        h.token[k] = (token * 7 + k * 131 + 300) % n_vocab;
        h.p[k] = k < 5 ? 0.5f / (float)(k + 1) : 0;
    }
    return h;
}

static void take_all(void)
{
    struct lutra_hints h[N_MOST];
    for (int i = 0; i < p.n; i++) h[i] = hints_of(p.token[i]);
    for (int i = 0; i < p.n - 1; i += 50) lutra_recall_take(p.recall, i, h + i, p.n - 1 - i < 50 ? p.n - 1 - i : 50);
}

/* How many tokens have known hints, which are theirs. */
static int count_known(void)
{
    const struct lutra_hints *known = lutra_recall_known(p.recall);
    int n = 0;
    for (int i = 0; known && i < p.n; i++) {
        struct lutra_hints want = hints_of(p.token[i]);
        if (known[i].p[0] == 0) continue;
        n++;
        for (int k = 0; k < TOP && (known[i].p[k] > 0 || want.p[k] > 0); k++) {
            assert_int_equal(known[i].token[k], want.token[k]);
            assert_float_equal(known[i].p[k], want.p[k], 1.0 / 65535);
        }
    }
    return n;
}

/* Tokens of the n texts alone. */
static int count_own(const char *const *text, int n)
{
    int sum = 0, n_tok;
    int32_t token[N_MOST];
    for (int i = 0; i < n; i++) {
        OK(lutra_tokenize(model, text[i], strlen(text[i]), 0, token, N_MOST, &n_tok, &err));
        sum += n_tok;
    }
    return sum;
}

static const char *const texts[] = {
    "The otter of the river Zwarna has 31 fish. It gives 4 of them to the heron, and keeps the others for a week.",
    "The heron has 12 fish. Each day it eats 2 fish at noon and another one at night, which leaves it with fewer.",
    "The owl has no fish. It has 7 mice instead and doubles the number of mice in a week.",
};
enum { N_TEXT = 3 };

static lutra_store *make_store(void)
{
    lutra_store *s = open_store();
    char name[] = "a";
    for (int i = 0; i < N_TEXT; i++, name[0]++) add_text(s, name, texts[i]);
    return s;
}

static void keep(lutra_store *s, uint64_t of)
{
    begin_prompt(s, "", 1, "How many fish?", 3, of);
    take_all();
    OK(lutra_recall_save(p.recall, &err));
    end_prompt();
}

static int known_next(lutra_store *s, uint64_t of)
{
    begin_prompt(s, "Something else stands here. ", 7, "Which of the fish?", 3, of);
    int n = count_known();
    end_prompt();
    return n;
}

static void run_sql(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static uint64_t hint_bytes(lutra_store *s)
{
    struct lutra_store_stats st;
    OK(lutra_store_stats_get(s, &st, sizeof st, &err));
    return st.hint_bytes;
}

/* ---- tests ---- */

static void hints_come_back_anywhere(void **state)
{
    (void)state;
    lutra_store *s = make_store();
    int n_own = count_own(texts, N_TEXT);
    begin_prompt(s, "", 1, "How many fish?", 3, MODEL);
    assert_null(lutra_recall_known(p.recall));
    end_prompt();
    keep(s, MODEL);
    assert_int_equal(hint_bytes(s), 48 * n_own);
    /* All but, maybe, tokens at the ends that are others behind this text. */
    assert_in_range(known_next(s, MODEL), n_own - 2 * N_TEXT, n_own);
    lutra_store_close(&s);
    s = open_store(); /* in the file */
    assert_in_range(known_next(s, MODEL), n_own - 2 * N_TEXT, n_own);
    /* One passage alone, and beside one that is new. */
    add_text(s, "d", "The pike has 5 fish.");
    begin_prompt(s, "", 1, "mice owl", 1, MODEL);
    assert_in_range(count_known(), count_own(texts + 2, 1) - 2, count_own(texts + 2, 1));
    end_prompt();
    begin_prompt(s, "", 1, "pike owl mice", 2, MODEL);
    assert_int_equal(lutra_passages_count(p.found), 2);
    assert_in_range(count_known(), count_own(texts + 2, 1) - 2, count_own(texts + 2, 1));
    take_all();
    OK(lutra_recall_save(p.recall, &err));
    end_prompt();
    assert_true(hint_bytes(s) > 48 * (uint64_t)n_own);
    OK(lutra_store_check(s, &err));
    lutra_store_close(&s);
}

static void other_models_have_their_own(void **state)
{
    (void)state;
    lutra_store *s = make_store();
    keep(s, MODEL);
    assert_int_equal(known_next(s, OTHER_MODEL), 0);
    keep(s, OTHER_MODEL);
    int n = known_next(s, MODEL);
    assert_true(n > 0);
    assert_int_equal(known_next(s, OTHER_MODEL), n);
    lutra_store_close(&s);
}

/* What was not taken whole is not kept. */
static void half_of_a_passage_is_nothing(void **state)
{
    (void)state;
    lutra_store *s = make_store();
    begin_prompt(s, "", 1, "How many fish?", 3, MODEL);
    for (int i = 0; i < p.n; i += 2) {
        struct lutra_hints h = hints_of(p.token[i]);
        lutra_recall_take(p.recall, i, &h, 1);
    }
    struct lutra_hints h = hints_of(1);
    lutra_recall_take(p.recall, p.n, &h, 1); /* past the prompt: nothing */
    lutra_recall_take(p.recall, -1, &h, 1);
    OK(lutra_recall_save(p.recall, &err));
    end_prompt();
    assert_int_equal(hint_bytes(s), 0);
    lutra_store_close(&s);
}

/* Rows that no model of this vocabulary has made: as none, and made anew. */
static void damaged_hints_are_not_used(void **state)
{
    static const char *const harm[] = {"UPDATE hint SET hints=substr(hints, 2)", "UPDATE hint SET hints=hints || x'00'",
        "UPDATE hint SET hints=zeroblob(0)", "UPDATE hint SET hints=77", "UPDATE hint SET hints='text'",
        "UPDATE hint SET hints=x'ffffff7f' || substr(hints, 5)", /* a token of its own vocabulary */
        "UPDATE hint SET hints=x'ffffffff' || substr(hints, 5)"};
    (void)state;
    lutra_store *s = make_store();
    keep(s, MODEL);
    int n = known_next(s, MODEL);
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        run_sql(harm[i]);
        assert_int_equal(known_next(s, MODEL), 0);
        keep(s, MODEL);
        assert_int_equal(known_next(s, MODEL), n);
    }
    run_sql("UPDATE hint SET hints=randomblob(length(hints))");
    begin_prompt(s, "", 1, "How many fish?", 3, MODEL);
    const struct lutra_hints *known = lutra_recall_known(p.recall);
    for (int i = 0; known && i < p.n; i++)
        for (int k = 0; k < TOP; k++) assert_true(known[i].token[k] >= 0 && known[i].token[k] < n_vocab);
    end_prompt();
    lutra_store_close(&s);
}

/* Is what a hint of this token looks like in any of the store's files? */
static bool is_in_files(int32_t token)
{
    uint8_t row[4 * TOP];
    struct lutra_hints h = hints_of(token);
    for (int k = 0; k < TOP; k++)
        for (int b = 0; b < 4; b++) row[4 * k + b] = (uint8_t)((uint32_t)h.token[k] >> 8 * b);
    bool found = false;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char name[500];
        snprintf(name, sizeof name, "%s/%s", folder, e->d_name);
        FILE *f = e->d_type == DT_REG ? fopen(name, "rb") : NULL;
        if (!f) continue;
        fseek(f, 0, SEEK_END);
        size_t n = (size_t)ftell(f);
        char *bytes = malloc(n + 1);
        rewind(f);
        assert_int_equal(fread(bytes, 1, n, f), n);
        found |= memmem(bytes, n, row, sizeof row) != NULL;
        free(bytes);
        fclose(f);
    }
    if (dir) closedir(dir);
    return found;
}

/* Hints may have words of all that stood beside a passage: they go when any of that goes. */
static void hints_go_with_what_they_may_tell(void **state)
{
    (void)state;
    int32_t token[64];
    int n;
    OK(lutra_tokenize(model, " mice", 5, 0, token, 64, &n, &err));
    for (int way = 0; way < 3; way++) {
        lutra_store *s = make_store();
        keep(s, MODEL);
        assert_true(is_in_files(token[0]));
        if (way == 0) OK(lutra_store_remove(s, "b", NULL, &err)); /* the owl's mice stay, their hints do not */
        if (way == 1) add_text(s, "b", "The heron has left.");
        if (way == 2) OK(lutra_store_forget(s, &err));
        assert_int_equal(hint_bytes(s), 0);
        OK(lutra_store_compact(s, NULL, NULL, &err));
        assert_false(is_in_files(token[0]));
        OK(lutra_store_remove(s, "a", NULL, &err));
        OK(lutra_store_remove(s, "b", NULL, &err));
        OK(lutra_store_remove(s, "c", NULL, &err));
        lutra_store_close(&s);
    }
}

/* Removed by another program while the answer was made. */
static void nothing_is_kept_of_what_has_left(void **state)
{
    (void)state;
    lutra_store *s = make_store(), *other = open_store();
    begin_prompt(s, "", 1, "How many fish?", 3, MODEL);
    take_all();
    OK(lutra_store_remove(other, "b", NULL, &err));
    OK(lutra_recall_save(p.recall, &err));
    end_prompt();
    assert_int_equal(hint_bytes(s), 0);
    lutra_store_close(&other);
    lutra_store_close(&s);
}

/* Equal passages, ones of a word or two, prompts without them. */
static void odd_passages(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    int32_t other[] = {300, 301, 302};
    add_text(s, "a", "fish");
    add_text(s, "b", "fish");
    add_text(s, "c", "fish fish");
    keep(s, MODEL);
    begin_prompt(s, "", 1, "fish", 3, MODEL);
    assert_true(count_known() >= 3);
    lutra_recall_close(&p.recall);
    OK(lutra_recall_open(&p.recall, s, model, MODEL, p.found, other, 3, &err));
    assert_null(lutra_recall_known(p.recall));
    lutra_recall_close(&p.recall);
    OK(lutra_recall_open(&p.recall, s, model, MODEL, NULL, other, 3, &err));
    assert_null(lutra_recall_known(p.recall));
    OK(lutra_recall_save(p.recall, &err));
    lutra_recall_close(&p.recall);
    assert_int_equal(lutra_recall_open(&p.recall, s, model, MODEL, p.found, other, 0, &err), LUTRA_E_ARGUMENT);
    end_prompt();
    lutra_store_close(&s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        TEST(hints_come_back_anywhere),
        TEST(other_models_have_their_own),
        TEST(half_of_a_passage_is_nothing),
        TEST(damaged_hints_are_not_used),
        TEST(hints_go_with_what_they_may_tell),
        TEST(nothing_is_kept_of_what_has_left),
        TEST(odd_passages),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
