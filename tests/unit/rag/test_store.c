/* SPDX-License-Identifier: MIT */
#include "rag_fixture.h"

#include <fcntl.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "rag/query.h"
#include "rag/rag_impl.h"
#include "sanitized.h"

static struct lutra_error err;

/* ---- documents ---- */

static void documents_are_added_replaced_and_removed(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    struct lutra_store_stats st;
    int64_t n;
    assert_int_equal(add_text(s, "/d/a.txt", "The otter swims in the river."), LUTRA_ADDED);
    assert_int_equal(add_text(s, "/d/a.txt", "The otter swims in the river."), LUTRA_UNCHANGED);
    assert_int_equal(add_text(s, "/d/b.txt", "A badger digs."), LUTRA_ADDED);
    assert_int_equal(add_text(s, "/dx", "An owl."), LUTRA_ADDED);
    assert_int_equal(count_found(s, "otter"), 1);
    assert_int_equal(add_text(s, "/d/a.txt", "The heron waits."), LUTRA_REPLACED);
    assert_int_equal(count_found(s, "otter"), 0);
    assert_int_equal(count_found(s, "HERON"), 1);
    OK(lutra_store_stats_get(s, &st, sizeof st, &err));
    assert_int_equal(st.n_document, 3);
    assert_int_equal(st.n_chunk, 3);
    assert_int_equal(st.text_bytes, strlen("The heron waits.A badger digs.An owl."));
    OK(lutra_store_check(s, &err));
    OK(lutra_store_remove(s, "/nowhere", &n, &err));
    assert_int_equal(n, 0);
    OK(lutra_store_remove(s, "/d", &n, &err)); /* what is below it, not what begins like it */
    assert_int_equal(n, 2);
    assert_int_equal(count_found(s, "owl"), 1);
    assert_int_equal(count_found(s, "heron badger"), 0);
    OK(lutra_store_check(s, &err));
    lutra_store_close(&s);
}

static void chunks_say_where_they_are_in_the_file(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    struct text t = {0};
    char line[64];
    for (int i = 0; i < 200; i++)
        text_add(&t, line, (size_t)sprintf(line, "Line %d speaks of word%d.\n%s", i, i, i % 7 ? "" : "\n"));
    add_text(s, "long.txt", t.bytes);
    uint64_t covered = 0;
    for (int i = 0; i < 200; i++) {
        sprintf(line, "word%d", i);
        lutra_passages *p = find_text(s, line, 5);
        assert_int_equal(lutra_passages_count(p), 1);
        const struct lutra_passage *a = lutra_passages_at(p, 0);
        assert_string_equal(a->name, "long.txt");
        assert_true(a->n_bytes == a->end - a->begin && a->n_bytes <= 1000);
        assert_memory_equal(a->text, t.bytes + a->begin, a->n_bytes);
        assert_non_null(strstr(a->text, line));
        if (a->end > covered) covered = a->end;
        lutra_passages_close(&p);
    }
    assert_int_equal(covered, t.n);
    text_fini(&t);
    lutra_store_close(&s);
}

static int count_documents(void *user, const struct lutra_stored *d)
{
    int *n = user;
    assert_true(d->n_bytes > 0 && d->n_chunk == 1 && d->added > 1600000000);
    assert_string_equal(d->kind, *n ? "markdown" : "text");
    return ++*n > 2;
}

static void bad_documents_are_refused_by_name(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    struct lutra_document d;
    struct lutra_store_stats st;
    int n = 0;
    lutra_document_init(&d, sizeof d);
    d.name = "bin";
    d.bytes = "a\0b";
    d.n_bytes = 3;
    assert_int_equal(lutra_store_add(s, &d, NULL, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "bin: not added: it is binary"));
    d.text = "converted words";
    d.n_text = strlen(d.text);
    OK(lutra_store_add(s, &d, NULL, &err));
    d.text = NULL;
    d.kind = "roff";
    assert_int_equal(lutra_store_add(s, &d, NULL, &err), LUTRA_E_ARGUMENT);
    d.kind = NULL;
    d.name = "bad\xFF";
    assert_int_equal(lutra_store_add(s, &d, NULL, &err), LUTRA_E_ARGUMENT);
    d.name = "";
    assert_int_equal(lutra_store_add(s, &d, NULL, &err), LUTRA_E_ARGUMENT);
    add_text(s, "x.md", "# x");
    OK(lutra_store_list(s, count_documents, &n, &err));
    assert_int_equal(n, 2);
    assert_int_equal(count_found(s, "converted"), 1);
    OK(lutra_store_stats_get(s, &st, sizeof st, &err));
    assert_int_equal(st.n_document, 2);
    lutra_store_close(&s);
}

static int cancel(void *user, const char *stage, uint64_t done, uint64_t total)
{
    (void)user, (void)stage;
    return done * 2 > total;
}

static void a_cancelled_document_changes_nothing(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    struct lutra_document d;
    char *text = malloc(1000001);
    memset(text, 'x', 1000000);
    for (int i = 0; i < 1000000; i += 50) text[i] = ' ';
    text[1000000] = 0;
    add_text(s, "a", "the older text");
    lutra_document_init(&d, sizeof d);
    d.name = "a";
    d.bytes = text;
    d.n_bytes = 1000000;
    d.progress = cancel;
    assert_int_equal(lutra_store_add(s, &d, NULL, &err), LUTRA_E_CANCELLED);
    assert_int_equal(count_found(s, "older"), 1);
    OK(lutra_store_check(s, &err));
    free(text);
    lutra_store_close(&s);
}

/* ---- search ---- */

static uint64_t random_state = 1;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

/* Word k is about as frequent as 1 / (k + 1): the first ones stand in most chunks. */
static void add_words(struct text *t, int n)
{
    char word[16];
    for (int i = 0; i < n; i++) {
        uint32_t k = random_below(1u << random_below(11));
        text_add(t, word, (size_t)sprintf(word, "w%u ", k));
    }
}

/* The same search by FTS5 alone. */
static void expect_fts5_order(lutra_store *s, const char *words, int n)
{
    struct query q;
    struct text expression = {0};
    sqlite3_stmt *stmt;
    assert_true(query_read(&q, words, strlen(words)));
    for (int i = 0; i < q.n; i++) {
        if (i) text_add(&expression, " OR ", 4);
        text_add(&expression, q.text.bytes + q.phrase[i], strlen(q.text.bytes + q.phrase[i]));
    }
    assert_int_equal(
        sqlite3_prepare_v2(
            s->db, "SELECT rowid, bm25(words) FROM words WHERE words MATCH ?1 ORDER BY 2, 1 LIMIT ?2", -1, &stmt, NULL),
        SQLITE_OK);
    sqlite3_bind_text(stmt, 1, expression.bytes, -1, SQLITE_STATIC);
    sqlite3_bind_int(stmt, 2, n);
    lutra_passages *p = find_text(s, words, n);
    int i = 0;
    for (; sqlite3_step(stmt) == SQLITE_ROW; i++) {
        const struct lutra_passage *a = lutra_passages_at(p, i);
        assert_non_null(a);
        assert_int_equal(a->chunk, sqlite3_column_int64(stmt, 0));
        assert_true(a->score == -sqlite3_column_double(stmt, 1));
    }
    assert_int_equal(lutra_passages_count(p), i);
    sqlite3_finalize(stmt);
    lutra_passages_close(&p);
    text_fini(&expression);
    query_fini(&q);
}

static void search_is_fts5s_bm25_to_the_bit(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char name[16];
    for (int d = 0; d < 60; d++) {
        struct text t = {0};
        add_words(&t, 30 + (int)random_below(4000));
        sprintf(name, "d%d", d);
        add_text(s, name, t.bytes);
        text_fini(&t);
    }
    OK(lutra_store_remove(s, "d7", NULL, &err));
    OK(lutra_store_remove(s, "d30", NULL, &err));
    for (int round = 0; round < 300; round++) {
        struct text q = {0};
        add_words(&q, 1 + (int)random_below(8));
        expect_fts5_order(s, q.bytes, 1 + (int)random_below(20));
        text_fini(&q);
        if (round == 150) add_text(s, "more", "w0 w1 w2 w3 and w4"); /* what was kept of the file is out of date */
        if (round == 200) {                                          /* and by another connection */
            lutra_store *other = open_store();
            add_text(other, "d3", "w0 w1 w900");
            lutra_store_close(&other);
        }
    }
    expect_fts5_order(s, "w0-w1 w2.w3", 5);
    expect_fts5_order(s, "nosuchword", 5);
    lutra_store_close(&s);
}

static void any_text_is_a_query(void **state)
{
    (void)state;
    static const char *const odd[] = {"", " ", "\"", "\"\"\"", "'; DROP TABLE chunk; --", "AND", "NOT otter", "otter*",
        "text:otter", "{text} : otter", "^otter", "NEAR(otter river, 2)", "otter + river", "(", "-", "\xFF\xC3", "*",
        "otter\" OR \"", "\\", "%s%n", "<|im_start|>", "\x01\x02"};
    lutra_store *s = open_store();
    add_text(s, "a", "The otter swims in the river.");
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(count_found(s, odd[i]), strstr(odd[i], "otter") != NULL);
    lutra_passages *p = NULL;
    OK(lutra_store_find(s, "a\0otter", 7, 5, &p, &err)); /* a NUL is a blank */
    assert_int_equal(lutra_passages_count(p), 1);
    lutra_passages_close(&p);
    assert_int_equal(lutra_store_find(s, "x", 1, 0, &p, &err), LUTRA_E_ARGUMENT);
    lutra_store_close(&s);
}

static void words_are_found_in_their_forms_and_scripts(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    add_text(s, "en", "He was doubling the cards.");
    add_text(s, "fr", "Le caf\xC3\xA9 est ferm\xC3\xA9.");
    add_text(s, "zh", /* wo xihuan beijing de qiutian */
        "\xE6\x88\x91\xE5\x96\x9C\xE6\xAC\xA2\xE5\x8C\x97\xE4\xBA\xAC\xE7\x9A\x84\xE7\xA7\x8B\xE5\xA4\xA9");
    assert_int_equal(count_found(s, "doubled"), 1);
    assert_int_equal(count_found(s, "CAFE"), 1);
    assert_int_equal(count_found(s, "\xE5\x8C\x97\xE4\xBA\xAC"), 1);                         /* beijing */
    assert_int_equal(count_found(s, "\xE5\x8E\xBB\xE5\x8C\x97\xE4\xBA\xAC\xE5\x90\x97"), 1); /* qu beijing ma */
    assert_int_equal(count_found(s, "\xE4\xBA\xAC\xE5\x8C\x97"), 0);                         /* jingbei */
    lutra_store_close(&s);
}

/* ---- the message ---- */

static void messages_have_passages_in_a_stable_order(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char *text = NULL, *again = NULL;
    add_text(s, "/x/one.txt", "Otters swim.\n");
    add_text(s, "/x/two.txt", "Otters otters otters.");
    lutra_passages *p = find_text(s, "otters", 5);
    assert_int_equal(lutra_passages_count(p), 2);
    assert_string_equal(lutra_passages_at(p, 0)->name, "/x/two.txt");
    OK(lutra_passages_message(p, NULL, 0, 1, "Who swims?", 10, &text, &err));
    assert_string_equal(
        text, "Passages:\n\n[1] one.txt\nOtters swim.\n\n[2] two.txt\nOtters otters otters.\n\nWho swims?");
    OK(lutra_passages_message(p, (int[]){1, 0}, 2, 1, "Who swims?", 10, &again, &err));
    assert_string_equal(text, again);
    lutra_free(again);
    lutra_free(text);
    OK(lutra_passages_message(p, (int[]){0}, 1, 3, "?", 1, &text, &err));
    assert_string_equal(text, "Passages:\n\n[3] two.txt\nOtters otters otters.\n\n?");
    lutra_free(text);
    OK(lutra_passages_message(p, (int[]){0}, 0, 1, "alone", 5, &text, &err));
    assert_string_equal(text, "alone");
    lutra_free(text);
    assert_int_equal(lutra_passages_message(p, (int[]){2}, 1, 1, "?", 1, &text, &err), LUTRA_E_ARGUMENT);
    lutra_passages_close(&p);
    lutra_store_close(&s);
}

/* ---- exchanges ---- */

static int see_exchange(void *user, const struct lutra_stored_exchange *e)
{
    int *n = user;
    ++*n;
    assert_int_equal(e->n_question, strlen(e->question));
    if (*n == 1) assert_string_equal(e->question, "Who? \xEF\xBF\xBD x");
    return 0;
}

static int count_exchanges(lutra_store *s)
{
    int n = 0;
    OK(lutra_store_history(s, see_exchange, &n, &err));
    return n;
}

static void exchanges_are_kept_until_their_documents_go(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    struct lutra_exchange e;
    add_text(s, "a", "Otters swim.");
    lutra_passages *p = find_text(s, "otters", 5);
    lutra_exchange_init(&e, sizeof e);
    e.question = "Who?\0\xFF x";
    e.n_question = 8;
    e.answer = "Nobody.";
    e.n_answer = 7;
    OK(lutra_store_commit(s, &e, &err));
    e.question = "Who swims?";
    e.n_question = 10;
    e.passages = p;
    OK(lutra_store_commit(s, &e, &err));
    assert_int_equal(count_exchanges(s), 2);
    OK(lutra_store_remove(s, "a", NULL, &err));
    assert_int_equal(count_exchanges(s), 1);
    OK(lutra_store_commit(s, &e, &err)); /* its documents are gone meanwhile */
    OK(lutra_store_forget(s, &err));
    assert_int_equal(count_exchanges(s), 0);
    lutra_passages_close(&p);
    lutra_store_close(&s);
}

/* ---- files that are no stores ---- */

static void write_file(const char *bytes, size_t n)
{
    int fd = open(store_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

static void expect_no_store(int code, const char *text)
{
    lutra_store *s = NULL;
    assert_int_equal(lutra_store_open(&s, store_path, NULL, &err), code);
    assert_null(s);
    assert_non_null(strstr(err.what, store_path));
    if (!strstr(err.what, text)) fail_msg("'%s' is not in '%s'", text, err.what);
}

static void run_sql(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void other_files_are_refused_by_name(void **state)
{
    (void)state;
    struct lutra_store_settings set;
    lutra_store *s = NULL;
    lutra_store_settings_init(&set, sizeof set);
    set.must_exist = true;
    assert_int_equal(lutra_store_open(&s, store_path, &set, &err), LUTRA_E_NOT_FOUND);
    assert_int_equal(access(store_path, F_OK), -1);
    assert_int_equal(lutra_store_open(&s, "/nowhere/x.db", NULL, &err), LUTRA_E_IO);
    assert_int_equal(lutra_store_open(&s, folder, NULL, &err), LUTRA_E_IO);
    set.chunk_bytes = 3;
    assert_int_equal(lutra_store_open(&s, store_path, &set, &err), LUTRA_E_ARGUMENT);
    write_file("just a text file, longer than a header of SQLite would be.......................................", 92);
    expect_no_store(LUTRA_E_FORMAT, "not a Lutra store");
    unlink(store_path);
    run_sql("CREATE TABLE x(y)");
    expect_no_store(LUTRA_E_FORMAT, "another program");
    unlink(store_path);
    write_file("", 0); /* an empty file becomes a store */
    s = open_store();
    lutra_store_close(&s);
    struct stat st;
    assert_int_equal(stat(store_path, &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
    run_sql("PRAGMA user_version=7");
    expect_no_store(LUTRA_E_UNSUPPORTED, "newer Lutra (schema 7; this one knows 3)");
    run_sql("PRAGMA user_version=1");
    expect_no_store(LUTRA_E_FORMAT, "it has 'lengths'");
    run_sql("PRAGMA user_version=3; CREATE VIEW evil AS SELECT 1");
    expect_no_store(LUTRA_E_FORMAT, "evil");
    run_sql("DROP VIEW evil; DROP TABLE source");
    expect_no_store(LUTRA_E_FORMAT, "a table is missing");
    run_sql("CREATE TABLE source(exchange)");
    expect_no_store(LUTRA_E_FORMAT, "'source' is not as Lutra makes it");
}

/* A store of the first Lutra: opened, it has what it lacked, and finds what it found; then an older one would refuse
 * it. */
static void an_older_store_is_brought_up_to_date(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    int64_t version;
    char name[16];
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "d%d", i);
        add_text(s, name, i % 3 ? "the otter and the heron" : "the owl, which is longer than all of these others");
    }
    OK(lutra_store_remove(s, "d7", NULL, &err));
    lutra_passages *want = find_text(s, "the otter owl", 20);
    lutra_store_close(&s);
    run_sql("DROP TABLE lengths; DROP TABLE hint; PRAGMA user_version=1");
    for (int again = 0; again < 2; again++) {
        s = open_store();
        OK(lutra_store_check(s, &err));
        OK(sql_number(s, "PRAGMA user_version", &version, &err));
        assert_int_equal(version, 3);
        lutra_passages *got = find_text(s, "the otter owl", 20);
        assert_int_equal(lutra_passages_count(got), 20);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(lutra_passages_at(got, i)->chunk, lutra_passages_at(want, i)->chunk);
            assert_true(lutra_passages_at(got, i)->score == lutra_passages_at(want, i)->score);
        }
        lutra_passages_close(&got);
        lutra_store_close(&s);
    }
    lutra_passages_close(&want);
}

/* What is read instead of the index's own lengths: wrong ones are found, and compact makes them anew. */
static void wrong_lengths_are_found(void **state)
{
    static const char *const harm[] = {"DELETE FROM lengths", "UPDATE lengths SET n=zeroblob(4000)",
        "UPDATE lengths SET n=zeroblob(17)", "INSERT INTO lengths VALUES(5, randomblob(4000))",
        "INSERT INTO lengths VALUES(-1, randomblob(4000))"};
    (void)state;
    lutra_store *s = open_store();
    add_text(s, "a", "the otter and the heron");
    lutra_store_close(&s);
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        run_sql(harm[i]);
        s = open_store();
        assert_int_equal(lutra_store_check(s, &err), LUTRA_E_FORMAT);
        assert_non_null(strstr(err.what, "lengths of chunks"));
        OK(lutra_store_compact(s, NULL, NULL, &err));
        OK(lutra_store_check(s, &err));
        assert_int_equal(count_found(s, "otter"), 1);
        lutra_store_close(&s);
    }
}

static uint64_t most_memory_bytes(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (uint64_t)use.ru_maxrss * 1024;
}

/* One line of 8 MB, of 100 MB in a long test, of words and of one word: chunks as ever, in memory that does not grow
 * with it beyond its own. */
static void a_line_of_any_length_is_taken(void **state)
{
    (void)state;
    size_t n = getenv("LUTRA_TEST_LONG") ? 100000000 : 8000000, at = 0;
    char *line = malloc(n + 32);
    struct lutra_document d;
    struct lutra_store_stats st;
    struct timespec t[2];
    assert_non_null(line);
    for (uint32_t i = 0; at < n / 2; i++) at += (size_t)sprintf(line + at, "w%u ", random_below(1u << i % 20));
    for (; at < n; at++) line[at] = (char)('a' + random_below(26));
    memcpy(line + n / 4, " otter ", 7);
    lutra_store *s = open_store();
    lutra_document_init(&d, sizeof d);
    d.name = "line";
    d.bytes = line;
    d.n_bytes = n;
    uint64_t before = most_memory_bytes();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[0]);
    OK(lutra_store_add(s, &d, NULL, &err));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[1]);
    uint64_t more = most_memory_bytes() - before;
    print_message("a line of %zu bytes: %.1f s of the processor, %.1f MB more memory\n", n,
        (double)(t[1].tv_sec - t[0].tv_sec) + (double)(t[1].tv_nsec - t[0].tv_nsec) * 1e-9, (double)more * 1e-6);
    if (!SANITIZED) assert_true(more < 48u << 20);
    OK(lutra_store_stats_get(s, &st, sizeof st, &err));
    assert_int_equal(st.text_bytes, n);
    assert_in_range(st.n_chunk, n / 1000, n / 500);
    assert_int_equal(count_found(s, "otter"), 1);
    lutra_store_close(&s);
    free(line);
}

static void a_locked_store_is_busy_not_broken(void **state)
{
    (void)state;
    struct lutra_store_settings set;
    lutra_store *a = open_store(), *b = NULL;
    struct lutra_document d;
    lutra_store_settings_init(&set, sizeof set);
    set.busy_us = 20000;
    OK(lutra_store_open(&b, store_path, &set, &err));
    assert_int_equal(sqlite3_exec(a->db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    lutra_document_init(&d, sizeof d);
    d.name = "x";
    d.bytes = "words";
    d.n_bytes = 5;
    assert_int_equal(lutra_store_add(b, &d, NULL, &err), LUTRA_E_BUSY);
    assert_non_null(strstr(err.what, "store.db: locked by another program"));
    assert_int_equal(count_found(b, "words"), 0); /* reading goes on */
    assert_int_equal(sqlite3_exec(a->db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    OK(lutra_store_add(b, &d, NULL, &err));
    assert_int_equal(count_found(a, "words"), 1);
    lutra_store_close(&a);
    lutra_store_close(&b);
}

static void a_full_disk_is_named_and_loses_nothing(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    add_text(s, "kept", "the otter");
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_prepare_v2(s->db, "PRAGMA max_page_count=30", -1, &stmt, NULL), SQLITE_OK);
    sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    struct text t = {0};
    add_words(&t, 100000);
    struct lutra_document d;
    lutra_document_init(&d, sizeof d);
    d.name = "large";
    d.bytes = t.bytes;
    d.n_bytes = t.n;
    assert_int_equal(lutra_store_add(s, &d, NULL, &err), LUTRA_E_IO);
    assert_non_null(strstr(err.what, "store.db: the disk is full"));
    assert_int_equal(count_found(s, "otter"), 1);
    OK(lutra_store_check(s, &err));
    text_fini(&t);
    lutra_store_close(&s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        TEST(documents_are_added_replaced_and_removed),
        TEST(chunks_say_where_they_are_in_the_file),
        TEST(bad_documents_are_refused_by_name),
        TEST(a_cancelled_document_changes_nothing),
        TEST(search_is_fts5s_bm25_to_the_bit),
        TEST(any_text_is_a_query),
        TEST(words_are_found_in_their_forms_and_scripts),
        TEST(messages_have_passages_in_a_stable_order),
        TEST(exchanges_are_kept_until_their_documents_go),
        TEST(other_files_are_refused_by_name),
        TEST(an_older_store_is_brought_up_to_date),
        TEST(wrong_lengths_are_found),
        TEST(a_line_of_any_length_is_taken),
        TEST(a_locked_store_is_busy_not_broken),
        TEST(a_full_disk_is_named_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
