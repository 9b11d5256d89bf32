/* SPDX-License-Identifier: MIT
 *
 * Drafts from a store: what is guessed, and that the files beside it follow what the store has.
 */
#include "rag_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "lutra.h"
#include "rag/segments.h"

static lutra_runtime *runtime;
static lutra_model *model;
static struct lutra_error err;

static int open_model(void **state)
{
    (void)state;
    struct lutra_model_settings set;
    lutra_model_settings_init(&set, sizeof set);
    set.vocab_only = true;
    if (lutra_runtime_open(&runtime, NULL, &err) < 0) return -1;
    return lutra_model_open(&model, runtime, LUTRA_SOURCE_DIR "/models/abacus-1m-f16.gguf", &set, &err);
}

static int close_model(void **state)
{
    (void)state;
    lutra_model_close(&model);
    lutra_runtime_close(&runtime);
    return 0;
}

static uint64_t random_state = 5;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static lutra_drafts *open_drafts(lutra_store *s)
{
    lutra_drafts *d = NULL;
    OK(lutra_drafts_open(&d, s, model, NULL, NULL, &err));
    return d;
}

static struct lutra_drafts_stats stats_of(const lutra_drafts *d)
{
    struct lutra_drafts_stats st;
    lutra_drafts_stats_get(d, &st, sizeof st);
    return st;
}

static int tokens_of(const char *text, int32_t *token, int n_max)
{
    int n;
    OK(lutra_tokenize(model, text, strlen(text), 0, token, n_max, &n, &err));
    assert_true(n <= n_max);
    return n;
}

/* Its first path as text. */
static void guess(lutra_drafts *d, const char *text, int sample, char *out, size_t n_out)
{
    int32_t token[4000], path[64];
    struct lutra_draft draft[64];
    char *said = NULL;
    struct lutra_draft_tip tip = {
        .request = 1, .sample = sample, .token = token, .n_token = tokens_of(text, token, 4000)};
    int n = lutra_drafts_guess(d, &tip, draft, 64), n_path = 0;
    for (int at = -1, i = 0; i < n; i++) {
        assert_true(draft[i].parent < i && draft[i].p > 0 && draft[i].p <= 1);
        if (draft[i].parent != at) continue;
        path[n_path++] = draft[i].token;
        at = i;
    }
    OK(lutra_detokenize(model, path, n_path, false, &said, NULL, &err));
    snprintf(out, n_out, "%s", said);
    lutra_free(said);
}

static void assert_guess(lutra_drafts *d, const char *text, const char *begin)
{
    char said[400];
    static int sample;
    guess(d, text, ++sample, said, sizeof said);
    if (strncmp(said, begin, strlen(begin)) != 0) fail_msg("behind '%s': '%s', not '%s'", text, said, begin);
}

/* A long text of words that no other one has. */
static char *long_text(const char *mark, int n)
{
    char *text = malloc((size_t)n * 32 + 1);
    size_t at = 0;
    for (int i = 0; i < n; i++) at += (size_t)sprintf(text + at, "%s %u apples, ", mark, random_below(100000));
    return text;
}

static int count_files(void)
{
    char path[128];
    int n = 0;
    snprintf(path, sizeof path, "%s-tokens", store_path);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) n += e->d_name[0] != '.';
    if (dir) closedir(dir);
    return n;
}

static bool is_in_folder(const char *path, const void *needle, size_t n_needle)
{
    bool found = false;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char name[500];
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        FILE *f = e->d_type == DT_REG ? fopen(name, "rb") : NULL;
        if (!f) continue;
        fseek(f, 0, SEEK_END);
        size_t n = (size_t)ftell(f);
        char *bytes = malloc(n + 1);
        rewind(f);
        assert_int_equal(fread(bytes, 1, n, f), n);
        found |= memmem(bytes, n, needle, n_needle) != NULL;
        free(bytes);
        fclose(f);
    }
    if (dir) closedir(dir);
    return found;
}

enum { TEXT_IN_FILES = 1, TOKENS_IN_FILES = 2 };

/* Which of a text is in any file of the store. */
static int in_files(const char *text)
{
    char path[128];
    int32_t token[64];
    int n = tokens_of(text, token, 64);
    for (int i = 0; i < n; i++) token[i]++;
    snprintf(path, sizeof path, "%s-tokens", store_path);
    return is_in_folder(folder, text, strlen(text)) + 2 * is_in_folder(path, token, (size_t)n * sizeof *token);
}

/* ---- guesses ---- */

static void the_longest_match_is_continued(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    add_text(s, "a", "The number of red boxes is twelve. Then Anna has nine pears.");
    add_text(s, "b", "The number of blue boxes is seventy. Then Tom has four coins.");
    lutra_drafts *d = open_drafts(s);
    assert_guess(d, "What do you know? The number of red boxes", " is twelve. Then Anna");
    assert_guess(d, "What do you know? The number of blue boxes", " is seventy. Then Tom");
    assert_guess(d, "has nine pears", "."); /* and not into the next text */
    struct lutra_drafts_stats st = stats_of(d);
    assert_int_equal(st.n_text, 2);
    assert_true(st.n_tok > 20);
    lutra_drafts_close(&d);
    lutra_store_close(&s);
}

static void continuations_count(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char name[8] = "a";
    for (int i = 0; i < 5; i++, name[0]++) add_text(s, name, i < 3 ? "zebra has 7 cards" : "zebra has 4 coins");
    lutra_drafts *d = open_drafts(s);
    int32_t seven[64], four[64];
    struct lutra_draft draft[16];
    struct lutra_draft_tip tip = {.request = 1, .token = seven};
    tokens_of("zebra has 7 cards", seven, 64);
    tokens_of("zebra has 4 coins", four, 64);
    while (seven[tip.n_token] == four[tip.n_token]) tip.n_token++;
    int n = lutra_drafts_guess(d, &tip, draft, 16), children = 0;
    float share[2] = {0};
    for (int i = 0; i < n; i++) {
        if (draft[i].parent != -1) continue;
        children++;
        if (draft[i].token == seven[tip.n_token]) share[0] = draft[i].p;
        if (draft[i].token == four[tip.n_token]) share[1] = draft[i].p;
    }
    assert_int_equal(children, 2);
    assert_float_equal(share[0] / share[1], 1.5f, 1e-4f); /* 3 of 5 and 2 of 5 */
    lutra_drafts_close(&d);
    lutra_store_close(&s);
}

/* Of all segments together: the most frequent first, equal ones by their number, none that does not occur. */
static void frequent_tokens_come_first(void **state)
{
    (void)state;
    enum { N_VOCAB = 1024 };
    int32_t few[3], likely[N_VOCAB];
    int64_t count[N_VOCAB + 1] = {0}; /* of symbols */
    struct segments all;
    char *many = long_text("boxes of", 6000);
    lutra_store *s = open_store();
    lutra_drafts *d = open_drafts(s);
    assert_int_equal(lutra_drafts_likely(d, likely, N_VOCAB, &err), 0);
    lutra_drafts_close(&d);
    add_text(s, "many", many);
    d = open_drafts(s); /* becomes a file; what comes now is in memory */
    lutra_drafts_close(&d);
    add_text(s, "few", "Anna has pears. ");
    d = open_drafts(s);
    OK(segments_open(&all, s, model, NULL, NULL, &err));
    assert_int_equal(all.n, 2);
    for (int i = 0; i < all.n; i++)
        for (int32_t k = 0; k < all.at[i].tokens.n; k++) count[all.at[i].tokens.symbol[k]]++;
    int n = lutra_drafts_likely(d, likely, N_VOCAB, &err);
    assert_in_range(n, 10, N_VOCAB - 1);
    for (int i = 0; i < n; i++) {
        int64_t more = i ? count[likely[i - 1] + 1] - count[likely[i] + 1] : 1;
        assert_true(count[likely[i] + 1] > 0 && (more > 0 || (more == 0 && likely[i - 1] < likely[i])));
    }
    int n_used = 0;
    for (int k = 1; k <= N_VOCAB; k++) n_used += count[k] > 0;
    assert_int_equal(n, n_used);
    assert_int_equal(lutra_drafts_likely(d, few, 3, &err), 3);
    assert_memory_equal(few, likely, sizeof few);
    segments_close(&all);
    lutra_drafts_close(&d);
    lutra_store_close(&s);
    free(many);
}

/* A guess names its kind and that kind's rate; who has seen how often it is right says so with the tip. */
static void guesses_go_by_the_rates_of_their_kinds(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char *text = long_text("Sam has", 400);
    add_text(s, "a", text);
    lutra_drafts *d = open_drafts(s);
    int32_t token[4000];
    float rate[LUTRA_DRAFT_KINDS] = {0};
    struct lutra_draft first[16], again[16];
    tokens_of(text, token, 4000);
    struct lutra_draft_tip tip = {.token = token, .n_token = 40};
    int n = lutra_drafts_guess(d, &tip, first, 16);
    assert_int_equal(n, 16);
    for (int i = 0; i < n; i++) {
        assert_in_range(first[i].kind, 1, LUTRA_DRAFT_KINDS);
        assert_true(first[i].rate > 0 && first[i].rate <= 1);
    }
    tip.rate = rate; /* nothing is known: the same */
    assert_int_equal(lutra_drafts_guess(d, &tip, again, 16), n);
    assert_memory_equal(again, first, sizeof first);
    for (int k = 0; k < LUTRA_DRAFT_KINDS; k++) rate[k] = 0.01f; /* paths of that little are not looked into */
    assert_int_equal(lutra_drafts_guess(d, &tip, again, 16), 0);
    rate[first[0].kind - 1] = 0.9f;
    assert_in_range(lutra_drafts_guess(d, &tip, again, 16), 1, 15);
    assert_memory_equal(again, first, sizeof *first);
    free(text);
    lutra_drafts_close(&d);
    lutra_store_close(&s);
}

/* ---- files ---- */

static void files_follow_the_store(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char *a = long_text("Sam", 6000), *b = long_text("Tom", 3000), *c = long_text("Ann", 6000);
    add_text(s, "/d/a", a);
    lutra_drafts *d = open_drafts(s);
    assert_int_equal(count_files(), 1);
    struct lutra_drafts_stats first = stats_of(d);
    assert_true(first.n_tok > 16384 && first.segment_bytes <= 10 * (uint64_t)first.n_tok);
    lutra_drafts_close(&d);
    add_text(s, "/d/b", "only a few words");
    d = open_drafts(s); /* in memory beside the file */
    assert_int_equal(count_files(), 1);
    assert_int_equal(stats_of(d).n_segment, 2);
    assert_guess(d, "only a few", " words");
    lutra_drafts_close(&d);
    add_text(s, "/d/c", c); /* as large as the first: both become one */
    d = open_drafts(s);
    assert_int_equal(count_files(), 1);
    assert_int_equal(stats_of(d).n_segment, 1);
    assert_int_equal(stats_of(d).n_text, 3);
    struct lutra_store_stats st;
    OK(lutra_store_stats_get(s, &st, sizeof st, &err));
    assert_int_equal(st.token_bytes, stats_of(d).segment_bytes);
    lutra_drafts_close(&d);
    add_text(s, "/d/a", b); /* replaced */
    d = open_drafts(s);
    assert_int_equal(stats_of(d).n_text, 3);
    assert_true(stats_of(d).n_tok < first.n_tok * 2);
    lutra_drafts_close(&d);
    OK(lutra_store_remove(s, "/d", NULL, &err));
    d = open_drafts(s);
    assert_int_equal(stats_of(d).n_text, 0);
    assert_int_equal(count_files(), 0);
    assert_guess(d, "only a few", "");
    lutra_drafts_close(&d);
    lutra_store_close(&s);
    free(a), free(b), free(c);
}

static void no_token_stays_behind_compact(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char *a = long_text("Sam", 6000);
    const char *secret = "Zoe 31 yellow marbles, 99 bags";
    add_text(s, "keep", a);
    add_text(s, "drop", secret);
    struct lutra_exchange e;
    lutra_exchange_init(&e, sizeof e);
    lutra_passages *p = find_text(s, "yellow marbles", 1);
    e.question = "what", e.answer = "Kim 77 purple tents", e.passages = p;
    e.n_question = 4, e.n_answer = strlen(e.answer);
    OK(lutra_store_commit(s, &e, &err));
    lutra_passages_close(&p);
    lutra_drafts *d = open_drafts(s);
    assert_guess(d, "Zoe 31 yellow", " marbles");
    assert_guess(d, "Kim 77 purple", " tents");
    lutra_drafts_close(&d);
    assert_int_equal(in_files(secret), TEXT_IN_FILES | TOKENS_IN_FILES);
    assert_int_equal(in_files(e.answer), TEXT_IN_FILES | TOKENS_IN_FILES);
    OK(lutra_store_remove(s, "drop", NULL, &err));
    OK(lutra_store_compact(s, NULL, NULL, &err));
    assert_int_equal(in_files(secret), 0);
    assert_int_equal(in_files(e.answer), 0);
    assert_int_equal(count_files(), 1);
    d = open_drafts(s);
    assert_int_equal(stats_of(d).n_text, 1);
    assert_int_equal(stats_of(d).n_segment, 1);
    lutra_drafts_close(&d);
    lutra_store_close(&s);
    free(a);
}

/* The one file: its path. */
static void file_path(char out[300])
{
    char path[128];
    snprintf(path, sizeof path, "%s-tokens", store_path);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.') snprintf(out, 300, "%s/%.150s", path, e->d_name);
    closedir(dir);
}

static void a_locked_folder_is_left_alone(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char *a = long_text("Sam", 6000), path[128];
    add_text(s, "a", a);
    snprintf(path, sizeof path, "%s-tokens", store_path);
    assert_int_equal(mkdir(path, 0700), 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    lutra_drafts *d = open_drafts(s);
    assert_int_equal(count_files(), 0);
    assert_int_equal(stats_of(d).n_text, 1);
    lutra_drafts_close(&d);
    close(fd);
    d = open_drafts(s);
    assert_int_equal(count_files(), 1);
    lutra_drafts_close(&d);
    lutra_store_close(&s);
    free(a);
}

static void mend_sum(char *bytes, size_t n)
{
    struct segment_head head;
    memcpy(&head, bytes, sizeof head);
    head.sum = 0;
    head.sum = hash_bytes(hash_bytes(0, &head, sizeof head), bytes + sizeof head, n - sizeof head);
    memcpy(bytes, &head, sizeof head);
}

/* Any file in the place of a segment: opened as it was, or made anew; with right sums it may hold anything. */
static void damaged_segments_are_made_anew(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char *a = long_text("Sam", 3500), path[300];
    add_text(s, "a", a);
    lutra_drafts *d = open_drafts(s);
    struct lutra_drafts_stats want = stats_of(d);
    lutra_drafts_close(&d);
    file_path(path);
    FILE *f = fopen(path, "rb");
    size_t n = want.segment_bytes;
    char *whole = malloc(n), *copy = malloc(n);
    assert_int_equal(fread(whole, 1, n, f), n);
    fclose(f);
    struct lutra_model_info info;
    lutra_model_info_get(model, &info, sizeof info);
    struct lutra_draft draft[64];
    int32_t tokens[4000], n_vocab = info.n_vocab;
    int n_token, rounds = getenv("LUTRA_TEST_LONG") ? 5000 : 200;
    OK(lutra_tokenize(model, a, strlen(a), 0, tokens, 4000, &n_token, &err));
    n_token = 4000;
    for (int i = 0; i < rounds; i++) {
        size_t keep = n;
        memcpy(copy, whole, n);
        size_t from = i % 3 ? 0 : sizeof(struct segment_head), most = i % 2 ? n : 120;
        if (i % 5 == 0) keep = random_below((uint32_t)n);
        if (i % 5 > 1) copy[from + random_below((uint32_t)(most - from))] ^= (char)(1 << random_below(8));
        if (i % 5 == 1) memset(copy + random_below((uint32_t)n - 99), (int)random_below(256), 99);
        if (i % 5 != 0) mend_sum(copy, n);
        f = fopen(path, "wb");
        fwrite(copy, 1, keep, f);
        fclose(f);
        d = open_drafts(s);
        assert_int_equal(stats_of(d).n_tok, want.n_tok);
        for (int k = 0; k < 20; k++) {
            int32_t token[2] = {tokens[random_below((uint32_t)n_token)], tokens[random_below((uint32_t)n_token)]};
            struct lutra_draft_tip tip = {.request = 1, .sample = k, .token = token, .n_token = 1 + k % 2};
            for (int m = lutra_drafts_guess(d, &tip, draft, 64); m > 0; m--)
                assert_in_range(draft[m - 1].token, 0, n_vocab - 1);
        }
        lutra_drafts_close(&d);
        assert_int_equal(count_files(), 1);
        file_path(path);
    }
    free(a), free(whole), free(copy);
    lutra_store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_longest_match_is_continued, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(continuations_count, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(frequent_tokens_come_first, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(guesses_go_by_the_rates_of_their_kinds, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(files_follow_the_store, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(no_token_stays_behind_compact, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_locked_folder_is_left_alone, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(damaged_segments_are_made_anew, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
