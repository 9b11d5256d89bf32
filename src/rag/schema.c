/* SPDX-License-Identifier: MIT
 *
 * The tables, and whether a file has exactly these.
 */
#include <stdio.h>

#include "rag/rag_impl.h"

/* Compared letter by letter with what the file says it has: change one, and RAG_SCHEMA_VERSION with it. */
static const struct {
    const char *name, *sql;
} tables[] = {
    {"document",
        "CREATE TABLE document(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL, "
        "n_bytes INTEGER NOT NULL, hash INTEGER NOT NULL, added INTEGER NOT NULL)"},
    {"chunk",
        "CREATE TABLE chunk(id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL, begin INTEGER NOT NULL, "
        "end INTEGER NOT NULL, text TEXT NOT NULL)"},
    {"chunk_of_document", "CREATE INDEX chunk_of_document ON chunk(document, begin)"},
    {"words", "CREATE VIRTUAL TABLE words USING fts5(text, content='chunk', content_rowid='id', tokenize='lutra')"},
    {"exchange",
        "CREATE TABLE exchange(id INTEGER PRIMARY KEY AUTOINCREMENT, added INTEGER NOT NULL, question TEXT NOT NULL, "
        "answer TEXT NOT NULL)"},
    {"source",
        "CREATE TABLE source(exchange INTEGER NOT NULL, document INTEGER NOT NULL, PRIMARY KEY(exchange, document)) "
        "WITHOUT ROWID"},
};
enum { N_TABLES = sizeof tables / sizeof *tables };

/* Tables that SQLite and FTS5 make for themselves. */
static bool is_inner(const char *name)
{
    static const char *const names[] = {"words_data", "words_idx", "words_docsize", "words_config", "sqlite_sequence"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return strncmp(name, "sqlite_autoindex_", 17) == 0;
}

static int check_entry(const lutra_store *s, const char *name, const char *sql, int *found, struct lutra_error *err)
{
    for (int i = 0; i < N_TABLES; i++) {
        if (strcmp(name, tables[i].name) != 0) continue;
        if (strcmp(sql, tables[i].sql) != 0)
            return lutra_fail(
                err, LUTRA_E_FORMAT, "%s: the store is damaged: '%s' is not as Lutra makes it", s->path, name);
        *found += 1;
        return 0;
    }
    if (is_inner(name)) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: not a Lutra store: it has '%.100s'", s->path, name);
}

static int check_tables(lutra_store *s, int *found, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    *found = 0;
    int rc = sql_prepare(s, &stmt, "SELECT name, sql FROM sqlite_schema", err);
    while (rc == 0 && (rc = sql_step(s, stmt, err)) > 0) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        const char *sql = (const char *)sqlite3_column_text(stmt, 1);
        rc = check_entry(s, name ? name : "", sql ? sql : "", found, err);
        if (rc < 0) break;
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int make_tables(lutra_store *s, struct lutra_error *err)
{
    char numbers[96];
    int rc = 0;
    for (int i = 0; i < N_TABLES && rc == 0; i++) rc = sql_run(s, tables[i].sql, err);
    snprintf(numbers, sizeof numbers, "PRAGMA application_id=%d; PRAGMA user_version=%d", RAG_APPLICATION_ID,
        RAG_SCHEMA_VERSION);
    return rc < 0 ? rc : sql_run(s, numbers, err);
}

static int check_numbers(lutra_store *s, int64_t *n_entry, struct lutra_error *err)
{
    int64_t application, version;
    TRY(sql_number(s, "PRAGMA application_id", &application, err));
    TRY(sql_number(s, "PRAGMA user_version", &version, err));
    TRY(sql_number(s, "SELECT count(*) FROM sqlite_schema", n_entry, err));
    if (*n_entry == 0 && application == 0 && version == 0) return 0;
    if (application != RAG_APPLICATION_ID)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: an SQLite file of another program, not a Lutra store", s->path);
    if (version > RAG_SCHEMA_VERSION)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: made by a newer Lutra (schema %lld; this one knows %d)",
            s->path, (long long)version, RAG_SCHEMA_VERSION);
    if (version < 1 || *n_entry == 0)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged: no tables", s->path);
    return 0;
}

int schema_open(lutra_store *s, struct lutra_error *err)
{
    int64_t n_entry;
    int found = 0;
    TRY(check_numbers(s, &n_entry, err));
    if (n_entry == 0) { /* two programs may find it empty at once: who comes second sees tables */
        TRY(sql_run(s, "BEGIN IMMEDIATE", err));
        int rc = check_numbers(s, &n_entry, err);
        if (rc == 0 && n_entry == 0) rc = make_tables(s, err);
        TRY(sql_end(s, rc, err));
    }
    TRY(check_tables(s, &found, err));
    if (found != N_TABLES)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged: a table is missing", s->path);
    return 0;
}
